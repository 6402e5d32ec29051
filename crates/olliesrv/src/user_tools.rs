//! The tools of `tools/` in the user's configuration directory.

use std::path::Path;

use ollie_catalogue::Catalogue;
use ollie_client::{Offer, Toolset};
use ollie_protocol::ToolOrigin;

use crate::error::Error;
use crate::output;
use crate::printable::printable;

/// What a session offers to its toolsrv, and how each tool that cannot be used
/// is told to the person.
pub(crate) fn toolset(directory: &Path) -> Result<Toolset, Error> {
    let mut catalogue = Catalogue::default();
    catalogue
        .update(directory, ToolOrigin::User)
        .map_err(Error::Tools)?;
    for (name, problem) in catalogue.problems() {
        output::note(&printable(&format!(
            "the tool {name} is not used: {problem}"
        )));
    }
    let mut toolset = Toolset::default();
    for tool in catalogue.tools() {
        toolset.offer(Offer {
            spec: tool.spec.clone(),
            scripts: tool.scripts.clone(),
            problem: None,
        });
    }
    Ok(toolset)
}

/// Offers them, and tells what is not taken.
pub(crate) async fn apply(
    toolset: &Toolset,
    conn: &ollie_client::ToolsrvConn,
) -> Result<(), Error> {
    for rejected in toolset.apply(conn).await? {
        output::note(&printable(&format!(
            "the tool {} is not used there: {}",
            rejected.name, rejected.reason
        )));
    }
    Ok(())
}

use std::time::Duration;

use ollie_client::ToolsrvConn;

use crate::output;
use crate::printable::printable;

/// How long the answer may take: it holds up the end of a session.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tells of those who were not let in at a session's socket.
pub(crate) async fn tell(conn: &ToolsrvConn) {
    // Whoever cannot be asked any more has nothing to tell.
    let Ok(Ok(lines)) = tokio::time::timeout(PATIENCE, conn.turned_away()).await else {
        return;
    };
    for line in lines {
        let text = format!("turned away at the session's socket: {line}");
        output::note(&printable(&text));
    }
}

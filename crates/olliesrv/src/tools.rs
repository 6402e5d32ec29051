//! `tools`: what can be called, here or on another host.

use ollie_protocol::ToolInfo;
use serde_json::Value;

use crate::error::Error;
use crate::options::ToolsOptions;
use crate::printable::printable;
use crate::setup::{own_paths, setup_tool_server};
use crate::verbose::Verbose;
use crate::{output, user_tools};

pub(crate) async fn run(options: &ToolsOptions) -> Result<u8, Error> {
    let verbose = Verbose::new(&options.session);
    let toolset = user_tools::toolset(&own_paths()?.tools())?;
    let server = setup_tool_server(&options.session, options.host.as_ref(), &verbose).await?;
    let listed = async {
        user_tools::apply(&toolset, &server.conn).await?;
        Ok(server.conn.tools().await?)
    };
    let listed: Result<Vec<ToolInfo>, Error> = tokio::select! {
        listed = listed => listed,
        error = server.silence() => return Err(error),
    };
    server.end().await;
    let listed = listed?;
    let usable = || listed.iter().filter(|tool| tool.is_usable());
    let text = if options.json {
        let line = |tool| serde_json::to_string(tool).unwrap_or_default() + "\n";
        listed.iter().map(line).collect()
    } else if options.openai {
        format!(
            "{:#}\n",
            usable()
                .map(|tool| tool.spec.to_openai())
                .collect::<Value>()
        )
    } else if options.anthropic {
        format!(
            "{:#}\n",
            usable()
                .map(|tool| tool.spec.to_anthropic())
                .collect::<Value>()
        )
    } else if options.doc {
        let pages: Vec<_> = usable().map(|tool| tool.spec.to_markdown()).collect();
        printable(&pages.join("\n"))
    } else {
        printable(&listed.iter().map(line).collect::<String>())
    };
    output::print(&text)?;
    Ok(0)
}

fn line(tool: &ToolInfo) -> String {
    let state = match tool.is_usable() {
        true => "",
        false => "not available: ",
    };
    let mut line = format!(
        "{:<16} {:<9} {state}{}\n",
        tool.spec.name, tool.spec.origin, tool.reason
    );
    if let Some(problem) = &tool.problem {
        line.push_str(&format!(
            "{:26} a newer version is not used: {problem}\n",
            ""
        ));
    }
    line
}

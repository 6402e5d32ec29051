use ollie_client::{Call, CallEvent};
use ollie_protocol::{ToolCall, ToolResult};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::explain::explain;
use crate::options::CallOptions;
use crate::setup::{call_id, own_paths, setup_tool_server, setup_with_call};
use crate::signals::Signals;
use crate::verbose::Verbose;
use crate::{exec, exit, output, user_tools};

/// Calls a tool and prints its result.
pub(crate) async fn run(options: &CallOptions) -> Result<u8, Error> {
    let verbose = Verbose::new(&options.session);
    let mut signals = Signals::new()?;
    let mut call = ToolCall::new(call_id()?, &options.tool);
    call.args = arguments(&options.arguments)?;
    exec::apply(&options.run, &mut call)?;
    let host = options.host.as_ref();
    let toolset = user_tools::toolset(&own_paths()?.tools())?;
    // A tool of the user's may have an argument of this name.
    let own = !toolset.offers(&options.tool);
    if own && call.tool == "shell" && call.args.contains_key("bypass") {
        return Err(Error::Usage(
            "bypass: `call` and `exec` cannot ask whether a command may run outside of the \
             sandbox; a session can, and is answered in `olliesrv chat` or by `approve` in its \
             ctl. --yolo runs without a sandbox"
                .to_owned(),
        ));
    }
    let (server, running) = match toolset.offers(&options.tool) {
        false => setup_with_call(&options.session, host, &verbose, &call).await?,
        // It has to be there before it is called.
        true => {
            let server = setup_tool_server(&options.session, host, &verbose).await?;
            user_tools::apply(&toolset, &server.conn).await?;
            let running = server.conn.call(&call)?;
            (server, running)
        }
    };
    let outcome = tokio::select! {
        outcome = result(running) => outcome.map(Some),
        // Nobody is there who could end anything: ssh is killed.
        error = server.silence() => return Err(error),
        // Closing the connection ends the call.
        _ = signals.next() => Ok(None),
    };
    server.end().await;
    let Some(result) = outcome? else {
        return Ok(exit::INTERRUPTED);
    };
    if options.json {
        let mut line = serde_json::to_string(&result).unwrap_or_default();
        line.push('\n');
        output::print(&line)?;
    } else {
        output::print(&result.content)?;
        let file = own_paths()?.policy();
        explain(&result, verbose.is_on(), &file);
        if options.tool == "proc_start" && result.ok {
            output::note(
                "this call was a session of its own, so the process has ended with it; `olliesrv \
                 exec --lease TIME` keeps a command",
            );
        }
    }
    Ok(exit::of_result(&result))
}

pub(crate) async fn result_of(
    conn: &ollie_client::ToolsrvConn,
    call: &ToolCall,
) -> Result<ToolResult, Error> {
    result(conn.call(call)?).await
}

async fn result(mut running: Call) -> Result<ToolResult, Error> {
    while let Some(event) = running.next().await? {
        if let CallEvent::Result(result) = event {
            return Ok(*result);
        }
    }
    Err(Error::Toolsrv(ollie_client::Error::Protocol(
        "the call ended without a result",
    )))
}

/// A tool's arguments: one JSON object, or words of the form NAME=VALUE.
fn arguments(words: &[String]) -> Result<Map<String, Value>, Error> {
    if let [word] = words
        && word.trim_start().starts_with('{')
    {
        return serde_json::from_str(word)
            .map_err(|error| Error::Usage(format!("the arguments are no JSON object: {error}")));
    }
    words
        .iter()
        .map(|word| {
            let (name, value) = word.split_once('=').ok_or_else(|| {
                Error::Usage(format!("{word:?}: expected a JSON object, or NAME=VALUE"))
            })?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            Ok((name.to_owned(), value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::arguments;

    fn parsed(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        serde_json::to_string(&arguments(&words).unwrap()).unwrap()
    }

    #[test]
    fn arguments_are_json_or_words() {
        assert_eq!(parsed(&[]), "{}");
        assert_eq!(parsed(&[r#"{"code":"true"}"#]), r#"{"code":"true"}"#);
        assert_eq!(parsed(&["code=a=b"]), r#"{"code":"a=b"}"#);
        assert_eq!(parsed(&[r#"argv=["a"]"#]), r#"{"argv":["a"]}"#);
    }

    #[test]
    fn a_word_without_a_name_is_an_error() {
        assert!(arguments(&["code".to_owned()]).is_err());
    }
}

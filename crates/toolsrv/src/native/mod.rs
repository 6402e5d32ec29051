//! The tools that toolsrv answers itself: about the host, and about the calls
//! that run in the background. They start no process of their own.

mod host;
mod processes;
mod start;
mod words;

use std::sync::Arc;

use ninep_rs::Refusal;
use ollie_protocol::ToolCall;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::session::Session;

/// A call of one of them, understood.
pub(crate) enum Native {
    Host,
    Start(Box<start::Start>),
    List,
    Output(processes::Output),
    Signal(processes::Signal),
    Wait(processes::Wait),
    Write(processes::Write),
}

impl Native {
    pub(crate) fn parse(
        name: &str,
        args: Map<String, Value>,
        call: &ToolCall,
    ) -> Result<Self, Refusal> {
        Ok(match name {
            "host_info" => Self::Host,
            "proc_list" => Self::List,
            "proc_start" => Self::Start(Box::new(start::Start::new(read(name, args)?, call))),
            "proc_output" => Self::Output(read(name, args)?),
            "proc_signal" => Self::Signal(read(name, args)?),
            "proc_wait" => Self::Wait(read(name, args)?),
            "proc_write" => Self::Write(read(name, args)?),
            _ => {
                return Err(Refusal::new(format!(
                    "this toolsrv has no {name} of its own"
                )));
            }
        })
    }

    /// What is said in answer; an error is what went wrong, in a sentence.
    pub(crate) async fn run(self, session: &Arc<Session>) -> Result<String, String> {
        match self {
            Self::Host => Ok(host::tell(session)),
            Self::List => Ok(processes::list(session)),
            Self::Start(start) => start.run(session).await,
            Self::Output(output) => output.run(session).await,
            Self::Signal(signal) => signal.run(session).await,
            Self::Wait(wait) => wait.run(session).await,
            Self::Write(write) => write.run(session).await,
        }
    }
}

/// Arguments that fit the tool's schema as a record. If they do not fit the
/// record as well, the schema in `tools/` says something else than the code.
fn read<T: DeserializeOwned>(name: &str, args: Map<String, Value>) -> Result<T, Refusal> {
    serde_json::from_value(Value::Object(args))
        .map_err(|error| Refusal::new(format!("arguments of {name}: {error}")))
}

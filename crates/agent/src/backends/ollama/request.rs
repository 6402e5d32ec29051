use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::backends::call_ids::{self, CallIds};
use crate::backends::function::Function;
use crate::backends::turns::{self, Turn, turns};
use crate::{Reply, Request};

/// Body of `POST /api/chat` (docs/api.md of Ollama).
#[derive(Debug, Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Function<'a>>,
    stream: bool,
    /// Without these two, Ollama takes away the beginning of a conversation
    /// that is too long and tells nobody.
    truncate: bool,
    shift: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<&'a Value>,
    options: Options<'a>,
}

#[derive(Debug, Serialize)]
struct Options<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    num_ctx: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_predict: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
}

#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'a> {
    System {
        content: &'a str,
    },
    User {
        content: String,
    },
    Assistant {
        content: &'a str,
        #[serde(skip_serializing_if = "String::is_empty")]
        thinking: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        content: &'a str,
        tool_name: &'a str,
        tool_call_id: String,
    },
}

#[derive(Debug, Serialize)]
struct Call<'a> {
    id: String,
    function: CallFunction<'a>,
}

#[derive(Debug, Serialize)]
struct CallFunction<'a> {
    index: usize,
    name: &'a str,
    arguments: Box<RawValue>,
}

/// What a request depends on besides the request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings<'a> {
    pub(super) backend: &'a str,
    pub(super) think: Option<&'a Value>,
    pub(super) context: Option<u64>,
}

impl<'a> Body<'a> {
    pub(super) fn new(request: &Request<'a>, settings: Settings<'a>) -> Self {
        let sampling = request.sampling;
        Self {
            model: request.model,
            messages: messages(request, settings.backend),
            tools: request.tools.iter().map(Function::from).collect(),
            stream: true,
            truncate: false,
            shift: false,
            think: settings.think,
            options: Options {
                num_ctx: settings.context,
                num_predict: sampling.max_tokens,
                temperature: sampling.temperature,
                top_p: sampling.top_p,
                frequency_penalty: sampling.frequency_penalty,
                presence_penalty: sampling.presence_penalty,
                stop: &sampling.stop,
            },
        }
    }
}

fn messages<'a>(request: &Request<'a>, backend: &str) -> Vec<Message<'a>> {
    let mut ids = CallIds::new(call_ids::is_short);
    let mut messages = Vec::new();
    if !request.system.trim().is_empty() {
        messages.push(Message::System {
            content: request.system,
        });
    }
    for turn in turns(request.history) {
        match turn {
            Turn::User(texts) => messages.push(Message::User {
                content: turns::joined(&texts),
            }),
            Turn::Model(reply) => {
                let same = reply.made_by.is(backend, request.model);
                push_reply(reply, same, ids.of(reply), &mut messages);
            }
        }
    }
    messages
}

fn push_reply<'a>(
    reply: &'a Reply,
    same_model: bool,
    ids: Vec<String>,
    messages: &mut Vec<Message<'a>>,
) {
    let thoughts = reply.reasoning.iter().filter(|_| same_model);
    let calls = reply.calls.iter().zip(&ids).enumerate();
    messages.push(Message::Assistant {
        content: &reply.text,
        thinking: thoughts.map(|block| block.text.as_str()).collect(),
        tool_calls: calls
            .filter_map(|(index, (it, id))| {
                let arguments = turns::arguments(&it.call).into_owned();
                Some(Call {
                    id: id.clone(),
                    function: CallFunction {
                        index,
                        name: &it.call.name,
                        arguments: RawValue::from_string(arguments).ok()?,
                    },
                })
            })
            .collect(),
    });
    let results = reply.calls.iter().zip(ids);
    messages.extend(results.map(|(it, id)| Message::Tool {
        content: turns::result(&it.outcome),
        tool_name: &it.call.name,
        tool_call_id: id,
    }));
}

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::backends::call_ids::{self, CallIds};
use crate::backends::function::Function;
use crate::backends::turns::{self, Turn, turns};
use crate::{Reply, Request};

/// Body of `POST /chat/completions`
/// (<https://platform.openai.com/docs/api-reference/chat/create>).
#[derive(Debug, Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Function<'a>>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
}

#[derive(Debug, Serialize)]
struct StreamOptions {
    include_usage: bool,
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
        /// `null` beside calls.
        content: Option<&'a str>,
        #[serde(flatten)]
        thoughts: Thoughts<'a>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: String,
        content: &'a str,
    },
}

/// Reasoning that goes back, under the name under which it came.
#[derive(Debug, Default, Serialize)]
struct Thoughts<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<&'a Value>,
}

#[derive(Debug, Serialize)]
struct Call<'a> {
    id: String,
    r#type: &'static str,
    function: CallFunction<'a>,
}

#[derive(Debug, Serialize)]
struct CallFunction<'a> {
    name: &'a str,
    arguments: Cow<'a, str>,
}

/// What a request depends on besides the request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings<'a> {
    pub(super) backend: &'a str,
    pub(super) effort: Option<&'a str>,
    /// OpenAI's newer models refuse `max_tokens`, other servers know nothing
    /// else.
    pub(super) completion_tokens: bool,
}

impl<'a> Body<'a> {
    pub(super) fn new(request: &Request<'a>, settings: Settings<'a>) -> Self {
        let sampling = request.sampling;
        let max = sampling.max_tokens;
        Self {
            model: request.model,
            messages: messages(request, settings.backend),
            tools: request.tools.iter().map(Function::from).collect(),
            stream: true,
            stream_options: StreamOptions {
                include_usage: true,
            },
            reasoning_effort: settings.effort,
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            max_completion_tokens: max.filter(|_| settings.completion_tokens),
            max_tokens: max.filter(|_| !settings.completion_tokens),
            frequency_penalty: sampling.frequency_penalty,
            presence_penalty: sampling.presence_penalty,
            stop: &sampling.stop,
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
    let calls = reply.calls.iter().zip(&ids).map(|(it, id)| Call {
        id: id.clone(),
        r#type: "function",
        function: CallFunction {
            name: &it.call.name,
            arguments: turns::arguments(&it.call),
        },
    });
    messages.push(Message::Assistant {
        content: Some(reply.text.as_str()).filter(|text| !text.trim().is_empty()),
        thoughts: if same_model {
            thoughts(reply)
        } else {
            Thoughts::default()
        },
        tool_calls: calls.collect(),
    });
    let results = reply.calls.iter().zip(ids);
    messages.extend(results.map(|(it, id)| Message::Tool {
        tool_call_id: id,
        content: turns::result(&it.outcome),
    }));
}

fn thoughts(reply: &Reply) -> Thoughts<'_> {
    let mut thoughts = Thoughts::default();
    // A chat completion has one block; one that was cut has no data.
    for block in &reply.reasoning {
        let Some(data) = &block.data else { continue };
        let text = Some(block.text.as_str());
        if let Some(details) = data.get("reasoning_details") {
            thoughts.reasoning_details = Some(details);
        }
        match data.get("field").and_then(Value::as_str) {
            Some("reasoning") => thoughts.reasoning = text,
            Some("reasoning_content") => thoughts.reasoning_content = text,
            _ => {}
        }
    }
    thoughts
}

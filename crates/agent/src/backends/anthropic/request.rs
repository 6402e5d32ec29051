use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Thinking;
use crate::backends::call_ids::{self, CallIds};
use crate::backends::turns::{self, Turn, turns};
use crate::{Entry, History, Reasoning, Reply, Request};

/// Tokens of a reply where nothing else is said: the API wants a number, and
/// all models in service take this one.
const MAX_TOKENS: u64 = 32_000;

/// Body of `POST /v1/messages`
/// (<https://platform.claude.com/docs/en/api/messages>).
#[derive(Debug, Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop_sequences: Vec<&'a str>,
}

#[derive(Debug, Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Debug, Serialize)]
struct Block<'a> {
    #[serde(flatten)]
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: String,
        name: &'a str,
        input: Box<RawValue>,
    },
    ToolResult {
        tool_use_id: String,
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

/// A point up to which the provider keeps what it has read, for five minutes
/// (<https://platform.claude.com/docs/en/build-with-claude/prompt-caching>).
/// A request has four of them at most.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum CacheControl {
    Ephemeral,
}

#[derive(Debug, Serialize)]
struct Tool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: Cow<'a, Value>,
}

impl<'a> From<Content<'a>> for Block<'a> {
    fn from(content: Content<'a>) -> Self {
        Self {
            content,
            cache_control: None,
        }
    }
}

impl<'a> Body<'a> {
    pub(super) fn new(request: &Request<'a>, backend: &str, thinking: Option<Thinking>) -> Self {
        let sampling = request.sampling;
        let mut max_tokens = sampling.max_tokens.unwrap_or(MAX_TOKENS);
        if let Some(Thinking::Budget(tokens)) = thinking
            && max_tokens <= tokens
        {
            // The budget has to be below the maximum, which counts both.
            max_tokens = max_tokens.saturating_add(tokens);
        }
        let mut system = Vec::new();
        if !request.system.trim().is_empty() {
            let text = Cow::Borrowed(request.system);
            let mut block = Block::from(Content::Text { text });
            // Tools come before the system prompt: this point covers both.
            block.cache_control = Some(CacheControl::Ephemeral);
            system.push(block);
        }
        let (tools, tool_choice) = tools(request);
        // With thinking, the API takes neither of the two.
        let free = thinking.is_none();
        Self {
            model: request.model,
            max_tokens,
            system,
            messages: messages(request, backend),
            tools,
            tool_choice,
            stream: true,
            thinking: thinking.map(|it| match it {
                Thinking::Adaptive => json!({ "type": "adaptive" }),
                Thinking::Budget(tokens) => json!({ "type": "enabled", "budget_tokens": tokens }),
            }),
            // 0 to 1 here, 0 to 2 with others.
            temperature: sampling.temperature.map(|it| it.min(1.0)).filter(|_| free),
            top_p: sampling.top_p.filter(|_| free),
            stop_sequences: sampling
                .stop
                .iter()
                .map(String::as_str)
                .filter(|text| !text.trim().is_empty())
                .collect(),
        }
    }
}

/// The tools. A history with calls is refused without any: then its own are
/// named, and not to be used.
fn tools<'a>(request: &Request<'a>) -> (Vec<Tool<'a>>, Option<Value>) {
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| Tool {
            name: &tool.name,
            description: &tool.description,
            input_schema: Cow::Borrowed(&tool.parameters),
        });
        return (tools.collect(), None);
    }
    let used: Vec<_> = called(request.history)
        .into_iter()
        .map(|name| Tool {
            name,
            description: "",
            input_schema: Cow::Owned(json!({ "type": "object" })),
        })
        .collect();
    let none = (!used.is_empty()).then(|| json!({ "type": "none" }));
    (used, none)
}

fn called(history: &History) -> BTreeSet<&str> {
    history
        .entries()
        .filter_map(|entry| match entry {
            Entry::Reply(reply) => Some(&reply.calls),
            _ => None,
        })
        .flatten()
        .map(|it| it.call.name.as_str())
        .collect()
}

fn messages<'a>(request: &Request<'a>, backend: &str) -> Vec<Message<'a>> {
    let mut ids = CallIds::new(call_ids::is_word);
    let mut messages = Vec::new();
    for turn in turns(request.history) {
        match turn {
            Turn::User(texts) => {
                let texts = texts.into_iter();
                user(&mut messages).extend(texts.map(|text| Content::Text { text }.into()));
            }
            Turn::Model(reply) => {
                let ids = ids.of(reply);
                let same = reply.made_by.is(backend, request.model);
                messages.push(Message {
                    role: "assistant",
                    content: said(reply, same, &ids),
                });
                if !ids.is_empty() {
                    user(&mut messages).extend(results(reply, ids));
                }
            }
        }
    }
    // The last two: a reply with many calls puts more between two requests
    // than the provider looks back over.
    let of_user = messages.iter_mut().rev().filter(|it| it.role == "user");
    for message in of_user.take(2) {
        if let Some(block) = message.content.last_mut() {
            block.cache_control = Some(CacheControl::Ephemeral);
        }
    }
    messages
}

/// The user's message at the end. Results come first in it, since they follow
/// their calls; what the user said meanwhile comes after them.
fn user<'m, 'a>(messages: &'m mut Vec<Message<'a>>) -> &'m mut Vec<Block<'a>> {
    if messages.last().is_none_or(|it| it.role != "user") {
        messages.push(Message {
            role: "user",
            content: Vec::new(),
        });
    }
    let at = messages.len() - 1;
    &mut messages[at].content
}

fn said<'a>(reply: &'a Reply, same_model: bool, ids: &[String]) -> Vec<Block<'a>> {
    let thoughts = reply.reasoning.iter().filter(|_| same_model);
    let mut blocks: Vec<Block<'a>> = thoughts.filter_map(thought).map(Block::from).collect();
    if !reply.text.trim().is_empty() {
        let text = Cow::Borrowed(reply.text.as_str());
        blocks.push(Content::Text { text }.into());
    }
    for (it, id) in reply.calls.iter().zip(ids) {
        let arguments = turns::arguments(&it.call).into_owned();
        let Ok(input) = RawValue::from_string(arguments) else {
            continue;
        };
        let call = Content::ToolUse {
            id: id.clone(),
            name: &it.call.name,
            input,
        };
        blocks.push(call.into());
    }
    blocks
}

/// A block goes back as it came or not at all: one without a signature was
/// cut.
fn thought(block: &Reasoning) -> Option<Content<'_>> {
    match (&block.signature, &block.data) {
        (Some(signature), _) => Some(Content::Thinking {
            thinking: &block.text,
            signature,
        }),
        (None, Some(Value::String(data))) => Some(Content::RedactedThinking { data }),
        _ => None,
    }
}

fn results(reply: &Reply, ids: Vec<String>) -> impl Iterator<Item = Block<'_>> {
    reply.calls.iter().zip(ids).map(|(it, id)| {
        let result = Content::ToolResult {
            tool_use_id: id,
            content: turns::result(&it.outcome),
            is_error: it.outcome.is_error,
        };
        result.into()
    })
}

//! A model behind HTTP that speaks each of three APIs, as their public
//! documentation has them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ollie_tests::{World, await_that};
use serde_json::{Value, json};

/// What the model must never be told from, and nobody else hears of.
pub(crate) const KEY: &str = "sk-test-4f2b9c71d0";

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Api {
    OpenAi,
    Anthropic,
    Ollama,
}

/// A server that answers each request with the next of its replies, and keeps
/// what it was asked.
pub(crate) struct Model {
    api: Api,
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Request line and header.
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// A reply: text, or the call of a tool.
pub(crate) enum Reply {
    Text(&'static str),
    Call(&'static str, Value),
    /// A text in two pieces; the second is sent once the first is in a file.
    Slow(&'static str, &'static str, PathBuf),
}

impl Api {
    pub(crate) const ALL: [Self; 3] = [Self::OpenAi, Self::Anthropic, Self::Ollama];

    fn kind(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
        }
    }

    /// What follows the port in the configuration, and in a request.
    pub(crate) fn paths(self) -> (&'static str, &'static str) {
        match self {
            Self::OpenAi => ("/v1", "/v1/chat/completions"),
            Self::Anthropic => ("/v1", "/v1/messages"),
            Self::Ollama => ("", "/api/chat"),
        }
    }

    /// Where a request has its key.
    pub(crate) fn credentials(self) -> String {
        match self {
            Self::OpenAi | Self::Ollama => format!("authorization: bearer {KEY}"),
            Self::Anthropic => format!("x-api-key: {KEY}"),
        }
    }

    /// The pieces of a stream before its end.
    fn text(self, text: &str) -> Vec<String> {
        match self {
            Self::OpenAi => vec![data(&json!({"choices": [{"index": 0,
                "delta": {"role": "assistant", "content": text}, "finish_reason": null}]}))],
            Self::Anthropic => vec![event(&json!({"type": "content_block_delta", "index": 0,
                "delta": {"type": "text_delta", "text": text}}))],
            Self::Ollama => vec![line(&json!({"model": "large",
                "message": {"role": "assistant", "content": text}, "done": false}))],
        }
    }

    /// What comes before a text, and after it.
    fn around_text(self) -> (String, String) {
        match self {
            Self::OpenAi => (String::new(), String::new()),
            Self::Anthropic => (
                event(&json!({"type": "content_block_start", "index": 0,
                    "content_block": {"type": "text", "text": ""}})),
                event(&json!({"type": "content_block_stop", "index": 0})),
            ),
            Self::Ollama => (String::new(), String::new()),
        }
    }

    fn call(self, number: usize, name: &str, arguments: &Value) -> Vec<String> {
        match self {
            Self::OpenAi => {
                let delta = |call: Value| {
                    data(
                        &json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]},
                        "finish_reason": null}]}),
                    )
                };
                let mut pieces = vec![delta(json!({"index": 0, "id": format!("call_{number}"),
                    "type": "function", "function": {"name": name, "arguments": ""}}))];
                for half in halves(&arguments.to_string()) {
                    pieces.push(delta(json!({"index": 0, "function": {"arguments": half}})));
                }
                pieces
            }
            Self::Anthropic => {
                let mut pieces = vec![event(&json!({"type": "content_block_start", "index": 0,
                    "content_block": {"type": "tool_use", "id": format!("toolu_{number}"),
                        "name": name, "input": {}}}))];
                for half in halves(&arguments.to_string()) {
                    pieces.push(event(&json!({"type": "content_block_delta", "index": 0,
                        "delta": {"type": "input_json_delta", "partial_json": half}})));
                }
                pieces.push(event(&json!({"type": "content_block_stop", "index": 0})));
                pieces
            }
            // Ollama gives a call as a whole, and no id.
            Self::Ollama => vec![line(
                &json!({"model": "large", "message": {"role": "assistant",
                "content": "", "tool_calls": [{"function": {"name": name,
                    "arguments": arguments}}]}, "done": false}),
            )],
        }
    }

    fn begin(self) -> String {
        match self {
            Self::Anthropic => event(&json!({"type": "message_start", "message": {"id": "msg_1",
                "type": "message", "role": "assistant", "content": [], "model": "large",
                "stop_reason": null, "stop_sequence": null,
                "usage": {"input_tokens": 25, "output_tokens": 1}}})),
            Self::OpenAi | Self::Ollama => String::new(),
        }
    }

    fn end(self, calls: bool) -> String {
        match self {
            Self::OpenAi => {
                let reason = if calls { "tool_calls" } else { "stop" };
                let last = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
                let usage = json!({"choices": [], "usage": {"prompt_tokens": 25,
                    "completion_tokens": 15, "total_tokens": 40}});
                format!("{}{}data: [DONE]\n\n", data(&last), data(&usage))
            }
            Self::Anthropic => {
                let reason = if calls { "tool_use" } else { "end_turn" };
                let delta = event(
                    &json!({"type": "message_delta", "delta": {"stop_reason": reason,
                    "stop_sequence": null}, "usage": {"output_tokens": 15}}),
                );
                format!("{delta}{}", event(&json!({"type": "message_stop"})))
            }
            Self::Ollama => line(&json!({"model": "large", "message": {"role": "assistant",
                "content": ""}, "done": true, "done_reason": "stop",
                "prompt_eval_count": 25, "eval_count": 15})),
        }
    }

    /// The calls that a request's conversation has, and the result of each, in
    /// order: name, arguments, result.
    ///
    /// # Panics
    /// If a call and its result are not as the API asks for.
    pub(crate) fn answered(self, body: &Value) -> Vec<(String, Value, String)> {
        let messages = body["messages"].as_array().unwrap();
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        for message in messages {
            match self {
                Self::OpenAi | Self::Ollama if message["role"] == "tool" => {
                    let text = message["content"].as_str().unwrap().to_owned();
                    results.push((message["tool_call_id"].clone(), text));
                }
                Self::OpenAi | Self::Ollama => {
                    for call in message["tool_calls"].as_array().into_iter().flatten() {
                        let function = &call["function"];
                        let arguments = match function["arguments"].as_str() {
                            Some(text) => serde_json::from_str(text).unwrap(),
                            None => function["arguments"].clone(),
                        };
                        let name = function["name"].as_str().unwrap().to_owned();
                        calls.push((call["id"].clone(), name, arguments));
                    }
                }
                Self::Anthropic => {
                    for block in message["content"].as_array().into_iter().flatten() {
                        if block["type"] == "tool_use" {
                            let name = block["name"].as_str().unwrap().to_owned();
                            calls.push((block["id"].clone(), name, block["input"].clone()));
                        }
                        if block["type"] == "tool_result" {
                            let text = match block["content"].as_str() {
                                Some(text) => text,
                                None => block["content"][0]["text"].as_str().unwrap(),
                            };
                            results.push((block["tool_use_id"].clone(), text.to_owned()));
                        }
                    }
                }
            }
        }
        assert_eq!(calls.len(), results.len(), "{body}");
        let pairs = calls.into_iter().zip(results);
        pairs
            .map(|((id, name, arguments), (of, text))| {
                if self != Self::Ollama {
                    assert_eq!(id, of, "a result belongs to its call");
                }
                (name, arguments, text)
            })
            .collect()
    }

    /// What the model is told before all else.
    pub(crate) fn system(self, body: &Value) -> String {
        match self {
            Self::OpenAi | Self::Ollama => body["messages"][0]["content"].to_string(),
            Self::Anthropic => body["system"].to_string(),
        }
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn event(value: &Value) -> String {
    format!(
        "event: {}\ndata: {value}\n\n",
        value["type"].as_str().unwrap()
    )
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}

fn halves(text: &str) -> [&str; 2] {
    let (one, other) = text.split_at(text.len() / 2);
    [one, other]
}

impl Model {
    /// Its replies are asked for in this order.
    pub(crate) fn start(api: Api, replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        // It ends with the test's process.
        std::thread::spawn(move || {
            for (number, reply) in replies.into_iter().enumerate() {
                let (mut stream, _) = listener.accept().unwrap();
                let request = request(&stream);
                log.lock().unwrap().push(request);
                answer(api, &mut stream, number, &reply);
            }
        });
        Self { api, port, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Configures it as the back end `test`.
    pub(crate) fn configure(&self, world: &World) {
        let (base, _) = self.api.paths();
        world.write(
            "home/.config/ollie/config.yaml",
            format!(
                "backend: test\nbackends:\n  test:\n    kind: {}\n    \
                 url: http://127.0.0.1:{}{base}\n    key_env: TEST_MODEL_KEY\n    model: large\n",
                self.api.kind(),
                self.port
            ),
        );
    }
}

/// Reads a request (RFC 9112).
fn request(stream: &TcpStream) -> Asked {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Asked {
        head,
        body: serde_json::from_slice(&body).unwrap(),
    }
}

/// Streams a reply. The client may leave at any time.
fn answer(api: Api, stream: &mut TcpStream, number: usize, reply: &Reply) {
    let kind = match api {
        Api::OpenAi | Api::Anthropic => "text/event-stream",
        Api::Ollama => "application/x-ndjson",
    };
    let mut say = |text: &str| {
        let _ = stream
            .write_all(text.as_bytes())
            .and_then(|()| stream.flush());
    };
    say(&format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n"
    ));
    say(&api.begin());
    let (before, after) = api.around_text();
    match reply {
        Reply::Text(text) => {
            say(&before);
            api.text(text).iter().for_each(|piece| say(piece));
            say(&after);
            say(&api.end(false));
        }
        Reply::Slow(one, other, file) => {
            say(&before);
            api.text(one).iter().for_each(|piece| say(piece));
            let there = || std::fs::read_to_string(file).is_ok_and(|text| text.contains(one));
            // Without this the rest does not come, and the test fails.
            if !await_that(Duration::from_secs(20), there) {
                return;
            }
            api.text(other).iter().for_each(|piece| say(piece));
            say(&after);
            say(&api.end(false));
        }
        Reply::Call(name, arguments) => {
            let pieces = api.call(number, name, arguments);
            pieces.iter().for_each(|piece| say(piece));
            say(&api.end(true));
        }
    }
}

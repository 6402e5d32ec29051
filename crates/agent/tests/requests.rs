//! Requests as the providers get them.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod rules;

use ollie_agent::backends::{Anthropic, Endpoint, Ollama, OpenAi, Thinking};
use ollie_agent::{
    Answered, Entry, History, ModelCall, Origin, Outcome, Parallel, Reasoning, Reply, Request,
    Sampling, ToolDef,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const MODEL: &str = "m";

type Render<'a> = &'a dyn Fn(&Request<'_>) -> Vec<u8>;

fn endpoint() -> Endpoint {
    Endpoint::new("http://localhost/v1", None)
}

fn origin(backend: &str) -> Origin {
    Origin {
        backend: backend.to_owned(),
        model: MODEL.to_owned(),
    }
}

fn user(text: &str) -> Entry {
    Entry::User { text: text.into() }
}

fn called(id: &str, name: &str, arguments: &str, outcome: Outcome) -> Answered {
    Answered {
        call: ModelCall {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
        },
        outcome,
    }
}

fn weather() -> ToolDef {
    ToolDef {
        name: "get_weather".into(),
        description: "Get the weather".into(),
        parameters: json!({
            "type": "object",
            "properties": { "location": { "type": "string" } },
            "required": ["location"],
        }),
        parallel: Parallel::Read,
    }
}

/// A conversation with everything that differs between the providers.
fn conversation(backend: &str, reasoning: Vec<Reasoning>) -> History {
    let reply = Reply {
        text: "I look.".into(),
        reasoning,
        calls: vec![
            called(
                "call_1",
                "get_weather",
                r#"{"location": "Paris"}"#,
                Outcome::ok("15 degrees"),
            ),
            called(
                "call_2",
                "get_weather",
                r#"{"loc"#,
                Outcome::error("no JSON"),
            ),
        ],
        made_by: origin(backend),
    };
    let entries = [user("Weather?"), Entry::Reply(reply), user("And?")];
    History::from_entries(entries).unwrap()
}

fn thought(text: &str, signature: Option<&str>, data: Option<Value>) -> Reasoning {
    Reasoning {
        text: text.into(),
        signature: signature.map(str::to_owned),
        data,
    }
}

fn sampling() -> Sampling {
    Sampling {
        temperature: Some(1.5),
        top_p: Some(0.9),
        max_tokens: Some(1000),
        stop: vec!["END".into()],
        ..Sampling::default()
    }
}

fn body(render: impl Fn(&Request<'_>) -> Vec<u8>, history: &History) -> Value {
    let (tools, sampling) = ([weather()], sampling());
    let request = Request {
        model: MODEL,
        system: "Be brief.",
        history,
        tools: &tools,
        sampling: &sampling,
    };
    serde_json::from_slice(&render(&request)).unwrap()
}

#[test]
fn chat_completions_as_openai_documents_them() {
    let openai = OpenAi::new("here", &endpoint())
        .unwrap()
        .with_effort("high");
    let field = json!({ "field": "reasoning_content" });
    let history = conversation("here", vec![thought("Hm.", None, Some(field))]);
    let expected = json!({
        "model": "m",
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Weather?" },
            { "role": "assistant", "content": "I look.", "reasoning_content": "Hm.",
              "tool_calls": [
                { "id": "call_1", "type": "function", "function": {
                    "name": "get_weather", "arguments": "{\"location\": \"Paris\"}" } },
                { "id": "call_2", "type": "function", "function": {
                    "name": "get_weather", "arguments": "{\"invalid_json\":\"{\\\"loc\"}" } },
            ] },
            { "role": "tool", "tool_call_id": "call_1", "content": "15 degrees" },
            { "role": "tool", "tool_call_id": "call_2", "content": "no JSON" },
            { "role": "user", "content": "And?" },
        ],
        "tools": [{ "type": "function", "function": {
            "name": "get_weather",
            "description": "Get the weather",
            "parameters": {
                "type": "object",
                "properties": { "location": { "type": "string" } },
                "required": ["location"],
            },
        } }],
        "stream": true,
        "stream_options": { "include_usage": true },
        "reasoning_effort": "high",
        "temperature": 1.5,
        "top_p": 0.9,
        "max_tokens": 1000,
        "stop": ["END"],
    });
    assert_eq!(body(|it| openai.body(it), &history), expected);
}

#[test]
fn openai_itself_is_told_the_maximum_under_its_newer_name() {
    let openai = OpenAi::new("openai", &Endpoint::new(OpenAi::URL, None)).unwrap();
    let body = body(|it| openai.body(it), &conversation("openai", vec![]));
    assert_eq!(body["max_completion_tokens"], 1000);
    assert_eq!(body.get("max_tokens"), None);
}

#[test]
fn messages_as_anthropic_documents_them() {
    let anthropic = Anthropic::new("here", &endpoint()).unwrap();
    let history = conversation(
        "here",
        vec![
            thought("Hm.", Some("c2ln"), None),
            thought("", None, Some(json!("ZW5j"))),
            thought("was cut", None, None),
        ],
    );
    let cached = json!({ "type": "ephemeral" });
    let expected = json!({
        "model": "m",
        "max_tokens": 1000,
        "system": [{ "type": "text", "text": "Be brief.", "cache_control": cached }],
        "messages": [
            { "role": "user", "content": [
                { "type": "text", "text": "Weather?", "cache_control": cached } ] },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "Hm.", "signature": "c2ln" },
                { "type": "redacted_thinking", "data": "ZW5j" },
                { "type": "text", "text": "I look." },
                { "type": "tool_use", "id": "call_1", "name": "get_weather",
                  "input": { "location": "Paris" } },
                { "type": "tool_use", "id": "call_2", "name": "get_weather",
                  "input": { "invalid_json": "{\"loc" } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "call_1", "content": "15 degrees" },
                { "type": "tool_result", "tool_use_id": "call_2", "content": "no JSON",
                  "is_error": true },
                { "type": "text", "text": "And?", "cache_control": cached },
            ] },
        ],
        "tools": [{
            "name": "get_weather",
            "description": "Get the weather",
            "input_schema": {
                "type": "object",
                "properties": { "location": { "type": "string" } },
                "required": ["location"],
            },
        }],
        "stream": true,
        // Anthropic takes 0 to 1.
        "temperature": 1.0,
        "top_p": 0.9,
        "stop_sequences": ["END"],
    });
    assert_eq!(body(|it| anthropic.body(it), &history), expected);
}

#[test]
fn thinking_leaves_room_for_a_reply_and_no_temperature() {
    let history = conversation("here", vec![]);
    let anthropic = Anthropic::new("here", &endpoint()).unwrap();
    let anthropic = anthropic.with_thinking(Thinking::Budget(4000));
    let budget = body(|it| anthropic.body(it), &history);
    let thinking = json!({ "type": "enabled", "budget_tokens": 4000 });
    assert_eq!(budget["thinking"], thinking);
    assert_eq!(budget["max_tokens"], 5000);
    assert_eq!(budget.get("temperature"), None);
    assert_eq!(budget.get("top_p"), None);
    let adaptive = anthropic.with_thinking(Thinking::Adaptive);
    let adaptive = body(|it| adaptive.body(it), &history);
    assert_eq!(adaptive["thinking"], json!({ "type": "adaptive" }));
    assert_eq!(adaptive["max_tokens"], 1000);
}

#[test]
fn chats_as_ollama_documents_them() {
    let ollama = Ollama::new("here", &endpoint()).unwrap();
    let ollama = ollama.with_context(32_768).with_think(json!("high"));
    let history = conversation("here", vec![thought("Hm.", None, None)]);
    let expected = json!({
        "model": "m",
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Weather?" },
            { "role": "assistant", "content": "I look.", "thinking": "Hm.", "tool_calls": [
                { "id": "call_1", "function": { "index": 0, "name": "get_weather",
                  "arguments": { "location": "Paris" } } },
                { "id": "call_2", "function": { "index": 1, "name": "get_weather",
                  "arguments": { "invalid_json": "{\"loc" } } },
            ] },
            { "role": "tool", "content": "15 degrees", "tool_name": "get_weather",
              "tool_call_id": "call_1" },
            { "role": "tool", "content": "no JSON", "tool_name": "get_weather",
              "tool_call_id": "call_2" },
            { "role": "user", "content": "And?" },
        ],
        "tools": [{ "type": "function", "function": {
            "name": "get_weather",
            "description": "Get the weather",
            "parameters": {
                "type": "object",
                "properties": { "location": { "type": "string" } },
                "required": ["location"],
            },
        } }],
        "stream": true,
        "truncate": false,
        "shift": false,
        "think": "high",
        "options": {
            "num_ctx": 32768, "num_predict": 1000, "temperature": 1.5, "top_p": 0.9,
            "stop": ["END"],
        },
    });
    assert_eq!(body(|it| ollama.body(it), &history), expected);
}

#[test]
fn reasoning_goes_back_to_the_model_that_it_came_from_and_to_no_other() {
    let openai = OpenAi::new("here", &endpoint()).unwrap();
    let anthropic = Anthropic::new("here", &endpoint()).unwrap();
    let ollama = Ollama::new("here", &endpoint()).unwrap();
    let details = json!({ "reasoning_details": [{ "type": "reasoning.text", "text": "secret" }] });
    let blocks = || vec![thought("secret", Some("c2ln"), Some(details.clone()))];
    let renders: [Render<'_>; 3] = [&|it| openai.body(it), &|it| anthropic.body(it), &|it| {
        ollama.body(it)
    }];
    for render in renders {
        let mine = body(render, &conversation("here", blocks())).to_string();
        assert!(mine.contains("secret"), "{mine}");
        let others = body(render, &conversation("there", blocks())).to_string();
        assert!(!others.contains("secret"), "{others}");
    }
}

/// Anything that a history can hold.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let text = || prop_oneof!["[a-z]{1,8}", "\\PC{1,8}", " x ", "\n\u{0}x"];
    let spoken = || text().prop_filter("not blank", |it| !it.trim().is_empty());
    let said = prop_oneof![
        spoken().prop_map(|text| Entry::User { text }),
        spoken().prop_map(|text| Entry::Note { text }),
        spoken().prop_map(|text| Entry::Summary { text }),
    ];
    let id = prop_oneof![
        "call_[1-9]",
        "functions\\.sh:[0-9]",
        "toolu_[a-zA-Z]{10,60}",
        "\\PC{1,5}"
    ];
    let id = id.prop_filter("not blank", |it: &String| !it.trim().is_empty());
    let arguments = prop_oneof![
        Just(r#"{"path": "a", "n": 1e2}"#.to_owned()),
        Just(String::new()),
        "\\PC{0,12}",
        Just(r#"{"a":"\ud800"}"#.to_owned()),
        Just("[1]".to_owned()),
    ];
    let outcome = prop_oneof![
        text().boxed(),
        Just(String::new()).boxed(),
        Just(" \n".to_owned()).boxed()
    ];
    let call = (id, "[a-zA-Z0-9_-]{1,64}", arguments, outcome, any::<bool>()).prop_map(
        |(id, name, arguments, content, is_error)| {
            called(&id, &name, &arguments, Outcome { content, is_error })
        },
    );
    let signed = prop_oneof![
        text().prop_map(|it| thought(&it, Some("c2ln"), None)),
        Just(thought("", None, Some(json!("ZW5j")))),
        text().prop_map(|it| thought(&it, None, Some(json!({ "field": "reasoning" })))),
        text().prop_map(|it| thought(&it, None, None)),
    ];
    // Data is only ever sent to the provider that it came from.
    let maker = prop_oneof![
        Just("openai"),
        Just("anthropic"),
        Just("ollama"),
        Just("other")
    ];
    let reply = (
        prop_oneof![text().boxed(), Just(String::new()).boxed()],
        prop::collection::vec(signed, 0..3),
        prop::collection::vec(call, 0..4),
        maker,
    );
    let reply = reply.prop_filter_map("something was said", |(text, reasoning, calls, maker)| {
        let reasoning = reasoning.into_iter();
        let reasoning = reasoning.filter(|block: &Reasoning| {
            maker != "anthropic" || !block.data.as_ref().is_some_and(Value::is_object)
        });
        (!text.trim().is_empty() || !calls.is_empty()).then(|| {
            Entry::Reply(Reply {
                text,
                reasoning: reasoning.collect(),
                calls,
                made_by: origin(maker),
            })
        })
    });
    prop::collection::vec(prop_oneof![said, reply], 0..8)
}

/// Ids as the loop leaves them: none twice.
fn history(entries: Vec<Entry>) -> History {
    let mut history = History::default();
    for mut entry in entries {
        if let Entry::Reply(reply) = &mut entry {
            let mut mine = std::collections::HashSet::new();
            for (at, it) in reply.calls.iter_mut().enumerate() {
                while history.has_call(&it.call.id) || !mine.insert(it.call.id.clone()) {
                    it.call.id = format!("{}+{at}", it.call.id);
                }
            }
        }
        history.push(entry).unwrap();
    }
    history
}

/// What the history says, in order, with the user's filler left out.
fn spoken(history: &History) -> Vec<String> {
    let mut spoken = Vec::new();
    for entry in history.entries() {
        match entry {
            Entry::Reply(reply) => {
                spoken.extend(Some(reply.text.clone()).filter(|it| !it.trim().is_empty()));
                spoken.extend(reply.calls.iter().map(|it| it.call.name.clone()));
                let results = reply.calls.iter().map(|it| it.outcome.content.clone());
                spoken.extend(results.filter(|it| !it.trim().is_empty()));
            }
            other => spoken.push(other.user_text().unwrap().into_owned()),
        }
    }
    spoken
}

/// The same of Anthropic's messages.
fn sent(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap();
    let blocks = messages
        .iter()
        .flat_map(|it| it["content"].as_array().unwrap());
    blocks
        .filter_map(|block| match block["type"].as_str().unwrap() {
            "text" => block["text"].as_str(),
            "tool_use" => block["name"].as_str(),
            "tool_result" => block["content"].as_str(),
            _ => None,
        })
        .filter(|it| !matches!(*it, "Continue." | "(no output)"))
        .map(str::to_owned)
        .collect()
}

proptest! {
    #[test]
    fn no_provider_refuses_what_is_made_of_a_history(
        entries in entries(),
        system in prop_oneof!["", " ", "Be brief\\."],
        with_tools: bool,
    ) {
        let history = history(entries);
        let (tools, sampling) = ([weather()], sampling());
        let request = Request {
            model: MODEL,
            system: &system,
            history: &history,
            tools: if with_tools { &tools } else { &[] },
            sampling: &sampling,
        };
        rules::assert_accepted(&request);
        let anthropic = Anthropic::new("anthropic", &endpoint()).unwrap();
        let body = serde_json::from_slice(&anthropic.body(&request)).unwrap();
        prop_assert_eq!(sent(&body), spoken(&history));
    }
}

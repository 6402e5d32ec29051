//! What providers refuse, from their documentation and from nothing of ours.
//! Each check takes a request's body and names the first rule it breaks.

use std::collections::HashSet;
use std::sync::OnceLock;

use ollie_agent::Request;
use ollie_agent::backends::{Anthropic, Endpoint, Ollama, OpenAi};
use serde_json::Value;

type Check = fn(&Value) -> Result<(), String>;

/// A request as each provider would get it, held against its rules.
///
/// # Panics
/// If a provider would refuse it; the message has its body.
pub(crate) fn assert_accepted(request: &Request<'_>) {
    static PROVIDERS: OnceLock<(OpenAi, Anthropic, Ollama)> = OnceLock::new();
    let (openai, anthropic, ollama) = PROVIDERS.get_or_init(|| {
        let endpoint = Endpoint::new("http://localhost", None);
        (
            OpenAi::new("openai", &endpoint).unwrap(),
            Anthropic::new("anthropic", &endpoint).unwrap(),
            Ollama::new("ollama", &endpoint).unwrap(),
        )
    });
    let checked: [(_, _, Check); 3] = [
        ("openai", openai.body(request), check_openai),
        ("anthropic", anthropic.body(request), check_anthropic),
        ("ollama", ollama.body(request), check_ollama),
    ];
    for (provider, body, check) in checked {
        let body: Value = serde_json::from_slice(&body).unwrap();
        if let Err(problem) = check(&body) {
            panic!("{provider} would refuse it: {problem}\n{body:#}");
        }
    }
}

/// <https://platform.openai.com/docs/api-reference/chat/create>: a message
/// with `tool_calls` is followed by one `tool` message for each of them; ids
/// have 40 characters at most; arguments are a text that is JSON. Templates of
/// models behind llama.cpp and vLLM want users and assistants to alternate.
fn check_openai(body: &Value) -> Result<(), String> {
    let mut seen = HashSet::new();
    let mut pending: Vec<String> = Vec::new();
    let mut last = "start";
    for (at, message) in messages(body)?.iter().enumerate() {
        let role = text(message, "role")?;
        let fail = |rule: &str| Err(format!("message {at}: {rule}"));
        if role != "tool" && !pending.is_empty() {
            return fail("calls without results before it");
        }
        match role {
            "system" if at == 0 => not_blank(message, "content")?,
            "user" if last != "user" => not_blank(message, "content")?,
            "assistant" if matches!(last, "user" | "tool") => {
                pending = openai_calls(message, &mut seen, |arguments| {
                    let text = arguments.as_str().ok_or("arguments are no text")?;
                    serde_json::from_str(text).map_err(|_| "arguments are no JSON".into())
                })?;
                if pending.is_empty() {
                    not_blank(message, "content")?;
                } else if message.get("content").is_some_and(|it| it == "") {
                    return fail("empty content instead of none");
                }
            }
            "tool" => {
                let id = text(message, "tool_call_id")?;
                let found = pending.iter().position(|it| it == id);
                let Some(0) = found else {
                    return fail("a result without its call, or not in order");
                };
                pending.remove(0);
                not_blank(message, "content")?;
            }
            _ => return fail(&format!("{role} after {last}")),
        }
        last = role;
    }
    ends_with_user(last, &pending)?;
    sampling(body, 2.0)
}

/// docs/api.md of Ollama: as above, with arguments that are objects, and
/// `tool_name` beside results.
fn check_ollama(body: &Value) -> Result<(), String> {
    let mut seen = HashSet::new();
    let mut pending: Vec<String> = Vec::new();
    let mut last = "start";
    for (at, message) in messages(body)?.iter().enumerate() {
        let role = text(message, "role")?;
        let fail = |rule: &str| Err(format!("message {at}: {rule}"));
        if role != "tool" && !pending.is_empty() {
            return fail("calls without results before it");
        }
        match role {
            "system" if at == 0 => not_blank(message, "content")?,
            "user" if last != "user" => not_blank(message, "content")?,
            "assistant" if matches!(last, "user" | "tool") => {
                pending = openai_calls(message, &mut seen, |it| Ok(it.clone()))?;
                if pending.is_empty() {
                    not_blank(message, "content")?;
                }
            }
            "tool" => {
                if pending.first().map(String::as_str) != Some(text(message, "tool_call_id")?) {
                    return fail("a result without its call, or not in order");
                }
                pending.remove(0);
                not_blank(message, "tool_name")?;
                not_blank(message, "content")?;
            }
            _ => return fail(&format!("{role} after {last}")),
        }
        last = role;
    }
    ends_with_user(last, &pending)
}

/// <https://platform.claude.com/docs/en/api/messages> and
/// <https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use>:
/// roles alternate and begin with the user; results of all calls stand at the
/// beginning of the next message; no text is blank; thinking comes first and
/// has its signature; four cache points at most, none on thinking; ids are
/// unique words; tools are named if there are calls.
fn check_anthropic(body: &Value) -> Result<(), String> {
    let mut pending: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    let mut called = false;
    for (at, message) in messages(body)?.iter().enumerate() {
        let fail = |rule: &str| Err(format!("message {at}: {rule}"));
        let role = text(message, "role")?;
        if role != ["user", "assistant"][at % 2] {
            return fail("roles do not alternate from the user on");
        }
        let blocks = message.get("content").and_then(Value::as_array);
        let Some(blocks) = blocks.filter(|it| !it.is_empty()) else {
            return fail("no content");
        };
        let mut before = 0;
        for block in blocks {
            let kind = text(block, "type")?;
            // The order in which kinds of blocks may follow one another.
            let rank = match (role, kind) {
                ("assistant", "thinking") => {
                    not_blank(block, "signature")?;
                    text(block, "thinking")?;
                    0
                }
                ("assistant", "redacted_thinking") => {
                    not_blank(block, "data")?;
                    0
                }
                (_, "text") => {
                    not_blank(block, "text")?;
                    1
                }
                ("assistant", "tool_use") => {
                    let id = text(block, "id")?;
                    if id.is_empty() || !id.chars().all(is_word) || !seen.insert(id.to_owned()) {
                        return fail("an id that is no word, or is there twice");
                    }
                    is_name(text(block, "name")?)?;
                    if !block.get("input").is_some_and(Value::is_object) {
                        return fail("input is no object");
                    }
                    pending.push(id.to_owned());
                    called = true;
                    2
                }
                ("user", "tool_result") => {
                    if pending.first().map(String::as_str) != Some(text(block, "tool_use_id")?) {
                        return fail("a result without its call, or not in order");
                    }
                    pending.remove(0);
                    not_blank(block, "content")?;
                    0
                }
                _ => return fail(&format!("{kind} of {role}")),
            };
            if rank < before {
                return fail(&format!("{kind} too late"));
            }
            before = rank;
            if kind.ends_with("thinking") && block.get("cache_control").is_some() {
                return fail("a cache point on thinking");
            }
        }
        if role == "user" && !pending.is_empty() {
            return fail("calls without results");
        }
        if at + 1 == messages(body)?.len() && role != "user" {
            return fail("the last one is the assistant's");
        }
    }
    if body.to_string().matches("\"cache_control\"").count() > 4 {
        return Err("more than four cache points".to_owned());
    }
    for block in body
        .get("system")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        not_blank(block, "text")?;
    }
    let tools = body.get("tools").and_then(Value::as_array);
    if called && tools.is_none_or(Vec::is_empty) {
        return Err("calls, and no tools".to_owned());
    }
    for tool in tools.into_iter().flatten() {
        is_name(text(tool, "name")?)?;
        if tool.pointer("/input_schema/type") != Some(&Value::from("object")) {
            return Err("a tool without a schema".to_owned());
        }
    }
    if body.get("max_tokens").and_then(Value::as_u64).unwrap_or(0) == 0 {
        return Err("no max_tokens".to_owned());
    }
    sampling(body, 1.0)
}

/// Ids of the calls of an assistant's message.
fn openai_calls(
    message: &Value,
    seen: &mut HashSet<String>,
    arguments: impl Fn(&Value) -> Result<Value, String>,
) -> Result<Vec<String>, String> {
    let Some(calls) = message.get("tool_calls") else {
        return Ok(Vec::new());
    };
    let calls = calls.as_array().filter(|it| !it.is_empty());
    let calls = calls.ok_or("tool_calls is there, and is no list of calls")?;
    let mut ids = Vec::new();
    for call in calls {
        let id = text(call, "id")?;
        if id.is_empty() || id.len() > 40 || !seen.insert(id.to_owned()) {
            return Err(format!("the id {id:?} is too long, or is there twice"));
        }
        let function = call.get("function").ok_or("a call of nothing")?;
        is_name(text(function, "name")?)?;
        let given = function.get("arguments").ok_or("no arguments")?;
        if !arguments(given)?.is_object() {
            return Err(format!("arguments {given} are no object"));
        }
        ids.push(id.to_owned());
    }
    Ok(ids)
}

fn messages(body: &Value) -> Result<&Vec<Value>, String> {
    not_blank(body, "model")?;
    if body.get("stream") != Some(&Value::Bool(true)) {
        return Err("no stream".to_owned());
    }
    let messages = body.get("messages").and_then(Value::as_array);
    messages
        .filter(|it| !it.is_empty())
        .ok_or_else(|| "no messages".to_owned())
}

fn ends_with_user(last: &str, pending: &[String]) -> Result<(), String> {
    if !pending.is_empty() {
        return Err("calls without results at the end".to_owned());
    }
    if matches!(last, "user" | "tool") {
        return Ok(());
    }
    Err(format!("it ends with {last}"))
}

fn sampling(body: &Value, most: f64) -> Result<(), String> {
    let temperature = body.get("temperature").and_then(Value::as_f64);
    if temperature.is_some_and(|it| !(0.0..=most).contains(&it)) {
        return Err(format!("temperature {temperature:?}"));
    }
    Ok(())
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    let text = value.get(key).and_then(Value::as_str);
    text.ok_or_else(|| format!("{key} is no text in {value}"))
}

fn not_blank(value: &Value, key: &str) -> Result<(), String> {
    if text(value, key)?.trim().is_empty() {
        return Err(format!("{key} is blank in {value}"));
    }
    Ok(())
}

fn is_name(name: &str) -> Result<(), String> {
    if (1..=64).contains(&name.len()) && name.chars().all(is_word) {
        return Ok(());
    }
    Err(format!("{name:?} is no tool's name"))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

//! Sessions with a model behind HTTP: a server of the test that speaks the
//! Chat Completions API, as its public documentation has it.
#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use ollie_tests::World;
use serde_json::{Value, json};

/// What the model must never be told from, and nobody else hears of.
const KEY: &str = "sk-test-4f2b9c71d0";

/// A server that answers each request with the next of its replies, and keeps
/// what it was asked.
struct Model {
    port: u16,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

/// A reply: text, or the call of a tool.
enum Reply {
    Text(&'static str),
    Call(&'static str, Value),
}

impl Model {
    fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        // It ends with the test's process.
        std::thread::spawn(move || {
            for reply in replies {
                let (stream, _) = listener.accept().unwrap();
                let request = answer(stream, &reply);
                log.lock().unwrap().push(request);
            }
        });
        Self { port, asked }
    }

    fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap().clone()
    }

    /// Configures it as the back end `test`.
    fn configure(&self, world: &World) {
        world.write(
            "home/.config/ollie/config.yaml",
            format!(
                "backend: test\nbackends:\n  test:\n    kind: openai\n    \
                 url: http://127.0.0.1:{}/v1\n    key_env: TEST_MODEL_KEY\n    model: large\n",
                self.port
            ),
        );
    }
}

/// Reads a request (RFC 9112) and streams a reply as server-sent events.
fn answer(stream: TcpStream, reply: &Reply) -> (String, Value) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
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
    let delta = |delta: Value, finish: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let chunks = match reply {
        Reply::Text(text) => vec![
            delta(json!({"role": "assistant", "content": text}), Value::Null),
            delta(json!({}), "stop".into()),
        ],
        Reply::Call(name, arguments) => vec![
            delta(
                json!({"role": "assistant", "tool_calls": [{"index": 0, "id": "call_a",
                    "type": "function", "function": {"name": name, "arguments": ""}}]}),
                Value::Null,
            ),
            delta(
                json!({"tool_calls": [{"index": 0,
                    "function": {"arguments": arguments.to_string()}}]}),
                Value::Null,
            ),
            delta(json!({}), "tool_calls".into()),
        ],
    };
    let mut events: String = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    events.push_str("data: [DONE]\n\n");
    let mut stream = stream;
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{events}"
    );
    (head, serde_json::from_slice(&body).unwrap())
}

/// Every file below a directory, and what is in it.
fn files(world: &World) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut directories = vec![world.base().to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && entry.path() != world.base().join("bin") {
                directories.push(entry.path());
            } else if kind.is_file() {
                let content = std::fs::read(entry.path()).unwrap_or_default();
                found.push((entry.path().display().to_string(), content));
            }
        }
    }
    found
}

#[test]
fn a_key_is_in_no_file_no_log_and_no_tool() {
    let world = World::ordinary();
    let model = Model::start(vec![
        Reply::Call(
            "shell",
            json!({"code": "env; cat /proc/self/environ /proc/*/environ 2>/dev/null; echo looked"}),
        ),
        Reply::Text("Nothing."),
    ]);
    model.configure(&world);
    let served = world.serve_by(world.ollie(["serve"]).env("TEST_MODEL_KEY", KEY));
    served.session("name=one");
    let end = served.send("one", "look for a key").has_status(0);
    assert!(end.out().contains("looked"), "{end}");
    let asked = model.asked();
    assert_eq!(asked.len(), 2);
    for (head, body) in &asked {
        assert!(head.contains(KEY), "it is sent where it belongs");
        assert!(!body.to_string().contains(KEY));
    }
    // The second request holds what the tool had seen.
    assert!(asked[1].1.to_string().contains("looked"));
    let mut texts: Vec<(String, Vec<u8>)> = files(&world);
    assert!(texts.iter().any(|(path, _)| path.ends_with("history.json")));
    for file in [
        "backends",
        "session/idx",
        "session/one/chat",
        "session/one/events",
        "session/one/cfg",
        "session/one/context",
        "session/one/env",
        "session/one/remote",
        "session/one/usage",
        "session/one/systemprompt",
        "session/one/proc/index",
    ] {
        texts.push((file.to_owned(), served.read(file).into_bytes()));
    }
    let end = served.end().has_status(0);
    texts.push(("standard error".to_owned(), end.stderr));
    for (place, text) in texts {
        let found = text.windows(KEY.len()).any(|part| part == KEY.as_bytes());
        assert!(!found, "the key is in {place}");
    }
}

#[test]
fn a_missing_key_is_told_to_whoever_gives_the_prompt() {
    let world = World::ordinary();
    let model = Model::start(Vec::new());
    model.configure(&world);
    let served = world.serve();
    served.session("name=one");
    let _ = served
        .fs(&["write", "session/one/prompt", "go"])
        .failed()
        .says(&["set TEST_MODEL_KEY"]);
    assert_eq!(served.read("session/one/state"), "idle\n");
    assert_eq!(served.end().status, 0);
}

#[test]
fn a_session_on_another_host_edits_a_file_there() {
    let Some(world) = World::with_ssh("a session on another host") else {
        return;
    };
    let devbox = world
        .devbox()
        .hook("mkdir /home/dev/project; echo 'helo world' >/home/dev/project/a.txt; chown -R dev /home/dev/project")
        .start();
    let model = Model::start(vec![
        Reply::Call("file_read", json!({"path": "a.txt"})),
        Reply::Call(
            "file_edit",
            json!({"path": "a.txt", "edits": [{"old": "helo", "new": "hello"}]}),
        ),
        Reply::Call("shell", json!({"code": "cat a.txt"})),
        Reply::Text("The word is right now."),
    ]);
    model.configure(&world);
    let serve = world
        .ollie(["serve"])
        .env("TEST_MODEL_KEY", KEY)
        .env("OLLIE_SSH", devbox.ssh());
    let served = world.serve_by(serve);
    served.session(&format!("name=one remote={} cwd=project", devbox.target()));
    let end = served.send("one", "mend the word").has_status(0);
    assert!(end.out().contains("hello world\n"), "{end}");
    let there = std::fs::read_to_string(devbox.home().join("project/a.txt")).unwrap();
    assert_eq!(there, "hello world\n");
    // The three tellings agree.
    let events = served.read("session/one/events");
    let kinds: Vec<String> = events
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["type"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .filter(|kind| ["user", "call", "tool_result", "turn"].contains(&kind.as_str()))
        .collect();
    let round = ["call", "tool_result"];
    let rounds = [&["user"][..], &round, &round, &round, &["turn"]].concat();
    assert_eq!(kinds, rounds);
    let asked = model.asked();
    assert_eq!(asked.len(), 4);
    let system = asked[0].1["messages"][0]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        system.contains("/home/dev/project"),
        "facts of that host: {system}"
    );
    let told = asked[3].1["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert!(
        told["content"].as_str().unwrap().contains("hello world"),
        "{told}"
    );
    let chat = served.read("session/one/chat");
    assert!(
        chat.contains("assistant: The word is right now.\n"),
        "{chat}"
    );
    let remote: Value = serde_json::from_str(&served.read("session/one/remote")).unwrap();
    assert_eq!(remote["status"], "connected");
    assert_eq!(remote["toolsrv"]["host"]["user"], "dev");
    assert_eq!(served.end().status, 0);
    assert_eq!(devbox.logged("Accepted publickey"), 1);
    devbox.nothing_left();
}

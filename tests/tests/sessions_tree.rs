//! The tree of sessions, through its command line and through a 9P client
//! that shares no code with it.
#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::SystemTime;

use ollie_tests::{Process, Served, World};
use serde_json::Value;

/// A client of 9P2000, made from section 5 of Plan 9's manual and nothing of
/// ours.
const CLIENT: &str = r#"
import json, socket, struct, sys, threading

class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.fids = 1
        self.ask(100, struct.pack('<I', 65536) + self.text('9P2000'), tag=65535)
        self.ask(104, struct.pack('<II', 0, 0xffffffff) + self.text('me') + self.text(''))

    def text(self, text):
        return struct.pack('<H', len(text.encode())) + text.encode()

    def exactly(self, count):
        data = b''
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise EOFError('the connection is closed')
            data += piece
        return data

    def ask(self, kind, body, tag=1):
        self.socket.sendall(struct.pack('<IBH', 7 + len(body), kind, tag) + body)
        size, got, _ = struct.unpack('<IBH', self.exactly(7))
        answer = self.exactly(size - 7)
        if got == 107:
            raise OSError(answer[2:].decode())
        assert got == kind + 1, (kind, got)
        return answer

    def walk(self, path):
        names = [name for name in path.split('/') if name]
        fid, self.fids = self.fids, self.fids + 1
        body = struct.pack('<IIH', 0, fid, len(names)) + b''.join(map(self.text, names))
        (count,) = struct.unpack('<H', self.ask(110, body)[:2])
        if count != len(names):
            raise OSError('file does not exist')
        return fid

    def open(self, path, mode):
        fid = self.walk(path)
        self.ask(112, struct.pack('<IB', fid, mode))
        return fid

    def read(self, fid, offset=0, count=8192):
        answer = self.ask(116, struct.pack('<IQI', fid, offset, count))
        (length,) = struct.unpack('<I', answer[:4])
        return answer[4:4 + length]

    def write(self, fid, data, offset=0):
        answer = self.ask(118, struct.pack('<IQI', fid, offset, len(data)) + data)
        return struct.unpack('<I', answer)[0]

    def whole(self, path):
        fid, data = self.open(path, 0), b''
        while piece := self.read(fid, len(data)):
            data += piece
        return data

    def stat(self, path):
        return self.ask(124, struct.pack('<I', self.walk(path)))[2:]

    def names(self, path):
        entries, names = self.whole(path), []
        while entries:
            (size,) = struct.unpack('<H', entries[:2])
            (length,) = struct.unpack('<H', entries[41:43])
            names.append(entries[43:43 + length].decode())
            entries = entries[2 + size:]
        return names
"#;

/// Runs a Python script with [`CLIENT`] and the socket as `PATH`.
fn python(world: &World, script: &str) -> Vec<Value> {
    let script = format!("{CLIENT}\nPATH = sys.argv[1]\n{script}");
    let end = world
        .command("python3")
        .args(["-c", &script])
        .arg(world.doorway())
        .run();
    end.has_status(0).json_lines()
}

fn recording(world: &World, lines: &str) -> String {
    let path = world.write("home/model.jsonl", lines);
    format!("replay:{}", path.display())
}

/// One turn with one call, and one without.
const TURNS: &str = r#"{"text":"I look."}
{"call":{"name":"shell","arguments":{"code":"echo seen"}}}
{"stop":"tool_calls"}
{"text":"Done."}
{"stop":"end"}
{"text":"Again."}
{"stop":"end"}
"#;

#[test]
fn an_independent_client_lists_reads_writes_and_tails() {
    let world = World::ordinary();
    let backend = recording(&world, TURNS);
    let served = world.serve();
    let script = r#"
client = Client(PATH)
print(json.dumps(client.names('/')))
new = client.open('session/new', 2)
client.write(new, b'name=one\nbackend=BACKEND\n')
print(json.dumps(client.read(new).decode()))
print(json.dumps(client.names('session/one')))
before = client.whole('session/idx')
for name in client.names('session/one'):
    client.stat('session/one/' + name)
print(json.dumps(client.whole('session/idx') == before))
events = client.open('session/one/events', 0)
prompt = client.open('session/one/prompt', 1)
text = ' two\nlines '.encode()
assert client.write(prompt, text) == len(text)
seen, at = [], 0
while not any(event.get('type') == 'turn' for event in seen):
    piece = client.read(events, at)
    at += len(piece)
    seen += [json.loads(line) for line in piece.decode().splitlines()]
print(json.dumps(seen))
(length,) = struct.unpack('<Q', client.stat('session/one/chat')[33:41])
print(json.dumps(client.read(client.open('session/one/chat', 0)).decode()))
print(json.dumps(length))
try:
    client.ask(122, struct.pack('<I', client.walk('session/one/chat')))
except OSError as refused:
    print(json.dumps(str(refused)))
client.ask(122, struct.pack('<I', client.walk('session/one')))
print(json.dumps(client.names('session')))
"#;
    let said = python(&world, &script.replace("BACKEND", &backend));
    let names = |at: usize| -> Vec<String> { serde_json::from_value(said[at].clone()).unwrap() };
    for name in ["help", "backends", "session", "agents", "skills", "remotes"] {
        assert!(names(0).contains(&name.to_owned()), "{said:?}");
    }
    assert_eq!(said[1], "one\n");
    for name in [
        "prompt", "chat", "events", "state", "wait", "queue", "ctl", "cfg", "proc",
    ] {
        assert!(names(2).contains(&name.to_owned()), "{said:?}");
    }
    assert_eq!(said[3], true, "a stat changes nothing");
    let kinds: Vec<_> = said[4]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .filter(|kind| !["state", "usage", "assistant", "info"].contains(kind))
        .collect();
    assert_eq!(
        kinds,
        ["user", "call", "tool", "tool", "tool_result", "turn"]
    );
    assert_eq!(said[4][0]["text"], " two\nlines ", "kept byte for byte");
    let chat = "user:  two\nlines \nassistant: I look.\n[tool:shell] {\"code\":\"echo seen\"}\nseen\n\
                assistant: Done.\n";
    assert_eq!(said[5], chat);
    assert_eq!(said[6], chat.len());
    assert_eq!(said[7], "permission denied");
    assert_eq!(names(8), ["new", "idx"]);
    assert_eq!(served.end().status, 0);
}

/// What is on the disk: names, lengths, times.
fn kept(world: &World) -> Vec<(PathBuf, u64, SystemTime)> {
    let mut found = Vec::new();
    let mut directories = vec![world.home().join(".local/state")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten() {
            let entry = entry.unwrap();
            let about = entry.metadata().unwrap();
            if about.is_dir() {
                directories.push(entry.path());
            }
            found.push((entry.path(), about.len(), about.modified().unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn looking_at_everything_changes_nothing_and_starts_nothing() {
    let world = World::ordinary();
    let backend = recording(&world, TURNS);
    let served = world.serve();
    served.session(&format!("name=one backend={backend}"));
    // Nobody listens there: a connection would be tried at once.
    served.session(&format!(
        "name=other cwd={} backend={backend}",
        world.home().display()
    ));
    let before = kept(&world);
    assert!(before.len() >= 5, "{before:?}");
    let script = r#"
client = Client(PATH)
seen = 0
def look(path, depth):
    global seen
    client.stat(path)
    seen += 1
    qid_type = client.ask(112, struct.pack('<IB', client.walk(path), 0))[0] if not waits(path) else 0
    if qid_type & 0x80:
        for name in client.names(path):
            look(path.rstrip('/') + '/' + name, depth + 1)
    elif not waits(path):
        client.whole(path)
def waits(path):
    return path.split('/')[-1] in ('wait', 'chat', 'events', 'prompt', 'ctl', 'new')
index = client.whole('session/idx')
look('/', 0)
print(json.dumps(client.whole('session/idx') == index))
print(json.dumps(seen))
"#;
    let said = python(&world, script);
    assert_eq!(said[0], true);
    assert!(said[1].as_u64().unwrap() > 40, "{said:?}");
    assert_eq!(kept(&world), before);
    let started = Process::all()
        .into_iter()
        .filter(|process| process.parent == served.pid());
    assert_eq!(started.count(), 0);
    assert_eq!(served.end().status, 0);
}

#[test]
fn a_name_with_a_slash_or_dots_leads_nowhere_on_the_wire() {
    let world = World::ordinary();
    world.write("home/.config/ollie/secret", "outside of the tree\n");
    world.write(
        "home/.config/ollie/skills/a.md",
        "---\ndescription: a\n---\n",
    );
    let backend = recording(&world, TURNS);
    let served = world.serve();
    served.session(&format!("name=one backend={backend}"));
    let before = kept(&world);
    let script = r#"
client = Client(PATH)
def walk(names):
    fid, client.fids = client.fids, client.fids + 1
    body = struct.pack('<IIH', 0, fid, len(names)) + b''.join(map(client.text, names))
    (count,) = struct.unpack('<H', client.ask(110, body)[:2])
    if count != len(names):
        raise OSError('stopped')
    return fid
def create(directory, name):
    client.ask(114, struct.pack('<I', client.walk(directory)) + client.text(name) + struct.pack('<IB', 0o600, 1))
def rename(path, name):
    stat = b'\xff' * 39 + client.text(name) + client.text('') * 3
    stat = struct.pack('<H', len(stat)) + stat
    client.ask(126, struct.pack('<IH', client.walk(path), len(stat)) + stat)
def outcome(attempt, *given):
    try:
        attempt(*given)
        return 'done'
    except ConnectionError:
        raise  # that is no answer
    except OSError as error:
        return str(error)
bad = ['../x', 'a/b', '/etc', '.', 'x/../../y', 'one/..']
for name in bad:
    print(json.dumps(outcome(walk, ['session', name])))
    print(json.dumps(outcome(walk, ['skills', name])))
    print(json.dumps(outcome(walk, ['skills', '../' + name])))
for name in bad + ['..', '-x', '.x', 'x y']:
    print(json.dumps(outcome(create, 'session', name)))
    print(json.dumps(outcome(create, 'skills', name)))
    print(json.dumps(outcome(rename, 'session/one', name)))
print(json.dumps(outcome(walk, ['skills', '..', 'secret'])))
print(json.dumps(outcome(rename, 'session/one', 'two')))
# Of the root itself, .. is the root (walk(5)).
up = walk(['session', 'two', '..', '..', '..', '..', 'session', 'two', 'state'])
client.ask(112, struct.pack('<IB', up, 0))
print(json.dumps(client.read(up).decode()))
"#;
    let said = python(&world, script);
    let (last, refused) = said
        .split_last_chunk::<2>()
        .map(|(rest, last)| (last, rest))
        .unwrap();
    assert_eq!(refused.len(), 6 * 3 + 10 * 3 + 1);
    for answer in refused {
        assert_ne!(answer, "done", "{said:?}");
    }
    assert_eq!(last[0], "done", "the attempt itself works");
    assert_eq!(last[1], "idle\n");
    let names = |all: Vec<(PathBuf, u64, SystemTime)>| -> Vec<String> {
        let name = |(path, ..): (PathBuf, u64, SystemTime)| path.display().to_string();
        all.into_iter().map(name).collect()
    };
    let renamed: Vec<_> = names(before)
        .into_iter()
        .map(|path| path.replace("sessions/one", "sessions/two"))
        .collect();
    assert_eq!(names(kept(&world)), renamed);
    assert_eq!(served.end().status, 0);
}

#[test]
fn ten_clients_that_wait_all_see_every_change() {
    let world = World::ordinary();
    let backend = recording(&world, TURNS);
    let served = world.serve();
    served.session(&format!("name=one backend={backend}"));
    let script = r#"
seen = [[] for _ in range(10)]
def watch(client, fid, to):
    while not to or not to[-1].endswith(' idle\n'):
        to.append(client.read(fid).decode())
watchers = []
for to in seen:
    client = Client(PATH)
    watchers.append(threading.Thread(target=watch, args=(client, client.open('session/one/wait', 0), to)))
for watcher in watchers:
    watcher.start()
client = Client(PATH)
client.write(client.open('session/one/prompt', 1), b'go')
for watcher in watchers:
    watcher.join()
print(json.dumps(seen))
late = client.open('session/one/wait', 2)
client.write(late, b'0')
again = []
while not again or not again[-1].endswith(' idle\n'):
    again.append(client.read(late).decode())
print(json.dumps(again))
try:
    client.write(late, b'999')
except OSError as refused:
    print(json.dumps(str(refused)))
"#;
    let said = python(&world, script);
    let first = said[0][0].as_array().unwrap();
    for other in said[0].as_array().unwrap() {
        assert_eq!(other.as_array().unwrap(), first);
    }
    let words: Vec<_> = first
        .iter()
        .enumerate()
        .map(|(at, line)| {
            let (number, state) = line.as_str().unwrap().trim().split_once(' ').unwrap();
            assert_eq!(number, (at + 1).to_string(), "none is missing");
            state.to_owned()
        })
        .collect();
    let expected = ["thinking", "calling:shell", "thinking", "idle"];
    let mut rest = words.iter();
    for state in expected {
        assert!(rest.any(|word| word == state), "{state}: {words:?}");
    }
    assert_eq!(said[1].as_array().unwrap(), first, "from a number on");
    assert!(said[2].as_str().unwrap().contains("a change that has been"));
    assert_eq!(served.end().status, 0);
}

#[track_caller]
fn refused(served: &Served<'_>, path: &str, text: &str, says: &str) {
    let end = served.fs(&["write", path, text]);
    let _ = end.failed().says(&[says]);
}

#[test]
fn what_cannot_be_done_is_told_to_its_writer() {
    let world = World::ordinary();
    let backend = recording(&world, TURNS);
    world.write("home/broken.jsonl", "{\"text\":\"a\"}\n{\"txet\":\"b\"}\n");
    let served = world.serve();
    served.session(&format!("name=one backend={backend}"));
    let cfg = served.read("session/one/cfg");
    let broken = format!("backend=replay:{}/broken.jsonl", world.home().display());
    refused(&served, "session/new", &broken, "broken.jsonl, line 2");
    let taken = format!("name=one backend={backend}");
    refused(&served, "session/new", &taken, "already");
    refused(&served, "session/new", "name=two", "no model back end");
    for (path, text, says) in [
        ("session/new", "name=../x", "no name"),
        ("session/new", "name=a/b", "no name"),
        ("session/new", "nmae=x", "no setting"),
        ("session/new", "backend=none", "no such back end"),
        (
            "session/new",
            "backend=replay:/nope.jsonl",
            "cannot read /nope.jsonl: No such file",
        ),
        (
            "session/new",
            "backend=replay:/dev/zero",
            "not a regular file",
        ),
        (
            "session/one/ctl",
            "backend replay:/nope.jsonl",
            "cannot read /nope.jsonl",
        ),
        ("session/new", "backend=ollama cwd=here", "absolute"),
        ("session/new", "backend=ollama agent=none", "there is no"),
        ("session/new", "backend=ollama sandbox=none", "none"),
        ("session/new", "backend=ollama transport=pigeon", "pigeon"),
        (
            "session/new",
            "backend=ollama remote=-oProxyCommand=x",
            "dash",
        ),
        ("session/one/ctl", "fly", "no command"),
        ("session/one/ctl", "stop now", "no command"),
        ("session/one/ctl", "rename ../x", "no name"),
        ("session/one/ctl", "backend none", "no such back end"),
        ("session/one/ctl", "resume", "nothing to go on with"),
        ("session/one/cfg", "cwd=/tmp", "another one"),
        ("session/one/cfg", "model=m yolo=maybe", "true or false"),
        ("session/one/prompt", " ", "empty"),
        ("session/one/queue", "remove 7", "7"),
        ("session/one/chat", "x", "denied"),
        ("session/none/ctl", "stop", "there is no"),
    ] {
        refused(&served, path, text, says);
    }
    assert_eq!(served.read("session/one/cfg"), cfg);
    // A write of nothing does nothing.
    served.write("session/one/prompt", "");
    assert_eq!(served.read("session/one/chat"), "");
    served.write("session/one/ctl", "rename two\nmodel m");
    assert!(served.read("session/two/cfg").contains("name=two\n"));
    assert!(served.read("session/two/cfg").contains("model=m\n"));
    let _ = served.fs(&["mv", "session/two", "idx"]).failed();
    let _ = served.fs(&["mv", "session/two", "three"]).ok();
    assert!(served.read("session/idx").starts_with("three\tidle\t"));
    assert_eq!(served.end().status, 0);
}

#[test]
fn a_new_session_has_the_configuration_of_now() {
    let world = World::ordinary();
    let backend = recording(&world, TURNS);
    let served = world.serve();
    refused(&served, "session/new", "name=one", "no model back end");
    let recorded = backend.strip_prefix("replay:").unwrap();
    world.write(
        "home/.config/ollie/config.yaml",
        format!("backend: mine\nbackends: {{ mine: {{ kind: replay, file: {recorded} }} }}\n"),
    );
    assert!(served.read("backends").contains("mine\t"));
    served.write("session/new", "name=one");
    assert!(served.read("session/one/cfg").contains("backend=mine\n"));
    // What is wrong with it is told where it matters, and ends nothing.
    world.write("home/.config/ollie/config.yaml", "backedn: mine\n");
    refused(&served, "session/new", "name=two", "backedn");
    assert!(served.read("session/idx").starts_with("one\t"));
    assert_eq!(served.end().status, 0);
}

#[test]
fn what_the_sandbox_denies_is_told_to_the_person_with_the_file_that_allows_it() {
    let world = World::ordinary();
    let secret = world.write("outside/secret", "nothing\n");
    let model = format!(
        r#"{{"call":{{"name":"shell","arguments":{{"code":"cat {}"}}}}}}
{{"stop":"tool_calls"}}
{{"text":"I may not."}}
{{"stop":"end"}}
"#,
        secret.display()
    );
    let backend = recording(&world, &model);
    let served = world.serve();
    served.session(&format!("name=one backend={backend}"));
    let chat = served.send("one", "go").ok();
    let told = chat
        .lines()
        .find(|line| line.starts_with(":: ") && line.contains(&secret.display().to_string()));
    let told = told.unwrap_or_else(|| panic!("{chat}"));
    assert!(told.contains("does not allow to read"), "{told}");
    assert!(told.contains(".config/ollie/sandbox.yaml"), "{told}");
    // A chat of such a session says at once that nothing is held back.
    served.session(&format!("name=two yolo=true backend={backend}"));
    let _ = world
        .ollie(["chat", "--session", "two"])
        .run()
        .has_status(0)
        .says(&["without a sandbox"]);
    assert_eq!(served.end().status, 0);
}

#[test]
fn what_is_not_there_is_told_with_what_is() {
    let world = World::ordinary();
    let backend = recording(&world, TURNS);
    let served = world.serve();
    let run = |args: &[&str]| world.ollie(args).run();
    let _ = run(&["session", "stop", "none"])
        .has_status(208)
        .says(&["no session \"none\"", "there is none"]);
    for name in ["one", "two"] {
        served.session(&format!("name={name} backend={backend}"));
    }
    for args in [
        &["session", "tail", "none"][..],
        &["session", "send", "none", "go"],
    ] {
        let _ = run(args)
            .has_status(208)
            .says(&["no session \"none\"", "there are one, two"]);
    }
    let _ = run(&["session", "send", "one", " "])
        .has_status(2)
        .says(&["no prompt"]);
    let _ = run(&["session", "send", "one"])
        .has_status(2)
        .says(&["no prompt"]);
    let _ = run(&["fs", "read", "session/one"])
        .has_status(2)
        .says(&["directory", "fs ls session/one"]);
    // The others go, although one is not there.
    let _ = run(&["session", "rm", "one", "none", "two"])
        .has_status(208)
        .says(&["no session \"none\""]);
    assert_eq!(served.read("session/idx"), "");
    assert_eq!(served.end().status, 0);
}

#[test]
fn a_second_daemon_is_refused_and_the_first_leaves_nothing() {
    let world = World::ordinary();
    let served = world.serve();
    let _ = world
        .ollie(["serve"])
        .run()
        .has_status(216)
        .says(&["another olliesrv serves"]);
    // The superuser is not this user, and learns nothing.
    if let Ok(mut stream) = UnixStream::connect(world.doorway())
        && world.user().uid() != 0
    {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"");
    }
    assert_eq!(served.end().status, 0);
    world.nothing_left();
    let _ = world
        .ollie(["fs", "ls"])
        .run()
        .has_status(216)
        .says(&["olliesrv serve"]);
}

#[test]
fn a_tool_cannot_use_the_sessions_it_belongs_to() {
    let world = World::ordinary();
    let door = world.doorway();
    let code = format!(
        "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\\\"{}\\\"); \
         print(\\\"let in\\\" if s.recv(1) else \\\"shut out\\\")'",
        door.display()
    );
    let backend = recording(
        &world,
        &format!(
            "{{\"call\":{{\"name\":\"shell\",\"arguments\":{{\"code\":\"{code}\"}}}}}}\n\
             {{\"stop\":\"tool_calls\"}}\n{{\"text\":\"Done.\"}}\n{{\"stop\":\"end\"}}\n"
        ),
    );
    let served = world.serve();
    // Without a sandbox nothing else keeps it from connecting.
    served.session(&format!("name=one yolo=true backend={backend}"));
    let end = served.send("one", "go").has_status(0);
    assert!(end.out().contains("shut out"), "{end}");
    assert_eq!(served.end().status, 0);
}

#[test]
fn a_thousand_idle_sessions_cost_little() {
    let world = World::ordinary();
    let backend = recording(&world, TURNS);
    let served = world.serve();
    make_many(&world, &served, &backend);
    assert_eq!(served.end().status, 0);
    let served = world.serve();
    let index = served.read("session/idx");
    assert_eq!(index.lines().count(), 1000);
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.pid())).unwrap();
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap();
    // 64 MB is the target of a release build, which this may not be.
    assert!(resident < 64 * 1024, "{resident} KiB");
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", served.pid())).unwrap();
    assert!(descriptors.count() < 64);
    // The list, whole, as an independent client has it: the median of 21.
    let script = r#"
import time
client = Client(PATH)
took = []
for _ in range(21):
    began = time.perf_counter()
    index = client.whole('session/idx')
    took.append((time.perf_counter() - began) * 1000)
print(json.dumps([index.count(b'\n'), sorted(took)[10]]))
"#;
    let said = python(&world, script);
    assert_eq!(said[0][0], 1000);
    let took = said[0][1].as_f64().unwrap();
    assert!(took <= 5.0, "{took} ms");
    println!("1000 idle sessions: {resident} KiB resident, idx in {took:.2} ms");
    assert_eq!(served.end().status, 0);
}

fn make_many(world: &World, served: &Served<'_>, backend: &str) {
    let directory = world.home().join(".local/state/ollie/sessions");
    served.session(&format!("name=first backend={backend}"));
    let record = std::fs::read_to_string(directory.join("first/session.json")).unwrap();
    for number in 1..1000 {
        let at = world.make_directory(directory.join(format!("s{number}")));
        world.write(at.join("session.json"), &record);
    }
}

//! Nothing secret is in arguments, in an environment or on the disk.

use std::error::Error;
use std::io::{Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::sync::{Arc, Mutex};

use ninep_rs::{ClientConfig, Trace};
use ollie_client::{CallEvent, Credentials, dial_toolsrv};
use ollie_protocol::{Boot, CallId, Key, Ready, ToolCall, auth, limits};
use ollie_tests::{Piped, Process, Toolsrv, User, World, gap};
use rustix::process::Signal;

#[test]
fn what_the_environment_holds_in_secret_does_not_reach_a_command() {
    let world = World::ordinary();
    let secrets = [
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OLLIE_SECRET",
        "SSH_AUTH_SOCK",
        "DATABASE_URL",
        "LD_PRELOAD_X",
    ];
    let env = |options: &[&str]| {
        let mut ollie = world.ollie(["exec"]).args(options).args(["--", "env"]);
        for name in secrets {
            ollie = ollie.env(name, "s3cr3t");
        }
        ollie.run().ok()
    };
    let out = env(&[]);
    assert!(out.contains(&format!("HOME={}", world.home().display())));
    assert!(!out.contains("s3cr3t"), "{out}");
    // Only what a person names is let through.
    let out = env(&["--env", "DATABASE_URL=given"]);
    assert!(out.contains("DATABASE_URL=given\n"), "{out}");
    assert!(!out.contains("s3cr3t"), "{out}");
}

#[test]
fn nothing_like_a_key_is_in_an_argument_or_an_environment_of_a_session() {
    for user in User::each("environments, as root") {
        let world = World::new(user);
        let running = world.shell("echo ready; sleep 4242").spawn();
        running.await_stdout("ready");
        let tree = running.await_tree();
        let mut pids = tree.all();
        pids.push(running.pid());
        for process in pids.into_iter().filter_map(Process::read) {
            let bytes = [process.cmdline.clone(), process.environ.clone()].concat();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            // A key is 32 bytes; toolsrv's own path has a build's SHA-256.
            let keys = text
                .split(|c: char| !c.is_ascii_hexdigit())
                .filter(|word| word.len() >= 64)
                .filter(|word| !text.contains(&format!("/{word}/toolsrv")));
            assert_eq!(keys.collect::<Vec<_>>(), Vec::<&str>::new());
        }
        running.ctrl_c();
        let _ = running.finish();
    }
}

/// The same with a key that the test knows, so that it is found in any form.
#[test]
fn the_key_of_a_session_is_nowhere_to_be_seen() {
    let world = World::ordinary();
    let secret: [u8; 32] = random();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (mut toolsrv, output) = runtime.block_on(session(&world, secret)).unwrap();
    // Its tasks hold the connection.
    drop(runtime);
    assert!(toolsrv.wait().success());
    // What the command saw of its own environment and of toolsrv.
    assert!(output.contains("PATH="), "{output}");
    for form in forms(secret) {
        assert!(!contains(output.as_bytes(), &form));
    }
    world.nothing_left();
}

/// One session with a toolsrv that is started by hand; toolsrv, and the output
/// of a call.
async fn session(world: &World, secret: [u8; 32]) -> Result<(Piped, String), Box<dyn Error>> {
    // Its standard error is among the files that are looked through.
    let mut toolsrv = world
        .command("/bin/sh")
        .args(["-c", "exec \"$0\" serve 2>\"$1\""])
        .arg(world.base().join("bin/toolsrv"))
        .arg(world.outside().join("stderr"))
        .piped();
    let (Some(mut input), Some(mut output)) = (toolsrv.stdin.take(), toolsrv.stdout.take()) else {
        return Err("no pipes".into());
    };
    let policy = ollie_sandbox::layer("default", &[])?.to_json()?;
    let boot = Boot {
        protocol: limits::PROTOCOL,
        mark: "mark".to_owned(),
        secret: Key::from_bytes(secret),
        nonce: None,
        session: "by-hand".to_owned(),
        cwd: None,
        policy: serde_json::from_slice(&policy)?,
        yolo: false,
        project: false,
    };
    input.write_all(&boot.to_frame()?)?;
    let Ready::Ready { nonce, pid, .. } = ready(&mut output)? else {
        return Err("it refused".into());
    };
    let key = Key::from_bytes(secret);
    let credentials = Credentials {
        key: &key,
        session: "by-hand",
        agent: "test",
        nonce: Some(nonce),
    };
    let reader = tokio::net::unix::pipe::Receiver::from_owned_fd(output.into())?;
    let writer = tokio::net::unix::pipe::Sender::from_owned_fd(input.into())?;
    let traced = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&traced);
    let mut config = ClientConfig::default();
    config.trace = Some(Trace::new(move |_, message| {
        let line = message.to_string().into_bytes();
        lines.lock().expect("no panic before").push(line);
    }));
    let conn = dial_toolsrv(reader, writer, credentials, config).await?;
    let mut call = ToolCall::new(CallId::new("c")?, "shell");
    let code = format!(
        "cat /proc/self/environ; cd /proc/{pid}; for f in environ mem maps fd/0; do
         test -r $f && cat $f && echo READ $f; done 2>/dev/null; cat cmdline status; ls -l fd"
    );
    call.args.insert("code".to_owned(), code.into());
    let mut running = conn.call(&call)?;
    let mut content = String::new();
    while let Some(event) = running.next().await? {
        match event {
            CallEvent::Started { .. } => assert_unseen(world, secret),
            CallEvent::Result(result) => content = result.content,
            _ => {}
        }
    }
    assert!(!content.contains("READ"), "{content}");
    // All processes of it are still there, and so are its files.
    assert_unseen(world, secret);
    let mut shown = Vec::new();
    for file in [
        "version",
        "host",
        "policy",
        "project",
        "door",
        "status",
        "tools/index",
        "proc/index",
        "proc/c/call",
        "proc/c/status",
        "proc/c/output",
    ] {
        shown.push(conn.read_file(file).await?.to_vec());
    }
    let traced = traced.lock().expect("no panic before");
    assert!(traced.len() > 20, "{}", traced.len());
    shown.extend(traced.iter().cloned());
    for form in forms(secret) {
        assert!(!shown.iter().any(|text| contains(text, &form)));
    }
    Ok((toolsrv, content))
}

/// Looks through every process and every file of the world.
#[track_caller]
fn assert_unseen(world: &World, secret: [u8; 32]) {
    let processes = world.processes();
    assert!(processes.len() >= 2, "server and companion");
    let mut places: Vec<(String, Vec<u8>)> = processes
        .into_iter()
        .map(|process| (process.line(), [process.cmdline, process.environ].concat()))
        .collect();
    let mut directories = vec![world.base().to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(directory).into_iter().flatten();
        for path in entries.flatten().map(|entry| entry.path()) {
            let is = std::fs::symlink_metadata(&path).map(|stat| stat.file_type());
            if path.parent() == Some(&world.base().join("bin")) {
                continue;
            }
            if is.as_ref().is_ok_and(std::fs::FileType::is_dir) {
                directories.push(path);
            } else if is.is_ok_and(|is| is.is_file()) {
                let content = std::fs::read(&path).unwrap_or_default();
                places.push((path.display().to_string(), content));
            }
        }
    }
    assert!(places.iter().any(|(place, _)| place.ends_with(".bashrc")));
    for (place, bytes) in places {
        for form in forms(secret) {
            assert!(!contains(&bytes, &form), "the key is in {place}");
        }
    }
}

/// The secret and both tokens that are made from it, themselves and in
/// hexadecimal digits.
fn forms(secret: [u8; 32]) -> Vec<Vec<u8>> {
    let secret = Key::from_bytes(secret);
    let keys = [secret.token(auth::AGENT), secret.token(auth::OWNER), secret];
    let forms = keys.iter().flat_map(|key| {
        let hex = auth::to_hex(key.as_bytes());
        [
            key.as_bytes().to_vec(),
            hex.to_uppercase().into_bytes(),
            hex.into_bytes(),
        ]
    });
    forms.collect()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .expect("the kernel has random numbers");
    bytes
}

/// Reads the ready line and not a byte more.
fn ready(output: &mut impl Read) -> Result<Ready, Box<dyn Error>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") {
        output.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    let json = line.strip_prefix(b"mark ").ok_or("another line")?;
    Ok(serde_json::from_slice(json)?)
}

/// The kernel gives the files of an undumpable process in /proc to root
/// (PR_SET_DUMPABLE, prctl(2)); an ordinary process shows the difference.
#[test]
fn toolsrv_cannot_be_looked_into_by_its_own_user() {
    let world = World::ordinary();
    let running = world.shell("echo ready; sleep 4242").spawn();
    running.await_stdout("ready");
    let tree = running.await_tree();
    let read = |pid: u32| {
        let path = format!("/proc/{pid}/environ");
        world.command("cat").arg(path).run().status == 0
    };
    assert!(read(running.pid()), "olliesrv's own, by the same user");
    for pid in tree.all() {
        assert!(!read(pid), "{pid} of {tree:?}");
    }
    running.ctrl_c();
    let _ = running.finish();
}

/// A core file has the session's key in it (core(5)).
#[test]
fn a_toolsrv_that_dies_of_a_signal_leaves_no_core_file() {
    let world = Toolsrv::world();
    let dump = |signal: Signal| {
        let line = format!("ulimit -c unlimited; kill -{} $$", signal.as_raw());
        let mut shell = world.command("/bin/sh").args(["-c", &line]).piped();
        shell.wait().core_dumped()
    };
    if !dump(Signal::SEGV) {
        return gap("core files", "this machine writes none");
    }
    let cores = || {
        let entries = std::fs::read_dir(world.project()).unwrap().flatten();
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("core"))
            .map(|entry| std::fs::remove_file(entry.path()).unwrap())
            .count()
    };
    let usual = cores();
    for signal in [Signal::SEGV, Signal::ABORT] {
        for victim in ["server", "companion"] {
            let mut toolsrv = Toolsrv::start_without_core_limit(&world);
            let processes = world.processes();
            let companion = processes
                .iter()
                .find(|process| process.parent == toolsrv.pid);
            let pid = match victim {
                "server" => toolsrv.pid,
                _ => companion.unwrap().pid,
            };
            let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            rustix::process::kill_process(pid, signal).unwrap();
            let status = toolsrv.ended();
            assert!(!status.core_dumped(), "{victim}: {status}");
            world.nothing_left();
        }
    }
    assert_eq!(cores(), 0, "where a shell left {usual}");
}

/// Variables with keys of models, by name and by the configuration.
const MODELS: [&str; 2] = ["OPENAI_API_KEY", "KEY_OF_OUR_OWN"];

/// The environments of these processes. toolsrv lets nobody but root look.
#[track_caller]
fn environments(pids: &[u32]) -> String {
    let read = |pid: &u32| Process::read(*pid).map(|process| process.environ);
    let read = |pid: &u32| read(pid).unwrap_or_default();
    let all = pids.iter().flat_map(read).collect::<Vec<_>>();
    let text = String::from_utf8_lossy(&all).into_owned();
    assert!(text.contains("PATH="), "they can be read");
    text
}

#[test]
fn a_key_of_a_model_does_not_even_reach_toolsrv() {
    if !rustix::process::geteuid().is_root() {
        return gap("toolsrv's environment", "needs root");
    }
    let world = World::ordinary();
    world.write(
        "home/.config/ollie/config.yaml",
        "backends:\n  ours: { kind: openai, url: 'http://127.0.0.1:1', key_env: KEY_OF_OUR_OWN }\n",
    );
    let with_keys = |mut ollie: ollie_tests::Invocation| {
        for name in MODELS {
            ollie = ollie.env(name, "s3cr3t");
        }
        ollie.env("DATABASE_URL", "n0ne")
    };
    let code = "echo ready; exec sleep 4242";
    let running = with_keys(world.ollie(["exec", "--", "sh", "-c", code])).spawn();
    running.await_stdout("ready");
    let tree = environments(&running.await_tree().all());
    // What is no model's key is there: the environment is what was looked at.
    assert!(tree.contains("DATABASE_URL=n0ne"), "{tree}");
    assert!(!tree.contains("s3cr3t"), "{tree}");
    running.ctrl_c();
    let _ = running.finish();

    let model = world.write(
        "home/model.jsonl",
        format!("{{\"call\":{{\"name\":\"shell\",\"arguments\":{{\"code\":\"{code}\"}}}}}}\n{{\"stop\":\"tool_calls\"}}\n"),
    );
    let served = world.serve_by(with_keys(world.ollie(["serve"])));
    served.session(&format!("name=one backend=replay:{}", model.display()));
    served.write("session/one/prompt", "go");
    let began = || served.read("session/one/chat").contains("\nready\n");
    assert!(ollie_tests::await_that(
        std::time::Duration::from_secs(30),
        began
    ));
    let mut pids = vec![served.pid()];
    let mut all = Vec::new();
    while let Some(pid) = pids.pop() {
        let children = Process::all().into_iter().filter(|it| it.parent == pid);
        children.for_each(|child| pids.push(child.pid));
        all.push(pid);
    }
    let (own, others) = all.split_first().unwrap();
    assert!(
        environments(&[*own]).contains("s3cr3t"),
        "olliesrv has them"
    );
    let tree = environments(others);
    assert!(tree.contains("DATABASE_URL=n0ne"), "{tree}");
    assert!(!tree.contains("s3cr3t"), "{tree}");
    assert_eq!(served.end().status, 0);

    // Who writes a name out wants it.
    world.write("home/.config/ollie/sandbox.yaml", "env: [OPENAI_API_KEY]\n");
    let out = with_keys(world.ollie(["exec", "--", "env"])).run().ok();
    assert!(out.contains("OPENAI_API_KEY=s3cr3t\n"), "{out}");
    assert!(!out.contains("KEY_OF_OUR_OWN"), "{out}");
}

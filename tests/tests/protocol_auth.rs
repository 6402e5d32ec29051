//! Who does not know the key gets nothing, and keeps nobody out who does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ninep_rs::{AuthFile, Client, ClientConfig, Node, Refusal, ServerConfig, Service, ename};
use ollie_client::{Credentials, Error, dial_toolsrv};
use ollie_protocol::auth::OWNER;
use ollie_protocol::{Key, NotLetIn, TurnedAway};
use ollie_tests::{Toolsrv, gap, shell_call};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// Longer than anything here takes that is not a mistake.
const LIMIT: Duration = Duration::from_secs(20);

async fn gauge(conn: &ollie_client::ToolsrvConn, name: &str) -> u64 {
    let status = conn.read_file("status").await.expect("status can be read");
    let status: serde_json::Value = serde_json::from_slice(&status).expect("it is JSON");
    status[name].as_u64().expect("it is a number")
}

/// What the file `door` says: reasons and how often, in the order of the reasons.
async fn door(conn: &ollie_client::ToolsrvConn) -> Vec<(NotLetIn, u64)> {
    let text = conn.read_file("door").await.expect("door can be read");
    let lines = text
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty());
    let mut lines: Vec<_> = lines
        .map(|line| {
            let line: TurnedAway = serde_json::from_slice(line).expect("it is a record");
            assert_eq!(line.uid, rustix::process::getuid().as_raw());
            assert!(line.pid.is_some(), "{line:?}");
            assert!(line.first > 0 && line.first <= line.last, "{line:?}");
            (line.reason, line.count)
        })
        .collect();
    lines.sort_unstable();
    lines
}

#[tokio::test]
async fn a_key_opens_what_it_is_for_and_nothing_else() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let first = toolsrv.first().await;
    let (agent, owner) = (toolsrv.token("a"), toolsrv.token(OWNER));
    let wrong = Key::from_bytes([7; 32]);
    let session = toolsrv.session();
    for (key, uname, aname, what) in [
        (&wrong, session, "a", "a wrong key"),
        (&toolsrv.secret(), session, "a", "the secret, a second time"),
        (&agent, session, OWNER, "an agent who says to be the owner"),
        (&agent, "other", "a", "another session"),
        (&agent, session, "", "no name"),
        (&agent, session, "a/b", "a name that is none"),
        (&agent, session, "@root", "a class that is none"),
    ] {
        let refused = toolsrv.dial_with(key, uname, aname).await;
        assert!(
            matches!(refused, Err(Error::NotAccepted(_))),
            "{what}: {refused:?}"
        );
    }
    assert_eq!(gauge(&first, "turned_away").await, 7);
    let logged = [
        (NotLetIn::WrongSession, 1),
        (NotLetIn::BadName, 3),
        (NotLetIn::WrongProof, 3),
    ];
    assert_eq!(door(&first).await, logged);
    for (key, aname) in [(&agent, "a"), (&agent, "b"), (&owner, OWNER), (&owner, "a")] {
        let conn = toolsrv.dial_with(key, session, aname).await.unwrap();
        conn.version().await.unwrap();
    }
}

#[tokio::test]
async fn an_attach_needs_the_finished_afid_of_its_own_names() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let first = toolsrv.first().await;
    for case in [
        "no afid",
        "an unfinished one",
        "a fid that is no afid",
        "other names",
    ] {
        let (reader, writer) = toolsrv.stream().await.into_split();
        let client = Client::spawn(reader, writer, ClientConfig::default());
        client.version().await.unwrap();
        let (afid, authenticating) = client.auth(toolsrv.session(), "a");
        authenticating.await.unwrap();
        let aname = if case == "other names" { "b" } else { "a" };
        let (root, attaching) = match case {
            "no afid" => client.attach(None, toolsrv.session(), aname),
            "a fid that is no afid" => {
                let (unknown, walked) = afid.walk(["x"]);
                assert!(walked.await.is_err());
                client.attach(Some(&unknown), toolsrv.session(), aname)
            }
            _ => client.attach(Some(&afid), toolsrv.session(), aname),
        };
        let refused = attaching.await.unwrap_err().to_string();
        assert!(refused.contains("authenticat"), "{case}: {refused}");
        // What is asked next finds the connection closed.
        tokio::time::timeout(LIMIT, client.closed())
            .await
            .expect(case);
        assert!(root.walk(["proc"]).1.await.is_err());
    }
    let logged = [(NotLetIn::NoProof, 2), (NotLetIn::ForeignAfid, 2)];
    assert_eq!(door(&first).await, logged);
}

/// Everything that a client wrote, when it connected and made a call.
async fn recorded(toolsrv: &Toolsrv) -> Vec<u8> {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (mut from_client, mut to_client) = tokio::io::split(far);
    let (mut from_server, mut to_server) = toolsrv.stream().await.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    let recording = tokio::spawn(async move {
        let (mut seen, mut buffer) = (Vec::new(), vec![0; 4096]);
        while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
            seen.extend_from_slice(&buffer[..count]);
            if to_server.write_all(&buffer[..count]).await.is_err() {
                break;
            }
        }
        seen
    });
    let (reader, writer) = tokio::io::split(near);
    let key = toolsrv.token("a");
    let credentials = Credentials {
        key: &key,
        session: toolsrv.session(),
        agent: "a",
        nonce: None,
    };
    let conn = dial_toolsrv(reader, writer, credentials, ClientConfig::default()).await;
    let conn = conn.expect("the recorded connection is a good one");
    let started = conn.start(&shell_call("recorded", "touch recorded")).await;
    started.expect("the recorded call starts");
    drop(conn);
    recording.await.expect("the recording ends")
}

#[tokio::test]
async fn a_recorded_connection_opens_nothing() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let first = toolsrv.first().await;
    let bytes = recorded(&toolsrv).await;
    let calls = first.calls().await.unwrap().len();
    assert_eq!(calls, 1);
    let mut stream = toolsrv.stream().await;
    // It may be closed while the rest is still being written.
    let _ = stream.write_all(&bytes).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(LIMIT, stream.read_to_end(&mut answer)).await;
    let _ = read.expect("it is closed");
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains("authentication failed"), "{text:?}");
    assert_eq!(door(&first).await, [(NotLetIn::WrongProof, 1)]);
    assert_eq!(first.calls().await.unwrap().len(), calls);
}

/// A server without the key, which has the best proof that can be had without
/// it: a random one, or the client's own sent back.
struct Impostor {
    mirror: bool,
}

#[derive(Default)]
struct Forged(std::sync::Mutex<Option<Bytes>>, bool);

impl Service for Impostor {
    fn auth(&self, _: &str, _: &str) -> Result<Box<dyn AuthFile>, Refusal> {
        Ok(Box::new(Forged(Default::default(), self.mirror)))
    }

    fn attach(&self, _: &str, _: &str, _: Option<&dyn AuthFile>) -> Result<Arc<dyn Node>, Refusal> {
        Ok(Arc::new(ninep_rs::Directory::new("/", 0, Vec::new())))
    }
}

impl AuthFile for Forged {
    fn read(&self, _: u32) -> Result<Bytes, Refusal> {
        let theirs = self.0.lock().expect("no panic before").clone();
        Ok(theirs.unwrap_or_else(|| Bytes::from_static(&[5; 32])))
    }

    fn write(&self, data: &[u8]) -> Result<u32, Refusal> {
        let proof = if self.1 { &data[32..] } else { &[6; 32] };
        *self.0.lock().expect("no panic before") = Some(Bytes::copy_from_slice(proof));
        Ok(64)
    }

    fn done(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn the_client_tells_a_server_without_the_key_from_its_own() {
    for mirror in [false, true] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (reader, writer) = theirs.into_split();
        let service = Arc::new(Impostor { mirror });
        let config = ServerConfig::default();
        let serving = tokio::spawn(ninep_rs::serve(reader, writer, service, config));
        let (reader, writer) = ours.into_split();
        let key = Key::from_bytes([1; 32]);
        let credentials = Credentials {
            key: &key,
            session: "s",
            agent: "a",
            nonce: None,
        };
        let refused = dial_toolsrv(reader, writer, credentials, ClientConfig::default()).await;
        assert!(matches!(refused, Err(Error::Impostor)), "{refused:?}");
        // It is told nothing more: the connection is closed.
        let end = tokio::time::timeout(LIMIT, serving).await;
        let _ = end.expect("it is closed").unwrap();
    }
}

#[tokio::test]
async fn a_peer_that_takes_its_time_is_sent_away() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let first = toolsrv.first().await;
    let mut stream = toolsrv.stream().await;
    let begun = Instant::now();
    // A Tversion, a byte a second.
    let frame = b"\x13\0\0\0\x64\xff\xff\0\0\x01\0\x06\x009P2000";
    let mut closed = false;
    for byte in frame {
        let mut answer = [0];
        let wait = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut answer));
        if let Ok(read) = wait.await {
            closed = matches!(read, Ok(0) | Err(_));
            break;
        }
        if stream.write_all(&[*byte]).await.is_err() {
            closed = true;
            break;
        }
    }
    assert!(closed);
    let took = begun.elapsed();
    assert!(
        took > Duration::from_secs(9) && took < Duration::from_secs(13),
        "{took:?}"
    );
    assert_eq!(door(&first).await, [(NotLetIn::TooSlow, 1)]);
}

#[tokio::test]
async fn a_stranger_cannot_make_toolsrv_hold_a_long_message() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let first = toolsrv.first().await;
    let mut stream = toolsrv.stream().await;
    // size[4] Twrite tag[2]: 8193 bytes, one too many.
    stream.write_all(b"\x01\x20\0\0\x76\x01\0").await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(LIMIT, stream.read_to_end(&mut answer)).await;
    read.expect("it is closed").unwrap();
    assert!(answer.ends_with(ename::TOO_LONG.as_bytes()), "{answer:?}");
    assert_eq!(door(&first).await, [(NotLetIn::TooLong, 1)]);
}

/// What a stranger sends may be a key that went to the wrong place.
#[tokio::test]
async fn nothing_that_a_stranger_sends_is_kept() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let first = toolsrv.first().await;
    let secret = ollie_protocol::auth::to_hex(toolsrv.secret().as_bytes());
    let agent = toolsrv.token("a");
    for (session, agent_name) in [(&*secret, "a"), (toolsrv.session(), "@secret")] {
        let refused = toolsrv.dial_with(&agent, session, agent_name).await;
        assert!(refused.is_err(), "{refused:?}");
    }
    let text = first.read_file("door").await.unwrap();
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    for word in [&secret, "@secret"] {
        assert!(!text.contains(word), "{text}");
    }
}

#[tokio::test]
async fn another_user_of_the_host_is_turned_away() {
    if !rustix::process::getuid().is_root() {
        return gap("another user at the socket", "needs root");
    }
    // toolsrv is an ordinary user's here, and root comes to its socket.
    let world = ollie_tests::World::ordinary();
    let mut toolsrv = Toolsrv::start(&world);
    let first = toolsrv.first().await;
    let refused = toolsrv.dial("a").await;
    assert!(
        matches!(refused, Err(Error::NotAccepted(_) | Error::Lost(_))),
        "{refused:?}"
    );
    assert_eq!(door(&first).await, [(NotLetIn::ForeignUser, 1)]);
}

#[tokio::test]
async fn a_thousand_strangers_keep_nobody_out() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let first = toolsrv.first().await;
    let guest = toolsrv.dial("guest").await.unwrap();
    let (fds, memory) = (gauge(&first, "fds").await, gauge(&first, "rss").await);
    allow_descriptors(1200);
    let mut strangers = Vec::new();
    for _ in 0..1000 {
        strangers.push(toolsrv.stream().await);
    }
    let begun = Instant::now();
    let owner = toolsrv.dial(OWNER).await.unwrap();
    owner.version().await.unwrap();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    guest.version().await.unwrap();
    // 32 of them at a time, and the owner.
    let (fds, memory) = (
        gauge(&owner, "fds").await - fds,
        gauge(&owner, "rss").await.saturating_sub(memory),
    );
    assert!(fds <= 33, "{fds} descriptors");
    assert!(memory < 4 << 20, "{memory} bytes");
    let away = gauge(&owner, "turned_away").await;
    assert!(away >= 1000 - 32, "{away}");
    // A thousand of them are one line.
    assert_eq!(door(&owner).await, [(NotLetIn::Displaced, away)]);
}

/// The test's own; the limit of a shell is 1024.
fn allow_descriptors(count: u64) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit
        .maximum
        .map_or(Some(count), |most| Some(count.min(most)));
    setrlimit(Resource::Nofile, limit).expect("the limit can be raised");
}

/// The tools run without any sandbox here: what refuses them is toolsrv.
#[tokio::test]
async fn a_tool_cannot_connect_to_the_socket() {
    let world = Toolsrv::world();
    let path = world.path();
    let mut places = std::env::split_paths(&path).map(|at| at.join("python3"));
    if !places.any(|python| python.exists()) {
        return gap(
            "a tool that connects to the socket",
            "python3 is not installed",
        );
    }
    let mut toolsrv = Toolsrv::start_unconfined(&world);
    let first = toolsrv.first().await;
    let knock = "import os, socket, sys\n\
                 if os.fork() == 0: os.setsid()\n\
                 s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n\
                 try: s.sendall(b'\\x13\\0\\0\\0\\x64\\xff\\xff\\0\\0\\1\\0\\6\\x009P2000')\n\
                 except OSError: pass\n\
                 try: print(s.recv(100))\n\
                 except OSError: print(b'')\n";
    let script = world.write("home/knock.py", knock);
    let code = format!("python3 {} {}", script.display(), toolsrv.socket.display());
    first.start(&shell_call("knock", &code)).await.unwrap();
    let result = first
        .wait(&ollie_protocol::CallId::new("knock").unwrap())
        .await
        .unwrap();
    // The parent may end first and the child with it.
    let lines: Vec<_> = result.content.lines().collect();
    assert!(
        !lines.is_empty() && lines.iter().all(|line| *line == "b''"),
        "{result:?}"
    );
    let logged = door(&first).await;
    assert!(
        matches!(logged[..], [(NotLetIn::OwnTool, 1..=2)]),
        "{logged:?}"
    );

    // The same from outside is answered.
    let mut outside = toolsrv.stream().await;
    outside
        .write_all(b"\x13\0\0\0\x64\xff\xff\0\0\x01\0\x06\x009P2000")
        .await
        .unwrap();
    let mut answer = [0; 19];
    outside.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer[4], 101);
}

#[tokio::test]
async fn the_exec_channel_is_no_easier_and_a_session_without_its_client_ends() {
    // A wrong key; the nonce of the ready line for a second Tauth.
    for case in ["wrong", "again"] {
        let world = Toolsrv::world();
        let log = world.base().join("outside/stderr");
        let mut toolsrv = Toolsrv::start_noting(&world, &log);
        let (reader, writer) = toolsrv.channel();
        if case == "again" {
            let client = Client::spawn(reader, writer, ClientConfig::default());
            client.version().await.unwrap();
            let (_first, authenticating) = client.auth(toolsrv.session(), "a");
            authenticating.await.unwrap();
            let (second, authenticating) = client.auth(toolsrv.session(), "a");
            authenticating.await.unwrap();
            let handshake = ollie_protocol::auth::Handshake {
                server: toolsrv.nonce,
                client: ollie_protocol::Nonce::from_bytes([1; 32]),
                uname: toolsrv.session(),
                aname: "a",
            };
            let proof = toolsrv.secret().client_proof(&handshake);
            let written = [&[1; 32][..], proof.as_bytes()].concat();
            let refused = second.write(0, written).await.unwrap_err().to_string();
            assert!(refused.contains("authentication failed"), "{refused}");
        } else {
            let credentials = Credentials {
                key: &Key::from_bytes([7; 32]),
                session: toolsrv.session(),
                agent: "a",
                nonce: Some(toolsrv.nonce),
            };
            let refused = dial_toolsrv(reader, writer, credentials, ClientConfig::default()).await;
            assert!(matches!(refused, Err(Error::NotAccepted(_))), "{refused:?}");
        }
        let status = tokio::task::spawn_blocking(move || toolsrv.ended())
            .await
            .unwrap();
        assert_eq!(status.code(), Some(1));
        assert_eq!(
            std::fs::read_to_string(log).unwrap(),
            "toolsrv: the first client was not let in: a wrong proof\n"
        );
        assert_eq!(world.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn a_person_is_told_of_those_who_were_turned_away() {
    use std::io::{Read as _, Write as _};
    let world = Toolsrv::world();
    let code = "echo ready; while [ ! -e go ]; do sleep 0.01; done";
    let running = world
        .ollie(["exec", "--verbose", "--", "sh", "-c", code])
        .spawn();
    running.await_stdout("ready");
    let mut run = std::fs::read_dir(world.base().join("run")).unwrap();
    let socket = run.next().unwrap().unwrap().path().join("socket");
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    // Shorter than any message can be.
    stream.write_all(b"\x01\0\0\0\x64\xff\xff").unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    world.write("home/project/go", "");
    let _ = running
        .finish()
        .has_status(0)
        .says(&["turned away at the session's socket: a malformed message, 1 times, user "]);
}

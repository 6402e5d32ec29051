use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, ExitStatus};

use ninep_rs::ClientConfig;
use ollie_client::{Credentials, Error, ToolsrvConn, dial_toolsrv};
use ollie_protocol::auth::{AGENT, OWNER};
use ollie_protocol::{Attach, Boot, CallId, Key, Nonce, Ready, ToolCall, auth, limits};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::must::must;
use crate::toolchain::link_or_copy;
use crate::{Invocation, Piped, User, World};

/// A toolsrv that the test has started by itself, with both ends in its hands.
///
/// When it is dropped it is killed, and the companion ends the rest.
#[derive(Debug)]
pub struct Toolsrv {
    process: Piped,
    secret: [u8; auth::LEN],
    /// The nonce of the ready line.
    pub nonce: Nonce,
    /// Process id of the 9P server.
    pub pid: u32,
    /// The session's socket.
    pub socket: PathBuf,
    channel: Option<(ChildStdout, ChildStdin)>,
}

/// The call of a shell line, which waits for no other call.
///
/// # Panics
/// If `id` is no call id.
#[must_use]
pub fn shell_call(id: &str, code: &str) -> ToolCall {
    let mut call = ToolCall::new(must(CallId::new(id), "name a call"), "shell");
    call.args.insert("code".to_owned(), code.into());
    call.queue = false;
    call
}

/// The session's name, the uname of all connections.
const SESSION: &str = "by-hand";

impl Toolsrv {
    /// A world of the user who runs the tests: no other may connect to the
    /// socket.
    #[must_use]
    pub fn world() -> World {
        World::new(if rustix::process::getuid().is_root() {
            User::Root
        } else {
            User::ordinary()
        })
    }

    /// The program, where the world's user can read it.
    #[must_use]
    pub fn program(world: &World) -> PathBuf {
        let program = world.base().join("bin/toolsrv");
        if !program.exists() {
            link_or_copy(&world.dist().toolsrv(), &program);
        }
        program
    }

    /// A boot record, with its length in front, after `edit` has changed it.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn boot_frame(edit: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
        let boot = boot([3; auth::LEN]);
        let mut record = must(serde_json::to_value(&boot), "write the boot record");
        edit(&mut record);
        let json = record.to_string().into_bytes();
        let length = must(u32::try_from(json.len()), "measure the boot record");
        [&length.to_le_bytes()[..], &json].concat()
    }

    /// Starts one with the default policy in the world's project.
    ///
    /// # Panics
    /// If it does not become ready.
    #[must_use]
    pub fn start(world: &World) -> Self {
        Self::start_with(world, false, &["serve"])
    }

    /// Starts one that could leave a core file in the world's project if
    /// nothing kept it from that (core(5)).
    ///
    /// # Panics
    /// As [`Toolsrv::start`].
    #[must_use]
    pub fn start_without_core_limit(world: &World) -> Self {
        let shell = world
            .command("/bin/sh")
            .args(["-c", "ulimit -c unlimited; exec \"$0\" serve"])
            .arg(Self::program(world));
        Self::start_command(shell, |_| ())
    }

    /// Starts one whose standard error goes to this file.
    ///
    /// # Panics
    /// As [`Toolsrv::start`].
    #[must_use]
    pub fn start_noting(world: &World, file: &Path) -> Self {
        let shell = world
            .command("/bin/sh")
            .args(["-c", "exec \"$0\" serve 2>\"$1\""])
            .arg(Self::program(world))
            .arg(file);
        Self::start_command(shell, |_| ())
    }

    /// Starts one that reads the project's policy file.
    ///
    /// # Panics
    /// As [`Toolsrv::start`].
    #[must_use]
    pub fn start_in_project(world: &World) -> Self {
        let command = world.command(Self::program(world)).arg("serve");
        Self::start_command(command, |boot| boot.project = true)
    }

    /// Starts one that may be given a lease.
    ///
    /// # Panics
    /// As [`Toolsrv::start`].
    #[must_use]
    pub fn start_lasting(world: &World) -> Self {
        Self::start_with(world, false, &["serve", "--lasting"])
    }

    /// `toolsrv attach` to this session, and a connection through it.
    ///
    /// # Panics
    /// If it cannot be reached.
    pub async fn attach(&self, world: &World, agent: &str) -> (Piped, ToolsrvConn) {
        let mut process = world
            .command(Self::program(world))
            .arg("attach")
            .arg(&self.socket)
            .arg("mark")
            .limit(LIMIT)
            .piped();
        let (Some(input), Some(mut output)) = (process.stdin.take(), process.stdout.take()) else {
            panic!("no pipes to toolsrv");
        };
        let line = marked(&mut output);
        match must(serde_json::from_slice(&line), "understand its line") {
            Attach::Attached { .. } => {}
            Attach::Refused { reason } => panic!("it is refused: {reason}"),
        }
        let (reader, writer) = (
            pipe::Receiver::from_owned_fd(OwnedFd::from(output)),
            pipe::Sender::from_owned_fd(OwnedFd::from(input)),
        );
        let key = self.token(agent);
        let credentials = Credentials {
            key: &key,
            session: SESSION,
            agent,
            nonce: None,
        };
        let (reader, writer) = (must(reader, "watch a pipe"), must(writer, "watch a pipe"));
        let conn = dial_toolsrv(reader, writer, credentials, ClientConfig::default()).await;
        (process, must(conn, "connect through toolsrv attach"))
    }

    /// Starts one whose calls are confined by nothing.
    ///
    /// # Panics
    /// As [`Toolsrv::start`].
    #[must_use]
    pub fn start_unconfined(world: &World) -> Self {
        Self::start_with(world, true, &["serve"])
    }

    fn start_with(world: &World, yolo: bool, args: &[&str]) -> Self {
        let command = world.command(Self::program(world)).args(args);
        Self::start_command(command, |boot| boot.yolo = yolo)
    }

    fn start_command(command: Invocation, edit: impl FnOnce(&mut Boot)) -> Self {
        let mut process = command.limit(LIMIT).piped();
        let (Some(mut input), Some(mut output)) = (process.stdin.take(), process.stdout.take())
        else {
            panic!("no pipes to toolsrv");
        };
        let secret = *must(Key::random().map_err(|e| e.to_string()), "make a key").as_bytes();
        let mut boot = boot(secret);
        edit(&mut boot);
        let frame = must(boot.to_frame(), "write the boot record");
        must(input.write_all(&frame), "send the boot record");
        let line = marked(&mut output);
        match must(serde_json::from_slice(&line), "understand the ready line") {
            Ready::Ready {
                nonce,
                pid,
                socket,
                project,
                ..
            } => {
                let behind = project.map_or(0, |file| u64::from(file.bytes));
                let mut text = output.by_ref().take(behind);
                must(
                    std::io::copy(&mut text, &mut std::io::sink()),
                    "read the project's file",
                );
                Self {
                    process,
                    secret,
                    nonce,
                    pid,
                    socket: socket.as_os_str().into(),
                    channel: Some((output, input)),
                }
            }
            Ready::Refused { reason, .. } => panic!("toolsrv refused: {reason}"),
        }
    }

    /// The session's name.
    #[must_use]
    pub fn session(&self) -> &'static str {
        SESSION
    }

    /// The secret of the boot record.
    #[must_use]
    pub fn secret(&self) -> Key {
        Key::from_bytes(self.secret)
    }

    /// The token that proves this agent name.
    #[must_use]
    pub fn token(&self, agent: &str) -> Key {
        self.secret()
            .token(if agent == OWNER { OWNER } else { AGENT })
    }

    /// Its standard output and input, once.
    ///
    /// # Panics
    /// If they were taken before, or outside of a runtime.
    #[must_use]
    pub fn channel(&mut self) -> (pipe::Receiver, pipe::Sender) {
        let Some((output, input)) = self.channel.take() else {
            panic!("the exec channel was taken before");
        };
        let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(output));
        let writer = pipe::Sender::from_owned_fd(OwnedFd::from(input));
        (
            must(reader, "watch a pipe"),
            must(writer, "watch another pipe"),
        )
    }

    /// The first connection, on the exec channel. toolsrv ends with it.
    ///
    /// # Panics
    /// If it fails.
    pub async fn first(&mut self) -> ToolsrvConn {
        let (reader, writer) = self.channel();
        let key = self.secret();
        let credentials = Credentials {
            key: &key,
            session: SESSION,
            agent: "test",
            nonce: Some(self.nonce),
        };
        let conn = dial_toolsrv(reader, writer, credentials, ClientConfig::default()).await;
        must(conn, "connect on the exec channel")
    }

    /// A fresh stream to the socket.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub async fn stream(&self) -> UnixStream {
        must(UnixStream::connect(&self.socket).await, "connect")
    }

    /// A connection to the socket as this agent.
    ///
    /// # Errors
    /// What the client says.
    pub async fn dial(&self, agent: &str) -> Result<ToolsrvConn, Error> {
        self.dial_with(&self.token(agent), SESSION, agent).await
    }

    /// A connection to the socket with these very credentials.
    ///
    /// # Errors
    /// What the client says.
    pub async fn dial_with(
        &self,
        key: &Key,
        session: &str,
        agent: &str,
    ) -> Result<ToolsrvConn, Error> {
        let (reader, writer) = self.stream().await.into_split();
        let credentials = Credentials {
            key,
            session,
            agent,
            nonce: None,
        };
        dial_toolsrv(reader, writer, credentials, ClientConfig::default()).await
    }

    /// Waits until it has ended, after its channel was closed.
    pub fn ended(&mut self) -> ExitStatus {
        drop(self.channel.take());
        self.process.wait()
    }
}

/// Longer than any test takes; a test that hangs is ended by it.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(300);

fn boot(secret: [u8; auth::LEN]) -> Boot {
    let layers = must(ollie_sandbox::layer("default", &[]), "layer the policy");
    let policy = must(layers.to_json(), "write the policy");
    Boot {
        protocol: limits::PROTOCOL,
        mark: "mark".to_owned(),
        secret: Key::from_bytes(secret),
        nonce: None,
        session: SESSION.to_owned(),
        cwd: None,
        policy: must(serde_json::from_slice(&policy), "read the policy"),
        yolo: false,
        project: false,
    }
}

/// Reads the line behind the mark, which is JSON, and not a byte more.
fn marked(output: &mut ChildStdout) -> Vec<u8> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") {
        must(output.read_exact(&mut byte), "read the first line");
        line.push(byte[0]);
    }
    line.strip_prefix(b"mark ").unwrap_or(&line).to_vec()
}

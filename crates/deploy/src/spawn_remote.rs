use std::time::Duration;

use ollie_bundle::Manifest;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;

use crate::answers::{Answer, Answers};
use crate::connections::Found as Way;
use crate::forward::CONTROL;
use crate::process::{Answer as ReadyAnswer, Lifeline, Running};
use crate::ready::{AfterReady, Expect, Start, read_ready};
use crate::ssh::{Route, Ssh};
use crate::stage0::{Serve, Stage0};
use crate::trouble::{self, LaneTrouble, Trouble};
use crate::upload::{self, Packing};
use crate::{
    Arrival, Channel, Connection, Error, Lease, Plan, Process, Remote, Sockets, Step, Transport,
    Upload,
};

/// How long the host may take for a step after its first answer, and how long
/// an upload may stand still.
const STEP: Duration = Duration::from_secs(60);
/// For how long a host that is too busy is asked again. Beside a time no number
/// of attempts: what each takes depends on how busy it is.
const BUSY: Duration = Duration::from_secs(30);
/// The first pause between them; it doubles, and a random part is added.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const BUSY_PAUSE_MAX: Duration = Duration::from_secs(3);
/// How long a host may take for its first answer on a connection that is there:
/// as long as ssh takes to find that it is lost.
const LANE_ANSWER: Duration = Duration::from_secs(15);
/// Shared connections that may be of no use before a session gets its own.
const LANES_MAX: u32 = 3;
/// Roots that may fail while toolsrv is put there.
const ROOTS_MAX: usize = 4;

/// Starts toolsrv on a host, and puts it there first if it is not.
///
/// One ssh, one session channel, unless [`Remote::connections`] are shared, and these round trips after it is connected:
/// one until stage 0 has answered, and one more and the upload where toolsrv
/// is not there. The boot record is on its way when this returns; its answer
/// comes with that of the handshake ([`Process::connect`]), one round trip
/// later. `tell` hears of each step.
///
/// # Errors
/// [`Error::Ssh`] if ssh failed, which is final for authentication;
/// [`Error::NoAnswer`] if what is there is no shell; [`Error::NoRoot`] if
/// toolsrv can be put nowhere; [`Error::Transfer`] behind that.
pub async fn spawn_remote(
    remote: &Remote,
    plan: &Plan,
    tell: &(dyn Fn(&Step) + Sync),
) -> Result<(Process, Channel), Error> {
    spawn_or_attach(remote, plan, None, tell).await
}

/// The same, and where the session of `lease` lives on, the way to it instead
/// of a new toolsrv ([`Process::is_again`]).
///
/// # Errors
/// As [`spawn_remote`].
pub(crate) async fn spawn_or_attach(
    remote: &Remote,
    plan: &Plan,
    lease: Option<&Lease>,
    tell: &(dyn Fn(&Step) + Sync),
) -> Result<(Process, Channel), Error> {
    let lasting = plan.lease.is_some() || lease.is_some();
    if lasting && remote.transport == Transport::Forward {
        return Err(Error::Forward {
            target: remote.target.to_string(),
            problem: "a session with a lease outlives the connection that forwards it".to_owned(),
        });
    }
    let manifest = Manifest::read(&plan.bundle).map_err(|source| Error::Bundle {
        path: plan.bundle.clone(),
        source,
    })?;
    let mut attempt = Attempt {
        remote,
        plan,
        lease,
        manifest: &manifest,
        tell,
        skip: Vec::new(),
        packing: Packing::XzUtils,
        modern: true,
        restricted: false,
        number: 0,
        lanes: 0,
    };
    let mut pause = BUSY_PAUSE;
    let began = tokio::time::Instant::now();
    loop {
        attempt.number += 1;
        match attempt.run().await {
            Ok(started) => return Ok(started),
            Err(Trouble::OldSsh(_)) if attempt.modern => attempt.modern = false,
            Err(Trouble::Restricted(_)) if !attempt.restricted => attempt.restricted = true,
            Err(Trouble::Lane(_)) => attempt.lanes += 1,
            Err(Trouble::Packing { packing, .. }) => attempt.packing = packing,
            Err(Trouble::Root { root, error }) if attempt.skip.len() < ROOTS_MAX => {
                attempt.skip.push((root, error.to_string()));
            }
            Err(Trouble::Busy(_)) if began.elapsed() < BUSY => {
                tell(&Step::Busy);
                tokio::time::sleep(pause + jitter(pause)).await;
                pause = (pause * 2).min(BUSY_PAUSE_MAX);
            }
            Err(trouble) => return Err(trouble.into_error()),
        }
    }
}

/// A random part of `pause`, so that those who were refused together do not
/// come back together.
fn jitter(pause: Duration) -> Duration {
    let byte = ollie_protocol::Nonce::random().map_or(128, |nonce| nonce.as_bytes()[0]);
    pause * u32::from(byte) / 255
}

/// One ssh.
struct Attempt<'a> {
    remote: &'a Remote,
    plan: &'a Plan,
    lease: Option<&'a Lease>,
    manifest: &'a Manifest,
    tell: &'a (dyn Fn(&Step) + Sync),
    /// Roots that failed, and how.
    skip: Vec<(String, String)>,
    /// The best packing that has not failed.
    packing: Packing,
    /// Whether ssh is believed to know the options of OpenSSH 8.7.
    modern: bool,
    /// Whether the login shell may not be replaced.
    restricted: bool,
    number: u32,
    /// Shared connections that were of no use.
    lanes: u32,
}

/// What is known once toolsrv starts.
struct Found {
    facts: Vec<(String, String)>,
    refused: Vec<(String, String)>,
    program: String,
    upload: Option<Upload>,
    /// Whether it leads to the session that lives on.
    again: bool,
}

impl Attempt<'_> {
    async fn run(&self) -> Result<(Process, Channel), Trouble> {
        let boot = self.plan.boot().map_err(Error::Record)?;
        let skip: Vec<&str> = self.skip.iter().map(|(root, _)| root.as_str()).collect();
        let serve = match self.lease {
            Some(lease) => Serve::Again(&lease.socket),
            None if self.plan.lease.is_some() => Serve::Lasting,
            None => Serve::Passing,
        };
        let stage0 = Stage0::new(
            &boot.mark,
            self.manifest,
            &skip.join("\n"),
            &serve,
            self.restricted,
        );
        let sockets = self.sockets()?;
        let control = sockets.as_ref().map(|sockets| sockets.path(CONTROL));
        let (lane, connection) = match self.way(control.is_some()).await? {
            Way::Lane(lane, connection) => (Some(lane), connection),
            Way::Alone(connection) => (None, connection),
        };
        if connection != Connection::First {
            (self.tell)(&Step::Connecting { connection });
        }
        let route = match (&control, &lane) {
            (Some(control), _) => Route::Forward(control),
            (None, Some(lane)) => Route::Lane(lane.socket()),
            (None, None) => Route::Alone,
        };
        let command = Some(stage0.command.as_str());
        let (mut ssh, mut stream) = Ssh::start(self.remote, command, self.modern, route)?;
        ssh.lane = lane;
        // If ssh has ended already, its answer below says why.
        let _ = stream.write_all(stage0.script.as_bytes()).await;
        let mut answers = Answers::new(&boot.mark);
        let found = self.find(&mut ssh, &mut stream, &mut answers).await?;

        let again = self.lease.filter(|_| found.again);
        if again.is_none() {
            let frame = boot.to_frame().map_err(Error::Record)?;
            let _ = stream.write_all(&frame).await;
        }
        let build = self.entry(&found)?.sha256().to_string();
        let arrival = Arrival {
            target: self.remote.target.to_string(),
            transport: match sockets {
                Some(_) => Transport::Forward,
                None => Transport::Stdio,
            },
            connection,
            facts: found.facts,
            program: found.program,
            build,
            upload: found.upload,
            refused: found.refused,
            noise: answers.noise(),
            attempts: self.number,
        };
        let (reader, writer) = stream.into_split();
        if let Some(lease) = again {
            let (reader, said) = AfterReady::new(reader, boot.mark, Expect::Attach, STEP);
            let socket = std::ffi::OsString::from(&lease.socket).into();
            let process = Process {
                running: Running::Remote {
                    ssh,
                    lifeline: None,
                },
                key: lease.token.clone(),
                again: true,
                session: lease.session.clone(),
                ready: ReadyAnswer::Awaited(said, Some((lease.server, socket))),
                project: None,
                arrival: Some(arrival),
            };
            return Ok((process, Channel::new(reader, writer, None)));
        }
        let (ready, project, channel, lifeline) = match sockets {
            None => {
                // The handshake does not wait for the ready line; what reads
                // its answers passes over that first.
                let (reader, said) = AfterReady::new(reader, boot.mark, Expect::Serve, STEP);
                let channel = Channel::new(reader, writer, boot.nonce);
                (ReadyAnswer::Awaited(said, None), None, channel, None)
            }
            Some(sockets) => {
                let mut reader = reader;
                let start = self.ready(&mut ssh, &mut reader, &boot.mark).await?;
                let forwarded = sockets.forward(self.remote, &start.socket).await?;
                let (from, to) = forwarded.into_split();
                let lifeline = Lifeline {
                    _reader: reader,
                    _writer: writer,
                    _sockets: sockets,
                };
                let ready = ReadyAnswer::Known {
                    server: start.server,
                    socket: start.socket,
                };
                let channel = Channel::new(from, to, None);
                (ready, start.project, channel, Some(lifeline))
            }
        };
        let process = Process {
            running: Running::Remote { ssh, lifeline },
            key: boot.secret,
            again: false,
            session: self.plan.session.clone(),
            ready,
            project,
            arrival: Some(arrival),
        };
        Ok((process, channel))
    }

    /// Waits for the ready line where 9P goes another way.
    async fn ready(
        &self,
        ssh: &mut Ssh,
        reader: &mut OwnedReadHalf,
        mark: &str,
    ) -> Result<Start, Error> {
        match read_ready(reader, mark, STEP).await {
            Err(Error::NotReady(problem)) => {
                let (status, said) = ssh.last_words().await;
                Err(Error::NotReady(trouble::with_status(
                    problem, status, &said,
                )))
            }
            other => other,
        }
    }

    /// Which connection to take.
    async fn way(&self, forwards: bool) -> Result<Way, Trouble> {
        match &self.remote.connections {
            Some(connections) if !forwards && self.lanes < LANES_MAX => {
                connections.lane(self.remote, self.modern, self.tell).await
            }
            _ => Ok(Way::Alone(Connection::Own)),
        }
    }

    /// Why the first answer did not come.
    async fn unanswered(&self, ssh: &mut Ssh, problem: String) -> Trouble {
        let Some(lane) = ssh.lane.take() else {
            return trouble::of_ssh(self.remote, ssh, problem).await;
        };
        let (trouble, found) = trouble::of_lane(self.remote, ssh, problem).await;
        match found {
            Some(LaneTrouble::Full) => {
                lane.refused();
                (self.tell)(&Step::Full);
            }
            Some(LaneTrouble::Dead) => {
                lane.distrust();
                (self.tell)(&Step::Dead);
            }
            None => {}
        }
        trouble
    }

    fn sockets(&self) -> Result<Option<Sockets>, Error> {
        match (self.remote.transport, &self.remote.runtime) {
            (Transport::Auto | Transport::Stdio, _) => Ok(None),
            (Transport::Forward, Some(runtime)) => Sockets::make(runtime).map(Some),
            (Transport::Forward, None) => Err(Error::Forward {
                target: self.remote.target.to_string(),
                problem: "there is no directory for sockets on this machine".to_owned(),
            }),
        }
    }

    /// Listens to stage 0 until it becomes toolsrv.
    async fn find(
        &self,
        ssh: &mut Ssh,
        stream: &mut UnixStream,
        answers: &mut Answers,
    ) -> Result<Found, Trouble> {
        let mut found = Found {
            facts: Vec::new(),
            refused: Vec::new(),
            program: String::new(),
            upload: None,
            again: false,
        };
        let mut limit = self.remote.answer_timeout;
        if ssh.lane.is_some() {
            limit = limit.min(LANE_ANSWER);
        }
        loop {
            let answer = match answers.next(stream, limit).await {
                Ok(answer) => answer,
                Err(problem) if found.facts.is_empty() => {
                    return Err(self.unanswered(ssh, problem).await);
                }
                Err(problem) => return Err(trouble::of_ssh(self.remote, ssh, problem).await),
            };
            limit = STEP;
            match answer {
                Answer::Fact { name, value } => {
                    found.facts.push((name.clone(), value));
                    if name == "tools" {
                        (self.tell)(&Step::Answered {
                            host: found.platform(),
                        });
                    }
                }
                Answer::Refused { root, reason } => self.refused(&mut found, root, reason),
                Answer::Need { root } => self.send(stream, answers, &mut found, root).await?,
                Answer::Run { program } => found.program = program,
                Answer::Attach { program } if self.lease.is_some() => {
                    (self.tell)(&Step::Attaching {
                        program: program.clone(),
                    });
                    found.program = program;
                    found.again = true;
                    return Ok(found);
                }
                Answer::Attach { program } => {
                    let problem = format!("it attaches to {program} unasked");
                    return Err(self.transfer(problem).into());
                }
                Answer::Failed { reason } => return Err(self.transfer(reason).into()),
                Answer::Lacks { programs } => {
                    let target = self.remote.target.to_string();
                    return Err(Error::Lacks { target, programs }.into());
                }
                Answer::Stuck => return Err(self.stuck(found).into()),
            }
            if !found.program.is_empty() {
                (self.tell)(&Step::Starting {
                    program: found.program.clone(),
                    upload: found.upload,
                });
                return Ok(found);
            }
        }
    }

    fn refused(&self, found: &mut Found, root: String, reason: String) {
        let before = self.skip.iter().find(|(failed, _)| *failed == root);
        let reason = before.map_or(reason, |(_, reason)| reason.clone());
        (self.tell)(&Step::Refused {
            root: root.clone(),
            reason: reason.clone(),
        });
        found.refused.push((root, reason));
    }

    /// Sends toolsrv and waits until it is in its place, or refused there.
    async fn send(
        &self,
        stream: &mut UnixStream,
        answers: &mut Answers,
        found: &mut Found,
        root: String,
    ) -> Result<(), Trouble> {
        let entry = self.entry(found)?;
        let packing = self.packing.best(found.fact("tools"), found.fact("arch"));
        let bundle = self.plan.bundle.clone();
        let arch = found.fact("arch").to_owned();
        let kept = self.remote.packed.clone();
        let digest = entry.sha256();
        if upload::takes_long(kept.as_deref(), digest, packing) {
            (self.tell)(&Step::Packing);
        }
        let packing_it = tokio::task::spawn_blocking(move || {
            upload::pack(&bundle, &arch, digest, packing, kept.as_deref())
        });
        let packed = packing_it.await.map_err(|error| Error::Pack {
            source: std::io::Error::other(error),
        })??;
        let sent = packed.len() as u64;
        (self.tell)(&Step::Sending {
            root: root.clone(),
            packing,
            bytes: sent,
        });
        let (mut reader, mut writer) = stream.split();
        let writing = async {
            let line = format!("{} put {sent} {packing}\n", answers.word());
            writer.write_all(line.as_bytes()).await?;
            for chunk in packed.chunks(64 * 1024) {
                match tokio::time::timeout(STEP, writer.write_all(chunk)).await {
                    Ok(written) => written?,
                    Err(_) => return Err(std::io::ErrorKind::TimedOut.into()),
                }
            }
            Ok(())
        };
        // The host may give up before it has everything, so what it says is
        // read also when it could not be written.
        let written: std::io::Result<()> = writing.await;
        let answer = answers.next(&mut reader, STEP).await;
        let upload = Upload {
            sent,
            size: entry.size(),
            packing,
        };
        match answer {
            Ok(Answer::Run { program }) => {
                found.arrived(program, upload);
                Ok(())
            }
            Ok(Answer::Attach { program }) if self.lease.is_some() => {
                found.arrived(program, upload);
                found.again = true;
                Ok(())
            }
            Ok(Answer::Refused { root, reason }) => {
                self.refused(found, root, reason);
                Ok(())
            }
            Ok(Answer::Failed { reason }) => {
                if let Some(kept) = &self.remote.packed {
                    upload::forget(kept, entry.sha256(), packing);
                }
                let error = self.transfer(reason);
                Err(match packing.simpler() {
                    // The program that unpacks it there may be the reason.
                    Some(packing) => Trouble::Packing { packing, error },
                    None => Trouble::Root { root, error },
                })
            }
            Ok(other) => Err(self.transfer(format!("unexpected answer {other:?}")).into()),
            Err(problem) => {
                let problem = match written {
                    Ok(()) => problem,
                    Err(error) => format!("{error}; {problem}"),
                };
                Err(self
                    .transfer(format!("{sent} bytes to {root}: {problem}"))
                    .into())
            }
        }
    }

    fn entry(&self, found: &Found) -> Result<&ollie_bundle::Entry, Error> {
        let toolsrv = self.manifest.toolsrv("linux", found.fact("arch"));
        toolsrv.map_err(|source| Error::Bundle {
            path: self.plan.bundle.clone(),
            source,
        })
    }

    fn transfer(&self, problem: String) -> Error {
        Error::Transfer {
            target: self.remote.target.to_string(),
            problem,
        }
    }

    /// Why stage 0 found no way.
    fn stuck(&self, found: Found) -> Error {
        let target = self.remote.target.to_string();
        let os = found.fact("os");
        if os != "Linux" {
            return Error::Platform {
                target,
                platform: found.platform(),
            };
        }
        match self.entry(&found) {
            Ok(_) => Error::NoRoot {
                target,
                refused: found.refused,
            },
            Err(error) => error,
        }
    }
}

impl Found {
    fn arrived(&mut self, program: String, upload: Upload) {
        self.program = program;
        self.upload = Some(upload);
    }

    fn fact(&self, name: &str) -> &str {
        let fact = self.facts.iter().find(|(known, _)| known == name);
        fact.map_or("", |(_, value)| value)
    }

    fn platform(&self) -> String {
        let fact = |name| self.fact(name);
        format!("{} {} {}", fact("os"), fact("kernel"), fact("arch"))
    }
}

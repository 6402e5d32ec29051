//! Sessions of one process share an ssh connection to a host, each with a
//! toolsrv of its own.
#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ninep_rs::ClientConfig;
use ollie_client::CallEvent;
use ollie_deploy::{
    Askpass, Connection, Connections, Error, Kept, Place, Plan, ProcessKeeper, Remote, Step,
};
use ollie_protocol::{CallId, ToolCall};
use ollie_tests::{Devbox, Process, Relay, Tree, World, await_that};

/// The idle time of a connection, and what a busy machine adds.
const IDLE: Duration = Duration::from_secs(12);

/// A process that keeps connections.
struct Shared<'w> {
    world: &'w World,
    directory: PathBuf,
    connections: Arc<Connections>,
}

impl<'w> Shared<'w> {
    fn new(world: &'w World) -> Self {
        let directory = world.base().join("run/ollie");
        let connections = Arc::new(Connections::kept(&directory));
        Self {
            world,
            directory,
            connections,
        }
    }

    fn remote(&self, devbox: &Devbox<'_>, target: &str) -> Remote {
        let mut remote = Remote::new(target.parse().unwrap());
        remote.ssh = devbox.ssh();
        remote.packed = Some(self.world.home().join(".cache/ollie/packed"));
        remote.connections = Some(Arc::clone(&self.connections));
        remote
    }

    fn keeper(&self, devbox: &Devbox<'_>, target: &str) -> ProcessKeeper {
        self.keeper_of(self.remote(devbox, target))
    }

    fn keeper_of(&self, remote: Remote) -> ProcessKeeper {
        let policy = ollie_sandbox::layer("default", &[])
            .unwrap()
            .to_json()
            .unwrap();
        let plan = Plan {
            bundle: self.world.dist().bundle(),
            policy: String::from_utf8(policy).unwrap(),
            cwd: None,
            yolo: false,
            project: false,
            session: "kept".to_owned(),
            lease: None,
            withheld: Vec::new(),
        };
        let place = Place::There(Box::new(remote));
        ProcessKeeper::new(place, plan, "test", ClientConfig::default())
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.directory.join("ssh"));
        let entries = entries.into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// The process ids of its connections.
    fn masters(&self) -> Vec<u32> {
        masters(&self.directory)
    }

    /// Its end, and that nothing is left of it.
    fn end(self, devbox: &Devbox<'_>) {
        drop(self.connections);
        assert!(!self.directory.exists());
        let directory = &self.directory;
        assert!(await_that(IDLE, || masters(directory).is_empty()));
        devbox.nothing_left();
    }
}

fn masters(directory: &Path) -> Vec<u32> {
    // A client's does not have the persistence.
    let words = [&format!("{}/ssh/", directory.display()), "ControlPersist"];
    let all = Process::all().into_iter();
    all.filter(|process| words.iter().all(|word| process.mentions(word)))
        .map(|process| process.pid)
        .collect()
}

async fn get(keeper: &ProcessKeeper) -> Result<Kept, Error> {
    keeper.get(&|_| ()).await
}

fn connection(kept: &Kept) -> Connection {
    kept.process().arrival.as_ref().unwrap().connection
}

fn call(id: &str, code: &str) -> ToolCall {
    let mut call = ToolCall::new(CallId::new(id).unwrap(), "shell");
    call.args.insert("code".to_owned(), code.into());
    call
}

async fn said(kept: &Kept, id: &str, code: &str) -> String {
    let mut running = kept.conn().call(&call(id, code)).unwrap();
    while let Some(event) = running.next().await.unwrap() {
        if let CallEvent::Result(result) = event {
            return result.content;
        }
    }
    String::new()
}

/// Everything a test does with keepers, on a runtime of its own.
fn on_a_runtime<F: Future<Output = ()>>(test: F) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

fn logins(devbox: &Devbox<'_>) -> usize {
    devbox.logged("Accepted publickey")
}

/// Makes twenty sessions at once; how often somebody logged in.
fn twenty_at_once(config: &str) -> Option<usize> {
    let world = World::with_ssh("shared connections")?;
    let devbox = world.devbox().config(config).start();
    // toolsrv is there, so that what is counted are sessions.
    let _ = devbox.shell("true").run().has_status(0);
    let shared = Shared::new(&world);
    let before = logins(&devbox);
    on_a_runtime(async {
        let keepers: Vec<_> = (0..20)
            .map(|_| Arc::new(shared.keeper(&devbox, &devbox.target())))
            .collect();
        let asking: Vec<_> = keepers
            .iter()
            .cloned()
            .map(|keeper| tokio::spawn(async move { get(&keeper).await.unwrap() }))
            .collect();
        let mut servers = Vec::new();
        for asker in asking {
            servers.push(asker.await.unwrap().process().server().unwrap());
        }
        servers.sort_unstable();
        servers.dedup();
        assert_eq!(servers.len(), 20);
        for keeper in keepers {
            assert!(Arc::into_inner(keeper).unwrap().end().await);
        }
    });
    let count = logins(&devbox) - before;
    shared.end(&devbox);
    Some(count)
}

#[test]
fn twenty_sessions_at_once_log_in_once() {
    if let Some(count) = twenty_at_once("MaxSessions 100") {
        assert_eq!(count, 1);
    }
}

/// Ten is the default of sshd_config(5).
#[test]
fn where_a_connection_takes_ten_sessions_twenty_log_in_twice() {
    if let Some(count) = twenty_at_once("MaxSessions 10") {
        assert_eq!(count, 2);
    }
}

#[test]
fn where_a_connection_takes_one_session_each_has_its_own() {
    let Some(world) = World::with_ssh("MaxSessions 1") else {
        return;
    };
    let devbox = world.devbox().config("MaxSessions 1").start();
    let shared = Shared::new(&world);
    on_a_runtime(async {
        let [one, two] = [0; 2].map(|_| shared.keeper(&devbox, &devbox.target()));
        let first = get(&one).await.unwrap();
        let steps = Mutex::new(Vec::new());
        let tell = |step: &Step| steps.lock().unwrap().push(step.clone());
        let second = two.get(&tell).await.unwrap();
        assert!(steps.lock().unwrap().contains(&Step::Full));
        assert_eq!(said(&first, "c-1", "echo one").await, "one\n");
        assert_eq!(said(&second, "c-1", "echo two").await, "two\n");
        assert_eq!(logins(&devbox), 2);
        drop((first, second));
        assert!(one.end().await && two.end().await);
    });
    shared.end(&devbox);
}

/// The connection is nobody's, also where a program of the user's carries it.
#[test]
fn the_end_of_the_first_session_ends_no_other() {
    let Some(world) = World::with_ssh("the first of several") else {
        return;
    };
    let devbox = world.devbox().start();
    devbox.ssh_config(&format!(
        "Host beside\n HostName 127.0.0.1\n Port {}\n User dev\n ProxyCommand {} -W [%h]:%p devbox\n",
        devbox.port(),
        devbox.ssh().display()
    ));
    for (target, count) in [("devbox", 1), ("beside", 3)] {
        let shared = Shared::new(&world);
        on_a_runtime(async {
            let [one, two] = [0; 2].map(|_| shared.keeper(&devbox, target));
            let first = get(&one).await.unwrap();
            let second = get(&two).await.unwrap();
            assert_eq!(connection(&first), Connection::First);
            assert_eq!(connection(&second), Connection::Shared);
            // Not in peace: its ssh is killed.
            drop((first, one));
            assert_eq!(said(&second, "c-1", "sleep 1; echo on").await, "on\n");
            assert_eq!(second.generation, 1);
            let third = shared.keeper(&devbox, target);
            assert_eq!(connection(&get(&third).await.unwrap()), Connection::Shared);
            drop(second);
            assert!(two.end().await && third.end().await);
        });
        assert_eq!(logins(&devbox), count, "{target}");
        shared.end(&devbox);
    }
}

#[test]
fn a_connection_that_is_killed_is_made_once_more_for_all() {
    let Some(world) = World::with_ssh("a killed connection") else {
        return;
    };
    let devbox = world.devbox().start();
    let shared = Shared::new(&world);
    on_a_runtime(async {
        let [one, two] = [0; 2].map(|_| shared.keeper(&devbox, &devbox.target()));
        let (first, second) = (get(&one).await.unwrap(), get(&two).await.unwrap());
        let sockets = shared.sockets();
        assert_eq!(sockets.len(), 1);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&sockets[0]), 0o600);
        assert_eq!(mode(&shared.directory.join("ssh")), 0o700);
        let masters = shared.masters();
        assert_eq!(masters.len(), 1);
        Tree::kill(masters[0]);
        for kept in [&first, &second] {
            kept.conn().closed().await;
        }
        // What it left is no way to anywhere.
        assert!(sockets[0].exists());
        drop((first, second));
        let (first, second) = tokio::join!(get(&one), get(&two));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!((first.generation, second.generation), (2, 2));
        assert_eq!(said(&first, "c-1", "echo one").await, "one\n");
        assert_eq!(said(&second, "c-1", "echo two").await, "two\n");
        assert_eq!(logins(&devbox), 2);
        assert!(!sockets[0].exists());
        drop((first, second));
        assert!(one.end().await && two.end().await);
    });
    shared.end(&devbox);
}

#[test]
fn after_silence_nothing_new_goes_over_the_same_connection() {
    let Some(world) = World::with_ssh("a silent connection") else {
        return;
    };
    let devbox = world
        .devbox()
        .config("ClientAliveInterval 5\nClientAliveCountMax 1")
        .start();
    let relay = Relay::to(devbox.port());
    let target = devbox.through(&relay);
    let shared = Shared::new(&world);
    on_a_runtime(async {
        let [one, two] = [0; 2].map(|_| shared.keeper(&devbox, &target));
        let (first, second) = (get(&one).await.unwrap(), get(&two).await.unwrap());
        let _running = first.conn().call(&call("c-1", "sleep 4242")).unwrap();
        let _other = second.conn().call(&call("c-1", "sleep 4242")).unwrap();
        relay.lose_everything(true);
        let began = Instant::now();
        tokio::join!(first.silence(), second.silence());
        assert!(began.elapsed() < Duration::from_secs(16));
        relay.lose_everything(false);
        one.abandon(&first).await;
        two.abandon(&second).await;
        let began = Instant::now();
        let again = get(&one).await.unwrap();
        let other = get(&two).await.unwrap();
        // ssh itself needs 15 s to find that the old one is lost.
        assert!(began.elapsed() < Duration::from_secs(10));
        assert_eq!(said(&again, "c-2", "echo on").await, "on\n");
        assert_eq!(connection(&again), Connection::First);
        assert_eq!(connection(&other), Connection::Shared);
        assert_eq!(logins(&devbox), 2);
    });
    shared.end(&devbox);
}

/// One session whose toolsrv does not answer does not take the connection
/// from the others.
#[test]
fn a_stopped_toolsrv_ends_no_other_session() {
    let Some(world) = World::with_ssh("a stopped toolsrv") else {
        return;
    };
    let devbox = world.devbox().start();
    let shared = Shared::new(&world);
    on_a_runtime(async {
        let [one, two] = [0; 2].map(|_| shared.keeper(&devbox, &devbox.target()));
        let (first, second) = (get(&one).await.unwrap(), get(&two).await.unwrap());
        let _running = first.conn().call(&call("c-1", "sleep 4242")).unwrap();
        let server = first.process().server().unwrap();
        let stopped = rustix::process::Pid::from_raw(server.cast_signed()).unwrap();
        rustix::process::kill_process(stopped, rustix::process::Signal::STOP).unwrap();
        let _ = first.silence().await;
        one.abandon(&first).await;
        assert_eq!(connection(&get(&one).await.unwrap()), Connection::First);
        assert_eq!(said(&second, "c-2", "echo on").await, "on\n");
        rustix::process::kill_process(stopped, rustix::process::Signal::CONT).unwrap();
    });
    shared.end(&devbox);
}

#[test]
fn the_users_own_master_goes_first_and_lives_on() {
    let Some(world) = World::with_ssh("the user's master") else {
        return;
    };
    let devbox = world.devbox().start();
    let path = world.base().join("ctl");
    devbox.ssh_config(&format!(
        "Host *\n ControlMaster auto\n ControlPath {}\n",
        path.display()
    ));
    let port = devbox.port().to_string();
    let master = world
        .command(devbox.ssh())
        .args(["-M", "-N", "-p", &port, "dev@127.0.0.1"])
        .spawn();
    assert!(await_that(Duration::from_secs(20), || path.exists()));
    let shared = Shared::new(&world);
    on_a_runtime(async {
        for _ in 0..2 {
            let keeper = shared.keeper(&devbox, &devbox.target());
            assert_eq!(connection(&get(&keeper).await.unwrap()), Connection::Users);
            assert!(keeper.end().await);
        }
        assert_eq!(logins(&devbox), 1);
        assert!(path.exists());
        // Once it is gone, and has left its socket, it is not waited for.
        drop(master);
        let keeper = shared.keeper(&devbox, &devbox.target());
        assert_eq!(connection(&get(&keeper).await.unwrap()), Connection::First);
        assert!(keeper.end().await);
    });
    shared.end(&devbox);
}

#[test]
fn a_refused_key_and_an_unknown_host_are_final_for_each() {
    let Some(world) = World::with_ssh("shared refusals") else {
        return;
    };
    let devbox = world.devbox().start();
    std::fs::write(devbox.path("run/devbox/authorized_keys"), "").unwrap();
    let shared = Shared::new(&world);
    on_a_runtime(async {
        let keepers = [0; 3].map(|_| shared.keeper(&devbox, &devbox.target()));
        for keeper in &keepers {
            for _ in 0..2 {
                let error = get(keeper).await.unwrap_err();
                assert!(matches!(error, Error::Final(_)), "{error:?}");
            }
        }
        assert_eq!(devbox.logged("Failed publickey"), 3);
        std::fs::write(devbox.path("known_hosts"), "").unwrap();
        let error = get(&shared.keeper(&devbox, "devbox")).await.unwrap_err();
        assert!(format!("{error:?}").contains("HostKey"), "{error:?}");
        assert!(shared.sockets().is_empty());
    });
    shared.end(&devbox);
}

/// Who makes the connection is asked; who shares it is not.
#[test]
fn questions_reach_whoever_makes_the_connection() {
    let Some(world) = World::with_ssh("shared questions") else {
        return;
    };
    let devbox = world.devbox().start();
    let changed = world
        .command("/usr/bin/ssh-keygen")
        .args(["-q", "-p", "-P", "", "-N", "open sesame", "-f"])
        .arg(devbox.path("key"))
        .run();
    let _ = changed.has_status(0);
    let asked = world.base().join("asked");
    let asker = |name: &str| {
        let program = world.write_program(
            format!("outside/{name}"),
            &format!(
                "#!/bin/sh\necho {name} >>{}\necho open sesame\n",
                asked.display()
            ),
        );
        Askpass {
            program,
            variable: ("UNUSED".to_owned(), String::new()),
        }
    };
    let shared = Shared::new(&world);
    on_a_runtime(async {
        let keepers = ["one", "two"].map(|name| {
            let mut remote = shared.remote(&devbox, &devbox.target());
            remote.askpass = Some(asker(name));
            shared.keeper_of(remote)
        });
        for keeper in &keepers {
            let kept = get(keeper).await.unwrap();
            assert_eq!(said(&kept, "c-1", "echo on").await, "on\n");
        }
        assert_eq!(std::fs::read_to_string(&asked).unwrap(), "one\n");
        let [one, two] = keepers;
        assert!(one.end().await && two.end().await);
    });
    std::fs::remove_file(asked).unwrap();
    shared.end(&devbox);
}

//! A session with a lease outlives its connection, and the next one finds it
//! again.
#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ninep_rs::ClientConfig;
use ollie_client::CallEvent;
use ollie_deploy::{Error, Leased, Leases, Place, Plan, ProcessKeeper, Remote, Step};
use ollie_protocol::{CallId, Exit, ToolResult};
use ollie_tests::{Devbox, Process, Tree, World, await_that, gap, shell_call};
use tokio::sync::mpsc;

const MINUTE: Duration = Duration::from_secs(60);

fn keeper(devbox: &Devbox<'_>, world: &World, lease: Option<Duration>) -> ProcessKeeper {
    let mut remote = Remote::new(devbox.target().parse().unwrap());
    remote.ssh = devbox.ssh();
    remote.packed = Some(world.home().join(".cache/ollie/packed"));
    let policy = ollie_sandbox::layer("default", &[]).unwrap();
    let plan = Plan {
        bundle: world.dist().bundle(),
        policy: String::from_utf8(policy.to_json().unwrap()).unwrap(),
        cwd: Some("project".into()),
        yolo: false,
        project: false,
        session: "kept".to_owned(),
        lease,
        withheld: Vec::new(),
    };
    let place = Place::There(Box::new(remote));
    ProcessKeeper::new(place, plan, "test", ClientConfig::default()).leases(leases(world), "a test")
}

fn leases(world: &World) -> Leases {
    Leases::new(world.base().join("home/leases"))
}

fn devbox(world: &World) -> Devbox<'_> {
    world
        .devbox()
        .hook("mkdir /home/dev/project; chown dev /home/dev/project")
        .start()
}

/// Kills the ssh of this process that leads to the devbox.
fn drop_connection(devbox: &Devbox<'_>) {
    let ssh = Process::all()
        .into_iter()
        .filter(|process| process.parent == std::process::id())
        .find(|process| process.mentions(&devbox.port().to_string()));
    Tree::kill(ssh.unwrap().pid);
}

/// A command that says a line each time a file appears.
fn by_steps(count: u32) -> String {
    format!(
        "for i in $(seq {count}); do echo line $i; echo err $i >&2; \
         while [ ! -e go-$i ]; do sleep 0.01; done; done; exit 5"
    )
}

fn go(devbox: &Devbox<'_>, step: u32) {
    std::fs::write(devbox.home().join(format!("project/go-{step}")), "").unwrap();
}

/// Everything a test does, on a runtime of its own.
fn on_a_runtime<F: Future<Output = ()>>(test: F) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

/// Follows a call, and hears what it says as it says it.
async fn hearing(
    mut hear: impl FnMut(CallEvent),
    call: impl AsyncFnOnce(&mpsc::Sender<CallEvent>) -> Result<ToolResult, Error>,
) -> Result<ToolResult, Error> {
    let (to, mut events) = mpsc::channel(1);
    let following = async move { call(&to).await };
    let listening = async {
        while let Some(event) = events.recv().await {
            hear(event);
        }
    };
    tokio::join!(following, listening).0
}

/// What a call has said, whichever stream.
#[derive(Default)]
struct Heard {
    bytes: Vec<u8>,
}

impl Heard {
    fn hear(&mut self, event: CallEvent) {
        if let CallEvent::Output { data, .. } = event {
            self.bytes.extend_from_slice(&data);
        }
    }

    /// Lines of this beginning, in their order.
    fn lines(&self, beginning: &str) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        let lines = text.lines().filter(|line| line.starts_with(beginning));
        lines.map(str::to_owned).collect()
    }
}

fn numbered(beginning: &str, count: u32) -> Vec<String> {
    (1..=count).map(|i| format!("{beginning} {i}")).collect()
}

#[test]
fn a_call_and_its_output_go_on_through_drops_and_nothing_is_lost_or_doubled() {
    let Some(world) = World::with_ssh("leases") else {
        return;
    };
    let devbox = devbox(&world);
    on_a_runtime(async {
        let prepared = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&prepared);
        let keeper = keeper(&devbox, &world, Some(MINUTE)).prepare(move |conn, _| {
            count.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move { Ok(conn.ping().await?) })
        });
        let mut heard = Heard::default();
        let attached = AtomicU32::new(0);
        let tell = |step: &Step| {
            if matches!(step, Step::Attaching { .. }) {
                attached.fetch_add(1, Ordering::SeqCst);
            }
        };
        let mut step = 1;
        let hear = |event| {
            heard.hear(event);
            while step <= 5
                && heard.lines("line").len() >= step as usize
                && heard.lines("err").len() >= step as usize
            {
                drop_connection(&devbox);
                go(&devbox, step);
                step += 1;
            }
        };
        let call = shell_call("long", &by_steps(5));
        let result = ok(hearing(hear, async |to| keeper.call(&call, to, &tell).await).await);
        assert_eq!(result.exit, Some(Exit::Code(5)));
        assert_eq!(heard.lines("line"), numbered("line", 5));
        assert_eq!(heard.lines("err"), numbered("err", 5));
        assert_eq!(attached.load(Ordering::SeqCst), 5);
        let kept = keeper.get(&tell).await.unwrap();
        assert_eq!(kept.generation, 1);
        assert_eq!(kept.leased(), &Leased::For(MINUTE));
        assert_eq!(
            prepared.load(Ordering::SeqCst),
            1,
            "the toolsrv is the same"
        );
        drop(kept);

        // The key is there for its owner alone, and goes with the session.
        let file = world.home().join("leases/kept.json");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(keeper.end().await);
        assert!(!file.exists());
    });
    devbox.nothing_left();
}

#[test]
fn without_a_lease_the_outcome_is_unknown_and_the_next_toolsrv_is_prepared_anew() {
    let Some(world) = World::with_ssh("no lease") else {
        return;
    };
    let devbox = devbox(&world);
    on_a_runtime(async {
        let prepared = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&prepared);
        let keeper = keeper(&devbox, &world, None).prepare(move |conn, _| {
            count.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move { Ok(conn.ping().await?) })
        });
        let call = shell_call("short", "echo x >>count; echo counted; exec sleep 4242");
        let hear = |event: CallEvent| {
            if matches!(event, CallEvent::Output { .. }) {
                drop_connection(&devbox);
            }
        };
        let end = hearing(hear, async |to| keeper.call(&call, to, &|_| ()).await).await;
        let error = end.unwrap_err();
        assert!(matches!(error, Error::Unknown(_)), "{error:?}");
        let next = shell_call("next", "cat count");
        let result = ok(hearing(|_| (), async |to| keeper.call(&next, to, &|_| ()).await).await);
        assert_eq!(result.content, "x\n", "it ran once");
        assert_eq!(prepared.load(Ordering::SeqCst), 2);
        assert!(!world.home().join("leases").exists(), "no key is kept");
        assert!(keeper.end().await);
    });
    devbox.nothing_left();
}

fn ok(result: Result<ToolResult, Error>) -> ToolResult {
    result.unwrap_or_else(|error| panic!("{error:?}"))
}

#[test]
fn another_process_takes_the_session_up_again() {
    let Some(world) = World::with_ssh("leases across processes") else {
        return;
    };
    let devbox = devbox(&world);
    on_a_runtime(async {
        let first = keeper(&devbox, &world, Some(MINUTE));
        let kept = first.get(&|_| ()).await.unwrap();
        let server = kept.process().server();
        kept.conn()
            .start(&shell_call("bg", &by_steps(2)))
            .await
            .unwrap();
        // As after a kill -9: nobody says goodbye.
        drop((kept, first));
        go(&devbox, 1);

        let second = keeper(&devbox, &world, Some(MINUTE));
        let mut heard = Heard::default();
        let hear = |event| {
            heard.hear(event);
            if heard.lines("line").len() == 2 {
                go(&devbox, 2);
            }
        };
        let id = CallId::new("bg").unwrap();
        let result = ok(hearing(hear, async |to| second.resume(&id, to, &|_| ()).await).await);
        assert_eq!(result.exit, Some(Exit::Code(5)));
        assert_eq!(heard.lines("line"), numbered("line", 2));
        let kept = second.get(&|_| ()).await.unwrap();
        assert_eq!(kept.process().server(), server);
        drop(kept);
        assert!(second.end().await);
    });
    devbox.nothing_left();
}

#[test]
fn a_session_whose_time_has_run_out_is_gone_and_a_new_one_starts() {
    let Some(world) = World::with_ssh("leases that run out") else {
        return;
    };
    let devbox = devbox(&world);
    on_a_runtime(async {
        let second = Duration::from_secs(1);
        let keeper = keeper(&devbox, &world, Some(second));
        let kept = keeper.get(&|_| ()).await.unwrap();
        kept.conn()
            .start(&shell_call("bg", "exec sleep 4242"))
            .await
            .unwrap();
        drop_connection(&devbox);
        kept.conn().closed().await;
        drop(kept);
        let gone = await_that(Duration::from_secs(15), || devbox.leftovers().is_empty());
        assert!(gone, "{:?}", devbox.leftovers());
        let kept = keeper.get(&|_| ()).await.unwrap();
        assert_eq!(kept.generation, 2);
        let fate = kept.conn().fate(&CallId::new("bg").unwrap()).await.unwrap();
        assert_eq!(fate, ollie_client::Fate::NeverStarted, "not in this one");
        drop(kept);
        assert!(keeper.end().await);
    });
    devbox.nothing_left();
}

/// The stated limit of cleaning up: nobody is left who could.
#[test]
fn a_session_that_was_killed_as_a_whole_is_replaced_and_its_directories_go() {
    let Some(world) = World::with_ssh("dead sessions") else {
        return;
    };
    let devbox = devbox(&world);
    on_a_runtime(async {
        let keeper = keeper(&devbox, &world, Some(MINUTE));
        let kept = keeper.get(&|_| ()).await.unwrap();
        let socket = kept.process().socket().unwrap().as_os_str().to_owned();
        let all = devbox.processes();
        all.iter().for_each(|process| Tree::stop(process.pid));
        all.iter().for_each(|process| Tree::kill(process.pid));
        kept.conn().closed().await;
        drop(kept);
        let name = std::path::Path::new(&socket).strip_prefix("/tmp").unwrap();
        let left = devbox.path("tmp").join(name);
        assert!(left.exists(), "nothing is left, so nothing is tested");
        let kept = keeper.get(&|_| ()).await.unwrap();
        assert_eq!(kept.generation, 2);
        let gone = await_that(Duration::from_secs(10), || !left.exists());
        assert!(gone, "{}", left.display());
        drop(kept);
        assert!(keeper.end().await);
    });
    devbox.nothing_left();
}

/// logind.conf(5): with KillUserProcesses and without lingering, a user's
/// processes end at logout, and a place below /dev/shm goes (RemoveIPC).
#[test]
fn where_logind_would_end_it_a_lease_is_refused_with_the_reason() {
    let Some(world) = World::with_ssh("logind") else {
        return;
    };
    let cgroup = LoginScope::make();
    let kills = "mkdir -p /run/systemd/users /run/systemd/logind.conf.d\n\
                 echo '[Login]\nKillUserProcesses=yes' >/run/systemd/logind.conf.d/1.conf";
    for (tmpdir, says) in [
        ("/dev/shm", "removes at logout"),
        ("/tmp", "KillUserProcesses"),
    ] {
        if tmpdir == "/tmp" && cgroup.is_none() {
            return gap("KillUserProcesses", "needs a cgroup of one's own");
        }
        let scope = cgroup.as_ref().map(LoginScope::enter).unwrap_or_default();
        let devbox = world
            .devbox()
            .hook("mkdir -p /home/dev/project; chown dev /home/dev/project")
            .hook(kills)
            .hook(&scope)
            .config(&format!("SetEnv TMPDIR={tmpdir}"))
            .start();
        on_a_runtime(async {
            let keeper = keeper(&devbox, &world, Some(MINUTE));
            let kept = keeper.get(&|_| ()).await.unwrap();
            let Leased::Refused(reason) = kept.leased() else {
                panic!("{:?}", kept.leased())
            };
            assert!(reason.contains(says), "{reason}");
            assert!(reason.contains("enable-linger dev"), "{reason}");
            assert!(leases(&world).find("kept").is_none(), "no key is kept");
            drop(kept);
            assert!(keeper.end().await);
        });
        devbox.nothing_left();
    }
}

/// A control group with the name that logind gives a login's.
struct LoginScope(std::path::PathBuf);

impl LoginScope {
    fn make() -> Option<Self> {
        let name = format!("session-{}.scope", std::process::id());
        ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .map(|base| std::path::Path::new(base).join(&name))
            .into_iter()
            .find(|scope| std::fs::create_dir(scope).is_ok() && scope.join("cgroup.procs").exists())
            .map(Self)
    }

    /// The line of shell that enters it.
    fn enter(&self) -> String {
        format!("echo $$ >{}/cgroup.procs", self.0.display())
    }
}

impl Drop for LoginScope {
    fn drop(&mut self) {
        // Its last process is gone a moment after it was waited for.
        await_that(Duration::from_secs(5), || {
            std::fs::remove_dir(&self.0).is_ok()
        });
    }
}

#[test]
fn a_command_outlives_olliesrv_and_reattach_ends_as_it_does() {
    let Some(world) = World::with_ssh("exec --lease") else {
        return;
    };
    let devbox = devbox(&world);
    let start = || {
        let running = devbox
            .ollie([
                "exec",
                "--lease",
                "1m",
                "--cwd",
                "project",
                &devbox.target(),
            ])
            .args(["--", "sh", "-c", &by_steps(3)])
            .spawn();
        running.await_stdout("line 1");
        running.signal(rustix::process::Signal::KILL);
        let _ = running.finish().has_status(137);
        let list = devbox.ollie(["reattach"]).run().ok();
        assert!(list.contains(&devbox.target()), "{list}");
        list.split(' ').next().unwrap().to_owned()
    };
    let name = start();
    go(&devbox, 1);
    let running = devbox.ollie(["reattach", &name]).spawn();
    running.await_stdout("line 2");
    go(&devbox, 2);
    running.await_stdout("line 3");
    go(&devbox, 3);
    let end = running.finish().has_status(5);
    assert_eq!(end.out(), "line 1\nline 2\nline 3\n", "from the beginning");
    devbox.nothing_left();
    let gone = devbox.ollie(["reattach", &name]).run().has_status(203);
    let _ = gone.says(&[&name, "lives on"]);

    for step in 1..=3 {
        std::fs::remove_file(devbox.home().join(format!("project/go-{step}"))).unwrap();
    }
    let name = start();
    let _ = devbox
        .ollie(["reattach", "--end", &name])
        .run()
        .has_status(0);
    devbox.nothing_left();
    assert_eq!(devbox.ollie(["reattach"]).run().ok(), "", "its key is gone");
}

/// On this machine the same holds; there is no ssh in between.
#[test]
fn a_command_of_this_machine_outlives_olliesrv_too() {
    let world = World::ordinary();
    let code = "echo ready; while [ ! -e go ]; do sleep 0.01; done; exit 5";
    let running = world
        .ollie(["exec", "--lease", "1m", "--", "sh", "-c", code])
        .spawn();
    running.await_stdout("ready");
    running.signal(rustix::process::Signal::KILL);
    let _ = running.finish().has_status(137);
    let list = world.ollie(["reattach"]).run().ok();
    let name = list.split(' ').next().unwrap();
    world.write("home/project/go", "");
    let end = world.ollie(["reattach", name]).run().has_status(5);
    assert_eq!(end.out(), "ready\n");
    world.nothing_left();
}

#[test]
fn reattach_beside_somebody_who_follows_is_refused_and_ends_nothing() {
    let world = World::ordinary();
    let code = "echo ready; while [ ! -e go ]; do sleep 0.01; done; exit 5";
    let running = world
        .ollie(["exec", "--lease", "1m", "--", "sh", "-c", code])
        .spawn();
    running.await_stdout("ready");
    let list = world.ollie(["reattach"]).run().ok();
    let name = list.split(' ').next().unwrap();
    let _ = world
        .ollie(["reattach", name])
        .run()
        .has_status(208)
        .says(&["another olliesrv", name, "--end"]);
    running.signal(rustix::process::Signal::KILL);
    let _ = running.finish().has_status(137);
    // The kernel has taken the lock back; now the second is refused beside the
    // first that came back.
    let running = world.ollie(["reattach", name]).spawn();
    running.await_stdout("ready");
    let _ = world.ollie(["reattach", name]).run().has_status(208);
    world.write("home/project/go", "");
    let end = running.finish().has_status(5);
    assert_eq!(end.out(), "ready\n");
    world.nothing_left();
}

#[test]
fn a_key_that_does_not_fit_is_kept_and_the_reason_is_told() {
    let world = World::ordinary();
    let code = "echo ready; while [ ! -e go ]; do sleep 0.01; done; exit 5";
    let running = world
        .ollie(["exec", "--lease", "1m", "--", "sh", "-c", code])
        .spawn();
    running.await_stdout("ready");
    running.signal(rustix::process::Signal::KILL);
    let _ = running.finish().has_status(137);
    let list = world.ollie(["reattach"]).run().ok();
    let name = list.split(' ').next().unwrap();
    let file = world
        .home()
        .join(format!(".local/state/ollie/leases/{name}.json"));
    let text = std::fs::read_to_string(&file).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
    record["token"] = "00".repeat(32).into();
    std::fs::write(&file, record.to_string()).unwrap();
    for end in [&["reattach", name][..], &["reattach", "--end", name]] {
        let _ =
            world
                .ollie(end)
                .run()
                .has_status(205)
                .says(&["do not fit together", name, "stays"]);
        assert!(file.exists());
    }
    // The session was not harmed: with its key it goes on.
    std::fs::write(&file, text).unwrap();
    world.write("home/project/go", "");
    let end = world.ollie(["reattach", name]).run().has_status(5);
    assert_eq!(end.out(), "ready\n");
    assert!(!file.exists(), "it is gone with the session");
    world.nothing_left();
}

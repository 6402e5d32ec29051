//! Whoever is killed, at whatever moment, on either side of ssh: nothing is
//! left on both, and the next call works. Under a lease nothing that a call
//! says is lost or said twice, and what is told of its fate is true.
#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

use std::sync::Mutex;
use std::time::{Duration, Instant};

use ollie_tests::{Devbox, Dice, Finished, Process, Running, Tree, World, await_that};

/// Hosts beside each other.
const LANES: u32 = 4;
/// How long something of a session may be there once olliesrv has ended:
/// longer than the grace of a call, and the rest is for a busy machine.
const BOUND: Duration = Duration::from_secs(10);
/// The last line of [`COMMAND`], and its exit status.
const LINES: usize = 40;
const STATUS: i32 = 5;

/// Counts its own starts, leaves its group, its session and its parent, says
/// numbered lines for about half a second, and ends by itself.
const COMMAND: &str = "echo x >>started; setsid sleep 4242 & (sleep 4242 &) ; i=1; \
                       while [ $i -le 40 ]; do echo line $i; sleep 0.01; i=$((i+1)); done; \
                       exit 5";

/// From the start of toolsrv to the end of the command, about.
const COMMAND_TAKES: Duration = Duration::from_millis(500);

/// Whom to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Olliesrv,
    Ssh,
    /// sshd's process for this connection.
    Sshd,
    Server,
    Companion,
}

const VICTIMS: [Victim; 5] = [
    Victim::Olliesrv,
    Victim::Ssh,
    Victim::Sshd,
    Victim::Server,
    Victim::Companion,
];

impl Victim {
    /// It, if it is there now.
    fn find(self, running: &Running, devbox: &Devbox<'_>) -> Option<u32> {
        if self == Self::Olliesrv {
            return Some(running.pid());
        }
        let all = Process::all();
        let toolsrv =
            |process: &&Process| process.uid == devbox.uid() && process.mentions("toolsrv\0serve");
        let servers = |process: &&Process| {
            toolsrv(process)
                && !all
                    .iter()
                    .filter(toolsrv)
                    .any(|other| other.pid == process.parent)
        };
        let found = match self {
            Self::Olliesrv => None,
            Self::Ssh => all
                .iter()
                .find(|process| process.parent == running.pid() && process.mentions("ControlM")),
            Self::Sshd => all
                .iter()
                .find(|process| process.uid == devbox.uid() && process.mentions("sshd: dev")),
            Self::Server => all.iter().find(servers),
            Self::Companion => {
                let server = all.iter().find(servers)?.pid;
                all.iter()
                    .filter(toolsrv)
                    .find(|process| process.parent == server)
            }
        };
        found.map(|process| process.pid)
    }

    /// Kills it at a random moment: of the whole, or from when toolsrv is there.
    /// Whether there was anything to kill.
    fn kill(
        self,
        running: &Running,
        devbox: &Devbox<'_>,
        whole: Duration,
        dice: &mut Dice,
    ) -> bool {
        let here = matches!(self, Self::Olliesrv | Self::Ssh);
        let window = if here && dice.below(2) == 0 {
            whole
        } else {
            let awaited = if here { Self::Server } else { self };
            await_that(whole * 4, || {
                awaited.find(running, devbox).is_some() || Process::read(running.pid()).is_none()
            });
            COMMAND_TAKES
        };
        let window = usize::try_from(window.as_millis()).unwrap();
        // The moment itself is what is tested, so there is no event to await.
        std::thread::sleep(Duration::from_millis(dice.below(window) as u64));
        let victim = self.find(running, devbox);
        victim.map(Tree::kill).is_some()
    }
}

fn lines(upto: usize) -> String {
    (1..=upto).map(|i| format!("line {i}\n")).collect()
}

/// How often the command was started since this was last asked.
fn starts(devbox: &Devbox<'_>) -> usize {
    let file = devbox.home().join("project/started");
    let count = std::fs::read_to_string(&file).unwrap_or_default().len() / 2;
    let _ = std::fs::remove_file(file);
    count
}

fn seed() -> u64 {
    let text = std::env::var("OLLIE_SEED").ok();
    text.and_then(|text| text.parse().ok())
        .unwrap_or(20_261_201)
}

/// How many moments on each host.
fn moments() -> u32 {
    let full = std::env::var("OLLIE_FULL").is_ok_and(|value| value == "1");
    if full { 25 } else { 13 }
}

/// What a test does on one host: `moments` times.
struct Lane<'w> {
    devbox: Devbox<'w>,
    world: &'w World,
    dice: Dice,
    /// A run to its end.
    whole: Duration,
    options: &'static [&'static str],
}

impl<'w> Lane<'w> {
    fn new(world: &'w World, dice: Dice, options: &'static [&'static str]) -> Self {
        let devbox = world
            .devbox()
            .hook("mkdir /home/dev/project; chown dev /home/dev/project")
            .start();
        let mut lane = Self {
            devbox,
            world,
            dice,
            whole: Duration::ZERO,
            options,
        };
        // The first run packs toolsrv, unless another has, and installs it.
        static FIRST: Mutex<()> = Mutex::new(());
        let first = FIRST.lock().unwrap();
        let _ = lane.devbox.shell("true").run().ok();
        drop(first);
        for _ in 0..2 {
            let began = Instant::now();
            let end = lane.start().finish().has_status(STATUS);
            lane.whole = began.elapsed();
            assert_eq!(end.out(), lines(LINES));
            assert_eq!(starts(&lane.devbox), 1);
        }
        lane
    }

    fn start(&self) -> Running {
        self.devbox
            .ollie(["exec", "--cwd", "project"])
            .args(self.options)
            .args([&self.devbox.target(), "--", "sh", "-c", COMMAND])
            .spawn()
    }

    /// One moment: how the run ended, and what was done to it.
    fn strike(&mut self, number: u32) -> Strike {
        let victim = VICTIMS[number as usize % VICTIMS.len()];
        // Now and then the upload is among what is hit.
        let uploads = self.dice.below(4) == 0;
        if uploads {
            self.devbox.uninstall();
        }
        let running = self.start();
        let began = Instant::now();
        let killed = victim.kill(&running, &self.devbox, self.whole, &mut self.dice);
        let moment = began.elapsed();
        let end = running.finish();
        Strike {
            what: format!(
                "{number}: {victim:?} was {}killed after {moment:?}{}, ended {:?} later\n{end}",
                if killed { "" } else { "not " },
                if uploads {
                    " of a run that uploads"
                } else {
                    ""
                },
                began.elapsed() - moment,
            ),
            victim,
            end,
        }
    }

    /// Awaits that nothing is left on either side, and that a call works.
    fn settle(&self, what: &str) {
        let gone = await_that(BOUND, || {
            self.devbox.leftovers().is_empty() && self.world.leftovers().is_empty()
        });
        assert!(
            gone,
            "left there: {:#?}, left here: {:#?}\n{what}",
            self.devbox.leftovers(),
            self.world.leftovers()
        );
        let next = self.devbox.shell("echo next").run();
        assert!(next.status == 0 && next.out() == "next\n", "{next}\n{what}");
    }
}

struct Strike {
    what: String,
    victim: Victim,
    end: Finished,
}

/// Strikes on hosts beside each other. `strike` says how often the command was
/// started, and both have to be met: moments before it and moments of it.
fn on_lanes(
    what: &str,
    options: &'static [&'static str],
    strike: impl Fn(&mut Lane<'_>, u32) -> usize + Sync,
) -> String {
    if World::with_ssh(what).is_none() {
        return String::new();
    }
    let (seed, moments) = (seed(), moments());
    let began = Instant::now();
    let run = |number: u32| {
        let world = World::with_ssh(what).unwrap();
        let dice = Dice::new(seed + (u64::from(number) << 32));
        let mut lane = Lane::new(&world, dice, options);
        let strikes = (0..moments).map(|moment| strike(&mut lane, number + moment * LANES));
        strikes.filter(|&starts| starts > 0).count()
    };
    let started: usize = std::thread::scope(|scope| {
        let run = &run;
        let lanes: Vec<_> = (0..LANES)
            .map(|number| scope.spawn(move || run(number)))
            .collect();
        let ends = lanes.into_iter().map(|lane| match lane.join() {
            Ok(started) => started,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ends.sum()
    });
    let all = usize::try_from(moments * LANES).unwrap();
    assert!(0 < started && started < all);
    format!(
        "seed {seed}: {all} moments, {started} of them of the command, in {:?}",
        began.elapsed()
    )
}

#[test]
fn whoever_is_killed_at_whatever_moment_nothing_is_left_on_either_side() {
    let said = on_lanes("kill -9 on both sides of ssh", &[], |lane, number| {
        let Strike { what, victim, end } = lane.strike(number);
        lane.settle(&what);
        let expected: &[i32] = match victim {
            Victim::Olliesrv => &[STATUS, 137],
            _ => &[STATUS, 201, 203, 210, 212],
        };
        assert!(expected.contains(&end.status), "{what}");
        let whole = lines(LINES);
        match end.status {
            STATUS => assert_eq!(end.out(), whole, "{what}"),
            _ => assert!(whole.starts_with(&end.out()), "{what}"),
        }
        let starts = starts(&lane.devbox);
        assert!(starts <= 1, "{what}");
        starts
    });
    println!("{said}");
}

/// A session that the kill has left alive is found again: by the olliesrv that
/// lost its way, or by the next one.
#[test]
fn under_a_lease_nothing_of_a_call_is_lost_or_said_twice_whoever_is_killed() {
    let lease = &["--lease", "1m"];
    let said = on_lanes("kill -9 under a lease", lease, |lane, number| {
        let Strike { what, victim, end } = lane.strike(number);
        let list = lane.devbox.ollie(["reattach"]).run().ok();
        let name = list.split(' ').next().filter(|name| !name.is_empty());
        let again = name.map(|name| lane.devbox.ollie(["reattach", name]).run());
        let what = match &again {
            Some(again) => format!("{what}\nand then\n{again}"),
            None => what,
        };
        let whole = lines(LINES);
        let starts = starts(&lane.devbox);
        assert!(starts <= 1, "{what}");
        match end.status {
            STATUS => assert_eq!(end.out(), whole, "{what}"),
            _ => assert!(whole.starts_with(&end.out()), "{what}"),
        }
        let toolsrv_killed = matches!(victim, Victim::Server | Victim::Companion);
        match (victim, again) {
            // From the beginning, and as it ends.
            (_, Some(again)) if again.status == STATUS => assert_eq!(again.out(), whole, "{what}"),
            (_, Some(again)) => {
                assert!(again.status == 203, "{what}");
                assert!(starts == 0 || toolsrv_killed, "{what}");
            }
            // Who lost only the way has found it again.
            (Victim::Olliesrv | Victim::Ssh | Victim::Sshd, None) => {
                assert!(starts == 0 || end.status == STATUS, "{what}");
            }
            (Victim::Server | Victim::Companion, None) => {
                assert!([STATUS, 201, 203, 210].contains(&end.status), "{what}");
            }
        }
        lane.settle(&what);
        assert_eq!(lane.devbox.ollie(["reattach"]).run().ok(), "", "{what}");
        starts
    });
    println!("{said}");
}

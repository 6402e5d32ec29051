//! `olliesrv serve` as systemd starts it: the units, the socket that it is
//! given (sd_listen_fds(3)) and what it says (sd_notify(3)).
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are not known as tests to clippy"
)]

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use ollie_tests::{Running, World, gap, workspace};
use rustix::process::Signal;

/// What systemd does, up to the execution: a socket that listens becomes
/// descriptor 3, and the process learns that it is meant.
const ACTIVATE: &str = "
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execvp(sys.argv[2], sys.argv[2:])
";

struct Served {
    running: Running,
    manager: UnixDatagram,
    world: World,
}

impl Served {
    fn new() -> Self {
        let world = World::ordinary();
        let directory = world.base().join("run/ollie");
        world.make_directory("run/ollie");
        let notify = world.base().join("run/notify");
        let manager = UnixDatagram::bind(&notify).unwrap();
        world.give(&notify);
        manager
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        std::fs::set_permissions(
            &directory,
            std::os::unix::fs::PermissionsExt::from_mode(0o700),
        )
        .unwrap();
        let running = world
            .command("python3")
            .args(["-c", ACTIVATE])
            .arg(directory.join("9p"))
            .arg(world.dist().olliesrv())
            .arg("serve")
            .env("NOTIFY_SOCKET", &notify)
            .spawn();
        Self {
            running,
            manager,
            world,
        }
    }

    fn said(&self) -> String {
        let mut message = [0; 64];
        let length = self.manager.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    }
}

#[test]
fn it_serves_on_the_socket_it_was_given_and_says_when() {
    let served = Served::new();
    assert_eq!(served.said(), "READY=1");
    let list = served.world.ollie(["fs", "ls", "/"]).run().ok();
    assert!(list.contains("session"), "{list}");
    // Nobody else takes its place, and the socket is its owner's to remove.
    let second = served.world.ollie(["serve"]).run().failed();
    assert!(second.err().contains("9p"), "{second}");
    served.running.signal(Signal::TERM);
    assert_eq!(served.said(), "STOPPING=1");
    let _ = served.running.finish().has_status(0);
    let directory = served.world.base().join("run/ollie");
    assert!(directory.join("9p").exists());
    std::fs::remove_dir_all(directory).unwrap();
    std::fs::remove_file(served.world.base().join("run/notify")).unwrap();
}

#[test]
fn systemd_knows_every_key_of_the_units() {
    let units = workspace().join("systemd");
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        return gap("the units", "systemd-analyze is not installed");
    }
    let world = World::ordinary();
    let service = std::fs::read_to_string(units.join("olliesrv.service")).unwrap();
    let socket = std::fs::read_to_string(units.join("olliesrv.socket")).unwrap();
    let verify = |service: &str| {
        // A program that is not there would be all that is found, and a manual
        // page that is not installed as well.
        let service = service.replace("ExecStart=olliesrv", "ExecStart=/bin/true");
        let without_pages = |text: &str| text.replace("Documentation=", "#");
        let files = [
            world.write("units/olliesrv.service", without_pages(&service)),
            world.write("units/olliesrv.socket", without_pages(&socket)),
        ];
        world
            .command("systemd-analyze")
            // It leaves a directory of its own there.
            .env("XDG_RUNTIME_DIR", world.make_directory("analyze"))
            .args(["--user", "verify"])
            .args(files)
            .run()
    };
    let right = verify(&service);
    assert_eq!((right.status, right.err().as_str()), (0, ""), "{right}");
    let wrong = verify(&service.replace("OOMPolicy", "OOMPolisy"));
    assert!(wrong.err().contains("OOMPolisy"), "{wrong}");
    // What olliesrv itself would listen on.
    assert!(socket.contains("ListenStream=%t/ollie/9p\n"));
    assert!(socket.contains("DirectoryMode=0700\n"));
}

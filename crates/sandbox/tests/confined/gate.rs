//! Unix sockets, decided by Landlock or at the gate.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::PathBuf;
use std::sync::Arc;

use ollie_sandbox::{Document, Layer, Source, compile, parse};

use crate::cases::Case;
use crate::world::World;

pub(crate) const ALL: &[Case] = &[
    ("sockets_outside_cannot_be_connected_to", outside),
    ("a_changed_address_does_not_pass_the_gate", rewritten),
    ("a_changed_descriptor_does_not_pass_the_gate", swapped),
    ("a_changed_link_does_not_pass_the_gate", relinked),
    (
        "a_listed_socket_works_and_its_link_elsewhere_does_not",
        listed,
    ),
    ("own_sockets_of_every_kind_work", own),
    ("a_pair_of_datagram_sockets_works", pairs),
    ("an_address_on_a_pair_reaches_no_server", addressed),
    ("nonsense_is_answered_as_the_kernel_does", nonsense),
    ("who_waits_at_the_gate_holds_up_nobody", waiting),
    ("a_process_that_hides_its_memory_is_refused", hidden),
];

/// A server outside of the sandbox, which counts who said something.
struct Server {
    path: PathBuf,
    listener: UnixListener,
}

impl Server {
    /// As docker.sock: below a directory that no tool is granted, and every
    /// user may write to the socket.
    fn new(world: &World) -> Self {
        let path = world.home.join("docker.sock");
        let listener = UnixListener::bind(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { path, listener }
    }

    fn at(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// How many connections there were.
    fn visitors(&self) -> usize {
        let mut count = 0;
        while let Ok((mut stream, _)) = self.listener.accept() {
            let _ = stream.set_nonblocking(true).map(|()| stream.read(&mut [0]));
            count += 1;
        }
        count
    }
}

fn outside(world: &World) {
    let server = Server::new(world);
    for kind in ["stream", "packets"] {
        assert_eq!(
            world.attempt(&["unix", kind, server.at()]),
            "EACCES",
            "{kind}"
        );
    }
    assert_eq!(
        world.attempt(&["unix-relative", "..", "docker.sock"]),
        "EACCES"
    );
    assert_eq!(
        world.attempt(&["unix-by-fd", ".", "../docker.sock"]),
        "EACCES"
    );
    let link = format!("ln -s {} link", server.at());
    assert!(world.sh(&link).status.success());
    assert_eq!(world.attempt(&["unix", "stream", "link"]), "EACCES");
    // Landlock of ABI 9 restricts these as well; below it they do not exist.
    for kind in ["datagram", "raw"] {
        assert_eq!(
            world.attempt(&["unix", kind, server.at()]),
            "EACCES",
            "{kind}"
        );
    }
    assert_eq!(server.visitors(), 0);
    // The proof that the server can be reached at all.
    let yolo = Arc::new(
        compile(&world.policy(&Document::default()), true)
            .unwrap()
            .0,
    );
    assert_eq!(
        world.attempt_under(&yolo, &["unix", "stream", server.at()]),
        "ok"
    );
    assert_eq!(server.visitors(), 1);
}

fn rewritten(world: &World) {
    let server = Server::new(world);
    let rounds = "100000";
    assert_eq!(
        world.attempt(&["rewrite", "ours.sock", server.at(), rounds]),
        "ok"
    );
    assert_eq!(server.visitors(), 0);
}

fn swapped(world: &World) {
    let server = Server::new(world);
    assert_eq!(world.attempt(&["swap", server.at(), "20000"]), "ok");
    assert_eq!(server.visitors(), 0);
}

fn relinked(world: &World) {
    let server = Server::new(world);
    assert_eq!(
        world.attempt(&["swap-link", ".", server.at(), "20000"]),
        "ok"
    );
    assert_eq!(server.visitors(), 0);
}

fn listed(world: &World) {
    let server = Server::new(world);
    let other = world.home.join("agent.sock");
    let _other = UnixListener::bind(&other).unwrap();
    let yaml = format!("unix_sockets: [{}]", server.at());
    let list = parse(&yaml, &Source::new(Layer::User, "test.yaml")).unwrap();
    let enforcement = world.enforcement(&list);
    assert_eq!(
        world.attempt_under(&enforcement, &["unix", "stream", server.at()]),
        "ok"
    );
    assert_eq!(server.visitors(), 1);
    let words = ["unix", "stream", other.to_str().unwrap()];
    assert_eq!(world.attempt_under(&enforcement, &words), "EACCES");
    // Another socket in its place is not the one that was listed.
    std::fs::remove_file(&server.path).unwrap();
    std::os::unix::fs::symlink(&other, &server.path).unwrap();
    assert_eq!(
        world.attempt_under(&enforcement, &["unix", "stream", server.at()]),
        "EACCES"
    );
}

fn own(world: &World) {
    assert_eq!(world.attempt(&["own-kinds", "."]), "ok");
    assert_eq!(
        world.attempt(&["own-kinds", world.tmpdir.to_str().unwrap()]),
        "ok"
    );
    assert_eq!(world.attempt(&["own-abstract"]), "ok");
    assert_eq!(world.attempt(&["unix-pair", "stream"]), "ok");
    assert_eq!(world.attempt(&["unix-pair", "packets"]), "ok");
    assert_eq!(world.attempt(&["echo", ".", "200"]), "ok");
    assert_eq!(world.attempt(&["parallel", "."]), "ok");
}

fn pairs(world: &World) {
    assert_eq!(world.attempt(&["unix-pair", "datagram"]), "ok");
    assert_eq!(world.attempt(&["pair-messages"]), "ok");
    if ollie_sandbox::probe().abi < 9 {
        assert_eq!(world.attempt(&["pair-kept"]), "ok");
    }
}

fn addressed(world: &World) {
    let path = world.home.join("log");
    let server = UnixDatagram::bind(&path).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
    server.set_nonblocking(true).unwrap();
    let words = ["pair-sendto", path.to_str().unwrap()];
    let answer = world.attempt(&words);
    if ollie_sandbox::probe().abi < 9 {
        assert_eq!(answer, "the other end got 5 bytes");
    } else {
        assert_eq!(answer, "EACCES");
    }
    assert!(server.recv(&mut [0; 8]).is_err());
    // The proof that the server can be reached at all.
    let yolo = Arc::new(
        compile(&world.policy(&Document::default()), true)
            .unwrap()
            .0,
    );
    assert_eq!(world.attempt_under(&yolo, &words), "ok");
    assert_eq!(server.recv(&mut [0; 8]).unwrap(), 5);
}

fn nonsense(world: &World) {
    assert_eq!(world.attempt(&["bad-addresses"]), "ok");
    assert_eq!(world.attempt(&["pair-nonsense"]), "ok");
}

fn waiting(world: &World) {
    assert_eq!(world.attempt(&["full-backlog", "."]), "ok");
}

fn hidden(world: &World) {
    assert_eq!(world.attempt(&["undumpable", "."]), "EPERM");
}

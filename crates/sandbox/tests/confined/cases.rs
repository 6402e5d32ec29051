//! What must fail.

use std::fs;
use std::sync::Arc;

use ollie_sandbox::{Document, Layer, Source, compile, parse};

use crate::world::World;

pub(crate) type Case = (&'static str, fn(&World));

pub(crate) const ALL: &[Case] = &[
    ("keys_and_neighbours_cannot_be_read", keys),
    ("nothing_outside_can_be_written", writes),
    ("links_and_renames_lead_nowhere", links),
    ("device_nodes_cannot_be_made", nodes),
    ("no_capability_is_left_after_exec", capabilities),
    ("the_machine_and_namespaces_are_out_of_reach", machine),
    ("other_processes_are_out_of_reach", processes),
    ("foreign_instruction_sets_do_not_run", foreign),
    ("terminals_cannot_be_typed_into", terminals),
    ("exotic_sockets_do_not_exist", sockets),
    ("without_network_no_internet_socket_exists", network_none),
    ("listed_ports_are_the_only_ports", network_tcp),
    ("limits_hold", limits),
    ("a_directory_can_be_entered_between_the_halves", halves),
    ("programs_outside_cannot_be_executed", execution),
    ("yolo_enforces_nothing_and_says_so", yolo),
    (
        "without_landlock_nothing_runs_unless_the_person_says_so",
        no_landlock,
    ),
    ("an_enforcement_survives_being_taken_apart", parts),
];

fn denied(world: &World, script: &str) {
    let output = world.sh(script);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "`{script}` succeeded");
    assert!(
        [
            "Permission denied",
            "Operation not permitted",
            "cross-device"
        ]
        .iter()
        .any(|m| stderr.contains(m)),
        "`{script}`: {stderr}"
    );
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(!stdout.contains("SECRET"), "`{script}`: {stdout}");
}

fn keys(world: &World) {
    for script in [
        "cat ~/.ssh/id_ed25519",
        "ls ~/.ssh",
        "ls ~",
        "cat ~/.sshfoo/key",
        "cat ../project2/file",
        "cat /proc/self/root$HOME/.ssh/id_ed25519",
        "cat /proc/self/cwd/../.ssh/id_ed25519",
        "ln -s ~/.ssh link && cat link/id_ed25519",
        "cat /etc/shadow",
        "ls /root",
    ] {
        denied(world, script);
    }
}

fn writes(world: &World) {
    for script in [
        "echo x >> ~/.bashrc",
        "echo x > ~/.bashrc",
        "echo x > ~/new",
        "mkdir ~/dir",
        "rm ~/.bashrc",
        "echo x > ../project2/file",
        "echo x > /usr/local/bin/x",
        "echo x > /etc/x",
        "echo x > /tmp/ollie-must-not-be-here",
        "ln -s ~/.bashrc l && echo x >> l",
        "mv ~/.bashrc .",
    ] {
        denied(world, script);
    }
    let bashrc = world.home.join(".bashrc");
    assert_eq!(
        world.attempt(&["truncate", bashrc.to_str().unwrap()]),
        "EACCES"
    );
    assert_eq!(fs::read_to_string(bashrc).unwrap(), "# mine\n");
}

fn links(world: &World) {
    denied(world, "ln ~/.ssh/id_ed25519 hard && cat hard");
    denied(world, "mv file ../project2/");
    denied(world, "mv file ~/");
    for (how, to, answers) in [
        ("rename", "../project2/x", ["EXDEV", "EACCES"]),
        ("link", "../project2/x", ["EXDEV", "EACCES"]),
        ("rename", "../x", ["EXDEV", "EACCES"]),
        ("link", "/dev/shm/ollie-x", ["EXDEV", "EACCES"]),
    ] {
        let answer = world.attempt(&[how, "file", to]);
        assert!(answers.contains(&answer.as_str()), "{how} {to}: {answer}");
    }
    assert!(world.project.join("file").exists());
}

fn nodes(world: &World) {
    for kind in ["char", "block"] {
        let answer = world.attempt(&["mknod", "node", kind]);
        assert!(
            ["EPERM", "EACCES"].contains(&answer.as_str()),
            "{kind}: {answer}"
        );
        let in_tmp = world.tmpdir.join("node");
        let answer = world.attempt(&["mknod", in_tmp.to_str().unwrap(), kind]);
        assert!(
            ["EPERM", "EACCES"].contains(&answer.as_str()),
            "{kind}: {answer}"
        );
    }
    assert_eq!(world.attempt(&["mknod", "pipe", "fifo"]), "ok");
}

fn capabilities(world: &World) {
    let status = String::from_utf8(world.sh("cat /proc/self/status").stdout).unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|l| l.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    // Only who has CAP_SETPCAP can empty the bounding set.
    if world.identity().uid == 0 {
        assert_eq!(field("CapBnd:"), "0000000000000000");
    }
    assert_eq!(field("NoNewPrivs:"), "1");
    assert_eq!(field("Seccomp:"), "2");
}

fn machine(world: &World) {
    let new_user = libc::CLONE_NEWUSER.to_string();
    let new_pid = libc::CLONE_NEWPID.to_string();
    for (what, nr, first, answer) in [
        ("chroot", libc::SYS_chroot, "0", "EPERM"),
        ("mount", libc::SYS_mount, "0", "EPERM"),
        ("umount2", libc::SYS_umount2, "0", "EPERM"),
        ("pivot_root", libc::SYS_pivot_root, "0", "EPERM"),
        ("open_tree", libc::SYS_open_tree, "0", "EPERM"),
        ("fsopen", libc::SYS_fsopen, "0", "EPERM"),
        ("init_module", libc::SYS_init_module, "0", "EPERM"),
        ("finit_module", libc::SYS_finit_module, "0", "EPERM"),
        ("delete_module", libc::SYS_delete_module, "0", "EPERM"),
        ("kexec_load", libc::SYS_kexec_load, "0", "EPERM"),
        (
            "unshare a user namespace",
            libc::SYS_unshare,
            &new_user,
            "EPERM",
        ),
        (
            "unshare a pid namespace",
            libc::SYS_unshare,
            &new_pid,
            "EPERM",
        ),
        ("setns", libc::SYS_setns, "0", "EPERM"),
        ("clone3", libc::SYS_clone3, "0", "ENOSYS"),
        ("io_uring_setup", libc::SYS_io_uring_setup, "8", "ENOSYS"),
        ("bpf", libc::SYS_bpf, "0", "EPERM"),
        ("perf_event_open", libc::SYS_perf_event_open, "0", "EPERM"),
        ("userfaultfd", libc::SYS_userfaultfd, "0", "EPERM"),
        ("keyctl", libc::SYS_keyctl, "0", "ENOSYS"),
        ("add_key", libc::SYS_add_key, "0", "ENOSYS"),
        (
            "open_by_handle_at",
            libc::SYS_open_by_handle_at,
            "0",
            "EPERM",
        ),
        ("reboot", libc::SYS_reboot, "0", "EPERM"),
        ("swapon", libc::SYS_swapon, "0", "EPERM"),
        ("acct", libc::SYS_acct, "0", "EPERM"),
        ("settimeofday", libc::SYS_settimeofday, "0", "EPERM"),
        ("syslog", libc::SYS_syslog, "0", "EPERM"),
    ] {
        assert_eq!(
            world.attempt(&["syscall", &nr.to_string(), first]),
            answer,
            "{what}"
        );
    }
    assert_eq!(world.attempt(&["clone", &new_user]), "EPERM");
    assert_eq!(world.attempt(&["clone", "0"]), "ok");
    assert_eq!(world.attempt(&["thread"]), "ok");
}

fn processes(world: &World) {
    // This process has the same user where the case runs as `Myself`, so only
    // the sandbox stands between.
    let me = std::process::id().to_string();
    assert_eq!(world.attempt(&["kill", &me]), "EPERM");
    assert_eq!(world.attempt(&["ptrace", &me]), "EPERM");
    assert_eq!(world.attempt(&["pidfd-getfd", &me]), "EPERM");
    for file in ["environ", "maps", "root/", "fd/0"] {
        denied(
            world,
            &format!("ls /proc/{me}/{file} > list && cat /proc/{me}/{file}"),
        );
    }
    let name = format!("ollie-sandbox-test-{me}-{world:p}");
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(
            &name,
        )
        .unwrap();
    let _listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    assert_eq!(world.attempt(&["abstract", &name]), "EPERM");
}

fn foreign(world: &World) {
    if cfg!(target_arch = "x86_64") {
        let x32_getpid = (0x4000_0000u32 + 39).to_string();
        assert_eq!(world.attempt(&["syscall", &x32_getpid, "0"]), "ENOSYS");
        let answer = world.attempt(&["int80"]);
        // Where the kernel has no 32-bit entry at all, the trap is a fault.
        let died = [libc::SIGSYS, libc::SIGSEGV].map(|s| format!("signal {s}"));
        assert!(died.contains(&answer), "{answer}");
    }
}

fn terminals(world: &World) {
    assert_eq!(world.attempt(&["ioctl", &0x5412.to_string()]), "EPERM");
    let upper_half = (0x1_0000_5412u64).to_string();
    assert_eq!(world.attempt(&["ioctl", &upper_half]), "EPERM");
}

fn sockets(world: &World) {
    for (family, kind, protocol, answer) in [
        ("1", "1", "0", "ok"),
        ("2", "1", "0", "ok"),
        ("2", "2", "0", "ok"),
        ("16", "3", "0", "ok"),
        ("2", "3", "255", "EPERM"),
        ("17", "3", "768", "EAFNOSUPPORT"),
        ("40", "1", "0", "EAFNOSUPPORT"),
        ("38", "5", "0", "EAFNOSUPPORT"),
        ("16", "3", "9", "EPROTONOSUPPORT"),
    ] {
        let got = world.attempt(&["socket", family, kind, protocol]);
        assert_eq!(
            got, answer,
            "family {family}, type {kind}, protocol {protocol}"
        );
    }
    assert_eq!(world.attempt(&["pair"]), "ok");
}

fn yaml(text: &str) -> Document {
    parse(text, &Source::new(Layer::User, "test.yaml")).unwrap()
}

fn network_none(world: &World) {
    let enforcement = world.enforcement(&yaml("network: { none: true }"));
    for (family, kind) in [("2", "1"), ("2", "2"), ("10", "1")] {
        let got = world.attempt_under(&enforcement, &["socket", family, kind, "0"]);
        assert_eq!(got, "EACCES", "family {family}, type {kind}");
    }
    assert_eq!(world.attempt_under(&enforcement, &["pair"]), "ok");
}

fn network_tcp(world: &World) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let open = listener.local_addr().unwrap().port();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = other.local_addr().unwrap().port().to_string();
    let listed = yaml(&format!("network: {{ connect_tcp: [{open}] }}"));
    let enforcement = world.enforcement(&listed);
    let attempt = |words: &[&str]| world.attempt_under(&enforcement, words);
    assert_eq!(attempt(&["connect", &open.to_string()]), "ok");
    assert_eq!(attempt(&["connect", &closed]), "EACCES");
    assert_eq!(attempt(&["fastopen", &closed]), "EPERM");
    assert_eq!(attempt(&["bind", "0"]), "EACCES");
    assert_eq!(attempt(&["socket", "2", "2", "17"]), "EACCES");
    assert_eq!(attempt(&["socket", "2", "1", "262"]), "EACCES");
}

/// Root enters a directory that another user closes to all by its
/// capabilities, which only the second half takes.
fn halves(world: &World) {
    let unconfined = Arc::new(
        compile(&world.policy(&Document::default()), true)
            .unwrap()
            .0,
    );
    let text = world.attempt_under(&unconfined, &["halves"]);
    let none = "0000000000000000";
    let line = |when: &str| text.lines().find(|line| line.starts_with(when)).unwrap();
    if world.identity().uid == 0 {
        assert!(
            line("entered").contains(&format!("CapBnd:\t{none}")),
            "{text}"
        );
        assert!(
            !line("entered").contains(&format!("CapEff:\t{none}")),
            "{text}"
        );
    }
    assert!(
        line("finished").contains(&format!("CapEff:\t{none}")),
        "{text}"
    );
}

fn limits(world: &World) {
    let text = "limits: { open_files: 40, file_size_mb: 1 }";
    let enforcement = world.enforcement(&yaml(text));
    let output = world.sh_under(&enforcement, "ulimit -Sn; ulimit -Hn");
    assert_eq!(output.stdout, b"40\n40\n");
    let script = "dd if=/dev/zero of=big bs=1M count=3";
    let output = world.sh_under(&enforcement, script);
    assert!(!output.status.success());
    assert_eq!(
        fs::metadata(world.project.join("big")).unwrap().len(),
        1 << 20
    );
}

fn execution(world: &World) {
    let program = world.home.join("project2/run");
    let copied = std::process::Command::new("cp")
        .arg("/bin/true")
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    denied(world, "../project2/run");
    let output = world.sh("cp /bin/true here && ./here");
    assert!(output.status.success(), "{output:?}");
}

fn yolo(world: &World) {
    let policy = world.policy(&Document::default());
    let (enforcement, report) = compile(&policy, true).unwrap();
    let enforcement = Arc::new(enforcement);
    assert_eq!(report.enforced, ollie_protocol::Enforced::None);
    assert!(report.degraded[0].contains("--yolo"));
    let output = world.sh_under(&enforcement, "cat ~/.ssh/id_ed25519");
    assert_eq!(output.stdout, b"SECRET");
}

fn no_landlock(world: &World) {
    for (errno, reason, way_out) in [
        (
            libc::ENOSYS,
            "not part of this kernel",
            "CONFIG_SECURITY_LANDLOCK",
        ),
        (libc::EOPNOTSUPP, "disabled at boot", "lsm="),
        (libc::EPERM, "refuses Landlock", "seccomp profile"),
    ] {
        let unconfined = Arc::new(
            compile(&world.policy(&Document::default()), true)
                .unwrap()
                .0,
        );
        let text = world.attempt_under(
            &unconfined,
            &["compile-without-landlock", &errno.to_string()],
        );
        for part in ["Err(NoLandlock", reason, way_out, "--yolo", "Ok(None)"] {
            assert!(text.contains(part), "{errno}: {text}");
        }
    }
}

fn parts(world: &World) {
    let enforcement = world.enforcement(&Document::default());
    let (fd, bytes) = enforcement.parts().unwrap();
    let fd = fd.unwrap().try_clone_to_owned().unwrap();
    let again = Arc::new(ollie_sandbox::Enforcement::from_parts(Some(fd), &bytes).unwrap());
    assert_eq!(again.tree_limits(), enforcement.tree_limits());
    let output = world.sh_under(&again, "cat file; cat ~/.ssh/id_ed25519");
    assert_eq!(output.stdout, b"text\n");
    assert!(ollie_sandbox::Enforcement::from_parts(None, &bytes).is_err());
}

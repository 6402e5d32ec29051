//! Inside the sandbox root is not the superuser.

use ollie_tests::{User, World, gap};

/// Runs CODE as root in the sandbox, where it must fail, and then without
/// one, where `undone` says what it has done.
fn only_without_a_sandbox(what: &str, code: &str, evidence: &str) {
    let Some(user) = User::root(what) else { return };
    let world = World::new(user);
    let end = world.shell(&format!("{code} && {evidence}")).run().failed();
    assert_eq!(end.out(), "", "{end}");
    let end = world
        .ollie(["exec", "--yolo", "--", "sh", "-c"])
        .arg(format!("{code} && {evidence}"))
        .run();
    assert_eq!(end.ok(), "done\n", "without a sandbox root can");
}

#[test]
fn root_cannot_make_a_device() {
    // 1:7 is /dev/full.
    only_without_a_sandbox("mknod", "mknod device c 1 7", "test -c device && echo done");
}

#[test]
fn root_cannot_change_the_root_directory() {
    only_without_a_sandbox("chroot", "chroot / true", "echo done");
}

#[test]
fn root_cannot_change_an_owner() {
    only_without_a_sandbox("chown", "touch f && chown 12345 f", "echo done");
}

#[test]
fn root_cannot_make_a_namespace_or_mount() {
    only_without_a_sandbox("unshare", "unshare -m true", "echo done");
    only_without_a_sandbox(
        "mount",
        "mkdir -p m && mount -t tmpfs none m && umount m",
        "echo done",
    );
}

#[test]
fn root_cannot_read_what_only_root_may() {
    only_without_a_sandbox("shadow", "grep -q root /etc/shadow", "echo done");
}

/// `init_module(NULL, 0, "")` does nothing but tell what would be allowed:
/// EFAULT or ENOEXEC for who may load modules, EPERM for who may not.
#[test]
fn root_cannot_load_a_module() {
    let Some(user) = User::root("loading a module") else {
        return;
    };
    if !std::path::Path::new("/usr/bin/perl").exists() || !cfg!(target_arch = "x86_64") {
        return gap("loading a module", "needs perl and x86-64");
    }
    let world = World::new(user);
    // 175 is init_module on x86-64 (asm/unistd_64.h).
    let code = "syscall(175, 0, 0, 0) == 0 and print 'loaded'; print $!+0";
    let perl = |options: &[&str]| {
        world
            .ollie(["exec"])
            .args(options)
            .args(["--", "/usr/bin/perl", "-e", code])
            .run()
            .ok()
    };
    assert_eq!(perl(&[]), "1", "EPERM");
    // ENOSYS where the kernel has no modules at all.
    assert!(["8", "14", "22", "38"].contains(&perl(&["--yolo"]).as_str()));
}

#[test]
fn nobody_kills_a_process_outside() {
    for user in User::each("kill, as root") {
        let world = World::new(user);
        let victim = world.command("sleep").arg("4242").spawn();
        let kill = format!(
            "kill -9 {0} 2>/dev/null; kill -0 {0} 2>/dev/null",
            victim.pid()
        );
        let _ = world.shell(&kill).run().failed();
        assert!(
            ollie_tests::Process::read(victim.pid()).is_some(),
            "it lives"
        );
        // Its own server is outside as well.
        let _ = world.shell("kill -9 $PPID").run().failed();
        let _ = world
            .ollie(["exec", "--yolo", "--", "sh", "-c"])
            .arg(format!("kill -9 {}", victim.pid()))
            .run()
            .ok();
        let end = victim.finish();
        assert_eq!(end.signal, Some(9), "without a sandbox it is killed");
    }
}

#[test]
fn a_command_has_no_capability_and_gains_none() {
    for user in User::each("capabilities, as root") {
        let world = World::new(user);
        let end = world
            .shell("grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status")
            .run();
        // capabilities(7) and proc(5); 2 is SECCOMP_MODE_FILTER.
        let none = "0000000000000000";
        let mut expected = String::new();
        for set in ["Inh", "Prm", "Eff", "Bnd", "Amb"] {
            expected += &format!("Cap{set}:\t{none}\n");
        }
        expected += "NoNewPrivs:\t1\nSeccomp:\t2\n";
        let out = end.ok();
        if user == User::Root {
            assert_eq!(out, expected);
        } else {
            // Without root nobody can drop the bounding set, and without
            // privileges to be gained it means nothing.
            let but_bounding = |text: &str| -> String {
                text.lines()
                    .filter(|line| !line.starts_with("CapBnd"))
                    .collect()
            };
            assert_eq!(but_bounding(&out), but_bounding(&expected));
        }
    }
}

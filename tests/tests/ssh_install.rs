//! Where toolsrv is put, what is sent, and what is never executed.
#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use ollie_tests::{Devbox, Relay, World, gap};

/// What `exec --json` says of the deployment.
fn session(devbox: &Devbox<'_>) -> serde_json::Value {
    session_at(devbox, &devbox.target())
}

fn session_at(devbox: &Devbox<'_>, target: &str) -> serde_json::Value {
    let end = devbox
        .ollie(["exec", "--json", target, "--", "sh", "-c", "exit 0"])
        .run()
        .has_status(0);
    let lines = end.json_lines();
    let first = lines.first().unwrap_or_else(|| panic!("no line\n{end}"));
    assert_eq!(first["type"], "session", "{end}");
    first.clone()
}

fn works(devbox: &Devbox<'_>) {
    assert_eq!(devbox.shell("id -un").run().ok(), "dev\n");
}

/// The most that may be sent to a host with xz. The promise is for what users
/// are sent, which a debug build is not; of that no more than half.
fn most(world: &World) -> u64 {
    match world.dist().is_for_users() {
        true => 1_000_000,
        false => world.dist().toolsrv().metadata().unwrap().len() / 2,
    }
}

#[test]
fn the_first_time_at_most_a_megabyte_is_sent_and_then_nothing() {
    let Some(world) = World::with_ssh("sending") else {
        return;
    };
    let devbox = world.devbox().start();
    let relay = Relay::to(devbox.port());
    let target = devbox.through(&relay);
    let first = session_at(&devbox, &target);
    let sent = first["sent"].as_u64().unwrap();
    // On the wire, with all that ssh adds: keys, packets, the script, a call.
    let wire = relay.sent();
    assert!(
        (sent..sent + sent / 50 + 40_000).contains(&wire),
        "{wire}: {first}"
    );
    assert!(sent > 100_000 && sent <= most(&world), "{first}");
    assert_eq!(first["ssh"], 1, "{first}");
    let second = session_at(&devbox, &target);
    assert_eq!(second["sent"], 0, "{second}");
    assert_eq!(second["transport"], "stdio", "{second}");
    let wire = relay.sent() - wire;
    assert!(wire < 40_000, "{wire} bytes for nothing: {second}");
    // What sshd saw: two connections, one session each, and no subsystem.
    assert_eq!(devbox.logged("Accepted publickey"), 2);
    assert_eq!(devbox.logged("Starting session: command"), 2);
    assert_eq!(devbox.logged("subsystem"), 0);
    let installed = devbox.installed();
    assert_eq!(installed.len(), 1, "{installed:?}");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&installed[0]), 0o500);
    for directory in installed[0].ancestors().skip(1).take(3) {
        assert_eq!(mode(directory), 0o700, "{}", directory.display());
    }
    let digest = first["build"].as_str().unwrap();
    assert!(installed[0].to_str().unwrap().contains(digest));
}

#[test]
fn a_file_that_is_not_the_promised_one_is_replaced_and_never_executed() {
    let Some(world) = World::with_ssh("foreign files") else {
        return;
    };
    let devbox = world.devbox().start();
    works(&devbox);
    let installed = devbox.installed().remove(0);
    let right = std::fs::read(&installed).unwrap();
    let mut flipped = right.clone();
    flipped[right.len() / 2] ^= 1;
    let planted = b"#!/bin/sh\ntouch /home/dev/executed\n".to_vec();
    let mut padded = planted.clone();
    padded.resize(right.len(), b'#');
    for wrong in [&b""[..], &right[..1000], &planted, &padded, &flipped] {
        std::fs::set_permissions(&installed, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::write(&installed, wrong).unwrap();
        works(&devbox);
        assert!(
            std::fs::read(&installed).unwrap() == right,
            "{} bytes",
            wrong.len()
        );
        assert!(!devbox.home().join("executed").exists());
    }
    // A directory or a link in its place is no toolsrv either.
    std::fs::remove_file(&installed).unwrap();
    std::fs::create_dir(&installed).unwrap();
    std::os::unix::fs::chown(&installed, Some(devbox.uid()), None).unwrap();
    works(&devbox);
    std::fs::rename(&installed, devbox.home().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("/home/dev/elsewhere", &installed).unwrap();
    works(&devbox);
    assert!(installed.symlink_metadata().unwrap().is_file());
}

#[test]
fn homes_of_every_kind() {
    let long = format!("/home/{}", "h".repeat(90));
    for home in ["/home/with space", "/home/q'uo\"te$x", &long] {
        let Some(world) = World::with_ssh("homes") else {
            return;
        };
        let devbox = world.devbox().home(home).start();
        works(&devbox);
        let installed = devbox.installed();
        assert!(installed[0].starts_with(devbox.home()), "{installed:?}");
    }
}

/// Each hook spoils the home, and toolsrv goes to the next place.
#[test]
fn a_home_that_cannot_be_used_is_told_and_another_place_is_taken() {
    for (home, hook, reason) in [
        (
            "/home/dev",
            "mount -t tmpfs -o noexec,mode=755,uid=$(id -u dev) none /home/dev",
            "nothing can be executed there",
        ),
        (
            "/home/dev",
            "mount --bind /home/dev /home/dev; mount -o remount,bind,ro /home/dev",
            "Read-only file system",
        ),
        (
            "/home/dev",
            "mount -t tmpfs -o size=1m,mode=755,uid=$(id -u dev) none /home/dev",
            "No space left on device",
        ),
        (
            "/home/dev",
            "mount -t tmpfs -o nr_inodes=4,mode=755,uid=$(id -u dev) none /home/dev",
            "No space left on device",
        ),
        ("/nonexistent", "", "there is no such home directory"),
        ("/home/dev", "chown root /home/dev", "Permission denied"),
        ("/home/dev", "chmod 777 /home/dev", "others may write"),
        ("/home/dev", "chmod 000 /home/dev", "Permission denied"),
        (
            "/home/dev",
            "ln -s /tmp /home/dev/.cache",
            "others may write",
        ),
        ("/home/dev", "echo >/home/dev/.cache", ".cache"),
    ] {
        let Some(world) = World::with_ssh("unusable homes") else {
            return;
        };
        // /tmp without its sticky bit is one more case of the same.
        let devbox = world
            .devbox()
            .home(home)
            .hook(hook)
            .hook("chmod 777 /tmp")
            .start();
        let end = devbox
            .ollie(["exec", "--verbose", &devbox.target(), "--", "id", "-un"])
            .run()
            .has_status(0);
        assert_eq!(end.out(), "dev\n", "{hook}: {end}");
        let end = end.says(&["not in ", reason, "/var/tmp/ollie-"]);
        drop(end);
        // And the second time it is found there.
        let second = session(&devbox);
        assert_eq!(second["sent"], 0, "{hook}: {second}");
    }
}

#[test]
fn where_no_place_is_left_each_is_named_with_its_reason() {
    let Some(world) = World::with_ssh("no place") else {
        return;
    };
    let devbox = world
        .devbox()
        .hook(
            "mount -t tmpfs -o noexec,mode=755,uid=$(id -u dev) none /home/dev\n\
             mount -t tmpfs -o size=100k,mode=1777 none /var/tmp\n\
             mkdir /tmp/ollie-$(id -u dev); chmod 777 /tmp/ollie-$(id -u dev)",
        )
        .start();
    let _ = devbox.shell("true").run().has_status(212).says(&[
        "/home/dev/.cache/ollie",
        "nothing can be executed there",
        "/var/tmp/ollie-",
        "no room for",
        "/tmp/ollie-",
        "others may write",
    ]);
}

#[test]
fn every_umask() {
    for umask in ["000", "077", "777"] {
        let Some(world) = World::with_ssh("umask") else {
            return;
        };
        let devbox = world
            .devbox()
            .shell("/run/devbox/login")
            .hook(&format!(
                "printf '#!/bin/sh\\numask {umask}\\nexec /bin/sh \"$@\"\\n' >/run/devbox/login\n\
                 chmod 755 /run/devbox/login"
            ))
            .start();
        // In the first place, at the first attempt.
        let first = session(&devbox);
        assert_eq!(first["ssh"], 1, "umask {umask}: {first}");
        let installed = devbox.installed().remove(0);
        assert!(installed.starts_with(devbox.home()), "umask {umask}");
        let mode = installed.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o500, "umask {umask}");
        // Tools have the user's own.
        assert_eq!(devbox.shell("umask").run().ok(), format!("0{umask}\n"));
    }
}

/// What a host may have: sh always, and one program that can count bytes.
#[test]
fn with_next_to_nothing_on_path() {
    // What stage 0 uses beside the shell itself.
    let least = [
        "sh", "uname", "id", "ls", "mkdir", "rm", "mv", "chmod", "wc", "cat",
    ];
    for more in [
        &["dd"][..],
        &["head"],
        &["dd", "gzip"],
        &["dd", "head", "sha256sum"],
        &["head", "openssl", "xz"],
        &["head", "busybox"],
    ] {
        let Some(world) = World::with_ssh("few programs") else {
            return;
        };
        let all: Vec<&str> = least.iter().chain(more).copied().collect();
        let devbox = world.devbox().only(&all).start();
        let first = session(&devbox);
        let packing = first["packing"].as_str().unwrap().to_owned();
        let expected = match more {
            _ if more.contains(&"xz") => "xz-utils",
            _ if more.contains(&"gzip") => "gzip",
            _ => "plain",
        };
        assert_eq!(packing, expected, "{more:?}: {first}");
        // Without a hash program nothing that lies there is trusted.
        let trusted = ["sha256sum", "openssl", "busybox"]
            .iter()
            .any(|name| more.contains(name));
        let second = session(&devbox);
        assert_eq!(second["sent"] == 0, trusted, "{more:?}: {second}");
    }
}

/// The least there is: the message names what is missing, and what to do.
#[test]
fn a_program_that_is_missing_is_named() {
    let least = [
        "sh",
        "uname",
        "id",
        "ls",
        "mkdir",
        "rm",
        "mv",
        "chmod",
        "head",
        "sha256sum",
    ];
    for missing in [&["ls"][..], &["id"], &["uname"], &["mkdir", "mv"]] {
        let Some(world) = World::with_ssh("a missing program") else {
            return;
        };
        let there = least.iter().filter(|name| !missing.contains(name));
        let there: Vec<&str> = there.copied().collect();
        let devbox = world.devbox().only(&there).start();
        let named = format!("has no {} on the PATH", missing.join(", "));
        let _ = devbox
            .shell("true")
            .run()
            .has_status(212)
            .says(&[&named, "install coreutils or busybox"]);
        assert!(devbox.installed().is_empty());
    }
}

/// busybox has an xz that knows no filters and no threads; whatever name it is
/// called by, it is sent what it can unpack, the first time.
#[test]
fn busyboxs_xz_is_told_from_xz_utils() {
    let Some(world) = World::with_ssh("xz of busybox") else {
        return;
    };
    if !Path::new("/usr/bin/busybox").exists() {
        return gap("xz of busybox", "needs busybox");
    }
    let devbox = world
        .devbox()
        .config("SetEnv PATH=/run/devbox/bin:/usr/bin:/bin")
        .hook("ln -s /usr/bin/busybox /run/devbox/bin/xz")
        .start();
    let first = session(&devbox);
    assert_eq!(first["packing"], "xz", "{first}");
    assert_eq!(first["ssh"], 1, "{first}");
    assert!(first["sent"].as_u64().unwrap() <= most(&world), "{first}");
}

/// A link of the user's own is a way to another disk. One of somebody else is
/// a way that he chooses, and may lead elsewhere the next moment.
#[test]
fn a_link_on_the_way_has_to_be_the_users_own() {
    let Some(world) = World::with_ssh("links on the way") else {
        return;
    };
    // No sticky directory, so that `fs.protected_symlinks` says nothing.
    let devbox = world
        .devbox()
        .config("SetEnv XDG_CACHE_HOME=/home/links/disk/cache")
        .hook(
            "mkdir -p /home/links /home/dev/disk/cache; chown -R dev /home/dev/disk\n             ln -s /home/dev/disk /home/links/disk; chown -h dev /home/links/disk",
        )
        .start();
    let place = devbox.home().join("disk/cache/ollie");
    works(&devbox);
    assert!(place.is_dir(), "it lies behind the user's own link");
    // What lies there is right, and all of its directories are the user's.
    let link = devbox.path("home/links/disk");
    std::os::unix::fs::lchown(&link, Some(devbox.uid() + 1), None).unwrap();
    let said = devbox
        .ollie(["exec", "--verbose", &devbox.target(), "--", "true"])
        .run()
        .has_status(0)
        .says(&["a link on the way belongs to another user"]);
    assert!(!said.err().contains("disk/cache/ollie/linux-"), "{said}");
    // Nor is anything put there.
    std::fs::remove_dir_all(&place).unwrap();
    works(&devbox);
    assert!(!place.exists(), "nothing was made behind another's link");
}

#[test]
fn another_architecture_is_named() {
    let Some(world) = World::with_ssh("architectures") else {
        return;
    };
    for (kernel, status, says) in [
        ("Linux x riscv64", 201, "no toolsrv for linux-riscv64"),
        ("Darwin x arm64", 212, "toolsrv runs on Linux"),
        ("", 212, "toolsrv runs on Linux"),
    ] {
        let devbox = world
            .devbox()
            .config("SetEnv PATH=/run/devbox/bin:/usr/bin:/bin")
            .hook(&format!(
                "printf '#!/bin/sh\\necho {kernel}\\n' >/run/devbox/bin/uname\n\
                 chmod 755 /run/devbox/bin/uname"
            ))
            .start();
        let _ = devbox.shell("true").run().has_status(status).says(&[says]);
    }
}

/// Whoever is first in /tmp or /var/tmp may not choose what runs.
#[test]
fn a_directory_of_another_user_in_the_way_is_not_used() {
    let Some(world) = World::with_ssh("shared hosts") else {
        return;
    };
    let devbox = world
        .devbox()
        .home("/nonexistent")
        .hook(
            "mkdir /var/tmp/ollie-$(id -u dev)\n\
             chown 12345 /var/tmp/ollie-$(id -u dev); chmod 1777 /var/tmp/ollie-$(id -u dev)\n\
             ln -s /home /tmp/ollie-link",
        )
        .start();
    let end = devbox
        .ollie(["exec", "--verbose", &devbox.target(), "--", "id", "-un"])
        .run()
        .has_status(0)
        .says(&[
            "not in /var/tmp/ollie-",
            "a part of it belongs to another user: drwxrwxrwt",
        ]);
    assert_eq!(end.out(), "dev\n");
    let installed = devbox.installed();
    assert!(
        installed[0].starts_with(devbox.path("tmp")),
        "{installed:?}"
    );
}

#[test]
fn a_link_in_the_way_is_not_followed() {
    let Some(world) = World::with_ssh("links") else {
        return;
    };
    let devbox = world
        .devbox()
        .home("/nonexistent")
        .hook("mkdir /home/x; chown dev /home/x; ln -s /home/x /var/tmp/ollie-$(id -u dev)")
        .start();
    let _ = devbox
        .ollie(["exec", "--verbose", &devbox.target(), "--", "true"])
        .run()
        .has_status(0)
        .says(&["it is a symbolic link"]);
}

/// Many systems give each user a group of his own, and a umask of 002 with it.
#[test]
fn a_home_that_only_the_users_own_group_may_write_is_used() {
    let Some(world) = World::with_ssh("private groups") else {
        return;
    };
    let devbox = world
        .devbox()
        .hook("chgrp dev /home/dev; chmod 775 /home/dev")
        .start();
    works(&devbox);
    let installed = devbox.installed();
    assert!(installed[0].starts_with(devbox.home()), "{installed:?}");
    drop(devbox);
    for (other, hook) in [
        (
            "has another member",
            "g=$(sed 's/^dev:.*/&root/' /etc/group); printf '%s\\n' \"$g\" >/etc/group",
        ),
        ("is another one", "chgrp daemon /home/dev"),
    ] {
        let Some(world) = World::with_ssh("groups of others") else {
            return;
        };
        let devbox = world
            .devbox()
            .hook("chgrp dev /home/dev; chmod 775 /home/dev")
            .hook(hook)
            .start();
        let end = devbox
            .ollie(["exec", "--verbose", &devbox.target(), "--", "id", "-un"])
            .run();
        let _ = end.has_status(0).says(&["its group may write"]);
        let installed = devbox.installed();
        assert!(installed[0].starts_with(devbox.path("vartmp")), "{other}");
    }
}

/// The promised file, and yet it is not run: others could have changed it
/// between the look and the start.
#[test]
fn what_others_could_change_is_not_run_although_it_is_right() {
    let Some(world) = World::with_ssh("right files of others") else {
        return;
    };
    let devbox = world.devbox().start();
    works(&devbox);
    let installed = devbox.installed().remove(0);
    std::os::unix::fs::chown(&installed, Some(12345), None).unwrap();
    std::fs::set_permissions(&installed, std::fs::Permissions::from_mode(0o755)).unwrap();
    works(&devbox);
    assert_eq!(installed.metadata().unwrap().uid(), devbox.uid());

    let cache = devbox.home().join(".cache");
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o777)).unwrap();
    let end = devbox
        .ollie(["exec", "--verbose", &devbox.target(), "--", "id", "-un"])
        .run()
        .has_status(0)
        .says(&["others may write"]);
    assert!(end.err().contains("/var/tmp/ollie-"), "{end}");
}

#[test]
fn whatever_stands_where_its_directory_belongs() {
    let Some(world) = World::with_ssh("directories in the way") else {
        return;
    };
    let devbox = world.devbox().start();
    works(&devbox);
    let version = devbox.installed().remove(0);
    let version = version.parent().unwrap();
    let elsewhere = devbox.home().join("elsewhere");
    // One that is closed is opened again.
    devbox.uninstall();
    std::fs::set_permissions(version, std::fs::Permissions::from_mode(0o000)).unwrap();
    works(&devbox);
    assert!(version.join("toolsrv").is_file());
    // A link, to where others may write.
    std::fs::remove_dir_all(version).unwrap();
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::set_permissions(&elsewhere, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::symlink("/home/dev/elsewhere", version).unwrap();
    works(&devbox);
    assert!(version.symlink_metadata().unwrap().is_dir());
    assert!(!elsewhere.join("toolsrv").exists());
    // A file: that place is given up for another, and the reason told.
    std::fs::remove_dir_all(version).unwrap();
    std::fs::write(version, "").unwrap();
    let next = session(&devbox);
    assert_eq!(next["ssh"], 1, "{next}");
    let refused = next["refused"].to_string();
    assert!(refused.contains("/home/dev/.cache/ollie"), "{next}");
    assert!(refused.contains("Operation not permitted"), "{next}");
    let installed = devbox.installed();
    assert!(installed[0].starts_with(devbox.path("vartmp")), "{next}");
}

/// What comes out of it has another length, so nothing is executed to see what
/// it is; and the next simpler way is taken.
#[test]
fn a_program_that_unpacks_something_else_is_done_without() {
    let wrong = "#!/bin/sh\necho '#!/bin/sh'; echo ': >/home/dev/executed'\n";
    // What only XZ Utils undo is tried first, then what any xz does.
    for (broken, packing, attempts) in [(&["xz"][..], "gzip", 3), (&["xz", "gzip"], "plain", 4)] {
        let Some(world) = World::with_ssh("bad xz") else {
            return;
        };
        let mut hook = String::new();
        for name in broken {
            hook.push_str(&format!(
                "rm /run/devbox/bin/{name}; cat >/run/devbox/bin/{name} <<'END'\n{wrong}END\n\
                 chmod 755 /run/devbox/bin/{name}\n"
            ));
        }
        // Without a hash program the file itself is asked for its sum.
        let devbox = world
            .devbox()
            .only(&[
                "sh", "uname", "id", "ls", "mkdir", "rm", "mv", "chmod", "wc", "cat", "head",
                "gzip", "xz",
            ])
            .hook(&hook)
            .start();
        keep_its_own_packed_file(&world);
        let first = session(&devbox);
        assert_eq!(first["packing"], packing, "{first}");
        assert_eq!(first["ssh"], attempts, "{first}");
        assert!(!devbox.home().join("executed").exists(), "{first}");
    }
}

/// What did not arrive well is forgotten, and shall not be for other tests.
fn keep_its_own_packed_file(world: &World) {
    let packed = world.home().join(".cache/ollie/packed");
    let Ok(shared) = packed.read_link() else {
        return;
    };
    std::fs::remove_file(&packed).unwrap();
    std::fs::create_dir(&packed).unwrap();
    for file in std::fs::read_dir(shared).unwrap().flatten() {
        std::fs::copy(file.path(), packed.join(file.file_name())).unwrap();
    }
}

/// A login shell that leaves an environment no shell should have.
#[test]
fn homes_that_are_none() {
    for (set, says, place) in [
        ("unset HOME", "HOME is not set", "/var/tmp/ollie-"),
        ("HOME=", "HOME is not set", "/var/tmp/ollie-"),
        ("HOME=here", "it is not an absolute path", "/var/tmp/ollie-"),
        (
            "HOME='/home/dev/a\nb'",
            "HOME is not set",
            "/var/tmp/ollie-",
        ),
        (
            "export XDG_CACHE_HOME=here",
            "it is not an absolute path",
            "/var/tmp/ollie-",
        ),
        (
            "export XDG_CACHE_HOME='/home/dev/a\nb'",
            "or has a newline",
            "/var/tmp/ollie-",
        ),
        (
            "export XDG_CACHE_HOME=/home/dev/x",
            "verified",
            "/home/dev/x/ollie/",
        ),
    ] {
        let Some(world) = World::with_ssh("homes that are none") else {
            return;
        };
        let devbox = world
            .devbox()
            .shell("/run/devbox/login")
            .hook(&format!(
                "cat >/run/devbox/login <<'END'\n#!/bin/sh\n{set}\nexec /bin/sh \"$@\"\nEND\n\
                 chmod 755 /run/devbox/login"
            ))
            .start();
        let end = devbox
            .ollie(["exec", "--verbose", "--cwd", "/tmp", &devbox.target()])
            .args(["--", "id", "-un"])
            .run()
            .has_status(0)
            .says(&[says, place]);
        assert_eq!(end.out(), "dev\n", "{set}: {end}");
    }
}

/// As a disk that fills up on the way, or a file system that stores zeros for
/// nothing: it does not arrive in the first place, and does in the next.
#[test]
fn a_place_where_it_does_not_arrive_is_left_for_the_next() {
    let Some(world) = World::with_ssh("places that fail") else {
        return;
    };
    let devbox = world
        .devbox()
        .only(&[
            "sh",
            "uname",
            "id",
            "ls",
            "mkdir",
            "rm",
            "mv",
            "chmod",
            "wc",
            "head",
            "sha256sum",
        ])
        .hook(
            "cat >/run/devbox/bin/cat <<'END'\n#!/bin/sh\n\
             [ -e /var/tmp/once ] && exec /bin/cat\n>/var/tmp/once\n\
             head -c 1000; echo 'No space left on device' >&2; exit 1\nEND\n\
             chmod 755 /run/devbox/bin/cat",
        )
        .start();
    let first = session(&devbox);
    assert_eq!(first["ssh"], 2, "{first}");
    let refused = first["refused"].to_string();
    // Bytes, place and reason.
    for says in [
        "1000 of ",
        "arrived in /home/dev/.cache/ollie",
        "No space left on device",
    ] {
        assert!(refused.contains(says), "{first}");
    }
    let installed = devbox.installed();
    assert_eq!(installed.len(), 1, "{installed:?}");
    assert!(installed[0].starts_with(devbox.path("vartmp")), "{first}");
    assert_eq!(devbox.logged("Accepted publickey"), 2);
}

//! A checkout may be hostile: nothing in it is executed outside the sandbox by
//! anything that ollie does.
//!
//! Every trap writes a file where no policy allows it and the user may
//! ([`World::outside`]). Each is sprung on purpose first, without ollie: a
//! trap that does not work would prove nothing.

use std::path::PathBuf;

use ollie_tests::{Finished, User, World};

/// A script that leaves a mark and then does what was asked for.
fn trap(world: &World) -> (String, PathBuf) {
    let mark = world.outside().join("sprung");
    (
        format!("#!/bin/sh\necho \"$0\" >> {}\n", mark.display()),
        mark,
    )
}

/// Everything that the command line can do for a directory.
fn everything(world: &World, path: Option<&std::ffi::OsStr>) -> Vec<Finished> {
    let commands: [&[&str]; 6] = [
        &["exec", "--", "true"],
        &["exec", "--verbose", "--trace-9p", "--", "git", "status"],
        &["call", "shell", "code=git status; uname -a"],
        &["policy", "show"],
        &["doctor"],
        &["exec", "--", "nosuchprogram"],
    ];
    commands
        .into_iter()
        .map(|arguments| {
            let ollie = world.ollie(arguments);
            match path {
                Some(path) => ollie.env("PATH", path).run(),
                None => ollie.run(),
            }
        })
        .collect()
}

#[test]
fn a_planted_file_system_monitor_is_not_executed() {
    for user in User::each("core.fsmonitor, as root") {
        let world = World::new(user);
        let (script, mark) = trap(&world);
        let monitor = world.write_program("home/project/monitor", &script);
        let git = |arguments: &[&str]| world.command("git").args(arguments).run().ok();
        git(&["init", "-q"]);
        world.write("home/project/file", "text");
        git(&["add", "file"]);
        git(&["commit", "-q", "-m", "first"]);
        git(&["config", "core.fsmonitor", monitor.to_str().unwrap()]);
        git(&["status"]);
        assert!(mark.exists(), "the trap works");
        std::fs::remove_file(&mark).unwrap();

        let ends = everything(&world, None);
        assert!(!mark.exists(), "executed outside of the sandbox");
        // git inside the sandbox does run it, there, where it cannot write.
        assert!(ends[1].err().contains("sprung"), "{}", ends[1]);
        let _ = world.ollie(["exec", "--yolo", "--", "git", "status"]).run();
        assert!(mark.exists(), "without a sandbox it is sprung");
    }
}

#[test]
fn programs_planted_first_on_the_path_are_not_executed() {
    let names = [
        "sh",
        "bash",
        "git",
        "ssh",
        "uname",
        "true",
        "tar",
        "xz",
        "id",
        "stat",
        "toolsrv",
        "nosuchprogram",
        "env",
        "cat",
    ];
    for entry in ["absolute", "relative", "empty"] {
        let world = World::ordinary();
        let (script, mark) = trap(&world);
        let directory = if entry == "absolute" {
            "home/project/bin"
        } else {
            "home/project"
        };
        for name in names {
            world.write_program(format!("{directory}/{name}"), &script);
        }
        let mut path = match entry {
            "absolute" => world.project().join("bin").into_os_string(),
            "relative" => ".".into(),
            _ => std::ffi::OsString::new(),
        };
        path.push(":");
        path.push(world.path());
        let _ = world
            .command("/bin/sh")
            .args(["-c", "uname"])
            .env("PATH", &path)
            .run();
        assert!(mark.exists(), "the trap works");
        std::fs::remove_file(&mark).unwrap();

        let _ = everything(&world, Some(&path));
        assert!(
            !mark.exists(),
            "{}",
            std::fs::read_to_string(&mark).unwrap_or_default()
        );
    }
}

#[test]
fn a_fifo_where_git_keeps_files_makes_nobody_wait() {
    for path in [".git", ".git/HEAD", ".git/config"] {
        let world = World::ordinary();
        let path = world.project().join(path);
        world.make_directory(path.parent().unwrap());
        let _ = world.command("mkfifo").arg(&path).run().ok();
        let _ = world.ollie(["exec", "--", "true"]).run().ok();
        let _ = world.ollie(["policy", "show"]).run().ok();
        let _ = world.ollie(["doctor"]).run().ok();
    }
}

/// `.git` may be a file that says where the repository is, and a repository
/// elsewhere is granted for that; but not whatever the file says.
#[test]
fn a_git_file_opens_no_other_directory() {
    let world = World::ordinary();
    let keys = world.home().join(".ssh");
    let outside = world.outside();
    world.write("outside/HEAD", "ref: refs/heads/main\n");
    for (git, commondir) in [
        (format!("gitdir: {}", keys.display()), None),
        (format!("gitdir: {}", outside.display()), None),
        ("gitdir: ../.ssh".to_owned(), None),
        ("gitdir: planted".to_owned(), Some(&keys)),
        ("gitdir: planted".to_owned(), Some(&outside)),
    ] {
        world.write("home/project/.git", format!("{git}\n"));
        if let Some(commondir) = commondir {
            world.write("home/project/planted/HEAD", "ref: refs/heads/main\n");
            world.write("home/project/planted/gitdir", "../.git\n");
            let line = format!("{}\n", commondir.display());
            world.write("home/project/planted/commondir", line);
        }
        let code = format!(
            "cat {}/id_ed25519; echo x > {}/made",
            keys.display(),
            outside.display()
        );
        let end = world.shell(&code).run().failed();
        assert_eq!(end.out(), "", "{git} {commondir:?}");
        assert!(!outside.join("made").exists(), "{git} {commondir:?}");
    }
}

/// A call could have made the link that the next session's policy would follow.
#[test]
fn links_made_by_a_call_open_nothing_to_the_next() {
    let world = World::ordinary();
    world.make_directory("home/.cache/uv");
    let plant = "rm -rf ~/.cache/uv; ln -s ~/.ssh ~/.cache/uv; ln -s ~/.ssh keys; ls -d keys";
    let _ = world.shell(plant).run();
    let end = world
        .shell("cat ~/.cache/uv/id_ed25519 keys/id_ed25519")
        .run()
        .failed();
    assert_eq!(end.out(), "");
    let end = world
        .ollie(["exec", "--cwd", "keys", "--", "cat", "id_ed25519"])
        .run()
        .failed();
    assert_eq!(end.out(), "");
}

/// As GNU stow and others keep a home: its files are links into a project.
#[test]
fn a_home_linked_into_a_project_gives_the_next_session_no_key() {
    let world = World::ordinary();
    world.write("home/dotfiles/gitconfig", "[user]\n");
    world.make_directory("home/dotfiles/m2");
    world.make_directory("home/.m2");
    let key = std::fs::read_to_string(world.home().join(".ssh/id_ed25519")).unwrap();
    let links = "rm -f .gitconfig; ln -s dotfiles/gitconfig .gitconfig\n\
                 ln -s ../dotfiles/m2 .m2/repository; ln -s dotfiles/hosts .ssh/known_hosts\n\
                 echo host >dotfiles/hosts";
    let made = world
        .command("/bin/sh")
        .args(["-c", links])
        .cwd(world.home());
    let _ = made.run().has_status(0);
    let read = "cat ~/.gitconfig; cat ~/.ssh/known_hosts; ls ~/.m2/repository/ && echo listed";
    let before = world.shell(read).run();
    assert!(before.out().contains("[user]"), "{before}");

    let plant = "ln -sf ../.ssh/id_ed25519 gitconfig; ln -sf ../.ssh/id_ed25519 hosts\n\
                 rmdir m2; ln -s ../.ssh m2; ls -l";
    let planted = world
        .ollie(["exec", "--cwd"])
        .arg(world.home().join("dotfiles"))
        .args(["--", "sh", "-c", plant])
        .run()
        .has_status(0);
    assert!(planted.out().contains("m2 -> ../.ssh"), "{planted}");
    let read = "cat ~/.gitconfig ~/.ssh/known_hosts ~/.m2/repository/id_ed25519; \
                echo x >>~/.m2/repository/authorized_keys; ls ~/.m2/repository/";
    let after = world.shell(read).run();
    assert!(!after.out().contains(key.trim()), "{after}");
    assert_eq!(after.out(), "", "{after}");
    assert!(!world.home().join(".ssh/authorized_keys").exists());
}

/// The same with what ollie itself believes.
#[test]
fn a_project_with_ollies_own_files_in_it_is_not_given_to_tools() {
    let world = World::ordinary();
    world.write("home/dotfiles/ollie/config.yaml", "remotes: {}\n");
    world.write("home/dotfiles/ollie/sandbox.yaml", "env: [LANG]\n");
    let links = "mkdir -p .config/ollie; for f in config sandbox; do \
                 ln -s ../../dotfiles/ollie/$f.yaml .config/ollie/$f.yaml; done";
    let made = world
        .command("/bin/sh")
        .args(["-c", links])
        .cwd(world.home());
    let _ = made.run().has_status(0);
    for file in ["config.yaml", "sandbox.yaml"] {
        let _ = world
            .ollie(["exec", "--cwd"])
            .arg(world.home().join("dotfiles"))
            .args(["--", "sh", "-c"])
            .arg(format!("echo '# by a tool' >>ollie/{file}"))
            .run()
            .failed()
            .says(&["ollie's own"]);
        let text = std::fs::read_to_string(world.home().join("dotfiles/ollie").join(file));
        assert!(!text.unwrap().contains("by a tool"), "{file}");
    }
}

/// Below /tmp anybody may have made the directory first.
#[test]
fn a_server_of_another_user_is_not_talked_to() {
    let Some(_) = User::root("another user's server") else {
        return;
    };
    let world = World::ordinary();
    let door = world.doorway();
    world.make_directory("run/ollie");
    let listener = std::os::unix::net::UnixListener::bind(&door).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&door, open).unwrap();
    for args in [
        &[
            "fs",
            "write",
            "session/one/prompt",
            "the password is hunter2",
        ][..],
        &["session", "ls"],
        &["chat"],
    ] {
        let _ = world
            .ollie(args)
            .run()
            .has_status(216)
            .says(&["served by user 0"]);
    }
    listener.set_nonblocking(true).unwrap();
    while let Ok((mut stream, _)) = listener.accept() {
        let mut heard = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stream, &mut heard);
        assert_eq!(heard, b"");
    }
    std::fs::remove_dir_all(world.base().join("run/ollie")).unwrap();
}

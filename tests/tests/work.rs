//! Ordinary work goes on inside the sandbox.

use std::os::unix::fs::PermissionsExt as _;

use ollie_tests::{User, World, gap};

#[test]
fn git_commits_in_the_project() {
    for user in User::each("git, as root") {
        let world = World::new(user);
        let end = world
            .shell(
                "set -e
                git init -q
                echo text > file
                git add file
                git commit -q -m first
                git mv file moved
                git commit -q -m second
                git log --format='%an: %s'
                git status --short",
            )
            .run();
        assert_eq!(end.ok(), "Ada: second\nAda: first\n");
    }
}

#[test]
fn git_commits_in_a_worktree_whose_repository_lies_elsewhere() {
    let world = World::ordinary();
    let main = world.make_directory("home/main");
    let git = |arguments: &[&str]| world.command("git").args(arguments).cwd(&main).run().ok();
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&["worktree", "add", "-q", "../tree"]);
    let end = world
        .shell("git commit -q --allow-empty -m second && git log --format=%s")
        .cwd(world.home().join("tree"))
        .run();
    assert_eq!(end.ok(), "second\nfirst\n");
}

#[test]
fn cargo_builds_and_tests_a_small_crate_without_a_network() {
    for user in User::each("cargo build, as root") {
        let world = World::new(user);
        let mut path = world.toolchain().into_os_string();
        path.push(":");
        path.push(world.path());
        world.write(
            "home/project/Cargo.toml",
            "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        );
        world.write(
            "home/project/build.rs",
            "fn main() { println!(\"cargo:rustc-env=BUILT=by a build script\"); }\n",
        );
        world.write(
            "home/project/src/main.rs",
            "fn main() { println!(\"{}\", env!(\"BUILT\")); }\n#[test] fn holds() {}\n",
        );
        let end = world
            .shell("cargo build -q --offline && target/debug/small && cargo test -q --offline")
            .env("PATH", &path)
            .limit(std::time::Duration::from_secs(120))
            .run();
        let out = end.ok();
        assert!(out.starts_with("by a build script\n"), "{out}");
        assert!(out.contains("1 passed"), "{out}");
    }
}

#[test]
fn a_loopback_server_and_its_client_talk() {
    if !std::path::Path::new("/usr/bin/perl").exists() {
        return gap("sockets of a command's own", "needs perl");
    }
    let world = World::ordinary();
    let code = r#"
        use IO::Socket::INET; use IO::Socket::UNIX;
        my $l = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1") or die "tcp: $!";
        my $u = IO::Socket::UNIX->new(Listen => 1, Local => "own.socket") or die "unix: $!";
        if (!fork) {
            my $c = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $l->sockport) or die;
            print $c "over tcp\n"; close $c;
            my $d = IO::Socket::UNIX->new(Peer => "own.socket") or die;
            print $d "over unix\n"; exit 0;
        }
        print readline($l->accept); print readline($u->accept); wait;
    "#;
    let end = world
        .ollie(["exec", "--", "/usr/bin/perl", "-e", code])
        .run();
    assert_eq!(end.ok(), "over tcp\nover unix\n");
}

/// umask(2) is the user's, as it would be without a sandbox.
#[test]
fn what_is_made_has_the_modes_that_the_users_umask_leaves() {
    let world = World::ordinary();
    for (umask, file, directory) in [("002", 0o664, 0o775), ("027", 0o640, 0o750)] {
        let code = format!("umask {umask}; exec \"$@\"");
        let olliesrv = world.base().join("bin/olliesrv");
        let made = format!("echo > file{umask}; mkdir directory{umask}");
        let _ = world
            .command("sh")
            .args(["-c", &code, "sh"])
            .args([olliesrv.as_os_str()])
            .args(["exec", "--", "sh", "-c", &made])
            .run()
            .ok();
        for (name, expected) in [("file", file), ("directory", directory)] {
            let path = world.project().join(format!("{name}{umask}"));
            let mode = path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, expected, "{}: {mode:o}", path.display());
        }
    }
}

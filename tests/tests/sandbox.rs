//! What a command may do and what it may not, on this machine's kernel.
//!
//! The mechanism is switched off by `--yolo`: what is refused here is then
//! allowed, which shows that it is the sandbox that refuses.

use std::path::PathBuf;

use ollie_tests::{Finished, User, World};

/// Runs `sh -c CODE` in a directory, in the sandbox or without one.
fn shell_in(world: &World, directory: &PathBuf, yolo: bool, code: &str) -> Finished {
    let options: &[&str] = if yolo { &["--yolo"] } else { &[] };
    world
        .ollie(["exec"])
        .args(options)
        .args(["--", "sh", "-c", code])
        .cwd(directory)
        .run()
}

fn home_and_project(world: &World) -> [PathBuf; 2] {
    [world.home(), world.project()]
}

#[test]
fn a_private_key_cannot_be_read_and_the_error_says_why() {
    for user in User::each("a private key, as root") {
        let world = World::new(user);
        let key = world.home().join(".ssh/id_ed25519");
        let key = key.to_str().unwrap();
        for directory in home_and_project(&world) {
            let end = world
                .ollie(["exec", "--", "cat", key])
                .cwd(&directory)
                .run()
                .has_status(1)
                // Policy, path, and the line that would allow it.
                .says(&[
                    "profile default",
                    key,
                    "filesystem: { ro: [",
                    "id_ed25519\"] }",
                ]);
            assert_eq!(end.out(), "");
        }
    }
}

#[test]
fn without_the_sandbox_the_same_key_is_read_and_that_is_said() {
    let world = World::ordinary();
    let end = shell_in(&world, &world.project(), true, "cat ~/.ssh/id_ed25519")
        .has_status(0)
        .says(&["without a sandbox (--yolo)"]);
    assert!(end.out().contains("PRIVATE KEY"));
}

#[test]
fn the_line_that_the_error_names_does_allow_it() {
    let world = World::ordinary();
    let read = || world.shell("cat ~/.ssh/id_ed25519").run();
    let refused = read().failed();
    let line = refused
        .err()
        .lines()
        .find_map(|line| {
            line.strip_prefix("ollie:   ")
                .filter(|rest| rest.contains('{'))
                .map(str::to_owned)
        })
        .expect("the error names a line");
    world.write("home/.config/ollie/sandbox.yaml", format!("{line}\n"));
    assert!(read().ok().contains("PRIVATE KEY"));
}

#[test]
fn shell_settings_cannot_be_changed() {
    for user in User::each("shell settings, as root") {
        let world = World::new(user);
        let file = world.home().join(".bashrc");
        let attempts = [
            "echo evil >> ~/.bashrc",
            "echo evil > ~/.bashrc",
            "rm -f ~/.bashrc; test ! -e ~/.bashrc",
            "mv ~/.bashrc ~/.bashrc.old",
            "cp /dev/null ~/.profile",
            "ln -s /dev/null ~/.zshrc",
        ];
        for directory in home_and_project(&world) {
            for attempt in attempts {
                let _ = shell_in(&world, &directory, false, attempt).failed();
            }
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "# untouched\n");
        let before = std::fs::read_dir(world.home()).unwrap().count();
        let _ = shell_in(&world, &world.project(), true, attempts[4]).ok();
        let after = std::fs::read_dir(world.home()).unwrap().count();
        assert_eq!(after, before + 1, "without a sandbox it works");
    }
}

#[test]
fn what_every_shell_script_does_works() {
    for user in User::each("a shell script, as root") {
        let world = World::new(user);
        let code = "
            set -e
            echo x > /dev/null
            printf 'b\\na\\n' | sort | tr a-z A-Z
            cat <<END
here $(echo document)
END
            t=$(mktemp -d); echo in > $t/f; cat $t/f; rm -r $t
            mkdir -p d/e; echo moved > d/f; mv d/f d/e/g; cat d/e/g; ln d/e/g h; rm -r d h
            test -r /dev/urandom; head -c 3 /dev/zero | wc -c
            (exit 3) || echo $?
            kill -0 $$; sleep 0 & wait
        ";
        let end = shell_in(&world, &world.project(), false, code);
        assert_eq!(end.ok(), "A\nB\nhere document\nin\nmoved\n3\n3\n");
    }
}

#[test]
fn the_home_directory_is_not_given_as_a_working_directory() {
    let world = World::ordinary();
    let end = shell_in(&world, &world.home(), false, "echo x > file; ls").failed();
    assert!(!world.home().join("file").exists(), "{end}");
    let end = end.says(&["{CWD} is not granted", "--cwd"]);
    assert_eq!(end.out(), "");
    let _ = shell_in(&world, &world.project(), false, "echo x > file; ls").ok();
}

#[test]
fn cwd_names_another_working_directory() {
    let world = World::ordinary();
    let other = world.make_directory("home/other");
    let other = other.to_str().unwrap();
    let end = world
        .ollie(["exec", "--cwd", other, "--", "sh", "-c", "pwd; touch made"])
        .cwd(world.home())
        .run();
    assert_eq!(end.ok(), format!("{other}\n"));
    let end = world
        .ollie(["exec", "--cwd", "../other", "--", "ls"])
        .cwd(world.project())
        .run();
    assert_eq!(end.ok(), "made\n");
}

/// As a shell would set it (POSIX, "Other Environment Variables"): the one that
/// olliesrv was started with is of another directory.
#[test]
fn pwd_is_the_directory_of_the_call() {
    let world = World::ordinary();
    let project = world.project().to_str().unwrap().to_owned();
    let pwd = |arguments: &[&str], expected: Option<&str>| {
        let end = world
            .ollie(["exec"])
            .args(arguments)
            .args(["--", "env"])
            .env("PWD", "/elsewhere")
            .cwd(world.home())
            .run();
        let out = end.ok().to_owned();
        let found = out.lines().find_map(|line| line.strip_prefix("PWD="));
        assert_eq!(found, expected, "{arguments:?}");
    };
    pwd(&["--cwd", &project], Some(&project));
    pwd(&["--cwd", &project, "--env", "PWD=/mine"], Some("/mine"));
    world.write("home/.config/ollie/sandbox.yaml", "drop: { env: [PWD] }\n");
    pwd(&["--cwd", &project], None);
}

#[test]
fn the_temporary_directory_is_private_and_goes_with_the_session() {
    let world = World::ordinary();
    let end = world
        .shell("cd \"$TMPDIR\" && pwd && stat -c %a . && mkdir -p a/b && chmod 0 a/b && ls /tmp")
        .run()
        .failed();
    let out = end.out();
    let (path, rest) = out.split_once('\n').unwrap();
    // The other temporary directories of the machine are not to be seen.
    assert_eq!(rest, "700\n");
    assert!(!std::path::Path::new(path).exists());
    world.nothing_left();
}

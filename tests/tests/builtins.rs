//! The file tools where the world is against them: no room, no permission, a
//! mount in the way. Each is the real program in a process of its own.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ollie_tests::{Finished, Invocation, World, gap};
use serde_json::{Value, json};

fn tool(world: &World, name: &str, arguments: &Value) -> Finished {
    let program = world.dist().toolsrv();
    let command = world.command(program).args(["builtin", name]);
    command.stdin(arguments.to_string()).run()
}

/// Root of a user namespace with mounts of its own; `$1` is toolsrv.
fn namespace(world: &World, script: &str) -> Option<Invocation> {
    let unshare = |script: &str| {
        world
            .command("unshare")
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .args([
                "--user",
                "--map-root-user",
                "--mount",
                "sh",
                "-euc",
                script,
                "sh",
            ])
            .arg(world.dist().toolsrv())
    };
    if unshare("mount -t tmpfs none /mnt").run().err().is_empty() {
        return Some(unshare(script));
    }
    gap("a full disk", "no user namespace can be made here");
    None
}

fn mode(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_full_disk_leaves_the_old_content_and_nothing_else() {
    let world = World::ordinary();
    world.write(
        "home/project/write",
        json!({"path": "full/file", "content": "x".repeat(100_000)}).to_string(),
    );
    let edits = json!([{"old": "old", "new": "x".repeat(100_000)}]);
    world.write(
        "home/project/edit",
        json!({"path": "full/file", "edits": edits}).to_string(),
    );
    world.make_directory("home/project/full");
    let script = "mount -t tmpfs -o size=64k none full; echo old > full/file; \
        for tool in write edit; do \
            if \"$1\" builtin file_$tool < $tool; then echo done; else echo refused $?; fi; \
        done; ls -A full; cat full/file";
    let Some(command) = namespace(&world, script) else {
        return;
    };
    let end = command.run().has_status(0);
    assert_eq!(end.out(), "refused 1\nrefused 1\nfile\nold\n");
    let sentence = "cannot write 'full/file', its content is what it was: No space left on device";
    assert_eq!(end.err().matches(sentence).count(), 2, "{}", end.err());
}

/// A file that is mounted on cannot be replaced (rename(2), EBUSY), as with
/// /etc/resolv.conf in a container.
#[test]
fn a_file_that_cannot_be_replaced_is_written_in_place_if_there_is_room() {
    let world = World::ordinary();
    for (name, size) in [("small", 3_000), ("large", 100_000)] {
        let request = json!({"path": "here", "content": "x".repeat(size)});
        world.write(format!("home/project/{name}"), request.to_string());
    }
    world.make_directory("home/project/full");
    world.write("home/project/here", "");
    let script = "mount -t tmpfs -o size=64k none full; echo old > full/file; \
        mount --bind full/file here; \
        if \"$1\" builtin file_write < large; then echo done; fi; cat here; \
        \"$1\" builtin file_write < small; wc -c < full/file; ls -A";
    let Some(command) = namespace(&world, script) else {
        return;
    };
    let end = command.run().has_status(0);
    let out = end.out();
    assert!(
        out.starts_with("old\n[here: 3000 bytes in place of 4; "),
        "{out}"
    );
    let why = "written in place and not in one step, because another file may not take its place";
    assert!(out.contains(why), "{out}");
    assert!(out.ends_with("3000\nfull\nhere\nlarge\nsmall\n"), "{out}");
    assert!(
        end.err()
            .contains("its content is what it was: No space left"),
        "{}",
        end.err()
    );
}

#[test]
fn without_permission_there_is_a_word_and_no_change() {
    let world = World::ordinary();
    let closed = world.write("home/project/closed", "secret\n");
    mode(&closed, 0);
    let fixed = world.write("home/project/fixed", "old\n");
    mode(&fixed, 0o444);
    let edits = json!([{"old": "old", "new": "new"}]);
    for (name, arguments) in [
        ("file_read", json!({"path": "closed"})),
        ("file_edit", json!({"path": "closed", "edits": edits})),
        ("file_grep", json!({"path": "closed", "pattern": "secret"})),
        ("file_write", json!({"path": "fixed", "content": "new\n"})),
        ("file_edit", json!({"path": "fixed", "edits": edits})),
    ] {
        let end = tool(&world, name, &arguments);
        let text = end.out() + &end.err();
        assert!(text.contains("Permission denied"), "{name}: {text}");
        assert!(!text.contains("secret"), "{name}: {text}");
    }
    assert_eq!(fs::read_to_string(&fixed).unwrap(), "old\n");
    let found = tool(&world, "file_grep", &json!({"pattern": "secret|old"})).ok();
    assert_eq!(
        found,
        "fixed\n1:old\n\n[1 matching line in 1 file; \
         could not be read: closed: Permission denied (os error 13)]\n"
    );
}

#[test]
fn in_a_directory_that_takes_no_file_the_file_itself_is_written() {
    let world = World::ordinary();
    let directory = world.make_directory("home/project/shut");
    let file = world.write("home/project/shut/file", "old\n");
    mode(&directory, 0o555);
    let edits = json!([{"old": "old", "new": "newer"}]);
    let end = tool(
        &world,
        "file_edit",
        &json!({"path": "shut/file", "edits": edits}),
    )
    .ok();
    let why = "written in place and not in one step, because its directory takes no new file";
    assert!(end.contains(why), "{end}");
    assert_eq!(fs::read_to_string(file).unwrap(), "newer\n");
    let _ = tool(
        &world,
        "file_write",
        &json!({"path": "shut/other", "content": ""}),
    )
    .has_status(1)
    .says(&["cannot write 'shut/other', it was not created: Permission denied"]);
    mode(&directory, 0o755);
}

#[test]
fn a_limit_for_files_is_no_sudden_death() {
    let world = World::ordinary();
    let file = world.write("home/project/file", "old\n");
    let request = json!({"path": "file", "content": "x".repeat(10_000)});
    // In blocks of 512 bytes (POSIX, ulimit).
    let limited = world
        .command("sh")
        .args(["-c", "ulimit -f 8; exec \"$0\" builtin file_write"]);
    let _ = limited
        .arg(world.dist().toolsrv())
        .stdin(request.to_string())
        .run()
        .has_status(1)
        .says(&["10000 bytes are more than the limit of 4096 bytes for one file"]);
    assert_eq!(fs::read_to_string(file).unwrap(), "old\n");
    assert_eq!(fs::read_dir(world.project()).unwrap().count(), 1);
}

#[test]
fn inside_of_the_sandbox_they_work_and_reach_no_further() {
    let world = World::ordinary();
    world.write("home/project/src/a.txt", "needle\n");
    let program = fs::read(world.dist().toolsrv()).unwrap();
    mode(&world.write("home/project/toolsrv", program), 0o755);
    let call = |name: &str, arguments: Value| {
        let exec = world.ollie(["exec", "--", "./toolsrv", "builtin", name]);
        exec.stdin(arguments.to_string()).run()
    };
    let found = call("file_grep", json!({"path": "src", "pattern": "needle"})).ok();
    assert!(found.starts_with("src/a.txt\n1:needle\n"), "{found}");
    let edits = json!([{"old": "needle", "new": "thread"}]);
    let made = call("file_edit", json!({"path": "src/a.txt", "edits": edits})).ok();
    assert!(
        made.contains("-needle\n+thread\n") && !made.contains("in place"),
        "{made}"
    );
    let outside = world.outside().join("file");
    let _ = call("file_write", json!({"path": outside, "content": ""}))
        .has_status(1)
        .says(&["Permission denied"]);
    assert!(!outside.exists());
}

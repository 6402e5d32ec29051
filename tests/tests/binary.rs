//! toolsrv needs a kernel and nothing else.

use std::time::Duration;

use ollie_tests::{Dist, User, World};

/// Types of program headers (elf(5)).
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
/// An entry of the dynamic section that names a shared library (elf(5)).
const DT_NEEDED: u64 = 1;

#[test]
fn toolsrv_has_no_interpreter_and_needs_no_library() {
    let (interpreter, libraries) = headers(&std::fs::read(Dist::find().toolsrv()).unwrap());
    assert!(!interpreter, "PT_INTERP");
    assert_eq!(libraries, 0, "DT_NEEDED");
    // The same look finds both in a program that has them: this one.
    let (interpreter, libraries) = headers(&std::fs::read("/proc/self/exe").unwrap());
    if cfg!(target_feature = "crt-static") {
        return;
    }
    assert!(interpreter && libraries > 0);
}

/// Whether a 64-bit little-endian program has an interpreter, and how many
/// libraries it names.
fn headers(file: &[u8]) -> (bool, usize) {
    let number = |at: usize, size: usize| {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&file[at..at + size]);
        u64::from_le_bytes(bytes)
    };
    let place = |at: usize, size: usize| usize::try_from(number(at, size)).expect("64 bits");
    assert_eq!(&file[..6], b"\x7fELF\x02\x01");
    // e_phoff, e_phentsize, e_phnum; then p_type, p_offset, p_filesz.
    let (first, size, count) = (place(32, 8), place(54, 2), place(56, 2));
    let (mut interpreter, mut libraries) = (false, 0);
    for header in (0..count).map(|index| first + index * size) {
        match u32::try_from(number(header, 4)) {
            Ok(PT_INTERP) => interpreter = true,
            Ok(PT_DYNAMIC) => {
                let (at, length) = (place(header + 8, 8), place(header + 32, 8));
                let entries = (at..at + length).step_by(16);
                libraries += entries
                    .filter(|&entry| number(entry, 8) == DT_NEEDED)
                    .count();
            }
            _ => {}
        }
    }
    (interpreter, libraries)
}

#[test]
fn toolsrv_runs_where_there_is_nothing_else() {
    let Some(user) = User::root("toolsrv in an empty root directory") else {
        return;
    };
    let world = World::new(user);
    let root = world.make_directory("empty");
    std::fs::copy(world.dist().toolsrv(), root.join("toolsrv")).unwrap();
    let chroot = |argument: &str| {
        world
            .command("chroot")
            .arg(&root)
            .args(["/toolsrv", argument])
            .limit(Duration::from_secs(20))
    };
    let version = chroot("--version").run().ok();
    assert!(version.starts_with("toolsrv "), "{version}");
    // No directory to put a socket into: an error, with the places it tried.
    let _ = chroot("serve")
        .run()
        .has_status(1)
        .says(&["/tmp", "/var/tmp"]);
    // With one it starts, and would speak: it misses the boot record.
    world.make_directory("empty/tmp");
    let _ = chroot("serve").run().has_status(1).says(&["boot record"]);
    assert_eq!(std::fs::read_dir(root.join("tmp")).unwrap().count(), 0);
    // A program that is not alone does not start there.
    std::fs::copy("/bin/sh", root.join("sh")).unwrap();
    let _ = world
        .command("chroot")
        .arg(&root)
        .args(["/sh", "-c", "exit 0"])
        .run()
        .failed();
}

/// The targets of the architecture hold for what users are given, which is
/// linked with the std that `cargo xtask musl` prepares.
#[test]
fn toolsrv_is_small_enough_to_send() {
    let dist = Dist::find();
    let size = std::fs::metadata(dist.toolsrv()).unwrap().len();
    // A static glibc comes on top, and a debug build is six times as large.
    let most = if dist.is_for_users() {
        2_621_440
    } else {
        16 << 20
    };
    assert!(size <= most, "{size}");
}

#[test]
fn any_number_of_ollies_may_install_it_at_once() {
    let world = World::ordinary();
    let started: Vec<_> = (0..6)
        .map(|_| world.ollie(["exec", "--", "echo", "done"]).spawn())
        .collect();
    for running in started {
        assert_eq!(running.finish().ok(), "done\n");
    }
    let cache = world.home().join(".cache/ollie");
    let find = world
        .command("find")
        .arg(&cache)
        .args(["-type", "f"])
        .run()
        .ok();
    assert_eq!(find.lines().count(), 1, "{find}");
}

#[test]
fn a_toolsrv_that_was_changed_is_not_started() {
    let world = World::ordinary();
    let _ = world.ollie(["exec", "--", "true"]).run().ok();
    let cache = world.home().join(".cache/ollie");
    let find = world
        .command("find")
        .arg(&cache)
        .args(["-type", "f"])
        .run()
        .ok();
    let program = find.trim_end();
    let genuine = std::fs::read(program).unwrap();
    let mark = world.outside().join("started");
    std::fs::remove_file(program).unwrap();
    world.write_program(program, &format!("#!/bin/sh\ntouch {}\n", mark.display()));
    let _ = world.ollie(["exec", "--", "true"]).run().ok();
    assert!(!mark.exists());
    assert!(std::fs::read(program).unwrap() == genuine);
}

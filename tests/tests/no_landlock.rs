//! A kernel that has no Landlock, or where it is disabled: nothing runs.

use ollie_tests::{Finished, User, World};

/// `olliesrv` with these arguments where landlock_*(2) fail with this errno.
fn ollie(world: &World, errno: i32, args: &[&str]) -> Finished {
    world
        .command(world.base().join("ollie-escape"))
        .args(["no-landlock", &errno.to_string(), "--"])
        .arg(world.base().join("bin/olliesrv"))
        .args(args)
        .run()
}

#[test]
fn without_landlock_nothing_runs_and_the_reason_and_the_way_out_are_told() {
    for user in User::each("no Landlock, as root") {
        let world = World::new(user);
        // Where every user can execute it.
        let helper = std::fs::read(env!("CARGO_BIN_EXE_ollie-escape")).unwrap();
        world.write("ollie-escape", helper);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(world.base().join("ollie-escape"), mode).unwrap();
        for (errno, reason, way_out) in [
            (libc::ENOSYS, "not part of this kernel", "5.13"),
            (libc::EOPNOTSUPP, "disabled at boot", "lsm="),
            (libc::EPERM, "refuses Landlock", "container"),
        ] {
            let end = ollie(&world, errno, &["exec", "--", "echo", "ran"]);
            let end = end.has_status(202).says(&[reason, way_out, "--yolo"]);
            assert_eq!(end.out(), "", "{end}");
            let doctor = ollie(&world, errno, &["doctor"]).failed();
            assert!(doctor.out().contains(reason), "{doctor}");
            let shown = ollie(&world, errno, &["policy", "show"]).ok();
            assert!(shown.contains("nothing can run"), "{shown}");
            let chosen = ollie(&world, errno, &["exec", "--yolo", "--", "echo", "ran"]);
            let chosen = chosen.says(&["without a sandbox (--yolo)"]);
            assert_eq!(chosen.out(), "ran\n", "{chosen}");
        }
        // The shim itself changes nothing else.
        let none = world.command(world.base().join("ollie-escape"));
        let none = none.args(["no-landlock", "38", "--", "echo", "ran"]);
        assert_eq!(none.run().ok(), "ran\n");
    }
}

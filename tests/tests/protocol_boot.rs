//! What may come before 9P, and what toolsrv says to it.

use ollie_protocol::limits;
use ollie_tests::{Toolsrv, World};
use serde_json::{Value, json};

/// What toolsrv prints when it is given these bytes and then the end, and its
/// exit status. Nothing is ever left of it.
fn answer(world: &World, bytes: impl Into<Vec<u8>>) -> (String, String, i32) {
    let toolsrv = world.command(Toolsrv::program(world)).arg("serve");
    let end = toolsrv.stdin(bytes).run();
    assert_eq!(world.leftovers(), Vec::<String>::new());
    (end.out(), end.err(), end.status)
}

#[test]
fn a_refusal_says_for_programs_what_stands_in_the_way() {
    let world = Toolsrv::world();
    let file = world.write("home/file", "").display().to_string();
    for (field, value, kind) in [
        ("cwd", json!("/no/such/directory"), "working-directory"),
        ("cwd", json!(file), "working-directory"),
        ("policy", json!({}), "policy"),
        (
            "policy",
            json!({"profile": "x", "filesystem": "all"}),
            "policy",
        ),
    ] {
        let frame = Toolsrv::boot_frame(|record| record[field] = value.clone());
        let (out, _, status) = answer(&world, frame);
        let line = out.strip_prefix("mark ").expect("the mark comes first");
        let line: Value = serde_json::from_str(line).expect("then JSON");
        assert_eq!(line["refused"]["kind"], kind, "{field} {value}: {line}");
        assert_eq!(status, 1);
    }
}

#[test]
fn what_is_no_boot_record_is_told_on_standard_error_only() {
    let world = Toolsrv::world();
    let whole = Toolsrv::boot_frame(|_| ());
    let too_long = u32::try_from(limits::BOOT_MAX + 1)
        .expect("it fits")
        .to_le_bytes();
    let cases: [(Vec<u8>, &str); 9] = [
        (Vec::new(), "ended within the boot record"),
        (whole[..3].to_vec(), "ended within the boot record"),
        (
            whole[..whole.len() - 1].to_vec(),
            "ended within the boot record",
        ),
        (too_long.to_vec(), "does not begin with a boot record"),
        (
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            "does not begin with a boot record",
        ),
        (b"\x02\0\0\0{}".to_vec(), "missing field"),
        (
            Toolsrv::boot_frame(|record| record["protocol"] = json!(2)),
            "this toolsrv speaks 1",
        ),
        (
            Toolsrv::boot_frame(|record| record["mark"] = json!("a b")),
            "mark",
        ),
        (
            Toolsrv::boot_frame(|record| record["yoloo"] = json!(true)),
            "unknown field `yoloo`",
        ),
    ];
    for (bytes, says) in cases {
        let (out, err, status) = answer(&world, bytes);
        assert_eq!((out.as_str(), status), ("", 1), "{err}");
        assert!(err.contains(says), "{says:?} is not in {err:?}");
    }
}

/// The end of input right behind the record is the end of the session.
#[test]
fn a_session_whose_client_is_gone_at_once_leaves_nothing() {
    let world = Toolsrv::world();
    let (out, err, status) = answer(&world, Toolsrv::boot_frame(|_| ()));
    assert!(out.starts_with("mark {\"ready\":{\"protocol\":1,"), "{out}");
    assert_eq!((err.as_str(), status), ("", 0));
}

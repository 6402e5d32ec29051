//! Packing: the same files give the same bytes, and other programs read them.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use ollie_bundle::{Builder, Bundle, Error, Manifest, Mode};

/// A tree with an executable and a plain file in it, its files created in the
/// given order and with the given mode bits.
fn tree(at: &Path, names: [&str; 2], plain: u32, executable: u32) {
    fs::create_dir_all(at.join("hello")).expect("temporary directory");
    for name in names {
        let path = at.join("hello").join(name);
        fs::write(&path, format!("I am {name}\n")).expect("write");
        let mode = if name == "run" { executable } else { plain };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
    }
}

fn pack(tools: &Path) -> Vec<u8> {
    Builder::new("1.2.3")
        .tree("tools", tools)
        .and_then(|builder| builder.toolsrv("linux", "x86_64", vec![7; 70_000], Some("a note")))
        .and_then(Builder::pack)
        .expect("valid input")
}

#[test]
fn place_order_umask_and_time_do_not_change_the_bytes() {
    let (one, two) = (tempfile::tempdir(), tempfile::tempdir());
    let (one, two) = (one.expect("temporary"), two.expect("temporary"));
    tree(one.path(), ["run", "tool.yaml"], 0o644, 0o755);
    tree(two.path(), ["tool.yaml", "run"], 0o600, 0o700);
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    fs::File::options()
        .append(true)
        .open(two.path().join("hello/run"))
        .and_then(|file| file.set_modified(old))
        .expect("set a file time");
    assert_eq!(pack(one.path()), pack(two.path()));
}

#[test]
fn what_was_packed_is_read_back() {
    let directory = tempfile::tempdir().expect("temporary");
    tree(directory.path(), ["run", "tool.yaml"], 0o644, 0o755);
    fs::write(directory.path().join(".swp"), "x").expect("write");
    fs::write(directory.path().join("tool.yaml~"), "x").expect("write");
    let file = directory.path().join("bundle");
    fs::write(&file, pack(&directory.path().join("hello"))).expect("write");

    let bundle = Bundle::open(&file).expect("own bundle");
    let listed: Vec<_> = bundle
        .files()
        .iter()
        .map(|file| (file.entry().path(), file.entry().mode()))
        .collect();
    assert_eq!(
        listed,
        [
            ("tools/run", Mode::Executable),
            ("tools/tool.yaml", Mode::Plain),
            ("toolsrv/linux-x86_64/toolsrv", Mode::Executable),
        ]
    );
    let toolsrv = bundle.toolsrv("linux", "x86_64").expect("packed");
    assert_eq!(toolsrv.contents(), vec![7; 70_000]);
    assert_eq!(toolsrv.entry().note(), Some("a note"));
    assert_eq!(bundle.manifest().ollie(), "1.2.3");
    assert_eq!(
        &Manifest::read(&file).expect("own bundle"),
        bundle.manifest()
    );
}

#[test]
fn the_manifest_is_read_from_the_first_part_of_the_file_alone() {
    // Random-looking contents, so that the compressed file is long.
    let mut state = 1_u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    let bundle = Builder::new("1.2.3")
        .file("tools/noise", Mode::Plain, noise.take(1 << 20).collect())
        .and_then(Builder::pack)
        .expect("valid input");
    assert!(bundle.len() > 1 << 20);
    let manifest = Manifest::read_from(&bundle[..128 << 10]).expect("the head is enough");
    assert_eq!(manifest.files().len(), 1);
}

#[test]
fn links_and_special_files_are_not_packed() {
    let directory = tempfile::tempdir().expect("temporary");
    symlink("/etc/passwd", directory.path().join("link")).expect("symlink");
    let error = Builder::new("0")
        .tree("tools", directory.path())
        .unwrap_err();
    assert!(matches!(error, Error::Kind { path, .. } if path == "tools/link"));
    let error = Builder::new("0")
        .tree("tools", Path::new("/nonexistent"))
        .unwrap_err();
    assert!(matches!(error, Error::Io { .. }));
}

#[test]
fn a_path_is_taken_once() {
    let one = || Builder::new("0").file("tools/a", Mode::Plain, Vec::new());
    let twice = one().and_then(|builder| builder.file("tools/a", Mode::Plain, Vec::new()));
    assert!(matches!(twice, Err(Error::Conflict { .. })));
    let nested = one().and_then(|builder| builder.file("tools/a/b", Mode::Plain, Vec::new()));
    assert!(matches!(
        nested.and_then(Builder::pack),
        Err(Error::Conflict { .. })
    ));
}

/// GNU tar and xz are the peers: what they unpack is what went in.
#[test]
fn gnu_tar_lists_and_unpacks_a_bundle() {
    let directory = tempfile::tempdir().expect("temporary");
    let tools = directory.path().join("in");
    tree(&tools, ["run", "tool.yaml"], 0o644, 0o755);
    let file = directory.path().join("bundle.tar.xz");
    fs::write(&file, pack(&tools)).expect("write");

    let out = directory.path().join("out");
    fs::create_dir(&out).expect("mkdir");
    let listing = Command::new("tar")
        .args(["--extract", "--xz", "--verbose", "--verbose", "--utc"])
        .arg("--numeric-owner")
        .arg("--file")
        .arg(&file)
        .arg("--directory")
        .arg(&out)
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/run/current-system/sw/bin")
        .output()
        .expect("tar and xz are needed by this test (Debian: xz-utils)");
    assert_eq!(String::from_utf8_lossy(&listing.stderr), "");
    let listing = String::from_utf8(listing.stdout).expect("plain names");
    let lines: Vec<Vec<&str>> = listing
        .lines()
        .map(|line| line.split_whitespace().collect())
        .filter(|line: &Vec<&str>| line[1] != "Creating")
        .collect();
    let time = ["1970-01-01", "00:00"];
    assert_eq!(lines[0][..2], ["-rw-r--r--", "0/0"]);
    assert_eq!(lines[0][3..], [time[0], time[1], "manifest.json"]);
    let run = [
        "-rwxr-xr-x",
        "0/0",
        "9",
        time[0],
        time[1],
        "tools/hello/run",
    ];
    assert_eq!(lines[1], run);
    let yaml = [
        "-rw-r--r--",
        "0/0",
        "15",
        time[0],
        time[1],
        "tools/hello/tool.yaml",
    ];
    assert_eq!(lines[2], yaml);
    assert_eq!(lines[3][..3], ["-rwxr-xr-x", "0/0", "70000"]);
    assert_eq!(lines.len(), 4);
    let unpacked = fs::read_to_string(out.join("tools/hello/run")).expect("unpacked");
    assert_eq!(unpacked, "I am run\n");
}

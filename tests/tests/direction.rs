//! Dependencies point down, and the rooms stay what they are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use ollie_tests::workspace;
use serde_json::Value;

/// What each room may use of ours. Tests and tools for building stand beside
/// the rooms.
const ALLOWED: &[(&str, &[&str])] = &[
    ("ninep-rs", &[]),
    ("ollie-builtins", &[]),
    ("ollie-protocol", &[]),
    ("ollie-sandbox", &["ollie-protocol"]),
    ("ollie-bundle", &["ollie-protocol"]),
    ("ollie-exec", &["ollie-sandbox", "ollie-protocol"]),
    ("ollie-client", &["ninep-rs", "ollie-protocol"]),
    (
        "toolsrv",
        &[
            "ollie-builtins",
            "ollie-exec",
            "ollie-sandbox",
            "ninep-rs",
            "ollie-protocol",
            // For its build only; what ends up in it is asked below.
            "ollie-catalogue",
        ],
    ),
    ("ollie-catalogue", &["ollie-protocol"]),
    (
        // ninep-rs for the configuration of a client that it hands on.
        "ollie-deploy",
        &["ollie-bundle", "ollie-client", "ninep-rs", "ollie-protocol"],
    ),
    // It reaches hands through a trait of its own, so it needs no client.
    ("ollie-agent", &["ollie-protocol"]),
    (
        "ollie-sessions",
        &[
            "ollie-agent",
            "ollie-catalogue",
            "ollie-client",
            "ollie-deploy",
            "ninep-rs",
            "ollie-protocol",
        ],
    ),
    (
        "olliesrv",
        &[
            "ollie-sessions",
            "ollie-agent",
            "ollie-catalogue",
            "ollie-client",
            "ollie-deploy",
            "ollie-bundle",
            "ninep-rs",
            "ollie-sandbox",
            "ollie-protocol",
        ],
    ),
];

/// Packages that are no room of the architecture.
const BESIDE: [&str; 3] = ["xtask", "ollie-tests", "ollie-bench"];

#[test]
fn dependencies_point_down() {
    let allowed: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    let packages = packages();
    let ours: BTreeSet<_> = packages.keys().cloned().collect();
    let mut seen = 0;
    for (name, dependencies) in &packages {
        if BESIDE.contains(&name.as_str()) {
            continue;
        }
        let Some(may) = allowed.get(name.as_str()) else {
            panic!("{name} has no place in the table: give it one");
        };
        for used in dependencies.intersection(&ours) {
            assert!(may.contains(&used.as_str()), "{name} must not use {used}");
            seen += 1;
        }
    }
    // The table is about something.
    assert!(seen > 10, "{packages:?}");
}

#[test]
fn only_the_sandbox_knows_landlock_and_seccomp() {
    for (name, dependencies) in packages() {
        for word in ["landlock", "seccompiler", "libseccomp"] {
            assert!(
                name == "ollie-sandbox" || !dependencies.contains(word),
                "{name} uses {word}"
            );
        }
    }
    assert!(packages()["ollie-sandbox"].contains("landlock"));
}

#[test]
fn toolsrv_carries_no_brain_and_no_way_out() {
    let reached = reached_by("toolsrv");
    // The list is complete.
    for needed in ["tokio", "landlock", "ollie-exec", "hmac"] {
        assert!(reached.contains(needed), "{needed} is missing: {reached:?}");
    }
    let forbidden = [
        "ollie-agent",
        "ollie-deploy",
        "ollie-bundle",
        "ollie-client",
        "ollie-catalogue",
        "olliesrv",
        "serde-saphyr",
        "saphyr-parser",
        "serde_yaml",
        "clap",
        "hyper",
        "reqwest",
        "ureq",
        "genai",
        "h2",
        "http",
        "isahc",
        "curl",
        "rustls",
        "native-tls",
        "openssl",
        "openssl-sys",
        "ring",
        "aws-lc-rs",
        "zbus",
    ];
    for name in forbidden {
        assert!(!reached.contains(name), "toolsrv reaches {name}");
    }
    // The same question finds what is there.
    assert!(reached_by("olliesrv").contains("serde-saphyr"));
}

#[test]
fn ninep_rs_has_no_word_of_ollie() {
    let room = workspace().join("crates/ninep-rs");
    let files = files_below(&room, &["rs", "toml", "md"]);
    assert!(files.len() > 10);
    for file in files {
        let text = read(&file).to_lowercase();
        assert!(!text.contains("ollie"), "{}", file.display());
        assert!(!text.contains("toolsrv"), "{}", file.display());
    }
}

#[test]
fn the_protocol_does_no_input_or_output() {
    let manifest = &packages()["ollie-protocol"];
    assert!(
        !manifest.contains("tokio") && !manifest.contains("rustix"),
        "{manifest:?}"
    );
    for file in files_below(&workspace().join("crates/protocol/src"), &["rs"]) {
        let text = read(&file);
        for word in [
            "std::fs",
            "std::net",
            "std::process",
            "std::env",
            "std::thread",
        ] {
            assert!(!text.contains(word), "{} has {word}", file.display());
        }
    }
}

#[test]
fn unsafe_code_lives_in_two_basements() {
    let mut basements = BTreeSet::new();
    for file in files_below(&workspace().join("crates"), &["rs"]) {
        let inside = file
            .strip_prefix(workspace())
            .unwrap()
            .display()
            .to_string();
        let has = read(&file)
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default())
            .any(|code| code.contains("unsafe {") || code.contains("unsafe fn"));
        if has && inside.contains("/src/") {
            // A basement may have rooms of its own.
            let end = inside
                .find("/sys/")
                .map_or(inside.len(), |at| at + "/sys".len());
            basements.insert(inside[..end].trim_end_matches(".rs").to_owned());
        }
    }
    let expected = ["crates/exec/src/sys", "crates/sandbox/src/enforce/sys"];
    assert_eq!(basements, expected.map(str::to_owned).into());
}

/// Each package of the workspace and what it names as a dependency, for more
/// than its tests.
fn packages() -> BTreeMap<String, BTreeSet<String>> {
    let json = cargo(&[
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
        "--offline",
    ]);
    let metadata: Value = serde_json::from_str(&json).expect("cargo metadata prints JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    list(&metadata["packages"])
        .iter()
        .map(|package| {
            let dependencies = list(&package["dependencies"]);
            let used = dependencies.iter().filter(|used| used["kind"] != "dev");
            (name(package), used.map(name).collect())
        })
        .collect()
}

/// Names of all packages that end up in a package's library or program.
fn reached_by(package: &str) -> BTreeSet<String> {
    let tree = cargo(&[
        "tree",
        "--package",
        package,
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--offline",
    ]);
    tree.lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

fn cargo(arguments: &[&str]) -> String {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program)
        .args(arguments)
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn files_below(directory: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(&directory).expect("a directory of the source");
        for path in entries.flatten().map(|entry| entry.path()) {
            let extension = path.extension().and_then(std::ffi::OsStr::to_str);
            if path.is_dir() {
                directories.push(path);
            } else if extension.is_some_and(|it| extensions.contains(&it)) {
                found.push(path);
            }
        }
    }
    found
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).expect("a file of the source")
}

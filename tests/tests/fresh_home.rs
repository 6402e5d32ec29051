//! The first work in an account that has done none: package managers find a
//! cache that they may write to.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use ollie_tests::{Finished, User, World, gap};

fn run(world: &World, code: &str) -> Finished {
    world.shell(code).limit(Duration::from_secs(150)).run()
}

fn there(program: &str) -> bool {
    let there = Path::new("/usr/bin").join(program).exists();
    if !there {
        gap(
            "an account's first work",
            &format!("{program} is not installed"),
        );
    }
    there
}

/// It was made, for this user and nobody else.
fn is_private(world: &World, path: &str) {
    let about = std::fs::symlink_metadata(world.home().join(path)).unwrap();
    assert!(about.is_dir(), "{path}");
    assert_eq!(about.mode() & 0o7777, 0o700, "{path}");
    assert_eq!(about.uid(), world.user().uid(), "{path}");
}

#[test]
fn go_builds_and_takes_modules() {
    if !there("go") || !there("python3") {
        return;
    }
    for user in User::each("go in a fresh home, as root") {
        let world = World::new(user);
        let code = r#"set -e
            /usr/bin/python3 - <<'END'
import os, zipfile
at = 'proxy/example.org/dep/@v'; os.makedirs(at)
mod = 'module example.org/dep\n'
open(at + '/list', 'w').write('v1.0.0\n')
open(at + '/v1.0.0.info', 'w').write('{"Version":"v1.0.0","Time":"2024-01-01T00:00:00Z"}')
open(at + '/v1.0.0.mod', 'w').write(mod)
with zipfile.ZipFile(at + '/v1.0.0.zip', 'w') as z:
    z.writestr('example.org/dep@v1.0.0/go.mod', mod)
    z.writestr('example.org/dep@v1.0.0/d.go', 'package dep\nconst Seven = 7\n')
END
            export GOPROXY=file://$PWD/proxy GONOSUMDB='*' GOFLAGS='-mod=mod -modcacherw' GOTOOLCHAIN=local
            go mod init example.org/own 2>/dev/null
            printf 'package main\nimport "example.org/dep"\nfunc main() { print(dep.Seven) }\n' > m.go
            go build -o own . 2>&1
            ./own 2>&1"#;
        assert!(run(&world, code).ok().ends_with('7'));
        is_private(&world, ".cache/go-build");
        let module = "go/pkg/mod/example.org/dep@v1.0.0/d.go";
        assert!(world.home().join(module).exists());
    }
}

#[test]
fn npm_keeps_what_it_fetched() {
    if !there("npm") {
        return;
    }
    let world = World::ordinary();
    let code = r#"set -e
        mkdir dep; echo '{"name":"dep","version":"1.0.0"}' > dep/package.json
        npm pack --silent ./dep; npm cache add ./dep-1.0.0.tgz; npm cache verify"#;
    let end = run(&world, code);
    assert!(!end.err().contains("EACCES"), "{end}");
    let _ = end.ok();
    is_private(&world, ".npm");
    assert!(world.home().join(".npm/_cacache").exists());
}

#[test]
fn pip_has_a_cache() {
    if !there("python3") {
        return;
    }
    let world = World::ordinary();
    let code = "set -e; /usr/bin/python3 -m venv v
        test -w \"$(v/bin/python -m pip cache dir)\"
        v/bin/python -m pip cache info";
    let end = run(&world, code);
    assert!(!end.err().contains("not writable"), "{end}");
    let _ = end.ok();
    is_private(&world, ".cache/pip");
}

#[test]
fn cargo_takes_a_crate_from_a_repository() {
    let world = World::ordinary();
    let mut path = world.toolchain().into_os_string();
    path.push(":");
    path.push(world.path());
    let code = r#"set -e
        mkdir -p dep/src && cd dep && git init -q .
        printf '[package]\nname = "dep"\nversion = "1.0.0"\nedition = "2021"\n' > Cargo.toml
        echo 'pub const SEVEN: u8 = 7;' > src/lib.rs
        git add . && git commit -qm one && cd ..
        mkdir -p own/src && cd own
        printf '[package]\nname = "own"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\ndep = { git = "file://%s/dep" }\n' "$(dirname "$PWD")" > Cargo.toml
        echo 'fn main() { println!("{}", dep::SEVEN) }' > src/main.rs
        cargo run -q"#;
    let run = world.shell(code).env("PATH", &path);
    assert_eq!(run.limit(Duration::from_secs(150)).run().ok(), "7\n");
    is_private(&world, ".cargo/git");
}

/// A tool may have put it there, or a person who keeps the cache elsewhere.
#[test]
fn no_cache_is_made_through_a_link() {
    let world = World::ordinary();
    world.make_directory("home/elsewhere");
    symlink("elsewhere", world.home().join(".cache")).unwrap();
    let _ = run(&world, "true").ok();
    for name in ["pip", "go-build"] {
        assert!(
            !world.home().join("elsewhere").join(name).exists(),
            "{name}"
        );
    }
}

#[test]
fn no_cache_is_made_that_the_policy_does_not_have() {
    for (options, file) in [
        (&["--profile", "strict"][..], ""),
        (&[], "drop: { filesystem: ['{XDG_CACHE_HOME}/pip'] }\n"),
    ] {
        let world = World::ordinary();
        world.write("home/.config/ollie/sandbox.yaml", file);
        let words = ["--", "true"];
        let _ = world.ollie(["exec"]).args(options).args(words).run().ok();
        assert!(!world.home().join(".cache/pip").exists(), "{options:?}");
    }
}

#[test]
fn caches_of_ones_own_are_made_where_they_may_be() {
    let world = World::ordinary();
    let project = "caches: { sh: ['{HOME}/made'] }\n";
    world.write("home/project/.ollie-sandbox.yaml", project);
    let refused = run(&world, "true").has_status(206);
    let _ = refused.says(&["makes no directories"]);
    assert!(!world.home().join("made").exists());
    world.write("home/project/.ollie-sandbox.yaml", "");
    let outside = world.outside().join("made");
    let caches = format!(
        "caches: {{ sh: ['{{HOME}}/made/it', {}], no-such-program: ['{{HOME}}/unmade'] }}\n",
        outside.display()
    );
    world.write("home/.config/ollie/sandbox.yaml", caches);
    let _ = run(&world, "echo x > ~/made/it/file").ok();
    is_private(&world, "made");
    is_private(&world, "made/it");
    assert!(!world.home().join("unmade").exists());
    assert!(!outside.exists());
}

//! What must work.

use std::fs;
use std::sync::Arc;

use ollie_sandbox::{Document, Explained, compile};

use crate::cases::Case;
use crate::world::World;

pub(crate) const ALL: &[Case] = &[
    ("a_shell_does_what_shells_do", shell),
    ("renames_between_directories_of_the_project_work", renames),
    ("git_commits", git),
    ("a_compiler_compiles", compiler),
    ("own_sockets_and_own_processes_work", own),
    ("the_strict_profile_compiles_and_has_no_network", strict),
    ("the_same_enforcement_serves_many_calls", many),
    ("a_failed_call_is_explained", explained),
];

fn works(world: &World, script: &str) -> String {
    let output = world.sh(script);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{script}`: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn shell(world: &World) {
    works(world, "echo x > /dev/null; head -c 8 /dev/urandom | wc -c");
    assert_eq!(works(world, "cat <<E\nhere\nE\n"), "here\n");
    assert_eq!(works(world, "bash -c 'cat <<< word'"), "word\n");
    assert_eq!(works(world, "yes | head -2"), "y\ny\n");
    assert_eq!(works(world, "cat /proc/self/comm"), "cat\n");
    assert_eq!(
        works(world, "(echo a > /dev/stdout; echo b > /dev/fd/1) | cat"),
        "a\nb\n"
    );
    works(
        world,
        "t=$(mktemp) && echo x > $t && case $t in $TMPDIR/*) ;; *) exit 1;; esac",
    );
    works(
        world,
        "mkdir -p a/b c && echo x > a/b/f && mv a/b/f c/ && mv a d && rm -r d c",
    );
    works(
        world,
        "ln -s file s && cat s && ln file h && chmod 600 file && touch file",
    );
    works(
        world,
        "cp /bin/true t && ./t && mkfifo p && (cat p & echo x > p; wait)",
    );
    works(world, "sleep 5 & kill $!; wait $!; [ $? -gt 128 ]");
    works(
        world,
        "id -un; date; nproc; getent hosts localhost; uname -a",
    );
}

/// What `mv` hides, because it copies where it cannot rename.
fn renames(world: &World) {
    works(world, "mkdir -p a/b c && echo x > a/b/f");
    assert_eq!(world.attempt(&["rename", "a/b/f", "c/f"]), "ok");
    assert_eq!(world.attempt(&["link", "c/f", "a/g"]), "ok");
    assert_eq!(world.attempt(&["rename", "a", "c/a"]), "ok");
}

fn git(world: &World) {
    works(
        world,
        "git init -q . && git add file && git commit -qm one && git log --oneline \
         && git checkout -q -b other && echo more >> file && git commit -qam two \
         && git checkout -q - && git merge -q other && git gc -q && git status --short",
    );
    assert_eq!(works(world, "git log --format=%an -1"), "A\n");
}

fn compiler(world: &World) {
    fs::write(
        world.project.join("m.c"),
        "#include <stdio.h>\nint main(){puts(\"hi\");}\n",
    )
    .unwrap();
    assert_eq!(works(world, "cc -o m m.c && ./m"), "hi\n");
}

fn own(world: &World) {
    assert_eq!(world.attempt(&["own-socket", "sock"]), "ok");
    assert_eq!(world.attempt(&["ptrace-own"]), "ok");
}

fn strict(world: &World) {
    let policy = world.policy_of("strict", &Document::default());
    let enforcement = Arc::new(compile(&policy, false).unwrap().0);
    fs::write(world.project.join("m.c"), "int main(){return 0;}\n").unwrap();
    let script = "cc -o m m.c && ./m && echo x > /dev/null && cat file && ls | wc -l";
    let output = world.sh_under(&enforcement, script);
    assert_eq!(output.stdout, b"text\n3\n", "{output:?}");
    let output = world.sh_under(&enforcement, "cat ~/.gitconfig");
    assert!(!output.status.success() && output.stdout.is_empty());
    let socket = ["socket", "2", "1", "0"];
    assert_eq!(world.attempt_under(&enforcement, &socket), "EACCES");
}

fn many(world: &World) {
    let enforcement = world.enforcement(&Document::default());
    for _ in 0..200 {
        let output = world.sh_under(&enforcement, "cat ~/.bashrc; cat file");
        assert_eq!(output.stdout, b"text\n");
    }
}

/// Five programs with five ways to say it, and one that mode bits refuse.
fn explained(world: &World) {
    let policy = world.policy(&Document::default());
    let enforcement = world.enforcement(&Document::default());
    let key = world.home.join(".ssh/id_ed25519");
    let bashrc = world.home.join(".bashrc");
    let dir = world.home.join("dir");
    for (script, operation, target, allow) in [
        (
            "cat ~/.ssh/id_ed25519",
            "read",
            &key,
            Some(r#"filesystem: { ro: ["{HOME}/.ssh/id_ed25519"] }"#),
        ),
        (
            "echo x >> ~/.bashrc",
            "write",
            &bashrc,
            // What is written there runs outside of the sandbox.
            None,
        ),
        (
            "bash -c 'echo x >> ~/.bashrc'",
            "write",
            &bashrc,
            // What is written there runs outside of the sandbox.
            None,
        ),
        (
            "cp file ~/.bashrc",
            "write",
            &bashrc,
            // What is written there runs outside of the sandbox.
            None,
        ),
        ("mkdir ~/dir", "create", &dir, None),
        (
            "git config -f ~/.ssh/id_ed25519 -l",
            "read",
            &key,
            Some(r#"filesystem: { ro: ["{HOME}/.ssh/id_ed25519"] }"#),
        ),
        (
            "tee ~/.bashrc < file",
            "write",
            &bashrc,
            // What is written there runs outside of the sandbox.
            None,
        ),
    ] {
        let output = world.sh_under(&enforcement, script);
        assert!(!output.status.success(), "`{script}`");
        let explained = policy.denials(&["sh", "-c", script], &world.project, &output.stderr);
        assert!(!explained.unexplained, "`{script}`: {explained:?}");
        let denials = explained.denials;
        let stderr = String::from_utf8_lossy(&output.stderr);
        let denial = denials
            .first()
            .unwrap_or_else(|| panic!("`{script}`: {stderr}"));
        assert_eq!(
            denial.target,
            target.display().to_string(),
            "`{script}`: {stderr}"
        );
        assert_eq!(
            (denial.operation.as_str(), denial.allow.as_deref()),
            (operation, allow),
            "`{script}`: {stderr}"
        );
    }
    let script = "chmod 0 file; cat file";
    let output = world.sh_under(&enforcement, script);
    assert!(!output.status.success());
    assert_eq!(
        policy.denials(&["sh", "-c", script], &world.project, &output.stderr),
        Explained::default()
    );
    // It names nothing, and what it is about is no path.
    let said = b"connecting failed: Permission denied\n";
    let explained = policy.denials(&["sh", "-c", "true"], &world.project, said);
    assert!(explained.denials.is_empty() && explained.unexplained);
    // As rustup says it.
    let said = format!(
        "error: could not create '{}'\n\nCaused by:\n    Permission denied (os error 13)\n",
        bashrc.display()
    );
    let explained = policy.denials(&["rustup"], &world.project, said.as_bytes());
    assert_eq!(explained.denials[0].target, bashrc.display().to_string());
}

/// With the real home directory, where the toolchain is.
pub(crate) fn cargo(world: &World) {
    let script = "cargo init -q --name small . && cargo build -q --offline && target/debug/small";
    let output = world.sh_with_real_home(script);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, b"Hello, world!\n", "{stderr}");
    let output = world.sh_with_real_home("echo x >> ~/.cargo/bin/cargo");
    assert!(!output.status.success());
}

use std::path::Path;

use serde_json::{Value, json};

use crate::World;
use crate::must::must;

/// A terminal (pty(7)) and somebody at it: awaits texts, types, reads what
/// stands there; `leave` is typed until it ends. Each step has twenty seconds.
/// Prints everything that was shown, and the status, as JSON.
const PERSON: &str = r#"
import json, os, pty, select, signal, sys, termios, time

steps, command = json.loads(sys.argv[1]), sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(command[0], command)
before, shown, looked, ended = termios.tcgetattr(terminal), b'', 0, False

def more(deadline):
    global shown, ended
    wait = deadline - time.monotonic()
    if wait <= 0 or not select.select([terminal], [], [], wait)[0]:
        return False
    try:
        piece = os.read(terminal, 65536)
    except OSError:  # EIO: nobody has the other end any more
        piece = b''
    shown += piece
    ended = not piece
    return bool(piece)

def finish(problem, status=None):
    print(json.dumps({'shown': shown.decode(errors='replace'), 'problem': problem, 'status': status}))
    sys.exit()

for kind, text in steps:
    deadline = time.monotonic() + 20
    if kind == 'type':
        os.write(terminal, text.encode())
    if kind == 'type bytes':
        os.write(terminal, bytes.fromhex(text))
    while kind == 'await' and text.encode() not in shown[looked:]:
        if not more(deadline):
            os.kill(pid, signal.SIGKILL)
            finish(f'{text!r} did not come')
    if kind == 'await':
        looked = shown.index(text.encode(), looked) + len(text.encode())
deadline = time.monotonic() + 20
while not ended and time.monotonic() < deadline:
    if not more(time.monotonic() + 0.5) and not ended and steps[-1][0] == 'leave':
        os.write(terminal, steps[-1][1].encode())
if not ended:
    os.kill(pid, signal.SIGKILL)
    finish('it does not end')
if termios.tcgetattr(terminal) != before:
    finish('the terminal is not as it was')
finish(None, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

/// `olliesrv` with these arguments at a terminal of its own: what was shown,
/// and the status in the end. Each step is `await` or `type` and a text,
/// or `type bytes` and hexadecimal digits; the last one may be `leave`, which
/// types until it ends. `ssh` is the program
/// that goes to another host.
///
/// # Panics
/// If a step does not come to pass, with what was shown.
#[track_caller]
#[must_use]
pub fn at_a_terminal(
    world: &World,
    arguments: &[&str],
    ssh: Option<&Path>,
    steps: &[(&str, &str)],
) -> (String, i64) {
    let mut command = world
        .command("python3")
        .args(["-c", PERSON, &json!(steps).to_string()])
        .arg(world.base().join("bin/olliesrv"))
        .args(arguments)
        .env("TERM", "xterm")
        .limit(std::time::Duration::from_secs(120));
    if let Some(ssh) = ssh {
        command = command.env("OLLIE_SSH", ssh);
    }
    let said: Value = must(
        serde_json::from_str(&command.run().ok()),
        "read the steps' end",
    );
    let shown = said["shown"].as_str().unwrap_or_default().to_owned();
    assert_eq!(said["problem"], Value::Null, "{shown}");
    (shown, said["status"].as_i64().unwrap_or(-1))
}

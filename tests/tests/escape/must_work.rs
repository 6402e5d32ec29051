//! What must work under the default profile, beside what tests/work.rs has.

use ollie_tests::{User, gap};

use crate::place::Place;

/// What it is, the program it needs beside a shell, and the code.
pub(crate) const WORK: &[(&str, &str, &str)] = &[
    (
        "devices, pipes and here documents",
        "bash",
        "echo x > /dev/null && yes | head -2 | wc -l && cat <<END && bash -c 'cat <<< word'
text
END",
    ),
    (
        "zsh with a here document",
        "zsh",
        "zsh -c 'cat <<END
text
END
cat =(echo more)'",
    ),
    (
        "renames and links between directories of the project",
        "sh",
        "mkdir -p a/b c && echo x > a/b/f && $E rename a/b/f c/f && $E link c/f a/g \
         && $E rename a c/a",
    ),
    ("names are resolved", "getent", "getent hosts localhost"),
    (
        "HTTPS with a server of one's own",
        "openssl",
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout k.pem -out c.pem -days 1 \
         -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
         python3 - <<'END'
import ssl, threading, http.server, urllib.request
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'hello')
    def log_message(self, *a): pass
s = http.server.HTTPServer(('127.0.0.1', 0), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain('c.pem', 'k.pem')
s.socket = c.wrap_socket(s.socket, server_side=True)
threading.Thread(target=s.serve_forever, daemon=True).start()
u = 'https://localhost:%d/' % s.server_address[1]
t = ssl.create_default_context(cafile='c.pem')
assert urllib.request.urlopen(u, context=t).read() == b'hello'
END",
    ),
    (
        "a Python environment with pip",
        "python3",
        "python3 -m venv v && v/bin/python -m pip --version \
         && v/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix'
python3 - <<'END'
import zipfile
i = 'own-1.0.dist-info/'
with zipfile.ZipFile('own-1.0-py3-none-any.whl', 'w') as z:
    z.writestr('own.py', 'SEVEN = 7')
    z.writestr(i + 'METADATA', 'Metadata-Version: 2.1\\nName: own\\nVersion: 1.0\\n')
    z.writestr(i + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    z.writestr(i + 'RECORD', '')
END
v/bin/python -m pip install -q --no-index ./own-1.0-py3-none-any.whl \
 && v/bin/python -c 'import own; assert own.SEVEN == 7'",
    ),
    (
        "go builds and tests without a network",
        "go",
        "export GOPROXY=off GOTOOLCHAIN=local GOCACHE=$TMPDIR/go && go mod init example.org/own 2>/dev/null \
         && printf 'package main\\nfunc seven() int { return 7 }\\nfunc main() { println(seven()) }\\n' > m.go \
         && printf 'package main\\nimport \"testing\"\\nfunc TestSeven(t *testing.T) { if seven() != 7 { t.Fail() } }\\n' > m_test.go \
         && go build -o own . && ./own && go test ./...",
    ),
    (
        "Python's processes",
        "python3",
        "cat > m.py <<'END'
import multiprocessing as m
if __name__ == '__main__':
    with m.get_context('spawn').Pool(2) as p: assert p.map(abs, [-1, -2]) == [1, 2]
    with m.Manager() as s:
        d = s.dict(); d[1] = 2; assert d[1] == 2
END
python3 m.py",
    ),
    (
        "npm with a local package",
        "npm",
        r#"mkdir dep && echo '{"name":"dep","version":"1.0.0","main":"i.js"}' > dep/package.json \
         && echo 'module.exports=7' > dep/i.js && echo '{"name":"a","version":"1.0.0"}' > package.json \
         && npm install --offline --no-audit --no-fund ./dep && node -e 'if (require("dep") !== 7) throw 1'"#,
    ),
    (
        "node with a pathname socket",
        "node",
        r#"cat > n.js <<'END'
const n = require("net");
const s = n.createServer(c => c.end("hi")).listen("n.sock", () =>
  n.connect("n.sock").on("data", d => { if (String(d) !== "hi") process.exit(1); s.close(); })
    .on("error", e => { console.error(e); process.exit(1); }));
END
node n.js"#,
    ),
    (
        "an agent for ssh keys of one's own",
        "ssh-agent",
        // It answers 1 where it holds no key, 2 where nobody answers.
        "ssh-agent -a $TMPDIR/a sh -c 'SSH_AUTH_SOCK=$TMPDIR/a ssh-add -l'; test $? -eq 1",
    ),
    (
        "git in a worktree",
        "git",
        "git init -q r && cd r && git config user.name a && git config user.email a@b.c \
         && echo x > f && git add f && git commit -qm one && git worktree add -q ../w \
         && cd ../w && echo y > f && git commit -qam two && git log --oneline",
    ),
    (
        "a debugger on a program of one's own",
        "gdb",
        "gdb -q -batch -ex run /bin/true 2>&1 | grep 'exited normally'",
    ),
    (
        "tracing a program of one's own",
        "strace",
        "strace -f -o t sh -c \"/bin/true; $E own-kinds .\" && grep -q execve t",
    ),
    (
        "Java starts",
        "java",
        "java -XX:TieredStopAtLevel=1 -version",
    ),
    (
        "Unix sockets of one's own, of two kinds and by every name",
        "sh",
        "$E own-kinds . && $E own-kinds $TMPDIR && $E own-abstract && $E unix-pair stream \
         && $E unix-pair packets",
    ),
    (
        "a pair of datagram sockets",
        "sh",
        "$E pair-messages && $E pair-nonsense",
    ),
    (
        "a pair of datagram sockets between two processes",
        "python3",
        "cat > d.py <<'END'
import os, socket
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
if os.fork() == 0:
    a.close(); b.send(b'one'); b.send(b'two'); os._exit(b.recv(9) != b'three')
b.close(); assert (a.recv(9), a.recv(9)) == (b'one', b'two'); a.send(b'three')
assert os.wait()[1] == 0
END
python3 d.py",
    ),
    (
        "many connections at once, and a server that does not accept",
        "sh",
        "$E parallel . && $E full-backlog . && $E bad-addresses && $E echo . 100",
    ),
    // What Landlock does not stop; docs/sandbox.md says so.
    ("executing a program of memory alone", "sh", "$E memfd-exec"),
    (
        "reading a script with an interpreter",
        "sh",
        "echo 'exit 0' > s && sh s",
    ),
];

#[test]
fn ordinary_work_works() {
    let mut problems = Vec::new();
    for user in User::each("ordinary work, as root") {
        let place = Place::new(user);
        for (what, program, code) in WORK {
            if !there(program) {
                gap(what, &format!("{program} is not installed"));
                continue;
            }
            let end = place.work(code);
            if end.status != 0 {
                problems.push(format!("{what} as {user:?}: {end}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Root's tools have none, so nobody may act for them who has.
#[test]
fn who_connects_for_a_tool_has_no_capability() {
    let Some(user) = User::root("capabilities of the gate") else {
        return;
    };
    let code = "$E own-kinds . && for t in /proc/$PPID/task/*; do
        test ${t##*/} = $PPID || grep CapEff $t/status; done | sort -u";
    let end = Place::new(user).work(code);
    assert_eq!(end.ok(), "CapEff:\t0000000000000000\n");
}

pub(crate) fn there(program: &str) -> bool {
    // The directories that a world has on its PATH.
    [
        "/usr/local/sbin",
        "/usr/local/bin",
        "/usr/sbin",
        "/usr/bin",
        "/sbin",
        "/bin",
    ]
    .iter()
    .any(|directory| std::path::Path::new(directory).join(program).exists())
}

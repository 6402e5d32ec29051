# A fresh host, reached over ssh: toolsrv goes there by itself, and 9P goes over
# a forwarded Unix socket or over the exec channel, whichever is asked for.
# Where sshd forbids every forwarding (the user noforward), it works all the same.
#
#: full on abi2 newest

import json

start_all()
devbox.wait_for_unit("sshd.service")

# The host's own table says whether anybody is connected to toolsrv's socket:
# with forwarding that is sshd, and over the exec channel it is nobody.
CONNECTED = "while read -r a b c d e state f path; do case $state$path in 03*/ollie-run-*) echo $path;; esac; done </proc/net/unix"


def call(user, transport):
    """One call that looks, from outside of the sandbox, at the host's sockets."""
    status, said = client.execute(
        f"olliesrv exec --json --yolo --transport {transport} {user}@devbox -- sh -c '{CONNECTED}; id -un'", timeout=120
    )
    t.assertEqual(status, 0, said)
    events = [json.loads(line) for line in said.splitlines()]
    session = next(event for event in events if event["type"] == "session")
    words = events[-1]["content"].split()
    t.assertEqual(words[-1], user)
    return session, words[:-1]


with subtest("a fresh host is sent toolsrv once"):
    session, connected = call("dev", "stdio")
    t.assertGreater(session["sent"], 0)
    t.assertEqual(session["transport"], "stdio")
    t.assertEqual(connected, [])

with subtest("a forwarded socket"):
    session, connected = call("dev", "forward")
    t.assertEqual(session["sent"], 0)
    t.assertEqual(session["transport"], "forward")
    t.assertEqual(len(connected), 1)
    devbox.wait_until_fails(f"test -e {connected[0]}", timeout=30)

with subtest("where sshd forbids forwarding, auto works"):
    session, connected = call("noforward", "auto")
    t.assertEqual(session["transport"], "stdio")
    t.assertEqual(connected, [])

with subtest("and forward says what is forbidden, soon"):
    status, said = client.execute("olliesrv exec --transport forward noforward@devbox -- true 2>&1", timeout=60)
    t.assertNotEqual(status, 0)
    t.assertIn("forward", said)

with subtest("nothing is left there"):
    devbox.wait_until_fails("grep -qsx toolsrv /proc/[0-9]*/comm", timeout=30)
    devbox.fail("grep ollie-run- /proc/net/unix", "ls -d /dev/shm/ollie-run-*")

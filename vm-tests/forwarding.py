# A fresh host, reached over ssh: toolsrv goes there by itself, and 9P goes over
# a forwarded Unix socket or over the exec channel, whichever is asked for.
# Where sshd forbids every forwarding (the user noforward), it works all the same.
#
#: full on abi2 newest

import json

start_all()
devbox.wait_for_unit("sshd.service")

# Unix sockets that somebody listens on; the host's own table says so.
LISTENING = "while read -r a b c flags d e f path; do if test $flags = 00010000; then echo $path; fi; done </proc/net/unix"
before = devbox.succeed(LISTENING).split()


def call(user, transport):
    """One call that looks, from outside of the sandbox, at the host's sockets."""
    client.succeed("rm -f events")
    status, said = client.execute(
        f"olliesrv exec --json --yolo --transport {transport} {user}@devbox -- sh -c '{LISTENING}; id -un'", timeout=120
    )
    events = [json.loads(line) for line in said.splitlines()]
    if status:
        return status, None, [], said
    session = next(event for event in events if event["type"] == "session")
    words = events[-1]["content"].split()
    t.assertEqual(words[-1], user)
    return status, session, sorted(set(words[:-1]) - set(before)), said


with subtest("a fresh host is sent toolsrv once"):
    status, session, sockets, said = call("dev", "stdio")
    t.assertEqual(status, 0, said)
    t.assertGreater(session["sent"], 0)
    t.assertEqual(session["transport"], "stdio")
    t.assertEqual(sockets, [], "nothing listens there")

with subtest("a forwarded socket"):
    status, session, sockets, said = call("dev", "forward")
    t.assertEqual(status, 0, said)
    t.assertEqual(session["sent"], 0)
    t.assertEqual(session["transport"], "forward")
    t.assertEqual(len(sockets), 1, "toolsrv listens there, and nobody else")
    devbox.wait_until_fails(f"test -e {sockets[0]}", timeout=30)

with subtest("auto"):
    status, session, sockets, said = call("dev", "auto")
    t.assertEqual(status, 0, said)

with subtest("where sshd forbids forwarding, auto works"):
    status, session, sockets, said = call("noforward", "auto")
    t.assertEqual(status, 0, said)
    t.assertEqual(session["transport"], "stdio")

with subtest("and forward says what is forbidden, soon"):
    status, said = client.execute("olliesrv exec --transport forward noforward@devbox -- true 2>&1", timeout=60)
    t.assertNotEqual(status, 0)
    t.assertIn("forward", said)

with subtest("nothing is left there"):
    devbox.wait_until_fails("ps | grep -v grep | grep -q toolsrv", timeout=30)
    t.assertEqual(devbox.succeed(LISTENING).split(), before)

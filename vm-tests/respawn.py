# A session outlives its connection: the call in flight at the drop has an
# unknown outcome and is not made again, the next one gets a new toolsrv. The
# model is a recording, so that what it calls is known.
#
#: full on abi6

import json

start_all()
devbox.wait_for_unit("sshd.service")
devbox.succeed("mkdir -p /home/dev/project", "chown dev /home/dev/project")


def turn(tool, **arguments):
    """A call of a tool, then a word."""
    call = {"call": {"name": tool, "arguments": arguments}}
    return [call, {"stop": "tool_calls"}, {"text": "done"}, {"stop": "end"}]


lines = (
    turn("shell", code="echo 1 >>calls; echo first")
    + turn("greet", name="ada")
    + turn("shell", code="echo 2 >>calls; sleep 4242")
    + turn("shell", code="echo 3 >>calls; echo third")
    + turn("greet", name="bob")
)
# A tool that the host does not have: each toolsrv there is brought it.
client.succeed(
    "mkdir -p ~/.config/ollie/tools",
    "printf '#!/bin/sh\n# description: Greets somebody.\n# args: NAME\n"
    "echo Good day, $OLLIE_ARG_NAME\n' >~/.config/ollie/tools/greet.sh",
    "chmod +x ~/.config/ollie/tools/greet.sh",
)
client.succeed("cat >recording.jsonl <<'END'\n" + "\n".join(map(json.dumps, lines)) + "\nEND")
client.succeed("(olliesrv serve >served 2>&1 & echo $! >pid; s=0; wait $! || s=$?; echo $s >ended) >/dev/null 2>&1 &")
client.wait_until_succeeds("olliesrv fs read backends", timeout=60)
client.succeed(
    "olliesrv fs write session/new "
    "'name=one cwd=/home/dev/project remote=devbox backend=replay:'$PWD/recording.jsonl"
)


def of_dev(name):
    """Processes of the user whose name begins with this."""
    said = devbox.succeed(
        f"for d in /proc/[0-9]*; do case $(cat $d/comm 2>/dev/null)=$(stat -c %U $d 2>/dev/null) in"
        f" {name}*=dev) echo ${{d#/proc/}};; esac; done"
    )
    return said.split()


with subtest("a call"):
    t.assertIn("first", client.succeed("olliesrv session send --wait one begin", timeout=120))
    t.assertIn("Good day, ada", client.succeed("olliesrv session send --wait one 'and greet'", timeout=120))
    servers = of_dev("toolsrv")
    t.assertNotEqual(servers, [])

with subtest("the connection drops while a call runs: its outcome is not known, and it is told"):
    client.succeed("(olliesrv session send --wait one 'go on' >said 2>&1; echo $? >sent) >/dev/null 2>&1 &")
    devbox.wait_until_succeeds("grep -qsx sleep /proc/[0-9]*/comm", timeout=60)
    devbox.succeed(f"kill -9 {' '.join(of_dev('sshd'))}")
    client.wait_until_succeeds("test -s sent", timeout=120)
    t.assertIn("unknown", client.succeed("cat said").lower())
    devbox.wait_until_fails("grep -qsx sleep /proc/[0-9]*/comm", timeout=60)

with subtest("the next call has a new toolsrv"):
    t.assertIn("third", client.succeed("olliesrv session send --wait one 'and now'", timeout=120))
    t.assertEqual(set(of_dev("toolsrv")) & set(servers), set())

with subtest("it has the session's tools as well"):
    t.assertIn("Good day, bob", client.succeed("olliesrv session send --wait one 'and greet'", timeout=120))

with subtest("no call was made twice"):
    t.assertEqual(devbox.succeed("cat /home/dev/project/calls").split(), ["1", "2", "3"])

with subtest("the end of all ends what it has there"):
    client.succeed("kill $(cat pid)")
    client.wait_until_succeeds("test -s ended", timeout=60)
    t.assertEqual(client.succeed("cat ended").strip(), "0")
    devbox.wait_until_fails("grep -qsx toolsrv /proc/[0-9]*/comm", timeout=60)

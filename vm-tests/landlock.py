# The sandbox is enforced by the host's own kernel, and the result says truly
# what was enforced. Which kernel it is does not stand here: the probe asks it,
# and what each ABI brings is taken from the kernel's documentation
# (userspace-api/landlock.rst, "Previous limitations").
#
#: full on none abi2 off abi6 newest

import json

start_all()
devbox.wait_for_unit("sshd.service")

said = devbox.succeed("probe landlock").strip()
abi = int(said) if said.isdigit() else 0

devbox.succeed(
    "mkdir -p /home/dev/project /home/dev/.ssh",
    "echo secret >/home/dev/.ssh/id_test",
    "echo kept >/home/dev/outside",
    "echo kept >/home/dev/truncated",
    "echo kept >/home/dev/project/inside",
    "cp $(command -v probe) /home/dev/planted",
    "ln -s /home/dev/.ssh/id_test /home/dev/project/link",
    "chown -R dev /home/dev",
    # Processes of the same user that no call has started.
    "su dev -c 'probe listen /home/dev/agent.sock 900 >/dev/null 2>&1 &'",
    "su dev -c 'probe listen @agent 900 >/dev/null 2>&1 &'",
    "su dev -c 'sleep 900 >/dev/null 2>&1 & echo $!' >/home/dev/project/pid",
)
devbox.wait_for_file("/home/dev/agent.sock")

# name: shell command whose status, or the probe's word, is the answer
TRIALS = {
    "read a key": "cat ~/.ssh/id_test",
    "read a key through a link": "cat link",
    "list the directory of keys": "ls ~/.ssh",
    "write over a file outside": "echo x >~/outside",
    "append to a file outside": "echo x >>~/outside",
    "make a file outside": "touch ~/made",
    "make a directory outside": "mkdir ~/made.d",
    "remove a file outside": "rm -f ~/outside",
    "move a file outside": "mv inside ~/moved",
    "link a file from outside": "ln ~/outside hard",
    "execute a file outside": "~/planted landlock",
    "reach another process's memory": "cat /proc/$(cat pid)/environ",
    "write /dev/null": "echo x >/dev/null",
    "read inside": "cat inside",
    "write inside": "echo x >made",
    "make a directory inside": "mkdir made.d",
    "rename inside": "mv made made.d/renamed",
    "remove inside": "rm made.d/renamed",
    "a pipe": "echo x | cat",
    "truncate a file outside": "probe truncate ~/truncated",
    "connect to a socket outside": "probe connect ~/agent.sock",
    "connect to an abstract socket": "probe abstract agent",
    "signal a process outside": "probe kill $(cat pid)",
    "bind a port": "probe bind 9090",
}

# From which ABI on Landlock, or what stands in for it below, refuses.
REFUSED_FROM = {
    "read a key": 1,
    "read a key through a link": 1,
    "list the directory of keys": 1,
    "write over a file outside": 1,
    "append to a file outside": 1,
    "make a file outside": 1,
    "make a directory outside": 1,
    "remove a file outside": 1,
    "move a file outside": 1,
    "link a file from outside": 1,
    "execute a file outside": 1,
    "reach another process's memory": 1,
    "truncate a file outside": 3,
    "connect to a socket outside": 1,
    "connect to an abstract socket": 6,
    "signal a process outside": 6,
}


def call(options=""):
    """All trials in one call: status, everything said, the result, the answers."""
    script = "".join(f"if ({command}) >/dev/null 2>&1; then echo 1; else echo 0; fi\n" for command in TRIALS.values())
    client.succeed(f"cat >trials <<'END'\n{script}END")
    status, said = client.execute(
        f'olliesrv exec --json --cwd /home/dev/project {options} devbox -- sh -c "$(cat trials)" 2>&1', timeout=120
    )
    results = [json.loads(line) for line in said.splitlines() if line.startswith('{"type":"result"')]
    result = results[0] if results else None
    answers = {}
    if result:
        lines = [line for line in result["content"].splitlines() if line in ("0", "1")]
        t.assertEqual(len(lines), len(TRIALS), said)
        answers = {name: line == "1" for name, line in zip(TRIALS, lines)}
    return status, said, result, answers


if abi == 0:
    with subtest("without Landlock nothing runs, and the reason is told"):
        status, text, result, answers = call()
        t.assertEqual(status, 202, text)
        t.assertIsNone(result)
        t.assertIn(said, text)
        t.assertIn("--yolo", text)
        t.assertIn("lsm=" if said == "EOPNOTSUPP" else "5.13", text)
        devbox.fail("test -e /home/dev/project/made.d")
        status, text = client.execute("olliesrv doctor devbox 2>&1", timeout=120)
        t.assertNotEqual(status, 0)
        t.assertIn(said, text)
else:
    with subtest(f"Landlock ABI {abi} refuses what it must, and nothing else"):
        status, text, result, answers = call()
        expected = {name: not REFUSED_FROM.get(name, 99) <= abi for name in TRIALS}
        t.assertEqual(answers, expected)
        devbox.succeed("test $(cat /home/dev/outside) = kept")

    with subtest("the report is that of this kernel"):
        sandbox = result["sandbox"]
        t.assertEqual(sandbox["landlock_abi"], abi)
        t.assertEqual(sandbox["enforced"], "full" if abi >= 9 else "partial")
        degraded = "\n".join(sandbox.get("degraded", []))
        for word, needed in {"truncating": 3, "ioctl": 5, "signals": 6, "abstract": 6, "datagram": 9}.items():
            t.assertEqual(word in degraded, abi < needed, f"{word}: {degraded}")

    with subtest("TCP ports are restricted from ABI 4 on, and below it is told that they are not"):
        client.succeed(
            "mkdir -p ~/.config/ollie",
            "echo 'network: { connect_tcp: [443], bind_tcp: [8080] }' >~/.config/ollie/sandbox.yaml",
        )
        status, text, result, answers = call()
        t.assertEqual(answers["bind a port"], abi < 4)
        t.assertEqual("TCP" in "\n".join(result["sandbox"].get("degraded", [])), abi < 4)
        client.succeed("rm ~/.config/ollie/sandbox.yaml")

# Without the sandbox each trial succeeds: so it is the sandbox that refused.
devbox.succeed(
    "rm -rf /home/dev/made* /home/dev/moved /home/dev/project/made* /home/dev/project/hard",
    "echo kept >/home/dev/project/inside",
    "chown dev /home/dev/project/inside",
)
with subtest("--yolo runs, and every result says so"):
    status, text, result, answers = call("--yolo")
    refused = [name for name, worked in answers.items() if not worked]
    # Gone by then: one trial has removed the file, another has moved it.
    t.assertEqual(refused, ["link a file from outside", "read inside"])
    t.assertEqual(result["sandbox"]["enforced"], "none")
    t.assertIn("--yolo", "\n".join(result["sandbox"]["degraded"]))
    t.assertIn("--yolo", client.succeed("olliesrv exec --yolo devbox -- true 2>&1"))

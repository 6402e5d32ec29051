# Every way out that the escape suite knows, on this kernel: as an ordinary
# user and as root. What stops an attempt, and from which ABI of Landlock on,
# stands beside it (tests/src/attempts.rs); which ABI this is, the probe asks
# the kernel. All attempts of a policy are made in one call, each in a subshell.
# Then once more without the sandbox: what fails anyway shows nothing.
#
#: full on none abi2 off abi6 newest

import json

start_all()
devbox.wait_for_unit("sshd.service")

said = devbox.succeed("probe landlock").strip()
abi = int(said) if said.isdigit() else 0
attempts = json.loads(client.succeed("ollie-escape attempts"))

# It did not run, or its words were not understood.
NOT_TRIED = (None, "99", "125", "126", "127")
POLICIES = {
    "Default": "",
    "NoNetwork": "network: { none: true }",
    "OtherPorts": "network: { connect_tcp: [1], bind_tcp: [1] }",
}
TRY = """try() {
    { cd ~/project; rm -rf ./* $OUT/new $OUT/dir; echo mine >file; echo x >$OUT/victim; } 2>/dev/null
    (eval "$2") </dev/null >/dev/null 2>&1; echo "$1 $?"
}
"""
# What a guest lacks: modules for these sockets, and in the call's environment
# and among its descriptors something to find.
NOT_THERE = ("make a vsock socket", "change the firewall")
NOTHING_TO_FIND = ("Environment", "Descriptors")
SECRETS = ".ssh/id_ed25519 .aws/credentials .gnupg/secring.gpg .kube/config .docker/config.json .netrc .bash_history .sshfoo/id project2/file"

client.succeed("ssh devbox 'cat >/tmp/ollie-escape' <$(command -v ollie-escape)")
devbox.succeed(
    "cp /tmp/ollie-escape /home/ollie-escape && chmod 755 /home/ollie-escape",
    "cp /tmp/ollie-escape /home/become-root && chmod 4755 /home/become-root",
)
client.succeed("mkdir -p ~/.config/ollie")


def policy(need):
    client.succeed(
        "cat >~/.config/ollie/sandbox.yaml <<'END'\n"
        f"filesystem: {{ rox: [/home/ollie-escape, /home/become-root] }}\n{POLICIES[need]}\nEND"
    )


def furnish(user, home):
    """Secrets, and servers that nobody in the sandbox may reach."""
    outside = f"/home/outside-{user}"
    devbox.succeed(
        f"mkdir -p {outside} {home}/project {home}/bin {home}/.cargo/bin {home}/.config/autostart",
        f"cd {home}; for f in {SECRETS}; do mkdir -p $(dirname $f); echo PRIVATE KEY >$f; done; echo x >{outside}/victim",
        f"chown -R {user} {outside} {home}",
        f"su {user} -c '/home/ollie-escape outside {outside} outside-{user} >/dev/null 2>&1 &'",
    )
    devbox.wait_for_file(f"{outside}/docker.sock")
    return f"E=/home/ollie-escape SUPERUSER=/home/become-root OUT={outside} ABSTRACT=outside-{user} PORT=22"


def call(user, names, rows, options=""):
    """All rows in one call: its status, what it said, and the rows' statuses."""
    quoted = [row["code"].replace("'", r"'\''") for row in rows]
    code = "".join(f"try {number} '{attempt}'\n" for number, attempt in enumerate(quoted))
    client.succeed(f"cat >attempts <<'END'\n{names}\n{TRY}{code}exit 0\nEND")
    status, said = client.execute(
        f'olliesrv exec --cwd project {options} {user}@devbox -- sh -c "$(cat attempts)" 2>&1', timeout=200
    )
    words = [line.split() for line in said.splitlines()]
    ends = {int(line[0]): line[1] for line in words if len(line) == 2 and line[0].isdigit()}
    return status, said, {row["what"]: ends.get(number) for number, row in enumerate(rows)}


def open_to(user, row):
    """Whether this user gets out where nothing stops it."""
    who = "Ordinary" if user == "root" else "Root"
    return row["who"] not in (who, "NotHere") and row["by"] not in NOTHING_TO_FIND and row["what"] not in NOT_THERE


for user, home in ("dev", "/home/dev"), ("root", "/root"):
    names = furnish(user, home)
    # Root is root already.
    rows = [row for row in attempts if user != "root" or row["who"] != "Ordinary"]

    if abi == 0:
        with subtest(f"{user}: nothing is tried, and the reason is told"):
            policy("Default")
            status, text, ends = call(user, names, rows)
            t.assertEqual(status, 202, text)
            t.assertIn(said, text)
            t.assertEqual(set(ends.values()), {None}, text)
            devbox.fail(f"test -e {home}/project/file")
        continue

    # Another call of the same user, which is not to be reached either.
    policy("Default")
    sleeps = "echo $$; exec sleep 600"
    client.succeed(f"(olliesrv exec {user}@devbox -- sh -c '{sleeps}' >sibling 2>&1 & echo $! >pid) >/dev/null 2>&1 &")
    client.wait_until_succeeds("test -s sibling", timeout=60)
    names += " SIBLING=" + client.succeed("cat sibling").strip()
    names += " TOOLSRV_SOCKET=" + devbox.succeed(f"find /tmp /run -type s -user {user} -path '*ollie*'").split()[0]

    with subtest(f"{user}: what Landlock ABI {abi} and the rest stop is stopped, and nothing else is said to be"):
        for need in POLICIES:
            policy(need)
            these = [row for row in rows if row["need"] == need]
            status, text, ends = call(user, names + " ROUNDS=500", these)
            t.assertEqual(status, 0, text)
            t.assertEqual({what: end for what, end in ends.items() if end in NOT_TRIED}, {})
            got_out = {what for what, end in ends.items() if end == "0"}
            t.assertEqual(got_out, {row["what"] for row in these if row["since"] > abi})

    with subtest(f"{user}: without the sandbox they get out"):
        # Those for everybody have been shown by the ordinary user.
        these = [row for row in rows if open_to(user, row) and (user != "root" or row["who"] == "Root")]
        status, text, ends = call(user, names, these, "--yolo")
        t.assertEqual({what: end for what, end in ends.items() if end != "0"}, {})

    client.succeed("kill $(cat pid)", "rm sibling")

# A project's own .ollie-sandbox.yaml, on this host's kernel: what it takes away
# holds at once, what it asks for holds once a person has trusted these bytes.
# First with olliesrv on the host itself, then over ssh, from another machine
# that knows nothing of that trust.
#
#: full on abi2 newest

import os

start_all()
devbox.wait_for_unit("sshd.service")
if devbox.execute("command -v olliesrv")[0]:
    devbox.copy_from_host(os.environ["OLLIE_DIST"], "/opt/ollie")
    devbox.succeed("ln -s /opt/ollie/olliesrv /usr/local/bin/")

PROJECT = "/home/dev/project"
devbox.succeed(
    f"mkdir -p {PROJECT} /home/dev/data /home/dev/other",
    "echo asked >/home/dev/data/file",
    "echo other >/home/dev/other/file",
    "echo '[user]' >/home/dev/.gitconfig",
    # One call for all three: a call on an emulated host takes its time.
    "printf '%s\n' 'for f in data/file other/file .gitconfig; do cat ~/$f >/dev/null && echo readable $f; done'"
    f" 'exit 0' >{PROJECT}/look",
    "chown -R dev /home/dev",
)


class OnTheHost:
    name = "on the host itself"

    def exec(self, command):
        return devbox.execute(f"su - dev -c 'cd {PROJECT} && olliesrv exec -- {command}' 2>&1", timeout=120)

    def policy(self, command):
        return devbox.execute(f"su - dev -c 'cd {PROJECT} && olliesrv policy {command}' 2>&1", timeout=120)


class OverSsh:
    name = "over ssh"

    def exec(self, command):
        return client.execute(f"olliesrv exec --cwd {PROJECT} devbox -- {command} 2>&1", timeout=120)

    def policy(self, command):
        return client.execute(f"olliesrv policy {command} --cwd {PROJECT} --on devbox 2>&1", timeout=120)


def project(text):
    devbox.succeed(f"cat >{PROJECT}/.ollie-sandbox.yaml <<'END'\n{text}\nEND", f"chown dev {PROJECT}/.ollie-sandbox.yaml")


def readable(way):
    """Which files below the home directory a call may read, and all that was said."""
    status, said = way.exec("sh look")
    # The status last: closing lines show the end of a message.
    t.assertEqual(status, 0, f"{said}\n`sh look` ended with {status}")
    return [line.split()[1] for line in said.splitlines() if line.startswith("readable ")], said


for way in (OnTheHost(), OverSsh()):
    with subtest(f"{way.name}, without the file: what the profile says"):
        devbox.succeed(f"rm -f {PROJECT}/.ollie-sandbox.yaml")
        t.assertEqual(readable(way)[0], [".gitconfig"])

    project("filesystem: { ro: ['{HOME}/data'] }\ndrop: { filesystem: ['{HOME}/.gitconfig'] }")

    with subtest(f"{way.name}, not trusted: the request is told and does not hold, what is dropped is"):
        found, said = readable(way)
        t.assertEqual(found, [])
        t.assertIn("ro {HOME}/data", said)
        t.assertIn("policy trust", said)

    with subtest(f"{way.name}, trusted: it holds, and nothing else does"):
        status, said = way.policy("trust --yes")
        t.assertEqual(status, 0, said)
        t.assertEqual(readable(way)[0], ["data/file"])

    with subtest(f"{way.name}, one changed byte, and it is asked again"):
        project("filesystem: { ro: ['{HOME}/data', '{HOME}/other'] }\ndrop: { filesystem: ['{HOME}/.gitconfig'] }")
        t.assertEqual(readable(way)[0], [])

    with subtest(f"{way.name}, what no trust makes right is an error, and nothing runs"):
        project("filesystem: { rw: ['{HOME}'] }")
        status, said = way.exec("touch ran")
        t.assertEqual(status, 206, said)
        t.assertIn(".ollie-sandbox.yaml", said)
        devbox.fail(f"test -e {PROJECT}/ran")

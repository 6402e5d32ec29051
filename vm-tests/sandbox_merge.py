# A project's own .ollie-sandbox.yaml, on this host's kernel: what it takes away
# holds at once, what it asks for holds once a person has trusted these bytes.
# Here olliesrv runs on the host itself; over ssh the file is not read, and told.
#
#: full on abi2 newest

import json
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
    "chown -R dev /home/dev",
)


def project(text):
    devbox.succeed(f"cat >{PROJECT}/.ollie-sandbox.yaml <<'END'\n{text}\nEND", f"chown dev {PROJECT}/.ollie-sandbox.yaml")


def ollie(command):
    return devbox.execute(f"su - dev -c 'cd {PROJECT} && LANG=C.UTF-8 olliesrv {command}' 2>&1", timeout=120)


def read(name):
    """Whether a call may read a file below the home directory."""
    return ollie(f"exec -- cat /home/dev/{name}/file")


with subtest("without the file, neither is readable"):
    t.assertEqual([read("data")[0], read("other")[0]], [1, 1])
    t.assertIn("LANG=", ollie("exec -- env")[1])

project("filesystem: { ro: ['{HOME}/data'] }\ndrop: { env: [LANG] }")

with subtest("not trusted: the request is told and does not hold, what is dropped is"):
    status, said = read("data")
    t.assertEqual(status, 1)
    t.assertIn("data", said)
    t.assertIn("trust", said)
    t.assertNotIn("LANG=", ollie("exec -- env")[1])

with subtest("trusted: it holds, and nothing else does"):
    t.assertEqual(ollie("policy trust")[0], 0)
    status, said = read("data")
    t.assertEqual(status, 0, said)
    t.assertIn("asked", said)
    t.assertEqual(read("other")[0], 1)

with subtest("one changed byte, and it is asked again"):
    project("filesystem: { ro: ['{HOME}/data', '{HOME}/other'] }\ndrop: { env: [LANG] }")
    t.assertEqual([read("data")[0], read("other")[0]], [1, 1])

with subtest("what no trust makes right is an error, and nothing runs"):
    project("filesystem: { rw: ['{HOME}'] }")
    status, said = ollie("exec -- touch ran")
    t.assertEqual(status, 206, said)
    t.assertIn(".ollie-sandbox.yaml", said)
    devbox.fail(f"test -e {PROJECT}/ran")

with subtest("over ssh the file is not read, and every result says so"):
    said = client.succeed(f"olliesrv exec --json --cwd {PROJECT} devbox -- true", timeout=120)
    sandbox = json.loads(said.splitlines()[-1])["sandbox"]
    t.assertIn(".ollie-sandbox.yaml", json.dumps(sandbox))

# A host with a POSIX shell and next to nothing else: no bash, no compressor,
# nothing that computes a hash, no scp, no tar.
#
#: bare on abi6 newest
#: busybox on none abi2

import json

start_all()
devbox.wait_for_unit("sshd.service")
abi = devbox.succeed("probe landlock").strip()
yolo = "" if abi.isdigit() else "--yolo"

with subtest("the host is as bare as that"):
    devbox.fail("test -e /usr/bin/bash", "test -e /usr/bin/zstd", "test -e /usr/bin/git")
    if devbox.execute("test -e /usr/bin/busybox")[0]:
        devbox.fail(
            "test -e /usr/bin/gzip",
            "test -e /usr/bin/xz",
            "test -e /usr/bin/sha256sum",
            "test -e /usr/bin/openssl",
            "test -e /usr/bin/tar",
            "test -e /usr/bin/base64",
        )

with subtest("a call runs in the sandbox"):
    said = client.succeed(
        f"olliesrv exec --json {yolo} devbox -- sh -c 'echo hello; cat /etc/shadow || exit 7' || test $? = 7", timeout=120
    )
    result = json.loads(said.splitlines()[-1])
    t.assertIn("hello", result["content"])
    t.assertEqual(result["exit"], {"code": 7})
    t.assertEqual(result["sandbox"]["enforced"] == "none", bool(yolo))

with subtest("both streams, the status, and standard input"):
    status, text = client.execute(f"echo in | olliesrv exec {yolo} devbox -- sh -c 'cat; echo err >&2; exit 3' 2>&1")
    t.assertEqual(status, 3)
    t.assertIn("in\n", text)
    t.assertIn("err\n", text)

with subtest("nothing is left but the installed file"):
    files = devbox.succeed("find /home/dev/.cache /tmp /dev/shm /var/tmp -type f -o -type s").splitlines()
    t.assertEqual([file.rpartition("/")[2] for file in files], ["toolsrv"], files)
    devbox.fail("grep -qsx toolsrv /proc/[0-9]*/comm")

# The second connection to a host sends no file. The host's own counters of its
# network interfaces say so, not ollie.
#
#: full on abi6
#: busybox on abi2

start_all()
devbox.wait_for_unit("sshd.service")


def received():
    """Bytes that the host has received on anything but its loopback."""
    table = devbox.succeed("cat /proc/net/dev").splitlines()[2:]
    rows = [line.replace(":", " ").split() for line in table]
    return sum(int(row[1]) for row in rows if row[0] != "lo")


def connect():
    before = received()
    t.assertEqual(client.succeed("olliesrv exec devbox -- echo hello", timeout=120), "hello\n")
    return received() - before


with subtest("the first connection sends toolsrv"):
    first = connect()
    t.assertGreater(first, 300_000)
    installed = devbox.succeed("find /home/dev/.cache/ollie -type f").splitlines()
    t.assertEqual(len(installed), 1, installed)

with subtest("the second one sends a tenth of that at most"):
    t.assertLess(connect(), first / 10)
    t.assertEqual(devbox.succeed("find /home/dev/.cache/ollie -type f").splitlines(), installed)

with subtest("a file that was changed there is replaced, not executed"):
    devbox.succeed(f"chmod 700 {installed[0]}", f"printf x >>{installed[0]}")
    t.assertGreater(connect(), first / 2)
    t.assertLess(connect(), first / 10)

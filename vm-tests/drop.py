# A connection that ends while a call runs: the person is told that the outcome
# is not known, nothing of the call lives on, and the next call works.
#
#: full on abi6

start_all()
devbox.wait_for_unit("sshd.service")
client.succeed("olliesrv exec devbox -- true", timeout=120)


# ps(1) differs from host to host, /proc does not.
RUNS = "grep -qsx {} /proc/[0-9]*/comm"


def kill(name, owner):
    """Kills the processes of a user whose name begins with this."""
    devbox.succeed(
        f"for d in /proc/[0-9]*; do case $(cat $d/comm 2>/dev/null)=$(stat -c %U $d 2>/dev/null) in"
        f" {name}*={owner}) kill -9 ${{d#/proc/}} 2>/dev/null || true;; esac; done"
    )


def call_in_the_background():
    client.succeed("rm -f status; (s=0; olliesrv exec devbox -- sleep 4242 >said 2>&1 || s=$?; echo $s >status) >/dev/null 2>&1 &")
    devbox.wait_until_succeeds(RUNS.format("sleep"), timeout=60)


def outcome_is_unknown():
    client.wait_until_succeeds("test -s status", timeout=60)
    t.assertEqual(client.succeed("cat status").strip(), "203", client.succeed("cat said"))
    devbox.wait_until_fails(RUNS.format("sleep"), timeout=60)
    devbox.wait_until_fails(RUNS.format("toolsrv"), timeout=60)


with subtest("sshd ends the connection"):
    call_in_the_background()
    kill("sshd", "dev")
    outcome_is_unknown()

with subtest("toolsrv is killed"):
    call_in_the_background()
    kill("toolsrv", "dev")
    outcome_is_unknown()

with subtest("the next call works"):
    t.assertEqual(client.succeed("olliesrv exec devbox -- echo again", timeout=120), "again\n")

with subtest("the plug is pulled"):
    call_in_the_background()
    devbox.crash()
    client.wait_until_succeeds("test -s status", timeout=90)
    t.assertEqual(client.succeed("cat status").strip(), "203")

with subtest("and the host is back"):
    devbox.start()
    devbox.wait_for_unit("sshd.service")
    t.assertEqual(client.succeed("olliesrv exec devbox -- echo again", timeout=120), "again\n")

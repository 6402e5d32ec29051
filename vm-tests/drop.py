# A connection that ends while a call runs: the person is told that the outcome
# is not known, nothing of the call lives on, and the next call works.
#
#: full on abi6

start_all()
devbox.wait_for_unit("sshd.service")
client.succeed("olliesrv exec devbox -- true", timeout=120)


def call_in_the_background():
    client.succeed("rm -f status; (s=0; olliesrv exec devbox -- sleep 4242 >said 2>&1 || s=$?; echo $s >status) >/dev/null 2>&1 &")
    devbox.wait_until_succeeds("ps | grep -v grep | grep -q 'sleep 4242'", timeout=60)


def outcome_is_unknown():
    client.wait_until_succeeds("test -s status", timeout=60)
    t.assertEqual(client.succeed("cat status").strip(), "203", client.succeed("cat said"))
    devbox.wait_until_fails("ps | grep -v grep | grep -q 'sleep 4242'", timeout=60)
    devbox.wait_until_fails("ps | grep -v grep | grep -q toolsrv", timeout=60)


with subtest("sshd ends the connection"):
    call_in_the_background()
    devbox.succeed("kill $(ps | grep 'sshd.*: dev' | grep -v grep | while read -r pid rest; do echo $pid; done) || true")
    outcome_is_unknown()

with subtest("toolsrv is killed"):
    call_in_the_background()
    devbox.succeed("kill -9 $(ps | grep '[t]oolsrv' | while read -r pid rest; do echo $pid; done) || true")
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

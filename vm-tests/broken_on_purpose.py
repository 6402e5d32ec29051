# What this claims does not hold below Landlock ABI 3: truncate(2) of a file
# outside of every grant is refused. It must fail there, and there only; so a
# green run of the other scenarios means something.
#
#: full on abi2 abi6 newest
#: fails on abi2

start_all()
devbox.succeed("echo kept >/home/dev/outside", "chown dev /home/dev/outside")
client.execute("olliesrv exec devbox -- probe truncate /home/dev/outside", timeout=120)
t.assertEqual(devbox.succeed("cat /home/dev/outside"), "kept\n")

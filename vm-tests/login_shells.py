# Whatever the login shell is, and whatever its start files print.
#
#: full on abi2

start_all()
devbox.wait_for_unit("sshd.service")

for user in ("dev", "dash", "tcsh", "fish"):
    if devbox.execute(f"id {user}")[0]:
        continue
    with subtest(f"{user}'s shell"):
        # Each shell reads one of these for every command, not only at login.
        devbox.succeed(
            f"echo 'echo a banner' >/home/{user}/.bashrc",
            f"echo 'echo a banner' >/home/{user}/.tcshrc",
            f"mkdir -p /home/{user}/.config/fish",
            f"echo 'echo a banner' >/home/{user}/.config/fish/config.fish",
            f"chown -R {user} /home/{user}",
        )
        said = client.succeed(f"olliesrv exec {user}@devbox -- sh -c 'echo hello; id -un'", timeout=120)
        t.assertEqual(said, f"hello\n{user}\n")

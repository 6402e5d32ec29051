# The module's options reach the tool: a remote that only they name is found, and
# the first connection to the socket starts the service.
{ self }:
{
  imports = [ (import ./common.nix { inherit self; }) ];
  name = "ollie-module";
  nodes.client = {
    services.ollie.remotes.work = {
      host = "devbox";
      user = "noforward";
      profile = "strict";
      transport = "stdio";
    };
    services.ollie.serve.enable = true;
    users.users.person.isNormalUser = true;
  };
  testScript = ''
    start_all()
    devbox.wait_for_unit("sshd.service")
    client.wait_for_unit("multi-user.target")
    # A session of root's own: its tmpfiles make the links.
    client.succeed("loginctl enable-linger root")
    client.wait_for_file("/root/.config/ollie/config.yaml")
    client.succeed("olliesrv config check")
    t.assertIn("noforward@devbox", client.succeed("olliesrv remotes"))
    t.assertEqual(client.succeed("olliesrv exec work -- id -un"), "noforward\n")
    client.wait_for_unit("olliesrv.socket", "root")
    client.fail("systemctl --user --machine root@ is-active olliesrv.service")
    t.assertIn("session", client.succeed("XDG_RUNTIME_DIR=/run/user/0 olliesrv fs ls"))
    client.wait_for_unit("olliesrv.service", "root")
  '';
}

# The module's options reach the tool: a remote that only they name is found.
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
  '';
}

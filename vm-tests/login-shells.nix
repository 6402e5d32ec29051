{ self }:
{
  imports = [ (import ./common.nix { inherit self; }) ];
  name = "ollie-login-shells";
  testScript = builtins.readFile ./login_shells.py;
}

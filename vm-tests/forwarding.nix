{ self }:
{
  imports = [ (import ./common.nix { inherit self; }) ];
  name = "ollie-forwarding";
  testScript = builtins.readFile ./forwarding.py;
}

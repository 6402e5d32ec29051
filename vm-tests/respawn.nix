{ self }:
{
  imports = [ (import ./common.nix { inherit self; }) ];
  name = "ollie-respawn";
  testScript = builtins.readFile ./respawn.py;
}

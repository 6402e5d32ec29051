{ self }:
{
  imports = [ (import ./common.nix { inherit self; }) ];
  name = "ollie-landlock";
  testScript = builtins.readFile ./landlock.py;
}

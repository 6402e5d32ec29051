{ self }:
{
  imports = [ (import ./common.nix { inherit self; }) ];
  name = "ollie-drop";
  testScript = builtins.readFile ./drop.py;
}

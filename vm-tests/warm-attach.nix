{ self }:
{
  imports = [ (import ./common.nix { inherit self; }) ];
  name = "ollie-warm-attach";
  testScript = builtins.readFile ./warm_attach.py;
}

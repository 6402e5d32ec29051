# The same script as landlock.nix, on a kernel that was booted without it.
{ self }:
{
  imports = [ (import ./common.nix { inherit self; }) ];
  name = "ollie-without-landlock";
  nodes.devbox =
    { lib, ... }:
    {
      security.lsm = lib.mkForce [ "yama" ];
    };
  testScript = builtins.readFile ./landlock.py;
}

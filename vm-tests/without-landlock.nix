# The same script as landlock.nix, on a kernel that was booted without it.
{ self }:
{
  imports = [ (import ./common.nix { inherit self; }) ];
  name = "ollie-without-landlock";
  nodes.devbox.boot.kernelParams = [ "lsm=yama" ];
  testScript = builtins.readFile ./landlock.py;
}

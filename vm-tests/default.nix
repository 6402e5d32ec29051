# The scenarios as NixOS tests: the script of each is the file beside this one
# that `cargo xtask devbox test` runs as well.
{ self, pkgs }:
let
  test = name: file: {
    name = "vm-${name}";
    value = pkgs.testers.runNixOSTest (import file { inherit self; });
  };
in
builtins.listToAttrs [
  (test "landlock" ./landlock.nix)
  (test "without-landlock" ./without-landlock.nix)
  (test "escape" ./escape.nix)
  (test "forwarding" ./forwarding.nix)
  (test "sandbox-merge" ./sandbox-merge.nix)
  (test "warm-attach" ./warm-attach.nix)
  (test "drop" ./drop.nix)
  (test "respawn" ./respawn.nix)
  (test "login-shells" ./login-shells.nix)
  (test "module" ./module.nix)
]

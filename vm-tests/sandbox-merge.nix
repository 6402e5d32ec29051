{ self }:
{
  imports = [ (import ./common.nix { inherit self; }) ];
  name = "ollie-sandbox-merge";
  nodes.devbox = {
    imports = [ self.nixosModules.ollie ];
    services.ollie.enable = true;
  };
  testScript = builtins.readFile ./sandbox_merge.py;
}

{ self }:
{
  imports = [ (import ./common.nix { inherit self; }) ];
  name = "ollie-escape";

  nodes.devbox =
    { config, pkgs, ... }:
    {
      users.users.root.openssh.authorizedKeys = {
        inherit (config.users.users.dev.openssh.authorizedKeys) keys;
      };
      # A program that the attempts copy.
      systemd.tmpfiles.rules = [ "L+ /bin/true - - - - ${pkgs.coreutils}/bin/true" ];
    };

  nodes.client =
    { pkgs, ... }:
    {
      environment.systemPackages = [
        (self.packages.${pkgs.stdenv.hostPlatform.system}.olliesrv.overrideAttrs {
          pname = "ollie-escape";
          cargoBuildFlags = [
            "--package"
            "ollie-tests"
            "--bin"
            "ollie-escape"
          ];
          doCheck = false;
          postInstall = "";
        })
      ];
    };

  testScript = builtins.readFile ./escape.py;
}

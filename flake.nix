{
  description = "ollie: an AI agent's brain here, its hands on any ssh host, inside a sandbox";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-26.05";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      forAllSystems = f: lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});
      ours = pkgs: self.packages.${pkgs.stdenv.hostPlatform.system};
    in
    {
      packages = forAllSystems (
        pkgs:
        let
          packages = import ./nix/packages.nix pkgs;
        in
        packages // { default = packages.olliesrv; }
      );

      apps = forAllSystems (pkgs: rec {
        olliesrv = {
          type = "app";
          program = lib.getExe (ours pkgs).olliesrv;
          meta.description = "Runs tools where the work is, inside a sandbox that the kernel there enforces";
        };
        default = olliesrv;
      });

      overlays.default = import ./nix/overlay.nix;

      nixosModules = {
        ollie = import ./nix/module.nix self;
        target = import ./nix/target-module.nix;
        default = self.nixosModules.ollie;
      };

      homeModules = {
        ollie = import ./nix/home-module.nix self;
        default = self.homeModules.ollie;
      };

      checks = forAllSystems (pkgs: import ./nix/checks.nix { inherit self pkgs; });

      devShells = forAllSystems (pkgs: {
        default = pkgs.callPackage ./nix/shell.nix { };
      });

      formatter = forAllSystems (pkgs: pkgs.nixfmt-tree);
    };
}

# All packages of one package set.
pkgs:
let
  inherit (pkgs) lib;
  common = {
    src = import ./source.nix { inherit lib; };
    version = (lib.importTOML ../Cargo.toml).workspace.package.version;
  };
in
rec {
  toolsrv = pkgs.pkgsStatic.callPackage ./toolsrv.nix common;
  ollie-bundle = pkgs.callPackage ./ollie-bundle.nix common;
  bootstrap = pkgs.callPackage ./bootstrap.nix {
    inherit (common) version;
    inherit ollie-bundle;
    toolsrvs."linux-${pkgs.stdenv.hostPlatform.parsed.cpu.name}" = toolsrv;
  };
  olliesrv = pkgs.callPackage ./olliesrv.nix (common // { inherit bootstrap; });
}

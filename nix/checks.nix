# What `nix flake check` builds and runs.
{ self, pkgs }:
let
  inherit (pkgs) lib;
  system = pkgs.stdenv.hostPlatform.system;
  packages = self.packages.${system};

  # A check of the workspace, with the libraries of a package's build.
  cargo =
    name: tools: command:
    packages.olliesrv.overrideAttrs (old: {
      pname = "ollie-${name}";
      nativeBuildInputs = (old.nativeBuildInputs or [ ]) ++ tools;
      buildPhase = ''
        runHook preBuild
        ${command}
        runHook postBuild
      '';
      doCheck = false;
      installPhase = "touch $out";
      postInstall = "";
    });
in
{
  inherit (packages) olliesrv toolsrv bootstrap;
  format = cargo "format" [ pkgs.rustfmt ] "cargo fmt --all --check";
  lints = cargo "lints" [
    pkgs.clippy
  ] "cargo clippy --offline --workspace --all-targets -- --deny warnings";
}
// lib.optionalAttrs (system == "x86_64-linux") (import ../vm-tests { inherit self pkgs; })

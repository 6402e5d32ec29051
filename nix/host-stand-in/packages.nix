# The package set: tools are the host's own, under their names in nixpkgs.
{ lib, system }:
let
  mkDerivation = import ./derivation.nix { inherit lib system; };
  tool =
    name:
    mkDerivation {
      inherit name;
      buildCommand = ''
        mkdir -p $out/bin
        ln -s "$(command -v ${name})" $out/bin/
      '';
      meta.mainProgram = name;
    };
  set =
    static:
    let
      platform = {
        inherit system;
        isStatic = static;
        parsed.cpu.name = builtins.head (builtins.split "-" system);
      };
      pkgs = {
        inherit lib;
        stdenv = {
          inherit mkDerivation;
          hostPlatform = platform;
          buildPlatform = platform // {
            canExecute = other: other.system == system;
          };
        };
        rustPlatform = import ./rust.nix {
          inherit
            lib
            system
            mkDerivation
            static
            ;
        };
        callPackage =
          file: arguments:
          let
            f = import file;
          in
          f (builtins.intersectAttrs (builtins.functionArgs f) pkgs // arguments);
        runCommand =
          name: attributes: buildCommand:
          mkDerivation (attributes // { inherit name buildCommand; });
        mkShell =
          { packages }:
          mkDerivation {
            name = "shell";
            nativeBuildInputs = packages;
            buildCommand = "touch $out";
          };
        # YAML contains JSON, so that is what the stand-in writes.
        formats.yaml = _: {
          type.description = "YAML value";
          generate = name: value: builtins.toFile name (builtins.toJSON value);
        };
        installShellFiles = mkDerivation {
          name = "install-shell-files";
          buildCommand = ''
            mkdir -p $out/bin
            install -m 755 ${./install-man-page.sh} $out/bin/installManPage
            install -m 755 ${./install-shell-completion.sh} $out/bin/installShellCompletion
          '';
        };
        testers.runNixOSTest = _: throw "the stand-in has no NixOS: this needs nixpkgs";
        pkgsStatic = set true;
      }
      // lib.genAttrs [
        "cargo"
        "clippy"
        "git"
        "nixfmt-tree"
        "openssh"
        "python3"
        "rustc"
        "rustfmt"
        "xz"
      ] tool;
    in
    pkgs;
in
set false

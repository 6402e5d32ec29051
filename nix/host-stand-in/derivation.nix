# mkDerivation: environment variables from attributes, and the phases of setup.sh.
{ lib, system }:
let
  # Told by `cargo xtask nix-check`; the reason why it evaluates with --impure.
  host = name: builtins.getEnv "OLLIE_HOST_${name}";
  plain = value: if builtins.isBool value then lib.optionalString value "1" else value;
  mkDerivation =
    given:
    let
      arguments = removeAttrs given [
        "meta"
        "passthru"
        "env"
      ];
      name = arguments.name or "${arguments.pname}-${arguments.version}";
      built = derivation (
        lib.mapAttrs (_: plain) (arguments // (given.env or { }))
        // {
          inherit name system;
          builder = "/bin/bash";
          args = [
            "-e"
            ./setup.sh
          ];
          hostPath = host "PATH";
          hostRustup = host "RUSTUP_HOME";
          hostSysroot = host "SYSROOT";
        }
      );
    in
    built
    // {
      inherit name;
      meta = given.meta or { };
      passthru = given.passthru or { };
      overrideAttrs = f: mkDerivation (given // f given);
    };
in
mkDerivation

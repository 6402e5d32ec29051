# rustPlatform. Crates are what cargo has downloaded on the host; the checksums
# of Cargo.lock are what Nix holds them to.
{
  lib,
  system,
  mkDerivation,
  static,
}:
let
  host = name: builtins.getEnv "OLLIE_HOST_${name}";
  cpu = builtins.head (builtins.split "-" system);

  crate =
    { name, version, ... }@package:
    derivation {
      name = "${name}-${version}.crate";
      inherit system;
      builder = "/bin/bash";
      # With the last `exit` the shell stays: cp closes its output before it
      # ends, and Nix kills a builder whose output is closed.
      args = [
        "-c"
        "PATH=${host "PATH"}; cp ${host "CARGO_HOME"}/registry/cache/*/${name}-${version}.crate $out || exit; exit"
      ];
      outputHashMode = "flat";
      outputHashAlgo = "sha256";
      outputHash = package.checksum;
    };

  vendored =
    { lockFile }:
    let
      packages = builtins.filter (package: package ? checksum) (lib.importTOML lockFile).package;
      unpack = package: ''
        tar -xzf ${crate package} -C $out
        echo '{"files":{},"package":"${package.checksum}"}' >$out/${package.name}-${package.version}/.cargo-checksum.json
      '';
    in
    mkDerivation {
      name = "cargo-vendor-dir";
      buildCommand = "mkdir -p $out\n" + lib.concatStringsSep "" (map unpack packages);
    };
in
{
  buildRustPackage =
    given:
    mkDerivation (
      {
        buildType = "release";
        cargoBuildFlags = [ ];
        cargoTestFlags = [ ];
        doCheck = true;
        # What is looked at here is not how fast it runs.
        CARGO_PROFILE_RELEASE_OPT_LEVEL = "1";
        inherit static;
        rustTarget = "${cpu}-unknown-linux-${if host "SYSROOT" == "" then "gnu" else "musl"}";
      }
      // removeAttrs given [ "cargoLock" ]
      // {
        cargoDeps = vendored given.cargoLock;
      }
    );
}

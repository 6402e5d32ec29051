# The packer: the same program packs the bundle inside and outside of Nix, so
# the same files give the same bytes.
{
  lib,
  rustPlatform,
  src,
  version,
}:
rustPlatform.buildRustPackage {
  pname = "ollie-bundle";
  inherit src version;
  cargoLock.lockFile = ../Cargo.lock;
  cargoBuildFlags = [
    "--package"
    "ollie-bundle"
    "--bin"
    "ollie-bundle"
  ];
  cargoTestFlags = [
    "--package"
    "ollie-bundle"
  ];

  meta = {
    description = "Packs, lists and verifies what ollie sends to a host";
    license = with lib.licenses; [
      asl20
      mit
    ];
    mainProgram = "ollie-bundle";
    platforms = lib.platforms.linux;
  };
}

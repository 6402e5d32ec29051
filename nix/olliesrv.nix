# The program that people start. It finds the bundle beside itself.
{
  lib,
  rustPlatform,
  bootstrap,
  src,
  version,
}:
rustPlatform.buildRustPackage {
  pname = "olliesrv";
  inherit src version;
  cargoLock.lockFile = ../Cargo.lock;
  cargoBuildFlags = [
    "--package"
    "olliesrv"
    "--bin"
    "olliesrv"
  ];
  cargoTestFlags = [
    "--package"
    "olliesrv"
  ];

  postInstall = ''
    mkdir -p $out/share/ollie
    ln -s ${bootstrap}/share/ollie/ollie-bundle.tar.xz $out/share/ollie/
  '';

  meta = {
    description = "Runs tools where the work is, inside a sandbox that the kernel there enforces";
    license = with lib.licenses; [
      asl20
      mit
    ];
    mainProgram = "olliesrv";
    platforms = lib.platforms.linux;
  };
}

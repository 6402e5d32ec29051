# The program that is sent to hosts: static, so that its closure is itself.
{
  lib,
  rustPlatform,
  src,
  version,
}:
rustPlatform.buildRustPackage {
  pname = "toolsrv";
  inherit src version;
  cargoLock.lockFile = ../Cargo.lock;

  # The profile of the workspace that is made for it: small, and it unwinds.
  buildType = "toolsrv";
  cargoBuildFlags = [
    "--package"
    "toolsrv"
    "--bin"
    "toolsrv"
  ];
  # As `cargo xtask build` does. Random numbers come from the system call itself;
  # unwind tables are shorter where they need not follow each push and pop.
  env.RUSTFLAGS = toString [
    "-C target-feature=+crt-static"
    "-C force-frame-pointers=yes"
    "--cfg getrandom_backend=\"linux_getrandom\""
  ];

  # Its tests need a kernel with Landlock, which a builder may not have.
  doCheck = false;
  doInstallCheck = true;
  installCheckPhase = ''
    runHook preInstallCheck
    if ''${READELF:-readelf} --wide --program-headers $out/bin/toolsrv | grep INTERP; then
      echo "toolsrv needs an interpreter" >&2
      exit 1
    fi
    $out/bin/toolsrv --build-id
    runHook postInstallCheck
  '';

  meta = {
    description = "The part of ollie that runs tools, on any Linux host";
    license = with lib.licenses; [
      asl20
      mit
    ];
    mainProgram = "toolsrv";
    platforms = lib.platforms.linux;
  };
}

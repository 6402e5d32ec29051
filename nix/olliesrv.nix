# The program that people start. It finds the bundle beside itself.
{
  lib,
  stdenv,
  rustPlatform,
  installShellFiles,
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

  nativeBuildInputs = [ installShellFiles ];

  postInstall = ''
    mkdir -p $out/share/ollie
    ln -s ${bootstrap}/share/ollie/ollie-bundle.tar.xz $out/share/ollie/
    install -Dm 444 -t $out/lib/systemd/user ${../systemd}/olliesrv.{socket,service}
    sed -i "s|^ExecStart=olliesrv|ExecStart=$out/bin/olliesrv|" $out/lib/systemd/user/*.service
  ''
  + lib.optionalString (stdenv.buildPlatform.canExecute stdenv.hostPlatform) ''
    $out/bin/olliesrv man --dir pages
    installManPage pages/*.1
    for shell in bash fish zsh; do
      $out/bin/olliesrv completions $shell >completions.$shell
      installShellCompletion --cmd olliesrv --$shell completions.$shell
    done
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

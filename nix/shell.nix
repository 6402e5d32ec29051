# What work on ollie needs besides this: `cargo xtask test` names the rest.
{
  mkShell,
  cargo,
  clippy,
  rustc,
  rustfmt,
  git,
  openssh,
  python3,
  xz,
}:
mkShell {
  packages = [
    cargo
    clippy
    rustc
    rustfmt
    git
    openssh
    python3
    xz
  ];
}

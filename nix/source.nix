# What cargo needs, and nothing else: a change of a page builds nothing again.
{ lib }:
lib.fileset.toSource {
  root = ../.;
  fileset = lib.fileset.unions [
    ../Cargo.toml
    ../Cargo.lock
    ../crates
    ../examples
    ../sandbox-profiles
    ../tools
    # Members of the workspace, without which cargo does not read it.
    ../benches
    ../tests
    ../xtask
  ];
}

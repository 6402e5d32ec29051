final: _prev: {
  inherit (import ./packages.nix final) olliesrv;
}

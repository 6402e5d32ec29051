{
  description = "Stand-in for nixpkgs that builds with the host's own tools: for checks only";

  outputs =
    _:
    let
      lib = import ./lib.nix;
    in
    {
      inherit lib;
      legacyPackages = lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (
        system: import ./packages.nix { inherit lib system; }
      );
      # What the modules are evaluated with: see modules.nix.
      modules = import ./modules.nix { inherit lib; };
    };
}

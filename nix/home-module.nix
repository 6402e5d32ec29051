# Home Manager: the same options, for one user.
self:
{
  config,
  lib,
  pkgs,
  ...
}:
let
  ollie = import ./options.nix self {
    config = config.services.ollie;
    inherit lib pkgs;
  };
in
{
  options.services.ollie = ollie.options;

  config = lib.mkIf config.services.ollie.enable {
    inherit (ollie) assertions;
    home.packages = [ config.services.ollie.package ];
    xdg.configFile = lib.listToAttrs (
      map (name: lib.nameValuePair "ollie/${name}" { source = "${ollie.checked}/${name}"; }) ollie.names
    );
  };
}

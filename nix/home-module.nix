# Home Manager: the same options, for one user.
self:
{
  config,
  lib,
  pkgs,
  ...
}:
let
  cfg = config.services.ollie;
  ollie = import ./options.nix self {
    config = cfg;
    inherit lib pkgs;
  };
  unit = name: "${cfg.package}/share/systemd/user/${name}";
in
{
  options.services.ollie = ollie.options;

  config = lib.mkIf cfg.enable {
    inherit (ollie) assertions;
    home.packages = [ cfg.package ];
    xdg.configFile =
      lib.listToAttrs (
        map (name: lib.nameValuePair "ollie/${name}" { source = "${ollie.checked}/${name}"; }) ollie.names
      )
      // lib.optionalAttrs cfg.serve.enable {
        "systemd/user/olliesrv.service".source = unit "olliesrv.service";
        "systemd/user/olliesrv.socket".source = unit "olliesrv.socket";
        "systemd/user/sockets.target.wants/olliesrv.socket".source = unit "olliesrv.socket";
      };
  };
}

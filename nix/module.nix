# NixOS, the machine that olliesrv runs on.
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
in
{
  options.services.ollie = ollie.options;

  config = lib.mkIf cfg.enable {
    inherit (ollie) assertions;

    environment.systemPackages = [ cfg.package ];

    environment.etc = lib.listToAttrs (
      map (name: lib.nameValuePair "ollie/${name}" { source = "${ollie.checked}/${name}"; }) ollie.names
    );

    # olliesrv reads the user's files and no others, so each user without files
    # of their own gets links to those of the system.
    systemd.user.tmpfiles.rules = map (
      name: "L %h/.config/ollie/${name} - - - - /etc/ollie/${name}"
    ) ollie.names;

    systemd.packages = lib.optional cfg.serve.enable cfg.package;
    systemd.user.sockets.olliesrv = lib.mkIf cfg.serve.enable { wantedBy = [ "sockets.target" ]; };
  };
}

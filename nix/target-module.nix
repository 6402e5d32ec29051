# NixOS, a host that tools run on. Nothing has to be installed there; this only
# makes sure that sshd lets ollie do what it can do best.
{ config, lib, ... }:
{
  options.services.ollie.target.enable =
    lib.mkEnableOption "sshd settings that serve ollie well on a host that it works on";

  config = lib.mkIf config.services.ollie.target.enable {
    services.openssh = {
      enable = lib.mkDefault true;
      settings = {
        # The transport `forward` reaches toolsrv's Unix socket with it. Without,
        # everything works over the exec channel.
        AllowStreamLocalForwarding = lib.mkDefault "yes";
        # A client that is gone without a word is noticed, and what it had
        # started ends: after 15 seconds, three times.
        ClientAliveInterval = lib.mkDefault 15;
        ClientAliveCountMax = lib.mkDefault 3;
      };
    };
  };
}

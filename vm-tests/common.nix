# The two machines of every scenario, and what its script expects of them.
{ self }:
{ pkgs, ... }:
let
  keys = import "${pkgs.path}/nixos/tests/ssh-keys.nix" pkgs;
  probe = pkgs.runCommandCC "probe" { } ''
    mkdir -p $out/bin
    $CC -O1 -Wall -o $out/bin/probe ${./probe.c}
  '';
  user = shell: {
    isNormalUser = true;
    inherit shell;
    openssh.authorizedKeys.keys = [ keys.snakeOilEd25519PublicKey ];
  };
in
{
  globalTimeout = 1200;

  nodes.devbox = {
    imports = [ self.nixosModules.target ];
    services.ollie.target.enable = true;
    services.openssh.extraConfig = ''
      Match User noforward
        DisableForwarding yes
    '';
    programs.fish.enable = true;
    users.users = {
      dev = user pkgs.bashInteractive;
      noforward = user pkgs.bashInteractive;
      dash = user pkgs.dash;
      tcsh = user pkgs.tcsh;
      fish = user pkgs.fish;
    };
    environment.systemPackages = [ probe ];
  };

  nodes.client = {
    imports = [ self.nixosModules.ollie ];
    services.ollie.enable = true;
    programs.ssh.extraConfig = ''
      Host *
        User dev
        IdentityFile /root/.ssh/test_key
        StrictHostKeyChecking no
    '';
    # ssh refuses a key that others can read, as all can in the store.
    systemd.tmpfiles.rules = [
      "d /root/.ssh 0700 root root -"
      "C /root/.ssh/test_key 0600 root root - ${keys.snakeOilEd25519PrivateKey}"
    ];
  };
}

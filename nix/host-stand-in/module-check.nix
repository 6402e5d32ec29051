# What the modules make of options, all of them set; built by `cargo xtask nix-check`.
{ olliesrv }:
let
  lib = import ./lib.nix;
  pkgs = import ./packages.nix {
    inherit lib;
    system = builtins.currentSystem;
  };
  modules = import ./modules.nix { inherit lib; };
  self.packages.${builtins.currentSystem}.olliesrv = builtins.storePath olliesrv;
  nixos = import ../module.nix self;
  home = import ../home-module.nix self;
  given = {
    enable = true;
    remotes = {
      plain = { };
      full = {
        host = "devbox.example.org";
        user = "me";
        port = 2222;
        cwd = "/srv/work";
        transport = "forward";
        profile = "strict";
        answerTimeout = "97s";
      };
      six.host = "2001:db8::1";
    };
    settings.remotes.free.target = "free@form";
    policy.filesystem.ro = [ "/srv/data" ];
  };
  misspelt = given // {
    settings.remotes.free.traget = "free@form";
  };
  configuration = module: (modules.evaluate pkgs module given).config;
in
{
  undocumented = builtins.concatMap (modules.undocumented pkgs) [
    nixos
    home
    (import ../target-module.nix)
  ];
  nixos = (configuration nixos).environment.etc."ollie/config.yaml".source;
  home = (configuration home).xdg.configFile."ollie/sandbox.yaml".source;
  assertions = builtins.all (each: each.assertion) (configuration nixos).assertions;
  misspelt = (modules.evaluate pkgs nixos misspelt).config.environment.etc."ollie/config.yaml".source;
}

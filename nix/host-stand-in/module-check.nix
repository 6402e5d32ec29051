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
    backend = "work";
    # No kind has all of the options.
    backends = {
      work = {
        kind = "anthropic";
        url = "https://models.example.org/v1";
        keyCommand = [
          "pass"
          "show"
          "models"
        ];
        model = "claude-sonnet";
        context = 32768;
        thinking = 8000;
        connectTimeout = "11s";
        idleTimeout = "13m";
        proxy = "http://proxy.example.org:3128";
        caFile = "/etc/ssl/work.pem";
      };
      variable = {
        kind = "openai";
        keyEnv = "SOME_KEY";
      };
      secret = {
        kind = "ollama";
        keyFile = "/run/secrets/models";
      };
      tour = {
        kind = "replay";
        file = "/srv/tour.jsonl";
      };
    };
    serve.enable = true;
    settings.remotes.free.target = "free@form";
    policy.filesystem.ro = [ "/srv/data" ];
  };
  misspelt = given // {
    settings.remotes.free.traget = "free@form";
  };
  without = given // {
    backends.tour.kind = "replay";
  };
  public = given // {
    backends.public = {
      kind = "openai";
      keyFile = "${builtins.storeDir}/key";
    };
  };
  configuration = module: (modules.evaluate pkgs module given).config;
  file = given: (modules.evaluate pkgs nixos given).config.environment.etc."ollie/config.yaml".source;
  holds =
    given: builtins.all (each: each.assertion) (modules.evaluate pkgs nixos given).config.assertions;
in
{
  undocumented = builtins.concatMap (modules.undocumented pkgs) [
    nixos
    home
    (import ../target-module.nix)
  ];
  nixos = (configuration nixos).environment.etc."ollie/config.yaml".source;
  home = (configuration home).xdg.configFile."ollie/sandbox.yaml".source;
  assertions = holds given && !holds public;
  misspelt = file misspelt;
  without = file without;
  units = {
    nixos =
      (configuration nixos).systemd.packages == [ self.packages.${builtins.currentSystem}.olliesrv ]
      && (configuration nixos).systemd.user.sockets.olliesrv.wantedBy == [ "sockets.target" ];
    home = builtins.all builtins.pathExists (
      map (name: (configuration home).xdg.configFile."systemd/user/${name}".source) [
        "olliesrv.service"
        "olliesrv.socket"
        "sockets.target.wants/olliesrv.socket"
      ]
    );
  };
}

# The options that the NixOS and the Home Manager module share, and the two
# files that they become: config.yaml and sandbox.yaml.
self:
{
  config,
  lib,
  pkgs,
}:
let
  cfg = config;
  yaml = pkgs.formats.yaml { };

  optional =
    type: description: example:
    lib.mkOption {
      type = lib.types.nullOr type;
      default = null;
      inherit description example;
    };

  remote =
    { name, ... }:
    {
      options = {
        host = lib.mkOption {
          type = lib.types.str;
          default = name;
          defaultText = lib.literalExpression "the remote's name";
          example = "devbox.example.org";
          description = "Host name, address, or alias of ssh_config.";
        };
        user = optional lib.types.str "User there; without one, ssh_config decides." "me";
        port = optional lib.types.port "Port of sshd there; without one, ssh_config decides." 2222;
        cwd =
          optional lib.types.str "Directory there in which tools work; without one, the home directory."
            "/home/me/src";
        transport = optional (lib.types.enum [
          "auto"
          "stdio"
          "forward"
        ]) "Which way 9P goes: over the exec channel, or over a forwarded socket." "forward";
        profile = optional lib.types.str "Profile that the sandbox policy starts from." "strict";
        answerTimeout =
          optional lib.types.str "How long the host may take to answer, passwords included."
            "2m";
      };
    };

  target =
    remote:
    lib.optionalString (remote.user != null) "${remote.user}@"
    + (if lib.hasInfix ":" remote.host then "[${remote.host}]" else remote.host)
    + lib.optionalString (remote.port != null) ":${toString remote.port}";

  written =
    remote:
    lib.filterAttrs (_: value: value != null) {
      target = target remote;
      inherit (remote) cwd transport profile;
      answer_timeout = remote.answerTimeout;
    };

  files = {
    "config.yaml" = yaml.generate "config.yaml" (
      lib.recursiveUpdate cfg.settings (
        lib.optionalAttrs (cfg.remotes != { }) { remotes = lib.mapAttrs (_: written) cfg.remotes; }
      )
    );
  }
  // lib.optionalAttrs (cfg.policy != { }) {
    "sandbox.yaml" = yaml.generate "sandbox.yaml" cfg.policy;
  };
in
{
  options = {
    enable = lib.mkEnableOption "ollie, which runs tools on any ssh host inside a sandbox";

    package = lib.mkOption {
      type = lib.types.package;
      default = self.packages.${pkgs.stdenv.hostPlatform.system}.olliesrv;
      defaultText = lib.literalExpression "the olliesrv of this flake";
      example = lib.literalExpression "pkgs.olliesrv";
      description = "The package to install.";
    };

    remotes = lib.mkOption {
      type = lib.types.attrsOf (lib.types.submodule remote);
      default = { };
      example = lib.literalExpression ''
        {
          devbox = { host = "devbox.example.org"; user = "me"; profile = "strict"; };
        }
      '';
      description = "Hosts by the names under which `olliesrv exec NAME` knows them.";
    };

    settings = lib.mkOption {
      inherit (yaml) type;
      default = { };
      example = lib.literalExpression ''{ remotes.other.target = "me@other"; }'';
      description = "What else stands in config.yaml. `olliesrv config check` reads the file when it is built.";
    };

    policy = lib.mkOption {
      inherit (yaml) type;
      default = { };
      example = lib.literalExpression ''{ filesystem.ro = [ "/srv/data" ]; }'';
      description = "The user's layer of the sandbox policy, sandbox.yaml.";
    };
  };

  assertions = lib.mapAttrsToList (name: remote: {
    assertion = !lib.hasPrefix "-" remote.host && !lib.hasPrefix "-" name;
    message = "services.ollie.remotes.${name}: a host cannot begin with a dash, ssh would take it for an option.";
  }) cfg.remotes;

  # Read by the very program that will read them, so a misspelt key is found
  # when the system is built and not when somebody needs it.
  checked =
    pkgs.runCommand "ollie-configuration"
      {
        nativeBuildInputs = [ cfg.package ];
      }
      ''
        mkdir -p $out
        ${lib.concatStringsSep "\n" (lib.mapAttrsToList (name: file: "cp ${file} $out/${name}") files)}
        mkdir configuration
        ln -s $out configuration/ollie
        HOME=$PWD XDG_CONFIG_HOME=$PWD/configuration olliesrv config check
      '';

  names = lib.attrNames files;
}

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

  # Keys are named, never given: what stands here is in the store, which
  # everybody on the machine can read.
  backend.options = {
    kind = lib.mkOption {
      type = lib.types.enum [
        "openai"
        "anthropic"
        "ollama"
        "replay"
      ];
      example = "anthropic";
      description = "Which API it speaks; `replay` plays a recorded transcript.";
    };
    url =
      optional lib.types.str "Base to which the API's paths are appended; without one, the provider's."
        "http://localhost:8080/v1";
    keyEnv = optional lib.types.str "Environment variable that holds the key." "ANTHROPIC_API_KEY";
    keyCommand =
      optional (lib.types.listOf lib.types.str)
        "Program with its arguments, without a shell, that prints the key."
        [
          "pass"
          "show"
          "models"
        ];
    keyFile =
      optional lib.types.str "File with the key, as a string: a path would be copied into the store."
        "/run/secrets/models";
    model = optional lib.types.str "Model of a session that names none." "claude-sonnet";
    context = optional lib.types.ints.positive "Context of the model in tokens." 32768;
    thinking = optional (lib.types.oneOf [
      lib.types.bool
      lib.types.ints.positive
      lib.types.str
    ]) "How the model thinks before it speaks: a switch, tokens or a word, by the kind." 8000;
    connectTimeout = optional lib.types.str "Time for a connection." "10s";
    idleTimeout = optional lib.types.str "Longest silence of the server." "5m";
    proxy = optional lib.types.str "An HTTP proxy." "http://proxy.example.org:3128";
    caFile =
      optional lib.types.str "PEM file with authorities to trust beside the system's."
        "/etc/ssl/work.pem";
    file = optional lib.types.str "The recording of the kind `replay`." "/srv/tour.jsonl";
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

  writtenBackend =
    backend:
    lib.filterAttrs (_: value: value != null) {
      inherit (backend)
        kind
        url
        model
        context
        thinking
        proxy
        file
        ;
      key_env = backend.keyEnv;
      key_command = backend.keyCommand;
      key_file = backend.keyFile;
      connect_timeout = backend.connectTimeout;
      idle_timeout = backend.idleTimeout;
      ca_file = backend.caFile;
    };

  files = {
    "config.yaml" = yaml.generate "config.yaml" (
      lib.recursiveUpdate cfg.settings (
        lib.optionalAttrs (cfg.remotes != { }) { remotes = lib.mapAttrs (_: written) cfg.remotes; }
        // lib.optionalAttrs (cfg.backend != null) { inherit (cfg) backend; }
        // lib.optionalAttrs (cfg.backends != { }) {
          backends = lib.mapAttrs (_: writtenBackend) cfg.backends;
        }
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

    backend = optional lib.types.str "Back end of a session that names none." "work";

    backends = lib.mkOption {
      type = lib.types.attrsOf (lib.types.submodule backend);
      default = { };
      example = lib.literalExpression ''
        {
          work = { kind = "anthropic"; keyCommand = [ "pass" "show" "models" ]; };
        }
      '';
      description = "Model back ends by their names, beside those that are built in.";
    };

    serve.enable = lib.mkEnableOption "the socket of `olliesrv serve` for users: the first connection starts it";

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

  assertions =
    lib.mapAttrsToList (name: remote: {
      assertion = !lib.hasPrefix "-" remote.host && !lib.hasPrefix "-" name;
      message = "services.ollie.remotes.${name}: a host cannot begin with a dash, ssh would take it for an option.";
    }) cfg.remotes
    ++ lib.mapAttrsToList (name: backend: {
      assertion = backend.keyFile == null || !lib.hasPrefix builtins.storeDir backend.keyFile;
      message = "services.ollie.backends.${name}.keyFile: everybody can read the store; name a file outside of it.";
    }) cfg.backends;

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

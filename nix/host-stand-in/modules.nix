# Enough of a module system to look at a module's options and at what it makes
# of given values. It checks no types and merges nothing; nixpkgs does.
{ lib }:
let
  type = description: { inherit description; };
  moduleLib = lib // {
    mkOption = option: option // { isOption = true; };
    mkEnableOption = what: {
      isOption = true;
      default = false;
      example = true;
      description = "Whether to enable ${what}.";
    };
    mkIf = condition: value: if condition then value else { };
    mkDefault = value: value;
    literalExpression = text: text;
    types = {
      str = type "string";
      bool = type "boolean";
      port = type "port";
      ints.positive = type "positive integer";
      oneOf = _: type "one of several";
      listOf = inner: type "list of ${inner.description}";
      package = type "package";
      enum = _: type "enumeration";
      nullOr = inner: inner;
      attrsOf = inner: inner;
      submodule = module: {
        description = "submodule";
        inherit module;
      };
    };
  };

  isOption = value: value.isOption or false;
  submodule =
    option:
    let
      module = option.type.module or null;
    in
    if builtins.isAttrs module then _: module else module;

  # All options with the path to each, also those of submodules.
  walk =
    path: options:
    builtins.concatLists (
      lib.mapAttrsToList (
        name: value:
        let
          at = path ++ [ name ];
          inner = submodule value;
        in
        if !isOption value then
          walk at value
        else
          [
            {
              name = builtins.concatStringsSep "." at;
              inherit value;
            }
          ]
          ++ (if inner == null then [ ] else walk (at ++ [ "<name>" ]) (inner { name = "name"; }).options)
      ) options
    );

  # Values for all options: those that were given, else the defaults.
  filled =
    options: given:
    lib.mapAttrs (
      name: option:
      if !isOption option then
        filled option (given.${name} or { })
      else if !(given ? ${name}) then
        option.default
      else if submodule option != null then
        lib.mapAttrs (key: filled (submodule option { name = key; }).options) given.${name}
      else
        given.${name}
    ) options;

  evaluate =
    pkgs: module: given:
    let
      result = module {
        lib = moduleLib;
        inherit pkgs;
        config.services.ollie = filled result.options.services.ollie given;
      };
    in
    result;
in
{
  inherit evaluate;

  # Names of options that lack a description or an example.
  undocumented =
    pkgs: module:
    let
      options = walk [ ] (evaluate pkgs module { }).options;
      lacks = option: !(option.value ? description && option.value ? example);
    in
    map (option: option.name) (builtins.filter lacks options);
}

# The functions of nixpkgs' lib that the flake uses, from their documentation.
let
  inherit (builtins)
    all
    any
    attrNames
    concatLists
    concatStringsSep
    filter
    fromTOML
    isAttrs
    isList
    listToAttrs
    mapAttrs
    pathExists
    readFile
    replaceStrings
    stringLength
    substring
    ;
in
rec {
  inherit
    attrNames
    concatStringsSep
    listToAttrs
    mapAttrs
    ;
  nameValuePair = name: value: { inherit name value; };
  genAttrs = names: f: listToAttrs (map (name: nameValuePair name (f name)) names);
  mapAttrsToList = f: set: map (name: f name set.${name}) (attrNames set);
  filterAttrs =
    keep: set: genAttrs (filter (name: keep name set.${name}) (attrNames set)) (name: set.${name});
  optionalAttrs = condition: set: if condition then set else { };
  optional = condition: value: if condition then [ value ] else [ ];
  optionalString = condition: text: if condition then text else "";
  hasPrefix = prefix: text: substring 0 (stringLength prefix) text == prefix;
  hasInfix = infix: text: replaceStrings [ infix ] [ "" ] text != text;
  recursiveUpdate =
    left: right:
    left
    // mapAttrs (
      name: value:
      if isAttrs value && isAttrs (left.${name} or null) then
        recursiveUpdate left.${name} value
      else
        value
    ) right;
  importTOML = file: fromTOML (readFile file);
  getExe = package: "${package}/bin/${package.meta.mainProgram}";
  licenses = {
    asl20.spdxId = "Apache-2.0";
    mit.spdxId = "MIT";
  };
  platforms.linux = [
    "x86_64-linux"
    "aarch64-linux"
  ];

  fileset = {
    unions = sets: concatLists (map (set: if isList set then set else [ set ]) sets);
    toSource =
      { root, fileset }:
      let
        named = map toString fileset;
        among = path: name: path == name || hasPrefix "${name}/" path || hasPrefix "${path}/" name;
      in
      # A path that does not exist is an error there, so it is one here.
      assert all pathExists fileset;
      builtins.path {
        name = "source";
        path = root;
        filter = path: _type: any (among path) named;
      };
  };
}

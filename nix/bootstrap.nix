# The bundle: a toolsrv for each architecture that one is given for, the policy
# profiles, and a manifest with sizes and hashes.
{
  lib,
  runCommand,
  ollie-bundle,
  toolsrvs,
  version,
}:
let
  option = platform: toolsrv: "--toolsrv ${platform}=${toolsrv}/bin/toolsrv --note 'static, by Nix'";
in
runCommand "ollie-bootstrap-${version}"
  {
    nativeBuildInputs = [ ollie-bundle ];
    meta.description = "What ollie sends to a host";
  }
  ''
    mkdir -p $out/share/ollie
    bundle=$out/share/ollie/ollie-bundle.tar.xz
    ollie-bundle pack --version ${version} --out $bundle \
      ${lib.concatStringsSep " " (lib.mapAttrsToList option toolsrvs)} \
      --tree sandbox-profiles=${../sandbox-profiles} \
      ${lib.optionalString (builtins.pathExists ../tools) "--tree tools=${../tools}"}
    ollie-bundle list $bundle
  ''

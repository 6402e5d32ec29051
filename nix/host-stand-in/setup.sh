# The phases of a build, from the nixpkgs manual, "Phases".
export PATH=$hostPath HOME=$NIX_BUILD_TOP/home TZ=UTC LC_ALL=C.UTF-8
# The same moment as in nixpkgs.
export SOURCE_DATE_EPOCH=315532800
mkdir -p "$HOME"
umask 022
for input in ${nativeBuildInputs:-}; do
  PATH=$input/bin:$PATH
done

runHook() {
  if declare -F "$1" >/dev/null; then "$1"; else eval "${!1:-}"; fi
}

runPhase() {
  echo "phase $1"
  if [ -n "${!1:-}" ]; then eval "${!1}"; elif declare -F "$1" >/dev/null; then "$1"; fi
}

unpackPhase() {
  cp -r --no-preserve=timestamps,mode "$src" source
  cd source
}

# What the two hooks of buildRustPackage add.
configurePhase() {
  [ -n "${cargoDeps:-}" ] || return 0
  export CARGO_HOME=$NIX_BUILD_TOP/cargo RUSTUP_HOME=$hostRustup CARGO_NET_OFFLINE=true
  mkdir -p "$CARGO_HOME"
  printf '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\ndirectory = "%s"\n' \
    "$cargoDeps" >"$CARGO_HOME/config.toml"
  # Nix's own build sandbox has one name for the directory; here it has many.
  # nixpkgs copies the crates into it, so that no program names their store path.
  RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$NIX_BUILD_TOP=/build"
  RUSTFLAGS="$RUSTFLAGS --remap-path-prefix=$cargoDeps=/build/cargo-vendor-dir"
  target=()
  if [ -n "${static:-}" ]; then
    RUSTFLAGS="$RUSTFLAGS${hostSysroot:+ --sysroot=$hostSysroot}"
    target=(--target "$rustTarget")
  fi
  export RUSTFLAGS
}

buildPhase() {
  runHook preBuild
  cargo build --offline --locked --profile "$buildType" "${target[@]}" $cargoBuildFlags
  runHook postBuild
}

checkPhase() {
  runHook preCheck
  cargo test --offline --locked --profile "$buildType" "${target[@]}" $cargoTestFlags
  runHook postCheck
}

installPhase() {
  runHook preInstall
  mkdir -p "$out/bin"
  find "target/${static:+$rustTarget/}$buildType" -maxdepth 1 -type f -perm -u+x ! -name '*.so' \
    -exec cp {} "$out/bin/" \;
  runHook postInstall
}

# Units of the user's manager lie in share, and lib links to them.
fixupPhase() {
  local units=$out/lib/systemd/user
  [ -d "$units" ] || return 0
  mkdir -p "$out/share/systemd"
  mv "$units" "$out/share/systemd/"
  ln -s "$out/share/systemd/user" "$units"
}

cd "$NIX_BUILD_TOP"
if [ -n "${buildCommand:-}" ]; then
  eval "$buildCommand"
  exit
fi
runPhase unpackPhase
runPhase configurePhase
runPhase buildPhase
[ -z "${doCheck:-}" ] || runPhase checkPhase
runPhase installPhase
runPhase fixupPhase
[ -z "${doInstallCheck:-}" ] || runPhase installCheckPhase

#!/bin/bash
# installShellCompletion --cmd NAME [--SHELL FILE]...: under the names that the
# nixpkgs manual gives.
set -e
while [ $# -gt 0 ]; do
  case $1 in
    --cmd) name=$2 ;;
    --bash) to=bash-completion/completions/$name.bash ;;
    --fish) to=fish/vendor_completions.d/$name.fish ;;
    --zsh) to=zsh/site-functions/_$name ;;
    *) echo "installShellCompletion: $1 is not known here" >&2 && exit 1 ;;
  esac
  [ "$1" = --cmd ] || install -D -m 644 "$2" "$out/share/$to"
  shift 2
done

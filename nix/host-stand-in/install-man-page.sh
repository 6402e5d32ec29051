#!/bin/bash
# installManPage PAGE...: each into its section, as the nixpkgs manual says.
set -e
for page in "$@"; do
  install -D -m 644 "$page" "$out/share/man/man${page##*.}/${page##*/}"
done

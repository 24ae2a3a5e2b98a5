#!/bin/sh
# Installs what meshc builds and runs with (Debian 12, apt). Idempotent: installs only what is missing.
set -eu

packages="gcc cmake ninja-build pkg-config llvm-19-dev libopenblas0-pthread libutf8proc2 libjansson-dev zlib1g-dev libpng-dev libjpeg62-turbo-dev libcmocka-dev libopenmpi-dev openmpi-bin clang-14 clang-format-14"

missing=""
for p in $packages; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q '^install ok installed$' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

echo "setup: installing$missing" >&2
as_root=""
[ "$(id -u)" = 0 ] || as_root=sudo
$as_root apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null

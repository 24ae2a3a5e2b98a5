#!/bin/sh
# Builds build/PRESET/meshc: scripts/build.sh [release|dev|tsan] [cmake options]
set -eu
cd "$(dirname "$0")/.."
preset=${1:-release}
[ $# = 0 ] || shift
cmake --preset "$preset" "$@" >/dev/null
cmake --build --preset "$preset"

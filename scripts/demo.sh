#!/bin/sh
# The first command: installs what is missing, builds, shows one model under one layout at two stages,
# trains it on a 2x2 mesh of processors in this process, and says how well it does.
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh
scripts/build.sh release
meshc=build/release/meshc

say() { printf '\n\033[1m$ meshc %s\033[0m\n' "$*"; "$meshc" "$@"; }
say check examples/iris.mesh
say dump examples/iris.mesh --stage collectives
for seed in 0 1 2; do
  say train examples/iris.mesh --seed "$seed"
done

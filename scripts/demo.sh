#!/bin/sh
# The first command: installs what is missing, builds, shows what a layout makes of one model, and trains
# another on a 2x2 mesh of processors in this process, from three seeds.
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh
scripts/build.sh release
meshc=build/release/meshc

bold='' plain=''
[ ! -t 1 ] || { bold=$(printf '\033[1m') plain=$(printf '\033[0m'); }
tell() { printf '\n%s\n' "$*"; }
show() {
  printf '\n%s$ meshc %s%s\n' "$bold" "$*" "$plain"
  "$meshc" "$@"
}

tell "A two-layer network, batches cut over the rows of a 2 x 2 mesh, the hidden layer over its columns:"
sed -n '/^dim/,$p' examples/mlp.mesh
tell "What each processor computes and sends in a step of training:"
show check examples/mlp.mesh
tell "The program of one processor, forward; b/rows is its own block of b:"
printf '\n%s$ meshc %s%s\n' "$bold" "dump examples/mlp.mesh --stage lower --for run --fetch y | grep -E '^(block|%|output)'" "$plain"
"$meshc" dump examples/mlp.mesh --stage lower --for run --fetch y | grep -E '^(block|%|output)'
tell "Iris on a 2 x 2 mesh from three seeds:"
for seed in 0 1 2; do
  show train examples/iris.mesh --seed "$seed"
done
tell "Next: meshc explain examples/iris.mesh, meshc dump examples/mlp.mesh --stage all --dir dumps, README.md"

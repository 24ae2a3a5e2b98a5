#!/bin/sh
# What is measured in time, on a machine with nothing else to do: scripts/bench.sh [order|compile]...
#   order     layouts run in the order of their predicted times (bench/order.sh)
#   compile   24 layers compile about as fast as 6 (suite_compile_time)
# Build first (scripts/build.sh release). Ends in `N passed, N failed, N skipped` for each; exit 1 if one failed.
set -u
cd "$(dirname "$0")/.." || exit 1
MESHC=${MESHC:-$PWD/build/release/meshc}
export MESHC
[ -x "$MESHC" ] || { echo "bench: $MESHC is missing; run scripts/build.sh release" >&2; exit 2; }
code=0
for what in ${*:-order compile}; do
  echo "$what:"
  case $what in
    order) bench/order.sh -v local np mpi || code=1 ;;
    compile) "$(dirname "$MESHC")"/suite_compile_time time || code=1 ;;
    *) echo "bench: order and compile are known, not '$what'" >&2; exit 2 ;;
  esac
done
exit $code

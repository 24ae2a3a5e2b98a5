#!/bin/sh
# What is measured in time, on a machine with nothing else to do: scripts/bench.sh [order|compile|growth|pages]...
#   order     layouts run in the order of their predicted times (bench/order.sh)
#   compile   24 layers compile about as fast as 6 (suite_compile_time)
#   growth    a model of 768 layers, 10,000 parameters, a refused budget, 64 local processors (bench/growth.sh)
#   pages     the page of explain of a large model takes at most 1.5 s
# Build first (scripts/build.sh release). Ends in `N passed, N failed, N skipped` for each; exit 1 if one failed.
set -u
cd "$(dirname "$0")/.." || exit 1
MESHC=${MESHC:-$PWD/build/release/meshc}
export MESHC
[ -x "$MESHC" ] || { echo "bench: $MESHC is missing; run scripts/build.sh release" >&2; exit 2; }
# The best of three, in seconds of processor time.
pages() {
  passed=0 failed=0
  for model in "examples/gpt2.mesh" "examples/gpt.mesh --set depth=12"; do
    best=1000000
    for try in 1 2 3; do
      # shellcheck disable=SC2086
      took=$( (times; "$MESHC" explain $model --mesh rows=2,cols=2 --layout b=rows,heads=cols,ff=cols,vocab=cols --format html >/dev/null; times) |
        awk 'NR == 2 || NR == 4 { split($1, u, /[ms]/); split($2, s, /[ms]/); t[NR] = u[1] * 60 + u[2] + s[1] * 60 + s[2] } END { printf "%d", (t[4] - t[2]) * 1000 }')
      [ "$took" -lt "$best" ] && best=$took
    done
    echo "  $model: $best ms"
    if [ "$best" -le 1500 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  done
  echo "$passed passed, $failed failed, 0 skipped"
  [ "$failed" = 0 ]
}
code=0
for what in ${*:-order compile growth pages}; do
  echo "$what:"
  case $what in
    order) bench/order.sh -v local np mpi || code=1 ;;
    compile) "$(dirname "$MESHC")"/suite_compile_time time || code=1 ;;
    growth) bench/growth.sh || code=1 ;;
    pages) pages || code=1 ;;
    *) echo "bench: order, compile, growth and pages are known, not '$what'" >&2; exit 2 ;;
  esac
done
exit $code

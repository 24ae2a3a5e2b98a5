#!/bin/sh
# Compares the speed of two meshc programs over the examples: the time of a training step on one thread, measured
# in alternating pairs of `meshc bench`, so that both see the same machine.
#   bench/compare.sh [-n PAIRS] OLD NEW [MODEL...]   (7 pairs, all examples; MODEL: a name of examples/ without .mesh)
# OLD and NEW read the examples of their own checkouts (two folders above the program), or of this one.
#
#   model        OLD ms   NEW ms   NEW/OLD   median   roofline     least time of each and their ratio, the median of the
#   gpt          75.120   74.903     0.997    0.999       1.42     ratios of the pairs, and NEW's time over the roofline's
#
# Exit 1 if a ratio is above 1.03. On a busy machine use more pairs: the least time is the one that counts.
cd "$(dirname "$0")/.." || exit 1
pairs=7
[ "$1" = -n ] && { pairs=$2; shift 2; }
[ $# -ge 2 ] || { echo "compare: OLD and NEW are missing; see the first lines of bench/compare.sh" >&2; exit 2; }
old=$1 new=$2
shift 2
for program in "$old" "$new"; do
  [ -x "$program" ] || { echo "compare: $program is no program" >&2; exit 2; }
done
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
XDG_CACHE_HOME=$tmp/cache
export XDG_CACHE_HOME

# examples_of PROGRAM
examples_of() {
  near=$(dirname "$1")/../../examples
  if [ -d "$near" ]; then echo "$near"; else echo examples; fi
}

# number KEY: of the JSON on standard input
number() { sed -n "s/^ *\"$1\": \([0-9.e+-]*\),*\$/\1/p" | head -n 1; }

# time PROGRAM MODEL STEPS: seconds of the fastest step, and of the roofline
time_of() {
  "$1" bench "$(examples_of "$1")/$2.mesh" --threads 1 --steps "$3" --json 2>/dev/null >"$tmp/json" || return 1
  echo "$(number best_seconds <"$tmp/json") $(sed -n '/"roofline"/,/}/p' "$tmp/json" | number seconds)"
}

# compare MODEL: pairs of times to $tmp/pairs, in turn old and new first
compare() {
  : >"$tmp/pairs"
  time_of "$old" "$1" 1 >/dev/null && first=$(time_of "$new" "$1" 1) || return 1
  steps=$(echo "$first" | awk '{n = int(0.5 / $1); print (n < 3 ? 3 : n > 2000 ? 2000 : n)}')
  for i in $(seq "$pairs"); do
    if [ $((i % 2)) = 1 ]; then a=$(time_of "$old" "$1" "$steps") && b=$(time_of "$new" "$1" "$steps")
    else b=$(time_of "$new" "$1" "$steps") && a=$(time_of "$old" "$1" "$steps"); fi || return 1
    echo "$a $b" >>"$tmp/pairs"
  done
}

[ $# -gt 0 ] || set -- $(for f in examples/*.mesh; do basename "$f" .mesh; done)
code=0
printf '%-12s %10s %10s %8s %8s %9s\n' model "OLD ms" "NEW ms" NEW/OLD median roofline
for model in "$@"; do
  compare "$model" || { printf '%-12s cannot be measured without its data\n' "$model"; continue; }
  median=$(awk '{print $3 / $1}' "$tmp/pairs" | sort -g | sed -n "$(((pairs + 1) / 2))p")
  awk -v model="$model" -v median="$median" '
    NR == 1 || $1 < a {a = $1} NR == 1 || $3 < b {b = $3} NR == 1 || $4 < r {r = $4}
    END {printf "%-12s %10.4f %10.4f %8.3f %8.3f %9.2f\n", model, a * 1e3, b * 1e3, b / a, median, b / r; exit b / a > 1.03}' \
    "$tmp/pairs" || code=1
done
exit $code

#!/bin/sh
# Every example, trained as its first lines say, under its layouts: what it reaches must not depend on them.
# The data is made here; real data is used where it is at hand. Ends in `N passed, N failed, N skipped`.
set -u
cd "$(dirname "$0")/.." || exit 1
meshc=${MESHC:-$PWD/build/release/meshc}
data=${MESHC_DATA:-$PWD/../shared/data}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0
pass() { passed=$((passed + 1)); }
fail() { echo "FAIL $*"; failed=$((failed + 1)); }
"$(dirname "$meshc")/generate" "$tmp" || exit 1

# train NAME METRIC at-most|at-least BOUND OPTIONS...: METRIC is that of the last line `test METRIC value`
train() {
  name=$1 metric=$2 how=$3 bound=$4
  shift 4
  if ! "$meshc" train "examples/$name.mesh" "$@" >"$tmp/out" 2>"$tmp/err"; then
    fail "$name $*: $(head -n 3 "$tmp/err")"
    return
  fi
  value=$(sed -n "s/^test $metric \([-0-9.e+]*\).*/\1/p" "$tmp/out" "$tmp/err" | tail -n 1)
  if awk -v v="${value:-nan}" -v b="$bound" -v how="$how" \
    'BEGIN { v = v + 0 == v ? v + 0 : 1e30 * (how == "at-least" ? -1 : 1); exit !(how == "at-least" ? v >= b : v <= b) }'; then
    pass
  else
    fail "$name $*: $metric is ${value:-missing}, wanted $how $bound"
  fi
}

# example NAME METRIC HOW BOUND OPTIONS -- then one layout a line on standard input, `none` or `MESH LAYOUT`
example() {
  while read -r mesh layout; do
    if [ "$mesh" = none ]; then
      train "$@" --layout none
    else
      train "$@" --mesh "$mesh" --layout "$layout"
    fi
  done
}

example logistic accuracy at-least 0.93 <<X
none
rows=4 b=rows
cols=2 features=cols
X

example transformer accuracy at-least 0.99 --data-dir "$tmp" <<X
none
rows=2,cols=2 b=rows,heads=cols,ff=cols,symbols=cols
X
example clip loss at-most 0.5 --data-dir "$tmp" <<X
none
rows=4 b=rows
rows=2,cols=2 b=rows,h=cols,words=cols
X

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]

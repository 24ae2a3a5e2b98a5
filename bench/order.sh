#!/bin/sh
# Predictions put layouts in the order in which they run: of five layouts of a model, each pair that the simulator takes
# to be more than 15 % apart is measured in that order. The machine file is measured in the same run, the layouts in
# turn, several times; the median counts. For processors in one process, and each in its own.
#   bench/order.sh [-v] [local|np|mpi]...   (local alone when none is named: the ranks take a minute more)
cd "$(dirname "$0")/.." || exit 1
meshc=${MESHC:-$PWD/build/release/meshc}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
XDG_CACHE_HOME=$tmp/cache
export XDG_CACHE_HOME
passed=0 failed=0 skipped=0
rounds=3
verbose=
[ "$1" = -v ] && { verbose=1; shift; }
pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "FAIL $1"; }

# number KEY: of the JSON object on standard input, not of objects inside
number() { sed -n "s/^  \"$1\": \([0-9.e+-]*\),*\$/\1/p"; }

# What each layout takes, once more each
measure() {
  for round in $(seq $rounds); do
    i=0
    for layout in "$@"; do
      # shellcheck disable=SC2086
      "$meshc" bench $set_ --layout "$layout" --machine "$tmp/machine" $way --steps 15 --json 2>/dev/null |
        number seconds >>"$tmp/times.$i"
      i=$((i + 1))
    done
  done
  i=0
  for layout in "$@"; do
    n=$(wc -l <"$tmp/times.$i")
    echo "$layout $(cat "$tmp/predicted.$i") $(sort -g "$tmp/times.$i" | sed -n "$(((n + 1) / 2))p")"
    i=$((i + 1))
  done >"$tmp/found"
  awk 'NF < 3 {print "FAIL no time of " $1}
    {l[NR] = $1; p[NR] = $2; m[NR] = $3}
    END {for (i = 1; i <= NR; i++) for (j = 1; j <= NR; j++)
      if (p[j] > 1.15 * p[i]) print (m[j] > m[i] ? "ok" : "FAIL"), l[i], "before", l[j], p[i], p[j], "measured", m[i], m[j]}' \
    "$tmp/found" >"$tmp/pairs"
}

# five NAME MODEL [OPTION...] -- LAYOUT...: under $way, with $tmp/machine. Where the order is wrong it is measured
# again, up to three times, and all times count: somebody else may have used the machine
five() {
  name=$1
  shift
  set_=
  while [ "$1" != -- ]; do set_="$set_ $1" && shift; done
  shift
  rm -f "$tmp"/times.*
  i=0
  for layout in "$@"; do
    # shellcheck disable=SC2086
    "$meshc" check $set_ --layout "$layout" --machine "$tmp/machine" --json 2>/dev/null | number predicted_seconds >"$tmp/predicted.$i"
    i=$((i + 1))
  done
  for again in 1 2 3; do
    measure "$@"
    [ -n "$verbose" ] && awk -v n="$name $way" '{printf "%s: %s predicted %.3f ms, measured %.3f ms, ratio %.2f\n", n, $1, 1e3*$2, 1e3*$3, $3/$2}' "$tmp/found"
    grep -q FAIL "$tmp/pairs" || break
  done
  while read -r word rest; do
    if [ "$word" = ok ]; then pass; else fail "$name $way: $rest"; fi
  done <"$tmp/pairs"
  grep -q ok "$tmp/pairs" || fail "$name $way: no two layouts are predicted to be apart"
}

"$meshc" version | grep -q LLVM || { echo "0 passed, 0 failed, 1 skipped"; exit 0; }
for kind in ${*:-local}; do
  case $kind in
    local) way="--comm local" ;;
    np) way="--np 2" ;;
    mpi) way="--np 2 --comm mpi" ;;
  esac
  if [ "$kind" = mpi ] && ! "$meshc" doctor | grep -q '^comm.*mpi'; then
    skipped=$((skipped + 1))
    continue
  fi
  # shellcheck disable=SC2086
  "$meshc" doctor --measure "$tmp/machine" $way >/dev/null || fail "doctor --measure $way"
  [ -n "$verbose" ] && cat "$tmp/machine"
  five mlp examples/mlp.mesh --set b=512 --set d=512 --set h=2048 --set o=256 --mesh p=2 -- none b=p h=p d=p o=p
  five gpt examples/gpt.mesh --mesh p=2 -- none b=p t=p heads=p,ff=p,vocab=p ff=p
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

#!/bin/sh
# Long sums are exact to 1e-6: every reduction over n terms, along every position of the summed dim, whole and split
# over processors, against the same in f64; and the same bits for 1, 2 and 3 threads.
#   tests/long_sums.sh [N]...   (1000 and 200000 when none is named; tests/soak/long_sums.sh has 1e3 to 1e7)
. "$(dirname "$0")/common.sh"
SOAK=${SOAK:-}
XDG_CACHE_HOME=$tmp/cache
export XDG_CACHE_HOME
[ $# -gt 0 ] || set -- 1000 200000

# The tensors of $kind: x, and factors f near 1
tensor() {
  near=$(awk "BEGIN {printf \"%.9g\", 1 + 2 / $n}") away=$(awk "BEGIN {printf \"%.9g\", 1 / sqrt($n)}")
  case $kind in
  constant) echo "param x[$1] = 0.1"; echo "param f[$1] = $near" ;;
  random) echo "param x[$1] ~ uniform(0.5, 1.5)"; echo "param f[$1] ~ uniform(1 - $away, 1 + $away)" ;;
  bf16) echo "param raw[$1] ~ uniform(0.5, 1.5)"; echo "x = cast(raw, bf16)"; echo "param f[$1] = $near" ;;
  esac
}

# out NAME EXPRESSION: over r, of elements that are cast to T
out() {
  case $mode in
  want) echo "output want_$1$kept = $(echo "$2" | sed 's/T)/f64)/g')" ;;
  got)
    echo "input want_$1$kept: f64"
    echo "got_$1 = cast($(echo "$2" | sed 's/T)/f32)/g'), f64)"
    echo "output $1 = max(abs(got_$1 - want_$1) / abs(want_$1))"
    ;;
  esac
}

# model MODE: the reductions over dims $summed of a tensor over $dims, leaving $kept
model() {
  mode=$1
  echo "dim n = $n, c = 3, d = 2, p = 40, q = $((n / 40))"
  tensor "$dims"
  out sum "sum[$summed](cast(x, T))"
  out mean "mean[$summed](cast(x, T))"
  out norm "sqrt(sum[$summed](square(cast(x, T))))"
  out logsumexp "logsumexp[$summed](cast(x, T))"
  out contract "sum[$summed]((cast(x, T) + 1) * (cast(x, T) + 0.5))"
  out prod "prod[$summed](cast(f, T))"
  [ "$kind" = random ] && out variance "variance[$summed](cast(x, T))"
  [ "$kind" = bf16 ] || out cumsum "cumsum[${summed%%,*}](cast(x, T))" | sed "s/\(want_cumsum\)\[*[a-z, ]*\]*\([: ]\)/\1[$dims]\2/"
}

# others MODE: what is no plain reduction: rows of a table, products of the library and of computed operands
others() {
  mode=$1
  echo "dim n = $n, c = 3, v = 2, i = 8, j = 12"
  tensor "n, c"
  case $kind in
  constant) echo "param a[n, i] = 0.1"; echo "param b[n, j] = 0.1" ;;
  *) echo "param a[n, i] ~ uniform(0.5, 1.5)"; echo "param b[n, j] ~ uniform(0.5, 1.5)" ;;
  esac
  echo "row[n] = index[n] % 2"
  kept="[v, c]"
  out scatter "scatter_add[-> v](cast(x, T), row)"
  kept="[i, j]"
  out library "sum[n](cast(a, T) * cast(b, T))"
  out computed "sum[n](square(cast(a, T)) * sqrt(cast(b, T)))"
  kept="[i]"
  out vector "sum[n, j](cast(a, T) * cast(b, T))"
}

# scan TYPE OPTIONS: sums over n rounds, and gradients of parameters that its body uses
scan() {
  cat <<X
scan n (s$1[b, k]: $1 = 0$2) {
  s$1 = sigmoid(sum[j](rename[k -> j](s$1) * cast(u, $1)) + sum[c](cast(x, $1) * cast(w, $1)) + cast(bias, $1)) * cast(gain, $1)
  yield s$1 as all$1
}
loss$1 = mean[n, b, k](all$1)
X
}
loops() {
  echo "dim n = $n, b = 2, c = 3, k = 3, j = k"
  echo "param x[n, b, c] ~ uniform(0.5, 1.5)"
  echo "param w[c] = 0.03"
  echo "param u[j, k] ~ uniform(0.1, 0.3)"
  echo "param bias[k] = 0.1"
  echo "param gain = 0.7"
  scan f32 "$1"
  scan f64 "$1"
  for p in w u bias gain; do
    echo "output $p = max(abs(cast(gradient(lossf32, $p), f64) / cast(gradient(lossf64, $p), f64) - 1))"
  done
}

# errors of all outputs against f64, of the model in $tmp/got with options $@
compare() {
  name=$1
  shift
  # shellcheck disable=SC2086
  "$meshc" run "$tmp/got.mesh" --seed 3 $feeds "$@" >"$tmp/out" 2>&1 || { fail "$name: $(grep -m1 error "$tmp/out")"; return; }
  awk '$2 == "f64" {print $1, $NF}' "$tmp/out" >"$tmp/errors"
  [ -s "$tmp/errors" ] || { fail "$name: no result"; return; }
  while read -r op error; do
    if awk "BEGIN {exit !($error <= 1e-6)}"; then pass; else fail "$name: $op is off by $error"; fi
  done <"$tmp/errors"
}

# position SUMMED KEPT DIMS, DIM that is split, [others]
position() {
  summed=$1 kept=$2 dims=$3 dim=$4
  rm -rf "$tmp/want" "$tmp"/got.[123]
  ${5:-model} want >"$tmp/want.mesh"
  ${5:-model} got >"$tmp/got.mesh"
  "$meshc" run "$tmp/want.mesh" --seed 3 --out "$tmp/want" >"$tmp/out" 2>&1 || { fail "$n $kind [$dims]: $(grep -m1 error "$tmp/out")"; return; }
  # shellcheck disable=SC2086
  feeds=
  for file in "$tmp"/want/*.npy; do feeds="$feeds --feed $(basename "$file" .npy)=$file"; done
  for threads in 1 ${SOAK:+2} 3; do
    "$meshc" run "$tmp/got.mesh" --seed 3 $feeds --threads $threads --fetch "$(sed -n 's/^\(got_[a-z]*\) =.*/\1/p' "$tmp/got.mesh" | paste -sd, -)" --out "$tmp/got.$threads" >/dev/null 2>&1
    diff -r "$tmp/got.1" "$tmp/got.$threads" >/dev/null && pass || fail "n = $n, $kind [$dims]: other bits with $threads threads"
  done
  compare "n = $n, $kind [$dims]"
  for processors in ${SOAK:+2} 3; do
    compare "n = $n, $kind [$dims] over $processors" --mesh p=$processors --layout "$dim=p"
  done
}

# Of these (kind, position) the test command takes a part, the soak test all.
soak() { [ "$SOAK" ]; }
long() { [ "$n" -gt 1000 ] || soak; }

n=100000
for option in "" ", checkpoint = true"; do
  loops "$option" >"$tmp/got.mesh"
  feeds=
  compare "gradients of a scan of $n rounds$option"
done
for n in "$@"; do
  for kind in constant random bf16; do
    [ $kind = constant ] || long || continue
    position n "[c]" "n, c" n
    [ $kind = constant ] || soak || continue
    position n "" "n, c" n others
    long || continue
    position n "[c]" "c, n" n
    position n "[c, d]" "c, n, d" n
    position n "" n n
    soak && position "p, q" "[c]" "p, c, q" q
  done
done
finish

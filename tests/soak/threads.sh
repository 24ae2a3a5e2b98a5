#!/bin/sh
# Data races: the runtime and the generated code under the thread sanitizer. Builds build/tsan. Loops whose workers run
# apart, each for its rows, train a step on two workers; the compiles of `explain`; then all models of the suite.
top=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
. "$top/tests/common.sh"
cd "$top" || exit 1
scripts/build.sh tsan >"$tmp/log" 2>&1 || { tail -n 5 "$tmp/log"; fail "the build with the thread sanitizer"; finish; }
XDG_CACHE_HOME=$tmp/cache MESHC_TSAN=1 MESHC_WIDTH=128
TSAN_OPTIONS="suppressions=$top/tests/tsan.supp exitcode=66 ${TSAN_OPTIONS:-}"
export XDG_CACHE_HOME MESHC_TSAN MESHC_WIDTH TSAN_OPTIONS

# model BODY: a model with the loop BODY, whose carry h[b, k] is the result
model() {
  cat <<X
dim b = 24, t = 16, i = 32, k = 64, j = k, gate = 4, n = 8
input x[b, t, i]
input target[b, t, k]
param w[i, gate, k] ~ glorot(i -> gate, k)
param u[j, gate, k] ~ orthogonal(j -> gate, k)
$1
loss = mean[b, t, k](square(hs - target))
train loss { optimizer = adam(lr = 1e-3), steps = 1 }
X
}
product='z = sum[i](x * w) + sum[j](rename[k -> j](h) * u)'

# races NAME BODY: two workers share the rows of the loop, and no two of them use a byte at once
races() {
  model "$2" >"$tmp/$1.mesh"
  run build/tsan/meshc dump "$tmp/$1.mesh" --stage fuse
  says 'each worker all rounds for its part of b' || fail "$1: the loop does not run by rows"
  expect "$1" 0 '' build/tsan/meshc bench "$tmp/$1.mesh" --threads 2 --steps 2
}

races lstm "scan t (h[b, k] = 0, c[b, k] = 0) {
  $product
  c = sigmoid(select[gate](z, 0)) * c + sigmoid(select[gate](z, 1)) * tanh(select[gate](z, 2))
  h = sigmoid(select[gate](z, 3)) * tanh(c)
  yield h as hs
}"
races gru "scan t (h[b, k] = 0) {
  $product
  update = sigmoid(select[gate](z, 0))
  h = (1 - update) * tanh(select[gate](z, 1) + sigmoid(select[gate](z, 2)) * select[gate](z, 3)) + update * h
  yield h as hs
}"
races scan "param a[k, n] ~ uniform(0.0, 1.0)
v = sum[i](x * select[gate](w, 0))
scan t (s[b, k, n] = 0) {
  s = exp(-a) * s + v
  yield sum[n](s) as hs
}"

# explain OPTIONS: threads that compile, each the step under another layout, share nothing that one of them changes
explain() {
  # shellcheck disable=SC2086
  expect "explain $1" 0 '' build/tsan/meshc explain $1 --threads 6
}
explain "examples/gpt.mesh --mesh rows=2,cols=2 --layout b=rows,heads=cols,ff=cols"
explain "examples/gpt.mesh --mesh rows=2,cols=2 --layout b=rows,heads=cols --memory 16MiB"
explain "examples/moe.mesh --mesh rows=4 --layout g=rows,own=rows -v"
explain "examples/mlp.mesh --mesh rows=5 --layout b=rows --device cuda --machine h100x8"
explain "tests/models/pinned.mesh --mesh rows=2,cols=2 --layout d=cols -v --format html"
explain "tests/questions/basket.mesh -v --json"
explain "tests/questions/ranking.mesh -v"

expect "plan" 0 '' build/tsan/meshc plan examples/depth.mesh --set blocks=6 --set train.accumulate=5 --mesh rows=2 --threads 4

run build/tsan/suite_models
if [ "$code" = 0 ]; then pass; else fail "suite_models: exit $code: $(grep -aE -A 12 'FAIL|WARNING' "$tmp/out" "$tmp/err" | head -n 60)"; fi
finish

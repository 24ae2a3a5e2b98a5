#!/bin/sh
# Whole trainings, as a user runs them: Iris on a 2x2 mesh for three seeds, uneven dims, divided updates, MNIST under four
# layouts (skipped without the data), the curves compared. Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"

# accuracy of the last `test accuracy` line: correct of all
correct() { sed -n 's/.*test accuracy [0-9.]* (\([0-9]*\)\/[0-9]*).*/\1/p' "$1" | tail -n 1; }

# "step loss" pairs of a run's metrics.jsonl
curve() { sed -n 's/^{"step": *\([0-9]*\), "loss": *\([-+0-9.e]*\).*/\1 \2/p' "$1/metrics.jsonl"; }

# The largest relative difference of two curves over their first n steps
difference() {
  curve "$1" | head -n "$3" >"$tmp/.a"
  curve "$2" | head -n "$3" >"$tmp/.b"
  paste -d' ' "$tmp/.a" "$tmp/.b" | awk -v n="$3" '
    { d = $2 - $4; if (d < 0) d = -d; s = $2 < 0 ? -$2 : $2; if (s < 1e-3) s = 1e-3; if (d / s > worst) worst = d / s }
    END { if (NR != n) print 99; else printf "%.3g\n", worst }'
}
# The largest relative difference of the means over windows of $3 steps
epoch_difference() {
  curve "$1" >"$tmp/.a"
  curve "$2" >"$tmp/.b"
  paste -d' ' "$tmp/.a" "$tmp/.b" | awk -v n="$3" '
    { x += $2; y += $4; if (NR % n == 0) { d = x - y; if (d < 0) d = -d; if (d / x > worst) worst = d / x; x = 0; y = 0; k++ } }
    END { if (k < 1) print 99; else printf "%.3g\n", worst }'
}
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 <= b + 0) }'; }

for seed in 0 1 2; do
  if "$meshc" train examples/iris.mesh --seed $seed --mesh rows=2,cols=2 --layout b=rows,h1=cols >"$tmp/out" 2>"$tmp/err"; then
    n=$(correct "$tmp/out")
    if [ "${n:-0}" -ge 29 ]; then pass; else fail "iris seed $seed: ${n:-no} of 30: $(tail -n 2 "$tmp/out" "$tmp/err")"; fi
  else
    fail "iris seed $seed: exit $?: $(head -n 5 "$tmp/err")"
  fi
done

# Replicas that meet every 8 steps learn as well, the same under every layout; each run compares the bytes that it sends
# with the predicted ones.
for how in "--layout none" "--mesh rows=2,cols=2 --layout b=rows,h1=cols" "--mesh rows=2 --layout b=rows,optimizer/all=rows --np 2"; do
  if "$meshc" train examples/iris.mesh --set "train.sync=every(8,replicas=2)" $how >"$tmp/out" 2>"$tmp/err"; then
    n=$(correct "$tmp/out")
    if [ "${n:-0}" -ge 29 ]; then pass; else fail "iris with replicas, $how: ${n:-no} of 30"; fi
  else
    fail "iris with replicas, $how: exit $?: $(head -n 5 "$tmp/err")"
  fi
done

# Replicas with asynchronous updates learn as well; each run compares the bytes that it sends and gets with the predicted
# ones. Results differ from run to run: beside busy processes one run in twenty has only 21 to 24 of 30, because updates
# of a replica without a core come late. So the middle one of five runs counts. In one group of processors replicas take
# turns, so two runs are equal.
asynchronous() {
  for _ in 1 2 3 4 5; do
    "$meshc" train examples/iris.mesh --set "train.sync=stale(2,replicas=6)" "$@" >"$tmp/out" 2>"$tmp/err" || return
    correct "$tmp/out" >>"$tmp/correct"
  done
}
for how in "--layout none" "--mesh rows=2,cols=2 --layout b=rows,h1=cols" "--mesh rows=2 --layout b=rows --np 2" \
  "--mesh rows=6 --layout b=rows --np 2"; do
  : >"$tmp/correct"
  # shellcheck disable=SC2086
  if asynchronous $how; then
    n=$(sort -n "$tmp/correct" | sed -n 3p)
    if [ "${n:-0}" -ge 27 ]; then pass; else fail "iris with asynchronous updates, $how: ${n:-no} of 30"; fi
  else
    fail "iris with asynchronous updates, $how: exit $?: $(head -n 5 "$tmp/err")"
  fi
done
for name in turns again; do
  "$meshc" train examples/iris.mesh -q --set "train.sync=stale(2,replicas=3)" --set train.epochs=5 --layout none \
    --save-params "$tmp/$name.npz" >"$tmp/out" 2>"$tmp/err" || fail "iris, $name: $(head -n 3 "$tmp/err")"
done
if cmp -s "$tmp/turns.npz" "$tmp/again.npz"; then pass; else fail "replicas that take turns differ from run to run"; fi

# A dim that does not divide its axis trains to the same loss.
iris() {
  name=$1
  shift
  "$meshc" train examples/iris.mesh --set train.epochs=20 --log-dir "$tmp/$name" "$@" >"$tmp/out" 2>"$tmp/err" ||
    fail "iris $name: $(head -n 3 "$tmp/err")"
}
iris whole --layout none
iris rows3 --mesh rows=3 --layout h1=rows
iris batch4 --mesh rows=4 --layout b=rows
iris both --mesh rows=3,cols=2 --layout b=cols,h1=rows
for name in rows3 batch4 both; do
  d=$(difference "$tmp/whole" "$tmp/$name" 20)
  if below "$d" 1e-3; then pass; else fail "iris: curve of $name differs by $d"; fi
done

# Processors with equal parameters divide the updates: the same bits with any number of threads and processes, and the
# loss of one processor.
cat >"$tmp/divided.mesh" <<'END'
dim b = 60, i = 70, h = 300, o = 4
input x[b, i]
input y[b, o]
param w1[i, h] ~ glorot(i, h)
param b1[h]
param w2[h, o] ~ glorot(h, o)
p = sum[h](relu(sum[i](x * w1) + b1) * w2)
loss = mean[b](sum[o](square(p - y)))
data train over b { x = synthetic(normal), y = synthetic(uniform) }
train loss { optimizer = adam(lr = 1e-3), steps = 20 }
END
divided() {
  name=$1
  shift
  "$meshc" train "$tmp/divided.mesh" --log-dir "$tmp/$name" --save-params "$tmp/$name.safetensors" "$@" >"$tmp/out" 2>"$tmp/err" ||
    fail "divided $name: $(head -n 3 "$tmp/err")"
}
divided one --threads 1
for layout in "rows=2 b=rows" "rows=2,cols=2 b=rows,h=cols"; do
  mesh=${layout% *} rule=${layout#* }
  divided first --mesh "$mesh" --layout "$rule" --threads 1
  divided threads --mesh "$mesh" --layout "$rule" --threads 2
  divided ranks --mesh "$mesh" --layout "$rule" --np 2
  for name in threads ranks; do
    if cmp -s "$tmp/first.safetensors" "$tmp/$name.safetensors"; then pass; else fail "divided $layout: parameters differ with $name"; fi
  done
  d=$(difference "$tmp/one" "$tmp/first" 20)
  if below "$d" 1e-4; then pass; else fail "divided $layout: curve differs by $d"; fi
done

mnist() {
  name=$1
  shift
  "$meshc" train examples/mnist.mesh --data-dir "$data" --log-dir "$tmp/$name" "$@" >"$tmp/$name.out" 2>"$tmp/err" ||
    { fail "mnist $name: $(head -n 3 "$tmp/err")"; return; }
  n=$(correct "$tmp/$name.out")
  if [ "${n:-0}" -ge 1900 ]; then pass; else fail "mnist $name: ${n:-no} of 2000 right"; fi
}
if [ -r "$data/mnist-10k-images-idx3-ubyte.gz" ]; then
  steps=$("$meshc" check examples/mnist.mesh --json | sed -n 's/.*"b": *\([0-9]*\).*/\1/p' | head -n 1)
  epoch=$((8000 / ${steps:-100}))
  mnist none --layout none
  mnist b --mesh rows=2,cols=2 --layout b=rows
  mnist replicas --mesh rows=4 --layout b=rows --set "train.sync=every(16,replicas=4)"
  mnist stale --mesh rows=4 --layout b=rows --set "train.sync=stale(4,replicas=4)" --np 4
  mnist h --mesh rows=2,cols=2 --layout h=cols
  mnist bh --mesh rows=2,cols=2 --layout b=rows,h=cols
  for name in b h bh; do
    d=$(difference "$tmp/none" "$tmp/$name" 80)
    if below "$d" 1e-4; then pass; else fail "mnist: first 80 steps of $name differ by $d"; fi
    d=$(epoch_difference "$tmp/none" "$tmp/$name" "$epoch")
    if below "$d" 1e-3; then pass; else fail "mnist: epoch means of $name differ by $d"; fi
  done
else
  skip 11
fi

finish

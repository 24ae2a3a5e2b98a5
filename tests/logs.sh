#!/bin/sh
# What a training shows and keeps while it runs: steps that are not finite, logs across kills, a full disk, signals
# without checkpoints, the line of progress. Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"

# -- steps that are not finite -----------------------------------------------------------------------------
# Row 4 makes the loss of every fourth step NaN.
cat >"$tmp/nan.mesh" <<'END'
dim b = 2, d = 2
input x[b]
param w[d] = 1
param v = 1
state seen = 0
loss = mean(log(x)) * sum(w * w) + v
metric size = mean(x)
update seen = seen + 1
data train over b { x = csv("nan.csv", column = 0), shuffle = false }
data test over b { x = csv("good.csv", column = 0) }
train loss { optimizer = adam(lr = 0.1), steps = 20, on_nonfinite = skip, checkpoint = 3, average = 0.5 }
END
printf '1\n3\n4\n5\n-1\n3\n4\n5\n' >"$tmp/nan.csv"
printf '1\n2\n3\n4\n' >"$tmp/good.csv"
printf '#!/bin/sh\nexec "%s" train "%s" "$@"\n' "$meshc" "$tmp/nan.mesh" >"$tmp/nan"
chmod +x "$tmp/nan"
expect "a loss that is not finite ends the run" 4 "loss is nan in step 2.*" "$tmp/nan" --set train.on_nonfinite=stop
expect "what to do about it" 4 "hint: .*check finite.*on_nonfinite = skip" "$tmp/nan" --set train.on_nonfinite=stop
expect "skipped steps are counted" 0 "^5 of 20 steps were skipped" "$tmp/nan" --save-params "$tmp/whole.safetensors" --log-dir "$tmp/nan.log"
if grep -q '"skipped": 5,' "$tmp/nan.log/metrics.jsonl"; then pass; else fail "metrics.jsonl does not count skipped steps"; fi
expect "the counter goes by updates" 0 "optimizer.step" "$meshc" inspect "$tmp/whole.safetensors"
for how in "--mesh p=2 --layout b=p" "--mesh p=2 --layout b=p --np 2" "--mesh p=2 --layout d=p" "--set train.accumulate=2" \
  "--set train.repeat=2" "--precision f16"; do
  # shellcheck disable=SC2086
  expect "skipped with $how" 0 "^5 of 20 steps were skipped" "$tmp/nan" $how --save-params "$tmp/other.safetensors"
  # shellcheck disable=SC2086
  expect "going on with $how" 0 "checkpoint" "$tmp/nan" $how --checkpoint-dir "$tmp/ck" --save-params "$tmp/one.safetensors"
  rm -rf "$tmp/ck/step-20" "$tmp/ck/step-18" "$tmp/ck/step-15"
  # shellcheck disable=SC2086
  expect "the count goes on with $how" 0 "^5 of 20 steps were skipped" "$tmp/nan" $how --checkpoint-dir "$tmp/ck" --resume --save-params "$tmp/two.safetensors"
  same "values with $how" "$tmp/one.safetensors" "$tmp/two.safetensors"
  rm -rf "$tmp/ck"
done
# Nothing of a skipped step is kept: the run is that over the batches that are finite.
printf '1\n3\n4\n5\n4\n5\n' >"$tmp/nan.csv"
"$tmp/nan" --set train.steps=15 --set train.on_nonfinite=stop --save-params "$tmp/clean.safetensors" -q >/dev/null 2>"$tmp/err" || fail "without it: $(cat "$tmp/err")"
same "a skipped step changes nothing" "$tmp/whole.safetensors" "$tmp/clean.safetensors"

# A loss that is finite whose gradient is not: 0 * inf.
cat >"$tmp/root.mesh" <<'END'
dim b = 1
input x[b]
param w = 0
param v = 1
loss = mean(sqrt(w * x)) + v
data train over b { x = csv("one.csv", column = 0) }
train loss { optimizer = sgd(lr = 0.1), steps = 3, on_nonfinite = skip }
train v { optimizer = sgd(lr = 0.1) }
END
echo 0 >"$tmp/one.csv"
expect "a gradient that is not finite" 0 "^3 of 3 steps were skipped: the loss or a gradient" "$meshc" train "$tmp/root.mesh"
cat >"$tmp/scale.mesh" <<'END'
dim n = 4, b = 1
input x[b, n]
param w[n] = 1
loss = sum[n, b](w * x)
data train over b { x = csv("scale.csv", columns = 0..4) }
train loss { optimizer = adam(lr = 0.1), steps = 6, precision = f16 }
END
echo 1,2,3,4 >"$tmp/scale.csv"
expect "updates that a scale skips" 0 "^3 updates were skipped, because gradients of the scaled loss overflowed" "$meshc" train "$tmp/scale.mesh"
expect "they are in the line of the step" 0 "^step 1/6 .*  skipped 1  eta" "$meshc" train "$tmp/scale.mesh"

# --check finite names the operation, the line, the value, the element and the processor.
cat >"$tmp/find.mesh" <<'END'
dim b = 4, d = 2
input x[b, d]
param w[d] = 1
h = x * w
y = log(h)
loss = mean(y) + sum(w)
data train over b { x = csv("find.csv", columns = 0..2), shuffle = false }
train loss { optimizer = sgd(lr = 0.1), steps = 3 }
END
printf '1,2\n3,4\n5,6\n7,8\n1,2\n3,4\n5,-6\n7,8\n' >"$tmp/find.csv"
expect "the operation" 4 "find.mesh:5:.*note: the first value that is not finite: y\[b=2, d=1\] = nan, which log makes in the forward pass$" \
  "$meshc" train "$tmp/find.mesh" --check finite
for how in "" "--np 2"; do
  # shellcheck disable=SC2086
  expect "its processor, $how" 4 "y\[b=2, d=1\] = nan, which log makes in the forward pass on processor 1 \(p=1\)" \
    "$meshc" train "$tmp/find.mesh" --check finite --mesh p=2 --layout b=p $how
done
cat >"$tmp/back.mesh" <<'END'
dim b = 1
input x[b]
param w = 0
loss = mean(sqrt(w * x) + 1)
data train over b { x = csv("find.csv", column = 0) }
train loss { optimizer = sgd(lr = 0.1), steps = 3 }
END
expect "a gradient" 4 "a gradient is not finite in step 0" "$meshc" train "$tmp/back.mesh" --check finite
expect "its operation" 4 "back.mesh:4:.*not finite: .* makes in the backward pass" "$meshc" train "$tmp/back.mesh" --check finite
cat >"$tmp/around.mesh" <<'END'
dim b = 1, t = 5
input x[b]
param w = 1
scan t (s = 1.0) { s = log(s) * w }
loss = mean(x) + s
data train over b { x = csv("find.csv", column = 0) }
train loss { optimizer = sgd(lr = 0.1), steps = 3 }
END
expect "the step of a loop" 4 "s = -inf, which log makes in the forward pass, in step 1 of its loop" "$meshc" train "$tmp/around.mesh" --check finite
expect "what --check takes" 2 "finite" "$meshc" train "$tmp/back.mesh" --check nan

# -- what the log has ----------------------------------------------------------------------------------------
cat >"$tmp/net.mesh" <<'END'
dim b = 8, d = 16, h = 32
input x[b, d]
input t[b]
param w[d, h] ~ glorot(d, h)
param v[h] ~ normal(std = 0.2)
y = sum[h](relu(sum[d](x * w)) * v)
loss = mean(square(y - t))
data train over b { x = synthetic(normal), t = synthetic(uniform) }
data test over b { x = synthetic(normal), t = synthetic(uniform) }
train loss { optimizer = adam(lr = 0.01), steps = 30, schedule = linear(total = 30) }
END
net=$tmp/net.mesh
for how in "--layout none" "--mesh rows=2,cols=2 --layout b=rows,h=cols" "--mesh rows=2 --layout b=rows,optimizer/all=rows"; do
  # shellcheck disable=SC2086
  "$meshc" train "$net" -q $how --save-params "$tmp/plain.safetensors" >/dev/null 2>"$tmp/err" || fail "train: $(cat "$tmp/err")"
  # shellcheck disable=SC2086
  "$meshc" train "$net" -q $how --save-params "$tmp/logged.safetensors" --log-dir "$tmp/log" >/dev/null 2>"$tmp/err" || fail "log: $(cat "$tmp/err")"
  same "a log changes no bit with $how" "$tmp/plain.safetensors" "$tmp/logged.safetensors"
  n=$(grep -cE '"loss": [0-9.e-]+, "lr": [0-9.e-]+, "grad_norm": [0-9.e-]+, "rows_per_second": [0-9.e+]+, "memory": [0-9]+, "seconds"' "$tmp/log/metrics.jsonl")
  if [ "$n" = 30 ]; then pass; else fail "$n of 30 lines have all figures: $(head -n 1 "$tmp/log/metrics.jsonl")"; fi
done
if sed -n 16p "$tmp/log/metrics.jsonl" | grep -qE '"lr": 0.00(5|499|50)'; then pass; else fail "the rate of step 15: $(sed -n 16p "$tmp/log/metrics.jsonl")"; fi
for tag in lr grad_norm rows_per_second memory; do
  if grep -aq "$tag" "$tmp"/log/events.out.tfevents*; then pass; else fail "TensorBoard's file has no $tag"; fi
done

# -- traces and times name values ----------------------------------------------------------------------------
"$meshc" train "$net" -q --layout none --log-dir "$tmp/trace" --trace >/dev/null 2>"$tmp/err" || fail "trace: $(cat "$tmp/err")"
if grep -qE '"name":"(grad.w.|w)".*"value":"(grad.w.|w)","line":[0-9]+,"op":"[a-z]+".*"bytes":[1-9][0-9]*,"flops":[1-9]' "$tmp/trace/trace.json"; then pass; else
  fail "a trace does not name grad(w): $(grep -m 3 grad "$tmp/trace/trace.json")"
fi
if "$meshc" bench "$net" --steps 3 --json --layout none | tr -d ' \n' | grep -q '"value":"[a-z]*","line":[0-9]*,"op":"[a-z_]*","bytes":[1-9][0-9]*,"flops":'; then pass; else fail "bench --json does not name values"; fi
expect "bench" 0 "^slowest .* \(line [0-9]+\)  .* MFLOP" "$meshc" bench "$net" --steps 3 --layout none

# -- kills: every step once, in order ------------------------------------------------------------------------
for delay in 0.12 0.2 0.3 0.17 0.4; do
  "$meshc" train "$net" -q --checkpoint-dir "$tmp/kill" --log-dir "$tmp/kill.log" --resume --keep 2 --set train.steps=100000 \
    --set train.checkpoint=37 --set train.evaluate=50 >/dev/null 2>&1 &
  pid=$!
  sleep $delay
  kill -9 $pid
  wait $pid 2>/dev/null
done
if ls -d "$tmp"/kill/step-*[0-9] >/dev/null 2>&1; then
  step=$(ls "$tmp/kill" | sed -n 's/^step-\([0-9]*\)$/\1/p' | sort -n | tail -n 1)
  "$meshc" train "$net" -q --checkpoint-dir "$tmp/kill" --log-dir "$tmp/kill.log" --resume --set train.steps=$((step + 5)) \
    --set train.evaluate=50 >/dev/null 2>"$tmp/err" || fail "after kills: $(cat "$tmp/err")"
  sed -n 's/^{"step": \([0-9]*\), "loss": [0-9.e+-]*, .*}$/\1/p' "$tmp/kill.log/metrics.jsonl" >"$tmp/steps"
  seq 0 $((step + 4)) >"$tmp/want"
  same "metrics.jsonl after kills at step $step" "$tmp/want" "$tmp/steps"
  sed -n '/"test"/s/^{"step": \([0-9]*\),.*/\1/p' "$tmp/kill.log/metrics.jsonl" >"$tmp/steps"
  { seq 49 50 $((step + 3)); echo $((step + 4)); } >"$tmp/want"
  same "evaluations after kills at step $step" "$tmp/want" "$tmp/steps"
else
  skip 2 # nothing was complete before a kill
fi

# -- a log that cannot be written ------------------------------------------------------------------------------
# A limit on the size of files needs no mount; where SIGXFSZ is ignored a write beyond it fails with EFBIG.
(
  trap '' XFSZ
  ulimit -f 32
  "$meshc" train "$net" --no-cache --log-dir "$tmp/full" --set train.steps=3000 --save-params "$tmp/full.safetensors" >"$tmp/out" 2>"$tmp/err"
  echo $? >"$tmp/code"
)
if [ "$(cat "$tmp/code")" = 7 ]; then pass; else fail "a full log: exit $(cat "$tmp/code"): $(head -n 3 "$tmp/err")"; fi
if head -n 1 "$tmp/err" | grep -q "warning: cannot write .*/full/.*: File too large; training goes on"; then pass; else fail "a full log: $(head -n 3 "$tmp/err")"; fi
if grep -q "^meshc: error: cannot write .*: File too large" "$tmp/err"; then pass; else fail "its reason at the end: $(cat "$tmp/err")"; fi
if grep -q "^step 3000/3000" "$tmp/out" && [ -s "$tmp/full.safetensors" ]; then pass; else fail "a training with a full log does not end: $(tail -n 2 "$tmp/out")"; fi

# -- signals without checkpoints -------------------------------------------------------------------------------
# interrupted SIGNAL OPTIONS...: runs a long training, and ends it when it has begun
interrupted() {
  signal=$1
  shift
  rm -f "$tmp/cut.out"
  "$meshc" train "$net" --set train.steps=100000000 --set train.schedule=constant --set train.log=1000 "$@" >"$tmp/cut.out" 2>"$tmp/cut.err" &
  pid=$!
  i=0
  while ! grep -q "^step" "$tmp/cut.out" 2>/dev/null && [ $i -lt 500 ]; do sleep 0.02; i=$((i + 1)); done
  kill -"$signal" $pid
  kill -"$signal" $pid # as timeout does, which sends a signal to the process and to its group
  wait $pid
  code=$?
}
interrupted TERM
if [ $code = 75 ] && grep -qE "after step [0-9]+; [0-9]+ steps of training are lost: there is neither" "$tmp/cut.err"; then pass; else fail "SIGTERM alone: exit $code: $(cat "$tmp/cut.err")"; fi
interrupted TERM --save-params "$tmp/cut.safetensors"
if [ $code = 75 ] && grep -q "the parameters are saved" "$tmp/cut.err"; then pass; else fail "SIGTERM with --save-params: exit $code: $(cat "$tmp/cut.err")"; fi
expect "what was saved" 0 "optimizer.step" "$meshc" inspect "$tmp/cut.safetensors"
interrupted TERM --mesh rows=2 --layout b=rows --np 2 --save-params "$tmp/ranks.safetensors"
if [ $code = 75 ] && [ -s "$tmp/ranks.safetensors" ]; then pass; else fail "SIGTERM with ranks: exit $code: $(cat "$tmp/cut.err")"; fi

# -- a line of progress ------------------------------------------------------------------------------------------
# script(1) gives the command a terminal, of which stty sets the width.
if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
  script -qec "stty cols 40; '$meshc' train '$net' --set train.steps=20000 --set train.log=20000" /dev/null >"$tmp/screen" </dev/null 2>&1
  longest=$(tr '\r' '\n' <"$tmp/screen" | sed 's/\x1b\[K//g' | grep -a '^step [0-9]*/20000' | grep -av '^step 20000/' | awk '{ if (length($0) > n) n = length($0) } END { print n + 0 }')
  if [ "$longest" -gt 20 ] && [ "$longest" -le 39 ]; then pass; else fail "the longest line of progress has $longest columns of 40"; fi
  # eval shows its rows after one second, in a line that is cut and cleared at the end; nothing where no one looks
  cat >"$tmp/long.mesh" <<'END'
dim b = 1, d = 256, e = 256
input x[b]
param w[d, e] ~ normal(0, 1)
z = tanh(sum[e](tanh(sum[d](x * index[d] * w)) * w))
loss = mean(square(z))
train loss { optimizer = sgd(lr = 0.1), steps = 2 }
data train over b { x = csv("long.csv", columns = 0..1) }
data test over b { x = csv("long.csv", columns = 0..1) }
END
  awk 'BEGIN { for (i = 0; i < 200000; i++) print i % 7 }' >"$tmp/long.csv"
  began=$(date +%s)
  script -qec "stty cols 12; '$meshc' eval '$tmp/long.mesh'" /dev/null >"$tmp/screen" </dev/null 2>&1
  if [ $(($(date +%s) - began)) -lt 3 ]; then # too fast a machine: the clock counts whole seconds
    skip 2
  else
    esc=$(printf '\033')
    longest=$(tr '\r' '\n' <"$tmp/screen" | sed 's/\x1b\[K//g' | grep -a '^[0-9]* of' | awk '{ if (length($0) > n) n = length($0) } END { print n + 0 }')
    holds "columns of the longest line of progress of eval, of 12" "$longest" 11
    if tr '\r' '\n' <"$tmp/screen" | grep -a 'test loss' | grep -aq "^$esc\[Ktest loss"; then pass; else fail "the line of progress of eval is not cleared"; fi
  fi
  run "$meshc" eval "$tmp/long.mesh"
  if [ "$(grep -c . "$tmp/err")" = 1 ] && grep -q 'warning: .* parameters* ha.* the initial' "$tmp/err" && ! grep -q 'rows' "$tmp/out"; then pass; else fail "eval without a terminal: $(head -n 3 "$tmp/err" "$tmp/out")"; fi
else
  skip 4
fi

# -- curves of the report ----------------------------------------------------------------------------------
# report NAME PATTERN: a line of the report, one for each tag, has the pattern
report() {
  if sed 's/></>\n</g' "$tmp/$2.log/report.html" | grep -qE -e "$3"; then pass; else fail "report.html $1: no /$3/"; fi
}
printf '1\n3\n4\n5\n-1\n3\n4\n5\n' >"$tmp/nan.csv"
expect "a training with values that are not finite" 0 "skipped" "$tmp/nan" --log-dir "$tmp/gaps.log" --set train.log=1
report "counts values that are not finite" gaps '5 of 20 values not finite'
report "marks them" gaps '<path class="nan"'
report "has lines between them" gaps '<polyline points="[0-9]'
cat >"$tmp/flat.mesh" <<'END'
dim b = 2
input x[b]
param w = 1
loss = mean(x * w)
metric two = 2 * sum(x * 0) + 2
data train over b { x = csv("good.csv", column = 0) }
data test over b { x = csv("good.csv", column = 0) }
train loss { optimizer = sgd(lr = 0.1), steps = 1, log = 1 }
END
expect "a training of one step" 0 "test two" "$meshc" train "$tmp/flat.mesh" --log-dir "$tmp/one.log"
report "shows the point of one step" one '<circle cx="[0-9.]+" cy="[0-9.]+" r="2.5">'
expect "a training of ten steps" 0 "test two" "$meshc" train "$tmp/flat.mesh" --log-dir "$tmp/flat.log" --set train.steps=10
report "shows the point of one evaluation" flat '<h3>test loss|<h3>test two|<circle'
report "labels a constant curve once" flat '<text x="[0-9.]+" y="[0-9.]+" text-anchor="end">2</text>'
if grep -qE 'points="[^"]*nan|c[xy]="-?(nan|inf)' "$tmp"/*.log/report.html; then fail "a report has a point that is not finite"; else pass; fi

finish

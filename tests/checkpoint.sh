#!/bin/sh
# Checkpoints from outside: going on bit for bit, under every mesh and layout, after signals and kills, with a
# full disk, with damaged files. Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"
# metrics.jsonl without the times
curve() { sed 's/, "rows_per_second": [0-9.e+]*//; s/, "seconds": [0-9.]*//' "$1/metrics.jsonl"; }

cat >"$tmp/net.mesh" <<'END'
dim b = 5, d = 7, h = 6, o = 3
input x[b, d]
input kind[b]: i32
param w[d, h] ~ glorot(d, h)
param v[h, o] ~ glorot(h, o)
param unused[h] ~ normal(0, 1)
state mean[h] = 0
hidden = dropout(relu(sum[d](x * w) - mean), 0.2)
logits = sum[h](hidden * v)
loss = mean(cross_entropy[o](logits, kind))
metric accuracy = mean(argmax[o](logits) == kind)
output probs = softmax[o](logits)
output other = unused * 2
update mean = 0.9 * mean + 0.1 * mean[b](hidden)
train loss {
  optimizer = adam(lr = 0.01), steps = 40, evaluate = 8, checkpoint = 10, average = 0.9
}
data train over b { x = npy("x.npy"), kind = npy("kind.npy"), shuffle = true }
data test over b { x = npy("x.npy"), kind = npy("kind.npy") }
END
cat >"$tmp/make.mesh" <<'END'
dim n = 33, d = 7
output x[n, d] = random_normal[n, d]()
output kind[n] = cast(floor(random_uniform[n]() * 2.99), i32)
END
net=$tmp/net.mesh
"$meshc" run "$tmp/make.mesh" --out "$tmp" >/dev/null 2>"$tmp/err" || fail "data: $(cat "$tmp/err")"

train() { # NAME OPTIONS...
  name=$1
  shift
  "$meshc" train "$net" --checkpoint-dir "$tmp/$name" --log-dir "$tmp/$name.log" --save-params "$tmp/$name.safetensors" \
    "$@" >"$tmp/$name.out" 2>"$tmp/$name.err"
}

# -- a schedule that depends on evaluations, and slots that are scalars -------------------------------------
cat >"$tmp/plateau.mesh" <<'END'
dim b = 5, d = 7, h = 6
input x[b, d]
input kind[b]: i32
param w[d, h] ~ glorot(d, h)
param v[h] ~ normal(std = 0.3)
loss = mean(square(sum[h](tanh(sum[d](x * w)) * v) - kind))
train loss {
  optimizer = nadam(lr = 0.05), schedule = plateau(factor = 0.5, patience = 0, threshold = 0.3), steps = 40, evaluate = 5
}
data train over b { x = npy("x.npy"), kind = npy("kind.npy"), shuffle = true }
data valid over b { x = npy("x.npy"), kind = npy("kind.npy") }
END
plateau() { # NAME OPTIONS...
  name=$1
  shift
  "$meshc" train "$tmp/plateau.mesh" --save-params "$tmp/plateau_$name.npz" -q "$@" >"$tmp/plateau_$name.out" 2>"$tmp/err" ||
    fail "plateau $name: $(cat "$tmp/err")"
}
for mesh in rows=1 rows=2,cols=2; do
  layout="--mesh $mesh --layout b=rows,optimizer/all=rows"
  plateau whole $layout
  plateau part $layout --checkpoint-dir "$tmp/plateau" --set train.steps=20
  plateau rest $layout --checkpoint-dir "$tmp/plateau" --resume
  if cmp -s "$tmp/plateau_whole.npz" "$tmp/plateau_rest.npz"; then pass; else fail "plateau goes on otherwise on $mesh"; fi
  rm -rf "$tmp/plateau"
  [ $mesh = rows=1 ] || plateau ranks $layout --np 2
done
# Replicas: step 20 is between two meetings.
sync='--mesh rows=5 --layout b=rows --set train.sync=every(3,replicas=5)'
plateau sync_whole $sync
plateau sync_part $sync --checkpoint-dir "$tmp/plateau" --set train.steps=20
plateau sync_rest $sync --checkpoint-dir "$tmp/plateau" --resume
plateau sync_ranks $sync --np 5
for name in rest ranks; do
  if cmp -s "$tmp/plateau_sync_whole.npz" "$tmp/plateau_sync_$name.npz"; then pass; else fail "replicas differ: $name"; fi
done
# Asynchronous updates: replicas that take turns go on bit for bit. A checkpoint of servers is that of any training.
stale='--layout b=rows --set train.sync=stale(2,replicas=5)'
plateau stale_whole --mesh rows=1 $stale
rm -rf "$tmp/plateau"
plateau stale_part --mesh rows=1 $stale --checkpoint-dir "$tmp/plateau" --set train.steps=20
plateau stale_rest --mesh rows=1 $stale --checkpoint-dir "$tmp/plateau" --resume
if cmp -s "$tmp/plateau_stale_whole.npz" "$tmp/plateau_stale_rest.npz"; then pass; else fail "replicas that take turns go on otherwise"; fi
rm -rf "$tmp/plateau"
plateau stale_ranks --mesh rows=5 $stale --np 5 --checkpoint-dir "$tmp/plateau" --set train.steps=20
"$meshc" inspect "$tmp/plateau_stale_whole.npz" | awk '{print $1, $2, $3}' >"$tmp/names"
"$meshc" inspect "$tmp/plateau_stale_ranks.npz" | awk '{print $1, $2, $3}' >"$tmp/other"
holds "what servers keep" "$(sed 1,2d "$tmp/other")" "$(sed 1,2d "$tmp/names")"
plateau stale_on --mesh rows=2 --layout b=rows --checkpoint-dir "$tmp/plateau" --resume
if grep -q "^valid loss" "$tmp/plateau_stale_on.out"; then pass; else fail "a training without servers goes on: $(cat "$tmp/plateau_stale_on.out")"; fi
if cmp -s "$tmp/plateau_whole.npz" "$tmp/plateau_ranks.npz"; then pass; else fail "plateau differs between processes"; fi
"$meshc" run "$tmp/plateau.mesh" --params "$tmp/plateau_whole.npz" --fetch w >/dev/null 2>"$tmp/err" || fail "plateau: $(cat "$tmp/err")"
"$meshc" inspect "$tmp/plateau_whole.npz" >"$tmp/out" 2>&1
if grep -q "optimizer.plateau.factor" "$tmp/out" && grep -q "optimizer.w.q" "$tmp/out"; then pass; else fail "plateau: $(cat "$tmp/out")"; fi

# -- going on, on the same mesh: bit for bit, whatever the step it stopped at ------------------------------
for mesh in "rows=1" "rows=2,cols=2"; do
  layout=b=rows
  [ "$mesh" = "rows=1" ] || layout=b=rows,h=cols
  rm -rf "$tmp/whole" "$tmp/whole.log"
  train whole --mesh $mesh --layout $layout || fail "training on $mesh: $(cat "$tmp/whole.err")"
  for step in 10 16 20 30; do
    [ -d "$tmp/whole/step-$step" ] || continue
    rm -rf "$tmp/part" "$tmp/part.log"
    mkdir "$tmp/part"
    cp -r "$tmp/whole/step-$step" "$tmp/part"
    cp -r "$tmp/whole.log" "$tmp/part.log"
    train part --resume --mesh $mesh --layout $layout || fail "going on from $step: $(cat "$tmp/part.err")"
    same "$mesh from step $step" "$tmp/whole.safetensors" "$tmp/part.safetensors"
    curve "$tmp/whole.log" >"$tmp/a"
    curve "$tmp/part.log" >"$tmp/b"
    same "$mesh curve from step $step" "$tmp/a" "$tmp/b"
  done
done
[ "$(wc -l <"$tmp/part.log/metrics.jsonl")" = 40 ] && pass || fail "metrics.jsonl of a run that went on: not 40 lines"

# -- the same with loss scaling, with micro-batches, with early stopping -----------------------------------
for how in "--precision f16" "--precision bf16" "--set train.accumulate=5" "--set train.stop_early=accuracy(patience=4,best=max)"; do
  rm -rf "$tmp/whole2" "$tmp/whole2.log" "$tmp/part2" "$tmp/part2.log"
  # shellcheck disable=SC2086
  train whole2 $how --mesh rows=2 --layout b=rows || fail "training with $how: $(cat "$tmp/whole2.err")"
  mkdir "$tmp/part2"
  cp -r "$tmp/whole2/step-10" "$tmp/part2"
  # shellcheck disable=SC2086
  train part2 $how --resume --mesh rows=2 --layout b=rows || fail "going on with $how: $(cat "$tmp/part2.err")"
  same "going on with $how" "$tmp/whole2.safetensors" "$tmp/part2.safetensors"
  sed -n '/^test/p' "$tmp/whole2.out" >"$tmp/a"
  sed -n '/^test/p' "$tmp/part2.out" >"$tmp/b"
  same "evaluation with $how" "$tmp/a" "$tmp/b"
done

# -- read under other meshes and layouts: the same values --------------------------------------------------
whole=$("$meshc" eval "$net" --checkpoint "$tmp/whole" --layout none)
for pair in "rows=2 b=rows" "rows=3 h=rows" "rows=2,cols=2 b=rows,h=cols" "p=4 h=p" "rows=2,cols=2 optimizer/all=rows,b=cols"; do
  # shellcheck disable=SC2086
  set -- $pair
  got=$("$meshc" eval "$net" --checkpoint "$tmp/whole" --mesh "$1" --layout "$2")
  if [ "$got" = "$whole" ]; then pass; else fail "eval under $pair: $got, not $whole"; fi
  rm -rf "$tmp/other"
  mkdir "$tmp/other"
  cp -r "$tmp/whole/step-30" "$tmp/other"
  if "$meshc" train "$net" --checkpoint-dir "$tmp/other" --resume --set train.steps=30 --set train.evaluate=0 --mesh "$1" --layout "$2" \
    --save-params "$tmp/now.safetensors" >/dev/null 2>"$tmp/err"; then pass; else fail "going on under $pair: $(cat "$tmp/err")"; fi
  [ -f "$tmp/first.safetensors" ] || cp "$tmp/now.safetensors" "$tmp/first.safetensors"
  same "values under $pair" "$tmp/first.safetensors" "$tmp/now.safetensors"
done
expect "best" 0 "test accuracy" "$meshc" eval "$net" --checkpoint "$tmp/whole/best"
expect "a step by its folder" 0 "test accuracy" "$meshc" eval "$net" --checkpoint "$tmp/whole/step-10"
expect "predict" 0 "probs" "$meshc" predict "$net" --checkpoint "$tmp/whole" --feed "x=$tmp/x.npy" --fetch probs
expect "what no loss needs is kept" 0 "unused +f32 +\\[6\\]" "$meshc" inspect "$tmp/whole/step-10"

# -- signals -----------------------------------------------------------------------------------------------
rm -rf "$tmp/long" "$tmp/long.log"
long="--set train.steps=20000 --set train.evaluate=5000 --set train.checkpoint=0"
# shellcheck disable=SC2086
train long $long || fail "long training: $(cat "$tmp/long.err")"
for signal in TERM INT HUP USR1; do
  rm -rf "$tmp/cut" "$tmp/cut.log" "$tmp/cut.out"
  # shellcheck disable=SC2086
  "$meshc" train "$net" --checkpoint-dir "$tmp/cut" --save-params "$tmp/cut.safetensors" $long \
    >"$tmp/cut.out" 2>"$tmp/cut.err" &
  pid=$!
  i=0
  while [ ! -s "$tmp/cut.out" ] && [ $i -lt 200 ]; do sleep 0.02; i=$((i + 1)); done
  kill -$signal $pid
  wait $pid
  code=$?
  if [ $code = 75 ] && grep -q "the same command with --resume goes on" "$tmp/cut.err"; then
    pass
    # shellcheck disable=SC2086
    train cut --resume $long || fail "going on after SIG$signal: $(cat "$tmp/cut.err")"
    same "after SIG$signal" "$tmp/long.safetensors" "$tmp/cut.safetensors"
  elif [ $code = 0 ]; then
    skip 2 # it was over before the signal
  else
    fail "SIG$signal: exit $code: $(cat "$tmp/cut.err")"
  fi
done

# -- killed at any moment: the newest checkpoint is whole ----------------------------------------------------
rm -rf "$tmp/kill"
for delay in 0.05 0.1 0.15 0.2 0.3 0.4; do
  "$meshc" train "$net" --checkpoint-dir "$tmp/kill" --resume -q --set train.steps=100000 --set train.checkpoint=20 --keep 3 \
    --set train.evaluate=0 >/dev/null 2>&1 &
  pid=$!
  sleep $delay
  kill -9 $pid
  wait $pid 2>/dev/null
  if ls -d "$tmp"/kill/step-* >/dev/null 2>&1 && ls -d "$tmp"/kill/step-*[0-9] >/dev/null 2>&1; then
    expect "after kill -9" 0 "test loss" "$meshc" eval "$net" --checkpoint "$tmp/kill"
  else
    skip # nothing was complete yet
  fi
done
n=$(ls "$tmp/kill" 2>/dev/null | grep -c '^step-[0-9]*$')
if [ "$n" -le 4 ]; then pass; else fail "--keep 3 keeps $n"; fi

# -- damaged files -------------------------------------------------------------------------------------------
shard=$(ls "$tmp/whole/step-40" | grep shard | head -n 1)
broken() { rm -rf "$tmp/broken"; mkdir "$tmp/broken"; cp -r "$tmp/whole/step-40" "$tmp/broken"; }
file=$tmp/broken/step-40/$shard
broken; truncate -s -1 "$file"
expect "torn shard" 5 "$shard is torn" "$meshc" eval "$net" --checkpoint "$tmp/broken"
broken; printf 'X' | dd of="$file" bs=1 seek=600 conv=notrunc 2>/dev/null
expect "changed shard" 5 "$shard is damaged" "$meshc" eval "$net" --checkpoint "$tmp/broken"
cp -r "$tmp/whole/step-30" "$tmp/broken"
expect "what to do about it" 5 "hint: the checkpoint before it is .*step-30: train --resume=30 goes on from it" "$meshc" train "$net" --checkpoint-dir "$tmp/broken" --resume
broken; rm "$file"
expect "missing shard" 5 "$shard: No such file" "$meshc" eval "$net" --checkpoint "$tmp/broken"
broken; sed -i 's/"step": 40/"step": 41/' "$tmp/broken/step-40/manifest.json"
expect "changed manifest" 5 "manifest.json is damaged" "$meshc" eval "$net" --checkpoint "$tmp/broken"
broken; truncate -s 100 "$tmp/broken/step-40/manifest.json"
expect "torn manifest" 5 "manifest.json is damaged" "$meshc" train "$net" --checkpoint-dir "$tmp/broken" --resume
broken; rm "$tmp/broken/step-40/manifest.json"
expect "no manifest" 5 "is no checkpoint and holds none" "$meshc" eval "$net" --checkpoint "$tmp/broken"
expect "no folder" 5 "cannot read the checkpoint" "$meshc" eval "$net" --checkpoint "$tmp/nowhere"
expect "another size" 5 "holds \\[7, 6\\] for w, the model declares \\[7, 8\\]" "$meshc" eval "$net" --set h=8 --checkpoint "$tmp/whole"
expect "inspected" 0 "checkpoint" "$meshc" inspect "$tmp/whole/step-40"

if command -v python3 >/dev/null; then
  broken
  if python3 - "$meshc" "$net" "$tmp/broken" >"$tmp/out" 2>&1 <<'END'
import os, random, subprocess, sys
meshc, net, folder = sys.argv[1:]
step = os.path.join(folder, "step-40")
files = [os.path.join(step, n) for n in sorted(os.listdir(step))]
random.seed(1)
for i in range(60):
    path = files[i % len(files)]
    raw = bytearray(open(path, "rb").read())
    at, bit = random.randrange(len(raw)), 1 << random.randrange(8)
    raw[at] ^= bit
    open(path, "wb").write(raw)
    code = subprocess.run([meshc, "eval", net, "--checkpoint", folder], capture_output=True).returncode
    assert code == 5, "bit %d of byte %d of %s: exit %d" % (bit, at, path, code)
    raw[at] ^= bit
    open(path, "wb").write(raw)
END
  then pass; else fail "a flipped bit: $(tail -n 1 "$tmp/out")"; fi
else
  skip
fi

# -- a training that diverges keeps its last checkpoint ----------------------------------------------------------
rm -rf "$tmp/nan"
expect "NaN" 4 "not made|not finite" "$meshc" train "$net" --checkpoint-dir "$tmp/nan" --set train.checkpoint=1 --set "train.optimizer=sgd(lr=1e30)"
expect "the checkpoint before" 0 "checkpoint" "$meshc" inspect "$tmp/nan"

# -- usage -----------------------------------------------------------------------------------------------------
expect "two runs in one folder" 2 "holds checkpoints of another run" "$meshc" train "$net" --checkpoint-dir "$tmp/whole"
expect "--resume alone" 2 "resume needs --checkpoint-dir" "$meshc" train "$net" --resume
expect "another seed" 2 "was trained with --seed 0, not 1" "$meshc" train "$net" --checkpoint-dir "$tmp/whole" --resume --seed 1
expect "two sources" 2 "not from both" "$meshc" eval "$net" --checkpoint "$tmp/whole" --params "$tmp/whole.safetensors"
expect "nothing to go on from" 0 "training begins anew" "$meshc" train "$net" --checkpoint-dir "$tmp/new" --resume --set train.steps=2

# -- a limit of the size of files is as a full disk ---------------------------------------------------------------
expect "ulimit -f" 7 "cannot write the checkpoint.*File too large" sh -c 'ulimit -f 1; exec "$@"' sh "$meshc" train "$net" --checkpoint-dir "$tmp/limit"
if ls "$tmp/limit" | grep -q .; then fail "a half-written checkpoint is left"; else pass; fi

# -- a full disk: exit 7, nothing half-written, the older checkpoint as it was -----------------------------------
small=$tmp/small
mkdir "$small"
if mount -t tmpfs -o size=200k tmpfs "$small" 2>/dev/null; then
  "$meshc" train "$net" --checkpoint-dir "$small/c" --set train.steps=2 --set train.checkpoint=2 --mesh rows=1 --layout none >/dev/null 2>&1
  dd if=/dev/zero of="$small/fill" bs=1k count=1000 2>/dev/null
  expect "full disk" 7 "cannot write the checkpoint" "$meshc" train "$net" --checkpoint-dir "$small/c" --resume --mesh rows=1 --layout none
  if ls "$small/c" | grep -q partial; then fail "a half-written checkpoint is left"; else pass; fi
  expect "the older one" 0 "test loss" "$meshc" eval "$net" --checkpoint "$small/c"
  umount "$small"
else
  skip 3
fi

finish

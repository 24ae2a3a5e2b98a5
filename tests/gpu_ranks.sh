#!/bin/sh
# Programs on several GPUs, one for each rank (--np, mpirun with --device cuda), with stand-ins for NVIDIA's libraries. Trainings
# have the bits of the same mesh on one GPU; checkpoints and parameters go between both; a rank that is killed or stopped, a
# GPU that hangs and an error of NCCL end with one sentence. Skipped where the build has no stand-ins. Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"
use_mpi

standin=$build/standin
if [ ! -e "$standin/libnccl.so.2" ] || [ "${MESHC_GPU:-}" = real ]; then
  skip
  finish
fi
export MESHC_STANDIN_DEVICES=8 MESHC_STANDIN_WRITTEN=1

gpu=$tmp/gpu.sh # runs meshc with the stand-ins
cat >"$gpu" <<END
#!/bin/sh
LD_LIBRARY_PATH=$standin exec $meshc "\$@" --device cuda
END
chmod +x "$gpu"

digits 3
with lstm 'data train over b { x = synthetic(normal), label = synthetic(integers(0, 3)) }'
with attention 'data train over b { x = synthetic(normal), target = synthetic(normal) }
train loss { optimizer = adamw(lr = 0.01) }'
with cnn 'data train over b { image = synthetic(normal) }'

# A run's metrics without times
curve() { sed 's/, "rows_per_second.*//' "$1/metrics.jsonl" >"$2"; }

# both NAME RANKS MODEL OPTIONS...: the same training on one GPU and on a GPU for each rank
both() {
  what=$1 ranks=$2 model=$3
  shift 3
  rm -rf "$tmp/one" "$tmp/each"
  must timeout 120 "$gpu" train "$model" --log-dir "$tmp/one" "$@"
  must timeout 120 "$gpu" train "$model" --log-dir "$tmp/each" --np "$ranks" "$@"
  curve "$tmp/one" "$tmp/one.curve"
  curve "$tmp/each" "$tmp/each.curve"
  check "$what has steps" [ -s "$tmp/one.curve" ]
}
# equal: the metrics have equal bits. near: they may differ by rounding, because GPUs with several processors of a group add up
# the values of these before NCCL adds those of the GPUs.
equal() {
  both "$@"
  same "$what" "$tmp/one.curve" "$tmp/each.curve"
}
near() {
  both "$@"
  differs=$(paste -d ' ' "$tmp/one.curve" "$tmp/each.curve" | awk '{ gsub(/[^-0-9.e+]+/, " "); half = NF / 2
    for (i = 1; i <= half; i++) { d = $i - $(i + half); most = 1e-6 + 1e-4 * ($i < 0 ? -$i : $i); if (d > most || -d > most) print $i " " $(i + half) } }')
  check "$what: $differs" [ -z "$differs" ]
  check "$what has numbers" [ -z "$(grep -iE 'nan|null|inf' "$tmp/each.curve")" ]
}
digits=$tmp/digits.mesh
equal "data parallel" 2 examples/iris.mesh --mesh rows=2 --layout b=rows --set train.epochs=1
equal "2 x 2" 4 "$digits" --mesh rows=2,cols=2 --layout b=rows,h=cols
equal "2 x 4" 8 "$digits" --mesh rows=2,cols=4 --layout b=rows,h=cols --set train.steps=2
equal "arg max over split classes" 4 "$digits" --mesh rows=2,cols=2 --layout b=rows,classes=cols
equal "ZeRO of the optimizer" 4 "$digits" --mesh rows=4 --layout b=rows,optimizer/all=rows
equal "ZeRO" 4 "$digits" --mesh rows=4 --layout b=rows,parameters/all=rows,optimizer/all=rows
equal "uneven" 3 "$digits" --mesh rows=3 --layout b=rows,parameters/all=rows
equal "halo" 3 "$tmp/cnn.mesh" --mesh rows=3 --layout y=rows,y2=rows --set train.steps=1
equal "loops" 4 "$tmp/lstm.mesh" --mesh rows=2,cols=2 --layout b=rows,d=cols --set train.steps=2
equal "heads" 4 "$tmp/attention.mesh" --mesh rows=2,cols=2 --layout b=rows,heads=cols --set train.steps=1
equal "sequence" 2 "$tmp/attention.mesh" --mesh rows=2 --layout t=rows --set train.steps=1
equal "products by the library" 2 "$digits" --mesh rows=2 --layout b=rows --set b=64 --set h=96 --set pixels=128 --set train.steps=2
equal "ranks of four processors" 2 "$digits" --mesh rows=2,cols=4 --layout b=rows,h=cols --set train.steps=2
# predicted RANKS: the predicted microseconds of a step; processors that share a GPU follow one another there
predicted() {
  timeout 60 "$gpu" train "$digits" --np "$1" --mesh rows=2,cols=4 --layout b=rows,h=cols --set b=64 --set h=256 --set pixels=512 --set train.steps=1 2>&1 |
    awk 'match($0, /predicted [0-9.]+ (us|ms|s) a step/) { split(substr($0, RSTART), w)
                                                           print w[2] * (w[3] == "us" ? 1 : w[3] == "ms" ? 1e3 : 1e6) }'
}
each=$(predicted 8) shared=$(predicted 2)
check "ranks of four processors take longer: predicted $shared, of one $each" [ "${shared%.*}" -gt "${each%.*}" ]
near "ranks of two processors" 4 "$digits" --mesh rows=2,cols=4 --layout b=rows,h=cols --set train.steps=2
near "ZeRO on ranks of two processors" 2 "$digits" --mesh rows=4 --layout b=rows,parameters/all=rows,optimizer/all=rows
near "halo between ranks of two processors" 2 "$tmp/cnn.mesh" --mesh rows=4 --layout y=rows,y2=rows --set train.steps=1
MESHC_GPU_EAGER=1 equal "without graphs" 2 "$digits" --mesh rows=2 --layout b=rows
# Ranks split their graphs at the same places, though some have no rows and so fewer operations; the stand-in compares graphs.
MESHC_GPU_NODES=5 equal "graphs in pieces" 4 "$digits" --mesh rows=4 --layout b=rows,parameters/all=rows --set b=5
must env MESHC_STANDIN_CALLS="$tmp/calls.%" MESHC_GPU_NODES=5 timeout 60 "$gpu" train "$digits" --np 2 --mesh rows=2 --layout b=rows -q
check "a step is several graphs" [ "$(sed -n 's/^cuGraphLaunch //p' "$tmp"/calls.* | sort -n | head -n 1)" -gt 6 ]
MESHC_GPU_NODES=0 expect "graphs without operations" 2 'MESHC_GPU_NODES is .0.*E0601' "$gpu" train "$digits"

# Only the first rank measures which algorithms of cuBLASLt are fast; the others take its choices, and run nothing else.
mkdir "$tmp/tuned"
sed '/^data test/d' "$digits" >"$tmp/tuned.mesh"
for times in 6,1,3 1,6,3; do
  rm -f "$tmp"/calls.*
  must env XDG_CACHE_HOME="$tmp/tuned" MESHC_STANDIN_CALLS="$tmp/calls.%" MESHC_STANDIN_CUBLASLT_TIMES=$times timeout 120 "$gpu" train "$tmp/tuned.mesh" --np 2 --mesh rows=2 --layout b=rows --set b=64 --set h=96 --set pixels=128 --set train.steps=2
  holds "ranks use the fastest algorithm, $times" "$(grep -l '^algorithm-1 ' "$tmp"/calls.* | wc -l)" 2
  case $times in 6*) measured=1 ;; *) measured=0 ;; esac # then it was kept
  holds "ranks that measure, $times" "$(grep -l '^cublasLtMatmul ' "$tmp"/calls.* | wc -l)" $measured
done

# A message is in a graph on all ranks or on none, also in the steps that the first rank writes to its trace.
rm -f "$tmp"/calls.*
must env MESHC_STANDIN_CALLS="$tmp/calls.%" timeout 120 "$gpu" train "$digits" --np 2 --mesh rows=2 --layout b=rows --set train.steps=6 --log-dir "$tmp/traced" --trace -q
check "the first rank writes a trace" [ -s "$tmp/traced/trace.json" ]
holds "numbers of graphs that ranks launch" "$(grep -h '^cuGraphLaunch ' "$tmp"/calls.* | sort -u | wc -l)" 1

# A step is one graph, and the hosts neither wait for a GPU nor meet between steps: they only ask for the event behind each step.
# With ZeRO, too, whose parameters are gathered after the decision.
sed '/^data test/d' "$digits" >"$tmp/steps.mesh"
for layout in b=rows b=rows,optimizer/all=rows b=rows,optimizer/all=rows,parameters/all=rows; do
  for steps in 5 25; do
    rm -f "$tmp"/calls.*
    must env MESHC_STANDIN_CALLS="$tmp/calls.%" timeout 120 "$gpu" train "$tmp/steps.mesh" --np 2 --mesh rows=2 --layout $layout --set train.steps=$steps -q
    holds "graphs of $steps steps, $layout" "$(grep -h '^cuGraphLaunch ' "$tmp"/calls.* | sort -u)" "cuGraphLaunch $steps"
    grep -hE '^(cuStreamSynchronize|cuStreamQuery|cuEventSynchronize) ' "$tmp"/calls.* | sort >"$tmp/waits.$steps"
  done
  same "waits for streams do not depend on the steps, $layout" "$tmp/waits.5" "$tmp/waits.25"
done

# A step that is not good on one GPU ends on all: the message is that of the CPU, and the steps before it have their results.
printf '1\n2\n3\n4\n5\n6\n7\n8\n3\n5\n7\n14\n2\n4\n6\n8\n1\n3\n5\n7\n' >"$tmp/ids.csv"
cat >"$tmp/ids.mesh" <<'END'
dim b = 4, v = 10, d = 3
input ids[b]: i32
param table[v, d] ~ normal(std = 1)
x = take[v](table, ids)
loss = mean(square(x - 1))
data train over b { ids = csv("ids.csv", column = 0), shuffle = false }
train loss { optimizer = sgd(lr = 0.1), steps = 5 }
END
split="--mesh rows=2 --layout b=rows"
# shellcheck disable=SC2086
"$meshc" train "$tmp/ids.mesh" --data-dir "$tmp" $split --log-dir "$tmp/cpu" >/dev/null 2>"$tmp/cpu.out"
for wanted in graphs eager; do
  rm -rf "$tmp/each"
  # shellcheck disable=SC2086
  MESHC_GPU_EAGER=$([ $wanted = eager ] && echo 1) timeout 60 "$gpu" train "$tmp/ids.mesh" --data-dir "$tmp" --np 2 $split --log-dir "$tmp/each" >/dev/null 2>"$tmp/gpu.out"
  holds "an index out of range on one of the ranks, $wanted" $? 5
  same "the index is the same, $wanted" "$tmp/cpu.out" "$tmp/gpu.out"
  holds "steps before it, $wanted" "$(wc -l <"$tmp/each/metrics.jsonl")" "$(wc -l <"$tmp/cpu/metrics.jsonl")"
done
printf '1\n2\n4\n8\n1\n2\n4\n0\n8\n4\n2\n1\n' >"$tmp/zero.csv"
cat >"$tmp/zero.mesh" <<'END'
dim b = 4
input x[b]
param w = 1
loss = mean[b](square(w - 1 / x))
data train over b { x = csv("zero.csv", column = 0), shuffle = false }
train loss { optimizer = adam(lr = 0.1), steps = 6, on_nonfinite = skip }
END
sed 's/loss = mean/loss = 100 * mean/' "$digits" >"$tmp/steep.mesh" # its first gradients overflow in f16
# shellcheck disable=SC2086
{
  equal "skipped steps" 2 "$tmp/zero.mesh" --data-dir "$tmp" $split
  equal "skipped updates" 2 "$tmp/steep.mesh" $split --set train.precision=f16 --set train.steps=4
  expect "skipped updates are counted" 0 'step 4/4 .* skipped [1-4] ' "$gpu" train "$tmp/steep.mesh" --np 2 $split --set train.precision=f16 --set train.steps=4
  must "$gpu" train "$tmp/zero.mesh" --data-dir "$tmp" $split -q --save-params "$tmp/one.safetensors"
  must "$gpu" train "$tmp/zero.mesh" --data-dir "$tmp" --np 2 $split -q --save-params "$tmp/two.safetensors"
}
same "parameters behind skipped steps" "$tmp/one.safetensors" "$tmp/two.safetensors"
# Parameters that are gathered after the decision keep their values in a skipped step.
cat >"$tmp/gathered.mesh" <<'END'
dim b = 4, h = 8
input x[b]
param w[h] = 1
loss = mean[b, h](square(w - 1 / x))
data train over b { x = csv("zero.csv", column = 0), shuffle = false }
train loss { optimizer = adam(lr = 0.1), steps = 6, on_nonfinite = skip }
END
# shellcheck disable=SC2086
{
  equal "skipped steps with ZeRO" 2 "$tmp/gathered.mesh" --data-dir "$tmp" $split,optimizer/all=rows
  must "$gpu" train "$tmp/gathered.mesh" --data-dir "$tmp" $split,optimizer/all=rows -q --save-params "$tmp/one.safetensors"
  must "$gpu" train "$tmp/gathered.mesh" --data-dir "$tmp" --np 2 $split,optimizer/all=rows -q --save-params "$tmp/two.safetensors"
}
same "parameters behind skipped steps with ZeRO" "$tmp/one.safetensors" "$tmp/two.safetensors"
sed 's/, on_nonfinite = skip//' "$tmp/zero.mesh" >"$tmp/stops.mesh"
# shellcheck disable=SC2086
{
  "$meshc" train "$tmp/stops.mesh" --data-dir "$tmp" $split >/dev/null 2>"$tmp/cpu.out"
  "$gpu" train "$tmp/stops.mesh" --data-dir "$tmp" --np 2 $split >/dev/null 2>"$tmp/gpu.out"
}
holds "a loss that is not finite" $? 4
same "where it is not finite" "$tmp/cpu.out" "$tmp/gpu.out"

# A signal that asks to stop, to one rank and to two, once there have been steps
for ranks in 1 2; do
  rm -rf "$tmp/asked" "$tmp/steps"
  timeout --preserve-status -k 30 60 "$gpu" train "$digits" --np $ranks --mesh rows=2 --layout b=rows -q --set train.steps=1000000 --checkpoint-dir "$tmp/asked" --log-dir "$tmp/steps" >/dev/null 2>&1 &
  asked=$!
  for _ in $(seq 300); do
    [ -s "$tmp/steps/metrics.jsonl" ] && break
    sleep 0.1
  done
  kill -TERM $asked
  wait $asked
  holds "a signal to $ranks ranks" $? 75
done

# Values go between one process and several.
split="--mesh rows=2,cols=2 --layout b=rows,h=cols"
# shellcheck disable=SC2086
{
  must "$gpu" train "$digits" --np 4 $split --checkpoint-dir "$tmp/saved" --save-params "$tmp/four.safetensors" -q
  must "$gpu" train "$digits" $split --save-params "$tmp/one.safetensors" -q
  same "parameters" "$tmp/four.safetensors" "$tmp/one.safetensors"
  expect "a checkpoint goes on with the CPU" 0 'step 4/4' "$meshc" train "$digits" --checkpoint-dir "$tmp/saved" --resume --set train.steps=4
  expect "a checkpoint goes on with several GPUs" 0 'step 5/5' "$gpu" train "$digits" --np 2 --mesh rows=2 --layout b=rows --checkpoint-dir "$tmp/saved" --resume --set train.steps=5
  expect "eval" 0 'test accuracy' "$gpu" eval "$digits" --np 4 $split --params "$tmp/one.safetensors"
  expect "a batch with fewer rows" 0 'test accuracy' "$gpu" eval "$digits" --np 4 $split --params "$tmp/one.safetensors" --set b=24
  expect "predict" 0 . "$gpu" predict "$digits" --np 4 $split --params "$tmp/one.safetensors" --data test --fetch probs
  expect "verify, bytes as predicted" 0 'verify: [0-9]* values .* agree' "$gpu" train "$digits" --np 4 $split --verify
  expect "verify of ranks of two processors" 0 'verify: [0-9]* values .* agree' "$gpu" train "$digits" --np 2 $split --verify
  expect "bench" 0 'collectives by NCCL' "$gpu" bench "$digits" --np 4 $split
}
if needs_mpi mpirun; then
  # shellcheck disable=SC2086
  MESHC_RANKS_A_MACHINE=2 expect "machines" 0 'step 3/3' mpirun -q -n 4 "$gpu" train "$digits" $split
fi

# Collectives run in a stream of their own. Without the wait for an operand (the third wait of the run), or that for a result (the
# fourth), the stand-in must find that nothing orders two operations.
for lost in 3 4; do
  MESHC_GPU_EAGER=1 MESHC_STANDIN_LOST_WAIT=$lost run timeout 60 "$gpu" train "$digits" --np 2 --mesh rows=2 --layout b=rows --set train.steps=1 -q
  pattern='ncclAllReduce (reads memory.* that launch of .* writes|.* wrote it), and nothing orders the two'
  if [ "$code" -ne 0 ] && says "$pattern"; then pass; else fail "without wait $lost: exit $code: $(output 5)"; fi
done

# What is refused
expect "ranks that are no box" 1 '2 ranks do not divide the axes of the mesh rows=3 cols=2 evenly.*E0807' "$gpu" train "$digits" --np 2 --mesh rows=3,cols=2 --layout b=rows,h=cols
MESHC_STANDIN_DEVICES=1 expect "ranks that share a GPU" 1 'would share a GPU.*E0807' "$gpu" train "$digits" --np 2 --mesh rows=2 --layout b=rows
NCCL_MULTI_RANK_GPU_ENABLE=1 MESHC_STANDIN_DEVICES=1 expect "ranks that may share a GPU" 0 'step 3/3' "$gpu" train "$digits" --np 2 --mesh rows=2 --layout b=rows
expect "a fault of ranks" 1 'does not support --fault count@' "$gpu" train "$digits" --np 2 --mesh rows=2 --layout b=rows --fault count@1:3
expect "nccl with the CPU" 1 'several processes that have a GPU each.*E0807' "$meshc" train "$digits" --np 2 --mesh rows=2 --layout b=rows --comm nccl

# lost NAME CODE PATTERN VARIABLE...: an endless training in which something fails
endless="train $digits --np 2 --mesh rows=2 --layout b=rows --set train.steps=1000000 -q --timeout 2"
export MESHC_STANDIN_NCCL_SECONDS=1 MESHC_STANDIN_NCCL_LATE=hang
lost() {
  name=$1 wanted=$2 pattern=$3
  shift 3
  # shellcheck disable=SC2086
  run timeout 30 env "$@" "$gpu" $endless
  if [ "$code" = "$wanted" ] && [ "$(grep -c 'error:' "$tmp/err")" = 1 ] && says "$pattern"; then pass; else fail "$name: exit $code: $(output 5)"; fi
}
lost "an error of NCCL" 6 'rank 1: NCCL: .*network error' MESHC_STANDIN_NCCL_ERROR=20@1
lost "an error of the first rank" 6 'rank 0: NCCL: .*network error' MESHC_STANDIN_NCCL_ERROR=3@0
lost "GPUs that hang" 6 'has waited for a sign of progress of the GPUs more than 2 seconds' MESHC_STANDIN_HANG_LAUNCH=40
lost "a kernel that fails" 1 'CUDA_ERROR_ILLEGAL_ADDRESS' MESHC_STANDIN_FAIL_LAUNCH=40
# The deadline counts from the last sign of progress, which steps of few operations do not give.
MESHC_STANDIN_SLOW=3 expect "a step longer than the deadline" 0 'step 1/1' "$gpu" train "$tmp/lstm.mesh" --np 2 --mesh rows=2 --layout b=rows --set train.steps=1 --timeout 1
MESHC_STANDIN_SLOW=9 expect "a step without signs" 6 'has waited for a sign of progress of the GPUs more than 1 second' "$gpu" train "$digits" --np 2 --mesh rows=2 --layout b=rows --set train.steps=1 --timeout 1 -q
# faulty NAME FAULT PATTERN: a rank gets a signal before the step with call 7 of a collective
faulty() {
  # shellcheck disable=SC2086
  run timeout 30 "$gpu" $endless --fault "$2"
  if [ "$code" = 6 ] && [ "$(grep -c 'error:' "$tmp/err")" = 1 ] && says "$3"; then pass; else fail "$1: exit $code: $(output 5)"; fi
}
faulty "a killed rank" kill@1:7 'rank 1 .* was killed by signal 9'
faulty "a stopped rank" stop@0:7 'rank 0 .* has been stopped'
finish

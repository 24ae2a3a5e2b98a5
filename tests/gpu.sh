#!/bin/sh
# Programs on a GPU (--device cuda), with stand-ins for NVIDIA's libraries: an emulator runs every thread of every kernel on
# the CPU. Trainings, evaluations and runs agree with those of the CPU; errors end in a sentence and the right exit code.
# Skipped where the build has no stand-ins. With MESHC_GPU=real it runs on a GPU, without stand-ins. Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"

standin=$build/standin

# Without a driver
mkdir "$tmp/none"
if [ "${MESHC_GPU:-}" = real ] || LD_LIBRARY_PATH=$tmp/none ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
  skip 3
else
  expect "no driver" 1 'device cuda: .*driver.*E0807' env LD_LIBRARY_PATH= "$meshc" train examples/iris.mesh --device cuda
  expect "nothing is measured without a GPU" 1 'E0807' env LD_LIBRARY_PATH= "$meshc" doctor --measure "$tmp/nothing.txt" --device cuda
  check "and nothing is written" [ ! -e "$tmp/nothing.txt" ]
fi
expect "check needs no GPU" 0 '^device     cuda' "$meshc" check examples/iris.mesh --device cuda
expect "predictions of GPUs" 0 'predicted .* us: products' "$meshc" check examples/iris.mesh --device cuda --machine h200
mkdir "$tmp/tools"
expect "sass without a disassembler" 1 'needs nvdisasm or cuobjdump.*E0807' env PATH="$tmp/none" "$meshc" dump examples/iris.mesh --device cuda --stage sass
if "$meshc" doctor | grep -q '^nvJitLink  *[0-9]'; then
  printf '#!/bin/sh\nhead -c4 "$2" | od -An -c\n' >"$tmp/tools/nvdisasm"
  chmod +x "$tmp/tools/nvdisasm"
  expect "sass" 0 '177 *E *L *F' env PATH="$tmp/tools:$PATH" "$meshc" dump examples/iris.mesh --device cuda --stage sass
  printf '#!/bin/sh\necho no such GPU\nexit 1\n' >"$tmp/tools/nvdisasm"
  expect "a disassembler that fails" 1 'nvdisasm fails.*no such GPU' env PATH="$tmp/tools:$PATH" "$meshc" dump examples/iris.mesh --device cuda --stage sass
else
  skip 2
fi
expect "another device" 2 "cpu" "$meshc" check examples/iris.mesh --device tpu

if [ "${MESHC_GPU:-}" = real ]; then
  libraries=${LD_LIBRARY_PATH:-}
elif [ -e "$standin/libcuda.so.1" ]; then
  libraries=$standin
else
  skip
  finish
fi

gpu=$tmp/gpu.sh # runs meshc on the GPU, or with the stand-ins
cat >"$gpu" <<END
#!/bin/sh
LD_LIBRARY_PATH=$libraries exec $meshc "\$@" --device cuda
END
chmod +x "$gpu"

# "step loss" pairs of a run's metrics.jsonl
curve() { sed -n 's/^{"step": *\([0-9]*\), "loss": *\([-+0-9.e]*\).*/\1 \2/p' "$1/metrics.jsonl"; }
# The largest relative difference of two curves, and the number of their steps
difference() {
  curve "$1" >"$tmp/.a"
  curve "$2" >"$tmp/.b"
  paste -d' ' "$tmp/.a" "$tmp/.b" | awk '
    { d = $2 - $4; if (d < 0) d = -d; s = $2 < 0 ? -$2 : $2; if (s < 1e-3) s = 1e-3; if (d / s > worst) worst = d / s; n++ }
    END { if (!n) print 99; else printf "%.3g\n", worst }'
}
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 <= b + 0) }'; }

# agree NAME BOUND MODEL OPTIONS...: the curves of a training on both devices
agree() {
  name=$1 bound=$2 model=$3
  shift 3
  rm -rf "$tmp/cpu" "$tmp/gpu"
  run "$meshc" train "$model" --log-dir "$tmp/cpu" "$@"
  [ "$code" = 0 ] || { fail "$name on the CPU: $(output)"; return; }
  run timeout 120 "$gpu" train "$model" --log-dir "$tmp/gpu" "$@"
  [ "$code" = 0 ] || { fail "$name: exit $code: $(output 6)"; return; }
  d=$(difference "$tmp/cpu" "$tmp/gpu")
  if below "$d" "$bound"; then pass; else fail "$name: the curves differ by $d"; fi
}

digits 5
with lstm 'data train over b { x = synthetic(normal), label = synthetic(integers(0, 3)) }'
with attention 'data train over b { x = synthetic(normal), target = synthetic(normal) }
train loss { optimizer = adamw(lr = 0.01) }'
with lookup 'data train over b { ids = synthetic(integers(0, 9)) }'

# meshes NAME BOUND MODEL LAYOUT OPTIONS...: on one processor, on two, and on 2 x 2; LAYOUT splits over rows, then over cols
meshes() {
  name=$1 bound=$2 model=$3 rows=$4 cols=$5
  shift 5
  agree "$name" "$bound" "$model" --mesh one=1 --layout none "$@"
  agree "$name, 2" "$bound" "$model" --mesh rows=2 --layout "$rows=rows" "$@"
  agree "$name, 2 x 2" "$bound" "$model" --mesh rows=2,cols=2 --layout "$rows=rows,$cols=cols" "$@"
}
meshes iris 1e-4 examples/iris.mesh b h1 --set train.epochs=2
meshes digits 1e-4 "$tmp/digits.mesh" b h
meshes lstm 1e-4 "$tmp/lstm.mesh" b d --set train.steps=3
meshes transformer 1e-4 "$tmp/attention.mesh" b heads --set train.steps=3
# scores of 1 MiB, which kernels recompute
agree "long attention" 1e-4 "$tmp/attention.mesh" --mesh one=1 --layout none --set t=128 --set train.steps=2
# products large enough for the library
meshes products 1e-4 "$tmp/digits.mesh" b h --set b=64 --set h=96 --set pixels=128 --set train.steps=2
# what products compute after their sums: addends, biases, gelu and its gradient
cat >"$tmp/epilogues.mesh" <<'END'
dim b = 8, t = 16, d = 64, f = 128, g = 64
input x[b, t, d]
input y[b, t, d]
param w[d, f] ~ normal(std = 0.1)
param wb[f] ~ normal(std = 0.1)
param v[f, d] ~ normal(std = 0.1)
param vb[d] ~ normal(std = 0.1)
param u[d, g] ~ normal(std = 0.1)
param r[g, d] ~ normal(std = 0.1)
param s[f, d] ~ normal(std = 0.1)
h = gelu_tanh(sum[d](x * w) + wb)
z = x + sum[f](h * v) + vb
a = gelu_tanh(sum[d](z * u))
c = sum[g](a * r) + vb
q = sum[f](h * s) + z + c
loss = mean[b, t](sum[d](square(q - y)))
data train over b { x = synthetic(normal), y = synthetic(normal) }
train loss { optimizer = sgd(lr = 0.01), steps = 2 }
END
for precision in f32 bf16; do
  expect "epilogues, $precision" 0 'verify: [0-9]* values .* agree' "$gpu" train "$tmp/epilogues.mesh" --verify --precision $precision
  expect "epilogues, $precision, 2 x 2" 0 'verify: [0-9]* values .* agree' "$gpu" train "$tmp/epilogues.mesh" --verify --precision $precision --mesh rows=2,cols=2 --layout b=rows,f=cols
done
for lacks in 4 128 244; do # no bias, no auxiliary matrix, no epilogue at all
  MESHC_STANDIN_CUBLASLT_LACKS=$lacks expect "a library without epilogues $lacks" 0 'verify: [0-9]* values .* agree' "$gpu" train "$tmp/epilogues.mesh" --verify --precision bf16
done
expect "tf32" 0 'step 2/2' "$gpu" train "$tmp/epilogues.mesh" --precision tf32
expect "tf32 rounds factors" 0 ' by tf32 ' "$meshc" dump "$tmp/epilogues.mesh" --stage program --device cuda --precision tf32
expect "tf32 on a CPU" 1 'precision tf32 needs --device cuda.*E0807' "$meshc" train "$tmp/epilogues.mesh" --precision tf32
expect "tf32 verified" 1 'does not know the bounds of tf32.*E0807' "$gpu" train "$tmp/epilogues.mesh" --precision tf32 --verify

# Without cuBLASLt, kernels compute the products, in tiles. A library that lacks its functions counts as none.
if [ "${MESHC_GPU:-}" = real ]; then
  skip 3
else
  mkdir "$tmp/alone"
  for file in libcuda.so.1 libcublasLt.so.13 libcublasLt.so.12; do ln -s "$(realpath "$standin/libcuda.so.1")" "$tmp/alone/$file"; done
  sed "s|^LD_LIBRARY_PATH=[^ ]*|LD_LIBRARY_PATH=$tmp/alone|" "$gpu" >"$tmp/alone.sh"
  mv "$gpu" "$tmp/both.sh"
  mv "$tmp/alone.sh" "$gpu"
  chmod +x "$gpu"
  agree "products without the library" 1e-4 "$tmp/digits.mesh" --mesh rows=2 --layout b=rows --set b=64 --set h=96 --set pixels=128 --set train.steps=2
  agree "attention without the library" 1e-4 "$tmp/attention.mesh" --mesh one=1 --layout none --set train.steps=2
  expect "products by kernels" 0 'products by generated kernels' "$gpu" train "$tmp/digits.mesh" --set train.steps=1
  mv "$tmp/both.sh" "$gpu"
fi

export MESHC_GPU_EAGER=1
agree "digits without graphs" 1e-4 "$tmp/digits.mesh" --mesh rows=2 --layout b=rows
unset MESHC_GPU_EAGER
# A step is one graph, and the host waits for the event behind it when the next steps are started. MESHC_STANDIN_CALLS
# gets which functions of the driver the process called, and how often.
if [ "${MESHC_GPU:-}" = real ]; then
  skip 8
else
  sed '/^data test/d' "$tmp/digits.mesh" >"$tmp/steps.mesh"
  export MESHC_STANDIN_CALLS="$tmp/calls"
  calls() { sed -n "s/^$1 //p" "$tmp/calls"; }
  for steps in 5 25; do
    expect "$steps steps" 0 "step $steps/$steps" "$gpu" train "$tmp/steps.mesh" --mesh rows=2 --layout b=rows --set train.steps=$steps
    holds "graphs of $steps steps" "$(calls cuGraphLaunch)" $steps
    holds "events of $steps steps" "$(calls cuEventSynchronize)" $steps
    calls cuStreamSynchronize >>"$tmp/waits"
  done
  holds "waits for the stream do not depend on the steps" "$(sort -u "$tmp/waits" | wc -l)" 1
  must env MESHC_GPU_EAGER=1 "$gpu" train "$tmp/steps.mesh" --mesh rows=2 --layout b=rows
  check "no graphs" [ "$(grep -c '^cuGraph' "$tmp/calls")" = 0 ]
  unset MESHC_STANDIN_CALLS
fi

# A trace has what ran in each stream, measured by events: the host waits for steps, not for operations.
must env MESHC_STANDIN_CALLS="$tmp/calls" "$gpu" train examples/iris.mesh --mesh rows=2,cols=2 --layout b=rows,h1=cols --log-dir "$tmp/traced" --trace -q --save-params "$tmp/traced.safetensors"
must "$gpu" train examples/iris.mesh --mesh rows=2,cols=2 --layout b=rows,h1=cols -q --save-params "$tmp/plain.safetensors"
same "a trace changes no bit" "$tmp/traced.safetensors" "$tmp/plain.safetensors"
if command -v python3 >/dev/null; then
  if python3 - "$tmp/traced/trace.json" >"$tmp/out" 2>&1 <<'END'
import json, sys
trace = json.load(open(sys.argv[1]))["traceEvents"]
tracks = {e["tid"]: e["args"]["name"] for e in trace if e["name"] == "thread_name"}
assert tracks == {0: "compute", 1: "communication", 2: "copies of inputs"}, tracks
ran = [e for e in trace if e["ph"] == "X"]
assert {e["args"]["step"] for e in ran} == set(range(3, 8)), "steps"
assert [e["name"] for e in ran if e["tid"] == 2] == 5 * ["inputs"], "copies"
assert {e["name"] for e in ran if e["tid"] == 1} >= {"all_reduce"}, "collectives"
names = [[e["name"] for e in ran if e["args"]["step"] == s] for s in range(3, 8)]
assert all(n == names[0] for n in names) and "grad(head.kernel)" in names[0], "instructions of steps"
one = sorted((e for e in ran if e["tid"] < 2), key=lambda e: e["ts"])
assert one[0]["ts"] >= 0 and all(a["ts"] + a["dur"] <= b["ts"] + 0.1 for a, b in zip(one, one[1:])), "order in the stream"
END
  then pass; else fail "the trace of a GPU: $(tail -n 1 "$tmp/out")"; fi
else
  skip
fi
if [ "${MESHC_GPU:-}" = real ]; then
  skip
else
  check "operations are not waited for" [ "$(sed -n 's/^cuStreamSynchronize //p' "$tmp/calls")" -lt "$(grep -c '"ph":"X"' "$tmp/traced/trace.json")" ]
fi

# Values go from one device to the other.
must "$gpu" train examples/iris.mesh --set train.epochs=3 --save-params "$tmp/iris.safetensors" --checkpoint-dir "$tmp/saved" -q
"$meshc" eval examples/iris.mesh --params "$tmp/iris.safetensors" >"$tmp/cpu.out" 2>&1
"$gpu" eval examples/iris.mesh --params "$tmp/iris.safetensors" >"$tmp/gpu.out" 2>&1
same "eval of parameters" "$tmp/cpu.out" "$tmp/gpu.out"
"$gpu" eval examples/iris.mesh --checkpoint "$tmp/saved" >"$tmp/gpu.out" 2>&1
same "eval of a checkpoint" "$tmp/cpu.out" "$tmp/gpu.out"
expect "a checkpoint of the GPU goes on with the CPU" 0 'step 24/24' "$meshc" train examples/iris.mesh --set train.epochs=6 --checkpoint-dir "$tmp/saved" --resume
expect "a checkpoint of the CPU goes on with the GPU" 0 'step 28/28' "$gpu" train examples/iris.mesh --set train.epochs=7 --checkpoint-dir "$tmp/saved" --resume
"$meshc" predict examples/iris.mesh --params "$tmp/iris.safetensors" --data test --fetch probs >"$tmp/cpu.out" 2>&1
"$gpu" predict examples/iris.mesh --params "$tmp/iris.safetensors" --data test --fetch probs >"$tmp/gpu.out" 2>&1
check "predict" [ "$(wc -l <"$tmp/cpu.out")" = "$(wc -l <"$tmp/gpu.out")" ]
expect "a batch with fewer rows" 0 'test accuracy .*/30' "$gpu" eval examples/iris.mesh --params "$tmp/iris.safetensors" --set b=7 --mesh one=1 --layout none
expect "verify" 0 'verify: 2 values .* agree' "$gpu" eval examples/iris.mesh --verify
expect "verify a step" 0 'verify: [0-9]* values .* agree' "$gpu" train "$tmp/digits.mesh" --verify --mesh rows=2,cols=2 --layout b=rows,h=cols
expect "a wrong number in a kernel" 4 'one processor.*E0809' "$gpu" train "$tmp/digits.mesh" --verify --fault kernel@0:0
expect "a wrong element" 1 'does not support --fault value@' "$gpu" train "$tmp/digits.mesh" --fault value@0:0
printf 'dim i = 3, j = 3\na[i, j] = where(index[i] == index[j], 2.0, 1)\noutput y = cholesky[i, j](a)\n' >"$tmp/matrix.mesh"
expect "an operation on matrices" 1 'does not support cholesky, solve' "$gpu" run "$tmp/matrix.mesh"
printf 'dim a = 64, b = 64, c = 64\nparam x[a, b]\nparam w[b, c]\noutput y = sum[b](x * w)\n' >"$tmp/product.mesh"
expect "a product without kernels" 0 '^y ' "$gpu" run "$tmp/product.mesh"
# Of several algorithms for a product the fastest one is used, and kept in the cache: times of a later run do not matter. Without
# a cache it is the first one. If the library does not have the one that was kept, the choice is made again.
if [ "${MESHC_GPU:-}" = real ]; then
  skip 5
else
  # algorithms NAME TIMES COUNTS OPTIONS...: a run calls algorithms 0, 1 and 2, which take TIMES milliseconds, as often as COUNTS say
  algorithms() {
    name=$1 times=$2 counts=$3
    shift 3
    must env XDG_CACHE_HOME="$tmp/tuned" MESHC_STANDIN_CALLS="$tmp/calls" MESHC_STANDIN_CUBLASLT_TIMES="$times" "$gpu" run "$tmp/product.mesh" "$@"
    holds "$name" "$(calls cublasLtMatmul),$(calls algorithm-1),$(calls algorithm-2)" "$counts"
  }
  mkdir "$tmp/tuned"
  algorithms "the fastest algorithm is used" 120,1,60 4,5,4 # each is called once, then three times for its time; the fastest once more, by the step
  algorithms "it is used again" 1,6,3 ,1,
  algorithms "without a cache it is the first one" 6,1,3 1,, --no-cache
  algorithms "another library lacks it" 1 1,,
  must env XDG_CACHE_HOME="$tmp/tuned" "$meshc" cache --clear
  algorithms "a choice is forgotten with the cache" 120,60,1 4,4,5
fi
expect "bench" 0 'slowest' "$gpu" bench "$tmp/digits.mesh" --steps 2
expect "figures of a known GPU" 0 'machine    h[12]00, which meshc knows' "$gpu" bench "$tmp/digits.mesh" --steps 2
XDG_CACHE_HOME=$tmp/measured expect "figures are measured" 0 'cuda' "$gpu" doctor --measure "$tmp/measured.txt" --steps 1
for figure in launch memory_rate l3_rate operations flops bf16_flops f64_flops latency bandwidth; do
  check "measured $figure" grep -q "^$figure = [1-9]" "$tmp/measured.txt"
done
XDG_CACHE_HOME=$tmp/measured expect "measured figures are used" 0 'machine    .*/gpu.txt' "$gpu" bench "$tmp/digits.mesh" --steps 2
expect "figures of eight GPUs" 0 'machine    h100x8$' "$gpu" bench "$tmp/digits.mesh" --steps 2 --machine h100x8
expect "a prediction before training" 0 'cuda .*, predicted .* [mu]*s a step' "$gpu" train "$tmp/digits.mesh"

# Models of all kinds: a step on made-up input agrees with one processor of the CPU, within the bounds of rounding.
while read -r model mesh layout; do
  expect "$model $mesh" 0 'verify: .* agree' "$gpu" bench "tests/models/$model.mesh" --verify --steps 1 --for run --mesh "$mesh" --layout "$layout"
done <<'END'
ordered rows=2,cols=2 d=rows,t=cols
ordered_scan one=1 none
moves rows=2,cols=3 b=rows,t=cols
types one=1 none
precision_bf16 rows=2 b=rows
uneven rows=2,cols=3 b=rows+cols
END

# A step of all examples on their meshes against one processor of the CPU: forward, backward and update
if [ -x "$build/suite_verify" ]; then
  time_limit=600 # takes a minute of processor time
  expect "verify the examples" 0 '^[1-9][0-9]* passed, 0 failed' env LD_LIBRARY_PATH="$libraries" "$build/suite_verify" --device cuda
  time_limit=120
else
  skip
fi

# Faults of a step
cat >"$tmp/ids.mesh" <<'END'
dim b = 4, v = 10, d = 3
input ids[b]: i32
param table[v, d] ~ normal(std = 1)
x = take[v](table, ids)
loss = mean(square(x - 1))
data train over b { ids = synthetic(integers(0, 14)) }
train loss { optimizer = sgd(lr = 0.1), steps = 3 }
END
"$meshc" train "$tmp/ids.mesh" >/dev/null 2>"$tmp/cpu.out"
holds "an index out of range on the CPU" $? 5
"$gpu" train "$tmp/ids.mesh" >/dev/null 2>"$tmp/gpu.out"
holds "an index out of range" $? 5
same "the index is the same" "$tmp/cpu.out" "$tmp/gpu.out"
sed 's/lr = 0.01/lr = 1e30/' examples/iris.mesh >"$tmp/steep.mesh"
"$meshc" train "$tmp/steep.mesh" --data-dir examples --check finite >/dev/null 2>"$tmp/cpu.out"
holds "a loss that is not finite on the CPU" $? 4
"$gpu" train "$tmp/steep.mesh" --data-dir examples --check finite >/dev/null 2>"$tmp/gpu.out"
holds "a loss that is not finite" $? 4
same "where it begins" "$tmp/cpu.out" "$tmp/gpu.out"

# Text: the states of a decoding form, which the host writes between steps
{ talk 128; echo "output best[b, t] = argmax[vocab](logits)"; } >"$tmp/talk.mesh"
must "$meshc" generate "$tmp/talk.mesh" --prompt "1 2 3 4 5 6 7 8 9 10" --prompt "7" --max-tokens 12
cp "$tmp/out" "$tmp/text"
must "$gpu" generate "$tmp/talk.mesh" --prompt "1 2 3 4 5 6 7 8 9 10" --prompt "7" --max-tokens 12
same "text on a GPU" "$tmp/text" "$tmp/out"

# Failures of the GPU
if [ "${MESHC_GPU:-}" = real ]; then
  skip 3
  finish
fi
MESHC_STANDIN_CAPABILITY=61 expect "an old GPU" 1 'compute capability 6.1, and kernels need 7.0.*E0807' "$gpu" train examples/iris.mesh
MESHC_STANDIN_MEMORY=4000 expect "out of memory" 7 'out of memory: 4 processors .* need .* on the GPU .* are available.*E0804' "$gpu" train examples/iris.mesh
# three matrices of 16 KiB, the 32 MiB that products share, 80 bytes that all steps read, 16 of the vote, and 56 of the judge
MESHC_STANDIN_MEMORY=33603735 expect "no memory for products" 7 'out of memory: 1 processor .* needs 33603736 bytes .* 33603735 bytes .* are available.*E0804' "$gpu" run "$tmp/product.mesh"
MESHC_STANDIN_MEMORY=33603736 expect "memory for products" 0 '^y ' "$gpu" run "$tmp/product.mesh"
MESHC_STANDIN_FAIL_LAUNCH=20 expect "a failed kernel" 1 'GPU: the end of a step .* gives CUDA_ERROR_ILLEGAL_ADDRESS' "$gpu" train examples/iris.mesh --set train.epochs=5
finish

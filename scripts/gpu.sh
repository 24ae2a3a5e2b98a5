#!/bin/sh
# Runs on a GPU what other tests run with stand-ins for NVIDIA's libraries, and measures steps beside PyTorch and JAX.
#   scripts/gpu.sh pack [FOLDER]    where meshc was built: gathers the program, suites and libraries for a machine that
#                                   has a GPU but neither LLVM nor a build, in FOLDER (build/gpu); print their size
#   scripts/gpu.sh [PART...]        where the GPU is, from the root of the same sources: uses build/gpu if it is there,
#                                   else build/release. Parts (all):
#     facts      what doctor says about driver, GPU and libraries
#     tests      tests/gpu.sh
#     verify     a step of each example under its layouts on virtual meshes, against one processor of the CPU
#     ranks      a step of two examples on 2, 4 and 8 GPUs, a rank each, against one processor of the CPU; on one GPU,
#                where NCCL permits it (2.30), 2 and 2 x 2 ranks
#     repeat     two trainings end in the same bits
#     sanitize   compute-sanitizer (memcheck, racecheck, synccheck) over a step of four models, where it is installed
#     measure    doctor --measure: the figures of the GPU, and what bench predicts with them: within 1.3
#     figures    single kernels beside the figures of `measure`, attention, steps of MLPs and of GPT-2, beside their goals
#     start      seconds from start to the first finished step, cold and from the compile cache
#     speed      bench/run --device cuda: steps and memory beside torch.compile and JAX. The Python of both is $PYTHON (python3).
# The suites suite_gpu_* are not run here: they check kernels on the emulator, on any machine. The same kernels run in `verify`.
# Prints a line for each check, at the end a table of all goals, and `N passed, N failed, N skipped`. MESHC_GPU_MODELS: the models of
# `measure`, `start` and `speed`. MESHC_GPU_SMALL=1: small sizes in `figures`. With the stand-ins of tests/standin on LD_LIBRARY_PATH
# it runs without a GPU, slowly: the goals are missed then.
set -u
cd "$(dirname "$0")/.." || exit 1
PYTHON=${PYTHON:-python3}

# ---- pack -----------------------------------------------------------------------------------------------------------

# libraries FILE...: the shared libraries that they need, but those of glibc and gcc
libraries() {
  ldd "$@" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u | grep -v -E '/lib(c|m|dl|pthread|rt|stdc\+\+|gcc_s)\.so'
}
pack() {
  build=$PWD/build/release
  llvm=$(ldconfig -p | sed -n 's/.* => \(.*libLLVM\.so\.19\.1\)$/\1/p;s/.* => \(.*libLLVM-19\.so[.0-9]*\)$/\1/p' | head -n 1)
  [ -x "$build/meshc" ] && [ -n "$llvm" ] || { echo "gpu: build/release/meshc or LLVM 19 is missing" >&2; exit 2; }
  programs="$build/meshc $build/suite_verify $build/generate"
  rm -rf "$1" && mkdir -p "$1/lib" || exit 1
  # shellcheck disable=SC2086
  for f in $(libraries $programs "$llvm"); do cp -L "$f" "$1/lib/"; done
  cp -L "$llvm" "$1/lib/libLLVM.so.19.1"
  # shellcheck disable=SC2086
  cp $programs "$1/"
  strip "$1"/meshc "$1"/suite_verify "$1"/generate "$1"/lib/*.so* 2>/dev/null
  (cd "$1" && tar cf - lib | xz -T0 -6 >lib.tar.xz && rm -r lib) || exit 1
  du -sh "$1"
}
if [ "${1:-}" = pack ]; then
  pack "${2:-build/gpu}"
  exit
fi

# ---- checks ---------------------------------------------------------------------------------------------------------

all="facts tests verify ranks repeat sanitize measure figures start speed"
for part; do
  case " $all " in *" $part "*) ;; *) echo "gpu: there is no part $part; parts: $all" >&2; exit 2 ;; esac
done
MESHC=$PWD/build/release/meshc
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
if [ -e build/gpu/lib.tar.xz ]; then # programs that find the libraries, which others must not
  tar xJf build/gpu/lib.tar.xz -C "$tmp" && mkdir "$tmp/bin" || exit 1
  for program in meshc suite_verify generate; do
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec %s "$@"\n' "$tmp/lib" "$PWD/build/gpu/$program" >"$tmp/bin/$program"
    chmod +x "$tmp/bin/$program"
  done
  MESHC=$tmp/bin/meshc
fi
export MESHC
programs=$(dirname "$MESHC")
XDG_CACHE_HOME=$tmp/cache # nothing is there at first
export XDG_CACHE_HOME
[ -x "$MESHC" ] || { echo "gpu: $MESHC is missing: build it, or pack it (the first lines of this script)" >&2; exit 2; }
passed=0 failed=0 skipped=0
# goal NAME VALUE least|most GOAL UNIT: a line of the table at the end
goal() {
  if awk -v v="$2" -v way="$3" -v g="$4" 'BEGIN {exit !(way == "least" ? v >= g : v <= g)}'; then
    met=reached passed=$((passed + 1))
  else
    met=MISSED failed=$((failed + 1))
  fi
  printf '%-52s %12s %-10s at %s %s: %s\n' "$1" "$2" "$5" "$3" "$4" "$met" | tee -a "$tmp/table"
}
: >"$tmp/table"
ok() { printf '%-60s %s\n' "$1" "${2:-pass}"; passed=$((passed + 1)); }
bad() { printf '%-60s FAIL\n' "$1"; failed=$((failed + 1)); }
skip() { printf '%-60s skipped: %s\n' "$1" "$2"; skipped=$((skipped + 1)); }
# holds NAME COMMAND...: whether the command succeeds; if not, the end of what it printed
holds() {
  name=$1
  shift
  if "$@" >"$tmp/out" 2>&1; then ok "$name"; else tail -n 6 "$tmp/out"; bad "$name"; fi
}
# counts NAME COMMAND...: adds up the closing line of a runner
counts() {
  name=$1
  shift
  "$@" >"$tmp/out" 2>&1
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$tmp/out" | tail -n 1)
  grep -A 4 -E '^FAIL' "$tmp/out" | head -n 40
  [ -n "$line" ] || tail -n 5 "$tmp/out"
  line=${line:-0 passed, 1 failed, 0 skipped}
  printf '%-60s %s\n' "$name" "$line"
  # the three numbers of the line
  # shellcheck disable=SC2046
  set -- $(echo "$line" | tr -dc '0-9 ')
  passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}

facts() {
  "$MESHC" doctor | grep -E '^(gpus?|CUDA|cuBLASLt|nvJitLink|NCCL|compiler) '
  holds "a program runs on the GPU" "$MESHC" bench bench/models/iris.mesh --device cuda --steps 2
}
tests() {
  MESHC_GPU=real counts tests/gpu.sh tests/gpu.sh
  MESHC_GPU=real counts tests/gpu_package.sh tests/gpu_package.sh
}
verify() {
  for example in examples/*.mesh; do
    counts "verify $(basename "$example" .mesh)" env MESHC_GPU=real "$programs/suite_verify" --device cuda "$example"
  done
}
ranks() {
  gpus=$("$MESHC" doctor | grep -c '^gpu [0-9]')
  if [ "$gpus" -ge 2 ]; then
    :
  elif "$MESHC" doctor | grep -qE '^NCCL  *(2\.[3-9][0-9]|[3-9])'; then # several ranks may share a GPU
    for n in 2 4; do
      NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=4 holds "mlp, $n ranks on one GPU" "$MESHC" bench examples/mlp.mesh --verify --steps 1 --device cuda --np "$n" --mesh "rows=2,cols=$((n / 2))" --layout b=rows,h=cols
    done
  else
    skip "several ranks on one GPU" "NCCL is older than 2.30"
  fi
  [ "$gpus" -ge 2 ] || { skip "several GPUs" "GPUs here: $gpus"; return; }
  for n in 2 4 8; do
    [ "$n" -le "$gpus" ] || continue
    for model in mlp transformer; do
      holds "$model on $n GPUs" "$MESHC" bench "examples/$model.mesh" --verify --steps 1 --device cuda --np "$n" --mesh "rows=$n" --layout b=rows
    done
  done
}
repeat() {
  mkdir -p "$tmp/data" && "$programs/generate" "$tmp/data" >/dev/null || { bad "data of the examples"; return; }
  cp -r examples/data "$tmp/data/" # of iris
  for model in iris tagger transformer; do
    for i in 1 2; do
      "$MESHC" train "examples/$model.mesh" --data-dir "$tmp/data" --device cuda --set train.steps=20 -q --save-params "$tmp/$model.$i.safetensors" >"$tmp/out" 2>&1 || tail -n 3 "$tmp/out"
    done
    holds "$model ends in the same bits twice" cmp "$tmp/$model.1.safetensors" "$tmp/$model.2.safetensors"
  done
}
sanitize() {
  command -v compute-sanitizer >/dev/null || { skip "compute-sanitizer" "it is not installed"; return; }
  for tool in memcheck racecheck synccheck; do
    for model in iris charlm lstm cnn; do
      MESHC_GPU_EAGER=1 holds "$tool: $model" compute-sanitizer --target-processes all --tool "$tool" --error-exitcode 9 \
        "$MESHC" bench "bench/models/$model.mesh" --device cuda --steps 1
    done
  done
}
# measured: the figures of the GPU are in $tmp/gpu.txt, and meshc predicts with them
measured() {
  [ -s "$tmp/gpu.txt" ] || holds "figures of the GPU are measured" "$MESHC" doctor --measure "$tmp/gpu.txt" --device cuda
  [ -s "$tmp/gpu.txt" ]
}
measure() {
  measured || return
  cat "$tmp/gpu.txt"
  [ -z "${OUT:-}" ] || cp "$tmp/gpu.txt" "$OUT/"
  for model in ${MESHC_GPU_MODELS:-mlp1024 charlm gpt2}; do
    holds "bench of $model" "$MESHC" bench "bench/models/$model.mesh" --device cuda
    grep -E '^(step|predicted|machine|roofline) ' "$tmp/out"
    times=$(sed -n 's/^predicted .*; the step takes \([0-9.]*\) times that$/\1/p' "$tmp/out")
    goal "$model: step / prediction, or the reverse" "$(awk -v x="${times:-99}" 'BEGIN {printf "%.2f", x < 1 ? 1 / x : x}')" most 1.3 ""
  done
}

# ---- figures ----------------------------------------------------------------------------------------------------------

# step OPTION...: the seconds of a step, by bench
step() {
  "$MESHC" bench "$@" --device cuda --json >"$tmp/json" 2>"$tmp/out" || { tail -n 3 "$tmp/out" >&2; echo 1e9; return; }
  sed -n 's/^  "seconds": \([0-9.e+-]*\),*$/\1/p' "$tmp/json"
}
# figure NAME: a number of the GPU as it was measured
figure() { sed -n "s/^$1 = \([0-9.e+-]*\).*/\1/p" "$tmp/gpu.txt"; }
# per SECONDS AMOUNT [BY]: AMOUNT a second, in units of BY
per() { awk -v s="$1" -v x="$2" -v by="${3:-1}" 'BEGIN {printf "%.4g", x / s / by}'; }
# by_gpu H100 OTHER: the goal of this GPU
by_gpu() { if "$MESHC" doctor | grep -q '^gpu 0 .*H200'; then echo "$2"; else echo "$1"; fi; }

# shellcheck disable=SC2046,SC2086 # options
figures() {
  measured || return
  size() { if [ -n "${MESHC_GPU_SMALL:-}" ]; then echo "$1"; else echo "$2"; fi; }
  rows=$(size 16 32768) copy=$(figure memory_rate)
  n=$(size 65536 134217728)
  goal "elementwise (gelu): share of the copy rate" "$(per "$(step bench/models/gelu.mesh --set n="$n")" $((8 * n)) "$copy")" least 0.90 ""
  n=$((rows * 4096))
  for model in layernorm softmax; do
    goal "$model, rows of 4096: share of the copy rate" "$(per "$(step "bench/models/$model.mesh" --set r="$rows" --set c=4096)" $((8 * n)) "$copy")" least 0.85 ""
  done
  n=$(size 64 4096)
  printf 'dim m = %s, n = m, k = m\ninput a[m, k]: bf16\ninput b[k, n]: bf16\noutput y = sum[k](a * b)\n' "$n" >"$tmp/product.mesh"
  goal "product of $n^3, bf16: share of the library alone" "$(per "$(step "$tmp/product.mesh")" $((2 * n * n * n)) "$(figure bf16_flops)")" least 0.97 ""
  attention
  mlp=$(size "--set b=8" "")
  goal "MLP 784-1024-1024-10, 256 rows, f32: us a step" "$(per 1 "$(step bench/models/mlp1024.mesh $mlp)" 1e-6)" most "$(by_gpu 50 45)" us
  goal "MLP 4096, 256 rows, bf16: us a step" "$(per 1 "$(step bench/models/mlp1024.mesh $(size "--set b=8" "--set i=4096 --set h1=4096 --set h2=4096") --precision bf16)" 1e-6)" most "$(by_gpu 330 250)" us
  goal "CIFAR CNN, 64 images, f32: us a step" "$(per 1 "$(step bench/models/cnn.mesh $(size "--set b=2" ""))" 1e-6)" most 250 us
  tokens=$(size 32 65536)
  goal "GPT-2 124M, bf16, 64 x 1024: tokens a second" "$(per "$(step bench/models/gpt2.mesh $(size "--set b=1 --set t=32 --set vocab=64 --set depth=1" "--set b=64 --set t=1024") --precision bf16)" "$tokens")" least "$(by_gpu 450000 490000)" /s
}
# Causal attention with heads of 64: half of the scores count.
attention() {
  t=$(size 64 1024) b=$(size 1 64)
  cat >"$tmp/attention.mesh" <<END
dim b = $b, h = 12, t = $t, s = t, k = 64
input q[b, t, h, k]: bf16
input key[b, s, h, k]: bf16
input v[b, s, h, k]: bf16
input w[b, t, h, k]: bf16
score = sum[k](q * key) / size(k) ^ 0.5
causal[t, s] = index[s] <= index[t]
y = sum[s](softmax[s](where(causal, score, -inf)) * v)
loss = sum(cast(y * w, f32))
output o[b, t, h, k] = y
output dq = gradient(loss, q)
output dk = gradient(loss, key)
output dv = gradient(loss, v)
END
  forward=$((2 * b * 12 * t * t * 64))
  goal "attention forward, head 64, causal, $t: TFLOP/s" "$(per "$(step "$tmp/attention.mesh" --fetch o)" $forward 1e12)" least 200 TFLOP/s
  goal "attention forward and backward: TFLOP/s" "$(per "$(step "$tmp/attention.mesh" --fetch o --fetch dq --fetch dk --fetch dv)" $((forward * 7 / 2)) 1e12)" least 150 TFLOP/s
}
# seconds COMMAND...: how long it takes
seconds() {
  from=$(date +%s.%N)
  "$@" >"$tmp/out" 2>&1 || { tail -n 3 "$tmp/out" >&2; return 1; }
  date +%s.%N | awk -v a="$from" '{printf "%.2f", $1 - a}'
}
start() {
  for model in ${MESHC_GPU_MODELS:-mlp1024 charlm gpt2}; do
    rm -rf "$tmp/cache"
    cold=$(seconds "$MESHC" bench "bench/models/$model.mesh" --device cuda --steps 1) &&
      warm=$(seconds "$MESHC" bench "bench/models/$model.mesh" --device cuda --steps 1) || { bad "start of $model"; continue; }
    goal "start of $model to the first steps, cold" "$cold" most 2 s
    goal "start of $model to the first steps, cached" "$warm" most 0.5 s
  done
}
speed() {
  for peer in torch jax; do
    mkdir -p "$tmp/peers/$peer/bin"
    "$PYTHON" -c "import $peer" 2>/dev/null && ln -sf "$(command -v "$PYTHON")" "$tmp/peers/$peer/bin/python"
  done
  # shellcheck disable=SC2086
  bench/run --device cuda --rounds 5 --peers "$tmp/peers" --history "$tmp/history" ${MESHC_GPU_MODELS:-mlp1024 mlp4096 cnn lstm lm6 gpt2 gpt2_long}
  agree=$?
  [ -z "${OUT:-}" ] || cp "$tmp/history" "$OUT/"
  if ! grep -q '"best_peer": "' "$tmp/history"; then
    skip "steps beside peers" "$PYTHON has neither torch nor jax"
  elif [ $agree = 0 ]; then
    ok "losses agree with the peers'"
  else
    bad "losses agree with the peers'"
  fi
  sed -n 's/.*"model": "\([^"]*\)".*"ratio": \([0-9.][0-9.]*\).*/\1 \2/p' "$tmp/history" >"$tmp/ratios"
  while read -r model ratio; do goal "$model: step / best peer" "$ratio" most 0.9 ""; done <"$tmp/ratios"
  # peak bytes of meshc on the GPU, those of cuBLASLt's workspace included, beside the least of the peers
  sed -n 's/.*"model": "\([^"]*\)", "meshc": {\([^}]*\)}, "peers": {\(.*\)}, "best_peer": ".*/\1 \2 \3/p' "$tmp/history" |
    awk '{ n = split($0, part, /"resident_bytes": /); own = part[2] + 33554432; least = 0
           for (i = 3; i <= n; i++) if (!least || part[i] + 0 < least) least = part[i] + 0
           if (least) printf "%s %.3f\n", $1, own / least }' >"$tmp/memories"
  while read -r model ratio; do goal "$model: peak memory / least of the peers" "$ratio" most 1 ""; done <"$tmp/memories"
}

for part in ${*:-$all}; do
  echo "-- $part"
  $part
done
[ -s "$tmp/table" ] && echo "-- goals" && cat "$tmp/table"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

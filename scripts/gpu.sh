#!/bin/sh
# Runs on a GPU what other tests run with stand-ins for NVIDIA's libraries, and measures steps beside PyTorch and JAX.
#   scripts/gpu.sh pack [FOLDER]    where meshc was built: gathers the program, suites and libraries for a machine that
#                                   has a GPU but neither LLVM nor a build, in FOLDER (build/gpu); print their size
#   scripts/gpu.sh [PART...]        where the GPU is, from the root of the same sources: uses build/gpu if it is there,
#                                   else build/release. Parts (all):
#     facts      what doctor says about driver, GPU and libraries
#     tests      tests/gpu.sh
#     verify     a step of each example under its layouts on virtual meshes, against one processor of the CPU
#     ranks      a step of two examples on 2, 4 and 8 GPUs, a rank each, against one processor of the CPU
#     repeat     two trainings end in the same bits
#     sanitize   compute-sanitizer (memcheck, racecheck, synccheck) over a step of four models, where it is installed
#     measure    doctor --measure: the figures of the GPU, and what bench predicts with them
#     start      seconds from start to the first finished step, cold and from the compile cache
#     speed      bench/run --device cuda: steps beside torch.compile and JAX. The Python of both is $PYTHON (python3).
# The suites suite_gpu_* are not run here: they check kernels on the emulator, on any machine. The same kernels run in `verify`.
# Prints a line for each check and ends in `N passed, N failed, N skipped`. MESHC_GPU_MODELS: the models of `measure`,
# `start` and `speed`. With the stand-ins of tests/standin on LD_LIBRARY_PATH it runs without a GPU, slowly.
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

all="facts tests verify ranks repeat sanitize measure start speed"
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
tests() { MESHC_GPU=real counts tests/gpu.sh tests/gpu.sh; }
verify() {
  for example in examples/*.mesh; do
    counts "verify $(basename "$example" .mesh)" env MESHC_GPU=real "$programs/suite_verify" --device cuda "$example"
  done
}
ranks() {
  gpus=$("$MESHC" doctor | grep -c '^gpu [0-9]')
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
measure() {
  holds "figures of the GPU are measured" "$MESHC" doctor --measure "$tmp/gpu.txt" --device cuda
  [ -s "$tmp/gpu.txt" ] || return
  cat "$tmp/gpu.txt"
  [ -z "${OUT:-}" ] || cp "$tmp/gpu.txt" "$OUT/"
  for model in ${MESHC_GPU_MODELS:-mlp1024 charlm gpt2}; do
    holds "prediction of $model" "$MESHC" bench "bench/models/$model.mesh" --device cuda
    grep -E '^(step|predicted|machine|roofline) ' "$tmp/out"
  done
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
    ok "start of $model to the first steps, cold / cached" "$cold s / $warm s (goal 2 / 0.5)"
  done
}
speed() {
  for peer in torch jax; do
    mkdir -p "$tmp/peers/$peer/bin"
    "$PYTHON" -c "import $peer" 2>/dev/null && ln -sf "$(command -v "$PYTHON")" "$tmp/peers/$peer/bin/python"
  done
  # shellcheck disable=SC2086
  if bench/run --device cuda --rounds 5 --peers "$tmp/peers" --history "$tmp/history" ${MESHC_GPU_MODELS:-mlp1024 cnn lstm lm6 gpt2}; then
    ok "losses agree with the peers'"
  else
    bad "losses agree with the peers'"
  fi
  [ -z "${OUT:-}" ] || cp "$tmp/history" "$OUT/"
  sed -n 's/.*"model": "\([^"]*\)".*"ratio": \([0-9.][0-9.]*\).*/\1 \2/p' "$tmp/history" >"$tmp/ratios"
  while read -r model ratio; do
    if awk -v r="$ratio" 'BEGIN {exit !(r <= 0.9)}'; then ok "$model: step / best peer" "$ratio (goal 0.9)"; else bad "$model: step / best peer $ratio (goal 0.9)"; fi
  done <"$tmp/ratios"
}

for part in ${*:-$all}; do
  echo "-- $part"
  $part
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

#!/bin/sh
# The goals for the speed of steps: prints figure, goal, and pass or FAIL.
#   bench/done.sh [-r ROUNDS] [-t THREADS] [-u CMD] [PART[=MODEL,...]...]     (7 rounds, 2 threads, all parts)
#   products      single products (bench/products.c): share of the FMA peak, rate beside the BLAS library
#   table         time of a step beside the best peer (bench/run; skipped without peers), memory beside the smallest peer,
#                 step beside flops / FMA peak + bytes / copy rate, prediction beside measurement
#   bf16          --precision bf16 beside f32
#   mesh          2 processors, a 2x2 mesh, and 2 processes (--np 2) beside one processor, all on THREADS cores
#   busy          a step beside a process that computes all the time, beside an undisturbed step
#   elementwise   sum(x + y * z), softmax, layer norm, gelu, AdamW over large arrays: the time of their least memory traffic, or of
#                 the same arithmetic on arrays that fit in the caches if that is longer, beside the time of the step
#   dispatch      cost of starting a kernel
#   compile       cold compile of an MLP, the CNN, LMs; lm24 is lm4 with 24 layers
#   start         from start to the first finished step with a warm compile cache, beside 50 ms and one step
#   long          lm4 with 4096 tokens and batch 1: memory beside 2048 tokens, flop rate beside 128 tokens
#   permute       declared order of dims (bench/permute.sh)
# PART=MODEL,... measures these models of a part only; all models of table take half an hour, of another part at most ten
# minutes. CMD of -u runs before each timing. Times of a comparison alternate; the ratio is the median over the rounds.
# Ends in `N passed, N failed, N skipped`. Exit 1 if a figure misses its goal, 2 on wrong usage. MESHC is the program.
set -u
cd "$(dirname "$0")/.." || exit 1
MESHC=${MESHC:-$PWD/build/release/meshc}
export MESHC
rounds=7 threads=2 under=''
while getopts r:t:u: option; do
  case $option in
    r) rounds=$OPTARG ;;
    t) threads=$OPTARG ;;
    u) under=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
parts="products table bf16 mesh busy elementwise dispatch compile start long permute"
# models PART: what it measures
models() {
  case $1 in
    products) echo square lm6 gpt2 mlp small lstm scores ;;
    table) echo iris mlp128_b64 mlp128_b100 mlp1024 cnn lstm charlm lm4 lm6 gpt2 ;;
    bf16) echo mlp1024 lm6 ;;
    mesh | busy) echo mlp1024 ;;
    elementwise) echo sumxyz softmax layernorm gelu adamw ;;
    compile) echo mlp1024 cnn lm4 lm24 lm6 gpt2 ;;
    start) echo iris mlp128_b64 mlp1024 cnn lstm charlm lm4 lm6 gpt2 ;;
    long) echo lm4 ;;
    permute) echo lm4 charlm lstm cnn ;;
    dispatch) echo ;;
    *) return 1 ;;
  esac
}
for part; do
  all=$(models "${part%%=*}") || { echo "done: there is no part $part; parts: $parts" >&2; exit 2; }
  case $part in *=*) ;; *) continue ;; esac
  for model in $(echo "${part#*=}" | tr , ' '); do
    case " $all " in *" $model "*) ;; *) echo "done: ${part%%=*} measures no $model; models: $all" >&2; exit 2 ;; esac
  done
done
[ -x "$MESHC" ] || { echo "done: $MESHC is missing; run scripts/build.sh release" >&2; exit 2; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0

# goal NAME FIGURE least|most GOAL
goal() {
  if [ -z "$2" ] || [ "$2" = null ]; then
    printf '%-46s %10s  skipped\n' "$1" -
    skipped=$((skipped + 1))
  elif awk -v x="$2" -v way="$3" -v g="$4" 'BEGIN {exit !(way == "most" ? x <= g : x >= g)}'; then
    printf '%-46s %10.4g  %-5s %-8s pass\n' "$1" "$2" "$3" "$4"
    passed=$((passed + 1))
  else
    printf '%-46s %10.4g  %-5s %-8s FAIL\n' "$1" "$2" "$3" "$4"
    failed=$((failed + 1))
  fi
}

# number KEY: of the JSON on standard input, the first of that name
number() { sed -n "s/^ *\"$1\": \([0-9.e+-]*\),*\$/\1/p" | head -n 1; }
# bench MODEL OPTION...: its JSON to $tmp/json
bench() {
  model=$1
  shift
  # shellcheck disable=SC2086
  $under "$MESHC" bench "bench/models/$model.mesh" --json "$@" >"$tmp/json" 2>"$tmp/errors" || { head -n 3 "$tmp/errors" >&2; return 1; }
}
seconds() { number seconds <"$tmp/json"; }
quotient() { awk -v a="$1" -v b="$2" 'BEGIN {if (b > 0) print a / b}'; }
middle() { sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

# against MODEL OPTIONS OTHER-OPTIONS: median over the rounds of the time with OPTIONS divided by that with OTHER-OPTIONS
against() {
  for round in $(seq "$rounds"); do
    # shellcheck disable=SC2086
    bench "$1" $2 && a=$(seconds) && bench "$1" $3 && quotient "$a" "$(seconds)"
  done | middle
}

# ---- parts ----------------------------------------------------------------------------------------------------------

# shares NAME LEAST AWK-CONDITION: a goal for the least share of the peak among the rows of products that hold
shares() {
  goal "$1" "$(awk "/ f32 / && ($3)"' {print $(NF - 3)}' "$tmp/products" | sort -g | head -n 1)" least "$2"
}
products() {
  program=$(dirname "$MESHC")/bench_products
  [ -x "$program" ] || { echo "(products: $program is missing)"; goal "products: share of the peak" '' least 0.88; return; }
  for count in 1 "$threads"; do
    for name in $chosen; do
      types=f32
      case $name in square|mlp) types='f32 bf16 f64' ;; lm6) types='f32 bf16' ;; esac
      for type in $types; do $under "$program" -r "$rounds" -t "$count" -y "$type" "$name"; done
    done >"$tmp/printed"
    awk 'NR <= 2 || !/^FMA|^product/' "$tmp/printed"
    grep -v '^FMA\|^product' "$tmp/printed" >"$tmp/products"
    shares "1024 x 1024 x 1024, threads $count: share of the peak" 0.93 '/^square/'
    shares "training shapes, threads $count: least share" 0.88 '/^lm6|^gpt2/'
    shares "64 x 784 x 128, threads $count: share of the peak" 0.8 '/^small|^mlp128 /'
    goal "products, threads $count: least rate / library" "$(awk '/ f32 / && $NF != "-" {print $NF}' "$tmp/products" | sort -g | head -n 1)" least 1
  done
}

# field KEY: the number of the line of a model in the history
field() { echo "$line" | sed -n "s/.*\"$1\": \([0-9.e+-]*\)[,}].*/\1/p"; }

# row MODEL RATIO MEMORY: goals of a line of the table
row() {
  line=$(grep "\"model\": \"$1\"" "$tmp/history") || { goal "$1: step / best peer" '' most "$2"; return; }
  goal "$1: step / best peer" "$(field ratio)" most "$2"
  own=$(echo "$line" | sed 's/.*"meshc": {[^}]*"resident_bytes": \([0-9]*\).*/\1/')
  least=$(echo "$line" | sed 's/.*"peers": //' | grep -o '"resident_bytes": [0-9]*' | awk '{print $2}' | sort -g | head -n 1)
  goal "$1: peak memory / smallest peer" "${least:+$(quotient "$own" "$least")}" most "$3"
  case $1 in mlp1024|cnn|lm6|gpt2) goal "$1: step / (flops/peak + bytes/copy)" "$(field roofline_ratio)" most 1.2 ;; esac
  goal "$1: predicted / measured, or its inverse" "$(field predicted_ratio | awk '{print $1 < 1 ? 1 / $1 : $1}')" most 1.3
}
table() {
  # shellcheck disable=SC2086
  bench/run --threads "$threads" --rounds "$rounds" ${under:+--under "$under"} --history "$tmp/history" $chosen || echo "(bench/run: exit $?)"
  grep -q '"best_peer": "' "$tmp/history" || echo "(no peer ran: bench/setup-peers.sh installs them)"
  for model in $chosen; do
    case $model in
      iris) row iris 0.35 0.5 ;;
      mlp128_b64 | cnn) row "$model" 0.70 0.5 ;;
      mlp128_b100 | charlm) row "$model" 0.65 0.5 ;;
      mlp1024) row mlp1024 0.85 0.5 ;;
      lstm) row lstm 0.75 0.5 ;;
      lm4 | lm6) row "$model" 0.80 0.5 ;;
      gpt2) row gpt2 0.85 0.75 ;;
    esac
  done
}

bf16() {
  for model in $chosen; do
    if ! grep -q -s avx512_bf16 /proc/cpuinfo; then goal "$model: f32 / bf16" '' least 1.3; continue; fi
    goal "$model: f32 / bf16" "$(against "$model" "--threads $threads --steps 5" "--threads $threads --steps 5 --precision bf16")" least 1.3
  done
}

mesh() {
  one="--threads $threads"
  goal "mlp1024: 2 processors / 1" "$(against mlp1024 "$one --mesh p=2 --layout b=p" "$one")" most 1.05
  goal "mlp1024: 2x2 mesh / 1 processor" "$(against mlp1024 "$one --mesh p=2,q=2 --layout b=p,h1=q" "$one")" most 1.08
  goal "mlp1024: --np 2 / 1 processor" "$(against mlp1024 "$one --mesh p=2 --layout b=p --np 2" "$one")" most 1.10
}

# A process that computes takes a core of the THREADS.
busy() {
  disturbed() {
    # shellcheck disable=SC2016
    taskset -c 0 sh -c 'while :; do :; done' &
    bench mlp1024 --threads "$threads"
    result=$?
    kill $!
    wait $! 2>/dev/null
    return $result
  }
  goal "mlp1024: beside a busy process / undisturbed" "$(for round in $(seq "$rounds"); do
    disturbed && a=$(seconds) && bench mlp1024 --threads "$threads" && quotient "$a" "$(seconds)"
  done | middle)" most 2
}

# cached MODEL: the size at which the arrays of a model of `elementwise` take at most 512 KiB
cached() {
  case $1 in
    sumxyz) echo n=32768 ;;
    softmax | layernorm) echo r=64 ;;
    gelu) echo n=65536 ;;
    adamw) echo n=16384 ;;
  esac
}
# moved MODEL, reads MODEL: bytes that the step moves and reads at least, in relation to those that bench counts. The loss of
# adamw reads 8 bytes an element in a pass of its own, before the update reads 16 and writes 12.
moved() { case $1 in adamw) echo '36 / 28' ;; *) echo 1 ;; esac; }
reads() { case $1 in adamw) echo '24 / 16' ;; *) echo 1 ;; esac; }
# of KEY: a number of the roofline of the last bench
of() { sed -n '/"roofline"/,/}/p' "$tmp/json" | number "$1"; }
best() { number best_seconds <"$tmp/json"; }
# A line for each round: least seconds of a step, then of the least traffic by the copy rate, of its reads by the read rate, and
# of as many bytes at the rate of the same program on arrays in the caches, one thread's rate times the number of threads. All
# rates are the best of several runs, and so is the step: the memory of a virtual machine may be twice as fast from one moment
# to the next.
elementwise() {
  for model in $chosen; do
    for round in $(seq "$rounds"); do
      bench "$model" --threads 1 --set "$(cached "$model")" && cached=$(quotient "$(of bytes)" "$(best)") &&
        bench "$model" --threads "$threads" && echo "$(best) $(of bytes) $(of bytes_per_second) $(of read_bytes) $(of read_bytes_per_second) $cached" |
        awk -v n="$threads" '{print $1, '"$(moved "$model")"' * $2 / $3, '"$(reads "$model")"' * $4 / $5, $2 / ($6 * n)}'
    done >"$tmp/rounds"
    for limit in 'the copy rate' 'the read rate' 'its rate in the caches'; do
      printf '(%s: time by %s / time %.4g)\n' "$model" "$limit" "$(awk -v l="$limit" '{print (l ~ /copy/ ? $2 : l ~ /read/ ? $3 : $4) / $1}' "$tmp/rounds" | middle)"
    done
    goal "$model: longest of these times / time" "$(awk '{t = $2 > $3 ? $2 : $3; print (t > $4 ? t : $4) / $1}' "$tmp/rounds" | middle)" least 0.9
  done
}

dispatch() {
  # shellcheck disable=SC2086
  $under "$MESHC" doctor --measure "$tmp/machine" --threads "$threads" --steps 1 >/dev/null
  goal "cost of starting a kernel, ns" "$(sed -n 's/^launch = //p' "$tmp/machine" | awk '{print 1e9 * $1}')" most 50
}

# cold MODEL SECONDS OPTION...: the best of three compilations without the cache, in seconds of the clock
cold() {
  model=$1 most=$2
  shift 2
  for try in 1 2 3; do
    # shellcheck disable=SC2086
    $under "$MESHC" bench "bench/models/$model.mesh" "$@" --no-cache --threads "$threads" --steps 1 -v 2>&1 >/dev/null |
      sed -n 's/^meshc: compiled for .* in \([0-9.]*\) s:.*/\1/p'
  done | sort -g | head -n 1 >"$tmp/cold"
  goal "$model${*:+ $*}: cold compile, s" "$(cat "$tmp/cold")" most "$most"
}
compile() {
  for name in $chosen; do
    case $name in
      mlp1024) cold mlp1024 0.12 ;;
      cnn) cold cnn 0.3 ;;
      lm24) cold lm4 0.4 --set depth=24 ;;
      *) cold "$name" 0.4 ;;
    esac
  done
}

# inputs MODEL LINES: writes the inputs of a model to $tmp/MODEL; LINES is a model with them as outputs
inputs() {
  echo "$2" >"$tmp/inputs.mesh"
  "$MESHC" run "$tmp/inputs.mesh" --out "$tmp/$1" >/dev/null
}
# now: seconds since 1970
now() { date +%s.%N; }
# first MODEL: the best of ROUNDS of the time from start to the end of a run of one step, less the time of a step
first() {
  feed=''
  for f in "$tmp/$1"/*.npy; do feed="$feed --feed $(basename "$f" .npy)=$f"; done
  bench "$1" --threads "$threads" --steps 5
  step=$(seconds)
  goal "$1: start to first step, warm, less a step, s" "$(for round in $(seq $((rounds + 1))); do
    # shellcheck disable=SC2086
    begin=$(now) && "$MESHC" run "bench/models/$1.mesh" $feed --steps 1 --fetch loss --threads "$threads" >/dev/null &&
      awk -v a="$begin" -v b="$(now)" -v s="$step" 'BEGIN {print b - a - s}'
  done | sort -g | head -n 1)" most 0.05
}
# tokens MODEL BATCH LENGTH VOCABULARY: writes the inputs of a language model
tokens() {
  inputs "$1" "dim b = $2, t = $3
output ids[b, t] = cast((index[t] * 37 + index[b]) % $4, i32)
output label[b, t] = cast((index[t] * 41 + index[b]) % $4, i32)"
}
# rows MODEL DIMS DATA LABELS: writes two inputs
rows() {
  inputs "$1" "dim $2
output $3
output $4"
}
start() {
  for model in $chosen; do
    case $model in
      iris) rows iris 'b = 30, i = 4' 'x[b, i] = sin(cast(index[i] + 7 * index[b], f32))' 'label[b] = cast(index[b] % 3, i32)' ;;
      mlp128_b64) rows "$model" 'b = 64, i = 784' 'x[b, i] = sin(cast(index[i] + 7 * index[b], f32))' 'label[b] = cast(index[b] % 10, i32)' ;;
      mlp1024) rows "$model" 'b = 256, i = 784' 'x[b, i] = sin(cast(index[i] + 7 * index[b], f32))' 'label[b] = cast(index[b] % 10, i32)' ;;
      cnn) rows cnn 'b = 64, y = 32, x = 32, channels = 3' \
        'image[b, y, x, channels] = sin(cast(index[y] + 7 * index[x] + 3 * index[channels] + index[b], f32))' 'label[b] = cast(index[b] % 10, i32)' ;;
      lstm) rows lstm 'b = 32, t = 64, i = 128' 'x[b, t, i] = sin(cast(index[i] + 7 * index[b] + index[t], f32))' \
        'label[b, t] = cast((index[t] + index[b]) % 128, i32)' ;;
      charlm) tokens charlm 12 64 65 ;;
      lm4) tokens lm4 8 128 4096 ;;
      lm6) tokens lm6 4 256 8192 ;;
      gpt2) tokens gpt2 4 64 50257 ;;
    esac
    first "$model"
  done
}

long() {
  bench lm4 --threads "$threads" --steps 3 --set t=2048 --set b=1 && half=$(number allocated <"$tmp/json")
  bench lm4 --threads "$threads" --steps 3 --set t=4096 --set b=1 && whole=$(number allocated <"$tmp/json") && long_time=$(seconds)
  # flops of the model, with attention in full: 6 tokens (12 d^2 layers + d vocabulary) + 12 layers tokens T d
  flops() { awk -v b="$1" -v t="$2" 'BEGIN {d = 256; l = 4; v = 4096; n = b * t; print 6 * n * (12 * d * d * l + d * v) + 12 * l * n * t * d}'; }
  bench lm4 --threads "$threads" --steps 5 && short_time=$(seconds)
  goal "lm4: memory with 4096 tokens / with 2048" "$(quotient "${whole:-0}" "${half:-0}")" most 2.1
  goal "lm4: flop rate with 4096 tokens / with 128" \
    "$(quotient "$(quotient "$(flops 1 4096)" "${long_time:-0}")" "$(quotient "$(flops 8 128)" "${short_time:-0}")")" least 0.6
}

permute() {
  for model in $chosen; do
    TIMER=$under bench/permute.sh -t "$threads" -i "bench/models/$model.mesh" >"$tmp/permuted"
    tail -n 1 "$tmp/permuted"
    goal "$model: slowest order of dims / fastest" "$(awk -v m="$model" '$1 == m {print $4; exit}' "$tmp/permuted")" most 1.15
  done
}

# shellcheck disable=SC2048,SC2086
for part in ${*:-$parts}; do
  echo "$part:"
  name=${part%%=*} chosen=$(models "${part%%=*}")
  case $part in *=*) chosen=$(echo "${part#*=}" | tr , ' ') ;; esac
  "$name"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

#!/bin/sh
# Shows how much the declared order of dims matters: permutes the dims of the parameters (and with -i of the inputs) of
# a model at random, and times a training step of each variant. Dims have names, so every variant is the same model.
#   bench/permute.sh [-n SEEDS] [-t THREADS] [-s STEPS] [-i] [-p] MODEL...   (40 seeds, 2 threads, 5 steps)
# -i also permutes the inputs of models without a data block. -p takes predicted times (meshc check), runs nothing.
# MESHC is the program. With TIMER set, it runs before each bench, for example TIMER="taskset -c 0,1".
#
#   model      fastest ms   slowest ms   ratio   slowest seed     seed 0 is the model as it is written
#
# The machine may be slower for a while: a variant that took more than 1.1 times as long as the fastest is measured
# beside it again, in turn, and the median of seven ratios counts. Exit 1 if the largest ratio of a model is more than
# 1.15. -k DIR keeps the variants.
cd "$(dirname "$0")/.." || exit 1
meshc=${MESHC:-$PWD/build/release/meshc}
seeds=40 threads=2 steps=5 inputs= predicted= keep=
while getopts n:t:s:k:ip option; do
  case $option in
    n) seeds=$OPTARG ;;
    t) threads=$OPTARG ;;
    s) steps=$OPTARG ;;
    k) keep=$OPTARG ;;
    i) inputs=1 ;;
    p) predicted=1 ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { echo "permute: a model is missing; see the first lines of bench/permute.sh" >&2; exit 2; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
XDG_CACHE_HOME=$tmp/cache
export XDG_CACHE_HOME
dir=${keep:-$tmp}

# seconds MODEL: of the fastest step, or predicted
seconds() {
  if [ "$predicted" ]; then "$meshc" check "$1" --for train --threads "$threads" --json
  else $TIMER "$meshc" bench "$1" --for train --threads "$threads" --steps "$steps" --json; fi 2>/dev/null |
    sed -n 's/^ *"\(best_seconds\|predicted_seconds\)": \([0-9.e+-]*\),*$/\2/p' | head -n 1
}

# beside VARIANT FASTEST: the median of the ratios of their times, measured in turn
beside() {
  for _ in 1 2 3 4 5 6 7; do
    echo "$(seconds "$1") $(seconds "$2")"
  done | awk 'NF == 2 {print $1 / $2}' | sort -g | awk '{v[NR] = $1} END {if (NR) print v[int((NR + 1) / 2)]}'
}

code=0
printf '%-14s %12s %12s %8s %8s\n' model "fastest ms" "slowest ms" ratio slowest
for model in "$@"; do
  name=$(basename "$model" .mesh)
  : >"$tmp/times"
  for seed in $(seq 0 "$seeds"); do
    variant=$dir/$name.$seed.mesh
    sh bench/permute_dims.sh "$seed" ${inputs:+-i} <"$model" >"$variant" || exit 1
    time=$(seconds "$variant")
    [ "$time" ] || { echo "permute: $name, seed $seed cannot be measured" >&2; code=1; continue; }
    echo "$time $seed" >>"$tmp/times"
  done
  sort -g "$tmp/times" >"$tmp/sorted"
  read -r _ fastest <"$tmp/sorted"
  while read -r time seed; do
    ratio=$(awk -v time="$time" 'NR == 1 {print time / $1}' "$tmp/sorted")
    if [ ! "$predicted" ] && awk "BEGIN {exit !($ratio > 1.1)}"; then
      ratio=$(beside "$dir/$name.$seed.mesh" "$dir/$name.$fastest.mesh")
    fi
    echo "${ratio:-9} $time $seed"
  done <"$tmp/sorted" | sort -g >"$tmp/ratios"
  awk -v model="$name" '
    NR == 1 || $2 < fastest {fastest = $2} {ratio = $1; time = $2; seed = $3}
    END {printf "%-14s %12.3f %12.3f %8.3f %8s\n", model, fastest * 1e3, time * 1e3, ratio, seed
         exit ratio > 1.15}' "$tmp/ratios" || code=1
done
exit $code

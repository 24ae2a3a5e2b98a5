#!/bin/sh
# Times greedy generation of the models of bench/models in meshc and in PyTorch with a cache of keys and values, in turn and on the
# same cores. Prints tokens a second of each, and the median of their ratios.
#   bench/generate.sh [option...] [MODEL...]    (charlm gpt2)
#   --threads N      threads of each, pinned to the first N cores (2)
#   --rounds N       how often each is timed, in turn (5)
#   --precision P    bf16: weights and products of both in bf16 (f32)
#   --peers FOLDER   environments of setup-peers.sh (meshc/peers in the user's cache folder)
# One text after a prompt of 8 ids, the prompt not counted, with random weights. The program is build/release/meshc, or $MESHC.
set -u
here=$(cd "$(dirname "$0")" && pwd)
meshc=${MESHC:-$here/../build/release/meshc}
threads=2 rounds=5 precision=f32 peers=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/meshc/peers chosen=''
while [ $# -gt 0 ]; do
  case $1 in
    --threads) threads=$2; shift ;;
    --rounds) rounds=$2; shift ;;
    --precision) precision=$2; shift ;;
    --peers) peers=$2; shift ;;
    -*) echo "generate.sh: there is no option $1" >&2; exit 2 ;;
    *) chosen="$chosen $1" ;;
  esac
  shift
done
python=$peers/torch/bin/python
[ -x "$meshc" ] && [ -x "$python" ] || { echo "generate.sh: $meshc or $python is missing" >&2; exit 2; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
pin=''
if command -v taskset >/dev/null; then pin="taskset -c 0-$((threads - 1))"; fi

extra=''
if grep -q -s AuthenticAMD /proc/cpuinfo && cc -shared -fPIC -o "$tmp/mkl_amd.so" "$here/peers/mkl_amd.c" 2>/dev/null; then
  extra="LD_PRELOAD=$tmp/mkl_amd.so" # as bench/run does
fi

ours() { # MODEL CONTEXT TOKENS: tokens a second
  $pin "$meshc" generate "$here/models/$1.mesh" --set t="$2" --prompt "0 1 2 3 4 5 6 7" --max-tokens "$3" --threads "$threads" --precision "$precision" --json |
    sed -n 's/^  "seconds": \([0-9.e-]*\).*/\1/p' | awk -v n="$3" '{ print n / $1 }'
}
theirs() {
  (cd "$here/peers" && env PEER_THREADS="$threads" OMP_NUM_THREADS="$threads" $extra $pin "$python" torch_generate.py "$1" "$2" 8 "$3" "$precision") | awk -v n="$3" '{ print n / $1 }'
}
median() { sort -g | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }

printf '%-8s %14s %14s %8s\n' model 'meshc ids/s' 'PyTorch ids/s' ratio
for model in ${chosen:-charlm gpt2}; do
  case $model in gpt2) context=256 tokens=64 ;; *) context=512 tokens=500 ;; esac
  for file in ours theirs ratio; do : >"$tmp/$file"; done
  i=0
  while [ $i -lt "$rounds" ]; do
    a=$(ours "$model" $context $tokens) b=$(theirs "$model" $context $tokens)
    [ -n "$a" ] && [ -n "$b" ] || exit 1
    echo "$a" >>"$tmp/ours"; echo "$b" >>"$tmp/theirs"
    echo "$a $b" | awk '{ print $1 / $2 }' >>"$tmp/ratio"
    i=$((i + 1))
  done
  printf '%-8s %14.1f %14.1f %8.2f\n' "$model" "$(median <"$tmp/ours")" "$(median <"$tmp/theirs")" "$(median <"$tmp/ratio")"
done

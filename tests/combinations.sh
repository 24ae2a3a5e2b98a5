#!/bin/sh
# Results do not depend on how a program is compiled or multiplied: suites and runners under combinations of
#   fusion      on, --no-fuse
#   effort      --opt 0 to 3
#   width       vectors of 128, 256 and 512 bits (MESHC_WIDTH); with 128 bits and without AVX-512 products no fused
#               multiply-add either, as on a processor without AVX (SUITE_WITHOUT, not of the program meshc)
#   products    with AVX-512 and OpenBLAS, without one of them, without both and without the instructions for bf16
#               (MESHC_F32, MESHC_BLAS, MESHC_BF16)
#
#   tests/combinations.sh        a sample: 16 combinations, in which each two values meet, with a random graph each
#                                and every other time a model
#   tests/combinations.sh shares the same 16 with a fifth of all suites each: every case under three of them or four
#   tests/combinations.sh pairs  the same 16 with all suites
#   tests/combinations.sh all    all of them
#
# A suite that computes no product of a library runs once for all kinds of products. Suites that make their own kernels
# at every width vary in effort only. Suites of the evaluator (suite_ops, suite_gradients, suite_layouts) do not
# depend on any of this: suite_compiled, suite_models and suite_random compile what they evaluate.
#   FUSE="0 1" OPT="0 1 2 3" WIDTH="128 256 512" PRODUCTS="all f32 blas none" RUNNERS="..." limit what is run, and of the
#   16 NUMBERS="0 5 ...", counted from 0.
. "$(dirname "$0")/common.sh"
how=${1:-sample}
[ "$how" = sample ] || XDG_CACHE_HOME=$tmp/cache
export XDG_CACHE_HOME

# The programs of the build, with a meshc that adds $SUITE_FLAGS to the commands that compute.
mkdir "$tmp/build"
for f in "$build"/*; do ln -s "$f" "$tmp/build/"; done
rm "$tmp/build/meshc"
cat >"$tmp/build/meshc" <<X
#!/bin/sh
case \${1:-} in
run | train | eval | predict | generate | bench) exec '$meshc' "\$@" \$SUITE_FLAGS ;;
*) exec '$meshc' "\$@" ;;
esac
X
chmod +x "$tmp/build/meshc"
MESHC=$tmp/build/meshc MESHC_DATA=$data
export MESHC MESHC_DATA

layouts=${EVERY:-97} # of so many layouts of suite_layouts one
# Prints the command of runner $1. Of suite_golden those cases are meant that run programs.
runner() {
  case $1 in
  suite_golden) echo "$build/suite_golden $(grep -lE '^# meshc (run|train|eval|predict)' tests/cases/run/* | tr '\n' ' ')" ;;
  layouts) echo "$build/suite_random every=$layouts+$number" ;;
  suite_*) echo "$build/$1" ;;
  *) echo "tests/$1.sh" ;;
  esac
}

# combination NAME COMMAND...: runs it with the variables that are set
combination() {
  name=$1
  shift
  began=$(date +%s)
  "$@" >"$tmp/log" 2>&1
  code=$?
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$tmp/log" | tail -n 1)
  [ "$how" = sample ] || echo "$name: ${line:-no count, exit $code}, $(($(date +%s) - began)) s"
  case $line in *" 0 failed,"*) [ "$code" = 0 ] && pass && return ;; esac
  fail "$name: ${line:-no count, exit $code}: $*"
  grep -E 'FAIL|BUG|error:' "$tmp/log" | head -n 20
}

# vary FUSE OPT WIDTH PRODUCTS: sets the variables, and $varied to what they are
vary() {
  unset MESHC_F32 MESHC_BLAS MESHC_BF16 SUITE_WITHOUT
  case $4 in f32 | none) export MESHC_BLAS=none ;; esac
  case $4 in blas | none) export MESHC_F32=none ;; esac
  case $4 in none) export MESHC_BF16=none ;; esac
  case $3$4 in 128blas | 128none) export SUITE_WITHOUT=fma,f16c ;; esac
  case $1 in 0) SUITE_FLAGS="--opt $2 --no-fuse" ;; *) SUITE_FLAGS="--opt $2" ;; esac
  MESHC_WIDTH=$3
  export MESHC_WIDTH SUITE_FLAGS
  varied="$SUITE_FLAGS, $3 bits, products $4"
}

kernels="suite_kernels suite_kernels_windows suite_elementwise"
own="suite_compiled suite_remat suite_micro_batches"
multiply="suite_models suite_random layouts suite_decode suite_verify suite_golden suite_ranks"
undivided="suite_last_batch suite_bits train long_sums permute" # without a list of cases that SUITE_PART divides
suites=${RUNNERS:-$kernels $own $multiply $undivided}

# pairs DO: calls DO for each of the 16
number=0
pairs() {
  for kind in all f32 blas none; do
    for opt in 0 1 2 3; do
      sum=$((number / 4 + opt))
      vary $((sum % 2)) "$opt" $((128 << (sum % 3))) "$kind"
      case " ${NUMBERS:-$number} " in *" $number "*) "$1" ;; esac
      number=$((number + 1))
    done
  done
}
models="mlp lstm cnn attention_blocks rules selective_scan train_blocks wide"
few() {
  combination "$varied" "$build/suite_random" "seed=$((number + 1))"
  [ $((number % 2)) = 0 ] || return
  combination "$varied" "$build/suite_models" "tests/models/${models%% *}.mesh"
  models=${models#* }
}
each() {
  for runner in $suites; do
    # shellcheck disable=SC2046
    combination "$runner $varied" $(runner "$runner")
  done
}
# A fifth of each suite: random graphs of other seeds, other layouts, and of the other suites every fifth case. Suites
# without a list of cases run whole under every fifth combination.
shares=5
share() {
  SUITE_PART=$((number % shares))/$shares SEEDS=21 FROM=$((1 + 21 * number))
  export SUITE_PART SEEDS FROM
  for runner in $suites; do
    case " $kernels " in *" $runner "*) [ "$number" -lt 4 ] || continue ;; esac
    case " $undivided " in *" $runner "*) [ $((number % shares)) = 0 ] || continue ;; esac
    # shellcheck disable=SC2046
    combination "$runner $varied" $(runner "$runner")
  done
}
# All combinations of runner $1.
every() {
  fuses=${FUSE:-1 0} widths=${WIDTH:-128 256 512} kinds=${PRODUCTS:-all f32 blas none}
  case " $kernels $own " in *" $1 "*) kinds=all ;; esac
  case " $kernels " in *" $1 "*) fuses=1 widths=512 ;; esac
  for fuse in $fuses; do
    for opt in ${OPT:-0 1 2 3}; do
      for width in $widths; do
        for kind in $kinds; do
          vary "$fuse" "$opt" "$width" "$kind"
          # shellcheck disable=SC2046
          combination "$1 $varied" $(runner "$1")
        done
      done
    done
  done
}

case $how in
sample) pairs few ;;
shares) pairs share ;;
pairs) pairs each ;;
*) for runner in $suites; do every "$runner"; done ;;
esac
finish

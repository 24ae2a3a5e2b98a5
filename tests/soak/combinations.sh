#!/bin/sh
# Results do not depend on how a program is compiled or multiplied: suites and runners under every combination of
#   fusion      on, --no-fuse
#   effort      --opt 0 to 3
#   width       vectors of 128, 256 and 512 bits (MESHC_WIDTH)
#   products    with AVX-512 and OpenBLAS, without one of them, without both (MESHC_F32, MESHC_BLAS)
# A suite that computes no product of a library runs once for all kinds of products. Suites that make their own kernels
# at every width vary in effort only.
#   FUSE="0 1" OPT="0 1 2 3" WIDTH="128 256 512" PRODUCTS="all f32 blas none" RUNNERS="..." limit what is run.
top=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
MESHC=${MESHC:-$top/build/release/meshc} MESHC_DATA=${MESHC_DATA:-$top/../shared/data}
. "$top/tests/common.sh"
cd "$top" || exit 1
XDG_CACHE_HOME=$tmp/cache
export XDG_CACHE_HOME

# The programs of the build, with a meshc that adds $flags to the commands that compute.
mkdir "$tmp/build"
for f in "$build"/*; do ln -s "$f" "$tmp/build/"; done
rm "$tmp/build/meshc"
cat >"$tmp/build/meshc" <<X
#!/bin/sh
case \${1:-} in
run | train | eval | predict | bench) exec '$meshc' "\$@" \$SUITE_FLAGS ;;
*) exec '$meshc' "\$@" ;;
esac
X
chmod +x "$tmp/build/meshc"
MESHC=$tmp/build/meshc MESHC_DATA=$data
export MESHC MESHC_DATA

# Prints the commands of runner $1: those that show programs instead of running them are not meant.
runner() {
  case $1 in
  suite_golden) echo "$build/suite_golden $(grep -lE '^# meshc (run|train|eval|predict)' tests/cases/run/* | tr '\n' ' ')" ;;
  suite_*) echo "$build/$1" ;;
  *) echo "tests/$1.sh" ;;
  esac
}

# combination NAME RUNNER: runs it with the variables that are set
combination() {
  began=$(date +%s)
  # shellcheck disable=SC2046
  $(runner "$2") >"$tmp/log" 2>&1
  code=$?
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$tmp/log" | tail -n 1)
  echo "$2 $1: ${line:-no count, exit $code}, $(($(date +%s) - began)) s"
  case $line in *" 0 failed,"*) [ "$code" = 0 ] && pass && return ;; esac
  fail "$2 $1"
  grep -E 'FAIL|BUG|error:' "$tmp/log" | head -n 20
}

# products NAME: sets the variables of one kind of products
products() {
  unset MESHC_F32 MESHC_BLAS
  case $1 in f32 | none) export MESHC_BLAS=none ;; esac
  case $1 in blas | none) export MESHC_F32=none ;; esac
}

kernels="suite_kernels suite_kernels_windows suite_elementwise"
own="suite_compiled suite_remat"
multiply="suite_models suite_random suite_verify suite_golden train"
for runner in ${RUNNERS:-$kernels $own $multiply}; do
  fuses=${FUSE:-1 0} widths=${WIDTH:-128 256 512} kinds=${PRODUCTS:-all f32 blas none}
  case " $kernels $own " in *" $runner "*) kinds=all ;; esac
  case " $kernels " in *" $runner "*) fuses=1 widths=512 ;; esac
  for fuse in $fuses; do
    for opt in ${OPT:-0 1 2 3}; do
      for width in $widths; do
        for kind in $kinds; do
          products "$kind"
          case $fuse in 0) SUITE_FLAGS="--opt $opt --no-fuse" ;; *) SUITE_FLAGS="--opt $opt" ;; esac
          MESHC_WIDTH=$width
          export MESHC_WIDTH SUITE_FLAGS
          combination "$SUITE_FLAGS, $width bits, products $kind" "$runner"
        done
      done
    done
  done
done
finish

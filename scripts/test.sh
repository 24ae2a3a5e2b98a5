#!/bin/sh
# Installs what is missing, builds, runs all tests: scripts/test.sh [release|dev|tsan]
# After the release tests the unit tests and the smaller suites run again under ASan and UBSan (preset dev), as long as
# MESHC_TEST_MINUTES (18) last: what does not fit in counts as skipped.
# Every runner ends in `N passed, N failed, N skipped`; so does this script, with the sums.
set -u
end=$(($(date +%s) + ${MESHC_TEST_MINUTES:-18} * 60))
# a relative path is of the caller's folder
case ${MESHC_DATA:-/} in /*) ;; *) MESHC_DATA=$PWD/$MESHC_DATA ;; esac
cd "$(dirname "$0")/.." || exit 1
preset=${1:-release}

scripts/setup.sh || { echo "setup failed"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT
scripts/build.sh "$preset" -DMESHC_WERROR=ON >"$logs/build" 2>&1 || {
  tail -n 40 "$logs/build"
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
}

passed=0 failed=0 skipped=0
busy=0 # seconds of processor time of all runners
# Adds up a runner's closing line; a runner without one counts as one failure.
count() {
  name=$1 log=$2 code=$3
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$log" | tail -n 1)
  if [ -n "$line" ]; then
    # shellcheck disable=SC2046
    set -- $(echo "$line" | tr -dc '0-9 ')
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + ${3:-0}))
    [ "$code" = 0 ] || [ "$2" != 0 ] || failed=$((failed + 1))
    [ "$code" = 0 ] && [ "$2" = 0 ] || { echo "--- $name (exit $code)"; grep -E 'FAIL|ERROR|Error|runtime error|error:' "$log" | head -n 40; }
  else
    failed=$((failed + 1))
    echo "--- $name ended without a count (exit $code)"
    tail -n 30 "$log"
  fi
}
# Prints the name of the log of a runner: tests/api.sh may run twice, with two builds.
log_of() { printf '%s/%s' "$logs" "$(basename "$MESHC_BUILD").$(basename "$1")"; }
# The script logs/run runs $1 with its output in the log of that name, exit code, seconds and seconds of processor time
# in LOG.end. cmocka, under the unit tests (test_*), counts in its own words. No runner begins after the time MESHC_END.
cat >"$logs/run" <<'END'
#!/bin/sh
start=$(date +%s)
name=$(basename "$1")
log=$(dirname "$0")/$(basename "$MESHC_BUILD").$name
if [ "$start" -ge "${MESHC_END:-$((start + 1))}" ]; then
  echo "0 passed, 0 failed, 1 skipped" >"$log"
  echo "0 0 0" >"$log.end"
  exit
fi
CMOCKA_MESSAGE_OUTPUT=STDOUT "$1" >"$log" 2>&1
code=$?
times >"$log.times" # the second line is of the runner: minutes and seconds, user and system
used=$(tail -n 1 "$log.times" | tr 'ms' '  ' | awk '{ printf "%.0f", 60 * $1 + $2 + 60 * $3 + $4 }')
case $name in
  test_*)
    ok=$(grep -c '^\[       OK \]' "$log")
    bad=$(grep -c '^\[  FAILED  \] [a-zA-Z_0-9]*$' "$log")
    skip=$(grep -c '^\[  SKIPPED \] [a-zA-Z_0-9]*$' "$log")
    [ "$code" = 0 ] || [ "$bad" != 0 ] || bad=1
    [ "$((ok + bad + skip))" = 0 ] || echo "$ok passed, $bad failed, $skip skipped" >>"$log" ;;
esac
echo "$code $(($(date +%s) - start)) $used" >"$log.end"
END
chmod +x "$logs/run"
report() {
  log=$(log_of "$1")
  name=$(basename "$log")
  read -r code seconds used <"$log.end"
  count "$name" "$log" "$code"
  busy=$((busy + used))
  case $name in *.test_*) ;; *) echo "$name: $(tail -n 1 "$log"), $seconds s, $used s of processor time" ;; esac
}
# Three at a time on two cores: most work on one core, and some wait for deadlines.
together() {
  printf '%s\n' "$@" | xargs -n 1 -P 3 "$logs/run"
  for runner in "$@"; do report "$runner"; done
}
# The programs and the compile cache of a build are what its runners use. Programs that several runners compile are
# compiled once: the key of the cache has the sources of the emitter (CMakeLists.txt), so that no stale code is run.
use() {
  MESHC_BUILD=$PWD/build/$1
  MESHC=$MESHC_BUILD/meshc
  XDG_CACHE_HOME=$MESHC_BUILD/test-cache
  export MESHC_BUILD MESHC XDG_CACHE_HOME
}

use "$preset"
MESHC_DATA=${MESHC_DATA:-$PWD/../shared/data}
export MESHC_DATA
TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp ${TSAN_OPTIONS:-}"
# Under the sanitizers memory that is not to be had is refused as by the system, not a fault. They guess the bounds of
# thread-local storage of libraries that are opened at run time, as LLVM is: wrong guesses end the search for leaks.
ASAN_OPTIONS="allocator_may_return_null=1 intercept_tls_get_addr=0 ${ASAN_OPTIONS:-}"
export TSAN_OPTIONS ASAN_OPTIONS

# -- the build under ASan and UBSan: beside the runners it gets the cores only while these wait ---------------------
units=$(basename -a -s .c tests/unit/*.c | sed 's/^/test_/')
small="suite_fuzz_graph suite_fuzz_data suite_fuzz_vocabulary suite_fuzz_package suite_fuzz_images suite_checkpoint_order suite_gspmd suite_ranks suite_last_batch"
left() { echo $((end - $(date +%s))); }
build_sanitized() {
  timeout "$(left)" cmake --preset dev -DMESHC_WERROR=ON && rest=$(left) || return
  [ "$rest" -gt 0 ] || return 124
  # shellcheck disable=SC2086
  exec nice -n 19 timeout "$rest" cmake --build --preset dev --target \
    $units $small meshc meshc_mpi inject one_json generate api_fuzz libmeshc libmeshc_static libmeshc_run libmeshc_run_static meshc_runner share
}
building=""
if [ "$preset" = release ] && [ "$(left)" -le 0 ]; then
  echo "no time for the sanitizers"
  skipped=$((skipped + 1))
elif [ "$preset" = release ]; then
  build_sanitized >"$logs/build" 2>&1 &
  building=$!
  trap '[ -z "$building" ] || kill "$building"; rm -rf "$logs"' EXIT
fi

# The longest first, so that no core waits at the end; unit tests are short.
first="tests/lost.sh tests/gpu.sh build/$preset/suite_models tests/gpu_ranks.sh tests/docs.sh build/$preset/suite_search_cases scripts/check.sh"
first="$first build/$preset/suite_explain build/$preset/suite_gpu_assemble tests/examples.sh build/$preset/suite_verify tests/failures.sh"
first="$first build/$preset/suite_golden build/$preset/suite_search tests/questions.sh build/$preset/suite_compiled tests/mpi.sh"
first="$first build/$preset/suite_partitioners build/$preset/suite_program"
others=""
for t in build/"$preset"/suite_* scripts/check.sh tests/*.sh build/"$preset"/test_*; do
  case " $first " in *" $t "*) ;; *) [ -x "$t" ] && [ -f "$t" ] && others="$others $t" ;; esac
done
# shellcheck disable=SC2086
together $first $others

# -- again under ASan and UBSan: the runners take what is left of the time -------------------------------------------
sanitized() {
  use dev
  MESHC_END=$end
  export MESHC_END
  wait "$building"
  code=$?
  building=""
  case $code in
    0) together tests/hostile.sh $(echo $units $small | sed 's/[^ ]*/build\/dev\/&/g') tests/api.sh tests/files.sh tests/data.sh tests/names.sh ;;
    124) echo "the sanitized build took too long: not run"; skipped=$((skipped + 1)) ;;
    *) tail -n 40 "$logs/build"; failed=$((failed + 1)) ;;
  esac
}
[ -z "$building" ] || sanitized

echo "the runners took $busy s of processor time"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

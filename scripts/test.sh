#!/bin/sh
# Installs what is missing, builds, runs all tests: scripts/test.sh [release|dev|tsan]
# Every runner ends in `N passed, N failed, N skipped`; so does this script, with the sums.
set -u
# a relative path is of the caller's folder
case ${MESHC_DATA:-/} in /*) ;; *) MESHC_DATA=$PWD/$MESHC_DATA ;; esac
cd "$(dirname "$0")/.." || exit 1
preset=${1:-release}

scripts/setup.sh || { echo "setup failed"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
scripts/build.sh "$preset" -DMESHC_WERROR=ON >build-"$preset".log 2>&1 || {
  tail -n 40 build-"$preset".log
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
}
rm -f build-"$preset".log

passed=0 failed=0 skipped=0
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT
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
# Runs $1; its output is in logs/run.NAME, its exit code and seconds in logs/run.NAME.end. cmocka, under the unit tests
# (test_*), counts in its own words.
cat >"$logs/run" <<'END'
#!/bin/sh
start=$(date +%s)
log=$0.$(basename "$1")
CMOCKA_MESSAGE_OUTPUT=STDOUT "$1" >"$log" 2>&1
code=$?
case $log in
  */run.test_*)
    ok=$(grep -c '^\[       OK \]' "$log")
    bad=$(grep -c '^\[  FAILED  \] [a-zA-Z_0-9]*$' "$log")
    skip=$(grep -c '^\[  SKIPPED \] [a-zA-Z_0-9]*$' "$log")
    [ "$code" = 0 ] || [ "$bad" != 0 ] || bad=1
    [ "$((ok + bad + skip))" = 0 ] || echo "$ok passed, $bad failed, $skip skipped" >>"$log" ;;
esac
echo "$code $(($(date +%s) - start))" >"$log.end"
END
chmod +x "$logs/run"
report() {
  name=$(basename "$1") log=$logs/run.$(basename "$1")
  read -r code seconds <"$log.end"
  count "$name" "$log" "$code"
  case $name in test_*) ;; *) echo "$name: $(tail -n 1 "$log"), $seconds s" ;; esac
}
# Three at a time on two cores: most work on one core, and some wait for deadlines.
together() {
  printf '%s\n' "$@" | xargs -n 1 -P 3 "$logs/run"
  for runner in "$@"; do report "$runner"; done
}

MESHC=$PWD/build/$preset/meshc
MESHC_DATA=${MESHC_DATA:-$PWD/../shared/data}
export MESHC MESHC_DATA
TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp ${TSAN_OPTIONS:-}"
# under the sanitizers memory that is not to be had is refused as by the system, not a fault
ASAN_OPTIONS="allocator_may_return_null=1 ${ASAN_OPTIONS:-}"
export TSAN_OPTIONS ASAN_OPTIONS

# Programs that several runners compile are compiled once: the suites share a compile cache, which the build tree keeps.
# Its key has the sources of the emitter (CMakeLists.txt), so that no stale code is run.
XDG_CACHE_HOME=$PWD/build/$preset/test-cache
export XDG_CACHE_HOME

# The longest first, so that no core waits at the end; unit tests are short.
first="tests/lost.sh tests/examples.sh build/$preset/suite_models build/$preset/suite_verify build/$preset/suite_partitioners"
first="$first tests/mpi.sh build/$preset/suite_search build/$preset/suite_golden tests/failures.sh build/$preset/suite_compiled"
others=""
for t in build/"$preset"/suite_* scripts/check.sh tests/*.sh build/"$preset"/test_*; do
  case " $first " in *" $t "*) ;; *) [ -x "$t" ] && [ -f "$t" ] && others="$others $t" ;; esac
done
# shellcheck disable=SC2086
together $first $others

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

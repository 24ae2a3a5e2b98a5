#!/bin/sh
# Installs what is missing, builds, runs all tests: scripts/test.sh [release|dev|tsan]
# Every runner ends in `N passed, N failed, N skipped`; so does this script, with the sums.
set -u
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
# cmocka counts in its own words
unit() {
  log=$(mktemp)
  CMOCKA_MESSAGE_OUTPUT=STDOUT "$1" >"$log" 2>&1
  code=$?
  ok=$(grep -c '^\[       OK \]' "$log")
  bad=$(grep -c '^\[  FAILED  \] [a-zA-Z_0-9]*$' "$log")
  skip=$(grep -c '^\[  SKIPPED \] [a-zA-Z_0-9]*$' "$log")
  [ "$code" = 0 ] || [ "$bad" != 0 ] || bad=1
  [ "$((ok + bad + skip))" != 0 ] && echo "$ok passed, $bad failed, $skip skipped" >>"$log"
  count "$(basename "$1")" "$log" "$code"
  rm -f "$log"
}
suite() {
  log=$(mktemp)
  start=$(date +%s)
  "$@" >"$log" 2>&1
  code=$?
  count "$(basename "$1")" "$log" "$code"
  echo "$(basename "$1"): $(tail -n 1 "$log"), $(($(date +%s) - start)) s"
  rm -f "$log"
}

MESHC=$PWD/build/$preset/meshc
MESHC_DATA=${MESHC_DATA:-$PWD/../shared/data}
export MESHC MESHC_DATA
TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp ${TSAN_OPTIONS:-}"
# under the sanitizers memory that is not to be had is refused as by the system, not a fault
ASAN_OPTIONS="allocator_may_return_null=1 ${ASAN_OPTIONS:-}"
export TSAN_OPTIONS ASAN_OPTIONS

suite tests/check_rooms.sh
for t in build/"$preset"/test_*; do [ -x "$t" ] && unit "$t"; done
for t in build/"$preset"/suite_*; do [ -x "$t" ] && suite "$t"; done
for t in tests/*.sh; do
  case $t in tests/check_rooms.sh) ;; *) [ -x "$t" ] && suite "$t" ;; esac
done

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

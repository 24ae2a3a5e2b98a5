#!/bin/sh
# Runs the tests that take minutes: scripts/soak.sh [NAME...], each NAME a runner tests/soak/NAME.sh; without names all
# of them. Build first (scripts/build.sh release). Every runner ends in `N passed, N failed, N skipped`; the last line
# here is the sum.
set -u
# a relative path is of the caller's folder
case ${MESHC:-/} in /*) ;; *) MESHC=$PWD/$MESHC ;; esac
case ${MESHC_DATA:-/} in /*) ;; *) MESHC_DATA=$PWD/$MESHC_DATA ;; esac
cd "$(dirname "$0")/.." || exit 1
MESHC=${MESHC:-$PWD/build/release/meshc}
MESHC_DATA=${MESHC_DATA:-$PWD/../shared/data}
export MESHC MESHC_DATA
[ -x "$MESHC" ] || { echo "soak: $MESHC is missing; run scripts/build.sh release" >&2; exit 2; }

[ $# -gt 0 ] || set -- $(for f in tests/soak/*.sh; do basename "$f" .sh; done)
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0
for name in "$@"; do
  start=$(date +%s)
  tests/soak/"$name".sh >"$log" 2>&1
  code=$?
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
  [ -n "$line" ] && [ "$code" = 0 ] || { grep -E 'FAIL|ERROR|error:' "$log" | head -n 40; tail -n 5 "$log"; }
  line=${line:-0 passed, 1 failed, 0 skipped}
  echo "$name: $line, $(($(date +%s) - start)) s"
  # the three numbers of the line
  # shellcheck disable=SC2046
  set -- $(echo "$line" | tr -dc '0-9 ') "$@"
  passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
  [ "$code" = 0 ] || [ "$2" != 0 ] || failed=$((failed + 1))
  shift 3
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

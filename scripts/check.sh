#!/bin/sh
# The house's rules, checked: scripts/check.sh [BUILD]   (default build/release, for the compiler's warnings)
#   rooms      include directions between rooms and folders, sizes of files    (scripts/check_rooms.sh)
#   text       format, trailing blanks, citations of files                     (scripts/check_text.sh)
#   words      words that the glossary retires                                 (scripts/check_words.sh)
#   warnings   clang warns about nothing; gcc builds with -Werror              (scripts/check_warnings.sh)
# Ends in `N passed, N failed, N skipped`, the sums of all.
set -u
build=${1:-${MESHC:-build/release/meshc}}
[ -d "$build" ] || build=$(dirname "$build")
case $build in /*) ;; *) build=$PWD/$build ;; esac
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0
for part in rooms text words warnings; do
  scripts/check_$part.sh "$build" >"$log" 2>&1
  code=$?
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
  [ "$code" = 0 ] || grep -v '^[0-9]* passed' "$log"
  echo "$part: ${line:-no count}"
  # shellcheck disable=SC2046
  set -- $(echo "${line:-0 passed, 1 failed, 0 skipped}" | tr -dc '0-9 ')
  passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
  [ "$code" = 0 ] || [ "$2" != 0 ] || failed=$((failed + 1))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

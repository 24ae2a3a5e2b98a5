#!/bin/sh
# Compiles every file of a build with clang, for its warnings: scripts/check_warnings.sh [BUILD]. The commands are those
# of the gcc build, which is built with -Werror. Ends in `N passed, N failed, N skipped`.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build/release}
clang=${CLANG:-clang-14}
command -v "$clang" >/dev/null 2>&1 || { echo "0 passed, 0 failed, 1 skipped"; exit 0; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
# `"command": "ccache /usr/bin/cc -D... -MD -MT A -MF B -o C -c FILE.c",` becomes `clang -fsyntax-only -D... FILE.c`
ninja -C "$build" -t compdb | sed -n 's/^ *"command": "\(.* -c [^ ]*\.c\)",$/\1/p' |
  sed -e 's/\\\(["\\]\)/\1/g' -e "s;^[^-]* -;$clang -fsyntax-only -Werror -;" -e 's/ -MD//; s/ -M[TF] [^ ]*//g; s/ -o [^ ]*//; s/ -c / /' |
  sort -u >"$tmp/commands"
passed=0 failed=0
cd "$build" || exit 1
while read -r command; do
  if sh -c "$command" >"$tmp/log" 2>&1; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "FAIL clang warns in ${command##* }"
    head -n 5 "$tmp/log"
  fi
done <"$tmp/commands"
[ $((passed + failed)) != 0 ] || failed=1
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]

#!/bin/sh
# Compiles every file of a build with clang, for its warnings: scripts/check_warnings.sh [BUILD]. The commands are those
# of the gcc build, which is built with -Werror. One clang reads all files of the same options, as most of its time is
# its own start; where it warns, each of them is read alone, to count them. Ends in `N passed, N failed, N skipped`.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build/release}
clang=${CLANG:-clang-14}
command -v "$clang" >/dev/null 2>&1 || { echo "0 passed, 0 failed, 1 skipped"; exit 0; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
# `"command": "ccache /usr/bin/cc -D... -MD -MT A -MF B -o C -c FILE.c",` becomes `-D... FILE.c`
ninja -C "$build" -t compdb | sed -n 's/^ *"command": "\(.* -c [^ ]*\.c\)",$/\1/p' |
  sed -e 's/\\\(["\\]\)/\1/g' -e "s;^[^-]* -;-;" -e 's/ -MD//; s/ -M[TF] [^ ]*//g; s/ -o [^ ]*//; s/ -c / /' |
  sort -u >"$tmp/commands"
sed 's/ [^ ]*$//' "$tmp/commands" | sort -u >"$tmp/options"
passed=0 failed=0
cd "$build" || exit 1
# Prints the files that are compiled with the options $1.
files_of() {
  OPTIONS="$1 " awk '{ rest = substr($0, length(ENVIRON["OPTIONS"]) + 1) }
    index($0, ENVIRON["OPTIONS"]) == 1 && rest !~ / / { print rest }' "$tmp/commands"
}
# alone OPTIONS FILE...: reads each file by itself
alone() {
  options=$1
  shift
  for file in "$@"; do
    if eval "$clang -fsyntax-only -Werror $options $file" >"$tmp/log" 2>&1; then passed=$((passed + 1)); else
      failed=$((failed + 1))
      echo "FAIL clang warns in $file"
      head -n 5 "$tmp/log"
    fi
  done
}
while read -r options; do
  files=$(files_of "$options")
  # shellcheck disable=SC2086
  set -- $files
  # the command of the compiler proper, whose last word is the file, takes several
  proper=$(eval "$clang -### -fsyntax-only -Werror $options $1" 2>&1 | tail -n 1)
  shift
  # shellcheck disable=SC2086
  if eval "$proper $*" >"$tmp/log" 2>&1; then passed=$((passed + $# + 1)); else alone "$options" $files; fi
done <"$tmp/options"
[ $((passed + failed)) != 0 ] || failed=1
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]

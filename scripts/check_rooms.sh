#!/bin/sh
# The house's rules on text: include directions between rooms and between their folders, headers that compile alone,
# sizes of files. Ends in `N passed, N failed, N skipped`.
set -u
cd "$(dirname "$0")/.." || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0
fail() { echo "FAIL $*"; failed=$((failed + 1)); }
pass() { passed=$((passed + 1)); }

# The folders of a room. A file includes headers of its own folder and of those before it.
folders() {
  case $1 in
    ir) echo "base program graph text eval passes" ;;
    collectives) echo "passes local ranks" ;;
    partition) echo "sharding place lower explain search" ;;
    codegen) echo "values order fuse cpu gpu program simulate" ;;
    runtime) echo "files tokens images data exec gpu train generate package library" ;;
    frontend) echo "syntax model builtin step driver verify report library command" ;;
  esac
}
# What the folders of a room include of other rooms. The runtime links no compiler.
others() {
  case $1 in
    ir/*) echo "" ;;
    collectives/passes) echo "ir/*" ;;
    collectives/*) echo "ir/base ir/program" ;;
    codegen/gpu) echo "ir/* collectives collectives/local" ;;
    partition/* | codegen/*) echo "ir/* collectives" ;;
    runtime/library) echo "include ir/base ir/program collectives/local collectives/ranks" ;;
    runtime | runtime/*) echo "ir/base ir/program collectives/local collectives/ranks" ;;
    frontend/library | frontend/command) echo "include ir/* collectives* partition* codegen* runtime*" ;;
    frontend | frontend/*) echo "ir/* collectives* partition* codegen* runtime*" ;;
    *) echo "ir/* collectives" ;; # the public header of a room
  esac
}
# Whether $1 is one of the patterns $2...
among() {
  word=$1
  shift
  for pattern in "$@"; do
    # shellcheck disable=SC2254
    case $word in $pattern) return 0 ;; esac
  done
  return 1
}
# Whether a file in folder $1 may include the header $2.
may_include() {
  from=$1 room=${1%%/*} to=${2%/*}
  case $2 in
    "$room"/*/*)
      sub=${to#*/}
      [ "$from" = "$room" ] && return 0
      among "${from#*/}" $(folders "$room" | sed "s/.*\b$sub\b/$sub/") ;;
    "$room"/*) return 0 ;;
    *_internal.h) return 1 ;; # of another room
    *) set -f; set -- $(others "$from"); set +f; among "$to" "$@" ;;
  esac
}

# Whether a file may include a header depends on their folders and on the ending of the header: each such pair is
# judged once.
of_rooms=$(find ir collectives partition codegen runtime frontend -maxdepth 2 -name '*.[ch]')
# shellcheck disable=SC2086
grep -o '^#include "[a-z]*/[^"]*"' $of_rooms /dev/null | sed 's/:#include "/ /; s/"$//' >"$tmp/includes"
awk '{ from = $1; to = $2; sub("/[^/]*$", "", from); sub("/[^/]*$", "", to)
       print from, to "/" ($2 ~ /_internal\.h$/ ? "x_internal.h" : "x.h"), $1, $2 }' "$tmp/includes" >"$tmp/pairs"
cut -d' ' -f1,2 "$tmp/pairs" | sort -u | while read -r from header; do
  may_include "$from" "$header" || grep -F "$from $header " "$tmp/pairs" | grep "^$from "
done | cut -d' ' -f3,4 >"$tmp/wrong"
for file in $(cut -d' ' -f1 "$tmp/wrong" | sort -u); do
  fail "$file includes$(sed -n "s;^$file ; ;p" "$tmp/wrong" | tr -d '\n')"
done
passed=$(($(echo "$of_rooms" | wc -l) - failed))

# The commands of the program include the headers that docs/library.md lists, and those of their folder. meshc_gen.c is
# a tool of the build.
for file in frontend/command/*.[ch]; do
  [ "$file" = frontend/command/meshc_gen.c ] || sed -n 's/^#include "\([a-z]*\/[^"]*\)".*/\1/p' "$file"
done | grep -v '^frontend/command/' | sort -u >"$tmp/used"
sed -n '/^## What the program uses/,$ s/^| `\([^`]*\)` .*/\1/p' docs/library.md | sort -u >"$tmp/listed"
wrong=$(diff "$tmp/used" "$tmp/listed" | sed -n 's/^< \(.*\)/\1 is not in the list/p; s/^> \(.*\)/no command includes \1/p')
if [ -z "$wrong" ]; then pass; else fail "docs/library.md, what the program uses: $wrong"; fi

# Placement estimates what lowering would send (place_versions.c); it does not lower.
if grep -nE '\b(lower|collectives_[a-z]+)\(' partition/place/*.c; then fail "partition/place calls a later stage"; else pass; fi

for header in */*.h */*/*.h; do
  if ${CC:-cc} -std=c17 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -Wall -Wextra -Wpedantic -Werror -I. \
    -fsyntax-only -x c "$header" 2>/dev/null; then pass; else fail "$header does not compile alone"; fi
done

sources=$(ls */*.c */*/*.c */*/*/*.c | grep -v '^build/')
# shellcheck disable=SC2086
for long in $(wc -l $sources | awk '$2 != "total" && $1 > 800 { print $2 ":" $1 }'); do
  fail "${long%:*} has ${long#*:} lines, 800 is the limit"
  passed=$((passed - 1))
done
passed=$((passed + $(echo "$sources" | wc -l)))

for folder in ir/* collectives/* partition/* codegen/* runtime/* frontend/*; do
  [ -d "$folder" ] || continue
  if [ -s "$folder/README.md" ] && [ "$(wc -l <"$folder/README.md")" -le 20 ]; then pass; else fail "$folder needs a README.md of at most 20 lines"; fi
done

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]

#!/bin/sh
# Fails on words that the glossary retires (scripts/retired_words.txt) in code, comments, strings, pages and scripts.
# One check for each file. Ends in `N passed, N failed, N skipped`.
set -u
cd "$(dirname "$0")/.." || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
find ir collectives partition codegen runtime frontend include tests scripts docs bench examples ./*.md CMakeLists.txt -type f \
  \( -name '*.[ch]' -o -name '*.def' -o -name '*.md' -o -name '*.sh' -o -name '*.mesh' -o -name '*.txt' \) 2>/dev/null |
  grep -vE '^scripts/retired_words\.txt$|/min_cut' | sort >"$tmp/files"
: >"$tmp/found"
grep -vE '^(#|$)' scripts/retired_words.txt |
  while IFS='	' read -r word instead where allowed; do
    grep -E "$where" "$tmp/files" | xargs -r grep -niE "(^|[^a-zA-Z])($word)([^a-zA-Z]|\$)" /dev/null |
      grep -vE "${allowed:-^\$}" | sed "s;\$;   <- write: $instead;" >>"$tmp/found"
  done
sed 's/^/FAIL /' "$tmp/found"
failed=$(cut -d: -f1 "$tmp/found" | sort -u | wc -l)
echo "$(($(wc -l <"$tmp/files") - failed)) passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]

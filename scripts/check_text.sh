#!/bin/sh
# The house's rules on text: format, trailing blanks, citations of files that do not exist, the list of files.
# Ends in `N passed, N failed, N skipped`.
set -u
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0 skipped=0
fail() { echo "FAIL $*"; failed=$((failed + 1)); }
pass() { passed=$((passed + 1)); }
rooms="ir collectives partition codegen runtime frontend"

# all_but FILES WRONG WHAT: FILES, one a line, of which those in the lines of WRONG fail
all_but() {
  for file in $2; do fail "$file $3"; done
  passed=$((passed + $(echo "$1" | wc -l) - $(echo "$2" | grep -c .)))
}

# The version that .clang-format names: others break lines elsewhere.
if ${CLANG_FORMAT:-clang-format-14} --version 2>/dev/null | grep -q ' version 14\.'; then
  code=$(find $rooms tests bench examples -name '*.[ch]')
  # shellcheck disable=SC2086
  said=$(${CLANG_FORMAT:-clang-format-14} --dry-run -Werror $code 2>&1) || said=${said:-clang-format fails}
  unformatted=$(echo "$said" | sed -n 's/^\([^ :]*\):[0-9]*:[0-9]*: error: .*/\1/p' | sort -u)
  [ -z "$said" ] || [ -n "$unformatted" ] || fail "$said"
  all_but "$code" "$unformatted" "is not formatted: clang-format -i it"
else
  skipped=$((skipped + 1))
fi

texts=$(find $rooms tests/*.sh tests/unit tests/suite scripts docs README.md CONTRIBUTING.md CMakeLists.txt -type f \( -name '*.[chm]*' -o -name '*.sh' -o -name '*.def' -o -name '*.txt' \))
# shellcheck disable=SC2086
grep -nE '[ 	]+$' $texts /dev/null
# shellcheck disable=SC2086
all_but "$texts" "$(grep -lE '[ 	]+$' $texts /dev/null)" "has trailing blanks"

# room/folder/file.c, wherever a page or a comment names one
for cited in $(grep -rhoE "\b(ir|collectives|partition|codegen|runtime|frontend)/[a-z0-9_/]+\.(c|h|def)\b" \
  $rooms tests/unit tests/suite docs README.md CONTRIBUTING.md CMakeLists.txt --include='*.[ch]' --include='*.def' --include='*.md' --include='*.txt' | sort -u); do
  if [ -e "$cited" ]; then pass; else fail "$cited is cited and does not exist: $(grep -rlF "$cited" $rooms tests/unit tests/suite docs README.md CONTRIBUTING.md CMakeLists.txt | head -n 3 | tr '\n' ' ')"; fi
done

# the list of files in the page of the architecture
if scripts/list_files.sh --check; then pass; else fail "docs/architecture.md lists other files or heads: scripts/list_files.sh --write"; fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

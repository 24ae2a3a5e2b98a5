#!/bin/sh
# The house's rules on text: format, trailing blanks, citations of files that do not exist, the list of files.
# Ends in `N passed, N failed, N skipped`.
set -u
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0 skipped=0
fail() { echo "FAIL $*"; failed=$((failed + 1)); }
pass() { passed=$((passed + 1)); }
rooms="ir collectives partition codegen runtime frontend"

# The version that .clang-format names: others break lines elsewhere.
if ${CLANG_FORMAT:-clang-format-14} --version 2>/dev/null | grep -q ' version 14\.'; then
  for file in $(find $rooms tests bench examples -name '*.[ch]'); do
    if ${CLANG_FORMAT:-clang-format-14} --dry-run -Werror "$file" 2>/dev/null; then pass; else fail "$file is not formatted: clang-format -i $file"; fi
  done
else
  skipped=$((skipped + 1))
fi

for file in $(find $rooms tests/*.sh tests/unit tests/suite scripts docs README.md CONTRIBUTING.md CMakeLists.txt -name '*.[chm]*' -o -name '*.sh' -o -name '*.def' -o -name '*.txt'); do
  [ -f "$file" ] || continue
  if grep -nE '[ 	]+$' "$file" /dev/null; then fail "$file has trailing blanks"; else pass; fi
done

# room/folder/file.c, wherever a page or a comment names one
for cited in $(grep -rhoE "\b(ir|collectives|partition|codegen|runtime|frontend)/[a-z0-9_/]+\.(c|h|def)\b" \
  $rooms tests/unit tests/suite docs README.md CONTRIBUTING.md CMakeLists.txt --include='*.[ch]' --include='*.def' --include='*.md' --include='*.txt' | sort -u); do
  if [ -e "$cited" ]; then pass; else fail "$cited is cited and does not exist: $(grep -rlF "$cited" $rooms tests/unit tests/suite docs README.md CONTRIBUTING.md CMakeLists.txt | head -n 3 | tr '\n' ' ')"; fi
done

# the list of files in the page of the architecture
if scripts/list_files.sh --check; then pass; else fail "docs/architecture.md lists other files or heads: scripts/list_files.sh --write"; fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

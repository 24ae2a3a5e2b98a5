#!/bin/sh
# Prints the list of files at the end of docs/architecture.md: each file of the product with the first sentence of its
# head. With --write the page gets the new list; scripts/check_text.sh fails on an old one.
set -u
cd "$(dirname "$0")/.." || exit 1
page=docs/architecture.md
# A header is listed only if no source file has its name. The sentence ends at a period, an example or a blank line.
list() {
  for folder in $(find ir collectives partition codegen runtime frontend include -type d | LC_ALL=C sort); do
    files=$(find "$folder" -maxdepth 1 -name '*.[ch]' -o -maxdepth 1 -name '*.def' | LC_ALL=C sort)
    [ -n "$files" ] || continue
    printf '\n**%s**\n\n' "$folder"
    for file in $files; do
      case $file in *.h) [ -e "${file%.h}.c" ] && continue ;; esac
      awk -v name="$(basename "$file")" '
        { line = $0; comment = line ~ /^(\/\/|\/\*| \*)/; sub(/^(\/\/|\/\*| \*) ?/, "", line) }
        comment && line !~ /^( |$)/ { text = text (text == "" ? "" : " ") line; next }
        text != "" { exit }
        END {
          gsub(/et al\. /, "et al.@", text)
          if (match(text, /\.( |$)/)) text = substr(text, 1, RSTART)
          gsub(/et al\.@/, "et al. ", text)
          sub(/ *\*\/$/, "", text); sub(/:$/, ".", text)
          print "- `" name "`: " text
        }' "$file"
    done
  done
}
start='## All files'
new=$(
  sed "/^$start\$/q" $page
  echo
  echo "The first sentence of each file's head, by folder (made by \`scripts/list_files.sh --write\`)."
  list
)
case ${1:-} in
  --write) printf '%s\n' "$new" >$page.new && mv $page.new $page ;;
  --check) [ "$new" = "$(cat $page)" ] ;;
  *) list ;;
esac

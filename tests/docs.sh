#!/bin/sh
# The examples of README.md and of the pages of docs are true: every model is checked, every command is run and prints
# what stands below it. Ends in `N passed, N failed, N skipped`.
#
#   ```mesh             a model: `meshc check` accepts it
#   ```mesh net.mesh    the same, kept for the commands that follow on the page
#   ```mesh E0303       refused with this error, and no other
#   ```console          `$ meshc ...`: run; the lines below stand in its output in this order, `...` for any text
#   ```file NAME        a file for the commands that follow
#   ```sh               shown only; at the top of docs/examples/NAME.md: the first command in examples/NAME.mesh
#
# Commands other than meshc are shown, not run (skipped); so is training behind `# not run`.
# Every relative link leads to a file, its anchor to a heading, and the manual of the command line names every option.
. "$(dirname "$0")/common.sh"

bad() { fail "$page:$line: $*"; }

check_model() { # NAME CODE
  (cd "$here" && "$meshc" check "$1" >"$tmp/out" 2>"$tmp/err")
  code=$?
  if [ -z "$2" ]; then
    [ $code = 0 ] && { pass; return; }
    bad "check says $(head -n 3 "$tmp/err")"
  elif [ $code != 3 ] || ! grep -q "\[$2\]" "$tmp/err" || grep 'error:' "$tmp/err" | grep -qv "\[$2\]"; then
    bad "expected $2, check says (exit $code) $(head -n 3 "$tmp/err")"
  else
    pass
  fi
}

run_command() { # the words behind `$ `, expected lines in $tmp/want
  case $1 in
  meshc*"# not run") skip; return ;;
  meshc*) ;;
  *) skip; return ;;
  esac
  (cd "$here" && eval "\"\$meshc\"${1#meshc}" >"$tmp/out" 2>&1)
  code=$?
  if [ $code -gt 127 ]; then bad "exit $code: $1"; return; fi
  lacks=$(in_order "$tmp/want" "$tmp/out")
  if [ -n "$lacks" ]; then bad "$1 does not print: $lacks; it prints $(head -c 600 "$tmp/out")"; else pass; fi
}

# A page is cut at its fences; `blocks` gives LINE INFO FILE for each.
blocks() {
  awk -v dir="$tmp/block" '/^```/ { if (inside) { close(file); print start, file, info; inside = 0 }
      else { inside = 1; start = NR; info = substr($0, 4); file = dir "." NR; printf "" > file } next }
    inside { print > file }' "$1"
}

console() { # FILE
  command=""
  : >"$tmp/want"
  while IFS= read -r text || [ -n "$text" ]; do
    case $text in
    '$ '*)
      [ -z "$command" ] || run_command "$command"
      command=${text#'$ '}
      : >"$tmp/want"
      ;;
    *) printf '%s\n' "$text" >>"$tmp/want" ;;
    esac
  done <"$1"
  [ -z "$command" ] || run_command "$command"
}

# The page of an example begins with the command that trains it: the first lines of commands in the file of the model, which
# tests/examples.sh runs. A model that is not trained here begins with the command that runs it.
header_commands() { sed -n -e '/^#/!q' -e 's/^#   \([^.].*\)/\1/p' "$1" | sed 's/   *.*//'; }
for page in docs/examples/*.md; do
  name=$(basename "$page" .md) line=3
  [ "$name" = README ] && continue
  awk 'NR == 3 && $0 != "```sh" { exit } NR > 3 && /^```/ { exit } NR > 3' "$page" >"$tmp/begin"
  header_commands "examples/$name.mesh" | head -n "$(wc -l <"$tmp/begin")" >"$tmp/header"
  if ! grep -qE 'meshc (train|run) examples/' "$tmp/begin"; then
    bad "the page does not begin with the command that trains the example"
  elif ! cmp -s "$tmp/begin" "$tmp/header"; then
    bad "the page begins with '$(cat "$tmp/begin")', examples/$name.mesh with '$(cat "$tmp/header")'"
  else
    pass
  fi
done

for page in README.md docs/*.md docs/*/*.md; do
  here=$tmp/pages/${page%.md}
  mkdir -p "$here"
  ln -s "$root/examples" "$here/examples"
  ln -s "$root/tests/vocabularies" "$here/vocabularies"
  ln -s "$root/tests/pictures/signs" "$here/signs"
  blocks "$page" >"$tmp/list"
  while read -r line file kind word; do
    case $kind in
    mesh)
      case $word in
      E0*) cp "$file" "$here/refused.mesh"; check_model refused.mesh "$word" ;;
      *) cp "$file" "$here/${word:-model.mesh}"; check_model "${word:-model.mesh}" "" ;;
      esac ;;
    file) cp "$file" "$here/$word" ;;
    console) console "$file" ;;
    esac
  done <"$tmp/list"
done

# PAGE:LINE TARGET of every link that leads nowhere. Anchors are made of headings as GitHub makes them.
dead_links() { # PAGE...
  awk '
    function anchor(text) {
      text = tolower(text)
      gsub(/`/, "", text)
      gsub(/[^a-z0-9 _-]/, "", text)
      gsub(/ /, "-", text)
      return text
    }
    function absolute(page, target,   path) {
      path = page
      if (!sub(/\/[^\/]*$/, "", path)) path = "."
      path = path "/" target
      gsub(/\/\.\//, "/", path)
      while (sub(/[^\/.]+\/\.\.\//, "", path)) {}
      sub(/^\.\//, "", path)
      return path
    }
    FNR == 1 { fence = 0 }
    /^```/ { fence = !fence; next }
    fence { next }
    /^#+ / { text = $0; sub(/^#+ /, "", text); known[FILENAME "#" anchor(text)] }
    { rest = $0
      gsub(/`[^`]*`/, "", rest)
      while (match(rest, /\]\([^)]*\)/)) {
        target = substr(rest, RSTART + 2, RLENGTH - 3)
        rest = substr(rest, RSTART + RLENGTH)
        if (target ~ /^[a-z]+:/) continue
        link[++n] = target; at[n] = FILENAME ":" FNR; page[n] = FILENAME
      } }
    END { for (i = 1; i <= n; i++) {
        k = index(link[i], "#")
        file = k == 1 ? page[i] : absolute(page[i], k ? substr(link[i], 1, k - 1) : link[i])
        if (system("test -e \"" file "\"") != 0) print at[i], link[i]
        else if (k && !((file "#" substr(link[i], k + 1)) in known)) print at[i], link[i]
      } }' "$@"
}
dead=$(dead_links README.md CONTRIBUTING.md docs/*.md docs/*/*.md)
if [ -z "$dead" ]; then pass; else fail "links that lead nowhere: $dead"; fi

for option in $(sed -n 's/^OPTION([A-Z_]*, *"\(--[a-z-]*\)".*/\1/p' frontend/driver/options.def | sort -u); do
  if grep -q -e "\`$option\`" docs/cli.md docs/cli/*.md; then pass; else fail "docs/cli.md and docs/cli have no $option"; fi
done
for name in $(sed -n 's/^BUILTIN(\([a-z0-9_]*\),.*/\1/p; s/^KEYWORD("\([a-z]*\)".*/\1/p' frontend/model/builtin.def frontend/syntax/token.def); do
  if grep -q -e "\`$name[\`([ ]" docs/language/*.md; then pass; else fail "docs/language has no $name"; fi
done
finish

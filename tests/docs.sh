#!/bin/sh
# The examples of README.md and docs/*.md are true: every model is checked, every command is run and prints
# what stands below it. Ends in `N passed, N failed, N skipped`.
#
#   ```mesh             a model: `meshc check` accepts it
#   ```mesh net.mesh    the same, kept for the commands that follow on the page
#   ```mesh E0303       refused with this error, and no other
#   ```console          `$ meshc ...`: run; the lines below stand in its output in this order, `...` for any text
#   ```file NAME        a file for the commands that follow
#
# Commands other than meshc are shown, not run (skipped); so is training behind `# not run`.
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

# Whether the lines of $1 stand in $2 in this order; `...` matches any text.
in_order() {
  awk -v list="$1" 'function fits(text, pattern,   part, k, i, at) {
      k = split(pattern, part, /\.\.\./)
      for (i = 1; i <= k; i++) {
        at = index(text, part[i])
        if (!at || (i == 1 && at != 1)) return 0
        text = substr(text, at + length(part[i]))
      }
      return part[k] == "" || text == ""
    }
    BEGIN { at = 1; while ((getline text < list) > 0) want[++n] = text }
    { while (at <= n && (want[at] == "" || want[at] == "...")) at++; if (at <= n && fits($0, want[at])) at++ }
    END { while (at <= n && (want[at] == "" || want[at] == "...")) at++; if (at <= n) print want[at] }' "$2"
}

run_command() { # the words behind `$ `, expected lines in $tmp/want
  case $1 in
  meshc*"# not run") skip; return ;;
  meshc*) ;;
  *) skip; return ;;
  esac
  (cd "$here" && eval "$meshc${1#meshc}" >"$tmp/out" 2>&1)
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

for page in README.md docs/*.md docs/examples/*.md; do
  here=$tmp/pages/${page%.md}
  mkdir -p "$here"
  ln -s "$root/examples" "$here/examples"
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
finish

#!/bin/sh
# Models that want to break the compiler end in an error with a place, never in a crash or a hang.
# Ends in `N passed, N failed, N skipped`.
set -u
cd "$(dirname "$0")/.." || exit 1
meshc=${MESHC:-$PWD/build/release/meshc}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

# want CODE NAME FILE: `check` ends with that code and says something, within 20 seconds
want() {
  timeout 20 "$meshc" check "$3" >"$tmp/out" 2>"$tmp/err"
  code=$?
  if [ "$code" = "$1" ] && { [ "$1" = 0 ] || grep -q 'error:' "$tmp/err"; }; then passed=$((passed + 1)); else
    echo "FAIL $2: exit $code, expected $1: $(head -c 300 "$tmp/err")"
    failed=$((failed + 1))
  fi
}
repeat() { awk -v s="$1" -v n="$2" 'BEGIN { for (i = 0; i < n; i++) printf "%s", s }'; }

{ echo "dim n = 3"; echo "input x[n]"; printf 'y = '; repeat '(' 100000; printf x; repeat ')' 100000; echo; } >"$tmp/parentheses.mesh"
want 3 "100,000 parentheses" "$tmp/parentheses.mesh"
{ echo "dim n = 3"; echo "input x[n]"; printf 'y = '; repeat 'exp(' 100000; printf x; repeat ')' 100000; echo; } >"$tmp/calls.mesh"
want 3 "100,000 calls" "$tmp/calls.mesh"
{ echo "dim n = 3"; echo "input x[n]"; printf 'y = '; repeat '-' 100000; echo x; } >"$tmp/minus.mesh"
want 3 "100,000 minus signs" "$tmp/minus.mesh"
{ echo "dim n = 3"; repeat 'for i in 0..1 { ' 100000; } >"$tmp/blocks.mesh"
want 3 "100,000 blocks" "$tmp/blocks.mesh"
{ echo "dim n = 3"; echo "input x[n]"; printf 'y = x'; repeat ' + x' 19999; echo; } >"$tmp/sum.mesh"
want 0 "a sum of 20,000 terms" "$tmp/sum.mesh"
head -c 1000000 /dev/urandom >"$tmp/random.mesh"
want 3 "a million random bytes" "$tmp/random.mesh"
awk 'BEGIN { srand(5); c = "abxy01 =+*()[]{},.->#\"~:;\n"; for (i = 0; i < 1000000; i++) printf "%s", substr(c, 1 + int(rand() * length(c)), 1) }' >"$tmp/tokens.mesh"
want 3 "a million random characters of models" "$tmp/tokens.mesh"
printf 'dim n = 3\ninput x[n]\ny = x\0 + x\n' >"$tmp/nul.mesh"
want 3 "a NUL byte" "$tmp/nul.mesh"
printf 'dim n = 3\n# \377\376\n' >"$tmp/utf8.mesh"
want 3 "invalid UTF-8" "$tmp/utf8.mesh"
printf 'dim n = 2147483647, m = 2147483647, k = 2147483647\ninput x[n, m, k]\n' >"$tmp/large.mesh"
want 3 "a tensor of 2^93 elements" "$tmp/large.mesh"
: >"$tmp/empty.mesh"
want 0 "an empty file" "$tmp/empty.mesh"

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]

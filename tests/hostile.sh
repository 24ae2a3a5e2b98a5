#!/bin/sh
# Models that want to break the compiler end in an error with a place, never in a crash or a hang.
# Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"

# A small limit of the stack: a soft one is raised, a hard one is an error. Sanitizers may need more to start.
printf 'dim n = 3\noutput y = index[n]\n' >"$tmp/small.mesh"
if (ulimit -s 128; "$meshc" version >/dev/null 2>&1); [ $? -lt 128 ]; then
  (ulimit -S -s 128; "$meshc" run "$tmp/small.mesh" >"$tmp/out" 2>"$tmp/err")
  holds "a soft limit of the stack" $? 0
  (ulimit -s 128; "$meshc" run "$tmp/small.mesh" >"$tmp/out" 2>"$tmp/err")
  holds "a hard limit of the stack" "$? $(grep -c 'the stack may have 128.0 KiB, and meshc needs 256.0 KiB' "$tmp/err")" '7 1'
else
  skip 2
fi

# want CODE NAME FILE [OPTION...]: `check` ends with that code and says something, within two minutes
want() {
  wanted=$1 named=$2
  shift 2
  timeout 120 "$meshc" check "$@" >"$tmp/out" 2>"$tmp/err"
  code=$?
  if [ "$code" = "$wanted" ] && { [ "$wanted" = 0 ] || grep -q 'error:' "$tmp/err"; }; then pass; else
    fail "$named: exit $code, expected $wanted: $(head -c 300 "$tmp/err")"
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

# Many of everything: each takes a second or two and less than a GB on an idle core, or is refused.
# FORM N: lines of FORM with 0 .. N-1 for each @ (sed: awk's gsub takes quadratic time in mawk).
count() { seq 0 $(($2 - 1)) | sed "s/.*/$(printf '%s' "$1" | sed 's/[&/]/\\&/g; s/@/\&/g')/"; }
# The sanitizers reserve more address space than that. Without them a command takes at most 5 seconds of processor time.
(ulimit -v 3000000; "$meshc" version >/dev/null 2>&1) && ulimit -v 3000000 && ulimit -t 5
{ echo "dim n = 3"; echo "input x[n]"; printf 'output y = x'; repeat ' + x' 500000; echo; } >"$tmp/chain.mesh"
want 3 "a chain of 500,000 operators" "$tmp/chain.mesh"
{ echo "dim n = 3"; echo "input x[n]"; count 'y@ = x + @' 200000; echo "output y0"; } >"$tmp/statements.mesh"
want 3 "200,000 statements" "$tmp/statements.mesh"
{ echo "dim n = 3"; echo "input x[n]"; count 'y@ = z@ + 1' 30000; } >"$tmp/unknown.mesh"
want 3 "30,000 unknown names" "$tmp/unknown.mesh"
{ count 'dim d@ = 3' 100000; echo "input x[d0]"; } >"$tmp/dims.mesh"
want 0 "100,000 dims" "$tmp/dims.mesh"
{ echo "dim n = 3"; count 'fn f@(x) = x + 1' 100000; } >"$tmp/functions.mesh"
want 0 "100,000 functions" "$tmp/functions.mesh"
{ echo "dim n = 3"; echo 'param w = 1'; echo 'train w { optimizer = sgd(lr = 1)'; count 'k@ = 3' 100000; echo "}"; } >"$tmp/keys.mesh"
want 3 "100,000 keys" "$tmp/keys.mesh"
{ echo "dim n = 3"; echo 'input x[n]'; echo 'data train over n {'; count 'k@ = npy("a")' 100000; echo "}"; } >"$tmp/fields.mesh"
want 3 "100,000 fields of data" "$tmp/fields.mesh"
{ echo "dim n = 3"; echo 'input x[n]'; echo "mesh rows = 2"; count 'layout p@.*: n -> rows' 100000; } >"$tmp/rules.mesh"
want 3 "100,000 layout rules" "$tmp/rules.mesh"
{ echo "dim n = 3"; count 'output p@ = @' 100000; } >"$tmp/outputs.mesh"
want 3 "100,000 outputs" "$tmp/outputs.mesh"
# a GPU computes the scores of attention wherever it reads them
printf 'dim t = 1024, s = t, k = 8\ninput q[t, k]\ninput key[s, k]\ninput v[s, k]\ns0 = sum[k](q * key)\n' >"$tmp/squares.mesh"
awk 'BEGIN { for (i = 1; i <= 34; i++) printf "s%d = s%d * s%d\n", i, i - 1, i - 1 }' >>"$tmp/squares.mesh"
printf 'p = softmax[s](s34)\noutput y[t, k] = sum[s](p * v)\n' >>"$tmp/squares.mesh"
want 0 "scores squared 34 times" "$tmp/squares.mesh" --device cuda
# shellcheck disable=SC2046
timeout 120 "$meshc" check "$tmp/empty.mesh" $(repeat '--set b=1 ' 20000) >"$tmp/out" 2>"$tmp/err"
code=$?
if [ $code = 2 ]; then pass; else
  fail "20,000 settings: exit $code: $(head -c 300 "$tmp/err")"
fi

finish

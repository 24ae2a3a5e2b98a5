#!/bin/sh
# Every example, trained as its first lines say, under its layouts: what it reaches must not depend on them.
# The data is made here; real data is used where it is at hand. Ends in `N passed, N failed, N skipped`.
#
#   tests/examples.sh [all|gpt]    `all` (scripts/soak.sh examples): also the layouts marked `+`, which take longer;
#                                  `gpt`: the 2,000 steps of the language model that its page states
. "$(dirname "$0")/common.sh"
"$build/generate" "$tmp" || exit 1

# train NAME METRIC at-most|at-least BOUND OPTIONS...: METRIC is that of the last line `test METRIC value`
train() {
  name=$1 metric=$2 how=$3 bound=$4
  shift 4
  if ! "$meshc" train "examples/$name.mesh" "$@" >"$tmp/out" 2>"$tmp/err"; then
    fail "$name $*: $(head -n 3 "$tmp/err")"
    return
  fi
  value=$(sed -n "s/^test $metric \([-0-9.e+]*\).*/\1/p" "$tmp/out" "$tmp/err" | tail -n 1)
  if awk -v v="${value:-nan}" -v b="$bound" -v how="$how" \
    'BEGIN { v = v + 0 == v ? v + 0 : 1e30 * (how == "at-least" ? -1 : 1); exit !(how == "at-least" ? v >= b : v <= b) }'; then
    pass
  else
    fail "$name $*: $metric is ${value:-missing}, wanted $how $bound"
  fi
}

# example NAME METRIC HOW BOUND OPTIONS -- then one layout a line on standard input, `none` or `MESH LAYOUT`; a line that
# begins with `+` is for `all` alone.
how_much=${1:-}
example() {
  while read -r mesh layout; do
    case $mesh in
      +*) [ -n "$how_much" ] || continue; mesh=${mesh#+} ;;
    esac
    if [ "$mesh" = none ]; then
      train "$@" --layout none
    else
      train "$@" --mesh "$mesh" --layout "$layout"
    fi
  done
}

example logistic accuracy at-least 0.93 <<X
none
rows=4 b=rows
cols=2 features=cols
X
example transformer accuracy at-least 0.99 --data-dir "$tmp" --set train.epochs=6 <<X
+none
rows=2,cols=2 b=rows,heads=cols,ff=cols,symbols=cols
X
example clip loss at-most 0.5 --data-dir "$tmp" <<X
none
rows=4 b=rows
rows=2,cols=2 b=rows,h=cols,words=cols
X
example dlrm accuracy at-least 0.93 --data-dir "$tmp" <<X
none
rows=4 b=rows
rows=4 users=rows,items=rows
rows=2,cols=2 b=rows,users=cols,items=cols
X
example vae loss at-most 9 --data-dir "$tmp" <<X
none
rows=4 b=rows
rows=2,cols=2 b=rows,h=cols
X
example gan off at-most 0.12 --data-dir "$tmp" <<X
+none
+rows=4 b=rows
rows=2,cols=2 b=rows,h=cols
X
example tagger accuracy at-least 0.99 --data-dir "$tmp" --set train.epochs=5 <<X
none
rows=4 b=rows
rows=2,cols=2 b=rows,k=cols
X
example lstm bits at-most 0.9 --data-dir "$tmp" --set train.epochs=1 <<X
+none
rows=2 b=rows
rows=2,cols=2 b=rows,k=cols
X
example moe bits at-most 1.2 --data-dir "$tmp" --set train.steps=200 <<X
none
+rows=4 g=rows,own=rows
rows=2,cols=2 g=rows,own=rows,f=cols
X
example llama bits at-most 0.6 --data-dir "$tmp" --set train.steps=300 <<X
+none
rows=2,cols=2 b=rows,groups=cols,ff=cols,vocab=cols
rows=4 b=rows,optimizer/all=rows
X
example unet accuracy at-least 0.95 --data-dir "$tmp" --set train.epochs=4 <<X
none
rows=2 b=rows
rows=2 y=rows,y2=rows,y4=rows
X
example resnet accuracy at-least 0.3 --data-dir "$tmp" --set train.steps=30 <<X
+none
+rows=4 b=rows
rows=2,cols=2 b=rows,c1=cols,c4=cols
X
example mixup accuracy at-least 0.88 --data-dir "$tmp" <<X
none
rows=4 b=rows
X
example depth accuracy at-least 0.97 --data-dir "$tmp" <<X
none
rows=2,cols=2 b=rows,h=cols
X
example cifar accuracy at-least 0.5 --data-dir "$tmp" --set train.steps=25 <<X
+none
+rows=4 b=rows
rows=2 y=rows,y2=rows,y4=rows
rows=2,cols=2 b=rows,c1=cols,h=cols
X

# A language model of bytes: 200 steps here; `gpt` alone runs the 2,000 that the page states.
steps=200 bound=1.5
[ "$how_much" = gpt ] && steps=2000 bound=0.8
example gpt loss at-most $bound --data-dir "$tmp" --set train.steps=$steps <<X
+none
+rows=2 b=rows
rows=2,cols=2 b=rows,heads=cols,ff=cols,vocab=cols
X

# The commands in the first lines of every example: check, explain and dump as they are, others as `check`, which compiles
# with the same options and reads no data. A line that says `refused` must be.
sed -n 's/^#   \(.*&& \)\{0,1\}meshc \([a-z]* .*\.mesh.*\)/\2/p' examples/*.mesh >"$tmp/lines"
while read -r line; do
  command=$(echo "$line" | sed -e 's/   *.*//' -e 's|examples/||' -e "s|DIR|$tmp|g" -e 's/ --feed [^ ]*//g' -e 's/ --out [^ ]*//' \
    -e 's/^\(train\|run\) /check /')
  # shellcheck disable=SC2086
  (cd examples && exec "$meshc" $command) >"$tmp/out" 2>"$tmp/err"
  code=$?
  case $line in
    *'   refused'*) want=3 ;;
    *) want=0 ;;
  esac
  if [ $code = $want ]; then pass; else fail "meshc $command: exit $code, expected $want: $(head -n 2 "$tmp/err")"; fi
done <"$tmp/lines"
if [ "$(wc -l <"$tmp/lines")" -ge 35 ]; then pass; else fail "the first lines of the examples hold $(wc -l <"$tmp/lines") commands"; fi

# GPT-2 and MiniLM have published weights: one is checked only, the other compared where its files are at hand.
if "$meshc" check examples/gpt2.mesh --mesh rows=2,cols=4 --layout b=rows,heads=cols,ff=cols,vocab=cols --set b=2 >"$tmp/out" 2>&1; then
  pass
else
  fail "gpt2: $(head -n 3 "$tmp/out")"
fi

# MiniLM: hidden states and embeddings beside what another implementation made of the same weights. The weights are
# fetched on demand: MESHC_FETCH=1, or an earlier run left them in build/minilm.
weights=$PWD/build/minilm
[ -n "${MESHC_FETCH:-}" ] && scripts/fetch_minilm.sh "$weights"
cat >"$tmp/compare.mesh" <<X
dim b = 4, t = 24, d = 384
param hidden[b, t, d] = file("out/hidden.npy"), trainable = false
param embedding[b, d] = file("out/embedding.npy"), trainable = false
param hidden_there[b, t, d] = file("$data/minilm/hidden.npy"), trainable = false
param embedding_there[b, d] = file("$data/minilm/embedding.npy"), trainable = false
output near = cast(max(abs(hidden - hidden_there)) < 5e-4, i32) + cast(max(abs(embedding - embedding_there)) < 1e-5, i32)
X
minilm() {
  if [ ! -s "$weights/model.safetensors" ] || [ ! -s "$data/minilm/ids.npy" ]; then
    skip
    return
  fi
  rm -rf "$tmp/out"
  if "$meshc" run examples/minilm.mesh --data-dir "$weights" --feed ids="$data/minilm/ids.npy" \
    --feed mask="$data/minilm/mask.npy" --fetch hidden,embedding --out "$tmp/out" "$@" >"$tmp/log" 2>&1 &&
    "$meshc" run "$tmp/compare.mesh" >"$tmp/log" 2>&1 && grep -q 'near.* 2' "$tmp/log"; then
    pass
  else
    fail "minilm $*: $(head -n 3 "$tmp/log")"
  fi
}
minilm --layout none
minilm --mesh rows=2 --layout b=rows
minilm --mesh cols=4 --layout heads=cols,ff=cols
minilm --mesh rows=2,cols=2 --layout b=rows,heads=cols,ff=cols

finish

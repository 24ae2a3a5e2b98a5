#!/bin/sh
# From a text file to a generating model, as a user does it: examples/gpt.mesh is trained on a text (Shakespeare if it is there, else
# the manual), and goes on with prompts: the same on every mesh, with ranks, from a checkpoint and from a parameter file, in a batch
# and alone, in one piece and streamed. The text resembles what was learnt. Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"

data=${MESHC_DATA:-$root/../shared/data}
text=$data/tinyshakespeare.txt
[ -f "$text" ] || { cat docs/language/*.md docs/cli/*.md >"$tmp/text.txt"; text=$tmp/text.txt; }
model=examples/gpt.mesh
small="--set depth=2 --set k=16"

run() { # NAME ARGUMENTS...: $tmp/NAME.txt
  name=$1
  shift
  "$meshc" "$@" >"$tmp/$name.txt" 2>"$tmp/err" || fail "$name: exit $?: $(head -n 3 "$tmp/err")"
}
same() { if cmp -s "$tmp/$1.txt" "$tmp/$2.txt" && [ -s "$tmp/$1.txt" ]; then pass; else fail "$1 and $2 differ: $(head -c 200 "$tmp/$1.txt"), $(head -c 200 "$tmp/$2.txt")"; fi; }

# shellcheck disable=SC2086
run train train $model $small --set text="$text" --set held_out="$text" --set train.steps=150 --set b=8 --set train.optimizer.lr=3e-3 \
  --checkpoint-dir "$tmp/ck" --save-params "$tmp/gpt.safetensors"
prompt="First Citizen:"
talk="generate $model $small --max-tokens 40"
# shellcheck disable=SC2086
{
  run greedy $talk --checkpoint "$tmp/ck" --prompt "$prompt"
  run file $talk --params "$tmp/gpt.safetensors" --prompt "$prompt"
  printf '%s' "$prompt" >"$tmp/prompt"
  run prompt_file $talk --checkpoint "$tmp/ck" --prompt-file "$tmp/prompt"
  "$meshc" $talk --checkpoint "$tmp/ck" <"$tmp/prompt" >"$tmp/stdin.txt" 2>"$tmp/err" || fail "standard input: $(head -n 3 "$tmp/err")"
  run mesh $talk --checkpoint "$tmp/ck" --prompt "$prompt" --mesh rows=2,cols=2 --layout b=rows,heads=cols,ff=cols,vocab=cols
  run ranks $talk --checkpoint "$tmp/ck" --prompt "$prompt" --mesh cols=2 --layout heads=cols,ff=cols --np 2
  run short $talk --checkpoint "$tmp/ck" --prompt "$prompt" --max-tokens 12
  for other in file prompt_file stdin mesh ranks; do same greedy $other; done
  head -c "$(($(wc -c <"$tmp/short.txt") - 1))" "$tmp/greedy.txt" >"$tmp/begin.txt"
  printf '\n' >>"$tmp/begin.txt"
  same begin short

  # draws: equal seeds give equal text on every mesh, others another one
  draw="$talk --checkpoint $tmp/ck --temperature 0.9 --top-k 40 --top-p 0.95"
  run draw $draw --prompt "$prompt" --seed 5
  run draw_again $draw --prompt "$prompt" --seed 5
  run draw_mesh $draw --prompt "$prompt" --seed 5 --mesh rows=2 --layout heads=rows
  run draw_other $draw --prompt "$prompt" --seed 6
  same draw draw_again
  same draw draw_mesh
  if cmp -s "$tmp/draw.txt" "$tmp/draw_other.txt"; then fail "two seeds draw the same text"; else pass; fi

  # a batch of prompts of other lengths has the texts of the prompts alone
  run alone $talk --checkpoint "$tmp/ck" --prompt "The"
  run batch $talk --checkpoint "$tmp/ck" --prompt "$prompt" --prompt "The"
  { echo "--- 1"; cat "$tmp/greedy.txt"; echo "--- 2"; cat "$tmp/alone.txt"; } >"$tmp/joined.txt"
  same batch joined

  # one beam is the most probable id each time; four are at least as probable
  run beam $talk --checkpoint "$tmp/ck" --prompt "$prompt" --beams 1
  same greedy beam
  run beams $talk --checkpoint "$tmp/ck" --prompt "$prompt" --beams 4
  if grep -q "^First Citizen:" "$tmp/beams.txt"; then pass; else fail "beam search: $(cat "$tmp/beams.txt")"; fi
}

# the text is made of the letters and words of what was learnt
words=$(tr -cs 'A-Za-z' '\n' <"$tmp/draw.txt" | grep -c '..')
known=$(tr -cs 'A-Za-z' '\n' <"$tmp/draw.txt" | grep '..' | while read -r w; do grep -qwF -- "$w" "$text" && echo "$w"; done | wc -l)
if [ "$words" -ge 3 ] && [ $((known * 3)) -ge "$words" ]; then pass; else fail "$known of $words words are known: $(cat "$tmp/draw.txt")"; fi
finish

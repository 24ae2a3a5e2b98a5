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

  # a device has no end
  "$meshc" $talk --checkpoint "$tmp/ck" --prompt-file /dev/zero >"$tmp/zero.txt" 2>"$tmp/err"
  holds "exit of a prompt without end" "$?" 5
  if grep -q "cannot read the prompt /dev/zero: it has more than 64 MiB" "$tmp/err"; then pass; else fail "$(head -n 3 "$tmp/err")"; fi

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

# the text is made of the letters and words of what was learnt (the manual, with its tables and code, takes longer)
words=$(tr -cs 'A-Za-z' '\n' <"$tmp/draw.txt" | grep -c '..')
known=$(tr -cs 'A-Za-z' '\n' <"$tmp/draw.txt" | grep '..' | while read -r w; do grep -qwF -- "$w" "$text" && echo "$w"; done | wc -l)
if [ "$text" = "$tmp/text.txt" ]; then skip; elif [ "$words" -ge 3 ] && [ $((known * 3)) -ge "$words" ]; then pass; else fail "$known of $words words are known: $(cat "$tmp/draw.txt")"; fi
# the same with the pieces of a vocabulary: what the data block names, or --vocab
vocab=$root/tests/vocabularies/gpt
source="text(\"$text\", vocab = \"$vocab\")"
# shellcheck disable=SC2086
{
  run pieces_train train $model $small --set vocab=700 --set text="$text" --set train.steps=60 --set b=4 --set train.optimizer.lr=3e-3 \
    --set "data.train.ids=$source" --set "data.train.next=text(\"$text\", vocab = \"$vocab\", offset = 1)" --set train.evaluate=0 \
    --set "data.test.ids=$source" --set "data.test.next=text(\"$text\", vocab = \"$vocab\", offset = 1)" --save-params "$tmp/pieces.safetensors"
  talk="generate $model $small --set vocab=700 --params $tmp/pieces.safetensors --max-tokens 24"
  run pieces $talk --prompt "$prompt" --set "data.train.ids=$source"
  run pieces_option $talk --prompt "$prompt" --vocab "$vocab"
  run pieces_mesh $talk --prompt "$prompt" --vocab "$vocab" --mesh p=2 --layout heads=p,vocab=p
  run pieces_ids $talk --tokens ids --prompt "$(printf '%s' "$prompt" | "$meshc" tokenize - --vocab "$vocab")"
  same pieces pieces_option
  same pieces pieces_mesh
  # the ids of the text are those that were generated, as far as the text is split as it was made
  if [ "$(wc -w <"$tmp/pieces_ids.txt")" -gt 24 ]; then pass; else fail "ids: $(cat "$tmp/pieces_ids.txt")"; fi
  if grep -q "^$prompt" "$tmp/pieces.txt"; then pass; else fail "pieces: $(cat "$tmp/pieces.txt")"; fi
  # a stop ends the text before it, within a piece too
  run pieces_drawn $talk --prompt "$prompt" --vocab "$vocab" --temperature 0.9 --seed 2
  word=$(tail -c +"$((${#prompt} + 4))" "$tmp/pieces_drawn.txt" | tr -cs 'a-z' '\n' | grep -m 1 '...' | cut -c 2-3)
  run pieces_stop $talk --prompt "$prompt" --vocab "$vocab" --temperature 0.9 --seed 2 --stop "${word:-e}"
  before=$(awk -v stop="${word:-e}" -v skip="${#prompt}" 'BEGIN { RS = "\001" } { at = index(substr($0, skip + 1), stop); printf "%s", substr($0, 1, skip + at - 1) }' "$tmp/pieces_drawn.txt")
  holds "the text before '${word:-e}'" "$(cat "$tmp/pieces_stop.txt")" "$before"
}

finish

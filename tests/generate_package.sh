#!/bin/sh
# Packages that generate text: what `meshc compile --for generate` writes gives the text of `meshc generate`, through meshc, in a program
# with libmeshc_run or libmeshc, as an executable and as a shared object; with bytes, ids and a vocabulary; on a mesh and under
# ranks. Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"
XDG_CACHE_HOME=$tmp/cache
export XDG_CACHE_HOME
export ASAN_OPTIONS="detect_leaks=0 ${ASAN_OPTIONS:-}"
cp -r "$root/tests/vocabularies/gpt" "$tmp/vocabulary"
cd "$tmp" || exit 1

model() { # VOCAB SOURCE
  talk "$1"
  cat <<END_OF_MODEL
input next[b, t]: i32
loss = mean[b, t](cross_entropy[vocab](logits, next))
data train over b { ids = $2, next = $2 }
train loss { optimizer = sgd(lr = 0.1), steps = 1 }
END_OF_MODEL
}
seq 1 400 >text.txt
model 128 'text("text.txt")' >bytes.mesh
model 30 'synthetic(integers(0, 30))' >ids.mesh
model 700 'text("text.txt", vocab = "vocabulary")' >pieces.mesh

draw="--max-tokens 24 --temperature 0.9 --top-k 20 --seed 3"
for kind in bytes ids pieces; do
  case $kind in ids) prompt="3 1 4 1 5 9 2 6 5 3 5" other="7" ;; *) prompt="The first text of all" other="No" ;; esac
  must "$meshc" train $kind.mesh --save-params $kind.safetensors -q # --seed would draw other parameters
  must "$meshc" compile $kind.mesh --params $kind.safetensors --for generate --cpu native -o $kind
  # shellcheck disable=SC2086
  for how in "--max-tokens 24" "$draw"; do
    must "$meshc" generate $kind.mesh --params $kind.safetensors $how --prompt "$prompt" --prompt "$other"
    cp "$tmp/out" want
    must "$meshc" generate $kind $how --prompt "$prompt" --prompt "$other"
    same "a package of $kind, $how" want "$tmp/out"
  done
done
values="--params bytes.safetensors"
# shellcheck disable=SC2086
must "$meshc" generate bytes.mesh $values --max-tokens 24 --prompt "The first" -q
cp "$tmp/out" want
expect "JSON of a package" 0 '"schema": "meshc.generate/1"' "$meshc" generate bytes --prompt "The first" --max-tokens 3 --json
for np in 2; do
  # shellcheck disable=SC2086
  must "$meshc" compile bytes.mesh $values --for generate --mesh p=2 --layout vocab=p,s=p --cpu native -o split -q
  must "$meshc" generate split --max-tokens 24 --prompt "The first" -q
  same "a package of a mesh" want "$tmp/out"
  must "$meshc" generate split --np $np --max-tokens 24 --prompt "The first" -q
  same "the same under ranks" want "$tmp/out"
done
# other parameters, and the package's own
must "$meshc" train bytes.mesh --save-params got.safetensors --set train.optimizer.lr=20 -q
must "$meshc" generate bytes.mesh --params got.safetensors --prompt "The first" --max-tokens 24 -q
cp "$tmp/out" trained
must "$meshc" generate bytes --params got.safetensors --prompt "The first" --max-tokens 24 -q
same "other parameters" trained "$tmp/out"
must "$meshc" compile bytes.mesh --params got.safetensors --for generate --cpu native -o with -q
must "$meshc" generate with --prompt "The first" --max-tokens 24 -q
same "parameters of the package" trained "$tmp/out"

# -- several texts at a time -----------------------------------------------------------------------------------------
# shellcheck disable=SC2086
must "$meshc" compile pieces.mesh --params pieces.safetensors --for generate --rows 3 --cpu native -o rows
check "what compile says" grep -q "^rows: generate, prompt, generate_rows, prompt_rows, for native" "$tmp/out"
printf 'No' >second
for how in "--beams 3" "--beams 2 --stop 2" "--beams 1" "$draw"; do
  # shellcheck disable=SC2086
  must "$meshc" generate pieces.mesh --params pieces.safetensors --max-tokens 12 $how --prompt "The first text" --prompt "A third one, longer" --prompt-file second --prompt "4"
  cp "$tmp/out" want_rows
  # shellcheck disable=SC2086
  must "$meshc" generate rows --max-tokens 12 $how --prompt "The first text" --prompt "A third one, longer" --prompt-file second --prompt "4"
  same "several texts at a time, $how" want_rows "$tmp/out"
done
must "$meshc" generate pieces --prompt "The first" --max-tokens 9
cp "$tmp/out" want_rows
must "$meshc" generate rows --prompt "The first" --max-tokens 9
same "one text of a package of three" want_rows "$tmp/out"
expect "too many beams" 1 "the package rows makes 3 texts at a time, and the search has 4 beams.*E0807" "$meshc" generate rows --prompt a --beams 4
expect "what to do" 1 "hint: compile the model with --rows 4" "$meshc" generate rows --prompt a --beams 4
expect "rows of a package that predicts" 2 "rows:1:1: error: --rows is an option of --for generate" "$meshc" compile "$root/examples/mlp.mesh" --rows 2 -o no
expect "no rows" 2 "rows takes" "$meshc" compile bytes.mesh --for generate --rows 0 -o no

# -- errors ---------------------------------------------------------------------------------------------------------
expect "beams" 1 "the package bytes makes 1 text at a time, and the search has 2 beams.*E0807" "$meshc" generate bytes --prompt "a" --beams 2
expect "beams and draws" 2 "beam search draws no ids" "$meshc" generate rows --prompt "a" --beams 2 --top-k 3
expect "a prompt that is too long" 2 "a prompt has 50 ids, and the context of the model is t = 48" "$meshc" generate bytes --prompt "$(printf '%50s' x)"
expect "an option of models" 2 "set is an option of models" "$meshc" generate bytes --prompt a --set t=5
expect "prediction with it" 1 "the package bytes has no program for predict" "$meshc" predict bytes --feed ids=1
must "$meshc" compile "$root/examples/mlp.mesh" --cpu native -o net -q
expect "a package without text" 1 "the package net generates no text.*E0807" "$meshc" generate net --prompt a
expect "a model without text" 3 "the model has no logits to generate from.*E0322" "$meshc" compile "$root/examples/mlp.mesh" --for generate -o no
sed 's/index\[s\] <= index\[t\]/index[s] >= index[t]/' bytes.mesh >ahead.mesh
expect "a model that looks ahead" 3 "looks ahead.*E0321" "$meshc" compile ahead.mesh --for generate -o no
check "nothing was written" test ! -e no
cp -r pieces broken
sed 's/"rows": "decode/"rows": "other/' bytes/package.json >/dev/null
printf 'x' | dd of=broken/vocab.json bs=1 seek=5 conv=notrunc 2>/dev/null
expect "a damaged vocabulary" 5 "broken/vocab.json was changed: its checksum is wrong.*E0702" "$meshc" generate broken --prompt a

# -- an executable --------------------------------------------------------------------------------------------------
[ -e "$build/meshc_runner" ] || { skip; finish; }
# shellcheck disable=SC2086
must "$meshc" compile bytes.mesh $values --for generate --cpu native --emit exe -o talk -q
expect "an executable" 0 "" env -i ./talk --prompt "The first" --max-tokens 24 --quiet
same "its text" want "$tmp/out"
printf 'The first' >prompt
env -i ./talk --max-tokens 24 --quiet <prompt >got 2>&1
same "its standard input" want got
# shellcheck disable=SC2086
must "$meshc" generate bytes.mesh $values $draw --prompt "The first" --prompt "No"
cp "$tmp/out" drawn
# shellcheck disable=SC2086
must ./talk $draw --prompt "The first" --prompt "No"
same "its draws" drawn "$tmp/out"
# shellcheck disable=SC2086
mkfifo pipe
cat prompt >pipe &
expect "a prompt from a pipe" 0 "^The first" ./talk --max-tokens 3 --prompt-file pipe
wait
: >empty
expect "an empty prompt" 2 "error: empty is empty, and the model needs an id.*E0601" ./talk --prompt No --prompt-file empty
expect "no such prompt" 5 "cannot read the prompt nowhere: No such file.*E0701" ./talk --prompt-file nowhere
must "$meshc" generate bytes.mesh $values --max-tokens 24 --prompt "No" --prompt "The first" --beams 2
cp "$tmp/out" beamed
# shellcheck disable=SC2086
must "$meshc" compile bytes.mesh $values --for generate --rows 2 --cpu native --emit exe -o beams -q
must ./beams --beams 2 --max-tokens 24 --prompt "No" --prompt-file prompt
same "its beams" beamed "$tmp/out"
expect "too many of them" 1 "^hint: compile the model with --rows 3" ./beams --beams 3 --prompt "No"
expect "beams that draw" 2 "beam search draws no ids" ./beams --beams 2 --top-k 3 --prompt "No"
expect "a prompt that is not there" 5 "none.txt: No such file" ./beams --prompt-file none.txt
expect "its errors" 2 "^./beams: error: a prompt has 50 ids, and the context" ./beams --prompt "$(printf '%50s' x)"
expect "what its errors tell to change" 2 "^hint: shorten the prompt$" ./beams --prompt "$(printf '%50s' x)"
expect "its help" 0 "^  --max-tokens  N " ./talk --help
expect "its options" 2 "unknown option '--feed'" ./talk --feed x=1
expect "a wrong number" 2 "top-p takes a number from 0 to 1, not '2'" ./talk --top-p 2 --prompt a
expect "no prompt" 2 "--prompt '' is empty, and the model needs an id" ./talk --prompt ""

# -- programs in C --------------------------------------------------------------------------------------------------
[ -e "$build/libmeshc_run.so" ] && [ -e "$build/libmeshc.so" ] || { skip; finish; }
sanitized=$(ldd "$build/libmeshc_run.so" | sed -n 's/^[[:space:]]*lib\([at]\)san.*/\1/p' | sort -u)
case $sanitized in a) cflags="-fsanitize=address,undefined" ;; t) cflags="-fsanitize=thread" ;; *) cflags="" ;; esac
must "$meshc" generate pieces.mesh --params pieces.safetensors --max-tokens 24 --prompt "The first" -q
cat "$tmp/out" "$tmp/out" >pieces_twice
must "$meshc" generate pieces.mesh --params pieces.safetensors --max-tokens 24 --prompt "The first" -q --temperature 0.8 --top-k 30 --seed 5
cat "$tmp/out" "$tmp/out" >drawn_twice
for library in meshc_run meshc; do
  # shellcheck disable=SC2086
  must cc -std=c99 -Wall -Wextra -Werror -pedantic $cflags "$root/tests/api/generate.c" -o say_$library -I"$root/include" -L"$build" -l$library -Wl,-rpath,"$build"
  expect "a program with lib$library" 0 "" ./say_$library pieces "The first"
  same "its text" pieces_twice "$tmp/out"
  expect "draws with lib$library" 0 "" ./say_$library pieces "The first" 0.8 30 5
  same "its draws" drawn_twice "$tmp/out"
  expect "an empty prompt in lib$library" 1 "the prompt is empty.*E0601" ./say_$library pieces ""
  expect "a package without text in lib$library" 1 "the package net generates no text.*E0807" ./say_$library net "a"
done
must "$meshc" generate pieces.mesh --max-tokens 24 --prompt "The first" -q
cat "$tmp/out" "$tmp/out" >initial
expect "a model's text with libmeshc" 0 "" ./say_meshc pieces.mesh "The first"
same "the text of the library" initial "$tmp/out"
expect "a callback that ends the text" 0 "" ./say_meshc bytes.mesh "The first" 0 0 0 3
holds "three bytes each" "$(wc -c <"$tmp/out")" 8
expect "a model that looks ahead, in the library" 1 "looks ahead.*E0321" ./say_meshc ahead.mesh "The first"
if [ -z "$sanitized" ]; then
  # shellcheck disable=SC2086
  must "$meshc" compile bytes.mesh $values --for generate --cpu native --emit shared -o talk.so -q
  cat >use.c <<'END_OF_C'
#include "talk.h"
#include <stdio.h>
static int show(void *context, const char *text, size_t size) { return fwrite(text, 1, size, context) != size; }
int main(void) {
  talk *m = talk_init();
  if (!m || talk_generate(m, "The first", 9, 24, 0, 0, 0, 0, show, stdout)) return puts(talk_error()), 1;
  puts("");
  talk_free(m);
  return 0;
}
END_OF_C
  must cc -std=c99 -Wall -Wextra -Werror -pedantic use.c -o use ./talk.so
  run ./use
  same "a shared object" want "$tmp/out"
else
  skip
fi
finish

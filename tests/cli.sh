#!/bin/sh
# The command line, clause by clause: help, wrong options, JSON, what runs print and write, logs, traces, cache.
# What needs no more than one command and its text is in tests/cases/commands. Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"

cat >"$tmp/net.mesh" <<'END'
dim b = 8, d = 4, h = 6, o = 2
input x[b, d]
input target[b, o]
param w[d, h] ~ glorot(d, h)
param v[h, o] ~ glorot(h, o)
param apart[o] ~ normal(0, 1)
state seen = 0
hidden = relu(sum[d](x * w))
y[b, o] = sum[h](hidden * v)
loss = mean(square(y - target))
metric err = mean(abs(y - target))
output y
update seen = seen + 1
train loss { optimizer = adam(lr = 0.1), steps = 12, evaluate = 5 }
data train over b { x = synthetic(normal), target = synthetic(uniform) }
data test over b { x = npy("x.npy"), target = npy("t.npy") }
END
cat >"$tmp/make.mesh" <<'END'
dim n = 8, d = 4, o = 2
output x[n, d] = random_normal[n, d]()
output t[n, o] = random_uniform[n, o]()
END
net=$tmp/net.mesh
"$meshc" run "$tmp/make.mesh" --out "$tmp" >/dev/null 2>"$tmp/err" || fail "data: $(cat "$tmp/err")"
feed="--feed x=$tmp/x.npy --feed target=$tmp/t.npy"
split="--mesh rows=2,cols=2 --layout b=rows,h=cols"

# -- help and wrong options ----------------------------------------------------------------------------------
commands=$("$meshc" --help | sed -n '/^commands/,/^options/s/^  \([a-z]*\) .*/\1/p')
for c in $commands; do
  "$meshc" "$c" --help >"$tmp/out" 2>"$tmp/err"
  code=$?
  lines=$(wc -l <"$tmp/out")
  examples=$(tail -n 2 "$tmp/out" | grep -c "^  meshc $c")
  if [ $code = 0 ] && [ ! -s "$tmp/err" ] && [ "$lines" -le 50 ] && [ "$examples" = 2 ]; then pass; else
    fail "$c --help: exit $code, $lines lines, $examples examples, says $(head -n 1 "$tmp/err")"
  fi
  "$meshc" "$c" --hepl >"$tmp/out" 2>"$tmp/err"
  code=$?
  if [ $code = 2 ] && [ ! -s "$tmp/out" ] && grep -q "did you mean --help" "$tmp/err"; then pass; else fail "$c --hepl: exit $code: $(cat "$tmp/err")"; fi
done
# the example of each code that is a model makes `meshc check` say that code
for code in $(sed -n 's/^DIAG([A-Z_]*, *"\([EW][0-9]*\)".*/\1/p' ir/base/diag.def); do
  "$meshc" explain "$code" 2>&1 | sed -n '/^example/,$s/^  //p' >"$tmp/example.mesh"
  case $(head -n 1 "$tmp/example.mesh") in
    '$ '*) pass ;;
    ?*) if "$meshc" check "$tmp/example.mesh" 2>&1 | grep -qF "[$code]"; then pass; else fail "the example of $code does not show it"; fi ;;
    *) fail "explain $code shows no example" ;;
  esac
done
expect "a wrong option of the program" 2 "did you mean --help" "$meshc" --hlep
expect "a wrong command" 2 "did you mean check" "$meshc" chekc
expect "a wrong option's nearest name" 2 "did you mean --layout" "$meshc" check "$net" --layuot b=rows

# -- JSON: one object with a schema --------------------------------------------------------------------------
facts() { # COMMAND ARGUMENTS...
  "$meshc" "$@" --json >"$tmp/out" 2>"$tmp/err"
  code=$?
  case $1 in plan) version=4 ;; explain) version=2 ;; *) version=1 ;; esac
  if [ $code = 0 ] && [ "$(head -n 1 "$tmp/out")" = "{" ] && sed -n 2p "$tmp/out" | grep -q "\"schema\": \"meshc.$1/$version\"" &&
    [ "$(tail -n 1 "$tmp/out")" = "}" ]; then pass; else fail "$1 --json: exit $code: $(head -n 3 "$tmp/out" "$tmp/err")"; fi
}
cat >"$tmp/talk.mesh" <<'END'
dim b = 2, t = 8, vocab = 5
input ids[b, t]: i32
output logits[b, t, vocab] = one_hot[vocab]((ids + 1) % 5)
END
# shellcheck disable=SC2086
{
  facts check "$net" $split
  facts run "$net" $split $feed
  if grep -q '"measured_seconds"' "$tmp/out"; then pass; else fail "run --json has no measured times"; fi
  facts explain "$net" $split --measure
  if grep -q '"measured_seconds"' "$tmp/out" && grep -q '"predicted_seconds"' "$tmp/out"; then pass; else fail "explain --json has no times"; fi
  facts eval "$net" $split
  facts predict "$net" --data test
  facts generate "$tmp/talk.mesh" --prompt "1 2"
  facts bench "$net" $split --steps 20
  for key in steps_per_second roofline kernels products memory measured_seconds; do
    if grep -q "\"$key\"" "$tmp/out"; then pass; else fail "bench --json lacks $key"; fi
  done
}
facts inspect "$tmp/x.npy"
facts data examples/iris.mesh
for c in stages ops doctor cache version; do facts $c; done

# -- running -------------------------------------------------------------------------------------------------
# shellcheck disable=SC2086
{
  expect "all parameters and states are saved" 0 "" "$meshc" run "$net" $feed --fetch hidden --save-params "$tmp/all.safetensors"
  holds "names that are saved" "$("$meshc" inspect "$tmp/all.safetensors" | sed -n 's/^  \([a-z]*\) .*/\1/p' | tr '\n' ' ')" "apart seen v w "
  expect "what is saved can be loaded" 0 "loss" "$meshc" run "$net" $feed --params "$tmp/all.safetensors"
  expect "a wrong word after --check" 2 "takes finite" "$meshc" run "$net" $feed --check finit
  if [ -s "$tmp/out" ]; then fail "--check is read after the run"; else pass; fi
  expect "--save-params by its ending, before training" 2 "writes .safetensors or .npz" "$meshc" train "$net" --save-params "$tmp/w.bin"
  if [ -s "$tmp/out" ]; then fail "--save-params is read after the training"; else pass; fi
  expect "an unknown input names those that there are" 2 "its inputs are: x, target" "$meshc" run "$net" --feed q=1 --fetch y
  expect "--loss has its own place" 2 "^--loss:1:1: error: the model has no value 'lss'" "$meshc" run "$net" $feed --fetch "grad(w)" --loss lss

  "$meshc" dump "$net" --stage program >/dev/full 2>"$tmp/err"
  holds "a full disk behind more than a buffer" $? 7
  expect "blanks around names" 0 "^grad.w. " "$meshc" run "$net" $feed --fetch " grad( w ) , y "

  # the same bits with any number of threads; other machine code within rounding
  "$meshc" run "$net" $feed $split --steps 5 --threads 1 --out "$tmp/one.npz" >/dev/null 2>&1
  "$meshc" run "$net" $feed $split --steps 5 --threads 3 --out "$tmp/three.npz" >/dev/null 2>&1
  if cmp -s "$tmp/one.npz" "$tmp/three.npz"; then pass; else fail "--threads changes bits"; fi
  want=$("$meshc" run "$net" $feed --fetch loss --steps 5 | sed 's/\(\.[0-9][0-9][0-9]\).*/\1/')
  for option in --no-fuse "--opt 0" "--opt 1" "--opt 2" "--opt 3" --no-cache; do
    holds "loss with $option" "$("$meshc" run "$net" $feed --fetch loss --steps 5 $option | sed 's/\(\.[0-9][0-9][0-9]\).*/\1/')" "$want"
  done
  expect "a budget of memory that is too small" 7 "needs .* a processor.*--memory" "$meshc" run "$net" $feed --memory 100B
  expect "a budget that suffices" 0 "loss" "$meshc" run "$net" $feed --memory 8GiB
  expect "a budget that is no size" 2 "8GiB" "$meshc" run "$net" $feed --memory much
}

# -- --exact: the same bits on every mesh ----------------------------------------------------------------------
# shellcheck disable=SC2086
{
  "$meshc" run "$net" $feed --steps 9 --exact --out "$tmp/e0.npz" >/dev/null 2>&1
  for pair in "rows=2 b=rows" "rows=4 h=rows" "rows=2,cols=2 b=rows,h=cols" "rows=8,cols=2 d=rows"; do
    set -- $pair
    "$meshc" run "$net" $feed --steps 9 --exact --mesh "$1" --layout "$2" --out "$tmp/e1.npz" >/dev/null 2>"$tmp/err"
    if cmp -s "$tmp/e0.npz" "$tmp/e1.npz" && grep -q "the layout is ignored" "$tmp/err"; then pass; else fail "--exact on $pair"; fi
  done
}
cat >"$tmp/pin.mesh" <<'END'
dim b = 4
input x[b]
output y = layout(x * 2, b -> rows)
mesh rows = 2
END
expect "--exact and a pin" 3 "exact is refused" "$meshc" check "$tmp/pin.mesh" --exact

# -- two machines ------------------------------------------------------------------------------------------------
"$meshc" explain "$net" --machine h100 --against "--machine h200" >"$tmp/against.txt" 2>&1
"$meshc" explain "$net" --machine h100 --machine h200 >"$tmp/machines.txt" 2>&1
same "two machines are compared" "$tmp/against.txt" "$tmp/machines.txt"
check "they are named" grep -q "^other .*machine h200$" "$tmp/machines.txt"
expect "so are options of one of them" 0 "^other .*, --precision bf16$" "$meshc" explain "$net" --against "--precision bf16"
for where in "" "--mesh rows=2,cols=2"; do
  { cat "$net" && echo "mesh rows = 2, cols = 2"; } >"$tmp/unused.mesh"
  # shellcheck disable=SC2086
  run "$meshc" explain "$tmp/unused.mesh" $where --layout b=rows --against h=rows
  holds "both steps have one warning${where:+, $where}" "$(grep -c "axis 'cols'.*W0501" "$tmp/err")" 1
done

# -- explain compiles on several threads ---------------------------------------------------------------------------
# Rules, a layout(...), blocks that do not suffice (d), a budget: the same bytes on one thread and on many.
sed 's/relu(sum\[d\](x \* w))/layout(relu(sum[d](x * w)), h -> cols)/' "$net" >"$tmp/asked.mesh"
for where in "--layout b=rows,h=cols" "--layout b=rows,d=cols" "--layout auto"; do
  for form in "" -v --json "--format html"; do
    # shellcheck disable=SC2086
    "$meshc" explain "$tmp/asked.mesh" --mesh rows=2,cols=3 $where $form --threads 1 >"$tmp/one" 2>"$tmp/one.err"
    # shellcheck disable=SC2086
    "$meshc" explain "$tmp/asked.mesh" --mesh rows=2,cols=3 $where $form --threads 5 >"$tmp/many" 2>"$tmp/err"
    same "explain $where $form on several threads" "$tmp/one" "$tmp/many"
  done
done
check "the model asks for what is compiled apart" grep -q "layout(...) at line" "$tmp/many"
expect "no threads" 2 "threads" "$meshc" explain "$net" $split --threads 0

# -- a model with two placements is compiled with both at the same time ----------------------------------------------
# The placement with redundant moves is taken (gpt) and the other one (faster_of_two), also within a budget.
sed '/^--- /,$d' "$root/tests/cases/place/faster_of_two.mesh" >"$tmp/slower.mesh"
small="$root/examples/gpt.mesh --set t=16 --set vocab=64 --set b=4 --set depth=1 --device cuda --machine h100x8
  --mesh rows=2,cols=2 --layout b=rows,vocab=cols,soft/t=cols,parameters/all=rows+cols"
for two in "$tmp/slower.mesh --mesh x=4 --layout ct=x,parameters/all=x" "$small" "$small --memory 1500000"; do
  for form in "check" "explain --json" "dump --stage fuse" "dump --stage program"; do
    # shellcheck disable=SC2086
    "$meshc" ${form%% *} $two --for train ${form#"${form%% *}"} --threads 1 >"$tmp/one" 2>"$tmp/one.err"
    # shellcheck disable=SC2086
    "$meshc" ${form%% *} $two --for train ${form#"${form%% *}"} --threads 2 >"$tmp/many" 2>"$tmp/err"
    same "$form with two placements" "$tmp/one" "$tmp/many"
    same "messages of $form with two placements" "$tmp/one.err" "$tmp/err"
  done
done
# shellcheck disable=SC2086
holds "the model has two placements" "$("$meshc" check $small --for train -v 2>&1 | grep -c '^meshc: lower ')" 2

# -- saved plans ------------------------------------------------------------------------------------------------
cp "$net" "$tmp/kept.mesh"
expect "a plan is saved" 0 "" "$meshc" plan "$net" --save "$tmp/plan.json"
expect "a saved plan is replaced, and read before" 0 "nothing has changed" "$meshc" plan "$net" --save "$tmp/plan.json" --against "$tmp/plan.json"
expect "another machine is named" 0 "^machine  built in -> h200$" "$meshc" plan "$net" --machine h200 --against "$tmp/plan.json"
expect "a plan is not saved over a model" 1 "is no saved plan.*E0806" "$meshc" plan "$net" --save "$tmp/kept.mesh"
same "the model that is in the way stays" "$net" "$tmp/kept.mesh"
expect "a plan that fails saves nothing" 7 "E0804" "$meshc" plan "$net" --memory 8 --save "$tmp/none.json"
check "no file of a failed plan" [ ! -e "$tmp/none.json" ]
check "no part of a saved plan is left" [ ! -e "$tmp/plan.json.partial" ]
expect "a plan may go to a device" 0 "^use" "$meshc" plan "$net" --save /dev/null
sed 's/saved_plan.1/saved_plan\/9/' "$tmp/plan.json" >"$tmp/later.json"
expect "a plan of a later schema" 5 "saved_plan/9.*E0702" "$meshc" plan "$net" --against "$tmp/later.json"
sed 's/^h/# a comment\n  h/; s/mean(square/sum(square/' "$net" >"$tmp/changed.mesh"
expect "a changed line with its number" 0 "^model    [+] line 11: loss = sum" "$meshc" plan "$tmp/changed.mesh" --against "$tmp/plan.json"

# -- logs ----------------------------------------------------------------------------------------------------
# shellcheck disable=SC2086
"$meshc" train "$net" $split --log-dir "$tmp/log" --trace >/dev/null 2>"$tmp/err" || fail "train --log-dir: $(cat "$tmp/err")"
holds "lines of metrics.jsonl" "$(wc -l <"$tmp/log/metrics.jsonl" | tr -d ' ')" 12
holds "evaluations in it" "$(grep -c '"test": {"loss": ' "$tmp/log/metrics.jsonl")" 3
if grep -q '<polyline' "$tmp/log/report.html" && grep -q 'all_reduce' "$tmp/log/report.html" && ! grep -qE 'src=|href="http' "$tmp/log/report.html"; then
  pass
else
  fail "report.html lacks curves or collectives, or needs other files"
fi
events=$(ls "$tmp/log" | grep '^events.out.tfevents\.')
for tag in 'brain.Event:2' loss test/loss 'grad(w)' rows-1_cols-1; do
  if grep -qaF "$tag" "$tmp/log/$events"; then pass; else fail "the event file lacks $tag"; fi
done
if command -v python3 >/dev/null; then
  if python3 - "$tmp/log" "$events" >"$tmp/out" 2>&1 <<'END'
import json, struct, sys
def crc(data):
    x = 0xffffffff
    for b in data:
        x ^= b
        for _ in range(8): x = x >> 1 ^ (0x82f63b78 if x & 1 else 0)
    x ^= 0xffffffff
    return ((x >> 15 | x << 17) + 0xa282ead8) & 0xffffffff
raw, at, n = open(sys.argv[1] + "/" + sys.argv[2], "rb").read(), 0, 0
while at < len(raw):
    size, = struct.unpack_from("<Q", raw, at)
    assert struct.unpack_from("<I", raw, at + 8)[0] == crc(raw[at:at + 8]), "checksum of a length"
    assert struct.unpack_from("<I", raw, at + 12 + size)[0] == crc(raw[at + 12:at + 12 + size]), "checksum of an event"
    at, n = at + 16 + size, n + 1
assert at == len(raw) and n > 12 * 2, n
trace = json.load(open(sys.argv[1] + "/trace.json"))["traceEvents"]
assert {e["pid"] for e in trace if e["ph"] == "X"} == {0, 1, 2, 3}, "processors"
starts, ends = [{e["id"] for e in trace if e["ph"] == k} for k in "sf"]
assert starts and starts == ends, "arrows"
assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in trace if e["ph"] == "X"), "times"
for line in open(sys.argv[1] + "/metrics.jsonl"): json.loads(line)
END
  then pass; else fail "logs: $(tail -n 1 "$tmp/out")"; fi
else
  skip
fi
expect "--trace alone" 2 "trace needs --log-dir" "$meshc" train "$net" --trace
# shellcheck disable=SC2086
"$meshc" train "$net" $split -q --save-params "$tmp/plain.safetensors" >/dev/null 2>&1
# shellcheck disable=SC2086
"$meshc" train "$net" $split -q --log-dir "$tmp/log2" --trace --save-params "$tmp/watched.safetensors" >/dev/null 2>&1
if cmp -s "$tmp/plain.safetensors" "$tmp/watched.safetensors"; then pass; else fail "watching changes bits"; fi
grep -v '^param apart' "$net" >"$tmp/quiet.mesh" # that nothing uses it is a warning
for option in "" --no-cache; do
  # shellcheck disable=SC2086
  if [ -n "$("$meshc" train "$tmp/quiet.mesh" -q $option 2>&1 >/dev/null)" ]; then fail "train -q $option writes to standard error"; else pass; fi
done

# -- the compile cache -----------------------------------------------------------------------------------------
XDG_CACHE_HOME=$tmp/cache
export XDG_CACHE_HOME
entries() { ls "$tmp/cache/meshc" 2>/dev/null | grep -c '\.o$'; }
# shellcheck disable=SC2086
{
  "$meshc" run "$net" $feed --no-cache >/dev/null 2>&1
  holds "entries after --no-cache" "$(entries)" 0
  "$meshc" run "$net" $feed --out "$tmp/a.npz" >/dev/null 2>&1
  holds "entries after a run: program and machine code" "$(entries)" 2
  touch -d 2020-01-01 "$tmp"/cache/meshc/*.o
  "$meshc" run "$net" $feed --out "$tmp/b.npz" >/dev/null 2>&1
  holds "entries after the same run" "$(entries)" 2
  holds "entries that the same run has read" "$(find "$tmp/cache/meshc" -name '*.o' -newermt 2021-01-01 | wc -l | tr -d ' ')" 2
  "$meshc" run "$net" $feed --opt 3 >/dev/null 2>&1
  holds "entries after a run with other machine code" "$(entries)" 4
  for f in "$tmp"/cache/meshc/*.o; do printf 'X' | dd of="$f" bs=1 seek=200 conv=notrunc 2>/dev/null; done
  "$meshc" run "$net" $feed --out "$tmp/c.npz" >/dev/null 2>&1 || fail "a damaged entry of the cache"
  if cmp -s "$tmp/a.npz" "$tmp/b.npz" && cmp -s "$tmp/a.npz" "$tmp/c.npz"; then pass; else fail "the cache changes results"; fi
  expect "cache lists" 0 "entries  4, " "$meshc" cache
  MESHC_CACHE_MIB=0 "$meshc" run "$net" $feed --fetch hidden >/dev/null 2>&1
  holds "entries of a cache of no size" "$(entries)" 0
  "$meshc" run "$net" $feed >/dev/null 2>&1
  expect "cache --clear" 0 "2 entries removed" "$meshc" cache --clear
  holds "entries after --clear" "$(entries)" 0
  chmod 755 "$tmp/cache/meshc"
  "$meshc" run "$net" $feed >/dev/null 2>&1
  holds "entries of a folder that others may read" "$(entries)" 2
  chmod 777 "$tmp/cache/meshc"
  "$meshc" run "$net" $feed --opt 3 >/dev/null 2>&1
  holds "entries of a folder that others may write" "$(entries)" 2
  expect "cache says that it is not used" 0 "not used: " "$meshc" cache
  chmod 700 "$tmp/cache/meshc"
  "$meshc" cache --clear >/dev/null
  holds "half-written entries" "$(ls -A "$tmp/cache/meshc" | wc -l | tr -d ' ')" 0
}
unset XDG_CACHE_HOME

# -- a layout that is sought ------------------------------------------------------------------------------------
on="$root/examples/transformer.mesh --mesh rows=2 --memory 13500000 --json"
# shellcheck disable=SC2086
"$meshc" check $on --layout auto >"$tmp/sought" 2>"$tmp/remarks"
# shellcheck disable=SC2086
"$meshc" check $on --layout "$(sed -n 's/^meshc: layout \(.*\), the fastest of .*/\1/p' "$tmp/remarks")" >"$tmp/given"
same "check of a layout that was sought and of the same one given" "$tmp/sought" "$tmp/given"

# -- the model from standard input -----------------------------------------------------------------------------
piped() { expect "$@" <"$net"; }
piped "check -" 0 "^model      -, for train" "$meshc" check -
piped "explain - NAME" 0 "<stdin>:" "$meshc" explain - y
piped "data starts at the current folder" 0 "^test loss" "$meshc" eval - --data-dir "$tmp"
piped "--set and --layout auto" 0 "layout" "$meshc" check - --set b=4 --mesh rows=2 --layout auto
piped "fmt - prints" 0 "^dim b = 8, d = 4" "$meshc" fmt -
piped "fmt -w -" 2 "the model comes from standard input" "$meshc" fmt -w -
piped "ranks" 2 "several processes cannot read the model" "$meshc" train - --np 2 --mesh rows=2 --layout b=rows
echo 'y = z' >"$tmp/bad.mesh"
expect "a place in it" 3 "^<stdin>:1:5: error: " "$meshc" check - <"$tmp/bad.mesh"
# shellcheck disable=SC2086
{
  "$meshc" run "$net" $feed --fetch y --out "$tmp/by_file" >/dev/null 2>&1
  "$meshc" run - $feed --fetch y --out - <"$net" >"$tmp/y.npy" 2>/dev/null
  if cmp -s "$tmp/by_file/y.npy" "$tmp/y.npy"; then pass; else fail "run --out - differs from --out DIR"; fi
  "$meshc" predict "$net" --data test --fetch y --out - >"$tmp/y2.npy" 2>/dev/null
  if cmp -s "$tmp/y.npy" "$tmp/y2.npy"; then pass; else fail "predict --out - differs from run --out DIR"; fi
}

# -- tokenize ----------------------------------------------------------------------------------------------------
vocab=tests/vocabularies
printf 'the house' >"$tmp/the.txt"
expect "tokenize prints" 0 "^[0-9]+( [0-9]+)+$" "$meshc" tokenize "$tmp/the.txt" --vocab $vocab/bpe.model
printed=$(cat "$tmp/out")
expect "tokenize writes" 0 "ids of u16" "$meshc" tokenize "$tmp/the.txt" --vocab $vocab/bpe.model --out "$tmp/the.bin" --end
holds "the ids in the file" "$(od -An -v -tu2 "$tmp/the.bin" | tr -s ' \n' ' ' | sed 's/^ //; s/ $//')" "$printed 2"
"$meshc" tokenize - --vocab $vocab/bpe.model --out - <"$tmp/the.txt" >"$tmp/piped.bin"
holds "bytes on standard output" "$(wc -c <"$tmp/piped.bin" | tr -d ' ')" "$(($(wc -c <"$tmp/the.bin") - 2))"
cp -r $vocab/gpt "$tmp/copied"
expect "tokenize over its text" 2 "the.txt is also read in this run.*E0601" "$meshc" tokenize "$tmp/the.txt" --vocab $vocab/bpe.model --out "$tmp/the.txt"
expect "tokenize over its vocabulary" 2 "merges.txt is also read in this run, as --vocab" "$meshc" tokenize "$tmp/the.txt" --vocab "$tmp/copied" --out "$tmp/copied/merges.txt"
expect "tokenize without a vocabulary" 2 "say --vocab FILE" "$meshc" tokenize "$tmp/the.txt"
expect "tokenize of nothing" 5 "cannot read the text" "$meshc" tokenize "$tmp/none.txt" --vocab $vocab/gpt
expect "a vocabulary that is none" 5 "is no model of SentencePiece" "$meshc" tokenize "$tmp/the.txt" --vocab "$tmp/the.txt"

# -- new: each template is formatted, trains and says its own name; no file is replaced --------------------------
# shellcheck disable=SC2046
for template in $(ls examples/templates/*.mesh | sed 's/.*\/\(.*\)\.mesh/\1/'); do
  mkdir -p "$tmp/new"
  made=$tmp/new/first_$template
  expect "new $template" 0 "^next: meshc train $made.mesh" "$meshc" new "$made" --template "$template"
  "$meshc" fmt "$made.mesh" >"$tmp/formatted.mesh" 2>"$tmp/err"
  same "the format of $template" "$tmp/formatted.mesh" "$made.mesh"
  expect "no place of a name is left in $template" 1 "" grep -q NAME "$made".*
  expect "$template trains" 0 "^test loss" "$meshc" train "$made.mesh"
  expect "$template on its mesh" 0 "0 numbers differ|agree" "$meshc" train "$made.mesh" --mesh p=2 --layout b=p --verify --set train.epochs=1
  cp "$made.mesh" "$tmp/before.mesh"
  expect "new $template again" 2 "exists already" "$meshc" new "$made.mesh" --template "$template"
  same "the model that was there" "$tmp/before.mesh" "$made.mesh"
done
expect "new without --template" 0 "^wrote $tmp/new/plain.mesh" "$meshc" new "$tmp/new/plain"
expect "a template that there is not" 2 "the templates are cnn, csv, lm, mlp" "$meshc" new "$tmp/new/x" --template rnn
expect "a name with a blank" 2 "is no name for a model" "$meshc" new "$tmp/new/a b"
expect "a name with a quote" 2 "is no name for a model" "$meshc" new "$tmp/new/a\"b"
expect "a folder that there is not" 1 "cannot write" "$meshc" new "$tmp/none/x" --template csv
expect "files of one that fails" 0 "" test ! -e "$tmp/none"

# -- fmt keeps links and permissions ----------------------------------------------------------------------------
printf 'dim  b=4\n' >"$tmp/plain.mesh"
chmod 640 "$tmp/plain.mesh"
ln -s plain.mesh "$tmp/link.mesh"
"$meshc" fmt -w "$tmp/link.mesh" || fail "fmt of a link"
holds "what the link leads to" "$(cat "$tmp/plain.mesh")" "dim b = 4"
holds "its permissions" "$(ls -l "$tmp/plain.mesh" | cut -c1-10)" "-rw-r-----"
if [ -L "$tmp/link.mesh" ]; then pass; else fail "fmt replaces a link"; fi

# -- doctor, colours ---------------------------------------------------------------------------------------------
echo precious >"$tmp/victim"
ln -s victim "$tmp/machine.txt"
ln -s victim "$tmp/machine.txt.partial"
expect "doctor --measure" 0 "latency" env XDG_CACHE_HOME="$tmp/kept" "$meshc" doctor --measure "$tmp/machine.txt" --steps 1
holds "figures without a word on how they were found" "$(grep -v '^#' "$tmp/machine.txt" | grep -vc ' # ')" 0
sed 's/^flops = [^ ]*/flops = 1e6/' "$tmp/machine.txt" >"$tmp/kept/meshc/machine.txt"
expect "bench with figures of a busy machine" 0 'the machine was busy' env XDG_CACHE_HOME="$tmp/kept" "$meshc" bench "$net" --steps 3
cp "$tmp/machine.txt" "$tmp/kept/meshc/machine.txt"
expect "bench by kind of instruction" 0 '^measured .*kernels .* times' env XDG_CACHE_HOME="$tmp/kept" "$meshc" bench "$net" --steps 3
expect "bench with what doctor kept" 0 "^machine    $tmp/kept/meshc/machine.txt" env XDG_CACHE_HOME="$tmp/kept" "$meshc" bench "$net" --steps 3
echo "# of another machine" >"$tmp/kept/meshc/machine.txt"
expect "bench without a measured file" 0 "^machine    built-in" env XDG_CACHE_HOME="$tmp/kept" "$meshc" bench "$net" --steps 3
holds "what a link at the machine file leads to" "$(cat "$tmp/victim")" precious
if [ -f "$tmp/machine.txt" ] && [ ! -L "$tmp/machine.txt" ] && [ -L "$tmp/machine.txt.partial" ]; then pass; else fail "doctor --measure follows or removes links"; fi
for key in latency bandwidth memory_rate flops memory l2 l3; do
  if grep -q "^$key = [0-9]" "$tmp/machine.txt"; then pass; else fail "the machine file lacks $key"; fi
done
expect "what doctor wrote is read" 0 "predicted" "$meshc" check "$net" --machine "$tmp/machine.txt"
# a GPU that is emulated, as tests/standin/README.md says
if [ -e "$build/standin/libcuda.so.1" ]; then
  expect "doctor with a GPU" 0 '^gpu 0      emulated GPU, compute capability 8.0, ' env LD_LIBRARY_PATH="$build/standin" MESHC_STANDIN_CAPABILITY=80 "$meshc" doctor
  if says '^devices    cpu, cuda' && says '^cuBLASLt   13.1.0, .*standin'; then pass; else fail "doctor lacks the GPU's libraries: $(output 20)"; fi
  expect "doctor with a driver without a GPU" 0 'CUDA .*no GPU is visible' env LD_LIBRARY_PATH="$build/standin" MESHC_STANDIN_DEVICES=0 "$meshc" doctor
else
  skip 3
fi
expect "doctor into nowhere" 1 "cannot write" "$meshc" doctor --measure "$tmp/no/where"
# A pseudo-terminal may be missing: no `script`, no /dev/pts.
if script -qec "echo works" /dev/null 2>/dev/null </dev/null | grep -q works; then
  esc=$(printf '\033')
  unset NO_COLOR
  if script -qec "'$meshc' check $tmp/nowhere.mesh" /dev/null 2>/dev/null | grep -q "$esc"; then pass; else fail "no colours on a terminal"; fi
  if NO_COLOR=1 script -qec "'$meshc' check $tmp/nowhere.mesh" /dev/null 2>/dev/null | grep -q "$esc"; then fail "NO_COLOR is not honoured"; else pass; fi
else
  skip 2
fi

finish

#!/bin/sh
# Failed allocations, threads and file operations: every command ends with 7 and one message, or succeeds where the
# failure does no harm; nothing half-written is left, what was there before is intact, and the command works again.
#
# A module that is preloaded (tests/inject) makes the n-th operation of a kind fail. tests/failures.sh takes a sample
# of the numbers for every command; tests/failures.sh all [COMMAND...] takes every operation with a call stack of its
# own (at most MOST a command and kind) and prints the counts of every command. Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"
inject=${INJECT:-$build/inject.so}
most=${MOST:-2}
all=no
if [ "${1:-}" = all ]; then all=yes most=${MOST:-400}; shift; fi
only=" $* "
of_command=0 bad_of_command=0
XDG_CACHE_HOME=$tmp/cache
export XDG_CACHE_HOME
# the sanitizers have an allocator of their own
if ldd "$meshc" 2>/dev/null | grep -q 'lib[at]san'; then skip; finish; fi
[ -f "$inject" ] || { fail "$inject is missing"; finish; }

# -- what the commands work on: $tmp/start, copied to $tmp/work for every run -----------------------------
mkdir "$tmp/start" || exit 1
cd "$tmp/start" || exit 1
cat >deep.mesh <<'END' # a loop, of which plan prices short models
dim b = 4, d = 6, e = 6, depth = 8
input x[b, d]
h = x
for i in 0..depth {
  param w[d, e] ~ glorot(d, e)
  h = h + rename[e -> d](tanh(sum[d](h * w)))
}
loss = mean(h * h)
train loss { optimizer = sgd(lr = 0.01), steps = 2 }
END
cat >net.mesh <<'END'
dim b = 4, d = 5, h = 6, o = 2
input x[b, d]
input kind[b]: i32
param w[d, h] ~ glorot(d, h)
param v[h, o] ~ orthogonal(h -> o)
state mean[h] = 0
hidden = dropout(relu(sum[d](x * w) - mean), 0.1)
logits = sum[h](hidden * v)
loss = mean(cross_entropy[o](logits, kind))
metric accuracy = mean(argmax[o](logits) == kind)
output probs = softmax[o](logits)
update mean = 0.9 * mean + 0.1 * mean[b](hidden)
train loss { optimizer = adam(lr = 0.01), steps = 6, evaluate = 3, checkpoint = 3 }
data train over b { x = npy("x.npy"), kind = csv("kind.csv", columns = 0..1), shuffle = true }
data test over b { x = npz("x.npz", "x"), kind = csv("kind.csv", columns = 0..1) }
END
sed '/^--- /,$d' "$root/tests/cases/place/faster_of_two.mesh" >two.mesh # two placements, compiled at the same time
cat >make.mesh <<'END'
dim n = 18, d = 5
output x[n, d] = random_normal[n, d]()
END
cat >feed.mesh <<'END'
dim b = 4, d = 5
output x4[b, d] = random_normal[b, d]()
output k4[b] = index[b] * 0
END
cat >talk.mesh <<'END'
dim b = 2, t = 32, s = t, vocab = 10, d = 4
input ids[b, t]: i32
param e[vocab, d] ~ normal(std = 1)
x = take[vocab](e, ids)
causal[t, s] = index[s] <= index[t]
p = softmax[s](where(causal, sum[d](x * rename[t -> s](x)), -inf))
y = sum[s](p * rename[t -> s](x)) + cumsum[t](x)
output logits[b, t, vocab] = sum[d](y * e)
END
echo 3 1 4 1 5 9 2 6 5 >ids.txt
sed 's/ = / =    /; s/, /  ,  /' net.mesh >ugly.mesh
cp -r "$root/tests/vocabularies/gpt" vocabulary
cp -r "$root/tests/pictures/signs" signs
"$build/make_picture" jpeg 16 16 2 signs/train/ring/5.jpg && "$build/make_picture" jpeg-progressive 20 18 3 signs/train/cross/5.jpg
cat >signs.mesh <<'END'
dim b = 5, y = 8, x = 8, sign = 2
input picture[b, y, x]
input kind[b]: i32
param w[y, x, sign] ~ normal(std = 0.01)
loss = mean[b](cross_entropy[sign](sum[y, x](picture * w), kind))
data train over b { picture = images("signs/train", crop = random(area = 0.5)), kind = labels("signs/train") }
train loss { optimizer = sgd(lr = 0.02), steps = 4 }
END
i=0
while [ $i -lt 18 ]; do echo $((i % 2)); i=$((i + 1)); done >kind.csv
prepare() {
  "$meshc" run make.mesh --out . && "$meshc" run feed.mesh --out . && "$meshc" run make.mesh --out x.npz &&
    "$meshc" train net.mesh --checkpoint-dir ck --save-params p.safetensors --set train.steps=3 -q &&
    "$meshc" train net.mesh -q && "$meshc" train signs.mesh -q && "$meshc" train net.mesh --mesh rows=2 --layout b=rows -q &&
    "$meshc" predict net.mesh --checkpoint ck --feed x=x.npy --out pred.npz &&
    "$meshc" compile net.mesh --cpu native --for train --checkpoint ck -o packed -q &&
    "$meshc" generate talk.mesh --prompt-file ids.txt --prompt "1 2 3 4 5 6 7 8 9" --max-tokens 9 && "$meshc" generate talk.mesh --prompt "1 2" --beams 2 --max-tokens 4
}
prepare >"$tmp/out" 2>"$tmp/err" || { fail "prepare: $(cat "$tmp/err")"; finish; }
mkdir d log && "$meshc" dump net.mesh --stage all --dir d >/dev/null && echo old >e.html && echo old >machine.txt
cp -r "$tmp/cache" "$tmp/cache.start"
cd "$tmp" || exit 1

restore() {
  rm -rf "$tmp/work" "$tmp/cache"
  cp -r "$tmp/start" "$tmp/work"
  [ "$warm" = no ] || cp -r "$tmp/cache.start" "$tmp/cache"
}

# -- one failure ------------------------------------------------------------------------------------------

# All files but the compile cache, logs, and what has times in it.
contents() {
  (cd "$1" && find . -type f ! -path './log/*' ! -name '*.txt' ! -path './ck*' ! -name 'e.html' -exec cksum {} + | sort -k 3)
}
bad() {
  bad_of_command=$((bad_of_command + 1))
  fail "$name $kind:$n rank $rank: $1"
}
# Which files differ from both what was there before and what a run without a failure leaves.
neither() {
  contents "$tmp/work" | sort >"$tmp/now"
  sort -u "$tmp/before" "$tmp/after" | comm -13 - "$tmp/now" | head -n 3
}
check_message() {
  case $kind in
    memory | load | thread)
      [ "$(grep -c 'out of memory' "$tmp/err")" = 1 ] || { bad "not one message: $(head -n 3 "$tmp/err")"; return 1; }
      grep -q '^hint: ' "$tmp/err" || { bad "no hint: $(head -n 3 "$tmp/err")"; return 1; } ;;
    *)
      grep -qE 'error: .*(No space left on device|Input/output error)' "$tmp/err" || {
        bad "no reason: $(head -n 3 "$tmp/err")"
        return 1
      } ;;
  esac
}
check_json() { # CODE COMMAND...: under --json standard output is one object, the error if there is one
  json_code=-
  [ "$1" = 0 ] || json_code=E0804
  case " $* " in *" --json "*) ;; *) return 0 ;; esac
  json_error=$("$build"/one_json $json_code <"$tmp/out" 2>&1) || { bad "exit $1, JSON: $json_error: $(head -c 200 "$tmp/out")"; return 1; }
}
try() { # n COMMAND...: injects, looks, and runs the command again
  n=$1
  shift
  restore
  rm -f "$tmp/fired"
  (
    cd "$tmp/work" || exit 1
    export MESHC_INJECT="$kind:$n" MESHC_INJECT_FIRED="$tmp/fired"
    [ "$rank" = - ] || export MESHC_INJECT_RANK="$rank"
    exec timeout 60 env LD_PRELOAD="$inject" "$meshc" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
  ) 2>/dev/null
  code=$?
  [ $code != 99 ] || { skip; return; }
  [ -f "$tmp/fired" ] || return # another process of the run has an operation of this number
  of_command=$((of_command + 1))
  case $code in
    0) ;;
    7) check_message || return ;;
    124) bad "does not end"; return ;;
    *) bad "exit $code: $(head -n 3 "$tmp/err")"; return ;;
  esac
  [ "$kind" = output ] || check_json "$code" "$@" || return
  ! grep -q 'mistake in meshc\|is damaged\|is torn' "$tmp/err" || { bad "$(head -n 3 "$tmp/err")"; return; }
  if [ "$kind" != remove ]; then
    left=$(find "$tmp/work" "$tmp/cache" \( -name '*.partial*' -o -name '*.tmp' -o -name '.*.o.*' \) 2>/dev/null | head -n 1)
    [ -z "$left" ] || { bad "exit $code, left $left"; return; }
  fi
  [ "$command_writes" = no ] || {
    left=$(neither)
    [ -z "$left" ] || { bad "exit $code, half-written: $left"; return; }
  }
  # the same command once more; a training goes on, and `new` refuses what it has written
  again=""
  case $code$* in 0new*) pass; return ;; esac
  case $* in train*--checkpoint-dir*) again=--resume ;; esac
  (cd "$tmp/work" && exec "$meshc" "$@" $again >"$tmp/out" 2>"$tmp/err2" </dev/null) || { bad "then: $(head -n 3 "$tmp/err2")"; return; }
  if [ "$command_writes" = yes ]; then
    contents "$tmp/work" | sort >"$tmp/now"
    sort "$tmp/after" | cmp -s - "$tmp/now" || { bad "then another result: $(sort "$tmp/after" | comm -13 - "$tmp/now" | head -n 3)"; return; }
  fi
  pass
}

# At most $most of the numbers in $1, evenly; of those in the loader more, which has few.
sample() {
  limit=$most
  [ "$kind" != load ] || limit=$((4 * most))
  awk -v most="$limit" '{ n[NR] = $2 } END { step = NR > most ? NR / most : 1
    for (x = 1; x <= NR; x += step) print n[int(x)] }' "$1"
}

# command NAME WRITES WARM KINDS COMMAND...
command() {
  name=$1 command_writes=$2 warm=$3 kinds=$4
  shift 4
  [ "$only" = "  " ] || case $only in *" $name "*) ;; *) return ;; esac
  restore
  contents "$tmp/work" | sort >"$tmp/before"
  rm -f "$tmp/count"
  (cd "$tmp/work" && MESHC_INJECT_COUNT=$tmp/count LD_PRELOAD=$inject exec "$meshc" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null)
  code=$?
  [ $code != 99 ] || { skip; return; }
  [ $code = 0 ] && [ -s "$tmp/count" ] || { name="$name without a failure" kind="" n=""; bad "exit $code: $(head -n 3 "$tmp/err")"; return; }
  contents "$tmp/work" | sort >"$tmp/after"
  for kind in $kinds; do
    of_command=0 bad_of_command=0
    grep "^$kind " "$tmp/count" | sort -u | sort -n -k 2 >"$tmp/numbers"
    for rank in ${ranks:--}; do
      for k in $(sample "$tmp/numbers"); do
        try "$k" "$@"
        [ $all = no ] || try "$k+" "$@"
      done
    done
    [ $all = no ] || echo "$name $kind: $of_command failures injected, $bad_of_command bad"
  done
}

# -- a limit on addresses -----------------------------------------------------------------------------------

# limited KB COMMAND...: its exit code
limited() {
  (
    ulimit -v "$1" || exit 99
    shift
    cd "$tmp/work" || exit 99
    timeout 60 "$meshc" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
  ) 2>/dev/null
}
# LLVM is loaded only where something must be compiled: not in an address space that is too small for it.
library() {
  name=library kind=memory rank=- warm=yes n=131072
  restore
  limited $n train net.mesh --threads 2 -q
  code=$?
  if [ $code = 0 ]; then pass; else bad "warm: exit $code: $(head -n 3 "$tmp/err")"; fi
  limited $n train net.mesh --threads 2 -q --no-cache
  code=$?
  if [ $code = 7 ] && grep -q "loading .*LLVM" "$tmp/err"; then pass; else bad "cold: exit $code: $(head -n 3 "$tmp/err")"; fi
}
# From the smallest limit with which the program itself is loaded to the first with which the command succeeds: 7 and one
# message. The loader comes before the program and ends it its own way.
addresses() {
  name=addresses kind=memory rank=- warm=yes
  restore
  low=0 high=8388608
  limited $high version || { skip; return; }
  while [ $((high - low)) -gt 512 ]; do
    n=$(((low + high) / 2))
    if limited $n version; then high=$n; else low=$n; fi
  done
  n=$((high + 1024)) code=7 steps=0
  while [ $code = 7 ] && [ $steps -lt 2000 ]; do
    limited $n train net.mesh --threads 2 -q
    code=$?
    case $code in
      0) pass ;;
      7) if check_message; then pass; fi ;;
      124) bad "does not end" ;;
      *) bad "exit $code: $(head -n 3 "$tmp/err")" ;;
    esac
    n=$((n + address_step)) steps=$((steps + 1))
  done
  [ $all = no ] || echo "addresses: $steps limits, from $high to $n KiB"
}
address_step=32768
[ $all = no ] || address_step=1024
[ "$only" = "  " ] || case $only in *" addresses "*) addresses ;; esac
[ "$only" != "  " ] || addresses
case $only in "  "|*" library "*) library ;; esac

ranks=""
command check no yes "memory output" check net.mesh
command check-two no yes "memory thread" check two.mesh --for train --mesh x=4 --layout ct=x,parameters/all=x --threads 2
command check-json no yes memory check net.mesh --json
command run-json no yes "memory load thread" run net.mesh --params p.safetensors --feed x=x4.npy --feed kind=k4.npy --json
command eval-json no yes memory eval net.mesh --checkpoint ck --json
command plan-json no yes memory plan net.mesh --mesh p=2 --json
command run yes yes "memory load thread file output" run net.mesh --params p.safetensors --feed x=x4.npy --feed kind=k4.npy --out pred.npz
command run-cold yes no "memory thread file remove" run net.mesh --params p.safetensors --feed x=x4.npy --feed kind=k4.npy --out pred.npz
command train yes yes "memory thread file remove" train net.mesh --checkpoint-dir ck2 --save-params p.safetensors
command train-images yes yes "memory load thread file" train signs.mesh --save-params signs.safetensors
command train-log yes yes "memory thread file remove" train net.mesh --log-dir log --trace
command resume yes yes "memory thread file remove" train net.mesh --checkpoint-dir ck --keep 1 --save-params p.safetensors --resume
command train-cold yes no "memory thread file" train net.mesh --checkpoint-dir ck2 --save-params p.safetensors --save-params p.safetensors
command eval no yes "memory thread output" eval net.mesh --checkpoint ck
command generate no yes "memory thread output" generate talk.mesh --prompt-file ids.txt --prompt "1 2 3 4 5 6 7 8 9" --max-tokens 9 --temperature 1
command beams-json no yes memory generate talk.mesh --prompt "1 2" --beams 2 --max-tokens 4 --json
command predict yes yes "memory thread file" predict net.mesh --checkpoint ck --feed x=x.npy --out pred.npz
command compile yes yes "memory thread file" compile net.mesh --cpu native --for train --checkpoint ck -o packed -q
command package yes yes "memory thread file" predict packed --feed x=x.npy --out pred.npz
command dump yes yes "memory file" dump net.mesh --stage all --dir d
command explain yes yes "memory file thread" explain net.mesh --mesh p=2 --layout b=p --threads 3 --format html --out e.html
command plan no yes memory plan net.mesh --mesh p=2
command plan-loop no yes "memory thread" plan deep.mesh --mesh p=2 --threads 3
command fmt yes yes "memory file" fmt --write ugly.mesh
command tokenize yes yes "memory file" tokenize net.mesh --vocab vocabulary --out net.bin
command new yes yes "memory file" new fresh --template csv
command inspect no yes memory inspect p.safetensors
command inspect-checkpoint no yes memory inspect ck
command data no yes memory data net.mesh
command bench no yes "memory thread" bench net.mesh --steps 2
command doctor no yes "memory load thread" doctor
command cache-clear no yes "memory remove" cache --clear
ranks="0 1 L"
command np-json no yes "memory thread" eval net.mesh --np 2 --mesh rows=2 --layout b=rows --checkpoint ck --json
command np yes yes "memory thread file" train net.mesh --np 2 --mesh rows=2 --layout b=rows --checkpoint-dir ck2 --save-params p.safetensors
finish

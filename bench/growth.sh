#!/bin/sh
# What grows with models and meshes, beside the goals of meshc: seconds, memory, and whether the answer is right.
#   bench/growth.sh        GPT with 768 layers under ZeRO-3 and sequence parallelism on 2x4 processors; a model of 10,000
#                          parameters; a value with 2,000 readers; a memory budget that no recomputation of a 7B model
#                          meets; what explain says of 12 layers, with the best and with all what-ifs; the growth of every
#                          pass (suite_growth, by counts, if it is built); a step on 64 local processors
# Each line says what was measured, the goal and their ratio; FAIL before it says that the goal is missed.
cd "$(dirname "$0")/.." || exit 1
meshc=${MESHC:-$PWD/build/release/meshc}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

# goal NAME SECONDS MEGABYTES CODE OPTION...: runs meshc three times, the fastest counts; it has to end with CODE
goal() {
  name=$1 seconds=$2 megabytes=$3 code=$4
  shift 4
  : >"$tmp/times"
  for _ in 1 2 3; do
    /usr/bin/time -f "%e %M" -o "$tmp/time" "$meshc" "$@" >"$tmp/out" 2>&1
    ended=$?
    tail -n 1 "$tmp/time" >>"$tmp/times"
    [ "$ended" = "$code" ] || { failed=$((failed + 1)); echo "FAIL $name ended with $ended"; head -n 3 "$tmp/out"; return; }
  done
  sort -g "$tmp/times" | awk -v name="$name" -v s="$seconds" -v m="$megabytes" 'NR == 1 {
    good = $1 <= s && $2 / 1e3 <= m
    printf "%s%-44s %6.2f s (goal %g: %.2f), %6.0f MB (goal %g: %.2f)\n", good ? "" : "FAIL ", name, $1, s, $1 / s,
      $2 / 1e3, m, $2 / 1e3 / m
    exit !good}' && passed=$((passed + 1)) || failed=$((failed + 1))
}

goal "GPT of 768 layers, ZeRO-3 and t split, 2x4" 6 2000 0 check examples/gpt.mesh --set depth=768 --mesh rows=2,cols=4 \
  --layout b=rows,heads=cols,ff=cols,vocab=cols,parameters/all=rows,soft/t=cols

awk 'BEGIN {
  n = 10000
  print "dim b = 4, d = 8\ninput x[b, d]"
  for (i = 0; i < n; i++) printf "param p%d[d] = 0\n", i
  print "h0 = x"
  for (i = 0; i < n; i++) printf "h%d = tanh(h%d + p%d)\n", i + 1, i, i
  printf "loss = mean(h%d)\ntrain loss { optimizer = sgd(lr = 0.1), steps = 1 }\n", n}' >"$tmp/params.mesh"
goal "10,000 parameters" 1 1000 0 check "$tmp/params.mesh"

awk 'BEGIN {
  n = 2000
  print "dim b = 64, d = 8, h = 16, k = 4\ninput x[b, d]\nparam w[d, h] ~ glorot(d, h)"
  for (i = 0; i < n; i++) printf "param p%d[h, k] = 1\n", i
  print "y = tanh(sum[d](x * w))\ns0 = 0"
  for (i = 0; i < n; i++) printf "s%d = s%d + mean[b, k](square(sum[h](y * p%d)))\n", i + 1, i, i
  printf "loss = square(s%d)\ntrain loss { optimizer = sgd(lr = 0.1), steps = 1 }\n", n}' >"$tmp/readers.mesh"
goal "2,000 readers of one split value, 2x2" 1 1000 0 check "$tmp/readers.mesh" --mesh rows=2,cols=2 --layout b=rows,h=cols

goal "Llama 7B on 8, a budget that is refused" 3 1000 7 check examples/llama.mesh --set b=32 --set t=2048 --set groups=32 \
  --set queries=1 --set half=64 --set k=128 --set ff=11008 --set vocab=32000 --set depth=32 --set train.precision=bf16 \
  --mesh gpus=8 --layout b=gpus --machine h100x8 --device cuda --memory 20GB

for rules in ff=cols ff=cols,vocab=cols ff=cols,vocab=cols,soft/t=cols; do
  goal "explain of 12 layers, $(echo "b,heads,$rules" | sed 's/=cols//g')" 1 500 0 explain examples/gpt.mesh \
    --set depth=12 --mesh rows=2,cols=4 --layout "b=rows,heads=cols,$rules"
done
goal "explain -v of 12 layers, all what-ifs" 3 500 0 explain examples/gpt.mesh --set depth=12 --mesh rows=2,cols=4 \
  --layout b=rows,heads=cols,ff=cols,vocab=cols,soft/t=cols -v

skipped=0
growth=$(dirname "$meshc")/suite_growth
if [ -x "$growth" ]; then
  result=$("$growth" | tail -n 1)
  case $result in *" 0 failed"*) passed=$((passed + 1)) mark= ;; *) failed=$((failed + 1)) mark="FAIL " ;; esac
  echo "${mark}exponent of every pass at most 1.1: $result"
else
  skipped=1
fi

# step PROCESSORS DIM: prints the milliseconds of the fastest step of a two-layer network with DIM split among processors
step() {
  "$meshc" bench examples/mlp.mesh --set b=1024 --set d=512 --set h=2048 --set o=512 --mesh p="$1" --layout "$2=p" \
    --threads 2 --steps 10 2>&1 | sed -n 's/^step .* best \([0-9.]*\) ms.*/\1/p'
}

# split DIM GOAL: the fastest step of 64 processors relative to that of one, both on two cores, of three turns
split() {
  : >"$tmp/steps"
  for _ in 1 2 3; do echo "$(step 1 "$1") $(step 64 "$1")" >>"$tmp/steps"; done
  awk -v dim="$1" -v goal="$2" 'NF < 2 { exit }
    NR == 1 || $1 < one { one = $1 }
    NR == 1 || $2 < all { all = $2 }
    END {
      good = NR == 3 && all <= goal * one
      if (NR == 3)
        printf "%s64 processors on 2 cores, %s split %25s %6.2f of one (goal %g: %.2f), %.1f and %.1f ms\n", good ? "" : "FAIL ",
          dim, "", all / one, goal, all / one / goal, all, one
      else
        printf "FAIL 64 processors, %s split: no step was timed\n", dim
      exit !good}' "$tmp/steps" && passed=$((passed + 1)) || failed=$((failed + 1))
}
split h 1.3
split b 2

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

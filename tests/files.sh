#!/bin/sh
# Files that meshc writes, removes and reads: links, pipes, devices, names, locks, checkpoints that are not complete.
# Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"
clean() { chmod -R u+w "$tmp"; }

cd "$tmp" || exit 1
cat >net.mesh <<'END'
dim b = 4, d = 3
input x[b, d]
input target[b]
param w[d] ~ normal(0, 1)
loss = mean(square(sum[d](x * w) - target))
output y = w * 2
train loss { optimizer = adam(lr = 0.01), steps = 12, checkpoint = 4 }
data train over b { x = synthetic(normal), target = synthetic(uniform) }
data test over b { x = synthetic(normal), target = synthetic(uniform) }
END
printf '#!/bin/sh\nexec "%s" train net.mesh -q "$@"\n' "$meshc" >train
chmod +x train
expect "a run to compare with" 0 "" ./train --checkpoint-dir whole --save-params whole.safetensors

# A folder and a file that do not belong to meshc.
make_victim() {
  rm -rf victim
  mkdir victim
  echo precious >victim/file
  echo precious >victim/shard-00000.safetensors
  echo precious >victim/manifest.json
}
unharmed() { [ "$(cat victim/file victim/shard-00000.safetensors victim/manifest.json 2>&1)" = "precious
precious
precious" ]; }

# -- links in the folder of checkpoints ----------------------------------------------------------
make_victim
mkdir ck
ln -s ../victim ck/step-9.partial
ln -s ../victim ck/step-4.partial
ln -s ../victim/file ck/best.partial
expect "links to folders" 0 "" ./train --checkpoint-dir ck --set train.evaluate=4
check "a folder behind a link is left alone" unharmed
expect "checkpoints beside them" 0 "step: 12" "$meshc" inspect ck
check "the best one" test -e ck/best/manifest.json
rm -rf ck
mkdir -p ck/step-4.partial
ln -s ../../victim/file ck/step-4.partial/manifest.json
echo mine >ck/step-4.partial/notes.txt
expect "what is half-written is removed" 0 "" ./train --checkpoint-dir ck
check "other files in it stay" test "$(cat ck/step-4.partial/notes.txt)" = mine
check "the target of a link in it stays" unharmed
rm -rf ck
mkdir -p ck elsewhere
./train --checkpoint-dir elsewhere --set train.steps=2 --set train.checkpoint=2 >out 2>err || fail "training elsewhere: $(cat err)"
ln -s ../elsewhere/step-2 ck/step-2
expect "--keep goes on from a linked checkpoint" 0 "" ./train --checkpoint-dir ck --resume --keep 1
check "--keep removes none that is linked" test -e elsewhere/step-2/manifest.json
rm -rf ck
mkdir real
ln -s real ck
expect "the folder itself may be a link" 0 "" ./train --checkpoint-dir ck
check "it is followed" test -e real/step-12/manifest.json
rm -rf ck real
mkdir ck
ln -s ../victim/file ck/.lock
expect "a lock that is a link" 1 "cannot lock the folder ck" ./train --checkpoint-dir ck
ln -f victim/file ck/.lock
expect "a lock that is another's file" 1 "cannot lock the folder ck" ./train --checkpoint-dir ck
check "neither is written to" unharmed
rm -rf ck

# -- --out, --save-params, logs, dumps -------------------------------------------------------------
make_victim
for way in "--out o.npz o.npz" "--out o.safetensors o.safetensors" "--out o o/y.npy"; do
  # shellcheck disable=SC2086
  set -- $way
  rm -rf o o.*
  mkdir o
  for kind in link hard fifo folder; do
    case $kind in
    link) ln -sf "$PWD/victim/file" "$3.partial" ;;
    hard) ln -f victim/file "$3.partial" ;;
    fifo) mkfifo "$3.partial" ;;
    folder) mkdir "$3.partial" ;;
    esac
    expect "$3.partial is a $kind" 0 "" "$meshc" run net.mesh --fetch y $1 "$2"
    check "$3.partial is a $kind: the victim" unharmed
    check "$3.partial is a $kind: the result" test -s "$3"
    rm -rf "$3.partial" "$3"
  done
  ln -s "$PWD/victim/file" "$3"
  expect "$3 is a link" 0 "" "$meshc" run net.mesh --fetch y $1 "$2"
  check "$3 was a link: the victim" unharmed
  check "$3 was a link: it is replaced" test ! -L "$3"
done
if shared=$(mktemp /dev/shm/meshc-files-XXXXXX 2>/dev/null); then
  echo precious >"$shared"
  ln -sf "$shared" o.npz
  expect "a link to a file in /dev/shm" 0 "" "$meshc" run net.mesh --fetch y --out o.npz
  check "it is replaced" test ! -L o.npz
  check "the file stays" test "$(cat "$shared")" = precious
  rm -f "$shared"
else
  skip 3
fi
ln -s "$PWD/victim/file" s.safetensors.partial
expect "--save-params" 0 "" ./train --save-params s.safetensors
check "--save-params beside a link" unharmed
echo half >left.npz.partial
expect "what a dead run left behind" 0 "" "$meshc" run net.mesh --fetch y --out left.npz
check "is removed" test ! -e left.npz.partial

mkdir log
ln -s ../victim/file log/metrics.jsonl
ln -s ../victim/file log/report.html
expect "--log-dir with links" 0 "" ./train --log-dir log
check "--log-dir: the victim" unharmed
check "--log-dir: the lines" test "$(wc -l <log/metrics.jsonl)" = 12
rm -rf log/metrics.jsonl
ln -s ../victim/file log/metrics.jsonl
./train --checkpoint-dir logged --set train.steps=4 >out 2>err || fail "training to go on from: $(cat err)"
expect "--resume with a link" 1 "cannot write log/metrics.jsonl" ./train --checkpoint-dir logged --resume --log-dir log
check "--resume: the victim" unharmed

mkdir dumps
for f in 01-ast.txt 02-graph.txt; do ln -s ../victim/file dumps/$f; done
expect "dump --dir" 0 "" "$meshc" dump net.mesh --stage ast --dir dumps
expect "dump --dir" 0 "" "$meshc" dump net.mesh --stage graph --dir dumps
ln -s victim/file page.html
expect "explain --out" 0 "" "$meshc" explain net.mesh --format html --out page.html
check "dump and explain" unharmed
expect "explain --out to a full disk" 7 "No space left" "$meshc" explain net.mesh --format html --out /dev/full
check "the device is still there" test -c /dev/full
expect "explain --out to standard output" 0 "<html" "$meshc" explain net.mesh --format html --out /dev/stdout
"$meshc" explain net.mesh --format html --out /dev/stdout >page.txt 2>err
check "into a file" grep -q "<html" page.txt
check "standard output is still a link" test -L /dev/stdout
expect "a folder in its place" 1 "cannot write victim: Is a directory" "$meshc" explain net.mesh --out victim
odd="$tmp/two
lines"
"$meshc" explain net.mesh --out "$odd" 2>err
check "a name of two lines" test -s "$odd"
rm -f "$odd"
mkdir "$odd"
expect "is shown on one" 1 'two.x0alines: Is a directory' "$meshc" explain net.mesh --out "$odd"

cp net.mesh loose.mesh
echo >>loose.mesh
printf 'dim   q=3\n' >>loose.mesh
ln -s "$PWD/victim/file" loose.mesh.partial
ln -s loose.mesh linked.mesh
chmod 640 loose.mesh
expect "fmt -w" 0 "" "$meshc" fmt -w linked.mesh
check "fmt -w: the victim" unharmed
check "fmt -w follows the link of its model" test -L linked.mesh
check "fmt -w writes the model" grep -q '^dim q = 3' loose.mesh
check "fmt -w keeps its mode" test "$(stat -c %a loose.mesh)" = 640

# -- the compile cache -----------------------------------------------------------------------------
mkdir -m 700 cache
XDG_CACHE_HOME=$PWD/cache "$meshc" run net.mesh --fetch y >out 2>&1 || fail "a run with a cache: $(cat out)"
entry=$(find cache -name '*.o' | head -n 1)
if [ -n "$entry" ]; then
  rm "$entry"
  ln -s "$PWD/victim/file" "$entry.partial"
  XDG_CACHE_HOME=$PWD/cache expect "a run with a link in the cache" 0 "" "$meshc" run net.mesh --fetch y
  check "the cache beside a link" unharmed
  check "the entry is written" test -f "$entry"
  XDG_CACHE_HOME=$PWD/cache MESHC_CACHE_MIB=0 expect "a full cache" 0 "" "$meshc" run net.mesh --fetch y --opt 1
  XDG_CACHE_HOME=$PWD/cache expect "cache --clear" 0 "" "$meshc" cache --clear
  check "cache --clear: the victim" unharmed
else
  skip 6 # a build without machine code
fi

# -- two trainings in one folder -------------------------------------------------------------------
mkdir -p busy/step-3.partial
: >busy/step-3.partial/shard-00000.safetensors
if command -v flock >/dev/null; then
  : >busy/.lock
  printf 'process 4711 on elsewhere\n' >busy/.lock
  expect "a folder that is in use" 2 "another training writes to the folder busy: process 4711 on elsewhere" flock busy/.lock "$meshc" train net.mesh --checkpoint-dir busy
  expect "by ranks" 2 "another training writes to the folder busy" flock busy/.lock "$meshc" train net.mesh --np 2 --mesh p=2 --layout b=p --checkpoint-dir busy
  check "what the other one writes stays" test -e busy/step-3.partial/shard-00000.safetensors
else
  skip 3
fi
"$meshc" train net.mesh --checkpoint-dir busy --set train.steps=1000000 --set train.checkpoint=1 --keep 2 >out1 2>&1 &
pid=$!
i=0
while [ ! -e busy/best ] && ! grep -q checkpoint out1 && [ $i -lt 500 ]; do sleep 0.02; i=$((i + 1)); done
expect "two runs" 2 "another training writes to the folder busy: process $pid on" ./train --checkpoint-dir busy --resume
kill -9 $pid
wait $pid 2>/dev/null
expect "after the first has died" 0 "" ./train --checkpoint-dir busy --resume --set train.steps=1
if ls -d busy/*.partial >/dev/null 2>&1; then fail "half-written ones are left"; else pass; fi

# -- checkpoints that are not complete ---------------------------------------------------------------
mkdir ck ck/step-12
echo mine >ck/step-12/notes.txt
expect "a folder step-12 without a manifest" 0 "ck/step-12 has no manifest.json, so it is no checkpoint: it is now step-12.old" ./train --checkpoint-dir ck
check "the last checkpoint is written" test -e ck/step-12/manifest.json
check "what had its name is kept" test "$(cat ck/step-12.old/notes.txt)" = mine
rm ck/step-12/manifest.json
expect "eval passes it over" 0 "warning: ck/step-12 is ignored: it has no manifest.json" "$meshc" eval net.mesh --checkpoint ck
expect "--resume passes it over" 0 "warning: ck/step-12 is ignored: it has no manifest.json" ./train --checkpoint-dir ck --resume --save-params resumed.safetensors
check "it is written again" test -e ck/step-12/manifest.json
check "with the same values" cmp -s whole.safetensors resumed.safetensors
check "the folder without a manifest is kept" test -e ck/step-12.1.old/shard-00000.safetensors

truncate -s -1 ck/step-12/shard-00000.safetensors
expect "a damaged one" 5 "hint: the checkpoint before it is ck/step-8: train --resume=8 goes on from it, --checkpoint ck/step-8 reads it" ./train --checkpoint-dir ck --resume
sed -i 's/"step": 12/"step": 13/' ck/step-12/manifest.json
expect "a damaged manifest" 5 "hint: the checkpoint before it is ck/step-8" "$meshc" eval net.mesh --checkpoint ck
ln -sfn step-12 ck/best
expect "--resume=8" 0 "ck/step-12 is later than step 8, from which training goes on: it is now step-12.2.old" ./train --checkpoint-dir ck --resume=8 --save-params resumed.safetensors
check "from step 8 the same values" cmp -s whole.safetensors resumed.safetensors
check "the damaged one is kept" test -e ck/step-12.2.old/manifest.json
check "the best one is none that was moved" test ! -L ck/best -o -e ck/best/manifest.json
expect "the one before, by its folder" 0 "test loss" "$meshc" eval net.mesh --checkpoint ck/step-4
expect "--resume of a step that is not there" 2 "ck holds no complete checkpoint of step 5" ./train --checkpoint-dir ck --resume=5
check "the steps that are there" says 'hint: it holds those of: step 4, 8'
expect "--resume of no number" 2 "resume takes an integer" ./train --checkpoint-dir ck --resume=last
expect "--resume of nothing" 2 "resume takes an integer" ./train --checkpoint-dir ck --resume=
expect "--resume does not take the next word" 2 "does not take '8'" ./train --checkpoint-dir ck --resume 8
cp -r whole zeros
mv zeros/step-12 zeros/step-00012
expect "step-00012" 0 "test loss" "$meshc" eval net.mesh --checkpoint zeros
expect "step-00012 is the newest" 0 "step: 12" "$meshc" inspect zeros
mkdir zeros/step-99999999999999999999
expect "a step beyond all numbers" 0 "step: 12" "$meshc" inspect zeros

finish

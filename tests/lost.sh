#!/bin/sh
# Lost ranks: a rank that is killed, stopped, or does not do the same as the others ends the run within the deadline, at
# any moment, with one sentence and the documented exit code, and leaves nothing behind. Signals that ask for a
# checkpoint give one. Ranks that read different data do not train. What needs mpirun is skipped, and counted, where
# there is none.
#
#   tests/lost.sh [N]     N rounds of kills, stops and disagreements at random moments (default 0: fixed moments only)
#
# Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"
rounds=${1:-0} slowest=0
use_mpi
mkdir "$tmp/cache"
export XDG_CACHE_HOME="$tmp/cache"

deadline=2
slack=12 # seconds beyond it, on a busy machine
cp examples/iris.mesh "$tmp/iris.mesh"
cp -r examples/data "$tmp"
endless="train $tmp/iris.mesh -q --set train.epochs=0 --set train.steps=100000000 --timeout $deadline"

# begin WAY OPTIONS...: the endless run in the background, its launcher is $!
begin() {
  way=$1
  shift
  began=$(date +%s)
  # shellcheck disable=SC2086
  case $way in
    np) "$meshc" $endless --np 4 "$@" >"$tmp/log" 2>"$tmp/err" & ;;
    comm) "$meshc" $endless --np 4 --comm mpi "$@" >"$tmp/log" 2>"$tmp/err" & ;;
    mpirun) mpirun -q -n 4 "$meshc" $endless "$@" >"$tmp/log" 2>"$tmp/err" & ;;
    far) MESHC_RANKS_A_MACHINE=2 mpirun -q -n 4 "$meshc" $endless "$@" >"$tmp/log" 2>"$tmp/err" & ;;
  esac
  launcher=$!
}

# await: waits for the launcher; its exit code is in $code, "hung" where Open MPI's mpirun waits for itself after all of
# its processes have ended (PMIx_server_finalize, when a rank was killed while it connected)
await() {
  turns=0
  while [ $turns -lt 300 ]; do
    case $(ps -o stat= -p $launcher 2>/dev/null) in Z* | "") break ;; esac
    sleep 0.1
    turns=$((turns + 1))
  done
  hung=""
  if [ $turns = 300 ] && ! ps -o stat= --ppid $launcher | grep -qv '^Z'; then
    hung=1
    kill -KILL $launcher
  fi
  wait $launcher 2>/dev/null
  code=$?
  [ -n "$hung" ] || return 0
  echo "mpirun waits for itself; killed"
  code=hung
  rm -rf "$tmp"/ompi/* "$tmp"/shm/*
}

children() { ps -o pid= --ppid "$1" 2>/dev/null | tr -d ' '; }

# child PID K: the k-th child, once it is there
child() {
  tries=0 found=""
  while [ -z "$found" ] && [ $tries -lt 200 ]; do
    found=$(children "$1" | sed -n "$2p")
    tries=$((tries + 1))
    [ -n "$found" ] || sleep 0.02
  done
  echo "$found"
}

# nothing_left NAME: no process, no memory, no session folder, no half-written file of this run
nothing_left() {
  left="" tries=0
  while [ $tries -lt 30 ]; do
    left=$(pgrep -f "$tmp/iris.mesh" | tr '\n' ' ')
    [ -n "$left" ] || break
    sleep 0.1
    tries=$((tries + 1))
  done
  [ -z "$left" ] || { fail "$1: processes are left: $left"; return 1; }
  left=$(find "$tmp/shm" "$tmp/ompi" -mindepth 2 ! -type d; find "$tmp/shm" -mindepth 1; find "$tmp" -name '*.partial')
  [ -z "$left" ] || { fail "$1: files are left: $left"; return 1; }
}

# ended NAME CODE WANTED PATTERN: one sentence that matches, the exit code, in time, nothing left
ended() {
  seconds=$(($(date +%s) - began))
  [ $seconds -le $slowest ] || slowest=$seconds
  if [ "$2" = hung ] && one_sentence "$4"; then
    skip
  elif [ "$2" != "$3" ] || ! one_sentence "$4"; then
    fail "$1: exit $2, $lines sentences: $(head -n 3 "$tmp/err")"
  elif [ $seconds -gt $((deadline + slack)) ]; then
    fail "$1: $seconds seconds"
  elif nothing_left "$1"; then
    pass
  fi
}

# lose WAY SIGNAL MOMENT K [guard]: a signal to the k-th rank, MOMENT seconds after it was started; under mpirun its guard
# may be the one that is killed: mpirun then ends with 137, whatever its ranks do
lose() {
  way=$1 signal=$2 moment=$3 k=$4 target=${5:-rank} wanted=6
  needs_mpi "$way" || return
  begin "$way" --no-cache
  victim=$(child $launcher "$k")
  sleep "$moment"
  [ "$way" = np ] || [ "$target" = guard ] || victim=$(child "$victim" 1)
  [ -n "$victim" ] || { fail "$way: no rank $k: $(head -n 3 "$tmp/err")"; kill $launcher 2>/dev/null; return; }
  kill -"$signal" "$victim" 2>/dev/null
  await
  [ "$way" = np ] || [ "$target" != guard ] || wanted=137
  ended "$way, SIG$signal to $target $k after $moment s" $code $wanted \
    "(rank [0-3] .*(was killed|has been stopped|no sign of life|does not come|has ended)|before the ranks had met).*E0803"
}

# fault WAY HOW RANK CALL PATTERN: a rank errs at a call
fault() {
  way=$1
  needs_mpi "$way" || return
  begin "$way" --fault "$2@$3:$4"
  await
  ended "$way, $2 of rank $3 at call $4" $code 6 "$5"
}

rank='rank [0-3] \(processor [0-3], rows=[01] cols=[01]\)'
same="the ranks do not do the same: $rank is at .*, and $rank is at"

# -- at fixed moments: while the program is started, while it compiles, while it trains -----------------------

lose np STOP 0.26 2
lose np KILL 0 1
lose np KILL 1 4
lose mpirun STOP 0 2
lose mpirun KILL 0 3
lose mpirun KILL 0.3 4 guard
lose far KILL 1 3
stale='--set b=32 --mesh rows=4,cols=1 --layout b=rows --set train.sync=stale(2,replicas=4)'
# lost_server HOW PATTERN: a rank that is a server and runs a replica is lost in its step 64
lost_server() {
  # shellcheck disable=SC2086
  begin np $stale --fault "$1@2:64"
  await
  ended "a server, $1" $code 6 "$2"
}
lost_server kill 'rank 2 \(processor 2, rows=2 cols=0\) was killed by signal 9 .* in steps with asynchronous updates'
lost_server stop 'rank 2 \(processor 2, rows=2 cols=0\) has been stopped'
for how in count kind line skip; do fault np $how 1 47 "$same"; done
fault mpirun count 2 64 "the ranks do not do the same: $rank is at .*(of line [0-9]+|end of a step)"
fault mpirun stop 0 30 "$rank has been stopped"
fault far skip 3 81 "the ranks do not do the same"
fault far kill 1 64 "$rank was killed by signal 9"

# -- at random moments ----------------------------------------------------------------------------------------

# random SEED LIMIT: a number from 0 to LIMIT
random() { awk -v seed="$1" -v most="$2" 'BEGIN { srand(seed); rand(); printf "%.2f", rand() * most }'; }
i=0
while [ $i -lt "$rounds" ]; do
  k=$((1 + i % 4))
  lose np KILL "$(random $((4 * i)) 1.5)" $k
  lose np STOP "$(random $((4 * i + 1)) 1.5)" $k
  way=mpirun target=rank
  [ $((i % 2)) = 0 ] || way=far
  [ $((i % 3)) != 0 ] || target=guard
  lose $way KILL "$(random $((4 * i + 2)) 2)" $k $target
  lose $way STOP "$(random $((4 * i + 3)) 2)" $k
  i=$((i + 1))
done

# -- the launcher itself --------------------------------------------------------------------------------------

begin np
child $launcher 4 >/dev/null
sleep 0.3
kill -KILL $launcher
wait $launcher 2>/dev/null
nothing_left "the launcher was killed" && pass

# asked WAY SIGNAL MOMENT WANTED: a signal to the launcher; with 75 there is a checkpoint
asked() {
  way=$1 signal=$2 moment=$3 wanted=$4
  needs_mpi "$way" || return
  rm -rf "$tmp/ck"
  begin "$way" --checkpoint-dir "$tmp/ck"
  group=$launcher
  [ "$way" != comm ] || group=$(child $launcher 1)
  last=$(child "$group" 4)
  [ "$way" != mpirun ] || child "$last" 1 >/dev/null # before it has a guard, the signal ends a rank
  sleep "$moment"
  kill -"$signal" $launcher
  await
  if [ $code != "$wanted" ]; then
    fail "$way, SIG$signal to the launcher after $moment s: exit $code, not $wanted: $(head -n 3 "$tmp/err")"
  elif [ "$wanted" = 75 ] && ! ls "$tmp"/ck/step-*/manifest.json >/dev/null 2>&1; then
    fail "$way, SIG$signal to the launcher after $moment s: no checkpoint"
  elif nothing_left "$way, SIG$signal to the launcher"; then
    pass
  fi
}
asked np USR1 0.05 75
asked np TERM 2.5 75
asked np HUP 2.5 75
asked comm USR1 0 75
asked comm TERM 1 75
asked comm INT 2.5 75
asked mpirun USR1 1 75

# A signal that reaches the ranks one after the other, the last of them when the first are about to end
for round in 1 2 3; do
  rm -rf "$tmp/ck"
  begin np --checkpoint-dir "$tmp/ck" --set train.checkpoint=1000 --keep 2
  turns=0
  while ! ls "$tmp"/ck/step-*/manifest.json >/dev/null 2>&1 && [ $turns -lt 500 ]; do sleep 0.02; turns=$((turns + 1)); done
  for one in $(children $launcher); do
    kill -TERM "$one" 2>/dev/null
    sleep 0.00$((2 * round))
  done
  await
  if [ $code != 75 ]; then fail "SIGTERM rank by rank: exit $code: $(head -n 3 "$tmp/err")"; elif nothing_left "SIGTERM rank by rank"; then pass; fi
done

# SIGUSR1 to one rank in its last moments, again and again: the run ends well
"$meshc" train "$tmp/iris.mesh" -q --set train.epochs=0 --set train.steps=20 --np 4 --checkpoint-dir "$tmp/last" >"$tmp/log" 2>"$tmp/err" &
launcher=$!
victim=$(child $launcher 2)
while [ -n "$victim" ] && kill -USR1 "$victim" 2>/dev/null; do sleep 0.01; done
wait $launcher
code=$?
if [ $code = 0 ] || [ $code = 75 ]; then pass; else fail "SIGUSR1 to a rank all the time: exit $code: $(head -n 3 "$tmp/err")"; fi

# -- ranks that read different data ---------------------------------------------------------------------------

rows_model
mkdir "$tmp/a" "$tmp/b"
printf '1,2\n3,4\n5,6\n7,8\n' >"$tmp/a/rows.csv"
printf '1,2\n3,4\n5,6\n7,9\n' >"$tmp/b/rows.csv"
printf 'w = w\n' >"$tmp/a/names.map"
printf 'w = w \n' >"$tmp/b/names.map"
printf 'dim c = 2\noutput w[c] = index[c] * 0.1\n' >"$tmp/w.mesh"
"$meshc" run "$tmp/w.mesh" --out "$tmp/a/w.npz" >/dev/null
printf 'dim c = 2\noutput w[c] = index[c] * 0.2\n' >"$tmp/w.mesh"
"$meshc" run "$tmp/w.mesh" --out "$tmp/b/w.npz" >/dev/null

# two_kinds OPTIONS-OF-RANKS-0-AND-1 -- OPTIONS-OF-2-AND-3
two_kinds() {
  # shellcheck disable=SC2086
  mpirun -q -n 2 "$meshc" train "$tmp/rows.mesh" -q --timeout $deadline $1 : -n 2 "$meshc" train "$tmp/rows.mesh" -q --timeout $deadline $2 \
    >"$tmp/log" 2>"$tmp/err"
}
unlike() {
  if needs_mpi mpirun; then
    began=$(date +%s)
    two_kinds "$2" "$3"
    ended "$1" $? 6 "$4"
  fi
}
a=$tmp/a b=$tmp/b
unlike "other rows" "--data-dir $a" "--data-dir $b" "ranks 2, 3 read another rows.csv than rank 0.*E0803"
unlike "other rows, all bytes compared" "--data-dir $a --check-data full" "--data-dir $b --check-data full" "ranks 2, 3 read another rows.csv than rank 0"
unlike "other parameters" "--data-dir $a --params $a/w.npz" "--data-dir $a --params $b/w.npz" "ranks 2, 3 read another w.npz than rank 0"
unlike "another map" "--data-dir $a --params $a/w.npz --map $a/names.map" "--data-dir $a --params $a/w.npz --map $b/names.map" \
  "ranks 2, 3 read another names.map than rank 0"
if needs_mpi mpirun; then
  cp "$tmp/a/rows.csv" "$tmp/b/rows.csv"
  two_kinds "--data-dir $a" "--data-dir $b"
  code=$?
  if [ $code = 0 ]; then pass; else fail "the same rows in two folders: exit $code: $(head -n 3 "$tmp/err")"; fi
fi

# -- no room for the buffers of BLAS --------------------------------------------------------------------------

cat >"$tmp/large.mesh" <<'M'
dim b = 1024, c = 1024, e = 1024
input x[b, c]
param w[c, e] ~ normal(0, 1)
loss = mean(square(sum[c](x * w)))
train loss { optimizer = sgd(lr = 0.1), steps = 2 }
data train over b { x = synthetic(normal) }
mesh p = 2
layout b -> p
M
export MESHC_F32=none # products of f32 by AVX-512 need no such memory
for how in "--threads 4" "--threads 4 --np 2"; do
  if ! (ulimit -v 320000; "$meshc" version >/dev/null 2>&1) || ! /sbin/ldconfig -p | grep -q libopenblas.so.0; then # sanitizers
    skip
    continue
  fi
  # shellcheck disable=SC2086
  (ulimit -v 320000; exec timeout 60 "$meshc" train "$tmp/large.mesh" -q $how >"$tmp/log" 2>"$tmp/err")
  code=$?
  if [ $code = 7 ] && grep -q E0804 "$tmp/err"; then pass; else fail "320 MB of addresses, $how: exit $code: $(head -n 3 "$tmp/err")"; fi
done
unset MESHC_F32

# -- who listens ----------------------------------------------------------------------------------------------

# Ranks of one machine listen on no interface but the loopback. Inodes of listening sockets are in /proc/net/tcp.
if needs_mpi mpirun; then
  begin mpirun
  wide=""
  sleep 2
  for guard in $(children $launcher); do
    for one in $guard $(children "$guard"); do
      for inode in $(find "/proc/$one/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null | tr -dc '0-9\n'); do
        wide="$wide$(awk -v inode="$inode" '$4 == "0A" && $10 == inode && $2 !~ /^0100007F:|^00000000000000000000000001000000:/' /proc/net/tcp /proc/net/tcp6)"
      done
    done
  done
  kill -TERM $launcher
  wait $launcher
  if [ -z "$wide" ]; then pass; else fail "a rank listens: $wide"; fi
fi

[ "$rounds" = 0 ] || echo "the slowest end took $slowest seconds; the deadline is $deadline"
finish

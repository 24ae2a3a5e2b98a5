#!/bin/sh
# Several processes: --np and mpirun give the bits of one process and count what is predicted. What needs mpirun is
# skipped, and counted, where there is none. How a lost rank ends a run is in tests/lost.sh.
#
# Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"
hosts=""
clean() {
  for h in $hosts; do ip netns del "$h" 2>/dev/null; done
  [ -z "$hosts" ] || ip link del "$bridge" 2>/dev/null
}
use_mpi
"$build/generate" "$tmp" || exit 1

# -- what a rank alone has wrong, and what does not fit ---------------------------------------------------------------

mkdir "$tmp/here" "$tmp/there"
printf 'dim n = 4\noutput y = index[n]\nmesh p = 2\nlayout n -> p\n' >"$tmp/here/small.mesh"
if [ -n "$have_mpi" ]; then
  (cd "$tmp/here" && mpirun -q -n 1 "$meshc" run small.mesh : -n 1 --wdir ../there "$meshc" run small.mesh) >"$tmp/log" 2>&1
  check "a model that one rank lacks" grep -q "error: rank 1 cannot read the model small.mesh: No such file" "$tmp/log"
  check "the folder of that rank" grep -q "its folder is .*/there" "$tmp/log"
  mpirun -q -n 2 "$meshc" run "$tmp/here/small.mesh" --np 4 >"$tmp/log" 2>&1
  check "--np of another number than that of mpirun" grep -q "error: --np 4, and the MPI launcher has started 2 ranks" "$tmp/log"
  mpirun -q -n 2 "$meshc" run "$tmp/here/small.mesh" --np 2 >"$tmp/log" 2>&1
  check "--np of the number of mpirun" grep -q '\[0, 1, 2, 3\]' "$tmp/log"
else
  skip 4
fi

# -- the same bits ------------------------------------------------------------------------------------------

cat >"$tmp/mlp.mesh" <<'X'
dim b = 8, d = 4, h = 6, o = 2
param x[b, d] ~ normal(0, 1)
param target[b, o] ~ normal(0, 1)
param w[d, h] ~ glorot(d, h)
param v[h, o] ~ glorot(h, o)
hidden = relu(sum[d](x * w))
y[b, o] = sum[h](hidden * v)
loss = mean(square(y - target))
output y
X
cat >"$tmp/attention.mesh" <<'X'
dim b = 4, t = 6, s = 6, heads = 4, k = 3, m = 8
param x[b, t, m] ~ normal(0, 1)
param wq[m, heads, k] ~ normal(0, 0.3)
param wk[m, heads, k] ~ normal(0, 0.3)
param wv[m, heads, k] ~ normal(0, 0.3)
param wo[heads, k, m] ~ normal(0, 0.3)
q = sum[m](x * wq)
keys = rename[t -> s](sum[m](x * wk))
values = rename[t -> s](sum[m](x * wv))
p = softmax[s](sum[k](q * keys))
y[b, t, m] = sum[heads, k](sum[s](p * values) * wo)
loss = mean(square(y))
output y
X
cat >"$tmp/image.mesh" <<'X'
dim b = 4, y = 9, x = 8, c = 4, e = 3, ky = 3, kx = 3
param img[b, y, x, c] ~ normal(0, 1)
param w[ky, kx, c, e] ~ normal(0, 0.3)
out[b, y, x, e] = sum[ky, kx, c](window[y -> y, ky](window[x -> x, kx](img, pad = same), pad = same) * w)
loss = mean(square(out))
output out
X

# ways NAME COMMAND...: with $np ranks by --np; by mpirun; by mpirun with every rank, and every two, on a machine of their own
launch() {
  way=$1 np=$2
  shift 2
  [ "$way" = np ] || [ -n "$have_mpi" ] || return 99
  case $way in
    np) "$@" --np "$np" ;;
    mpirun) mpirun -q -n "$np" "$@" ;;
    far) MESHC_RANKS_A_MACHINE=1 mpirun -q -n "$np" "$@" ;;
    far2) MESHC_RANKS_A_MACHINE=2 mpirun -q -n "$np" "$@" ;;
  esac
}

# alike OUT NAME OPTIONS...: the file that the command writes behind OUT is the same in all ways
alike() {
  out=$1 name=$2 which=$3
  shift 3
  "$meshc" "$@" "$out" "$tmp/one.npz" >"$tmp/log" 2>&1 || { fail "$name in one process: $(head -n 3 "$tmp/log")"; return; }
  for way in $which; do
    for np in 2 4; do
      [ "$way$np" != far22 ] || continue
      rm -f "$tmp/many.npz"
      launch "$way" "$np" "$meshc" "$@" "$out" "$tmp/many.npz" >"$tmp/log" 2>&1
      code=$?
      if [ $code = 99 ]; then
        skip
      elif [ $code != 0 ]; then
        fail "$name, $way, $np ranks: exit $code: $(head -n 3 "$tmp/log")"
      elif cmp -s "$tmp/one.npz" "$tmp/many.npz"; then
        pass
      else
        fail "$name, $way, $np ranks: other bits"
      fi
    done
  done
}

all="np mpirun far far2"
mlp="y,loss,grad(w),grad(v),grad(x)"
alike --out "mlp b" "np far" run "$tmp/mlp.mesh" --fetch "$mlp" --mesh p=4 --layout b=p
alike --out "mlp h" np run "$tmp/mlp.mesh" --fetch "$mlp" --mesh p=4 --layout h=p
alike --out "mlp b, h" "$all" run "$tmp/mlp.mesh" --fetch "$mlp" --mesh rows=2,cols=2 --layout b=rows,h=cols
alike --out "mlp b, d" np run "$tmp/mlp.mesh" --fetch "$mlp" --mesh rows=2,cols=2 --layout b=rows,d=cols
att="y,loss,grad(wq),grad(wv),grad(wo),grad(x)"
alike --out "attention b, heads" "np far2" run "$tmp/attention.mesh" --fetch "$att" --mesh rows=2,cols=2 --layout b=rows,heads=cols
alike --out "attention t" "np far" run "$tmp/attention.mesh" --fetch "$att" --mesh p=4 --layout t=p
image="out,loss,grad(w),grad(img)"
alike --out "image y" "np far" run "$tmp/image.mesh" --fetch "$image" --mesh p=4 --layout y=p
alike --out "image y, x" "np far2" run "$tmp/image.mesh" --fetch "$image" --mesh rows=2,cols=2 --layout y=rows,x=cols
alike --save-params "iris" "$all" train examples/iris.mesh -q --set train.epochs=5
alike --save-params "iris over 8" "np far2" train examples/iris.mesh -q --set train.epochs=3 --mesh rows=4,cols=2 --layout b=rows,h1=cols
alike --save-params "transformer" "np far2" train examples/transformer.mesh -q --data-dir "$tmp" --set train.epochs=0 --set train.steps=4 --mesh rows=2,cols=2 \
  --layout b=rows,heads=cols,ff=cols,symbols=cols
alike --save-params "optimizer cut" np train examples/transformer.mesh -q --data-dir "$tmp" --set train.epochs=0 --set train.steps=3 --mesh p=4 --layout b=p,optimizer/all=p
alike --out "predict" "np" predict examples/iris.mesh --data test
awk 'BEGIN { for (i = 0; i < 13; i++) print i % 5 - 2 "," i % 7 }' >"$tmp/rows.csv"
cat >"$tmp/along.mesh" <<'X'
dim b = 10, d = 2
input x[b, d]
output y = x * reverse[b](x) + shift[b](x) / size(b)
output s = sort[b](x) - mean[b](x)
data test over b { x = csv("rows.csv", columns = 0..2) }
X
alike --out "a last batch of 3 rows" "$all" predict "$tmp/along.mesh" --mesh p=4 --layout b=p

# bytes that are counted are those that were predicted
predicted() {
  python3 -c '
import json, sys
r = json.load(sys.stdin)
want = {}
for c in r["collectives"]:
    want[c["kind"]] = want.get(c["kind"], 0) + c["bytes"] * c["times"]
got = {k: v["bytes"] for k, v in r["measured"].items()}
print("same" if want == got and got else (want, got))' 2>&1
}
if command -v python3 >/dev/null; then
  for np in 2 4; do
    for layout in b=rows,h=cols b=rows,d=cols h=rows o=cols; do
      got=$("$meshc" run "$tmp/mlp.mesh" --fetch "$mlp" --mesh rows=2,cols=2 --layout $layout --np $np --json 2>/dev/null | predicted)
      if [ "$got" = same ]; then pass; else fail "bytes of $layout with $np ranks: $got"; fi
    done
  done
else
  skip 8
fi

# a checkpoint of several ranks, and a resume with fewer, is the unbroken run
"$meshc" train examples/iris.mesh -q --set train.epochs=0 --set train.steps=40 --save-params "$tmp/whole.npz" >"$tmp/log" 2>&1
"$meshc" train examples/iris.mesh -q --set train.epochs=0 --set train.steps=20 --np 4 --checkpoint-dir "$tmp/ck" >"$tmp/log" 2>&1
"$meshc" train examples/iris.mesh -q --set train.epochs=0 --set train.steps=40 --np 2 --checkpoint-dir "$tmp/ck" --resume --save-params "$tmp/parts.npz" >"$tmp/log" 2>&1
if cmp -s "$tmp/whole.npz" "$tmp/parts.npz"; then pass; else fail "resume with other ranks: $(head -n 3 "$tmp/log")"; fi

# -- whole and split ----------------------------------------------------------------------------------------

# verified WAY NP OPTIONS...: --verify compares with the whole, which one rank runs; a wrong element from a collective of
# one processor is found by all ranks together, with one sentence
verified() {
  way=$1 np=$2
  shift 2
  for fault in none 0:0 1:1 3:2; do
    more=""
    [ $fault = none ] || more="--fault value@$fault"
    # shellcheck disable=SC2086
    launch "$way" "$np" "$meshc" train "$@" --verify $more >"$tmp/log" 2>"$tmp/err"
    code=$?
    if [ $code = 99 ]; then
      skip
    elif [ $fault = none ]; then
      if [ $code = 0 ] && [ "$(grep -c '^verify: .* agree between one processor and split (rows=2,cols=2)' "$tmp/err")" = 1 ]; then pass; else
        fail "--verify, $way, $np ranks: exit $code: $(head -n 3 "$tmp/err")"
      fi
    elif [ $code = 4 ] && [ "$(grep -c error: "$tmp/err")" = 1 ] && grep -q E0809 "$tmp/err"; then
      pass
    else
      fail "--verify with a wrong element, $way, $np ranks: exit $code: $(head -n 3 "$tmp/err")"
    fi
  done
}
for way in np mpirun far2; do
  verified $way 4 examples/iris.mesh --set train.epochs=0 --set train.steps=2
done
verified np 2 examples/transformer.mesh --data-dir "$tmp" --set train.epochs=0 --set train.steps=1 --mesh rows=2,cols=2 \
  --layout b=rows,heads=cols,ff=cols,symbols=cols

# -- who prints ---------------------------------------------------------------------------------------------

"$meshc" eval examples/iris.mesh --np 4 >"$tmp/log" 2>"$tmp/err"
if [ "$(grep -c '^test accuracy' "$tmp/log")" = 1 ] && [ "$(grep -c 'warning: 3 parameters have the initial' "$tmp/err")" = "$(grep -c . "$tmp/err")" ] &&
  [ "$(grep -c . "$tmp/err")" = 1 ]; then pass; else fail "eval prints: $(cat "$tmp/log" "$tmp/err")"; fi
"$meshc" train examples/iris.mesh --set train.epochs=1 --np 4 --log-rank all >"$tmp/log" 2>&1
if [ "$(grep -c '^rank [0-3]: test accuracy' "$tmp/log")" = 4 ]; then pass; else fail "--log-rank all: $(head -n 5 "$tmp/log")"; fi
echo "output y = q" >"$tmp/bad.mesh"
"$meshc" run "$tmp/bad.mesh" --np 4 >"$tmp/log" 2>&1
code=$?
if [ $code = 3 ] && [ "$(grep -c error: "$tmp/log")" = 1 ]; then pass; else fail "an error of all ranks: exit $code: $(cat "$tmp/log")"; fi

# a rank reads its own rows only; a bad one ends all
rows_model
printf '1,2\n3,4\n5,6\n7,oops\n' >"$tmp/rows.csv"
"$meshc" train "$tmp/rows.mesh" --np 4 >"$tmp/log" 2>&1
code=$?
if [ $code = 5 ] && [ "$(grep -c error: "$tmp/log")" = 1 ] && grep -q oops "$tmp/log"; then pass; else fail "a bad row: exit $code: $(cat "$tmp/log")"; fi
if needs_mpi mpirun; then
  "$meshc" eval examples/iris.mesh --np 2 --comm mpi >"$tmp/log" 2>&1
  code=$?
  if [ $code = 0 ] && [ "$(grep -c '^test accuracy' "$tmp/log")" = 1 ]; then pass; else fail "--np 2 --comm mpi: exit $code: $(cat "$tmp/log")"; fi
fi

# -- ranks that do not agree --------------------------------------------------------------------------------

deadline=2
rank='rank [0-3] \(processor [0-3], rows=[01] cols=[01]\)'

# ended NAME CODE SECONDS PATTERN: one sentence that matches, exit 6
ended() {
  name=$1 code=$2 seconds=$3 pattern=$4
  if [ "$code" != 6 ] || ! one_sentence "$pattern"; then
    fail "$name: exit $code, $lines sentences: $(head -n 3 "$tmp/err")"
  elif [ "$seconds" -gt $((deadline + 12)) ]; then
    fail "$name: $seconds seconds"
  else
    pass
  fi
}

# ranks with other models, seeds, layouts do not start
differ() {
  what=$1
  shift
  needs_mpi mpirun || return
  began=$(date +%s)
  mpirun -q -n 1 "$meshc" run "$tmp/mlp.mesh" --mesh p=2 --layout b=p : -n 1 "$meshc" run "$@" >"$tmp/log" 2>"$tmp/err"
  ended "ranks with another $what" $? $(($(date +%s) - began)) "rank 1 has another $what than rank 0"
}
sed 's/relu/tanh/' "$tmp/mlp.mesh" >"$tmp/other.mesh"
differ "model file" "$tmp/other.mesh" --mesh p=2 --layout b=p
differ seed "$tmp/mlp.mesh" --mesh p=2 --layout b=p --seed 1
differ mesh "$tmp/mlp.mesh" --mesh q=2 --layout b=q
differ layout "$tmp/mlp.mesh" --mesh p=2 --layout h=p
differ "model \(options, imports\)" "$tmp/mlp.mesh" --mesh p=2 --layout b=p --set h=12

# parameter servers share memory: their ranks are on one machine
if needs_mpi far2; then
  launch far2 4 "$meshc" train examples/iris.mesh -q --set b=32 --mesh rows=4 --layout b=rows --set "train.sync=stale(2,replicas=4)" >"$tmp/log" 2>"$tmp/err"
  holds "asynchronous updates on two machines" $? 3
  if one_sentence "ranks on several machines"; then pass; else fail "asynchronous updates on two machines: $(head -n 3 "$tmp/err")"; fi
fi

# -- hosts of their own -------------------------------------------------------------------------------------

# Two network namespaces, joined by a bridge; mpirun starts a daemon in each.
bridge=mcb$$
make_hosts() {
  [ -n "$have_mpi" ] && [ "$(id -u)" = 0 ] && command -v ip >/dev/null && ip link add "$bridge" type bridge 2>/dev/null || return 1
  ip addr add 10.213.77.254/24 dev "$bridge" && ip link set "$bridge" up || return 1
  for k in 1 2; do
    h=mch$$x$k
    hosts="$hosts $h"
    ip netns add "$h" && ip link add "mcv$$$k" type veth peer name eth0 netns "$h" 2>/dev/null &&
      ip link set "mcv$$$k" master "$bridge" up && ip -n "$h" addr add 10.213.77.$k/24 dev eth0 &&
      ip -n "$h" link set eth0 up && ip -n "$h" link set lo up || return 1
  done
  cat >"$tmp/agent" <<X
#!/bin/sh
host=\$1
shift
exec ip netns exec "mch$$x\${host##*.}" unshare --uts sh -c "hostname meshc-host\${host##*.}; \$*"
X
  chmod +x "$tmp/agent"
}
on_hosts() {
  timeout 60 mpirun -q --mca plm_rsh_agent "$tmp/agent" --mca oob_tcp_if_include 10.213.77.0/24 --mca btl_tcp_if_include 10.213.77.0/24 \
    --mca pml ob1 --mca btl self,vader,tcp --host 10.213.77.1:2,10.213.77.2:2 -n 4 "$@"
}
if make_hosts 2>"$tmp/err"; then
  "$meshc" train examples/iris.mesh -q --set train.epochs=2 --save-params "$tmp/one.npz" >"$tmp/log" 2>&1
  on_hosts "$meshc" train "$PWD/examples/iris.mesh" -q --set train.epochs=2 --save-params "$tmp/many.npz" >"$tmp/log" 2>&1
  code=$?
  if [ $code = 0 ] && cmp -s "$tmp/one.npz" "$tmp/many.npz"; then pass; else fail "on two hosts: exit $code: $(head -n 5 "$tmp/log")"; fi
  began=$(date +%s)
  on_hosts "$meshc" train "$PWD/examples/iris.mesh" -q --timeout $deadline --fault kill@3:50 >"$tmp/log" 2>"$tmp/err"
  ended "a rank killed on another host" $? $(($(date +%s) - began)) "$rank was killed by signal 9"
else
  skip 2
fi

finish

#!/bin/sh
# Programs in the compile cache: for each command line of a list, a run without the cache, one that fills it and one that
# takes its program from it write the same, byte by byte, to standard output, standard error and files. All command lines
# share a cache, so that a key that lacks an option or a part of a model shows. Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"

iris=$root/examples/iris.mesh
cd "$tmp" || exit 1
mkdir plain cold warm
cat >lookup.mesh <<'END_OF_MODEL'
dim b = 4, v = 5, d = 3
input id[b]: i32
param table[v, d] ~ normal(std = 1)
y[b, d] = take[v](table, id)
output y
END_OF_MODEL
cat >rows.mesh <<'END_OF_MODEL'
dim b = 32, d = 4, h = 6
param w[d, h] ~ glorot(d, h)
input x[b, d]
input t[b]: i32
y[b, h] = tanh(sum[d](x * w))
loss = mean[b](cross_entropy[h](y, t))
metric accuracy = mean[b](argmax[h](y) == t)
train loss { optimizer = adamw(lr = 0.1), steps = 20, evaluate = 7, average = 0.9 }
END_OF_MODEL
cat >>rows.mesh <<END_OF_MODEL
data train over b { x = csv("$root/examples/data/iris_train.csv", columns = 0..4)
  t = csv("$root/examples/data/iris_train.csv", column = 4) }
data valid over b { x = csv("$root/examples/data/iris_test.csv", columns = 0..4)
  t = csv("$root/examples/data/iris_test.csv", column = 4) }
END_OF_MODEL
sed 's/tanh/sin/' rows.mesh >sine.mesh
cat >lines <<END_OF_LINES
train $iris --set train.epochs=3 --mesh p=1 --layout none --save-params OUT/params.npz
train $iris --set train.epochs=3 --save-params OUT/split.npz
train $iris --set train.epochs=3 --mesh p=3 --layout h1=p --save-params OUT/uneven.npz
train $iris --set train.epochs=3 --set train.optimizer.lr=0.02 --mesh p=1 --layout none --save-params OUT/rate.npz
train $iris --set train.epochs=3 --mesh p=1 --layout none --save-params OUT/seed.npz --seed 7
train $iris --set train.epochs=3 --mesh p=1 --layout none --save-params OUT/bf16.npz --precision bf16
train $iris --set train.epochs=3 --exact --save-params OUT/exact.npz
train $iris --set train.epochs=3 --no-fuse --save-params OUT/apart.npz
train $iris --set train.epochs=3 --np 2 --save-params OUT/ranks.npz
train rows.mesh --save-params OUT/rows.npz
train sine.mesh --save-params OUT/sine.npz
train rows.mesh --set h=8 --save-params OUT/wide.npz
train rows.mesh --check finite --set train.optimizer.lr=inf
eval $iris --params OUT/params.npz
eval $iris --params OUT/params.npz --mesh p=1 --layout none --data train
predict $iris --params OUT/params.npz --data test --fetch probs --out OUT/probs.npz
run rows.mesh --feed x=3 --feed t=2 --fetch loss,grad(w)
run lookup.mesh --feed id=4
run lookup.mesh --feed id=5
run lookup.mesh --feed id=4 --check finite --save-params OUT/table.npz
END_OF_LINES
printf 'dim b = 32, d = 4\noutput x[b, d] = random_normal[b, d]()\noutput t[b] = cast(index[b] %% 3, i32)\n' >make.mesh
printf 'dim b = 4\noutput i4[b] = cast(index[b], i32) + 1\noutput i5[b] = cast(index[b], i32) + 2\n' >ids.mesh
XDG_CACHE_HOME=$tmp/made "$meshc" run make.mesh --out . >/dev/null 2>&1 && XDG_CACHE_HOME=$tmp/made "$meshc" run ids.mesh --out . >/dev/null 2>&1 ||
  fail "the inputs"
sed -i "s/x=3 --feed t=2/x=x.npy --feed t=t.npy/; s/id=4/id=i4.npy/; s/id=5/id=i5.npy/" lines

XDG_CACHE_HOME=$tmp/cache
export XDG_CACHE_HOME
# all WAY OPTION: runs all lines with their files in folder WAY
all() {
  n=0
  while read -r line; do
    n=$((n + 1))
    # shellcheck disable=SC2046,SC2086
    "$meshc" $(echo "$line" | sed "s/OUT/$1/g") $2 >"$1/$n.out" 2>"$1/$n.err" </dev/null
    echo "exit $?" >>"$1/$n.err"
    sed -i "s/\b$1\//WAY\//g; s/[0-9.]* [mu]*s\/step.*//; s/ in [0-9:]*, .*//" "$1/$n.out" "$1/$n.err"
  done <lines
}
all plain --no-cache
all cold ""
touch -d 2020-01-01 cache/meshc/*.o
filled=$(ls cache/meshc | wc -l)
all warm ""
[ "$(ls cache/meshc | wc -l)" = "$filled" ] || fail "the last runs have compiled something"
unread=$(find cache/meshc -name '*.o' ! -newermt 2021-01-01 | wc -l)
[ "$unread" = 0 ] || fail "$unread entries were not read"
for f in plain/*; do
  name=${f#plain/}
  for way in cold warm; do
    if cmp -s "$f" "$way/$name"; then pass; else fail "$way/$name differs: $(sed -n "${name%%.*}p" lines 2>/dev/null)"; fi
  done
done
finish

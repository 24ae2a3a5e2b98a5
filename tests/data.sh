#!/bin/sh
# Real data sets through every reader that fits them: sums, counts and shapes against known ones. Looks in
# ../shared/data or $MESHC_DATA; what is absent is skipped. Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"

# want NAME FILE PATTERN COMMAND...: the command's output matches the pattern; skipped without data/FILE
want() {
  name=$1 file=$2 pattern=$3
  shift 3
  if [ ! -e "$data/$file" ]; then
    skip
    return
  fi
  if "$meshc" "$@" >"$tmp/out" 2>"$tmp/err" && grep -qE -e "$pattern" "$tmp/out"; then
    pass
  else
    fail "$name: $(head -n 12 "$tmp/out" "$tmp/err")"
  fi
}

cat >"$tmp/iris.mesh" <<'END'
dim b = 7, d = 2, e = 2
input x[b, d, e]
input kind[b]: i32
metric total = sum[b, d, e](x)
metric last = sum[b](cast(kind == 2, i32))
data train over b { x = csv("iris_train.csv", columns = 0..4), kind = csv("iris_train.csv", column = 4) }
data test over b { x = csv("iris_test.csv", columns = 0..4), kind = csv("iris_test.csv", column = 4) }
END
want "iris, test" iris_test.csv '^test last 8.0000' eval "$tmp/iris.mesh" --data-dir "$data"
want "iris, train" iris_train.csv '^train last 42.0000' eval "$tmp/iris.mesh" --data-dir "$data" --data train
want "iris on a mesh" iris_train.csv '^train last 42.0000' eval "$tmp/iris.mesh" --data-dir "$data" --data train --mesh p=3 --layout b=p
want "iris, inspected" iris_train.csv 'csv, .* 120 rows, 5 columns, a header' inspect "$data/iris_train.csv"

cat >"$tmp/mnist.mesh" <<'END'
dim b = 300, p = 784
input x[b, p]
input digit[b]: i32
metric ink = sum[b, p](cast(x > 0.5, i32))
metric digits = sum[b](digit)
data test over b {
  x = idx("mnist-10k-images-idx3-ubyte.gz", scale = 1/255, rows = 8000..10000)
  digit = idx("mnist-10k-labels-idx1-ubyte.gz", rows = 8000..10000)
}
END
want "mnist, pixels" mnist-10k-images-idx3-ubyte.gz '^test ink 225966\.0000' eval "$tmp/mnist.mesh" --data-dir "$data"
want "mnist, labels" mnist-10k-labels-idx1-ubyte.gz '^test digits 8800\.0000' eval "$tmp/mnist.mesh" --data-dir "$data"
want "mnist on a mesh" mnist-10k-images-idx3-ubyte.gz '^test ink 225966\.0000' eval "$tmp/mnist.mesh" --data-dir "$data" --mesh p=2,q=2 --layout b=p,p=q
want "mnist, inspected" mnist-10k-images-idx3-ubyte.gz 'u8  \[10000, 28, 28\]' inspect "$data/mnist-10k-images-idx3-ubyte.gz"

cat >"$tmp/text.mesh" <<'END'
dim b = 100, t = 64
input x[b, t]: i32
input next[b, t]: i32
metric step = sum[b, t](next - x)
metric spaces = sum[b, t](cast(x == 32, i32))
data test over b { x = text("tinyshakespeare.txt"), next = text("tinyshakespeare.txt", offset = 1) }
END
want "text, spaces" tinyshakespeare.txt '^test spaces 169892\.0000' eval "$tmp/text.mesh" --data-dir "$data"
want "text, shifted" tinyshakespeare.txt '^test step -24\.0000' eval "$tmp/text.mesh" --data-dir "$data"

cat >"$tmp/tokens.mesh" <<'END'
dim s = 4, t = 24, k = 384
param ids[s, t]: i32 = file("minilm/ids.npy"), trainable = false
param embedding[s, k] = file("minilm/embedding.npy"), trainable = false
output first[s] = sum[t](where(index[t] == 0, ids, 0))
output norm[s] = sum[k](square(embedding))
END
want "minilm, ids" minilm/ids.npy '\[101, 101, 101, 101\]' run "$tmp/tokens.mesh" --data-dir "$data"
want "minilm, embeddings" minilm/embedding.npy '\[1, 1, 1, 1\]|0.99999|1.0000' run "$tmp/tokens.mesh" --data-dir "$data" --fetch norm
want "minilm, inspected" minilm/hidden.npy 'f32  \[4, 24, 384\]' inspect "$data/minilm/hidden.npy"

finish

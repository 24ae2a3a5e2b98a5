#!/bin/sh
# A table as a person has it: names of species, semicolons, blanks, dates, missing values. It trains, predicts and prints
# names in three commands; the ranks of a run read it; a file that does not fit in memory. Ends in `N passed, N failed,
# N skipped`.
. "$(dirname "$0")/common.sh"

# Iris with names, a date, and every twelfth petal length missing; its columns in another order.
make_table() { # FROM TO
  awk -F, -v OFS=';' 'NR == 1 { print "species", "measured", "petal length", "petal width", "sepal length", "sepal width"; next }
    { name = $5 == 0 ? "setosa" : $5 == 1 ? "\"versicolor\"" : " virginica"
      length_ = NR % 12 == 0 ? (NR % 24 == 0 ? "NA" : "") : $3
      print name, sprintf("%02d.%02d.1936", NR % 28 + 1, NR % 12 + 1), length_, $4, $1, $2 }' "$1" >"$2"
}
make_table examples/data/iris_train.csv "$tmp/train.csv"
make_table examples/data/iris_test.csv "$tmp/test.csv"
cat >"$tmp/iris.mesh" <<'END'
dim b = 30, features = 5, hidden = 12, class = 3
input x[b, features]
input species[b]: i32
param w[features, hidden] ~ glorot(features, hidden)
param v[hidden, class] ~ glorot(hidden, class)
param wb[hidden] = 0
param vb[class] = 0
h = relu(sum[features](x * w * values[features](1, 1, 1, 1, 0.001)) + wb)
logits[b, class] = sum[hidden](h * v) + vb
loss = mean[b](cross_entropy[class](logits, species))
metric accuracy = mean[b](argmax[class](logits) == species)
output probs[b, class] = softmax[class](logits)
output found[b] = argmax[class](logits)
data train over b {
  x = csv("train.csv", columns = ("sepal length", "sepal width", "petal length", "petal width", "measured"),
          missing = mean, date = "%d.%m.%Y", since = "1936-01-01")
  species = csv("train.csv", column = "species", classes = auto)
}
data test over b {
  x = csv("test.csv", columns = ("sepal length", "sepal width", "petal length", "petal width", "measured"),
          missing = mean, date = "%d.%m.%Y", since = "1936-01-01")
  species = csv("test.csv", column = "species", classes = auto)
}
train loss { optimizer = adam(lr = 0.01), epochs = 100 }
END

# -- three commands --------------------------------------------------------------------------------
cd "$tmp" || exit 1
expect "train" 0 'test accuracy (0.[89][0-9]*|1.0000) \((2[6789]|30)/30\)' "$meshc" train iris.mesh -q --save-params iris.safetensors
printf 'dim features = 5, hidden = 12, class = 3\nparam w[features, hidden]\nparam v[hidden, class]\nparam wb[hidden]\nparam vb[class]\noutput u = sum(w) + sum(v) + sum(wb) + sum(vb)\n' >bare.mesh
must "$meshc" run bare.mesh --params iris.safetensors --save-params nameless.safetensors
printf 'petal length;petal width;sepal length;sepal width;measured\n1.4;0.2;5.1;3.5;01.02.1936\n6.0;2.1;5.8;3.0;02.02.1936\n' >known.csv
expect "names from data train" 0 '\[setosa, virginica\]' "$meshc" predict iris.mesh --params nameless.safetensors --feed x=known.csv --fetch found
mv train.csv train.old
printf 'dim b = 2, features = 5\noutput x[b, features] = where(index[b] == 0, values[features](1.4, 0.2, 5.1, 3.5, 31), values[features](6.0, 2.1, 5.8, 3.0, 32))\n' >two.mesh
must "$meshc" run two.mesh --out two
expect "numbers without data train" 0 'classes of species are numbers: no names are saved' "$meshc" predict iris.mesh --params nameless.safetensors --feed x=two/x.npy --fetch found
printf 'petal length;petal width;sepal length;sepal width;measured\n1.4;0.2;5.1;3.5;01.02.1936\n6.0;2.1;;3.0;02.02.1936\n' >new.csv
expect "predict" 0 '\[setosa, virginica\]' "$meshc" predict iris.mesh --params iris.safetensors --feed x=new.csv
check "heads name the classes" says '^probs \[b 2, class 3: setosa, versicolor, virginica\] f32'
expect "as CSV" 0 '' "$meshc" predict iris.mesh --params iris.safetensors --feed x=new.csv --out found.csv
holds "the head of the file" "$(head -n 1 found.csv)" "probs.setosa,probs.versicolor,probs.virginica,found"
holds "the last column" "$(cut -d, -f4 found.csv | tr '\n' ' ')" "found setosa virginica "
cp new.csv NEW.CSV
expect "endings in capitals" 0 '' "$meshc" predict iris.mesh --params iris.safetensors --feed x=NEW.CSV --out FOUND.CSV
same "a file with an ending in capitals" found.csv FOUND.CSV
expect "as JSON" 0 '"classes": \[ "setosa", "versicolor", "virginica" \]' sh -c \
  "'$meshc' predict iris.mesh --params iris.safetensors --feed x=new.csv --json | tr -d '\n' | tr -s ' '"
# a package has the names, too
printf 'dim b = 2, features = 5\noutput x[b, features] = where(index[b] == 0, values[features](5.1, 3.5, 1.4, 0.2, 31), values[features](5.8, 3.0, 6.0, 2.1, 32))\n' >rows.mesh
must "$meshc" run rows.mesh --out rows
must "$meshc" compile iris.mesh --params iris.safetensors --cpu native -o package -q
expect "predict with a package" 0 '\[setosa, virginica\]' "$meshc" predict package --feed x=rows/x.npy
check "its heads name the classes" says '^probs \[b 2, class 3: setosa, versicolor, virginica\] f32'
if [ -e "$build/meshc_runner" ]; then
  must "$meshc" compile iris.mesh --params iris.safetensors --cpu native --emit exe -o iris.run -q
  expect "an executable" 0 '\[setosa, virginica\]' ./iris.run --feed x=rows/x.npy
else
  skip
fi
# and so has the header of an object
must "$meshc" compile iris.mesh --params iris.safetensors --cpu native --emit obj -o flower.o -q
cat >names.c <<'END'
#include "flower.h"
static const char *const classes[] = flower_found_CLASSES, *const places[] = flower_probs_CLASSES_OF_class;
const char *name(int number) { return number < 3 ? classes[number] : places[0]; }
END
expect "names in C" 0 '' cc -std=c99 -Wall -Wextra -Werror -pedantic -c names.c
check "by their numbers" grep -q '^#define flower_found_CLASSES {"setosa", "versicolor", "virginica"} /\* the classes of its numbers, from 0 \*/$' flower.h
cat >odd.mesh <<'END'
dim b = 2, k = 3
input x[b, k]
input kind[b]: i32
output best[b] = argmax[k](x)
loss = mean[b](cross_entropy[k](x, kind))
data train over b { x = synthetic(normal), kind = csv("train.csv", column = "species", classes = ("setosa*/", "what??/", "a 'b' \"c\"\\")) }
END
must "$meshc" compile odd.mesh --cpu native --emit obj -o odd.o -q
printf '#include "odd.h"\n#include <stdio.h>\nint main(void) {\n  const char *const n[] = odd_best_CLASSES;\n  return printf("%%s, %%s, %%s\\n", n[0], n[1], n[2]) < 0;\n}\n' >odd.c
must cc -std=c99 -Wall -Wextra -Werror -pedantic odd.c -o odd
expect "strange names" 0 '^setosa\*/, what[?][?]/, a .b. "c"\\$' ./odd
expect "eval without the training data" 0 'test accuracy' "$meshc" eval iris.mesh --params iris.safetensors
expect "eval with a last batch of fewer rows than processors" 0 'test accuracy' \
  "$meshc" eval iris.mesh --params iris.safetensors --set b=28 --mesh p=4 --layout b=p
holds "no warning of its idle processors" "$(grep -c W0503 "$tmp/err")" 0
printf 'species;petal length;petal width;sepal length;sepal width;measured\nrosa;1;1;1;1;01.02.1936\n' >strange.csv
expect "an unknown class" 5 "strange.csv:2: column 0: 'rosa' is none of the classes" \
  "$meshc" run iris.mesh --set b=1 --params iris.safetensors --feed x=strange.csv --feed species=strange.csv --fetch loss
printf 'petal length;petal width;sepal length;sepal width\n1;1;1;1\n' >narrow.csv
expect "a column that is not there" 5 'narrow.csv has no column "measured"' \
  "$meshc" predict iris.mesh --params iris.safetensors --feed x=narrow.csv
mv train.old train.csv

# -- ranks -----------------------------------------------------------------------------------------
for how in "--mesh p=2 --layout b=p --np 2" "--mesh p=3 --layout b=p --np 3" "--mesh p=2 --layout b=p"; do
  # shellcheck disable=SC2086
  expect "train $how" 0 'test accuracy (0.[89][0-9]*|1.0000)' "$meshc" train iris.mesh -q $how --timeout 30
done

# Rows that are left out, means and classes are known to all ranks: the parameters are those of one process.
sed 's/missing = mean/missing = drop/' iris.mesh >drop.mesh
for model in iris drop; do
  for how in "" "--np 3"; do
    # shellcheck disable=SC2086
    expect "train $model $how" 0 '' "$meshc" train $model.mesh -q --set train.epochs=5 --mesh p=3 --layout b=p $how --timeout 30 --save-params "$model.${how#--np }.safetensors"
  done
  same "$model: the parameters of ranks" "$model..safetensors" "$model.3.safetensors"
done
# A file with a header alone, between others.
mkdir parts && head -n 40 train.csv >parts/1.csv && head -n 1 train.csv >parts/2.csv && (head -n 1 train.csv; tail -n +41 train.csv) >parts/3.csv
sed 's|train.csv|parts/*.csv|' iris.mesh >parts.mesh
expect "a file without rows and ranks" 0 '' "$meshc" train parts.mesh -q --set train.epochs=5 --mesh p=3 --layout b=p --np 3 --timeout 30 --save-params parts.safetensors
same "the parameters of several files" iris..safetensors parts.safetensors
mv train.csv train.old
sed '80s/;/;x;/' train.old >train.csv
expect "a row of another rank is wrong" 5 'train.csv:80: 7 columns, but the first line has 6' "$meshc" train drop.mesh -q --mesh p=3 --layout b=p --np 3 --timeout 30
mv train.old train.csv

# -- what the data is ------------------------------------------------------------------------------
expect "data" 0 'classes: setosa [0-9]*, versicolor [0-9]*, virginica 42' "$meshc" data iris.mesh --data train
check "missing values are counted" says 'petal length .* 10 missing'
check "rates" says 'batches are delivered at .*rows/s, all rows in '
expect "data as JSON" 0 '"schema": "meshc.data/1"' "$meshc" data iris.mesh --json

# -- new rows with missing values, under missing = drop --------------------------------------------
printf '1;5\n;6\n3;7\n' >gaps.csv
printf 'dim b = 2\ninput x[b]\ninput y[b]\noutput o = 2 * x\noutput q = x + y\ndata test over b { x = csv("gaps.csv", column = 0, missing = drop), y = csv("gaps.csv", column = 1) }\n' >gaps.mesh
expect "rows left out" 0 '^  \[2, 6\]' "$meshc" predict gaps.mesh --feed x=gaps.csv --fetch o
check "rows left out: how many" says 'gaps.csv: 1 row with missing values left out'
expect "rows left out beside another input" 5 'gaps.csv has 1 row with missing values, which missing = drop leaves out, but y is fed as well' \
  "$meshc" predict gaps.mesh --feed x=gaps.csv --feed y=gaps.csv --fetch q
# names of columns that are not UTF-8
printf 'gr\366\337e;n\n1;2\n' >latin.csv
printf 'dim b = 1\ninput x[b]\noutput o = x\ndata test over b { x = csv("latin.csv", column = "größe") }\n' >latin.mesh
expect "a header in Latin-1" 5 'the file is not UTF-8: iconv' "$meshc" predict latin.mesh

# -- one decision on the header for all sources of a file --------------------------------------------
printf 'colour;len\nred;1,5\nblue;2,5\nred;1,4\nblue;2,6\n' >hd.csv
printf 'dim b = 4\ninput x[b]\ninput c[b]: i32\noutput o = x\noutput p = c\ndata test over b { x = csv("hd.csv", column = 1, decimal = ",", rows = 0..4), c = csv("hd.csv", column = 0, classes = ("blue", "red"), rows = 0..4) }\n' >hd.mesh
expect "numbers and texts of a row" 0 '^  \[1.5, 2.5, 1.4, 2.6\]' "$meshc" predict hd.mesh
check "numbers and texts: names" says '(red, blue, red, blue|1, 0, 1, 0)\]'
sed 's/column = 0, classes/column = 0, header = false, classes/; s/"red")/"red", "colour")/' hd.mesh >differ.mesh
expect "with and without a header" 5 'hd.csv is read with a header for input x, and without one for input c' "$meshc" predict differ.mesh
check "with and without a header: what to change" says 'header = true'
expect "inspect knows decimal commas" 0 '4 rows, 2 columns, a header' "$meshc" inspect hd.csv

# -- a class that does not fit, in a micro-batch with as many rows as the last batch -------------------
printf '1,0\n2,2\n3,1\n4,7\n5,1\n6,1\n' >micro.csv
printf 'dim b = 4, kinds = 3\ninput x[b]\ninput kind[b]: i32\nparam w[kinds]\nloss = mean[b](cross_entropy[kinds](x * w, kind))\ndata train over b { x = csv("micro.csv", column = 0), kind = csv("micro.csv", column = 1), shuffle = false }\ntrain loss { optimizer = sgd(lr = 0.1), steps = 1 }\n' >micro.mesh
expect "the row of a class in a batch" 5 'row 3 of the batch is .*micro.csv:4' "$meshc" train micro.mesh -q
expect "the row of a class in a micro-batch" 5 'row 3 of the batch is .*micro.csv:4' "$meshc" train micro.mesh -q --set train.accumulate=2

# -- packed, in parts ------------------------------------------------------------------------------
gzip -k train.csv
sed -n '1p;2,40p' train.csv >part-1.csv
sed -n '1p;41,$p' train.csv >part-2.csv
for file in train.csv.gz 'part-*.csv'; do
  sed "s/\"train.csv\"/\"$file\"/" iris.mesh >other.mesh
  expect "train on $file" 0 '' "$meshc" train other.mesh -q --save-params other.safetensors
  same "the parameters of $file" iris.safetensors other.safetensors
done
finish

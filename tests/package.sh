#!/bin/sh
# Packages: what `meshc compile` writes gives the bits of the model, on one processor, on a mesh and under ranks, through
# meshc and through libmeshc_run, which is installed in a folder of its own, has no LLVM and is small. Damaged packages,
# other CPUs and wrong inputs are clear errors. Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"
[ -e "$build/libmeshc_run.so" ] || { fail "$build/libmeshc_run.so is missing"; finish; }
XDG_CACHE_HOME=$tmp/cache
export XDG_CACHE_HOME
export ASAN_OPTIONS="detect_leaks=0 ${ASAN_OPTIONS:-}"
sanitized=$(ldd "$build/libmeshc_run.so" | sed -n 's/^[[:space:]]*lib\([at]\)san.*/\1/p' | sort -u)
case $sanitized in a) cflags="-fsanitize=address,undefined" ;; t) cflags="-fsanitize=thread" ;; *) cflags="" ;; esac
if [ "$(uname -m)" = x86_64 ]; then here=x86-64-v2; else here=$(uname -m); fi
cd "$tmp" || exit 1

cat >rows.mesh <<'END'
dim b = 20, d = 4, o = 2
output x[b, d] = (index[b] + index[d]) * 0.1
output target[b, o] = (index[b] + index[o]) * 0.01
END
must "$meshc" run rows.mesh --out rows
must "$meshc" run rows.mesh --set b=8 --out batch
net=$root/examples/mlp.mesh

# -- the bits of the model ----------------------------------------------------------------------------------------
for mesh in "" "--mesh p=2 --layout b=p" "--mesh rows=2,cols=2 --layout b=rows,h=cols"; do
  one=${mesh:-"--mesh p=1 --layout none"}
  # shellcheck disable=SC2086
  must "$meshc" predict "$net" $one --feed x=rows/x.npy --fetch y --out want
  # shellcheck disable=SC2086
  must "$meshc" compile "$net" $one --cpu native --for train -o trained -q
  must "$meshc" predict trained --feed x=rows/x.npy --fetch y --out got
  same "predict of a package${mesh:+ on $mesh}" want/y.npy got/y.npy
  # shellcheck disable=SC2086
  must "$meshc" run "$net" $one --feed x=batch/x.npy --feed target=batch/target.npy --steps 5 --fetch loss --save-params want.safetensors --out want
  must "$meshc" run trained --feed x=batch/x.npy --feed target=batch/target.npy --steps 5 --fetch loss --save-params got.safetensors --out got
  same "loss of five steps${mesh:+ on $mesh}" want/loss.npy got/loss.npy
  same "parameters after five steps${mesh:+ on $mesh}" want.safetensors got.safetensors
  # what was trained goes on, and is predicted with
  must "$meshc" predict trained --params got.safetensors --feed x=rows/x.npy --fetch y --out got
  # shellcheck disable=SC2086
  must "$meshc" predict "$net" $one --params want.safetensors --feed x=rows/x.npy --fetch y --out want
  same "predict with other parameters${mesh:+ on $mesh}" want/y.npy got/y.npy
done
for np in 2 4; do
  expect "$np ranks" 0 "" "$meshc" predict trained --np $np --params got.safetensors --feed x=rows/x.npy --fetch y --out ranks
  same "the bits of $np ranks" want/y.npy ranks/y.npy
done
expect "3 ranks of a mesh of 4" 2 "3 ranks cannot share the mesh of the package.*E0601" "$meshc" predict trained --np 3 --feed x=rows/x.npy

# the search for the layout compiles programs with the products of this computer
expect "a layout that is sought, within a budget" 0 "" "$meshc" compile "$root/examples/transformer.mesh" --for train --mesh rows=2 \
  --layout auto --memory 7200000 --cpu "$here" -o sought -q --no-cache

# parameters that are in the package
must "$meshc" compile "$net" --params got.safetensors --cpu native -o with -q
must "$meshc" predict with --feed x=rows/x.npy --out got
same "a package of trained parameters" want/y.npy got/y.npy
sed 's/\[b, d\]/[b, one, d]/; s/^dim /dim one = 1, /; s/^output x\(.*\)$/output x\1 + 0 * index[one]/' rows.mesh >axes.mesh
must "$meshc" run axes.mesh --out axes
must "$meshc" predict with --feed x=axes/x.npy --out got
same "axes of rows are merged" want/y.npy got/y.npy
expect "rows in JSON" 0 '"rows": 8' "$meshc" predict with --feed x=batch/x.npy --json
expect "inspect a package" 0 "^with: package, .*, 2 arrays, 36 numbers" "$meshc" inspect with
expect "what compile says of assembly" 0 "^some.s: the assembly of predict, for x86-64-v[234]\$" "$meshc" compile "$net" --emit asm -o some.s
expect "what compile says" 0 "^with: predict, for native; 2 values, 144 B" "$meshc" compile "$net" --cpu native -o with

# -- levels of CPUs -----------------------------------------------------------------------------------------------
must "$meshc" compile "$net" -o levels -q
for level in x86-64-v2 x86-64-v3 x86-64-v4; do
  check "$level is in the package" test -s levels/predict.$level.o
  run env MESHC_CPU=$level "$meshc" predict levels --feed x=rows/x.npy --out level
  if [ $code = 1 ] && says "levels has no code for this processor.*MESHC_CPU=$level"; then skip; else holds "$level runs" $code 0; fi
done
expect "a level that is not there" 1 "has no code for this processor, .*with MESHC_CPU=z80: it has x86-64-v4, x86-64-v3, x86-64-v2 .E0807" \
  env MESHC_CPU=z80 "$meshc" predict levels --feed x=rows/x.npy
must "$meshc" compile "$net" --cpu native -o native -q
check "native names the processor" grep -q '"identity"' native/package.json

# -- errors -------------------------------------------------------------------------------------------------------
expect "no folder" 2 "compile writes a folder or file: name it.*E0601" "$meshc" compile "$net"
expect "an unknown level" 2 "cpu:1:1: error: --cpu knows no level 'x86'" "$meshc" compile "$net" --cpu x86 -o no
expect "a level twice" 2 "names native twice" "$meshc" compile "$net" --cpu native,native -o no
mkdir -p full && echo notes >full/notes.txt
expect "a folder with other files" 1 "full exists and is no package" "$meshc" compile "$net" -o full
check "they are still there" test -s full/notes.txt
expect "no train block" 3 "the model has no train block.*E0404" "$meshc" compile rows.mesh --for train -o no
expect "no outputs" 2 "the model has no output to predict" "$meshc" compile "$root/examples/lstm.mesh" -o no
check "nothing was written" test ! -e no
expect "an option of models" 2 "set:1:1: error: --set is an option of models, and levels is a package" "$meshc" predict levels --set b=2 --feed x=rows/x.npy
expect "a package without data" 1 "levels is a package without data to train on" "$meshc" train levels
expect "a command of models" 1 "levels is a package, which is not evaluated" "$meshc" eval levels
expect "an input that is missing" 2 "the input x is needed and not fed.*E0606" "$meshc" predict levels
expect "an unknown input" 2 "the package has no input 'z'.*E0605" "$meshc" predict levels --feed z=rows/x.npy
expect "an unknown output" 2 "the package has no output 'hidden'.*E0604" "$meshc" predict levels --feed x=rows/x.npy --fetch hidden
expect "a wrong shape" 5 "the input x has 4 elements along d .axis 1., the array has 2.*E0703" "$meshc" predict levels --feed x=rows/target.npy
expect "a step with another batch" 5 "the input x has 8 elements along b .axis 0., the array has 20.*E0703" \
  "$meshc" run trained --steps 1 --feed x=rows/x.npy --feed target=rows/target.npy
expect "no program" 1 "the package levels has no program for train" "$meshc" run levels --steps 1 --feed x=batch/x.npy
cat >mixes.mesh <<'END'
dim b = 4
input x[b]
output y = cumsum[b](x)
END
must "$meshc" compile mixes.mesh --cpu native -o mixes -q
cat >six.mesh <<'END'
dim b = 6
output x[b] = index[b] * 1.0
END
must "$meshc" run six.mesh --out six
expect "rows of a batch that depend on one another" 5 "6 rows are no whole batches of 4, and the model mixes the rows" "$meshc" predict mixes --feed x=six/x.npy

# -- training with the files of the data block ----------------------------------------------------------------------
mkdir -p files
awk 'BEGIN { for (i = 0; i < 90; i++) print (i * 7 % 13) / 10 "," (i * 5 % 11) / 10 "," i % 3 }' >files/rows.csv
head -c 3000 "$root/README.md" >files/text.txt
cat >table.mesh <<'END'
dim b = 8, d = 2, classes = 3
input x[b, d]
input y[b]: i32
param w[d, classes] ~ normal(std = 0.3)
logits[b, classes] = sum[d](dropout(x, 0.1) * w)
loss = mean[b](cross_entropy[classes](logits, y))
metric accuracy = mean[b](argmax[classes](logits) == y)
output logits
data train over b { x = csv("rows.csv", columns = 0..2), y = csv("rows.csv", columns = 2..3), shuffle = true, seed = 5 }
train loss { optimizer = adam(lr = 0.05), steps = 30, log = 10 }
END
cat >letters.mesh <<'END'
dim b = 4, t = 8, vocab = 256, d = 8
input ids[b, t]: i32
input next[b, t]: i32
param table[vocab, d] ~ normal(std = 0.3)
logits[b, t, vocab] = sum[d](take[vocab](table, ids) * table)
loss = mean[b, t](cross_entropy[vocab](logits, next))
data train over b { ids = text("text.txt"), next = text("text.txt", offset = 1) }
train loss { optimizer = sgd(lr = 0.5), epochs = 1, accumulate = 2 }
END
lines() { sed -n '/^step /{s/  [0-9.]* [mu]*s\/step.*//;p;}' "$tmp/out"; }
for model in table letters; do
  for mesh in "" "--mesh p=2 --layout b=p"; do
    # shellcheck disable=SC2086
    must "$meshc" train $model.mesh $mesh --data-dir files --save-params want.safetensors
    lines >want.txt
    # shellcheck disable=SC2086
    must "$meshc" compile $model.mesh $mesh --data-dir files --for train --cpu native -o learns -q
    must "$meshc" train learns --data-dir files --save-params got.safetensors
    lines >got.txt
    same "what training $model prints${mesh:+ on a mesh}" want.txt got.txt
    same "what training $model leaves${mesh:+ on a mesh}" want.safetensors got.safetensors
  done
  must "$meshc" train learns --data-dir files --save-params got.safetensors --np 2
  same "$model under ranks" want.safetensors got.safetensors
  must "$meshc" compile $model.mesh --data-dir files --for train --cpu native --emit exe -o learns.run -q
  must "$meshc" train $model.mesh --data-dir files --save-params want.safetensors
  lines >want.txt
  expect "an executable that trains $model" 0 "" env -i ./learns.run --train --data-dir files --save-params got.safetensors
  lines >got.txt
  same "what it prints" want.txt got.txt
  same "what it leaves" want.safetensors got.safetensors
done
sed 's/columns = 0..2/columns = (1, 0)/' table.mesh >listed.mesh
must "$meshc" train listed.mesh --data-dir files --save-params want.safetensors
must "$meshc" compile listed.mesh --data-dir files --for train --cpu native -o learns -q
must "$meshc" train learns --data-dir files --save-params got.safetensors
same "columns that are listed by number" want.safetensors got.safetensors
must "$meshc" compile table.mesh --data-dir files --for train --cpu native -o learns -q
must "$meshc" compile table.mesh --data-dir files --for train --cpu native --emit exe -o learns.run -q
expect "another number of steps" 0 "^step 12/12  loss" "$meshc" train learns --data-dir files --set train.steps=12
expect "of an executable" 0 "^step 7/7  loss" ./learns.run --train --data-dir files --steps 7
expect "another setting" 2 "a package takes --set train.steps=N, not 'b=2'" "$meshc" train learns --data-dir files --set b=2
expect "no data" 5 "table.mesh:9:.*/rows.csv: No such file" "$meshc" train learns
expect "where the paths of its data begin" 5 "^hint: .*--data-dir, .* with a package the current one" "$meshc" train learns
expect "no data for an executable" 5 "nowhere/rows.csv: No such file" ./learns.run --train --data-dir nowhere
cp files/rows.csv files/rows.npz
sed 's/rows.csv/rows.npz/g' table.mesh >odd.mesh
must "$meshc" compile odd.mesh --data-dir files --for train --cpu native --emit exe -o odd.run -q
expect "its data is not overwritten" 2 "files/rows.npz is also read in this run, as data" ./odd.run --train --data-dir files --save-params files/rows.npz
same "the data is as before" files/rows.csv files/rows.npz
sed 's/steps = 30/steps = 30, stop_early = loss(patience = 2, best = min)/' table.mesh >early.mesh
echo 'data test over b { x = csv("rows.csv", columns = 0..2), y = csv("rows.csv", columns = 2..3) }' >>early.mesh
must "$meshc" compile early.mesh --data-dir files --for train --cpu native -o early -q
expect "a training that depends on evaluations" 1 "the training of early depends on evaluations.*E0807" "$meshc" train early --data-dir files
cp -r learns learns2
printf 'x' | dd of=learns2/train.data bs=1 seek=40 conv=notrunc 2>/dev/null
expect "a damaged data block" 5 "learns2/train.data was changed" "$meshc" train learns2 --data-dir files
# without a number of steps in the model
sed 's/, steps = 30, log = 10//' table.mesh >open.mesh
must "$meshc" compile open.mesh --data-dir files --for train --cpu native -o open -q
must "$meshc" compile open.mesh --data-dir files --for train --cpu native --emit exe -o open.run -q
expect "steps of a package" 0 "^step 3/3  loss" "$meshc" train open --data-dir files --set train.steps=3
expect "no steps" 2 "hint: say --set train.steps=1000$" "$meshc" train open --data-dir files
expect "steps of an executable" 0 "^step 3/3  loss" ./open.run --train --data-dir files --steps 3
expect "no steps for an executable" 2 "train block of ./open.run says neither steps nor epochs" ./open.run --train --data-dir files
expect "what to say" 2 "hint: say --steps 1000$" ./open.run --train --data-dir files
# what cannot be saved is said before the training
expect "a folder that is not there" 1 "cannot write nowhere/p.npz" ./learns.run --train --data-dir files --save-params nowhere/p.npz
check "nothing was trained" test "$(grep -c ^step out)" = 0
expect "another ending" 2 "saved as .safetensors or .npz, not 'p.csv'" ./learns.run --train --data-dir files --save-params p.csv
check "nothing was trained" test "$(grep -c ^step out)" = 0
cp learns.run learns.npz
expect "an executable does not replace itself" 2 "learns.npz is also read in this run" ./learns.npz --train --data-dir files --save-params learns.npz
# nor a package
expect "a package keeps its files" 2 "learns/weights.safetensors is also read in this run, as part of the package.*E0601" \
  "$meshc" train learns --data-dir files --params learns/weights.safetensors --save-params learns/weights.safetensors
expect "also when it predicts" 2 "is also read in this run, as part of the package" "$meshc" predict learns --feed x=0 --out ./learns/weights.safetensors
must "$meshc" train learns --data-dir files --set train.steps=1 -q
# options of the other kind of run
expect "an output of a training" 2 "error: --out is an option of a run without --train" ./learns.run --train --data-dir files --out no
expect "steps without a training" 2 "error: --steps is an option of a run with --train" ./learns.run --steps 3 --feed x=1
# a signal ends a training after its step
./learns.run --train --data-dir files --steps 1000000000 --save-params stopped.safetensors >stopped.txt 2>stopped.err &
training=$!
while kill -0 $training 2>/dev/null && ! grep -q ^step stopped.txt; do sleep 0.1; done
kill -TERM $training
kill -HUP $training # the same request
wait $training
check "a signal ends a training" test $? = 75
check "what was trained is saved" test -s stopped.safetensors
check "what it says" grep -q "stopped by a signal after step" stopped.err
rm -f stopped.txt
expect "it goes on" 0 "^step 5/5  loss" ./learns.run --train --data-dir files --steps 5 --params stopped.safetensors

# -- several processes that make one package -------------------------------------------------------------------------
makers=
for i in 1 2 3 4 5 6; do
  "$meshc" compile "$net" --cpu native -o raced -q 2>made.$i &
  makers="$makers $!"
done
for maker in $makers; do
  wait "$maker"
  check "one of them" test $? = 0
done
check "nothing else is left" test "$(echo raced*)" = raced
must "$meshc" predict raced --feed x=rows/x.npy --out got
mkdir raced.partial && echo notes >raced.partial/notes.txt # of somebody else
expect "a name that is taken" 0 "" "$meshc" compile "$net" --cpu native -o raced -q
check "files of others are kept" test -s raced.partial/notes.txt
echo notes >raced/notes.txt
must "$meshc" compile "$net" --cpu native -o raced -q
check "also in an older package" test -s raced.old/notes.txt

# -- the library without the compiler ------------------------------------------------------------------------------
must cmake --install "$build" --prefix "$tmp/prefix"
mkdir lib
cp "$tmp/prefix"/lib/libmeshc_run.so* lib
for file in libmeshc_run.so libmeshc_run.a pkgconfig/meshc_run.pc; do check "$file is installed" test -e "$tmp/prefix/lib/$file"; done
run ldd lib/libmeshc_run.so
if says 'LLVM|stdc|meshc\.so'; then fail "libmeshc_run needs $(output)"; else pass; fi
if [ -z "$sanitized" ]; then
  strip -o stripped.so lib/libmeshc_run.so
  check "the runtime has at most 1 MiB" test "$(wc -c <stripped.so)" -le 1048576
else
  skip
fi
PKG_CONFIG_PATH=$tmp/prefix/lib/pkgconfig
export PKG_CONFIG_PATH
# shellcheck disable=SC2046,SC2086
must cc -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -pedantic $cflags "$root/tests/api/packaged.c" -o packaged $(pkg-config --cflags --libs meshc_run)
# shellcheck disable=SC2046,SC2086
must cc -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -pedantic $cflags "$root/tests/api/damaged.c" -o damaged $(pkg-config --cflags --libs meshc_run)
# shellcheck disable=SC2046,SC2086
must cc -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -pedantic $cflags "$root/tests/api/packaged.c" -o packaged_static \
  -I"$tmp/prefix/include" "$tmp/prefix/lib/libmeshc_run.a" $(pkg-config --static --libs-only-l meshc_run | sed 's/-lmeshc_run//')
# shellcheck disable=SC2046,SC2086
must cc -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -pedantic $cflags "$root/tests/api/packaged.c" -o packaged_full $(pkg-config --cflags --libs meshc)
LD_LIBRARY_PATH=$tmp/lib
export LD_LIBRARY_PATH
run strace -f -o trace ./packaged native
[ $code = 127 ] && run ./packaged native
holds "a program without the compiler" $code 0
sort "$tmp/out" >one.txt
if [ -s trace ]; then if grep -q libLLVM trace; then fail "libLLVM was looked for"; else pass; fi; else skip; fi
run ./packaged_static native
sort "$tmp/out" >other.txt
same "the static library" one.txt other.txt
LD_LIBRARY_PATH=$tmp/prefix/lib run ./packaged_full native
sort "$tmp/out" >other.txt
same "the full library" one.txt other.txt
expect "three steps in a program" 0 "^loss 0x" ./packaged trained 3
holds "a loss a step" "$(grep -c '^loss' "$tmp/out")" 3
must "$meshc" train table.mesh --data-dir files --save-params want.safetensors -q
expect "a training in a program" 0 "^steps 30" ./packaged learns train files got.safetensors 0
same "what it leaves" want.safetensors got.safetensors
expect "a training in two calls" 0 "^steps 30" ./packaged learns train files got.safetensors 11 19
same "what they leave" want.safetensors got.safetensors
expect "no data in a program" 1 "rows.csv: No such file.*E0701" ./packaged learns train nowhere got.safetensors 3
expect "no package" 1 "nowhere is no package: it has no package.json .E0701" ./packaged nowhere
expect "another CPU, in a program" 1 "has no code for this processor.*E0807" env MESHC_CPU=z80 ./packaged levels

# -- executables and objects ---------------------------------------------------------------------------------------
unset LD_LIBRARY_PATH
must "$meshc" predict "$net" --feed x=rows/x.npy --fetch y --out want
must "$meshc" compile "$net" --cpu native --emit exe -o net.run -q
for other in o.csv o.npy O.CSV -; do
  expect "an executable writes no $other" 2 "results are not written as '$other'.*E0601" ./net.run --feed x=rows/x.npy --out $other
  check "no folder $other" test ! -e "./$other"
done
expect "results on a full device" 7 "^./net.run: error: cannot write standard output: No space left on device .E0805" sh -c "./net.run --feed x=rows/x.npy >/dev/full"
expect "an executable" 0 "" env -i ./net.run --feed x=rows/x.npy --out got
same "what the executable computes" want/y.npy got/y.npy
expect "its results on the terminal" 0 "^y .b 20, o 2. f32" ./net.run --feed x=rows/x.npy
expect "its help" 0 "^input  x f32 .b 8, d 4." ./net.run --help
printf 'dim b = 128, d = 128, h = 128\ninput x[b, d]\nparam w[d, h] ~ normal\noutput y[b, h] = sum[d](x * w)\n' >wide.mesh
must "$meshc" compile wide.mesh --cpu x86-64-v3,x86-64-v2 --emit exe -o wide.run -q
expect "its levels, once each" 0 "compiled by meshc .* for x86-64-v3, x86-64-v2[.]$" ./wide.run --help
expect "its errors" 2 "the input x is needed and not fed.*E0606" ./net.run
expect "its options" 2 "unknown option '--set'" ./net.run --set b=2
expect "what is in it" 0 "^net.run: executable.*, 2 arrays, 36 numbers" "$meshc" inspect net.run
expect "an option that is misspelt" 2 "^hint: did you mean --fetch" ./net.run --fetchs y
expect "an option with an equals sign" 0 "^y .b 20, o 2. f32" ./net.run --feed=x=rows/x.npy --fetch=y
expect "an input that is missing" 5 "nofile.npy: No such file.*E0701" ./net.run --feed x=nofile.npy
if grep -q "compiled model reads arrays" "$tmp/err"; then fail "a hint about kinds of files"; else pass; fi
expect "its own help is named" 2 "^hint: see ./net.run --help" ./net.run --threads 0 --feed x=rows/x.npy
must "$meshc" run rows.mesh --out rows.npz
cp rows.npz kept.npz
expect "its input is not overwritten" 2 "^./net.run: error: rows.npz is also read in this run.*E0601" ./net.run --feed x=rows.npz:x --out rows.npz
same "it is as before" rows.npz kept.npz
ln -s got.safetensors linked.safetensors
expect "its parameters are not overwritten" 2 "linked.safetensors is also read" ./net.run --feed x=rows/x.npy --params got.safetensors --out linked.safetensors
cp net.run self.npz
expect "it does not overwrite itself" 2 "self.npz is also read in this run" ./self.npz --feed x=rows/x.npy --out self.npz
expect "a parameter that is missing" 5 "^hint: give it$" ./net.run --feed x=rows/x.npy --params rows.npz
head -c "$(($(wc -c <net.run) - 100))" net.run >short.run
chmod +x short.run
expect "an executable that is cut off" 5 "short.run contains no package, or is cut off.*E0702" ./short.run --feed x=rows/x.npy
expect "the program without a package" 5 "contains no package" "$build/meshc_runner" --feed x=1
cat >use.c <<'END'
#include "net.h"
#include <stdio.h>
int main(void) {
  float x[net_x_ELEMENTS], y[net_y_ELEMENTS];
  net *m = net_init();
  for (int i = 0; i < net_x_ELEMENTS; i++) x[i] = (float)(i % 10) * 0.1f;
  if (!m || net_run(m, x, y)) return puts(net_error()), 1;
  if (net_run(NULL, x, y) != 2) return puts("a NULL handle runs"), 1;
  for (int i = 0; i < net_y_ELEMENTS; i++) printf("y %a\n", (double)y[i]);
  net_free(m);
  return 0;
}
END
if [ -z "$sanitized" ]; then
  LD_LIBRARY_PATH=$tmp/lib run ./packaged native
  cp "$tmp/out" want.txt
  must "$meshc" compile "$net" --cpu native --emit shared -o net.so -q
  must cc -std=c99 -Wall -Wextra -Werror -pedantic use.c -o use ./net.so
  run ./use
  same "a shared object" want.txt "$tmp/out"
  nm -D --defined-only net.so | awk '$2 == "T" {print $3}' | sort | tr '\n' ' ' >"$tmp/names"
  holds "its functions" "$(cat "$tmp/names")" "net_error net_free net_init net_run "
  run ldd net.so
  if says 'LLVM|libmeshc'; then fail "the shared object needs $(output)"; else pass; fi
  must "$meshc" compile "$net" --cpu native --emit obj -o net.o -q
  # shellcheck disable=SC2046
  must cc -std=c99 -Wall -Wextra -Werror -pedantic use.c net.o -o use_object $(pkg-config --libs meshc_run)
  LD_LIBRARY_PATH=$tmp/lib run ./use_object
  same "an object" want.txt "$tmp/out"
  # names that C has another use for
  cat >class.mesh <<'END'
dim b = 2
input m[b]
input int[b]
input e: i32
output class[b] = m + int * e
output m
END
  cat >names.c <<'END'
#include "class.h"
#include <stdio.h>
int main(void) {
  float m[] = {1, 2}, ints[] = {10, 20}, same[class__m___ELEMENTS], sum[class__class__ELEMENTS];
  int32_t e = 3;
  class_ *h = class__init();
  if (!h || class__run(h, m, ints, &e, same, sum)) return puts(class__error()), 1;
  printf("%g %g, %g %g\n", (double)sum[0], (double)sum[1], (double)same[0], (double)same[1]);
  class__free(h);
  return 0;
}
END
  must "$meshc" compile class.mesh --cpu native --emit shared -o class.so -q
  must cc -std=c99 -Wall -Wextra -Werror -pedantic names.c -o names ./class.so
  expect "names that are words of C" 0 "^31 62, 1 2$" ./names
  expect "the names in the header" 0 "class__m__ELEMENTS 2 /. input m of float: b 2 ./" grep m__ELEMENTS class.h
  must "$meshc" compile class.mesh --cpu native --emit exe -o class.run -q
  expect "a number that an input cannot be" 5 "e cannot be 1.5: it is of type i32 .E0705" ./class.run --feed e=1.5
  expect "a folder that is not there" 1 "cannot write no/net.so: No such file or directory" "$meshc" compile "$net" --cpu native --emit shared -o no/net.so
  if command -v c++ >/dev/null; then
    must cp names.c names.cc
    must c++ -std=c++17 -Wall -Wextra -Werror -pedantic names.cc -o names_cc ./class.so
    must cp use.c use.cc
    must c++ -std=c++17 -Wall -Wextra -Werror -pedantic use.cc -o use_cc ./net.so
  else
    skip 4
  fi
else
  skip 18
fi
expect "no C compiler" 1 "cannot run the C compiler nothing: No such file.*E0807" env CC=nothing "$meshc" compile "$net" --emit shared -o no.so
check "no file of it" test ! -e no.so -a ! -e no.so.partial -a ! -e no.h
must "$meshc" compile "$net" --cpu x86-64-v3 --emit llvm -o kernels.ll -q
check "text of LLVM" grep -q "^define void @" kernels.ll
must "$meshc" compile "$net" --cpu aarch64 --emit asm -o kernels.s -q
check "assembly of another processor" grep -q "fmla" kernels.s
while read -r kind name ending writes; do
  expect "$kind as $name" 2 "out:1:1: error: --emit $kind writes $writes, and '$name' ends in $ending.*E0601" "$meshc" compile "$net" --emit $kind -o $name
done <<'END'
shared foo.o .o a file that ends in .so
obj foo.so .so a file that ends in .o
asm foo.ll .ll a file that ends in .s
exe foo.O .o an executable
package foo.so .so a folder
END
check "nothing of them" test ! -e foo.o -a ! -e foo.so -a ! -e foo.ll -a ! -e foo.h
expect "an unknown kind" 2 "emit:1:1: error: --emit takes package.exe.obj.shared.llvm.asm, not 'zip'" "$meshc" compile "$net" --emit zip -o no

# -- another processor, emulated -----------------------------------------------------------------------------------
# MESHC_AARCH64 is a folder with include/jansson.h, include/zlib.h, lib/libjansson.a and lib/libz.a for aarch64.
if [ -d "${MESHC_AARCH64:-}" ] && command -v qemu-aarch64 >/dev/null && command -v aarch64-linux-gnu-gcc >/dev/null; then
  # shellcheck disable=SC2046
  must aarch64-linux-gnu-gcc -O1 -std=c17 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -DMESHC_VERSION='"test"' -I"$root" -I"$root/include" \
    -I"$build/generated" -I"$MESHC_AARCH64/include" "$root/tests/api/packaged.c" $(ls "$root"/ir/base/*.c "$root"/ir/program/*.c \
    "$root"/collectives/local/*.c "$root"/collectives/ranks/*.c "$root"/runtime/*/*.c | grep -v 'comm_mpi\|runner_') \
    -L"$MESHC_AARCH64/lib" -o packaged_aarch64 -static -ljansson -lz -lm -lpthread -ldl
  for mesh in "--mesh p=1 --layout none" "--mesh rows=2,cols=2 --layout b=rows,h=cols"; do
    # shellcheck disable=SC2086
    must "$meshc" compile "$net" $mesh --cpu aarch64,x86-64-v3 --for train -o both -q
    LD_LIBRARY_PATH=$tmp/lib run ./packaged both 5
    cp "$tmp/out" want.txt
    expect "five steps on aarch64 with $mesh" 0 "^loss 0x" qemu-aarch64 ./packaged_aarch64 both 5
    same "their losses" want.txt "$tmp/out"
  done
else
  skip 4
fi

LD_LIBRARY_PATH=$tmp/lib
export LD_LIBRARY_PATH
# -- damage -------------------------------------------------------------------------------------------------------
cat >small.mesh <<'END'
dim b = 4, d = 3
input x[b, d]
param w[d] ~ normal(0, 1)
output y = exp(sum[d](x * w))
END
must "$meshc" compile small.mesh --cpu "$here" -o small -q
# shellcheck disable=SC2046
expect "every byte changed, every length" 0 "damaged: [0-9]* changes, 0 accepted" ./damaged small $(ls small)
rm small/predict."$here".o
expect "a file that is missing" 1 "small/predict.$here.o: No such file" ./packaged small
finish

#!/bin/sh
# Packages for a GPU (`meshc compile --device cuda`), with the stand-ins for NVIDIA's libraries (tests/gpu.sh): they have the bits of
# the model on a GPU, through meshc, libmeshc_run and executables, with and without cuBLASLt; errors end in a sentence and the right
# exit code. Skipped where the build has no stand-ins. With MESHC_GPU=real it runs on a GPU; with the argument `all` it tries more models. Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"
standin=$build/standin all=""
[ "${1:-}" != all ] || all=all
XDG_CACHE_HOME=$tmp/cache
export XDG_CACHE_HOME
export ASAN_OPTIONS="detect_leaks=0 ${ASAN_OPTIONS:-}"

# -- PTX, which needs no GPU ----------------------------------------------------------------------------------------
expect "a package of PTX" 0 "^$tmp/ptx: predict, for sm_90, sm_80; 2 values, 144 B" "$meshc" compile examples/mlp.mesh --device cuda --gpu sm_80,sm_90 -o "$tmp/ptx"
check "PTX for each level" grep -q "^.target sm_90" "$tmp/ptx/predict.sm_90.2.ptx"
check "its older level" grep -q "^.target sm_80" "$tmp/ptx/predict.sm_80.2.ptx"
must "$meshc" compile examples/mlp.mesh --device cuda --gpu sm_80 --emit asm -o "$tmp/mlp.ptx" -q
check "text of PTX" grep -q "^.visible .entry k0" "$tmp/mlp.ptx"
if command -v ptxas >/dev/null; then
  for file in "$tmp"/ptx/*.ptx; do
    level=${file##*predict.}
    check "ptxas takes ${file##*/}" ptxas -arch="${level%%.*}" "$file" -o "$tmp/cubin"
  done
else
  skip 4
fi
expect "LLVM of a GPU" 1 "emit llvm is for CPUs.*E0807" "$meshc" compile examples/mlp.mesh --device cuda --emit llvm -o "$tmp/no"
expect "levels of CPUs" 2 "a package for GPUs has no levels of CPUs.*E0601" "$meshc" compile examples/mlp.mesh --device cuda --cpu native -o "$tmp/no"
expect "levels of GPUs" 2 "a package for CPUs has no levels of GPUs.*E0601" "$meshc" compile examples/mlp.mesh --gpu sm_80 -o "$tmp/no"
expect "an unknown level" 2 "^hint: it is one of: sm_90, sm_80, sm_75, sm_70$" "$meshc" compile examples/mlp.mesh --device cuda --gpu sm_20 -o "$tmp/no"
printf 'dim i = 3, j = 3\na[i, j] = where(index[i] == index[j], 2.0, 1)\noutput y = cholesky[i, j](a)\n' >"$tmp/matrix.mesh"
expect "an operation on matrices" 1 "does not support cholesky, solve.*E0807" "$meshc" compile "$tmp/matrix.mesh" --device cuda -o "$tmp/no"
check "nothing was written" test ! -e "$tmp/no"
must "$meshc" compile examples/mlp.mesh --device cuda --gpu sm_80,sm_90 --emit exe -o "$tmp/ptx.run" -q
expect "help of an executable needs no driver" 0 "compiled by meshc .* for sm_90, sm_80" env LD_LIBRARY_PATH= "$tmp/ptx.run" --help
mkdir "$tmp/none"
if [ "${MESHC_GPU:-}" = real ] || LD_LIBRARY_PATH=$tmp/none ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
  skip
else
  expect "no driver" 1 "the CUDA driver cannot be used.*E0807" env LD_LIBRARY_PATH= "$meshc" predict "$tmp/ptx" --feed x=1
fi

if [ "${MESHC_GPU:-}" = real ]; then
  libraries=${LD_LIBRARY_PATH:-} level=sm_80
elif [ -e "$standin/libcuda.so.1" ]; then
  libraries=$standin level=emulated
else
  skip
  finish
fi
cd "$tmp" || exit 1
# gpu COMMAND...: with the driver
mkdir bin
printf '#!/bin/sh\nLD_LIBRARY_PATH=$libraries exec "$@"\n' >bin/gpu
chmod +x bin/gpu
PATH=$PWD/bin:$PATH
export PATH libraries

# -- the bits of the model on a GPU ---------------------------------------------------------------------------------
cat >inputs.mesh <<'END'
dim b = 30, features = 4, t = 8, d = 16
output x[b, features] = sin(index[b] * 0.7 + index[features])
output species[b]: i32 = cast(index[b] - 3 * floor(index[b] / 3), i32)
output h[b, t, d] = sin(index[b] * 0.3 + index[t] * 0.2 + index[d])
output next[b, t, d] = cos(index[b] * 0.3 + index[t] * 0.2 + index[d])
END
must "$meshc" run inputs.mesh --out in
must "$meshc" run inputs.mesh --set b=8 --out in8
must "$meshc" run inputs.mesh --set b=10 --out in10
cat >mlp.mesh <<'END'
dim b = 8, t = 8, d = 16, f = 128
input h[b, t, d]
input next[b, t, d]
param w[d, f] ~ normal(std = 0.1)
param wb[f] ~ normal(std = 0.1)
param v[f, d] ~ normal(std = 0.1)
y = h + sum[f](gelu_tanh(sum[d](h * w) + wb) * v)
output y
loss = mean[b, t](sum[d](square(y - next)))
train loss { optimizer = sgd(lr = 0.01), steps = 2 }
END
cat >transformer.mesh <<'END'
dim b = 8, t = 8, s = t, d = 16, heads = 2, k = 8, f = 32
input h[b, t, d]
input next[b, t, d]
param q[d, heads, k] ~ glorot(d, k)
param u[d, heads, k] ~ glorot(d, k)
param v[d, heads, k] ~ glorot(d, k)
param o[heads, k, d] ~ glorot(k, d)
param w[d, f] ~ glorot(d, f)
param z[f, d] ~ glorot(f, d)
n = layer_norm[d](h)
score[b, heads, t, s] = sum[k](sum[d](n * q) * rename[t -> s](sum[d](n * u))) / 3
p = softmax[s](where(index[s] <= index[t], score, -inf))
a = h + sum[heads, k](sum[s](p * rename[t -> s](sum[d](n * v))) * o)
y = a + sum[f](relu(sum[d](a * w)) * z)
output y
loss = mean[b, t](sum[d](square(y - next)))
train loss { optimizer = adam(lr = 0.01), steps = 2 }
END

number() { sed -n 's/^loss f32 = //p' "$1"; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; if (d < 0) d = -d; if (a < 0) a = -a; exit !(a != "" && d <= 1e-4 * a + 1e-6) }'; }
# bits NAME MODEL OUTPUT TRAIN-FEEDS PREDICT-FEEDS OPTIONS...: prediction and three training steps of a package, of the model on a GPU, and on the CPU
bits() {
  name=$1 model=$2 output=$3 batch=$4 rows=$5
  shift 5
  must "$meshc" compile "$model" "$@" --device cuda --gpu $level --for train --fetch "$output" -o package -q
  # shellcheck disable=SC2086
  must gpu "$meshc" predict "$model" "$@" --device cuda --no-cache $rows --fetch "$output" --out want -q
  # shellcheck disable=SC2086
  must gpu "$meshc" predict package $rows --out got
  same "$name: prediction" "want/$output.npy" "got/$output.npy"
  # shellcheck disable=SC2086
  must gpu "$meshc" run "$model" "$@" --device cuda --no-cache $batch --steps 3 --fetch loss --save-params want.safetensors
  # shellcheck disable=SC2086
  must gpu "$meshc" run package $batch --steps 3 --fetch loss --save-params got.safetensors
  cp out got.txt
  same "$name: parameters after three steps" want.safetensors got.safetensors
  # shellcheck disable=SC2086
  must "$meshc" run "$model" "$@" $batch --steps 3 --fetch loss
  check "$name: the loss of the CPU" near "$(number out)" "$(number got.txt)"
}
one="--mesh one=1 --layout none"
text="--feed h=in8/h.npy --feed next=in8/next.npy"
must "$meshc" run inputs.mesh --set b=8 --set t=32 --out in32
wide="--feed h=in32/h.npy --feed next=in32/next.npy"
cp "$root/examples/iris.mesh" .
flowers="--feed x=in/x.npy --feed species=in/species.npy"
bits "iris on 2 x 2" iris.mesh probs "$flowers" "--feed x=in/x.npy" --mesh rows=2,cols=2 --layout b=rows,h1=cols
# shellcheck disable=SC2086
bits "mlp, bf16" mlp.mesh y "$wide" "--feed h=in32/h.npy" $one --precision bf16 --set t=32
cp -r package lacks
if [ "$all" ]; then
  # shellcheck disable=SC2086
  bits "iris" iris.mesh probs "$flowers" "--feed x=in10/x.npy" $one
  # shellcheck disable=SC2086
  bits "mlp" mlp.mesh y "$text" "--feed h=in10/h.npy" $one
  bits "transformer on 2 x 2" transformer.mesh y "$text" "--feed h=in10/h.npy" --mesh rows=2,cols=2 --layout b=rows,heads=cols
fi
# shellcheck disable=SC2086
bits "transformer" transformer.mesh y "$text" "--feed h=in10/h.npy" $one
cp -r package transformer

# cuBLASLt may lack epilogues, or be missing: then the package has other code
if [ "${MESHC_GPU:-}" = real ]; then
  skip 8
else
  mkdir alone
  for file in libcuda.so.1 libcublasLt.so.13 libcublasLt.so.12; do ln -s "$(realpath "$standin/libcuda.so.1")" "alone/$file"; done
  for how in "$standin 0" "$standin 4" "$standin 244" "$PWD/alone 0"; do
    case $all$how in "$standin 0" | "$standin 244") continue ;; esac
    libraries=${how% *}
    export MESHC_STANDIN_CUBLASLT_LACKS="${how#* }"
    # shellcheck disable=SC2086
    must gpu "$meshc" run mlp.mesh $one --precision bf16 --set t=32 --device cuda --feed h=in32/h.npy --feed next=in32/next.npy --steps 2 --fetch loss
    cp out want.txt
    must gpu env MESHC_STANDIN_CALLS="$tmp/calls" "$meshc" run lacks --feed h=in32/h.npy --feed next=in32/next.npy --steps 2 --fetch loss
    check "cuBLASLt without ${how#* }" near "$(number want.txt)" "$(number out)"
    calls=$(sed -n 's/^cublasLtMatmul //p' calls)
    if [ "$libraries" = "$standin" ]; then check "it computes products" test "${calls:-0}" -gt 0; else check "kernels compute products" test "${calls:-0}" = 0; fi
  done
  unset MESHC_STANDIN_CUBLASLT_LACKS
  libraries=$standin
fi

# -- executables, programs, text ------------------------------------------------------------------------------------
# shellcheck disable=SC2086
must "$meshc" compile transformer.mesh $one --device cuda --gpu $level --emit exe -o transformer.run -q
must gpu "$meshc" predict transformer --feed h=in10/h.npy --out want
expect "an executable" 0 "" gpu ./transformer.run --feed h=in10/h.npy --out got
same "what it computes" want/y.npy got/y.npy
expect "it names its level" 0 "compiled by meshc .* for $level" gpu ./transformer.run --help
if [ -e "$build/libmeshc_run.so" ] && [ -z "$(ldd "$build/libmeshc_run.so" | sed -n 's/^[[:space:]]*lib[at]san.*/san/p')" ]; then
  must cc -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -pedantic "$root/tests/api/packaged.c" -o packaged -I"$root/include" -L"$build" -lmeshc_run -Wl,-rpath,"$build"
  run gpu strace -f -o trace ./packaged transformer 3
  [ $code = 127 ] && run gpu ./packaged transformer 3
  holds "a program without the compiler" $code 0
  holds "a loss a step" "$(grep -c '^loss' out)" 3
  if [ -s trace ]; then if grep -q libLLVM trace; then fail "libLLVM was looked for"; else pass; fi; else skip; fi
else
  skip 3
fi
cat >talk.mesh <<'END'
dim b = 4, t = 24, s = t, vocab = 64, d = 16
input ids[b, t]: i32
param table[vocab, d] ~ normal(std = 1)
param places[t, d] ~ normal(std = 1)
param w[d] ~ normal(std = 1)
x = take[vocab](table, ids) + places
p = softmax[s](where(index[s] <= index[t], sum[d](x * rename[t -> s](x * w)), -inf))
y = tanh(cumsum[t](x) * 0.1) + sum[s](p * rename[t -> s](x))
logits[b, t, vocab] = sum[d](y * table) * 0.4
output best[b, t] = argmax[vocab](logits)
END
must "$meshc" generate talk.mesh --prompt "1 2 3 4 5 6 7 8 9 10" --prompt "7" --max-tokens 8
cp out want.txt
must "$meshc" compile talk.mesh --for generate --rows 2 --device cuda --gpu $level -o talk -q
must gpu "$meshc" generate talk --prompt "1 2 3 4 5 6 7 8 9 10" --prompt "7" --max-tokens 8
same "text" want.txt out

# -- several GPUs, each with a rank of its own ----------------------------------------------------------------------
if [ ! -e "$standin/libnccl.so.2" ] || [ "${MESHC_GPU:-}" = real ]; then
  skip 9
else
  export MESHC_STANDIN_DEVICES=4 MESHC_STANDIN_WRITTEN=1
  mesh="--mesh rows=2,cols=2 --layout b=rows,heads=cols"
  for gpus in 2 4; do
    case $all$gpus in 2) continue ;; esac
    # shellcheck disable=SC2086
    must "$meshc" compile transformer.mesh $mesh --device cuda --gpu $level --gpus $gpus --for train -o several -q
    # shellcheck disable=SC2086
    must gpu "$meshc" run transformer.mesh $mesh --device cuda --no-cache $text --steps 3 --fetch loss --save-params want.safetensors --np $gpus
    # shellcheck disable=SC2086
    must gpu "$meshc" run several $text --steps 3 --fetch loss --save-params got.safetensors --np $gpus
    same "parameters of $gpus GPUs" want.safetensors got.safetensors
    must gpu "$meshc" predict several --feed h=in10/h.npy --out got --np $gpus
    # shellcheck disable=SC2086
    must gpu "$meshc" predict transformer.mesh $mesh --device cuda --no-cache --feed h=in10/h.npy --out want -q --np $gpus
    same "a prediction by $gpus GPUs" want/y.npy got/y.npy
  done
  expect "too few ranks" 1 "several is a package for 4 GPUs, and there are 2 ranks.*E0807" gpu "$meshc" predict several --feed h=in10/h.npy --np 2
  expect "no ranks" 1 "several is a package for 4 GPUs, and there is 1 rank" gpu "$meshc" predict several --feed h=in10/h.npy
  # shellcheck disable=SC2086
  expect "GPUs that do not divide the mesh" 2 "3 GPUs do not divide the axes of the mesh rows=2 cols=2 evenly.*E0601" "$meshc" compile transformer.mesh $mesh --device cuda --gpus 3 -o no
  expect "GPUs of a package for CPUs" 2 "gpus is an option of --device cuda" "$meshc" compile mlp.mesh --gpus 2 -o no
  unset MESHC_STANDIN_DEVICES MESHC_STANDIN_WRITTEN
fi

# -- errors ---------------------------------------------------------------------------------------------------------
expect "a package for CPUs" 0 "" "$meshc" compile mlp.mesh --cpu native -o cpu -q
expect "it is none for a GPU" 1 "cpu is a package for CPUs.*E0807" gpu "$meshc" predict cpu --device cuda --feed h=in10/h.npy
expect "the other way round" 1 "transformer is a package for GPUs.*E0807" gpu "$meshc" predict transformer --device cpu --feed h=in10/h.npy
expect "the device may be named" 0 "^y .b 10" gpu "$meshc" predict transformer --device cuda --feed h=in10/h.npy
expect "ranks" 1 "transformer is a package for 1 GPU, and there are 2 ranks.*E0807" gpu "$meshc" predict transformer --np 2 --feed h=in10/h.npy
cp -r transformer broken
file=$(find broken -name "train.$level*.2.*" | head -n 1)
printf 'x' | dd of="$file" bs=1 seek=300 conv=notrunc 2>/dev/null
expect "damaged code" 5 "$file was changed: its checksum is wrong.*E0702" gpu "$meshc" predict broken --feed h=in10/h.npy
cp -r transformer/. broken
file=$(find broken -name "predict.$level*.launches" | head -n 1)
head -c 20 "$file" >short && cp short "$file"
expect "launches that are cut off" 5 "$file .*E0702" gpu "$meshc" predict broken --feed h=in10/h.npy
rm "$file"
expect "launches that are missing" 5 "$file: No such file.*E0701" gpu "$meshc" predict broken --feed h=in10/h.npy
if [ "${MESHC_GPU:-}" = real ]; then
  skip 4
else
  expect "an older GPU" 1 "ptx has no code for this GPU, .* of compute capability 7.5: it has sm_90, sm_80.*E0807" env MESHC_STANDIN_CAPABILITY=75 LD_LIBRARY_PATH="$standin" "$meshc" predict ptx --feed x=1
  expect "what to do" 1 "^hint: compile for it: .*--gpu LEVEL .*the last level up to sm_75" env MESHC_STANDIN_CAPABILITY=75 LD_LIBRARY_PATH="$standin" "$meshc" predict ptx --feed x=1
  expect "too little memory" 7 "out of memory.*E0804" env MESHC_STANDIN_MEMORY=4000 LD_LIBRARY_PATH="$standin" "$meshc" predict transformer --feed h=in10/h.npy
  expect "a failed kernel" 1 "CUDA_ERROR_ILLEGAL_ADDRESS" env MESHC_STANDIN_FAIL_LAUNCH=3 LD_LIBRARY_PATH="$standin" "$meshc" predict transformer --feed h=in10/h.npy
fi
finish

#!/bin/sh
# Folders of images: they train, predict and print names; every mesh, number of threads and number of ranks sees the same
# pixels, also after a run that goes on; damaged files end a run with their name. Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"
draw() { "$build/make_picture" "$@" || fail "make_picture $*"; }
cd "$tmp" || exit 1

# -- names in three commands -----------------------------------------------------------------------
# Three classes of images of several kinds and sizes.
class=0
for name in across down smooth; do
  mkdir -p "set/train/$name" "set/test/$name"
  seed=0
  for kind in png jpeg png-gray png-rgb16 jpeg-gray png-interlaced jpeg-progressive png-alpha; do

    case $kind in png*) end=png ;; *) end=jpg ;; esac
    draw $kind $((16 + seed % 3 * 4)) $((16 + seed % 2 * 6)) $((class + 10 * seed)) "set/train/$name/$seed.$end"
    seed=$((seed + 1))
  done
  draw png 18 18 $((class + 110)) "set/test/$name/a.png"
  class=$((class + 1))
done
cat >signs.mesh <<'END'
dim b = 6, channel = 3, y = 16, x = 16, class = 3, f = 8, i = 3, j = 3, v = 14, u = 14
input picture[b, channel, y, x]
input kind[b]: i32
param k[f, channel, i, j] ~ he(channel, i, j)
param w[f, class] ~ glorot(f, class)
param bias[class] = 0
h[b, f, v, u] = relu(sum[channel, i, j](window[x -> u, j](window[y -> v, i](picture)) * k))
logits[b, class] = sum[f](mean[v, u](h) * w) + bias
loss = mean[b](cross_entropy[class](logits, kind))
metric accuracy = mean[b](argmax[class](logits) == kind)
output found[b] = argmax[class](logits)
data train over b {
  picture = images("set/train", crop = random, pad = 1, flip = 0.5, brightness = 0.1)
  kind = labels("set/train")
}
data test over b { picture = images("set/test"), kind = labels("set/test") }
train loss { optimizer = adam(lr = 0.02), epochs = 60 }
END
expect "train" 0 'test accuracy' "$meshc" train signs.mesh -q --save-params signs.safetensors
expect "classes are kept" 0 'classes: across 1, down 1, smooth 1' "$meshc" data signs.mesh --data test
expect "inspect a folder of folders" 0 '^set/train: images, [0-9.]+ KiB, 24 images in 3 folders$' "$meshc" inspect set/train
check "the images of a folder" says '^  across  +8 images  +[0-9.]+ KiB$'
expect "a folder of one image" 0 '^  down  +1 image  +[0-9]+ B$' "$meshc" inspect set/test/down
expect "a folder of images as JSON" 0 '"folders": \[ \{ "name": "across", "images": 8, "bytes": [0-9]+ \}, ' sh -c \
  "'$meshc' inspect set/train --json | tr -d '\n' | tr -s ' '"
check "their number" says '"rows": 24'
mv set/train set/hidden
expect "eval without the training data" 0 'test accuracy' "$meshc" eval signs.mesh --params signs.safetensors
expect "predict a folder" 0 '^found \[b 3: set/test/across/a.png, set/test/down/a.png, set/test/smooth/a.png\] i32' "$meshc" predict signs.mesh --params signs.safetensors --feed picture=set/test
check "names" says '(across|down|smooth), (across|down|smooth), (across|down|smooth)\]'
expect "as CSV" 0 '' "$meshc" predict signs.mesh --params signs.safetensors --feed picture=set/test --out found.csv
holds "the head of the file" "$(head -n 1 found.csv)" "file,found"
check "files and names" grep -qE '^set/test/down/a.png,(across|down|smooth)$' found.csv
expect "predict --data" 0 '^found \[b 3: set/test/across/a.png, ' "$meshc" predict signs.mesh --params signs.safetensors --data test
expect "as JSON" 0 '"positions": \{ "b": \[ "set/test/across/a.png"' sh -c \
  "'$meshc' predict signs.mesh --params signs.safetensors --data test --json | tr -d '\n' | tr -s ' '"
expect "predict a file" 0 '\[(across|down|smooth)\]' "$meshc" predict signs.mesh --params signs.safetensors --feed picture=set/test/down/a.png
mkdir -p "set/new" && cp set/test/down/a.png "set/new/a[1].png"
expect "a name with brackets" 0 '^found \[b 1: set/new/a\[1\].png\]' "$meshc" predict signs.mesh --params signs.safetensors --feed 'picture=set/new/a[1].png'
mkdir -p other/sideways && draw png 16 16 3 other/sideways/1.png
sed 's/"set\/test"/"other"/g' signs.mesh >other.mesh
expect "another class" 5 "other/sideways/1.png: its folder 'sideways' is none of the classes" \
  "$meshc" eval other.mesh --params signs.safetensors --set b=1
check "another class: what to change" says "the classes are the folders in data train, or those with the parameters"
mv set/hidden set/train
sed 's|labels("set/test")|labels("set/test/*/")|; s|images("set/test")|images("set/test/*/")|' signs.mesh >slash.mesh
expect "a path that ends in a slash" 0 'classes: across 1, down 1, smooth 1' "$meshc" data slash.mesh --data test
sed 's/set\/train/sett\/train/g' signs.mesh >lost.mesh
expect "a folder that is not there" 5 'sett/train cannot be opened: No such file or directory' "$meshc" data lost.mesh --data train
mkdir stray && cp -r set/test/* stray && cp set/test/down/a.png stray/stray.png
sed 's/set\/test/stray/g' signs.mesh >stray.mesh
expect "a stray image" 5 'stray has images of its own, such as .*stray.png, and in folders' "$meshc" data stray.mesh --data test
check "a stray image: what to change" says 'stray/\*/\*'
expect "inspect a stray image" 5 'stray has images of its own, such as .*stray.png, and in folders' "$meshc" inspect stray
mkdir empty
expect "inspect an empty folder" 0 '^empty: folder, 0 B, 0 arrays, 0 numbers$' "$meshc" inspect empty
expect "shuffled rows" 0 '^found \[b 24\] i32' "$meshc" predict signs.mesh --params signs.safetensors --data train

# -- a library that is missing ---------------------------------------------------------------------
mkdir lib && : >lib/libpng16.so.16
expect "libpng is missing" 1 'libpng cannot be used .*install it \(Debian: libpng16-16\)' \
  env LD_LIBRARY_PATH="$tmp/lib" "$meshc" predict signs.mesh --params signs.safetensors --feed picture=set/test
mkdir photos && draw jpeg 16 16 3 photos/1.jpg
expect "JPEG needs no libpng" 0 '^found \[b 1: photos/1.jpg\]' \
  env LD_LIBRARY_PATH="$tmp/lib" "$meshc" predict signs.mesh --params signs.safetensors --feed picture=photos

# -- the same pixels everywhere --------------------------------------------------------------------
# The gradient of w is the sum of whole numbers: parameters are the sum of all pixels that were seen, without rounding.
cat >sum.mesh <<'END'
dim b = 6, channel = 3, y = 16, x = 16
input picture[b, channel, y, x]
param w[channel, y, x] = 0
loss = sum[b, channel, y, x](picture * w)
data train over b { picture = images("same", crop = random, pad = 3, flip = 0.5, flip_vertical = 0.5, cutout = 4, scale = 1), seed = 7 }
train loss { optimizer = sgd(lr = 1), steps = 8, on_nonfinite = skip }
END
mkdir same
i=0
while [ $i -lt 24 ]; do
  draw png 16 16 $((3 + 10 * i)) same/$i.png
  i=$((i + 1))
done
expect "one processor" 0 '' "$meshc" train sum.mesh -q --threads 1 --save-params one.safetensors
for how in "--threads 3" "--mesh p=2 --layout b=p" "--mesh p=3 --layout b=p --np 3 --timeout 60" "--mesh p=2 --layout y=p --np 2 --timeout 60" \
  "--mesh p=2 --layout channel=p"; do
  # shellcheck disable=SC2086
  expect "train $how" 0 '' "$meshc" train sum.mesh -q $how --save-params many.safetensors
  same "parameters with $how" one.safetensors many.safetensors
done
expect "a part of a run" 0 '' "$meshc" train sum.mesh -q --set train.steps=3 --checkpoint-dir ck
expect "its rest" 0 '' "$meshc" train sum.mesh -q --checkpoint-dir ck --resume --save-params many.safetensors
same "parameters after --resume" one.safetensors many.safetensors
expect "another seed" 0 '' "$meshc" train sum.mesh -q --seed 1 --save-params many.safetensors
check "differs" test "$(cmp -s one.safetensors many.safetensors || echo differs)" = differs
# evaluation draws nothing: the sum of the files
expect "eval --data train" 0 'train loss -?[0-9]' "$meshc" eval sum.mesh --data train --params one.safetensors --mesh p=2 --layout b=p
cp "$tmp/out" first
sed 's/y = 16, x = 16/y = 20, x = 20/; s/pad = 3/pad = 2/' sum.mesh >pad.mesh
expect "padding makes an image large enough in training" 0 '' "$meshc" train pad.mesh -q --save-params pad.safetensors
expect "and in evaluation" 0 'train loss -?[0-9]' "$meshc" eval pad.mesh --data train --params pad.safetensors
expect "eval with another seed" 0 '' "$meshc" eval sum.mesh --data train --params one.safetensors --seed 5
same "evaluations" first "$tmp/out"

# -- what the data is ------------------------------------------------------------------------------
expect "data" 0 'images same, f32: 24 rows of 768' "$meshc" data sum.mesh
check "sizes" says 'sizes +16 x 16 to 16 x 16 pixels'
check "rates" says 'decoding .*images/s in one thread'
check "the step" says 'batches are delivered at .*rows/s'
expect "data as JSON" 0 '"decode_seconds"' "$meshc" data sum.mesh --json

expect "a file" 0 'png, [0-9]* B' "$meshc" inspect set/test/down/a.png
check "its pixels" says 'u8 +\[18, 18, 3\]'
expect "a package" 0 '' "$meshc" compile signs.mesh --params signs.safetensors -o package
expect "an image for a package" 5 'a compiled model reads arrays' "$meshc" predict package --feed picture=set/test/down/a.png

# -- damaged files ---------------------------------------------------------------------------------
cp same/5.png whole.png
for how in "head -c 100:is a damaged PNG: it ends at byte 100" "head -c 0:is empty" "tr P Q:is no PNG and no JPEG file"; do
  ${how%%:*} <whole.png >same/5.png
  expect "${how%%:*}" 5 "same/5.png ${how#*:}.*input picture" "$meshc" train sum.mesh -q
  check "what to do" says 'replace the file, or remove it'
  expect "${how%%:*}, ranks" 5 "same/5.png ${how#*:}" "$meshc" train sum.mesh -q --mesh p=2 --layout b=p --np 2 --timeout 60
done
cp whole.png same/5.png
draw jpeg-two 16 16 3 same/5.png
expect "two channels" 5 'same/5.png has 2 channels' "$meshc" train sum.mesh -q
draw png 9 30 3 same/5.png
expect "small, enlarged" 0 '' "$meshc" train sum.mesh -q
sed 's/scale = 1/scale = 1, resize = none/' sum.mesh >none.mesh
expect "small" 5 'same/5.png has 9 x 30 pixels, and the input needs 16 x 16' "$meshc" train none.mesh -q
finish

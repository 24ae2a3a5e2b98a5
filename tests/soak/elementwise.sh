#!/bin/sh
# Every elementwise function and gradient over every f16 and bf16, one f32 in 257 (STRIDE) and four million f64.
cd "$(dirname "$0")/../.." || exit 1
SHOW=1 exec "$(dirname "${MESHC:-build/release/meshc}")"/suite_elementwise soak

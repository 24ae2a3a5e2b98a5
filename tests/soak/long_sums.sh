#!/bin/sh
# Long sums of up to 10,000,000 terms: tests/long_sums.sh with all positions and sizes.
cd "$(dirname "$0")/../.." || exit 1
SOAK=1 exec tests/long_sums.sh 1000 100000 1000000 10000000

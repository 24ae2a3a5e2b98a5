#!/bin/sh
# Random graphs under random layouts: 1,000 seeds instead of the 105 of the test command.
cd "$(dirname "$0")/../.." || exit 1
SEEDS=${SEEDS:-1000} exec "$(dirname "${MESHC:-build/release/meshc}")"/suite_random

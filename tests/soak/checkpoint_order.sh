#!/bin/sh
# Crashes of the machine during a checkpoint: 10,000 random orders of its calls instead of the 300 of the test command.
cd "$(dirname "$0")/../.." || exit 1
ORDERS=${ORDERS:-10000} exec "$(dirname "${MESHC:-build/release/meshc}")"/suite_checkpoint_order

#!/bin/sh
# Kills, stops and disagreements of ranks: 40 kills and 40 stops at random moments, start-up included, under --np and
# under mpirun each; signals to the launcher, and data that differs.
cd "$(dirname "$0")/../.." || exit 1
exec tests/lost.sh "${KILLS:-40}"

#!/bin/sh
# Kills, stops and disagreements of ranks: 40 of each under --np and under mpirun.
cd "$(dirname "$0")/../.." || exit 1
exec tests/mpi.sh "${KILLS:-40}"

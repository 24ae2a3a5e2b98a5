#!/bin/sh
# Suites and runners under every combination of fusion, effort, width of vectors and ways to compute products.
cd "$(dirname "$0")/../.." || exit 1
exec tests/combinations.sh all

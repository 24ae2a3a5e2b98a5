#!/bin/sh
# The library called at random for minutes, with failing allocations and without (tests/api_fuzz.c).
# Ends in `N passed, N failed, N skipped`.
ROUNDS=${ROUNDS:-2000} SEEDS=${SEEDS:-"11 12 13"} exec "$(dirname "$0")/../api.sh"

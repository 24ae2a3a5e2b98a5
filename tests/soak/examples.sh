#!/bin/sh
# Every example under all of its layouts.
cd "$(dirname "$0")/../.." || exit 1
exec tests/examples.sh all

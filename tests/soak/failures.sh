#!/bin/sh
# Every failed allocation, thread and file operation that has a call stack of its own, for every command.
cd "$(dirname "$0")/../.." || exit 1
exec tests/failures.sh all

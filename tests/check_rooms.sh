#!/bin/sh
# The house's rules on text: include directions, headers that compile alone, sizes of files.
# Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"

# What a room may include, itself aside; frontend and tests may include everything.
allowed() {
  case $1 in
    ir) echo "" ;;
    collectives) echo "ir" ;;
    partition) echo "ir collectives" ;;
    codegen) echo "ir collectives" ;;
    runtime) echo "ir collectives" ;;
  esac
}
# What the runtime may see of ir and collectives: it links no compiler.
runtime_headers=" ir/base.h ir/philox.h ir/ordered.h ir/mem.h ir/library.h ir/abrupt.h ir/arena.h ir/intern.h ir/disk.h ir/diag.h ir/dtype.h ir/mesh.h ir/dim.h ir/sums.h ir/spec.h ir/program.h ir/machine.h collectives/comm.h collectives/ranks.h "

for room in ir collectives partition codegen runtime; do
  for file in "$room"/*.[ch]; do
    bad=""
    for header in $(sed -n 's/^#include "\([a-z]*\/[^"]*\)".*/\1/p' "$file"); do
      to=${header%%/*}
      [ "$to" = "$room" ] && continue
      case " $(allowed "$room") " in *" $to "*) ;; *) bad="$bad $header" ;; esac
      case $header in *.def) continue ;; esac
      if [ "$room" = runtime ]; then
        case $runtime_headers in *" $header "*) ;; *) bad="$bad $header" ;; esac
      elif [ "$to" != ir ] && [ "$header" != "$to/$to.h" ] && [ "$header" != collectives/comm.h ] && [ "$header" != collectives/ranks.h ]; then
        bad="$bad $header(private)"
      fi
    done
    if [ -n "$bad" ]; then fail "$file includes$bad"; else pass; fi
  done
done

for header in */*.h; do
  if ${CC:-cc} -std=c17 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -Wall -Wextra -Wpedantic -Werror -I. \
    -fsyntax-only -x c "$header" 2>/dev/null; then pass; else fail "$header does not compile alone"; fi
done

for file in $(ls */*.c */*/*.c */*/*/*.c 2>/dev/null); do
  lines=$(wc -l <"$file")
  if [ "$lines" -gt 800 ]; then fail "$file has $lines lines, 800 is the limit"; else pass; fi
done

finish

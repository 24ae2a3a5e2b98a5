// Products of matrices with few rows (thin_product.c): gemm_is_thin in ir/program/program.h. The
// workers of a processor share one:
//
//   rows of B are lines of memory       thin_lines, then, when all have returned, thin_sum
//   columns of B are lines of memory    thin_columns
#ifndef RUNTIME_THIN_PRODUCT_H
#define RUNTIME_THIN_PRODUCT_H

#include <stdatomic.h>

#include "runtime/runtime.h"

// The workers that share a product take pieces of it in turn: first one each, then those that
// nobody has taken yet. All zero before and after a product.
typedef struct ThinTurn {
  _Atomic int64_t next; // how many pieces, or columns, have been taken after the first ones
  atomic_int done;      // how many workers have found no more
} ThinTurn;

// Returns whether this machine computes thin products so: it has AVX-512.
bool thin_opens(void);
// Adds up the products of the lines of B that worker `member` of `members` takes. part: memory of
// thin_bytes bytes (ir/program/program.h) for all workers.
void thin_lines(const Product *g, float *part, ThinTurn *turn, int member, int members);
// Sets the columns of C that worker `member` of `members` adds up from the parts of all.
void thin_sum(const Product *g, const float *part, int member, int members);
// Computes the columns of C that worker `member` of `members` takes. The rows of A are lines of
// memory.
void thin_columns(const Product *g, ThinTurn *turn, int member, int members);

// What a worker reads of B before its first product: it can be brought into its cache while it
// waits for others.
typedef struct ThinAhead {
  const char *at, *end;
  uint32_t instr; // of the product
} ThinAhead;
// Returns the part of B that worker `member` of `members` reads first, or as much of it as a cache
// keeps.
ThinAhead thin_first(const Product *g, int member, int members);
// Prefetches the next bytes of a ThinAhead. Returns false if there are none left.
bool thin_prefetch(void *ahead);

#endif

// Products of matrices with few rows (thin_product.c): gemm_is_thin in ir/program/program.h. The
// workers of a processor share one:
//
//   rows of B are lines of memory       thin_lines, then, when all have returned, thin_sum
//   columns of B are lines of memory    thin_columns
#ifndef RUNTIME_THIN_PRODUCT_H
#define RUNTIME_THIN_PRODUCT_H

#include "runtime/runtime.h"

// Returns whether this machine computes thin products so: it has AVX-512.
bool thin_opens(void);
// Adds up the products of the lines of B that worker `member` of `members` reads. part: memory of
// thin_bytes bytes (ir/program/program.h) for all workers.
void thin_lines(const Product *g, float *part, int member, int members);
// Sets the columns of C that worker `member` of `members` adds up from the parts of all.
void thin_sum(const Product *g, const float *part, int member, int members);
// Computes the columns of C of worker `member` of `members`. The rows of A are lines of memory.
void thin_columns(const Product *g, int member, int members);

#endif

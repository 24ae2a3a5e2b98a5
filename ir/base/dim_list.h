// Lists of dims in an order of their own: the physical order of a value, the loops of a kernel.
#ifndef IR_DIM_LIST_H
#define IR_DIM_LIST_H

#include "ir/base/dim.h"

// A list is a Dims whose entries are in the order of a loop nest or of memory, slowest first,
// instead of canonical order.

int64_t list_elements(const DimTable *t, const Dims *list); // the product of the block lengths
bool list_has_all(const Dims *list, const Dims *part);      // as sets
bool list_same(const Dims *a, const Dims *b);               // as sets
Dims list_minus(const Dims *a, const Dims *b); // entries of a that b lacks, in a's order
Dims list_union(const Dims *a, const Dims *b); // a, then the entries of b that a lacks
void list_insert(Dims *list, int at, DimId d); // BUG when the list is full
// Replaces dims[0..ndims) by to[0..nto). Returns false if they are not adjacent in that
// sequence.
MUST_USE bool list_replace(Dims *list, uint8_t ndims, const DimId *dims, uint8_t nto,
                           const DimId *to);

#endif

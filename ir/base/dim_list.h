// Lists of dims in an order of their own: the physical order of a value, the loops of a kernel.
#ifndef IR_DIM_LIST_H
#define IR_DIM_LIST_H

#include "ir/base/dim.h"

int64_t list_elements(const DimTable *t, const DimList *list); // the product of the block lengths
bool list_has_all(const DimList *list, const DimList *part);   // compares them as sets
bool list_same(const DimList *a, const DimList *b);            // compares them as sets
DimList list_minus(const DimList *a, const DimList *b); // entries of a that b lacks, in a's order
DimList list_union(const DimList *a, const DimList *b); // a, then the entries of b that a lacks
bool dims_overlap(const Dims *a, const Dims *b);        // whether some dim is in both
void list_insert(DimList *list, int at, DimId d);       // BUG when the list is full
// Replaces dims[0..ndims) by to[0..nto). Returns false if they are not adjacent in that
// sequence.
MUST_USE bool list_replace(DimList *list, uint8_t ndims, const DimId *dims, uint8_t nto,
                           const DimId *to);

#endif

// Lists of dims that have an order of their own, such as the physical order of a value or the loops
// of a kernel.
#ifndef IR_DIM_LIST_H
#define IR_DIM_LIST_H

#include "ir/base/dim.h"

// Returns the product of the sizes of the dims.
int64_t list_elements(const DimTable *t, const DimList *list);
// Returns true if each entry of `part` is in `list`.
bool list_has_all(const DimList *list, const DimList *part);
// Returns true if both lists have the same entries, in any order.
bool list_same(const DimList *a, const DimList *b);
// Returns the entries of a that b lacks, in the order of a.
DimList list_minus(const DimList *a, const DimList *b);
// Returns the entries of a, then those entries of b that a lacks.
DimList list_union(const DimList *a, const DimList *b);
// Returns true if some dim is in both.
bool dims_overlap(const Dims *a, const Dims *b);
// Inserts d so that it becomes entry `at`. A full list is a BUG.
void list_insert(DimList *list, int at, DimId d);
// Replaces dims[0..ndims) by to[0..nto) where they are adjacent in the list, in this order. Returns
// false if they are not.
MUST_USE bool list_replace(DimList *list, uint8_t ndims, const DimId *dims, uint8_t nto,
                           const DimId *to);

#endif

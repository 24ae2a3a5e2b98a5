// Operations on lists of dims that have an order of their own: insertion, replacement, comparison
// as sets.
#include "ir/base/dim_list.h"

#include <string.h>

int64_t list_elements(const DimTable *t, const DimList *list) {
  int64_t n = 1;
  for (int i = 0; i < list->n; i++) n *= dim_get(t, list->at[i])->size;
  return n;
}

bool list_has_all(const DimList *list, const DimList *part) {
  for (int i = 0; i < part->n; i++)
    if (!dims_has(list, part->at[i])) return false;
  return true;
}

bool dims_overlap(const Dims *a, const Dims *b) {
  for (int i = 0; i < b->n; i++)
    if (dims_has(a, b->at[i])) return true;
  return false;
}

void list_insert(DimList *list, int at, DimId d) {
  if (list->n == MAX_RANK) BUG("more than %d dims", MAX_RANK);
  memmove(&list->at[at + 1], &list->at[at], (size_t)(list->n - at) * sizeof list->at[0]);
  list->at[at] = d;
  list->n++;
}

bool list_replace(DimList *list, uint8_t ndims, const DimId *dims, uint8_t nto, const DimId *to) {
  int at = dims_index(list, dims[0]);
  if (at < 0 || at + ndims > list->n) return false;
  if (memcmp(&list->at[at], dims, ndims * sizeof *dims) != 0) return false;
  for (int i = 0; i < ndims; i++) dims_remove(list, dims[i]);
  for (int i = 0; i < nto; i++) list_insert(list, at + i, to[i]);
  return true;
}

DimList list_minus(const DimList *a, const DimList *b) {
  DimList out = {0};
  for (int i = 0; i < a->n; i++)
    if (!dims_has(b, a->at[i])) out.at[out.n++] = a->at[i];
  return out;
}

DimList list_union(const DimList *a, const DimList *b) {
  DimList out = *a;
  for (int i = 0; i < b->n; i++)
    if (!dims_has(&out, b->at[i])) list_insert(&out, out.n, b->at[i]);
  return out;
}

bool list_same(const DimList *a, const DimList *b) { return a->n == b->n && list_has_all(a, b); }

// Checks that the tables of fields of records (ir/program/pack.h) name all members of their
// structs.
#ifndef TESTS_RECORD_GAPS_H
#define TESTS_RECORD_GAPS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "ir/base/mesh.h"
#include "ir/program/pack.h"

static void mark(bool *covered, size_t at, size_t n) {
  for (size_t i = 0; i < n; i++) covered[at + i] = true;
}

// Every byte of a struct belongs to a field, or fills up to the alignment of the next one: a gap of
// 8 bytes, or one that a member of 4 or 8 bytes fits into, is a member without a row.
static void look_for_gaps(const PackRecord *r) {
  bool *covered = calloc(r->bytes + 1, sizeof *covered);
  for (uint32_t i = 0; i < r->n; i++) {
    const PackField *f = &r->field[i];
    size_t n = f->place == PLACE_POINTER ? sizeof(void *) : f->bytes * (f->n ? f->n : 1);
    if (f->place == PLACE_ROWS)
      n = f->bytes *
          (strstr(f->name, "Axes") || strstr(f->name, "Mesh.") || strstr(f->name, "Machine.")
               ? MAX_AXES
               : MAX_RANK);
    assert_true(f->at + n <= r->bytes);
    mark(covered, f->at, n);
  }
  for (size_t at = 0; at < r->bytes;) {
    size_t gap = 0;
    while (at + gap < r->bytes && !covered[at + gap]) gap++;
    if (gap >= 8 || (gap >= 4 && at % 8 == 0))
      fail_msg("%s has a member at byte %zu without a row", r->name, at);
    at += gap + 1;
  }
  free(covered);
  for (uint32_t i = 0; i < r->n; i++) {
    const PackField *f = &r->field[i];
    if (f->kind == PACK_RECORD) look_for_gaps(f->record);
    for (int k = 0; f->kind == PACK_CHOICE && k <= f->high; k++)
      if (f->choice[k]) look_for_gaps(f->choice[k]);
  }
}

#endif

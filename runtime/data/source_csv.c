// Rows from CSV files: connects csv_rows.c with a source.
#include "runtime/data/csv_source_internal.h"

bool source_csv(RowSource *s, Diag *d) {
  s->csv = csv_rows_open(s->input, s->path, d);
  if (!s->csv) return false;
  s->rows = csv_rows_count(s->csv);
  s->rank = 1;
  s->size[0] = csv_rows_columns(s->csv);
  s->ndropped = csv_rows_dropped(s->csv, &s->dropped);
  return true;
}

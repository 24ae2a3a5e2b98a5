// Rows along the first axis of an .npy, .npz or .safetensors array. Plain arrays are read row by
// row from the file; compressed arrays and those in Fortran order are read into memory.
#include "runtime/data/source_internal.h"

#include <stdlib.h>
#include <string.h>

void source_place(RowSource *s, const ArrayPlace *p) {
  s->raw = p->raw;
  s->base = p->offset;
  s->rows = p->size[0];
  s->rank = p->rank - 1;
  s->stride = p->raw.bytes;
  for (int i = 1; i < p->rank; i++) s->stride *= s->size[i - 1] = p->size[i];
}

static bool set_rows(RowSource *s, const ArrayPlace *p, Diag *d) {
  if (p->rank >= 1) {
    source_place(s, p);
    return true;
  }
  diag_error(d, DIAG_DATA_SHAPE, s->input->pos, "%s holds a single number: it has no rows",
             s->path);
  return false;
}

static bool from_memory(RowSource *s, Diag *d) {
  Array x;
  if (!array_read(&x, s->path, s->input->source->key, d, s->input->pos)) return false;
  s->memory = x.data;
  ArrayPlace p = {.raw = raw_of(x.type), .rank = x.rank};
  memcpy(p.size, x.size, sizeof p.size);
  return set_rows(s, &p, d);
}

bool source_array(RowSource *s, Diag *d) {
  char why[WHY], *shard;
  ArrayPlace p = {0};
  const char *key = s->input->source->key;
  if (!array_file(s->path, key, &shard, d, s->input->pos)) return false;
  if (shard) {
    free(s->path);
    s->path = shard;
  }
  if (!datafile_open(&s->file, s->path, d, s->input->pos)) return false;
  ArrayFormat format = array_format(&s->file);
  bool ok = true;
  if (format == FORMAT_NPY)
    ok = npy_find(&s->file, &p, why);
  else if (format == FORMAT_SAFETENSORS && key)
    ok = safetensors_find(&s->file, key, &p, why);
  else
    p.fortran = true; // makes the code below read all of it: it is compressed or malformed
  if (!ok) {
    (void)file_malformed(s->path, why, d, s->input->pos);
    if (key) array_hint(s->path, key, d);
    return false;
  }
  return p.fortran ? from_memory(s, d) : set_rows(s, &p, d);
}

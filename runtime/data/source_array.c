// Rows along the first axis of an .npy, .npz or .safetensors array. Plain arrays are read row by
// row from the file; compressed arrays and those in Fortran order are read into memory.
#include "runtime/data/source_internal.h"

#include <stdlib.h>
#include <string.h>

static bool set_rows(RowSource *s, int rank, const int64_t *size, Diag *d) {
  if (rank < 1) {
    diag_error(d, DIAG_DATA_SHAPE, s->input->pos, "%s holds a single number: it has no rows",
               s->path);
    return false;
  }
  int64_t elements = 1;
  s->rows = size[0];
  s->rank = rank - 1;
  for (int i = 1; i < rank; i++) elements *= s->size[i - 1] = size[i];
  s->stride = elements * s->raw.bytes;
  return true;
}

static bool from_memory(RowSource *s, Diag *d) {
  Array x;
  if (!array_read(&x, s->path, s->input->source->key, d, s->input->pos)) return false;
  s->raw = raw_of(x.type);
  s->memory = x.data;
  return set_rows(s, x.rank, x.size, d);
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
    p.fortran = true; // read it as a whole: it is compressed, or array_read reports an error
  if (!ok) {
    diag_error(d, DIAG_FILE_MALFORMED, s->input->pos, "%s %s", s->path, why);
    if (key) array_hint(s->path, key, d);
    return false;
  }
  if (p.fortran) return from_memory(s, d);
  s->raw = p.raw;
  s->base = p.offset;
  return set_rows(s, p.rank, p.size, d);
}

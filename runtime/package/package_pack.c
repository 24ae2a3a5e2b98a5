// Packs the folder of a package into one block of bytes (package.h), and finds such a block at the
// end of an executable file.
#include "runtime/package/package_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A file that is written, and how many bytes it has.
typedef struct Packing {
  DiskFile *out;
  int64_t n;
} Packing;

static void put(Packing *p, const void *bytes, size_t n) {
  disk_put(p->out, bytes, n);
  p->n += (int64_t)n;
}

static void put_padding(Packing *p) {
  static const char zeros[PACK_ALIGN];
  put(p, zeros, (size_t)(ceil_div(p->n, PACK_ALIGN) * PACK_ALIGN - p->n));
}

static bool put_entry(Packing *p, const PackageSource *s, const PackageEntry *e, Diag *d) {
  enum { PIECE = 1 << 20 };
  SourceStream in;
  if (!source_start(&in, s, e->name, d)) return false;
  char *room = mem_alloc(PIECE);
  bool ok = true;
  for (int64_t at = 0; ok && at < e->bytes; at += PIECE) {
    int64_t n = e->bytes - at < PIECE ? e->bytes - at : PIECE;
    ok = source_next(&in, n, room, d);
    if (ok) put(p, room, (size_t)n);
  }
  free(room);
  ok = ok && source_finish(&in, d);
  source_stop(&in);
  if (ok) put_padding(p);
  return ok;
}

bool package_pack(Arena *a, const char *folder, DiskFile *out, int64_t *bytes, Diag *d) {
  PackageSource s = {.path = folder};
  Packing p = {.out = out};
  size_t n;
  const char *text;
  json_t *root = source_describe(a, &s, &text, &n, d);
  uint64_t length = n;
  bool ok = root != NULL;
  json_decref(root);
  if (!ok) return false;
  put(&p, &length, sizeof length);
  put(&p, text, n);
  put_padding(&p);
  for (uint32_t i = 0; ok && i < s.n; i++) ok = put_entry(&p, &s, &s.entry[i], d);
  *bytes = p.n;
  return ok;
}

// -- at the end of an executable file -----------------------------------------------------------

// The last bytes of the file: where the package is in it.
typedef struct Trailer {
  char magic[16];
  uint64_t at, bytes;
} Trailer;
static const char magic[16] = "meshc packed 1\n";

bool package_append(Arena *a, const char *folder, int64_t before, DiskFile *out, Diag *d) {
  Packing pad = {out, before};
  Trailer end = {0};
  int64_t bytes;
  put_padding(&pad);
  if (!package_pack(a, folder, out, &bytes, d)) return false;
  memcpy(end.magic, magic, sizeof magic);
  end.at = (uint64_t)pad.n;
  end.bytes = (uint64_t)bytes;
  disk_put(out, &end, sizeof end);
  return true;
}

// Returns whether the last bytes of a file of n bytes tell where a package is in it.
static bool trailer_fits(const Trailer *end, uint64_t n) {
  return n >= sizeof *end && memcmp(end->magic, magic, sizeof magic) == 0 &&
         end->at <= n - sizeof *end && end->bytes <= n - sizeof *end - end->at;
}

const char *package_at_end(const char *bytes, size_t n, size_t *length) {
  Trailer end;
  if (n < sizeof end) return NULL;
  memcpy(&end, bytes + n - sizeof end, sizeof end);
  if (!trailer_fits(&end, n)) return NULL;
  *length = (size_t)end.bytes;
  return bytes + end.at;
}

const char *package_in_file(Arena *a, const char *path, size_t *length) {
  FILE *f = fopen(path, "rb");
  Trailer end;
  char *bytes = NULL;
  bool ok = f && fseek(f, -(long)sizeof end, SEEK_END) == 0 && fread(&end, sizeof end, 1, f) == 1 &&
            trailer_fits(&end, (uint64_t)ftell(f));
  if (ok) bytes = arena_alloc(a, (size_t)end.bytes + 1);
  ok = ok && fseek(f, (long)end.at, SEEK_SET) == 0 &&
       fread(bytes, 1, (size_t)end.bytes, f) == end.bytes;
  if (f) fclose(f);
  *length = ok ? (size_t)end.bytes : 0;
  return ok ? bytes : NULL;
}

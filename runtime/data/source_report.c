// Reports on sources for the command data: their files, how fast bytes are read, what memory holds.
#include "runtime/data/csv_source_internal.h"
#include "runtime/data/file_list.h"

#include <stdlib.h>

enum { PIECE = 1 << 20 };

// Reads a file from its start for at most a second, and adds its size, what was read and the time.
static void read_file(const char *path, char *piece, SourceReport *out, int64_t *read) {
  Arena *a = arena_new();
  Datafile f;
  char why[WHY];
  if (datafile_open(&f, path, diag_new(a), (Pos){0})) {
    double began = clock_seconds();
    out->files++;
    out->bytes += f.size;
    for (int64_t at = 0; at < f.size && out->read_seconds + clock_seconds() - began < 1;) {
      int64_t n = f.size - at < PIECE ? f.size - at : PIECE;
      if (!datafile_read(&f, at, n, piece, why)) break;
      *read += n;
      at += n;
    }
    out->read_seconds += clock_seconds() - began;
    datafile_close(&f);
  }
  arena_free(a);
}

// Reads the files of images for at most a second. Bytes and time of the others are taken to be
// alike.
static void read_images(const RowSource *s, char *piece, SourceReport *out) {
  char *const *path;
  int64_t n = image_rows_files(s->images, &path), read = 0;
  for (int64_t i = 0; i < n && out->read_seconds < 1; i++) read_file(path[i], piece, out, &read);
  double part = out->files ? (double)n / (double)out->files : 0;
  out->bytes = (int64_t)((double)out->bytes * part);
  out->read_seconds *= part;
  image_rows_report(s->images, out);
}

void source_report(const RowSource *s, SourceReport *out) {
  *out = (SourceReport){.missed = s->csv ? csv_rows_missed(s->csv) : NULL};
  out->kept = s->csv      ? csv_rows_kept(s->csv)
              : s->memory ? s->rows * s->stride
                          : file_cache_bytes(s->cache);
  int64_t read = 0;
  char *piece = mem_alloc(PIECE);
  if (s->images) {
    read_images(s, piece, out);
    free(piece);
    return;
  }
  Arena *a = arena_new();
  FileList files = {0};
  bool any = s->path && s->input->source->kind != SOURCE_LABELS; // labels are names, not content
  any = any && file_list_find(&files, s->path, diag_new(a), (Pos){0});
  for (uint32_t i = 0; any && i < files.n; i++) read_file(files.path[i], piece, out, &read);
  file_list_free(&files);
  free(piece);
  arena_free(a);
  // of a file that was read in part, the time of all of it
  if (read > 0) out->read_seconds *= (double)out->bytes / (double)read;
}

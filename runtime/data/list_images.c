// Lists a folder of images for `meshc inspect`: how many there are in each of its folders, the
// classes of the source `labels`, and their bytes. No image is decoded.
#include "runtime/data/image_source_internal.h"

#include <string.h>
#include <sys/stat.h>

static int64_t bytes_of(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 ? (int64_t)s.st_size : 0;
}

// Returns whether two files are in folders of the same name.
static bool same_folder(const char *x, const char *y) {
  const char *a, *b;
  size_t n = image_folder(x, &a), m = image_folder(y, &b);
  return n == m && memcmp(a, b, n) == 0;
}

// The files of a folder follow one another, as their paths are in the order of their bytes.
static void count_files(Arena *a, const ImageFiles *f, ArrayList *out) {
  out->folder = arena_array(a, ImageFolder, f->n + 1);
  for (int64_t i = 0; i < f->n; i++) {
    if (i == 0 || !same_folder(f->path[i - 1], f->path[i])) {
      const char *name;
      size_t n = image_folder(f->path[i], &name);
      out->folder[out->nfolders++] = (ImageFolder){.name = arena_text(a, name, n)};
    }
    ImageFolder *last = &out->folder[out->nfolders - 1];
    int64_t bytes = bytes_of(f->path[i]);
    last->images++;
    last->bytes += bytes;
    out->bytes += bytes;
  }
}

bool list_images(Arena *a, const char *path, ArrayList *out, Diag *d, Pos at) {
  ImageFiles f;
  bool good = image_files_any(path, &f, d, at);
  if (good && f.n) {
    out->format = "images";
    out->rows = f.n;
    count_files(a, &f, out);
  }
  image_files_free(&f);
  return good;
}

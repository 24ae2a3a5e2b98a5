// Rows from images: files are listed when a source is opened, and read, decoded and resampled when
// a batch needs them, by any thread. Decoded images that are not much larger than the input are
// kept in memory as long as there is room, so that later epochs only resample them.
#include "runtime/data/image_source_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/philox.h"

enum {
  SIDE_MOST = 1 << 16,
  FILE_MOST = IMAGE_FILE_MOST,
  KEPT_RATIO = 4, // an image with more pixels than this many inputs is not kept
  FREE_PART = 4   // the part of the free memory that kept images may take
};

// A decoded image, with as many channels as the input.
typedef struct KeptImage {
  int32_t height, width;
  unsigned char pixels[];
} KeptImage;

struct ImageRows {
  ImageFiles files;
  int channels;
  int64_t rows, columns;
  bool channels_first; // the channels are the first axis of a row, not the last
  double scale;
  uint64_t key;
  _Atomic(KeptImage *) *kept; // by file; NULL: not kept
  atomic_llong room;          // bytes that may still be kept
  int64_t room_at_first;
  // What has been decoded, for reports; seconds in units of 1e-9.
  atomic_llong decoded, seconds, low[2], high[2]; // low, high: height and width
};

// -- opening ------------------------------------------------------------------------------------

static bool is_channels(int64_t n) { return n == 1 || n == 3; }

// Finds which axes of the input are channels, height and width. Returns false after an error.
static bool find_axes(RowSource *s, struct ImageRows *m, Diag *d) {
  const FeedInput *in = s->input;
  for (int i = 0; i < in->rank; i++)
    if (i != in->over) s->size[s->rank++] = in->size[i];
  m->channels_first = s->rank == 3 && is_channels(s->size[0]);
  int64_t channels = s->rank == 2 ? 1 : m->channels_first ? s->size[0] : s->size[2];
  m->channels = (int)channels;
  m->rows = s->size[m->channels_first];
  m->columns = s->size[m->channels_first + 1];
  bool fits = (s->rank == 2 || s->rank == 3) && is_channels(channels);
  if (fits && m->rows <= SIDE_MOST && m->columns <= SIDE_MOST) return true;
  char text[256];
  diag_error(d, DIAG_DATA_SHAPE, in->pos, "a row of input %s is %s, which is no shape of an image",
             in->name, sizes_text(s->rank, s->size, text, sizeof text));
  return diag_hint(d,
                   "an image has height and width, up to %d, and 1 or 3 channels before or "
                   "behind them: input x[b, channel, height, width]",
                   SIDE_MOST);
}

static bool open_libraries(const RowSource *s, const ImageFiles *f, Diag *d) {
  for (int k = 0; k < IMAGE_FORMATS; k++)
    for (int64_t i = 0; i < f->n; i++) {
      if (!image_named(f->path[i], (ImageFormat)k)) continue;
      if (!image_library((ImageFormat)k, d, s->input->pos)) return false;
      break;
    }
  return true;
}

// Records the names of the files and of their folders, which ranks compare.
static void record(const RowSource *s, const ImageFiles *f) {
  char *text;
  size_t n;
  FILE *out = mem_stream(&text, &n);
  for (int64_t i = 0; i < f->n; i++) {
    const char *name;
    (void)image_folder(f->path[i], &name);
    fprintf(out, "%s\n", name);
  }
  mem_stream_close(out);
  digest_text(s->path, text, n);
  free(text);
}

bool source_images(RowSource *s, Diag *d) {
  const DataSource *w = s->input->source;
  struct ImageRows *m = mem_zeroed(1, sizeof *m);
  s->images = m;
  Dtype type = s->input->type;
  m->scale = w->scale != 0 ? w->scale : dtype_is_float(type) ? 1.0 / 255 : 1;
  m->key = philox_mix(rng_key(s->seed, "images") + (uint64_t)w->image.draws);
  if (type == TYPE_BOOL)
    return diag_error(d, DIAG_DATA_TYPE, s->input->pos, "the pixels of images are no values of %s",
                      dtype_text(type));
  if (!find_axes(s, m, d) || !image_files(s->path, &m->files, d, s->input->pos) ||
      !open_libraries(s, &m->files, d))
    return false;
  if (m->files.others)
    diag_warning(d, DIAG_IMAGES_LEFT_OUT, s->input->pos,
                 "%lld image%s of %s %s left out, such as %s: only PNG and JPEG are read",
                 (long long)m->files.others, plural(m->files.others), s->path,
                 m->files.others == 1 ? "is" : "are", m->files.other);
  record(s, &m->files);
  int64_t ranks = s->input->parts > 1 ? s->input->parts : 1;
  m->room_at_first = s->input->keep ? s->input->keep : memory_free_bytes() / FREE_PART / ranks;
  atomic_store(&m->room, m->room_at_first);
  m->kept = mem_zeroed((size_t)m->files.n, sizeof *m->kept);
  s->rows = m->files.n;
  return true;
}

void image_rows_close(struct ImageRows *m) {
  if (!m) return;
  for (int64_t i = 0; m->kept && i < m->files.n; i++) free(atomic_load(&m->kept[i]));
  free(m->kept);
  image_files_free(&m->files);
  free(m);
}

// -- rows ---------------------------------------------------------------------------------------

// Reads a whole file to the buffers of w. Returns false with a reason in `why`.
static bool read_file(const char *path, ImageWork *w, size_t *n, char *why) {
  struct stat info;
  Datafile f = {open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), 0, path};
  if (f.fd < 0) return why_not(why, "cannot be opened: %s", strerror(errno));
  bool good = fstat(f.fd, &info) == 0 && S_ISREG(info.st_mode);
  if (!good) why_not(why, "is not a regular file");
  if (good && info.st_size > FILE_MOST) good = why_not(why, "has more than %d bytes", FILE_MOST);
  if (good) {
    *n = (size_t)info.st_size;
    good = datafile_read(&f, 0, info.st_size, room_for(&w->file, *n + 1), why);
  }
  datafile_close(&f);
  return good;
}

// Sets *out to an image that is kept. Returns false if it is not.
static bool find_kept(const struct ImageRows *m, int64_t row, Image *out) {
  KeptImage *k = atomic_load(&m->kept[row]);
  if (k) *out = (Image){k->height, k->width, m->channels, k->pixels};
  return k != NULL;
}

// Keeps a decoded image, if there is room for it. No other thread reads the same row now.
static void keep(struct ImageRows *m, int64_t row, const Image *x) {
  int64_t pixels = x->height * x->width, bytes = (int64_t)sizeof(KeptImage) + pixels * m->channels;
  if (pixels > KEPT_RATIO * m->rows * m->columns) return;
  if (atomic_fetch_sub(&m->room, bytes) < bytes) {
    atomic_fetch_add(&m->room, bytes);
    return;
  }
  KeptImage *k = malloc((size_t)bytes);
  if (!k) return; // not needed
  *k = (KeptImage){.height = (int32_t)x->height, .width = (int32_t)x->width};
  memcpy(k->pixels, x->at, (size_t)(pixels * m->channels));
  atomic_store(&m->kept[row], k);
}

static void note(struct ImageRows *m, const Image *x, double seconds) {
  const int64_t size[2] = {x->height, x->width};
  atomic_fetch_add(&m->decoded, 1);
  atomic_fetch_add(&m->seconds, (long long)(seconds * 1e9));
  for (int i = 0; i < 2; i++) {
    long long low = atomic_load(&m->low[i]), high = atomic_load(&m->high[i]);
    while ((low == 0 || size[i] < low) &&
           !atomic_compare_exchange_weak(&m->low[i], &low, size[i])) {
    }
    while (size[i] > high && !atomic_compare_exchange_weak(&m->high[i], &high, size[i])) {
    }
  }
}

// Writes pixel values to `out` in the type of the input and the order of its axes. Integers are
// rounded to the nearest.
static void store(const struct ImageRows *m, const float *x, Dtype type, char *out) {
  int64_t pixels = m->rows * m->columns, n = m->channels, bytes = dtype_bytes(type);
  bool rounds = !dtype_is_float(type);
  for (int64_t c = 0; c < n; c++) {
    const float *from = x + c;
    char *to = out + (m->channels_first ? c * pixels : c) * bytes;
    int64_t step = m->channels_first ? 1 : n;
    if (type == TYPE_F32) {
      float *y = (float *)(void *)to;
      for (int64_t i = 0; i < pixels; i++) y[i * step] = (float)((double)from[i * n] * m->scale);
      continue;
    }
    for (int64_t i = 0; i < pixels; i++) {
      double v = (double)from[i * n] * m->scale;
      if (rounds) v = floor(v + 0.5);
      if (type == TYPE_U8) v = v < 0 ? 0 : v > 255 ? 255 : v;
      dtype_store(type, to + i * step * bytes, dtype_round(type, v));
    }
  }
}

static bool refuse(const char *path, DiagId id, const char *why, const char *hint,
                   RowFault *fault) {
  enum { SHOWN = 400 };
  size_t n = strlen(path);
  bool whole = n <= SHOWN;
  fault->id = id;
  fault->hint = hint;
  snprintf(fault->text, sizeof fault->text, "%s%s %s", whole ? "" : "...",
           whole ? path : path + n - SHOWN, why);
  return false;
}

// Reads and decodes a file. Returns false with a reason in `fault`.
static bool decode_file(const struct ImageRows *m, const char *path, ImageWork *w, Image *out,
                        RowFault *fault) {
  char why[WHY];
  size_t n = 0;
  if (!read_file(path, w, &n, why)) return refuse(path, DIAG_FILE_MISSING, why, NULL, fault);
  return image_decode(w->file.at, n, m->channels, w, out, why) ||
         refuse(path, DIAG_FILE_MALFORMED, why,
                "replace the file, or remove it: every image of a source is read", fault);
}

bool image_row(const RowSource *s, int64_t row, int64_t epoch, ImageWork *w, void *out,
               RowFault *fault) {
  struct ImageRows *m = s->images;
  int64_t number = s->first + row;
  const char *path = m->files.path[number];
  char why[WHY];
  Image image;
  ImagePlan plan;
  ImageDraws draws = {s->input->augment, m->key, number, epoch};
  double began = clock_seconds();
  bool kept = find_kept(m, number, &image);
  if (!kept && !decode_file(m, path, w, &image, fault)) return false;
  if (!image_plan(&s->input->source->image, &draws, image.height, image.width, m->rows, m->columns,
                  &plan, why))
    return refuse(path, DIAG_DATA_SHAPE, why,
                  "resize = cover, the default, makes every image large enough", fault);
  float *x = image_resample(&image, &plan, m->rows, m->columns, w);
  image_colour(&plan, m->rows, m->columns, m->channels, x);
  store(m, x, s->input->type, out);
  if (kept) return true;
  note(m, &image, clock_seconds() - began);
  keep(m, number, &image);
  return true;
}

// -- names --------------------------------------------------------------------------------------

ClassNames source_row_names(Arena *a, const DataSource *s, const char *directory) {
  ClassNames out = {0};
  ImageFiles f;
  if (s->kind != SOURCE_IMAGES) return out;
  char *path = path_under(directory, s->path);
  size_t skip = strlen(path) - strlen(s->path); // the folder of the model is not shown
  if (image_files(path, &f, diag_new(a), s->pos)) {
    const char **name = arena_array(a, const char *, (size_t)f.n + 1);
    int64_t last = s->row_last > 0 && s->row_last < f.n ? s->row_last : f.n;
    for (int64_t i = s->row_first; i < last; i++)
      name[out.n++] = arena_text(a, f.path[i] + skip, strlen(f.path[i] + skip));
    out.name = name;
    image_files_free(&f);
  }
  free(path);
  return out;
}

// -- reports ------------------------------------------------------------------------------------

void image_rows_report(const struct ImageRows *m, SourceReport *out) {
  out->files = m->files.n;
  out->kept = m->room_at_first - atomic_load(&m->room);
  out->decoded = atomic_load(&m->decoded);
  out->decode_seconds = (double)atomic_load(&m->seconds) * 1e-9;
  for (int i = 0; i < 2; i++) {
    out->low[i] = atomic_load(&m->low[i]);
    out->high[i] = atomic_load(&m->high[i]);
  }
}

int64_t image_rows_files(const struct ImageRows *m, char *const **path) {
  *path = m->files.path;
  return m->files.n;
}

// Sources of rows, which are the files and synthetic data that a data block of a model names. Opens
// a source by its kind, limits it to the range of rows that the data block gives, checks that a row
// has as many elements as its input needs, and reads rows.
#include "runtime/data/csv_source_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool source_synthetic(RowSource *s, Diag *d) {
  (void)d;
  s->endless = true;
  s->rank = 0;
  for (int i = 0; i < s->input->rank; i++)
    if (i != s->input->over) s->size[s->rank++] = s->input->size[i];
  return true;
}

typedef bool Open(RowSource *s, Diag *d);
static Open *const openers[] = {
#define SOURCE(id, name, opener) source_##opener,
#include "ir/program/source.def"
};

static const char *label(const RowSource *s) { return s->path ? s->path : "synthetic(...)"; }

// Returns the name of the longest dim of a row, or NULL.
static const char *longest_dim(const FeedInput *in) {
  int longest = -1;
  for (int i = 0; i < in->rank; i++)
    if (i != in->over && (longest < 0 || in->size[i] > in->size[longest])) longest = i;
  return longest < 0 ? NULL : in->dim[longest];
}

// Says that the source has no rows. Returns false.
static bool refuse_empty(const RowSource *s, Diag *d) {
  const FeedInput *in = s->input;
  if (!s->sliding) return diag_error(d, DIAG_DATA_SHAPE, in->pos, "%s has no rows", label(s));
  const char *unit = in->source->kind == SOURCE_TEXT && !in->source->vocabulary ? "byte" : "token";
  diag_error(d, DIAG_DATA_SHAPE, in->pos, "%s has no row of %lld %s%s for the input %s", s->path,
             (long long)s->row_elements, unit, plural(s->row_elements), in->name);
  const char *dim = longest_dim(in);
  if (dim) diag_hint(d, "a row of fewer %ss fits a small file: --set %s=SIZE", unit, dim);
  return false;
}

// Sets s->first and s->rows to the rows that the model asks for.
static bool take_range(RowSource *s, Diag *d) {
  const DataSource *w = s->input->source;
  bool to_end = w->row_last <= 0;
  if (s->endless) {
    if (to_end && w->row_first == 0) return true;
    s->endless = to_end;
    s->rows = w->row_last;
  }
  if (s->rows == 0 && !s->endless) return refuse_empty(s, d);
  int64_t last = to_end ? s->rows : w->row_last;
  if (w->row_first < 0 || (!s->endless && (last > s->rows || w->row_first >= last))) {
    diag_error(d, DIAG_DATA_SHAPE, s->input->pos,
               "rows %lld..%lld of %s are asked for, which has %lld", (long long)w->row_first,
               (long long)last, label(s), (long long)s->rows);
    return false;
  }
  int64_t elements;
  if (!size_mul(last, s->row_elements, &elements)) {
    diag_error(d, DIAG_DATA_SHAPE, s->input->pos,
               "%lld rows of %lld elements are more than can be counted", (long long)last,
               (long long)s->row_elements);
    return false;
  }
  s->first = w->row_first;
  s->rows = last - w->row_first;
  return true;
}

static bool check_row(const RowSource *s, Diag *d) {
  int64_t want[MAX_RANK];
  int n = 0;
  char a[256], b[256];
  for (int i = 0; i < s->input->rank; i++)
    if (i != s->input->over) want[n++] = s->input->size[i];
  if (sizes_fit(s->rank, s->size, n, want)) return true;
  diag_error(d, DIAG_DATA_SHAPE, s->input->pos, "a row of %s is %s, and a row of input %s is %s",
             label(s), sizes_text(s->rank, s->size, a, sizeof a), s->input->name,
             sizes_text(n, want, b, sizeof b));
  const DataSource *w = s->input->source;
  bool range = s->csv && !w->columns && w->last - w->first > 1 && n == 1;
  if (range)
    diag_hint(d, "the end of a range is not included: columns = %lld..%lld are %lld columns",
              (long long)w->first, (long long)w->first + want[0], (long long)want[0]);
  else
    diag_hint(d, "axes may be split or merged with their neighbours, not reordered");
  return false;
}

// Returns the most bytes of a file that this process keeps: its share of an eighth of what is free.
static int64_t most_cached(const FeedInput *input) {
  return memory_free_bytes() / 8 / (input->parts > 1 ? input->parts : 1);
}

bool source_open(RowSource *s, const FeedInput *input, const char *directory, uint64_t seed,
                 Diag *d) {
  const DataSource *w = input->source;
  *s = (RowSource){
      .input = input, .directory = directory, .file = {.fd = -1}, .scale = 1, .row_elements = 1};
  s->seed = seed;
  s->key = rng_key(seed, input->name);
  if (w->kind != SOURCE_SYNTHETIC) {
    s->path = path_under(directory, w->path);
  }
  for (int i = 0; i < input->rank; i++)
    if (i != input->over) s->row_elements *= input->size[i];
  if (!openers[w->kind](s, d) || !take_range(s, d) || !check_row(s, d)) return false;
  if (s->file.fd >= 0 && !s->memory)
    s->cache = file_cache_new(&s->file, input->keep ? input->keep : most_cached(input));
  return true;
}

bool source_row_place(const RowSource *s, int64_t row, char *out, size_t room) {
  int64_t number = s->first + row, line;
  const char *path = s->path;
  if (!path) return false;
  if (s->csv) {
    line = csv_rows_line(s->csv, number, &path);
    if (line) return snprintf(out, room, "%s:%lld", path, (long long)line) > 0;
  }
  SourceKind kind = s->input->source->kind;
  if (kind == SOURCE_IMAGES || kind == SOURCE_LABELS)
    return image_file_name(path, number, out, room);
  return snprintf(out, room, "row %lld of %s", (long long)number, path) > 0;
}

bool source_has_facts(const DataSource *s) {
  return s->missing == MISSING_MEAN || s->classes == CLASSES_AUTO;
}

bool source_learn(Arena *a, const FeedInput *input, const char *directory, SourceFacts *out,
                  Diag *d) {
  bool labels = input->source->kind == SOURCE_LABELS;
  return (labels ? labels_learn : csv_learn)(a, input, directory, out, d);
}

void source_close(RowSource *s) {
  file_cache_free(s->cache);
  if (s->file.fd >= 0) datafile_close(&s->file);
  csv_rows_close(s->csv);
  image_rows_close(s->images);
  token_shards_close(s->shards);
  if (!s->encoded) free(s->memory);
  encoded_text_close(s->encoded);
  free(s->path);
  *s = (RowSource){.file = {.fd = -1}};
}

int64_t source_scratch(const RowSource *s) {
  return s->images
             ? 1
             : s->row_elements * (s->input->source->kind == SOURCE_SYNTHETIC ? 8 : s->raw.bytes);
}

// Most values that one call of draw_values draws.
enum { PIECE = 256 };
// Draws n <= PIECE values of a synthetic source into x. Elements of the source are numbered row
// after row; x[0] is element number `first`. A value depends on its number and the key of the
// source only, so it is equal for every batch size and mesh.
static void draw_values(const RowSource *s, int64_t first, int64_t n, double *x) {
  const DataSource *w = s->input->source;
  Init init = {.kind = w->synthetic == SYNTHETIC_NORMAL ? INIT_NORMAL : INIT_UNIFORM, .b = 1};
  int64_t index[PIECE] = {0};
  for (int64_t i = 0; i < n; i++) index[i] = first + i;
  rng_draw(&init, s->key, n, index, x);
  if (w->synthetic != SYNTHETIC_INTEGERS) return;
  for (int64_t i = 0; i < n; i++) x[i] = w->low + floor(x[i] * (w->high - w->low));
}

static bool draw_row(const RowSource *s, int64_t row, void *scratch, void *out, char *why) {
  double *x = scratch;
  int64_t n = s->row_elements, first = (s->first + row) * n, bad;
  for (int64_t i = 0; i < n; i += PIECE)
    draw_values(s, first + i, n - i < PIECE ? n - i : PIECE, x + i);
  if (raw_from_doubles(x, n, s->input->type, out, &bad)) return true;
  return why_not(why, "synthetic value %g of input %s is not a value of %s", x[bad], s->input->name,
                 dtype_text(s->input->type));
}

// Returns the bytes of a row in the file, which are read to `scratch` if memory has them not.
// Returns NULL with a reason in `why`.
static const char *row_bytes(const RowSource *s, int64_t row, void *scratch, char *why) {
  int64_t at = s->base + (s->first + row) * s->stride, n = s->row_elements * s->raw.bytes;
  char reason[WHY];
  if (s->memory) return s->memory + at;
  if (s->shards) return token_shards_read(s->shards, s->first + row, scratch, why) ? scratch : NULL;
  const char *bytes = s->cache ? file_cache_at(s->cache, &s->file, at, n, reason)
                      : datafile_read(&s->file, at, n, scratch, reason) ? scratch
                                                                        : NULL;
  if (!bytes) why_not(why, "%.120s %s", s->path, reason);
  return bytes;
}

static bool read_row(const RowSource *s, int64_t row, void *scratch, void *out, char *why) {
  int64_t bad;
  const char *bytes = row_bytes(s, row, scratch, why);
  if (!bytes) return false;
  if (raw_convert(s->raw, bytes, s->row_elements, s->scale, s->input->type, out, &bad)) return true;
  double value = raw_value(s->raw, bytes + bad * s->raw.bytes) * s->scale;
  int64_t at = s->first + row;
  const char *path = s->shards ? token_shards_path(s->shards, &at) : s->path;
  return why_not(why, "%.90s: row %lld, column %lld: %.17g is not a value of %s", path,
                 (long long)at, (long long)bad, value, dtype_text(s->input->type));
}

bool source_rows(const RowSource *s, int64_t n, const int64_t *row, void *scratch, char *out,
                 char *why) {
  int64_t bytes = s->row_elements * dtype_bytes(s->input->type);
  bool drawn = s->input->source->kind == SOURCE_SYNTHETIC, good = true;
  if (s->csv) return csv_rows_get(s->csv, s->first, n, row, out, why);
  for (int64_t i = 0; i < n && good; i++)
    good = (drawn ? draw_row : read_row)(s, row[i], scratch, out + i * bytes, why);
  return good;
}

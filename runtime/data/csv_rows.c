// The rows of CSV files. Opening a source passes over its files once: it finds where rows are, and
// decodes those of this rank's share. Numbers of rows are kept in a table as long as they fit in
// memory. A row that is not in the table is decoded when it is asked for:
//
//   table   row 0 | row 1 | ...         numbers in the type of the input; `have` has a bit for each
//   block   offset of row 0, 16, 32 ... so that at most 16 rows are read to find one
#include "runtime/data/csv_source_internal.h"
#include "runtime/data/file_list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct CsvRows {
  CsvDecoder decoder;
  uint32_t nfiles;
  CsvFile *file;
  int64_t rows;        // of all files so far
  int64_t first, last; // the range of rows of the source; last: INT64_MAX without an end
  // Table of the rows of the range. NULL: it would be larger than `keep`.
  char *table;
  uint64_t *have; // with ranks, by row of the table: a bit that the table has it
  int64_t row_bytes, room, keep;
  bool tables;
  int64_t *dropped, ndropped, dropped_room;
  uint32_t
      open_file; // the block of rows that the text of a file holds, from which rows are decoded
  int64_t open_block; // -1: none
};

// -- messages -----------------------------------------------------------------------------------

static bool say_row(const CsvRows *c, const CsvFile *f, int64_t offset, const CsvRow *row,
                    Diag *d) {
  diag_error(d, c->decoder.fault, c->decoder.input->pos, "%s:%lld: %s", f->path,
             (long long)csv_line(f->path, offset), row->why);
  if (c->decoder.hint)
    diag_hint(d, "%s", c->decoder.hint);
  else if (c->decoder.fault == DIAG_FILE_MALFORMED)
    diag_hint(d, "a row has the columns of the first line; a field with separators, line ends or "
                 "quotes is in quotes, with \"\" for a quote");
  return false;
}

// -- the table ----------------------------------------------------------------------------------

// Returns whether the table gets all rows, and not those of a share.
static bool takes_all(const CsvRows *c) { return c->decoder.input->parts < 2; }

static void stop_keeping(CsvRows *c) {
  free(c->table);
  free(c->have);
  c->table = NULL;
  c->have = NULL;
  c->tables = false;
}

static void grow_table(CsvRows *c, int64_t rows) {
  int64_t room = c->room ? c->room : 1024, bytes;
  while (room < rows) room *= 2;
  if (!size_mul(room, c->row_bytes, &bytes) || rows * c->row_bytes > c->keep) {
    stop_keeping(c);
    return;
  }
  c->table = mem_grow(c->table, (size_t)bytes + 1);
  if (!takes_all(c)) {
    c->have = mem_grow(c->have, (size_t)room / 8);
    memset((char *)c->have + c->room / 8, 0, (size_t)(room - c->room) / 8);
  }
  c->room = room;
}

// Converts the row that was decoded last to the type of the input. Returns false with a reason in
// row->why.
static bool convert(CsvRows *c, void *out, CsvRow *row) {
  CsvDecoder *x = &c->decoder;
  int64_t bad;
  if (raw_from_doubles(x->value, x->columns, x->input->type, out, &bad)) return true;
  x->fault = DIAG_DATA_TYPE;
  x->hint = NULL;
  int64_t column = 0;
  while (c->file[c->open_file].slot[column] != bad) column++;
  return why_not(row->why, "column %lld: %.17g is not a value of %s", (long long)column,
                 x->value[bad], dtype_text(x->input->type));
}

static void drop_row(CsvRows *c, int64_t at) {
  if (c->ndropped == c->dropped_room) {
    c->dropped_room = c->dropped_room ? 2 * c->dropped_room : 64;
    c->dropped = mem_grow(c->dropped, (size_t)c->dropped_room * sizeof *c->dropped);
  }
  c->dropped[c->ndropped++] = at;
}

// Keeps the row that was decoded last, row `at` of the range, and counts what it lacks.
static bool keep_row(CsvRows *c, int64_t at, CsvRow *row) {
  CsvDecoder *x = &c->decoder;
  for (int64_t i = 0; i < x->nmissing; i++) x->missed[x->missing[i]]++;
  if (x->dropped) {
    drop_row(c, at);
    return true;
  }
  if (c->tables && at >= c->room) grow_table(c, at + 1);
  if (!c->tables) return true;
  if (c->have) c->have[at / 64] |= (uint64_t)1 << at % 64;
  return convert(c, c->table + at * c->row_bytes, row);
}

// -- the pass over a file -----------------------------------------------------------------------

static void note_row(CsvRows *c, CsvFile *f, int64_t offset, int64_t next) {
  if (f->rows % CSV_BLOCK == 0) {
    int64_t n = f->rows / CSV_BLOCK;
    if ((n & (n - 1)) == 0)
      f->block = mem_grow(f->block, (size_t)(n ? 2 * n : 1) * sizeof *f->block);
    f->block[n] = offset;
  }
  f->rows++;
  f->end = next;
  c->rows++;
}

// The bytes of the file whose rows this rank decodes now. All bytes if the file cannot be read from
// the middle, or if rows may be left out and the ranks cannot tell each other which.
static void share_of(const CsvRows *c, const CsvFile *f, int64_t *from, int64_t *to) {
  const FeedInput *in = c->decoder.input;
  bool drops = in->source->missing == MISSING_DROP;
  bool all = in->parts < 2 || (drops && !in->ranks) || f->text.gzip;
  *from = all ? 0 : f->text.file.size / in->parts * in->part;
  *to =
      all || in->part + 1 == in->parts ? INT64_MAX : f->text.file.size / in->parts * (in->part + 1);
}

static bool read_rows(CsvRows *c, CsvFile *f, Diag *d) {
  CsvWalk w = {.text = &f->text, .format = f->format};
  int64_t from, to;
  w.p =
      f->text.at + (f->begin < f->text.offset + f->text.n ? f->begin - f->text.offset : f->text.n);
  share_of(c, f, &from, &to);
  while (c->rows < c->last && csv_walk_row(&w)) {
    CsvRow row = {0};
    int64_t offset = csv_walk_offset(&w);
    bool mine = offset >= from && offset < to && c->rows >= c->first;
    if (mine)
      csv_decode(&c->decoder, f, w.p, w.end, &row);
    else
      csv_skip_row(w.p, w.end, &f->format, f->text.quotes, &row);
    if (csv_walk_incomplete(&w, &row)) continue;
    if (!row.next || (mine && !keep_row(c, c->rows - c->first, &row)))
      return say_row(c, f, offset, &row, d);
    note_row(c, f, offset, offset + ((row.next < w.end ? row.next : w.end) - w.p));
    w.p = row.next;
  }
  return !*w.why || file_malformed(f->path, w.why, d, c->decoder.input->pos);
}

static bool open_file(CsvRows *c, CsvFile *f, Diag *d) {
  f->first = c->rows;
  if (!csv_text_open(&f->text, f->path, d, c->decoder.input->pos) ||
      !csv_columns(&c->decoder, f, d))
    return false;
  c->row_bytes = c->decoder.columns * dtype_bytes(c->decoder.input->type);
  if (!read_rows(c, f, d)) return false;
  if (f->text.gzip && !c->tables) {
    diag_error(d, DIAG_NO_MEMORY, c->decoder.input->pos,
               "the numbers of %s need more memory than the %lld MiB that are free for them",
               f->path, (long long)(c->keep >> 20));
    diag_hint(d, "unpack it: other files are read a piece at a time");
    return false;
  }
  // Only the place of the rows is needed from now on, and not the text.
  free(f->text.at);
  f->text.at = NULL;
  f->text.n = f->text.room = 0;
  if (c->tables && takes_all(c)) csv_text_close(&f->text);
  return true;
}

// -- files --------------------------------------------------------------------------------------

// Until a file is opened, its first row lies behind all rows.
static void add_file(CsvRows *c, const char *path) {
  c->file[c->nfiles++] =
      (CsvFile){.path = mem_text(path), .first = INT64_MAX, .text = {.file = {.fd = -1}}};
}

// Lists the files: the one of that name or those that match its stars.
static bool list_files(CsvRows *c, const char *path, Diag *d) {
  FileList files;
  bool good = file_list_find(&files, path, d, c->decoder.input->pos);
  c->file = mem_zeroed(files.n + 1u, sizeof *c->file);
  for (uint32_t i = 0; i < files.n; i++) add_file(c, files.path[i]);
  file_list_free(&files);
  return good;
}

// Returns how many processes on this machine may keep the rows of an input in memory.
static int processes_of(const FeedInput *input) { return input->parts > 1 ? input->parts : 1; }

static CsvRows *new_rows(const FeedInput *input) {
  CsvRows *c = mem_zeroed(1, sizeof *c);
  c->decoder.input = input;
  c->first = input->source->row_first;
  c->last = input->source->row_last > 0 ? input->source->row_last : INT64_MAX;
  c->keep = input->keep ? input->keep : memory_free_bytes() / 2 / processes_of(input);
  c->tables = true;
  c->open_block = -1;
  return c;
}

// Learns from the other ranks which rows their shares leave out. They are told as differences: 7
// bits in a byte, the lowest first; all bytes of a difference but the last have the highest bit.
static bool share_dropped(CsvRows *c) {
  Ranks *ranks = c->decoder.input->ranks;
  int64_t *start = mem_alloc(((size_t)ranks_count(ranks) + 1) * sizeof *start), n = 0, last = 0;
  unsigned char *mine = mem_alloc((size_t)c->ndropped * 10 + 1);
  for (int64_t i = 0; i < c->ndropped; last = c->dropped[i++]) {
    uint64_t step = (uint64_t)(c->dropped[i] - last);
    for (; step > 127; step >>= 7) mine[n++] = (unsigned char)(step | 128);
    mine[n++] = (unsigned char)step;
  }
  const unsigned char *all = (unsigned char *)ranks_gather(ranks, mine, n, start);
  free(mine);
  c->ndropped = 0;
  for (int r = 0; all && r < ranks_count(ranks); r++) {
    int64_t row = 0;
    for (int64_t i = start[r]; i < start[r + 1]; drop_row(c, row)) {
      uint64_t step = all[i] & 127;
      for (int shift = 7; all[i++] & 128; shift += 7) step |= (uint64_t)(all[i] & 127) << shift;
      row += (int64_t)step;
    }
  }
  free((void *)(uintptr_t)all);
  free(start);
  return all != NULL;
}

CsvRows *csv_rows_open(const FeedInput *input, const char *path, Diag *d) {
  CsvRows *c = new_rows(input);
  bool good = list_files(c, path, d);
  for (uint32_t i = 0; i < c->nfiles && good && c->rows < c->last; i++) {
    c->open_file = i;
    good = open_file(c, &c->file[i], d);
  }
  if (good && c->rows == 0) good = file_malformed(c->file[0].path, "has no rows", d, input->pos);
  if (good && input->ranks && input->source->missing == MISSING_DROP) good = share_dropped(c);
  if (good) return c;
  csv_rows_close(c);
  return NULL;
}

void csv_rows_close(CsvRows *c) {
  if (!c) return;
  for (uint32_t i = 0; i < c->nfiles; i++) {
    CsvFile *f = &c->file[i];
    csv_text_close(&f->text);
    free(f->path);
    free(f->slot);
    for (int64_t k = 0; f->name && k < f->width; k++) free(f->name[k]);
    free(f->name);
    free(f->block);
  }
  free(c->file);
  free(c->dropped);
  stop_keeping(c);
  csv_decoder_free(&c->decoder);
  free(c);
}

int64_t csv_rows_kept(const CsvRows *c) { return c->table ? c->room * c->row_bytes : 0; }
int64_t csv_rows_count(const CsvRows *c) { return c->rows; }
int64_t csv_rows_columns(const CsvRows *c) { return c->decoder.columns; }
bool csv_rows_headed(const CsvRows *c) { return c->file[0].headed; }
const int64_t *csv_rows_missed(const CsvRows *c) { return c->decoder.missed; }
int64_t csv_rows_dropped(const CsvRows *c, const int64_t **row) {
  *row = c->dropped;
  return c->ndropped;
}

// -- single rows --------------------------------------------------------------------------------

// Returns the file that has a row. A file without rows begins where the next one does.
static uint32_t file_of(const CsvRows *c, int64_t row) {
  uint32_t low = 0, high = c->nfiles - 1;
  while (low < high) {
    uint32_t middle = (low + high + 1) / 2;
    if (c->file[middle].first <= row)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

// Reads the block of rows that has row `row` of file f. Returns false with a reason in `why`.
static bool open_block(CsvRows *c, uint32_t number, int64_t block, char *why) {
  CsvFile *f = &c->file[number];
  if (c->open_file == number && c->open_block == block) return true;
  c->open_block = -1;
  c->open_file = number;
  int64_t last = (block + 1) * CSV_BLOCK < f->rows ? f->block[block + 1] : f->end;
  if (!csv_text_at(&f->text, f->block[block], last - f->block[block], why)) return false;
  c->open_block = block;
  return true;
}

static bool decode_row(CsvRows *c, CsvFile *f, int64_t row, void *out, int64_t *offset,
                       CsvRow *result) {
  if (!open_block(c, (uint32_t)(f - c->file), row / CSV_BLOCK, result->why)) return false;
  const char *p = f->text.at, *end = p + f->text.n;
  for (int64_t i = row % CSV_BLOCK;; i--) {
    p = csv_skip_blank(p, end, f->format.separator);
    *offset = f->text.offset + (p - f->text.at);
    if (p == end) return why_not(result->why, "the file has changed");
    if (i == 0) break;
    csv_skip_row(p, end, &f->format, true, result);
    if (!result->next) return false;
    p = result->next;
  }
  csv_decode(&c->decoder, f, p, end, result);
  return result->next && convert(c, out, result);
}

// Decodes a row that the table has not, and adds it if it is of a share.
static bool get_row(CsvRows *c, int64_t row, void *out, char *why) {
  int64_t at = row - c->first, offset = -1;
  CsvFile *f = &c->file[file_of(c, row)];
  CsvRow result = {0};
  if (!decode_row(c, f, row - f->first, out, &offset, &result))
    return why_not(why, "%.80s:%lld: %.90s", f->path, (long long)csv_line(f->path, offset),
                   result.why);
  if (c->tables && at >= c->room) grow_table(c, at + 1);
  if (!c->tables) return true;
  c->have[at / 64] |= (uint64_t)1 << at % 64;
  memcpy(c->table + at * c->row_bytes, out, (size_t)c->row_bytes);
  return true;
}

// Copies n rows of `bytes` bytes from a table to `out`; row 0 has number `first`. Rows of a few
// numbers are copied without a call.
static void copy_rows(const char *table, int64_t bytes, int64_t first, int64_t n,
                      const int64_t *row, char *out) {
  switch (bytes) {
#define COPY(n_)                                                                                   \
  case n_:                                                                                         \
    for (int64_t i = 0; i < n; i++) memcpy(out + i * (n_), table + (row[i] + first) * (n_), n_);   \
    break;
    COPY(1)
    COPY(4)
    COPY(8)
    COPY(16)
    COPY(32)
#undef COPY
  default:
    for (int64_t i = 0; i < n; i++)
      memcpy(out + i * bytes, table + (row[i] + first) * bytes, (size_t)bytes);
  }
}

bool csv_rows_get(CsvRows *c, int64_t first, int64_t n, const int64_t *row, char *out, char *why) {
  if (c->tables && takes_all(c)) {
    copy_rows(c->table, c->row_bytes, first - c->first, n, row, out);
    return true;
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t at = first + row[i] - c->first;
    char *to = out + i * c->row_bytes;
    if (c->tables && at < c->room && (c->have[at / 64] >> at % 64 & 1))
      memcpy(to, c->table + at * c->row_bytes, (size_t)c->row_bytes);
    else if (!get_row(c, first + row[i], to, why))
      return false;
  }
  return true;
}

// Other threads may read rows meanwhile: the file is opened once more.
int64_t csv_rows_line(const CsvRows *c, int64_t row, const char **path) {
  const CsvFile *f = &c->file[file_of(c, row)];
  Arena *a = arena_new();
  CsvText t;
  CsvWalk w = {.text = &t, .format = f->format};
  int64_t left = row - f->first, offset = -1;
  *path = f->path;
  if (csv_text_open(&t, f->path, diag_new(a), (Pos){0})) {
    w.p = t.at + (f->begin < t.offset + t.n ? f->begin - t.offset : t.n);
    while (left >= 0 && csv_walk_row(&w)) {
      CsvRow out = {0};
      offset = csv_walk_offset(&w);
      csv_skip_row(w.p, w.end, &f->format, t.quotes, &out);
      if (csv_walk_incomplete(&w, &out)) continue;
      if (!out.next) break;
      w.p = out.next;
      left--;
    }
  }
  csv_text_close(&t);
  arena_free(a);
  return left < 0 ? csv_line(f->path, offset) : 0;
}

// -- facts --------------------------------------------------------------------------------------

// Adds the row that was decoded last to the sums of columns.
typedef struct Sums {
  double *sum;
  int64_t *count;
} Sums;

static void add_row(const CsvDecoder *x, const Sums *s) {
  for (int64_t i = 0; i < x->columns && s->sum; i++) {
    if (isnan(x->value[i])) continue;
    s->sum[i] += x->value[i];
    s->count[i]++;
  }
}

static bool learn_rows(CsvRows *c, CsvFile *f, const Sums *s, Diag *d) {
  CsvWalk w = {.text = &f->text, .format = f->format};
  w.p =
      f->text.at + (f->begin < f->text.offset + f->text.n ? f->begin - f->text.offset : f->text.n);
  while (c->rows < c->last && csv_walk_row(&w)) {
    CsvRow row = {0};
    int64_t offset = csv_walk_offset(&w);
    // The end of the row is found first: a text that goes on must not become a class.
    csv_skip_row(w.p, w.end, &f->format, f->text.quotes, &row);
    if (csv_walk_incomplete(&w, &row)) continue;
    const char *next = row.next;
    if (next && c->rows >= c->first) {
      csv_decode(&c->decoder, f, w.p, w.end, &row);
      if (row.next != next) next = row.next = NULL;
      if (next) add_row(&c->decoder, s);
    }
    if (!next) return say_row(c, f, offset, &row, d);
    c->rows++;
    w.p = next;
  }
  return !*w.why || file_malformed(f->path, w.why, d, c->decoder.input->pos);
}

static bool learn_file(CsvRows *c, CsvFile *f, Sums *s, Diag *d) {
  if (!csv_text_open(&f->text, f->path, d, c->decoder.input->pos) ||
      !csv_columns(&c->decoder, f, d))
    return false;
  if (!s->sum && c->decoder.input->source->missing == MISSING_MEAN) {
    s->sum = mem_zeroed((size_t)c->decoder.columns, sizeof *s->sum);
    s->count = mem_zeroed((size_t)c->decoder.columns, sizeof *s->count);
  }
  bool good = learn_rows(c, f, s, d);
  csv_text_close(&f->text);
  return good;
}

// Writes what was learned to *out. A column without any value has no mean.
static bool take_facts(Arena *a, CsvRows *c, const Sums *s, SourceFacts *out, Diag *d) {
  CsvDecoder *x = &c->decoder;
  double *mean = arena_array(a, double, (size_t)x->columns + 1);
  *out = (SourceFacts){.input = x->input->name, .mean = mean};
  for (int64_t i = 0; s->sum && i < x->columns; i++) {
    if (!s->count[i] || !isfinite(s->sum[i])) {
      const CsvFile *f = &c->file[0];
      int64_t column = 0;
      while (f->slot[column] != i) column++;
      diag_error(d, DIAG_DATA_VALUE, x->input->pos,
                 "%s: column %lld%s%.80s%s has %s, so it has no mean", f->path, (long long)column,
                 f->name[column] ? " \"" : "", f->name[column] ? f->name[column] : "",
                 f->name[column] ? "\"" : "",
                 s->count[i] ? "values that are too large" : "no value");
      return diag_hint(d, "leave the column out, or say missing = zero or a number");
    }
    mean[out->nmeans++] = s->sum[i] / (double)s->count[i];
  }
  if (x->input->source->classes != CLASSES_AUTO) return true;
  classes_sort(&x->classes);
  const char **name = arena_array(a, const char *, x->classes.n + 1);
  for (; out->nclasses < x->classes.n; out->nclasses++)
    name[out->nclasses] =
        arena_text(a, x->classes.name[out->nclasses], strlen(x->classes.name[out->nclasses]));
  out->class_name = name;
  return true;
}

bool csv_learn(Arena *a, const FeedInput *input, const char *directory, SourceFacts *out, Diag *d) {
  CsvRows *c = new_rows(input);
  c->decoder.learning = true;
  char *path = path_under(directory, input->source->path);
  Sums s = {0};
  bool good = list_files(c, path, d);
  for (uint32_t i = 0; i < c->nfiles && good && c->rows < c->last; i++)
    good = learn_file(c, &c->file[i], &s, d);
  if (good && c->rows == 0) good = file_malformed(c->file[0].path, "has no rows", d, input->pos);
  good = good && take_facts(a, c, &s, out, d);
  free(path);
  free(s.sum);
  free(s.count);
  csv_rows_close(c);
  return good;
}

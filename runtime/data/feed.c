// Feed: gives the batches of a data block of the model. A thread reads them ahead from the sources
// of rows (source_internal.h) into a ring of batches (batch_ring.h).
//
// The order of the rows in an epoch is a keyed permutation that is computed row by row. So the
// position of a feed is two integers, epoch and row, and every mesh gets equal batches.
#include "ir/base/guard.h"
#include "runtime/data/batch_ring.h"
#include "runtime/data/csv_source_internal.h"
#include "runtime/data/image_source_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SYNTHETIC_BATCHES = 64, FAULT = FAULT_TEXT + 256, MOST_THREADS = 64 };
enum { WINDOW = 1024 }; // rows whose numbers are found at once

struct Feed {
  uint32_t n;
  FeedInput *input;
  RowSource *source;
  double *open_seconds; // by input
  Arena *facts;         // what the feed has learned about its sources (FeedInput.facts)
  int64_t batch, rows;
  int64_t *dropped, ndropped; // rows that a source leaves out, ascending; not counted in `rows`
  bool shuffle, keep_last;
  uint64_t seed;
  char *scratch, *row; // work memory of the reading thread
  RowPool *pool;       // reads images; NULL: there are none
  ImageWork *work;     // by thread of the pool
  // Of the reading thread: the numbers in the sources of the rows from..to-1 of the epoch with this
  // key, at most `window` rows.
  struct {
    uint64_t key;
    int64_t from, to, window, *number;
  } order;
  BatchRing *ring;
  pthread_t thread;
  bool started;
  char fault[FAULT]; // why reading failed; written before the batch of -1 rows is handed over
  DiagId fault_id;
  const char *fault_hint; // or NULL
  Pos fault_pos;
  struct {
    atomic_llong from, to;
  } * rows_of[2]; // by index of the input: only rows from..to-1 of a batch are read
                  // (feed_restrict); [0] is for full batches, [1] for incomplete ones
  int64_t first_epoch, first_row; // epoch and row at which reading begins
  int64_t at_epoch, at_row;       // epoch and row of the batch that feed_next returns next
  int64_t last_rows;              // rows of the batch that it returned last
};

// -- the reading thread -------------------------------------------------------------------------

// Copies a row to index r of the batch axis (in->over) of `out`, a batch of `rows` rows. If the
// batch axis is not the first axis, a row is not contiguous in the batch. Then the row is copied in
// parts, one for each index of the axes before the batch axis.
static void place_row(const FeedInput *in, int64_t row_elements, int64_t rows, int64_t r,
                      const char *row, char *out) {
  int64_t inner = dtype_bytes(in->type), outer;
  for (int i = in->over + 1; i < in->rank; i++) inner *= in->size[i];
  outer = row_elements * dtype_bytes(in->type) / (inner ? inner : 1);
  for (int64_t o = 0; o < outer; o++)
    memcpy(out + (o * rows + r) * inner, row + o * inner, (size_t)inner);
}

// Returns the number, in the sources, of row i of the feed: it follows the rows before it that are
// left out.
static int64_t kept_row(const Feed *f, int64_t i) {
  int64_t low = 0, high = f->ndropped;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (f->dropped[middle] - middle <= i)
      low = middle + 1;
    else
      high = middle;
  }
  return i + low;
}

// Returns the numbers of `rows` rows of an epoch from row `first` on. They are found for many rows
// at once, because small batches would leave the lanes of rng_permute empty.
static const int64_t *row_numbers(Feed *f, uint64_t key, int64_t first, int64_t rows) {
  int64_t *number = f->order.number, n = f->rows - first;
  if (f->order.key != key || first < f->order.from || first + rows > f->order.to) {
    if (n > f->order.window) n = f->order.window;
    f->order.key = key;
    f->order.from = first;
    f->order.to = first + n;
    if (f->shuffle) rng_permute(key, f->rows, first, n, number);
    for (int64_t i = 0; i < n && !f->shuffle; i++) number[i] = first + i;
    for (int64_t i = 0; i < n && f->ndropped; i++) number[i] = kept_row(f, number[i]);
  }
  return number + (first - f->order.from);
}

// Some rows of an input that lie in `out`, whose batch axis has `rows` of them: a batch of a feed,
// or all rows of a source.
typedef struct BatchRows {
  const RowSource *s;
  const int64_t *number; // by row: its number in the source; NULL: all rows, in their order
  int64_t epoch, rows;
  char *out;
  char *scratch, *row; // work memory, for sources that one thread reads
  ImageWork *work;     // by thread, for images
} BatchRows;

static int64_t number_of(const BatchRows *b, int64_t r) { return b->number ? b->number[r] : r; }

static int64_t row_bytes(const BatchRows *b) {
  return b->s->row_elements * dtype_bytes(b->s->input->type);
}

// Reads image r of the batch: a RowWork.
static bool read_image(void *batch, int worker, int64_t r, RowFault *fault) {
  const BatchRows *b = batch;
  int64_t bytes = row_bytes(b);
  ImageWork *w = &b->work[worker];
  bool straight = b->s->input->over == 0;
  char *to = straight ? b->out + r * bytes : room_for(&w->row, (size_t)bytes + 1);
  if (!image_row(b->s, number_of(b, r), b->epoch, w, to, fault)) return false;
  if (!straight) place_row(b->s->input, b->s->row_elements, b->rows, r, to, b->out);
  return true;
}

static bool read_numbers(const BatchRows *b, int64_t from, int64_t to, char *why) {
  bool straight = b->s->input->over == 0;
  int64_t bytes = row_bytes(b);
  if (straight && b->number)
    return source_rows(b->s, to - from, b->number + from, b->scratch, b->out + from * bytes, why);
  for (int64_t r = from; r < to; r++) {
    int64_t row = number_of(b, r);
    if (!source_rows(b->s, 1, &row, b->scratch, straight ? b->out + r * bytes : b->row, why))
      return false;
    if (!straight) place_row(b->s->input, b->s->row_elements, b->rows, r, b->row, b->out);
  }
  return true;
}

// Reads the rows from..to-1 of the batch.
static bool read_rows(BatchRows *b, RowPool *pool, int64_t from, int64_t to, RowFault *fault) {
  char why[WHY];
  if (b->s->images) return row_pool_run(pool, from, to, read_image, b, fault);
  if (from >= to || read_numbers(b, from, to, why)) return true;
  *fault = (RowFault){.id = DIAG_DATA_TYPE};
  snprintf(fault->text, sizeof fault->text, "%s", why);
  return false;
}

// Reads a batch. Returns false with the fault, and the input in *which.
static bool fill(Feed *f, const Batch *to, BatchRows b, RowFault *fault, uint32_t *which) {
  for (uint32_t i = 0; i < f->n; i++) {
    *which = i;
    int64_t from = atomic_load(&f->rows_of[b.rows < f->batch][i].from),
            end = atomic_load(&f->rows_of[b.rows < f->batch][i].to);
    b.s = &f->source[i];
    b.out = to->data[i];
    if (!read_rows(&b, f->pool, from, end < b.rows ? end : b.rows, fault)) return false;
  }
  return true;
}

static void fail(Feed *f, uint32_t which, const RowFault *fault) {
  f->fault_id = fault->id;
  f->fault_hint = fault->hint;
  snprintf(f->fault, sizeof f->fault, "%s (input %s)", fault->text, f->input[which].name);
  f->fault_pos = f->input[which].pos;
  ring_hand_over(f->ring, -1);
}

// Reads the batches of one epoch from row `first` on into the ring. A batch with 0 rows follows and
// marks the end. Returns false after an error or when the feed is being closed.
static bool read_epoch(Feed *f, uint64_t key, int64_t epoch, int64_t first) {
  for (int64_t rows = -1; rows != 0; first += rows) {
    const Batch *to = ring_claim(f->ring);
    if (!to) return false;
    rows = clamp64(f->rows - first, 0, f->batch);
    if (rows < f->batch && !f->keep_last) rows = 0;
    RowFault fault;
    uint32_t which = 0;
    BatchRows b = {.number = row_numbers(f, key, first, rows),
                   .epoch = epoch,
                   .rows = rows,
                   .scratch = f->scratch,
                   .row = f->row,
                   .work = f->work};
    if (!fill(f, to, b, &fault, &which)) {
      fail(f, which, &fault);
      return false;
    }
    ring_hand_over(f->ring, rows);
  }
  return true;
}

// Returns the key of the order of the rows in an epoch.
static uint64_t order_key(const Feed *f, int64_t epoch) {
  return rng_key(rng_key(f->seed, "shuffle") + (uint64_t)epoch, "epoch");
}

static void read_epochs(void *feed) {
  Feed *f = feed;
  (void)mem_doing("reading data", NULL);
  int64_t epoch = f->first_epoch, row = f->first_row;
  for (; read_epoch(f, order_key(f, epoch), epoch, row); epoch++) row = 0;
}

static void *read_ahead(void *feed) {
  Feed *f = feed;
  Failure why;
  if (guard_run(read_epochs, f, &why)) return NULL;
  RowFault fault = {.id = why.internal ? DIAG_FAILURE : DIAG_NO_MEMORY};
  snprintf(fault.text, sizeof fault.text, "%s", why.text);
  if (ring_claim(f->ring)) fail(f, 0, &fault);
  return NULL;
}

// -- opening a feed -----------------------------------------------------------------------------

static bool one_csv(const RowSource *a, const RowSource *b) {
  return a->csv && b->csv && strcmp(a->path, b->path) == 0;
}

static const char *label(const RowSource *s) { return s->path ? s->path : "synthetic(...)"; }

static bool say_unequal(const RowSource *s, const RowSource *first, Diag *d) {
  diag_error(d, DIAG_DATA_SHAPE, s->input->pos,
             "%s has %lld row%s for input %s, and %s has %lld for input %s", label(s),
             (long long)s->rows, plural(s->rows), s->input->name, label(first),
             (long long)first->rows, first->input->name);
  if (one_csv(s, first))
    diag_hint(d, "header = true or false for both, and the same rows, reads the file alike");
  return false;
}

// Checks that all sources of one CSV file take its first line as a header, or none does. Else their
// rows would not belong together.
static bool agree_on_headers(const Feed *f, Diag *d) {
  for (uint32_t i = 0; i < f->n; i++)
    for (uint32_t k = 0; k < i; k++) {
      const RowSource *s = &f->source[i], *other = &f->source[k];
      if (!one_csv(s, other) || csv_rows_headed(s->csv) == csv_rows_headed(other->csv)) continue;
      bool here = csv_rows_headed(s->csv);
      diag_error(d, DIAG_DATA_SHAPE, s->input->pos,
                 "%s is read with a header for input %s, and without one for input %s", s->path,
                 (here ? s : other)->input->name, (here ? other : s)->input->name);
      return diag_hint(d, "write header = true in both sources, or header = false");
    }
  return true;
}

// Sets f->rows, the number of rows of an epoch, and checks that all sources have this number.
// Sources of tokens or text may differ by one row, because their offsets may differ. Synthetic
// sources have as many rows as the others or, without others, SYNTHETIC_BATCHES batches. Returns
// false after an error in d.
static bool agree_on_rows(Feed *f, Diag *d) {
  const RowSource *first = NULL;
  int64_t rows = SYNTHETIC_BATCHES * f->batch;
  for (uint32_t i = 0; i < f->n; i++) {
    const RowSource *s = &f->source[i];
    if (s->endless) continue;
    int64_t slack = first && s->sliding && first->sliding ? 1 : 0;
    if (first && (s->rows > rows + slack || s->rows < rows - slack))
      return say_unequal(s, first, d);
    rows = first && rows < s->rows ? rows : s->rows;
    if (!first) first = s;
  }
  f->rows = rows;
  return true;
}

static int by_number(const void *x, const void *y) {
  int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  return (a > b) - (a < b);
}

// Gathers the rows that at least one source leaves out. Returns false after an error if too few are
// left.
static bool drop_rows(Feed *f, Diag *d) {
  int64_t n = 0, kept = 0, all = f->rows;
  for (uint32_t i = 0; i < f->n; i++) n += f->source[i].ndropped;
  f->dropped = mem_zeroed((size_t)n + 1, sizeof *f->dropped);
  n = 0;
  for (uint32_t i = 0; i < f->n; i++)
    for (int64_t k = 0; k < f->source[i].ndropped; k++) f->dropped[n++] = f->source[i].dropped[k];
  qsort(f->dropped, (size_t)n, sizeof *f->dropped, by_number);
  for (int64_t i = 0; i < n; i++) {
    bool twice = kept && f->dropped[kept - 1] == f->dropped[i];
    if (!twice && f->dropped[i] < all) f->dropped[kept++] = f->dropped[i];
  }
  f->ndropped = kept;
  f->rows -= kept;
  if (feed_batches(f) > 0) return true;
  const char *without = kept ? " without missing values" : "";
  diag_error(d, DIAG_DATA_SHAPE, f->input[0].pos,
             "the data has %lld row%s%s, fewer than a batch of %lld", (long long)f->rows,
             plural(f->rows), without, (long long)f->batch);
  const char *over = f->input[0].dim[f->input[0].over];
  if (f->rows > 0 && over)
    diag_hint(d, "make the batch smaller: --set %s=%lld, or less", over, (long long)f->rows);
  return false;
}

// Opens the source of input i. Facts that are not given are found first.
static bool open_source(Feed *f, uint32_t i, const char *directory, Diag *d) {
  FeedInput *in = &f->input[i];
  if (!in->facts && source_has_facts(in->source)) {
    SourceFacts *facts = arena_array(f->facts, SourceFacts, 1);
    if (!source_learn(f->facts, in, directory, facts, d)) return false;
    in->facts = facts;
  }
  double began = clock_seconds();
  bool good = source_open(&f->source[i], in, directory, f->seed, d);
  f->open_seconds[i] = clock_seconds() - began;
  return good;
}

// Makes the threads that read images, as many as the input asks for.
static RowPool *make_pool(const FeedInput *in, int64_t rows, ImageWork **work) {
  int64_t n = in->threads ? in->threads : cores_available();
  n = clamp64(n < rows ? n : rows, 1, MOST_THREADS);
  RowPool *p = row_pool_new((int)n);
  *work = mem_zeroed((size_t)n, sizeof **work);
  return p;
}

static void free_pool(RowPool *p, ImageWork *work) {
  for (int i = 0; work && i < row_pool_workers(p); i++) image_work_free(&work[i]);
  row_pool_free(p);
  free(work);
}

static void make_room(Feed *f) {
  int64_t scratch = 1, row = 1, *bytes = mem_zeroed(f->n + 1u, sizeof *bytes);
  for (uint32_t i = 0; i < f->n; i++) {
    int64_t one = f->source[i].row_elements * dtype_bytes(f->input[i].type);
    if (source_scratch(&f->source[i]) > scratch) scratch = source_scratch(&f->source[i]);
    if (one > row) row = one;
    if (!size_mul(one, f->batch, &bytes[i])) mem_exhausted(0);
  }
  for (uint32_t i = 0; i < f->n && !f->pool; i++)
    if (f->source[i].images) f->pool = make_pool(&f->input[i], f->batch, &f->work);
  f->scratch = mem_alloc((size_t)scratch);
  f->row = mem_alloc((size_t)row);
  f->order.window = f->batch > WINDOW ? f->batch : WINDOW;
  f->order.number = mem_zeroed((size_t)f->order.window, sizeof *f->order.number);
  f->ring = ring_new(f->n, bytes);
  free(bytes);
}

static bool start(Feed *f, Diag *d) {
  f->started = pthread_create(&f->thread, NULL, read_ahead, f) == 0;
  if (!f->started) {
    diag_error(d, DIAG_NO_MEMORY, (Pos){0},
               "out of memory: the system starts no thread to read data");
    diag_hint(d, "raise the limit of processes (ulimit -u) or of memory (ulimit -v)");
  }
  return f->started;
}

Feed *feed_open(uint32_t n, const FeedInput *input, int64_t batch, bool shuffle, uint64_t seed,
                bool keep_last, const char *directory, Diag *d) {
  (void)mem_doing("opening data", NULL);
  Feed *f = mem_zeroed(1, sizeof *f);
  f->facts = arena_new();
  f->open_seconds = mem_zeroed(n + 1u, sizeof *f->open_seconds);
  f->input = mem_alloc(sizeof *input * (n + 1u));
  f->source = mem_zeroed(n + 1u, sizeof *f->source);
  for (uint32_t i = 0; i < n; i++) f->source[i].file.fd = -1;
  for (int k = 0; k < 2; k++) f->rows_of[k] = mem_zeroed(n + 1u, sizeof *f->rows_of[k]);
  f->n = n;
  f->batch = batch;
  f->shuffle = shuffle;
  f->seed = seed;
  f->keep_last = keep_last;
  bool ok = true;
  for (uint32_t i = 0; i < n; i++) {
    f->input[i] = input[i];
    for (int k = 0; k < 2; k++) atomic_init(&f->rows_of[k][i].to, INT64_MAX);
    ok = open_source(f, i, directory, d) && ok;
  }
  if (ok && agree_on_headers(f, d) && agree_on_rows(f, d) && drop_rows(f, d)) {
    make_room(f);
    if (start(f, d)) {
      arena_keep(f->facts); // feed_close frees it
      return f;
    }
  }
  feed_close(f);
  return NULL;
}

static void stop(Feed *f) {
  if (!f->started) return;
  ring_stop(f->ring);
  pthread_join(f->thread, NULL);
  f->started = false;
}

bool feed_seek(Feed *f, int64_t epoch, int64_t row, Diag *d) {
  stop(f);
  ring_restart(f->ring);
  f->first_epoch = f->at_epoch = epoch;
  f->first_row = f->at_row = row;
  return start(f, d);
}

void feed_position(const Feed *f, int64_t *epoch, int64_t *row) {
  *epoch = f->at_epoch;
  *row = f->at_row;
}

void feed_close(Feed *f) {
  if (!f) return;
  stop(f);
  free_pool(f->pool, f->work);
  for (uint32_t i = 0; i < f->n; i++) source_close(&f->source[i]);
  ring_free(f->ring);
  arena_free(f->facts);
  free(f->dropped);
  free(f->open_seconds);
  free(f->scratch);
  free(f->row);
  free(f->order.number);
  free(f->source);
  free(f->rows_of[0]);
  free(f->rows_of[1]);
  free(f->input);
  free(f);
}

// -- functions for the thread that uses the feed ------------------------------------------------

void feed_restrict(Feed *f, uint32_t input, bool incomplete, int64_t from, int64_t to) {
  atomic_store(&f->rows_of[incomplete][input].from, from);
  atomic_store(&f->rows_of[incomplete][input].to, to);
}

int64_t feed_rows(const Feed *f) { return f->rows; }
int64_t feed_batches(const Feed *f) {
  return f->keep_last ? ceil_div(f->rows, f->batch) : f->rows / f->batch;
}
int64_t feed_batch(const Feed *f) { return f->batch; }
double feed_wait_seconds(const Feed *f) { return ring_wait_seconds(f->ring); }
uint32_t feed_inputs(const Feed *f, const FeedInput **out) {
  *out = f->input;
  return f->n;
}

int64_t feed_next(Feed *f, const void **data) {
  const Batch *b = ring_take(f->ring);
  f->last_rows = b->rows;
  if (b->rows > 0) f->at_row += b->rows;
  if (b->rows == 0) f->at_epoch++, f->at_row = 0;
  for (uint32_t i = 0; i < f->n; i++) data[i] = b->data[i];
  return b->rows;
}

int64_t feed_given(const Feed *f) { return f->last_rows; }

bool feed_row_place(const Feed *f, uint32_t input, int64_t since, int64_t row, char *out,
                    size_t room) {
  int64_t number = f->at_row - since * f->batch - f->last_rows + row, epoch = f->at_epoch;
  for (; number < 0; epoch--) number += feed_batches(f) * f->batch;
  if (f->last_rows <= 0 || number >= f->rows) return false;
  if (f->shuffle) rng_permute(order_key(f, epoch), f->rows, number, 1, &number);
  return source_row_place(&f->source[input], kept_row(f, number), out, room);
}

void feed_fault(const Feed *f, Diag *d) {
  diag_error(d, f->fault_id, f->fault_pos, "%s", f->fault);
  if (f->fault_hint) diag_hint(d, "%s", f->fault_hint);
}

void feed_report(const Feed *f, uint32_t input, SourceReport *out) {
  source_report(&f->source[input], out);
  out->open_seconds = f->open_seconds[input];
}

// -- all rows at once ---------------------------------------------------------------------------

// Reads the n rows whose numbers are `number`.
static bool read_all(const RowSource *s, const int64_t *number, int64_t n, Array *out, Diag *d) {
  RowFault fault;
  int64_t bytes = s->row_elements * dtype_bytes(out->type);
  BatchRows b = {.s = s,
                 .number = number,
                 .rows = n,
                 .out = out->data,
                 .scratch = mem_alloc((size_t)source_scratch(s) + 1),
                 .row = mem_alloc((size_t)bytes + 1)};
  RowPool *pool = s->images ? make_pool(s->input, n, &b.work) : NULL;
  bool good = read_rows(&b, pool, 0, n, &fault);
  if (!good) diag_error(d, fault.id, s->input->pos, "%s (input %s)", fault.text, s->input->name);
  if (!good && fault.hint) diag_hint(d, "%s", fault.hint);
  free_pool(pool, b.work);
  free(b.scratch);
  free(b.row);
  return good;
}

// Returns the numbers of the rows of s that are not left out, *n of them. The caller frees them.
static int64_t *kept_rows(const RowSource *s, int64_t *n) {
  char *left_out = mem_zeroed((size_t)s->rows + 1, 1);
  int64_t *kept = mem_alloc((size_t)(s->rows + 1) * sizeof *kept);
  for (int64_t i = 0; i < s->ndropped; i++) left_out[s->dropped[i]] = 1;
  *n = 0;
  for (int64_t i = 0; i < s->rows; i++)
    if (!left_out[i]) kept[(*n)++] = i;
  free(left_out);
  return kept;
}

bool feed_array(const FeedInput *in, const char *directory, Array *out, int64_t *dropped, Diag *d) {
  RowSource s;
  *out = (Array){.type = in->type, .rank = in->rank};
  bool good = source_open(&s, in, directory, 0, d);
  if (good) {
    memcpy(out->size, in->size, sizeof out->size);
    int64_t rows, *kept = kept_rows(&s, &rows);
    out->size[in->over] = rows;
    out->elements = rows * s.row_elements;
    out->data = mem_alloc((size_t)(out->elements * dtype_bytes(in->type)) + 1);
    good = read_all(&s, kept, rows, out, d);
    *dropped = s.rows - rows;
    free(kept);
  }
  source_close(&s);
  if (!good) array_free(out);
  return good;
}

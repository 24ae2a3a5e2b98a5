// The command data: shows what the sources of a model's data blocks hold, and how fast they are
// read beside what the step needs. Input: a loaded model. Output: text or JSON.
//
// Each source is opened and read alone, in order. Then the block is read as training does, without
// a step behind it.
#include <math.h>
#include <string.h>

#include "frontend/driver/session.h"

enum { MOST_SHOWN = 16, SAMPLE = 3, SAMPLE_COLUMNS = 8 };
// Seconds spent on reading one source; the least and the most on measuring a block.
static const double most_seconds = 2, least_measured = 0.02, most_measured = 0.5;

// A column of a source: element k of its rows.
typedef struct ColumnFacts {
  double low, high, sum;
  int64_t missing;
} ColumnFacts;

typedef struct SourceFigures {
  const FeedInput *input;
  SourceReport report;
  int64_t rows, read, columns; // of the source; read here; elements of a row
  ColumnFacts *column;
  double *sample; // the first rows
  int64_t nsample;
  double seconds; // to decode and deliver the rows that were read
  uint32_t nclasses;
  const char *const *class_name;
  int64_t *count; // by class
} SourceFigures;

typedef struct BlockFigures {
  BlockKind kind;
  int64_t rows, batch, batches;
  double rate;   // rows a second that the feed delivers
  double needed; // rows a second that a step takes, by its predicted time; 0: not known
  double step;   // predicted seconds of a step
  uint32_t n;
  SourceFigures *source;
} BlockFigures;

// -- reading ------------------------------------------------------------------------------------

static void count_row(SourceFigures *f, const char *row, int64_t stride) {
  Dtype type = f->input->type;
  for (int64_t k = 0; k < f->columns; k++) {
    double x = dtype_load(type, row + k * stride);
    ColumnFacts *c = &f->column[k];
    c->low = f->read && c->low < x ? c->low : x;
    c->high = f->read && c->high > x ? c->high : x;
    c->sum += x;
    if (f->read < SAMPLE && k < SAMPLE_COLUMNS) f->sample[f->read * SAMPLE_COLUMNS + k] = x;
    if (x >= 0 && x < f->nclasses) f->count[(uint32_t)x]++;
  }
  f->read++;
}

// Finds the names of the classes of a source, which the feed has learned or the model lists.
static void find_classes(Session *s, SourceFigures *f) {
  ClassNames names = input_classes(s, f->input->name);
  f->nclasses = names.n;
  f->class_name = names.name;
  f->count = arena_array(s->arena, int64_t, names.n + 1);
}

// Makes room for the figures of a source.
static void begin_source(Session *s, const FeedInput *in, Feed *feed, SourceFigures *f) {
  f->input = in;
  f->rows = feed_rows(feed);
  f->columns = 1;
  for (int i = 0; i < in->rank; i++)
    if (i != in->over) f->columns *= in->size[i];
  f->column = arena_array(s->arena, ColumnFacts, (size_t)f->columns + 1);
  f->sample = arena_array(s->arena, double, SAMPLE *SAMPLE_COLUMNS);
  find_classes(s, f);
}

// Reads rows, in order, until all are read or the time is over. Returns false after an error.
static bool count_rows(Feed *feed, SourceFigures *f) {
  const FeedInput *in = f->input;
  const void *data[1];
  int64_t bytes = dtype_bytes(in->type), n = 1;
  double began = clock_seconds();
  while (clock_seconds() - began < most_seconds && (n = feed_next(feed, data)) > 0) {
    bool straight = in->over == 0;
    for (int64_t r = 0; r < n; r++)
      count_row(f, (const char *)data[0] + r * bytes * (straight ? f->columns : 1),
                straight ? bytes : n * bytes);
  }
  f->seconds = feed_wait_seconds(feed);
  f->nsample = f->read < SAMPLE ? f->read : SAMPLE;
  return n >= 0;
}

// Reads a source alone. Returns false after an error.
static bool read_source(Session *s, const FeedInput *in, int64_t batch, SourceFigures *f) {
  FeedInput one = *in;
  one.size[one.over] = batch;
  Feed *feed = feed_open(1, &one, batch, false, 0, true, s->directory, s->diag);
  if (!feed) return false;
  const FeedInput *opened;
  (void)feed_inputs(feed, &opened);
  if (opened->facts) facts_keep(s, opened->facts);
  begin_source(s, in, feed, f);
  bool good = count_rows(feed, f);
  if (!good) feed_fault(feed, s->diag);
  feed_report(feed, 0, &f->report);
  for (int64_t k = 0; f->report.missed && k < f->columns; k++)
    f->column[k].missing = f->report.missed[k];
  feed_close(feed);
  return good;
}

// Measures how many rows a second the feed of a block delivers, as training reads them.
static bool measure_block(Session *s, Feed *feed, BlockFigures *b) {
  const FeedInput *input;
  uint32_t n = feed_inputs(feed, &input);
  const void **data = arena_array(s->arena, const void *, n + 1);
  int64_t rows = 0, got = 1;
  double began = clock_seconds(), seconds = 0;
  while ((seconds < least_measured || (rows < 3 * b->rows && seconds < most_measured)) &&
         (got = feed_next(feed, data)) >= 0) {
    rows += got;
    seconds = clock_seconds() - began;
  }
  b->rate = seconds > 0 ? (double)rows / seconds : 0;
  if (got < 0) feed_fault(feed, s->diag);
  return got >= 0;
}

// Predicts the step that reads the block, by the figures of the machine. Without a train block it
// is that of an evaluation.
static bool predict_step(Session *s, BlockFigures *b) {
  Selected of;
  Compilation made = {0};
  if (b->kind != DATA_TRAIN || !s->model->graph->spec.ntrain) return true;
  Graph *g = select_train(s->arena, s->model, NULL);
  of = (Selected){.graph = g, .purpose = "train"};
  bool good = g && session_compile(s, of.graph, of.purpose, NULL, "program", &made);
  if (good) b->step = predicted_seconds(s, &made);
  if (good && b->step > 0) b->needed = (double)b->batch / b->step;
  compilation_free(&made);
  return good;
}

static bool read_block(Session *s, BlockKind kind, BlockFigures *b) {
  *b = (BlockFigures){.kind = kind};
  Feed *feed = data_open_all(s, kind);
  if (!feed) return false;
  const FeedInput *input;
  b->n = feed_inputs(feed, &input);
  b->rows = feed_rows(feed);
  b->batch = feed_batch(feed);
  b->batches = feed_batches(feed);
  b->source = arena_array(s->arena, SourceFigures, b->n + 1);
  bool good = measure_block(s, feed, b);
  for (uint32_t i = 0; i < b->n && good; i++) {
    FeedInput *own = arena_copy(s->arena, &input[i], sizeof *own);
    own->facts = NULL;
    own->augment = false; // what the files hold, not what training makes of them
    good = facts_supply(s, own) && read_source(s, own, b->batch, &b->source[i]);
  }
  feed_close(feed);
  return good && predict_step(s, b);
}

// -- text ---------------------------------------------------------------------------------------

static const char *rate_text(Arena *a, double rows) {
  return rows >= 1e6   ? arena_printf(a, "%.1fM ", rows / 1e6)
         : rows >= 1e3 ? arena_printf(a, "%.1fk ", rows / 1e3)
                       : arena_printf(a, "%.0f ", rows);
}

static double bytes_rate(const SourceFigures *f, double seconds) {
  return seconds > 0 ? (double)f->report.bytes / seconds / 1e6 : 0;
}

static const char *label_of(const Session *s, const SourceFigures *f, int64_t k) {
  const DataSource *d = f->input->source;
  if (d->kind != SOURCE_CSV) return arena_printf(s->arena, "element %lld", (long long)k);
  const char *list = d->columns;
  if (d->first >= 0) return arena_printf(s->arena, "column %lld", (long long)(d->first + k));
  if (!list) return text_shown(s->arena, d->key);
  for (int64_t i = 0; i < k; i++) list = strchr(list, '\n') + 1;
  const char *name = arena_text(s->arena, list, strcspn(list, "\n"));
  return d->first == COLUMNS_NUMBERED ? arena_printf(s->arena, "column %s", name)
                                      : text_shown(s->arena, name);
}

// Adds column k2 to column k1.
static void join(ColumnFacts *a, const ColumnFacts *b) {
  a->low = b->low < a->low ? b->low : a->low;
  a->high = b->high > a->high ? b->high : a->high;
  a->sum += b->sum;
  a->missing += b->missing;
}

static void print_column(const char *label, const ColumnFacts *c, int64_t values) {
  printf("    %-16s %.6g to %.6g, mean %.6g", label, c->low, c->high,
         values ? c->sum / (double)values : 0.0);
  if (c->missing) printf(", %lld missing", (long long)c->missing);
  printf("\n");
}

static void print_columns(const Session *s, const SourceFigures *f) {
  if (f->columns <= MOST_SHOWN) {
    for (int64_t k = 0; k < f->columns; k++)
      print_column(label_of(s, f, k), &f->column[k], f->read);
    return;
  }
  ColumnFacts all = f->column[0];
  for (int64_t k = 1; k < f->columns; k++) join(&all, &f->column[k]);
  print_column(arena_printf(s->arena, "%lld elements", (long long)f->columns), &all,
               f->read * f->columns);
}

static void print_classes(const Session *s, const SourceFigures *f) {
  if (!f->nclasses) return;
  printf("    %u class%s: ", f->nclasses, f->nclasses == 1 ? "" : "es");
  for (uint32_t i = 0; i < f->nclasses && i < MOST_SHOWN; i++)
    printf("%s%s %lld", i ? ", " : "", text_shown(s->arena, f->class_name[i]),
           (long long)f->count[i]);
  printf("%s\n", f->nclasses > MOST_SHOWN ? ", ..." : "");
}

static void print_sample(const SourceFigures *f) {
  printf("    sample           ");
  int64_t n = f->columns < SAMPLE_COLUMNS ? f->columns : SAMPLE_COLUMNS;
  for (int64_t i = 0; i < f->nsample; i++) {
    printf("%s", i ? "; " : "");
    for (int64_t k = 0; k < n; k++)
      printf("%s%.6g", k ? ", " : "", f->sample[i * SAMPLE_COLUMNS + k]);
    if (n < f->columns) printf(", ...");
  }
  printf("\n");
}

// Prints what is known of the files of a source, and how fast they are read.
static void print_files(const Session *s, const SourceFigures *f) {
  const SourceReport *r = &f->report;
  printf("    reading          %s in %lld file%s, %.0f MB/s\n", bytes_text(s->arena, r->bytes),
         (long long)r->files, plural(r->files), bytes_rate(f, r->read_seconds));
  if (r->decoded > 0) {
    printf("    sizes            %lld x %lld to %lld x %lld pixels (width x height)\n",
           (long long)r->low[1], (long long)r->low[0], (long long)r->high[1],
           (long long)r->high[0]);
    printf("    decoding         %simages/s in one thread\n",
           rate_text(s->arena, (double)r->decoded / r->decode_seconds));
  } else {
    printf("    opening          %s, %.0f MB/s%s\n", seconds_text(s->arena, r->open_seconds),
           bytes_rate(f, r->open_seconds),
           f->input->source->kind == SOURCE_CSV ? ": all rows are checked and decoded" : "");
  }
  printf("    kept in memory   %s\n", bytes_text(s->arena, r->kept));
}

static void print_source(const Session *s, const SourceFigures *f) {
  const DataSource *d = f->input->source;
  printf("  %s  %s %s, %s: %lld row%s of %lld\n", f->input->name, source_kind_text(d->kind),
         d->path ? text_shown(s->arena, d->path) : "", dtype_text(f->input->type),
         (long long)f->rows, plural(f->rows), (long long)f->columns);
  print_columns(s, f);
  print_classes(s, f);
  print_sample(f);
  if (f->report.files > 0) print_files(s, f);
  if (f->read < f->rows)
    printf("    the figures are those of the first %lld rows\n", (long long)f->read);
}

// Returns the share of the time of training steps that they are expected to wait for data: what is
// left of a step's share of the reading after the step itself. 0 if reading keeps up.
static double waiting_share(const BlockFigures *b) {
  return b->needed > b->rate ? 1 - b->rate / b->needed : 0;
}

static void print_block(const Session *s, const BlockFigures *b) {
  printf("data %s over %s: %lld row%s, ", block_text(b->kind), data_over(s, b->kind),
         (long long)b->rows, plural(b->rows));
  if (b->rows < b->batch)
    printf("fewer than a batch of %lld\n", (long long)b->batch);
  else
    printf("%lld batch%s of %lld\n", (long long)b->batches, b->batches == 1 ? "" : "es",
           (long long)b->batch);
  for (uint32_t i = 0; i < b->n; i++) print_source(s, &b->source[i]);
  printf("  batches are delivered at %srows/s", rate_text(s->arena, b->rate));
  // Reading so few rows takes no time that matters: what rate they have says nothing.
  enum { SHORT_SECONDS = 1 };
  bool brief = (double)b->rows < SHORT_SECONDS * b->rate;
  if (b->needed > 0 && brief)
    printf(", all rows in %s", seconds_text(s->arena, (double)b->rows / b->rate));
  else if (b->needed > 0)
    printf("; the step needs %srows/s (%s a step, predicted): it waits %.1f %% of the time",
           rate_text(s->arena, b->needed), seconds_text(s->arena, b->step), 100 * waiting_share(b));
  printf("\n");
}

// -- JSON ---------------------------------------------------------------------------------------

static json_t *column_json(const Session *s, const SourceFigures *f, int64_t k) {
  const ColumnFacts *c = &f->column[k];
  json_t *out = json_object();
  json_object_set_new(out, "name", json_text(label_of(s, f, k)));
  if (isfinite(c->low)) json_object_set_new(out, "low", json_real(c->low));
  if (isfinite(c->high)) json_object_set_new(out, "high", json_real(c->high));
  if (isfinite(c->sum) && f->read)
    json_object_set_new(out, "mean", json_real(c->sum / (double)f->read));
  json_object_set_new(out, "missing", json_integer(c->missing));
  return out;
}

static json_t *images_json(const SourceReport *r) {
  json_t *out = json_object();
  static const char *const sides[] = {"height", "width"};
  for (int i = 0; i < 2; i++)
    json_object_set_new(out, sides[i],
                        json_pack("[I, I]", (json_int_t)r->low[i], (json_int_t)r->high[i]));
  json_object_set_new(out, "decoded", json_integer(r->decoded));
  json_object_set_new(out, "decode_seconds", json_real(r->decode_seconds));
  return out;
}

static json_t *source_json(const Session *s, const SourceFigures *f) {
  json_t *out = json_object(), *columns = json_array(), *classes = json_array();
  for (int64_t k = 0; k < f->columns; k++) json_array_append_new(columns, column_json(s, f, k));
  for (uint32_t i = 0; i < f->nclasses; i++) {
    json_t *one = json_object();
    json_object_set_new(one, "name", json_text(f->class_name[i]));
    json_object_set_new(one, "rows", json_integer(f->count[i]));
    json_array_append_new(classes, one);
  }
  json_object_set_new(out, "input", json_text(f->input->name));
  json_object_set_new(out, "path", json_text(f->input->source->path));
  json_object_set_new(out, "type", json_text(dtype_text(f->input->type)));
  json_object_set_new(out, "rows", json_integer(f->rows));
  json_object_set_new(out, "rows_read", json_integer(f->read));
  json_object_set_new(out, "columns", columns);
  json_object_set_new(out, "classes", classes);
  json_object_set_new(out, "files", json_integer(f->report.files));
  json_object_set_new(out, "bytes", json_integer(f->report.bytes));
  json_object_set_new(out, "kept_bytes", json_integer(f->report.kept));
  json_object_set_new(out, "read_seconds", json_real(f->report.read_seconds));
  json_object_set_new(out, "open_seconds", json_real(f->report.open_seconds));
  json_object_set_new(out, "rows_seconds", json_real(f->seconds));
  if (f->report.decoded) json_object_set_new(out, "images", images_json(&f->report));
  return out;
}

static json_t *block_json(const Session *s, const BlockFigures *b) {
  json_t *out = json_object(), *sources = json_array();
  for (uint32_t i = 0; i < b->n; i++) json_array_append_new(sources, source_json(s, &b->source[i]));
  json_object_set_new(out, "block", json_text(block_text(b->kind)));
  json_object_set_new(out, "rows", json_integer(b->rows));
  json_object_set_new(out, "batch", json_integer(b->batch));
  json_object_set_new(out, "batches", json_integer(b->batches));
  json_object_set_new(out, "sources", sources);
  json_object_set_new(out, "rows_per_second", json_real(b->rate));
  if (b->needed > 0) {
    json_object_set_new(out, "step_seconds", json_real(b->step));
    json_object_set_new(out, "needed_rows_per_second", json_real(b->needed));
    json_object_set_new(out, "waiting_share", json_real(waiting_share(b)));
  }
  return out;
}

int cmd_data(Session *s) {
  const char *wanted = option_text(s->opt, OPTION_DATA);
  BlockKind only = DATA_BLOCKS;
  if (!session_load(s) || (wanted && !data_choose(s, wanted, &only))) return 0;
  json_t *blocks = json_array();
  bool any = false, good = true;
  for (int k = 0; k < DATA_BLOCKS && good; k++) {
    BlockFigures b;
    if (!s->model->graph->spec.data[k].present || (wanted && (int)only != k)) continue;
    any = true;
    good = read_block(s, (BlockKind)k, &b);
    if (good && option_given(s->opt, OPTION_JSON))
      json_array_append_new(blocks, block_json(s, &b));
    else if (good)
      print_block(s, &b);
  }
  if (good && !any) good = data_choose(s, "test", &only);
  if (!good || !option_given(s->opt, OPTION_JSON)) {
    json_decref(blocks);
    return 0;
  }
  json_t *out = json_object();
  json_object_set_new(out, "schema", json_string("meshc.data/1"));
  json_object_set_new(out, "model", json_text(s->opt->argument.at[0]));
  json_object_set_new(out, "blocks", blocks);
  return json_finish(out);
}

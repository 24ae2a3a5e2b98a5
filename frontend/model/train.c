// Reads train blocks: the loss, which parameters are trained and how, and the length of the run.
//
// Input: the train blocks of the file, with --set. Output: one TrainSpec for each block in
// Graph.spec, which the selection (frontend/step) and the training loop read.
//
// Every step runs the blocks one after another. Keys of the whole run (steps, evaluate, average
// ...) may be given in any block and apply to all.
#include <string.h>

#include "frontend/model/formal_internal.h"
#include "frontend/model/train_internal.h"

// -- patterns -----------------------------------------------------------------------------------

bool patterns_match(Arena *a, const char *patterns, const char *name) {
  char *list = arena_printf(a, "%s", patterns), *save = NULL;
  for (char *p = strtok_r(list, ", ", &save); p; p = strtok_r(NULL, ", ", &save))
    if (name_matches(p, name)) return true;
  return false;
}

static bool pattern_matches(const Build *b, const char *pattern) {
  for (uint32_t i = 0; i < b->g->decl.n; i++) {
    const Decl *d = &b->g->decl.at[i];
    if (d->kind == DECL_PARAM && name_matches(pattern, d->name)) return true;
  }
  return false;
}

// Adds a hint "did you mean" with the nearest full name of a parameter. For a pattern with stars
// "*.LAST" and "FIRST.*" of each name are candidates too.
static void pattern_nearest(Build *b, const char *pattern) {
  VEC(const char *) near = {0};
  for (uint32_t i = 0; i < b->g->decl.n; i++) {
    const char *name = b->g->decl.at[i].name, *first = strchr(name, '.'),
               *last = strrchr(name, '.');
    if (b->g->decl.at[i].kind != DECL_PARAM) continue;
    vec_push(b->a, near) = name;
    if (!first || !strchr(pattern, '*')) continue;
    vec_push(b->a, near) = arena_printf(b->a, "*%s", last);
    vec_push(b->a, near) = arena_printf(b->a, "%.*s.*", (int)(first - name), name);
  }
  diag_nearest(b->d, pattern, near.at, near.n);
}

bool patterns_read(Build *b, const Ast *e, const char **out) {
  if (!build_string(b, e, out)) return false;
  bool good = true;
  uint32_t n = 0;
  char *list = arena_printf(b->a, "%s", *out), *save = NULL;
  for (char *p = strtok_r(list, ", ", &save); p; p = strtok_r(NULL, ", ", &save), n++) {
    if (pattern_matches(b, p) || b->incomplete) continue;
    diag_error(b->d, DIAG_UNKNOWN_NAME, e->pos, "no parameter matches '%s'", p);
    pattern_nearest(b, p);
    good = false;
  }
  if (n) return good;
  diag_error(b->d, DIAG_UNKNOWN_NAME, e->pos, "this list names no parameter");
  return diag_hint(b->d, "write patterns of names between commas: \"*.bias, head.*\"");
}

bool train_trains(Arena *a, const TrainSpec *t, const Decl *d) {
  if (d->kind != DECL_PARAM || d->frozen) return false;
  if (t->frozen && patterns_match(a, t->frozen, d->name)) return false;
  return !t->parameters || patterns_match(a, t->parameters, d->name);
}

// -- keys ---------------------------------------------------------------------------------------

static bool count_of(Build *b, const Ast *e, int64_t *out) {
  if (!build_integer(b, e, out)) return false;
  if (*out >= 0) return true;
  return diag_error(b->d, DIAG_BAD_BLOCK, e->pos, "a count must stand here");
}

static bool ranged_number(Build *b, const Ast *e, const char *key, double *out) {
  return build_number(b, e, out) && range_ok(b, e->pos, "train", key, *out);
}

// Reads the value of entry e into `field`, the field of TrainSpec that the row of its key names.
// Returns false after an error.
typedef bool ReadKey(Build *b, const Entry *e, void *field);

static bool read_optimizer(Build *b, const Entry *e, void *field) {
  return optimizer_read(b, e->value, field);
}
static bool read_schedule(Build *b, const Entry *e, void *field) {
  return schedule_read(b, e->value, field);
}
static bool read_groups(Build *b, const Entry *e, void *train) {
  return groups_read(b, e->value, train);
}
static bool read_count(Build *b, const Entry *e, void *field) {
  return count_of(b, e->value, field);
}
// Returns true if a --set train.KEY or --set train.LOSS.KEY has `key` as its KEY.
static bool sets_run(const Build *b, const char *key) {
  for (uint32_t i = 0; i < b->opt->nsettings; i++) {
    const char *path = b->opt->setting[i].path, *dot = strrchr(path, '.');
    if (dot && !strncmp(path, "train.", 6) && !strcmp(dot + 1, key)) return true;
  }
  return false;
}

// Reads the length of a run. A run without a step is refused: 0 stands for a length that is not
// given. But --set train.steps wins over epochs, however many they are.
static bool read_length(Build *b, const Entry *e, void *field) {
  if (!count_of(b, e->value, field)) return false;
  if (*(int64_t *)field > 0 || (!strcmp(e->key, "epochs") && sets_run(b, "steps"))) return true;
  diag_error(b->d, DIAG_BAD_BLOCK, e->value->pos, "a run has at least 1 of its %s", e->key);
  return diag_hint(b->d, "meshc eval and meshc run compute without training");
}
static bool read_repeat(Build *b, const Entry *e, void *field) {
  return read_count(b, e, field) && build_unroll(b, *(int64_t *)field, e->value->pos);
}
static bool read_number(Build *b, const Entry *e, void *field) {
  return ranged_number(b, e->value, e->key, field);
}
static bool read_patterns(Build *b, const Entry *e, void *field) {
  return patterns_read(b, e->value, field);
}

// Accepts the key `precision` without reading it: precision_read has read it before the first
// statement was built.
static bool read_precision(Build *b, const Entry *e, void *train) {
  (void)b, (void)e, (void)train;
  return true;
}

// Checks that the batch has n equal parts. The model of one part and that of an evaluation have
// batches of other sizes.
static bool divides_batch(Build *b, const Ast *e, const char *key, int64_t n) {
  const Dim *batch = dim_get(b->g->dims, b->g->spec.data[DATA_TRAIN].over);
  int64_t size = batch->size, below = n, above = n;
  if (b->opt->micro > 1 || b->opt->rows_dim || size % n == 0) return true;
  diag_error(b->d, DIAG_BAD_BLOCK, e->pos,
             "%s cannot split '%s' of size %lld into %lld equal parts", key, batch->name,
             (long long)size, (long long)n);
  while (below > 1 && size % below) below--;
  while (above < size && size % above) above++;
  if (above >= n && size > n && below > 1)
    return diag_hint(b->d, "%lld or %lld parts, or another size of '%s'", (long long)below,
                     (long long)above, batch->name);
  return diag_hint(b->d, "%lld parts, or another size of '%s'",
                   (long long)(size > n ? above : size), batch->name);
}

bool splits_batch(Build *b, const Ast *e, const char *key, int64_t n) {
  const DataBlock *data = &b->g->spec.data[DATA_TRAIN];
  if (!data->present) {
    diag_error(b->d, DIAG_NO_DATA_BLOCK, e->pos,
               "%s splits the batch, and the model has no block data train", key);
    return diag_hint(b->d,
                     "if the inputs are fed, name the dim of the batch: data train over b { }");
  }
  if (!data->over) return false; // the dim is unknown, which is reported
  for (uint32_t i = 0; i < b->g->decl.n; i++) {
    const Decl *d = &b->g->decl.at[i];
    for (int k = 0; k < d->rank && d->kind != DECL_INPUT; k++) {
      if (d->dims[k] != data->over) continue;
      return diag_error(b->d, DIAG_BAD_BLOCK, e->pos,
                        "%s splits '%s', but '%s' runs over it and is not an input", key,
                        dim_get(b->g->dims, data->over)->name, d->name);
    }
  }
  return divides_batch(b, e, key, n);
}

// Reads `accumulate`, the number of micro-batches into which a step splits the batch.
static bool read_accumulate(Build *b, const Entry *entry, void *train) {
  const Ast *e = entry->value;
  TrainSpec *t = train;
  if (!count_of(b, e, &t->accumulate)) return false;
  if (t->accumulate < 1)
    return diag_error(b->d, DIAG_BAD_BLOCK, e->pos, "a step has at least one micro-batch");
  if (t->accumulate == 1) return true;
  return build_unroll(b, t->accumulate, e->pos) && splits_batch(b, e, entry->key, t->accumulate);
}

bool word_read(Build *b, const Ast *e, const char *key, const char *first, const char *second,
               int *out) {
  const char *text = e->kind == AST_NAME ? e->text : "";
  *out = !strcmp(text, first) ? 1 : !strcmp(text, second) ? 2 : 0;
  if (*out == 0) diag_error(b->d, DIAG_BAD_BLOCK, e->pos, "'%s' is %s or %s", key, first, second);
  return *out != 0;
}

static bool read_on_nonfinite(Build *b, const Entry *e, void *field) {
  int word;
  bool good = word_read(b, e->value, e->key, "stop", "skip", &word);
  *(OnNonfinite *)field = (OnNonfinite)word;
  return good;
}

// Reads stop_early, such as accuracy(patience = 5, best = max). stop_resolve later finds the metric
// or loss of that name.
static bool read_stop_early(Build *b, const Entry *entry, void *train) {
  const Ast *e = entry->value;
  TrainSpec *t = train;
  static const Formal formal[] = {V(patience), O(best), END};
  const Ast *arg[MAX_FORMALS];
  double patience;
  int best = BEST_UNKNOWN;
  if (e->kind != AST_CALL) {
    diag_error(b->d, DIAG_BAD_BLOCK, e->pos,
               "stop_early needs the call of a metric or of the loss");
    return diag_hint(b->d, "stop_early = accuracy(patience = 5, best = max)");
  }
  if (!call_bind(b, e, formal, arg) || !ranged_number(b, arg[0], "patience", &patience) ||
      (arg[1] && !word_read(b, arg[1], "best", "min", "max", &best)))
    return false;
  t->stop_early = e->text;
  t->stop_best = (StopBest)best;
  t->stop_pos = e->pos;
  t->patience = (int64_t)patience;
  if ((double)t->patience == patience) return true;
  return diag_error(b->d, DIAG_BAD_BLOCK, arg[0]->pos,
                    "'patience' is a number of evaluations, not %g", patience);
}

#define AT(field) offsetof(TrainSpec, field)
static const struct {
  const char *name;
  ReadKey *read;
  size_t at; // offset of the field in TrainSpec; 0: the reader gets the whole TrainSpec
} keys[] = {
    {"optimizer", read_optimizer, AT(optimizer)},
    {"schedule", read_schedule, AT(schedule)},
    {"steps", read_length, AT(steps)},
    {"epochs", read_length, AT(epochs)},
    {"evaluate", read_count, AT(evaluate)},
    {"log", read_count, AT(log)},
    {"checkpoint", read_count, AT(checkpoint)},
    {"clip_norm", read_number, AT(clip_norm)},
    {"clip_value", read_number, AT(clip_value)},
    {"frozen", read_patterns, AT(frozen)},
    {"precision", read_precision, 0},
    {"accumulate", read_accumulate, 0},
    {"sync", sync_read, 0},
    {"stop_early", read_stop_early, 0},
    {"average", read_number, AT(average)},
    {"groups", read_groups, 0},
    {"parameters", read_patterns, AT(parameters)},
    {"repeat", read_repeat, AT(repeat)},
    {"on_nonfinite", read_on_nonfinite, AT(on_nonfinite)},
};

static void *field_at(TrainSpec *t, size_t at) { return (char *)t + at; }

static void key_build(Build *b, const Entry *e, TrainSpec *t) {
  bool option = e->pos.source != t->pos.source; // the entry comes from --set
  const char *near[countof(keys)];
  for (size_t i = 0; i < countof(keys); i++) {
    near[i] = keys[i].name;
    if (strcmp(keys[i].name, e->key)) continue;
    (void)!keys[i].read(b, e, field_at(t, keys[i].at)); // if it fails, it has reported an error
    return;
  }
  diag_error(b->d, option ? DIAG_UNKNOWN_SET : DIAG_UNKNOWN_KEY, e->pos,
             "a train block has no key '%s'", e->key);
  if (!habit_hint(b->d, b->a, HABIT_KEY, e->key, &(HabitNames){0}))
    diag_nearest(b->d, e->key, near, countof(near));
}

// -- the loss -----------------------------------------------------------------------------------

static bool is_loss(const Graph *g, NodeId n) {
  const Node *node = graph_node(g, n);
  return node->dims->n == 0 && dtype_is_float((Dtype)node->type);
}

// Returns a name for a loss without a name: the first of "loss", "train.loss", "train.loss_1" ...
// that the model does not use.
static const char *loss_name(Build *b) {
  const char *name = "loss";
  for (unsigned i = 0; graph_find_name(b->g, name); i++)
    name = i ? intern_printf(b->names, "train.loss_%u", i) : "train.loss";
  return name;
}

// Builds the loss of a block, which must be a float scalar, and registers its name.
static void loss_build(Build *b, const Ast *e, TrainSpec *t) {
  b->g->origin = (Origin){.value = "loss", .why = "loss"};
  Value v = build_whole(b, e);
  if (!value_is_tensor(b, &v, e->pos)) return;
  NodeId n = v.kind == VALUE_NUMBER ? graph_const(b->g, b->real, v.number) : v.node;
  if (!is_loss(b->g, n)) {
    bool scalar = graph_node(b->g, n)->dims->n == 0;
    diag_error(b->d, scalar ? DIAG_BAD_TYPE : DIAG_NOT_SCALAR, e->pos,
               "the loss is a float scalar, this is %s%s",
               dtype_text((Dtype)graph_node(b->g, n)->type),
               dims_listed(b, graph_node(b->g, n)->dims));
    return;
  }
  t->loss = e->kind == AST_NAME ? e->text : loss_name(b);
  Binding bound = {.value = value_tensor(n), .pos = e->pos};
  if (e->kind != AST_NAME || !graph_find_name(b->g, e->text))
    name_register(b, intern(b->names, t->loss), NAME_VALUE, &bound);
  if (b->model->loss) return; // the loss of the first block is that of the model
  b->model->loss = t->loss;
  b->model->loss_node = n;
}

// Makes a float scalar named "loss" the loss of a model without a train block.
static void loss_by_name(Build *b) {
  const Name *n = graph_find_name(b->g, "loss");
  if (b->model->loss || !n || !is_loss(b->g, n->value)) return;
  b->model->loss = "loss";
  b->model->loss_node = n->value;
}

// -- keys of the whole run ----------------------------------------------------------------------

// The fields of TrainSpec that keys of the whole run set: offset `at` and size `bytes`. A field
// whose bytes are all 0 has not been given.
static const struct {
  const char *key; // NULL: the field may have different values in two blocks
  size_t at, bytes;
} run_fields[] = {
#define RUN(key, field)                                                                            \
  { key, AT(field), sizeof((TrainSpec *)NULL)->field }
    RUN("steps", steps),           RUN("epochs", epochs),
    RUN("evaluate", evaluate),     RUN("log", log),
    RUN("checkpoint", checkpoint), RUN("accumulate", accumulate),
    RUN("patience", patience),     RUN("average", average),
    RUN("stop_early", stop_early), RUN("stop_early", stop_best),
    RUN(NULL, stop_pos),           RUN("on_nonfinite", on_nonfinite),
#undef RUN
};

static bool is_given(const char *field, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (field[i]) return true;
  return false;
}

static void say_differs(Build *b, const char *key, const TrainSpec *t, const TrainSpec *other) {
  diag_error(b->d, DIAG_BAD_BLOCK, t->pos,
             "'%s' goes for the whole run, and two blocks give it different values", key);
  diag_note(b->d, other->pos, "the other block");
}

// Copies the keys of the whole run that block t gives into `all`. A key with different values in
// two blocks is an error.
static void run_join(Build *b, TrainSpec *all, TrainSpec *t) {
  bool both = t->stop_early && all->stop_early;
  if (both && t->stop_best != all->stop_best) say_differs(b, "stop_early", t, all);
  for (size_t i = 0; i < countof(run_fields); i++) {
    size_t at = run_fields[i].at, bytes = run_fields[i].bytes;
    void *mine = field_at(t, at), *other = field_at(all, at);
    if (!is_given(mine, bytes)) continue;
    if (run_fields[i].key && is_given(other, bytes) && memcmp(mine, other, bytes))
      say_differs(b, run_fields[i].key, t, all);
    memcpy(other, mine, bytes);
  }
  if (!all->pos.line) all->pos = t->pos;
}

// Copies the keys of the whole run from `all` into every block.
static void run_spread(uint32_t n, TrainSpec *block, TrainSpec *all) {
  for (uint32_t k = 0; k < n; k++)
    for (size_t i = 0; i < countof(run_fields); i++)
      memcpy(field_at(&block[k], run_fields[i].at), field_at(all, run_fields[i].at),
             run_fields[i].bytes);
}

// Returns the block whose loss is the value of name n; NULL if there is none. The block may know
// this value by another name.
static const TrainSpec *block_of_loss(const Build *b, const Name *n) {
  for (uint32_t i = 0; i < b->g->spec.ntrain; i++) {
    const TrainSpec *t = &b->g->spec.train[i];
    const Name *loss = t->loss ? graph_find_name(b->g, t->loss) : NULL;
    if (loss && loss->value == n->value) return t;
  }
  return NULL;
}

// A metric or loss that an entry names, and whether its best value is the smallest or the largest.
typedef struct Watch {
  const char *entry; // the entry, as a hint shows it: "stop_early = mae(patience = 3"
  const char *what;  // the entry, as messages name it
  const char **name; // gets the name by which evaluations report a loss
  StopBest *best;    // BEST_UNKNOWN: the file does not say it
  Pos pos;
} Watch;

// Finds the metric or loss that w names, after all blocks are read. The best value of a loss is the
// smallest. For a metric the file must state `best = min` or `best = max`.
static void watch_resolve(Build *b, const Watch *w) {
  const Name *n = graph_find_name(b->g, *w->name);
  const TrainSpec *loss = n ? block_of_loss(b, n) : NULL;
  if (!n || (n->kind != NAME_METRIC && !loss)) {
    diag_error(b->d, DIAG_UNKNOWN_NAME, w->pos,
               "the model has no metric '%s', and no loss of that name", *w->name);
    return;
  }
  // the entry may use another name of the loss; evaluations report the loss as loss->loss
  if (n->kind != NAME_METRIC) *w->name = loss->loss;
  if (loss && *w->best == BEST_UNKNOWN) *w->best = BEST_MIN;
  if (*w->best != BEST_UNKNOWN) return;
  diag_error(b->d, DIAG_MISSING_KEY, w->pos,
             "%s needs best = min or best = max for the metric '%s'", w->what, *w->name);
  diag_hint(b->d, "write %s, best = max) if a larger %s is better, best = min if a smaller one is",
            w->entry, *w->name);
}

static void stop_resolve(Build *b, TrainSpec *all) {
  if (!all->stop_early) return;
  const char *entry = arena_printf(b->a, "stop_early = %s(patience = %lld", all->stop_early,
                                   (long long)all->patience);
  watch_resolve(b, &(Watch){entry, "stop_early", &all->stop_early, &all->stop_best, all->stop_pos});
}

static void plateau_resolve(Build *b, TrainSpec *t) {
  ScheduleSpec *s = &t->schedule;
  if (s->kind != SCHEDULE_PLATEAU || !t->loss) return;
  if (!s->of) s->of = t->loss;
  const char *entry = arena_printf(b->a, "plateau(of = %s", s->of);
  watch_resolve(b, &(Watch){entry, "plateau", &s->of, &s->best, s->pos});
}

// -- blocks -------------------------------------------------------------------------------------

// Returns the entries of a block. --set train.KEY applies to all blocks, --set train.LOSS.KEY to
// the block of that loss.
static Entries block_entries(Build *b, const Ast *s, const TrainSpec *t) {
  Entries e = entries_read(b, s, 1, "train");
  if (t->loss) entries_set(b, &e, arena_printf(b->a, "train.%s", t->loss));
  return e;
}

static void block_read(Build *b, const Ast *s, TrainSpec *t) {
  bool has_optimizer = false;
  *t = (TrainSpec){.pos = s->pos, .scaled = b->model->precision == TYPE_F16};
  loss_build(b, s->kids[0], t);
  Entries e = block_entries(b, s, t);
  for (uint32_t k = 0; k < e.n; k++) {
    key_build(b, &e.at[k], t);
    has_optimizer |= !strcmp(e.at[k].key, "optimizer");
  }
  if (has_optimizer) return;
  diag_error(b->d, DIAG_MISSING_KEY, s->pos, "a train block needs an optimizer");
  diag_hint(b->d, "add: optimizer = adam(lr = 1e-3)");
}

void train_build(Build *b, const Ast *file) {
  ModelSpec *spec = &b->g->spec;
  TrainSpec all = {0};
  spec->train = arena_array(b->g->arena, TrainSpec, file->nkids + 1);
  for (uint32_t i = 0; i < file->nkids; i++) {
    if (file->kids[i]->kind != AST_TRAIN) continue;
    TrainSpec *t = &spec->train[spec->ntrain++];
    block_read(b, file->kids[i], t);
    run_join(b, &all, t);
  }
  if (sets_run(b, "epochs") && !sets_run(b, "steps"))
    all.steps = 0; // --set train.epochs replaces the steps of the file
  stop_resolve(b, &all);
  if (b->opt->accumulate > 0 && build_unroll(b, b->opt->accumulate, all.pos))
    all.accumulate = b->opt->accumulate;
  run_spread(spec->ntrain, spec->train, &all);
  for (uint32_t i = 0; i < spec->ntrain; i++) {
    plateau_resolve(b, &spec->train[i]);
    matrices_check(b, &spec->train[i]);
    sync_check(b, &spec->train[i]);
  }
  loss_by_name(b);
}

// -- precision ----------------------------------------------------------------------------------

static bool precision_word(const char *word, Dtype *out) {
  static const Dtype types[] = {TYPE_F32, TYPE_BF16, TYPE_F16};
  for (size_t i = 0; i < countof(types); i++) {
    if (strcmp(dtype_text(types[i]), word)) continue;
    *out = types[i];
    return true;
  }
  return false;
}

static void precision_key(Build *b, const Ast *value, const Ast **first) {
  Dtype type = TYPE_F32;
  if (value->kind != AST_NAME || !precision_word(value->text, &type)) {
    diag_error(b->d, DIAG_BAD_BLOCK, value->pos, "a precision is f32, bf16 or f16");
    return;
  }
  if (*first && type != b->model->precision) {
    diag_error(b->d, DIAG_BAD_BLOCK, value->pos,
               "'precision' goes for the whole run, and two blocks give it different values");
    diag_note(b->d, (*first)->pos, "the other block");
  }
  *first = value;
  b->model->precision = type;
}

void precision_read(Build *b, const Ast *file) {
  const Ast *first = NULL;
  const Setting *set = setting_find(b, "train.precision");
  b->model->precision = TYPE_F32;
  for (uint32_t i = 0; i < file->nkids; i++) {
    const Ast *s = file->kids[i];
    for (uint32_t k = 1; s->kind == AST_TRAIN && k < s->nkids; k++)
      if (!strcmp(s->kids[k]->text, "precision") && !set)
        precision_key(b, s->kids[k]->kids[0], &first);
  }
  if (set) precision_key(b, set->value, &first);
  if (b->opt->precision && !precision_word(b->opt->precision, &b->model->precision))
    BUG("--precision %s", b->opt->precision);
}

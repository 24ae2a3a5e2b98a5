// Facts of sources (SourceFacts): means of columns and names of classes, which the first run of a
// model finds in its training data and all later runs take from the parameters. Here they are kept
// in the session, read from the files of --params and --checkpoint or of a training that is
// resumed, and written by --save-params: for the input x as the arrays
//   data.x.mean     f64, one element a column
//   data.x.classes  u8, the names with a zero byte behind each
#include "frontend/driver/params_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "data.", mean_end[] = ".mean", classes_end[] = ".classes";

bool params_of_data(const char *name) {
  return strncmp(name, prefix, sizeof prefix - 1) == 0 &&
         (text_ends(name, mean_end) || text_ends(name, classes_end));
}

// Returns the facts of an input in the session, which are empty at first.
static SourceFacts *entry_of(Session *s, const char *input) {
  for (uint32_t i = 0; i < s->facts.n; i++)
    if (strcmp(s->facts.at[i].input, input) == 0) return &s->facts.at[i];
  vec_push(s->arena, s->facts) = (SourceFacts){.input = arena_text(s->arena, input, strlen(input))};
  return &s->facts.at[s->facts.n - 1];
}

void facts_keep(Session *s, const SourceFacts *f) {
  SourceFacts *own = entry_of(s, f->input);
  if (f->nmeans) own->mean = arena_copy(s->arena, f->mean, f->nmeans * sizeof *f->mean);
  if (f->nmeans) own->nmeans = f->nmeans;
  const char **name = arena_array(s->arena, const char *, f->nclasses + 1);
  for (uint32_t i = 0; i < f->nclasses; i++)
    name[i] = arena_text(s->arena, f->class_name[i], strlen(f->class_name[i]));
  if (f->nclasses) own->class_name = name, own->nclasses = f->nclasses;
}

// -- parameter files ----------------------------------------------------------------------------

static void take_mean(Session *s, const char *input, const Array *x) {
  if (x->type != TYPE_F64 || x->elements < 1) return;
  facts_keep(s, &(SourceFacts){.input = input,
                               .nmeans = (uint32_t)x->elements,
                               .mean = arena_copy(s->arena, x->data, (size_t)x->elements * 8)});
}

static void take_classes(Session *s, const char *input, const Array *x) {
  if (x->type != TYPE_U8 || x->elements < 1) return;
  const char *text = arena_text(s->arena, x->data, (size_t)x->elements);
  VEC(const char *) name = {0};
  for (const char *c = text; c < text + x->elements; c += strlen(c) + 1)
    vec_push(s->arena, name) = c;
  facts_keep(s, &(SourceFacts){.input = input, .nclasses = name.n, .class_name = name.at});
}

static void read_array(Session *s, const char *name) {
  bool mean = text_ends(name, mean_end);
  size_t n = strlen(name) - (sizeof prefix - 1) - strlen(mean ? mean_end : classes_end);
  const char *input = arena_text(s->arena, name + sizeof prefix - 1, n);
  Array x = {0};
  if (params_array(s, name, &x)) (mean ? take_mean : take_classes)(s, input, &x);
  array_free(&x);
}

void facts_read_saved(Session *s) {
  if (s->facts_read) return;
  s->facts_read = true;
  // Errors are left to the commands, which load the same files after this.
  Session quiet = *s;
  quiet.diag = diag_new(s->arena);
  const Checkpoint *c;
  const char **name;
  if (checkpoint_given(&quiet, &c)) {
    for (uint32_t i = 0; c && i < c->nfacts; i++) facts_keep(s, &c->facts[i]);
  } else if (params_names(&quiet, &name)) {
    for (; *name; name++)
      if (params_of_data(*name)) read_array(s, *name);
  }
}

uint32_t facts_arrays(const Session *s, NamedArray *out) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->facts.n; i++) {
    const SourceFacts *f = &s->facts.at[i];
    if (f->nmeans)
      out[n++] = (NamedArray){arena_printf(s->arena, "%s%s%s", prefix, f->input, mean_end),
                              {.type = TYPE_F64,
                               .rank = 1,
                               .size = {f->nmeans},
                               .elements = f->nmeans,
                               .data = arena_copy(s->arena, f->mean, f->nmeans * sizeof *f->mean)}};
    size_t bytes = 0, at = 0;
    for (uint32_t k = 0; k < f->nclasses; k++) bytes += strlen(f->class_name[k]) + 1;
    char *text = arena_array(s->arena, char, bytes + 1);
    for (uint32_t k = 0; k < f->nclasses; k++) {
      memcpy(text + at, f->class_name[k], strlen(f->class_name[k]) + 1);
      at += strlen(f->class_name[k]) + 1;
    }
    if (f->nclasses)
      out[n++] = (NamedArray){arena_printf(s->arena, "%s%s%s", prefix, f->input, classes_end),
                              {.type = TYPE_U8,
                               .rank = 1,
                               .size = {(int64_t)bytes},
                               .elements = (int64_t)bytes,
                               .data = text}};
  }
  return n;
}

// -- names for results --------------------------------------------------------------------------

static bool was_sought(const Session *s, const char *input) {
  for (uint32_t i = 0; i < s->sought.n; i++)
    if (strcmp(s->sought.at[i], input) == 0) return true;
  return false;
}

// Finds the facts of an input in block `kind`. Returns false with errors in d.
static bool seek_in(Session *s, BlockKind kind, const char *input, Diag *d) {
  Session quiet = *s;
  FeedInput in;
  SourceFacts found;
  quiet.diag = d;
  if (!data_input(&quiet, kind, input, &in) ||
      !source_learn(s->arena, &in, s->directory, &found, d))
    return false;
  facts_keep(s, &found);
  return true;
}

void facts_seek_classes(Session *s, const char *input) {
  const DataBlock *b = s->model->graph->spec.data;
  if (!session_first(s) || was_sought(s, input)) return;
  vec_push(s->arena, s->sought) = input;
  for (int k = 0; k < DATA_BLOCKS; k++)
    for (uint32_t i = 0; b[k].present && i < b[k].nfields; i++) {
      const DataField *f = &b[k].field[i];
      if (strcmp(f->input, input) != 0 || f->source.classes != CLASSES_AUTO) continue;
      Diag *d = diag_new(s->arena);
      if (!seek_in(s, (BlockKind)k, input, d) && session_remarks(s))
        fprintf(stderr,
                "meshc: classes of %s are numbers: no names are saved with the parameters, and "
                "data %s does not give them: %s\n",
                input, block_text((BlockKind)k), diag_count(d) ? diag_entry(d, 0).text : "");
      return;
    }
}

// -- ranks --------------------------------------------------------------------------------------
//
// Rank 0 reads the source and tells the others what it has found, in the host's byte order, which
// is that of all ranks:
//   nmeans, nclasses u32 | means f64 | names of classes, with a zero byte behind each

typedef struct ToldFacts {
  uint32_t nmeans, nclasses;
} ToldFacts;

static char *pack_facts(Arena *a, const SourceFacts *f, size_t *n) {
  ToldFacts head = {f->nmeans, f->nclasses};
  size_t means = f->nmeans * sizeof *f->mean;
  *n = sizeof head + means;
  for (uint32_t i = 0; i < f->nclasses; i++) *n += strlen(f->class_name[i]) + 1;
  char *out = arena_alloc(a, *n), *at = out + sizeof head + means;
  memcpy(out, &head, sizeof head);
  if (means) memcpy(out + sizeof head, f->mean, means);
  for (uint32_t i = 0; i < f->nclasses; i++) {
    size_t k = strlen(f->class_name[i]) + 1;
    memcpy(at, f->class_name[i], k);
    at += k;
  }
  return out;
}

static void unpack_facts(Arena *a, const char *input, const char *text, SourceFacts *out) {
  ToldFacts head;
  memcpy(&head, text, sizeof head);
  size_t means = head.nmeans * sizeof *out->mean;
  const char **name = arena_array(a, const char *, head.nclasses + 1), *at = text + sizeof head;
  *out = (SourceFacts){.input = input,
                       .nmeans = head.nmeans,
                       .nclasses = head.nclasses,
                       .mean = arena_copy(a, at, means),
                       .class_name = name};
  at += means;
  for (uint32_t i = 0; i < head.nclasses; i++, at += strlen(at) + 1)
    name[i] = arena_text(a, at, strlen(at));
}

// Finds the facts of a source. Several ranks call it together.
static bool learn(Session *s, const FeedInput *in, SourceFacts *out) {
  size_t n = 0;
  const char *mine = "";
  if (session_first(s)) {
    if (!source_learn(s->arena, in, s->directory, out, s->diag)) return false;
    if (!s->ranks) return true;
    mine = pack_facts(s->arena, out, &n);
  }
  int64_t *start = arena_array(s->arena, int64_t, (size_t)ranks_count(s->ranks) + 1);
  char *all = ranks_gather(s->ranks, mine, (int64_t)n, start);
  if (!all) return false;
  unpack_facts(s->arena, in->name, all, out);
  free(all);
  return true;
}

// -- the inputs of a data block -----------------------------------------------------------------

static bool is_complete(const SourceFacts *f, const DataSource *s) {
  return (s->missing != MISSING_MEAN || f->nmeans) && (s->classes != CLASSES_AUTO || f->nclasses);
}

// Returns the source of an input in data train if it has facts; else NULL.
static const DataSource *train_source(const Session *s, const char *input) {
  const DataBlock *b = &s->model->graph->spec.data[DATA_TRAIN];
  for (uint32_t i = 0; b->present && i < b->nfields; i++)
    if (strcmp(b->field[i].input, input) == 0 && source_has_facts(&b->field[i].source))
      return &b->field[i].source;
  return NULL;
}

bool facts_share(Session *s, FeedInput *in) {
  SourceFacts learned;
  if (!s->ranks || in->facts || !source_has_facts(in->source)) return true;
  if (!learn(s, in, &learned)) return false;
  facts_keep(s, &learned);
  in->facts = arena_copy(s->arena, entry_of(s, in->name), sizeof learned);
  return true;
}

bool facts_supply(Session *s, FeedInput *in) {
  if (!source_has_facts(in->source)) return true;
  facts_read_saved(s);
  const SourceFacts *known = entry_of(s, in->name);
  const DataSource *train = train_source(s, in->name);
  if (!is_complete(known, in->source) && train && train != in->source) {
    FeedInput other = *in;
    SourceFacts learned;
    other.source = train;
    if (!learn(s, &other, &learned)) return false;
    facts_keep(s, &learned);
    known = entry_of(s, in->name);
  }
  if (is_complete(known, in->source)) in->facts = arena_copy(s->arena, known, sizeof *known);
  return true;
}

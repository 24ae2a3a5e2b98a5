// Builds the models from which the cost of a layout is computed, for the search for a layout.
//
// To keep the search fast, it works on models with short loops: twelve layers cost as much as one,
// plus eleven times the difference between two layers and one. Such a model with its factor is a
// SearchSample; the cost of a layout is the sum of its costs on all samples, each times its factor.
// There is one sample with a short round of every loop, and one more for each loop, in which that
// loop has one round more. Estimates take one round and two; prices three and four, because the
// first round and the last one compile to other code than those between. Prices take the whole
// model where that has no more nodes than the samples together.
//
// A step of n > 2 micro-batches costs as much as one of two, plus n - 2 times what a third one
// adds: there is each of these samples with two of the micro-batches and with three. The memory of
// a program is that with three. Estimates take one and two, and the memory of one: they add what is
// kept for gradients.
#include <string.h>

#include "frontend/driver/planner_internal.h"
#include "frontend/driver/price_ahead.h"

// What build_variant needs to build a model with short loops, in which most loops have a single
// round.
typedef struct Variant {
  Session *s;
  const Ast *file;  // the model file, with the contents of its imports in it
  ShortLoops loops; // model_build reads the loop with two rounds and lists all loops here
} Variant;

static Variant variant_of(Session *s) {
  return (Variant){
      .s = s, .file = imports_resolve(s->arena, s->names, s->diag, s->ast, s->opt->argument.at[0])};
}

// Returns the model's graph whose dims are those of the selected graph: with micro-batches a
// training step has the dims of one of them.
static const Graph *searched_model(const Model *m, const Selected *of) {
  bool parts = m->part && !m->graph->spec.train[0].sync && !strcmp(of->purpose, "train");
  return parts ? m->part->graph : m->graph;
}

// Builds the model with v->loops.rounds rounds (iterations) of every loop, but one more of `longer`
// (the Ast of a loop, or NULL), and with `parts` of its micro-batches (0: all). Returns its
// simplified graph, and sets *model to its graph before selection. Returns NULL if the model cannot
// be built with such short loops.
static const Graph *build_variant(Variant *v, const Ast *longer, int64_t parts,
                                  const Graph **model) {
  Session s = *v->s;
  ModelOptions options = s.options;
  Selected of;
  Compilation c;
  s.diag = diag_new(s.arena); // errors of the short model are not shown
  options.no_layout = true;
  options.shorten = &v->loops;
  v->loops.longer = longer;
  v->loops.parts = parts;
  s.model = model_build(s.arena, s.names, s.diag, v->file, &options);
  if (!s.model || (train_counts_epochs(s.model) && !train_resolve_epochs(s.model, 1))) return NULL;
  if (!session_make(&s, "simplify", &of, &c)) return NULL;
  *model = searched_model(s.model, &of);
  return c.simplified;
}

// A part of the samples: those with `parts` of the micro-batches (0: all), and by what their
// weights are multiplied.
typedef struct Share {
  int64_t parts;
  double weight, memory;
} Share;
enum { SHARES = 2 };

// Sets out[0..] to the shares of a step of n micro-batches, and returns their number. priced: of
// samples for prices, else for estimates.
static int find_shares(int64_t n, bool priced, Share out[SHARES]) {
  if (n < 2) return out[0] = (Share){0, 1, 1}, 1;
  int64_t few = priced ? 2 : 1;
  out[0] = (Share){few, (double)(few + 1 - n), 1};
  if (n <= few) return 1;
  out[1] = (Share){few + 1, (double)(n - few), priced};
  out[0].memory = !priced;
  return 2;
}

typedef VEC(SearchSample) SampleList;

// Appends the samples of one share to *list. Returns false if a model cannot be built with short
// loops.
static bool add_samples(Variant *v, const Share *share, SampleList *list, const Graph **model) {
  Arena *a = v->s->arena;
  const Graph *other;
  const Graph *g = build_variant(v, NULL, share->parts, model);
  uint32_t loops = v->loops.loop.n, first = list->n;
  double rest = 1;
  vec_push(a, *list) = (SearchSample){.graph = g};
  for (uint32_t i = 0; i < loops; i++) {
    const ShortLoop *l = &v->loops.loop.at[i];
    double more = (double)(l->rounds - v->loops.rounds);
    const Graph *longer = g ? build_variant(v, l->loop, share->parts, &other) : NULL;
    if (!longer) return false;
    rest -= more;
    vec_push(a, *list) = (SearchSample){
        .graph = longer, .weight = share->weight * more, .memory = share->memory * more};
  }
  list->at[first].weight = share->weight * rest;
  list->at[first].memory = share->memory * rest;
  return g && !v->loops.mixed && v->loops.loop.n == loops;
}

// Sets *samples to models of short loops, `rounds` of each, and *n to their number. *model gets the
// first of them before gradients. Returns false if the rounds (iterations) of a loop are not alike,
// or if the model cannot be built with short loops.
static bool short_samples(Variant *v, int64_t rounds, bool priced, uint32_t *n,
                          const SearchSample **samples, const Graph **model) {
  SampleList list = {0};
  Share share[SHARES];
  const TrainSpec *train = v->s->model->graph->spec.train;
  bool trains = v->s->model->part && !train[0].sync;
  int shares = find_shares(trains ? train[0].accumulate : 1, priced, share);
  v->loops = (ShortLoops){.rounds = rounds};
  for (int i = 0; i < shares; i++)
    if (!add_samples(v, &share[i], &list, model)) return false;
  for (uint32_t i = 0; i < list.n; i++)
    list.at[i].known = place_graph(v->s->arena, list.at[i].graph);
  *samples = list.at;
  *n = list.n;
  return true;
}

// Returns the graph of the whole model as a sample of weight 1, or NULL after an error. *model gets
// its graph before gradients.
static const SearchSample *whole_sample(Session *s, const Graph **model) {
  Selected of;
  Compilation c;
  SearchSample *sample = arena_new_of(s->arena, SearchSample);
  if (!session_make(s, "simplify", &of, &c)) return NULL;
  *model = searched_model(s->model, &of);
  *sample = (SearchSample){c.simplified, place_graph(s->arena, c.simplified), 1, 1};
  return sample;
}

// A step of several micro-batches with so few nodes is compiled whole for each price: short models
// would save little, and what is extrapolated from them is not exact.
enum { FEW_NODES = 1000 };

// Returns whether the samples together have fewer nodes than the whole model, and that has more
// than `few`.
static bool are_shorter(uint32_t n, const SearchSample *sample, double few) {
  double whole = 0, together = 0;
  for (uint32_t i = 0; i < n; i++) {
    double nodes = (double)graph_count(sample[i].graph);
    together += nodes;
    whole += sample[i].weight * nodes;
  }
  return together < whole && whole > few;
}

bool planner_prices(Session *s, const Selected *of, SearchTask *out) {
  Variant v = variant_of(s);
  Pricer *p = arena_new_of(s->arena, Pricer);
  const Graph *model;
  if (!s->known) s->known = known_bytes_new(s->arena);
  *p = (Pricer){.s = s,
                .task = out,
                .asked = price_table(s->arena),
                .known = price_table(s->arena),
                .threads = session_threads(s),
                .ahead = prices_ahead_new(s->arena)};
  out->price = price_layout;
  out->ahead = price_ahead;
  out->pricer = p;
  if (of) p->of = *of;
  if (!v.file || (!of && !session_select(s, &p->of))) return false;
  if (short_samples(&v, 3, true, &out->npriced, &out->priced, &model) &&
      are_shorter(out->npriced, out->priced, s->model->part ? FEW_NODES : 0))
    return true;
  out->npriced = 1;
  out->priced = whole_sample(s, &model);
  return out->priced != NULL;
}

const Selected *planner_selected(const SearchTask *t) { return &((const Pricer *)t->pricer)->of; }

bool planner_task(Session *s, uint32_t nmeshes, const Mesh *mesh, uint32_t keep, SearchTask *out) {
  Variant v = variant_of(s);
  const char *names[MAX_AXES];
  *out = (SearchTask){.machine = &s->machine,
                      .threads = session_threads(s),
                      .nmeshes = nmeshes,
                      .mesh = mesh,
                      .keep = keep};
  out->named_axes = s->machine.naxes > 0 || planner_pinned(s, names) > 0;
  if (!v.file || !session_memory(s, &out->memory)) return false;
  if (short_samples(&v, 1, false, &out->nsamples, &out->sample, &out->model)) return true;
  out->nsamples = 1;
  out->sample = whole_sample(s, &out->model);
  return out->sample != NULL;
}

bool planner_long_samples(Session *s, SearchTask *out) {
  enum { ALL_ROUNDS = INT32_MAX };
  Variant v = variant_of(s);
  const Graph *model;
  return v.file && short_samples(&v, ALL_ROUNDS, true, &out->npriced, &out->priced, &model);
}

// Prices a layout at a recompute level: compiles the samples of the search up to their programs,
// simulates a step of each, and adds the results with the weights of the samples. A model of 32
// layers costs -28 times the model of three layers and 29 times that of four. Memory is
// extrapolated by price_peak.c, from the samples whose memory counts.
//
// All levels of a layout share the placement and the graph of one processor. Where that graph,
// changed by a level, is one that was priced before, its price is taken: where no parameters are
// gathered, say, gathering them again changes nothing; and rules of other layouts may change
// nothing, or only what is not in this sample.
//
// A sample is compiled as a part of the whole model: what pays only in many layers pays in it, too.
//
// The samples are compiled beside each other (ir/base/jobs.h). Nothing that they share is changed
// meanwhile: the table of known prices gets what is new afterwards.
#include "frontend/driver/price_samples.h"

#include "frontend/driver/price_known.h"
#include "frontend/driver/price_peak.h"
#include "ir/base/hash.h"
#include "ir/base/jobs.h"

struct PricedSample {
  Session s;
  Compilation made; // up to stage "collectives", in s.arena
  bool begun;
};

static double bytes_sent(const CollFacts *facts) {
  double sum = 0;
  for (uint32_t i = 0; i < facts->n; i++)
    sum += (double)facts->fact[i].times * (double)facts->fact[i].wire_bytes;
  return sum;
}

void price_add(Arena *a, const Pricer *p, const Compilation *c, SearchPrice *sum) {
  const Simulation *t = simulate(a, c->compiled, &p->s->machine);
  double products = t->of_kind[INSTR_GEMM];
  sum->seconds += t->seconds;
  sum->products += products;
  sum->kernels += t->compute - products;
  sum->transfer += t->transfer - t->hidden;
  sum->sent += bytes_sent(c->facts);
}

bool price_compile(const Pricer *p, Session *s, const Mesh *mesh, const Layout *layout,
                   ProgramWay way, uint32_t i, Compilation *c) {
  *s = *p->s;
  s->arena = arena_new();
  s->names = intern_over(s->arena, p->s->names);
  s->diag = diag_new(s->arena);              // warnings are for programs that are used
  if (p->task->npriced > 1) s->known = NULL; // nobody asks for the memory of a short model
  Graph *g = arena_new_of(s->arena, Graph);
  *g = layout_apply(s->arena, p->task->priced[i].graph, mesh, layout);
  s->simplified = true; // samples are
  return session_program(s, s->arena, g, &p->of, way, c);
}

Priced priced_begin(const Pricer *p, const Mesh *mesh, const Layout *layout) {
  Priced l = {.p = p, .mesh = mesh, .layout = layout, .known = p->known, .a = arena_new()};
  if (!l.known) l.known = price_table(l.a);
  return l;
}

void priced_end(Priced *l) {
  for (int plain = 0; plain < 2; plain++)
    for (uint32_t i = 0; l->sample[plain] && i < l->p->task->npriced; i++)
      arena_free(l->sample[plain][i].s.arena);
  arena_free(l->a);
}

// Returns how many times the nodes of sample i the whole model has.
static double times_of(const SearchTask *t, uint32_t i) {
  double whole = 0;
  for (uint32_t k = 0; k < t->npriced; k++)
    whole += t->priced[k].weight * (double)graph_count(t->priced[k].graph);
  return whole / (double)graph_count(t->priced[i].graph);
}

// What is done with one sample.
typedef struct SampleJob {
  Priced *l;
  uint32_t i;
  Job job;
  // To begin it: compile it as far as all levels share it.
  SumOrder sums;
  bool modest;
  // To price it at a level. hash: of its graph there; known: its price, which is `own` if it is not
  // in the table yet, or NULL; a: the arena of that price.
  int level;
  uint64_t hash;
  KnownPrice own;
  const KnownPrice *known;
  Arena *a;
} SampleJob;

// Does the work for all samples. `of` says what is to be done; *all gets one job for each sample.
static void run_samples(Priced *l, Arena *a, GuardedWork *work, SampleJob of, SampleJob **all) {
  uint32_t n = l->p->task->npriced;
  SampleJob *x = *all = arena_array(a, SampleJob, n);
  Jobs *jobs = jobs_new(a, l->p->threads);
  of.l = l;
  for (uint32_t i = n; i-- > 0;) { // the longest first: then all threads have work to the end
    x[i] = of;
    x[i].i = i;
    x[i].job = (Job){work, &x[i], NULL};
    jobs_add(jobs, &x[i].job);
  }
  jobs_run(jobs);
}

static void begin_sample(void *job) {
  const SampleJob *j = job;
  Priced *l = j->l;
  PricedSample *x = &l->sample[l->plain][j->i];
  ProgramWay way = {.plain = l->plain,
                    .sums = j->sums,
                    .modest = j->modest,
                    .last = "collectives",
                    .times = times_of(l->p->task, j->i)};
  arena_free(x->s.arena);
  x->begun = price_compile(l->p, &x->s, l->mesh, l->layout, way, j->i, &x->made);
}

// Compiles all samples alike. Returns false if one cannot be compiled.
static bool begin_all(Priced *l, SumOrder sums, bool modest) {
  SampleJob *all;
  Arena *a = arena_new();
  bool good = true;
  run_samples(l, a, begin_sample, (SampleJob){.sums = sums, .modest = modest}, &all);
  for (uint32_t i = 0; i < l->p->task->npriced; i++) good &= l->sample[l->plain][i].begun;
  arena_free(a);
  return good;
}

// Returns the order in which the whole model reduces sums: the one that estimates prefer. Where the
// compiler compares the programs of both, it is the early one, which as a rule needs less memory.
static SumOrder order_of_sums(const Priced *l) {
  double saves = 0;
  for (uint32_t i = 0; i < l->p->task->npriced; i++) {
    const Placement *x = l->sample[l->plain][i].made.placement;
    if (x->modest && x->modest->late_saves != 0) return SUMS_EARLY;
    saves += l->p->task->priced[i].weight * x->late_saves;
  }
  return saves > 0 ? SUMS_LATE : saves < 0 ? SUMS_EARLY : SUMS_BEST;
}

// Returns whether the placement of a sample has moves that may add redundant work.
static bool adds_work(const PricedSample *x) { return x->made.placement->modest != NULL; }

// Compiles all samples as far as all levels share them. What samples of different lengths cost is
// subtracted, so their layers must be placed alike: all reduce sums in the order of the whole model;
// and if some take redundant work and others do not, none does.
static void begin_samples(Priced *l) {
  uint32_t n = l->p->task->npriced, adding = 0;
  PricedSample *all = l->sample[l->plain] = arena_array(l->a, PricedSample, n);
  if (!begin_all(l, SUMS_BEST, false)) return;
  SumOrder sums = order_of_sums(l);
  if (sums != SUMS_BEST && !begin_all(l, sums, false)) return;
  for (uint32_t i = 0; i < n; i++) adding += adds_work(&all[i]);
  if (adding > 0 && adding < n) (void)begin_all(l, sums, true);
}

// Returns a hash of sample i with its graph in which values are rematerialised: what the price and
// the memory of its program depend on.
static uint64_t level_hash(uint32_t i, const Graph *g) {
  uint64_t h = hash_word(graph_hash(g), i);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Origin *from = graph_node(g, n)->origin;
    h = hash_word(h, (uint64_t)from->pos.line << 32 | from->pos.col);
    h = hash_word(h, from->backward);
  }
  return h;
}

// Looks for the price of the same graph. Returns whether it is not known.
static bool is_new(void *watcher, const Graph *rematerialised) {
  SampleJob *j = watcher;
  j->hash = level_hash(j->i, rematerialised);
  j->known = price_find(j->l->known, j->hash);
  return !j->known;
}

// Notes what the compiled program of a level says of a sample.
static void note_level(SampleJob *j, const Session *s, const Compilation *c) {
  double weight = j->l->p->task->priced[j->i].memory;
  j->own.none.programs = 1;
  j->known = &j->own;
  price_add(s->arena, j->l->p, c, &j->own.none);
  if (weight == 0) return;
  j->own.memory_of = arena_new_of(j->a, SampleMemory);
  *j->own.memory_of = sample_memory(j->a, c, weight);
}

// Finds what is known of a sample at a level.
static void price_sample(void *job) {
  SampleJob *j = job;
  const PricedSample *x = &j->l->sample[j->l->plain][j->i];
  ProgramWay way = {.begun = &x->made,
                    .first = true,
                    .again = j->level,
                    .wanted_again = is_new,
                    .watcher = j,
                    .times = times_of(j->l->p->task, j->i)};
  Session s = x->s;
  Compilation c;
  if (!x->begun) return;
  s.arena = arena_new();
  j->a = arena_new();
  bool made = session_program(&s, s.arena, x->made.selected, &j->l->p->of, way, &c);
  if (!made) j->known = NULL;
  if (made && !j->known) note_level(j, &s, &c);
  arena_free(s.arena);
}

// Keeps the price of a sample, if it is new.
static void keep_price(SampleJob *j) {
  PriceTable *t = j->l->known;
  if (j->known == &j->own) j->known = price_keep(t, j->hash, &j->own);
  if (j->a) arena_join(price_table_arena(t), j->a);
}

static void add_weighted(const SearchPrice *of, double weight, SearchPrice *sum) {
  sum->seconds += weight * of->seconds;
  sum->products += weight * of->products;
  sum->kernels += weight * of->kernels;
  sum->transfer += weight * of->transfer;
  sum->sent += weight * of->sent;
}

bool price_level(Priced *l, int level, SearchPrice *out) {
  const SearchTask *t = l->p->task;
  Arena *a = arena_new();
  SampleMemory *memory = arena_array(a, SampleMemory, t->npriced + 1);
  SampleJob *all;
  uint32_t i = 0, counted = 0;
  *out = (SearchPrice){0};
  if (!l->sample[l->plain]) begin_samples(l);
  run_samples(l, a, price_sample, (SampleJob){.level = level}, &all);
  for (uint32_t k = 0; k < t->npriced; k++) keep_price(&all[k]);
  for (; i < t->npriced && all[i].known; i++) {
    add_weighted(&all[i].known->none, t->priced[i].weight, out);
    if (t->priced[i].memory != 0) memory[counted++] = *all[i].known->memory_of;
  }
  if (i == t->npriced) out->peak = price_peak(counted, memory, &out->kept);
  l->programs++;
  arena_free(a);
  return i == t->npriced;
}

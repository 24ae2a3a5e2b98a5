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
#include "frontend/driver/price_samples.h"

#include "frontend/driver/price_known.h"
#include "frontend/driver/price_peak.h"
#include "ir/base/hash.h"

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
  s->diag = diag_new(s->arena); // warnings are for programs that are used
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

// Compiles sample i as far as all levels share it.
static void begin_sample(Priced *l, uint32_t i, SumOrder sums, bool modest) {
  PricedSample *x = &l->sample[l->plain][i];
  ProgramWay way = {.plain = l->plain,
                    .sums = sums,
                    .modest = modest,
                    .last = "collectives",
                    .times = times_of(l->p->task, i)};
  arena_free(x->s.arena);
  x->begun = price_compile(l->p, &x->s, l->mesh, l->layout, way, i, &x->made);
}

// Compiles all samples alike. Returns false if one cannot be compiled.
static bool begin_all(Priced *l, SumOrder sums) {
  PricedSample *all = l->sample[l->plain];
  for (uint32_t i = 0; i < l->p->task->npriced; i++) {
    begin_sample(l, i, sums, false);
    if (!all[i].begun) return false;
  }
  return true;
}

// Returns what the whole model saves where sums are reduced late (Placement.late_saves).
static double late_saves(const Priced *l) {
  double sum = 0;
  for (uint32_t i = 0; i < l->p->task->npriced; i++)
    sum += l->p->task->priced[i].weight * l->sample[l->plain][i].made.placement->late_saves;
  return sum;
}

// Returns whether the placement of a sample has moves that may add redundant work.
static bool adds_work(const PricedSample *x) { return x->made.placement->modest != NULL; }

// Compiles all samples as far as all levels share them. What samples of different lengths cost is
// subtracted, so their layers must be placed alike: all reduce sums in the order that is better for
// the whole model; and if some take redundant work and others do not, none does.
static void begin_samples(Priced *l) {
  uint32_t n = l->p->task->npriced, adding = 0;
  PricedSample *all = l->sample[l->plain] = arena_array(l->a, PricedSample, n);
  if (!begin_all(l, SUMS_BEST)) return;
  double saves = late_saves(l);
  SumOrder sums = saves > 0 ? SUMS_LATE : saves < 0 ? SUMS_EARLY : SUMS_BEST;
  if (sums != SUMS_BEST && !begin_all(l, sums)) return;
  for (uint32_t i = 0; i < n; i++) adding += adds_work(&all[i]);
  for (uint32_t i = 0; i < n && adding < n; i++)
    if (adds_work(&all[i])) begin_sample(l, i, sums, true);
}

// What is sought while a level is compiled: the price of the same graph.
typedef struct Sought {
  PriceTable *table;
  uint32_t sample;
  KnownPrice *known;
} Sought;

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

static bool is_new(void *watcher, const Graph *rematerialised) {
  Sought *x = watcher;
  x->known = price_known(x->table, level_hash(x->sample, rematerialised));
  return !x->known->none.programs;
}

// Notes what the compiled program of a level says of sample i.
static void note_level(const Priced *l, uint32_t i, const Session *s, const Compilation *c,
                       KnownPrice *known) {
  Arena *a = price_table_arena(l->known);
  double weight = l->p->task->priced[i].memory;
  known->none.programs = 1;
  price_add(s->arena, l->p, c, &known->none);
  if (weight == 0) return;
  known->memory_of = arena_new_of(a, SampleMemory);
  *known->memory_of = sample_memory(a, c, weight);
}

// Returns what is known of sample i at a level, or NULL if it cannot be compiled.
static const KnownPrice *price_sample(Priced *l, uint32_t i, int level) {
  const PricedSample *x = &l->sample[l->plain][i];
  if (!x->begun) return NULL;
  Sought sought = {.table = l->known, .sample = i};
  ProgramWay way = {.begun = &x->made,
                    .first = true,
                    .again = level,
                    .wanted_again = is_new,
                    .watcher = &sought,
                    .times = times_of(l->p->task, i)};
  Session s = x->s;
  Compilation c;
  s.arena = arena_new();
  bool made = session_program(&s, s.arena, x->made.selected, &l->p->of, way, &c);
  if (made && !sought.known->none.programs) note_level(l, i, &s, &c, sought.known);
  arena_free(s.arena);
  return made ? sought.known : NULL;
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
  uint32_t i = 0, counted = 0;
  const KnownPrice *x;
  *out = (SearchPrice){0};
  if (!l->sample[l->plain]) begin_samples(l);
  for (; i < t->npriced && (x = price_sample(l, i, level)); i++) {
    add_weighted(&x->none, t->priced[i].weight, out);
    if (t->priced[i].memory != 0) memory[counted++] = *x->memory_of;
  }
  if (i == t->npriced) out->peak = price_peak(counted, memory, &out->kept);
  l->programs++;
  arena_free(a);
  return i == t->npriced;
}

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

Session price_session(const Pricer *p) {
  Session s = session_of_job(p->s, arena_new());
  s.simplified = true;                      // samples are
  if (p->task->npriced > 1) s.known = NULL; // nobody asks for the memory of a short model
  return s;
}

bool price_compile(const Pricer *p, Session *s, const Mesh *mesh, const Layout *layout,
                   ProgramWay way, uint32_t i, Compilation *c) {
  Graph *g = arena_new_of(s->arena, Graph);
  *g = layout_apply(s->arena, p->task->priced[i].graph, mesh, layout);
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

// Runs a job for each sample. The caller makes what outlives a job, also arenas (ir/base/jobs.h).
static void run_jobs(const Priced *l, Arena *a, Job *const *job) {
  Jobs *jobs = jobs_new(a, l->p->threads);
  for (uint32_t i = l->p->task->npriced; i-- > 0;) // the longest first: then all threads have work
    jobs_add(jobs, job[i]);
  jobs_run(jobs);
}

// Compiles a sample as far as all levels share it.
typedef struct BeginJob {
  Job job;
  Priced *l;
  uint32_t i;
  SumOrder sums;
  bool modest;
} BeginJob;

static void begin_sample(void *job) {
  const BeginJob *j = job;
  const Priced *l = j->l;
  PricedSample *x = &l->sample[l->plain][j->i];
  ProgramWay way = {.plain = l->plain,
                    .sums = j->sums,
                    .modest = j->modest,
                    .last = "collectives",
                    .times = times_of(l->p->task, j->i)};
  x->begun = price_compile(l->p, &x->s, l->mesh, l->layout, way, j->i, &x->made);
}

// Begins all samples alike. Returns false if one cannot be compiled.
static bool begin_all(Priced *l, SumOrder sums, bool modest) {
  uint32_t n = l->p->task->npriced;
  PricedSample *all = l->sample[l->plain];
  Arena *a = arena_new();
  Job **job = arena_array(a, Job *, n);
  bool good = true;
  for (uint32_t i = 0; i < n; i++) {
    BeginJob *j = arena_new_of(a, BeginJob);
    *j = (BeginJob){.job = {begin_sample, j, NULL}, l, i, sums, modest};
    job[i] = &j->job;
    arena_free(all[i].s.arena);
    all[i].s = price_session(l->p);
  }
  run_jobs(l, a, job);
  for (uint32_t i = 0; i < n; i++) good &= all[i].begun;
  arena_free(a);
  return good;
}

// Returns the order in which the whole model reduces sums: the one that estimates prefer. Where the
// compiler compares the programs of both, it is the early one, which as a rule needs less memory.
static SumOrder order_of_sums(const Priced *l) {
  double saves = 0;
  for (uint32_t i = 0; i < l->p->task->npriced; i++) {
    const Placement *x = l->sample[l->plain][i].made.placement;
    if (x->full) x = x->full; // the compiler has taken the other one
    if (x->late) return SUMS_EARLY;
    saves += l->p->task->priced[i].weight * x->late_saves;
  }
  return saves > 0 ? SUMS_LATE : saves < 0 ? SUMS_EARLY : SUMS_BEST;
}

// Returns whether the placement of a sample has moves that may add redundant work.
static bool adds_work(const PricedSample *x) { return x->made.placement->modest != NULL; }

// Compiles all samples as far as all levels share them. What samples of different lengths cost is
// subtracted, so their layers must be placed alike: all reduce sums in the order of the whole
// model; and if some take redundant work and others do not, none does.
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

// Prices a sample at a level.
typedef struct LevelJob {
  Job job;
  const Priced *l;
  uint32_t i;
  int level;
  uint64_t hash;           // of its graph at this level
  const KnownPrice *known; // the price: `own` if it is not in the table yet; NULL: there is none
  KnownPrice own;
  Arena *a; // of the memory of `own`
} LevelJob;

// Looks for the price of the same graph. Returns whether it is not known.
static bool is_new(void *watcher, const Graph *rematerialised) {
  LevelJob *j = watcher;
  j->hash = level_hash(j->i, rematerialised);
  j->known = price_find(j->l->known, j->hash);
  return !j->known;
}

// Notes what the compiled program of a level says of a sample.
static void note_level(LevelJob *j, const Session *s, const Compilation *c) {
  double weight = j->l->p->task->priced[j->i].memory;
  j->own.none.programs = 1;
  j->known = &j->own;
  price_add(s->arena, j->l->p, c, &j->own.none);
  if (weight == 0) return;
  j->own.memory_of = arena_new_of(j->a, SampleMemory);
  *j->own.memory_of = sample_memory(j->a, c, weight);
}

static void price_sample(void *job) {
  LevelJob *j = job;
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
  bool made = session_program(&s, s.arena, x->made.selected, &j->l->p->of, way, &c);
  if (!made) j->known = NULL;
  if (made && !j->known) note_level(j, &s, &c);
  arena_free(s.arena);
}

// Prices all samples at a level. What is new is then in the table of known prices, too.
static LevelJob *price_samples(Priced *l, Arena *a, int level) {
  uint32_t n = l->p->task->npriced;
  LevelJob *all = arena_array(a, LevelJob, n);
  Job **job = arena_array(a, Job *, n);
  for (uint32_t i = 0; i < n; i++) {
    all[i] = (LevelJob){.job = {price_sample, &all[i], NULL}, l, i, level, .a = arena_new()};
    job[i] = &all[i].job;
  }
  run_jobs(l, a, job);
  for (uint32_t i = 0; i < n; i++) {
    if (all[i].known == &all[i].own) all[i].known = price_keep(l->known, all[i].hash, &all[i].own);
    arena_free(all[i].a);
  }
  return all;
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
  *out = (SearchPrice){0};
  if (!l->sample[l->plain]) begin_samples(l);
  const LevelJob *all = price_samples(l, a, level);
  for (; i < t->npriced && all[i].known; i++) {
    add_weighted(&all[i].known->none, t->priced[i].weight, out);
    if (t->priced[i].memory != 0) memory[counted++] = *all[i].known->memory_of;
  }
  if (i == t->npriced) out->peak = price_peak(counted, memory, &out->kept);
  l->programs++;
  arena_free(a);
  return i == t->npriced;
}

// Prices a layout for the search: compiles the samples of the search (models with short loops) up
// to their programs, simulates a step of each, and adds the results with the weights of the
// samples. A model of 32 layers costs -28 times the model of three layers and 29 times that of
// four. Memory is extrapolated by price_peak.c, from the samples whose memory counts.
//
// Where it is more than a processor has, a model that is its own only sample is compiled for the
// memory that there is, as the compiler does it, unless that is far from enough. Other samples are
// compiled again at some recompute levels. Where little memory lacks, the first one is that for
// cheap values. Else it is that for all segments of the forward pass and, if it fits, that for
// cheap values and all that was gathered. If that fits, too, those below it follow, down to the
// first that fits. If not, the compiler recomputes one segment more with each level from there on,
// and the least share of the segments that fits is interpolated between none and all of them:
//
//   share = (memory with none - limit) / (memory with none - memory with all), time alike
//
// Of a model that is its own only sample each program is compiled once: of layouts that ask the
// same of all values, or whose lowered graphs are equal, the price of the first is taken.
//
// What does not quite fit with all segments is also priced with none, at the highest level, and
// with the plain placement: where parameters are gathered, the clones of all segments may need more
// than they save.
#include "frontend/driver/price.h"

#include <math.h>

#include "frontend/driver/price_known.h"
#include "frontend/driver/price_peak.h"

// A program that needs this many times the memory does not fit at any recompute level.
static const double HOPELESS = 16;
// If a program needs more than this many times the memory with all segments recomputed, the highest
// level and the plain placement do not fit either.
static const double NEAR = 1.5;
// A program of another recompute level takes half as much work: the placement is the same.
enum { TRIALS_A_PROGRAM = 2 };

static double bytes_sent(const CollFacts *facts) {
  double sum = 0;
  for (uint32_t i = 0; i < facts->n; i++)
    sum += (double)facts->fact[i].times * (double)facts->fact[i].wire_bytes;
  return sum;
}

// Adds the price of one compiled sample, `weight` times, but for the peak.
static void add_sample(Arena *a, const Pricer *p, const Compilation *c, double weight,
                       SearchPrice *sum) {
  const Simulation *t = simulate(a, c->compiled, &p->s->machine);
  double products = t->of_kind[INSTR_GEMM];
  sum->seconds += weight * t->seconds;
  sum->products += weight * products;
  sum->kernels += weight * (t->compute - products);
  sum->transfer += weight * (t->transfer - t->hidden);
  sum->sent += weight * bytes_sent(c->facts);
}

// Compiles sample i, in arenas of `s`, a session that the caller frees (s->arena).
static bool compile_sample(const Pricer *p, Session *s, const Mesh *mesh, const Layout *layout,
                           ProgramWay way, uint32_t i, Compilation *c) {
  *s = *p->s;
  s->arena = arena_new();
  s->diag = diag_new(s->arena); // warnings are for programs that are used
  Graph *g = arena_new_of(s->arena, Graph);
  *g = layout_apply(s->arena, p->task->priced[i].graph, mesh, layout);
  return session_program(s, s->arena, g, &p->of, way, c);
}

// Compiles sample i and adds its price to *sum. Sets *memory to its memory, in arena `a`, if that
// counts.
static bool price_sample(const Pricer *p, Arena *a, const Mesh *mesh, const Layout *layout,
                         ProgramWay way, uint32_t i, SearchPrice *sum, SampleMemory *memory) {
  const SearchSample *sample = &p->task->priced[i];
  Session s;
  Compilation c;
  bool made = compile_sample(p, &s, mesh, layout, way, i, &c);
  if (made) {
    add_sample(s.arena, p, &c, sample->weight, sum);
    if (sample->memory != 0) *memory = sample_memory(a, &c, sample->memory);
  }
  arena_free(s.arena);
  return made;
}

// Sets *out to the price of the programs that are compiled in this way.
static bool price_at(const Pricer *p, const Mesh *mesh, const Layout *layout, ProgramWay way,
                     SearchPrice *out) {
  Arena *a = arena_new();
  uint32_t n = p->task->npriced, i = 0, counted = 0;
  SampleMemory *memory = arena_array(a, SampleMemory, n + 1);
  *out = (SearchPrice){.programs = 1};
  for (; i < n && price_sample(p, a, mesh, layout, way, i, out, &memory[counted]); i++)
    counted += p->task->priced[i].memory != 0;
  if (i == n) out->peak = price_peak(counted, memory, &out->kept);
  arena_free(a);
  return i == n;
}

static double between(double x, double y, double share) { return x + share * (y - x); }

// Returns the price at which `share` of the segments are recomputed.
static SearchPrice price_between(const SearchPrice *none, const SearchPrice *all, double share) {
  return (SearchPrice){.seconds = between(none->seconds, all->seconds, share),
                       .products = between(none->products, all->products, share),
                       .kernels = between(none->kernels, all->kernels, share),
                       .transfer = between(none->transfer, all->transfer, share),
                       .sent = between(none->sent, all->sent, share),
                       .peak = between(none->peak, all->peak, share),
                       .kept = all->kept,
                       .again = share};
}

// Sets *all, the price with all segments recomputed, which fits, to that of the least recomputation
// that fits: of kinds of values only or, where the highest level of these does not fit, of some of
// the segments.
static bool recompute_less(const Pricer *p, const Mesh *mesh, const Layout *layout, bool plain,
                           SearchPrice *all) {
  static const int levels[] = {AGAIN_GATHERS, AGAIN_PARAMETERS, AGAIN_CHEAP};
  double memory = p->task->memory;
  int programs = all->programs;
  bool fits = true;
  for (size_t i = 0; i < countof(levels) && fits; i++) {
    SearchPrice less;
    ProgramWay way = {.again = levels[i], .plain = plain};
    if (!price_at(p, mesh, layout, way, &less)) return false;
    programs++;
    fits = less.peak <= memory;
    if (!fits && i > 0) break;
    if (!fits) {
      less = price_between(&less, all, (less.peak - memory) / (less.peak - all->peak));
      less.peak = memory; // rounded, it might be above
    }
    *all = less;
  }
  all->programs = programs;
  return true;
}

// Sets *all, the price with all segments recomputed, which does not quite fit, to that of another
// level if it needs less memory: of cheap values and gathered parameters only, of all that was
// gathered, or, if these do not fit either, of all that can be recomputed.
static bool recompute_other(const Pricer *p, const Mesh *mesh, const Layout *layout, bool plain,
                            SearchPrice *all) {
  static const int levels[] = {AGAIN_PARAMETERS, AGAIN_GATHERS, AGAIN_ALL};
  for (size_t i = 0; i < countof(levels) && all->peak > p->task->memory; i++) {
    ProgramWay way = {.again = levels[i], .plain = plain};
    SearchPrice other;
    int programs = all->programs + 1;
    if (!price_at(p, mesh, layout, way, &other)) return false;
    other.again = levels[i] == AGAIN_ALL;
    if (other.peak < all->peak) *all = other;
    all->programs = programs;
  }
  return true;
}

// Sets *price to that of the least recomputation that fits, or of that which needs least memory.
// Full recomputation is priced first, because many layouts do not fit even then.
static bool recompute_some(const Pricer *p, const Mesh *mesh, const Layout *layout, bool plain,
                           SearchPrice *price) {
  double memory = p->task->memory;
  ProgramWay way = {.again = AGAIN_SEGMENTS, .plain = plain};
  if (!price_at(p, mesh, layout, way, price)) return false;
  price->again = 1;
  if (price->peak <= memory) return recompute_less(p, mesh, layout, plain, price);
  return price->peak > NEAR * memory || recompute_other(p, mesh, layout, plain, price);
}

// As recompute_some. none: the price without recomputation, NULL: not known. Where that needs
// little more than the memory, recomputing cheap values is likely to be enough.
static bool recompute(const Pricer *p, const Mesh *mesh, const Layout *layout, bool plain,
                      const SearchPrice *none, SearchPrice *price) {
  double memory = p->task->memory;
  ProgramWay way = {.again = AGAIN_CHEAP, .plain = plain};
  SearchPrice again = {.peak = (double)INFINITY};
  int programs = none ? none->programs : 0;
  if (none && none->peak <= NEAR * memory) {
    if (!price_at(p, mesh, layout, way, &again)) return false;
    if (again.peak > memory) programs++;
  }
  if (again.peak > memory && !recompute_some(p, mesh, layout, plain, &again)) return false;
  *price = none && none->peak < again.peak ? *none : again;
  price->unlimited = none ? none->seconds : 0;
  price->unlimited_peak = none ? none->peak : 0;
  price->programs = again.programs + programs;
  return true;
}

// Sets *price, which needs more than the memory, to that of the plain placement if this needs less
// memory.
static bool place_plainly(const Pricer *p, const Mesh *mesh, const Layout *layout,
                          SearchPrice *price) {
  SearchPrice none, plain;
  if (!price_at(p, mesh, layout, (ProgramWay){.plain = true}, &none)) return false;
  plain = none;
  if (none.peak > p->task->memory && !recompute(p, mesh, layout, true, &none, &plain)) return false;
  int programs = price->programs + plain.programs;
  if (plain.peak < price->peak) *price = plain;
  price->programs = programs;
  return true;
}

// Sets *price to that of a program that is compiled for the memory, in which it does not fit
// without recomputation. none: as in recompute.
static bool price_within(const Pricer *p, const Mesh *mesh, const Layout *layout,
                         const SearchPrice *none, SearchPrice *price) {
  double memory = p->task->memory;
  if (!recompute(p, mesh, layout, false, none, price)) return false;
  bool near = price->peak > memory && price->peak <= NEAR * memory;
  return !near || place_plainly(p, mesh, layout, price);
}

// Sets *price, of a layout that is likely to need recomputation. Returns false if it cannot be
// compiled.
static bool price_over(const Pricer *p, const Mesh *mesh, const Layout *layout,
                       SearchPrice *price) {
  SearchPrice none;
  if (!price_within(p, mesh, layout, NULL, price)) return false;
  if (price->peak > p->task->memory || price->again > 0) return true;
  int programs = price->programs + 1;
  if (!price_at(p, mesh, layout, (ProgramWay){0}, &none)) return false;
  if (none.peak <= p->task->memory) *price = none;
  price->programs = programs;
  return true;
}

// Sets *out to the figures of the program of a model that is its own only sample.
static void set_figures(const Pricer *p, Session *s, const Compilation *c, SearchPrice *out) {
  *out = (SearchPrice){.programs = 1};
  add_sample(s->arena, p, c, 1, out);
  out->peak = (double)program_bytes(c->compiled->program);
  out->kept = out->peak - (double)c->compiled->program->arena_bytes;
  out->open = out->peak > p->task->memory;
}

// Returns whether a program is worth compiling with recomputation. none: its price without.
static bool may_recompute(const Pricer *p, SearchHint hint, const SearchPrice *none) {
  double memory = p->task->memory;
  bool slow = hint.enough > 0 && none->seconds > hint.enough;
  return !hint.as_is && none->peak > memory && none->peak <= HOPELESS * memory && !slow;
}

// What tells whether a program has been priced before.
typedef struct Probe {
  const Pricer *p;
  KnownPrice *known; // of the program; NULL: without a table
  bool old;          // it has been priced before
} Probe;

static bool is_new(void *watcher, const Graph *lowered) {
  Probe *probe = watcher;
  probe->known = price_known(probe->p->known, graph_hash(lowered));
  probe->old = probe->known->none.programs > 0;
  return !probe->old;
}

// Returns the hash of the lowered graph of compile c with the plain placement.
static uint64_t plain_hash(const Pricer *p, Arena *a, const Compilation *c) {
  const Graph *g = c->simplified;
  return graph_hash(lower(a, place_plain(a, g, &g->layout, &p->s->machine)));
}

// Returns whether the price of a program with recomputation is known.
static bool is_known_within(const Pricer *p, Session *s, const Compilation *c,
                            const KnownPrice *known) {
  return known && known->memory == p->task->memory &&
         (!known->plain || known->plain == plain_hash(p, s->arena, c));
}

// Sets *price, of the program c that needs more than the memory, to that with recomputation.
static bool recompute_whole(const Pricer *p, Session *s, const Compilation *c, KnownPrice *known,
                            SearchPrice *price) {
  ProgramWay way = {.memory = (int64_t)p->task->memory, .sparing = true, .unlimited = c};
  Compilation within = {0};
  if (!session_program(s, s->arena, c->selected, &p->of, way, &within)) return false;
  set_figures(p, s, &within, price);
  price->peak = fmin(price->peak, (double)within.least); // of programs that do not fit
  price->open = within.gave_up;
  price->programs += within.trials / TRIALS_A_PROGRAM;
  if (!known) return true;
  known->memory = p->task->memory;
  known->within = *price;
  known->plain = within.plain_tried ? plain_hash(p, s->arena, c) : 0;
  return true;
}

// As recompute_whole, of a program that may have been priced before, with recomputation or without.
static bool recompute_known(const Probe *probe, Session *s, Compilation *c, SearchPrice *price) {
  const Pricer *p = probe->p;
  if (is_known_within(p, s, c, probe->known)) {
    *price = probe->known->within;
    price->programs = !probe->old;
    return true;
  }
  return (!probe->old || session_program(s, s->arena, c->selected, &p->of, (ProgramWay){0}, c)) &&
         recompute_whole(p, s, c, probe->known, price);
}

// Compiles a model that is its own only sample, and sets *out to its price. Keeps it in *asked, the
// entry of what the layout asks.
static bool compile_whole(const Pricer *p, const Mesh *mesh, const Layout *layout, SearchHint hint,
                          KnownPrice *asked, SearchPrice *out) {
  Session s;
  Compilation c;
  Probe probe = {.p = p};
  ProgramWay way = {.wanted = p->known ? is_new : NULL, .watcher = &probe};
  bool good = compile_sample(p, &s, mesh, layout, way, 0, &c);
  if (good) {
    if (probe.old)
      *out = probe.known->none;
    else
      set_figures(p, &s, &c, out);
    if (probe.known) probe.known->none = *out;
    asked->none = *out;
    out->programs = !probe.old;
    if (may_recompute(p, hint, &asked->none)) {
      good = recompute_known(&probe, &s, &c, out);
      asked->memory = good ? p->task->memory : 0;
      asked->within = *out;
    }
  }
  arena_free(s.arena);
  return good;
}

// Sets *out to the price of a layout that asks what another one did, if that is known.
static bool take_asked(const Pricer *p, const KnownPrice *asked, SearchHint hint,
                       SearchPrice *out) {
  if (!asked->none.programs) return false;
  bool within = may_recompute(p, hint, &asked->none);
  if (within && asked->memory != p->task->memory) return false;
  *out = within ? asked->within : asked->none;
  out->programs = 0;
  out->asked = true;
  return true;
}

// As price_layout, of a model that is its own only sample.
static bool price_whole(const Pricer *p, const Mesh *mesh, const Layout *layout, SearchHint hint,
                        SearchPrice *out) {
  KnownPrice own = {0}, *asked = &own;
  if (p->asked) asked = price_known(p->asked, search_asked(1, p->task->priced, mesh, layout));
  if (!take_asked(p, asked, hint, out) && !compile_whole(p, mesh, layout, hint, asked, out))
    return false;
  out->unlimited = asked->none.seconds;
  out->unlimited_peak = asked->none.peak;
  return true;
}

bool price_layout(void *with, const Mesh *mesh, const Layout *layout, SearchHint hint,
                  SearchPrice *out) {
  const Pricer *p = with;
  if (p->task->npriced == 1) return price_whole(p, mesh, layout, hint, out);
  if (hint.over && !hint.as_is) return price_over(p, mesh, layout, out);
  if (!price_at(p, mesh, layout, (ProgramWay){0}, out)) return false;
  out->unlimited = out->seconds;
  out->unlimited_peak = out->peak;
  SearchPrice none = *out;
  return !may_recompute(p, hint, &none) || price_within(p, mesh, layout, &none, out);
}

double price_products(const void *with, int64_t processors) {
  Session s = *((const Pricer *)with)->s;
  Pricer ideal = *(const Pricer *)with;
  SearchPrice price;
  const Mesh one = {0};
  s.machine.half = s.machine.launch = 0;
  s.machine.memory_rate = s.machine.l3_rate = s.machine.l2_rate = (double)INFINITY;
  s.machine.cores = 0;
  ideal.s = &s;
  return price_at(&ideal, &one, &(Layout){0}, (ProgramWay){0}, &price)
             ? price.products / (double)processors
             : 0;
}

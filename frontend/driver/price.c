// Prices a layout for the search: compiles the samples of the search (models with short loops) up
// to their programs, simulates a step of each, and adds the results with the weights of the
// samples. A model of 32 layers costs -28 times the model of three layers and 29 times that of
// four.
//
// Memory is extrapolated alike. Where it is more than a processor has, the samples are compiled
// again at higher recompute levels, as the compiler does with the whole model: one for cheap values
// and gathered parameters, one for all segments of the forward pass, the highest. Between the first
// two the compiler recomputes one segment more with each level. The least share of the segments
// that fits is interpolated between none and all of them:
//
//   share = (memory without - limit) / (memory without - memory with all), time alike
#include <math.h>

#include "frontend/driver/price.h"

// A program that needs this many times the memory does not fit at any recompute level.
static const double HOPELESS = 6;

static double bytes_sent(const CollFacts *facts) {
  double sum = 0;
  for (uint32_t i = 0; i < facts->n; i++)
    sum += (double)facts->fact[i].times * (double)facts->fact[i].wire_bytes;
  return sum;
}

// Adds the price of one compiled sample, `weight` times.
static void add_sample(Arena *a, const Pricer *p, const Compilation *c, double weight,
                       SearchPrice *sum) {
  const Simulation *t = simulate(a, c->compiled, &p->s->machine);
  double products = t->of_kind[INSTR_GEMM];
  sum->seconds += weight * t->seconds;
  sum->products += weight * products;
  sum->kernels += weight * (t->compute - products);
  sum->transfer += weight * (t->transfer - t->hidden);
  sum->sent += weight * bytes_sent(c->facts);
  sum->peak += weight * (double)program_bytes(c->compiled->program);
}

// Sets *out to the price at a recompute level (PipelineOptions.again).
static bool price_at(const Pricer *p, const Mesh *mesh, const Layout *layout, int again,
                     SearchPrice *out) {
  *out = (SearchPrice){.programs = 1};
  for (uint32_t i = 0; i < p->task->npriced; i++) {
    const SearchSample *sample = &p->task->priced[i];
    Session s = *p->s;
    Compilation c;
    s.arena = arena_new();
    s.diag = diag_new(s.arena); // warnings are for programs that are used
    Graph g = layout_apply(s.arena, sample->graph, mesh, layout);
    bool made = session_program(&s, s.arena, &g, &p->of, again, &c);
    if (made) add_sample(s.arena, p, &c, sample->weight, out);
    arena_free(s.arena);
    if (!made) return false;
  }
  return true;
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
                       .again = share};
}

// Sets *price, which needs more than the memory, to the price of the least recomputation that fits,
// or of that which needs least memory.
static bool recompute(const Pricer *p, const Mesh *mesh, const Layout *layout, SearchPrice *price) {
  static const int levels[] = {AGAIN_GATHERS, AGAIN_SEGMENTS, AGAIN_ALL};
  double memory = p->task->memory;
  SearchPrice before = *price, now;
  for (size_t i = 0; i < countof(levels) && price->peak > memory; i++) {
    if (!price_at(p, mesh, layout, levels[i], &now)) return false;
    int programs = price->programs + 1;
    if (levels[i] == AGAIN_SEGMENTS && now.peak <= memory) {
      now = price_between(&before, &now, (before.peak - memory) / (before.peak - now.peak));
      now.peak = memory; // rounded, it might be above
    } else if (levels[i] != AGAIN_GATHERS)
      now.again = 1;
    before = now;
    if (now.peak <= memory || now.peak < price->peak) *price = now;
    price->programs = programs;
  }
  return true;
}

bool price_layout(void *with, const Mesh *mesh, const Layout *layout, SearchPrice *out) {
  const Pricer *p = with;
  if (!price_at(p, mesh, layout, 0, out)) return false;
  bool fits = out->peak <= p->task->memory, hopeless = out->peak > HOPELESS * p->task->memory;
  return fits || hopeless || recompute(p, mesh, layout, out);
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
  return price_at(&ideal, &one, &(Layout){0}, 0, &price) ? price.products / (double)processors : 0;
}

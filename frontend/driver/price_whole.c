// Prices a layout of a model that is its own only sample: compiles it without a memory budget and,
// where it needs more than the memory, for the memory that there is, as the compiler does it,
// unless that is far from enough.
//
// Each program is compiled once: of layouts that ask the same of all values, or whose lowered
// graphs are equal, the price of the first is taken. Layouts with a second placement
// (Placement.modest) are the exception: their price is that of the better of two programs.
#include "frontend/driver/price_whole.h"

#include <math.h>

#include "frontend/driver/price_known.h"
#include "frontend/driver/price_samples.h"

// A program of another recompute level takes half as much work: the placement is the same.
enum { TRIALS_A_PROGRAM = 2 };

// Sets *out to the figures of the program of a model that is its own only sample.
static void set_figures(const Pricer *p, Session *s, const Compilation *c, SearchPrice *out) {
  *out = (SearchPrice){.programs = 1};
  price_add(s->arena, p, c, out);
  out->peak = (double)program_bytes(c->compiled->program);
  out->kept = out->peak - (double)c->compiled->program->arena_bytes;
  out->open = out->peak > p->task->memory;
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

// Sets *price, of the program c that needs more than the memory, to that with recomputation. Where
// c has no program, its price without recomputation is known.
static bool recompute_whole(const Pricer *p, Session *s, const Compilation *c, KnownPrice *known,
                            SearchPrice *price) {
  ProgramWay way = {.memory = (int64_t)p->task->memory, .sparing = true, .begun = c};
  Compilation within = {0};
  if (!session_program(s, s->arena, c->selected, &p->of, way, &within)) return false;
  if (within.compiled)
    set_figures(p, s, &within, price);
  else
    *price = known->none;
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
  if (probe->old) c->least = (int64_t)probe->known->none.peak;
  return recompute_whole(p, s, c, probe->known, price);
}

// Returns whether the layout of c has two placements (Placement.modest). If c is the program of the
// modest one, its graph is not the one that was looked up.
static bool has_modest(const Probe *probe, const Compilation *c) {
  return c->placement->modest || graph_hash(c->lowered) != probe->known->hash;
}

// Compiles the layout for its price. Prices that depend on two placements are neither looked up nor
// kept by the lowered graph, which is that of one of them.
static bool compile_probed(const Pricer *p, Session *s, const Mesh *mesh, const Layout *layout,
                           Probe *probe, Compilation *c) {
  ProgramWay way = {.wanted = p->known ? is_new : NULL, .watcher = probe};
  if (!price_compile(p, s, mesh, layout, way, 0, c)) return false;
  if (!probe->known || !has_modest(probe, c)) return true;
  bool stopped = probe->old;
  *probe = (Probe){.p = p};
  if (!stopped) return true;
  arena_free(s->arena);
  return price_compile(p, s, mesh, layout, (ProgramWay){0}, 0, c);
}

// Compiles a model that is its own only sample, and sets *out to its price. Keeps it in *asked, the
// entry of what the layout asks.
static bool compile_whole(const Pricer *p, const Mesh *mesh, const Layout *layout, SearchHint hint,
                          KnownPrice *asked, SearchPrice *out) {
  Session s;
  Compilation c;
  Probe probe = {.p = p};
  bool good = compile_probed(p, &s, mesh, layout, &probe, &c);
  if (good) {
    if (probe.old)
      *out = probe.known->none;
    else
      set_figures(p, &s, &c, out);
    if (probe.known) probe.known->none = *out;
    asked->none = *out;
    out->programs = !probe.old;
    if (price_may_recompute(p, hint, &asked->none)) {
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
  bool within = price_may_recompute(p, hint, &asked->none);
  if (within && asked->memory != p->task->memory) return false;
  *out = within ? asked->within : asked->none;
  out->programs = 0;
  out->asked = true;
  return true;
}

bool price_whole(const Pricer *p, const Mesh *mesh, const Layout *layout, SearchHint hint,
                 SearchPrice *out) {
  KnownPrice own = {0}, *asked = &own;
  if (p->asked) asked = price_known(p->asked, search_asked(1, p->task->priced, mesh, layout));
  if (!take_asked(p, asked, hint, out) && !compile_whole(p, mesh, layout, hint, asked, out))
    return false;
  out->unlimited = asked->none.seconds;
  out->unlimited_peak = asked->none.peak;
  return true;
}

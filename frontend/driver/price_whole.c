// Prices a layout of a model that is its own only sample: compiles it without a memory budget and,
// where it needs more than the memory, for the memory that there is, as the compiler does it,
// unless that is far from enough.
//
// Each program is compiled once: of layouts that ask the same of all values the price of the first
// is taken, and of programs whose lowered graphs are equal. A layout with a second placement
// (Placement.modest) has the price of the faster one of its two programs, within the memory of the
// one that the compiler takes.
#include "frontend/driver/price_whole.h"

#include <math.h>

#include "frontend/driver/price_ahead.h"
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

// Returns the hash of the lowered graph of compile c with the plain placement.
static uint64_t plain_hash(const Pricer *p, Arena *a, const Compilation *c) {
  const Graph *g = c->simplified;
  return graph_hash(lower(a, place_plain(a, g, &g->layout, &p->s->machine)));
}

// Returns whether the price of a program with recomputation is known.
static bool is_known_within(const Pricer *p, Session *s, const WholeProgram *x, uint64_t other) {
  const KnownPrice *known = x->known;
  return known->memory == p->task->memory && known->other == other &&
         (!known->plain || known->plain == plain_hash(p, s->arena, &x->c));
}

// Sets *price, of program x that needs more than the memory, to that with recomputation. Where x
// has no program, its price without recomputation is known. other: KnownPrice.other.
static bool recompute_whole(const Pricer *p, Session *s, const WholeProgram *x, uint64_t other,
                            SearchPrice *price) {
  KnownPrice *known = x->known;
  ProgramWay way = {.memory = (int64_t)p->task->memory, .sparing = true, .begun = &x->c};
  Compilation within = {0};
  if (!session_program(s, s->arena, x->c.selected, &p->of, way, &within)) return false;
  if (within.compiled)
    set_figures(p, s, &within, price);
  else
    *price = known->none;
  price->peak = fmin(price->peak, (double)within.least); // of programs that do not fit
  price->open = within.gave_up;
  price->programs += within.trials / TRIALS_A_PROGRAM;
  known->memory = p->task->memory;
  known->other = other;
  known->within = *price;
  known->plain = within.plain_tried ? plain_hash(p, s->arena, &x->c) : 0;
  return true;
}

// Does what recompute_whole does, for a program whose price with recomputation may be known, too.
static bool recompute_known(const Pricer *p, Session *s, WholeProgram *x, uint64_t other,
                            SearchPrice *price) {
  bool counts = price->programs > 0;
  if (is_known_within(p, s, x, other)) {
    *price = x->known->within;
    if (!counts) price->programs = 0;
    return true;
  }
  if (!x->c.compiled) x->c.least = (int64_t)x->known->none.peak;
  return recompute_whole(p, s, x, other, price);
}

// -- programs without recomputation ---------------------------------------------------------------

// Sets *x to the program of a placement, and compiles it unless a program with the same lowered
// graph has been priced before. Returns false if it cannot be compiled.
static bool begin_program(const Pricer *p, Session *s, const Compilation *placed, WholeProgram *x) {
  ProgramWay lowered = {.begun = placed, .first = true, .last = "lower"};
  ProgramWay rest = {.begun = &x->lowered, .first = true};
  if (!session_program(s, s->arena, placed->selected, &p->of, lowered, &x->lowered)) return false;
  x->hash = graph_hash(x->lowered.lowered);
  x->c = x->lowered;
  if (p->known && price_find(p->known, x->hash)) return true;
  if (!session_program(s, s->arena, placed->selected, &p->of, rest, &x->c)) return false;
  set_figures(p, s, &x->c, &x->none);
  return true;
}

PricedWhole *price_whole_new(const Pricer *p) {
  Session s = price_session(p);
  PricedWhole *w = arena_new_of(s.arena, PricedWhole);
  w->s = s;
  return w;
}

// Both programs begin with the dims of the placed graph, as in the compiler (pipeline_better.c).
void price_whole_begin(const Pricer *p, const Mesh *mesh, const Layout *layout, PricedWhole *w) {
  ProgramWay way = {.first = true, .last = "place"};
  Compilation first, second;
  if (!price_compile(p, &w->s, mesh, layout, way, 0, &first)) return;
  w->two = first.placement->modest != NULL;
  if (w->two) {
    second = first;
    second.placement = first.placement->modest;
    second = compilation_apart(w->s.arena, &second);
  }
  w->made = begin_program(p, &w->s, &first, &w->first) &&
            (!w->two || begin_program(p, &w->s, &second, &w->second));
}

// Enters x, which has begun, in the table of known programs. One like it may have been entered
// since; then that one counts.
static void enter(const Pricer *p, Session *s, WholeProgram *x) {
  x->known = p->known ? price_known(p->known, x->hash) : arena_new_of(s->arena, KnownPrice);
  if (x->known->none.programs)
    x->c = x->lowered;
  else
    x->known->none = x->none;
}

// Sets *out to the program of the layout that the compiler takes without a budget, the faster one,
// and *other to that of the other placement; other->known is NULL if there is none. Returns whether
// their work counts: a program was compiled, or there are two, which count as if they were.
static bool choose_program(const Pricer *p, PricedWhole *w, WholeProgram *out,
                           WholeProgram *other) {
  enter(p, &w->s, &w->first);
  if (w->two) enter(p, &w->s, &w->second);
  bool second = w->two && w->second.known->none.seconds < w->first.known->none.seconds;
  *out = second ? w->second : w->first;
  *other = second ? w->first : w->second;
  return w->two || w->first.c.compiled;
}

// -- the price ------------------------------------------------------------------------------------

// Returns the price of what a layout asks without recomputation: with the placement that is slower
// if only its program fits the memory.
static const SearchPrice *price_plain(const Pricer *p, const KnownPrice *asked) {
  double memory = p->task->memory;
  const SearchPrice *second = &asked->second;
  bool only = asked->none.peak > memory && second->programs && second->peak <= memory;
  return only ? second : &asked->none;
}

// Sets *out to the price of a layout whose programs have begun. Keeps it in *asked, the entry of
// what the layout asks.
static bool price_begun(const Pricer *p, PricedWhole *w, SearchHint hint, KnownPrice *asked,
                        SearchPrice *out) {
  WholeProgram best, other;
  if (!w->made) return false;
  bool good = true, counts = choose_program(p, w, &best, &other);
  asked->none = best.known->none;
  if (other.known) asked->second = other.known->none;
  *out = *price_plain(p, asked);
  out->programs = counts;
  if (price_may_recompute(p, hint, &asked->none)) {
    good = recompute_known(p, &w->s, &best, other.known ? other.known->hash : 0, out);
    asked->memory = good ? p->task->memory : 0;
    asked->within = *out;
  }
  return good;
}

// Sets *out to the price of a layout that asks what another one did, if that is known.
static bool take_asked(const Pricer *p, const KnownPrice *asked, SearchHint hint,
                       SearchPrice *out) {
  if (!asked->none.programs) return false;
  bool within = price_may_recompute(p, hint, &asked->none);
  if (within && asked->memory != p->task->memory) return false;
  *out = within ? asked->within : *price_plain(p, asked);
  out->programs = 0;
  out->asked = true;
  return true;
}

// Compiles the programs of a layout, unless that has been done ahead, and sets *out to its price.
static bool compile_whole(const Pricer *p, const Mesh *mesh, const Layout *layout, SearchHint hint,
                          KnownPrice *asked, SearchPrice *out) {
  PricedWhole *w = p->asked ? price_take_whole(p, asked->hash) : NULL;
  if (!w) {
    w = price_whole_new(p);
    price_whole_begin(p, mesh, layout, w);
  }
  w->s.in_job = p->s->in_job; // no other job runs now
  bool good = price_begun(p, w, hint, asked, out);
  arena_free(w->s.arena);
  return good;
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

// Computes prices on several threads before they are asked for: one job a layout. See
// price_ahead.h.
//
// A job changes nothing that others read: what it would add to the tables of the Pricer it keeps in
// tables of its own. These are added when the price is asked for, so that the tables then are as if
// it had been computed only now: the work that the search counts depends on what is in them.
#include "frontend/driver/price_ahead.h"

#include "frontend/driver/price_samples.h"
#include "ir/base/jobs.h"

// What is computed of one layout, in arena `a`.
typedef struct AheadPrice AheadPrice;
struct AheadPrice {
  Job job;
  SearchAsk ask;
  Pricer p;           // of the job
  KnownPrice price;   // of samples: a copy of the entry of what the layout asks
  uint64_t asked;     // hash of that
  PricedWhole *whole; // of a model that is its own only sample
  Arena *a;
  AheadPrice *next;
};

struct PricesAhead {
  AheadPrice *first;
};

PricesAhead *prices_ahead_new(Arena *a) { return arena_new_of(a, PricesAhead); }

static bool is_whole(const Pricer *p) { return p->task->npriced == 1; }

static void compute(void *job) {
  AheadPrice *x = job;
  const SearchAsk *k = &x->ask;
  if (is_whole(&x->p))
    price_whole_begin(&x->p, k->mesh, k->layout, x->whole);
  else
    (void)price_know(&x->p, k->mesh, k->layout, k->hint, &x->price);
}

static void forget(AheadPrice *x) {
  if (is_whole(&x->p)) arena_free(x->whole->s.arena);
  arena_free(x->a);
}

static void forget_all(PricesAhead *all) {
  while (all->first) {
    AheadPrice *x = all->first;
    all->first = x->next;
    forget(x);
  }
}

static AheadPrice **find(const Pricer *p, uint64_t asked) {
  AheadPrice **at = &p->ahead->first;
  while (*at && (*at)->asked != asked) at = &(*at)->next;
  return at;
}

// Returns whether there is nothing to compute on another thread.
static bool is_done(const Pricer *p, const SearchAsk *ask, const KnownPrice *asked) {
  return ask->hint.brief || // such prices are not kept
         (is_whole(p) && asked->none.programs);
}

// Returns what is to be computed for a layout. asked: the entry of what it asks.
static AheadPrice *price_new(const Pricer *p, const SearchAsk *ask, const KnownPrice *asked) {
  Arena *a = arena_new();
  AheadPrice *x = arena_new_of(a, AheadPrice);
  *x = (AheadPrice){.job = {compute, x, NULL},
                    .ask = *ask,
                    .p = *p,
                    .price = *asked,
                    .asked = asked->hash,
                    .a = a};
  price_forget_others(p->task, &x->price);
  if (is_whole(p)) {
    x->whole = price_whole_new(p);
    x->whole->s.known = known_bytes_over(x->whole->s.arena, p->s->known);
  } else {
    x->p.known = price_table_over(a, p->known);
  }
  return x;
}

// Adds what is to be computed for a layout, unless it is being computed for another one that asks
// the same. Returns whether it did.
static bool add(const Pricer *p, const SearchAsk *ask) {
  const SearchTask *t = p->task;
  const KnownPrice *asked =
      price_known(p->asked, search_asked(t->npriced, t->priced, ask->mesh, ask->layout));
  AheadPrice **at = find(p, asked->hash);
  if (*at || is_done(p, ask, asked)) return false;
  *at = price_new(p, ask, asked);
  return true;
}

void price_ahead(void *pricer, uint32_t n, const SearchAsk *ask) {
  const Pricer *p = pricer;
  Arena *a = arena_new();
  Jobs *jobs = jobs_new(a, p->threads);
  int added = 0;
  forget_all(p->ahead);
  for (uint32_t i = 0; i < n; i++) added += add(p, &ask[i]);
  for (AheadPrice *x = p->ahead->first; x; x = x->next) {
    x->p.threads = p->threads / added;
    jobs_add(jobs, &x->job);
  }
  jobs_run(jobs);
  arena_free(a);
}

void price_take_samples(const Pricer *p, KnownPrice *asked) {
  AheadPrice **at = find(p, asked->hash), *x = *at;
  if (!x) return;
  KnownPrice *next = asked->next;
  *asked = x->price;
  asked->next = next;
  price_table_add(p->known, x->p.known);
  *at = x->next;
  forget(x);
}

PricedWhole *price_take_whole(const Pricer *p, uint64_t asked) {
  AheadPrice **at = find(p, asked), *x = *at;
  if (!x) return NULL;
  PricedWhole *w = x->whole;
  known_bytes_merge(w->s.known);
  w->s.known = p->s->known;
  *at = x->next;
  arena_free(x->a);
  return w;
}

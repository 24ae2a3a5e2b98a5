// The prices of a layout from the compiled samples of a search (SearchTask), one for each recompute
// level. Input: a layout. Output: SearchPrice.
#ifndef FRONTEND_PRICE_SAMPLES_H
#define FRONTEND_PRICE_SAMPLES_H

#include "frontend/driver/price.h"

typedef struct PricedSample PricedSample;

// A layout that is being priced. What its levels share of the compiles of samples is kept.
typedef struct Priced {
  const Pricer *p;
  const Mesh *mesh;
  const Layout *layout;
  bool plain;        // place_plain chooses the shardings
  bool brief;        // SearchHint.brief
  int programs;      // prices so far; SearchPrice.programs
  PriceTable *known; // the prices of samples
  Arena *a;
  PricedSample *sample[2]; // by `plain`, by sample; NULL: none is compiled yet
} Priced;

// Begins to price a layout. All that it points to must outlive priced_end.
Priced priced_begin(const Pricer *p, const Mesh *mesh, const Layout *layout);
void priced_end(Priced *l);
// Sets *out to the price at a recompute level (PipelineOptions.again; 0: none). Returns false if
// the layout cannot be compiled.
bool price_level(Priced *l, int level, SearchPrice *out);
// Returns a session that compiles a sample, with an arena of its own, which the caller frees.
Session price_session(const Pricer *p);
// Compiles sample i in the arena of s, a price_session. Returns false if it cannot be compiled.
// Thread rule: several threads may do so, each with a session.
bool price_compile(const Pricer *p, Session *s, const Mesh *mesh, const Layout *layout,
                   ProgramWay way, uint32_t i, Compilation *c);
// Adds the price of a compiled program, without its memory, to *sum. Needs memory of `a`.
void price_add(Arena *a, const Pricer *p, const Compilation *c, SearchPrice *sum);

#endif

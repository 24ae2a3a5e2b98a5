// The price of a layout from the program of the whole model, of a model that is its own only sample
// (SearchTask). Input: a layout. Output: its SearchPrice.
#ifndef FRONTEND_PRICE_WHOLE_H
#define FRONTEND_PRICE_WHOLE_H

#include "frontend/driver/price.h"

// A program of a layout, without recomputation.
typedef struct WholeProgram {
  Compilation lowered;      // up to stage "lower"
  Compilation c;            // the same or, if the program was not priced before, all of it
  uint64_t hash;            // of the lowered graph
  SearchPrice none;         // if it was not priced before: its price
  struct KnownPrice *known; // once it is entered among the known programs: its entry
} WholeProgram;

// The programs of a layout, with the session that compiles them. All of it is in s.arena, which the
// owner frees. It stays where it is: compiled graphs point to the machine of the session.
typedef struct PricedWhole {
  Session s;
  bool made; // they could be compiled
  bool two;  // there is a second one, with the modest placement
  WholeProgram first, second;
} PricedWhole;

// Returns one without programs.
PricedWhole *price_whole_new(const Pricer *p);
// Compiles the programs of a layout that are not known. Thread rule: several threads may do so,
// each with a *w, while nobody changes the tables of p.
void price_whole_begin(const Pricer *p, const Mesh *mesh, const Layout *layout, PricedWhole *w);
// As price_layout.
bool price_whole(const Pricer *p, const Mesh *mesh, const Layout *layout, SearchHint hint,
                 SearchPrice *out);

// price.c. Returns whether a program is worth compiling with recomputation. none: its price
// without.
bool price_may_recompute(const Pricer *p, SearchHint hint, const SearchPrice *none);

#endif

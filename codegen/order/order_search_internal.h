// What the files of the search for orders share: order_search.c makes steps, order_refused.c
// remembers which were no improvement. Private to the room.
#ifndef CODEGEN_ORDER_SEARCH_H
#define CODEGEN_ORDER_SEARCH_H

#include "codegen/order/order_class_internal.h"

// A step is kept if it saves more than this share of the cost.
static const double STEP_WORTH = 0.0001;

typedef struct SavedOrder {
  ClassId cls;
  DimList order;
} SavedOrder;
typedef struct SavedCost {
  uint32_t use;
  double cost;
} SavedCost;

typedef VEC(ClassId) ClassList;

// Steps of one kind, from one class or dim, none of which was kept when they were tried last.
typedef struct Refused {
  uint32_t at; // the number of steps that had been kept then; 0: none of them were tried
  double most; // the most that one of them would have saved
} Refused;

typedef struct Search {
  OrderClasses *s;
  ClassList *with; // by dim: the free classes that have it
  DimId *near;     // by dim: the last dim found in a class with it
  double cost;     // of all uses
  uint32_t stamp;
  uint32_t *mark; // by use: the stamp of the last step that updated its cost
  uint32_t kept;  // number of steps that were kept, and 1
  double most;    // the most that a step would have saved that was not kept since `most` was set
  // By class, and by dim of a class: the number of the last kept step that changed the order of a
  // class which shares a use with it.
  uint32_t *near_class, *near_dim;
  // What was refused from the start that is tried now.
  Refused *of_class, *of_pairs; // by class; by dim: moves before other dims
  Refused *of_end[2];           // by dim: moves to the last place and to the first one
  VEC(SavedOrder) order;
  VEC(SavedCost) old;
} Search;

// -- order_refused.c
// Begins to remember refused steps anew: none were tried.
void refused_begin(Search *r);
// Returns whether steps that change the order of class c may be kept.
bool refused_allows_class(const Search *r, ClassId c);
// Returns whether steps that change classes with dim x may be kept. `of` is the entry of the steps.
bool refused_allows_dim(const Search *r, DimId x, const Refused *of);
// Enters in *of whether steps were refused that have been tried since `before` steps were kept.
void refused_note(const Search *r, uint32_t before, Refused *of);
// Notes that the present step, whose uses are in r->old, is kept.
void refused_note_kept(Search *r);

#endif

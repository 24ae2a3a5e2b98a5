// What the files of the joint search share: the table of choices, moves from one choice to others,
// and choices to start from.
//
//   choices.c        the table
//   useful_dims.c    the dims that rules are tried for
//   choice_prices.c  estimates and prices, within a limit of work
//   moves.c          choices that differ from a given one by one rule, or by the axes or the mesh
//   seeds.c          choices that experts write first
//   every.c          all choices
//   climb.c          from the best choices along moves to better ones
//   joint.c          the search
#ifndef PARTITION_CHOICES_H
#define PARTITION_CHOICES_H

#include "partition/search/space_internal.h"

// A choice that the search has come to, with what it knows about it.
typedef struct Tried {
  SearchChoice choice;
  const char *key; // mesh and layout as text, rules sorted: equal for equal choices
  uint64_t asked;  // search_asked of the samples for estimates, once it is estimated
  double order;    // by which choices are sorted, the least first
  uint8_t family;  // kind of the move or the seed that led here; some of each kind are priced
  bool ahead;      // its cost is computed, but not counted as work of the search yet
  bool estimated, priced;
  bool expanded;   // its moves are in the table
  bool over;       // the estimated memory is more than that of the task
  bool late;       // sorted behind all that are not
  bool previewed;  // its price without recomputation is known; it is more than the memory
  bool impossible; // it cannot be compiled
  bool twin;       // previewed, like another choice of the same time and memory (joint.c)
} Tried;

typedef VEC(Tried *) TriedList;

enum {
  JOINT_MOST = 1 << 15,        // choices that the table takes
  JOINT_SLOTS = 2 * JOINT_MOST // slots of its hash tables
};

typedef struct Joint {
  const SearchTask *task;
  Arena *a;
  Space space;
  // The dims, and the dims in soft rules, that change the cost of a step if an axis splits them.
  DimSet useful, useful_soft;
  SearchResult *result;
  const Tried *best; // of the priced choices that fit the memory, or NULL
  TriedList all;     // in the order in which the search came to them
  Tried **slot;      // hash table over `key`, open addressing
  Tried **alike;     // the same over `asked`: of those that ask the same the first one
  double work;       // work that may still be done, in nodes of graphs that are compiled
  double nodes;      // nodes of all samples together: the work of one price
  bool every;        // all choices of the space are being priced
  bool quick;        // the work suffices for so many prices that it may be done whole
} Joint;

// -- choices.c
void joint_new(Joint *j, Arena *a, const SearchTask *t, SearchResult *r);
enum { STAGES = 3 };
extern const LayoutScope joint_stages[STAGES]; // what the stages of ZeRO split, from 1 to 3
// Adds a mesh and a layout to the choices of j and to *out, if they are new and layout_check
// accepts them. `layout` may be in temporary memory.
void joint_enter(Joint *j, const Mesh *mesh, const Layout *layout, uint8_t family, TriedList *out);
// Returns the axes of the mesh that can split something: those of two or more processors. The
// search writes no rules over other axes, which would change nothing.
Axes joint_splitting(const Mesh *m);
// Returns the layout `from` in arena a with the axes of `rule` as the axes of the rule with the
// same target (scope, dim, soft). Without axes the result has no such rule. A rule for a dim takes
// its axes from the dims that clash with it.
Layout joint_with(const Joint *j, Arena *a, const Layout *from, const LayoutRule *rule);
// Returns the axes of the rule of l with the target of `rule`; none if l has no such rule.
Axes joint_axes(const Layout *l, const LayoutRule *rule);

// -- useful_dims.c
// Finds the dims that are worth a rule.
void joint_useful(Joint *j);

// -- choice_prices.c
// Takes so much from the work that is left. Returns false, and takes none, if there is less.
bool joint_spend(Joint *j, double work);
double joint_estimates(const Joint *j, double n); // the work of n estimates
// Estimate or price a choice unless that is done. Return false if there is no work left for it;
// the first price is computed in any case. joint_price leaves a previewed choice without a price
// that is far slower than the best one, if all choices are being priced in the order of their
// estimates.
bool joint_estimate(Joint *j, Tried *c);
bool joint_price(Joint *j, Tried *c);
// Computes the estimates that joint_estimate will ask for, of all choices of a list for which there
// is work left, on several threads (SearchTask.threads).
void joint_look_ahead(Joint *j, const TriedList *list);
// Computes the prices that will be asked for of a list from place i on: by joint_preview, or by
// joint_price, while more than `left` of the work is left. Takes several choices for each thread,
// as far as memory suffices; a single one is left to the caller. Returns the place of the first
// choice that was not taken. No result depends on it, so what is not asked for in the end only
// costs time.
uint32_t joint_ahead(Joint *j, const TriedList *list, uint32_t i, double left, bool preview);
// Prices a choice without recomputation, which compiles one program instead of several. If that
// fits the memory, the choice is priced; else c->previewed is set and choice.price.unlimited has
// the time.
void joint_preview(Joint *j, Tried *c);
// Returns the seconds without recomputation from which on a choice that needs more than the memory
// is not priced with it, or 0: none. Where all choices are priced, joint.c decides about that.
double joint_enough(const Joint *j);
// Makes the price of a previewed choice its price.
void joint_take_preview(Joint *j, Tried *c);
// Returns whether x is better than y; both are priced. What fits the memory is better than what
// does not; then less time is better; then less memory, fewer rules, fewer soft ones. Of
// choices that do not fit, less memory is better.
bool joint_better(const Joint *j, const Tried *x, const Tried *y);
bool joint_fits(const Joint *j, const Tried *c);

// -- moves.c
enum { MOVE_DIM, MOVE_SOFT, MOVE_SHARD, MOVE_MESH, FAMILIES };
// Appends to `out` all new choices that one move makes of c.
void joint_moves(Joint *j, const Tried *c, TriedList *out);

// -- seeds.c
// Appends the seeds on all meshes of the task to `out`.
void joint_seeds(Joint *j, TriedList *out);

// -- climb.c
// Estimates the choices of the list and sorts them. Those for which no work is left are dropped,
// but never all: of a very large model one layout is priced at least.
void joint_sort(Joint *j, TriedList *list);
// Prices the first choices of a sorted list, `most` of each family, while more than `left` of the
// work is left.
void joint_price_some(Joint *j, const TriedList *list, int most, double left);
// Returns the best choice whose price differs from those of the n choices `taken`, in its simplest
// form. NULL: there is none.
Tried *joint_best_besides(const Joint *j, Tried *const *taken, uint32_t n);
uint32_t joint_complexity(const Tried *c); // number of rules and axes
// Expands the best choices, until the `beam` best are expanded or no work is left.
void joint_climb(Joint *j, uint32_t beam);

// -- joint.c
// Does what search_best does. `all`: it may price the whole space, where that is small.
SearchResult *joint_search(Arena *a, const SearchTask *t, bool all);

// -- every.c
// Returns the number of choices of the space, without the orders of axes. A choice gives each axis
// a set of dims that do not clash, and a dim in a soft rule or none; and one stage of ZeRO or none,
// over a set of axes. Choices that a dim is too short for count, too.
double joint_count(const Joint *j);
// Appends all choices of the space to `out`, those that layout_check refuses left out. Where
// several axes split one dim, each order is a choice of its own, for each rule.
void joint_every(Joint *j, TriedList *out);
// Appends the choices on meshes of several axes in which each rule has all axes, as if they were
// one, and their number. Dims whose split does not change the cost of a step have no rules.
void joint_whole(Joint *j, TriedList *out);
double joint_whole_count(const Joint *j);

#endif

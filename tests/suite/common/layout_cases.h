// Graphs under layouts: every operation, named cases and random graphs, each under many layouts of
// many meshes. A suite says what to check of one; the oracle of the whole graph is computed here.
#ifndef TESTS_SUITE_COMMON_LAYOUT_CASES_H
#define TESTS_SUITE_COMMON_LAYOUT_CASES_H

#include "ir/eval/eval.h"
#include "partition/partition.h"

enum { MAX_RULES = 24, MAX_INPUTS = 32 };
typedef struct Maker {
  Arena *a;
  Intern *names;
  Mesh mesh;
  DimTable *dims;
  Graph *g;
  Diag *diag;
  Layout layout;
  LayoutRule rule[MAX_RULES];
  uint32_t ninputs;
  EvalFeed feed[MAX_INPUTS];
  NodeId input[MAX_INPUTS]; // float inputs, for gradients
  uint32_t nfloats;
  uint64_t random;
  DimId b, d, e, h, k, v, m, n, two; // e as long as d; m = d * k, n = b * two
} Maker;

// What is wrong with simplified graph g under m->layout, whose evaluation as a whole is `whole`;
// NULL: nothing; layout_vacuous: too much may be anything.
typedef const char *LayoutCheck(Maker *m, const Graph *g, const Eval *whole);
extern const char layout_vacuous[];

// Runs all of them, prints failures and the line of totals; the exit code.
//   SUITE [CASE | seed=N]    one case by name, or one random graph; SEEDS=n: that many, FROM=n: the first, SHOW=1: graphs of failures
int layout_cases(int argc, char **argv, LayoutCheck *check);

// The same of `seeds` random graphs and of all loops under `layouts` random layouts each, and
// nothing else. With random_ranks only on meshes that so many ranks can share.
extern int64_t random_ranks;
int random_cases(int argc, char **argv, uint64_t seeds, int layouts, LayoutCheck *check);

// Notes the ops of a graph: a whole run fails when it has missed one of the table (random_cases:
// one that is neither a source nor pointwise nor a reduction). The suite hands in the lowered
// graphs.
void layout_saw(const Graph *g);
// Notes in which states ops read their arguments. layout_cases, whose every placement is handed in,
// then fails too when on one of its meshes an op of the table was never run on what is whole, cut
// along a dim that stays, cut along a dim that goes, or a sum of terms, as far as the table says
// that it has such a form.
void layout_saw_states(const Placement *p);

#endif

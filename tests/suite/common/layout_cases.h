// Graphs under layouts: every operation, named cases and random graphs, each under many layouts of
// many meshes. This file computes the expected values, from the whole graph; a suite passes the
// function that checks one layout.
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
  bool more; // random graphs have other types, matrices and guarded regions, too
  DimId b, d, e, h, k, v, m, n, two; // e is as long as d; m = d * k, n = b * two
} Maker;

// Checks the simplified graph g under m->layout; `whole` is its evaluation as a whole graph.
// Returns NULL if all is correct, layout_vacuous if too many values are undetermined,
// layout_skipped if what is tested does not have an operation of g, otherwise what is wrong.
typedef const char *LayoutCheck(Maker *m, const Graph *g, const Eval *whole);
extern const char layout_vacuous[], layout_skipped[];

// Runs all cases and random graphs, prints failures and the line of totals, and returns the exit
// code.
//   SUITE [CASE | seed=N]    one case by name, or one random graph; SEEDS=n: that many; FROM=n: the
//                            first; SHOW=1 prints graphs that fail
int layout_cases(int argc, char **argv, LayoutCheck *check);

// If layout_every is n, layout_cases checks every n-th layout of its cases from number layout_first
// (below n) on, and of each n random graphs one. The n values of layout_first share out all
// layouts. Which ops were noted is checked only from number 0 on.
extern int64_t layout_every, layout_first;
// If layout_graphs is not 0, layout_cases checks so many random graphs, each under one layout,
// whatever layout_every is.
extern int64_t layout_graphs;

// As layout_cases, but only `seeds` random graphs and all loops, each under `layouts` random
// layouts. If random_ranks is set, only on meshes that so many ranks can share.
extern int64_t random_ranks;
// Two in five of the random graphs also have operations on other types than f32, on matrices, and
// guarded regions (layout_random_more.c).
extern bool random_has_more;
int random_cases(int argc, char **argv, uint64_t seeds, int layouts, LayoutCheck *check);

// Notes the ops of a lowered graph. A whole run fails when an op of the table was never noted
// (random_cases: only ops that are not sources, pointwise or reductions).
void layout_saw(const Graph *g);
// Notes the shardings in which ops read their arguments. If a suite passes every placement,
// layout_cases also fails when an op was never seen, on one of the meshes, with an argument that is
// replicated, split along a dim that stays, split along a dim that disappears, or partial. Forms
// that the table excludes for an op do not count.
void layout_saw_states(const Placement *p);

#endif

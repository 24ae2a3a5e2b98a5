// Rematerialises forward values for the backward pass [Chen et al. 2016]: values between
// checkpoints, and under a memory budget those that remat_marks.c chooses.
//
// A marked forward value is not kept for gradients: they read a clone of its node. The arguments of
// a clone are clones too, back to values that are kept: a checkpoint, parameter, input or result of
// a collective. A cloned draw has the same key, so it gives the same numbers. Clones have an
// instance number, so that they are never merged with their originals. A clone comes before the
// first gradient that reads it; the schedule delays it further.
//
//   c = checkpoint(x); y = f(c); z = g(y); d = checkpoint(z); ... dy = dz * y
//   =>  y' = f(c); dy = dz * y'
//
// Values that a loop collects for its gradients are rematerialised in the backward loop, one
// iteration at a time (remat_loops.c), from carries and from other values collected in that
// iteration.
//
//   loop 1: h = carry(h0); y = f(h, at(x)); collect(y)     loop 2: dz * at(collect(y))
//   =>  loop 1: h = carry(h0); y = f(h, at(x)); collect(h)
//       loop 2: y' = f(at(collect(h)), at(x)); dz * y'
//
// Loops themselves and their results are kept; the gradient pass handles `scan t (..., checkpoint =
// true)`.
//
// With micro-batches (`accumulate`) each has clones of its own, so that only one of them has its
// values in memory. A phase is the forward or the backward pass of one of them:
//
//   w = all_gather(%1); y0 = w * x0; dx0 = w * dy0; y1 = w * x1; dx1 = w * dy1
//   =>  dx0 = w' * dy0; y1 = w'' * x1; dx1 = w''' * dy1       w', w'', w''': gathers of phases 1 to 3
#include "codegen/order/remat_internal.h"

#include <stdlib.h>
#include <string.h>

#include "ir/base/hash.h"

// A clone: the copy of node `of` that the backward pass has in region (loop) `in`.
typedef struct CloneSite {
  NodeId of;
  RegionId in;
} CloneSite;
typedef VEC(CloneSite) CloneSites;

// A slot of the table of clones. Nodes of one phase read the clone.
typedef struct Clone {
  CloneSite site; // site.of is 0 if the slot is free
  uint32_t phase;
  NodeId made; // the clone in `to`; 0: it is not made yet
} Clone;

typedef struct Remat {
  Arena *a;
  const Graph *from;
  Graph *to;
  const RematLoops *loops;
  const uint32_t *part; // by node of `from`: its micro-batch (graph_micro_batches), or NULL
  bool each;            // RematLevel.each
  bool *marked;         // by node of `from`: other phases than its own read a clone of the node
  NodeId *map;          // by node of `from`: its copy in `to`
  Clone *clone;         // the table of clones: a hash table with open addressing
  uint32_t nclones;     // slots that are taken
  uint32_t nslots;      // of the table, a power of two
  uint32_t phase;       // the phase of the node that is being copied
} Remat;

static RegionId region_of(const Remat *r, NodeId n) { return graph_node(r->from, n)->region; }
static RegionId around(const Remat *r, RegionId in) { return region_get(r->from, in)->parent; }

static int by_id(const void *x, const void *y) {
  const CloneSite *a = x, *b = y;
  if (a->of != b->of) return a->of < b->of ? -1 : 1;
  return a->in < b->in ? -1 : a->in > b->in;
}

// -- phases ---------------------------------------------------------------------------------------

// Returns the phase in which node n of the forward (else the backward) pass runs: twice the number
// of its micro-batch, from 0, plus 1 in the backward pass.
static uint32_t phase_of(const Remat *r, NodeId n, bool forward) {
  uint32_t part = r->part ? r->part[n] : 0;
  return 2 * (part ? part - 1 : 0) + !forward;
}

// Returns whether nodes of the present phase read a clone of n. In a forward pass only values that
// depend on no input are cloned: what one micro-batch passes on to the next is kept.
static bool is_cloned(const Remat *r, NodeId n) {
  if (!r->marked[n] || phase_of(r, n, true) == r->phase) return false;
  return r->phase % 2 == 1 || (r->each && r->part && !r->part[n]);
}

// -- the table of clones --------------------------------------------------------------------------

static Clone *slot_of(const Remat *r, CloneSite site, uint32_t phase) {
  uint64_t h = hash_word(hash_word(hash_word(FNV_START, site.of), site.in), phase);
  for (uint32_t i = (uint32_t)(h ^ h >> 32);; i++) {
    Clone *c = &r->clone[i & (r->nslots - 1)];
    bool same = c->site.of == site.of && c->site.in == site.in && c->phase == phase;
    if (same || !c->site.of) return c;
  }
}

static void grow_table(Remat *r) {
  Clone *old = r->clone;
  uint32_t slots = r->nslots;
  r->nslots = slots ? 2 * slots : 256;
  r->clone = arena_array(r->a, Clone, r->nslots);
  for (uint32_t i = 0; i < slots; i++)
    if (old[i].site.of) *slot_of(r, old[i].site, old[i].phase) = old[i];
}

// Returns where the table has the clone at this site for the present phase; 0: it is not made yet.
// Valid until the next call.
static NodeId *clone_at(Remat *r, CloneSite site) {
  if (2 * r->nclones >= r->nslots) grow_table(r);
  Clone *c = slot_of(r, site, r->phase);
  r->nclones += !c->site.of;
  c->site = site;
  c->phase = r->phase;
  return &c->made;
}

// -- a forward value as region `from` reads it ----------------------------------------------------

static RegionId seen_in(const Remat *r, NodeId n, RegionId from) {
  bool seen;
  RegionId in = remat_seen_in(r->from, r->loops, region_of(r, n), from, &seen);
  if (!seen) BUG("%%%u is not seen from loop %u", n, from);
  return in;
}

// Returns the node by which backward loop `in` reads value x of its forward loop in one iteration.
// It is an AT (the value of one iteration) of the COLLECT (the values of all iterations) of x, in
// the graph r->to. If the loops are inside other loops, values are collected and read in these,
// too, by recursion.
static NodeId collected(Remat *r, NodeId x, RegionId in) {
  RegionId loop = graph_node(r->to, x)->region, outside = region_get(r->to, loop)->parent,
           next = around(r, in);
  NodeId all = graph_collect(r->to, r->map[r->loops->scan[loop]], x);
  return graph_at(r->to, in, region_encloses(r->to, outside, next) ? all : collected(r, all, next));
}

static NodeId value(Remat *r, NodeId n, RegionId from) {
  RegionId in = seen_in(r, n, from);
  const Node *node = graph_node(r->from, n);
  if (is_cloned(r, n)) return *clone_at(r, (CloneSite){n, in});
  if (in == node->region) return r->map[n];
  return node->op == OP_AT ? graph_at(r->to, in, value(r, node->args[0], around(r, in)))
                           : collected(r, r->map[n], in);
}

// -- making clones -----------------------------------------------------------------------------

static void clone_one(Remat *r, CloneSite c) {
  const Node *node = graph_node(r->from, c.of);
  NodeId args[MAX_ARGS];
  char why[200];
  for (int i = 0; i < node->nargs; i++) args[i] = value(r, node->args[i], c.in);
  bool backward = r->phase % 2 == 1;
  r->to->origin = *node->origin;
  r->to->origin.backward = backward;
  bool moves = op_row((Op)node->op)->cls == COLLECTIVE && node->origin->why;
  r->to->origin.why =
      moves ? arena_printf(r->a, "%s; rematerialised for %s: memory is too short to keep it",
                           node->origin->why, backward ? "the backward pass" : "this micro-batch")
            : "remat: rematerialised";
  NodeId made =
      graph_try(r->to, (Op)node->op, node->nargs, args, node->attr, node->instance + r->phase, why);
  if (!made) BUG("clone of %%%u: %s", c.of, why);
  *clone_at(r, c) = made;
}

// Adds to *todo the clone of n that region `from` needs, if n is to be rematerialised and the clone
// of this phase is not made yet. If n is an AT (the value of one iteration) that is not
// rematerialised, treats the value that it reads in this way.
static void need(Remat *r, NodeId n, RegionId from, CloneSites *todo) {
  for (;; n = graph_node(r->from, n)->args[0]) {
    RegionId in = seen_in(r, n, from);
    if (!is_cloned(r, n)) {
      if (in == region_of(r, n) || graph_node(r->from, n)->op != OP_AT) return;
      from = around(r, in);
      continue;
    }
    CloneSite site = {n, in};
    if (!*clone_at(r, site)) vec_push(r->a, *todo) = site;
    return;
  }
}

// Makes the clone of node `root` that region `from` reads. Before it makes the clones that it
// needs, in order of node numbers. A clone is a copy that recomputes a value.
static void clone_cone(Remat *r, NodeId root, RegionId from) {
  CloneSites todo = {0}, cone = {0};
  need(r, root, from, &todo);
  while (todo.n) {
    CloneSite c = todo.at[--todo.n];
    const Node *node = graph_node(r->from, c.of);
    NodeId *made = clone_at(r, c);
    if (*made) continue;
    *made = c.of; // any id but 0 says that `cone` has it; clone_one sets the id of the clone
    vec_push(r->a, cone) = c;
    for (int i = 0; i < node->nargs; i++) need(r, node->args[i], c.in, &todo);
  }
  if (cone.n) qsort(cone.at, cone.n, sizeof *cone.at, by_id);
  for (uint32_t i = 0; i < cone.n; i++) clone_one(r, cone.at[i]);
}

// -- copying the nodes that read clones --------------------------------------------------------

// Replaces n, the node by which a backward loop reads a collected value (AT), by a clone. The clone
// computes the value again in the current iteration. Repeats on the clone the renames that lie
// between the value and n: also those before the AT of an outer loop, of which n takes one
// iteration. Returns the new node.
static NodeId rematerialise_step(Remat *r, NodeId n) {
  const Node *node = graph_node(r->from, n), *x;
  VEC(const Node *) renamed = {0};
  for (NodeId k = node->args[0];; k = x->args[0]) {
    x = graph_node(r->from, k);
    if (x->op == OP_RENAME)
      vec_push(r->a, renamed) = x;
    else if (x->op != OP_AT)
      break;
  }
  clone_cone(r, r->loops->mirror[n], node->region);
  NodeId marked = value(r, r->loops->mirror[n], node->region);
  while (renamed.n) {
    const Node *rename = renamed.at[--renamed.n];
    r->to->origin = *rename->origin;
    marked = graph_add(r->to, OP_RENAME, 1, &marked, rename->attr);
  }
  return marked;
}

static void copy_reader(Remat *r, NodeId n) {
  const Node *node = graph_node(r->from, n);
  NodeId was[MAX_ARGS];
  for (int i = 0; i < node->nargs; i++) {
    NodeId arg = node->args[i];
    was[i] = r->map[arg];
    if (node->op != OP_COLLECT && is_cloned(r, arg)) clone_cone(r, arg, node->region);
  }
  for (int i = 0; i < node->nargs; i++)
    if (node->op != OP_COLLECT && is_cloned(r, node->args[i]))
      r->map[node->args[i]] = value(r, node->args[i], node->region);
  r->map[n] = graph_copy(r->to, r->from, n, r->map);
  for (int i = node->nargs; i-- > 0;) r->map[node->args[i]] = was[i];
}

static void copy_node(Remat *r, NodeId n) {
  bool forward = remat_forward(r->from, r->loops, n);
  r->phase = phase_of(r, n, forward);
  if (!forward && r->loops->mirror[n] && r->marked[r->loops->mirror[n]])
    r->map[n] = rematerialise_step(r, n);
  else
    copy_reader(r, n);
}

const Graph *remat(Arena *a, const Graph *input, int level) {
  RematLevel what = remat_level(a, input, level);
  const Graph *g = what.steps ? remat_unhoist(a, input) : input;
  uint32_t count = graph_count(g);
  RematLoops loops = remat_loops(a, g);
  Remat r = {.a = a, .from = g, .loops = &loops, .marked = arena_array(a, bool, count + 1)};
  if (!remat_mark(a, g, &loops, &what, r.marked)) return g;
  r.each = what.each;
  r.part = graph_micro_batches(a, g);
  r.to = graph_like(a, g, g->stage);
  r.map = arena_array(a, NodeId, count + 1);
  for (NodeId n = 1; n <= count; n++) {
    bug_context("remat", n);
    copy_node(&r, n);
  }
  graph_copy_outputs(r.to, g, r.map);
  return graph_prune_in_place(a, r.to, g->stage);
}

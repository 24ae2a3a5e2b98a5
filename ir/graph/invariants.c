// Checks the invariants of a graph at its stage: graph_verify for tests and graph text, graph_check
// after every pass in debug builds.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/graph/infer_internal.h"

enum { S_EXPANDS = 1, S_COLLECTIVE = 2, WHY = 200 };

static const unsigned stage_legal[STAGE_COUNT] = {
#define STAGE(id, text, legal, holds) legal,
#include "ir/graph/stages.def"
#undef STAGE
};

typedef struct Verifier {
  const Graph *g;
  const NodeId *scan; // [RegionId]: the SCAN node of the region
  char *why;
} Verifier;

static bool broken(const Verifier *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
static bool broken(const Verifier *c, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(c->why, WHY, fmt, ap);
  va_end(ap);
  return false;
}

// -- declarations, nodes, outputs ---------------------------------------------------------------

static bool order_is_whole(const Verifier *c, const char *name, int rank, const DimId *d) {
  if (rank > MAX_RANK) return broken(c, "%s has more than %d dims", name, MAX_RANK);
  for (int i = 0; i < rank; i++) {
    if (d[i] == 0 || d[i] > dim_count(c->g->dims)) return broken(c, "%s has no dim %u", name, d[i]);
    if (dim_get(c->g->dims, d[i])->whole != d[i]) return broken(c, "%s is over a block", name);
    for (int j = 0; j < i; j++)
      if (d[i] == d[j]) return broken(c, "%s has a dim twice", name);
  }
  return true;
}

static bool check_decl(const Verifier *c, DeclId id) {
  const Graph *g = c->g;
  const Decl *d = &g->decl.at[id - 1];
  if (!d->name) return broken(c, "declaration %u has no name", id);
  if (graph_find_decl(g, d->name) != id) return broken(c, "%s is declared twice", d->name);
  if (d->of >= id) return broken(c, "%s belongs to no earlier declaration", d->name);
  if (d->kind == DECL_SLOT && (!d->of || g->decl.at[d->of - 1].kind != DECL_PARAM))
    return broken(c, "slot %s belongs to no parameter", d->name);
  if (d->node > graph_count(g)) return broken(c, "%s has no node %%%u", d->name, d->node);
  if (d->node && graph_node(g, d->node)->attr->decl != id)
    return broken(c, "%%%u is not the node of %s", d->node, d->name);
  return order_is_whole(c, d->name, d->rank, d->dims);
}

static bool check_legal(const Verifier *c, NodeId id) {
  const Node *n = graph_node(c->g, id);
  const OpRow *row = op_row((Op)n->op);
  unsigned legal = stage_legal[c->g->stage];
  const char *stage = stage_text(c->g->stage);
  if (row->flags & EXPANDS && !(legal & S_EXPANDS))
    return broken(c, "%%%u: %s is not legal at stage %s", id, row->text, stage);
  if (row->cls == COLLECTIVE && !(legal & S_COLLECTIVE))
    return broken(c, "%%%u: %s is not legal at stage %s", id, row->text, stage);
  if (legal & S_COLLECTIVE) return true;
  for (int i = 0; i < n->dims->n; i++) {
    const Dim *d = dim_get(c->g->dims, n->dims->at[i]);
    if (d->whole != n->dims->at[i])
      return broken(c, "%%%u: block %s is not legal at stage %s", id, d->name, stage);
  }
  return true;
}

static bool check_node(const Verifier *c, NodeId id) {
  const Graph *g = c->g;
  const Node *n = graph_node(g, id);
  if (n->op >= OP_COUNT) return broken(c, "%%%u has no operation", id);
  for (int i = 0; i < n->nargs; i++)
    if (n->args[i] == 0 || n->args[i] >= id)
      return broken(c, "%%%u: argument %%%u is not before it", id, n->args[i]);
  char why[WHY];
  Dtype type;
  Dims dims;
  if (!infer(g, (Op)n->op, n->nargs, n->args, n->attr, &type, &dims, why))
    return broken(c, "%%%u: %.180s", id, why);
  if (n->type != type)
    return broken(c, "%%%u is %s, not %s", id,
                  n->type < TYPE_COUNT ? dtype_text((Dtype)n->type) : "?", dtype_text(type));
  if (n->region > g->region.n) return broken(c, "%%%u is in no region", id);
  if (!dims_equal(n->dims, &dims)) return broken(c, "%%%u has other dims than follow", id);
  if (n->attr->decl && g->decl.at[n->attr->decl - 1].node != id)
    return broken(c, "%%%u is a second node of %s", id, g->decl.at[n->attr->decl - 1].name);
  return check_legal(c, id);
}

// -- loops --------------------------------------------------------------------------------------

static bool check_region(const Verifier *c, RegionId r) {
  const Region *region = region_get(c->g, r);
  if (region->parent >= r) return broken(c, "region %u lies in no earlier one", r);
  if (region->t == 0 || region->t > dim_count(c->g->dims))
    return broken(c, "region %u runs over no dim", r);
  bool blocks = stage_legal[c->g->stage] & S_COLLECTIVE;
  if (!blocks && dim_get(c->g->dims, region->t)->whole != region->t)
    return broken(c, "region %u runs over a block dim", r);
  return true;
}

static bool check_carry(const Verifier *c, NodeId id) {
  const Node *n = graph_node(c->g, id);
  NodeId scan = c->scan[n->region], next = carry_next(c->g, c->scan, id);
  if (!scan) return true; // no scan: it is added later than the nodes of its loop
  if (!next) return broken(c, "%%%u has no next value in %%%u", id, scan);
  const Node *value = graph_node(c->g, next);
  if (value->type != n->type || !dims_equal(value->dims, n->dims))
    return broken(c, "%%%u and its next value %%%u differ in type or dims", id, next);
  return true;
}

// Checks the arguments of a node in a loop. A value from outside the loop is computed before the
// loop runs, so its id must be smaller than that of the scan.
static bool check_place(const Verifier *c, NodeId id) {
  const Node *n = graph_node(c->g, id);
  if (n->op == OP_CARRY && !check_carry(c, id)) return false;
  if (n->op == OP_SCAN && c->scan[n->attr->region] != id)
    return broken(c, "%%%u: its region has a second scan", id);
  for (RegionId r = n->region; r; r = region_get(c->g, r)->parent) {
    NodeId scan = c->scan[r];
    if (!scan && stage_legal[c->g->stage] & S_COLLECTIVE)
      return broken(c, "%%%u is in a loop that nothing runs", id);
    for (int i = 0; scan && i < n->nargs; i++)
      if (!region_encloses(c->g, r, graph_node(c->g, n->args[i])->region) && n->args[i] > scan)
        return broken(c, "%%%u is in the loop of %%%u and needs %%%u behind it", id, scan,
                      n->args[i]);
  }
  return true;
}

// Checks that the new value of a declaration has the dims of its source node. If the declaration
// has no source node in this graph, the new value must have one dim for each dim of the
// declaration: the dim itself or a block of it.
static bool update_fits(const Verifier *c, const Output *o) {
  const Graph *g = c->g;
  const Decl *d = &g->decl.at[o->target - 1];
  const Dims *have = graph_node(g, o->value)->dims;
  if (graph_node(g, o->value)->type != d->type)
    return broken(c, "the update of %s is %s", d->name,
                  dtype_text((Dtype)graph_node(g, o->value)->type));
  bool held = d->node != 0, fits = have->n == d->rank;
  if (held) fits = dims_equal(have, graph_node(g, d->node)->dims);
  for (int i = 0; fits && i < d->rank; i++) {
    bool found = false;
    for (int k = 0; k < have->n; k++) found |= dim_get(g->dims, have->at[k])->whole == d->dims[i];
    fits = found;
  }
  return fits || broken(c, "the update %%%u of %s has other dims", o->value, d->name);
}

static bool check_output(const Verifier *c, const Output *o) {
  if (!o->name) return broken(c, "an output has no name");
  if (o->value == 0 || o->value > graph_count(c->g))
    return broken(c, "output %s has no node %%%u", o->name, o->value);
  if (graph_node(c->g, o->value)->region) return broken(c, "output %s is inside a loop", o->name);
  if (o->kind == OUT_VALUE) return order_is_whole(c, o->name, o->rank, o->dims);
  if (o->target == 0 || o->target > c->g->decl.n)
    return broken(c, "update %s has no target", o->name);
  if (c->g->decl.at[o->target - 1].kind == DECL_INPUT)
    return broken(c, "input %s is updated", o->name);
  return update_fits(c, o);
}

static bool check_name(const Verifier *c, const Name *n) {
  if (!n->name) return broken(c, "a name is missing");
  if (n->value > graph_count(c->g)) return broken(c, "%s has no node %%%u", n->name, n->value);
  return order_is_whole(c, n->name, n->rank, n->dims);
}

static bool verify(const Verifier *c) {
  const Graph *g = c->g;
  for (DeclId d = 1; d <= g->decl.n; d++)
    if (!check_decl(c, d)) return false;
  for (uint32_t r = 1; r <= g->region.n; r++)
    if (!check_region(c, r)) return false;
  for (NodeId n = 1; n <= graph_count(g); n++)
    if (!check_node(c, n)) return false;
  for (NodeId n = 1; n <= graph_count(g) && g->region.n; n++)
    if (!check_place(c, n)) return false;
  for (uint32_t i = 0; i < g->output.n; i++)
    if (!check_output(c, &g->output.at[i])) return false;
  for (uint32_t i = 0; i < g->name.n; i++)
    if (!check_name(c, &g->name.at[i])) return false;
  return true;
}

bool graph_verify(const Graph *g, char *why) {
  Arena *a = arena_new();
  Verifier c = {.g = g, .why = why, .scan = region_scans(a, g)};
  bool good = verify(&c);
  arena_free(a);
  return good;
}

// -- after every pass ---------------------------------------------------------------------------

#ifdef NDEBUG
void graph_check(const Graph *g, const char *pass) {
  (void)g;
  (void)pass;
}
#else
static void check_text(Arena *a, const Graph *g, const char *pass) {
  Diag *d = diag_new(a);
  const char *text = graph_print(a, g, NULL, NULL, NULL);
  uint32_t source = diag_source(d, pass, text, strlen(text));
  Graph *reread = graph_read(a, intern_new(a), d, source, text, strlen(text));
  if (!reread) {
    diag_print(d, stderr, false);
    BUG("after %s: the graph's text cannot be read", pass);
  }
  const char *second = graph_print(a, reread, d, NULL, NULL);
  if (strcmp(text, second) == 0) return;
  size_t at = 0, line = 1;
  for (; text[at] == second[at]; at++) line += text[at] == '\n';
  BUG("after %s: the graph's text changes when it is read, in line %zu", pass, line);
}

void graph_check(const Graph *g, const char *pass) {
  bug_context(pass, 0);
  char why[WHY];
  if (!graph_verify(g, why)) BUG("after %s: %s", pass, why);
  Arena *a = arena_new();
  check_text(a, g, pass);
  arena_free(a);
  bug_context(NULL, 0);
}
#endif

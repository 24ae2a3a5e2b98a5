// Prints the text of `dump --stage fuse`, a paragraph for each group; and finds the bytes that a
// group saves. "apart from #5" gives the reason why the kernel was not merged with group 5.
//
//   #7 kernel outer(b) inner(c): loads 2560 bytes, stores 4 bytes
//     reduction of 9 nodes; fused, saves 31000 bytes or as much work
//     %12 = exp(%11) : f32[b, c]  # model.mesh:9
//     stores %20
//     apart from #5: one kernel would be no cheaper than two
#include "codegen/codegen.h"
#include "codegen/values/values_internal.h"
#include "ir/base/stream.h"

#include <stdio.h>
#include <stdlib.h>

const char *const group_kinds[] = {
    [GROUP_KERNEL] = "kernel",   [GROUP_GEMM] = "product", [GROUP_COLLECTIVE] = "collective",
    [GROUP_LOOP] = "loop",       [GROUP_ALIAS] = "alias",  [GROUP_SOURCE] = "source",
    [GROUP_ORDERED] = "ordered",
};

static const struct {
  const char *name, *text;
} reasons[] = {
#define APART(reason, text) {#reason, text},
#include "codegen/fuse/apart.def"
#undef APART
};

const char *apart_text(ApartReason why) { return reasons[why].text; }
const char *apart_name(ApartReason why) { return reasons[why].name; }

bool group_says_apart(const Fusion *f, const Group *g, const MergeRefusal *r) {
  GroupKind from = f->group[r->group].kind;
  return g->kind == GROUP_KERNEL && (from == GROUP_KERNEL || from == GROUP_GEMM);
}

static void print_dims(FILE *out, const Graph *g, const char *what, const Dims *dims) {
  if (!dims->n) return;
  fprintf(out, " %s(", what);
  for (int i = 0; i < dims->n; i++)
    fprintf(out, "%s%s", i ? ", " : "", dim_get(g->dims, dims->at[i])->name);
  fprintf(out, ")");
}

static void print_node(FILE *out, const Fusion *f, const Diag *d, const Group *g, NodeId n) {
  const Node *x = graph_node(f->graph, n);
  const DimList *order = &f->order->at[n];
  fprintf(out, "  %%%u = %s(", n, op_row((Op)x->op)->text);
  for (int i = 0; i < x->nargs; i++) fprintf(out, "%s%%%u", i ? ", " : "", x->args[i]);
  fprintf(out, ") : %s[", dtype_text((Dtype)x->type));
  for (int i = 0; i < order->n; i++)
    fprintf(out, "%s%s", i ? ", " : "", dim_get(f->graph->dims, order->at[i])->name);
  fprintf(out, "]");
  if (f->recomputed[n] && g->kind == GROUP_KERNEL) fprintf(out, " recomputed");
  const Origin *o = x->origin;
  if (o->pos.line && d) fprintf(out, "  # %s:%u", diag_source_name(d, o->pos.source), o->pos.line);
  if (o->value) fprintf(out, "%s %s", o->pos.line && d ? ":" : "  #", o->value);
  fprintf(out, "\n");
}

static void print_group(FILE *out, const Fusion *f, const Diag *d, uint32_t i) {
  const Group *g = &f->group[i];
  fprintf(out, "#%u %s", i, group_kinds[g->kind]);
  print_dims(out, f->graph, "outer", &g->outer);
  print_dims(out, f->graph, "inner", &g->inner);
  if (g->kind == GROUP_KERNEL)
    fprintf(out, ": loads %lld byte%s, stores %lld byte%s", (long long)g->load_bytes,
            plural(g->load_bytes), (long long)g->store_bytes, plural(g->store_bytes));
  if (g->launch) fprintf(out, ", launch %u", g->launch);
  fprintf(out, "\n  %s", g->why ? g->why : "");
  if (g->merged > 1)
    fprintf(out, " of %u nodes; fused, saves %.0f bytes or as much work", g->merged, g->saved);
  fprintf(out, "\n");
  for (uint32_t j = 0; j < g->nnodes; j++) print_node(out, f, d, g, g->node[j]);
  if (g->nstored) fprintf(out, "  stores");
  for (uint32_t j = 0; j < g->nstored; j++) fprintf(out, " %%%u", g->stored[j]);
  if (g->nstored) fprintf(out, "\n");
  for (uint32_t j = 0; j < g->nrefusals; j++)
    if (group_says_apart(f, g, &g->refusal[j]))
      fprintf(out, "  apart from #%u: %s\n", g->refusal[j].group, apart_text(g->refusal[j].why));
}

char *fusion_print(Arena *a, const Fusion *f, const Diag *d) {
  TextStream s;
  stream_begin(&s);
  FILE *out = s.file;
  for (uint32_t i = 0; i < f->ngroups; i++)
    if (f->group[i].kind != GROUP_SOURCE) print_group(out, f, d, i);
  return stream_end(&s, a);
}

// -- the bytes that a group saves --------------------------------------------------------------

// Returns whether the value of node n would be stored if each node were a kernel of its own. A
// number (constant, index or step counter) is not stored: each use computes it.
static bool in_memory(const Graph *g, NodeId n) { return !op_is_number((Op)graph_node(g, n)->op); }

// Returns the bytes that node n loads and stores if it is a kernel of its own. An argument that
// occurs twice is loaded once.
static int64_t bytes_alone(const Graph *g, NodeId n) {
  const Node *x = graph_node(g, n);
  int64_t bytes = node_bytes(g, n);
  for (int i = 0; i < x->nargs; i++) {
    bool before = false;
    for (int k = 0; k < i; k++) before |= x->args[k] == x->args[i];
    if (!before && in_memory(g, x->args[i]))
      bytes += x->op == OP_TAKE && i == 0 ? node_bytes(g, n) : node_bytes(g, x->args[i]);
  }
  return bytes;
}

// Returns the bytes that the nodes of the group move as kernels of their own, less the bytes that
// the group moves. A value that several groups recompute counts in one group only,
// Fusion.of[value]: as a kernel of its own it would run once.
int64_t group_saved_bytes(const Fusion *f, uint32_t group) {
  const Group *g = &f->group[group];
  int64_t alone = 0;
  if (g->kind != GROUP_KERNEL) return 0;
  for (uint32_t i = 0; i < g->nnodes; i++)
    if (f->of[g->node[i]] == group && in_memory(f->graph, g->node[i]))
      alone += bytes_alone(f->graph, g->node[i]);
  int64_t moved = g->load_bytes + g->store_bytes;
  return alone > moved ? alone - moved : 0;
}

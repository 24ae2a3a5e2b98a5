// Gathers a value once, before the pointwise work on it, instead of each result of that work.
//
// The gradient of a replicated weight comes out split when its activations are. The updates of
// the weight and of the optimizer's tensors would then be computed in blocks, and each would be
// gathered. Gathering the gradient alone sends less, and gathering its arguments may send even
// less:
//
//   g[f/rows, h] = contract(a[b, f/rows], dy[b, h])    v' = 0.9 * v + g * g,  w' = w - g / sqrt(v')
//   gathers v' and w'  =>  gathers g  =>  gathers a, if every processor may compute all of g
#include "partition/sharding/sharding_internal.h"

enum { MAX_BEHIND = 64 };

typedef struct Behind {
  Placer *p;
  const Graph *g;
  int axis;
  DimId d;
  NodeId node[MAX_BEHIND]; // the value, then pointwise nodes that use it and are split along d too
  bool gathered[MAX_BEHIND], // [i] some reader needs node[i] replicated
      leads[MAX_BEHIND]; // [i] some reader needs node[i], or a later node made of it, replicated
  int n;
} Behind;

static bool split_so(const Behind *b, NodeId n, const Sharding *s) {
  int k = dims_index(graph_node(b->g, n)->dims, b->d);
  return k >= 0 && axes_has(s->split[k], b->axis);
}

static int found(const Behind *b, NodeId n) {
  for (int i = 0; i < b->n; i++)
    if (b->node[i] == n) return i;
  return -1;
}

// Returns whether the split of n over the axis is fixed. That is so if a layout rule asks for the
// axis, or if n is a declared tensor or a pin (`layout(...)` in the model).
static bool is_bound(const Placer *p, NodeId n, int axis) {
  const Node *node = graph_node(p->g, n);
  if (node->attr->decl || node->op == OP_PIN) return true;
  for (int k = 0; k < node->dims->n; k++)
    if (axes_has(p->request[n]->hard[k], axis) || axes_has(p->request[n]->soft[k], axis))
      return true;
  return false;
}

static bool goes_on(const Behind *b, NodeId u) {
  const Node *n = graph_node(b->g, u);
  return op_row((Op)n->op)->cls == POINTWISE && split_so(b, u, b->p->result.computed[u]) &&
         split_so(b, u, b->p->result.settled[u]) && !is_bound(b->p, u, b->axis);
}

static bool read_replicated(const Behind *b, NodeId n) {
  for (const Read *r = reads_of(b->p, n); r->node || r->output; r++) {
    Sharding need = need_of(b->p, r);
    if (!split_so(b, n, &need) && (r->node || b->g->output.at[r->output - 1].kind == OUT_UPDATE))
      return true;
  }
  return false;
}

// Adds to b->node pointwise arguments, such as 0.9 * v, of its nodes whose results are gathered.
// Arguments whose split a rule asks for are left out. Returns false if b->node is full.
static bool join_partners(Behind *b) {
  for (int i = 1; i < b->n; i++)
    for (int a = 0; b->leads[i] && a < graph_node(b->g, b->node[i])->nargs; a++) {
      NodeId arg = graph_node(b->g, b->node[i])->args[a];
      if (found(b, arg) >= 0 || !goes_on(b, arg)) continue;
      if (b->n == MAX_BEHIND) return false;
      b->leads[b->n] = true, b->gathered[b->n] = false;
      b->node[b->n++] = arg;
    }
  return true;
}

// Fills b->node with n and the pointwise nodes computed from n that the axis splits along dim b->d.
// Returns false if b->node is too small.
static bool look_behind(Behind *b, NodeId n) {
  b->n = 1, b->node[0] = n;
  for (int i = 0; i < b->n; i++) {
    NodeId x = b->node[i];
    b->gathered[i] = b->leads[i] = read_replicated(b, x);
    for (const Read *r = reads_of(b->p, x); r->node; r++) {
      if (!goes_on(b, r->node) || found(b, r->node) >= 0) continue;
      if (b->n == MAX_BEHIND) return false;
      b->node[b->n++] = r->node;
    }
  }
  for (bool more = true; more;) {
    more = false;
    for (int i = 1; i < b->n; i++) // arguments of a node that leads to a gather lead to it too
      for (int a = 0; b->leads[i] && a < graph_node(b->g, b->node[i])->nargs; a++) {
        int k = found(b, graph_node(b->g, b->node[i])->args[a]);
        if (k >= 0 && !b->leads[k]) b->leads[k] = more = true;
      }
  }
  return join_partners(b);
}

// Returns true if no other operand of the pointwise nodes in b->node is split over the axis. A
// gather of b->node[0] then replaces all gathers of results of these nodes.
static bool alone(const Behind *b) {
  for (int i = 1; i < b->n; i++) {
    const Node *node = graph_node(b->g, b->node[i]);
    for (int a = 0; b->leads[i] && a < node->nargs; a++) {
      NodeId arg = node->args[a];
      int k = found(b, arg);
      if (k > 0 && !b->leads[k]) return false;
      if (k < 0 && settled_dim(b->p, arg, b->axis) >= 0) return false;
    }
  }
  return true;
}

// Returns the bytes that one processor sends to gather the arguments of n that b->axis splits.
static double argument_bytes(const Behind *b, NodeId n) {
  const Node *node = graph_node(b->g, n);
  double p = (double)b->g->mesh->axis[b->axis].size, bytes = 0;
  for (int i = 0; i < node->nargs; i++) {
    const Sharding *settled = b->p->result.settled[node->args[i]];
    if (settled_dim(b->p, node->args[i], b->axis) >= 0)
      bytes += (p - 1) * (double)sharding_bytes(b->g, node->args[i], settled);
  }
  return bytes;
}

// Returns whether every processor should compute all of n, a contraction, from gathered arguments.
// This must send fewer bytes, and the extra flops may take at most twice the time that the saved
// bytes would take.
static bool worth_repeating(const Behind *b, NodeId n) {
  if (graph_node(b->g, n)->op != OP_CONTRACT || b->p->result.computed[n]->partial.n) return false;
  double p = (double)b->g->mesh->axis[b->axis].size;
  double saved =
      (p - 1) * (double)sharding_bytes(b->g, n, b->p->result.computed[n]) - argument_bytes(b, n);
  double bandwidth = machine_link(b->p->machine, b->g->mesh->axis[b->axis].name).bandwidth;
  Dtype factors = (Dtype)graph_node(b->g, graph_node(b->g, n)->args[0])->type;
  double flops = machine_flops(b->p->machine, factors);
  return saved > 0 && (p - 1) * place_work(b->p, n) / flops <= 2 * saved / bandwidth;
}

// Removes b->axis from the sharding *at of the placement.
static void unsplit(const Behind *b, const Sharding **at) {
  Sharding s = **at;
  sharding_remove(&s, b->axis);
  *at = sharding_keep(b->p->kept, &s);
}

static void gather_value(Behind *b, NodeId n) {
  double bytes = 0;
  if (!look_behind(b, n) || !alone(b)) return;
  for (int i = 0; i < b->n; i++)
    if (b->gathered[i])
      bytes += (double)sharding_bytes(b->g, b->node[i], b->p->result.settled[b->node[i]]);
  double own = (double)sharding_bytes(b->g, n, b->p->result.computed[n]);
  bool repeat = worth_repeating(b, n);
  if (bytes < own || (bytes <= own && !repeat))
    return; // at equal bytes it is better to compute in blocks
  unsplit(b, &b->p->result.settled[n]);
  for (int i = 1; i < b->n; i++) {
    if (!b->leads[i]) continue;
    unsplit(b, &b->p->result.computed[b->node[i]]);
    unsplit(b, &b->p->result.settled[b->node[i]]);
  }
  if (repeat) unsplit(b, &b->p->result.computed[n]);
}

void place_gathers(Placer *p, int axis) {
  Behind b = {.p = p, .g = p->g, .axis = axis};
  for (NodeId n = 1; n <= graph_count(p->g); n++) {
    const Node *node = graph_node(p->g, n);
    OpClass cls = op_row((Op)node->op)->cls;
    if ((cls != CONTRACT && cls != REDUCE && cls != GATHER) || node->region || is_bound(p, n, axis))
      continue;
    int k = computed_dim(p, n, axis);
    if (k < 0 || !axes_equal(p->result.computed[n]->split[k], p->result.settled[n]->split[k]))
      continue;
    b.d = node->dims->at[k];
    gather_value(&b, n);
  }
}

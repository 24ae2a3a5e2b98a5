// Makes the graph of a model's named values. In: the ledger and the values of a compile. Out:
// boxes, the edges between them, rounds of loops that look alike, and the boxes at which
// collectives are shown.
//
// An edge leads from a named value to one that is computed from it without another named value
// between them. Gradients have no boxes: a collective of the backward pass is shown at the value
// whose gradient it moves.
#include "frontend/report/explain.h"

#include <stdlib.h>
#include <string.h>

// -- sets of boxes ------------------------------------------------------------------------------

// A set of boxes of the drawing, stored as their indices in ascending order.
typedef struct BoxSet {
  uint32_t n;
  const uint32_t *at;
} BoxSet;

static BoxSet set_join(Arena *a, BoxSet x, BoxSet y) {
  if (!x.n || x.at == y.at) return y;
  if (!y.n) return x;
  uint32_t *at = arena_array(a, uint32_t, x.n + y.n), n = 0, i = 0, k = 0;
  while (i < x.n || k < y.n) {
    uint32_t left = i < x.n ? x.at[i] : UINT32_MAX, right = k < y.n ? y.at[k] : UINT32_MAX,
             least = left < right ? left : right;
    i += left == least;
    k += right == least;
    at[n++] = least;
  }
  return n == x.n ? x : (BoxSet){n, at};
}

typedef struct Maker {
  Arena *a, *scratch;
  const Explain *e;
  const Graph *g;
  ValueGraph *out;
  uint32_t *box_of; // indexed by NodeId: 1 + the node's box; 0: the node has none
  BoxSet *made_of;  // indexed by NodeId: the nearest boxes that the node is computed from
  VEC(GraphEdge) edge;
  VEC(GraphRound) round;
  VEC(GraphMove) move;
} Maker;

// -- boxes --------------------------------------------------------------------------------------

static int find_round(Maker *m, const char *name, const char **rest) {
  size_t loop = 0, n = round_prefix(name, &loop);
  *rest = n ? name + n + 1 : name;
  if (!n) return -1;
  for (uint32_t i = m->round.n; i-- > 0;)
    if (strlen(m->round.at[i].name) == n && !strncmp(m->round.at[i].name, name, n)) return (int)i;
  vec_push(m->a, m->round) =
      (GraphRound){.name = arena_text(m->a, name, n), .loop = arena_text(m->a, name, loop)};
  return (int)m->round.n - 1;
}

static bool has_box(const ExplainedValue *v) {
  return v->kind != VALUE_SLOT && v->kind != VALUE_GRADIENT;
}

static void make_boxes(Maker *m) {
  const ExplainedValues *v = m->e->values;
  m->out->box = arena_array(m->a, GraphBox, v->n + 1);
  for (uint32_t i = 0; i < v->n; i++) {
    if (!has_box(&v->at[i]) || m->box_of[v->at[i].node]) continue;
    GraphBox *b = &m->out->box[m->out->nboxes++];
    *b = (GraphBox){.name = v->at[i].name, .value = (int)i};
    b->round = find_round(m, b->name, &b->rest);
    m->box_of[v->at[i].node] = m->out->nboxes;
  }
}

// -- edges --------------------------------------------------------------------------------------

static void add_edges(Maker *m, BoxSet from, uint32_t to) {
  for (uint32_t i = 0; i < from.n; i++)
    if (from.at[i] != to) vec_push(m->a, m->edge) = (GraphEdge){from.at[i], to};
}

// Finds, for each node of the forward pass, the nearest boxes (named values) that the node is
// computed from. Adds an edge from each of these boxes to the box of the node, if the node has one.
static void make_edges(Maker *m) {
  uint32_t *own = arena_array(m->scratch, uint32_t, m->out->nboxes + 1);
  for (uint32_t i = 0; i < m->out->nboxes; i++) own[i] = i;
  for (NodeId n = 1; n <= graph_count(m->g); n++) {
    const Node *node = graph_node(m->g, n);
    BoxSet all = {0};
    if (node->origin->backward) continue;
    for (int i = 0; i < node->nargs; i++)
      all = set_join(m->scratch, all, m->made_of[node->args[i]]);
    if (!m->box_of[n]) {
      m->made_of[n] = all;
      continue;
    }
    uint32_t box = m->box_of[n] - 1;
    add_edges(m, all, box);
    m->made_of[n] = (BoxSet){1, &own[box]};
  }
  m->out->edge = m->edge.at;
  m->out->nedges = m->edge.n;
}

// Sets the rank of each box, which is greater than the ranks of the boxes that the box is computed
// from. A box without incoming edges gets the rank just before that of its first reader. One pass
// is enough, because edges are sorted by the box that they lead to.
static void rank_boxes(const Maker *m) {
  ValueGraph *v = m->out;
  uint32_t *least = arena_array(m->scratch, uint32_t, v->nboxes + 1);
  bool *made = arena_array(m->scratch, bool, v->nboxes + 1);
  for (uint32_t i = 0; i < v->nedges; i++) {
    GraphBox *from = &v->box[v->edge[i].from], *to = &v->box[v->edge[i].to];
    if (to->rank <= from->rank) to->rank = from->rank + 1;
    made[v->edge[i].to] = true;
  }
  for (uint32_t i = 0; i < v->nedges; i++) {
    uint32_t from = v->edge[i].from, rank = v->box[v->edge[i].to].rank;
    if (!least[from] || rank < least[from]) least[from] = rank;
  }
  for (uint32_t b = 0; b < v->nboxes; b++)
    if (!made[b] && least[b]) v->box[b].rank = least[b] - 1;
}

// -- collectives --------------------------------------------------------------------------------

static int find_box(const ValueGraph *v, const char *name) {
  for (uint32_t i = 0; i < v->nboxes; i++)
    if (!strcmp(v->box[i].name, name)) return (int)i;
  return -1;
}

// Adds each collective of the ledger to the drawing, at the box of the value that the collective
// moves. A collective of the forward pass is an edge from that box to the box of the reader, if the
// reader has one.
static void make_moves(Maker *m) {
  const Ledger *l = m->e->ledger;
  for (uint32_t r = 0; r < l->nrows; r++)
    for (uint32_t i = 0; i < l->row[r].nparts; i++) {
      const LedgerPart *p = &l->row[r].part[i];
      int from = find_box(m->out, p->gradient_of ? p->gradient_of : p->value), to = from;
      const char *user = p->reader && !l->row[r].fact->backward
                             ? graph_node(m->g, p->reader)->origin->value
                             : NULL;
      if (from < 0) continue;
      if (user && find_box(m->out, user) >= 0) to = find_box(m->out, user);
      bool told = false;
      for (uint32_t k = 0; k < m->move.n; k++)
        told |= m->move.at[k].row == r && m->move.at[k].from == (uint32_t)from &&
                m->move.at[k].to == (uint32_t)to;
      if (!told) vec_push(m->a, m->move) = (GraphMove){r, (uint32_t)from, (uint32_t)to};
    }
  m->out->move = m->move.at;
  m->out->nmoves = m->move.n;
}

// -- rounds that look alike ---------------------------------------------------------------------

// Returns a text with everything that the drawing shows of a round (iteration of a loop): its
// values with their shardings and collectives. Rounds with equal texts look alike. Constants are
// ignored, because equal constants are one node, which is in the first round only.
static const char *looks(Maker *m, uint32_t round) {
  const ValueGraph *v = m->out;
  const char *text = m->round.at[round].loop;
  for (uint32_t b = 0; b < v->nboxes; b++) {
    if (v->box[b].round != (int)round || m->e->values->at[v->box[b].value].constant) continue;
    text = arena_printf(m->scratch, "%s\n%s %s", text, v->box[b].rest,
                        m->e->values->at[v->box[b].value].seen);
    for (uint32_t k = 0; k < v->nmoves; k++)
      if (v->move[k].from == b)
        text = arena_printf(m->scratch, "%s %u", text, m->e->ledger->row[v->move[k].row].line);
  }
  return text;
}

static void compare_rounds(Maker *m) {
  const char **look = arena_array(m->scratch, const char *, m->round.n + 1);
  for (uint32_t i = 0; i < m->round.n; i++) {
    look[i] = looks(m, i);
    m->round.at[i].alike = i;
    for (uint32_t k = 0; k < i; k++)
      if (m->round.at[k].alike == k && !strcmp(look[k], look[i])) {
        m->round.at[i].alike = k;
        break;
      }
  }
  m->out->round = m->round.at;
  m->out->nrounds = m->round.n;
}

ValueGraph *value_graph(Arena *a, const Explain *e) {
  Maker m = {.a = a,
             .scratch = arena_new(),
             .e = e,
             .g = e->ledger->placement->graph,
             .out = arena_new_of(a, ValueGraph)};
  m.box_of = arena_array(m.scratch, uint32_t, graph_count(m.g) + 1);
  m.made_of = arena_array(m.scratch, BoxSet, graph_count(m.g) + 1);
  make_boxes(&m);
  make_edges(&m);
  rank_boxes(&m);
  make_moves(&m);
  compare_rounds(&m);
  arena_free(m.scratch);
  return m.out;
}

// -- colours ------------------------------------------------------------------------------------

const char *const state_colours[] = {"#eceff1", "#bbdefb", "#c8e6c9", "#ffe0b2",
                                     "#e1bee7", "#b2ebf2", "#f8bbd0", "#dcedc8"};

int state_colour(const Explain *e, const ExplainedValue *v) {
  unsigned axes = 0, colour = 0, bit = 1;
  const Mesh *m = &e->session->model->mesh;
  for (int k = 0; k < v->ndims; k++)
    for (int i = 0; i < v->dim[k].axes.n; i++) axes |= 1u << v->dim[k].axes.at[i];
  for (int axis = 0; axis < m->naxes; axis++) {
    if (m->axis[axis].size < 2) continue;
    if (axes >> axis & 1) colour |= bit;
    bit <<= 1;
  }
  return colour ? (int)((colour - 1) % (STATE_COLOURS - 1)) + 1 : 0;
}

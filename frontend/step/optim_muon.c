// The update rule of Muon (Jordan et al., "Muon: an optimizer for hidden layers in neural
// networks", 2024). A parameter is one or several matrices. The update of a matrix is its momentum,
// made nearly orthogonal by five iterations of Newton and Schulz:
//
//   m' = momentum m + (1 - momentum) g,  u = (1 - momentum) g + momentum m'  (nesterov), else m'
//   x = u / max(norm(u), 1e-7), then five times:  a = x x^T,  x = 3.4445 x + (2.0315 a^2 - 4.775 a) x
//   w' = w - lr weight_decay w - lr sqrt(max(1, outs / ins)) x
//
// This is torch.optim.Muon, which computes the iterations in bf16; here they are in the type of the
// update. The product a is over the shorter side of the matrix. Its second side needs dims of its
// own: for the dim h these are h.muon and, in a^2, h.muon2. Everything is nodes of the graph, so
// norms and products are those of the whole matrix under every layout.
#include <math.h>

#include "frontend/step/step_internal.h"

enum { ITERATIONS = 5 };

// The dims of the shorter side, and the dims that take their places on the second side and in a^2.
typedef struct Sides {
  const Optim *o;
  int n;
  DimId own[MAX_RANK], second[MAX_RANK], third[MAX_RANK];
} Sides;

static Sides sides_of(const Optim *o, const Dims *side) {
  Sides s = {.o = o, .n = side->n};
  for (int i = 0; i < s.n; i++) {
    s.own[i] = side->at[i];
    s.second[i] = dim_twin(o->g->dims, s.own[i], "muon");
    s.third[i] = dim_twin(o->g->dims, s.own[i], "muon2");
  }
  return s;
}

static NodeId renamed(const Sides *s, NodeId x, const DimId *from, const DimId *to) {
  Attr attr = {.ndims = (uint8_t)s->n, .dims = from, .nto = (uint8_t)s->n, .to = to};
  return graph_add(s->o->g, OP_RENAME, 1, &x, &attr);
}

// Returns the product of x and y, summed over the n dims `over`.
static NodeId product(const Sides *s, NodeId x, NodeId y, int n, const DimId *over) {
  Attr attr = {.type = s->o->type, .ndims = (uint8_t)n, .dims = over};
  return graph_add(s->o->g, OP_CONTRACT, 2, (NodeId[]){x, y}, &attr);
}

// One iteration on x; `longer` is the other side of the matrix.
static NodeId iterate(const Sides *s, const Dims *longer, NodeId x) {
  const Optim *o = s->o;
  NodeId across = renamed(s, x, s->own, s->second);
  NodeId a = product(s, x, across, longer->n, longer->at); // over own, second
  NodeId shifted = renamed(s, renamed(s, a, s->second, s->third), s->own, s->second);
  NodeId square = renamed(s, product(s, a, shifted, s->n, s->second), s->third, s->second);
  NodeId by = add(o, mul(o, optim_num(o, -4.775), a), mul(o, optim_num(o, 2.0315), square));
  NodeId moved = product(s, by, across, s->n, s->second);
  return add(o, mul(o, optim_num(o, 3.4445), x), moved);
}

static NodeId orthogonal(const Optim *o, const MatrixDims *m, NodeId u) {
  bool wide = m->outs <= m->ins;
  const Dims *longer = wide ? &m->in : &m->out;
  Sides s = sides_of(o, wide ? &m->out : &m->in);
  Dims both = m->out;
  for (int i = 0; i < m->in.n; i++)
    if (!dims_add(o->g->dims, &both, m->in.at[i])) BUG("a matrix of too many dims");
  NodeId norm = optim_two(o, OP_MAXIMUM, optim_norm(o, u, &both), optim_num(o, 1e-7));
  NodeId x = quot(o, u, norm);
  for (int i = 0; i < ITERATIONS; i++) x = iterate(&s, longer, x);
  return x;
}

NodeId update_muon(const Optim *o) {
  const OptimizerSpec *s = o->spec;
  MatrixDims m;
  const char *why = matrix_dims(o->g, s, &o->g->decl.at[o->param - 1], &m);
  if (why) BUG("muon: %s", why);
  NodeId v = optim_average(o, "m", s->momentum, 1 - s->momentum, o->grad), u = v;
  if (s->nesterov)
    u = add(o, mul(o, optim_num(o, 1 - s->momentum), o->grad),
            mul(o, optim_num(o, s->momentum), v));
  double gain = sqrt(fmax(1, m.outs / m.ins));
  NodeId step = mul(o, mul(o, o->lr, optim_num(o, gain)), orthogonal(o, &m, u));
  return sub(o, optim_shrunk(o), step);
}

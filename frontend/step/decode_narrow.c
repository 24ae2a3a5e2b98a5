// Decides which parameters a decoding form keeps in the type in which its products read them
// (precision = bf16 or f16): a run reads each weight once, so half the bytes are half the time.
//
//   logits = sum[d](cast(x, bf16) * cast(table, bf16)), x = take(table, ids)
//   the state of `table` is bf16; x = cast(take(table, ids), f32)
//
// A parameter is kept in f32 if another operation than a cast to that type, or a lookup, reads it.
#include "frontend/step/decode_build_internal.h"

static bool is_parameter(const Graph *g, NodeId id) {
  const Node *n = graph_node(g, id);
  return n->op == OP_PARAM && n->type == TYPE_F32;
}

bool decode_is_lookup(const Decode *d, NodeId id) {
  const Node *n = graph_node(d->from, id);
  return n->op == OP_TAKE && is_parameter(d->from, n->args[0]);
}

void decode_narrow(Decode *d) {
  const Graph *from = d->from;
  Dtype *type = arena_array(d->a, Dtype, from->decl.n + 1); // by declaration: 0 is TYPE_F32
  bool *other = arena_array(d->a, bool, from->decl.n + 1);
  for (NodeId id = 1; id <= graph_count(from); id++) {
    const Node *n = graph_node(from, id);
    for (int k = 0; k < n->nargs; k++) {
      if (!is_parameter(from, n->args[k])) continue;
      DeclId decl = graph_node(from, n->args[k])->attr->decl;
      Dtype to = n->op == OP_CAST ? (Dtype)n->type : TYPE_F32;
      bool narrow = to == TYPE_BF16 || to == TYPE_F16;
      if (narrow && type[decl] == TYPE_F32) type[decl] = to;
      other[decl] |= narrow ? type[decl] != to : !(n->op == OP_TAKE && k == 0);
    }
  }
  for (DeclId i = 1; i <= from->decl.n; i++)
    if (type[i] != TYPE_F32 && !other[i]) d->g->decl.at[i - 1].type = type[i];
}

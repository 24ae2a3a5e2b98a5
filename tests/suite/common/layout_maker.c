// Builds the graphs of layout cases: declarations, outputs and their gradients; prints a layout as
// text.
#include "tests/suite/common/layout_maker.h"

#include <stdlib.h>
#include <string.h>

// Returns a parameter that a slot can belong to, 0: none.
static DeclId some_parameter(const Maker *m) {
  for (DeclId d = m->g->decl.n; d > 0; d--)
    if (m->g->decl.at[d - 1].kind == DECL_PARAM) return d;
  return 0;
}

NodeId maker_declared(Maker *m, DeclKind kind, Dtype type, int n, const DimId *dims) {
  Decl x = {.kind = kind,
            .name = intern_printf(m->names, "x%u", m->g->decl.n),
            .type = type,
            .rank = (uint8_t)n};
  Dims set = {0};
  if (kind == DECL_SLOT && !(x.of = some_parameter(m))) x.kind = DECL_STATE;
  for (int i = 0; i < n; i++) {
    x.dims[i] = dims[i];
    if (!dims_add(m->dims, &set, dims[i])) abort();
  }
  int64_t count;
  if (!dims_elements(m->dims, &set, &count)) abort();
  double *value = arena_array(m->a, double, count);
  DeclId d = graph_decl(m->g, &x);
  m->feed[m->ninputs++] = (EvalFeed){.decl = d, .value = value, .n = count};
  m->g->origin = (Origin){.value = x.name};
  NodeId node = graph_decl_node(m->g, d);
  m->g->origin = (Origin){0};
  if (dtype_is_float(type) && m->nfloats < 4) m->input[m->nfloats++] = node;
  return node;
}

void maker_output(Maker *m, const char *name, NodeId n) {
  vec_push(m->a, m->g->output) =
      (Output){.kind = OUT_VALUE, .name = intern(m->names, name), .value = n};
}

// Adds output y and the gradients of a weighted sum of it.
void maker_result(Maker *m, NodeId y) {
  maker_output(m, "y", y);
  Node node = *graph_node(m->g, y);
  if (node.type != TYPE_F32 || !m->nfloats) return;
  uint32_t floats = m->nfloats;
  NodeId by[4], out[4],
      weight = maker_declared(m, DECL_INPUT, TYPE_F32, node.dims->n, node.dims->at);
  memcpy(by, m->input, sizeof by);
  NodeId loss = graph_reduce(m->g, OP_SUM, graph_binary(m->g, OP_MUL, y, weight), node.dims);
  graph_gradients(m->g, loss, (int)floats, by, out);
  static const char *const name[] = {"g0", "g1", "g2", "g3"};
  for (uint32_t i = 0; i < floats; i++) maker_output(m, name[i], out[i]);
}

const char *maker_layout_text(Maker *m) {
  const char *text = "";
  for (uint32_t i = 0; i < m->layout.n; i++) {
    const LayoutRule *r = &m->rule[i];
    text = arena_printf(m->a, "%s %s%s%s%s->", text, r->soft ? "soft " : "",
                        r->pattern ? r->pattern : "",
                        r->pattern                      ? ":"
                        : r->scope == LAYOUT_PARAMETERS ? "parameters:"
                        : r->scope == LAYOUT_OPTIMIZER  ? "optimizer:"
                                                        : "",
                        r->dim ? r->dim : "all");
    for (int k = 0; k < r->axes.n; k++)
      text = arena_printf(m->a, "%s%s%s", text, k ? "+" : "", m->mesh.axis[r->axes.at[k]].name);
    if (r->none) text = arena_printf(m->a, "%snone", text);
  }
  return text;
}

const char *maker_mesh_text(Maker *m) {
  const char *text = "";
  for (int i = 0; i < m->mesh.naxes; i++)
    text = arena_printf(m->a, "%s%s=%lld ", text, m->mesh.axis[i].name,
                        (long long)m->mesh.axis[i].size);
  return text;
}

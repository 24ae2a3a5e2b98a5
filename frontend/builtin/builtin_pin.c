// Builds pins: layout(x, b -> rows, d -> (cols, depth)) gives x the stated sharding instead of that
// of the layout rules. Dims that are not named are not split. Without a mesh the result is x.
//
//   y = layout(x, d -> (cols, depth))     %2 = pin(%1) {dims = [d, d], axes = [cols, depth]}
#include "frontend/model/build_internal.h"

typedef struct Pin {
  Build *b;
  const Call *c;
  const Dims *have;
  const Mesh *mesh;
  uint8_t n;
  DimId dims[MAX_AXES];
  uint8_t axes[MAX_AXES];
} Pin;

static bool misuse(const Pin *p, Pos pos) {
  return diag_error(p->b->d, DIAG_BAD_ARGUMENTS, pos,
                    "expected the form layout(x, b -> rows, d -> (cols, depth))");
}

// Returns true if `plan` builds a model without a mesh. Then the pins define the axes of the mesh.
static bool pins_make_mesh(const Build *b) {
  return b->opt->pins_name_axes && !b->opt->mesh && !b->model->mesh.pos.line;
}

static int add_axis(Build *b, const Ast *e) {
  Mesh *m = &b->model->mesh;
  m->axis[m->naxes] = (MeshAxis){.name = e->text, .size = 1, .pos = e->pos};
  return m->naxes++;
}

// Adds to p that the mesh axis named by e splits dim d. Returns false after an error.
static bool pin_axis(Pin *p, DimId d, const Ast *e) {
  if (e->kind != AST_NAME) return misuse(p, e->pos);
  const Mesh *m = p->mesh;
  int axis = mesh_axis(m, e->text);
  if (axis < 0 && pins_make_mesh(p->b) && m->naxes < MAX_AXES) axis = add_axis(p->b, e);
  if (axis < 0) {
    axis_unknown(p->b, e->text, e->pos);
    return false;
  }
  for (int i = 0; i < p->n; i++)
    if (p->axes[i] == axis) {
      const char *first = dim_get(p->b->g->dims, p->dims[i])->name;
      diag_error(p->b->d, DIAG_BAD_LAYOUT, e->pos, "axis '%s' splits '%s' already", e->text, first);
      return diag_hint(p->b->d, "name each axis once");
    }
  p->dims[p->n] = d;
  p->axes[p->n++] = (uint8_t)axis;
  return true;
}

// Adds to p one pair `dim -> axis` or `dim -> (axis, ...)`. Returns false after an error.
static bool pin_rule(Pin *p, const AstArg *dim, const AstArg *axes) {
  if (dim->arrow || dim->name || dim->key || dim->value->kind != AST_NAME || !axes->arrow ||
      axes->name || axes->key)
    return misuse(p, dim->pos);
  DimId d = dim_lookup(p->b, dim->value->text, dim->value->pos);
  if (!d) return false;
  if (!dims_has(p->have, d))
    return diag_error(p->b->d, DIAG_MISSING_DIM, dim->pos,
                      "layout of dim '%s', but its operand is over %s", dim->value->text,
                      dims_listed(p->b, p->have));
  for (int i = 0; i < p->n; i++)
    if (p->dims[i] == d)
      return diag_error(p->b->d, DIAG_LAYOUT_DUPLICATE, dim->pos, "two rules place dim '%s'",
                        dim->value->text);
  if (!p->mesh->naxes && !pins_make_mesh(p->b)) return true;
  if (axes->value->kind != AST_LIST) return pin_axis(p, d, axes->value);
  bool good = true;
  for (uint32_t i = 0; i < axes->value->nargs; i++) {
    const AstArg *one = &axes->value->args[i];
    good &= one->arrow || one->name || one->key ? misuse(p, one->pos) : pin_axis(p, d, one->value);
  }
  return good;
}

// Returns whether the options of the model ask to leave out the pin at `pos`.
static bool is_unpinned(const Build *b, Pos pos) {
  for (uint32_t i = 0; i < b->opt->nunpinned; i++) {
    Pos gone = b->opt->unpinned[i];
    if (gone.line == pos.line && gone.col == pos.col && gone.source == pos.source) return true;
  }
  return false;
}

Value builtin_layout_pin(Build *b, const Call *c) {
  const AstArg *arg = c->ast->args;
  uint32_t n = c->ast->nargs;
  Pin p = {.b = b, .c = c, .mesh = b->g->mesh};
  if (!n || n % 2 == 0 || arg[0].arrow || arg[0].name || arg[0].key) {
    misuse(&p, c->pos);
    return value_poison;
  }
  Value x = build_expr(b, arg[0].value);
  if (!value_is_tensor(b, &x, arg[0].value->pos)) return value_poison;
  p.have = build_dims(b, &x);
  bool good = true;
  for (uint32_t i = 1; i < n; i += 2) good &= pin_rule(&p, &arg[i], &arg[i + 1]);
  if (!good) return value_poison;
  if (x.kind != VALUE_TENSOR || !p.mesh->naxes || is_unpinned(b, c->pos)) return x;
  Attr attr = {.ndims = p.n, .dims = p.dims, .axes = {.n = p.n}};
  for (int i = 0; i < p.n; i++) attr.axes.at[i] = p.axes[i];
  b->g->origin.pos = c->pos;
  return value_tensor(build_emit(b, c->pos, OP_PIN, 1, &x.node, &attr));
}

// Weak types: a value computed only from numbers, positions (elements of index[d], or the step) and
// draws takes the float type of the operand that it is combined with. build_expr.c calls this file
// when it chooses the type of an operation.
//
//   phase = index[k] / size(k)     f32 by itself
//   x * phase                      with x in f64: phase is built again in f64, from exact numbers
//                                  and 53-bit draws
//   x * cast(phase, f32)           a stated type is kept
//
// Promotion follows the weak types of JAX. A value is weak if it is not computed from any input,
// parameter, state or stated type. Its nodes have the default type. If it is combined with f64, its
// nodes are built a second time in f64; a cast converts it to any other type. Nodes that nothing
// reads are dropped when a graph is selected.
#include "frontend/model/build_internal.h"

// -- which nodes are weak -----------------------------------------------------------------------

static bool is_source(const Node *n) { return op_row((Op)n->op)->cls == SOURCE; }

static bool is_position(Op op) {
  return op == OP_INDEX || op == OP_STEP || op == OP_CONST || op == OP_VALUES;
}

// Considers the arguments of n whose type is of the class (float, integer or bool) of the type of
// n. Returns true if all these arguments are weak. Sets *any to true if there is at least one.
static bool args_weak(const Build *b, const Node *n, bool *any) {
  TypeClass cls = dtype_class((Dtype)n->type);
  *any = false;
  for (int i = 0; i < n->nargs; i++) {
    const Node *x = graph_node(b->g, n->args[i]);
    if (dtype_class((Dtype)x->type) != cls) continue;
    if (!b->weak.is.at[n->args[i]]) return false;
    *any = true;
  }
  return true;
}

// Returns true if n is a float node of the default type and is a number, a draw, a cast of an
// integer or bool, or computed from such nodes only.
static bool float_weak(const Build *b, const Node *n) {
  bool any;
  if (n->type != b->real) return false;
  if (is_source(n)) return !op_is_decl((Op)n->op);
  if (n->op == OP_CAST) return !dtype_is_float((Dtype)graph_node(b->g, n->args[0])->type);
  if (n->op == OP_CARRY) return false; // only carry_open marks a CARRY as weak
  return args_weak(b, n, &any);
}

// Returns true for an i32 node that is computed from positions and literals only. Such a value may
// be converted to any float type without a cast in the text (type_takes).
static bool integer_weak(const Build *b, const Node *n) {
  bool any;
  if (n->type != TYPE_I32) return false;
  if (is_source(n)) return is_position((Op)n->op);
  OpClass cls = op_row((Op)n->op)->cls;
  bool follows = (cls == POINTWISE && n->op != OP_CAST && n->op != OP_KEY_INDEX) || cls == MOVE ||
                 cls == WINDOW || n->op == OP_SUM || n->op == OP_MAX || n->op == OP_MIN ||
                 n->op == OP_AT || n->op == OP_COLLECT;
  return follows && args_weak(b, n, &any) && any;
}

bool node_is_weak(Build *b, NodeId id) {
  for (NodeId n = b->weak.is.n; n <= graph_count(b->g); n++) {
    const Node *x = n ? graph_node(b->g, n) : NULL;
    vec_push(b->a, b->weak.is) = false;
    b->weak.is.at[n] = x && (float_weak(b, x) || integer_weak(b, x));
  }
  return b->weak.is.at[id];
}

void carry_open(Build *b, NodeId carry) {
  if (!node_is_weak(b, carry)) b->weak.is.at[carry] = true;
}

// -- building weak values in another type -------------------------------------------------------

// Returns the numbers of node n as written in the file; NULL if they were not rounded.
static const double *exact_values(const Build *b, NodeId n) {
  for (uint32_t i = b->weak.values.n; i-- > 0;)
    if (b->weak.values.at[i].node == n) return b->weak.values.at[i].data;
  return NULL;
}

void values_exact(Build *b, NodeId n, const double *data) {
  vec_push(b->a, b->weak.values) = (ExactValues){n, data};
}

// Returns true if node `id` must be built again: it is a weak float, or a bool computed from a node
// that was built again. now[x] is the new copy of node x, or 0.
static bool turns(Build *b, NodeId id, const NodeId *now) {
  const Node *n = graph_node(b->g, id);
  if (dtype_is_float((Dtype)n->type)) return node_is_weak(b, id);
  for (int i = 0; i < n->nargs && n->type == TYPE_BOOL && n->op != OP_SCAN; i++)
    if (now[n->args[i]]) return true;
  return false;
}

// Adds a copy of the source node `id` in `type`, from its exact numbers.
static NodeId source_in(Build *b, NodeId id, Dtype type) {
  const Node n = *graph_node(b->g, id);
  Attr attr = *n.attr;
  attr.type = type;
  double exact = n.op == OP_CONST && n.attr->tag ? b->model->numbers.at[n.attr->tag - 1].number
                                                 : graph_exact(b->g, id);
  if (n.op == OP_CONST) attr.num[0] = dtype_round(type, exact);
  if (n.op == OP_VALUES && exact_values(b, id)) attr.data = exact_values(b, id);
  return graph_add(b->g, (Op)n.op, 0, NULL, &attr);
}

// Adds a copy of node `id` that computes in `type`. now[x] is the copy of node x, or 0.
static NodeId node_in(Build *b, NodeId id, Dtype type, const NodeId *now) {
  Graph *g = b->g;
  Node n = *graph_node(g, id);
  NodeId args[MAX_ARGS];
  g->origin = *n.origin;
  if (is_source(&n)) return source_in(b, id, type);
  if (n.op == OP_CARRY || n.op == OP_FINAL) return graph_cast(g, id, type);
  if (n.op == OP_CAST) return graph_cast(g, n.args[0], type);
  for (int i = 0; i < n.nargs; i++) args[i] = now[n.args[i]] ? now[n.args[i]] : n.args[i];
  if (n.op == OP_MEAN) args[0] = graph_cast(g, args[0], type);
  Attr attr = *n.attr;
  if (n.op == OP_CONTRACT) attr.type = type;
  if (op_row((Op)n.op)->cls == WINDOW && exact_values(b, id)) attr.num[0] = *exact_values(b, id);
  return graph_add(g, (Op)n.op, n.nargs, args, &attr);
}

// Returns the nodes that may have to be built again for node `id`: those with a path of weak floats
// and bools to `id`. Element n of the table is true for such a node n <= id.
static bool *cone(Build *b, Arena *scratch, NodeId id) {
  bool *in = arena_array(scratch, bool, id + 1);
  in[id] = true;
  for (NodeId n = id; n > 0; n--) {
    const Node *x = graph_node(b->g, n);
    bool leaf = x->op == OP_CARRY || x->op == OP_FINAL || x->op == OP_SCAN || x->op == OP_CAST;
    if (!in[n] || leaf) continue;
    for (int i = 0; i < x->nargs; i++) {
      const Node *y = graph_node(b->g, x->args[i]);
      in[x->args[i]] |=
          dtype_is_float((Dtype)y->type) ? node_is_weak(b, x->args[i]) : y->type == TYPE_BOOL;
    }
  }
  return in;
}

NodeId node_wide(const Build *b, NodeId id) {
  return id < b->weak.wide.n ? b->weak.wide.at[id] : 0;
}

static void wide_put(Build *b, NodeId id, NodeId wide) {
  while (b->weak.wide.n <= id) vec_push(b->a, b->weak.wide) = 0;
  b->weak.wide.at[id] = wide;
}

NodeId node_widened(Build *b, NodeId id) {
  Origin before = b->g->origin;
  if (node_wide(b, id)) return node_wide(b, id);
  Arena *scratch = arena_new();
  const bool *in = cone(b, scratch, id);
  NodeId *now = arena_array(scratch, NodeId, id + 1);
  for (NodeId n = 1; n <= id; n++) {
    if (!in[n]) continue;
    now[n] = node_wide(b, n);
    if (now[n] || !turns(b, n, now)) continue;
    now[n] = node_in(b, n, TYPE_F64, now);
    if (graph_node(b->g, n)->type != TYPE_BOOL) wide_put(b, n, now[n]);
  }
  arena_free(scratch);
  b->g->origin = before;
  return node_wide(b, id);
}

// -- the default type ---------------------------------------------------------------------------

// Sets *f64 if the statements in e declare an f64 tensor, and *other if they declare another float.
static void floats_declared(const Ast *e, bool *f64, bool *other) {
  bool tensor = e->kind == AST_INPUT || e->kind == AST_PARAM || e->kind == AST_STATE;
  const Ast *type = tensor ? e->kids[0] : NULL;
  Dtype t = TYPE_F32;
  bool known = tensor && (!type || dtype_parse(type->text, &t));
  if (known && dtype_is_float(t)) *(t == TYPE_F64 ? f64 : other) = true;
  bool holds = e->kind == AST_FILE || e->kind == AST_BLOCK || e->kind == AST_FN ||
               e->kind == AST_FOR || e->kind == AST_IF || e->kind == AST_SCAN;
  for (uint32_t i = 0; holds && i < e->nkids; i++)
    if (e->kids[i]) floats_declared(e->kids[i], f64, other);
}

Dtype default_float(const Ast *file) {
  bool f64 = false, other = false;
  floats_declared(file, &f64, &other);
  return f64 && !other ? TYPE_F64 : TYPE_F32;
}

// -- stated types -------------------------------------------------------------------------------

bool type_stated(Build *b, const Ast *type, Dtype *out) {
  *out = TYPE_F32;
  if (!type) return true;
  if (type->kind == AST_NAME && dtype_parse(type->text, out) && *out != TYPE_I64 &&
      *out != TYPE_U64)
    return true;
  diag_error(b->d, DIAG_BAD_TYPE, type->pos, "unknown type '%s'",
             type->kind == AST_NAME ? type->text : "?");
  if (type->kind != AST_NAME || !habit_hint(b->d, b->a, HABIT_TYPE, type->text, &(HabitNames){0}))
    diag_hint(b->d, "types are f32 bf16 f16 f64 i32 u8 bool");
  return false;
}

bool type_takes(Build *b, const Value *v, Dtype type) {
  if (v->kind == VALUE_NUMBER)
    return dtype_is_float(type) || dtype_round(type, v->number) == v->number;
  Dtype from = (Dtype)graph_node(b->g, v->node)->type;
  return dtype_widens(from, type) || (dtype_is_float(type) && node_is_weak(b, v->node));
}

static const char *type_found(Build *b, const Value *v) {
  if (v->kind == VALUE_NUMBER) return arena_printf(b->a, "%.15g", v->number);
  return dtype_text((Dtype)graph_node(b->g, v->node)->type);
}

NodeId build_stated(Build *b, const char *name, Pos pos, Value v, Dtype type) {
  if (type_takes(b, &v, type)) return build_strong(b, build_node(b, v, type));
  diag_error(b->d, DIAG_BAD_TYPE, pos,
             "'%s' is %s, its value is %s: the conversion loses digits or range", name,
             dtype_text(type), type_found(b, &v));
  diag_hint(b->d, "write cast(..., %s) if that is meant", dtype_text(type));
  return 0;
}

NodeId build_strong(Build *b, NodeId n) {
  Dtype type = (Dtype)graph_node(b->g, n)->type;
  if (!dtype_is_float(type) || !node_is_weak(b, n)) return n;
  return graph_add(b->g, OP_CAST, 1, &n, &(Attr){.type = type});
}

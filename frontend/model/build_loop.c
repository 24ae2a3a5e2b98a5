// Builds scans, each of which becomes a region of the graph, and what they share with `for` loops
// (build_for.c): options, and `yield`, which collects one value of each round or step along a dim.
//
// Input: AST_SCAN and AST_YIELD statements. Output: nodes, and bindings of the names that the loop
// carries or collects.
//
//   scan t (h[b, k] = 0) { h = f(h, x); yield h as hs }
//     makes a region over t. In the body h begins as carry(0), and x is at(x), its slice at the
//     current t. The value of h at the end of the body is its next value.
//     After the scan h is final(scan, carry) and hs is collect(scan, next).
#include <string.h>

#include "frontend/model/warnings.h"

// -- names of bodies ----------------------------------------------------------------------------

void round_note(Build *b, const char *name, Binding *before) {
  for (Round *r = b->frame->round; r; r = r->outer) {
    bool known = false;
    for (uint32_t i = 0; i < r->hidden.n && r->scan && !known; i++)
      known = r->hidden.at[i].name == name;
    if (known || (!r->scan && (before || r != b->frame->round))) continue;
    vec_push(b->a, r->hidden) = (Hidden){name, before};
  }
}

void round_end(Build *b, const Round *r) {
  for (uint32_t i = 0; i < r->hidden.n; i++)
    map_put(b->a, &b->frame->values, r->hidden.at[i].name, r->hidden.at[i].before);
}

// -- options ------------------------------------------------------------------------------------

bool loop_options(Build *b, const Ast *s, const char **base, bool *again) {
  *again = false;
  for (uint32_t i = 0; i < s->nargs; i++) {
    const AstArg *arg = &s->args[i];
    if (!base && arg->name && !strcmp(arg->name, "while")) continue; // not an option
    if (base && arg->name && !strcmp(arg->name, "name")) {
      if (!build_string(b, arg->value, base)) return false;
    } else if (arg->name && !strcmp(arg->name, "checkpoint")) {
      if (!build_bool(b, arg->value, again)) return false;
    } else {
      diag_error(b->d, DIAG_UNKNOWN_KEY, arg->pos, "a loop has no option '%s'",
                 arg->name ? arg->name : "?");
      return diag_hint(b->d, base ? "the options are name = \"...\" and checkpoint = true"
                                  : "the only option is checkpoint = true");
    }
  }
  return true;
}

// -- yield --------------------------------------------------------------------------------------

static Yield *yield_named(const Round *r, const char *name) {
  for (uint32_t i = 0; i < r->yields->n; i++)
    if (r->yields->at[i].name == name) return &r->yields->at[i];
  return NULL;
}

// Reads into y->dim the one dim over which a yield in a `for` collects its values. Returns false
// after an error.
static bool yield_dim(Build *b, const Ast *s, Yield *y) {
  if (s->ndims == 1 && !s->dims[0].arrow && !s->all_but) {
    y->dim = dim_lookup(b, s->dims[0].name, s->dims[0].pos);
    return y->dim != 0;
  }
  diag_error(b->d, DIAG_BAD_ARGUMENTS, s->pos,
             "a yield in a for loop needs the one dim to collect over");
  return diag_hint(b->d, "yield x as %s[layers]", s->text);
}

// Returns true if v can be collected over `dim`: it is a tensor or a number without that dim.
// Otherwise reports an error.
static bool yield_fits(Build *b, const Ast *s, const Value *v, DimId dim) {
  if (!value_is_tensor(b, v, s->kids[0]->pos)) return false;
  if (!dims_has(build_dims(b, v), dim)) return true;
  return diag_error(b->d, DIAG_BAD_ARGUMENTS, s->pos, "'%s' has dim '%s' already", s->text,
                    dim_get(b->g->dims, dim)->name);
}

void build_yield(Build *b, const Ast *s) {
  Round *r = b->frame->round;
  if (!r) {
    diag_error(b->d, DIAG_MISPLACED, s->pos,
               "yield is only allowed in the body of a scan or a for loop");
    binding_set(b, s->text, value_poison, s->pos, NAME_VALUE, NULL);
    return;
  }
  // What is collected has the name, not the value of one step.
  if (!b->frame->anonymous) b->g->origin = (Origin){.why = "yield"};
  b->g->origin.pos = s->pos;
  Value v = build_whole(b, s->kids[0]);
  Yield *y = yield_named(r, s->text);
  if (y && y->value.n > r->number) {
    diag_error(b->d, DIAG_DUPLICATE_NAME, s->pos, "'%s' is collected twice", s->text);
    diag_note(b->d, y->pos, "first here");
    return;
  }
  if (!y) {
    vec_push(b->a, *r->yields) = (Yield){.name = s->text, .pos = s->pos, .ast = s};
    y = &r->yields->at[r->yields->n - 1];
    if (r->scan) y->dim = loop_scanned(b->loop)->t;
    if (!r->scan && !yield_dim(b, s, y)) v = value_poison;
  }
  if (v.kind != VALUE_POISON && y->dim && !yield_fits(b, s, &v, y->dim)) v = value_poison;
  vec_push(b->a, y->value) = y->dim ? v : value_poison;
}

// -- what the body of a scan sees ---------------------------------------------------------------

Value loop_view(Build *b, Value v, Pos pos) {
  VEC(const Loop *) loops = {0};
  if (v.kind != VALUE_TENSOR) return v;
  for (const Loop *l = b->loop; l; l = l->outer)
    if (l->graph == b->g) vec_push(b->a, loops) = l;
  for (uint32_t i = loops.n; i > 0; i--) { // the outermost loop first
    const Loop *l = loops.at[i - 1];
    if (l->side) {
      v.node = side_enter(b, l->side, v.node);
      continue;
    }
    const Node *n = graph_node(b->g, v.node);
    if (!dims_has(n->dims, l->t)) continue;
    if (region_encloses(b->g, l->region, n->region)) {
      const char *name = dim_get(b->g->dims, l->t)->name;
      diag_error(b->d, DIAG_BAD_ARGUMENTS, pos, "in a scan over '%s' a value cannot get dim '%s'",
                 name, name);
      diag_hint(b->d,
                "inside the scan a tensor with that dim is read at the current %s; give the new "
                "dim another name",
                name);
      return value_poison;
    }
    Attr attr = {.ndims = 1, .dims = &l->t, .region = l->region};
    v.node = graph_add(b->g, OP_AT, 1, &v.node, &attr);
  }
  return v;
}

bool loop_dims(const Build *b, Dims *dims) {
  for (const Loop *l = b->loop; l; l = l->outer)
    if (l->graph == b->g && !l->side && !dims_has(dims, l->t) && !dims_add(b->g->dims, dims, l->t))
      return false;
  return true;
}

// -- scan ---------------------------------------------------------------------------------------

typedef struct Carry {
  const Ast *ast; // the BIND node of the carry
  const Ast *target;
  Value start;
  NodeId node; // 0 after an error
  // number of the carry, from 1, among the weak carries of the model; 0: the carry is not weak
  uint32_t weak;
  bool integer; // the initial value is an integer literal
  bool fills;   // the initial value is a constant, which is broadcast over the stated dims
} Carry;

// Returns the record of the type of the weak carry c, in b->carries. The record outlives the Build:
// the model is built several times until the types of its weak carries are known (build_one in
// build.c).
static CarryType *carry_type(const Build *b, const Carry *c) {
  return &b->carries->at.at[c->weak - 1];
}

// Returns the entry of b->weak for node n if n is a weak carry; otherwise NULL.
static const WeakCarry *weak_carry(const Build *b, NodeId n) {
  for (uint32_t i = b->weak.carry.n; i-- > 0;)
    if (b->weak.carry.at[i].node == n) return &b->weak.carry.at[i];
  return NULL;
}

// Makes c a weak carry and gives it the next number. Returns its initial value v as a node. The
// node has the type that the previous build of the model found for c or, in the first build, the
// default float type.
static NodeId weak_start(Build *b, Carry *c, Value v) {
  const WeakCarry *from = v.kind == VALUE_TENSOR ? weak_carry(b, v.node) : NULL;
  bool literal = v.kind == VALUE_NUMBER && v.integer && dtype_round(TYPE_I32, v.number) == v.number;
  c->weak = ++b->ncarries;
  c->integer = literal || (from && from->integer);
  if (b->carries->at.n < c->weak) vec_push(b->a, b->carries->at) = (CarryType){0};
  return build_node(b, v, carry_type(b, c)->known ? carry_type(b, c)->type : b->real);
}

// Returns v, the start of carry c, as a node. Its type is the one that the carry states, else the
// type of v. If v has no type of its own, weak_start chooses the type. Returns 0 after an error.
static NodeId typed_start(Build *b, Carry *c, Value v) {
  Dtype type;
  if (c->target->nkids)
    return type_stated(b, c->target->kids[0], &type)
               ? build_stated(b, c->target->text, c->target->pos, v, type)
               : 0;
  bool weak = v.kind == VALUE_NUMBER || weak_carry(b, v.node) ||
              (dtype_is_float((Dtype)graph_node(b->g, v.node)->type) && node_is_weak(b, v.node));
  return weak ? weak_start(b, c, v) : v.node;
}

// Hints how a start over the dims `have` gets those that the carry states beside them.
static void hint_broadcast(Build *b, const Dims *stated, const Dims *have) {
  const char *text = "";
  for (int i = 0; i < have->n; i++)
    if (!dims_has(stated, have->at[i])) return;
  for (int i = 0; i < stated->n; i++)
    if (!dims_has(have, stated->at[i]))
      text =
          arena_printf(b->a, "%s + 0 * index[%s]", text, dim_get(b->g->dims, stated->at[i])->name);
  diag_hint(b->d, "only a number is broadcast over the dims of a carry; a tensor: START%s", text);
}

// Builds the start of a carry as a tensor over the dims that the carry states. A constant is
// broadcast over them. Returns poison after an error.
static Value start_of(Build *b, Carry *c) {
  Dims stated, all = {0};
  Value v = build_outer(b, c->ast->kids[1], c->target->has_brackets);
  bool number = c->fills = value_fills(b, &v);
  if (!value_is_tensor(b, &v, c->target->pos)) return value_poison;
  if (c->target->has_brackets && !dims_stated(b, c->target, &stated)) return value_poison;
  if (!number && c->target->has_brackets &&
      !build_matches(b, c->target->text, c->target->pos, &stated, &v)) {
    hint_broadcast(b, &stated, build_dims(b, &v));
    return value_poison;
  }
  if (number && c->target->has_brackets) all = dims_set(b, stated.n, stated.at);
  if (number && !dims_fit(b, &all, c->target->pos, "a carry")) return value_poison;
  NodeId n = typed_start(b, c, v);
  return value_tensor(n && number ? graph_broadcast(b->g, n, &all) : n);
}

// Returns true if carry k has a name that no earlier carry has; otherwise reports an error.
static bool carry_new(Build *b, const Carry *carry, uint32_t k) {
  for (uint32_t i = 0; i < k; i++)
    if (carry[i].target->text == carry[k].target->text) {
      diag_error(b->d, DIAG_DUPLICATE_NAME, carry[k].target->pos, "'%s' is carried twice",
                 carry[k].target->text);
      return diag_note(b->d, carry[i].target->pos, "first here");
    }
  return true;
}

// Sets the origin of nodes that are added from now on to the carry.
static void origin_of_carry(Build *b, const Carry *c) {
  b->g->origin = (Origin){.value = c->target->text, .why = "carry", .pos = c->target->pos};
}

// Builds the starts of the n carries of scan s, outside its region.
static Carry *carries_begin(Build *b, const Ast *s, uint32_t n) {
  Carry *carry = arena_array(b->a, Carry, n + 1);
  for (uint32_t k = 0; k < n; k++) {
    carry[k] = (Carry){.ast = s->kids[k + 1], .target = s->kids[k + 1]->kids[0]};
    origin_of_carry(b, &carry[k]);
    carry[k].start = start_of(b, &carry[k]);
    if (!carry_new(b, carry, k)) carry[k].start = value_poison;
  }
  return carry;
}

// Adds the CARRY nodes in the region of the current scan and binds the carried names to them.
static void carries_bind(Build *b, Carry *carry, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    Attr attr = {.region = b->loop->region, .carry = k};
    Value v = value_poison;
    origin_of_carry(b, &carry[k]);
    if (carry[k].start.kind == VALUE_TENSOR)
      v = value_tensor(carry[k].node = graph_add(b->g, OP_CARRY, 1, &carry[k].start.node, &attr));
    if (v.kind == VALUE_TENSOR && carry[k].weak) {
      vec_push(b->a, b->weak.carry) = (WeakCarry){v.node, carry[k].integer};
      if (!carry_type(b, &carry[k])->known) carry_open(b, v.node);
    }
    binding_set(b, carry[k].target->text, v, carry[k].target->pos, NAME_VALUE, NULL);
  }
}

// Returns the type that a weak carry whose next value is v needs in the next build of the model;
// `now` is its type in this build. If the initial value is an integer literal and the body has only
// integers, the type is i32.
static Dtype type_of_body(Build *b, const Carry *c, const Value *v, Dtype now) {
  bool number = v->kind == VALUE_NUMBER;
  Dtype own = number ? (v->integer ? TYPE_I32 : b->real) : (Dtype)graph_node(b->g, v->node)->type;
  bool weak = number || (dtype_is_float(own) && node_is_weak(b, v->node)),
       open = !carry_type(b, c)->known;
  if (open && dtype_is_float(own) && weak) return c->integer && !number ? TYPE_I32 : b->real;
  if (open && dtype_is_float(own)) return own;
  if (open) return c->integer ? TYPE_I32 : b->real;
  if (weak && dtype_is_float(own)) return dtype_is_float(now) ? now : own;
  return dtype_join(now, own);
}

// Records the type that the body gives a weak carry, and sets b->carries->changed if it is a new
// one. If the next value v is poison and the initial value is an integer literal, the next build
// tries i32. Example: in `scan t (i = 0) { x = take[v](table, i) ... }` the lookup fails while i is
// a float.
static void carry_settle(Build *b, const Carry *c, const Value *v) {
  CarryType *t = carry_type(b, c);
  Dtype now = c->node ? (Dtype)graph_node(b->g, c->node)->type : b->real, type = now;
  bool poison = v->kind != VALUE_NUMBER && v->kind != VALUE_TENSOR;
  if (!poison)
    type = type_of_body(b, c, v, now);
  else if (!t->known && c->integer)
    type = TYPE_I32;
  if (type != now) b->carries->changed = c->target->pos;
  if (!poison || type != now) *t = (CarryType){.known = true, .type = type};
}

// Returns the next value of a carry: the value of its name at the end of the body, converted to the
// type of the carry and broadcast over its dims. Returns 0 after an error.
static NodeId next_of(Build *b, const Carry *c) {
  const Binding *last = binding_find(b, c->target->text);
  const Value *v = &last->value;
  if (c->weak) carry_settle(b, c, v);
  if (!c->node || v->kind == VALUE_POISON || !value_is_tensor(b, v, last->pos)) return 0;
  Node carry = *graph_node(b->g, c->node);
  Dtype type = (Dtype)carry.type;
  Dims order = *carry.dims;
  if (v->kind != VALUE_NUMBER && !build_matches(b, c->target->text, last->pos, &order, v)) {
    diag_note(b->d, c->target->pos, "'%s' is carried over %s", c->target->text,
              dims_listed(b, carry.dims));
    const char *dims = dims_listed(b, build_dims(b, v));
    if (!c->target->has_brackets)
      diag_hint(b->d,
                c->fills
                    ? "state the dims of the carry: %s%s = ..."
                    : "let the carry start over the dims of its next value: %s = s, with s%s = ...",
                c->target->text, dims);
    return 0;
  }
  if (c->weak || type_takes(b, v, type))
    return graph_broadcast(b->g, build_node(b, *v, type), carry.dims);
  if (v->kind == VALUE_NUMBER)
    return build_stated(b, c->target->text, last->pos, *v, type); // reports the error
  Dtype from = (Dtype)graph_node(b->g, v->node)->type;
  diag_error(b->d, DIAG_BAD_TYPE, last->pos, "'%s' is carried as %s, its next value is %s",
             c->target->text, dtype_text(type), dtype_text(from));
  diag_note(b->d, c->target->pos, "it begins here");
  diag_hint(b->d, "state its type, %s: %s = ..., or cast the next value: cast(..., %s)",
            c->target->text, dtype_text(from), dtype_text(type));
  return 0;
}

// -- while --------------------------------------------------------------------------------------

// The body of a scan with `while`: a guarded region that runs in the steps before the condition is
// false for the first time.
//
//   scan t (h = h0) while c { ... }
//     alive = carry(true), next go;  go = alive and c;  the region runs if go
typedef struct While {
  const Ast *condition; // NULL: the scan has no `while`
  NodeId alive, go;     // 0 after an error
  Side side;
} While;

static const Ast *while_of(const Ast *s) {
  for (uint32_t i = 0; i < s->nargs; i++)
    if (s->args[i].name && !strcmp(s->args[i].name, "while")) return s->args[i].value;
  return NULL;
}

// Opens the body. n is the number of carries of the scan.
static void while_open(Build *b, While *w, uint32_t n) {
  NodeId yes = graph_const(b->g, TYPE_BOOL, 1);
  Attr attr = {.region = b->loop->region, .carry = n};
  w->alive = graph_add(b->g, OP_CARRY, 1, &yes, &attr);
  Value v = build_whole(b, w->condition);
  NodeId holds = side_condition(b, &v, "while", w->condition->pos);
  w->go = holds ? graph_binary(b->g, OP_AND, w->alive, holds) : 0;
  side_open(b, &w->side, w->go ? w->go : w->alive, w->condition->pos);
}

// Ends the body. next[k] is the next value of carry k, and becomes its value after the step whether
// the body ran or not; the same for what the body yields. next[n] gets that of w->alive. Returns
// false after an error.
static bool while_close(Build *b, While *w, const Carry *carry, uint32_t n, NodeId *next,
                        Yields *yields) {
  Side *side = &w->side;
  NodeId *out = arena_array(b->a, NodeId, n + yields->n + 1);
  bool good = w->go != 0;
  for (uint32_t k = 0; k < n && good; k++)
    (void)side_result(b, side, carry[k].node, side_enter(b, side, next[k]));
  for (uint32_t i = 0; i < yields->n && good; i++) {
    const Value *v = &yields->at[i].value.at[0];
    if ((good = v->kind != VALUE_POISON)) {
      NodeId x = side_enter(b, side, build_natural(b, *v));
      const Node *node = graph_node(b->g, x);
      (void)side_result(b, side, graph_zeros(b->g, (Dtype)node->type, node->dims), x);
    }
  }
  if (!good || side->full || n + yields->n + side->entry.n >= MAX_ARGS) return false;
  side_close(b, side, out);
  for (uint32_t k = 0; k < n; k++) next[k] = out[k];
  for (uint32_t i = 0; i < yields->n; i++) yields->at[i].value.at[0] = value_tensor(out[n + i]);
  next[n] = w->go;
  return true;
}

// Adds the SCAN node, whose arguments are the next values of the n carries. 0 if a carry has an
// error.
static NodeId scan_end(Build *b, const Ast *s, const Carry *carry, uint32_t n, While *w,
                       Yields *yields) {
  NodeId *next = arena_array(b->a, NodeId, n + 2);
  bool good = true;
  for (uint32_t k = 0; k < n; k++) good &= (next[k] = next_of(b, &carry[k])) != 0;
  if (w->condition) {
    side_leave(b, &w->side);
    good = good && while_close(b, w, carry, n++, next, yields);
  }
  b->g->origin = (Origin){.why = "scan", .pos = s->pos};
  return good ? graph_add(b->g, OP_SCAN, (int)n, next, &(Attr){.region = b->loop->region}) : 0;
}

// Binds a carried name to its final value.
static void bind_final(Build *b, NodeId scan, const Carry *carry) {
  Value v = value_poison;
  origin_of_carry(b, carry);
  if (scan) v = value_tensor(graph_add(b->g, OP_FINAL, 2, (NodeId[]){scan, carry->node}, NULL));
  // Use the type that carry_settle has just found, so that later carries that depend on this value
  // find their types in the same build.
  if (scan && carry->weak) v.node = graph_cast(b->g, v.node, carry_type(b, carry)->type);
  const Ast *target = carry->target;
  Dims order = {0};
  v = loop_view(b, v, target->pos);
  bool stated = target->has_brackets && v.kind == VALUE_TENSOR && dims_stated(b, target, &order) &&
                build_dims(b, &v)->n == order.n;
  binding_set(b, target->text, v, target->pos, NAME_VALUE, stated ? &order : NULL);
}

// Binds a yielded name to the tensor collected over t.
static void bind_yield(Build *b, NodeId scan, const Yield *y, DimId t) {
  Value v = y->value.at[0];
  b->g->origin = (Origin){.value = y->name, .why = "yield", .pos = y->pos};
  if (!scan) v = value_poison;
  if (v.kind != VALUE_POISON) {
    NodeId args[2] = {scan, build_natural(b, v)};
    v = value_tensor(build_emit(b, y->pos, OP_COLLECT, 2, args, &(Attr){.ndims = 1, .dims = &t}));
  }
  Dims order = {0};
  bool only_t = y->ast->ndims == 1 && dim_visible(b, y->ast->dims[0].name) == t;
  bool stated = y->ast->has_brackets && !only_t && v.kind != VALUE_POISON;
  if (stated && (!dims_stated(b, y->ast, &order) || !build_matches(b, y->name, y->pos, &order, &v)))
    v = value_poison;
  binding_set(b, y->name, v, y->pos, NAME_VALUE, stated && v.kind != VALUE_POISON ? &order : NULL);
}

// Binds the results of a scan for the statements after it. If `scan` is 0 (an error), binds their
// names to poison.
static void bind_results(Build *b, NodeId scan, const Carry *carry, uint32_t n,
                         const Yields *yields, DimId t) {
  for (uint32_t k = 0; k < n; k++) bind_final(b, scan, &carry[k]);
  for (uint32_t i = 0; i < yields->n; i++) bind_yield(b, scan, &yields->at[i], t);
}

// Returns the dim of scan s; 0 after an error, such as an enclosing scan over the same dim.
static DimId scan_dim(Build *b, const Ast *s) {
  DimId t = dim_lookup(b, s->text, s->pos);
  for (const Loop *l = b->loop; l && t; l = l->outer) {
    if (l->t != t || l->graph != b->g) continue;
    diag_error(b->d, DIAG_MISPLACED, s->pos,
               "a scan over '%s' cannot be inside another scan over the same dim", s->text);
    diag_note(b->d, l->pos, "the other scan");
    return 0;
  }
  return t;
}

static void yields_poison(Build *b, const Ast *block) {
  for (uint32_t i = 0; i < block->nkids; i++) {
    const Ast *s = block->kids[i];
    if (s->kind == AST_YIELD) binding_set(b, s->text, value_poison, s->pos, NAME_VALUE, NULL);
    // the depth of this recursion is the nesting of `if` in the model
    for (uint32_t k = 1; s->kind == AST_IF && k < s->nkids; k++) yields_poison(b, s->kids[k]);
  }
}

// Binds to poison all names that scan s would define. Called after an error in the head of s, so
// that uses of the names give no further errors.
static void scan_poison(Build *b, const Ast *s) {
  for (uint32_t i = 1; i < s->nkids; i++)
    binding_set(b, s->kids[i]->kids[0]->text, value_poison, s->pos, NAME_VALUE, NULL);
  yields_poison(b, s->kids[0]);
}

RegionId loop_region(const Build *b) {
  for (const Loop *l = b->loop; l; l = l->outer)
    if (l->graph == b->g && l->region) return l->region;
  return 0;
}

void build_scan(Build *b, const Ast *s) {
  uint32_t n = s->nkids - 1;
  bool again;
  DimId t = scan_dim(b, s);
  if (!t || !loop_options(b, s, NULL, &again)) {
    scan_poison(b, s);
    return;
  }
  if (n > MAX_CARRIES) {
    diag_error(b->d, DIAG_BAD_ARGUMENTS, s->pos, "a scan has at most %d carries", MAX_CARRIES);
    scan_poison(b, s);
    return;
  }
  Carry *carry = carries_begin(b, s, n);
  Yields yields = {0};
  Round round = {.outer = b->frame->round, .yields = &yields, .scan = true};
  Region region = {
      .parent = loop_region(b), .t = t, .reverse = s->integer, .recompute = again, .pos = s->pos};
  Loop loop = {.outer = b->loop,
               .graph = b->g,
               .t = t,
               .pos = s->pos,
               .region = graph_region(b->g, &region)};
  b->loop = &loop;
  b->frame->round = &round;
  carries_bind(b, carry, n);
  While w = {.condition = while_of(s)};
  if (w.condition) while_open(b, &w, n);
  warn_carry_missing(b, s, t);
  build_block(b, s->kids[0]);
  for (uint32_t k = 0; k < n; k++) warn_carry_kept(b, carry[k].target);
  NodeId scan = scan_end(b, s, carry, n, &w, &yields);
  b->frame->round = round.outer;
  round_end(b, &round);
  b->loop = loop.outer;
  bind_results(b, scan, carry, n, &yields, t);
}

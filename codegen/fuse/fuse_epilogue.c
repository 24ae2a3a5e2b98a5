// Finds what a library product can do with its sums before it stores them (GemmTail), so that a
// kernel after it is saved, or reads one value less:
//
//   %7 = contract(%1, %2); %8 = add(%7, %5)            the product adds %5, and stores %8
//   %7 = ...; %8 = add(%7, bias); %9 = gelu_tanh(%8)   it stores %9 and, if others read it, %8
//
// The nodes that a product takes over are its tail. Their values are read by the tail alone, except
// the result and the argument of gelu (%8 above), which a product can store, too. The result of a
// tail would be stored without the tail as well: a tail up to a value that a kernel keeps in
// registers saves nothing. Operands, such as %5, are in memory in any case. gemm_library.def says
// which functions and types a library has.
//
// tails_find is called after clusters were merged, when Fuser.resident has the stored values.
#include "codegen/fuse/fuse_internal.h"

// What the search knows of the graph, and the product that it looks at.
typedef struct TailSearch {
  Arena *lasting; // has the tails and forms that are found
  Fuser *f;
  const GemmForm *form;
  NodeId head;                // the contraction
  uint32_t *user_at, *nusers; // by node: its users are user[user_at .. user_at + nusers]
  NodeId *user;
  bool *output; // by node: it is an output
  GemmTail tail;
} TailSearch;

static const Node *node_at(const TailSearch *s, NodeId n) { return graph_node(s->f->g, n); }

static void find_users(TailSearch *s) {
  const Fuser *f = s->f;
  s->user_at = arena_array(f->a, uint32_t, f->count + 2);
  s->nusers = arena_array(f->a, uint32_t, f->count + 2);
  s->output = arena_array(f->a, bool, f->count + 1);
  for (NodeId n = 1; n <= f->count; n++)
    for (int i = 0; i < node_at(s, n)->nargs; i++) s->user_at[node_at(s, n)->args[i] + 1]++;
  for (NodeId n = 1; n <= f->count + 1; n++) s->user_at[n] += s->user_at[n - 1];
  s->user = arena_array(f->a, NodeId, s->user_at[f->count + 1] + 1);
  for (NodeId n = 1; n <= f->count; n++)
    for (int i = 0; i < node_at(s, n)->nargs; i++) {
      NodeId a = node_at(s, n)->args[i];
      s->user[s->user_at[a] + s->nusers[a]++] = n;
    }
  for (uint32_t i = 0; i < f->g->output.n; i++) s->output[f->g->output.at[i].value] = true;
}

// Returns the node that alone reads n, or 0.
static NodeId only_user(const TailSearch *s, NodeId n) {
  return s->nusers[n] == 1 && !s->output[n] ? s->user[s->user_at[n]] : 0;
}

// Returns the user of n with this op and type of result, or 0.
static NodeId user_with(const TailSearch *s, NodeId n, Op op, Dtype type) {
  for (uint32_t i = s->user_at[n]; i < s->user_at[n] + s->nusers[n]; i++)
    if (node_at(s, s->user[i])->op == op && node_at(s, s->user[i])->type == type) return s->user[i];
  return 0;
}

// Returns the argument of n, which has two, that is not `known`; 0 if both are.
static NodeId other_arg(const TailSearch *s, NodeId n, NodeId known) {
  const Node *x = node_at(s, n);
  NodeId other = x->args[x->args[0] == known];
  return other == known ? 0 : other;
}

// Returns whether node n may be computed by the product: it is in the same loop as the contraction,
// its value has the same order of dims, and it belongs to no other product.
static bool joins(const TailSearch *s, NodeId n) {
  const Fuser *f = s->f;
  const Node *x = node_at(s, n), *head = node_at(s, s->head);
  return !f->tail[n] && !f->update[n] && !score_recomputed(f, n) && x->region == head->region &&
         !x->instance == !head->instance && dims_equal(&f->order->at[n], &f->order->at[s->head]);
}

static bool in_memory(const TailSearch *s, NodeId n) {
  NodeRole r = (NodeRole)s->f->role[n];
  return (r != ROLE_KERNEL && r != ROLE_NUMBER) || s->f->resident[n] || s->f->tail[n];
}

// -- one step after the other ---------------------------------------------------------------------

// Returns whether value w belongs to a later micro-batch than the contraction. The product of the
// earlier one would wait for it, and all that it reads would be kept until then.
static bool is_later(const TailSearch *s, NodeId w) {
  const uint32_t *part = s->f->part;
  return part && part[w] > part[s->head];
}

// Tries to add operand w to the sums. Returns false if it has the wrong form, is not in memory, or
// would delay the product.
static bool take_operand(TailSearch *s, NodeId w) {
  const Fuser *f = s->f;
  if (!w || node_at(s, w)->type != node_at(s, s->head)->type || !in_memory(s, w) || is_later(s, w))
    return false;
  bool full = dims_equal(&f->order->at[w], &f->order->at[s->head]),
       vector = dims_equal(&f->order->at[w], &s->form->n) && !s->form->batch.n;
  int as = full ? GEMM_ADDEND : GEMM_BIAS;
  if ((!full && !vector) || s->tail.extra[as]) return false;
  s->tail.extra[as] = w;
  return true;
}

// Extends the tail, whose last value is v, by additions. Returns the last value.
static NodeId take_sums(TailSearch *s, NodeId v) {
  for (;;) {
    NodeId u = only_user(s, v);
    if (!u || node_at(s, u)->op != OP_ADD || !joins(s, u) || !take_operand(s, other_arg(s, u, v)))
      return v;
    s->tail.node[s->tail.n++] = u;
    s->tail.result = u;
    v = u;
  }
}

// Returns whether value n is stored anyway: by a kernel, or as an addend of another product whose
// result is stored.
static bool stored_anyway(const TailSearch *s, NodeId n) {
  for (;;) {
    if (s->f->resident[n]) return true;
    NodeId u = only_user(s, n), other = u && node_at(s, u)->op == OP_ADD ? other_arg(s, u, n) : 0;
    if (!other || s->f->role[other] != ROLE_GEMM || s->f->tail[other] || !joins(s, u) ||
        only_user(s, other) != u || node_at(s, other)->type != node_at(s, n)->type)
      return false;
    n = u;
  }
}

// Returns the cast of n to f32, or n if there is none. The library computes functions in f32, the
// type of the sums; a graph that does the same for a narrow n casts it to f32, and the result back.
static NodeId through_cast(const TailSearch *s, NodeId n) {
  NodeId cast = user_with(s, n, OP_CAST, TYPE_F32);
  return cast ? cast : n;
}

// Tries gelu of v, the last value of the sums: gelu(v), or cast(gelu(cast(v))).
static bool take_gelu(TailSearch *s, NodeId v) {
  Dtype type = (Dtype)node_at(s, v)->type;
  NodeId wide = through_cast(s, v),
         gelu = user_with(s, wide, OP_GELU_TANH, (Dtype)node_at(s, wide)->type), back = 0;
  if (!gelu || !joins(s, gelu)) return false;
  if (wide != v) back = only_user(s, gelu);
  if (wide != v && (!back || node_at(s, back)->op != OP_CAST || node_at(s, back)->type != type ||
                    !joins(s, back)))
    return false;
  s->tail.act = GEMM_GELU;
  s->tail.keeps = only_user(s, v) != (back ? wide : gelu) || (back && only_user(s, wide) != gelu);
  if (s->tail.keeps) s->tail.extra[GEMM_AUX] = v;
  if (back && only_user(s, wide) == gelu && joins(s, wide)) s->tail.node[s->tail.n++] = wide;
  s->tail.node[s->tail.n++] = gelu;
  if (back) s->tail.node[s->tail.n++] = back;
  s->tail.result = back ? back : gelu;
  return true;
}

// Returns a, if node n is gelu_tanh_slope(cast(a)) and has one user, else 0.
static NodeId slope_of(const TailSearch *s, NodeId n) {
  if (!n || node_at(s, n)->op != OP_GELU_TANH_SLOPE || !only_user(s, n)) return 0;
  NodeId a = node_at(s, n)->args[0];
  return node_at(s, a)->op == OP_CAST ? node_at(s, a)->args[0] : 0;
}

// Tries the gradient of gelu: cast(contraction slope(cast(a))), in which a has the type of the
// result.
static bool take_slope(TailSearch *s) {
  NodeId product = only_user(s, s->head),
         slope = product && node_at(s, product)->op == OP_MUL ? other_arg(s, product, s->head) : 0,
         a = slope_of(s, slope), cast = a ? only_user(s, product) : 0;
  if (!cast || node_at(s, cast)->op != OP_CAST || !joins(s, product) || !joins(s, cast) ||
      !joins(s, slope) || !in_memory(s, a) || node_at(s, a)->type != node_at(s, cast)->type ||
      !dims_equal(&s->f->order->at[a], &s->f->order->at[s->head]))
    return false;
  NodeId wide = node_at(s, slope)->args[0];
  s->tail = (GemmTail){.head = s->head,
                       .act = GEMM_GELU_SLOPE,
                       .n = 3,
                       .node = {slope, product, cast},
                       .result = cast};
  s->tail.extra[GEMM_AUX] = a;
  if (only_user(s, wide) && joins(s, wide)) s->tail.node[s->tail.n++] = wide;
  return true;
}

// -- choosing -------------------------------------------------------------------------------------

// Returns whether products may have the tail for results of this type, and it saves something.
static bool tail_fits(const TailSearch *s) {
  const GemmTail *t = &s->tail;
  GemmEpilogue e = {.act = t->act};
  for (int i = 0; i < GEMM_EXTRAS; i++) e.has[i] = t->extra[i];
  Gemm g = {.type = (Dtype)node_at(s, t->result)->type, .epilogue = &e};
  int row = gemm_library(&g);
  bool columns = !e.has[GEMM_AUX] || s->form->ldc % 8 == 0; // what the library demands of AUX
  return t->n && columns && row >= 0 && (s->f->opt->epilogues >> row & 1) &&
         stored_anyway(s, t->result);
}

// Enters the tail: its nodes are computed by the product.
static void tail_take(TailSearch *s) {
  Fuser *f = s->f;
  GemmForm form = *s->form;
  GemmTail *t = arena_copy(s->lasting, &s->tail, sizeof s->tail);
  for (int i = 1; i < t->n; i++) // ascending
    for (int k = i; k > 0 && t->node[k] < t->node[k - 1]; k--) {
      NodeId swap = t->node[k];
      t->node[k] = t->node[k - 1];
      t->node[k - 1] = swap;
    }
  form.tail = t;
  f->gemm[s->head] = arena_copy(s->lasting, &form, sizeof form);
  f->tail[s->head] = t;
  for (int i = 0; i < t->n; i++) f->tail[t->node[i]] = t;
}

// Returns whether the product of contraction n can have a tail: it computes all of its elements,
// and has terms on every processor.
static bool can_have_tail(const Fuser *f, NodeId n) {
  const GemmForm *form = f->gemm[n];
  Slot slot;
  if (f->role[n] != ROLE_GEMM || !form || form->live || f->tail[n]) return false;
  for (int i = 0; i < form->k.n; i++)
    if (extent_slot(f->g, f->rows, form->k.at[i], &slot)) return false;
  return true;
}

// Returns why the product of contraction n computes nothing after its sums.
static ApartReason no_tail(const TailSearch *s, NodeId n) {
  NodeId user = only_user(s, n);
  if (!user) return APART_EPILOGUE_USERS;
  return joins(s, user) ? APART_EPILOGUE_NONE : APART_EPILOGUE_ORDER;
}

// Gives the product of contraction n the first tail that fits: with the gradient of gelu, with
// gelu, or with additions only.
static void find_tail(TailSearch *s, NodeId n) {
  s->head = n;
  s->form = s->f->gemm[n];
  s->tail = (GemmTail){.head = n, .result = n};
  if (!s->form->batch.n && take_slope(s) && tail_fits(s)) {
    tail_take(s);
    return;
  }
  s->tail = (GemmTail){.head = n, .result = n};
  NodeId v = take_sums(s, n);
  GemmTail sums = s->tail;
  if (!s->form->batch.n && !sums.extra[GEMM_ADDEND] && take_gelu(s, v) && tail_fits(s)) {
    tail_take(s);
    return;
  }
  s->tail = sums;
  if (tail_fits(s)) tail_take(s);
}

void tails_find(Arena *a, Fuser *f) {
  TailSearch s = {.lasting = a, .f = f};
  find_users(&s);
  for (NodeId n = 1; n <= f->count; n++) {
    if (f->role[n] != ROLE_GEMM || f->tail[n]) continue;
    bool may = can_have_tail(f, n);
    if (may) find_tail(&s, n);
    f->no_tail[n] = !may         ? APART_EPILOGUE_PARTS
                    : f->tail[n] ? APART_EPILOGUE_TAKEN
                                 : no_tail(&s, n);
  }
}

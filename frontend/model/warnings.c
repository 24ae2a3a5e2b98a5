// Warns about models that compile but are almost certainly not what the user meant: names that
// nothing uses, parameters that stay zero, sums over a dim that only a parameter has, gradients
// that are always zero.
//
//   dim b = 4, d = 2, spare = 3     # W0201: nothing uses 'spare'
//   param w[d, h]                   # W0203: zero, and a factor of a contraction
//
// Input: the Ast and the graph of a model. Output: warnings in the diagnostics; the graph is not
// changed.
#include "frontend/model/warnings.h"

#include <string.h>

// -- ancestors ----------------------------------------------------------------------------------

// Returns an array of length `of` + 1, allocated in `a`: element n is true if node `of` depends on
// node n.
static bool *ancestors(const Build *b, Arena *a, NodeId of) {
  bool *in = arena_array(a, bool, of + 1);
  in[of] = true;
  for (NodeId n = of; n > 0; n--)
    for (int k = 0; in[n] && k < graph_node(b->g, n)->nargs; k++)
      in[graph_node(b->g, n)->args[k]] = true;
  return in;
}

static bool depends_on_input(const Build *b, NodeId n) {
  Arena *scratch = arena_new();
  const bool *in = ancestors(b, scratch, n);
  bool found = false;
  for (NodeId k = 1; k <= n && !found; k++) found = in[k] && graph_node(b->g, k)->op == OP_INPUT;
  arena_free(scratch);
  return found;
}

// Returns the parameter whose elements n has, apart from casts, pins, checkpoints, renamed or
// regrouped dims and the slice of a scan; 0 if n is something else.
static DeclId parameter_of(const Graph *g, NodeId n) {
  for (;;) {
    const Node *node = graph_node(g, n);
    switch (node->op) {
    case OP_PARAM: return node->attr->decl;
    case OP_CAST:
    case OP_RENAME:
    case OP_SPLIT:
    case OP_MERGE:
    case OP_CHECKPOINT:
    case OP_PIN:
    case OP_AT: n = node->args[0]; break;
    default: return 0;
    }
  }
}

static const char *short_name(const Graph *g, DeclId d) {
  const char *name = g->decl.at[d - 1].name, *dot = strrchr(name, '.');
  return dot ? dot + 1 : name;
}

// -- names that nothing uses --------------------------------------------------------------------

// The set of names that a tree uses.
typedef struct Mentions {
  Arena *a;
  NameMap names;
} Mentions;

static void mention(Mentions *m, const char *name) {
  if (name) map_put(m->a, &m->names, name, m);
}

// Adds all names that the Ast `root` uses to m. A declaration is not a use of the name that it
// declares.
static void mentions_of(Mentions *m, const Ast *root) {
  VEC(const Ast *) todo = {0};
  vec_push(m->a, todo) = root;
  while (todo.n) {
    const Ast *e = todo.at[--todo.n];
    if (e->kind == AST_NAME || e->kind == AST_RULE || e->kind == AST_SCAN) mention(m, e->text);
    for (uint32_t i = 0; i < e->ndims && e->kind != AST_FN; i++) mention(m, e->dims[i].name);
    for (uint32_t i = 0; i < e->nargs; i++)
      if (e->args[i].value) vec_push(m->a, todo) = e->args[i].value;
    for (uint32_t i = 0; i < e->nargs; i++)
      if (e->args[i].key) vec_push(m->a, todo) = e->args[i].key;
    for (uint32_t i = 0; i < e->nkids; i++)
      if (e->kids[i]) vec_push(m->a, todo) = e->kids[i];
  }
}

// Warns about unused dims that the statements of `block`, and the functions among them, declare.
// Dims of imported files are skipped, because a library may declare more dims than a model needs.
static void unused_dims(Build *b, const Mentions *m, const Ast *block, uint32_t source) {
  for (uint32_t i = 0; i < block->nkids; i++) {
    const Ast *s = block->kids[i];
    if (s->kind == AST_FN && s->kids[0]->kind == AST_BLOCK) unused_dims(b, m, s->kids[0], source);
    for (uint32_t k = 0; s->kind == AST_DIM && k < s->nkids; k++) {
      const char *name = s->kids[k]->text;
      if (map_get(&m->names, name) || s->kids[k]->pos.source != source) continue;
      diag_warning(b->d, DIAG_UNUSED_DIM, s->kids[k]->pos, "nothing uses the dim '%s'", name);
    }
  }
}

static void warn_unused_dims(Build *b) {
  Mentions m = {.a = arena_new()};
  mentions_of(&m, b->text);
  for (uint32_t i = 0; i < b->opt->nsettings; i++) mentions_of(&m, b->opt->setting[i].value);
  unused_dims(b, &m, b->text, b->text->pos.source);
  arena_free(m.a);
}

// Returns an array with a NodeId as index, allocated in `a`: true if another node, an output, an
// update or a named value uses the node.
static bool *used_nodes(const Build *b, Arena *a) {
  const Graph *g = b->g;
  bool *used = arena_array(a, bool, graph_count(g) + 1);
  for (NodeId n = 1; n <= graph_count(g); n++)
    for (int k = 0; k < graph_node(g, n)->nargs; k++) used[graph_node(g, n)->args[k]] = true;
  for (uint32_t i = 0; i < g->output.n; i++) used[g->output.at[i].value] = true;
  for (uint32_t i = 0; i < g->name.n; i++)
    if (g->name.at[i].kind != NAME_DECL) used[g->name.at[i].value] = true;
  return used;
}

static void warn_unused_tensors(Build *b) {
  Arena *scratch = arena_new();
  const bool *used = used_nodes(b, scratch);
  for (uint32_t i = 0; i < b->g->decl.n; i++) {
    const Decl *d = &b->g->decl.at[i];
    if ((d->kind != DECL_INPUT && d->kind != DECL_PARAM) || used[d->node]) continue;
    diag_warning(b->d, DIAG_UNUSED_TENSOR, d->pos, "nothing uses the %s '%s'",
                 d->kind == DECL_INPUT ? "input" : "parameter", short_name(b->g, i + 1));
  }
  arena_free(scratch);
}

// -- parameters that stay zero ------------------------------------------------------------------

// Returns a hint with an initial value for the parameter. The value is a draw: its fan-in are the
// dims that the contraction sums over, its fan-out the other dims. The hint has the names of dims
// that the declaration uses.
static const char *draw_hint(Build *b, const Zero *z, const Node *contraction) {
  const Decl *d = &b->g->decl.at[z->decl - 1];
  const char *in = "", *out = "", *dims = "";
  for (int i = 0; i < d->rank && i < (int)z->ast->ndims; i++) {
    const char *name = z->ast->dims[i].name;
    bool summed = false;
    for (int k = 0; k < contraction->attr->ndims; k++)
      summed |= contraction->attr->dims[k] == d->dims[i];
    const char **side = summed ? &in : &out;
    *side = arena_printf(b->a, "%s%s%s", *side, **side ? ", " : "", name);
    dims = arena_printf(b->a, "%s%s%s", dims, *dims ? ", " : "", name);
  }
  const char *draw = !*in    ? "normal(std = 0.02)"
                     : !*out ? arena_printf(b->a, "lecun(%s)", in)
                             : arena_printf(b->a, "glorot(%s -> %s)", in, out);
  return arena_printf(b->a, "draw it: param %s[%s] ~ %s; or write = 0 where zero is meant",
                      z->ast->text, dims, draw);
}

// Finds declaration d in b->zero by binary search; NULL if it is not there.
static const Zero *zero_find(const Build *b, DeclId d) {
  for (uint32_t lo = 0, hi = b->zero.n; lo < hi;) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (b->zero.at[mid].decl == d) return &b->zero.at[mid];
    if (b->zero.at[mid].decl < d)
      lo = mid + 1;
    else
      hi = mid;
  }
  return NULL;
}

static void warn_zero_factors(Build *b) {
  for (NodeId n = 1; n <= graph_count(b->g); n++) {
    const Node *node = graph_node(b->g, n);
    if (node->op != OP_CONTRACT || node->origin->backward) continue;
    for (int k = 0; k < node->nargs; k++) {
      DeclId d = parameter_of(b->g, node->args[k]);
      const Zero *zero = d ? zero_find(b, d) : NULL;
      if (!zero) continue;
      diag_warning(b->d, DIAG_ZERO_FACTOR, b->g->decl.at[d - 1].pos,
                   "the parameter '%s' has no initial value, so it is zero, and it is a factor of "
                   "a contraction",
                   zero->ast->text);
      diag_note(b->d, node->origin->pos,
                "the contraction: zero, and so are the gradients of its other factors");
      diag_hint(b->d, "%s", draw_hint(b, zero, node));
    }
  }
}

void warnings_of_model(Build *b) {
  // with these options a variant of the model is built; the warnings of the model itself have been
  // reported
  bool other = b->opt->micro_dim || b->opt->rows_dim || b->opt->shorten;
  if (other || diag_errors(b->d)) return;
  warn_unused_dims(b);
  warn_unused_tensors(b);
  if (!b->opt->loaded) warn_zero_factors(b);
}

// -- sums over a dim that only a parameter has --------------------------------------------------

// Returns the index of d among the dim formals of the function of the current frame; -1 if d is not
// among them.
static int formal_of(const Build *b, DimId d) {
  const Frame *f = b->frame;
  for (uint32_t i = 0; f->fn && i < f->fn->ast->ndims; i++)
    if ((DimId)(uintptr_t)map_get(&f->dims, f->fn->ast->dims[i].name) == d) return (int)i;
  return -1;
}

// Returns the dims in the brackets of the current call as "[d, h]", with the dims at indices i and
// k swapped.
static const char *swapped(Build *b, int i, int k) {
  const Ast *call = b->frame->call;
  const char *text = "";
  for (int n = 0; n < (int)call->ndims; n++)
    text = arena_printf(b->a, "%s%s%s", text, n ? ", " : "",
                        call->dims[n == i   ? k
                                   : n == k ? i
                                            : n]
                            .name);
  return arena_printf(b->a, "[%s]", text);
}

static const char *call_dims(Build *b) { return swapped(b, -1, -1); }

// Returns the index of the dim formal that the user most likely meant in place of formal number
// `not`: the first one whose dim is in `have`, the dims of the other factors. Returns -1 if there
// is none.
static int formal_meant(const Build *b, int not, const Dims *have) {
  const Frame *f = b->frame;
  for (int i = 0; i < (int)f->fn->ast->ndims; i++)
    if (i != not &&dims_has(have, (DimId)(uintptr_t)map_get(&f->dims, f->fn->ast->dims[i].name)))
      return i;
  return -1;
}

// Warns that only the parameter has the summed dim d. The dims of the other factors of the sum are
// `have`.
static void say_alone(Build *b, Pos pos, DeclId param, DimId d, const Dims *have) {
  int i = formal_of(b, d);
  const char *name = short_name(b->g, param), *dim = dim_get(b->g->dims, d)->name;
  if (i < 0) {
    diag_warning(b->d, DIAG_PARAM_SUMMED, pos,
                 "only the parameter '%s' has the summed dim '%s'; the other factors are over %s",
                 name, dim, dims_listed(b, have));
    diag_hint(b->d,
              "sum over a dim that the other factors have; if the sum of '%s' is meant, write it "
              "apart: sum[%s](%s)",
              name, dim, name);
    return;
  }
  const Ast *call = b->frame->call;
  const char *formal = b->frame->fn->ast->dims[i].name;
  diag_warning(b->d, DIAG_PARAM_SUMMED, call->pos,
               "in %s%s(...) only the parameter '%s' has the summed dim '%s', which is '%s' here: "
               "the other factors are over %s",
               call->text, call_dims(b), name, formal, call->dims[i].name, dims_listed(b, have));
  diag_note(b->d, pos, "the sum over '%s'", formal);
  int meant = formal_meant(b, i, have);
  if (meant >= 0)
    diag_hint(b->d, "swap the dims: %s%s(...)", call->text, swapped(b, i, meant));
  else
    diag_hint(b->d, "give '%s' a dim of the argument", formal);
}

// Writes the factors of the product n to `out`, which has room for `most` values. Skips casts.
// Returns the number of factors, or 0 if there are more than `most`.
static uint32_t factors_of(const Graph *g, NodeId n, uint32_t most, Value *out) {
  NodeId todo[MAX_RANK];
  uint32_t left = 0, count = 0;
  todo[left++] = n;
  while (left && count < most) {
    NodeId at = todo[--left];
    const Node *node = graph_node(g, at);
    if (node->op == OP_CAST) {
      todo[left++] = node->args[0];
    } else if (node->op == OP_MUL && left + 2 <= countof(todo)) {
      todo[left++] = node->args[1];
      todo[left++] = node->args[0];
    } else {
      out[count++] = value_tensor(at);
    }
  }
  return left ? 0 : count;
}

void warn_param_alone_in(Build *b, Pos pos, NodeId product, const Dims *over) {
  Value factor[MAX_RANK];
  uint32_t n = factors_of(b->g, product, countof(factor), factor);
  if (n > 1) warn_param_alone(b, pos, n, factor, over);
}

void warn_param_alone(Build *b, Pos pos, uint32_t n, const Value *factor, const Dims *over) {
  enum { MOST_LOOKS = 1000 }; // limit of the walks over the graph by depends_on_input
  for (int i = 0; i < over->n; i++) {
    DeclId param = 0;
    Dims others = {0};
    bool alone = true, data = false;
    for (uint32_t k = 0; k < n && alone; k++) {
      const Dims *have = build_dims(b, &factor[k]);
      bool has = dims_has(have, over->at[i]);
      DeclId d = has ? parameter_of(b->g, factor[k].node) : 0;
      alone = !has || (d && !param);
      if (d) param = d;
      for (int j = 0; !has && j < have->n; j++) alone &= dims_add(b->g->dims, &others, have->at[j]);
    }
    if (!alone || !param || !others.n || b->looks >= MOST_LOOKS) continue;
    for (uint32_t k = 0; k < n && !data; k++)
      data =
          !dims_has(build_dims(b, &factor[k]), over->at[i]) && depends_on_input(b, factor[k].node);
    b->looks++;
    if (data) say_alone(b, pos, param, over->at[i], &others);
  }
}

// -- carries and gradients ----------------------------------------------------------------------

void warn_carry_kept(Build *b, const Ast *target) {
  const Binding *last = binding_find(b, target->text);
  bool bound = last->pos.source != target->pos.source || last->pos.line != target->pos.line ||
               last->pos.col != target->pos.col;
  if (bound || last->value.kind == VALUE_POISON) return;
  diag_warning(b->d, DIAG_CARRY_KEPT, target->pos,
               "the body of the scan never binds '%s': it keeps its start", target->text);
  diag_hint(b->d, "bind it in the body, %s = ...; a value that does not change needs no carry",
            target->text);
}

// Returns whether one of the first n statements of the block binds the name, or the head of scan s
// carries it.
static bool bound_before(const Ast *s, uint32_t n, const char *name) {
  for (uint32_t k = 1; k < s->nkids; k++)
    if (s->kids[k]->kids[0]->text == name) return true;
  for (uint32_t i = 0; i < n; i++) {
    const Ast *one = s->kids[0]->kids[i];
    for (uint32_t k = 0; one->kind == AST_BIND && k + 1 < one->nkids; k++)
      if (one->kids[k]->text == name) return true;
  }
  return false;
}

// Returns whether the name has a value before the scan that is the same in all of its steps.
static bool same_in_steps(const Build *b, const char *name, DimId t) {
  const Binding *x = binding_find(b, name);
  if (!x || x->graph != b->g) return false;
  return x->value.kind == VALUE_NUMBER ||
         (x->value.kind == VALUE_TENSOR && !dims_has(graph_node(b->g, x->value.node)->dims, t));
}

void warn_carry_missing(Build *b, const Ast *s, DimId t) {
  const Ast *body = s->kids[0];
  for (uint32_t i = 0; i < body->nkids; i++) {
    const Ast *one = body->kids[i];
    for (uint32_t k = 0; one->kind == AST_BIND && k + 1 < one->nkids; k++) {
      const Ast *target = one->kids[k];
      if (bound_before(s, i, target->text) || !same_in_steps(b, target->text, t)) continue;
      Mentions m = {.a = arena_new()};
      mentions_of(&m, one->kids[one->nkids - 1]);
      if (map_get(&m.names, target->text)) {
        diag_warning(
            b->d, DIAG_CARRY_KEPT, target->pos,
            "the scan does not carry '%s': each step starts from its value before the scan",
            target->text);
        diag_hint(b->d, "carry it: scan %s (%s = %s) { ... }; or bind another name", s->text,
                  target->text, target->text);
      }
      arena_free(m.a);
    }
  }
}

void warn_gradient_of_old(Build *b, NodeId loss, const Ast *name) {
  const Binding *bound = binding_find(b, name->text), *old = bound ? bound->before : NULL;
  if (!old || bound->graph != b->g || bound->value.kind != VALUE_TENSOR) return;
  Arena *scratch = arena_new();
  const bool *in = ancestors(b, scratch, loss);
  bool now = bound->value.node <= loss && in[bound->value.node], before = false;
  for (; old && !before && !now; old = old->before)
    before = old->graph == b->g && old->value.kind == VALUE_TENSOR && old->value.node <= loss &&
             in[old->value.node];
  arena_free(scratch);
  if (!before) return;
  diag_warning(b->d, DIAG_GRADIENT_ZERO, name->pos,
               "'%s' was bound again after the loss used it: the gradient by the new '%s' is zero",
               name->text, name->text);
  diag_note(b->d, bound->pos, "bound again here");
  diag_hint(b->d,
            "take the gradient before '%s' is bound again, or give the new value a name of its own",
            name->text);
}

// Builds `for` and `if`, which exist only at compile time: the rounds of a `for` are built one
// after another, and of an `if` one branch.
//
// Input: AST_FOR and AST_IF statements. Output: nodes, and bindings of the names that the bodies
// bind.
//
//   for i in 0..3 { x = g(x); yield x as xs[n] }
//     x = g(g(g(x))), xs = where(index[n] == 0, x of round 0, where(index[n] == 1, ...))
//   for in, out in ((d, h), (h, c)) { x = dense[in, out](x) }
//     in the first round `in` and `out` name the dims d and h, in the second h and c
#include <string.h>

#include "frontend/model/build_internal.h"

// -- rounds -------------------------------------------------------------------------------------

// What a `for` runs over.
typedef struct Rounds {
  int64_t n, low;  // number of rounds; the number of the first one
  const Ast *list; // the items, or NULL for a range: round i then has the number low + i
} Rounds;

// Reads what `for` s runs over. Returns false after an error.
static bool rounds_read(Build *b, const Ast *s, Rounds *r) {
  const Ast *over = s->kids[0];
  int64_t hi;
  *r = (Rounds){.list = over->kind == AST_LIST ? over : NULL};
  if (r->list) {
    r->n = over->nargs;
    return true;
  }
  if (s->ndims)
    return diag_error(b->d, DIAG_BAD_ARGUMENTS, s->dims[0].pos,
                      "a range gives one number a round") ||
           diag_hint(b->d, "for several names write a list: for a, b in ((1, 2), (3, 4))");
  if (!dims_integer(b, over->kids[0], &r->low) || !dims_integer(b, over->kids[1], &hi))
    return false;
  r->n = hi - r->low;
  return r->n >= 0 ||
         diag_error(b->d, DIAG_BAD_ARGUMENTS, over->pos, "the range %lld..%lld runs backwards",
                    (long long)r->low, (long long)hi);
}

// A name of a loop, and what it meant before the round.
typedef struct LoopName {
  const char *name;
  Binding *value;
  void *dim;
} LoopName;

// Gives `name` the value of `item`: that of an expression, or the dim that it names.
static bool name_item(Build *b, const char *name, const Ast *item) {
  bool bare =
      item->kind == AST_NAME && !binding_find(b, item->text) && !map_get(&b->consts, item->text);
  DimId d = bare ? dim_visible(b, item->text) : 0;
  if (d) {
    map_put(b->a, &b->frame->dims, name, (void *)(uintptr_t)d);
    map_put(b->a, &b->frame->values, name, NULL);
    return true;
  }
  Value v = build_argument(b, item);
  if (v.kind == VALUE_TENSOR || v.kind == VALUE_TUPLE) {
    diag_error(b->d, DIAG_NOT_A_CONSTANT, item->pos,
               "a for loop runs over what is known at compile time: numbers, dims, strings, "
               "functions, true and false");
    v = value_poison;
  }
  binding_put(b, &b->frame->values, name, v, item->pos);
  return v.kind != VALUE_POISON;
}

// Gives the names of loop s their meaning in a round: that of the list's item.
static bool name_items(Build *b, const Ast *s, uint32_t n, const LoopName *name,
                       const AstArg *item) {
  const Ast *e = item->value;
  if (item->name || item->key || item->arrow)
    return diag_error(b->d, DIAG_BAD_ARGUMENTS, item->pos, "the list of a loop has plain items");
  if (n == 1 && e->kind != AST_LIST) return name_item(b, name[0].name, e);
  if (e->kind != AST_LIST || e->nargs != n) {
    diag_error(b->d, DIAG_BAD_ARGUMENTS, item->pos, "this round gives %u value%s for %u name%s",
               e->kind == AST_LIST ? e->nargs : 1, plural(e->kind == AST_LIST ? e->nargs : 1), n,
               plural(n));
    return diag_note(b->d, s->pos, "the names of the loop");
  }
  bool good = true;
  for (uint32_t k = 0; k < n && good; k++) good = name_item(b, name[k].name, e->args[k].value);
  return good;
}

// Lists the names of loop s and saves what they mean.
static LoopName *names_save(Build *b, const Ast *s) {
  LoopName *name = arena_array(b->a, LoopName, s->ndims + 1);
  for (uint32_t k = 0; k <= s->ndims; k++) {
    name[k].name = k ? s->dims[k - 1].name : s->text;
    name[k].value = binding_find(b, name[k].name);
    name[k].dim = map_get(&b->frame->dims, name[k].name);
  }
  return name;
}

static void names_restore(Build *b, uint32_t n, const LoopName *name) {
  for (uint32_t k = n; k-- > 0;) {
    map_put(b->a, &b->frame->values, name[k].name, name[k].value);
    if (map_get(&b->frame->dims, name[k].name) != name[k].dim)
      map_put(b->a, &b->frame->dims, name[k].name, name[k].dim);
  }
}

// Opens the scope "base.i" of a round of loop s. A loop that declares nothing takes the scope that
// is around it if another loop has that name already. Returns false after an error.
static bool round_scope(Build *b, const Ast *s, const char *base, int64_t i) {
  Frame *f = b->frame;
  const char *name = intern_printf(b->names, "%s.%lld", base, (long long)i);
  if (f->anonymous) return true;
  bool bare = !block_declares(b, s->kids[1]);
  const Scope *taken = map_get(&b->scopes, name_join(b, f->scope->path, name));
  if (bare && taken && !f->scope->shared) return true;
  Scope *scope = scope_open(b, name, true, NULL, s->pos);
  if (!scope) return false;
  scope->bare = bare;
  f->scope = scope;
  return true;
}

// Builds round i of `for` s in the scope of its number, with the names of the loop bound. Names
// first bound in the round are removed after it. Returns false after an error.
static bool build_round(Build *b, const Ast *s, const char *base, const Rounds *r, int64_t i,
                        Round *round) {
  Frame *f = b->frame;
  int errors = diag_errors(b->d);
  Scope *outer = f->scope;
  uint32_t n = s->ndims + 1;
  LoopName *name = names_save(b, s);
  bool good = !r->list || name_items(b, s, n, name, &r->list->args[i]);
  if (!r->list)
    binding_put(b, &f->values, s->text, value_number((double)(r->low + i), true), s->pos);
  if (good && round_scope(b, s, base, r->low + i)) {
    f->round = round;
    build_block(b, s->kids[1]);
    f->round = round->outer;
    f->scope = outer;
    round_end(b, round);
    round->hidden.n = 0;
    round->number++;
  }
  names_restore(b, n, name);
  return diag_errors(b->d) == errors;
}

static void keep_carried(Build *b, const Ast *block);

static void keep_carried_if(Build *b, const Ast *s) {
  for (uint32_t k = 1; k < s->nkids; k++)
    if (s->kids[k]->kind == AST_IF)
      keep_carried_if(b, s->kids[k]);
    else
      keep_carried(b, s->kids[k]);
}

// Marks the current values of the names that `block` binds as checkpoints. The next round begins
// with these values, and the backward pass rematerialises the round from them.
static void keep_carried(Build *b, const Ast *block) {
  for (uint32_t i = 0; i < block->nkids; i++) {
    const Ast *s = block->kids[i];
    // the depth of this recursion is the nesting of statements in the model
    if (s->kind == AST_FOR) keep_carried(b, s->kids[1]);
    if (s->kind == AST_IF) keep_carried_if(b, s);
    for (uint32_t k = 0; s->kind == AST_BIND && k + 1 < s->nkids; k++) {
      Binding *bound = binding_find(b, s->kids[k]->text);
      if (!bound || bound->value.kind != VALUE_TENSOR) continue;
      const Node *n = graph_node(b->g, bound->value.node);
      if (op_row((Op)n->op)->cls == SOURCE || n->op == OP_CHECKPOINT) continue;
      b->g->origin = *n->origin;
      bound->value.node = graph_unary(b->g, OP_CHECKPOINT, bound->value.node);
    }
  }
}

// Returns the values that a yield in a `for` collected, one for each round, as one tensor with the
// dim y->dim. The tensor is made by nested where() on the index of that dim, or by a broadcast if
// there was only one round.
static Value stacked(Build *b, const Yield *y) {
  uint32_t last = y->value.n - 1;
  Value v = y->value.at[last];
  NodeId index = graph_index(b->g, y->dim);
  for (uint32_t i = last; i-- > 0;) {
    NodeId here = graph_binary(b->g, OP_EQ, index, graph_const(b->g, TYPE_I32, (double)i));
    v = build_pointwise(b, y->pos, OP_WHERE, CHOOSING, 3,
                        (Value[]){value_tensor(here), y->value.at[i], v});
  }
  if (last || v.kind == VALUE_POISON) return v;
  NodeId one = build_natural(b, v);
  return value_tensor(
      build_emit(b, y->pos, OP_BROADCAST, 1, &one, &(Attr){.ndims = 1, .dims = &y->dim}));
}

static void bind_stacked(Build *b, const Yield *y) {
  Value v = value_poison;
  bool good = y->dim != 0;
  for (uint32_t i = 0; i < y->value.n; i++) good &= y->value.at[i].kind != VALUE_POISON;
  int64_t size = y->dim ? dim_get(b->g->dims, y->dim)->size : 0;
  if (good && size != y->value.n) {
    diag_error(b->d, DIAG_SIZE_MISMATCH, y->pos,
               "%u round%s %s collected over '%s', which has size %lld", y->value.n,
               plural(y->value.n), y->value.n == 1 ? "is" : "are",
               dim_get(b->g->dims, y->dim)->name, (long long)size);
    good = false;
  }
  b->g->origin.value = y->name;
  b->g->origin.pos = y->pos;
  if (good) v = stacked(b, y);
  binding_set(b, y->name, v, y->pos, NAME_VALUE, NULL);
}

// Returns how many of the n rounds of `for` s to build. With l = opt->shorten, an outermost loop of
// more than l->rounds + 1 rounds gets l->rounds of them, or one more if it is l->longer. Such a
// loop is recorded in l->loop.
static int64_t rounds_built(Build *b, const Ast *s, int64_t n) {
  ShortLoops *l = b->opt->shorten;
  if (!l || b->fors > 0 || n <= l->rounds + 1) return n;
  for (uint32_t i = 0; i < l->loop.n; i++) {
    if (l->loop.at[i].loop != s) continue;
    l->mixed |= l->loop.at[i].rounds != n;
    return l->rounds + (s == l->longer);
  }
  vec_push(b->a, l->loop) = (ShortLoop){s, n};
  return l->rounds + (s == l->longer);
}

void build_for(Build *b, const Ast *s) {
  const char *base = s->text;
  bool again;
  Rounds r;
  if (!rounds_read(b, s, &r) || !loop_options(b, s, &base, &again)) return;
  Yields yields = {0};
  Round round = {.outer = b->frame->round, .yields = &yields};
  if (!r.list) r.n = rounds_built(b, s, r.n);
  bool good = true;
  b->fors++;
  for (int64_t i = 0; i < r.n && good; i++) {
    if (again) keep_carried(b, s->kids[1]);
    good = build_unroll(b, 1, s->pos) && build_round(b, s, base, &r, i, &round);
  }
  b->fors--;
  if (!good) return;
  if (again) keep_carried(b, s->kids[1]);
  for (uint32_t i = 0; i < yields.n; i++) bind_stacked(b, &yields.at[i]);
}

// -- if -----------------------------------------------------------------------------------------

// Binds to poison the names that a branch of `if` s would bind first, so that uses of them give no
// further errors.
static void if_poison(Build *b, const Ast *block) {
  for (uint32_t i = 0; i < block->nkids; i++) {
    const Ast *s = block->kids[i];
    for (uint32_t k = 0; s->kind == AST_BIND && k + 1 < s->nkids; k++)
      if (!binding_find(b, s->kids[k]->text))
        binding_set(b, s->kids[k]->text, value_poison, s->pos, NAME_VALUE, NULL);
  }
}

void build_if(Build *b, const Ast *s) {
  bool yes;
  // rounds of a loop that decide differently do not cost the same
  if (b->opt->shorten && b->fors) b->opt->shorten->mixed = true;
  for (;;) {
    if (!build_bool(b, s->kids[0], &yes)) {
      for (uint32_t k = 1; k < s->nkids; k++) if_poison(b, s->kids[k]);
      return;
    }
    const Ast *branch = yes ? s->kids[1] : s->nkids > 2 ? s->kids[2] : NULL;
    if (!branch) return;
    if (branch->kind == AST_IF) {
      s = branch;
      continue;
    }
    b->frame->ifs++;
    build_block(b, branch);
    b->frame->ifs--;
    return;
  }
}

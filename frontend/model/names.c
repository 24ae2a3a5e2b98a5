// Binds names in frames, registers the full names that can be fetched, opens scopes, and looks up
// the values of names.
//
//   for layer in 0..2 { x = block(x) }     binds x in the file's frame; registers "layer.0.x" and
//                                          "layer.1.x", and updates "x" in each round
#include <string.h>

#include "frontend/model/build_internal.h"

const Value value_poison = {.kind = VALUE_POISON};

// -- bindings -----------------------------------------------------------------------------------

const char *name_join(Build *b, const char *path, const char *name) {
  return *path ? intern_printf(b->names, "%s.%s", path, name) : intern(b->names, name);
}

Binding *binding_find(const Build *b, const char *name) { return map_get(&b->frame->values, name); }

// Reports an error and returns true if `old` is an output or a metric. Such a name cannot be bound
// again, because a value is reported under it. `kind` is the kind of the new binding.
static bool name_reported(Build *b, const Name *old, NameKind kind, Pos pos) {
  if (old->kind != NAME_OUTPUT && old->kind != NAME_METRIC) return false;
  const char *was = old->kind == NAME_OUTPUT ? "an output" : "a metric";
  if (kind == old->kind)
    diag_error(b->d, DIAG_DUPLICATE_NAME, pos, "'%s' is already %s", old->name, was);
  else
    diag_error(b->d, DIAG_DUPLICATE_NAME, pos, "'%s' is %s and cannot be bound again", old->name,
               was);
  diag_note(b->d, old->pos, "first here");
  return true;
}

void name_register(Build *b, const char *full, NameKind kind, const Binding *from) {
  if (from->value.kind != VALUE_TENSOR && from->value.kind != VALUE_NUMBER) return;
  Name name = {
      .name = full, .kind = kind, .rank = from->rank, .stated = from->stated, .pos = from->pos};
  memcpy(name.dims, from->dims, sizeof name.dims);
  name.value = build_natural(b, from->value);
  uintptr_t slot = (uintptr_t)map_get(&b->fetched, full);
  if (slot) {
    if (name_reported(b, &b->g->name.at[slot - 1], kind, from->pos)) return;
    b->g->name.at[slot - 1] = name;
    return;
  }
  vec_push(b->g->arena, b->g->name) = name;
  // indices are stored plus 1, because 0 means that the name is not in the map
  map_put(b->a, &b->fetched, full, (void *)(uintptr_t)b->g->name.n);
}

Binding *binding_set(Build *b, const char *name, Value v, Pos pos, NameKind kind,
                     const DimList *stated_order) {
  Frame *f = b->frame;
  Binding *old = binding_find(b, name), *new = arena_new_of(b->a, Binding);
  const Scope *home = !old ? f->scope : old->home ? old->home : f->base;
  *new = (Binding){.value = v, .graph = b->g, .home = home, .before = old, .pos = pos};
  if (stated_order) {
    new->stated = true;
    new->rank = stated_order->n;
    memcpy(new->dims, stated_order->at, sizeof new->dims);
  }
  round_note(b, name, old);
  map_put(b->a, &f->values, name, new);
  if (f->anonymous || b->g != b->model->graph || (b->loop && kind != NAME_DECL)) return new;
  name_register(b, name_join(b, f->scope->path, name), kind, new);
  if (new->home != f->scope) name_register(b, name_join(b, new->home->path, name), kind, new);
  return new;
}

void binding_put(Build *b, NameMap *map, const char *name, Value v, Pos pos) {
  Binding *bound = arena_new_of(b->a, Binding);
  *bound = (Binding){.value = v, .graph = b->g, .pos = pos};
  map_put(b->a, map, name, bound);
}

// -- scopes -------------------------------------------------------------------------------------

// Counter of the child scopes that have one base name: `next` is the number of the next such scope.
typedef struct Counter {
  uint32_t next;
} Counter;

static Scope *scope_new(Build *b, const char *path, const Function *fn) {
  Scope *s = arena_new_of(b->a, Scope);
  *s = (Scope){.path = path, .fn = fn, .shared = b->frame->scope->shared};
  if (!s->shared) map_put(b->a, &b->scopes, path, s);
  return s;
}

Scope *scope_open(Build *b, const char *base, bool exact, const Function *fn, Pos pos) {
  Scope *parent = b->frame->scope;
  const char *path = name_join(b, parent->path, base);
  if (exact) {
    const Scope *old = map_get(&b->scopes, path);
    if (!parent->shared && old && !old->bare) {
      diag_error(b->d, DIAG_DUPLICATE_NAME, pos, "there is already a scope '%s'", path);
      return NULL;
    }
    return scope_new(b, path, fn);
  }
  Counter *c = map_get(&parent->next, base);
  if (!c) map_put(b->a, &parent->next, base, c = arena_new_of(b->a, Counter));
  for (;; c->next++) {
    const char *try = c->next ? intern_printf(b->names, "%s_%u", path, c->next) : path;
    if (!parent->shared && map_get(&b->scopes, try)) continue;
    c->next++;
    return scope_new(b, try, fn);
  }
}

// -- lookup -------------------------------------------------------------------------------------

static void name_nearest(Build *b, const char *name) {
  VEC(const char *) near = {0};
  const NameMap *maps[] = {&b->frame->values, &b->consts};
  for (size_t m = 0; m < countof(maps); m++)
    for (uint32_t i = 0; i < maps[m]->cap; i++)
      if (maps[m]->value[i]) vec_push(b->a, near) = maps[m]->key[i];
  for (uint32_t i = 0; i < b->g->decl.n && !b->frame->fn; i++)
    vec_push(b->a, near) = b->g->decl.at[i].name;
  diag_nearest(b->d, name, near.at, near.n);
}

// Where a name is bound that is not visible where it is used.
typedef struct Bound {
  const Ast *target, *statement;
  const Ast *loop; // with whose body the name ends; of several the innermost around the use
} Bound;

static bool is_before(Pos p, Pos q) { return p.line != q.line ? p.line < q.line : p.col < q.col; }

// Returns whether pos is in the text of node t. A node without an end has no text.
static bool spans(const Ast *t, Pos pos) {
  return !is_before(pos, t->pos) && !is_before(t->end, pos);
}

// Finds the first statement below `block` that binds `name`, which is used at `use`. Returns false
// if there is none.
static bool bound_below(const Ast *block, const char *name, Pos use, Bound *out) {
  for (uint32_t i = 0; block && i < block->nkids; i++) {
    const Ast *s = block->kids[i];
    if (!s) continue;
    bool loop = s->kind == AST_FOR || s->kind == AST_SCAN,
         binds = s->kind == AST_BIND || s->kind == AST_OUTPUT || s->kind == AST_METRIC,
         declares = s->kind == AST_INPUT || s->kind == AST_PARAM || s->kind == AST_STATE;
    bool found = (s->kind == AST_TARGET || declares) && s->text == name;
    if (found) *out = (Bound){.target = s, .statement = s};
    if (loop || binds || s->kind == AST_IF || s->kind == AST_BLOCK)
      found = bound_below(s, name, use, out);
    if (found && binds) out->statement = s;
    if (found && loop && !(out->loop && spans(out->loop, use))) out->loop = s;
    if (found) return true;
  }
  return false;
}

// Hints at a binding of `name` that is not visible at pos: a later one, one whose right side this
// use is in, or one in a loop that has ended. Returns false if there is none.
static bool bound_elsewhere(Build *b, const char *name, Pos pos) {
  Bound at = {0};
  const Ast *body = b->frame->fn ? b->frame->fn->ast : b->text;
  if (!bound_below(body, name, pos, &at) || at.target->pos.source != pos.source) return false;
  bool own = spans(at.statement, pos), later = own || is_before(pos, at.target->pos);
  if (!later && !at.loop) return false;
  diag_note(b->d, at.target->pos,
            own     ? "bound here, from its own value"
            : later ? "bound here, after this use"
                    : "bound here, in a loop");
  if (!later)
    diag_hint(b->d, "a name that is first bound in a loop ends with it: bind it before the loop, "
                    "or collect it by yield");
  else if (at.loop && spans(at.loop, pos) && at.loop->kind == AST_SCAN)
    diag_hint(b->d, "a value of the step before is a carry: scan %s (%s = 0) { ... }",
              at.loop->text, name);
  else if (at.loop && spans(at.loop, pos))
    diag_hint(b->d, "a value of the round before needs one before the loop: %s = 0", name);
  else if (own)
    diag_hint(b->d, "give it a value above, or another name here");
  else
    diag_hint(b->d, "a name is bound before it is used: move the statement up");
  return true;
}

// Returns true if a name that is not bound looks like that of a file.
static bool file_name(const char *name) {
  static const char *const ends[] = {".csv", ".tsv",  ".txt", ".npy", ".npz", ".safetensors",
                                     ".png", ".json", ".bin", ".gz",  ".mesh"};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot && i < countof(ends); i++)
    if (!strcmp(dot, ends[i])) return true;
  return false;
}

static void say_unknown(Build *b, const char *name, Pos pos) {
  diag_error(b->d, DIAG_UNKNOWN_NAME, pos, "unknown name '%s'", name);
  if (!diag_kept(b->d) || habit_of_member(b, name, NULL)) return;
  if (dim_visible(b, name))
    diag_hint(b->d, "'%s' is a dim: its size is size(%s), its positions index[%s]", name, name,
              name);
  else if (map_get(&b->functions, name) || builtin_find(name))
    diag_hint(b->d, "'%s' is a function: call it", name);
  else if (file_name(name))
    diag_hint(b->d, "the name of a file is in quotes: \"%s\"", name);
  else if (!strcmp(name, "nan"))
    diag_hint(b->d, "write 0 / 0");
  else if (b->frame->fn && map_get(&b->file->values, name))
    diag_hint(b->d, "functions see only the tensors that are passed to them");
  else if (!bound_elsewhere(b, name, pos))
    name_nearest(b, name);
}

// Returns the value of a predefined name: training, step, true, false; poison for any other name.
static Value special_name(Build *b, const char *name, Pos pos) {
  static const struct {
    const char *name;
    Op op;
  } counters[] = {{"training", OP_TRAINING}, {"step", OP_STEP}};
  for (size_t i = 0; i < countof(counters) && b->g == b->model->graph; i++)
    if (!strcmp(name, counters[i].name))
      return value_tensor(build_emit(b, pos, counters[i].op, 0, NULL, NULL));
  bool yes = !strcmp(name, "true");
  if (yes || !strcmp(name, "false")) return value_tensor(graph_const(b->g, TYPE_BOOL, yes));
  return value_poison;
}

// Returns the node of the input, parameter or state with that name below the current scope or,
// outside of functions, with that full name. Poison if there is none.
static Value decl_by_name(Build *b, const char *name) {
  uintptr_t d = (uintptr_t)map_get(&b->decls, name_join(b, b->frame->scope->path, name));
  if (!d && !b->frame->fn) d = (uintptr_t)map_get(&b->decls, name);
  return d ? value_tensor(graph_decl_node(b->g, (DeclId)d)) : value_poison;
}

Value value_of_name(Build *b, const char *name, Pos pos) {
  const Binding *bound = binding_find(b, name);
  if (!bound) bound = map_get(&b->consts, name);
  if (bound && bound->value.kind == VALUE_TENSOR && bound->graph != b->g) {
    diag_error(b->d, DIAG_NOT_A_CONSTANT, pos, "'%s' is not known at compile time", name);
    return value_poison;
  }
  if (bound && bound->value.kind == VALUE_TRUTH)
    return value_tensor(graph_const(b->g, TYPE_BOOL, bound->value.number));
  if (bound) return loop_view(b, bound->value, pos);
  Value v = special_name(b, name, pos);
  if (v.kind == VALUE_POISON && b->g == b->model->graph && strchr(name, '.'))
    v = decl_by_name(b, name);
  if (v.kind == VALUE_POISON) say_unknown(b, name, pos);
  return loop_view(b, v, pos);
}

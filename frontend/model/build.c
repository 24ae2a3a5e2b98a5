// Builds the graph of a model from its Ast: the walk over the statements, and model_build.
//
// Input: the Ast of a parsed model file and the options of the command line. Output: a Model, which
// the selection (frontend/step) reads. Dims, consts and functions are declared before the first
// statement is built. An expression with an error binds poison to its name, so that uses of the
// name give no further errors.
#include <string.h>

#include "frontend/model/train_internal.h"
#include "frontend/model/warnings.h"

// -- what a statement binds ---------------------------------------------------------------------

// Sets the origin of nodes that are added from now on: the value `name`, the cause `why` and the
// position. In a call that opened no scope the value stays that of the caller, because names in the
// body have no full names.
static void origin_of(Build *b, const char *name, const char *why, Pos pos) {
  if (!b->frame->anonymous)
    b->g->origin = (Origin){.value = name_join(b, b->frame->scope->path, name), .why = why};
  b->g->origin.pos = pos;
}

// Returns true if `name` may be bound: at file level it must not be a function or a const.
// Otherwise reports an error.
static bool name_free(Build *b, const char *name, Pos pos) {
  const Function *f = b->frame->fn ? NULL : map_get(&b->functions, name);
  const Binding *constant = b->frame->fn ? NULL : map_get(&b->consts, name);
  if (!f && !constant) return true;
  diag_error(b->d, DIAG_DUPLICATE_NAME, pos, "'%s' is already the name of a %s", name,
             f ? "function" : "const");
  return diag_note(b->d, f ? f->ast->pos : constant->pos, "declared here");
}

bool build_matches(Build *b, const char *name, Pos pos, const DimList *stated, const Value *v) {
  const Dims *have = build_dims(b, v);
  for (int i = 0; i < stated->n; i++)
    if (!dims_has(have, stated->at[i]))
      return diag_error(b->d, DIAG_MISSING_DIM, pos,
                        "'%s' is declared with dim '%s', but the right side is over %s", name,
                        dim_get(b->g->dims, stated->at[i])->name, dims_listed(b, have));
  for (int i = 0; i < have->n; i++)
    if (!dims_has(stated, have->at[i])) {
      diag_error(b->d, DIAG_EXTRA_DIM, pos,
                 "'%s' is declared over %s, but the right side also has dim '%s'", name,
                 dims_listed(b, stated), dim_get(b->g->dims, have->at[i])->name);
      return diag_hint(b->d, "reduce over it, or state it on the left side");
    }
  return true;
}

static Value in_stated_type(Build *b, const Ast *target, Value v) {
  Dtype type;
  if (!type_stated(b, target->kids[0], &type)) return value_poison;
  return value_tensor(build_stated(b, target->text, target->pos, v, type));
}

// Binds value v to a left side, converted to its stated type. A constant fills the stated dims.
// Binds poison after an error, such as stated dims that differ from those of v.
static void bind_target(Build *b, const Ast *target, Value v, NameKind kind) {
  Dims stated;
  bool has = target->has_brackets;
  if (has && !dims_stated(b, target, &stated)) v = value_poison;
  if (v.kind != VALUE_POISON && !value_is_tensor(b, &v, target->pos)) v = value_poison;
  if (v.kind != VALUE_POISON && target->nkids) v = in_stated_type(b, target, v);
  if (v.kind != VALUE_POISON && has && value_fills(b, &v)) {
    Dims all = dims_set(b, stated.n, stated.at);
    bool fits = dims_fit(b, &all, target->pos, "a value");
    v = fits ? value_tensor(graph_broadcast(b->g, build_natural(b, v), &all)) : value_poison;
  }
  if (v.kind != VALUE_POISON && has && !build_matches(b, target->text, target->pos, &stated, &v))
    v = value_poison;
  if (name_free(b, target->text, target->pos))
    binding_set(b, target->text, v, target->pos, kind,
                has && v.kind != VALUE_POISON ? &stated : NULL);
}

Value build_outer(Build *b, const Ast *e, bool stated) {
  bool outer = b->outer;
  b->outer = stated;
  Value v = build_whole(b, e);
  b->outer = outer;
  return v;
}

static void build_bind(Build *b, const Ast *s) {
  uint32_t n = s->nkids - 1;
  bool stated = true;
  for (uint32_t i = 0; i < n; i++) stated &= s->kids[i]->has_brackets;
  origin_of(b, s->kids[0]->text, "value", s->pos);
  Value v = build_outer(b, s->kids[n], stated);
  if (n == 1) {
    bind_target(b, s->kids[0], v, NAME_VALUE);
    return;
  }
  if (v.kind != VALUE_POISON && (v.kind != VALUE_TUPLE || v.n != n)) {
    diag_error(b->d, DIAG_BAD_ARGUMENTS, s->kids[n]->pos,
               "the left side has %u names, and the right side gives %u", n,
               v.kind == VALUE_TUPLE ? v.n : 1);
    v = value_poison;
  }
  for (uint32_t i = 0; i < n; i++)
    bind_target(b, s->kids[i], v.kind == VALUE_TUPLE ? v.item[i] : value_poison, NAME_VALUE);
}

static void build_metric(Build *b, const Ast *s) {
  const Ast *target = s->kids[0];
  origin_of(b, target->text, "metric", s->pos);
  bind_target(b, target, build_outer(b, s->kids[1], target->has_brackets), NAME_METRIC);
}

// Builds `output x = ...` or `output x`. The second form makes an existing value an output and
// keeps the stated order of its dims.
static void build_output(Build *b, const Ast *s) {
  const Ast *target = s->kids[0];
  if (s->nkids > 1 && s->kids[1]) {
    origin_of(b, target->text, "output", s->pos);
    bind_target(b, target, build_outer(b, s->kids[1], target->has_brackets), NAME_OUTPUT);
    return;
  }
  Value v = value_of_name(b, target->text, target->pos);
  const Binding *old = binding_find(b, target->text);
  if (target->has_brackets || target->nkids || !old) {
    bind_target(b, target, v, NAME_OUTPUT);
    return;
  }
  Dims order = {.n = old->rank};
  memcpy(order.at, old->dims, sizeof order.at);
  if (v.kind == VALUE_TENSOR || v.kind == VALUE_NUMBER)
    binding_set(b, target->text, v, target->pos, NAME_OUTPUT, old->stated ? &order : NULL);
}

// -- declarations -------------------------------------------------------------------------------

// Returns true if the type of d is allowed. Reports an error if d is a trained parameter whose type
// is not a float.
static bool trainable_type(Build *b, const Ast *type, const Decl *d) {
  if (d->kind != DECL_PARAM || d->frozen || dtype_is_float(d->type)) return true;
  diag_error(b->d, DIAG_BAD_TYPE, type->pos,
             "the type of a trained parameter must be a float, not %s", type->text);
  return diag_hint(b->d, "add: trainable = false; or use input or state");
}

// Sets *out to true if declaration s has the option trainable = false. Returns false after an
// error.
static bool frozen_of(Build *b, const Ast *s, bool *out) {
  *out = false;
  for (uint32_t i = 0; i < s->nargs; i++) {
    bool trainable = true;
    if (!s->args[i].name || strcmp(s->args[i].name, "trainable")) {
      diag_error(b->d, DIAG_UNKNOWN_KEY, s->args[i].pos, "there is no option '%s' of a declaration",
                 s->args[i].name ? s->args[i].name : "?");
      return diag_hint(b->d, "the only option is trainable = false");
    }
    if (!build_bool(b, s->args[i].value, &trainable)) return false;
    *out = !trainable;
  }
  return true;
}

// Returns true if neither the full name `full` nor the short name of declaration s is in use.
// Otherwise reports an error. Inside a loop the short name is not checked: an earlier round may
// have bound it to a declaration with another full name.
static bool declaration_new(Build *b, const Ast *s, const char *full) {
  DeclId old = (DeclId)(uintptr_t)map_get(&b->decls, full);
  const Binding *bound = b->frame->round ? NULL : binding_find(b, s->text);
  if (!old && !bound) return name_free(b, s->text, s->pos);
  diag_error(b->d, DIAG_DUPLICATE_NAME, s->pos, "'%s' is declared twice", full);
  return diag_note(b->d, old ? b->g->decl.at[old - 1].pos : bound->pos, "first here");
}

// Returns the dims of d in declared order.
static Dims order_of(const Decl *d) {
  Dims order = {.n = d->rank};
  memcpy(order.at, d->dims, sizeof order.at);
  return order;
}

// Binds the name that statement s declares to the declaration.
static void bind_decl(Build *b, const Ast *s, DeclId id) {
  Dims order = order_of(&b->g->decl.at[id - 1]);
  Value v = value_tensor(graph_decl_node(b->g, id));
  binding_set(b, s->text, v, s->pos, NAME_DECL, &order);
}

// Returns true if parameter `old` of a shared scope (a call with share = NAME) has the dims that
// declaration s has in this call. Otherwise reports an error and binds the name of s to poison.
static bool shared_fits(Build *b, const Ast *s, DeclId old) {
  const Decl *d = &b->g->decl.at[old - 1];
  Dims order, held = order_of(d);
  bool good = dims_stated(b, s, &order);
  if (good && !dims_equal(&order, &held)) {
    diag_error(b->d, DIAG_SIZE_MISMATCH, s->pos,
               "the shared parameter '%s' is over %s, but this call needs it over %s", d->name,
               dims_listed(b, &held), dims_listed(b, &order));
    diag_hint(b->d, "give this call the dims of the call that declared the parameters");
    good = false;
  }
  if (!good) binding_set(b, s->text, value_poison, s->pos, NAME_DECL, NULL);
  return good;
}

// Reads the dims and the type of a declaration and, unless it is an input, how its first value is
// made. Returns false after an error.
static bool read_decl(Build *b, const Ast *s, Decl *d) {
  Dims order;
  if (!dims_stated(b, s, &order) || !dims_fit(b, &order, s->pos, "a tensor") ||
      !type_stated(b, s->nkids ? s->kids[0] : NULL, &d->type))
    return false;
  d->rank = order.n;
  memcpy(d->dims, order.at, sizeof d->dims);
  return d->kind == DECL_INPUT ||
         (frozen_of(b, s, &d->frozen) && trainable_type(b, s->kids[0], d) &&
          init_build(b, s, d, &d->init));
}

// Declares an input, a parameter or a state and binds its name. In a shared scope (a call with
// share = NAME) it binds the declaration of the earlier call instead.
static void declare(Build *b, const Ast *s, DeclKind kind) {
  const char *full = name_join(b, b->frame->scope->path, s->text);
  DeclId old = (DeclId)(uintptr_t)map_get(&b->decls, full);
  if (old && b->frame->scope->shared) {
    if (!shared_fits(b, s, old)) return;
    bind_decl(b, s, old);
    return;
  }
  Decl d = {.kind = kind, .name = full, .pos = s->pos};
  bool fresh = declaration_new(b, s, full);
  if (!fresh || !read_decl(b, s, &d)) {
    if (fresh || !binding_find(b, s->text))
      binding_set(b, s->text, value_poison, s->pos, NAME_DECL, NULL);
    return;
  }
  origin_of(b, s->text,
            kind == DECL_INPUT   ? "input"
            : kind == DECL_PARAM ? "parameter"
                                 : "state",
            s->pos);
  DeclId id = graph_decl(b->g, &d);
  map_put(b->a, &b->decls, full, (void *)(uintptr_t)id);
  if (kind == DECL_PARAM && !s->kids[1]) vec_push(b->a, b->zero) = (Zero){id, s};
  bind_decl(b, s, id);
}

static void build_input(Build *b, const Ast *s) { declare(b, s, DECL_INPUT); }
static void build_param(Build *b, const Ast *s) { declare(b, s, DECL_PARAM); }
static void build_state(Build *b, const Ast *s) { declare(b, s, DECL_STATE); }

// -- updates ------------------------------------------------------------------------------------

// Returns the state that update s names, by a bound name or by a full name; 0 after an error.
static DeclId state_of(Build *b, const Ast *s) {
  const Binding *bound = binding_find(b, s->text);
  if (bound && bound->value.kind == VALUE_TENSOR) {
    const Node *n = graph_node(b->g, bound->value.node);
    if (n->op == OP_STATE) return n->attr->decl;
  }
  DeclId d = (DeclId)(uintptr_t)map_get(&b->decls, name_join(b, b->frame->scope->path, s->text));
  if (!d && !b->frame->fn) d = (DeclId)(uintptr_t)map_get(&b->decls, s->text);
  if (d && b->g->decl.at[d - 1].kind == DECL_STATE) return d;
  if (bound && bound->value.kind == VALUE_POISON) return 0;
  diag_error(b->d, DIAG_UNKNOWN_NAME, s->pos, "there is no state '%s' to update", s->text);
  diag_hint(b->d, "declare it: state %s = 0", s->text);
  return 0;
}

// Returns v, the new value of state d, as a node with the type and the dims of d. A number is
// broadcast. Returns 0 after an error.
static NodeId as_state(Build *b, const Ast *s, const Decl *d, Value v) {
  Dims stated = order_of(d), all = dims_set(b, d->rank, d->dims);
  if (!value_fills(b, &v) && !build_matches(b, s->text, s->pos, &stated, &v)) return 0;
  if (type_takes(b, &v, d->type)) return graph_broadcast(b->g, build_node(b, v, d->type), &all);
  return build_stated(b, d->name, s->pos, v, d->type); // reports the error
}

static void build_update(Build *b, const Ast *s) {
  DeclId id = state_of(b, s);
  origin_of(b, s->text, "update", s->pos);
  Value v = build_outer(b, s->kids[0], s->has_brackets);
  Dims stated;
  if (!id || !value_is_tensor(b, &v, s->pos)) return;
  const Decl *d = &b->g->decl.at[id - 1];
  if (s->has_brackets && (!dims_stated(b, s, &stated) ||
                          (!value_fills(b, &v) && !build_matches(b, s->text, s->pos, &stated, &v))))
    return;
  const Binding *old = map_get(&b->updated, d->name);
  if (old) {
    diag_error(b->d, DIAG_DUPLICATE_NAME, s->pos, "state '%s' is updated twice", d->name);
    diag_note(b->d, old->pos, "first here");
    diag_hint(b->d, "combine both into one update");
    return;
  }
  Output o = {.kind = OUT_UPDATE, .name = d->name, .target = id, .value = as_state(b, s, d, v)};
  if (!o.value) return;
  binding_put(b, &b->updated, d->name, v, s->pos);
  vec_push(b->g->arena, b->g->output) = o;
}

// -- blocks of statements -----------------------------------------------------------------------

bool build_unroll(Build *b, int64_t times, Pos pos) {
  enum { MAX_UNROLLED = 250000 };
  b->unrolled += (uint32_t)clamp64(times, 0, MAX_UNROLLED + 1);
  if (b->unrolled <= MAX_UNROLLED) return true;
  diag_error(b->d, DIAG_TOO_DEEP, pos,
             "the model unrolls to more than %d calls, rounds of loops, repeats and micro-batches",
             MAX_UNROLLED);
  return diag_hint(b->d, "loops inside loops and calls inside calls multiply");
}

static void build_return(Build *b, const Ast *s) {
  Frame *f = b->frame;
  Value *item = arena_array(b->a, Value, s->nkids);
  for (uint32_t i = 0; i < s->nkids; i++) {
    item[i] = build_whole(b, s->kids[i]);
    bool good = s->nkids == 1 ? true : value_is_tensor(b, &item[i], s->kids[i]->pos);
    if (!good) item[i] = value_poison;
  }
  f->returned = true;
  f->result = s->nkids == 1 ? item[0] : (Value){.kind = VALUE_TUPLE, .n = s->nkids, .item = item};
}

static void build_local_dims(Build *b, const Ast *s) {
  if (b->frame->fn) dims_declare_local(b, s); // dims of the file are declared already
}

static void build_nothing(Build *b, const Ast *s) { (void)b, (void)s; }

typedef struct Statement {
  void (*build)(Build *b, const Ast *s);
  bool in_function, in_loop;
} Statement;
static const Statement statements[AST_COUNT] = {
    [AST_DIM] = {build_local_dims, true, false}, [AST_CONST] = {build_nothing, false, false},
    [AST_INPUT] = {build_input, false, false},   [AST_PARAM] = {build_param, true, true},
    [AST_STATE] = {build_state, true, true},     [AST_UPDATE] = {build_update, true, true},
    [AST_BIND] = {build_bind, true, true},       [AST_METRIC] = {build_metric, false, false},
    [AST_OUTPUT] = {build_output, false, false}, [AST_FN] = {build_nothing, false, false},
    [AST_FOR] = {build_for, true, true},         [AST_SCAN] = {build_scan, true, true},
    [AST_IF] = {build_if, true, true},           [AST_YIELD] = {build_yield, true, true},
    [AST_RETURN] = {build_return, true, false},  [AST_IMPORT] = {build_nothing, false, false},
    [AST_DATA] = {build_nothing, false, false},  [AST_TRAIN] = {build_nothing, false, false},
    [AST_MESH] = {build_nothing, false, false},  [AST_LAYOUT] = {build_nothing, false, false},
};

// Returns the error message if statement s is not allowed in the current frame or loop; NULL if it
// is allowed.
static const char *misplaced(const Build *b, const Ast *s, const Statement *row) {
  bool initial = b->g != b->model->graph;
  if (!row->build) return "this is not a statement";
  if (b->frame->returned) return "a statement after return is never reached";
  if (s->kind == AST_RETURN && !b->frame->fn) return "return is only allowed in a function";
  if (b->frame->fn && !row->in_function)
    return "this statement is only allowed at the top level of a file, not in a function";
  bool of_file = row->build == build_nothing || (s->kind == AST_DIM && !b->frame->fn);
  if (b->frame->ifs && of_file)
    return "this statement is only allowed at the top level of a file, not in an if";
  if (b->frame->round && !row->in_loop) return "this statement is not allowed in a loop";
  if (b->loop && s->kind == AST_UPDATE)
    return "a state is updated once a step, not in each step of a scan";
  if (initial && (s->kind == AST_PARAM || s->kind == AST_STATE || s->kind == AST_UPDATE))
    return "an initial value cannot declare anything";
  return NULL;
}

enum { MAX_OPERATIONS = 250000 };

static void build_statement(Build *b, const Ast *s) {
  const Statement *row = &statements[s->kind];
  const char *why = misplaced(b, s, row);
  if (graph_count(b->g) > MAX_OPERATIONS) {
    if (!b->full)
      diag_error(b->d, DIAG_TOO_DEEP, s->pos, "the model has more than %d operations",
                 MAX_OPERATIONS);
    if (!b->full)
      diag_hint(
          b->d,
          "calls and rounds of for loops are unrolled; a scan is one loop, however often it runs");
    b->full = true;
    return;
  }
  if (!why) {
    // A statement in the body of a function changes the origin. It is restored after the statement,
    // so that later nodes of the caller keep the origin of the value that the caller binds.
    Origin before = b->g->origin;
    uint32_t outers = b->outers.n;
    row->build(b, s);
    (void)outers_end(b, outers);
    b->g->origin = before;
    return;
  }
  diag_error(b->d, DIAG_MISPLACED, s->pos, "%s", why);
  bool declares = s->kind == AST_INPUT || s->kind == AST_PARAM || s->kind == AST_STATE;
  if (declares && !binding_find(b, s->text))
    binding_set(b, s->text, value_poison, s->pos, NAME_DECL, NULL);
}

void build_block(Build *b, const Ast *block) {
  for (uint32_t i = 0; i < block->nkids; i++) {
    bool done = i && block->kids[i - 1]->kind == AST_IF && b->frame->returned;
    if (done) return; // the branch of an `if` returned
    build_statement(b, block->kids[i]);
  }
}

// -- the file -----------------------------------------------------------------------------------

static void declare_functions(Build *b, const Ast *file) {
  for (uint32_t i = 0; i < file->nkids; i++) {
    const Ast *s = file->kids[i];
    if (s->kind != AST_FN) continue;
    const Function *old = map_get(&b->functions, s->text);
    if (old || builtin_find(s->text)) {
      diag_error(b->d, DIAG_DUPLICATE_NAME, s->pos, "%s '%s'",
                 old ? "there is already a function" : "there is a built-in function", s->text);
      if (old) diag_note(b->d, old->ast->pos, "declared here");
      continue;
    }
    Function *f = arena_new_of(b->a, Function);
    *f = (Function){.name = s->text, .ast = s};
    map_put(b->a, &b->functions, s->text, f);
  }
}

// Reports every --set whose path nothing in the model has used.
static void check_settings(Build *b) {
  VEC(const char *) near = {0};
  const NameMap *maps[] = {&b->file->dims, &b->consts};
  for (size_t m = 0; m < countof(maps); m++)
    for (uint32_t i = 0; i < maps[m]->cap; i++)
      if (maps[m]->value[i]) vec_push(b->a, near) = maps[m]->key[i];
  for (uint32_t i = 0; i < b->opt->nsettings; i++) {
    const Setting *s = &b->opt->setting[i];
    if (s->used) continue;
    diag_error(b->d, DIAG_UNKNOWN_SET, s->pos,
               "--set %s: the model has no such dim, const, or key of a block", s->path);
    if (s->near)
      diag_hint(b->d, "did you mean %s?", s->near);
    else if (!habit_hint(b->d, b->a, HABIT_SETTING, s->path, &(HabitNames){0}))
      diag_nearest(b->d, s->path, near.at, near.n);
  }
}

// Builds the model once. A weak carry starts from a number and has no type of its own; it gets the
// type in `carries` that the previous call found. Sets carries->changed if the body of a scan needs
// another type. Returns NULL after errors.
static Model *build_pass(Arena *a, Intern *names, Diag *d, const Ast *file, const ModelOptions *opt,
                         CarryTypes *carries) {
  Model *m = arena_new_of(a, Model);
  *m = (Model){.arena = a, .names = names, .diag = d};
  if (opt->shorten) m->parts = opt->shorten->parts;
  m->graph = graph_new(a, dim_table_new(a, names), &m->mesh, STAGE_GRAPH);
  m->graph->model = opt->path;
  m->graph->spec.seed = opt->seed;
  Scope scope = {.path = ""};
  Frame frame = {.base = &scope, .scope = &scope};
  Build b = {.a = a,
             .names = names,
             .d = d,
             .opt = opt,
             .model = m,
             .g = m->graph,
             .frame = &frame,
             .file = &frame,
             .text = file,
             .real = default_float(file),
             .carries = carries};
  declare_functions(&b, file);
  functions_scan(&b);
  functions_check(&b, file);
  settings_index(&b);
  dims_declare_file(&b, file);
  precision_read(&b, file);
  mesh_build(&b, file);
  int before = diag_errors(d);
  build_block(&b, file);
  b.incomplete = diag_errors(d) > before;
  data_build(&b, file);
  train_build(&b, file);
  layout_build(&b, file);
  b.model->graph->layout = b.model->layout;
  check_settings(&b);
  square_sums_check(&b);
  warnings_of_model(&b);
  m->graph->origin = (Origin){0};
  if (diag_errors(d)) return NULL;
  precision_apply(m);
  return m;
}

// Builds the model until the types of its weak carries no longer change. A carry that starts from a
// number is weak: it takes its type from the body of its scan. The type is known only after the
// body is built; then the whole model is built again. Types only become wider, so few passes are
// needed.
static Model *build_one(Arena *a, Intern *names, Diag *d, const Ast *file,
                        const ModelOptions *opt) {
  enum { MAX_PASSES = 32 };
  CarryTypes carries = {0};
  DiagMark mark = diag_mark(d);
  for (int i = 0;; i++) {
    carries.changed = (Pos){0};
    Model *m = build_pass(a, names, d, file, opt, &carries);
    if (!carries.changed.line) return m;
    if (i == MAX_PASSES) break;
    diag_rewind(d, mark);
  }
  diag_error(d, DIAG_BAD_TYPE, carries.changed,
             "the type of this carry depends on too many others");
  diag_hint(d, "state it: NAME: TYPE = START");
  return NULL;
}

// Builds m->part if the model trains with `accumulate` > 1 or with `sync`: the same model with the
// batch dim of one micro-batch or replica. With asynchronous updates it is on the mesh of a
// replica. Returns false after errors.
static bool build_part(Model *m, const Ast *file, const ModelOptions *opt) {
  const ModelSpec *spec = &m->graph->spec;
  ModelOptions part = *opt;
  // rows_dim asks for the model of an evaluation, which has no micro-batches
  if (!spec->ntrain || opt->rows_dim) return true;
  const TrainSpec *t = &spec->train[0];
  part.apart = t->ahead > 0;
  part.replicas = t->sync > 0 || part.apart;
  part.micro = part.replicas ? t->replicas : t->accumulate;
  if (part.micro <= 1) return true;
  part.micro_dim = dim_get(m->graph->dims, spec->data[DATA_TRAIN].over)->name;
  Model *made = build_one(m->arena, m->names, m->diag, file, &part);
  if (made && part.apart) sync_mesh(made);
  m->part = made;
  return made != NULL;
}

Model *model_build(Arena *a, Intern *names, Diag *d, const Ast *file, const ModelOptions *opt) {
  file = imports_resolve(a, names, d, file, opt->path);
  Model *m = file ? build_one(a, names, d, file, opt) : NULL;
  return m && build_part(m, file, opt) ? m : NULL;
}

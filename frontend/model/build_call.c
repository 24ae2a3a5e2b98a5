// Builds calls: of built-in functions, by their row of builtin.def, and of functions of the model.
//
// Input: an AST_CALL and the current frame. Output: the value of the call. A function is expanded
// at each call: its body is built in a new frame, where its dim formals name the caller's dims.
//
//   fn dense[in, out](x) { param kernel[in, out]  return sum[in](x * kernel) }
//   y = dense[d, h](x)      in the body `in` is d and `out` is h; declares dense.kernel[d, h]
//   z = dense[h, h](y)      both formals are given h, so `out` becomes a new dim "dense_1.out" of
//                           the same size; in the result it is renamed back to h
#include <math.h>
#include <string.h>

#include "frontend/model/formal_internal.h"

// -- binding arguments to formals ---------------------------------------------------------------

static uint32_t formals_count(const Formal *f) {
  uint32_t n = 0;
  while (f[n].name) n++;
  return n;
}

static int formal_index(const Formal *f, const char *name) {
  for (int i = 0; f[i].name; i++)
    if (!strcmp(f[i].name, name)) return i;
  return -1;
}

// Returns true if `arg` comes from --set and `call` from the model file. Such an argument replaces
// the argument of that name in the file.
static bool by_option(const Ast *call, const AstArg *arg) {
  return arg->pos.source != call->pos.source;
}

// Makes the nearest one of n names the hint, or all of them if none is similar.
static void nearest_of_all(Build *b, const char *name, const char *const *names, size_t n) {
  if (!diag_kept(b->d) || !n) return;
  diag_one_of(b->d, names, n);
  diag_nearest(b->d, name, names, n);
}

static bool unknown_argument(Build *b, const Ast *call, const Formal *f, const AstArg *arg) {
  const char *near[MAX_FORMALS];
  size_t n = 0;
  for (; f[n].name; n++) near[n] = f[n].name;
  DiagId id = by_option(call, arg) ? DIAG_UNKNOWN_SET : DIAG_BAD_ARGUMENTS;
  diag_error(b->d, id, arg->pos, "%s takes no argument '%s'", call->text, arg->name);
  HabitNames names = habit_names(b, call);
  const char *own = arena_printf(b->a, "%s.%s", call->text, arg->name),
             *any = arena_printf(b->a, "*.%s", arg->name);
  if (!habit_hint(b->d, b->a, HABIT_ARGUMENT, own, &names) &&
      !habit_hint(b->d, b->a, HABIT_ARGUMENT, any, &names))
    nearest_of_all(b, arg->name, near, n);
  return false;
}

// Reports that the call has more arguments than formals; `arg` is the first one too many.
static bool too_many(Build *b, const Ast *call, uint32_t n, const AstArg *arg) {
  HabitNames names = habit_names(b, call);
  diag_error(b->d, DIAG_BAD_ARGUMENTS, arg->pos,
             n ? "%s takes at most %u argument%s" : "%s takes no arguments", call->text, n,
             plural(n));
  habit_hint(b->d, b->a, HABIT_EXTRA, call->text, &names);
  return false;
}

// Reports that formal `at` gets two arguments: one by name, one by position or by name again.
static bool given_twice(Build *b, const Ast *call, const Formal *formal, int at,
                        const Ast *const *given, const AstArg *arg) {
  diag_error(b->d, DIAG_BAD_ARGUMENTS, arg->pos, "argument '%s' of %s is given twice",
             formal[at].name, call->text);
  for (int i = 0; formal[i].name && !arg->name; i++)
    if (!given[i]) {
      diag_hint(b->d, "an argument without a name takes the place of '%s': name it, %s = ...",
                formal[at].name, formal[i].name);
      break;
    }
  return false;
}

bool call_bind(Build *b, const Ast *call, const Formal *formal, const Ast **out) {
  uint32_t n = formals_count(formal), next = 0;
  bool good = true;
  memset(out, 0, n * sizeof *out);
  for (uint32_t i = 0; i < call->nargs; i++) {
    const AstArg *arg = &call->args[i];
    int at = arg->name ? formal_index(formal, arg->name) : next < n ? (int)next++ : -1;
    if (arg->key || arg->arrow) {
      diag_error(b->d, DIAG_BAD_ARGUMENTS, arg->pos, "%s takes plain arguments only", call->text);
      good = false;
    } else if (at < 0 && arg->name) {
      good = unknown_argument(b, call, formal, arg);
    } else if (at < 0) {
      good = too_many(b, call, n, arg);
    } else if (out[at] && !by_option(call, arg)) {
      good = given_twice(b, call, formal, at, out, arg);
    } else {
      out[at] = arg->value;
    }
  }
  for (uint32_t i = 0; good && i < n; i++) {
    if (!formal[i].required || out[i]) continue;
    diag_error(b->d, DIAG_BAD_ARGUMENTS, call->pos, "%s needs the argument '%s'", call->text,
               formal[i].name);
    if (!call->nargs) diag_hint(b->d, "write %s(%s = ...)", call->text, formal[i].name);
    good = false;
  }
  return good;
}

bool call_numbers(Build *b, const Ast *call, const Formal *formal, double *out) {
  const Ast *arg[MAX_FORMALS];
  bool good = call_bind(b, call, formal, arg);
  for (int i = 0; good && formal[i].name; i++) {
    out[i] = formal[i].value;
    if (!arg[i] || formal[i].raw) continue;
    good = build_number(b, arg[i], &out[i]) &&
           range_ok(b, arg[i]->pos, call->text, formal[i].name, out[i]);
  }
  return good;
}

const Form *form_of(const Ast *e, size_t n, const Form *form) {
  bool named = (e->kind == AST_CALL || e->kind == AST_NAME) && !e->has_brackets;
  for (size_t i = 0; i < n && named; i++)
    if (!strcmp(form[i].name, e->text)) return &form[i];
  return NULL;
}

void form_unknown(Build *b, const Ast *e, size_t n, const Form *form, DiagId id, const char *noun) {
  const char **names = arena_array(b->a, const char *, n), *list = "";
  bool named = e->kind == AST_CALL || e->kind == AST_NAME, known = false;
  for (size_t i = 0; i < n; i++) {
    names[i] = form[i].name;
    list = arena_printf(b->a, "%s%s%s", list, i ? ", " : "", names[i]);
    known |= named && !strcmp(names[i], e->text);
  }
  if (known)
    diag_error(b->d, id, e->pos, "expected %s, and %s takes no dims in brackets", noun, e->text);
  else if (named)
    diag_error(b->d, id, e->pos, "%s is not %s", e->text, noun);
  else
    diag_error(b->d, id, e->pos, "expected %s", noun);
  const char *near = named && !known ? text_nearest(e->text, names, n) : NULL;
  if (near)
    diag_hint(b->d, "did you mean %s? it is one of: %s", near, list);
  else
    diag_hint(b->d, "it is one of: %s", list);
}

// -- built-ins ----------------------------------------------------------------------------------

// Returns how a call of the row is written. Without a form in builtin.def it has the dim d in
// brackets, the first argument x and the names of the other arguments that are required.
static const char *form_text(Build *b, const Builtin *row, const char *d, const char *x) {
  const char *text = builtin_form(row->name);
  if (text) return text;
  text = row->bracket == BRACKET_NONE ? row->name : arena_printf(b->a, "%s[%s]", row->name, d);
  if (!row->formal[0].name) return text;
  text = arena_printf(b->a, "%s(%s", text, x);
  for (const Formal *f = row->formal + 1; f->name; f++)
    if (f->required) text = arena_printf(b->a, "%s, %s", text, f->name);
  return arena_printf(b->a, "%s)", text);
}

static bool bracket_count_ok(Build *b, const Builtin *row, const Ast *call) {
  static const char *const wants[] = {
      [BRACKET_NONE] = "no dims in brackets", [BRACKET_REDUCE] = "dims in brackets",
      [BRACKET_ONE] = "one dim in brackets",  [BRACKET_SOME] = "dims in brackets",
      [BRACKET_MAP] = "[from -> to]",         [BRACKET_ANY] = "",
  };
  bool arrows = false;
  for (uint32_t i = 0; i < call->ndims; i++) arrows |= call->dims[i].arrow;
  bool good = true;
  switch (row->bracket) {
  case BRACKET_NONE: good = !call->has_brackets; break;
  case BRACKET_REDUCE: good = !arrows; break;
  case BRACKET_ONE: good = call->ndims == 1 && !arrows && !call->all_but; break;
  case BRACKET_SOME: good = call->ndims > 0 && !arrows && !call->all_but; break;
  case BRACKET_MAP: good = arrows && !call->all_but && !call->dims[0].arrow; break;
  case BRACKET_ANY: break;
  }
  if (good) return true;
  HabitNames names = habit_names(b, call);
  // a dim for which the second operand has ids: cross_entropy[classes](x, labels)
  const char *d = row->bracket == BRACKET_ONE ? dim_apart(b, &names) : names.d;
  const char *form = form_text(b, row, d ? d : "d", names.x ? names.x : "x");
  bool own = row->bracket != BRACKET_NONE && builtin_form(row->name);
  diag_error(b->d, DIAG_BAD_ARGUMENTS, call->pos, own ? "%s is written %s" : "%s takes %s",
             row->name, own ? form : wants[row->bracket]);
  if (!own) diag_hint(b->d, "write %s", form);
  return false;
}

static bool resolve_brackets(Build *b, Call *c) {
  bool good = true;
  if (c->ast->ndims > MAX_RANK)
    return diag_error(b->d, DIAG_BAD_ARGUMENTS, c->pos, "a call takes at most %d dims in brackets",
                      MAX_RANK);
  for (uint32_t i = 0; i < c->ast->ndims; i++) {
    const AstDim *item = &c->ast->dims[i];
    c->dim[i] = dim_lookup(b, item->name, item->pos);
    c->arrow[i] = item->arrow;
    good &= c->dim[i] != 0;
  }
  c->ndims = c->ast->ndims;
  return good;
}

// Evaluates the arguments of the call into c->arg, with defaults for missing ones. Returns false
// after an error. The argument of a reduction may be an outer product, because a sum of a product
// becomes one contraction.
static bool eval_arguments(Build *b, Call *c) {
  bool outer = b->outer, good = true;
  uint32_t from[MAX_FORMALS + 1], n = 0;
  if (c->row->bracket == BRACKET_REDUCE) b->outer = true;
  for (int i = 0; c->row->formal[i].name; i++) {
    const Formal *f = &c->row->formal[i];
    from[n++] = b->outers.n;
    c->arg[i] = value_number(f->value, f->value == floor(f->value));
    if (f->raw || !c->raw[i]) continue;
    c->arg[i] = build_expr(b, c->raw[i]);
    good &= value_is_tensor(b, &c->arg[i], c->raw[i]->pos);
    if (c->arg[i].kind == VALUE_NUMBER)
      good &= range_ok(b, c->raw[i]->pos, c->row->name, f->name, c->arg[i].number);
  }
  from[n] = b->outers.n;
  if (good && n) outers_settle(b, (int)n, from, c->arg);
  b->outer = outer;
  return good;
}

// Returns result v of a built-in as the body of the enclosing scans reads it. If v has the dim of
// such a scan, that is its slice at the current step (loop_view).
static Value results_seen(Build *b, Value v, Pos pos) {
  if (!b->loop) return v;
  for (uint32_t i = 0; v.kind == VALUE_TUPLE && i < v.n; i++)
    v.item[i] = loop_view(b, v.item[i], pos);
  return loop_view(b, v, pos);
}

static Value call_builtin(Build *b, const Builtin *row, const Ast *ast) {
  Call c = {.ast = ast, .row = row, .pos = ast->pos};
  if (!bracket_count_ok(b, row, ast)) return value_poison;
  if (!ast->has_parens && row->formal[0].name) {
    diag_error(b->d, DIAG_BAD_ARGUMENTS, ast->pos, "%s needs arguments in parentheses", ast->text);
    return value_poison;
  }
  uint32_t mark = b->outers.n;
  bool good = resolve_brackets(b, &c);
  // these rules take any number of arguments and read them from the Ast
  bool counts = row->rule == builtin_values || row->rule == builtin_concat ||
                row->rule == builtin_stack || row->rule == builtin_layout_pin;
  if (!counts) good &= call_bind(b, ast, row->formal, c.raw);
  if (!good || !eval_arguments(b, &c)) return value_poison;
  b->g->origin.pos = c.pos;
  Value v = row->rule(b, &c);
  // The result of an elementwise function, which has no brackets, has the dims of its operands, so
  // the operation around the call decides about outer products in them.
  if (row->bracket != BRACKET_NONE && !outers_end(b, mark)) return value_poison;
  return results_seen(b, v, c.pos);
}

// -- functions of the model ---------------------------------------------------------------------

// Returns the argument of call `e`, or the formal of function `e`, with that name; NULL if there is
// none. Names are interned.
static const AstArg *arg_named(const Ast *e, const char *name) {
  for (uint32_t i = 0; i < e->nargs; i++)
    if (e->args[i].name == name) return &e->args[i];
  return NULL;
}

// Returns the argument of a call that is the option called `name` ("name" or "share"), or NULL.
// Returns NULL also if f has a formal of that name, because the argument then belongs to it.
static const AstArg *option(Build *b, const Function *f, const Ast *call, const char *name) {
  name = intern(b->names, name);
  return arg_named(f->ast, name) ? NULL : arg_named(call, name);
}

// Returns the scope `name` below the current scope or, failing that, below the nearest enclosing
// scope that has one; NULL if there is none.
static const Scope *scope_around(Build *b, const char *name) {
  const char *path = b->frame->scope->path;
  for (;;) {
    const Scope *found = map_get(&b->scopes, name_join(b, path, name));
    if (found || !*path) return found;
    const char *dot = strrchr(path, '.');
    path = dot ? intern_n(b->names, path, (size_t)(dot - path)) : "";
  }
}

// Returns a new Scope with the path of the scope that `share` names, so that the call uses the
// parameters of that earlier call of f. Returns NULL after an error.
static Scope *scope_share(Build *b, const Function *f, const AstArg *share) {
  const char *name;
  if (!build_string(b, share->value, &name)) return NULL;
  const Scope *first = scope_around(b, name);
  if (!first || first->fn != f) {
    diag_error(b->d, DIAG_UNKNOWN_NAME, share->pos, "no earlier call of %s opened a scope '%s'",
               f->name, name);
    return NULL;
  }
  Scope *again = arena_new_of(b->a, Scope);
  *again = (Scope){.path = first->path, .fn = f, .shared = true};
  return again;
}

// Returns the scope for the body of a call of f: a shared one, a new one, or the caller's if the
// call declares nothing (`scoped` is false) and has no name. Returns NULL after an error.
static Scope *scope_of_call(Build *b, const Function *f, const Ast *call, bool scoped) {
  const AstArg *name = option(b, f, call, "name"), *share = option(b, f, call, "share");
  const char *base = f->name;
  if (share) return scope_share(b, f, share);
  if (name && !build_string(b, name->value, &base)) return NULL;
  if (!name && !scoped && !f->has_dims) return b->frame->scope;
  return scope_open(b, intern(b->names, base), name != NULL, f, name ? name->pos : call->pos);
}

// Returns the dim that `formal` names inside f when an earlier formal was given the same dim
// `first`. A tensor cannot have one dim twice, so the result is a *follower* of `first`: a new dim
// of equal size that is marked as following `first`. If a follower of that name exists, it is
// returned instead.
static DimId dim_of_formal(Build *b, const Function *f, const Scope *scope, const char *formal,
                           DimId first, Pos pos) {
  const char *base =
      scope == b->frame->scope ? intern_printf(b->names, "%s.%s", f->name, formal) : formal;
  const char *full = name_join(b, scope->path, base);
  for (uint32_t i = 1;; i++) {
    DimId d = dim_find(b->g->dims, full);
    if (d && dim_get(b->g->dims, d)->follows == first) return d;
    if (!d) {
      d = dim_add(b->g->dims, full, dim_get(b->g->dims, first)->size, pos);
      dim_set_follows(b->g->dims, d, first);
      return d;
    }
    full = intern_printf(b->names, "%s_%u", name_join(b, scope->path, base), i);
  }
}

// The dims to rename in the result of a call: from[i] is a follower (dim_of_formal), to[i] the dim
// that the call gave.
typedef struct Renames {
  int n;
  DimId from[MAX_RANK], to[MAX_RANK];
  // for error messages: the name of the formal that got the follower, and the name of the earlier
  // formal that was given to[i]
  const char *formal[MAX_RANK], *first[MAX_RANK];
} Renames;

// Binds the dim formals of f in `frame` to the dims in the brackets of the call, and lists in
// `back` the followers that it makes. Returns false after an error.
static bool bind_dims(Build *b, const Function *f, const Ast *call, Frame *frame, Renames *back) {
  const Ast *fn = f->ast;
  DimId given[MAX_RANK];
  if (call->ndims != fn->ndims || call->all_but || fn->ndims > MAX_RANK) {
    diag_error(b->d, DIAG_BAD_ARGUMENTS, call->pos, "%s takes %u dim%s in brackets, not %u",
               f->name, fn->ndims, plural(fn->ndims), call->ndims);
    return diag_note(b->d, fn->pos, "declared here");
  }
  bool good = true;
  for (uint32_t i = 0; i < fn->ndims; i++) {
    given[i] = dim_lookup(b, call->dims[i].name, call->dims[i].pos);
    if (!given[i]) {
      good = false;
      continue;
    }
    DimId inside = given[i];
    uint32_t first = 0;
    while (first < i && given[first] != given[i]) first++;
    if (first < i) {
      back->formal[back->n] = fn->dims[i].name;
      back->first[back->n] = fn->dims[first].name;
      inside = dim_of_formal(b, f, frame->scope, fn->dims[i].name, given[i], fn->dims[i].pos);
      back->from[back->n] = inside;
      back->to[back->n++] = given[i];
    }
    map_put(b->a, &frame->dims, fn->dims[i].name, (void *)(uintptr_t)inside);
  }
  return good;
}

// Returns the expression that the call gives for formal number `formal`, by name or by position;
// NULL if there is none.
static const Ast *argument_for(const Function *f, const Ast *call, uint32_t formal) {
  const char *name = f->ast->args[formal].name;
  uint32_t position = 0;
  for (uint32_t i = 0; i < call->nargs; i++) {
    if (call->args[i].name ? !strcmp(call->args[i].name, name) : position++ == formal)
      return call->args[i].value;
  }
  return NULL;
}

// Returns the name of the first formal at or after `from` that no argument names; NULL if there is
// none.
static const char *formal_free(const Function *f, const Ast *call, uint32_t from) {
  while (from < f->ast->nargs && arg_named(call, f->ast->args[from].name)) from++;
  return from < f->ast->nargs ? f->ast->args[from].name : NULL;
}

// Reports an error and returns false if a formal gets two arguments. Examples for fn f(a, c):
// f(a = x, a = y), and f(a = x, 3), where 3 has the position of a.
static bool arguments_once(Build *b, const Function *f, const Ast *call) {
  uint32_t position = 0;
  for (uint32_t i = 0; i < call->nargs; i++) {
    const AstArg *arg = &call->args[i], *first;
    uint32_t at = position;
    const char *formal = arg->name;
    if (!formal && position++ >= f->ast->nargs) continue;
    if (!formal) formal = f->ast->args[at].name;
    first = arg_named(call, formal);
    if (!first || first == arg) continue;
    diag_error(b->d, DIAG_BAD_ARGUMENTS, arg->pos, "argument '%s' of %s is given twice", formal,
               f->name);
    diag_note(b->d, first->pos, arg->name ? "first here" : "by name here");
    const char *other = arg->name ? NULL : formal_free(f, call, at + 1);
    if (other)
      diag_hint(b->d, "an argument without a name takes the place of '%s': name it, %s = ...",
                formal, other);
    return false;
  }
  return true;
}

static void formal_nearest(Build *b, const Function *f, const char *name) {
  VEC(const char *) near = {0};
  for (uint32_t i = 0; i < f->ast->nargs; i++) vec_push(b->a, near) = f->ast->args[i].name;
  if (!near.n) return;
  diag_one_of(b->d, near.at, near.n);
  diag_nearest(b->d, name, near.at, near.n);
}

static bool arguments_ok(Build *b, const Function *f, const Ast *call) {
  uint32_t positional = 0;
  for (uint32_t i = 0; i < call->nargs; i++) {
    const AstArg *arg = &call->args[i];
    positional += !arg->name;
    bool known = !arg->name || arg_named(f->ast, arg->name) || !strcmp(arg->name, "name") ||
                 !strcmp(arg->name, "share");
    if (!known) {
      diag_error(b->d, DIAG_BAD_ARGUMENTS, arg->pos, "%s takes no argument '%s'", f->name,
                 arg->name);
      diag_note(b->d, f->ast->pos, "declared here");
      formal_nearest(b, f, arg->name);
      return false;
    }
    if (arg->key || arg->arrow || positional > f->ast->nargs) {
      if (arg->key || arg->arrow)
        diag_error(b->d, DIAG_BAD_ARGUMENTS, arg->pos, "%s takes plain arguments only", f->name);
      else
        diag_error(b->d, DIAG_BAD_ARGUMENTS, arg->pos,
                   f->ast->nargs ? "%s takes at most %u argument%s" : "%s takes no arguments",
                   f->name, f->ast->nargs, plural(f->ast->nargs));
      return diag_note(b->d, f->ast->pos, "declared here");
    }
  }
  return arguments_once(b, f, call);
}

// Returns true if e is the name of a function and of nothing else.
static bool is_function_name(const Build *b, const Ast *e) {
  return e->kind == AST_NAME && !binding_find(b, e->text) && !map_get(&b->consts, e->text) &&
         (map_get(&b->functions, e->text) || builtin_find(e->text));
}

Value build_argument(Build *b, const Ast *e) {
  bool truth;
  if (is_function_name(b, e)) return (Value){.kind = VALUE_FUNCTION, .text = e->text};
  Value v = build_whole(b, e);
  if (value_is_truth(b, &v, &truth)) return (Value){.kind = VALUE_TRUTH, .number = truth};
  return v;
}

// Returns true if a function that the frame was given declares a parameter or a state.
static bool given_scoped(const Build *b, const Function *f, const Frame *frame) {
  for (uint32_t i = 0; i < f->ast->nargs; i++) {
    const Binding *arg = map_get(&frame->values, f->ast->args[i].name);
    if (!arg || arg->value.kind != VALUE_FUNCTION) continue;
    const Function *given = map_get(&b->functions, arg->value.text);
    if (given ? given->scoped : !strcmp(arg->value.text, "batch_norm")) return true;
  }
  return false;
}

// Evaluates the arguments in the caller's frame and binds them in `frame`. Defaults are evaluated
// later, in the frame of the function (bind_defaults). Returns false after an error.
static bool bind_arguments(Build *b, const Function *f, const Ast *call, Frame *frame) {
  bool good = arguments_ok(b, f, call);
  for (uint32_t i = 0; good && i < f->ast->nargs; i++) {
    const AstArg *formal = &f->ast->args[i];
    const Ast *given = argument_for(f, call, i);
    if (!given && !formal->value) {
      diag_error(b->d, DIAG_BAD_ARGUMENTS, call->pos, "%s needs the argument '%s'", f->name,
                 formal->name);
      return diag_note(b->d, f->ast->pos, "declared here");
    }
    if (!given) continue;
    Value v = build_argument(b, given);
    bool known = v.kind == VALUE_STRING || v.kind == VALUE_TRUTH || v.kind == VALUE_FUNCTION;
    good = known || value_is_tensor(b, &v, given->pos);
    binding_put(b, &frame->values, formal->name, v, given->pos);
  }
  return good;
}

static void bind_defaults(Build *b, const Function *f) {
  for (uint32_t i = 0; i < f->ast->nargs; i++) {
    const AstArg *formal = &f->ast->args[i];
    if (map_get(&b->frame->values, formal->name)) continue;
    binding_put(b, &b->frame->values, formal->name, build_argument(b, formal->value), formal->pos);
  }
}

// Returns result v with the followers of `back` renamed to the caller's dims. If v has both a
// follower and the dim that it follows, reports an error and returns poison.
static Value rename_back(Build *b, const Function *f, Value v, const Renames *back, Pos pos) {
  if (v.kind != VALUE_TENSOR) return v;
  Attr attr = {0};
  DimId from[MAX_RANK], to[MAX_RANK];
  const Dims *have = build_dims(b, &v);
  for (int i = 0; i < back->n; i++) {
    if (!dims_has(have, back->from[i])) continue;
    bool clash = dims_has(have, back->to[i]);
    for (int k = 0; k < attr.ndims; k++) clash |= to[k] == back->to[i];
    if (clash) {
      const char *dim = dim_get(b->g->dims, back->to[i])->name;
      diag_error(b->d, DIAG_BAD_ARGUMENTS, pos,
                 "the result of %s would have dim '%s' twice: it is given for '%s' and for '%s'",
                 f->name, dim, back->first[i], back->formal[i]);
      diag_note(b->d, f->ast->pos, "declared here");
      diag_hint(b->d,
                "give one of them another dim of the same size: dim %s2 = %s, and rename[%s -> "
                "%s2](...) where an operand has it",
                dim, dim, dim, dim);
      return value_poison;
    }
    from[attr.ndims] = back->from[i];
    to[attr.ndims++] = back->to[i];
  }
  if (!attr.ndims) return v;
  attr.nto = attr.ndims;
  attr.dims = from;
  attr.to = to;
  return value_tensor(build_emit(b, pos, OP_RENAME, 1, &v.node, &attr));
}

// Returns v, or poison after an error if v has a dim that f declares: such a dim exists only
// inside the function.
static Value without_own_dims(Build *b, const Function *f, const Frame *frame, Value v, Pos pos) {
  const Dims *have = build_dims(b, &v);
  for (uint32_t i = 0; i < frame->dims.cap; i++) {
    const char *name = frame->dims.key[i];
    DimId own = (DimId)(uintptr_t)frame->dims.value[i];
    bool formal = !name || !dims_has(have, own);
    for (uint32_t k = 0; k < f->ast->ndims; k++) formal |= f->ast->dims[k].name == name;
    if (formal) continue;
    diag_error(b->d, DIAG_EXTRA_DIM, pos,
               "the result of %s has dim '%s', which exists only inside the function", f->name,
               name);
    diag_note(b->d, dim_get(b->g->dims, own)->pos, "declared here");
    diag_hint(b->d, "reduce over it, or rename it to a dim that the function was given");
    return value_poison;
  }
  return v;
}

static Value leave(Build *b, const Function *f, const Frame *frame, Value v, const Renames *back,
                   Pos pos) {
  return without_own_dims(b, f, frame, rename_back(b, f, v, back, pos), pos);
}

static Value run_body(Build *b, const Function *f, Pos pos) {
  const Ast *body = f->ast->kids[0];
  if (body->kind != AST_BLOCK) return build_whole(b, body);
  build_block(b, body);
  if (b->frame->returned) return b->frame->result;
  diag_error(b->d, DIAG_MISPLACED, f->ast->pos, "function %s returns nothing", f->name);
  diag_note(b->d, pos, "called here");
  return value_poison;
}

static Value call_inside(Build *b, Function *f, Frame *frame, const Renames *back, Pos pos) {
  Frame *caller = b->frame;
  Origin origin = b->g->origin;
  bool outer = b->outer, active = f->active;
  b->frame = frame;
  b->outer = false;
  f->active = true;
  bind_defaults(b, f);
  Value v = run_body(b, f, pos);
  f->active = active; // in an outer call it is active if it was given to a function
  b->frame = caller;
  b->outer = outer;
  b->g->origin = origin;
  if (v.kind != VALUE_TUPLE) return leave(b, f, frame, v, back, pos);
  for (uint32_t i = 0; i < v.n; i++) v.item[i] = leave(b, f, frame, v.item[i], back, pos);
  return v;
}

static Value call_function(Build *b, Function *f, const Ast *call) {
  // recursion, which functions_check has reported; that of functions that are given to functions
  // ends at the limit of nested calls
  if (f->active && f->recursive) return value_poison;
  if (!build_unroll(b, 1, call->pos)) return value_poison;
  Frame *frame = arena_new_of(b->a, Frame);
  *frame =
      (Frame){.fn = f, .call = call, .scope = b->frame->scope, .anonymous = b->frame->anonymous};
  Renames back = {0};
  // The arguments are evaluated before the scope is opened: in dense(dense(x)) the inner call has
  // the scope dense, the outer one dense_1.
  bool good = bind_arguments(b, f, call, frame);
  bool scoped = f->scoped || given_scoped(b, f, frame);
  frame->base = frame->scope = scope_of_call(b, f, call, scoped);
  if (!frame->scope || !bind_dims(b, f, call, frame, &back) || !good) return value_poison;
  frame->anonymous |= frame->scope == b->frame->scope;
  return call_inside(b, f, frame, &back, call->pos);
}

static void function_nearest(Build *b, const char *name) {
  VEC(const char *) near = {0};
  for (const Builtin *f = builtins; f->name; f++) vec_push(b->a, near) = f->name;
  for (uint32_t i = 0; i < b->functions.cap; i++)
    if (b->functions.key[i]) vec_push(b->a, near) = b->functions.key[i];
  diag_nearest(b->d, name, near.at, near.n);
}

static Value unknown_function(Build *b, const Ast *call) {
  HabitNames names = habit_names(b, call);
  bool value = binding_find(b, call->text) != NULL;
  diag_error(b->d, DIAG_UNKNOWN_FUNCTION, call->pos, "unknown function '%s'", call->text);
  if (!diag_kept(b->d)) return value_poison;
  if (value && call->has_brackets && !call->has_parens)
    habit_of_index(b, call);
  else if (value)
    diag_hint(b->d, "'%s' is a value: write it without brackets and parentheses", call->text);
  else if (!habit_of_member(b, call->text, call) &&
           !habit_hint(b->d, b->a, HABIT_FUNCTION, call->text, &names))
    function_nearest(b, call->text);
  return value_poison;
}

Value build_call(Build *b, const Ast *call) {
  const Binding *given = binding_find(b, call->text);
  const char *name = given && given->value.kind == VALUE_FUNCTION ? given->value.text : call->text;
  Function *f = map_get(&b->functions, name);
  if (f) return call_function(b, f, call);
  const Builtin *row = builtin_find(name);
  return row ? call_builtin(b, row, call) : unknown_function(b, call);
}

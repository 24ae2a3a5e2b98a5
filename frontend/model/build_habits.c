// Adds hints to errors when the user writes a form of another language, such as x.sum(). The hints
// contain the names and dims of the call that has the error. Their texts are in
// frontend/syntax/habits.def.
//
//   y = matmul(x, k)      x[b, d], k[d, h]:   hint: ... sum[d](x * k)
//   y = x.sum()                               hint: ... sum[d](x)
#include <string.h>
#include <strings.h>

#include "frontend/model/build_internal.h"

// Returns the name by which the current frame knows dim d; in a function this may be a formal.
static const char *dim_here(const Build *b, DimId d) {
  const NameMap *local = &b->frame->dims;
  for (uint32_t i = 0; i < local->cap; i++)
    if (local->key[i] && (DimId)(uintptr_t)local->value[i] == d) return local->key[i];
  return dim_get(b->g->dims, d)->name;
}

static const Dims *dims_of_name(const Build *b, const char *name) {
  const Binding *bound = name ? map_get(&b->frame->values, name) : NULL;
  bool here = bound && bound->graph == b->g && bound->value.kind == VALUE_TENSOR;
  return here ? build_dims(b, &bound->value) : NULL;
}

// Returns the name of a dim that the values named x and y share or, if y is not a tensor, of the
// last dim of x. Returns NULL if x is not a tensor with dims, or if x and y share no dim.
static const char *dim_of_names(const Build *b, const char *x, const char *y) {
  const Dims *of_x = dims_of_name(b, x), *of_y = dims_of_name(b, y);
  if (!of_x || !of_x->n) return NULL;
  for (int i = 0; of_y && i < of_x->n; i++)
    if (dims_has(of_y, of_x->at[i])) return dim_here(b, of_x->at[i]);
  return of_y ? NULL : dim_here(b, of_x->at[of_x->n - 1]);
}

const char *dim_apart(const Build *b, const HabitNames *names) {
  const Dims *of_x = dims_of_name(b, names->x), *of_y = dims_of_name(b, names->y);
  for (int i = of_x && of_y ? of_x->n : 0; i-- > 0;)
    if (!dims_has(of_y, of_x->at[i])) return dim_here(b, of_x->at[i]);
  return names->d;
}

// Returns the text of a name or a number; NULL for other expressions.
static const char *text_of(const Ast *e) {
  return e->kind == AST_NAME || e->kind == AST_NUMBER ? e->text : NULL;
}

HabitNames habit_names(const Build *b, const Ast *call) {
  HabitNames names = {.f = call->text};
  const char *operand[2] = {0};
  int n = 0;
  for (uint32_t i = 0; i < call->nargs && n < 2; i++) {
    const AstArg *arg = &call->args[i];
    if (arg->name || arg->value->kind == AST_STRING)
      continue; // not an operand: an option, or the string of einsum("ij,jk->ik", x, y)
    operand[n++] = text_of(arg->value);
  }
  names.x = operand[0];
  names.y = operand[1];
  names.d = dim_of_names(b, names.x, names.y);
  return names;
}

// Adds a hint for a call of a function of a module, such as torch.relu(x), F.gelu(x) or
// jnp.matmul(x, w): the language has no modules. `member` is the name after the last dot.
// Returns false if there is no such hint.
static bool habit_of_module(Build *b, const char *member, const Ast *call) {
  HabitNames names = habit_names(b, call);
  names.f = member;
  if (habit_hint(b->d, b->a, HABIT_FUNCTION, member, &names)) return true;
  for (const Builtin *row = builtins; row->name; row++)
    if (!strcasecmp(row->name, member)) {
      diag_hint(b->d, "functions have no module: write %s", row->name);
      return true;
    }
  return false;
}

bool habit_of_member(Build *b, const char *name, const Ast *call) {
  const char *dot = strrchr(name, '.');
  if (!dot) return false;
  const char *object = intern_n(b->names, name, (size_t)(dot - name)),
             *member = intern(b->names, dot + 1);
  HabitNames names = {.x = object, .d = dim_of_names(b, object, NULL), .f = member};
  if (!binding_find(b, object)) return call && habit_of_module(b, member, call);
  if (habit_hint(b->d, b->a, HABIT_MEMBER, member, &names)) return true;
  if (!call) return false;
  if (call->nargs && !call->args[0].name) names.y = text_of(call->args[0].value);
  if (habit_hint(b->d, b->a, HABIT_FUNCTION, member, &names)) return true;
  const Builtin *row = builtin_find(member);
  if (!row) return false;
  if (row->bracket == BRACKET_NONE)
    diag_hint(b->d, "functions are not members of tensors: write %s(%s)", member, object);
  else
    diag_hint(b->d, "functions are not members of tensors: write %s[%s](%s)", member,
              names.d ? names.d : "d", object);
  return true;
}

void habit_of_index(Build *b, const Ast *call) {
  const char *at = call->ndims ? call->dims[0].name : NULL;
  HabitNames names = {.x = call->text, .y = at, .d = dim_of_names(b, call->text, NULL)};
  habit_hint(b->d, b->a, HABIT_INDEX, at && !dim_visible(b, at) ? "name" : "dim", &names);
}

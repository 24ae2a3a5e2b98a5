// Examines the functions of a file before any call is built: reports errors in their heads and
// recursion, and finds the functions whose calls open scopes.
//
//   fn f(y) = g(y) + 1
//   fn g(y) = f(y)          # error: f calls itself; reported even if the model calls neither
//   fn dense[in, out](x) { param kernel[in, out] ... }
//                           # declares a parameter: a call opens a scope, and so does a call of any
//                           # function that calls dense
#include <string.h>

#include "frontend/model/build_internal.h"

typedef VEC(const Ast *) AstList;

static void push_all(Build *b, AstList *todo, const Ast *e) {
  for (uint32_t i = 0; i < e->nkids; i++)
    if (e->kids[i]) vec_push(b->a, *todo) = e->kids[i];
  for (uint32_t i = 0; i < e->nargs; i++)
    if (e->args[i].value) vec_push(b->a, *todo) = e->args[i].value;
}

// -- scopes -------------------------------------------------------------------------------------

// Returns true if the statements below `root` declare a parameter or a state, or call a function
// that is already marked `scoped`. Sets *has_dims to true if they declare dims.
static bool declares(Build *b, const Ast *root, bool *has_dims) {
  AstList todo = {0};
  push_all(b, &todo, root);
  while (todo.n) {
    const Ast *e = todo.at[--todo.n];
    if (e->kind == AST_PARAM || e->kind == AST_STATE) return true;
    if (e->kind == AST_DIM) *has_dims = true;
    const Function *callee = e->kind == AST_CALL ? map_get(&b->functions, e->text) : NULL;
    if ((callee && callee->scoped) || (e->kind == AST_CALL && !strcmp(e->text, "batch_norm")))
      return true;
    push_all(b, &todo, e);
  }
  return false;
}

// Returns declares(b, root, has_dims), without the memory of the walk.
static bool body_declares(Build *b, const Ast *root, bool *has_dims) {
  ArenaMark mark = arena_mark(b->a);
  bool scoped = declares(b, root, has_dims);
  arena_reset(b->a, mark);
  return scoped;
}

bool block_declares(Build *b, const Ast *block) {
  bool has_dims;
  return body_declares(b, block, &has_dims);
}

void functions_scan(Build *b) {
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = 0; i < b->functions.cap; i++) {
      Function *f = b->functions.value[i];
      if (!f || f->scoped || !body_declares(b, f->ast, &f->has_dims)) continue;
      f->scoped = changed = true;
    }
  }
}

// -- heads --------------------------------------------------------------------------------------

static void said_twice(Build *b, const char *what, const char *name, Pos pos) {
  diag_error(b->d, DIAG_DUPLICATE_NAME, pos, "there are two %s '%s'", what, name);
}

static void check_head(Build *b, const Ast *fn) {
  for (uint32_t i = 0; i < fn->ndims; i++)
    for (uint32_t k = 0; k < i; k++)
      if (fn->dims[k].name == fn->dims[i].name)
        said_twice(b, "dims", fn->dims[i].name, fn->dims[i].pos);
  for (uint32_t i = 0; i < fn->nargs; i++)
    for (uint32_t k = 0; k < i; k++)
      if (fn->args[k].name == fn->args[i].name)
        said_twice(b, "arguments", fn->args[i].name, fn->args[i].pos);
}

// -- recursion ----------------------------------------------------------------------------------

// A function whose calls are being followed.
typedef struct Visit {
  Function *f;
  AstList todo; // the parts of its body that have not been visited
} Visit;

// Returns the next function that v->f calls, and sets *call to the call; NULL if there are no more.
static Function *next_callee(Build *b, Visit *v, const Ast **call) {
  while (v->todo.n) {
    const Ast *e = v->todo.at[--v->todo.n];
    push_all(b, &v->todo, e);
    Function *callee = e->kind == AST_CALL ? map_get(&b->functions, e->text) : NULL;
    *call = e;
    if (callee) return callee;
  }
  return NULL;
}

static void visit_open(Build *b, Visit *v, Function *f) {
  *v = (Visit){.f = f};
  push_all(b, &v->todo, f->ast);
  f->active = true;
}

// Follows all calls from f depth first, each function once, and reports calls of functions that are
// on the current path.
static void check_recursion(Build *b, Function *f) {
  VEC(Visit) open = {0};
  if (!f->followed) visit_open(b, &vec_push(b->a, open), f);
  while (open.n) {
    Visit *v = &open.at[open.n - 1];
    const Ast *call;
    Function *callee = next_callee(b, v, &call);
    if (!callee) {
      v->f->active = false;
      v->f->followed = true;
      open.n--;
    } else if (callee->active) {
      for (uint32_t i = 0; i < open.n; i++) open.at[i].f->recursive = true;
      diag_error(b->d, DIAG_RECURSION, call->pos, "function %s calls itself", callee->name);
      diag_note(b->d, callee->ast->pos, "declared here");
    } else if (!callee->followed) {
      visit_open(b, &vec_push(b->a, open), callee);
    }
  }
}

void functions_check(Build *b, const Ast *file) {
  for (uint32_t i = 0; i < file->nkids; i++) {
    const Ast *fn = file->kids[i];
    if (fn->kind != AST_FN) continue;
    Function *f = map_get(&b->functions, fn->text);
    check_head(b, fn);
    if (f && f->ast == fn) check_recursion(b, f);
  }
}

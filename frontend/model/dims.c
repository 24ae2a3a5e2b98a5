// Declares dims and consts, evaluates arithmetic on sizes, applies --set to them, and checks the
// dims of tensors.
//
// Input: dim and const statements, brackets. Output: the dim table of the graph, the maps
// Frame.dims and Build.consts.
//
// Dims whose size is a plain number get their ids first, in the order of the file; computed dims
// follow. By default the dims of a tensor are in ascending order of their ids.
#include <math.h>
#include <string.h>

#include "frontend/model/build_internal.h"

static const int64_t max_size = INT64_C(2147483647);
static const int64_t max_elements = INT64_C(1) << 40;

// -- lookup -------------------------------------------------------------------------------------

DimId dim_visible(const Build *b, const char *name) {
  uintptr_t d = (uintptr_t)map_get(&b->frame->dims, name);
  if (!d) d = (uintptr_t)map_get(&b->file->dims, name);
  return (DimId)d;
}

DimId dim_lookup(Build *b, const char *name, Pos pos) {
  DimId d = dim_visible(b, name);
  if (d) return d;
  VEC(const char *) near = {0};
  const NameMap *maps[] = {&b->frame->dims, &b->file->dims};
  diag_error(b->d, DIAG_UNKNOWN_DIM, pos, "unknown dim '%s'", name);
  for (size_t m = 0; m < countof(maps) && diag_kept(b->d); m++)
    for (uint32_t i = 0; i < maps[m]->cap; i++)
      if (maps[m]->key[i]) vec_push(b->a, near) = maps[m]->key[i];
  diag_nearest(b->d, name, near.at, near.n);
  return 0;
}

Setting *setting_find(const Build *b, const char *path) {
  Setting *last = map_get(&b->settings, intern(b->names, path));
  for (Setting *s = last ? last->before : NULL; s && !s->used; s = s->before)
    s->used = true; // no error for it: a later --set overrides it
  return last;
}

void settings_index(Build *b) {
  for (uint32_t i = 0; i < b->opt->nsettings; i++) {
    Setting *s = &b->opt->setting[i];
    const char *path = intern(b->names, s->path);
    s->before = map_get(&b->settings, path);
    map_put(b->a, &b->settings, path, s);
  }
}

Dims dims_set(const Build *b, int n, const DimId *dims) {
  Dims out = {0};
  for (int i = 0; i < n; i++)
    if (!dims_add(b->g->dims, &out, dims[i])) BUG("%d dims", n);
  return out;
}

const char *dims_listed(Build *b, const DimList *s) {
  return arena_printf(b->a, "[%s]", dims_text(b->a, b->g->dims, s));
}

// -- arithmetic ---------------------------------------------------------------------------------

// Returns true if `declared` is after `use` in the same file. A `use` with line 0 has no position.
static bool later(Pos declared, Pos use) {
  return use.line && declared.source == use.source &&
         (declared.line > use.line || (declared.line == use.line && declared.col > use.col));
}

static bool not_integer(Build *b, Pos pos) {
  return diag_error(b->d, DIAG_NOT_A_CONSTANT, pos, "expected an integer made of numbers and dims");
}

// Converts x to an integer. Reports an error and returns false if x is a fraction or too large.
static bool integral(Build *b, double x, Pos pos, int64_t *out) {
  *out = (int64_t)(fabs(x) < 0x1p53 ? x : 0);
  if (fabs(x) < 0x1p53 && x == floor(x)) return true;
  diag_error(b->d, DIAG_NOT_A_CONSTANT, pos, "expected an integer, not %g", x);
  return diag_hint(b->d, x == floor(x) ? "write a number below 2^53" : "write a whole number");
}

// Evaluates a name in arithmetic on sizes: a number, or the size of a dim that is declared before
// `use`. If a number and a dim have that name, the number is used. Returns false after an error.
static bool name_integer(Build *b, const Ast *e, Pos use, int64_t *out) {
  const Binding *bound = binding_find(b, e->text);
  if (!bound) bound = map_get(&b->consts, e->text);
  DimId d = dim_visible(b, e->text);
  if (bound && (bound->value.kind == VALUE_NUMBER || !d)) {
    if (bound->value.kind == VALUE_POISON) return false;
    return bound->value.kind == VALUE_NUMBER ? integral(b, bound->value.number, e->pos, out)
                                             : not_integer(b, e->pos);
  }
  if (!d && !dim_lookup(b, e->text, e->pos)) return false;
  const Dim *dim = dim_get(b->g->dims, d);
  if (later(dim->pos, use)) {
    diag_error(b->d, DIAG_UNKNOWN_DIM, e->pos, "dim '%s' is declared further down", e->text);
    diag_note(b->d, dim->pos, "declared here");
    return diag_hint(b->d, "move its declaration up");
  }
  b->rows_read |= dim_has_rows(b, d);
  *out = dim->size;
  return true;
}

// Applies the operator of node `op` to x and y. Returns false after an error.
static bool combine(Build *b, const Ast *op, int64_t x, int64_t y, int64_t *out) {
  bool fits = true;
  switch (op->text[0]) {
  case '+': *out = x + y; break;
  case '-': *out = x - y; break;
  case '*': {
    int64_t product = 0;
    fits = size_mul(x < 0 ? -x : x, y < 0 ? -y : y, &product);
    *out = (x < 0) != (y < 0) ? -product : product;
    break;
  }
  case '/':
  case '%':
    if (y == 0 || (op->text[0] == '/' && x % y != 0))
      return diag_error(b->d, DIAG_DIM_DIVISION, op->pos, "%lld %c %lld is not an integer",
                        (long long)x, op->text[0], (long long)y);
    // the remainder has the sign of the divisor, as for % between tensors
    *out = op->text[0] == '/' ? x / y : (x % y + y) % y;
    break;
  default: return not_integer(b, op->pos);
  }
  if (fits && *out < INT64_C(1) << 53 && *out > -(INT64_C(1) << 53)) return true;
  return diag_error(b->d, DIAG_BAD_DIM_SIZE, op->pos, "this size is too large");
}

static bool integer_before(Build *b, const Ast *e, Pos use, int64_t *out);

static bool leaf_integer(Build *b, const Ast *e, Pos use, int64_t *out) {
  if (e->kind == AST_NUMBER) return integral(b, e->number, e->pos, out);
  if (e->kind == AST_NAME) return name_integer(b, e, use, out);
  if (e->kind == AST_UNARY && e->text[0] == '-') {
    if (!integer_before(b, e->kids[0], use, out)) return false;
    *out = -*out;
    return true;
  }
  double x;
  return e->kind == AST_CALL ? build_number(b, e, &x) && integral(b, x, e->pos, out)
                             : not_integer(b, e->pos);
}

static bool integer_before(Build *b, const Ast *e, Pos use, int64_t *out) {
  VEC(const Ast *) spine = {0};
  for (; e->kind == AST_BINARY; e = e->kids[0]) vec_push(b->a, spine) = e;
  if (!leaf_integer(b, e, use, out)) return false;
  for (uint32_t i = spine.n; i-- > 0;) {
    int64_t y, x = *out;
    if (!integer_before(b, spine.at[i]->kids[1], use, &y) || !combine(b, spine.at[i], x, y, out))
      return false;
  }
  return true;
}

bool dims_integer(Build *b, const Ast *e, int64_t *out) {
  return integer_before(b, e, (Pos){0}, out);
}

// -- declaration --------------------------------------------------------------------------------

static bool size_ok(Build *b, const char *name, int64_t size, Pos pos) {
  if (size >= 1 && size <= max_size) return true;
  return diag_error(b->d, DIAG_BAD_DIM_SIZE, pos, "dim '%s' would have size %lld", name,
                    (long long)size);
}

// Returns the size of one micro-batch or replica of a batch dim of the given size, and sets *full
// to the full name of its dim. Also declares a dim whose size is the number of micro-batches or
// replicas. That dim must get the lower DimId: then [NAME.micro, NAME] is the default order of
// dims, and it keeps the rows of the batch in their order.
//
//   micro-batches    NAME.micro, NAME
//   replicas         NAME, NAME.local: a layout rule for NAME splits the replicas
//   replicas apart   NAME: each is a model of its own
static int64_t split_size(Build *b, const Ast *define, int64_t size, const char **full) {
  int64_t n = b->opt->micro;
  const char *parts = b->opt->replicas ? *full : name_join(b, define->text, "micro");
  if (size % n != 0) {
    diag_error(b->d, DIAG_DIM_DIVISION, define->pos,
               "'%s' of size %lld cannot be split into the %lld micro-batches of accumulate",
               define->text, (long long)size, (long long)n);
    return size;
  }
  if (b->opt->apart) return size / n;
  dim_add(b->g->dims, parts, n, define->pos);
  if (b->opt->replicas) *full = name_join(b, define->text, "local");
  return size / n;
}

// Collects the batch dims of the data blocks in b->data_dims.
static void find_data_dims(Build *b) {
  for (uint32_t i = 0; i < b->text->nkids; i++) {
    const Ast *s = b->text->kids[i];
    if (s->kind == AST_DATA && s->ndims) map_put(b->a, &b->data_dims, s->dims[0].name, b);
  }
}

static bool data_runs_over(const Build *b, const char *name) {
  return map_get(&b->data_dims, name) != NULL;
}

// Declares a dim under its full name with the size `value`, which may use dims declared before
// `use`. After an error the size is 1.
static void declare(Build *b, const Ast *define, const char *full, const Ast *value, Pos use) {
  int64_t size;
  bool outer = b->rows_read;
  b->rows_read = false;
  if (!integer_before(b, value, use, &size))
    size = 1;
  else if (!size_ok(b, define->text, size, value->pos))
    size = 1;
  else if (b->opt->rows_dim && !b->frame->fn && !strcmp(define->text, b->opt->rows_dim))
    size = b->opt->rows;
  else if (b->opt->micro_dim && !b->frame->fn && !strcmp(define->text, b->opt->micro_dim))
    size = split_size(b, define, size, &full);
  DimId d = dim_find(b->g->dims, full);
  // a call with share = NAME uses the dim of the first call, if the sizes are equal
  if (!d || dim_get(b->g->dims, d)->size != size) d = dim_add(b->g->dims, full, size, define->pos);
  if (!b->frame->fn && data_runs_over(b, define->text))
    rows_add(b, d);
  else if (b->rows_read && !dim_has_rows(b, d))
    rows_add_computed(b, d, value);
  b->rows_read = outer;
  map_put(b->a, &b->frame->dims, define->text, (void *)(uintptr_t)d);
}

static bool dim_is_new(Build *b, const Ast *define) {
  DimId d = (DimId)(uintptr_t)map_get(&b->frame->dims, define->text);
  if (!d) return true;
  diag_error(b->d, DIAG_DUPLICATE_DIM, define->pos, "dim '%s' is declared twice", define->text);
  return diag_note(b->d, dim_get(b->g->dims, d)->pos, "first here");
}

// Declares a dim of the file. It is called twice for each dim. The first call declares the dim if
// its size is a plain number; the second (`computed`) declares it if its size is an expression.
static void declare_in_file(Build *b, const Ast *define, bool computed) {
  if ((define->kids[0]->kind != AST_NUMBER) != computed || !dim_is_new(b, define)) return;
  Setting *set = setting_find(b, define->text);
  if (set) set->used = true;
  int before = diag_errors(b->d);
  declare(b, define, define->text, set ? set->value : define->kids[0],
          set ? (Pos){0} : define->pos);
  if (set && set->value->kind == AST_NAME && diag_errors(b->d) > before)
    diag_hint(b->d, "give a size, as in --set %s=8, or another dim or const", define->text);
}

// Returns the value of a const: a number, a string or a truth value; poison after an error.
static Value const_value(Build *b, const Ast *e) {
  bool truth;
  Value v = build_whole(b, e);
  if (value_is_truth(b, &v, &truth)) return (Value){.kind = VALUE_TRUTH, .number = truth};
  if (v.kind == VALUE_NUMBER || v.kind == VALUE_STRING || v.kind == VALUE_POISON) return v;
  diag_error(b->d, DIAG_NOT_A_CONSTANT, e->pos, "a const is a number, a string, true or false");
  return value_poison;
}

static void declare_const(Build *b, const Ast *define) {
  Binding *old = map_get(&b->consts, define->text);
  if (old) {
    diag_error(b->d, DIAG_DUPLICATE_NAME, define->pos, "const '%s' is declared twice",
               define->text);
    diag_note(b->d, old->pos, "first here");
    return;
  }
  Setting *set = setting_find(b, define->text);
  if (set) set->used = true;
  const Ast *e = set ? set->value : define->kids[0];
  Value v = const_value(b, e);
  binding_put(b, &b->consts, define->text, v, define->pos);
}

void dims_declare_file(Build *b, const Ast *file) {
  find_data_dims(b);
  for (int computed = 0; computed < 2; computed++)
    for (uint32_t i = 0; i < file->nkids; i++) {
      const Ast *s = file->kids[i];
      for (uint32_t k = 0; k < s->nkids; k++) {
        if (s->kind == AST_DIM)
          declare_in_file(b, s->kids[k], computed);
        else if (s->kind == AST_CONST && computed)
          declare_const(b, s->kids[k]);
      }
    }
}

void dims_declare_local(Build *b, const Ast *statement) {
  for (uint32_t i = 0; i < statement->nkids; i++) {
    const Ast *define = statement->kids[i];
    if (!dim_is_new(b, define)) continue;
    declare(b, define, name_join(b, b->frame->scope->path, define->text), define->kids[0],
            (Pos){0});
  }
}

// -- checks -------------------------------------------------------------------------------------

bool dims_stated(Build *b, const Ast *t, DimList *order) {
  *order = (Dims){0};
  bool good = true;
  for (uint32_t i = 0; i < t->ndims; i++) {
    const AstDim *item = &t->dims[i];
    DimId d = dim_lookup(b, item->name, item->pos);
    if (!d) {
      good = false;
    } else if (item->arrow || t->all_but) {
      diag_error(b->d, DIAG_BAD_ARGUMENTS, item->pos, "expected only names of dims");
      good = false;
    } else if (dims_has(order, d)) {
      diag_error(b->d, DIAG_BAD_ARGUMENTS, item->pos, "dim '%s' occurs twice in one tensor",
                 item->name);
      good = false;
    } else if (order->n == MAX_RANK) {
      return diag_error(b->d, DIAG_BAD_ARGUMENTS, item->pos, "a tensor has at most %d dims",
                        MAX_RANK);
    } else {
      order->at[order->n++] = d;
    }
  }
  return good;
}

bool dims_fit(Build *b, const Dims *s, Pos pos, const char *what) {
  int64_t n;
  if (dims_elements(b->g->dims, s, &n) && n <= max_elements) return true;
  return diag_error(b->d, DIAG_TENSOR_TOO_LARGE, pos, "%s over %s is too large", what,
                    dims_listed(b, s));
}

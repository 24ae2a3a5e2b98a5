// Reads initial values of parameters and states: draws, constants, files, and expressions.
//
// Input: a param or state statement. Output: an Init in its declaration. Draws and files are
// executed when a program starts; expressions are evaluated here.
//
//   ~ glorot(d -> heads, k)    uniform in +-sqrt(6 / (size(d) + size(heads) * size(k)))
//   = 1 / size(d) * index[t]   built in a separate graph and evaluated at compile time
#include <math.h>
#include <string.h>

#include "frontend/model/build_internal.h"
#include "frontend/model/formal_internal.h"
#include "ir/eval/eval.h"

// -- draws --------------------------------------------------------------------------------------

// The draws that may follow `~`. The arguments of a row without formals are dims.
static const Form draws[] = {
    {"normal", INIT_NORMAL, (const Formal[]){D(mean, 0), D(std, 1), END}},
    {"truncated_normal", INIT_TRUNCATED_NORMAL, (const Formal[]){D(mean, 0), D(std, 1), END}},
    {"uniform", INIT_UNIFORM, (const Formal[]){V(low), V(high), END}},
    {"he", INIT_NORMAL, NULL},
    {"lecun", INIT_NORMAL, NULL},
    {"glorot", INIT_UNIFORM, NULL},
    {"orthogonal", INIT_ORTHOGONAL, NULL},
};

// Returns the gain of the draws "he" and "lecun", whose variance is gain / fan-in; 0 for other
// draws.
static double gain_of(const Form *row) {
  return !strcmp(row->name, "he") ? 2 : !strcmp(row->name, "lecun") ? 1 : 0;
}

// The dims in the parentheses of a draw, such as glorot(d -> h). The fan-in and the fan-out are the
// numbers of elements on each side of the arrow.
typedef struct Fans {
  Dims in, out;           // dims before and after the arrow, in the order of the text
  double fan_in, fan_out; // products of the sizes of `in` and of `out`
} Fans;

static bool fans_add(Build *b, const AstArg *arg, const Decl *d, Dims *side, double *fan) {
  if (arg->name || arg->key || arg->value->kind != AST_NAME)
    return diag_error(b->d, DIAG_BAD_ARGUMENTS, arg->pos,
                      "expected dims of the tensor: glorot(in -> out)");
  DimId dim = dim_lookup(b, arg->value->text, arg->value->pos);
  bool has = false;
  for (int i = 0; i < d->rank; i++) has |= d->dims[i] == dim;
  if (!dim) return false;
  if (!has || side->n == MAX_RANK)
    return diag_error(b->d, DIAG_MISSING_DIM, arg->value->pos, "'%s' has no dim '%s'", d->name,
                      arg->value->text);
  side->at[side->n++] = dim;
  *fan *= (double)dim_get(b->g->dims, dim)->size;
  return true;
}

// Reads the dims of a draw: those before the arrow are `in`, those after it `out`. Without an arrow
// the last dim of glorot and orthogonal is `out`. Returns false after an error.
static bool fans_read(Build *b, const Ast *call, const Form *row, const Decl *d, Fans *f) {
  bool arrows = false, out = false, two_sides = gain_of(row) == 0;
  *f = (Fans){.fan_in = 1, .fan_out = 1};
  for (uint32_t i = 0; i < call->nargs; i++) arrows |= call->args[i].arrow;
  for (uint32_t i = 0; i < call->nargs; i++) {
    out |= call->args[i].arrow || (!arrows && two_sides && i + 1 == call->nargs);
    if (!fans_add(b, &call->args[i], d, out ? &f->out : &f->in, out ? &f->fan_out : &f->fan_in))
      return false;
  }
  if (f->in.n && (f->out.n > 0) == two_sides) return true;
  return diag_error(b->d, DIAG_BAD_ARGUMENTS, call->pos,
                    two_sides ? "%s needs dims on both sides: %s(in -> out)"
                              : "%s takes the in dims: %s(in)",
                    row->name, row->name);
}

// Makes the initial value of an orthogonal draw. The bits of out->split mark the `in` dims of the
// matrix, where bit i stands for d->dims[i]. The bits of out->each mark dims that are neither `in`
// nor `out`: each index of such a dim has a matrix of its own. Returns false after an error.
static bool orthogonal(Build *b, const Ast *call, const Decl *d, const Fans *f, Init *out) {
  *out = (Init){.kind = INIT_ORTHOGONAL};
  for (int i = 0; i < d->rank; i++) {
    bool in = dims_has(&f->in, d->dims[i]);
    if (in && dims_has(&f->out, d->dims[i]))
      return diag_error(b->d, DIAG_BAD_ARGUMENTS, call->pos,
                        "dim '%s' is on both sides of the matrix",
                        dim_get(b->g->dims, d->dims[i])->name);
    if (in) out->split |= 1 << i;
    if (!in && !dims_has(&f->out, d->dims[i])) out->each |= 1 << i;
  }
  return true;
}

static bool draw_fans(Build *b, const Ast *call, const Form *row, const Decl *d, Init *out) {
  Fans f;
  double gain = gain_of(row);
  if (!fans_read(b, call, row, d, &f)) return false;
  if (row->kind == INIT_ORTHOGONAL) return orthogonal(b, call, d, &f, out);
  double limit = sqrt(6 / (f.fan_in + f.fan_out));
  *out = (Init){.kind = (InitKind)row->kind,
                .a = gain > 0 ? 0 : -limit,
                .b = gain > 0 ? sqrt(gain / f.fan_in) : limit};
  return true;
}

static bool draw_build(Build *b, const Ast *call, const Decl *d, Init *out) {
  double v[2];
  const Form *row = form_of(call, countof(draws), draws);
  if (!row) {
    form_unknown(b, call, countof(draws), draws, DIAG_UNKNOWN_FUNCTION, "a distribution");
    if (call->text) habit_hint(b->d, b->a, HABIT_DRAW, call->text, &(HabitNames){0});
    return false;
  }
  if (!row->formal) return draw_fans(b, call, row, d, out);
  if (!call_numbers(b, call, row->formal, v)) return false;
  *out = (Init){.kind = (InitKind)row->kind, .a = v[0], .b = v[1]};
  return true;
}

// -- files and expressions ----------------------------------------------------------------------

static bool file_build(Build *b, const Ast *call, Init *out) {
  static const Formal formal[] = {A(path), O(key), END};
  const Ast *arg[2];
  *out = (Init){.kind = INIT_FILE};
  if (!call_bind(b, call, formal, arg)) return false;
  return build_string(b, arg[0], &out->path) && (!arg[1] || build_string(b, arg[1], &out->key));
}

// Returns true if node n of g has only dims that declaration d has. Otherwise reports an error.
// Sets *all to the dims of d.
static bool fits_decl(Build *b, const Graph *g, NodeId n, const Decl *d, Pos pos, Dims *all) {
  *all = dims_set(b, d->rank, d->dims);
  const Dims *have = graph_node(g, n)->dims;
  for (int i = 0; i < have->n; i++)
    if (!dims_has(all, have->at[i]))
      return diag_error(b->d, DIAG_EXTRA_DIM, pos,
                        "'%s' has no dim '%s', but its initial value has", d->name,
                        dim_get(g->dims, have->at[i])->name);
  return true;
}

// Evaluates node n of g to a tensor over all dims of d, in declared order, and stores it in *out.
static void evaluate(Build *b, Graph *g, NodeId n, const Dims *all, const Decl *d, Init *out) {
  Arena *scratch = arena_new();
  bool agree;
  n = graph_broadcast(g, build_node(b, value_tensor(n), d->type), all);
  const Tensor *t =
      eval_full(scratch, eval_run(scratch, g, 0, NULL, 0), n, d->rank, d->dims, &agree);
  double *data = arena_array(b->model->graph->arena, double, t->elements);
  for (int64_t i = 0; i < t->elements; i++) data[i] = dtype_round(d->type, t->value[i]);
  *out = (Init){.kind = INIT_DATA, .data = data, .ndata = t->elements};
  arena_free(scratch);
}

// Builds the expression e of an initial value in a separate graph and evaluates it. Returns false
// after an error.
static bool expression_build(Build *b, const Ast *e, const Decl *d, Init *out) {
  Graph *model = b->g;
  Arena *scratch = arena_new();
  b->g = graph_new(scratch, model->dims, model->mesh, STAGE_GRAPH);
  b->g->spec.seed = b->opt->seed;
  b->initial = d->name;
  Weak weak = b->weak;
  b->weak = (Weak){0};
  bool outer = b->outer;
  b->outer = true; // an outer product is allowed: the declaration states its dims
  Value v = build_expr(b, e);
  b->outer = outer;
  bool good = value_is_tensor(b, &v, e->pos);
  Dims all;
  if (good && v.kind == VALUE_NUMBER && !type_takes(b, &v, d->type))
    good = build_stated(b, d->name, e->pos, v, d->type) != 0;
  else if (v.kind == VALUE_NUMBER)
    *out = (Init){.kind = INIT_CONSTANT, .a = dtype_round(d->type, v.number)};
  else if (good && (good = fits_decl(b, b->g, v.node, d, e->pos, &all)))
    evaluate(b, b->g, v.node, &all, d, out);
  b->g = model;
  b->weak = weak;
  b->initial = NULL;
  arena_free(scratch);
  return good;
}

bool init_build(Build *b, const Ast *statement, const Decl *d, Init *out) {
  const Ast *start = statement->nkids > 1 ? statement->kids[1] : NULL;
  *out = (Init){.kind = INIT_CONSTANT};
  if (!start) return true;
  return statement->integer ? draw_build(b, start, d, out) : init_start(b, start, d, out);
}

bool init_start(Build *b, const Ast *start, const Decl *d, Init *out) {
  if (start->kind == AST_CALL && !strcmp(start->text, "file")) return file_build(b, start, out);
  return expression_build(b, start, d, out);
}

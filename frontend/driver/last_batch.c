// Decides whether the program for whole batches can run the last, incomplete batch of an
// evaluation, and compiles another program where it cannot. Input and output: last_batch.h.
//
// A program reads and writes only the valid rows of a batch. This suffices for most models: each
// row is computed from itself, and reductions run over the valid rows. It does not suffice in two
// cases:
// 1. An operation reads along the rows (shift[b], window[b], sort[b], scan b). The column `rows` of
//    ir/graph/ops.def says which operations do.
// 2. The size of the batch is a constant of the graph (an unrolled loop, a weight 1/b in a
//    gradient). This is found by building the model again with fewer rows and comparing the graphs.
// Examples, with b = 10 and 25 rows of data:
//
//   y = x - shift[b](x)      reads along b: the last batch needs a program with b = 5
//   y = x / size(b)          size(b) counts valid rows at run time in both graphs: one program
//   for i in 0..b { ... }    10 rounds or 5, the graphs differ: a program with b = 5
#include "frontend/driver/last_batch.h"

#include <string.h>

#include "frontend/step/select_internal.h"

// -- operations that read along the rows of a batch ---------------------------------------------

// Returns whether one of the dims list[from..n) runs over the rows of a batch. The array `dim`,
// indexed by DimId, says which dims do.
static bool rows_after(const bool *dim, uint8_t n, const DimId *list, int from) {
  for (int i = from; i < n; i++)
    if (dim[list[i]]) return true;
  return false;
}

static bool node_fits(const Graph *g, const Node *n, const bool *dim) {
  OpRows rule = op_row((Op)n->op)->rows;
  int from = rule == ROWS_SLOWEST;
  if (rule == ROWS_ANY) return true;
  if (op_row((Op)n->op)->cls == REGION && n->attr->region && dim[region_get(g, n->attr->region)->t])
    return false;
  return !rows_after(dim, n->attr->ndims, n->attr->dims, from) &&
         !rows_after(dim, n->attr->nto, n->attr->to, from);
}

static bool ops_fit(const Graph *g, const bool *dim) {
  for (NodeId i = 1; i <= graph_count(g); i++)
    if (!node_fits(g, graph_node(g, i), dim)) return false;
  return true;
}

// -- constants that depend on the number of rows ------------------------------------------------

static bool same_bytes(const void *x, const void *y, size_t n) {
  return n == 0 || memcmp(x, y, n) == 0;
}

static bool node_same(const Node *x, const Node *y) {
  return x->op == y->op && x->type == y->type && x->nargs == y->nargs && x->region == y->region &&
         dims_equal(x->dims, y->dims) && same_bytes(x->args, y->args, x->nargs * sizeof *x->args) &&
         attr_equal(x->attr, y->attr);
}

static bool decl_same(const Decl *x, const Decl *y) {
  return x->kind == y->kind && x->type == y->type && x->rank == y->rank && x->node == y->node &&
         !strcmp(x->name, y->name) && same_bytes(x->dims, y->dims, x->rank * sizeof *x->dims);
}

static bool output_same(const Output *x, const Output *y) {
  return x->kind == y->kind && x->value == y->value && x->target == y->target &&
         x->rank == y->rank && !strcmp(x->name, y->name) &&
         same_bytes(x->dims, y->dims, x->rank * sizeof *x->dims);
}

// Returns whether both graphs have the same nodes, declarations, outputs and regions in the same
// order. Sizes of dims are not compared.
static bool graph_same(const Graph *x, const Graph *y) {
  bool same = graph_count(x) == graph_count(y) && x->decl.n == y->decl.n &&
              x->output.n == y->output.n && x->region.n == y->region.n;
  for (NodeId i = 1; same && i <= graph_count(x); i++)
    same = node_same(graph_node(x, i), graph_node(y, i));
  for (uint32_t i = 0; same && i < x->decl.n; i++) same = decl_same(&x->decl.at[i], &y->decl.at[i]);
  for (uint32_t i = 0; same && i < x->output.n; i++)
    same = output_same(&x->output.at[i], &y->output.at[i]);
  for (uint32_t i = 0; same && i < x->region.n; i++) same = x->region.at[i].t == y->region.at[i].t;
  return same;
}

// What is compared: the dim tables of the graphs for a whole batch and for the last batch. `rows`
// and `fewer` are the numbers of rows of these batches.
typedef struct Sizes {
  const DimTable *whole, *last;
  const bool *dim; // indexed by DimId: whether the dim is the batch dim or is made from it
  int64_t rows, fewer;
} Sizes;

// Returns whether the n dims of `list` have the sizes that a smaller batch gives. The size of a dim
// that runs over rows must be proportional to the number of rows. Any other dim must have equal
// sizes in both graphs.
static bool list_fits(const Sizes *s, uint8_t n, const DimId *list) {
  for (int i = 0; i < n; i++) {
    const Dim *p = dim_get(s->whole, list[i]), *q = dim_get(s->last, list[i]);
    bool fits = s->dim[list[i]] ? p->size * s->fewer == q->size * s->rows : p->size == q->size;
    if (!fits || strcmp(p->name, q->name)) return false;
  }
  return true;
}

static bool sizes_fit_rows(const Graph *whole, const Graph *last, const bool *dim, DimId over) {
  Sizes s = {whole->dims, last->dims, dim, dim_get(whole->dims, over)->size,
             dim_get(last->dims, over)->size};
  for (NodeId i = 1; i <= graph_count(whole); i++) {
    const Node *n = graph_node(whole, i);
    if (!list_fits(&s, n->dims->n, n->dims->at) || !list_fits(&s, n->attr->ndims, n->attr->dims) ||
        !list_fits(&s, n->attr->nto, n->attr->to))
      return false;
  }
  return true;
}

bool last_batch_fits(Arena *a, const Graph *whole, const Graph *last, DimId over) {
  RowFacts rows = rows_mark(a, whole, over);
  return ops_fit(whole, rows.dim) && graph_same(whole, last) &&
         sizes_fit_rows(whole, last, rows.dim, over);
}

bool last_batch_alike(const EvalMetric *whole, const EvalMetric *last) {
  bool same = whole->nparts == last->nparts && graph_same(whole->finish, last->finish);
  for (uint32_t i = 0; same && i < whole->nparts; i++)
    same = whole->how[i] == last->how[i] && whole->type[i] == last->type[i] &&
           whole->elements[i] == last->elements[i] && !strcmp(whole->output[i], last->output[i]);
  return same;
}

// -- the model ----------------------------------------------------------------------------------

static Model *build_rows(Session *s, const char *over, int64_t rows) {
  ModelOptions options = s->options;
  options.rows_dim = over;
  options.rows = rows;
  Model *m = model_build(s->arena, s->names, s->diag, s->ast, &options);
  // The layout for whole batches is kept: --layout auto does not search again.
  if (m) m->layout = m->graph->layout = s->model->layout;
  return m;
}

static bool layout_fits(const Model *m, Diag *d) {
  return !m->layout.n || layout_check(m->graph, &m->layout, d);
}

Model *model_of_rows(Session *s, const char *over, int64_t rows) {
  Model *m = build_rows(s, over, rows);
  return m && layout_fits(m, s->diag) ? m : NULL;
}

Model *last_batch_model(Session *s, const char *over, int64_t rows, int64_t all) {
  Model *m = build_rows(s, over, rows);
  // Warnings were given for whole batches. That the last one leaves processors idle is no mistake.
  if (m && (layout_fits(m, diag_new(s->arena)) || layout_fits(m, s->diag))) return m;
  diag_note(s->diag, (Pos){0}, "with %s = %lld, as the last batch of the %lld row%s has it", over,
            (long long)rows, (long long)all, plural(all));
  diag_hint(s->diag,
            "let sizes that go with it follow (dim n = %s), or take a batch that divides the rows",
            over);
  return NULL;
}

// Returns the first parameter or state whose size in graph `last` differs from its size in graph
// `whole`, or NULL if there is none.
static const Decl *sized_by_rows(const Graph *whole, const Graph *last) {
  for (DeclId i = 1; i <= whole->decl.n; i++) {
    const Decl *d = &whole->decl.at[i - 1];
    DeclId other = graph_find_decl(last, d->name);
    const Decl *o = other ? &last->decl.at[other - 1] : NULL;
    for (int k = 0; d->kind != DECL_INPUT && d->node && o && k < d->rank && k < o->rank; k++)
      if (dim_get(whole->dims, d->dims[k])->size != dim_get(last->dims, o->dims[k])->size) return d;
  }
  return NULL;
}

static bool hint_divide(Diag *d) {
  return diag_hint(d, "take a batch that divides the rows, or some rows: SOURCE(..., rows = A..B)");
}

// Checks that the inputs of graph `last` have the rows of `whole`: those of data have one size.
// Returns false after an error.
static bool rows_are_same(const Session *s, const Graph *whole, const Graph *last, DimId over) {
  for (uint32_t i = 0; i < whole->decl.n; i++) {
    const Decl *d = &whole->decl.at[i];
    DeclId other = graph_find_decl(last, d->name);
    const Decl *o = other ? &last->decl.at[other - 1] : NULL;
    for (int k = 0; d->kind == DECL_INPUT && d->node && o && k < d->rank && k < o->rank; k++) {
      const Dim *dim = dim_get(whole->dims, d->dims[k]);
      int64_t size = dim_get(last->dims, o->dims[k])->size;
      if (d->dims[k] == over || size == dim->size) continue;
      diag_error(s->diag, DIAG_BAD_DIM_SIZE, d->pos,
                 "the last, incomplete batch needs a model of its own size, in which %s is %lld, "
                 "and the rows of '%s' have %lld",
                 dim->name, (long long)size, d->name, (long long)dim->size);
      return hint_divide(s->diag);
    }
  }
  return true;
}

bool last_batch_sized(const Session *s, const Graph *whole, const Graph *last, DimId over,
                      bool fits) {
  const Decl *d = sized_by_rows(whole, last);
  if (!d) return fits || rows_are_same(s, whole, last, over);
  if (fits)
    diag_warning(s->diag, DIAG_ROW_WEIGHTED, d->pos,
                 "'%s' has elements for each row of a batch: the last, incomplete batch reads the "
                 "first of them",
                 d->name);
  else
    diag_error(s->diag, DIAG_BAD_DIM_SIZE, d->pos,
               "the last, incomplete batch needs a model of its own size, and '%s' has elements "
               "for each row of a batch",
               d->name);
  (void)hint_divide(s->diag);
  return fits;
}

bool last_batch_room(const Session *s, const Graph *whole, const Graph *last) {
  for (uint32_t i = 0; i < whole->output.n && i < last->output.n; i++) {
    const Output *o = &whole->output.at[i], *less = &last->output.at[i];
    for (int k = 0; k < o->rank && k < less->rank; k++) {
      const Dim *dim = dim_get(whole->dims, o->dims[k]);
      int64_t size = dim_get(last->dims, less->dims[k])->size;
      if (size <= dim->size) continue;
      diag_error(s->diag, DIAG_BAD_DIM_SIZE, graph_node(whole, o->value)->origin->pos,
                 "the last, incomplete batch gives %s more elements over %s than whole batches: "
                 "%lld, not %lld",
                 o->name, dim->name, (long long)size, (long long)dim->size);
      return hint_divide(s->diag);
    }
  }
  return true;
}

// -- the program --------------------------------------------------------------------------------

// Checks that `shared`, the program for whole batches, has every persistent tensor of p, the
// program for the last batch. A loop over rows that declares parameters in each round can give p
// parameters that `shared` lacks. Returns false after an error.
static bool all_shared(const Session *s, const Program *p, const Program *shared) {
  for (uint32_t t = 0; t < p->ntensors; t++) {
    const ProgTensor *x = &p->tensor[t];
    if (x->kind == TENSOR_CONSTANT || !tensor_is_persistent(p, t) ||
        program_tensor(shared, x->kind, x->name) >= 0)
      continue;
    diag_error(s->diag, DIAG_UNSUPPORTED, x->pos,
               "the last, incomplete batch reads '%s', which whole batches do not", x->name);
    return hint_divide(s->diag);
  }
  return true;
}

bool last_batch_open(Session *s, const Graph *last, int64_t rows, const Exec *share,
                     const Program *shared, LastBatch *out) {
  *out = (LastBatch){.rows = rows, .graph = last};
  if (!session_compile(s, last, "eval", NULL, NULL, &out->made) ||
      !all_shared(s, out->made.compiled->program, shared))
    return false;
  out->exec = session_exec(s, &out->made, share, NULL);
  return out->exec != NULL;
}

void last_batch_free(LastBatch *b) {
  exec_free(b->exec);
  compilation_free(&b->made);
  *b = (LastBatch){0};
}

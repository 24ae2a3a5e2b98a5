// Finds out whether a library GEMM can compute a contraction, and which dims play m, n, k and
// batch.
//
// A dim of both arguments and the result is a batch dim. A dim of both arguments only is part of k.
// A dim of one argument and the result is part of m or n. Dims nest in an operand if the stride of
// each is the size times the stride of the next. Several dims of one role act as one where they
// nest in both operands: [b, t] in x[b, t, d] and y[b, t, h]. Dims of m and n that do not nest
// become batch dims; dims of k must nest.
#include "codegen/values/gemm_form_internal.h"

enum { SMALLEST_WORK = 100000, SMALLEST_SIDE = 4 };

typedef struct GemmDims {
  const Graph *g;
  const Rows *rows;
  // Physical orders of the operands. c: the result. b: the argument that has the last dim of the
  // result, and so all dims of n. a: the other argument.
  const DimList *a, *b, *c;
  DimList m, n, k, batch;
} GemmDims;

bool contract_is_dot(const Graph *g, NodeId n) {
  const Node *x = graph_node(g, n);
  if (x->op != OP_CONTRACT) return false;
  const DimList *a = graph_node(g, x->args[0])->dims, *b = graph_node(g, x->args[1])->dims;
  return list_has_all(a, b) || list_has_all(b, a);
}

bool contract_sums_are_short(const Graph *g, const Node *x, DimId c) {
  enum { SHORT_SUM = 32, LEAST_COLUMNS = 8 };
  int64_t terms = 1;
  for (int i = 0; i < x->attr->ndims && terms <= SHORT_SUM; i++)
    terms *= dim_get(g->dims, x->attr->dims[i])->size;
  bool alone =
      dims_has(graph_node(g, x->args[0])->dims, c) != dims_has(graph_node(g, x->args[1])->dims, c);
  return c && alone && dim_get(g->dims, c)->size >= LEAST_COLUMNS && terms <= SHORT_SUM;
}

static bool always_full(const GemmDims *r, DimId d) {
  Slot s;
  return !extent_slot(r->g, r->rows, d, &s);
}

// Sets the roles of all dims. Summed dims of one element have none: they may be anywhere in both
// orders.
static bool find_roles(GemmDims *r, const DimList *result) {
  for (int i = 0; i < r->c->n; i++) {
    DimId d = r->c->at[i];
    bool a = dims_has(r->a, d), b = dims_has(r->b, d);
    DimList *list = a && b ? &r->batch : a ? &r->m : &r->n;
    list_insert(list, list->n, d);
  }
  for (int i = 0; i < r->a->n; i++) {
    DimId d = r->a->at[i];
    if (dims_has(result, d)) continue;
    if (!dims_has(r->b, d)) return false;
    if (dim_get(r->g->dims, d)->size == 1 && always_full(r, d)) continue;
    list_insert(&r->k, r->k.n, d);
  }
  for (int i = 0; i < r->b->n; i++)
    if (!dims_has(result, r->b->at[i]) && !dims_has(r->a, r->b->at[i])) return false;
  return true;
}

// Returns whether dims `outer` and `inner` act as one dim in an operand with physical order
// `order`. They do if the stride of `outer` is the size of `inner` times the stride of `inner`.
static bool nests(const GemmDims *r, const DimList *order, DimId outer, DimId inner) {
  return order_stride(r->g, order, outer) ==
         order_stride(r->g, order, inner) * dim_get(r->g->dims, inner)->size;
}

// Keeps in `list` only its longest suffix whose dims act as one dim in both operands, which have
// physical orders x and y. Moves the dims of `list` before this suffix to the end of `rest`.
static void keep_nest(const GemmDims *r, DimList *list, const DimList *x, const DimList *y,
                      DimList *rest) {
  int first = list->n - 1;
  while (first > 0 && always_full(r, list->at[first]) &&
         nests(r, x, list->at[first - 1], list->at[first]) &&
         nests(r, y, list->at[first - 1], list->at[first]))
    first--;
  for (int i = 0; i < first; i++) {
    list_insert(rest, rest->n, list->at[0]);
    dims_remove(list, list->at[0]);
  }
}

static int64_t stride_of(const GemmDims *r, const DimList *order, const DimList *role) {
  return role->n ? order_stride(r->g, order, role->at[role->n - 1]) : 0;
}

// Finds how an operand with physical order `order` is passed to the library: its leading dimension
// *ld in elements, and whether it is *transposed. `row`, `col`: the dims of its rows and columns.
// Returns false if neither the stride of the rows nor that of the columns is 1.
static bool leading(const GemmDims *r, const DimList *order, const DimList *row, const DimList *col,
                    bool *transposed, int64_t *ld) {
  int64_t rs = stride_of(r, order, row), cs = stride_of(r, order, col);
  int64_t nrow = list_elements(r->g->dims, row), ncol = list_elements(r->g->dims, col);
  if (ncol == 1) cs = 1;
  if (cs == 1 && (nrow == 1 || rs >= ncol)) {
    *transposed = false;
    *ld = nrow == 1 ? ncol : rs;
    return true;
  }
  if (nrow == 1) rs = 1;
  *transposed = true;
  *ld = ncol == 1 ? nrow : cs;
  return rs == 1 && *ld >= nrow;
}

static bool types_fit(const Graph *g, const Node *x) {
  Dtype t = (Dtype)x->type, a = (Dtype)graph_node(g, x->args[0])->type;
  if (graph_node(g, x->args[1])->type != a) return false;
  if (a == TYPE_BF16) return t == TYPE_BF16 || t == TYPE_F32;
  return (t == TYPE_F32 || t == TYPE_F64) && a == t;
}

// Returns whether the summed dims of the contraction act as one dim in both arguments. They do if
// the stride of each is the size times the stride of the next.
static bool k_nests(GemmDims *r) {
  DimList rest = {0};
  keep_nest(r, &r->k, r->a, r->b, &rest);
  return rest.n == 0;
}

bool gemm_form_in(const Graph *g, const Rows *rows, int64_t product_work, const Node *x,
                  const DimList *const arg[2], const DimList *c, GemmForm *out, const char **why) {
  *why = "its types are not those of the library";
  if (!types_fit(g, x)) return false;
  *why = "it has too few rows or columns for a library product";
  if (!c->n) return false;
  DimId last = order_last(g, c);
  bool swapped = !dims_has(arg[1], last);
  GemmDims r = {.g = g, .rows = rows, .c = c};
  r.a = arg[swapped];
  r.b = arg[!swapped];
  *why = "a summed dim belongs to one argument only";
  if (!find_roles(&r, x->dims)) return false;
  *why = "the last dim of the result belongs to both arguments";
  if (!dims_has(&r.n, last)) return false;
  *why = "the strides of its dims do not nest";
  if (!k_nests(&r)) return false;
  keep_nest(&r, &r.m, r.a, r.c, &r.batch);
  keep_nest(&r, &r.n, r.b, r.c, &r.batch);
  *out = (GemmForm){.swapped = swapped, .batch = r.batch, .m = r.m, .n = r.n, .k = r.k};
  bool tc;
  if (!leading(&r, r.a, &r.m, &r.k, &out->ta, &out->lda) ||
      !leading(&r, r.b, &r.k, &r.n, &out->tb, &out->ldb) ||
      !leading(&r, r.c, &r.m, &r.n, &tc, &out->ldc) || tc)
    return false;
  int64_t m = list_elements(g->dims, &r.m), cols = list_elements(g->dims, &r.n),
          k = list_elements(g->dims, &r.k);
  out->work = m * cols * k;
  *why = "it is small or skinny: the generated kernel is as fast";
  if (product_work) return out->work >= product_work;
  // Few rows read each weight once or few times. A generated kernel goes down the columns of a
  // large matrix, and waits for memory; the product of the library reads it line by line.
  if (m < SMALLEST_SIDE && x->type != TYPE_F64) return cols * k >= THIN_ELEMENTS;
  return out->work >= SMALLEST_WORK && m >= SMALLEST_SIDE && cols >= SMALLEST_SIDE;
}

int contract_panels(const Graph *g, const Order *order, NodeId n, DimList *columns) {
  const Node *x = graph_node(g, n);
  for (int i = 0; i < x->nargs && x->op == OP_CONTRACT && x->region; i++) {
    const Node *copy = graph_node(g, x->args[i]);
    if (copy->region == x->region || copy->op != OP_BROADCAST || copy->attr->ndims ||
        graph_node(g, copy->args[0])->op != OP_SPLIT)
      continue;
    DimList last = order->at[x->args[i]];
    while (last.n && !dim_in(last.at[last.n - 1], x->attr->ndims, x->attr->dims)) last.n--;
    *columns = list_minus(&order->at[x->args[i]], &last);
    return i;
  }
  return -1;
}

bool gemm_form(const Graph *g, const Order *order, const Rows *rows, const CodegenOptions *opt,
               NodeId n, GemmForm *out, const char **why) {
  const Node *x = graph_node(g, n);
  DimList columns;
  *why = "its weights are packed once, before the loop";
  if (contract_panels(g, order, n, &columns) >= 0) return false;
  const DimList *arg[2] = {&order->at[x->args[0]], &order->at[x->args[1]]};
  Dtype factors = (Dtype)graph_node(g, x->args[0])->type;
  *why = factors == TYPE_BF16 ? "its types are not those of the library" : NULL;
  if (!(opt->products & dtype_bit(factors))) return false;
  return gemm_form_in(g, rows, opt->product_work, x, arg, &order->at[n], out, why);
}

bool tail_reads(const GemmTail *t, NodeId n, NodeId a) {
  if (n == t->head) return true;
  for (int i = 0; i < GEMM_EXTRAS; i++)
    if (t->extra[i] == a && !(i == GEMM_AUX && t->keeps)) return true;
  return false;
}

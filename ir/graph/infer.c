// Type and dims of a node's result, from its arguments and attributes: the rules of the column
// `infer` of ops.def.
//
// A rule checks arguments and attributes and sets type and dims in the InferCall, or returns
// refuse(...). For the classes POINTWISE and REDUCE a rule leaves the dims to infer(), because the
// class determines them. Arguments and attributes may come from graph text. A rule therefore
// assumes only what infer() has checked: the number of arguments is right, and the dims, axes,
// types and declarations that are named exist.
#include "ir/graph/infer_internal.h"

#include <stdarg.h>
#include <stdio.h>

enum { WHY = 200 };

typedef struct InferCall {
  const Graph *g;
  Op op;
  int nargs;
  const Node **arg;
  const Attr *attr;
  // Type of the result. Before the rule runs, that of argument 0, or attr->type for a source.
  Dtype type;
  Dims dims; // dims of the result; empty before the rule runs
  char *why;
} InferCall;

static bool refuse(const InferCall *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
static bool refuse(const InferCall *c, const char *fmt, ...) {
  int n = snprintf(c->why, WHY, "%s: ", op_row(c->op)->text);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(c->why + n, (size_t)(WHY - n), fmt, ap);
  va_end(ap);
  return false;
}

// -- parts of rules -----------------------------------------------------------------------------

static const Dim *dim_of(const InferCall *c, DimId d) { return dim_get(c->g->dims, d); }
static const char *name_of(const InferCall *c, DimId d) { return dim_of(c, d)->name; }
static Dtype arg_type(const InferCall *c, int i) { return (Dtype)c->arg[i]->type; }

// Adds dim d to the result. Returns false if the result has another block (one processor's part) of
// the same whole dim.
static bool add_dim(InferCall *c, DimId d) {
  if (dims_has(&c->dims, d)) return true;
  for (int i = 0; i < c->dims.n; i++) {
    DimId other = c->dims.at[i];
    if (dim_of(c, other)->whole == dim_of(c, d)->whole)
      return refuse(c, "%s and %s are blocks of one dim", name_of(c, other), name_of(c, d));
  }
  return dims_add(c->g->dims, &c->dims, d) ||
         refuse(c, "a call takes at most %d dims in brackets", MAX_RANK);
}

static bool add_dims(InferCall *c, int n, const DimId *d) {
  for (int i = 0; i < n; i++)
    if (!add_dim(c, d[i])) return false;
  return true;
}

static bool add_dims_of(InferCall *c, int i) {
  return add_dims(c, c->arg[i]->dims->n, c->arg[i]->dims->at);
}

static bool union_of_args(InferCall *c) {
  if (c->nargs) c->dims = *c->arg[0]->dims;
  for (int i = 1; i < c->nargs; i++)
    if (!add_dims_of(c, i)) return false;
  return true;
}

static bool same_types(const InferCall *c, int first) {
  for (int i = first + 1; i < c->nargs; i++)
    if (c->arg[i]->type != c->arg[first]->type)
      return refuse(c, "arguments are %s and %s", dtype_text(arg_type(c, first)),
                    dtype_text(arg_type(c, i)));
  return true;
}

static bool want_type(const InferCall *c, int i, Dtype t) {
  return arg_type(c, i) == t ||
         refuse(c, "argument %d is %s, not %s", i + 1, dtype_text(arg_type(c, i)), dtype_text(t));
}

static bool want_float(const InferCall *c, int i) {
  return dtype_is_float(arg_type(c, i)) ||
         refuse(c, "argument %d is %s, not a float", i + 1, dtype_text(arg_type(c, i)));
}

static bool not_bool(const InferCall *c, int i) {
  return arg_type(c, i) != TYPE_BOOL || refuse(c, "argument %d is bool", i + 1);
}

static bool want_lists(const InferCall *c, int ndims, int nto) {
  if (c->attr->ndims == ndims && c->attr->nto == nto) return true;
  return refuse(c, "takes %d dim%s and %d new, not %d and %d", ndims, plural(ndims), nto,
                c->attr->ndims, c->attr->nto);
}

static bool want_axes(const InferCall *c) {
  return c->attr->axes.n > 0 || refuse(c, "names no axis");
}

static bool want_monoid(const InferCall *c) {
  return c->attr->monoid != MONOID_NONE || refuse(c, "names no monoid");
}

// Checks that attr.dims has no dim twice.
static bool distinct(const InferCall *c) {
  const Attr *t = c->attr;
  for (int i = 0; i < t->ndims; i++)
    for (int j = 0; j < i; j++)
      if (t->dims[i] == t->dims[j]) return refuse(c, "names %s twice", name_of(c, t->dims[i]));
  return true;
}

// Removes the dims attr.dims from `left`. If `left` lacks one of them, reports an error: the text
// `lacks`, followed by the name of the dim.
static bool remove_listed(const InferCall *c, Dims *left, const char *lacks) {
  if (!distinct(c)) return false;
  for (int i = 0; i < c->attr->ndims; i++) {
    DimId d = c->attr->dims[i];
    if (!dims_has(left, d)) return refuse(c, "%s %s", lacks, name_of(c, d));
    dims_remove(left, d);
  }
  return true;
}

// Adds the dims of argument 0 to the result, except attr.dims. The argument must have each dim of
// attr.dims.
static bool without_dims(InferCall *c) {
  Dims left = *c->arg[0]->dims;
  return remove_listed(c, &left, "the argument has no dim") && add_dims(c, left.n, left.at);
}

// Sets the dims of the result to those of all arguments, except attr.dims. Each dim of attr.dims
// must be a dim of some argument.
static bool summed_away(InferCall *c) {
  return union_of_args(c) && remove_listed(c, &c->dims, "no argument has the dim");
}

static bool reduced_dims(InferCall *c) {
  return c->attr->ndims ? without_dims(c) : refuse(c, "reduces over no dim");
}

// Adds the new dim `to`, which must not be in the result already.
static bool add_new(InferCall *c, DimId to) {
  if (dims_has(&c->dims, to)) return refuse(c, "the result would have %s twice", name_of(c, to));
  return add_dim(c, to);
}

// -- sources ------------------------------------------------------------------------------------

static bool infer_decl(InferCall *c) {
  const Attr *t = c->attr;
  if (t->decl == 0) return refuse(c, "names no declaration");
  const Decl *d = &c->g->decl.at[t->decl - 1];
  if (decl_op(d->kind) != c->op) return refuse(c, "%s is not declared so", d->name);
  c->type = d->type;
  if (t->ndims && t->ndims != d->rank)
    return refuse(c, "%s has %d dim%s, not %d", d->name, d->rank, plural(d->rank), t->ndims);
  for (int i = 0; i < d->rank; i++) {
    DimId found = t->ndims ? 0 : d->dims[i];
    for (int k = 0; k < t->ndims; k++)
      if (dim_of(c, t->dims[k])->whole == d->dims[i]) found = t->dims[k];
    if (!found) return refuse(c, "%s lacks a block of %s", d->name, name_of(c, d->dims[i]));
    if (!add_dim(c, found)) return false;
  }
  return true;
}

static bool infer_values(InferCall *c) {
  int64_t n;
  if (!distinct(c) || !add_dims(c, c->attr->ndims, c->attr->dims)) return false;
  return (dims_elements(c->g->dims, &c->dims, &n) && n == c->attr->ndata) ||
         refuse(c, "its dims do not hold %lld number%s", (long long)c->attr->ndata,
                plural(c->attr->ndata));
}

static bool infer_index(InferCall *c) {
  c->type = TYPE_I32;
  return want_lists(c, 1, 0) && add_dim(c, c->attr->dims[0]);
}

static bool infer_step(InferCall *c) {
  c->type = TYPE_I32;
  return true;
}

static bool infer_training(InferCall *c) {
  c->type = TYPE_BOOL;
  return true;
}

static bool infer_random(InferCall *c) {
  if (c->type != TYPE_F32 && c->type != TYPE_F64)
    return refuse(c, "draws are f32 or f64, not %s", dtype_text(c->type));
  return distinct(c) && add_dims(c, c->attr->ndims, c->attr->dims);
}

// -- types of pointwise operations and reductions -------------------------------------------------

static bool infer_any(InferCall *c) {
  (void)c;
  return true;
}

static bool infer_typed(InferCall *c) {
  c->type = c->attr->type;
  return true;
}

static bool infer_same(InferCall *c) { return not_bool(c, 0); }
static bool infer_bound(InferCall *c) { return want_lists(c, 1, 0) && want_type(c, 0, TYPE_I32); }
static bool infer_flt(InferCall *c) { return want_float(c, 0) && same_types(c, 0); }

static bool infer_boolean(InferCall *c) {
  c->type = TYPE_BOOL;
  for (int i = 0; i < c->nargs; i++)
    if (!want_type(c, i, TYPE_BOOL)) return false;
  return true;
}

static bool infer_bits(InferCall *c) {
  return want_type(c, 0, TYPE_I32) && want_type(c, 1, TYPE_I32);
}

static bool infer_join_any(InferCall *c) { return same_types(c, 0); }
static bool infer_join(InferCall *c) { return not_bool(c, 0) && same_types(c, 0); }

static bool infer_compare(InferCall *c) {
  c->type = TYPE_BOOL;
  return same_types(c, 0);
}

static bool infer_where(InferCall *c) {
  c->type = arg_type(c, 1);
  return want_type(c, 0, TYPE_BOOL) && same_types(c, 1);
}

static bool infer_arg_key(InferCall *c) {
  c->type = TYPE_U64;
  if (dtype_bytes(arg_type(c, 0)) > 4)
    return refuse(c, "%s does not fit the upper half of a key", dtype_text(arg_type(c, 0)));
  return want_type(c, 1, TYPE_I32);
}

static bool infer_key_index(InferCall *c) {
  c->type = TYPE_I32;
  return want_type(c, 0, TYPE_U64);
}

static bool infer_sum(InferCall *c) {
  if (!dtype_is_float(c->type)) c->type = dtype_accumulator(c->type);
  return true;
}

static bool infer_mean(InferCall *c) {
  if (!dtype_is_float(c->type)) c->type = TYPE_F32;
  return true;
}

// Checks an argmax: over one dim, or over several, whose positions fit in one i32, with the dim
// whose position is the result in attr.to.
static bool infer_arg(InferCall *c) {
  const Attr *t = c->attr;
  int64_t n = 1;
  c->type = TYPE_I32;
  if (t->ndims < 2) return want_lists(c, 1, 0);
  if (!want_lists(c, t->ndims, 1)) return false;
  bool listed = false;
  for (int i = 0; i < t->ndims; i++) {
    listed |= t->dims[i] == t->to[0];
    if (!size_mul(n, dim_of(c, t->dims[i])->size, &n) || n > INT32_MAX)
      return refuse(c, "its dims have more than 2^31 - 1 positions");
  }
  return listed || refuse(c, "%s is not one of its dims", name_of(c, t->to[0]));
}

// -- contraction, moves -------------------------------------------------------------------------

static bool infer_contract(InferCall *c) {
  c->type = c->attr->type;
  if (!same_types(c, 0) || !not_bool(c, 0)) return false;
  if (dtype_class(c->type) != dtype_class(arg_type(c, 0)))
    return refuse(c, "a product of %s cannot be summed to %s", dtype_text(arg_type(c, 0)),
                  dtype_text(c->type));
  return summed_away(c);
}

static bool infer_broadcast(InferCall *c) {
  if (!distinct(c) || !union_of_args(c)) return false;
  for (int i = 0; i < c->attr->ndims; i++)
    if (dims_has(&c->dims, c->attr->dims[i]))
      return refuse(c, "the argument has the dim %s already", name_of(c, c->attr->dims[i]));
  return add_dims(c, c->attr->ndims, c->attr->dims);
}

static int64_t whole_size(const InferCall *c, DimId d) {
  return dim_of(c, dim_of(c, d)->whole)->size;
}

static bool same_axes(const InferCall *c, DimId a, DimId b) {
  return axes_equal(dim_of(c, a)->axes, dim_of(c, b)->axes) ||
         refuse(c, "%s and %s are blocks over different axes", name_of(c, a), name_of(c, b));
}

// Checks an operation that replaces attr.dims[i] by attr.to[i]: both lists must have the same
// length, which is not 0. Adds the dims of the argument that are not in attr.dims to the result.
static bool replaces_pairs(InferCall *c) {
  return c->attr->ndims > 0 && want_lists(c, c->attr->nto, c->attr->ndims) && without_dims(c);
}

static bool infer_rename(InferCall *c) {
  if (!replaces_pairs(c)) return false;
  for (int i = 0; i < c->attr->nto; i++) {
    DimId from = c->attr->dims[i], to = c->attr->to[i];
    if (whole_size(c, from) != whole_size(c, to))
      return refuse(c, "%s has %lld element%s, %s has %lld", name_of(c, from),
                    (long long)whole_size(c, from), plural(whole_size(c, from)), name_of(c, to),
                    (long long)whole_size(c, to));
    if (!same_axes(c, from, to) || !add_new(c, to)) return false;
  }
  return true;
}

// Checks that dim `joined` can be split into the dims part[0..n), or merged from them; part[0] is
// the slowest. If `joined` and part[0] are split over axes, each block of `joined` must have
// complete rows: one row for each position of part[0] in its block. For example 12 = 6 x 2 over 4
// processors is refused. A block of 6 then has 2 positions, so 2 rows of 2 elements, but a block of
// 12 has 3 elements. Blocks nest, so the check is repeated for each axis.
static bool parts_fit(const InferCall *c, DimId joined, int n, const DimId *part) {
  int64_t rest = 1;
  for (int i = 1; i < n; i++) {
    if (dim_of(c, part[i])->axes.n)
      return refuse(c, "only the slow dim may be split, not %s", name_of(c, part[i]));
    if (!size_mul(rest, dim_of(c, part[i])->size, &rest))
      return refuse(c, "its dims are too large");
  }
  if (!same_axes(c, joined, part[0])) return false;
  Axes axes = dim_of(c, joined)->axes;
  int64_t a = whole_size(c, joined), b = whole_size(c, part[0]), product;
  for (int level = 0;; level++) {
    if (!size_mul(b, rest, &product) || product != a)
      return refuse(c, "%s has %lld element%s, its parts have %lld x %lld", name_of(c, joined),
                    (long long)a, plural(a), (long long)b, (long long)rest);
    if (level == axes.n) return true;
    int64_t p = c->g->mesh->axis[axes.at[level]].size;
    a = ceil_div(a, p);
    b = ceil_div(b, p);
  }
}

static bool infer_split(InferCall *c) {
  if (c->attr->nto == 0 || !want_lists(c, 1, c->attr->nto) || !without_dims(c)) return false;
  for (int i = 0; i < c->attr->nto; i++)
    if (!add_new(c, c->attr->to[i])) return false;
  return parts_fit(c, c->attr->dims[0], c->attr->nto, c->attr->to);
}

static bool infer_merge(InferCall *c) {
  if (c->attr->ndims == 0 || !want_lists(c, c->attr->ndims, 1) || !without_dims(c)) return false;
  return add_new(c, c->attr->to[0]) && parts_fit(c, c->attr->to[0], c->attr->ndims, c->attr->dims);
}

// -- lookups ------------------------------------------------------------------------------------

static bool infer_take(InferCall *c) {
  return want_lists(c, 1, 0) && want_type(c, 1, TYPE_I32) && without_dims(c) && add_dims_of(c, 1);
}

static bool infer_scatter(InferCall *c) {
  Dtype type = arg_type(c, 0);
  if (c->attr->monoid == MONOID_MAX && type != TYPE_I32 && type != TYPE_U64)
    return refuse(c, "the terms of a maximum are i32 or keys, not %s", dtype_text(type));
  return want_lists(c, c->attr->ndims, 1) && not_bool(c, 0) && want_type(c, 1, TYPE_I32) &&
         summed_away(c) && add_new(c, c->attr->to[0]);
}

// -- windows and ordered ops --------------------------------------------------------------------

// Checks that no position of a window overflows 64 bits.
static bool factors_fit(const InferCall *c, const Affine *f) {
  const int64_t far = (int64_t)1 << 61, step = (int64_t)1 << 30;
  if (f->divisor <= 0) return refuse(c, "its divisor is not positive");
  if (f->out < -step || f->out > step || f->tap < -step || f->tap > step || f->divisor > step ||
      f->offset < -far || f->offset > far)
    return refuse(c, "its factors are too large");
  return true;
}

static bool infer_window(InferCall *c) {
  const Attr *t = c->attr;
  if (t->ndims != 1 || t->nto > 2) return want_lists(c, 1, t->nto > 2 ? 2 : t->nto);
  if (!factors_fit(c, &t->affine)) return false;
  if (t->nto > 1 && (t->to[1] == t->dims[0] || t->to[1] == t->to[0]))
    return refuse(c, "names %s twice", name_of(c, t->to[1]));
  if ((t->nto > 0) != (t->affine.out != 0) || (t->nto < 2 && t->affine.tap))
    return refuse(c, "its factors do not go with its dims");
  if (!without_dims(c)) return false;
  if (t->nto && !add_new(c, t->to[0])) return false;
  return t->nto < 2 || add_dim(c, t->to[1]);
}

static bool infer_window_at(InferCall *c) {
  if (!want_type(c, 1, TYPE_I32)) return false;
  return c->arg[1]->dims->n ? refuse(c, "the start is not a scalar") : infer_window(c);
}

static bool infer_ordered(InferCall *c) {
  return want_lists(c, 1, 0) && not_bool(c, 0) && without_dims(c) && add_dim(c, c->attr->dims[0]);
}

static bool infer_order_index(InferCall *c) {
  c->type = TYPE_I32;
  return infer_ordered(c);
}

static bool infer_top_k(InferCall *c) {
  c->type = TYPE_I32;
  if (!want_lists(c, 1, 1) || !not_bool(c, 0) || !without_dims(c)) return false;
  DimId from = c->attr->dims[0], to = c->attr->to[0];
  if (dim_of(c, to)->size > dim_of(c, from)->size)
    return refuse(c, "%s has more elements than %s", name_of(c, to), name_of(c, from));
  return add_new(c, to);
}

// -- operations on matrices ---------------------------------------------------------------------

static MatrixKind matrix_kind_of(const InferCall *c) {
  MatrixKind k;
  if (!op_matrix(c->op, &k)) BUG("%s is no matrix op", op_row(c->op)->text);
  return k;
}

// Adds the dims of argument i, except attr.dims.
static bool add_other_dims(InferCall *c, int i) {
  const Dims *dims = c->arg[i]->dims;
  for (int k = 0; k < dims->n; k++)
    if (!dim_in(dims->at[k], c->attr->ndims, c->attr->dims) && !add_dim(c, dims->at[k]))
      return false;
  return true;
}

static bool want_shape(const InferCall *c, MatrixShape shape) {
  DimId rows = c->attr->dims[0], columns = c->attr->dims[1];
  int64_t m = dim_of(c, rows)->size, n = dim_of(c, columns)->size;
  return shape == MATRIX_ANY || m == n || (shape == MATRIX_TALL && m > n) ||
         refuse(c, "the matrix has the wrong shape: %s and %s", name_of(c, rows),
                name_of(c, columns));
}

// The dims of a STACK: its rows and its columns.
static bool add_stack(InferCall *c, MatrixKind kind) {
  const DimId *d = c->attr->dims, *to = c->attr->to;
  int64_t m = dim_of(c, d[0])->size, n = dim_of(c, d[1])->size;
  if (dim_of(c, to[0])->size != matrix_stack(kind, m, n) ||
      dim_of(c, to[1])->size != (m < n ? m : n))
    return refuse(c, "%s and %s have the wrong size", name_of(c, to[0]), name_of(c, to[1]));
  return add_new(c, to[0]) && add_new(c, to[1]);
}

// The second argument of a SOLUTION has the dim of rows, in whose place the result has the dim of
// columns.
static bool want_right_side(InferCall *c) {
  const Dims *b = c->arg[1]->dims;
  const DimId *d = c->attr->dims;
  if (!dims_has(b, d[0])) return refuse(c, "argument 2 has no dim %s", name_of(c, d[0]));
  if (dims_has(b, d[1])) return refuse(c, "argument 2 has the dim %s", name_of(c, d[1]));
  return add_other_dims(c, 1) && add_dim(c, d[1]);
}

static bool infer_matrix(InferCall *c) {
  MatrixKind kind = matrix_kind_of(c);
  const MatrixRow *row = &matrix_rows[kind];
  if (arg_type(c, 0) != TYPE_F32 && arg_type(c, 0) != TYPE_F64)
    return refuse(c, "argument 1 is %s, not f32 or f64", dtype_text(arg_type(c, 0)));
  if (!want_lists(c, 2, row->result == MATRIX_STACK ? 2 : 0) || !same_types(c, 0) || !distinct(c))
    return false;
  for (int i = 0; i < 2; i++)
    if (!dims_has(c->arg[0]->dims, c->attr->dims[i]))
      return refuse(c, "argument 1 has no dim %s", name_of(c, c->attr->dims[i]));
  if (!want_shape(c, row->shape) || !add_other_dims(c, 0)) return false;
  if (row->result == MATRIX_STACK) return add_stack(c, kind);
  if (row->result == MATRIX_SAME) return add_dims(c, 2, c->attr->dims);
  return row->result == MATRIX_NUMBER || want_right_side(c);
}

// -- loops --------------------------------------------------------------------------------------

static bool want_region(const InferCall *c) {
  return c->attr->region > 0 || refuse(c, "names no region");
}

// Checks that argument i is in region r or in a region that encloses r.
static bool want_place(const InferCall *c, int i, RegionId r) {
  return region_encloses(c->g, c->arg[i]->region, r) ||
         refuse(c, "argument %d belongs to another loop", i + 1);
}

static bool infer_carry(InferCall *c) {
  return want_region(c) && want_place(c, 0, region_get(c->g, c->attr->region)->parent) &&
         union_of_args(c);
}

static bool infer_at(InferCall *c) {
  if (!want_region(c) || !want_lists(c, 1, 0)) return false;
  const Region *r = region_get(c->g, c->attr->region);
  if (c->attr->dims[0] != r->t && dim_of(c, c->attr->dims[0])->whole != r->t)
    return refuse(c, "the loop does not run over %s", name_of(c, c->attr->dims[0]));
  return want_place(c, 0, r->parent) && without_dims(c);
}

static bool infer_scan(InferCall *c) {
  c->type = TYPE_BOOL;
  return want_region(c);
}

static bool want_scan(const InferCall *c) {
  return c->arg[0]->op == OP_SCAN || refuse(c, "argument 1 is not a scan");
}

static bool infer_final(InferCall *c) {
  c->type = arg_type(c, 1);
  if (!want_scan(c)) return false;
  if (c->arg[1]->op != OP_CARRY || c->arg[1]->region != c->arg[0]->attr->region)
    return refuse(c, "argument 2 is not a carry of the scan");
  return add_dims_of(c, 1);
}

static bool infer_collect(InferCall *c) {
  c->type = arg_type(c, 1);
  if (!want_scan(c) || !want_lists(c, 1, 0)) return false;
  RegionId r = c->arg[0]->attr->region;
  if (c->attr->dims[0] != region_get(c->g, r)->t) return refuse(c, "names not the dim of the loop");
  return want_place(c, 1, r) && add_dims_of(c, 1) && add_new(c, c->attr->dims[0]);
}

static bool infer_pin(InferCall *c) {
  if (c->attr->ndims != c->attr->axes.n) return refuse(c, "its lists differ in length");
  for (int i = 0; i < c->attr->ndims; i++)
    if (!dims_has(c->arg[0]->dims, c->attr->dims[i]))
      return refuse(c, "the argument has no dim %s", name_of(c, c->attr->dims[i]));
  return union_of_args(c);
}

// -- collectives --------------------------------------------------------------------------------

static bool infer_all_reduce(InferCall *c) {
  return want_axes(c) && want_monoid(c) && union_of_args(c);
}

static bool infer_to_partial(InferCall *c) {
  return want_axes(c) && not_bool(c, 0) && union_of_args(c);
}

// Checks that dim `fine` is dim `coarse` split further over the axes of the collective. A
// collective gathers the last axes of a dim, or adds axes at the end, because blocks nest.
static bool nests(const InferCall *c, DimId fine, DimId coarse) {
  Axes all = dim_of(c, coarse)->axes, more = c->attr->axes;
  bool fits = all.n + more.n <= MAX_AXES;
  for (int i = 0; fits && i < more.n; i++) all.at[all.n++] = more.at[i];
  return (fits && axes_equal(all, dim_of(c, fine)->axes)) ||
         refuse(c, "%s is not %s split further by its axes", name_of(c, fine), name_of(c, coarse));
}

static bool blocks_follow(const InferCall *c) {
  const DimId *from = c->attr->dims, *to = c->attr->to;
  if (c->op == OP_PERMUTE) return true;
  if (c->op == OP_HALO)
    return want_lists(c, 1, 1) &&
           (dim_of(c, to[0])->out || refuse(c, "%s is not a footprint dim", name_of(c, to[0])));
  if (c->op == OP_REDUCE_SCATTER && !want_monoid(c)) return false;
  int n = c->op == OP_ALL_TO_ALL ? 2 : 1;
  if (!want_lists(c, n, n)) return false;
  if (c->op == OP_ALL_TO_ALL) return nests(c, from[0], to[0]) && nests(c, to[1], from[1]);
  return c->op == OP_ALL_GATHER ? nests(c, from[0], to[0]) : nests(c, to[0], from[0]);
}

static bool infer_reblock(InferCall *c) {
  if (!want_axes(c) || !replaces_pairs(c)) return false;
  for (int i = 0; i < c->attr->nto; i++) {
    DimId from = c->attr->dims[i], to = c->attr->to[i];
    if (dim_of(c, from)->whole != dim_of(c, to)->whole)
      return refuse(c, "%s is not a block of the dim of %s", name_of(c, to), name_of(c, from));
    if (!add_dim(c, to)) return false;
  }
  return blocks_follow(c);
}

// -- infer --------------------------------------------------------------------------------------

typedef bool InferRule(InferCall *c);
static InferRule *const rules[OP_COUNT] = {
#define OP(id, text, args, cls, flags, attrs, linear, monoid, rows, memory, cost, infer, eval,     \
           grad, emit)                                                                             \
  infer_##infer,
#include "ir/graph/ops.def"
};

static bool list_exists(const InferCall *c, int n, const DimId *list) {
  if (n > MAX_RANK) return refuse(c, "a call takes at most %d dims in brackets", MAX_RANK);
  for (int i = 0; i < n; i++)
    if (list[i] == 0 || list[i] > dim_count(c->g->dims))
      return refuse(c, "there is no dim %u", list[i]);
  return true;
}

static bool attr_exists(const InferCall *c) {
  const Attr *t = c->attr;
  if ((unsigned)t->type >= TYPE_COUNT)
    return refuse(c, "there is no element type %d", (int)t->type);
  if ((unsigned)t->monoid >= MONOID_COUNT)
    return refuse(c, "there is no monoid %d", (int)t->monoid);
  if (t->region > c->g->region.n) return refuse(c, "there is no region %u", t->region);
  if (t->decl > c->g->decl.n) return refuse(c, "there is no declaration %u", t->decl);
  if (t->axes.n > MAX_AXES) return refuse(c, "more than %d axes", MAX_AXES);
  for (int i = 0; i < t->axes.n; i++) {
    if (t->axes.at[i] >= c->g->mesh->naxes)
      return refuse(c, "the mesh has no axis %d", t->axes.at[i]);
    for (int j = 0; j < i; j++)
      if (t->axes.at[i] == t->axes.at[j]) return refuse(c, "names an axis twice");
  }
  return list_exists(c, t->ndims, t->dims) && list_exists(c, t->nto, t->to);
}

bool infer(const Graph *g, Op op, int nargs, const NodeId *args, const Attr *attr, Dtype *type,
           Dims *dims, char *why) {
  const Node *arg[MAX_ARGS];
  InferCall c = {.g = g, .op = op, .nargs = nargs, .arg = arg, .attr = attr, .why = why};
  int want = op_row(op)->nargs;
  if (want >= 0 && nargs != want)
    return refuse(&c, "takes %d argument%s, not %d", want, plural(want), nargs);
  if (nargs > MAX_ARGS) return refuse(&c, "more than %d arguments", MAX_ARGS);
  for (int i = 0; i < nargs; i++) {
    if (args[i] == 0 || args[i] > graph_count(g))
      return refuse(&c, "there is no node %%%u", args[i]);
    arg[i] = graph_node(g, args[i]);
  }
  c.type = nargs ? arg_type(&c, 0) : attr->type;
  if (!attr_exists(&c) || !rules[op](&c)) return false;
  if (op_row(op)->cls == POINTWISE && !union_of_args(&c)) return false;
  if (op_row(op)->cls == REDUCE && !reduced_dims(&c)) return false;
  int64_t elements;
  if (!dims_elements(g->dims, &c.dims, &elements)) return refuse(&c, "the result is too large");
  *type = c.type;
  *dims = c.dims;
  return true;
}

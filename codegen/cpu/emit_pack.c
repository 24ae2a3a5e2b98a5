// Packs the factors of a product: copies the elements that a block needs into scratch memory, in
// the order in which the tiles read them. In: the plan of a product (ProductPlan), the current slab
// (Emit.slab_from, slab_to). Out: LLVM IR in the current function.
//
// The whole expression of a factor is evaluated, once for each element: loads with any stride,
// guards, gathers, casts, activations. A slab is a part of the inner loops, here called depth.
//
//   right factor   panels of lanes * vecs columns; in a panel a row of columns for each depth
//   left factor    one tile of rows: a row of depths for each row, or the other way round
//
// The lanes of a vector are neighbours in memory where possible. If the right factor is contiguous
// along the depth, blocks of lanes * lanes elements are transposed in registers.
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <string.h>

enum { UNROLLED = 4, CHEAP_STMTS = 6 };

// A factor that is packed. Its code is emitted with a copy of the kernel whose vector loop is the
// loop of the lanes.
typedef struct Pack {
  Emit e;
  Kernel k;
  int root; // the statement that is the factor
  bool *needed;
  LoopSet open;           // the loops that are open
  LLVMValueRef to;        // where the packed elements begin
  LLVMValueRef from, end; // of the right factor: its columns
} Pack;

typedef struct Scope {
  LLVMValueRef *addr, *value;
  LoopSet open;
} Scope;

typedef void PackBody(Pack *p, LLVMValueRef depth);

static LoopSet loop_bit(int l) { return (LoopSet)1 << l; }

static Dtype factor_type(const Emit *e) { return e->k->stmt[e->plan.product.form.sum].type; }

// Emits the statements of the factor that depend on open loops only.
static void open_statements(Pack *p) {
  for (int id = 0; id <= p->root; id++)
    if (p->needed[id] && !p->e.value[instance_id(id, 0, 0)] && !(p->e.plan.dep[id] & ~p->open))
      emit_stmt(&p->e, id);
}

static Scope scope_enter(Pack *p, int l, LLVMValueRef counter) {
  Emit *e = &p->e;
  size_t values = (size_t)e->k->nstmts * TILE * sizeof *e->value;
  Scope s = {.value = arena_copy(e->arena, e->value, values), .open = p->open};
  s.addr = enter_loop(e, l, counter);
  p->open |= loop_bit(l);
  open_statements(p);
  return s;
}

static void scope_leave(Pack *p, const Scope *s) {
  Emit *e = &p->e;
  leave_loop(e, s->addr);
  memcpy(e->value, s->value, (size_t)e->k->nstmts * TILE * sizeof *e->value);
  p->open = s->open;
}

// Begins the code that packs the factor `root` with lanes along loop `lanes`. The open loops are
// the outer loops before the span and the inner loops before the slab.
static Pack *pack_begin(const Emit *e, int root, int lanes, LLVMValueRef to) {
  Pack *p = arena_new_of(e->arena, Pack);
  *p = (Pack){.e = *e, .k = *e->k, .root = root, .to = to};
  p->k.vector = (int8_t)lanes;
  p->k.rows = -1;
  p->e.k = &p->k;
  p->e.rows = p->e.vecs = 1;
  p->e.in_vector = false;
  p->needed = arena_array(e->arena, bool, e->k->nstmts + 1);
  needed_stmts(e->k, root, p->needed);
  p->e.value = arena_array(e->arena, LLVMValueRef, (e->k->nstmts + 1) * TILE);
  for (int id = 0; id < e->k->nstmts; id++)
    if (e->plan.place[id] == PLACE_ENTRY)
      p->e.value[instance_id(id, 0, 0)] = e->value[instance_id(id, 0, 0)];
  for (int l = 0; l < e->plan.product.form.span; l++) p->open |= loop_bit(l);
  for (int i = 0; i < e->plan.slab_loop; i++) p->open |= loop_bit(e->k->nouter + i);
  emit_mask_off(&p->e);
  open_statements(p);
  return p;
}

// The rounds of inner loop i that are in the current slab.
static LLVMValueRef slab_first(Emit *e, int i) {
  return i == e->plan.slab_loop ? e->slab_from : i64_of(e, 0);
}
static LLVMValueRef slab_end(Emit *e, int i) {
  return i == e->plan.slab_loop ? e->slab_to : e->extent[e->k->nouter + i];
}

// Opens the inner loops of the slab from number i on, without loop `skip`. depth: the number of the
// current element in the slab.
static void depth_loops(Pack *p, int i, LLVMValueRef depth, int skip, PackBody *body) {
  Emit *e = &p->e;
  int l = e->k->nouter + i;
  if (i == e->k->ninner) {
    body(p, depth);
    return;
  }
  if (l == skip) {
    depth_loops(p, i + 1, depth, skip, body);
    return;
  }
  LLVMValueRef from = slab_first(e, i), step = i64_of(e, 1);
  for (int j = i + 1; j < e->k->ninner; j++) step = int_mul(e, step, e->extent[e->k->nouter + j]);
  EmitLoop loop = loop_begin(e, from, slab_end(e, i), i64_of(e, 1));
  Scope s = scope_enter(p, l, loop.var);
  depth = int_add(e, depth, int_mul(e, int_sub(e, loop.var, from), step));
  depth_loops(p, i + 1, depth, skip, body);
  scope_leave(p, &s);
  loop_end(e, &loop);
}

static LLVMValueRef packed_at(Pack *p, LLVMValueRef index) {
  return emit_at(&p->e, reg_type(&p->e, factor_type(&p->e)), p->to, index);
}

static void store_packed(Pack *p, LLVMValueRef at, LLVMValueRef x) {
  LLVMValueRef st = LLVMBuildStore(p->e.b, emit_splat(&p->e, x), at);
  LLVMSetAlignment(st, (unsigned)dtype_bytes(factor_type(&p->e)));
}

// Emits the factor for `vecs` vectors from element `at` of the loop of the lanes on, and stores
// them from element `index` of the packed factor on. left: the lanes in use of the last vector;
// NULL: all.
static void pack_lanes(Pack *p, LLVMValueRef at, int vecs, LLVMValueRef left, LLVMValueRef index) {
  Emit *e = &p->e;
  e->vecs = vecs;
  e->in_vector = true;
  if (left) emit_mask(e, left);
  Scope s = scope_enter(p, e->k->vector, at);
  for (int v = 0; v < vecs; v++)
    store_packed(p, packed_at(p, int_add(e, index, i64_of(e, (int64_t)v * e->plan.lanes))),
                 value_at(e, p->root, 0, v));
  scope_leave(p, &s);
  emit_mask_off(e);
  e->in_vector = false;
}

// -- the right factor ---------------------------------------------------------------------------

static int64_t panel_columns(const Emit *e) { return (int64_t)e->plan.lanes * e->plan.vecs; }

int64_t right_elements(const Emit *e) {
  return e->plan.scratch_row * (e->plan.product.depth + e->plan.lanes);
}

// Returns the elements from the beginning of a panel to the next.
static int64_t panel_elements(const Emit *e) {
  return panel_columns(e) * (e->plan.product.depth + e->plan.lanes);
}

static void pack_columns(Pack *p, LLVMValueRef depth) {
  Emit *e = &p->e;
  int64_t wide = panel_columns(e), a_column = panel_elements(e) / wide;
  LLVMValueRef row = int_mul(e, depth, i64_of(e, wide)), length = int_sub(e, p->end, p->from);
  LLVMValueRef rest = LLVMBuildURem(e->b, length, i64_of(e, wide), "");
  LLVMValueRef middle = int_sub(e, p->end, rest);
  EmitLoop l = loop_begin(e, p->from, middle, i64_of(e, wide));
  LLVMValueRef panel = int_mul(e, int_sub(e, l.var, p->from), i64_of(e, a_column));
  pack_lanes(p, l.var, e->plan.vecs, NULL, int_add(e, panel, row));
  loop_end(e, &l);
  if (!e->plan.product.vecs_left) return;
  panel = int_mul(e, int_sub(e, middle, p->from), i64_of(e, a_column));
  row = int_add(e, panel, row);
  l = loop_begin(e, middle, p->end, i64_of(e, e->plan.lanes));
  LLVMValueRef index = int_add(e, row, int_sub(e, l.var, middle));
  pack_lanes(p, l.var, 1, int_sub(e, p->end, l.var), index);
  loop_end(e, &l);
}

// Transposes a square of n vectors of n lanes, in log2(n) steps that exchange blocks of lanes.
static void transpose(Emit *e, LLVMValueRef *x) {
  int n = e->plan.lanes;
  for (int half = n / 2; half >= 1; half /= 2)
    for (int i = 0; i < n; i++) {
      if (i & half) continue;
      LLVMValueRef low[64], high[64], a = x[i], b = x[i + half];
      for (int j = 0; j < n; j++) {
        low[j] = LLVMConstInt(e->i32, (unsigned)(j & half ? n + j - half : j), false);
        high[j] = LLVMConstInt(e->i32, (unsigned)(j & half ? n + j : j + half), false);
      }
      x[i] = LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(low, (unsigned)n), "");
      x[i + half] = LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(high, (unsigned)n), "");
    }
}

// Packs lanes * lanes elements from column `column` and element `at` of the last inner loop on.
// index: where the first of them is packed. left: see pack_lanes.
static void pack_square(Pack *p, int columns, LLVMValueRef column, LLVMValueRef at,
                        LLVMValueRef left, LLVMValueRef index) {
  Emit *e = &p->e;
  LLVMValueRef x[64], last = int_sub(e, p->end, i64_of(e, 1));
  if (left) emit_mask(e, left);
  for (int j = 0; j < e->plan.lanes; j++) {
    LLVMValueRef c = int_min(e, int_add(e, column, i64_of(e, j)), last);
    Scope outer = scope_enter(p, columns, c);
    e->in_vector = true;
    Scope inner = scope_enter(p, e->k->vector, at);
    x[j] = emit_splat(e, value_at(e, p->root, 0, 0));
    scope_leave(p, &inner);
    e->in_vector = false;
    scope_leave(p, &outer);
  }
  emit_mask_off(e);
  transpose(e, x);
  for (int j = 0; j < e->plan.lanes; j++)
    store_packed(p, packed_at(p, int_add(e, index, i64_of(e, j * panel_columns(e)))), x[j]);
}

// Packs the columns p->from..p->end, which are at most Emit.lanes, along the last inner loop.
static void pack_squares(Pack *p, LLVMValueRef depth) {
  Emit *e = &p->e;
  int i = e->k->ninner - 1;
  int64_t lanes = e->plan.lanes;
  LLVMValueRef from = slab_first(e, i), to = slab_end(e, i), length = int_sub(e, to, from);
  LLVMValueRef rest = LLVMBuildURem(e->b, length, i64_of(e, lanes), "");
  LLVMValueRef middle = int_sub(e, to, rest);
  for (int part = 0; part < 2; part++) {
    EmitLoop l = part ? loop_begin(e, middle, to, i64_of(e, lanes))
                      : loop_begin(e, from, middle, i64_of(e, lanes));
    LLVMValueRef at = int_add(e, depth, int_sub(e, l.var, from));
    pack_square(p, e->k->nouter - 1, p->from, l.var, part ? rest : NULL,
                int_mul(e, at, i64_of(e, panel_columns(e))));
    loop_end(e, &l);
  }
}

static void pack_transposed(Pack *p) {
  Emit *e = &p->e;
  int64_t wide = panel_columns(e);
  LLVMValueRef from = p->from, to = p->to;
  EmitLoop l = loop_begin(e, from, p->end, i64_of(e, e->plan.lanes));
  LLVMValueRef at = int_sub(e, l.var, from);
  LLVMValueRef within = LLVMBuildURem(e->b, at, i64_of(e, wide), "");
  LLVMValueRef panel = int_mul(e, int_sub(e, at, within), i64_of(e, panel_elements(e) / wide));
  p->from = l.var;
  p->to = packed_at(p, int_add(e, panel, within));
  depth_loops(p, e->plan.slab_loop, i64_of(e, 0), e->k->vector, pack_squares);
  p->from = from;
  p->to = to;
  loop_end(e, &l);
}

void pack_right(Emit *e, LLVMValueRef from, LLVMValueRef columns_end, LLVMValueRef to) {
  Pack *p = pack_begin(e, e->plan.product.form.right, e->plan.product.right_lanes, to);
  p->from = from;
  p->end = columns_end;
  if (e->plan.product.right_lanes >= e->k->nouter)
    pack_transposed(p);
  else
    depth_loops(p, e->plan.slab_loop, i64_of(e, 0), -1, pack_columns);
}

// -- the left factor ----------------------------------------------------------------------------

static bool along_rows(const Emit *e) { return e->plan.product.left_by_rows; }

static int64_t up_to_lanes(const Emit *e, int64_t n) {
  return ceil_div(n, e->plan.lanes) * e->plan.lanes;
}

int64_t left_row_step(const Emit *e) {
  return along_rows(e) ? 1 : up_to_lanes(e, e->plan.product.depth) + e->plan.lanes;
}

int64_t left_depth_step(const Emit *e) { return along_rows(e) ? up_to_lanes(e, e->plan.rows) : 1; }

int64_t left_elements(const Emit *e) {
  return along_rows(e) ? left_depth_step(e) * e->plan.product.depth
                       : left_row_step(e) * e->plan.rows;
}

static bool is_cheap(const Pack *p) {
  int n = 0;
  for (int id = 0; id <= p->root; id++)
    n += p->needed[id] && p->k.stmt[id].level == LEVEL_INNER ? op_row(p->k.stmt[id].op)->cost + 1
                                                             : 0;
  return n <= CHEAP_STMTS;
}

static void pack_row(Pack *p, LLVMValueRef depth) {
  Emit *e = &p->e;
  int i = e->k->ninner - 1, vecs = is_cheap(p) ? UNROLLED : 1;
  int64_t wide = (int64_t)e->plan.lanes * vecs;
  LLVMValueRef from = slab_first(e, i), to = slab_end(e, i), length = int_sub(e, to, from);
  LLVMValueRef middle = int_sub(e, to, LLVMBuildURem(e->b, length, i64_of(e, wide), ""));
  for (int part = 0; part < 2; part++) {
    EmitLoop l = part ? loop_begin(e, middle, to, i64_of(e, e->plan.lanes))
                      : loop_begin(e, from, middle, i64_of(e, wide));
    LLVMValueRef at = int_add(e, depth, int_sub(e, l.var, from));
    pack_lanes(p, l.var, part ? 1 : vecs, part ? int_sub(e, to, l.var) : NULL, at);
    loop_end(e, &l);
  }
}

static void pack_left_rows(Pack *p, LLVMValueRef depth) {
  Emit *e = &p->e;
  LLVMValueRef index = int_mul(e, depth, i64_of(e, left_depth_step(e)));
  for (int64_t j = 0; j < e->plan.rows; j += e->plan.lanes) {
    LLVMValueRef left = int_sub(e, p->end, i64_of(e, j)), none = i64_of(e, 0);
    left = pick(e, int_less(e, left, none), none, left);
    LLVMValueRef at = int_add(e, p->from, i64_of(e, j));
    pack_lanes(p, at, 1, left, int_add(e, index, i64_of(e, j)));
  }
}

void pack_left(Emit *e, const Units *u, LLVMValueRef rows, LLVMValueRef to) {
  const ProductPlan *x = &e->plan.product;
  int first = x->form.span, last = e->k->rows;
  if (along_rows(e)) {
    Pack *p = pack_begin(e, x->form.left, last, to);
    p->from = emit_read(e, e->i64, u->cell[last]);
    p->end = rows;
    depth_loops(p, e->plan.slab_loop, i64_of(e, 0), -1, pack_left_rows);
    LLVMBuildStore(e->b, int_add(e, p->from, rows), u->cell[last]);
    return;
  }
  EmitLoop row = loop_begin(e, i64_of(e, 0), rows, i64_of(e, 1));
  Pack *p = pack_begin(e, x->form.left, x->left_lanes, to);
  p->to = packed_at(p, int_mul(e, row.var, i64_of(e, left_row_step(e))));
  LLVMValueRef *saved = addresses_save(e);
  for (int l = first; l <= last; l++) scope_enter(p, l, emit_read(e, e->i64, u->cell[l]));
  depth_loops(p, e->plan.slab_loop, i64_of(e, 0), x->left_lanes, pack_row);
  leave_loop(e, saved);
  units_advance(e, u, first, last, 1);
  loop_end(e, &row);
}
#endif

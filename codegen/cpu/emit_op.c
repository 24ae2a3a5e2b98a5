// Pointwise ops on one instance: the column `emit` of ops.def, one rule a name.
//
// Sums of a reduction carry the flags reassoc, nsz and contract, products contract, so that a sum
// of products uses fused multiply-adds in any order. Sums of two values carry none: x - max must be
// what it says in every kernel. Comparisons and selections carry none, so that NaN survives.
// Maximum and minimum let NaN win. Integer division never traps.
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM

// One call: arguments in the register form of s->type unless the rule says otherwise (raw).
typedef struct OpCall {
  const KStmt *s;
  Dtype type;    // of the result
  Dtype from[3]; // of the arguments as computed
  LLVMValueRef x[3];
  int r, v;
} OpCall;

typedef LLVMValueRef OpRule(Emit *e, const OpCall *c);

static bool is_float(const OpCall *c) { return dtype_is_float(c->type); }
static LLVMTypeRef shape(const OpCall *c) { return LLVMTypeOf(c->x[0]); }
static LLVMValueRef zero_of(const OpCall *c) { return LLVMConstNull(shape(c)); }

// u8 is kept as i32 in 0..255.
static LLVMValueRef wrap(Emit *e, Dtype t, LLVMValueRef v) {
  return t == TYPE_U8 ? LLVMBuildAnd(e->b, v, const_int(LLVMTypeOf(v), 255), "") : v;
}

static LLVMValueRef emit_none(Emit *e, const OpCall *c) {
  (void)e;
  BUG("op %s is no statement of a kernel", op_row(c->s->op)->text);
}
// these stand in a kernel as statements of their own kind
#define emit_constant emit_none
#define emit_contract emit_none
#define emit_take emit_none
#define emit_scatter emit_none

// -- counters -----------------------------------------------------------------------------------

static LLVMValueRef emit_index(Emit *e, const OpCall *c) {
  int l = c->s->index;
  LLVMValueRef i = e->counter[l];
  if (l == e->k->rows) i = LLVMBuildAdd(e->b, i, i64_of(e, c->r), "");
  if (l == e->k->vector) i = LLVMBuildAdd(e->b, i, i64_of(e, (int64_t)c->v * e->plan.lanes), "");
  if (c->s->slot >= 0) {
    LLVMValueRef n = i64_of(e, c->s->slot), at = LLVMBuildGEP2(e->b, e->i64, e->slots, &n, 1, "");
    i = LLVMBuildAdd(e->b, i, LLVMBuildLoad2(e->b, e->i64, at, ""), "");
  }
  bool wide = dtype_bytes(c->type) == 8 && !is_float(c);
  LLVMTypeRef t = wide ? e->i64 : e->i32;
  if (!wide) i = LLVMBuildTrunc(e->b, i, t, "");
  if (l == e->k->vector) i = LLVMBuildAdd(e->b, emit_splat(e, i), const_lanes(e, t, 1), "");
  return emit_coerce(e, i, wide ? TYPE_I64 : TYPE_I32, c->type);
}

static LLVMValueRef call_field(Emit *e, LLVMTypeRef t, int64_t offset) {
  LLVMValueRef at = i64_of(e, offset);
  return LLVMBuildLoad2(e->b, t, LLVMBuildGEP2(e->b, e->i8, e->call, &at, 1, ""), "");
}

static LLVMValueRef emit_step(Emit *e, const OpCall *c) {
  return emit_coerce(e, call_field(e, e->i64, 40), TYPE_I64, c->type);
}

// arg[0] where all own coordinates are 0.
static LLVMValueRef emit_to_partial(Emit *e, const OpCall *c) {
  LLVMValueRef n = i64_of(e, c->s->slot), at = LLVMBuildGEP2(e->b, e->i64, e->slots, &n, 1, "");
  LLVMValueRef rank = LLVMBuildLoad2(e->b, e->i64, at, "");
  LLVMValueRef own = LLVMBuildICmp(e->b, LLVMIntEQ, rank, i64_of(e, 0), "");
  return LLVMBuildSelect(e->b, own, c->x[0], zero_of(c), "");
}

static LLVMValueRef emit_random(Emit *e, const OpCall *c) { return emit_draw(e, c->s, c->x[0]); }

// -- arithmetic ---------------------------------------------------------------------------------

static LLVMValueRef exactly(LLVMValueRef v) { return v; }

#define ARITHMETIC(name, build_float, build_int, flags)                                            \
  static LLVMValueRef emit_##name(Emit *e, const OpCall *c) {                                      \
    if (is_float(c)) return flags(build_float(e->b, c->x[0], c->x[1], ""));                        \
    return wrap(e, c->type, build_int(e->b, c->x[0], c->x[1], ""));                                \
  }
ARITHMETIC(add, LLVMBuildFAdd, LLVMBuildAdd, exactly)
ARITHMETIC(sub, LLVMBuildFSub, LLVMBuildSub, exactly)
ARITHMETIC(mul, LLVMBuildFMul, LLVMBuildMul, contracting)
ARITHMETIC(sum, LLVMBuildFAdd, LLVMBuildAdd, fast)

static LLVMValueRef emit_neg(Emit *e, const OpCall *c) {
  if (is_float(c)) return fast(LLVMBuildFNeg(e->b, c->x[0], ""));
  return wrap(e, c->type, LLVMBuildNeg(e->b, c->x[0], ""));
}

static LLVMValueRef emit_div(Emit *e, const OpCall *c) {
  return fast(LLVMBuildFDiv(e->b, c->x[0], c->x[1], ""));
}
static LLVMValueRef emit_reciprocal(Emit *e, const OpCall *c) {
  return fast(LLVMBuildFDiv(e->b, const_real(shape(c), 1), c->x[0], ""));
}
static LLVMValueRef emit_sqrt(Emit *e, const OpCall *c) {
  return emit_unary(e, "llvm.sqrt", c->x[0]);
}
static LLVMValueRef emit_rsqrt(Emit *e, const OpCall *c) {
  return LLVMBuildFDiv(e->b, const_real(shape(c), 1), emit_unary(e, "llvm.sqrt", c->x[0]), "");
}

static LLVMValueRef below_zero(Emit *e, const OpCall *c) {
  if (is_float(c)) return LLVMBuildFCmp(e->b, LLVMRealOLT, c->x[0], zero_of(c), "");
  bool is_unsigned = c->type == TYPE_U64;
  return LLVMBuildICmp(e->b, is_unsigned ? LLVMIntULT : LLVMIntSLT, c->x[0], zero_of(c), "");
}

static LLVMValueRef emit_abs(Emit *e, const OpCall *c) {
  if (is_float(c)) return emit_unary(e, "llvm.fabs", c->x[0]);
  return LLVMBuildSelect(e->b, below_zero(e, c), LLVMBuildNeg(e->b, c->x[0], ""), c->x[0], "");
}

static LLVMValueRef emit_relu(Emit *e, const OpCall *c) {
  return LLVMBuildSelect(e->b, below_zero(e, c), zero_of(c), c->x[0], "");
}

// -1, 0 or 1; a NaN and a zero stay what they are.
static LLVMValueRef emit_sign(Emit *e, const OpCall *c) {
  LLVMTypeRef t = shape(c);
  LLVMValueRef one = is_float(c) ? const_real(t, 1) : const_int(t, 1);
  LLVMValueRef less = is_float(c) ? const_real(t, -1) : const_int(t, -1);
  LLVMValueRef above = is_float(c)
                           ? LLVMBuildFCmp(e->b, LLVMRealOGT, c->x[0], zero_of(c), "")
                           : LLVMBuildICmp(e->b, c->type == TYPE_U64 ? LLVMIntUGT : LLVMIntSGT,
                                           c->x[0], zero_of(c), "");
  return LLVMBuildSelect(e->b, above, one,
                         LLVMBuildSelect(e->b, below_zero(e, c), less, c->x[0], ""), "");
}

#define UNARY(name, call)                                                                          \
  static LLVMValueRef emit_##name(Emit *e, const OpCall *c) { return call(e, c->x[0]); }
UNARY(exp, math_exp)
UNARY(log, math_log)
UNARY(log1p, math_log1p)
UNARY(expm1, math_expm1)
UNARY(tanh, math_tanh)
UNARY(sigmoid, math_sigmoid)
UNARY(softplus, math_softplus)
UNARY(erf, math_erf)
UNARY(sin, math_sin)
UNARY(cos, math_cos)
UNARY(silu, math_silu)
UNARY(silu_slope, math_silu_slope)
UNARY(gelu, math_gelu)
UNARY(gelu_slope, math_gelu_slope)
UNARY(gelu_tanh, math_gelu_tanh)
UNARY(gelu_tanh_slope, math_gelu_tanh_slope)

#define ROUNDING(name, intrinsic)                                                                  \
  static LLVMValueRef emit_##name(Emit *e, const OpCall *c) {                                      \
    return is_float(c) ? emit_unary(e, intrinsic, c->x[0]) : c->x[0];                              \
  }
ROUNDING(floor, "llvm.floor")
ROUNDING(ceil, "llvm.ceil")
ROUNDING(round, "llvm.roundeven")

// -- integer division, powers -------------------------------------------------------------------

// Rounded toward minus infinity; 0 where y is 0, x where y is -1 and -x does not fit. Narrow
// integers go through double, whose quotient is near enough for the exact floor and runs in
// vectors.
static LLVMValueRef narrow_quotient(Emit *e, const OpCall *c, LLVMValueRef y) {
  LLVMTypeRef d = type_like(e, e->f64, y);
  LLVMValueRef a = LLVMBuildSIToFP(e->b, c->x[0], d, ""), b = LLVMBuildSIToFP(e->b, y, d, "");
  LLVMValueRef q = emit_unary(e, "llvm.floor", LLVMBuildFDiv(e->b, a, b, ""));
  return LLVMBuildFPToSI(e->b, q, LLVMTypeOf(y), "");
}

static LLVMValueRef wide_quotient(Emit *e, const OpCall *c, LLVMValueRef y) {
  LLVMBuilderRef b = e->b;
  if (c->type == TYPE_U64) return LLVMBuildUDiv(b, c->x[0], y, "");
  LLVMValueRef q = LLVMBuildSDiv(b, c->x[0], y, "");
  LLVMValueRef rest = LLVMBuildSub(b, c->x[0], LLVMBuildMul(b, q, y, ""), "");
  LLVMValueRef odd = LLVMBuildICmp(b, LLVMIntNE, rest, zero_of(c), "");
  LLVMValueRef apart = LLVMBuildICmp(b, LLVMIntSLT, LLVMBuildXor(b, rest, y, ""), zero_of(c), "");
  LLVMValueRef less = LLVMBuildZExt(b, LLVMBuildAnd(b, odd, apart, ""), shape(c), "");
  return LLVMBuildSub(b, q, less, "");
}

static LLVMValueRef int_quotient(Emit *e, const OpCall *c) {
  LLVMBuilderRef b = e->b;
  bool wide = dtype_bytes(c->type) == 8;
  LLVMValueRef y = c->x[1], none = LLVMBuildICmp(b, LLVMIntEQ, y, zero_of(c), ""), bad = none;
  if (c->type != TYPE_U64) {
    LLVMValueRef least = const_int(shape(c), wide ? INT64_MIN : INT32_MIN);
    LLVMValueRef over =
        LLVMBuildAnd(b, LLVMBuildICmp(b, LLVMIntEQ, c->x[0], least, ""),
                     LLVMBuildICmp(b, LLVMIntEQ, y, const_int(shape(c), -1), ""), "");
    bad = LLVMBuildOr(b, none, over, "");
  }
  y = LLVMBuildSelect(b, bad, const_int(shape(c), 1), y, "");
  LLVMValueRef q = wide ? wide_quotient(e, c, y) : narrow_quotient(e, c, y);
  return LLVMBuildSelect(b, none, zero_of(c), q, "");
}

static LLVMValueRef emit_floor_div(Emit *e, const OpCall *c) {
  if (!is_float(c)) return int_quotient(e, c);
  return math_floor_div(e, c->x[0], c->x[1]);
}

static LLVMValueRef emit_mod(Emit *e, const OpCall *c) {
  if (is_float(c)) return math_mod(e, c->x[0], c->x[1]);
  LLVMValueRef whole = LLVMBuildMul(e->b, int_quotient(e, c), c->x[1], "");
  LLVMValueRef rest = LLVMBuildSub(e->b, c->x[0], whole, "");
  LLVMValueRef none = LLVMBuildICmp(e->b, LLVMIntEQ, c->x[1], zero_of(c), "");
  return LLVMBuildSelect(e->b, none, zero_of(c), rest, "");
}

// Squarings, a loop that every lane runs to its end. Negative exponents: 1/x toward zero.
static LLVMValueRef int_pow(Emit *e, const OpCall *c) {
  LLVMBuilderRef b = e->b;
  LLVMTypeRef t = shape(c);
  LLVMValueRef one = const_int(t, 1), y = emit_alloca(e, t), x = emit_alloca(e, t),
               n = emit_alloca(e, t);
  LLVMBuildStore(b, one, y);
  LLVMBuildStore(b, c->x[0], x);
  LLVMBuildStore(b, c->x[1], n);
  EmitLoop l =
      loop_begin(e, i64_of(e, 0), i64_of(e, dtype_bytes(c->type) == 8 ? 63 : 31), i64_of(e, 1));
  LLVMValueRef power = LLVMBuildLoad2(b, t, x, ""), left = LLVMBuildLoad2(b, t, n, "");
  LLVMValueRef odd =
      LLVMBuildICmp(b, LLVMIntNE, LLVMBuildAnd(b, left, one, ""), LLVMConstNull(t), "");
  LLVMValueRef factor = LLVMBuildSelect(b, odd, power, one, "");
  LLVMBuildStore(b, LLVMBuildMul(b, LLVMBuildLoad2(b, t, y, ""), factor, ""), y);
  LLVMBuildStore(b, LLVMBuildMul(b, power, power, ""), x);
  LLVMBuildStore(b, LLVMBuildLShr(b, left, one, ""), n);
  loop_end(e, &l);
  LLVMValueRef whole = LLVMBuildLoad2(b, t, y, "");
  if (c->type == TYPE_U64 || c->type == TYPE_U8) return wrap(e, c->type, whole);
  // a power of 1 or -1 with negative exponent is that with the exponent's sign dropped; others are
  // below 1
  LLVMValueRef negative = LLVMBuildICmp(b, LLVMIntSLT, c->x[1], LLVMConstNull(t), "");
  LLVMValueRef even =
      LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildAnd(b, c->x[1], one, ""), LLVMConstNull(t), "");
  LLVMValueRef is_one = LLVMBuildICmp(b, LLVMIntEQ, c->x[0], one, "");
  LLVMValueRef is_less = LLVMBuildICmp(b, LLVMIntEQ, c->x[0], const_int(t, -1), "");
  LLVMValueRef small = LLVMBuildSelect(
      b, is_less, LLVMBuildSelect(b, even, one, const_int(t, -1), ""), LLVMConstNull(t), "");
  small = LLVMBuildSelect(b, is_one, one, small, "");
  return LLVMBuildSelect(b, negative, small, whole, "");
}

static LLVMValueRef emit_pow(Emit *e, const OpCall *c) {
  return is_float(c) ? math_pow(e, c->x[0], c->x[1]) : int_pow(e, c);
}

// -- comparisons, selections --------------------------------------------------------------------

static LLVMValueRef compare(Emit *e, const OpCall *c, LLVMRealPredicate f, LLVMIntPredicate s,
                            LLVMIntPredicate u) {
  Dtype t = c->from[0] == c->from[1] ? c->from[0] : dtype_join(c->from[0], c->from[1]);
  LLVMValueRef a = emit_coerce(e, c->x[0], c->from[0], t),
               b = emit_coerce(e, c->x[1], c->from[1], t);
  if (dtype_is_float(t)) return LLVMBuildFCmp(e->b, f, a, b, "");
  return LLVMBuildICmp(e->b, t == TYPE_U64 || t == TYPE_BOOL ? u : s, a, b, "");
}
static LLVMValueRef emit_eq(Emit *e, const OpCall *c) {
  return compare(e, c, LLVMRealOEQ, LLVMIntEQ, LLVMIntEQ);
}
static LLVMValueRef emit_ne(Emit *e, const OpCall *c) {
  return compare(e, c, LLVMRealUNE, LLVMIntNE, LLVMIntNE);
}
static LLVMValueRef emit_lt(Emit *e, const OpCall *c) {
  return compare(e, c, LLVMRealOLT, LLVMIntSLT, LLVMIntULT);
}
static LLVMValueRef emit_le(Emit *e, const OpCall *c) {
  return compare(e, c, LLVMRealOLE, LLVMIntSLE, LLVMIntULE);
}

static LLVMValueRef emit_and(Emit *e, const OpCall *c) {
  return LLVMBuildAnd(e->b, c->x[0], c->x[1], "");
}
static LLVMValueRef emit_or(Emit *e, const OpCall *c) {
  return LLVMBuildOr(e->b, c->x[0], c->x[1], "");
}
static LLVMValueRef emit_not(Emit *e, const OpCall *c) { return LLVMBuildNot(e->b, c->x[0], ""); }

static LLVMValueRef emit_where(Emit *e, const OpCall *c) {
  LLVMValueRef p = emit_convert(e, c->x[0], c->from[0], TYPE_BOOL);
  LLVMValueRef a = emit_coerce(e, c->x[1], c->from[1], c->type),
               b = emit_coerce(e, c->x[2], c->from[2], c->type);
  return LLVMBuildSelect(e->b, p, a, b, "");
}

// The larger (smaller) of two, NaN if either is: x > y picks y for a NaN y, the second select
// covers x.
static LLVMValueRef extreme(Emit *e, Dtype t, bool max, LLVMValueRef a, LLVMValueRef b) {
  LLVMBuilderRef bb = e->b;
  if (dtype_is_float(t)) {
    LLVMValueRef wins = LLVMBuildFCmp(bb, max ? LLVMRealOGT : LLVMRealOLT, a, b, "");
    LLVMValueRef y = LLVMBuildSelect(bb, wins, a, b, "");
    return LLVMBuildSelect(bb, LLVMBuildFCmp(bb, LLVMRealUNO, a, a, ""), a, y, "");
  }
  bool u = t == TYPE_U64 || t == TYPE_BOOL;
  LLVMIntPredicate p = max ? (u ? LLVMIntUGT : LLVMIntSGT) : (u ? LLVMIntULT : LLVMIntSLT);
  return LLVMBuildSelect(bb, LLVMBuildICmp(bb, p, a, b, ""), a, b, "");
}
static LLVMValueRef emit_maximum(Emit *e, const OpCall *c) {
  return extreme(e, c->type, true, c->x[0], c->x[1]);
}
static LLVMValueRef emit_minimum(Emit *e, const OpCall *c) {
  return extreme(e, c->type, false, c->x[0], c->x[1]);
}
static LLVMValueRef emit_clip(Emit *e, const OpCall *c) {
  return extreme(e, c->type, false, extreme(e, c->type, true, c->x[0], c->x[1]), c->x[2]);
}

static LLVMValueRef emit_cast(Emit *e, const OpCall *c) {
  return emit_convert(e, c->x[0], c->from[0], c->type);
}

// -- keys of argmax -----------------------------------------------------------------------------

// Bits that order as unsigned numbers do; -0 as 0, NaN above all.
static LLVMValueRef ordered_bits(Emit *e, LLVMValueRef x, Dtype from) {
  LLVMBuilderRef b = e->b;
  LLVMTypeRef t = type_like(e, e->i32, x);
  if (!dtype_is_float(from))
    return LLVMBuildXor(b, emit_coerce(e, x, from, TYPE_I32), const_int(t, INT32_MIN), "");
  x = emit_coerce(e, x, from, TYPE_F32);
  LLVMValueRef bits =
      LLVMBuildBitCast(b, LLVMBuildFAdd(b, x, const_real(LLVMTypeOf(x), 0), ""), t, "");
  LLVMValueRef all = LLVMBuildAShr(b, bits, const_int(t, 31), "");
  LLVMValueRef y = LLVMBuildXor(b, bits, LLVMBuildOr(b, all, const_int(t, INT32_MIN), ""), "");
  return LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealUNO, x, x, ""), const_int(t, -1), y, "");
}

static LLVMValueRef emit_arg_key(Emit *e, const OpCall *c) {
  LLVMTypeRef t = type_like(e, e->i64, c->x[0]);
  LLVMValueRef high = LLVMBuildZExt(e->b, ordered_bits(e, c->x[0], c->from[0]), t, "");
  LLVMValueRef index = emit_coerce(e, c->x[1], c->from[1], TYPE_I32);
  LLVMValueRef low = LLVMBuildZExt(e->b, LLVMBuildNot(e->b, index, ""), t, "");
  return LLVMBuildOr(e->b, LLVMBuildShl(e->b, high, const_int(t, 32), ""), low, "");
}

static LLVMValueRef emit_key_index(Emit *e, const OpCall *c) {
  LLVMValueRef low = LLVMBuildTrunc(e->b, c->x[0], type_like(e, e->i32, c->x[0]), "");
  return LLVMBuildNot(e->b, low, "");
}

// -- the status word ----------------------------------------------------------------------------

// Flat index of a lane over the loops that are open at the statement's level, by their sizes.
static LLVMValueRef flat_position(Emit *e, const OpCall *c, LLVMValueRef lane) {
  KLevel level = c->s->level;
  int n = level == LEVEL_PROLOGUE ? 0
          : level == LEVEL_OUTER  ? e->k->nouter
                                  : e->k->nouter + e->k->ninner;
  LLVMValueRef at = i64_of(e, 0);
  for (int l = 0; l < n; l++) {
    at = LLVMBuildMul(e->b, at, i64_of(e, e->k->loop[l].size), "");
    LLVMValueRef i = e->counter[l];
    if (l == e->k->rows) i = LLVMBuildAdd(e->b, i, i64_of(e, c->r), "");
    if (l == e->k->vector) i = LLVMBuildAdd(e->b, i, i64_of(e, (int64_t)c->v * e->plan.lanes), "");
    if (l == e->k->vector) i = LLVMBuildAdd(e->b, i, lane, "");
    at = LLVMBuildAdd(e->b, at, i, "");
  }
  return at;
}

static LLVMValueRef status_field(Emit *e, int64_t offset) {
  LLVMValueRef at = i64_of(e, offset);
  return LLVMBuildGEP2(e->b, e->i8, e->status, &at, 1, "");
}

// if (status is clean) write code, value and position of the lane.
static void write_status(Emit *e, const OpCall *c, LLVMValueRef value, LLVMValueRef lane) {
  LLVMBuilderRef b = e->b;
  LLVMBasicBlockRef write = emit_block(e), done = emit_block(e);
  LLVMValueRef old = LLVMBuildLoad2(b, e->i32, e->status, "");
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, old, const_int(e->i32, 0), ""), write, done);
  LLVMPositionBuilderAtEnd(b, write);
  LLVMValueRef n = i64_of(e, c->s->index), at = LLVMBuildGEP2(b, e->f64, e->nums, &n, 1, "");
  LLVMValueRef code = LLVMBuildFPToUI(b, LLVMBuildLoad2(b, e->f64, at, ""), e->i32, "");
  LLVMBuildStore(b, code, e->status);
  LLVMBuildStore(b, LLVMBuildSExt(b, value, e->i64, ""), status_field(e, 8));
  LLVMBuildStore(b, flat_position(e, c, lane), status_field(e, 16));
  LLVMBuildBr(b, done);
  LLVMPositionBuilderAtEnd(b, done);
}

// The rare block: the first bad lane.
static void report(Emit *e, const OpCall *c, LLVMValueRef bad) {
  if (!is_vector(bad)) {
    write_status(e, c, c->x[0], i64_of(e, 0));
    return;
  }
  LLVMTypeRef bits = LLVMIntTypeInContext(e->ctx, (unsigned)e->plan.lanes);
  LLVMValueRef args[2] = {LLVMBuildBitCast(e->b, bad, bits, ""), LLVMConstInt(e->i1, 1, false)};
  LLVMValueRef first = emit_intrinsic(e, "llvm.cttz", 1, &bits, 2, args);
  LLVMValueRef lane = LLVMBuildZExt(e->b, first, e->i64, "");
  write_status(e, c, LLVMBuildExtractElement(e->b, c->x[0], lane, ""), lane);
}

static LLVMValueRef emit_bound(Emit *e, const OpCall *c) {
  LLVMBuilderRef b = e->b;
  LLVMTypeRef t = shape(c);
  LLVMValueRef last = const_int(t, c->s->step - 1), zero = LLVMConstNull(t);
  LLVMValueRef low = LLVMBuildICmp(b, LLVMIntSLT, c->x[0], zero, "");
  LLVMValueRef high = LLVMBuildICmp(b, LLVMIntSGT, c->x[0], last, ""),
               bad = LLVMBuildOr(b, low, high, "");
  if (is_vector(bad) && e->mask) bad = LLVMBuildAnd(b, bad, e->mask, "");
  LLVMBasicBlockRef found = emit_block(e), go = emit_block(e);
  LLVMBuildCondBr(b, any_lane(e, bad), found, go);
  LLVMPositionBuilderAtEnd(b, found);
  report(e, c, bad);
  LLVMBuildBr(b, go);
  LLVMPositionBuilderAtEnd(b, go);
  return LLVMBuildSelect(b, low, zero, LLVMBuildSelect(b, high, last, c->x[0], ""), "");
}

// -- reductions: one step -----------------------------------------------------------------------

static OpRule *const rules[OP_COUNT] = {
#define OP(id, text, args, cls, flags, attrs, linear, monoid, rows, memory, cost, infer, eval,     \
           grad, emit)                                                                             \
  [OP_##id] = emit_##emit,
#include "ir/graph/ops.def"
};

LLVMValueRef emit_join(Emit *e, Op op, Dtype t, LLVMValueRef a, LLVMValueRef b) {
  OpCall c = {.type = t, .x = {a, b}};
  return rules[op](e, &c);
}

LLVMValueRef emit_op(Emit *e, const KStmt *s, int r, int v) {
  OpCall c = {.s = s, .type = s->type, .r = r, .v = v};
  bool vector = false;
  for (int i = 0; i < 3 && s->arg[i] != NO_STMT; i++) {
    c.from[i] = e->k->stmt[s->arg[i]].type;
    c.x[i] = value_at(e, s->arg[i], r, v);
    if (!(op_row(s->op)->flags & OWN_TYPES)) c.x[i] = emit_coerce(e, c.x[i], c.from[i], s->type);
    vector = vector || is_vector(c.x[i]);
  }
  for (int i = 0; i < 3 && vector; i++)
    if (c.x[i]) c.x[i] = emit_splat(e, c.x[i]);
  return rules[s->op](e, &c);
}
#endif

// Values of the emitter: constants, element types in memory and in registers, casts, instances. An
// instance is a statement for one row (a round of an outer loop) and one vector of a tile.
//
// In registers bf16 and f16 are float, u8 is i32 (0..255), bool is i1. Values are scalars or
// vectors of CpuPlan.lanes elements. An instruction with two operands needs two scalars or two
// vectors: emit_splat makes a vector of a scalar.
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "ir/program/program.h"

// -- types and constants ------------------------------------------------------------------------

void emit_types(Emit *e) {
  e->i1 = LLVMInt1TypeInContext(e->ctx);
  e->i8 = LLVMInt8TypeInContext(e->ctx);
  e->i16 = LLVMInt16TypeInContext(e->ctx);
  e->i32 = LLVMInt32TypeInContext(e->ctx);
  e->i64 = LLVMInt64TypeInContext(e->ctx);
  e->f16 = LLVMHalfTypeInContext(e->ctx);
  e->f32 = LLVMFloatTypeInContext(e->ctx);
  e->f64 = LLVMDoubleTypeInContext(e->ctx);
  e->ptr = LLVMPointerTypeInContext(e->ctx, 0);
  e->none = LLVMVoidTypeInContext(e->ctx);
}

bool is_vector(LLVMValueRef v) { return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind; }

LLVMTypeRef type_vector(Emit *e, LLVMTypeRef element) {
  return LLVMVectorType(element, (unsigned)e->plan.lanes);
}

// Returns type `element`, or a vector of it with as many lanes as `shape`. In emit_horizontal these
// are fewer than CpuPlan.lanes.
LLVMTypeRef type_like(Emit *e, LLVMTypeRef element, LLVMValueRef shape) {
  (void)e;
  return is_vector(shape) ? LLVMVectorType(element, LLVMGetVectorSize(LLVMTypeOf(shape))) : element;
}

static LLVMTypeRef element_of(LLVMTypeRef t) {
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}

static LLVMValueRef splat_const(LLVMTypeRef t, LLVMValueRef c) {
  if (LLVMGetTypeKind(t) != LLVMVectorTypeKind) return c;
  LLVMValueRef all[64];
  unsigned n = LLVMGetVectorSize(t);
  for (unsigned i = 0; i < n; i++) all[i] = c;
  return LLVMConstVector(all, n);
}

LLVMValueRef const_int(LLVMTypeRef t, int64_t x) {
  return splat_const(t, LLVMConstInt(element_of(t), (unsigned long long)x, true));
}

LLVMValueRef const_real(LLVMTypeRef t, double x) {
  return splat_const(t, LLVMConstReal(element_of(t), x));
}

LLVMValueRef const_lanes(Emit *e, LLVMTypeRef element, int64_t stride) {
  LLVMValueRef all[64];
  for (int i = 0; i < e->plan.lanes; i++)
    all[i] = LLVMConstInt(element, (unsigned long long)(i * stride), true);
  return LLVMConstVector(all, (unsigned)e->plan.lanes);
}

LLVMValueRef i64_of(Emit *e, int64_t x) {
  return LLVMConstInt(e->i64, (unsigned long long)x, true);
}

// -- instructions -------------------------------------------------------------------------------

LLVMValueRef emit_splat(Emit *e, LLVMValueRef v) {
  if (is_vector(v)) return v;
  LLVMTypeRef t = type_vector(e, LLVMTypeOf(v));
  if (LLVMIsConstant(v)) return splat_const(t, v);
  LLVMValueRef one = LLVMBuildInsertElement(e->b, LLVMGetPoison(t), v, i64_of(e, 0), "");
  return LLVMBuildShuffleVector(e->b, one, LLVMGetPoison(t), LLVMConstNull(type_vector(e, e->i32)),
                                "");
}

LLVMValueRef emit_alloca(Emit *e, LLVMTypeRef t) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
  LLVMPositionBuilderAtEnd(e->b, e->allocas);
  LLVMValueRef cell = LLVMBuildAlloca(e->b, t, "");
  LLVMPositionBuilderAtEnd(e->b, here);
  return cell;
}

LLVMValueRef emit_intrinsic(Emit *e, const char *name, int ntypes, LLVMTypeRef *types, int n,
                            LLVMValueRef *args) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  if (id == 0) BUG("LLVM has no intrinsic %s", name);
  LLVMValueRef f = LLVMGetIntrinsicDeclaration(e->module, id, types, (size_t)ntypes);
  LLVMTypeRef t = LLVMIntrinsicGetType(e->ctx, id, types, (size_t)ntypes);
  return LLVMBuildCall2(e->b, t, f, args, (unsigned)n, "");
}

LLVMValueRef emit_call(Emit *e, const char *name, int n, LLVMValueRef *args) {
  LLVMTypeRef t = LLVMTypeOf(args[0]);
  return emit_intrinsic(e, name, 1, &t, n, args);
}

LLVMValueRef emit_unary(Emit *e, const char *name, LLVMValueRef x) {
  return emit_call(e, name, 1, &x);
}

LLVMValueRef fast(LLVMValueRef v) {
  if (LLVMIsAInstruction(v) && LLVMCanValueUseFastMathFlags(v))
    LLVMSetFastMathFlags(v, LLVMFastMathAllowReassoc | LLVMFastMathNoSignedZeros |
                                LLVMFastMathAllowContract);
  return v;
}

LLVMValueRef contracting(LLVMValueRef v) {
  if (LLVMIsAInstruction(v) && LLVMCanValueUseFastMathFlags(v))
    LLVMSetFastMathFlags(v, LLVMFastMathAllowContract);
  return v;
}

// -- element types ------------------------------------------------------------------------------

LLVMTypeRef reg_type(Emit *e, Dtype t) {
  switch (t) {
  case TYPE_F32:
  case TYPE_BF16:
  case TYPE_F16: return e->f32;
  case TYPE_F64: return e->f64;
  case TYPE_I32:
  case TYPE_U8: return e->i32;
  case TYPE_BOOL: return e->i1;
  case TYPE_I64:
  case TYPE_U64: return e->i64;
  case TYPE_COUNT: break;
  }
  BUG("no element type %d", (int)t);
}

LLVMTypeRef reg_shape(Emit *e, Dtype t, bool vector) {
  return vector ? type_vector(e, reg_type(e, t)) : reg_type(e, t);
}

LLVMTypeRef mem_type(Emit *e, Dtype t) {
  if (t == TYPE_BF16 || t == TYPE_F16) return e->i16;
  return t == TYPE_U8 || t == TYPE_BOOL ? e->i8 : reg_type(e, t);
}

static LLVMValueRef bits_of(Emit *e, LLVMValueRef x) {
  return bit_cast(e, x, type_like(e, e->i32, x));
}
static LLVMValueRef float_of(Emit *e, LLVMValueRef bits) {
  return bit_cast(e, bits, type_like(e, e->f32, bits));
}

// Converts f16 to f32 without an instruction for it. The bits are shifted to their place in an f32;
// a multiplication by 2^112 then corrects the bias of the exponent, also of subnormals.
static LLVMValueRef f16_widen(Emit *e, LLVMValueRef raw) {
  LLVMValueRef x = int_zext(e, raw, type_like(e, e->i32, raw));
  LLVMValueRef sign = left_by(e, keep_bits(e, x, 0x8000), 16);
  LLVMValueRef rest = left_by(e, keep_bits(e, x, 0x7fff), 13);
  LLVMValueRef y = scale(e, float_of(e, rest), 0x1p112);
  // infinities and NaNs get the exponent of infinity in f32
  LLVMValueRef big = int_cmp(e, LLVMIntUGE, rest, int_like(rest, 0x0f800000));
  LLVMValueRef bits = bits_of(e, y);
  bits = pick(e, big, bit_or(e, bits, int_like(bits, 0x7f800000)), bits);
  return float_of(e, bit_or(e, bits, sign));
}

// Converts f32 to f16, rounded to nearest even, without an instruction for it. A subnormal result
// is rounded by adding 0.5, an f32 whose last place is 2^-24. Other results are rounded by adding
// half a unit in the last place of the result, or a little less if its last bit is 0.
static LLVMValueRef f16_narrow(Emit *e, LLVMValueRef x) {
  LLVMValueRef bits = bits_of(e, x), abs = keep_bits(e, bits, 0x7fffffff);
  LLVMValueRef sign = keep_bits(e, right_by(e, bits, 16), 0x8000);
  LLVMValueRef low = bits_of(e, offset(e, float_of(e, abs), 0.5));
  low = int_sub(e, low, int_like(low, 0x3f000000));
  LLVMValueRef odd = keep_bits(e, right_by(e, abs, 13), 1);
  LLVMValueRef high = int_add(e, abs, int_like(abs, 0xfff - (112 << 23)));
  high = right_by(e, int_add(e, high, odd), 13);
  LLVMValueRef y = pick(e, int_cmp(e, LLVMIntULT, abs, int_like(abs, 113 << 23)), low, high);
  LLVMValueRef huge = int_cmp(e, LLVMIntUGE, abs, int_like(abs, 0x477ff000));
  y = pick(e, huge, int_like(y, 0x7c00), y);
  LLVMValueRef nan = int_cmp(e, LLVMIntUGT, abs, int_like(abs, 0x7f800000));
  y = pick(e, nan, int_like(y, 0x7e00), y);
  return int_trunc(e, bit_or(e, y, sign), type_like(e, e->i16, x));
}

static LLVMValueRef f16_load(Emit *e, LLVMValueRef raw) {
  if (!e->target->f16) return f16_widen(e, raw);
  return fp_widen(e, bit_cast(e, raw, type_like(e, e->f16, raw)), type_like(e, e->f32, raw));
}

static LLVMValueRef f16_store(Emit *e, LLVMValueRef x) {
  if (!e->target->f16) return f16_narrow(e, x);
  return bit_cast(e, fp_narrow(e, x, type_like(e, e->f16, x)), type_like(e, e->i16, x));
}

// Converts f32 to bf16, rounded to nearest even, by operations on integers: the instructions of
// processors replace subnormals by 0.
static LLVMValueRef bf16_store(Emit *e, LLVMValueRef x) {
  LLVMValueRef bits = bits_of(e, x), odd = keep_bits(e, right_by(e, bits, 16), 1);
  LLVMValueRef up = int_add(e, int_add(e, bits, int_like(bits, 0x7fff)), odd);
  LLVMValueRef nan = is_nan(e, x);
  up = pick(e, nan, bit_or(e, bits, int_like(bits, 0x400000)), up);
  return int_trunc(e, right_by(e, up, 16), type_like(e, e->i16, x));
}

static LLVMValueRef bf16_load(Emit *e, LLVMValueRef raw) {
  return float_of(e, left_by(e, int_zext(e, raw, type_like(e, e->i32, raw)), 16));
}

LLVMValueRef from_memory(Emit *e, Dtype t, LLVMValueRef raw) {
  if (t == TYPE_BF16) return bf16_load(e, raw);
  if (t == TYPE_F16) return f16_load(e, raw);
  if (t == TYPE_U8) return int_zext(e, raw, type_like(e, e->i32, raw));
  return t == TYPE_BOOL ? not_zero(e, raw) : raw;
}

LLVMValueRef to_memory(Emit *e, Dtype t, LLVMValueRef v) {
  if (t == TYPE_BF16) return bf16_store(e, v);
  if (t == TYPE_F16) return f16_store(e, v);
  if (t == TYPE_U8) return int_trunc(e, v, type_like(e, e->i8, v));
  return t == TYPE_BOOL ? int_zext(e, v, type_like(e, e->i8, v)) : v;
}

// -- casts --------------------------------------------------------------------------------------

static bool is_unsigned(Dtype t) { return t == TYPE_U64 || t == TYPE_U8 || t == TYPE_BOOL; }

// Converts f64 to f32, rounded to odd: toward zero, and the last bit is set if the result is not
// exact. If this f32 is rounded to bf16 or f16 afterwards, the result is as if the f64 had been
// rounded directly.
static LLVMValueRef round_to_odd(Emit *e, LLVMValueRef x) {
  LLVMValueRef y = narrow(e, x), bits = bits_of(e, y), back = fp_widen(e, y, LLVMTypeOf(x));
  LLVMTypeRef t = LLVMTypeOf(bits);
  LLVMValueRef up = cmp(e, LLVMRealOGT, absolute(e, back), absolute(e, x));
  LLVMValueRef inexact = cmp(e, LLVMRealONE, back, x);
  bits = int_sub(e, bits, int_zext(e, up, t));
  return float_of(e, bit_or(e, bits, int_zext(e, inexact, t)));
}

static LLVMValueRef float_to_float(Emit *e, LLVMValueRef v, Dtype from, Dtype to) {
  bool small = to == TYPE_BF16 || to == TYPE_F16;
  if (from == TYPE_F64 && small)
    v = round_to_odd(e, v);
  else if (from == TYPE_F64 && to != TYPE_F64)
    v = narrow(e, v);
  else if (from != TYPE_F64 && to == TYPE_F64)
    v = widen(e, v);
  return small && from != to ? from_memory(e, to, to_memory(e, to, v)) : v;
}

// Bounds for the conversion of floats to an integer type: the lowest number in range, the highest
// f32 and the highest f64 in range, and the integer for larger floats.
static const struct {
  double low, high32, high64;
  int64_t max;
} int_range[TYPE_COUNT] = {
    [TYPE_U8] = {0, 255, 255, 255},
    [TYPE_I32] = {-0x1p31, 0x1.fffffep30, 0x1.fffffffcp30, INT32_MAX},
    [TYPE_I64] = {-0x1p63, 0x1.fffffep62, 0x1.fffffffffffffp62, INT64_MAX},
    [TYPE_U64] = {0, 0x1.fffffep63, 0x1.fffffffffffffp63, -1},
};

static LLVMValueRef float_to_int(Emit *e, LLVMValueRef v, Dtype from, Dtype to) {
  LLVMTypeRef want = type_like(e, reg_type(e, to), v);
  double low = int_range[to].low,
         high = from == TYPE_F64 ? int_range[to].high64 : int_range[to].high32;
  LLVMValueRef above = greater(e, v, high), nan = is_nan(e, v);
  LLVMValueRef x = pick(e, above, num(v, high), at_least(e, v, low));
  x = pick(e, nan, num(v, 0), x);
  LLVMValueRef y =
      to == TYPE_U64 ? LLVMBuildFPToUI(e->b, x, want, "") : LLVMBuildFPToSI(e->b, x, want, "");
  return pick(e, above, const_int(want, int_range[to].max), y);
}

// Converts an integer to a float. i32, i64 and u64 to bf16 or f16 go through f64: it holds every
// i32, and round_to_odd makes the second rounding correct. Other conversions are direct.
static LLVMValueRef int_to_float(Emit *e, LLVMValueRef v, Dtype from, Dtype to) {
  bool wide = from == TYPE_I64 || from == TYPE_U64 || from == TYPE_I32;
  Dtype via = to == TYPE_F64 || (wide && to != TYPE_F32) ? TYPE_F64 : TYPE_F32;
  LLVMTypeRef t = type_like(e, reg_type(e, via), v);
  LLVMValueRef x =
      is_unsigned(from) ? LLVMBuildUIToFP(e->b, v, t, "") : LLVMBuildSIToFP(e->b, v, t, "");
  return float_to_float(e, x, via, to);
}

static LLVMValueRef int_clamp(Emit *e, LLVMValueRef v, bool sign, int64_t low, int64_t high) {
  LLVMValueRef lo = int_like(v, low), hi = int_like(v, high);
  if (sign) v = pick(e, int_less(e, v, lo), lo, v);
  return pick(e, int_cmp(e, sign ? LLVMIntSGT : LLVMIntUGT, v, hi), hi, v);
}

static LLVMValueRef int_to_int(Emit *e, LLVMValueRef v, Dtype from, Dtype to) {
  bool sign = !is_unsigned(from), wide = from == TYPE_I64 || from == TYPE_U64;
  LLVMTypeRef want = type_like(e, reg_type(e, to), v);
  if (to == TYPE_U8 && from != TYPE_BOOL) v = int_clamp(e, v, sign, 0, 255);
  if (to == TYPE_I32 && wide) v = int_clamp(e, v, sign, INT32_MIN, INT32_MAX);
  if (to == TYPE_U64 && sign) v = pick(e, int_less(e, v, int_like(v, 0)), int_like(v, 0), v);
  if (to == TYPE_I64 && from == TYPE_U64) v = int_clamp(e, v, false, 0, INT64_MAX);
  if (LLVMTypeOf(v) == want) return v;
  if (wide) return int_trunc(e, v, want);
  return sign ? int_sext(e, v, want) : int_zext(e, v, want);
}

LLVMValueRef emit_convert(Emit *e, LLVMValueRef v, Dtype from, Dtype to) {
  if (from == to) return v;
  bool ff = dtype_is_float(from), tf = dtype_is_float(to);
  if (to == TYPE_BOOL) return ff ? cmp(e, LLVMRealUNE, v, num(v, 0)) : not_zero(e, v);
  if (ff) return tf ? float_to_float(e, v, from, to) : float_to_int(e, v, from, to);
  return tf ? int_to_float(e, v, from, to) : int_to_int(e, v, from, to);
}

// Converts an integer to type `to` and keeps its low bits, as sums and products of that type do.
// Only casts of the language saturate.
static LLVMValueRef int_wrap(Emit *e, LLVMValueRef v, Dtype from, Dtype to) {
  LLVMTypeRef want = type_like(e, reg_type(e, to), v);
  if (dtype_bytes(to) < 8 && dtype_bytes(from) == 8)
    v = int_trunc(e, v, want);
  else if (LLVMTypeOf(v) != want)
    v = is_unsigned(from) ? int_zext(e, v, want) : int_sext(e, v, want);
  return to == TYPE_U8 && from != TYPE_BOOL ? keep_bits(e, v, 255) : v;
}

LLVMValueRef emit_coerce(Emit *e, LLVMValueRef v, Dtype from, Dtype to) {
  if (from == to) return v;
  if (dtype_is_float(from) && dtype_is_float(to) && reg_type(e, from) == reg_type(e, to)) return v;
  if (!dtype_is_float(from) && !dtype_is_float(to) && to != TYPE_BOOL)
    return int_wrap(e, v, from, to);
  return emit_convert(e, v, from, to);
}

// -- instances ----------------------------------------------------------------------------------

bool has_lanes(const Emit *e, int l) { return l >= 0 && l == e->k->vector && e->plan.lanes > 1; }

bool depends(const Emit *e, int s, int loop) { return loop >= 0 && (e->plan.dep[s] >> loop & 1); }

LLVMValueRef value_at(Emit *e, int s, int r, int v) {
  int row = depends(e, s, e->k->rows) ? r : 0, vec = depends(e, s, e->k->vector) ? v : 0;
  LLVMValueRef x = e->value[instance_id(s, row, vec)];
  if (!x) BUG("kernel %s: statement %d is used before it is computed", e->k->name, s);
  return x;
}

LLVMValueRef operand_at(Emit *e, const KStmt *s, int which, Dtype type, int r, int v) {
  return emit_coerce(e, value_at(e, s->arg[which], r, v), e->k->stmt[s->arg[which]].type, type);
}

LLVMValueRef scaled_operand(Emit *e, const KStmt *s, int which, int r, int v) {
  LLVMValueRef x = operand_at(e, s, which, TYPE_I64, r, v);
  return int_mul(e, x, int_like(x, s->step));
}

LLVMValueRef counter_at(Emit *e, int l, int r, int v) {
  LLVMValueRef i = e->counter[l];
  if (l == e->k->rows) i = int_add(e, i, i64_of(e, r));
  if (l == e->k->vector) i = int_add(e, i, i64_of(e, (int64_t)v * e->plan.lanes));
  return i;
}

// -- arguments of the call ----------------------------------------------------------------------

// Emits a load of the field of type t at byte `at` of the KernelCall. All its fields have eight
// bytes.
LLVMValueRef call_field(Emit *e, LLVMTypeRef t, size_t at) {
  return emit_read(e, t, emit_at(e, e->i64, e->call, i64_of(e, (int64_t)at / 8)));
}

LLVMValueRef slot_value(Emit *e, int slot) {
  if (e->loaded_slot) return e->loaded_slot[slot];
  return emit_read(e, e->i64, emit_at(e, e->i64, e->slots, i64_of(e, slot)));
}

LLVMValueRef number_value(Emit *e, int number) {
  if (e->loaded_num) return e->loaded_num[number];
  return emit_read(e, e->f64, emit_at(e, e->f64, e->nums, i64_of(e, number)));
}

LLVMValueRef run_number(Emit *e, RunNumber n) {
  static const size_t at[RUN_NUMBERS] = {[RUN_STEP] = offsetof(KernelCall, step),
                                         [RUN_SEED] = offsetof(KernelCall, seed),
                                         [RUN_REPEAT] = offsetof(KernelCall, repeat)};
  return e->loaded_run ? e->loaded_run[n] : call_field(e, e->i64, at[n]);
}

LLVMValueRef known_number(Emit *e, const KStmt *s) {
  if (s->step == NUMBER_ZERO) return LLVMConstNull(reg_type(e, s->type));
  if (s->step == NUMBER_ANY) return emit_convert(e, number_value(e, s->index), TYPE_F64, s->type);
  return const_real(reg_type(e, s->type),
                    s->step == NUMBER_LEAST ? -(double)INFINITY : (double)INFINITY);
}
#endif

// The tables of the fields of a Program, for pack.c. A member that is added to a struct of
// program.h gets a row here: the unit test ir_pack.c finds members without one.
#include "ir/program/pack_fields.h"
#include "ir/program/program.h"

static const PackField axes_fields[] = {
    COUNT(Axes, n, MAX_AXES),
    USED(Axes, at, INT, n, .low = 0, .high = -1, .of = OF_AXES),
};
RECORD(Axes, axes);

static const PackField axis_fields[] = {TEXT(MeshAxis, name), INT(MeshAxis, size, 1, INT32_MAX),
                                        POS(MeshAxis, pos)};
static RECORD(MeshAxis, axis);

static const PackField mesh_fields[] = {COUNT(Mesh, naxes, MAX_AXES),
                                        USED(Mesh, axis, RECORD, naxes, .record = &axis_record),
                                        POS(Mesh, pos)};
RECORD(Mesh, mesh);

static const PackField affine_fields[] = {ANY(Affine, out), ANY(Affine, tap), ANY(Affine, offset),
                                          SIZED(Affine, divisor)};
RECORD(Affine, affine);

static const PackField footprint_fields[] = {
    SIZED(Footprint, out_size), SIZED(Footprint, tap_size), HAS(Footprint, out_axes, axes),
    HAS(Footprint, tap_axes, axes), HAS(Footprint, affine, affine)};
RECORD(Footprint, footprint);

static const PackField slot_fields[] = {
    INT(Slot, kind, SLOT_EXTENT, SLOT_RANK),
    TEXT(Slot, dim),
    SIZED(Slot, whole),
    SIZED(Slot, batch),
    HAS(Slot, axes, axes),
    HAS(Slot, within, axes),
    SIZED(Slot, scale),
    SIZED(Slot, div),
    ONE_BASED(Slot, times, SLOTS),
    HAS(Slot, footprint, footprint),
    SIZED(Slot, steps),
    BY_RULE(Slot, live, INT, MEMBER, COUNTED(Slot, steps), .n = 1, .low = INT64_MIN,
            .high = INT64_MAX),
    TEXT(Slot, by),
    INT(Slot, loop, 0, LOOP_DEPTH - 1),
};
static RECORD(Slot, slot);

static const PackField size_fields[] = {SIZED(Size, base), INDEX(Size, slot, SLOTS)};
static RECORD(Size, size);

static const PackField ref_fields[] = {
    INDEX(Ref, tensor, TENSORS), ITEM(Ref, common, AXIS_SETS),
    INT(Ref, offset, -1, INT64_MAX >> 8), // -1: there is no place
    BY_RULE(Ref, stride, INT, DEPTH, .n = 1, .low = INT64_MIN, .high = INT64_MAX)};
static RECORD(Ref, ref);

static const PackField prog_dim_fields[] = {TEXT(ProgDim, name), SIZED(ProgDim, whole),
                                            SIZED(ProgDim, block), HAS(ProgDim, axes, axes),
                                            INDEX(ProgDim, extent, SLOTS)};
static RECORD(ProgDim, prog_dim);

static const PackField initial_fields[] = {
    INT(Init, kind, INIT_CONSTANT, INIT_FILE),
    REAL(Init, a),
    REAL(Init, b),
    ANY(Init, split),
    ANY(Init, each),
    SIZED(Init, ndata),
    BY_RULE(Init, data, REAL, MEMBER, COUNTED(Init, ndata)),
    TEXT(Init, path),
    TEXT(Init, key),
};
RECORD(Init, initial);

static const PackField tensor_fields[] = {
    INT(ProgTensor, kind, TENSOR_INPUT, TENSOR_OUTPUT),
    TEXT(ProgTensor, name),
    INT(ProgTensor, type, 0, TYPE_COUNT - 1),
    COUNT(ProgTensor, rank, MAX_RANK),
    USED(ProgTensor, dim, RECORD, rank, .record = &prog_dim_record),
    USED(ProgTensor, declared, INT, rank, .low = 0, .high = MAX_RANK - 1),
    SIZED(ProgTensor, bytes),
    HAS(ProgTensor, at, ref),
    BOOL(ProgTensor, shared),
    HAS(ProgTensor, init, initial),
    BY_RULE(ProgTensor, data, REAL, ELEMENTS, .n = 1),
    INDEX(ProgTensor, of, TENSORS),
    POS(ProgTensor, pos),
};
static RECORD(ProgTensor, tensor);

static const PackField kernel_fields[] = {
    TEXT(ProgKernel, name),
    LEFT(ProgKernel, text),
    COUNT(ProgKernel, nptr, UINT16_MAX),
    COUNT(ProgKernel, nslot, UINT16_MAX),
    COUNT(ProgKernel, nnum, UINT16_MAX),
    SIZED(ProgKernel, partial_bytes),
    LEFT(ProgKernel, run),
    LEFT(ProgKernel, combine),
};
static RECORD(ProgKernel, kernel);

static const PackField set_sum_fields[] = {HAS(SetSum, axes, axes), INT(SetSum, own, 0, UINT16_MAX),
                                           INT(SetSum, others, 0, UINT16_MAX),
                                           SIZED(SetSum, bytes)};
static RECORD(SetSum, set_sum);

static const PackField set_fields[] = {
    BY_RULE(KernelSet, ptr, RECORD, PTRS, .record = &ref_record),
    BY_RULE(KernelSet, slot, INT, SLOTS, .low = -1, .high = -1, .of = OF_SLOTS),
    HAS(KernelSet, units, size),
    BY_RULE(KernelSet, num, REAL, NUMS, .high = 0),
    ONE_BASED(KernelSet, divided, TENSORS),
    BY_RULE(KernelSet, sum, RECORD, ONE, .record = &set_sum_record),
};
static RECORD(KernelSet, set);

static const PackField launch_fields[] = {
    ITEM(KernelLaunch, kernel, KERNELS),   COUNT(KernelLaunch, nsets, UINT32_MAX),
    LIST(KernelLaunch, set, nsets, set),   SIZED(KernelLaunch, grain),
    HAS(KernelLaunch, partial, ref),       SIZED(KernelLaunch, chunks),
    SIZED(KernelLaunch, strips),           SIZED(KernelLaunch, row_units),
    ITEM(KernelLaunch, common, AXIS_SETS),
};
static RECORD(KernelLaunch, launch);

static const PackField piece_fields[] = {
    ALL(GemmPiece, from, INT, 3, .low = 0, .high = INT64_MAX >> 8),
    ALL(GemmPiece, to, INT, 3, .low = 0, .high = INT64_MAX >> 8)};
static RECORD(GemmPiece, piece);

static const PackField epilogue_fields[] = {
    INT(GemmEpilogue, act, 0, GEMM_ACT_COUNT - 1),
    ALL(GemmEpilogue, has, BOOL, GEMM_EXTRAS, .low = 0, .high = 1),
    ALL(GemmEpilogue, extra, RECORD, GEMM_EXTRAS, .record = &ref_record)};
static RECORD(GemmEpilogue, epilogue);

// The elements of Gemm.batch and of Ordered.row have no names.
#define INSIDE(T, array, member, kind_, ...)                                                       \
  {                                                                                                \
    .name = #T "." #array "." #member, .kind = PACK_##kind_,                                       \
    .at = offsetof(T, array[0].member) - offsetof(T, array), .bytes = SIZE(T, array[0].member),    \
    __VA_ARGS__                                                                                    \
  }
#define STRIDE(T, array, member) INSIDE(T, array, member, INT, .low = INT64_MIN, .high = INT64_MAX)
static const PackField batch_fields[] = {INSIDE(Gemm, batch, count, RECORD, .record = &size_record),
                                         STRIDE(Gemm, batch, a), STRIDE(Gemm, batch, b),
                                         STRIDE(Gemm, batch, c)};
static const PackRecord batch_record = {"Gemm.batch", SIZE(Gemm, batch[0]), countof(batch_fields),
                                        batch_fields};

static const PackField gemm_fields[] = {
    INT(Gemm, factors, 0, TYPE_COUNT - 1),
    INT(Gemm, type, 0, TYPE_COUNT - 1),
    BOOL(Gemm, tf32),
    BOOL(Gemm, ta),
    BOOL(Gemm, tb),
    HAS(Gemm, m, size),
    HAS(Gemm, n, size),
    HAS(Gemm, k, size),
    SIZED(Gemm, lda),
    SIZED(Gemm, ldb),
    SIZED(Gemm, ldc),
    COUNT(Gemm, nbatch, MAX_RANK),
    USED(Gemm, batch, RECORD, nbatch, .record = &batch_record),
    HAS(Gemm, a, ref),
    HAS(Gemm, b, ref),
    HAS(Gemm, c, ref),
    COUNT(Gemm, npieces, INT32_MAX),
    INT(Gemm, by_step, 0, LOOP_DEPTH),
    LIST(Gemm, piece, npieces, piece),
    BY_RULE(Gemm, epilogue, RECORD, ONE, .record = &epilogue_record),
};
static RECORD(Gemm, gemm);

static const PackField moved_fields[] = {SIZED(MovedDim, whole), HAS(MovedDim, from, axes),
                                         HAS(MovedDim, to, axes)};
static RECORD(MovedDim, moved);

#define LENGTHS(T, member, counter) USED(T, member, INT, counter, .low = 0, .high = INT64_MAX >> 8)
static const PackField part_fields[] = {
    HAS(CollPart, src, ref),
    HAS(CollPart, dst, ref),
    COUNT(CollPart, rank, MAX_RANK),
    LENGTHS(CollPart, src_block, rank),
    LENGTHS(CollPart, dst_block, rank),
    USED(CollPart, src_valid, RECORD, rank, .record = &size_record),
    USED(CollPart, dst_valid, RECORD, rank, .record = &size_record),
    INT(CollPart, gathered, -1, MAX_RANK - 1),
    INT(CollPart, split, -1, MAX_RANK - 1),
    SIZED(CollPart, whole),
    HAS(CollPart, footprint, footprint),
    USED(CollPart, moved, RECORD, rank, .record = &moved_record),
    ONE_BASED(CollPart, once, TENSORS),
    BOOL(CollPart, deferred),
    TEXT(CollPart, value),
};
static RECORD(CollPart, part);

static const PackField collective_fields[] = {
    INT(Collective, kind, 0, COLL_COUNT - 1),
    HAS(Collective, axes, axes),
    HAS(Collective, to, axes),
    INT(Collective, type, 0, TYPE_COUNT - 1),
    INT(Collective, monoid, 0, MONOID_COUNT - 1),
    COUNT(Collective, nparts, UINT32_MAX),
    LIST(Collective, part, nparts, part),
    SIZED(Collective, bytes),
    SIZED(Collective, wire_bytes),
    BOOL(Collective, backward),
    POS(Collective, pos),
    TEXT(Collective, why),
};
static RECORD(Collective, collective);

static const PackField row_fields[] = {INSIDE(Ordered, row, count, RECORD, .record = &size_record),
                                       STRIDE(Ordered, row, src), STRIDE(Ordered, row, dst)};
static const PackRecord row_record = {"Ordered.row", SIZE(Ordered, row[0]), countof(row_fields),
                                      row_fields};

static const PackField ordered_fields[] = {
    INT(Ordered, kind, ORDERED_CUMSUM, ORDERED_TOP_K),
    INT(Ordered, type, 0, TYPE_COUNT - 1),
    INT(Ordered, flags, 0, UINT32_MAX),
    HAS(Ordered, n, size),
    SIZED(Ordered, k),
    ANY(Ordered, src_step),
    ANY(Ordered, dst_step),
    COUNT(Ordered, nrows, MAX_RANK),
    USED(Ordered, row, RECORD, nrows, .record = &row_record),
    HAS(Ordered, src, ref),
    HAS(Ordered, dst, ref),
};
static RECORD(Ordered, ordered);

static const PackField matrices_fields[] = {
    INSIDE(MatrixCall, batch, count, RECORD, .record = &size_record), STRIDE(MatrixCall, batch, a),
    STRIDE(MatrixCall, batch, b), STRIDE(MatrixCall, batch, dst)};
static const PackRecord matrices_record = {"MatrixCall.batch", SIZE(MatrixCall, batch[0]),
                                           countof(matrices_fields), matrices_fields};
static const PackField right_fields[] = {
    INSIDE(MatrixCall, right, count, RECORD, .record = &size_record), STRIDE(MatrixCall, right, b),
    STRIDE(MatrixCall, right, dst)};
static const PackRecord right_record = {"MatrixCall.right", SIZE(MatrixCall, right[0]),
                                        countof(right_fields), right_fields};

static const PackField matrix_fields[] = {
    INT(MatrixCall, kind, 0, MATRIX_KINDS - 1),
    INT(MatrixCall, type, 0, TYPE_COUNT - 1),
    INT(MatrixCall, flags, 0, UINT32_MAX),
    SIZED(MatrixCall, m),
    SIZED(MatrixCall, n),
    ANY(MatrixCall, a_row),
    ANY(MatrixCall, a_column),
    ANY(MatrixCall, b_row),
    ANY(MatrixCall, dst_row),
    ANY(MatrixCall, dst_column),
    COUNT(MatrixCall, nbatch, MAX_RANK),
    USED(MatrixCall, batch, RECORD, nbatch, .record = &matrices_record),
    COUNT(MatrixCall, nright, MAX_RANK),
    USED(MatrixCall, right, RECORD, nright, .record = &right_record),
    HAS(MatrixCall, a, ref),
    HAS(MatrixCall, b, ref),
    HAS(MatrixCall, dst, ref),
};
static RECORD(MatrixCall, matrix);

// The members of Instr.u: their offsets are those in u.
#define OF_U(member, kind_, ...)                                                                   \
  {                                                                                                \
    .name = "Instr.u." #member, .kind = PACK_##kind_,                                              \
    .at = offsetof(Instr, u.member) - offsetof(Instr, u), .bytes = SIZE(Instr, u.member),          \
    __VA_ARGS__                                                                                    \
  }
#define RECORD_OF_U(member)                                                                        \
  static const PackRecord member##_record = {"Instr.u." #member, SIZE(Instr, u.member),            \
                                             countof(member##_fields), member##_fields}
#define U_SIZED(member) OF_U(member, INT, .low = 0, .high = INT64_MAX >> 8)
#define U_BOOL(member) OF_U(member, BOOL, .low = 0, .high = 1)
#define U_INSTR(member) OF_U(member, INT, .low = 0, .high = -1, .of = OF_INSTRS)
static const PackField fill_fields[] = {OF_U(fill.dst, RECORD, .record = &ref_record),
                                        U_SIZED(fill.bytes), U_BOOL(fill.streamed)};
RECORD_OF_U(fill);

static const PackField copy_fields[] = {OF_U(copy.dst, RECORD, .record = &ref_record),
                                        OF_U(copy.src, RECORD, .record = &ref_record),
                                        U_SIZED(copy.bytes)};
RECORD_OF_U(copy);

static const PackField loop_fields[] = {OF_U(loop.count, RECORD, .record = &size_record),
                                        U_BOOL(loop.reverse),
                                        U_INSTR(loop.end),
                                        OF_U(loop.dim, TEXT, .n = 0),
                                        U_SIZED(loop.rows),
                                        U_BOOL(loop.guarded),
                                        OF_U(loop.guard, RECORD, .record = &ref_record)};
RECORD_OF_U(loop);

static const PackField end_fields[] = {U_INSTR(end.begin), U_BOOL(end.stops),
                                       OF_U(end.alive, RECORD, .record = &ref_record)};
RECORD_OF_U(end);

static const PackRecord *const instr_choice[] = {
    [INSTR_KERNEL] = &launch_record,
    [INSTR_GEMM] = &gemm_record,
    [INSTR_COLLECTIVE] = &collective_record,
    [INSTR_ORDERED] = &ordered_record,
    [INSTR_MATRIX] = &matrix_record,
    [INSTR_FILL] = &fill_record,
    [INSTR_COPY] = &copy_record,
    [INSTR_COMMIT] = NULL,
    [INSTR_LOOP] = &loop_record,
    [INSTR_END] = &end_record,
};
static const PackField instr_fields[] = {
    INT(Instr, kind, INSTR_KERNEL, INSTR_END),
    ROW(Instr, u, CHOICE, .choice = instr_choice, COUNTED(Instr, kind), .high = INSTR_END)};
static RECORD(Instr, instr);

static const PackField value_fields[] = {
    COUNT(InstrValue, set, UINT32_MAX),
    COUNT(InstrValue, ptr, UINT32_MAX),
    INT(InstrValue, type, 0, TYPE_COUNT - 1),
    COUNT(InstrValue, rank, MAX_RANK),
    LIST(InstrValue, dim, rank, prog_dim),
    TEXT(InstrValue, value),
    TEXT(InstrValue, op),
    BOOL(InstrValue, backward),
    POS(InstrValue, pos),
};
static RECORD(InstrValue, value);

static const PackField note_fields[] = {
    COUNT(InstrNote, nvalues, UINT32_MAX),
    LIST(InstrNote, value, nvalues, value),
    ANY(InstrNote, bytes),
    ANY(InstrNote, written),
    ANY(InstrNote, flops),
    REAL(InstrNote, predicted),
    TEXT(InstrNote, limit),
    TEXT(InstrNote, ends),
};
static RECORD(InstrNote, note);

static const PackField check_fields[] = {
    TEXT(Check, value),
    TEXT(Check, dim),
    SIZED(Check, size),
    POS(Check, pos),
    COUNT(Check, rank, MAX_RANK),
    USED(Check, loop, RECORD, rank, .record = &prog_dim_record),
    INT(Check, without, 0, UINT16_MAX),
    COUNT(Check, row, MAX_RANK),
    SIZED(Check, first),
    SIZED(Check, batch),
};
static RECORD(Check, check);

// Lists come after those into which they have indices: slots need the mesh, instructions all.
static const PackField program_fields[] = {
    TEXT(Program, model),
    TEXT(Program, for_),
    HAS(Program, mesh, mesh),
    TEXT(Program, over),
    SIZED(Program, arena_bytes),
    COUNT(Program, nslots, INT32_MAX),
    COUNT(Program, ntensors, INT32_MAX),
    COUNT(Program, nkernels, INT32_MAX),
    COUNT(Program, ninstrs, INT32_MAX),
    COUNT(Program, nchecks, INT32_MAX),
    LIST(Program, slot, nslots, slot),
    LIST(Program, tensor, ntensors, tensor),
    LIST(Program, kernel, nkernels, kernel),
    LIST(Program, instr, ninstrs, instr),
    LIST(Program, check, nchecks, check),
    BY_RULE(Program, note, RECORD, MEMBER, COUNTED(Program, ninstrs), .n = 1,
            .record = &note_record),
    ANY(Program, flops),
};
const PackRecord pack_of_program = {"Program", sizeof(Program), countof(program_fields),
                                    program_fields};

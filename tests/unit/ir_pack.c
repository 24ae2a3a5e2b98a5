// Records by tables of fields (ir/program/pack.h): no member of a struct is forgotten, a program
// survives writing and reading, and no damage of the bytes does more than be refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "ir/program/gpu.h"
#include "ir/program/pack.h"
#include "ir/program/program.h"
#include "tests/unit/record_gaps.h"

// -- tables -------------------------------------------------------------------------------------

static void no_member_is_forgotten(void **state) {
  (void)state;
  look_for_gaps(&pack_of_program);
  look_for_gaps(&pack_of_launches);
}

// -- a program ----------------------------------------------------------------------------------

static Ref in_tensor[3] = {{.tensor = 0}, {.tensor = 1}, {.tensor = -1, .offset = 64}};
static int64_t strides[LOOP_DEPTH] = {16, -4};
static Slot slots[] = {{.kind = SLOT_EXTENT, .dim = "b", .whole = 8, .axes = {1, {0}}},
                       {.kind = SLOT_RANK, .dim = "b", .whole = 8, .times = 1, .scale = 3}};
static ProgTensor tensors[] = {{.kind = TENSOR_PARAM,
                                .name = "w",
                                .type = TYPE_F32,
                                .rank = 1,
                                .dim = {{"b", 8, 4, {1, {0}}, 0}},
                                .bytes = 16,
                                .at = {.tensor = 0},
                                .init = {.kind = INIT_UNIFORM, .a = -1, .b = 1},
                                .of = -1,
                                .pos = {1, 3, 7, 1}},
                               {.kind = TENSOR_CONSTANT,
                                .name = "c",
                                .type = TYPE_F32,
                                .rank = 1,
                                .dim = {{"k", 2, 2, {0}, -1}},
                                .bytes = 8,
                                .at = {.tensor = 1},
                                .data = (const double[]){0.5, -2},
                                .of = -1}};
static ProgKernel kernels[] = {{.name = "add", .text = "text", .nptr = 3, .nslot = 1, .nnum = 1}};
static SetSum sum = {.axes = {1, {0}}, .own = 2, .bytes = 8};
static KernelSet sets[] = {{in_tensor, (int32_t[]){1}, {4, 0}, (double[]){2.5}, 1, &sum}};
static CollPart collected[] = {{.src = {.tensor = -1},
                                .dst = {.tensor = -1, .offset = 64},
                                .rank = 1,
                                .src_block = {8},
                                .dst_block = {16},
                                .src_valid = {{8, -1}},
                                .dst_valid = {{16, -1}},
                                .gathered = 0,
                                .split = -1,
                                .value = "c"}};
static Instr instrs[] = {
    {.kind = INSTR_LOOP, .u.loop = {.count = {3, -1}, .reverse = true, .end = 2, .dim = "t"}},
    {.kind = INSTR_KERNEL,
     .u.kernel = {.kernel = 0, .nsets = 1, .set = sets, .grain = 4, .partial = {-1, -1, NULL, 0}}},
    {.kind = INSTR_END, .u.end.begin = 0},
    {.kind = INSTR_COMMIT},
    {.kind = INSTR_COPY, .u.copy = {{-1, 0, strides, 1}, {0, 0, NULL, 0}, 16}},
    {.kind = INSTR_COLLECTIVE,
     .u.collective = {.kind = COLL_ALL_GATHER,
                      .axes = {1, {0}},
                      .type = TYPE_F32,
                      .nparts = 1,
                      .part = collected}}};
static Check checks[] = {{.rank = 1, .loop = {{"b", 8, 4, {1, {0}}, 0}}, .row = 1, .batch = 16}};
static const Program program = {.model = "m.mesh",
                                .for_ = "train",
                                .mesh = {1, {{"p", 2, {0}}}, {0}},
                                .over = "b",
                                .arena_bytes = 128,
                                .nslots = 2,
                                .ntensors = 2,
                                .nkernels = 1,
                                .nchecks = 1,
                                .ninstrs = 6,
                                .slot = slots,
                                .tensor = tensors,
                                .kernel = kernels,
                                .instr = instrs,
                                .check = checks,
                                .flops = 7};

static const char *name_of(void *context, uint32_t source) {
  (void)context;
  return source == 1 ? "m.mesh" : "other.mesh";
}

typedef struct Fixture {
  char *bytes;
  size_t n;
  Arena *arena;
  Program read;
  char why[PACK_WHY];
} Fixture;

static bool read_bytes(Fixture *f) {
  if (f->arena) arena_free(f->arena);
  f->arena = arena_new();
  return pack_read(f->arena, NULL, &pack_of_program, f->bytes, f->n, diag_new(f->arena), &f->read,
                   f->why) &&
         program_sound(&f->read, f->why);
}

static Fixture start(void) {
  Fixture f = {0};
  f.bytes = pack_write(&pack_of_program, &program, name_of, NULL, &f.n);
  return f;
}

static void stop(Fixture *f) {
  arena_free(f->arena);
  free(f->bytes);
}

static void a_program_comes_back(void **state) {
  (void)state;
  Fixture f = start();
  assert_true(read_bytes(&f));
  const Program *p = &f.read;
  assert_string_equal(p->model, "m.mesh");
  assert_int_equal(p->mesh.axis[0].size, 2);
  assert_int_equal(p->slot[1].scale, 3);
  assert_int_equal(p->slot[1].times, 1);
  assert_string_equal(p->tensor[0].dim[0].name, "b");
  assert_ptr_equal(p->tensor[0].dim[0].name, p->over); // equal texts have one address
  assert_true(p->tensor[0].init.a == -1 && p->tensor[1].data[1] == -2);
  assert_int_equal(p->tensor[0].pos.line, 3);
  assert_null(p->kernel[0].text);
  assert_int_equal(p->instr[0].u.loop.end, 2);
  assert_true(p->instr[0].u.loop.reverse);
  const KernelSet *s = &p->instr[1].u.kernel.set[0];
  assert_int_equal(s->ptr[2].offset, 64);
  assert_int_equal(s->slot[0], 1);
  assert_true(s->num[0] == 2.5 && s->sum->own == 2);
  assert_int_equal(p->instr[4].u.copy.dst.stride[1], -4);
  assert_null(p->instr[4].u.copy.src.stride);
  // written again, it is the same
  size_t n;
  char *again = pack_write(&pack_of_program, p, name_of, NULL, &n);
  assert_int_equal(n, f.n);
  assert_memory_equal(again, f.bytes, n);
  free(again);
  stop(&f);
}

static void another_version_is_refused(void **state) {
  (void)state;
  Fixture f = start();
  f.bytes[3] ^= 1;
  assert_false(read_bytes(&f));
  assert_non_null(strstr(f.why, "another version"));
  stop(&f);
}

// Whatever one changes, the reader ends, and what it accepts is sound.
static void damage_is_survived(void **state) {
  (void)state;
  Fixture f = start();
  size_t all = f.n;
  for (f.n = 0; f.n < all; f.n++) assert_false(read_bytes(&f));
  for (size_t i = 8; i < all; i++)
    for (int bit = 0; bit < 8; bit++) {
      f.bytes[i] ^= (char)(1 << bit);
      (void)read_bytes(&f);
      f.bytes[i] ^= (char)(1 << bit);
    }
  assert_true(read_bytes(&f));
  stop(&f);
}

static void unsound_programs_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *what;
    void *at;
    size_t bytes;
    int64_t value;
  } wrong[] = {
      {"a loop that ends before it begins", &instrs[0].u.loop.end, 4, 0},
      {"an end of no loop", &instrs[2].u.end.begin, 4, 1},
      {"a kernel that is none", &instrs[1].u.kernel.kernel, 4, 1},
      {"a slot that is a factor of itself", &slots[0].times, 4, 2},
      {"a place behind its tensor", &in_tensor[0].offset, 8, 17},
      {"a place before its tensor", &in_tensor[0].offset, 8, -1},
      {"a tensor before its memory", &tensors[0].at.offset, 8, -1},
      {"a copy of more than its memory", &instrs[4].u.copy.bytes, 8, 17},
      {"a tensor in no list", &in_tensor[1].tensor, 4, 2},
      {"a tensor larger than its memory", &tensors[0].at.offset, 8, 8},
      {"an axis that the mesh lacks", &slots[0].axes.at[0], 1, 1},
      {"a tensor along an axis that the mesh lacks", &tensors[1].at.common, 4, 2},
      {"partial results along such an axis", &instrs[1].u.kernel.partial.common, 4, 2},
      {"a block that is larger than its bytes", &tensors[0].dim[0].block, 8, 5},
      {"a whole dim in a smaller block", &tensors[1].dim[0].block, 8, 1},
      {"a slot of a loop without steps", &slots[0].live, 8, (int64_t)(intptr_t)strides},
      {"partial results in no place", &kernels[0].partial_bytes, 8, 8},
      {"a collective along no dim", &collected[0].gathered, 1, -1},
      {"a collective along a dim that its operand lacks", &collected[0].gathered, 1, 1},
      {"an exchange without its second dim", &instrs[5].u.collective.kind, 4, COLL_ALL_TO_ALL},
      {"a collective of more than its memory", &collected[0].dst_block[0], 8, 17},
      {"a collective of too many bytes", &collected[0].src_block[0], 8, INT64_MAX >> 8},
      {"a collective along an axis twice", &instrs[5].u.collective.axes.n, 1, 2},
      {"a sum in a set that is not divided", &sets[0].divided, 4, 0},
      {"a sum of no operand", &sum.own, 4, 3},
      {"a sum of an operand outside of the arena", &sum.own, 4, 1},
      {"a sum of more operands than the kernel has", &sum.others, 4, 3},
      {"a sum along an axis twice", &sum.axes.n, 1, 2},
      {"a sum of more than its memory", &sum.bytes, 8, 65},
      {"a check along a dim that it lacks", &checks[0].row, 1, 2},
      {"a check along a dim without a name", &checks[0].loop[0].name, 8, 0},
  };
  for (size_t i = 0; i < countof(wrong); i++) {
    char kept[8];
    memcpy(kept, wrong[i].at, wrong[i].bytes);
    memcpy(wrong[i].at, &wrong[i].value, wrong[i].bytes);
    // what is written from an unsound program need not be readable, but must be refused
    Fixture f = start();
    if (read_bytes(&f)) fail_msg("%s is accepted", wrong[i].what);
    stop(&f);
    memcpy(wrong[i].at, kept, wrong[i].bytes);
  }
}

// -- launches of a GPU --------------------------------------------------------------------------

static GpuEntry entries[] = {{.run = "k0", .threads = 256, .grain = 1024}};
static GpuPartKernels parts[] = {{0, 0}};

static bool read_launches(Arena *a, const char *bytes, size_t n) {
  GpuLaunches l;
  char why[PACK_WHY];
  return pack_read(a, NULL, &pack_of_launches, bytes, n, diag_new(a), &l, why) &&
         launches_sound(&l, &program, why);
}

static void damaged_launches_are_refused(void **state) {
  (void)state;
  const GpuLaunches l = {1, 1, 0, entries, parts, NULL};
  size_t n;
  char *bytes = pack_write(&pack_of_launches, &l, NULL, NULL, &n);
  Arena *a = arena_new();
  assert_true(read_launches(a, bytes, n));
  for (size_t k = 0; k < n; k++) assert_false(read_launches(a, bytes, k));
  for (size_t i = 8; i < n; i++)
    for (int bit = 0; bit < 8; bit++) {
      bytes[i] ^= (char)(1 << bit);
      (void)read_launches(a, bytes, n);
      bytes[i] ^= (char)(1 << bit);
    }
  free(bytes);
  arena_free(a);
}

static void unsound_launches_are_refused(void **state) {
  (void)state;
  static const GpuEntry wrong[] = {
      {.run = "k0", .threads = 48}, {.threads = 32}, {.run = "k0", .threads = 32, .combine = "c"}};
  GpuEntry whole = {.run = "k0", .threads = 32}; // its blocks have the chunks of the kernel
  char why[PACK_WHY];
  for (size_t i = 0; i < countof(wrong); i++) {
    GpuEntry entry = wrong[i];
    assert_false(launches_sound(&(GpuLaunches){1, 0, 0, &entry, NULL, NULL}, &program, why));
  }
  assert_true(launches_sound(&(GpuLaunches){1, 0, 0, &whole, NULL, NULL}, &program, why));
  assert_false(launches_sound(&(GpuLaunches){0}, &program, why)); // no entry for the kernel
}

// -- a data block -------------------------------------------------------------------------------

static bool block_is_read(const DataSource *source) {
  DataField field = {.input = "x", .source = *source};
  DataBlock block = {.present = true, .nfields = 1, .field = &field}, read;
  char why[PACK_WHY];
  size_t n;
  char *bytes = pack_write(&pack_of_data_block, &block, name_of, NULL, &n);
  Arena *a = arena_new();
  bool good = pack_read(a, NULL, &pack_of_data_block, bytes, n, diag_new(a), &read, why) &&
              data_block_sound(&read, why);
  arena_free(a);
  free(bytes);
  return good;
}

// A source of CSV has columns: of a range, of a name or of names, or of numbers.
static void columns_come_back(void **state) {
  (void)state;
  const DataSource range = {.kind = SOURCE_CSV, .path = "t.csv", .first = 0, .last = 2},
                   name = {.kind = SOURCE_CSV, .path = "t.csv", .key = "a", .first = -1},
                   names = {.kind = SOURCE_CSV, .path = "t.csv", .columns = "a\n", .first = -1};
  DataSource numbers = names;
  numbers.first = COLUMNS_NUMBERED, numbers.columns = "1\n0\n";
  assert_true(block_is_read(&range) && block_is_read(&name) && block_is_read(&names));
  assert_true(block_is_read(&numbers));
  numbers.columns = NULL, numbers.key = "a";
  assert_false(block_is_read(&numbers));
  numbers.first = COLUMNS_NUMBERED - 1, numbers.columns = "1\n0\n";
  assert_false(block_is_read(&numbers));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_member_is_forgotten),
      cmocka_unit_test(a_program_comes_back),
      cmocka_unit_test(another_version_is_refused),
      cmocka_unit_test(damage_is_survived),
      cmocka_unit_test(unsound_programs_are_refused),
      cmocka_unit_test(damaged_launches_are_refused),
      cmocka_unit_test(unsound_launches_are_refused),
      cmocka_unit_test(columns_come_back),
  };
  return cmocka_run_group_tests_name("ir_pack", tests, NULL, NULL);
}

// Tests run-time scalars, the directory of a program, its text, and machine files.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/base/dim.h"
#include "ir/program/machine.h"
#include "ir/program/program.h"

static Program small_program(Slot *slot, uint32_t n) {
  return (Program){
      .model = "m.mesh",
      .for_ = "eval",
      .over = "b",
      .mesh = {.naxes = 2, .axis = {{.name = "rows", .size = 2}, {.name = "cols", .size = 3}}},
      .nslots = n,
      .slot = slot};
}

static void slots_agree_with_dims(void **state) {
  (void)state;
  Arena *a = arena_new();
  for (int64_t n = 1; n < 15; n++) {
    DimTable *t = dim_table_new(a, intern_new(a));
    Axes axes = {.n = 2, .at = {1, 0}};
    Slot slot[] = {{.kind = SLOT_EXTENT, .dim = "b", .whole = n, .axes = axes},
                   {.kind = SLOT_OFFSET, .dim = "b", .whole = n, .axes = axes},
                   {.kind = SLOT_RANK, .axes = axes},
                   {.kind = SLOT_EXTENT, .dim = "other", .whole = n, .axes = axes}};
    Program p = small_program(slot, 4);
    DimId d = dim_block(t, &p.mesh, dim_add(t, "b", n, (Pos){0}), axes);
    for (int64_t r = 0; r < 6; r++) {
      for (int64_t rows = -1; rows <= n; rows++)
        assert_int_equal(program_slot(&p, 0, r, rows),
                         dim_valid(t, &p.mesh, d, r, rows < 0 ? n : rows));
      assert_int_equal(program_slot(&p, 1, r, 1), dim_offset(t, &p.mesh, d, r));
      assert_int_equal(program_slot(&p, 2, r, -1), axes_rank(&p.mesh, axes, r));
      assert_int_equal(program_slot(&p, 3, r, 0), dim_valid(t, &p.mesh, d, r, n));
    }
  }
  arena_free(a);
}

static void slots_scale_and_multiply(void **state) {
  (void)state;
  Axes rows = {.n = 1, .at = {0}}, both = {.n = 2, .at = {0, 1}};
  Slot slot[] = {
      {.kind = SLOT_EXTENT, .dim = "h", .whole = 7, .axes = rows},
      {.kind = SLOT_EXTENT, .dim = "b", .whole = 10, .axes = rows, .div = 4, .times = 1},
      {.kind = SLOT_OFFSET, .dim = "k", .whole = 12, .axes = both, .within = rows, .scale = 3}};
  Program p = small_program(slot, 3);
  assert_int_equal(program_slot(&p, 1, 0, -1), 2 * 4);
  assert_int_equal(program_slot(&p, 1, 3, -1), 2 * 3);
  assert_int_equal(program_slot(&p, 1, 3, 6), 1 * 3);
  assert_int_equal(program_slot(&p, 2, 5, -1), 4 * 3); // 10, minus the 6 of its row
}

// A dim that is made of the batch dim is split by its own size, not by that of the batch dim.
static void slots_follow_the_batch(void **state) {
  (void)state;
  Axes rows = {.n = 1, .at = {0}};
  Slot slot[] = {{.kind = SLOT_EXTENT, .dim = "n", .whole = 10, .batch = 5, .axes = rows},
                 {.kind = SLOT_EXTENT, .dim = "outer", .whole = 3, .batch = 12}};
  Program p = small_program(slot, 2);
  for (int64_t r = 0; r < 6; r += 3) assert_int_equal(program_slot(&p, 0, r, -1), 5);
  assert_int_equal(program_slot(&p, 0, 0, 4), 5);
  assert_int_equal(program_slot(&p, 0, 3, 4), 3);
  assert_int_equal(program_slot(&p, 0, 3, 2), 0);
  assert_int_equal(program_slot(&p, 1, 0, -1), 3);
  assert_int_equal(program_slot(&p, 1, 0, 7), 2);
}

static void directory_and_text(void **state) {
  (void)state;
  Arena *a = arena_new();
  Slot slot[] = {{.kind = SLOT_EXTENT, .dim = "b", .whole = 10, .axes = {1, {0}}}};
  ProgTensor tensor[] = {
      {.kind = TENSOR_PARAM,
       .name = "w",
       .rank = 1,
       .dim = {{"b", 10, 5, {1, {0}}, 0}},
       .bytes = 20,
       .of = -1,
       .init = {.kind = INIT_NORMAL, .b = 0.5}},
      {.kind = TENSOR_SLOT, .name = "w", .of = 0, .at = {1, 0, NULL, 0}},
  };
  ProgKernel kernel = {.name = "add", .text = "one\ntwo", .nptr = 1, .nnum = 1};
  KernelSet set = {.ptr = &(Ref){-1, 64, NULL, 0}, .num = &(double){0.25}, .units = {1, 0}};
  CollPart part = {.src = {-1, 0, NULL, 0},
                   .dst = {-1, 0, NULL, 0},
                   .rank = 1,
                   .src_block = {5},
                   .dst_block = {5},
                   .src_valid = {{1, 0}},
                   .dst_valid = {{5, -1}},
                   .gathered = -1,
                   .split = -1,
                   .value = "loss"};
  GemmEpilogue epilogue = {.act = GEMM_GELU,
                           .has = {[GEMM_ADDEND] = true, [GEMM_AUX] = true},
                           .extra = {{-1, 64, NULL, 0}, {0, 0, NULL, 0}, {-1, 128, NULL, 0}}};
  Instr instr[] = {
      {.kind = INSTR_KERNEL, .u.kernel = {.nsets = 1, .set = &set, .grain = 8, .chunks = 2}},
      {.kind = INSTR_COLLECTIVE,
       .u.collective = {.axes = {1, {1}}, .monoid = 1, .nparts = 1, .part = &part, .bytes = 20}},
      {.kind = INSTR_GEMM,
       .u.gemm = {.ta = true, .m = {5, -1}, .n = {1, -1}, .k = {1, 0}, .epilogue = &epilogue}},
      {.kind = INSTR_FILL, .u.fill = {.dst = {-1, 0, NULL, 0}, .bytes = 20}},
      {.kind = INSTR_COMMIT},
      {.kind = INSTR_COPY, .u.copy = {{0, 0, NULL, 0}, {-1, 64, NULL, 0}, 20}},
  };
  Program p = small_program(slot, 1);
  p.ntensors = 2, p.tensor = tensor;
  p.nkernels = 1, p.kernel = &kernel;
  p.ninstrs = 6, p.instr = instr;
  assert_int_equal(program_tensor(&p, TENSOR_SLOT, "w"), 1);
  assert_int_equal(program_tensor(&p, TENSOR_PARAM, "w"), 0);
  assert_int_equal(program_tensor(&p, TENSOR_PARAM, "v"), -1);
  char *text = program_print(a, &p);
  static const char *const parts[] = {"program for eval of m.mesh mesh (rows = 2, cols = 3) over b",
                                      "slot s0 = extent of b = 10 over rows\n",
                                      ("tensor t0 = param w : f32[b = 10 in 5 over rows valid s0] "
                                       "declared (0) 20 bytes at t0+0 init normal(0, 0.5)\n"),
                                      "tensor t1 = slot w : f32[]",
                                      "of t0",
                                      "  | one\n  | two\n",
                                      "   0 kernel k0 add grain 8 chunks 2\n",
                                      "units s0 pointers (work+64) slots () numbers (0.25)\n",
                                      "   1 all_reduce over cols f32 sum 20 bytes",
                                      "loss: work+0 [5 valid s0] -> work+0 [5]\n",
                                      "product f32 m = 5, n = 1, k = s0; a = t0+0 transposed",
                                      "    adds work+64\n    stores work+128\n    gelu_tanh\n",
                                      "fill work+0 20 bytes\n",
                                      "commit\n",
                                      "copy t0+0 = work+64 20 bytes\n"};
  const char *at = text;
  for (size_t i = 0; i < countof(parts); i++) {
    at = strstr(at, parts[i]);
    if (!at) fail_msg("no \"%s\" in\n%s", parts[i], text);
  }
  arena_free(a);
}

// How workers divide products: by the batch; by rows, because kernels do; by columns with few rows,
// with long parts of rows, and with a short B that each would pack, transposed, as a whole.
static void divisions(void **state) {
  (void)state;
  static const struct {
    int64_t m, n, batches, workers;
    bool ta, tb;
    GemmDivision want;
  } rows[] = {{64, 64, 48, 2, false, false, {GEMM_BY_BATCH, 24}},
              {64, 64, 5, 2, false, true, {GEMM_BY_BATCH, 3}},
              {256, 3072, 1, 2, false, false, {GEMM_BY_ROWS, 128}},
              {768, 3072, 1, 2, true, false, {GEMM_BY_ROWS, 384}},
              {100, 64, 1, 2, true, false, {GEMM_BY_ROWS, 50}},
              {65, 128, 1, 2, true, false, {GEMM_BY_ROWS, 33}},
              {128, 512, 1, 2, true, false, {GEMM_BY_COLUMNS, 256}},
              {256, 1024, 1, 2, true, false, {GEMM_BY_ROWS, 128}},
              {1000, 64, 1, 2, true, false, {GEMM_BY_ROWS, 512}},
              {1024, 384, 1, 2, false, true, {GEMM_BY_ROWS, 512}},
              {256, 768, 1, 2, false, true, {GEMM_BY_COLUMNS, 384}},
              {256, 300, 1, 2, false, true, {GEMM_BY_ROWS, 128}},
              {16, 1000, 1, 3, false, false, {GEMM_BY_COLUMNS, 336}},
              {1024, 8192, 1, 2, false, false, {GEMM_BY_COLUMNS, 4096}}};
  for (size_t i = 0; i < countof(rows); i++) {
    Gemm g = {.factors = TYPE_F32, .type = TYPE_F32, .ta = rows[i].ta, .tb = rows[i].tb};
    GemmDivision d = gemm_division(&g, rows[i].m, rows[i].n, rows[i].batches, rows[i].workers);
    assert_int_equal(d.by, rows[i].want.by);
    assert_int_equal(d.each, rows[i].want.each);
  }
}

static bool read_machine(const char *text, Machine *m, char **said) {
  char path[] = "/tmp/meshc_machine_XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  FILE *f = fdopen(fd, "w");
  fputs(text, f);
  fclose(f);
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  bool ok = machine_read(m, d, path);
  assert_int_equal(ok, diag_errors(d) == 0);
  size_t n;
  FILE *out = open_memstream(said, &n);
  diag_print(d, out, false);
  fclose(out);
  arena_free(a);
  remove(path);
  return ok;
}

static void machine_files(void **state) {
  (void)state;
  Machine m = machine_default();
  char *said;
  assert_true(read_machine("# mine\n\nlatency = 1e-6 # s\n l2=2097152\r\n", &m, &said));
  free(said);
  assert_true(m.latency > 0.9e-6 && m.latency < 1.1e-6);
  assert_int_equal(m.l2, 2097152);
  assert_int_equal(m.l3, 32 << 20);
  assert_true(
      read_machine("latency.rows = 1e-3\nbandwidth.cols = 5e8\nlatency.cols = 0\n", &m, &said));
  free(said);
  Link rows = machine_link(&m, "rows"), cols = machine_link(&m, "cols"),
       deep = machine_link(&m, "deep");
  assert_true(rows.latency > 0.9e-3 && rows.bandwidth == m.bandwidth);
  assert_true(cols.latency == 0 && cols.bandwidth < 6e8);
  assert_true(deep.latency == m.latency && deep.bandwidth == m.bandwidth);
  Machine again = machine_default();
  Arena *text = arena_new();
  assert_true(read_machine(machine_print(text, &m), &again, &said));
  free(said);
  assert_string_equal(machine_print(text, &m), machine_print(text, &again));
  arena_free(text);
  static const char *const bad[][2] = {
      {"latency 3\n", "name = number"},       {"flops = fast\n", "'fast' is not"},
      {"flop = 3\n", "did you mean flops?"},  {"l2 = -1\n", "'-1' is not"},
      {"memory = nan\n", "'nan' is not"},     {"latency =\n", "is not a number"},
      {"flops = 0\n", "'0' is not"},          {"flops.rows = 1\n", "only latency and bandwidth"},
      {"bandwidth.rows = 0\n", "'0' is not"}, {"latency. = 1\n", "at most 8 axes"}};
  for (size_t i = 0; i < countof(bad); i++) {
    assert_false(read_machine(bad[i][0], &m, &said));
    assert_non_null(strstr(said, bad[i][1]));
    assert_non_null(strstr(said, ":1: error: "));
    free(said);
  }
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  assert_false(machine_read(&m, d, "/nowhere/at/all"));
  assert_int_equal(diag_exit(d), 5);
  arena_free(a);
}

// The shipped file of the built-in machine has its values; the other shipped files can be read.
static void machine_files_shipped(void **state) {
  (void)state;
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  Machine built_in = machine_default(), m = {0};
  assert_true(machine_read(&m, d, "examples/machines/default.txt"));
  assert_string_equal(machine_print(a, &m), machine_print(a, &built_in));
  m = built_in;
  assert_true(machine_read(&m, d, "examples/machines/hosts.txt"));
  assert_true(machine_link(&m, "hosts").bandwidth < m.bandwidth);
  m = built_in;
  assert_true(machine_read(&m, d, "examples/machines/cluster.txt") && !m.gpu);
  assert_true(machine_link(&m, "hosts").bandwidth < m.bandwidth);
  arena_free(a);
}

// The machines that meshc knows by name are the shipped files, and what is printed of them is read
// again as those of GPUs.
static void machines_by_name(void **state) {
  (void)state;
  static const char *const name[] = {"a100x1024", "a100x8", "h100", "h100x1024", "h100x32",
                                     "h100x512",  "h100x8", "h200", "h200x64",   "h200x8"};
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  assert_string_equal(machine_names(a),
                      "a100x1024, a100x8, h100, h100x1024, h100x32, h100x512, h100x8, h200, "
                      "h200x64, h200x8");
  for (size_t i = 0; i < countof(name); i++) {
    Machine m, file = machine_default(), again = machine_default();
    char *said;
    assert_true(machine_named(&m, name[i]));
    assert_true(machine_read(&file, d, arena_printf(a, "examples/machines/%s.txt", name[i])));
    assert_string_equal(machine_print(a, &m), machine_print(a, &file));
    assert_true(m.gpu && file.states_memory && !m.states_memory);
    assert_true((m.overlap > 0) == (strchr(name[i], 'x') != NULL) && (m.cores > 0) == !m.overlap);
    assert_true(read_machine(machine_print(a, &m), &again, &said));
    free(said);
    assert_true(again.gpu);
  }
  Machine m;
  assert_false(machine_named(&m, "h1000"));
  assert_false(machine_read(&m, d, "h1000"));
  arena_free(a);
}

// Rates of products by the type of their factors.
static void flops_by_type(void **state) {
  (void)state;
  Machine m = {.flops = 8};
  assert_true(machine_flops(&m, TYPE_F32) == 8 && machine_flops(&m, TYPE_BF16) == 8);
  assert_true(machine_flops(&m, TYPE_F64) == 4);
  m.bf16_flops = 128, m.f64_flops = 7;
  assert_true(machine_flops(&m, TYPE_F16) == 128 && machine_flops(&m, TYPE_F64) == 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slots_agree_with_dims),
      cmocka_unit_test(slots_scale_and_multiply),
      cmocka_unit_test(slots_follow_the_batch),
      cmocka_unit_test(directory_and_text),
      cmocka_unit_test(divisions),
      cmocka_unit_test(machine_files),
      cmocka_unit_test(machine_files_shipped),
      cmocka_unit_test(machines_by_name),
      cmocka_unit_test(flops_by_type),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

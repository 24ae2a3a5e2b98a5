// Tests the executor with a hand-made program of C kernels, on meshes of one, two and four
// processors, by one to four workers: blocks, kernels with partial results, GEMMs, collectives,
// commit, faults, short batches.
//
//   h[b, u] = x[b, d] w[d, u]     b over rows, u over cols
//   loss = mean over b of sum over u of h      all_reduce over rows and cols
//   w -= lr * gradient (here: the column sums of x over rows, all_reduce over rows)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/crew.h"
#include "runtime/runtime.h"

enum { B = 10, D = 6, U = 9 };

// -- kernels ------------------------------------------------------------------------------------

// Kernel h = x w. Its units are the rows of the block; slot: valid columns; num: length of the
// block's columns.
static void multiply_run(const KernelCall *c, int64_t lo, int64_t hi) {
  const float *x = c->ptr[0], *w = c->ptr[1];
  float *h = c->ptr[2];
  int64_t block = (int64_t)c->num[0];
  for (int64_t b = lo; b < hi; b++)
    for (int64_t u = 0; u < c->slot[0]; u++) {
      float s = 0;
      for (int64_t d = 0; d < D; d++) s += x[b * D + d] * w[d * block + u];
      h[b * block + u] = s;
    }
}
// Kernel: sum of h over the block, one partial result for each chunk.
static void sum_run(const KernelCall *c, int64_t lo, int64_t hi) {
  const float *h = c->ptr[0];
  int64_t block = (int64_t)c->num[0];
  double s = 0;
  for (int64_t b = lo; b < hi; b++)
    for (int64_t u = 0; u < c->slot[0]; u++) s += (double)h[b * block + u];
  *(double *)(void *)c->partial = s;
}
static void sum_combine(const KernelCall *c, int64_t n) {
  double s = 0;
  for (int64_t i = 0; i < n; i++) s += *(double *)(void *)(c->partial + 64 * i);
  *(float *)c->ptr[1] = (float)s;
}
// Kernel: column sums of x, g[d].
static void columns_run(const KernelCall *c, int64_t lo, int64_t hi) {
  const float *x = c->ptr[0];
  float *s = (float *)(void *)c->partial;
  for (int64_t d = 0; d < D; d++) s[d] = 0;
  for (int64_t b = lo; b < hi; b++)
    for (int64_t d = 0; d < D; d++) s[d] += x[b * D + d];
}
static void columns_combine(const KernelCall *c, int64_t n) {
  float *g = c->ptr[1];
  for (int64_t d = 0; d < D; d++) g[d] = 0;
  for (int64_t i = 0; i < n; i++)
    for (int64_t d = 0; d < D; d++) g[d] += ((float *)(void *)(c->partial + 64 * i))[d];
}
// Kernel w[d, u] -= 0.5 g[d]. Its units are the rows of w.
static void update_run(const KernelCall *c, int64_t lo, int64_t hi) {
  const float *g = c->ptr[0];
  float *w = c->ptr[1];
  int64_t block = (int64_t)c->num[0];
  for (int64_t d = lo; d < hi; d++)
    for (int64_t u = 0; u < c->slot[0]; u++) w[d * block + u] -= 0.5f * g[d];
}
// Kernel that checks that ids are in 0..99 and reports the first wrong one.
static void check_run(const KernelCall *c, int64_t lo, int64_t hi) {
  const int32_t *id = c->ptr[0];
  for (int64_t b = lo; b < hi; b++)
    if ((id[b] < 0 || id[b] >= 100) && c->status->code == 0) *c->status = (Status){1, id[b], b};
}

// -- the program --------------------------------------------------------------------------------

typedef struct Built {
  Program p;
  Slot slot[3];
  ProgTensor tensor[8];
  ProgKernel kernel[5];
  Instr instr[16];
  Check check[1];
  KernelSet set[8];
  Ref refs[32];
  int32_t slots[8];
  double nums[8];
  CollPart part[2];
  int nrefs, nsets, nslots, nnums;
  Arena *arena;
  Diag *diag;
} Built;

static ProgDim dim(const char *name, const Mesh *m, int64_t whole, Axes axes, int32_t extent) {
  ProgDim d = {name, whole, whole, axes, extent};
  for (int i = 0; i < axes.n; i++) d.block = ceil_div(d.block, m->axis[axes.at[i]].size);
  return d;
}

static void launch(Built *t, uint32_t kernel, int nptr, const Ref *ptr, int32_t slot, Size units,
                   double num, int64_t grain, Ref partial) {
  KernelSet *s = &t->set[t->nsets++];
  s->ptr = &t->refs[t->nrefs];
  memcpy(s->ptr, ptr, sizeof *ptr * (size_t)nptr);
  t->nrefs += nptr;
  s->slot = &t->slots[t->nslots++];
  s->slot[0] = slot;
  s->num = &t->nums[t->nnums++];
  s->num[0] = num;
  s->units = units;
  Instr *in = &t->instr[t->p.ninstrs++];
  *in = (Instr){.kind = INSTR_KERNEL};
  in->u.kernel =
      (KernelLaunch){.kernel = kernel, .nsets = 1, .set = s, .grain = grain, .partial = partial};
}

static void all_reduce(Built *t, Ref at, int64_t n, Axes axes) {
  CollPart *part = t->p.ninstrs > 6 ? &t->part[1] : &t->part[0];
  *part = (CollPart){.src = at,
                     .dst = at,
                     .rank = 1,
                     .src_block = {n},
                     .dst_block = {n},
                     .src_valid = {{n, -1}},
                     .dst_valid = {{n, -1}},
                     .gathered = -1,
                     .split = -1,
                     .value = "v"};
  Instr *in = &t->instr[t->p.ninstrs++];
  int64_t group = axes_size(&t->p.mesh, axes);
  *in = (Instr){.kind = INSTR_COLLECTIVE};
  in->u.collective = (Collective){.kind = COLL_ALL_REDUCE,
                                  .axes = axes,
                                  .type = TYPE_F32,
                                  .monoid = 1,
                                  .nparts = 1,
                                  .part = part,
                                  .bytes = n * 4,
                                  .wire_bytes = ceil_div(2 * n * 4 * (group - 1), group)};
}

enum { SLOT_B, SLOT_U };
enum {
  AT_X = 0,
  AT_H = 4096,
  AT_LOSS = 8192,
  AT_G = 8256,
  AT_PARTIAL = 8448,
  AT_IDS = 16384,
  ARENA = 32768
};

static void tensors(Built *t, Axes rows, Axes cols) {
  const Mesh *m = &t->p.mesh;
  ProgDim b = dim("b", m, B, rows, SLOT_B), d = dim("d", m, D, (Axes){0}, -1),
          u = dim("u", m, U, cols, SLOT_U);
  t->tensor[0] = (ProgTensor){.kind = TENSOR_INPUT,
                              .name = "x",
                              .type = TYPE_F32,
                              .rank = 2,
                              .dim = {b, d},
                              .declared = {0, 1},
                              .bytes = b.block * D * 4,
                              .at = {-1, AT_X, NULL, 0},
                              .of = -1};
  t->tensor[1] = (ProgTensor){.kind = TENSOR_PARAM,
                              .name = "w",
                              .type = TYPE_F32,
                              .rank = 2,
                              .dim = {d, u},
                              .declared = {0, 1},
                              .bytes = D * u.block * 4,
                              .at = {1, 0, NULL, 0},
                              .of = -1,
                              .init = {.kind = INIT_NORMAL, .b = 1}};
  t->tensor[2] = (ProgTensor){.kind = TENSOR_OUTPUT,
                              .name = "h",
                              .type = TYPE_F32,
                              .rank = 2,
                              .dim = {b, u},
                              .declared = {1, 0},
                              .bytes = b.block * u.block * 4,
                              .at = {-1, AT_H, NULL, 0},
                              .of = -1};
  t->tensor[3] = (ProgTensor){.kind = TENSOR_OUTPUT,
                              .name = "loss",
                              .type = TYPE_F32,
                              .bytes = 4,
                              .at = {-1, AT_LOSS, NULL, 0},
                              .of = -1};
  t->tensor[4] = (ProgTensor){.kind = TENSOR_INPUT,
                              .name = "ids",
                              .type = TYPE_I32,
                              .rank = 1,
                              .dim = {b},
                              .declared = {0},
                              .bytes = b.block * 4,
                              .at = {-1, AT_IDS, NULL, 0},
                              .of = -1};
  static const double constant[D] = {0, 1, 2, 3, 4, 5};
  t->tensor[5] = (ProgTensor){.kind = TENSOR_CONSTANT,
                              .name = "c",
                              .type = TYPE_F32,
                              .rank = 1,
                              .dim = {d},
                              .declared = {0},
                              .bytes = D * 4,
                              .at = {5, 0, NULL, 0},
                              .of = -1,
                              .data = constant};
  t->check[0] = (Check){.value = "ids", .dim = "vocab", .size = 100, .rank = 1, .loop = {b}};
  t->p.ntensors = 6;
}

static Built *build(int64_t rows_size, int64_t cols_size) {
  Built *t = calloc(1, sizeof *t);
  Axes rows = {1, {0}}, cols = {1, {1}}, both = {2, {0, 1}};
  t->arena = arena_new();
  t->diag = diag_new(t->arena);
  t->p = (Program){.model = "test",
                   .for_ = "train",
                   .over = "b",
                   .arena_bytes = ARENA,
                   .slot = t->slot,
                   .tensor = t->tensor,
                   .kernel = t->kernel,
                   .instr = t->instr,
                   .check = t->check,
                   .nslots = 2,
                   .nkernels = 5,
                   .nchecks = 1};
  t->p.mesh =
      (Mesh){.naxes = 2,
             .axis = {{.name = "rows", .size = rows_size}, {.name = "cols", .size = cols_size}}};
  t->slot[SLOT_B] = (Slot){.kind = SLOT_EXTENT, .dim = "b", .whole = B, .axes = rows};
  t->slot[SLOT_U] = (Slot){.kind = SLOT_EXTENT, .dim = "u", .whole = U, .axes = cols};
  tensors(t, rows, cols);
  t->kernel[0] =
      (ProgKernel){.name = "multiply", .nptr = 3, .nslot = 1, .nnum = 1, .run = multiply_run};
  t->kernel[1] = (ProgKernel){.name = "sum",
                              .nptr = 2,
                              .nslot = 1,
                              .nnum = 1,
                              .partial_bytes = 64,
                              .run = sum_run,
                              .combine = sum_combine};
  t->kernel[2] = (ProgKernel){.name = "columns",
                              .nptr = 2,
                              .nslot = 1,
                              .nnum = 1,
                              .partial_bytes = 64,
                              .run = columns_run,
                              .combine = columns_combine};
  t->kernel[3] =
      (ProgKernel){.name = "update", .nptr = 2, .nslot = 1, .nnum = 1, .run = update_run};
  t->kernel[4] = (ProgKernel){.name = "check", .nptr = 1, .nslot = 1, .nnum = 1, .run = check_run};
  Ref x = {-1, AT_X, NULL, 0}, w = {1, 0, NULL, 0}, h = {-1, AT_H, NULL, 0},
      loss = {-1, AT_LOSS, NULL, 0}, g = {-1, AT_G, NULL, 0}, ids = {-1, AT_IDS, NULL, 0};
  Ref partial = {-1, AT_PARTIAL, NULL, 0};
  double u_block = (double)t->tensor[1].dim[1].block;
  launch(t, 4, 1, (Ref[]){ids}, SLOT_B, (Size){1, SLOT_B}, 0, 2, (Ref){-1, 0, NULL, 0});
  launch(t, 0, 3, (Ref[]){x, w, h}, SLOT_U, (Size){1, SLOT_B}, u_block, 1, (Ref){-1, 0, NULL, 0});
  launch(t, 1, 2, (Ref[]){h, loss}, SLOT_U, (Size){1, SLOT_B}, u_block, 2, partial);
  all_reduce(t, loss, 1, both);
  launch(t, 2, 2, (Ref[]){x, g}, SLOT_B, (Size){1, SLOT_B}, 0, 3, partial);
  t->instr[t->p.ninstrs++] =
      (Instr){.kind = INSTR_FILL, .u.fill = {.dst = {-1, AT_PARTIAL, NULL, 0}, .bytes = 64}};
  t->instr[t->p.ninstrs++] =
      (Instr){.kind = INSTR_COPY, .u.copy = {{-1, AT_PARTIAL, NULL, 0}, {5, 0, NULL, 0}, D * 4}};
  all_reduce(t, g, D, rows);
  t->instr[t->p.ninstrs++] = (Instr){.kind = INSTR_COMMIT};
  launch(t, 3, 2, (Ref[]){g, w}, SLOT_U, (Size){D, -1}, u_block, 2, (Ref){-1, 0, NULL, 0});
  t->p.instr = t->instr;
  return t;
}

// Builds the program of build(). If `divided` is set, processors along rows share the memory of w,
// and each updates a part of it.
static Built *build_divided(int64_t rows_size, int64_t cols_size, bool divided) {
  Built *t = build(rows_size, cols_size);
  if (!divided) return t;
  t->tensor[1].shared = true;
  t->instr[t->p.ninstrs - 1].u.kernel.set[0].divided = 1 + 1;
  t->part[1].once = 1 + 1;
  return t;
}

static void built_free(Built *t) {
  arena_free(t->arena);
  free(t);
}

static void fill_x(float x[B][D], int32_t ids[B]) {
  for (int b = 0; b < B; b++) {
    for (int d = 0; d < D; d++) x[b][d] = (float)((b * 5 + d * 3) % 7 - 3);
    ids[b] = b;
  }
}

static Exec *make(Built *t, int threads) {
  Exec *e = exec_new(&t->p, &(ExecOptions){.threads = threads, .seed = 3, .must_be_finite = "loss"},
                     t->diag);
  if (!e) diag_print(t->diag, stderr, false);
  assert_non_null(e);
  assert_int_equal(exec_workers(e), threads);
  return e;
}

// -- tests --------------------------------------------------------------------------------------

static const int64_t meshes[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {3, 2}};
static const int threads[] = {1, 2, 3, 4};

// Steps agree with plain loops on every mesh, and bit for bit with any number of workers. With
// `divided`, processors along rows divide the update of w.
static void steps_agree_if(bool divided) {
  float x[B][D], first[2][D][U];
  int32_t ids[B];
  fill_x(x, ids);
  for (size_t i = 0; i < countof(meshes); i++)
    for (size_t k = 0; k < countof(threads); k++) {
      Built *t = build_divided(meshes[i][0], meshes[i][1], divided);
      Exec *e = make(t, threads[k]);
      float w[D][U], h[U][B];
      exec_read(e, TENSOR_PARAM, "w", w);
      if (i == 0 && k == 0) memcpy(first[0], w, sizeof w);
      assert_memory_equal(w, first[0], sizeof w); // the same random draws on every mesh
      exec_write(e, TENSOR_INPUT, "x", TYPE_F32, x);
      exec_write(e, TENSOR_INPUT, "ids", TYPE_I32, ids);
      assert_int_equal(exec_step(e, 0, true), STEP_OK);
      exec_read(e, TENSOR_OUTPUT, "h", h);
      double loss = 0;
      for (int b = 0; b < B; b++)
        for (int u = 0; u < U; u++) {
          float s = 0;
          for (int d = 0; d < D; d++) s += x[b][d] * w[d][u];
          assert_true(h[u][b] == s);
          loss += (double)s;
        }
      assert_true(fabs(exec_scalar(e, "loss") - loss) < 1e-4);
      assert_int_equal(exec_counts(e)->calls[COLL_ALL_REDUCE], 2);
      for (int step = 1; step < 20; step++) assert_int_equal(exec_step(e, step, true), STEP_OK);
      assert_true(exec_check(e, t->diag));
      assert_int_equal(exec_predicted(e)->calls[COLL_ALL_REDUCE], 40);
      assert_int_equal(exec_bytes(e), program_bytes(&t->p));
      exec_read(e, TENSOR_PARAM, "w", w);
      if (i == 0 && k == 0) memcpy(first[1], w, sizeof w);
      assert_memory_equal(w, first[1], sizeof w); // integer sums: exact on every mesh
      exec_free(e);
      built_free(t);
    }
}

static void steps_agree(void **state) {
  (void)state;
  steps_agree_if(false);
}
static void divided_updates_agree(void **state) {
  (void)state;
  steps_agree_if(true);
}

// A run that sends other bytes than predicted is found at its end. The prediction of a step without
// commit leaves the commit out.
static void counts_are_compared(void **state) {
  (void)state;
  for (int commit = 0; commit < 2; commit++)
    for (int wrong = 0; wrong < 2; wrong++) {
      Built *t = build(2, 2);
      float x[B][D];
      int32_t ids[B];
      fill_x(x, ids);
      for (uint32_t i = 0; i < t->p.ninstrs; i++)
        if (t->instr[i].kind == INSTR_COLLECTIVE) t->instr[i].u.collective.bytes += 4 * wrong;
      Exec *e = make(t, 2);
      exec_write(e, TENSOR_INPUT, "x", TYPE_F32, x);
      exec_write(e, TENSOR_INPUT, "ids", TYPE_I32, ids);
      for (int step = 0; step < 3; step++) assert_int_equal(exec_step(e, step, commit), STEP_OK);
      assert_int_equal(exec_check(e, t->diag), !wrong);
      assert_int_equal(diag_exit(t->diag), wrong);
      exec_free(e);
      built_free(t);
    }
}

// One processor gets a wrong element from a collective: only its replicas of later values differ.
static void a_wrong_element_is_one_replicas(void **state) {
  (void)state;
  for (int64_t processor = 0; processor < 8; processor++) {
    Built *t = build_divided(2, 2, processor >= 4);
    float x[B][D];
    int32_t ids[B];
    fill_x(x, ids);
    ExecInject inject = {.processor = processor % 4, .call = 1};
    ExecOptions opt = {.threads = 2, .seed = 3, .inject = &inject};
    Exec *e = exec_new(&t->p, &opt, t->diag), *right = make(t, 2), *copy = make(t, 1);
    exec_write(right, TENSOR_INPUT, "x", TYPE_F32, x);
    exec_write(right, TENSOR_INPUT, "ids", TYPE_I32, ids);
    exec_copy(e, right);
    exec_copy(copy, right);
    for (int step = 0; step < 2; step++) {
      assert_int_equal(exec_step(e, step, true), STEP_OK);
      assert_int_equal(exec_step(right, step, true), STEP_OK);
      assert_int_equal(exec_step(copy, step, true), STEP_OK);
    }
    int others = 0;
    for (uint32_t i = 0; i < t->p.ntensors; i++) {
      const ProgTensor *k = &t->p.tensor[i];
      if (k->kind != TENSOR_OUTPUT && k->kind != TENSOR_PARAM) continue;
      for (int64_t r = 0; r < exec_replicas(e, k->kind, k->name); r++) {
        float got[B * U], want[B * U], same[B * U];
        exec_read_replica(e, k->kind, k->name, r, got);
        exec_read(right, k->kind, k->name, want);
        exec_read_replica(copy, k->kind, k->name, r, same);
        int64_t n = 1;
        for (int d = 0; d < k->rank; d++) n *= k->dim[d].whole;
        others += memcmp(got, want, (size_t)n * sizeof *got) != 0;
        assert_memory_equal(same, want, (size_t)n * sizeof *got);
      }
    }
    assert_true(others > 0);
    exec_free(e);
    exec_free(copy);
    exec_free(right);
    built_free(t);
  }
}

// A program with nothing to parallelise is tried with one worker and with all; both give the same
// bits.
static void small_programs_try_both_crews(void **state) {
  (void)state;
  float x[B][D], first[D][U];
  int32_t ids[B];
  fill_x(x, ids);
  for (size_t k = 0; k < countof(threads); k++) {
    Built *t = build(2, 2);
    for (uint32_t i = 0; i < t->p.ninstrs; i++)
      if (t->instr[i].kind == INSTR_KERNEL) t->instr[i].u.kernel.grain = 1000;
    Exec *e = make(t, threads[k]);
    exec_write(e, TENSOR_INPUT, "x", TYPE_F32, x);
    exec_write(e, TENSOR_INPUT, "ids", TYPE_I32, ids);
    float w[D][U];
    for (int step = 0; step < 50; step++) assert_int_equal(exec_step(e, step, true), STEP_OK);
    exec_read(e, TENSOR_PARAM, "w", w);
    if (k == 0) memcpy(first, w, sizeof w);
    assert_memory_equal(w, first, sizeof w);
    exec_free(e);
    built_free(t);
  }
}

// Runs `steps` steps that take the given seconds by all workers and by one. Returns how many of
// them one worker ran.
static int steps_of_one(Crew *c, int steps, double all, double one) {
  int n = 0;
  for (int i = 0; i < steps; i++) {
    bool alone = crew_is_one(c);
    n += alone;
    crew_note(c, alone ? one : all);
  }
  return n;
}

static void crews_follow_the_time_of_steps(void **state) {
  (void)state;
  Crew c = {0};
  assert_true(steps_of_one(&c, 1000, 1e-3, 2e-3) < 100); // trials only
  assert_true(steps_of_one(&c, 100, 4e-3, 2e-3) > 60);   // another process takes a core
  assert_true(steps_of_one(&c, 1000, 4e-3, 2e-3) > 900);
  assert_true(steps_of_one(&c, 2000, 1e-3, 2e-3) < 500); // and gives it back: seen within a second
  assert_true(steps_of_one(&c, 1000, 1e-3, 2e-3) < 100);
  steps_of_one(&c, 12, 4e-3, 2e-3); // a disturbance that ends while one worker is tried
  assert_true(steps_of_one(&c, 100, 1e-3, 2e-3) < 20);
  c = (Crew){0};
  assert_int_equal(steps_of_one(&c, 1000, 1e-2, 1e-3), 0); // no trials of long steps
}

static void a_step_without_commit_changes_nothing(void **state) {
  (void)state;
  float x[B][D], before[D][U], after[D][U];
  int32_t ids[B];
  fill_x(x, ids);
  Built *t = build(2, 2);
  Exec *e = make(t, 2);
  exec_write(e, TENSOR_INPUT, "x", TYPE_F32, x);
  exec_write(e, TENSOR_INPUT, "ids", TYPE_I32, ids);
  exec_read(e, TENSOR_PARAM, "w", before);
  assert_int_equal(exec_step(e, 0, false), STEP_OK);
  exec_read(e, TENSOR_PARAM, "w", after);
  assert_memory_equal(before, after, sizeof after);
  x[7][2] = NAN;
  exec_write(e, TENSOR_INPUT, "x", TYPE_F32, x);
  assert_int_equal(exec_step(e, 0, true), STEP_NOT_FINITE);
  exec_read(e, TENSOR_PARAM, "w", after);
  assert_memory_equal(before, after, sizeof after);
  exec_free(e);
  built_free(t);
}

// The same fault, by global position, is reported on every mesh.
static void faults_are_told(void **state) {
  (void)state;
  for (size_t i = 0; i < countof(meshes); i++)
    for (size_t k = 0; k < countof(threads); k++) {
      float x[B][D], before[D][U], after[D][U];
      int32_t ids[B];
      fill_x(x, ids);
      ids[4] = 100;
      ids[9] = -1;
      Built *t = build(meshes[i][0], meshes[i][1]);
      Exec *e = make(t, threads[k]);
      exec_write(e, TENSOR_INPUT, "x", TYPE_F32, x);
      exec_write(e, TENSOR_INPUT, "ids", TYPE_I32, ids);
      exec_read(e, TENSOR_PARAM, "w", before);
      assert_int_equal(exec_step(e, 0, true), STEP_BAD_INDEX);
      exec_read(e, TENSOR_PARAM, "w", after);
      assert_memory_equal(before, after, sizeof after);
      exec_fault(e, t->diag);
      assert_int_equal(diag_exit(t->diag), 5);
      char *text;
      size_t n;
      FILE *out = open_memstream(&text, &n);
      diag_print(t->diag, out, false);
      fclose(out);
      if (!strstr(text, "ids[b=4] is 100, outside 0..99 of dim vocab")) fail_msg("%s", text);
      free(text);
      exec_free(e);
      built_free(t);
    }
}

// A short batch computes only the given rows; blocks beyond them are empty.
static void short_batches(void **state) {
  (void)state;
  float x[B][D];
  int32_t ids[B];
  fill_x(x, ids);
  for (size_t i = 0; i < countof(meshes); i++)
    for (int64_t rows = 1; rows <= B; rows++) {
      Built *t = build(meshes[i][0], meshes[i][1]);
      Exec *e = make(t, 2);
      float w[D][U], *h = malloc(sizeof(float) * U * (size_t)rows);
      exec_read(e, TENSOR_PARAM, "w", w);
      int32_t bad[B];
      for (int b = 0; b < B; b++)
        bad[b] = 1000; // left from an earlier full batch, must not be read
      exec_write(e, TENSOR_INPUT, "ids", TYPE_I32, bad);
      exec_rows(e, rows);
      exec_write(e, TENSOR_INPUT, "x", TYPE_F32, x);
      exec_write(e, TENSOR_INPUT, "ids", TYPE_I32, ids);
      assert_int_equal(exec_step(e, 0, false), STEP_OK);
      exec_read(e, TENSOR_OUTPUT, "h", h);
      double loss = 0;
      for (int b = 0; b < rows; b++)
        for (int u = 0; u < U; u++) {
          float s = 0;
          for (int d = 0; d < D; d++) s += x[b][d] * w[d][u];
          assert_true(h[u * rows + b] == s);
          loss += (double)s;
        }
      assert_true(fabs(exec_scalar(e, "loss") - loss) < 1e-4);
      free(h);
      exec_free(e);
      built_free(t);
    }
}

static void programs_share_tensors(void **state) {
  (void)state;
  Built *t = build(2, 2), *v = build(2, 2);
  Exec *e = make(t, 2);
  Exec *f = exec_new(&v->p, &(ExecOptions){.share = e, .seed = 99}, v->diag);
  assert_non_null(f);
  float w[D][U], shared[D][U];
  for (int i = 0; i < D * U; i++) (&w[0][0])[i] = (float)i;
  exec_write(e, TENSOR_PARAM, "w", TYPE_F32, w);
  exec_read(f, TENSOR_PARAM, "w", shared);
  assert_memory_equal(w, shared, sizeof w);
  exec_free(f);
  exec_free(e);
  built_free(v);
  v = build(4, 1); // other blocks: refused
  e = make(t, 2);
  assert_null(exec_new(&v->p, &(ExecOptions){.share = e}, v->diag));
  exec_free(e);
  built_free(t);
  built_free(v);
}

static void too_large_programs_are_refused(void **state) {
  (void)state;
  Built *t = build(2, 2);
  t->p.arena_bytes = (int64_t)1 << 50;
  assert_null(exec_new(&t->p, &(ExecOptions){.threads = 1}, t->diag));
  assert_int_equal(diag_exit(t->diag), 7);
  built_free(t);
}

// -- initial values and products ----------------------------------------------------------------

static void initial_values(void **state) {
  (void)state;
  static const double data[D * U] = {1, 2, 3};
  for (size_t i = 0; i < countof(meshes); i++) {
    Built *t = build(meshes[i][0], meshes[i][1]);
    t->tensor[1].init = (Init){.kind = INIT_ORTHOGONAL, .split = 1};
    Exec *e = make(t, 2);
    float w[D][U];
    exec_read(e, TENSOR_PARAM, "w", w);
    for (int a = 0; a < D; a++) // rows of a 6 x 9 matrix are orthonormal
      for (int b = 0; b < D; b++) {
        double s = 0;
        for (int u = 0; u < U; u++) s += (double)w[a][u] * (double)w[b][u];
        assert_true(fabs(s - (a == b)) < 1e-6);
      }
    exec_free(e);
    t->tensor[1].init = (Init){.kind = INIT_DATA, .data = data, .ndata = D * U};
    e = make(t, 1);
    exec_read(e, TENSOR_PARAM, "w", w);
    assert_true(w[0][1] == 2 && w[0][2] == 3 && w[5][8] == 0);
    exec_free(e);
    t->tensor[1].init = (Init){.kind = INIT_CONSTANT, .a = 0.25};
    e = make(t, 1);
    exec_read(e, TENSOR_PARAM, "w", w);
    assert_true(w[0][0] == 0.25f && w[5][8] == 0.25f);
    exec_free(e);
    built_free(t);
  }
}

// Checks a program of one GEMM on one processor: several workers compute panels and batches.
static void check_product(Gemm *what, int64_t a_elements, int64_t b_elements, int64_t c_elements,
                          const double *want, int workers) {
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  ProgTensor t[3] = {{.kind = TENSOR_INPUT,
                      .name = "a",
                      .type = what->factors,
                      .rank = 1,
                      .dim = {{"n", a_elements, a_elements, {0}, -1}},
                      .at = {-1, 0, NULL, 0},
                      .of = -1},
                     {.kind = TENSOR_INPUT,
                      .name = "b",
                      .type = what->factors,
                      .rank = 1,
                      .dim = {{"m", b_elements, b_elements, {0}, -1}},
                      .at = {-1, a_elements * 8, NULL, 0},
                      .of = -1},
                     {.kind = TENSOR_OUTPUT,
                      .name = "c",
                      .type = what->type,
                      .rank = 1,
                      .dim = {{"k", c_elements, c_elements, {0}, -1}},
                      .at = {-1, (a_elements + b_elements) * 8, NULL, 0},
                      .of = -1}};
  what->a = t[0].at, what->b = t[1].at, what->c = t[2].at;
  Instr in = {.kind = INSTR_GEMM, .u.gemm = *what};
  Program p = {.model = "test",
               .for_ = "run",
               .arena_bytes = (a_elements + b_elements + c_elements) * 8,
               .ntensors = 3,
               .ninstrs = 1,
               .tensor = t,
               .instr = &in};
  Exec *e = exec_new(&p, &(ExecOptions){.threads = workers}, d);
  assert_non_null(e);
  double *x = calloc((size_t)(a_elements + b_elements + c_elements), 8);
  for (int64_t i = 0; i < a_elements; i++) x[i] = (double)(i % 5 - 2);
  exec_write(e, TENSOR_INPUT, "a", TYPE_F64, x);
  for (int64_t i = 0; i < b_elements; i++) x[i] = (double)(i % 7 - 3);
  exec_write(e, TENSOR_INPUT, "b", TYPE_F64, x);
  assert_int_equal(exec_step(e, 0, true), STEP_OK);
  exec_read(e, TENSOR_OUTPUT, "c", x);
  for (int64_t i = 0; i < c_elements; i++) {
    double got = dtype_load(what->type, (char *)x + i * dtype_bytes(what->type));
    if (got != dtype_round(what->type, want[i]))
      fail_msg("element %lld: %g is not %g", (long long)i, got, want[i]);
  }
  free(x);
  exec_free(e);
  arena_free(a);
}

// Checks products of all four forms, with factors and results of these types.
static void check_products(Dtype factors, Dtype type, const int64_t sizes[][4], size_t n_sizes) {
  for (size_t s = 0; s < n_sizes; s++)
    for (int form = 0; form < 4; form++) {
      int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2], batch = sizes[s][3];
      bool ta = form & 1, tb = form & 2;
      Gemm what = {.factors = factors,
                   .type = type,
                   .ta = ta,
                   .tb = tb,
                   .m = {m, -1},
                   .n = {n, -1},
                   .k = {k, -1},
                   .lda = ta ? m : k,
                   .ldb = tb ? k : n,
                   .ldc = n,
                   .nbatch = 1};
      what.batch[0].count = (Size){batch, -1};
      what.batch[0].a = m * k, what.batch[0].b = k * n, what.batch[0].c = m * n;
      double *want = calloc((size_t)(batch * m * n), 8);
      for (int64_t q = 0; q < batch * m * n; q++) {
        int64_t z = q / (m * n), i = q / n % m, j = q % n;
        for (int64_t l = 0; l < k; l++) {
          int64_t ai = z * m * k + (ta ? l * m + i : i * k + l),
                  bi = z * k * n + (tb ? j * k + l : l * n + j);
          want[q] += (double)(ai % 5 - 2) * (double)(bi % 7 - 3);
        }
      }
      for (int workers = 1; workers <= 3; workers++)
        check_product(&what, batch * m * k, batch * k * n, batch * m * n, want, workers);
      free(want);
    }
}

static const int64_t product_sizes[][4] = {{3, 5, 7, 1},    {130, 70, 40, 1}, {40, 200, 33, 1},
                                           {20, 30, 40, 9}, {64, 64, 64, 2},  {130, 96, 40, 1},
                                           {10, 6200, 9, 1}};

static void products(void **state) {
  (void)state;
  // The long ones: m, n and k are more than a product of f32 packs at a time; sums in f64.
  static const int64_t more[][4] = {{1, 1, 1, 1},       {33, 31, 96, 3},    {58, 48, 390, 1},
                                    {29, 545, 800, 1},  {15, 20, 13000, 1}, {400, 3, 13000, 1},
                                    {5, 800, 13000, 1}, {132, 610, 390, 1}};
  static const Dtype types[] = {TYPE_F32, TYPE_F64};
  int found = 0;
  for (size_t i = 0; i < countof(types); i++) {
    if (!product_way(types[i], NULL)) continue;
    check_products(types[i], types[i], product_sizes, countof(product_sizes));
    check_products(types[i], types[i], more, countof(more));
    found++;
  }
  if (!found) skip();
}

static void products_of_bf16(void **state) {
  (void)state;
  if (!product_way(TYPE_BF16, NULL)) skip();
  // the long ones: k is more than the product packs at a time, m and n more than its sums in memory
  static const int64_t more[][4] = {{1, 1, 1, 1}, {33, 31, 96, 3}, {290, 70, 4200, 1}};
  static const Dtype results[] = {TYPE_F32, TYPE_BF16};
  for (size_t i = 0; i < countof(results); i++) {
    check_products(TYPE_BF16, results[i], product_sizes, countof(product_sizes));
    check_products(TYPE_BF16, results[i], more, countof(more));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_agree),
      cmocka_unit_test(divided_updates_agree),
      cmocka_unit_test(counts_are_compared),
      cmocka_unit_test(a_wrong_element_is_one_replicas),
      cmocka_unit_test(small_programs_try_both_crews),
      cmocka_unit_test(crews_follow_the_time_of_steps),
      cmocka_unit_test(a_step_without_commit_changes_nothing),
      cmocka_unit_test(faults_are_told),
      cmocka_unit_test(short_batches),
      cmocka_unit_test(programs_share_tensors),
      cmocka_unit_test(too_large_programs_are_refused),
      cmocka_unit_test(initial_values),
      cmocka_unit_test(products),
      cmocka_unit_test(products_of_bf16),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Tests the simulator on hand-made programs: blocking and overlapped collectives, processors that
// share cores, loops, caches.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "codegen/codegen.h"

enum { ARENA = 64 << 20, MB = 1000000 };
enum {
  A = 0,
  B = 16 << 20,
  C = 32 << 20,
  D = 48 << 20
}; // places in the arena, far from one another

typedef struct Trial {
  Arena *a;
  Machine m;
  Program p;
  Kernel *kernels[1];
  Compiled c;
  Instr instr[32];
} Trial;

// Starts a program on a machine with 1 GFLOP/s, a link of 1 GB/s, and no cost of memory traffic.
static void start(Trial *x, int64_t processors) {
  memset(x, 0, sizeof *x);
  x->a = arena_new();
  x->m =
      (Machine){.bandwidth = 1e9, .memory_rate = 1e30, .flops = 1e9, .l2 = 1 << 20, .l3 = 1 << 24};
  x->p = (Program){.mesh = {.naxes = 1, .axis = {{.name = "p", .size = processors}}},
                   .arena_bytes = ARENA,
                   .instr = x->instr};
  x->c = (Compiled){.program = &x->p, .kernels = x->kernels};
}

static Ref at(int64_t offset) { return (Ref){.tensor = -1, .offset = offset}; }
static Size just(int64_t n) { return (Size){.base = n, .slot = -1}; }

// Appends a GEMM that takes `ms` milliseconds: 100 * 100 * 50 multiplications and additions for
// each.
static void product(Trial *x, int64_t ms, int64_t a, int64_t b, int64_t c) {
  Instr in = {.kind = INSTR_GEMM};
  in.u.gemm = (Gemm){.factors = TYPE_F32,
                     .type = TYPE_F32,
                     .m = just(100),
                     .n = just(100),
                     .k = just(50 * ms),
                     .lda = 50 * ms,
                     .ldb = 100,
                     .ldc = 100,
                     .a = at(a),
                     .b = at(b),
                     .c = at(c)};
  x->instr[x->p.ninstrs++] = in;
}

// Appends an all_reduce of `bytes`, in place: each of two processors sends as many.
static void reduce(Trial *x, int64_t bytes, int64_t place) {
  CollPart *part = arena_new_of(x->a, CollPart);
  *part = (CollPart){.src = at(place),
                     .dst = at(place),
                     .rank = 1,
                     .src_block = {bytes / 4},
                     .dst_block = {bytes / 4}};
  Instr in = {.kind = INSTR_COLLECTIVE};
  in.u.collective = (Collective){.kind = COLL_ALL_REDUCE,
                                 .axes = {.n = 1, .at = {0}},
                                 .type = TYPE_F32,
                                 .monoid = 1,
                                 .nparts = 1,
                                 .part = part,
                                 .bytes = bytes,
                                 .wire_bytes = bytes};
  x->instr[x->p.ninstrs++] = in;
}

static void copy(Trial *x, int64_t bytes, int64_t from, int64_t to) {
  Instr in = {.kind = INSTR_COPY};
  in.u.copy.src = at(from);
  in.u.copy.dst = at(to);
  in.u.copy.bytes = bytes;
  x->instr[x->p.ninstrs++] = in;
}

static void loop(Trial *x, int64_t count) {
  Instr in = {.kind = INSTR_LOOP};
  in.u.loop.count = just(count);
  x->instr[x->p.ninstrs++] = in;
}
static void end_loop(Trial *x, uint32_t begin) {
  Instr in = {.kind = INSTR_END};
  in.u.end.begin = begin;
  x->instr[begin].u.loop.end = x->p.ninstrs;
  x->instr[x->p.ninstrs++] = in;
}

static bool near(double x, double y) {
  return x > y * (1 - 1e-6) - 1e-12 && x < y * (1 + 1e-6) + 1e-12;
}
#define assert_ms(x, y)                                                                            \
  do {                                                                                             \
    if (!near((x), 1e-3 * (y))) fail_msg("%s is %g ms, not %g", #x, 1e3 * (x), (double)(y));       \
  } while (0)

static void collectives_block(void **state) {
  (void)state;
  Trial x;
  start(&x, 2);
  product(&x, 1, A, B, C);
  reduce(&x, 3 * MB, C);
  product(&x, 2, A, B, D);
  const Simulation *s = simulate(x.a, &x.c, &x.m);
  assert_ms(s->seconds, 6);
  assert_ms(s->compute, 3);
  assert_ms(s->transfer, 3);
  assert_ms(s->hidden, 0);
  assert_ms(s->of[2], 2);
  assert_ms(s->of_kind[INSTR_GEMM], 3);
  assert_ms(s->of_kind[INSTR_COLLECTIVE], 3);
  arena_free(x.a);
}

// Simulates a reduction followed by `between` ms of work that does not need its result, then work
// that does.
static const Simulation *overlapped(Trial *x, int64_t sent, int64_t between) {
  start(x, 2);
  x->m.overlap = 1;
  product(x, 1, A, B, C);
  reduce(x, sent * MB, C);
  product(x, between, A, B, D);
  product(x, 1, C, B, D);
  return simulate(x->a, &x->c, &x->m);
}

static void work_hides_collectives(void **state) {
  (void)state;
  static const struct {
    int64_t sent, between;
    double seconds, hidden;
  } t[] = {
      {1, 2, 4, 1}, // completely hidden
      {2, 2, 4, 2}, // just hidden
      {3, 2, 5, 2}, // the last ms is not hidden
  };
  for (size_t i = 0; i < countof(t); i++) {
    Trial x;
    const Simulation *s = overlapped(&x, t[i].sent, t[i].between);
    assert_ms(s->seconds, t[i].seconds);
    assert_ms(s->hidden, t[i].hidden);
    assert_ms(s->transfer, (double)t[i].sent);
    assert_ms(s->compute, (double)t[i].between + 2);
    arena_free(x.a);
  }
}

static void one_link(void **state) {
  (void)state;
  Trial x;
  start(&x, 2);
  x.m.overlap = 1;
  reduce(&x, 2 * MB, A);
  reduce(&x, 2 * MB, B); // begins when the first collective has ended
  product(&x, 1, C, D, D + (4 << 20));
  product(&x, 1, B, C, D); // waits for the second collective
  Simulation *s = simulate(x.a, &x.c, &x.m);
  assert_ms(s->seconds, 5);
  assert_ms(s->hidden, 1);
  arena_free(x.a);
}

static void memory_under_way_is_left_alone(void **state) {
  (void)state;
  Trial x;
  start(&x, 2);
  x.m.overlap = 1;
  reduce(&x, 2 * MB, A);
  x.instr[0].u.collective.part[0].dst = at(B);
  product(&x, 1, C, D, A + 4096); // overwrites the buffer that is being sent
  Simulation *s = simulate(x.a, &x.c, &x.m);
  assert_ms(s->seconds, 3);
  x.instr[1].u.gemm.c = at(C);
  x.instr[1].u.gemm.a = at(A); // only reads the buffer
  assert_ms(simulate(x.a, &x.c, &x.m)->seconds, 2);
  arena_free(x.a);
}

static void commit_waits_for_all(void **state) {
  (void)state;
  Trial x;
  start(&x, 2);
  x.m.overlap = 1;
  reduce(&x, 2 * MB, A);
  product(&x, 1, B, C, D);
  x.instr[x.p.ninstrs++] = (Instr){.kind = INSTR_COMMIT};
  product(&x, 1, B, C, D);
  Simulation *s = simulate(x.a, &x.c, &x.m);
  assert_ms(s->seconds, 3);
  assert_ms(s->hidden, 1);
  arena_free(x.a);
}

static void processors_share_cores(void **state) {
  (void)state;
  static const struct {
    int64_t processors;
    double cores, ms;
  } t[] = {
      {4, 0, 8}, {4, 4, 8}, {4, 2, 16}, {4, 1, 32}, {3, 2, 16}, {2, 4, 4}, {1, 2, 4},
  };
  for (size_t i = 0; i < countof(t); i++) {
    Trial x;
    start(&x, t[i].processors);
    x.m.cores = t[i].cores;
    product(&x, 8, A, B, C);
    assert_ms(simulate(x.a, &x.c, &x.m)->seconds, t[i].ms);
    arena_free(x.a);
  }
}

static void one_core_runs_a_short_step(void **state) {
  (void)state;
  static const struct {
    int64_t work; // ms of one core
    double meeting, ms, all;
  } t[] = {
      {4, 0, 2, 2},
      {4, 1e-3, 4, 4}, // the cores meet twice
      {3, 1.5e-3, 3, 4.5},
      {16, 5e-3, 18, 18}, // long steps are not tried with one core
  };
  for (size_t i = 0; i < countof(t); i++) {
    Trial x;
    start(&x, 1);
    x.m.cores = 2;
    x.m.latency = t[i].meeting;
    product(&x, t[i].work, A, B, C);
    assert_ms(simulate(x.a, &x.c, &x.m)->seconds, t[i].ms);
    assert_ms(simulate_cores(x.a, &x.c, &x.m)->seconds, t[i].all);
    arena_free(x.a);
  }
}

// Two cores divide products and copies: what a product reads in the same ranges stays in their
// caches, half of the rest comes from the cache of the other core.
static void cores_take_over_what_others_write(void **state) {
  (void)state;
  enum { SIDE = 100, BYTES = 4 * SIDE * SIDE };
  static const struct {
    bool ta;
    int64_t written; // what a copy writes before the product
    double moved;    // bytes
  } t[] = {{false, A, 0}, {true, A, BYTES / 2}, {false, B, BYTES / 2}};
  for (size_t i = 0; i < countof(t); i++) {
    Trial x;
    start(&x, 1);
    x.m.cores = 2, x.m.memory_rate = x.m.l2_rate = 1e30, x.m.core_rate = 1e6;
    copy(&x, BYTES, C, t[i].written);
    product(&x, 1, A, B, D);
    x.instr[1].u.gemm.k = just(SIDE), x.instr[1].u.gemm.ta = t[i].ta;
    x.instr[1].u.gemm.lda = SIDE;
    assert_ms(simulate_cores(x.a, &x.c, &x.m)->of[1], 1 + 1e3 * t[i].moved / 2 / 1e6);
    arena_free(x.a);
  }
}

static void loops_repeat(void **state) {
  (void)state;
  Trial x;
  start(&x, 2);
  loop(&x, 5);
  product(&x, 1, A, B, C);
  loop(&x, 3);
  reduce(&x, MB, C);
  end_loop(&x, 2);
  end_loop(&x, 0);
  Simulation *s = simulate(x.a, &x.c, &x.m);
  assert_ms(s->seconds, 20);
  assert_ms(s->of[1], 5);
  assert_ms(s->of[3], 15);
  x.instr[0].u.loop.count = just(1);
  assert_ms(simulate(x.a, &x.c, &x.m)->seconds, 4);
  x.instr[0].u.loop.count = just(0);
  assert_ms(simulate(x.a, &x.c, &x.m)->seconds, 0);
  // With overlap each round hides one ms of the three that it sends; the step ends after the last
  // collective.
  x.instr[0].u.loop.count = just(5);
  x.m.overlap = 1;
  s = simulate(x.a, &x.c, &x.m);
  assert_ms(s->transfer, 15);
  assert_ms(s->compute, 5);
  assert_ms(s->seconds, s->hidden == 0 ? 20 : 1e3 * (20e-3 - s->hidden));
  arena_free(x.a);
}

static void caches_count(void **state) {
  (void)state;
  Trial x;
  start(&x, 1);
  x.m.memory_rate = 1e9, x.m.l3_rate = 4e9, x.m.l2_rate = 1e10;
  copy(&x, 1 << 18, A, B); // every step in the same place: source and destination fit l2
  assert_ms(simulate(x.a, &x.c, &x.m)->seconds, 2e3 * (1 << 18) / 1e10);
  x.instr[0].u.copy.bytes = 4 << 20; // they fit l3
  assert_ms(simulate(x.a, &x.c, &x.m)->seconds, 2e3 * (4 << 20) / 4e9);
  x.instr[0].u.copy.bytes = 12 << 20; // they fit no cache
  assert_ms(simulate(x.a, &x.c, &x.m)->seconds, 2e3 * (12 << 20) / 1e9);
  arena_free(x.a);
}

static void shared_memory(void **state) {
  (void)state;
  Trial x;
  start(&x, 4);
  x.m.cores = 2, x.m.shared = 1, x.m.latency = 1e-3, x.m.memory_rate = 2e9;
  // two processors on one core each read a MB and write one: 2 ms; the rendezvous of the collective
  // takes 1 ms, and so does the rendezvous at the end of the step
  reduce(&x, MB, A);
  assert_ms(simulate(x.a, &x.c, &x.m)->seconds, 2 + 1 + 1);
  arena_free(x.a);
}

// A kernel y = x * x over 1000 elements in vectors of 16.
static void kernels_by_bytes_and_operations(void **state) {
  (void)state;
  Trial x;
  start(&x, 1);
  KPtr ptr[2] = {{.type = TYPE_F32, .stride = {1}},
                 {.type = TYPE_F32, .stride = {1}, .written = true}};
  KStmt stmt[3] = {
      {.kind = K_LOAD,
       .type = TYPE_F32,
       .level = LEVEL_OUTER,
       .arg = {NO_STMT, NO_STMT, NO_STMT},
       .index = 0},
      {.kind = K_OP, .op = OP_MUL, .type = TYPE_F32, .level = LEVEL_OUTER, .arg = {0, 0, NO_STMT}},
      {.kind = K_STORE,
       .type = TYPE_F32,
       .level = LEVEL_OUTER,
       .arg = {1, NO_STMT, NO_STMT},
       .index = 1},
  };
  Kernel k = {.name = "k",
              .nouter = 1,
              .loop = {{.name = "n", .size = 100000, .slot = -1}},
              .vector = 0,
              .block = 1024,
              .rows = -1,
              .nphases = 1,
              .nptr = 2,
              .nstmts = 3,
              .ptr = ptr,
              .stmt = stmt};
  ProgKernel kernel = {.name = "k", .nptr = 2};
  Ref places[2] = {at(A), at(B)};
  KernelSet set = {.ptr = places, .units = just(98)};
  x.kernels[0] = &k;
  x.p.nkernels = 1, x.p.kernel = &kernel;
  x.instr[x.p.ninstrs++] = (Instr){
      .kind = INSTR_KERNEL, .u.kernel = {.nsets = 1, .set = &set, .grain = 10, .chunks = 10}};
  x.m.memory_rate = 1e9, x.m.launch = 1e-4;
  assert_ms(simulate(x.a, &x.c, &x.m)->seconds, 0.8 + 0.1); // limited by memory: 800,000 bytes
  x.m.operations =
      1e7; // a multiplication, and loads and stores of half as much and as much: 250,000
  assert_ms(simulate(x.a, &x.c, &x.m)->seconds, 25 + 0.1);
  // x is read row by row against its order in memory: each vector needs one load per element.
  ptr[0].stride[0] = 10;
  assert_true(simulate(x.a, &x.c, &x.m)->seconds > 0.1);
  arena_free(x.a);
}

// The gradient of the weights of a convolution, 8 images of 8 x 8 with 16 channels: 16 tiles an
// image, each with 16 products of a 16 x 16 matrix.
static void convolutions_count_the_products_of_tiles(void **state) {
  (void)state;
  Trial x;
  start(&x, 1);
  KPtr ptr[3] = {
      {.type = TYPE_F32, .stride = {1600, 160, 16, 160, 16, 1, 0}},
      {.type = TYPE_F32, .stride = {1024, 128, 16, 0, 0, 0, 1}},
      {.type = TYPE_F32, .stride = {0, 0, 0, 768, 256, 16, 1}, .written = true},
  };
  KStmt load = {.kind = K_LOAD,
                .type = TYPE_F32,
                .level = LEVEL_INNER,
                .arg = {NO_STMT, NO_STMT, NO_STMT}},
        stmt[4] = {load, load, load, load};
  stmt[1].index = 1;
  stmt[2].kind = K_OP, stmt[2].op = OP_MUL, stmt[2].arg[0] = 0, stmt[2].arg[1] = 1;
  stmt[3].kind = K_ACCUM, stmt[3].op = OP_SUM, stmt[3].arg[0] = 2, stmt[3].index = 2;
  Kernel k = {.name = "k",
              .nouter = 1,
              .ninner = 6,
              .vector = 6,
              .rows = -1,
              .images = true,
              .nphases = 1,
              .nptr = 3,
              .nstmts = 4,
              .ptr = ptr,
              .stmt = stmt};
  static const int64_t size[7] = {8, 8, 8, 3, 3, 16, 16};
  for (int l = 0; l < 7; l++) k.loop[l] = (KLoop){.name = "l", .size = size[l], .slot = -1};
  ProgKernel kernel = {.name = "k", .nptr = 3};
  Ref places[3] = {at(A), at(B), at(C)};
  KernelSet set = {.ptr = places, .units = just(8)};
  x.kernels[0] = &k;
  x.p.nkernels = 1, x.p.kernel = &kernel;
  x.instr[x.p.ninstrs++] =
      (Instr){.kind = INSTR_KERNEL, .u.kernel = {.nsets = 1, .set = &set, .grain = 1, .chunks = 8}};
  double flops = 2.0 * 8 * 16 * 16 * 16 * 16;
  x.m.winograd_flops = 1e9;
  double products = simulate(x.a, &x.c, &x.m)->seconds;
  assert_ms(products, flops / 1e6);
  x.m.winograd_flops = 0; // 0.7 of 1 GFLOP/s
  assert_ms(simulate(x.a, &x.c, &x.m)->seconds, flops / 0.7e6);
  x.m.winograd_flops = 1e9, x.m.operations = 1e12; // the transforms take a little time
  double seconds = simulate(x.a, &x.c, &x.m)->seconds;
  assert_true(seconds > products && seconds < 1.001 * products);
  arena_free(x.a);
}

// Returns the seconds of a kernel z[b, c] = sum[h] x[b, h] y[h, c] on machine x->m: 64 rows, in
// register tiles of 8, c results in a row, sums of 32. vector: the loop of the vectors, that over c
// (1) or h (2). c_stride: elements between neighbours of y along c.
static double tiles_seconds(Trial *x, int64_t c, int vector, int64_t c_stride) {
  KPtr ptr[3] = {{.type = TYPE_F32, .stride = {32, 0, 1}},
                 {.type = TYPE_F32, .stride = {0, c_stride, c_stride == 1 ? 16 : 1}},
                 {.type = TYPE_F32, .stride = {16, 1, 0}, .written = true}};
  KStmt load = {.kind = K_LOAD,
                .type = TYPE_F32,
                .level = LEVEL_INNER,
                .arg = {NO_STMT, NO_STMT, NO_STMT}},
        stmt[5] = {load, load, load, load, load};
  stmt[1].index = 1;
  stmt[2].kind = K_OP, stmt[2].op = OP_MUL, stmt[2].arg[0] = 0, stmt[2].arg[1] = 1;
  stmt[3].kind = K_REDUCE, stmt[3].op = OP_SUM, stmt[3].arg[0] = 2;
  stmt[4].kind = K_STORE, stmt[4].index = 2, stmt[4].arg[0] = 3;
  stmt[4].level = LEVEL_OUTER, stmt[4].phase = 1;
  Kernel k = {.name = "k",
              .nouter = 2,
              .ninner = 1,
              .loop = {{.name = "b", .size = 64, .slot = -1},
                       {.name = "c", .size = c, .slot = -1},
                       {.name = "h", .size = 32, .slot = -1}},
              .vector = (int8_t)vector,
              .block = 64,
              .rows = 0,
              .nphases = 2,
              .nptr = 3,
              .nstmts = 5,
              .ptr = ptr,
              .stmt = stmt};
  ProgKernel kernel = {.name = "k", .nptr = 3};
  Ref places[3] = {at(A), at(B), at(C)};
  KernelSet set = {.ptr = places, .units = just(64)};
  x->kernels[0] = &k;
  x->p.nkernels = 1, x->p.kernel = &kernel, x->p.ninstrs = 1;
  x->instr[0] = (Instr){.kind = INSTR_KERNEL,
                        .u.kernel = {.nsets = 1, .set = &set, .grain = 64, .chunks = 1}};
  return simulate(x->a, &x->c, &x->m)->seconds;
}

static void tiles_count_full_vectors(void **state) {
  (void)state;
  Trial x;
  start(&x, 1);
  x.m.tile_flops = 1e9;
  double flops = 2.0 * 64 * 16 * 32;
  assert_ms(tiles_seconds(&x, 16, 1, 1), flops / 1e6);
  assert_ms(tiles_seconds(&x, 8, 1, 1), flops / 1e6); // half of the lanes are empty
  arena_free(x.a);
}

// Elements that are apart are loaded one by one, once for the 8 rows of a tile.
static void tiles_load_what_is_apart(void **state) {
  (void)state;
  Trial x;
  start(&x, 1);
  x.m.tile_flops = 1e30, x.m.operations = 1e9;
  double vectors = 64 / 8 * 32, plain = tiles_seconds(&x, 16, 1, 1);
  assert_ms(tiles_seconds(&x, 16, 1, 32) - plain, vectors * 16 * 16 / 1e6);
  arena_free(x.a);
}

// Where vectors run along the sums, the rows of a tile join their lanes together: 64 * 16 sums of
// two vectors each, and three operations to join one.
static void tiles_join_lanes(void **state) {
  (void)state;
  Trial x;
  start(&x, 1);
  x.m.operations = 1e9;
  double sums = 64 * 16, with = tiles_seconds(&x, 16, 2, 32);
  assert_true(with > sums * 16 * (2 + 3) / 1e9 && with < sums * 16 * 9 / 1e9);
  arena_free(x.a);
}

// Of two guarded loops of which one runs, the one that takes longer counts, whichever comes first.
static void one_of_two_loops_runs(void **state) {
  (void)state;
  for (int64_t first = 2; first <= 5; first += 3) {
    Trial x;
    uint32_t instead[16] = {0};
    start(&x, 1);
    loop(&x, 4);
    for (int k = 0; k < 2; k++) {
      uint32_t begin = x.p.ninstrs;
      loop(&x, 1);
      x.instr[begin].u.loop.guarded = true;
      x.instr[begin].u.loop.guard = at(D);
      product(&x, k ? 7 - first : first, A, B, C);
      end_loop(&x, begin);
      instead[begin] = k ? 2 : 0; // 1 + the index of the first of them
    }
    end_loop(&x, 0);
    product(&x, 1, A, B, D);
    x.c.instead = instead;
    const Simulation *s = simulate(x.a, &x.c, &x.m);
    assert_ms(s->seconds, 4 * 5 + 1);
    assert_ms(s->of[2], first == 5 ? 20 : 0);
    assert_ms(s->of[5], first == 5 ? 0 : 20);
    arena_free(x.a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(collectives_block),
      cmocka_unit_test(work_hides_collectives),
      cmocka_unit_test(one_link),
      cmocka_unit_test(memory_under_way_is_left_alone),
      cmocka_unit_test(commit_waits_for_all),
      cmocka_unit_test(processors_share_cores),
      cmocka_unit_test(one_core_runs_a_short_step),
      cmocka_unit_test(cores_take_over_what_others_write),
      cmocka_unit_test(loops_repeat),
      cmocka_unit_test(one_of_two_loops_runs),
      cmocka_unit_test(caches_count),
      cmocka_unit_test(shared_memory),
      cmocka_unit_test(kernels_by_bytes_and_operations),
      cmocka_unit_test(convolutions_count_the_products_of_tiles),
      cmocka_unit_test(tiles_count_full_vectors),
      cmocka_unit_test(tiles_load_what_is_apart),
      cmocka_unit_test(tiles_join_lanes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

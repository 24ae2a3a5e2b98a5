// Tests the local communicator: every kind of collective against plain loops over whole arrays, on
// meshes of several shapes, even and uneven, by one, two and four workers; and the barrier.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/local/comm.h"

enum { MAX_P = 8 };

// -- running a call with a team -----------------------------------------------------------------

typedef struct Run {
  Comm *comm;
  const CommCall *call;
  int worker, workers;
} Run;
static void *run_one(void *p) {
  Run *r = p;
  assert_true(comm_run(r->comm, r->call, r->worker, r->workers));
  return NULL;
}
// Runs a call with that many workers. The bytes counted must be those of the call; if these are
// negative they are a limit.
static void run_all(const Mesh *m, const CommCall *call, int workers) {
  Comm *c = comm_local(m, workers);
  pthread_t thread[8];
  Run run[8];
  for (int w = 0; w < workers; w++) {
    run[w] = (Run){c, call, w, workers};
    pthread_create(&thread[w], NULL, run_one, &run[w]);
  }
  for (int w = 0; w < workers; w++) pthread_join(thread[w], NULL);
  assert_int_equal(c->count.calls[call->what->kind], 1);
  if (call->what->bytes < 0)
    assert_in_range(c->count.bytes[call->what->kind], 0, -call->what->bytes);
  else
    assert_int_equal(c->count.bytes[call->what->kind], call->what->bytes);
  comm_free(c);
}

// -- blocks of a matrix x[rows, cols] over two mesh axes ----------------------------------------

typedef struct Grid {
  Mesh mesh;
  int64_t size[2]; // size of the whole matrix
} Grid;

// Computes processor r's block of dim d, split over `axes`: start, valid elements, length.
static void block(const Mesh *m, int64_t n, Axes axes, int64_t r, int64_t *start, int64_t *valid,
                  int64_t *length) {
  *start = 0, *valid = n, *length = n;
  for (int i = 0; i < axes.n; i++) {
    *length = ceil_div(*length, m->axis[axes.at[i]].size);
    int64_t skip = mesh_coord(m, r, axes.at[i]) * *length;
    *start += skip;
    *valid = clamp64(*valid - skip, 0, *length);
  }
}

static float whole_at(int64_t term, int64_t i, int64_t j) {
  return (float)((i * 37 + j * 11 + term * 5) % 64);
}

// One side of a call: the dims are split over cut[0] and cut[1], and every processor has its block.
typedef struct Side {
  Axes cut[2];
  float *data[MAX_P];
  int64_t length[2];
  int64_t valid[MAX_P][MAX_RANK], start[MAX_P][2];
} Side;

static void side_make(Side *s, const Grid *g, Axes a, Axes b) {
  *s = (Side){.cut = {a, b}};
  for (int64_t r = 0; r < mesh_size(&g->mesh); r++) {
    for (int d = 0; d < 2; d++)
      block(&g->mesh, g->size[d], s->cut[d], r, &s->start[r][d], &s->valid[r][d], &s->length[d]);
    size_t n = (size_t)(s->length[0] * s->length[1]);
    s->data[r] = malloc(sizeof(float) * (n + 1));
    for (size_t i = 0; i < n; i++)
      s->data[r][i] = NAN; // finds elements that are not written or not valid
  }
}

// Fills valid elements. Processors with different ranks over `partial` have different partial sums.
static void side_fill(Side *s, const Grid *g, Axes partial) {
  for (int64_t r = 0; r < mesh_size(&g->mesh); r++)
    for (int64_t i = 0; i < s->valid[r][0]; i++)
      for (int64_t j = 0; j < s->valid[r][1]; j++)
        s->data[r][i * s->length[1] + j] =
            whole_at(axes_rank(&g->mesh, partial, r), s->start[r][0] + i, s->start[r][1] + j);
}

static void side_check(const Side *s, const Grid *g, int64_t terms) {
  for (int64_t r = 0; r < mesh_size(&g->mesh); r++)
    for (int64_t i = 0; i < s->valid[r][0]; i++)
      for (int64_t j = 0; j < s->valid[r][1]; j++) {
        float want = 0, got = s->data[r][i * s->length[1] + j];
        for (int64_t t = 0; t < terms; t++)
          want += whole_at(t, s->start[r][0] + i, s->start[r][1] + j);
        if (got != want)
          fail_msg("processor %lld [%lld, %lld]: %g is not %g", (long long)r, (long long)i,
                   (long long)j, (double)got, (double)want);
      }
}

static void side_free(Side *s, const Grid *g) {
  for (int64_t r = 0; r < mesh_size(&g->mesh); r++) free(s->data[r]);
}

static const Axes NONE = {0}, FIRST = {1, {0}}, SECOND = {1, {1}}, BOTH = {2, {0, 1}},
                  SWAPPED = {2, {1, 0}};

static void check_call(const Grid *g, CollKind kind, Axes axes, Axes to, int gathered, int cut,
                       const Axes src_cut[2], const Axes dst_cut[2], bool sums) {
  for (int workers = 1; workers <= 4; workers *= 2) {
    Side src, dst;
    side_make(&src, g, src_cut[0], src_cut[1]);
    side_make(&dst, g, dst_cut[0], dst_cut[1]);
    side_fill(&src, g, sums ? axes : NONE);
    CollPart part = {.rank = 2, .gathered = (int8_t)gathered, .split = (int8_t)cut, .value = "x"};
    for (int d = 0; d < 2; d++) {
      part.src_block[d] = src.length[d];
      part.dst_block[d] = dst.length[d];
    }
    if (kind == COLL_PERMUTE && cut >= 0) part.whole = g->size[cut];
    for (int d = 0; d < 2 && kind == COLL_PERMUTE && cut < 0; d++)
      part.moved[d] = (MovedDim){g->size[d], src_cut[d], dst_cut[d]};
    Collective what = {.kind = kind,
                       .axes = axes,
                       .to = to,
                       .type = TYPE_F32,
                       .monoid = sums ? 1 : 0,
                       .nparts = 1,
                       .part = &part,
                       .bytes = 4 * (kind == COLL_ALL_GATHER ? dst.length[0] * dst.length[1]
                                                             : src.length[0] * src.length[1])};
    if (kind == COLL_PERMUTE) what.bytes = -what.bytes * mesh_size(&g->mesh); // a limit
    CommMember member[MAX_P];
    for (int64_t r = 0; r < mesh_size(&g->mesh); r++)
      member[r] = (CommMember){r, (void *const *)&src.data[r], (void *const *)&dst.data[r],
                               src.valid[r], dst.valid[r]};
    CommCall call = {&what, 1, mesh_size(&g->mesh), member, false};
    run_all(&g->mesh, &call, workers);
    side_check(&dst, g, sums ? axes_size(&g->mesh, axes) : 1);
    side_free(&src, g);
    side_free(&dst, g);
  }
}

static void each_grid(void (*check)(const Grid *)) {
  static const int64_t shapes[][2] = {{1, 1}, {2, 1}, {2, 2}, {4, 2}, {3, 2}, {1, 4}};
  static const int64_t sizes[][2] = {{8, 8}, {10, 7}, {5, 3}, {2, 9}, {64, 120}, {1, 1}};
  for (size_t i = 0; i < countof(shapes); i++)
    for (size_t k = 0; k < countof(sizes); k++) {
      Grid g = {{.naxes = 2,
                 .axis = {{.name = "rows", .size = shapes[i][0]},
                          {.name = "cols", .size = shapes[i][1]}}},
                {sizes[k][0], sizes[k][1]}};
      check(&g);
    }
}

static void check_all_reduce(const Grid *g) {
  check_call(g, COLL_ALL_REDUCE, FIRST, NONE, -1, -1, (Axes[]){SECOND, NONE},
             (Axes[]){SECOND, NONE}, true);
  check_call(g, COLL_ALL_REDUCE, SECOND, NONE, -1, -1, (Axes[]){NONE, FIRST}, (Axes[]){NONE, FIRST},
             true);
  check_call(g, COLL_ALL_REDUCE, BOTH, NONE, -1, -1, (Axes[]){NONE, NONE}, (Axes[]){NONE, NONE},
             true);
}
static void check_all_gather(const Grid *g) {
  check_call(g, COLL_ALL_GATHER, FIRST, NONE, 0, -1, (Axes[]){FIRST, SECOND},
             (Axes[]){NONE, SECOND}, false);
  check_call(g, COLL_ALL_GATHER, SECOND, NONE, 1, -1, (Axes[]){FIRST, SECOND},
             (Axes[]){FIRST, NONE}, false);
  check_call(g, COLL_ALL_GATHER, BOTH, NONE, 0, -1, (Axes[]){BOTH, NONE}, (Axes[]){NONE, NONE},
             false);
  check_call(g, COLL_ALL_GATHER, SECOND, NONE, 1, -1, (Axes[]){NONE, BOTH}, (Axes[]){NONE, FIRST},
             false);
}
static void check_reduce_scatter(const Grid *g) {
  check_call(g, COLL_REDUCE_SCATTER, FIRST, NONE, -1, 0, (Axes[]){NONE, SECOND},
             (Axes[]){FIRST, SECOND}, true);
  check_call(g, COLL_REDUCE_SCATTER, SECOND, NONE, -1, 1, (Axes[]){FIRST, NONE},
             (Axes[]){FIRST, SECOND}, true);
  check_call(g, COLL_REDUCE_SCATTER, BOTH, NONE, -1, 1, (Axes[]){NONE, NONE}, (Axes[]){NONE, BOTH},
             true);
}
static void check_all_to_all(const Grid *g) {
  check_call(g, COLL_ALL_TO_ALL, FIRST, NONE, 0, 1, (Axes[]){FIRST, NONE}, (Axes[]){NONE, FIRST},
             false);
  check_call(g, COLL_ALL_TO_ALL, SECOND, NONE, 1, 0, (Axes[]){FIRST, SECOND}, (Axes[]){BOTH, NONE},
             false);
}
static void check_permute(const Grid *g) {
  check_call(g, COLL_PERMUTE, FIRST, SECOND, -1, 0, (Axes[]){FIRST, NONE}, (Axes[]){SECOND, NONE},
             false);
  check_call(g, COLL_PERMUTE, BOTH, SWAPPED, -1, 1, (Axes[]){NONE, BOTH}, (Axes[]){NONE, SWAPPED},
             false);
  check_call(g, COLL_PERMUTE, BOTH, BOTH, -1, -1, (Axes[]){FIRST, SECOND}, (Axes[]){SECOND, FIRST},
             false);
  check_call(g, COLL_PERMUTE, BOTH, BOTH, -1, -1, (Axes[]){BOTH, NONE}, (Axes[]){NONE, SWAPPED},
             false);
  check_call(g, COLL_PERMUTE, FIRST, BOTH, -1, -1, (Axes[]){FIRST, NONE}, (Axes[]){SECOND, FIRST},
             false);
}

// Checks a footprint collective: each processor gets the interval of dim 0 that its block of `of`
// reads. Dim 1 is replicated or split over `other`.
static void check_footprint(const Grid *g, Axes cut, Axes of, Axes other, Affine affine,
                            int64_t outs) {
  Footprint footprint = {.out_size = outs, .tap_size = 3, .out_axes = of, .affine = affine};
  Side src, dst;
  side_make(&src, g, cut, other);
  side_fill(&src, g, NONE);
  dst = (Side){.cut = {of, other}};
  for (int64_t r = 0; r < mesh_size(&g->mesh); r++) {
    footprint_interval(&g->mesh, &footprint, g->size[0], r, &dst.start[r][0], &dst.valid[r][0]);
    block(&g->mesh, g->size[1], other, r, &dst.start[r][1], &dst.valid[r][1], &dst.length[1]);
    if (dst.valid[r][0] > dst.length[0]) dst.length[0] = dst.valid[r][0];
  }
  for (int64_t r = 0; r < mesh_size(&g->mesh); r++) {
    size_t n = (size_t)(dst.length[0] * dst.length[1]);
    dst.data[r] = malloc(sizeof(float) * (n + 1));
    for (size_t i = 0; i < n; i++) dst.data[r][i] = NAN;
  }
  CollPart part = {.rank = 2,
                   .gathered = -1,
                   .split = 0,
                   .whole = g->size[0],
                   .footprint = footprint,
                   .value = "x"};
  for (int d = 0; d < 2; d++) part.src_block[d] = src.length[d], part.dst_block[d] = dst.length[d];
  Collective what = {.kind = COLL_PERMUTE,
                     .axes = cut,
                     .to = of,
                     .type = TYPE_F32,
                     .nparts = 1,
                     .part = &part,
                     .bytes = -4 * src.length[0] * src.length[1] * mesh_size(&g->mesh)}; // a limit
  CommMember member[MAX_P];
  for (int64_t r = 0; r < mesh_size(&g->mesh); r++)
    member[r] = (CommMember){r, (void *const *)&src.data[r], (void *const *)&dst.data[r],
                             src.valid[r], dst.valid[r]};
  CommCall call = {&what, 1, mesh_size(&g->mesh), member, false};
  for (int workers = 1; workers <= 4; workers *= 2) {
    run_all(&g->mesh, &call, workers);
    side_check(&dst, g, 1);
  }
  side_free(&src, g);
  side_free(&dst, g);
}

static void check_halo(const Grid *g) {
  static const Affine ways[] = {{1, 1, -1, 1}, {2, 1, 0, 1}, {1, -1, 1, 2},
                                {-1, 0, 4, 1}, {1, 0, 3, 1}, {1, 0, -90, 1}};
  for (size_t w = 0; w < countof(ways); w++) {
    check_footprint(g, FIRST, FIRST, NONE, ways[w], g->size[0]);
    check_footprint(g, FIRST, FIRST, SECOND, ways[w], 5);
    check_footprint(g, FIRST, SECOND, NONE, ways[w], g->size[0]);
    check_footprint(g, BOTH, SWAPPED, NONE, ways[w], 9);
  }
}

static void halo(void **state) { (void)state, each_grid(check_halo); }
static void all_reduce(void **state) { (void)state, each_grid(check_all_reduce); }
static void all_gather(void **state) { (void)state, each_grid(check_all_gather); }
static void reduce_scatter(void **state) { (void)state, each_grid(check_reduce_scatter); }
static void all_to_all(void **state) { (void)state, each_grid(check_all_to_all); }
static void permute(void **state) { (void)state, each_grid(check_permute); }

// -- element types, in place, monoids -----------------------------------------------------------

// Reduces `n` elements of each of two processors, in place.
static void reduce_pair(Dtype type, uint8_t monoid, int64_t n, void *a, void *b, int workers) {
  Mesh m = {.naxes = 1, .axis = {{.name = "p", .size = 2}}};
  CollPart part = {.rank = 1, .src_block = {n}, .dst_block = {n}, .gathered = -1, .split = -1};
  Collective what = {.kind = COLL_ALL_REDUCE,
                     .axes = FIRST,
                     .type = type,
                     .monoid = monoid,
                     .nparts = 1,
                     .part = &part,
                     .bytes = n * dtype_bytes(type)};
  int64_t valid[MAX_RANK] = {n};
  void *at[2] = {a, b};
  CommMember member[2] = {{0, &at[0], &at[0], valid, valid}, {1, &at[1], &at[1], valid, valid}};
  CommCall call = {&what, 1, 2, member, false};
  run_all(&m, &call, workers);
}

static double expected(uint8_t monoid, double x, double y) {
  if (isnan(x) || isnan(y)) return (double)NAN;
  return monoid == 1 ? x + y : monoid == 2 ? fmax(x, y) : monoid == 3 ? fmin(x, y) : x * y;
}

static void types_and_monoids(void **state) {
  (void)state;
  static const Dtype types[] = {TYPE_F32, TYPE_BF16, TYPE_F16, TYPE_F64,
                                TYPE_I32, TYPE_U8,   TYPE_I64, TYPE_U64};
  enum { N = 5000 };
  static char a[N * 8], b[N * 8];
  for (size_t t = 0; t < countof(types); t++)
    for (uint8_t monoid = 1; monoid <= 4; monoid++) {
      int64_t bytes = dtype_bytes(types[t]);
      double x[N], y[N];
      for (int i = 0; i < N; i++) {
        x[i] = i % 7;
        y[i] = i % 5;
        if (i == 77 && dtype_is_float(types[t])) x[i] = (double)NAN;
        if (i == 3333 && dtype_is_float(types[t])) y[i] = (double)NAN;
        dtype_store(types[t], a + i * bytes, x[i]);
        dtype_store(types[t], b + i * bytes, y[i]);
      }
      reduce_pair(types[t], monoid, N, a, b, 2);
      for (int i = 0; i < N; i++) {
        double want = expected(monoid, x[i], y[i]);
        double p = dtype_load(types[t], a + i * bytes), q = dtype_load(types[t], b + i * bytes);
        if (isnan(want))
          assert_true(isnan(p) && isnan(q));
        else
          assert_true(p == want && q == want);
      }
    }
}

// Rounding is the same with any number of workers.
static void sums_do_not_depend_on_workers(void **state) {
  (void)state;
  enum { N = 10007 };
  static float a[3][N], b[3][N];
  for (int k = 0; k < 3; k++) {
    for (int i = 0; i < N; i++) {
      a[k][i] = (float)sin(i);
      b[k][i] = (float)cos(i * 1.7);
    }
    reduce_pair(TYPE_F32, 1, N, a[k], b[k], 1 << k);
    assert_memory_equal(a[k], a[0], sizeof a[0]);
    assert_memory_equal(a[k], b[k], sizeof a[0]);
  }
}

// -- barrier ------------------------------------------------------------------------------------

enum { THREADS = 4, ROUNDS = 2000 };
typedef struct Rounds {
  Barrier *barrier;
  atomic_int arrived;
  int plain[THREADS]; // each worker writes before a barrier and reads all after it
} Rounds;
typedef struct Member {
  Rounds *rounds;
  int index;
} Member;

static void *walk_rounds(void *p) {
  Member *m = p;
  Rounds *r = m->rounds;
  for (int i = 1; i <= ROUNDS; i++) {
    r->plain[m->index] = i;
    atomic_fetch_add(&r->arrived, 1);
    barrier_wait(r->barrier);
    assert_true(atomic_load(&r->arrived) >= i * THREADS);
    for (int k = 0; k < THREADS; k++) assert_int_equal(r->plain[k], i);
    barrier_wait(r->barrier);
  }
  return NULL;
}

static void barrier_holds_all(void **state) {
  (void)state;
  for (int spin = 0; spin < 2; spin++) {
    Rounds r = {.barrier = barrier_new(THREADS, spin != 0)};
    Member m[THREADS];
    pthread_t t[THREADS];
    for (int k = 0; k < THREADS; k++) {
      m[k] = (Member){&r, k};
      pthread_create(&t[k], NULL, walk_rounds, &m[k]);
    }
    for (int k = 0; k < THREADS; k++) pthread_join(t[k], NULL);
    barrier_free(r.barrier);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_reduce),        cmocka_unit_test(all_gather),
      cmocka_unit_test(reduce_scatter),    cmocka_unit_test(all_to_all),
      cmocka_unit_test(permute),           cmocka_unit_test(halo),
      cmocka_unit_test(types_and_monoids), cmocka_unit_test(sums_do_not_depend_on_workers),
      cmocka_unit_test(barrier_holds_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

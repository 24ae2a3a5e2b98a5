// Tests layered drawings: no two boxes overlap, no edge crosses a box except its ends, every edge
// leads down. Graphs are hand-made, with cycles, or random.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/report/layered.h"

static Arena *arena;

static int setup(void **state) {
  (void)state;
  arena = arena_new();
  return 0;
}
static int teardown(void **state) {
  (void)state;
  arena_free(arena);
  return 0;
}

static Drawn graph_of(uint32_t nboxes, uint32_t nedges, const uint32_t (*edge)[2]) {
  Drawn d = {.nboxes = nboxes, .nedges = nedges, .most_width = 400};
  d.box = arena_array(arena, DrawnBox, nboxes + 1);
  d.edge = arena_array(arena, DrawnEdge, nedges + 1);
  for (uint32_t i = 0; i < nboxes; i++)
    d.box[i] = (DrawnBox){.width = 40 + 17 * (i % 7), .height = 20 + 9 * (i % 4)};
  for (uint32_t i = 0; i < nedges; i++)
    d.edge[i] = (DrawnEdge){.from = edge[i][0], .to = edge[i][1]};
  return d;
}

// Returns true if the segment has a point inside the box.
static bool crosses(DrawnPoint p, DrawnPoint q, const DrawnBox *b) {
  static const double eps = 1e-6;
  double from = 0, to = 1, low[2] = {b->x + eps, b->y + eps},
         high[2] = {b->x + b->width - eps, b->y + b->height - eps};
  double start[2] = {p.x, p.y}, way[2] = {q.x - p.x, q.y - p.y};
  for (int i = 0; i < 2; i++) {
    if (fabs(way[i]) < 1e-12) {
      if (start[i] <= low[i] || start[i] >= high[i]) return false;
      continue;
    }
    double x = (low[i] - start[i]) / way[i], y = (high[i] - start[i]) / way[i];
    from = fmax(from, fmin(x, y));
    to = fmin(to, fmax(x, y));
  }
  return from < to;
}

static void check_edge(const Drawn *d, const DrawnEdge *e) {
  if (e->from == e->to) {
    assert_int_equal(e->npoints, 0);
    return;
  }
  const DrawnBox *upper = &d->box[e->against ? e->to : e->from],
                 *lower = &d->box[e->against ? e->from : e->to];
  assert_true(upper->layer < lower->layer);
  assert_int_equal(e->npoints, 2 * (lower->layer - upper->layer + 1));
  assert_true(fabs(e->point[0].y - (upper->y + upper->height)) < 1e-9 && e->point[0].x > upper->x &&
              e->point[0].x < upper->x + upper->width);
  const DrawnPoint *end = &e->point[e->npoints - 1];
  assert_true(fabs(end->y - lower->y) < 1e-9 && end->x > lower->x &&
              end->x < lower->x + lower->width);
  for (uint32_t k = 0; k + 1 < e->npoints; k++) {
    assert_true(e->point[k].y <= e->point[k + 1].y + 1e-9);
    for (uint32_t b = 0; b < d->nboxes; b++)
      if (crosses(e->point[k], e->point[k + 1], &d->box[b]))
        fail_msg("edge %u -> %u crosses box %u", e->from, e->to, b);
  }
}

static void check(const Drawn *d) {
  for (uint32_t i = 0; i < d->nboxes; i++) {
    const DrawnBox *x = &d->box[i];
    assert_true(x->x > -1e-9 && x->y > -1e-9 && x->x + x->width < d->width + 1e-9 &&
                x->y + x->height < d->height + 1e-9);
    for (uint32_t k = i + 1; k < d->nboxes; k++) {
      const DrawnBox *y = &d->box[k];
      if (x->x < y->x + y->width && y->x < x->x + x->width && x->y < y->y + y->height &&
          y->y < x->y + x->height)
        fail_msg("boxes %u and %u overlap", i, k);
    }
  }
  for (uint32_t i = 0; i < d->nedges; i++) check_edge(d, &d->edge[i]);
}

static void draw_and_check(Drawn *d) {
  assert_true(layered_draw(arena, d));
  check(d);
}

static void nothing(void **state) {
  (void)state;
  Drawn d = graph_of(0, 0, NULL), one = graph_of(1, 0, NULL);
  draw_and_check(&d);
  draw_and_check(&one);
  assert_true(one.width == one.box[0].width && one.height == one.box[0].height);
}

// 0 -> 1 -> 2 -> 3 and 0 -> 3: the long edge passes beside boxes 1 and 2.
static void long_edge(void **state) {
  (void)state;
  static const uint32_t edge[][2] = {{0, 1}, {1, 2}, {2, 3}, {0, 3}};
  Drawn d = graph_of(4, 4, edge);
  draw_and_check(&d);
  assert_int_equal(d.edge[3].npoints, 8);
}

// Edges from one box to many readers are one line that branches: the edges to 3 and to 4 share
// their bends.
static void shared_bends(void **state) {
  (void)state;
  static const uint32_t edge[][2] = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {0, 3}, {0, 4}};
  Drawn d = graph_of(5, 6, edge);
  draw_and_check(&d);
  assert_memory_equal(d.edge[4].point, d.edge[5].point, 6 * sizeof(DrawnPoint));
}

static void cycles(void **state) {
  (void)state;
  static const uint32_t edge[][2] = {{0, 1}, {1, 2}, {2, 0}, {2, 3}, {3, 3}, {3, 1}, {1, 0}};
  Drawn d = graph_of(4, 7, edge);
  draw_and_check(&d);
  assert_true(d.edge[2].against && d.edge[5].against && d.edge[6].against && !d.edge[0].against);
}

// A box without incoming edges is directly above its first user.
static void sources(void **state) {
  (void)state;
  static const uint32_t edge[][2] = {{0, 1}, {1, 2}, {3, 2}};
  Drawn d = graph_of(4, 3, edge);
  draw_and_check(&d);
  assert_int_equal(d.box[3].layer, 1);
}

// Twenty sources of one box are drawn in several layers, none wider than the given width.
static void wide(void **state) {
  (void)state;
  uint32_t edge[20][2];
  for (uint32_t i = 0; i < 20; i++) edge[i][0] = i, edge[i][1] = 20;
  Drawn d = graph_of(21, 20, (const uint32_t(*)[2])edge);
  draw_and_check(&d);
  assert_true(d.box[20].layer >= 3);
  for (uint32_t layer = 0; layer < 20; layer++) {
    double width = 0;
    for (uint32_t i = 0; i < 21; i++) width += d.box[i].layer == layer ? d.box[i].width : 0;
    assert_true(width <= d.most_width);
  }
}

// Edges between two layers do not cross if they need not.
static void untangled(void **state) {
  (void)state;
  static const uint32_t edge[][2] = {{0, 7}, {1, 6}, {2, 5}, {3, 4}};
  Drawn d = graph_of(8, 4, edge);
  d.most_width = 1e9;
  draw_and_check(&d);
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 4; k++)
      assert_true((d.edge[i].point[0].x < d.edge[k].point[0].x) ==
                  (d.edge[i].point[3].x < d.edge[k].point[3].x));
}

static void at_random(void **state) {
  (void)state;
  uint64_t seed = 7;
  for (int run = 0; run < 300; run++) {
    uint32_t n = 2 + run % 60, m = 0, edge[200][2];
    for (; m < 200 && m < 2 * n; m++)
      for (int i = 0; i < 2; i++)
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u,
        edge[m][i] = (uint32_t)(seed >> 33) % n;
    Drawn d = graph_of(n, m, (const uint32_t(*)[2])edge);
    draw_and_check(&d);
  }
}

// Some thousand boxes with long edges, and a graph that is too large to draw.
static void large(void **state) {
  (void)state;
  enum { N = 3000 };
  static uint32_t edge[2 * N][2];
  for (uint32_t i = 0; i + 1 < N; i++) edge[i][0] = i, edge[i][1] = i + 1;
  uint32_t m = N - 1;
  for (uint32_t i = 0; i + 30 < N; i += 7) edge[m][0] = i, edge[m++][1] = i + 30;
  Drawn d = graph_of(N, m, (const uint32_t(*)[2])edge);
  assert_true(layered_draw(arena, &d));
  for (uint32_t i = 0; i + 1 < N; i++) assert_true(d.box[i].layer < d.box[i + 1].layer);
  for (uint32_t i = 0; i + 2 < N; i += 2) edge[m][0] = i % 100, edge[m++][1] = N - 1 - i % 100;
  Drawn more = graph_of(N, m, (const uint32_t(*)[2])edge);
  assert_false(layered_draw(arena, &more));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(nothing, setup, teardown),
      cmocka_unit_test_setup_teardown(long_edge, setup, teardown),
      cmocka_unit_test_setup_teardown(shared_bends, setup, teardown),
      cmocka_unit_test_setup_teardown(cycles, setup, teardown),
      cmocka_unit_test_setup_teardown(sources, setup, teardown),
      cmocka_unit_test_setup_teardown(wide, setup, teardown),
      cmocka_unit_test_setup_teardown(untangled, setup, teardown),
      cmocka_unit_test_setup_teardown(at_random, setup, teardown),
      cmocka_unit_test_setup_teardown(large, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

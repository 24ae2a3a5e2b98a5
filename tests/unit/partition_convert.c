// Tests conversion between all pairs of shardings of a matrix on small meshes. Every conversion
// ends in its target, sends at most the bytes of gathering everything and slicing, and never needs
// more memory per processor than the larger of both ends.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "partition/sharding/sharding_internal.h"

typedef struct Space {
  Arena *a;
  Mesh mesh;
  Graph *g;
  Dims dims;
  Machine machine;
  VEC(Sharding) sharding;
} Space;

// Adds all shardings of axes k and above: replicated, partial, or after or before the axes that
// already split x or y.
static void add_states(Space *s, Sharding now, int k) {
  if (k == s->mesh.naxes) {
    vec_push(s->a, s->sharding) = now;
    return;
  }
  add_states(s, now, k + 1);
  Sharding next = now;
  axes_append(&next.partial, k);
  next.monoid = MONOID_SUM;
  add_states(s, next, k + 1);
  for (int d = 0; d < s->dims.n; d++)
    for (int at = 0; at <= now.split[d].n; at++) {
      next = now;
      next.split[d] = axes_head(now.split[d], at);
      axes_append(&next.split[d], k);
      axes_join(&next.split[d], now.split[d]);
      add_states(s, next, k + 1);
    }
}

static void start(Space *s, int naxes, const int64_t axis[], int64_t x, int64_t y) {
  memset(s, 0, sizeof *s);
  s->a = arena_new();
  s->machine = machine_default();
  Intern *names = intern_new(s->a);
  s->mesh.naxes = (uint8_t)naxes;
  for (int i = 0; i < naxes; i++)
    s->mesh.axis[i] = (MeshAxis){.name = (const char *[]){"a", "b", "c"}[i], .size = axis[i]};
  DimTable *t = dim_table_new(s->a, names);
  s->dims = (Dims){.n = 2, .at = {dim_add(t, "x", x, (Pos){0}), dim_add(t, "y", y, (Pos){0})}};
  s->g = graph_new(s->a, t, &s->mesh, STAGE_GRAPH);
  add_states(s, (Sharding){0}, 0);
}

static int64_t bytes_of(const Space *s, const Sharding *sharding) {
  return 4 * sharding_elements(s->g, &s->dims, sharding);
}

// Returns the bytes sent by reducing and gathering everything. Short blocks are sent in full.
static double gathered(const Space *s, const Sharding *from) {
  Sharding now = *from;
  double sent = 0;
  if (now.partial.n)
    sent += coll_weight(&s->machine, &s->mesh, COLL_ALL_REDUCE, now.partial, bytes_of(s, &now));
  for (int d = 0; d < s->dims.n; d++) {
    Axes axes = now.split[d];
    int64_t group = axes_size(&s->mesh, axes);
    if (axes.n)
      sent += coll_weight(&s->machine, &s->mesh, COLL_ALL_GATHER, axes, group * bytes_of(s, &now));
    now.split[d] = (Axes){0};
  }
  return sent;
}

static void check_pair(const Space *s, const Sharding *from, const Sharding *to) {
  ConvertStep step[MAX_STEPS];
  double bytes = 0;
  int n = convert_path(s->a, &s->machine, s->g, &s->dims, TYPE_F32, from, to, step, &bytes);
  int64_t room = bytes_of(s, from) > bytes_of(s, to) ? bytes_of(s, from) : bytes_of(s, to);
  const char *a = sharding_text(s->a, s->g, &s->dims, from),
             *b = sharding_text(s->a, s->g, &s->dims, to);
  if (n ? !sharding_equal(&step[n - 1].sharding, to) : !sharding_equal(from, to))
    fail_msg("%s to %s ends elsewhere", a, b);
  if (bytes > gathered(s, from) + 1e-9)
    fail_msg("%s to %s sends %g bytes, gathering sends %g", a, b, bytes, gathered(s, from));
  for (int i = 0; i < n; i++)
    if (bytes_of(s, &step[i].sharding) > room)
      fail_msg("%s to %s: %lld bytes in state %s, %lld at most at its ends", a, b,
               (long long)bytes_of(s, &step[i].sharding),
               sharding_text(s->a, s->g, &s->dims, &step[i].sharding), (long long)room);
}

static void check_all(int naxes, const int64_t axis[], int64_t x, int64_t y) {
  Space s;
  start(&s, naxes, axis, x, y);
  for (uint32_t i = 0; i < s.sharding.n; i++)
    for (uint32_t j = 0; j < s.sharding.n; j++)
      check_pair(&s, &s.sharding.at[i], &s.sharding.at[j]);
  arena_free(s.a);
}

static void test_even_blocks(void **sharding) {
  (void)sharding;
  check_all(1, (const int64_t[]){4}, 16, 32);
  check_all(2, (const int64_t[]){2, 2}, 16, 32);
  check_all(2, (const int64_t[]){2, 4}, 16, 32);
  check_all(2, (const int64_t[]){3, 2}, 12, 18);
  check_all(3, (const int64_t[]){2, 2, 2}, 16, 32);
}

static void test_short_blocks(void **sharding) {
  (void)sharding;
  check_all(1, (const int64_t[]){4}, 7, 10);
  check_all(2, (const int64_t[]){2, 2}, 7, 10);
  check_all(2, (const int64_t[]){2, 4}, 7, 5);
  check_all(2, (const int64_t[]){3, 2}, 7, 5);
  check_all(3, (const int64_t[]){2, 2, 2}, 9, 11);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_even_blocks),
                                     cmocka_unit_test(test_short_blocks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

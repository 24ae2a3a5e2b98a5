// Tests simplification: the ops that each rule leaves, and that values do not change.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/eval/eval.h"

#define INF ((double)INFINITY)
#define NOT ((double)NAN)

typedef struct World {
  Arena *a;
  Graph *g;
  DimId b, h, s, p, q; // p = b * h; s is as long as h, q as b
  NodeId x, y;         // f32 [b, h] and [h]
  NodeId i, k;         // i32 [h], bool [h]
  NodeId n;            // bf16 [h]
  EvalFeed feed[5];
} World;

enum { B = 3, H = 4 };

static NodeId input(World *w, const char *name, Dtype t, int rank, DimId first, DimId second) {
  Decl d = {
      .kind = DECL_INPUT, .name = name, .type = t, .rank = (uint8_t)rank, .dims = {first, second}};
  DeclId id = graph_decl(w->g, &d);
  int64_t n = rank == 2 ? B * H : H;
  double *x = arena_array(w->a, double, n);
  for (int64_t i = 0; i < n; i++)
    x[i] = t == TYPE_BOOL ? i % 2 : t == TYPE_I32 ? i - 2 : (double)(i * 5 % 7) - 2.25;
  w->feed[id - 1] = (EvalFeed){id, x, n};
  return graph_decl_node(w->g, id);
}

static void begin(World *w) {
  static const Mesh mesh = {0};
  w->a = arena_new();
  DimTable *t = dim_table_new(w->a, intern_new(w->a));
  w->g = graph_new(w->a, t, &mesh, STAGE_GRAPH);
  w->b = dim_add(t, "b", B, (Pos){0});
  w->h = dim_add(t, "h", H, (Pos){0});
  w->s = dim_add(t, "s", H, (Pos){0});
  w->p = dim_add(t, "p", B * H, (Pos){0});
  w->q = dim_add(t, "q", B, (Pos){0});
  w->x = input(w, "x", TYPE_F32, 2, w->b, w->h);
  w->y = input(w, "y", TYPE_F32, 1, w->h, 0);
  w->i = input(w, "i", TYPE_I32, 1, w->h, 0);
  w->k = input(w, "k", TYPE_BOOL, 1, w->h, 0);
  w->n = input(w, "n", TYPE_BF16, 1, w->h, 0);
}

static NodeId num(World *w, double v) { return graph_const(w->g, TYPE_F32, v); }
static NodeId un(World *w, Op op, NodeId a) { return graph_unary(w->g, op, a); }
static NodeId bin(World *w, Op op, NodeId a, NodeId b) { return graph_binary(w->g, op, a, b); }
static NodeId over(World *w, Op op, NodeId a, DimId d) {
  return graph_reduce(w->g, op, a, &(Dims){.n = 1, .at = {d}});
}
static NodeId wide(World *w, NodeId a) {
  return graph_broadcast(w->g, a, &(Dims){.n = 2, .at = {w->b, w->h}});
}
static NodeId moved(World *w, Op op, NodeId a, int n, const DimId *from, int m, const DimId *to) {
  return graph_add(w->g, op, 1, &a,
                   &(Attr){.ndims = (uint8_t)n, .dims = from, .nto = (uint8_t)m, .to = to});
}
static NodeId renamed(World *w, NodeId a, DimId from, DimId to) {
  return moved(w, OP_RENAME, a, 1, &from, 1, &to);
}
static NodeId contracted(World *w, NodeId a, NodeId b, DimId d, Dtype t) {
  return graph_add(w->g, OP_CONTRACT, 2, (NodeId[]){a, b},
                   &(Attr){.type = t, .ndims = 1, .dims = &d});
}

// -- one rule each: the ops that remain, in order -----------------------------------------------

static NodeId times_one(World *w) { return bin(w, OP_MUL, w->x, wide(w, num(w, 1))); }
static NodeId plus_zero(World *w) { return bin(w, OP_ADD, num(w, 0), w->x); }
static NodeId minus_zero(World *w) { return bin(w, OP_SUB, w->x, num(w, 0)); }
static NodeId by_one(World *w) { return bin(w, OP_DIV, w->x, num(w, 1)); }
static NodeId by_four(World *w) { return bin(w, OP_DIV, w->x, num(w, 4)); }
static NodeId by_three(World *w) { return bin(w, OP_DIV, w->x, num(w, 3)); }
static NodeId neg_neg(World *w) { return un(w, OP_NEG, un(w, OP_NEG, w->x)); }
static NodeId plus_neg(World *w) { return bin(w, OP_ADD, un(w, OP_NEG, w->x), w->y); }
static NodeId twice_scaled(World *w) {
  return bin(w, OP_MUL, bin(w, OP_MUL, w->x, num(w, 0.1)), num(w, 2));
}
static NodeId twice_odd(World *w) {
  NodeId once = bin(w, OP_MUL, w->x, num(w, 0.1));
  return bin(w, OP_MUL, once, num(w, 3));
}
static NodeId pow_one(World *w) { return bin(w, OP_POW, w->x, num(w, 1)); }
static NodeId pow_two(World *w) { return bin(w, OP_POW, w->x, num(w, 2)); }
static NodeId pow_four(World *w) { return bin(w, OP_POW, w->x, num(w, 4)); }
static NodeId pow_half(World *w) { return bin(w, OP_POW, bin(w, OP_MUL, w->x, w->x), num(w, 0.5)); }
static NodeId pow_odd(World *w) {
  NodeId base = un(w, OP_ABS, w->x);
  return bin(w, OP_POW, base, num(w, 1.7));
}
static NodeId folded(World *w) {
  NodeId c = bin(w, OP_MUL, num(w, 0.5), un(w, OP_EXP, num(w, 0)));
  return bin(w, OP_MUL, w->x, bin(w, OP_ADD, c, num(w, 0.5)));
}
static NodeId back_cast(World *w) {
  return graph_cast(w->g, graph_cast(w->g, w->n, TYPE_F32), TYPE_BF16);
}
static NodeId narrow_cast(World *w) {
  return graph_cast(w->g, graph_cast(w->g, w->y, TYPE_BF16), TYPE_F32);
}
static NodeId not_not(World *w) { return un(w, OP_NOT, un(w, OP_NOT, w->k)); }
static NodeId where_true(World *w) {
  return graph_where(w->g, graph_const(w->g, TYPE_BOOL, 1), w->y, w->x);
}
static NodeId where_not(World *w) { return graph_where(w->g, un(w, OP_NOT, w->k), w->x, w->y); }
static NodeId and_true(World *w) { return bin(w, OP_AND, w->k, graph_const(w->g, TYPE_BOOL, 1)); }
static NodeId early_broadcast(World *w) {
  return bin(w, OP_ADD, un(w, OP_EXP, wide(w, w->y)), w->x);
}
static NodeId late_broadcast(World *w) { return un(w, OP_EXP, wide(w, w->y)); }
static NodeId double_broadcast(World *w) {
  return wide(w, graph_broadcast(w->g, num(w, 2), &(Dims){.n = 1, .at = {w->h}}));
}
static NodeId sum_broadcast(World *w) { return over(w, OP_SUM, wide(w, w->y), w->b); }
static NodeId max_broadcast(World *w) { return over(w, OP_MAX, wide(w, w->y), w->b); }
static NodeId sum_sum(World *w) { return over(w, OP_SUM, over(w, OP_SUM, w->x, w->b), w->h); }
static NodeId sum_product(World *w) {
  NodeId z = renamed(w, w->x, w->b, w->q);
  return over(w, OP_SUM, bin(w, OP_MUL, w->x, z), w->h);
}
static NodeId sum_rows(World *w) { return over(w, OP_SUM, bin(w, OP_MUL, w->x, w->y), w->h); }
static NodeId rename_back(World *w) { return renamed(w, renamed(w, w->y, w->h, w->s), w->s, w->h); }
static NodeId rename_twice(World *w) {
  DimId from[] = {w->b, w->h}, to[] = {w->q, w->s};
  return renamed(w, moved(w, OP_RENAME, w->x, 2, from, 2, to), w->q, w->b);
}
static NodeId split_merge(World *w) {
  DimId both[] = {w->b, w->h};
  return moved(w, OP_SPLIT, moved(w, OP_MERGE, w->x, 2, both, 1, &w->p), 1, &w->p, 2, both);
}
static NodeId other_split(World *w) {
  DimId both[] = {w->b, w->h}, turned[] = {w->h, w->b};
  return moved(w, OP_SPLIT, moved(w, OP_MERGE, w->x, 2, both, 1, &w->p), 1, &w->p, 2, turned);
}
static NodeId contract_const(World *w) {
  return contracted(w, w->x, wide(w, num(w, 3)), w->h, TYPE_F32);
}
static NodeId contract_broadcast(World *w) {
  return contracted(w, w->x, wide(w, w->y), w->h, TYPE_F32);
}
static NodeId contract_lost(World *w) { return contracted(w, wide(w, w->y), w->y, w->b, TYPE_F32); }
static NodeId contract_real(World *w) {
  return contracted(w, w->x, renamed(w, w->x, w->b, w->q), w->h, TYPE_F32);
}
static NodeId bound_index(World *w) {
  NodeId index = graph_index(w->g, w->h);
  return graph_add(w->g, OP_BOUND, 1, &index, &(Attr){.ndims = 1, .dims = &w->s});
}
static NodeId bound_far(World *w) {
  NodeId index = graph_index(w->g, w->h);
  return graph_add(w->g, OP_BOUND, 1, &index, &(Attr){.ndims = 1, .dims = &w->b});
}
static NodeId int_power(World *w) { return bin(w, OP_POW, w->i, graph_const(w->g, TYPE_I32, 3)); }
static NodeId int_scaled(World *w) { return bin(w, OP_MUL, w->i, graph_const(w->g, TYPE_I32, -1)); }
static NodeId relu_relu(World *w) { return un(w, OP_RELU, un(w, OP_RELU, w->x)); }
static NodeId nan_stays(World *w) { return bin(w, OP_MUL, w->x, num(w, 0)); }
static NodeId nan_const(World *w) { return bin(w, OP_ADD, w->x, un(w, OP_LOG, num(w, -1))); }

static const struct {
  NodeId (*build)(World *);
  const char *left;
} rules[] = {
    {times_one, "input"},
    {plus_zero, "input"},
    {minus_zero, "input"},
    {by_one, "input"},
    {by_four, "input const mul"},
    {by_three, "input const div"},
    {neg_neg, "input"},
    {plus_neg, "input input sub"},
    {twice_scaled, "input const mul"},
    {twice_odd, "input const mul const mul"},
    {pow_one, "input"},
    {pow_two, "input mul"},
    {pow_four, "input mul mul"},
    {pow_half, "input mul sqrt"},
    {pow_odd, "input abs const pow"},
    {folded, "input"},
    {back_cast, "input"},
    {narrow_cast, "input cast cast"},
    {not_not, "input"},
    {where_true, "input broadcast"},
    {where_not, "input input input where"},
    {and_true, "input"},
    {early_broadcast, "input input exp add"},
    {late_broadcast, "input exp broadcast"},
    {double_broadcast, "const broadcast"},
    {sum_broadcast, "input const mul"},
    {max_broadcast, "input"},
    {sum_sum, "input sum"},
    {sum_product, "input rename contract"},
    {sum_rows, "input input mul sum"},
    {rename_back, "input"},
    {rename_twice, "input rename"},
    {split_merge, "input"},
    {other_split, "input merge split"},
    {contract_const, "input const sum mul"},
    {contract_broadcast, "input input contract"},
    {contract_lost, "input mul const mul"},
    {contract_real, "input rename contract"},
    {bound_index, "index"},
    {bound_far, "index bound_index"},
    {int_power, "input mul mul"},
    {int_scaled, "input neg"},
    {relu_relu, "input relu"},
    {nan_stays, "input const mul"},
    {nan_const, "input const log add"},
};

static char *ops_of(Arena *a, const Graph *g) {
  char *text = arena_printf(a, "%s", "");
  for (NodeId n = 1; n <= graph_count(g); n++)
    text =
        arena_printf(a, "%s%s%s", text, n > 1 ? " " : "", op_row((Op)graph_node(g, n)->op)->text);
  return text;
}

static void same_values(World *w, const Graph *after) {
  for (uint32_t k = 0; k < after->output.n; k++) {
    const Eval *x = eval_run(w->a, w->g, 5, w->feed, 0), *y = eval_run(w->a, after, 5, w->feed, 0);
    const Tensor *u = eval_at(x, w->g->output.at[k].value, 0),
                 *v = eval_at(y, after->output.at[k].value, 0);
    assert_int_equal(u->elements, v->elements);
    assert_true(dims_equal(&u->dims, &v->dims));
    assert_int_equal(u->type, v->type);
    for (int64_t i = 0; i < u->elements; i++)
      assert_true(u->value[i] == v->value[i] || (isnan(u->value[i]) && isnan(v->value[i])) ||
                  fabs(u->value[i] - v->value[i]) <= u->bound[i] + v->bound[i]);
  }
}

static void test_rules(void **state) {
  (void)state;
  for (size_t i = 0; i < countof(rules); i++) {
    World w;
    begin(&w);
    vec_push(w.a, w.g->output) = (Output){.name = "y", .value = rules[i].build(&w)};
    const Graph *simple = graph_simplify(w.a, w.g);
    const char *left = ops_of(w.a, simple);
    if (strcmp(left, rules[i].left) != 0) fail_msg("rule %zu: %s, not %s", i, left, rules[i].left);
    same_values(&w, simple);
    char why[200];
    if (!graph_verify(simple, why)) fail_msg("rule %zu: %s", i, why);
    arena_free(w.a);
  }
}

// A rule reads no node where it lay before the graph grew, whichever node makes the graph grow. The
// address sanitizer finds such a read.
static void test_growth(void **state) {
  (void)state;
  for (uint32_t n = 200; n < 208; n++) {
    World w;
    begin(&w);
    for (uint32_t i = 0; i < n; i++) {
      NodeId once = bin(&w, OP_MUL, w.x, num(&w, 0.3 + i / 2000.0));
      vec_push(w.a, w.g->output) =
          (Output){.name = "y", .value = bin(&w, OP_MUL, once, num(&w, 2))};
    }
    assert_int_equal(graph_count(graph_simplify(w.a, w.g)), 1 + 2 * n);
    arena_free(w.a);
  }
}

// A name of the model moves to the node that computes the value after simplification.
static void test_names(void **state) {
  (void)state;
  World w;
  begin(&w);
  NodeId e = un(&w, OP_EXP, w.x);
  w.g->origin.value = "hidden";
  NodeId y = bin(&w, OP_MUL, e, num(&w, 1));
  w.g->origin.value = NULL;
  vec_push(w.a, w.g->output) = (Output){.name = "y", .value = y};
  const Graph *simple = graph_simplify(w.a, w.g);
  assert_string_equal(ops_of(w.a, simple), "input exp");
  assert_string_equal(graph_node(simple, simple->output.at[0].value)->origin->value, "hidden");
  arena_free(w.a);
}

// Sums over blocks count the valid elements of a processor, not the length of the block.
static void test_blocks(void **state) {
  (void)state;
  World w;
  begin(&w);
  Mesh mesh = {.naxes = 1, .axis = {{.name = "rows", .size = 2}}};
  Graph *g = graph_new(w.a, w.g->dims, &mesh, STAGE_LOWER);
  DimId block = dim_block(g->dims, &mesh, w.b, (Axes){.n = 1, .at = {0}});
  NodeId one = graph_const(g, TYPE_F32, 1);
  Dims dims = {.n = 1, .at = {block}};
  NodeId sum = graph_reduce(g, OP_SUM, graph_broadcast(g, one, &dims), &dims);
  vec_push(w.a, g->output) = (Output){.name = "y", .value = sum};
  const Graph *simple = graph_simplify(w.a, g);
  assert_string_equal(ops_of(w.a, simple), "const broadcast sum");
  const Eval *e = eval_run(w.a, simple, 0, NULL, 0);
  assert_true(eval_at(e, simple->output.at[0].value, 0)->value[0] == 2);
  assert_true(eval_at(e, simple->output.at[0].value, 1)->value[0] == 1);
  arena_free(w.a);
}

// graph_expand removes all EXPANDS ops and changes no value.
static void test_expand(void **state) {
  (void)state;
  World w;
  begin(&w);
  NodeId half = graph_cast(w.g, w.x, TYPE_BF16);
  const NodeId all[] = {over(&w, OP_MEAN, w.x, w.b),       over(&w, OP_MEAN, w.k, w.h),
                        over(&w, OP_MEAN, half, w.b),      over(&w, OP_LOGSUMEXP, w.x, w.h),
                        over(&w, OP_LOGSUMEXP, half, w.h), over(&w, OP_ARGMAX, w.x, w.h),
                        over(&w, OP_ARGMIN, w.i, w.h),     un(&w, OP_STOP, w.y)};
  for (size_t i = 0; i < countof(all); i++)
    vec_push(w.a, w.g->output) = (Output){.name = "y", .value = all[i]};
  const Graph *primitive = graph_expand(w.a, w.g);
  assert_int_equal(primitive->stage, STAGE_SIMPLIFY);
  for (NodeId n = 1; n <= graph_count(primitive); n++)
    assert_false(op_row((Op)graph_node(primitive, n)->op)->flags & EXPANDS);
  char why[200];
  assert_true(graph_verify(primitive, why));
  same_values(&w, primitive);
  same_values(&w, graph_simplify(w.a, primitive));
  arena_free(w.a);
}

static void test_logsumexp_infinite(void **state) {
  (void)state;
  static const double rows[][H] = {
      {-INF, -INF, -INF, -INF}, {INF, 0, -INF, 1}, {NOT, 0, 0, 0}, {-INF, 0, -INF, -INF}};
  static const double want[] = {-INF, INF, NOT, 0};
  for (size_t i = 0; i < countof(want); i++) {
    World w;
    begin(&w);
    vec_push(w.a, w.g->output) = (Output){.name = "y", .value = over(&w, OP_LOGSUMEXP, w.y, w.h)};
    w.feed[1].value = rows[i];
    const Graph *primitive = graph_expand(w.a, w.g);
    double got =
        eval_at(eval_run(w.a, primitive, 5, w.feed, 0), primitive->output.at[0].value, 0)->value[0];
    assert_true(got == want[i] || (isnan(got) && isnan(want[i])));
    same_values(&w, primitive);
    arena_free(w.a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules),  cmocka_unit_test(test_growth),
      cmocka_unit_test(test_names),  cmocka_unit_test(test_blocks),
      cmocka_unit_test(test_expand), cmocka_unit_test(test_logsumexp_infinite),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Tests graph text: printing what was read gives the same text, and no text makes the reader crash.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/graph/graph.h"

// A graph with one of everything that graph text can express, and the ids of its parts.
typedef struct Rich {
  Graph *g;
  uint32_t source;
  DimId b, h, h2, bc;
  DeclId x, w;
} Rich;

static const double numbers[7] = {0.1, -0.0, 1e300, HUGE_VAL, -HUGE_VAL, (double)NAN, 1.0 / 3};

static void add_decls(Rich *r) {
  Graph *g = r->g;
  Decl x = {.kind = DECL_INPUT,
            .name = "x",
            .type = TYPE_F32,
            .rank = 2,
            .dims = {r->h, r->b},
            .pos = {r->source, 3, 7, 1}};
  Decl w = {.kind = DECL_PARAM,
            .name = "layer.0.w",
            .rank = 1,
            .dims = {r->h},
            .frozen = true,
            .init = {.kind = INIT_DATA, .data = numbers, .ndata = 7}};
  Decl v = {.kind = DECL_PARAM,
            .name = "v",
            .type = TYPE_BF16,
            .rank = 2,
            .dims = {r->h, r->h2},
            .init = {.kind = INIT_FILE, .path = "a \"b\"\n.npz", .key = "k"}};
  Decl slot = {.kind = DECL_SLOT, .name = "optimizer.layer.0.w.m", .rank = 1, .dims = {r->h}};
  Decl st = {.kind = DECL_STATE, .name = "m", .init = {.kind = INIT_NORMAL, .a = 1, .b = 0.02}};
  Decl o = {.kind = DECL_STATE,
            .name = "o",
            .rank = 2,
            .dims = {r->b, r->h},
            .init = {.kind = INIT_ORTHOGONAL, .split = 1}};
  r->x = graph_decl(g, &x);
  r->w = graph_decl(g, &w);
  graph_decl(g, &v);
  slot.of = r->w;
  graph_decl(g, &slot);
  graph_decl(g, &st);
  graph_decl(g, &o);
}

static void add_spec(Rich *r) {
  Graph *g = r->g;
  DataField *field = arena_array(g->arena, DataField, 2);
  field[0] = (DataField){.input = "x",
                         .pos = {r->source, 30, 1, 1},
                         .source = {.kind = SOURCE_CSV,
                                    .path = "iris train.csv",
                                    .first = 0,
                                    .last = 4,
                                    .header = -1,
                                    .columns = "the first\nb\n",
                                    .separator = ";",
                                    .decimal = ",",
                                    .missing = MISSING_VALUE,
                                    .fill = -1,
                                    .classes = CLASSES_LISTED,
                                    .class_list = "a, \"b\"\nc\n",
                                    .date = "%d.%m.%Y",
                                    .seconds = true,
                                    .since = 86400,
                                    .scale = 1,
                                    .row_last = 5,
                                    .pos = {r->source, 30, 5, 1}}};
  field[1] = (DataField){.input = "y",
                         .source = {.kind = SOURCE_SYNTHETIC,
                                    .synthetic = SYNTHETIC_INTEGERS,
                                    .low = 0.5,
                                    .high = 10,
                                    .token_bytes = 2,
                                    .skip = 9,
                                    .image = {.resize = RESIZE_EXACT,
                                              .height = 40,
                                              .width = 48,
                                              .crop = CROP_AREA,
                                              .area = 0.08,
                                              .pad = 4,
                                              .flip = 0.5,
                                              .flip_vertical = 0.25,
                                              .brightness = 0.1,
                                              .contrast = 0.2,
                                              .saturation = 0.3,
                                              .cutout = 8,
                                              .draws = 1}}};
  g->spec.data[DATA_TRAIN] = (DataBlock){.present = true,
                                         .over = r->b,
                                         .nfields = 2,
                                         .field = field,
                                         .shuffle = true,
                                         .seed = 3,
                                         .pos = {r->source, 29, 1, 4}};
  g->spec.data[DATA_TEST] = (DataBlock){.present = true, .over = r->b};
  g->spec.ntrain = 2;
  g->spec.train = arena_array(g->arena, TrainSpec, 2);
  g->spec.train[0] = (TrainSpec){.loss = "loss",
                                 .steps = 100,
                                 .log = 10,
                                 .pos = {r->source, 40, 1, 1},
                                 .optimizer = {.kind = OPTIMIZER_ADAMW,
                                               .lr = 1e-3,
                                               .beta1 = 0.9,
                                               .eps = 1e-8,
                                               .no_decay = "*.bias,*.b",
                                               .nesterov = true,
                                               .pos = {r->source, 41, 3, 1}}};
  g->spec.train[1] = (TrainSpec){
      .loss = "other loss",
      .epochs = 3,
      .clip_norm = 0.5,
      .schedule = {.kind = SCHEDULE_PIECEWISE, .npieces = 2, .at = {10, 20}, .value = {1, 0.1}}};
}

static void add_outputs(Rich *r, NodeId product, NodeId cast, NodeId reduced, NodeId renamed) {
  Graph *g = r->g;
  vec_push(g->arena, g->name) = (Name){.name = "y",
                                       .kind = NAME_METRIC,
                                       .value = product,
                                       .rank = 2,
                                       .dims = {r->h, r->b},
                                       .stated = true,
                                       .pos = {r->source, 5, 1, 1}};
  vec_push(g->arena, g->name) = (Name){.name = "w", .kind = NAME_DECL};
  vec_push(g->arena, g->output) =
      (Output){.kind = OUT_VALUE, .name = "grad(w)", .value = reduced, .rank = 1, .dims = {r->h}};
  vec_push(g->arena, g->output) = (Output){.kind = OUT_VALUE, .name = "r", .value = renamed};
  vec_push(g->arena, g->output) =
      (Output){.kind = OUT_UPDATE, .name = "layer.0.w", .value = cast, .target = r->w};
}

static void add_nodes(Rich *r) {
  Graph *g = r->g;
  Dims xb = {.n = 2, .at = {r->bc, r->h}};
  g->origin = (Origin){.pos = {r->source, 3, 7, 1}, .value = "x"};
  NodeId nx = graph_decl_node_over(g, r->x, &xb);
  g->origin = (Origin){.pos = {r->source, 5, 0, 0},
                       .value = "a b:c",
                       .why = " grad: of x\n through \\ ",
                       .composite = 4,
                       .backward = true};
  NodeId nw = graph_decl_node(g, r->w);
  NodeId ny = graph_binary(g, OP_MUL, nx, nw);
  g->origin = (Origin){.why = "because"};
  NodeId nv =
      graph_add(g, OP_VALUES, 0, NULL,
                &(Attr){.type = TYPE_F64, .ndims = 1, .dims = &r->h, .data = numbers, .ndata = 7});
  g->origin = (Origin){.value = "-"};
  NodeId nc = graph_cast(g, nv, TYPE_F32);
  NodeId half = graph_const(g, TYPE_BF16, -0.5);
  g->origin = (Origin){0};
  NodeId sum = graph_add(g, OP_CONTRACT, 2, (NodeId[]){ny, nc},
                         &(Attr){.type = TYPE_F64, .ndims = 1, .dims = &r->bc});
  char why[200];
  NodeId clone = graph_try(g, OP_MUL, 2, (NodeId[]){nx, nw}, NULL, 2, why);
  NodeId red =
      graph_add(g, OP_ALL_REDUCE, 1, &sum, &(Attr){.axes = {2, {1, 0}}, .monoid = MONOID_MAX});
  DimId b1 = dim_block(g->dims, g->mesh, r->b, (Axes){.n = 1, .at = {1}});
  NodeId gathered =
      graph_add(g, OP_ALL_GATHER, 1, &clone,
                &(Attr){.axes = {1, {0}}, .ndims = 1, .dims = &r->bc, .nto = 1, .to = &b1});
  NodeId renamed = graph_add(g, OP_RENAME, 1, &gathered,
                             &(Attr){.ndims = 1, .dims = &r->h, .nto = 1, .to = &r->h2});
  graph_cast(g, half, TYPE_F32);
  add_outputs(r, ny, nc, red, renamed);
}

static Graph *rich_graph(Arena *a, Diag *d) {
  Mesh *m = arena_new_of(a, Mesh);
  uint32_t s = diag_source(d, "my model.mesh", NULL, 0);
  *m = (Mesh){
      .naxes = 2,
      .axis = {{.name = "rows", .size = 2, .pos = {s, 20, 6, 4}}, {.name = "cols", .size = 3}},
      .pos = {s, 20, 1, 4}};
  DimTable *t = dim_table_new(a, intern_new(a));
  Rich r = {.g = graph_new(a, t, m, STAGE_COLLECT), .source = s};
  r.g->model = "my model.mesh";
  r.g->spec.seed = UINT64_MAX;
  r.b = dim_add(t, "b", 8, (Pos){s, 1, 5, 1});
  r.h = dim_add(t, "layer.h", 7, (Pos){s, 2, 5, 1});
  r.h2 = dim_add(t, "layer.h_1", 7, (Pos){0});
  dim_set_follows(t, r.h2, r.h);
  r.bc = dim_block(t, m, r.b, (Axes){.n = 2, .at = {1, 0}});
  dim_block(t, m, r.h, (Axes){.n = 1, .at = {0}}); // not used, so it is not printed
  add_decls(&r);
  add_spec(&r);
  add_nodes(&r);
  return r.g;
}

static Graph *read_text(Arena *a, Diag *d, const char *text, size_t n) {
  return graph_read(a, intern_new(a), d, diag_source(d, "dump.txt", text, n), text, n);
}

static void fixed_point(void **state) {
  (void)state;
  Arena *a = arena_new();
  Diag *d = diag_new(a), *d2 = diag_new(a);
  Graph *g = rich_graph(a, d);
  char why[200];
  assert_true(graph_verify(g, why));
  char *text = graph_print(a, g, d, NULL, NULL);
  Graph *again = read_text(a, d2, text, strlen(text));
  if (!again) diag_print(d2, stderr, false);
  assert_non_null(again);
  assert_string_equal(graph_print(a, again, d2, NULL, NULL), text);
  graph_check(g, "test");
  graph_check(again, "test");
  arena_free(a);
}

static void all_comes_back(void **state) {
  (void)state;
  Arena *a = arena_new();
  Diag *d = diag_new(a), *d2 = diag_new(a);
  Graph *g = rich_graph(a, d);
  char *text = graph_print(a, g, d, NULL, NULL);
  Graph *r = read_text(a, d2, text, strlen(text));
  assert_non_null(r);
  assert_int_equal(r->stage, g->stage);
  assert_int_equal(graph_count(r), graph_count(g));
  assert_true(r->spec.seed == UINT64_MAX);
  assert_int_equal(r->spec.data[DATA_TRAIN].nfields, 2);
  const DataSource *source = &r->spec.data[DATA_TRAIN].field[1].source;
  assert_true(source->synthetic == SYNTHETIC_INTEGERS && source->skip == 9 &&
              source->token_bytes == 2);
  assert_false(r->spec.data[DATA_VALID].present);
  assert_string_equal(r->spec.train[0].optimizer.no_decay, "*.bias,*.b");
  assert_true(r->spec.train[0].optimizer.nesterov);
  const Node *n = graph_node(r, 2);
  assert_string_equal(n->origin->value, "a b:c");
  assert_string_equal(n->origin->why, " grad: of x\n through \\ ");
  assert_int_equal(n->origin->composite, 4);
  assert_true(n->origin->backward);
  assert_int_equal(n->origin->pos.line, 5);
  assert_string_equal(diag_source_name(d2, n->origin->pos.source), "my model.mesh");
  assert_string_equal(graph_node(r, 5)->origin->value, "-");
  assert_string_equal(r->decl.at[2].init.path, "a \"b\"\n.npz");
  assert_memory_equal(r->decl.at[1].init.data, g->decl.at[1].init.data, 5 * sizeof(double));
  assert_true(r->decl.at[1].frozen);
  assert_int_equal(r->mesh->axis[0].pos.line, 20);
  assert_int_equal(r->name.at[0].pos.line, 5);
  assert_true(r->name.at[0].stated);
  assert_null(strstr(text, "block layer.h/rows"));
  arena_free(a);
}

static const char *note(const void *table, NodeId n) {
  (void)table;
  return n % 2 ? "b -> rows (layout, m.mesh:3)" : NULL;
}

static void notes_are_passed_over(void **state) {
  (void)state;
  Arena *a = arena_new();
  Diag *d = diag_new(a), *d2 = diag_new(a);
  Graph *g = rich_graph(a, d);
  char *with = graph_print(a, g, d, note, NULL);
  assert_non_null(strstr(with, "  @ b -> rows (layout, m.mesh:3)  # "));
  Graph *r = read_text(a, d2, with, strlen(with));
  assert_non_null(r);
  assert_string_equal(graph_print(a, r, d2, NULL, NULL), graph_print(a, g, d, NULL, NULL));
  arena_free(a);
}

static void one_line_of_a_node(void **state) {
  (void)state;
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  Graph *g = rich_graph(a, d);
  assert_string_equal(graph_node_text(a, g, d, 6),
                      "%6 = const() {num = [-0.5]} : bf16[]  # -: \"-\"");
  arena_free(a);
}

static void refused_text_has_a_place(void **state) {
  (void)state;
  static const struct {
    const char *text, *error;
  } cases[] = {
      {"", "the text is empty"},
      {"hello", "g:1:1: error: a graph begins with"},
      {"graph nowhere mesh ()", "no stage is called nowhere"},
      {"graph graph mesh (a = 0)", "not within 1 to"},
      {"graph graph mesh (a = 70000, b = 70000)", "too large"},
      {"graph graph mesh ()\nfoo", "g:2:1: error: a line of a graph begins"},
      {"graph graph mesh ()\ndim b = 4\ndim b = 5", "g:3:5: error: two dims are called b"},
      {"graph graph mesh ()\ndim b = 99999999999", "not within"},
      {"graph graph mesh (r = 2)\ndim b = 4\nblock b/r = 3 of b over [r]", "the block is b/r = 2"},
      {"graph graph mesh ()\ninput x : f31[]", "no element type is called f31"},
      {"graph graph mesh ()\ndim b = 4\ninput x : f32[b, b]", "twice"},
      {"graph graph mesh ()\n%2 = step() : i32[]", "the next node is %1"},
      {"graph graph mesh ()\n%1 = step() : f32[]", "the node is i32[]"},
      {"graph graph mesh ()\n%1 = neg(%1) : i32[]", "not within 0 to 0"},
      {"graph graph mesh ()\n%1 = step() : i32[]\n%2 = step() : i32[]", "equal to %1"},
      {"graph graph mesh ()\n%1 = step() : i32[]\n%2 = exp(%1) : f32[]",
       "g:3:1: error: exp: argument 1 is i32"},
      {"graph simplify mesh ()\n%1 = const() {num = [1]} : f32[]\n%2 = stop_gradient(%1) : f32[]",
       "not legal at stage"},
      {"graph graph mesh ()\noutput y = %0 []", "needs a node"},
      {"graph graph mesh ()\nfield x", "in a data block"},
      {"graph graph mesh ()\ndata train {}\nfield x", "has no source"},
      {"graph graph mesh ()\nparam \"a", "the string has no end"},
      {"graph graph mesh ()\nparam \"a\\q\" : f32[]", "bad string"},
      {"graph graph mesh ()\nparam w : f32[] = data{} [1, 2]", "not hold"},
      {"graph graph mesh ()\nslot s : f32[]", "belongs to no parameter"},
      {"graph graph mesh ()\ntrain loss {schedule = piecewise}", "up to 8 pieces"},
      {"graph graph mesh ()\ntrain loss {schedule.npieces = 9}", "up to 8 pieces"},
      {"graph graph mesh ()\nseed -1", "not a seed"},
      {"graph graph mesh ()\nseed 1 2", "unexpected text"},
  };
  for (size_t i = 0; i < countof(cases); i++) {
    Arena *a = arena_new();
    Diag *d = diag_new(a);
    uint32_t s = diag_source(d, "g", cases[i].text, strlen(cases[i].text));
    Graph *g = graph_read(a, intern_new(a), d, s, cases[i].text, strlen(cases[i].text));
    char *said = NULL;
    size_t n;
    FILE *f = open_memstream(&said, &n);
    diag_print(d, f, false);
    fclose(f);
    if (g || diag_errors(d) != 1 || !strstr(said, cases[i].error))
      fail_msg("case %zu: %s", i, said);
    free(said);
    arena_free(a);
  }
}

// Reads a copy without a final NUL, so that the sanitizer finds a read beyond the end. An accepted
// text must print.
static void try_text(const char *text, size_t n) {
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  char *copy = malloc(n ? n : 1);
  memcpy(copy, text, n);
  Graph *g = read_text(a, d, copy, n);
  assert_true(g ? diag_errors(d) == 0 : diag_errors(d) > 0);
  if (g) {
    char *first = graph_print(a, g, d, NULL, NULL);
    Diag *d2 = diag_new(a);
    Graph *again = read_text(a, d2, first, strlen(first));
    if (!again) fail_msg("cannot read back:\n%s", first);
    if (strcmp(graph_print(a, again, d2, NULL, NULL), first) != 0)
      fail_msg("no fixed point:\n%s", first);
  }
  char *said = NULL;
  size_t said_n;
  FILE *f = open_memstream(&said, &said_n);
  diag_print(d, f, false);
  fclose(f);
  free(said);
  free(copy);
  arena_free(a);
}

static void hostile_texts(void **state) {
  (void)state;
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  char *text = graph_print(a, rich_graph(a, d), d, NULL, NULL);
  size_t n = strlen(text);
  for (size_t i = 0; i < n; i++) try_text(text, i);
  static const char bytes[] = "09a%[]{}(),:=#@\"\\ \n\t\x80-";
  uint32_t random = 1;
  for (size_t i = 0; i < n; i++) {
    char was = text[i];
    for (int k = 0; k < 4; k++) {
      random = random * 1664525u + 1013904223u;
      text[i] = k == 3 ? (char)(random >> 24) : bytes[(random >> 16) % sizeof bytes];
      try_text(text, n);
    }
    text[i] = was;
  }
  for (size_t from = 0; from < n; from += 7) { // a piece of the text left out
    char *piece = arena_alloc(a, n);
    size_t gap = 1 + from % 23, rest = n - from > gap ? n - from - gap : 0;
    memcpy(piece, text, from);
    memcpy(piece + from, text + n - rest, rest);
    try_text(piece, from + rest);
  }
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fixed_point),
      cmocka_unit_test(all_comes_back),
      cmocka_unit_test(notes_are_passed_over),
      cmocka_unit_test(one_line_of_a_node),
      cmocka_unit_test(refused_text_has_a_place),
      cmocka_unit_test(hostile_texts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Checks the last, short batch. Evaluation of 7 rows in batches of 3 must treat the last batch like
// a run of the model with --set b=1. There is a small model for every op that can have the rows as
// a dim, in two lists. Models of the first list run the last batch with the program for whole
// batches, models of the second with a program compiled for its size; the suite checks which of
// both each model uses. All models of a list then run together, on meshes that split the rows into
// 1 to 4 blocks. `predict` and `eval` are compared with three runs, of 3, 3 and 1 rows.
//
// Ends in `N passed, N failed, N skipped`.
#define _XOPEN_SOURCE 700 // mkdtemp, nftw
#include <ftw.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/driver/last_batch.h"
#include "tests/suite/common/command.h"

enum { ROWS = 7, BATCH = 3, D = 4, T = 5, V = 6 };
static Arena *arena;
static int passed, failed;
static const char *meshc;
static char folder[] = "/tmp/meshc-last-batch-XXXXXX";

static void count(bool good) { *(good ? &passed : &failed) += 1; }

// Dim d is declared before b, dim t after it. In the rows below `%` after a name is the number of
// the row.
static const char head[] =
    "dim d = 4, b = 3, t = 5, v = 6, one = 1, two = 2, k3 = 3, d2 = 2, d6 = 6, d8 = 8\n"
    "dim o = b, n = b * t, m = d * b, b2 = b + 2, bb = 2 * b\n"
    "input x[b, d]\ninput z[b, t]\ninput ids[b]: i32\n"
    "param w[d] ~ normal(std = 1)\nparam table[v, d] ~ normal(std = 1)\n"
    "data test over b { x = npy(\"x.npy\"), z = npy(\"z.npy\"), ids = npy(\"ids.npy\") }\n";

static const char *const each[] = {
    "y% = tanh(x * w)",
    "y% = where(x > 0, x, 0.5) * index[b]",
    "y% = x / size(b)",
    "y% = x ^ 2 - size(b) * 0.5 + sqrt(size(b) + 1) * square(size(b)) / max[b](x * size(b))",
    "y% = x * cast(sum[b](-x * ids / size(b)) + pow(size(b), 2), f32)",
    "y% = x - mean[b](x)",
    "y% = x - sum[b](x)",
    "y% = x - max[b](x)",
    "y% = x - min[b](x)",
    "y% = x - prod[b](x)",
    "y% = x * any[b](x > 2)",
    "y% = x * all[b](x > -2)",
    "y% = x + argmax[b](x)",
    "y% = x + argmin[b](x)",
    "y% = softmax[b](x)",
    "y% = logsumexp[b](x) + x",
    "y% = layer_norm[b](x)",
    "y% = x * variance[b](x)",
    "y% = l2_normalize[b](x)",
    "y% = batch_norm[b](x)",
    "s%[b, o] = sum[d](x * rename[b -> o](x))\ny% = sum[o](softmax[o](s%) * rename[b -> o](z))",
    "y% = sum[o](rename[b -> o](x) * index[o] / size(o)) + x",
    "y% = split[n -> b, t](merge[b, t -> n](z) * index[n])",
    "y% = z - mean[n](merge[b, t -> n](z)) * size(n)",
    "y% = take[v](table, ids)",
    "y% = one_hot[v](ids)",
    "y% = cross_entropy[v](sum[d](x * table), ids, label_smoothing = 0.1)",
    "y% = random_normal[b, t]() + z",
    "y% = dropout(x, rate = 0.5)",
    "y% = cumsum[d](x)",
    "y% = sort[d](x) + argsort[d](x)",
    "top%, at% = top_k[d -> d2](x)\ny% = top% * at%",
    "y% = shift[t](z) + reverse[t](z)",
    "y% = sum[k3](window[t -> t, k3](z, pad = same) * values[k3](1, 2, 3))",
    "scan t (h%[b] = 0) {\n  h% = tanh(z + h%)\n  yield h% as hs%\n}\ny% = hs% + h%",
    "y% = pad[d -> d6](x, before = 1)",
    "y% = concat[d, d -> d8](x, x * 2)",
    "y% = stack[-> two](x, x + 1)",
    "y% = slice[d -> d2](x, start = 1) * select[d](x, -1)",
    "y% = take[d](x, ids % 4)",
    "y% = scatter_add[d -> v](x, index[d])",
    "y% = put[d](x, 1, sum[d](x)) + put[b](x, 0, w)",
    "y% = x * size(bb) / (size(b2) - size(o)) + size(m) - size(n) % 4",
};
static const char *const own[] = {
    "y% = x + shift[b](x)",
    "y% = x + shift[b](x, by = -1)",
    "y% = x + reverse[b](x)",
    "y% = cumsum[b](x)",
    "y% = cumsum[b](x, reverse = true)",
    "y% = cumsum[b](x, exclusive = true)",
    "y% = cummax[b](x)",
    "y% = cumprod[b](x)",
    "y% = sort[b](x)",
    "y% = argsort[b](x, descending = true)",
    "top%, at% = top_k[b -> one](x)\ny% = x - sum[one](top% + at%)",
    "y% = sum[k3](window[b -> b, k3](x, pad = same) * values[k3](1, 2, 3))",
    "y% = max[k3](window[b -> b, k3](x, pad = causal))",
    "f%[o, k3, d] = rename[b -> o](x) * values[k3](1, 2, 3)\ny% = fold[o, k3 -> b](f%, pad = (1, "
    "1))",
    "y% = x + sum[b2](pad[b -> b2](x, before = 1) * index[b2])",
    "y% = x - sum[one](slice[b -> one](x))",
    "y% = x - sum[one](slice[b -> one](x, start = size(b) - 1))",
    "y% = x - select[b](x, -1)",
    "y% = x + sum[bb](concat[b, b -> bb](x, x * 2) * index[bb])",
    "y% = put[b](x, -1, w)",
    "y% = take[b](x, ids * 0)",
    "y% = x + take[v](scatter_add[-> v](x, ids), ids)",
    "y% = x + scatter_add[o -> b](rename[b -> o](x), rename[b -> o](ids * 0))",
    "scan b (h%[d] = 0) {\n  h% = 0.5 * h% + x\n  yield h% as hs%\n}\ny% = hs% + h%",
    "scan reverse b (h%[d] = 0) {\n  h% = 0.5 * h% + x\n  yield h% as hs%\n}\ny% = hs% + h%",
    "y% = x + sum[m](merge[d, b -> m](x) * index[m])",
    "y% = random_normal[b, d]() * x",
    "y% = gradient(mean[b](sum[d](x ^ 3)), x)",
    "a% = x\nfor i% in 0..b { a% = a% + select[b](x, i%) * (i% + 1) }\ny% = a%",
    "s%[b, o] = sum[d](x * rename[b -> o](x))\ny% = x * cross_entropy[o](s%, index[b], "
    "label_smoothing = 0.1)",
};

// -- which program runs the last batch ----------------------------------------------------------

// Returns the text of row i: its output is y%d, its metric m%d.
static const char *row_text(const char *row, uint32_t i) {
  const char *text = "";
  for (char before = ' '; *row; before = *row++)
    text = *row == '%' && before != ' ' ? arena_printf(arena, "%s%u", text, i)
                                        : arena_printf(arena, "%s%c", text, *row);
  const char *last = strrchr(text, '\n'), *from = last ? last + 1 : text;
  return arena_printf(arena, "%.*soutput %s\nmetric m%u = mean(y%u * y%u)\n", (int)(from - text),
                      text, from, i, i, i);
}

static Session *session_of(const char *text) {
  Session *s = arena_new_of(arena, Session);
  *s = (Session){.arena = arena, .names = intern_new(arena), .diag = diag_new(arena), .text = text};
  s->source = diag_source(s->diag, "model", text, strlen(text));
  s->ast = ast_parse(arena, s->names, s->diag, s->source, text, strlen(text));
  s->options = (ModelOptions){.path = "model"};
  s->model = model_build(arena, s->names, s->diag, s->ast, &s->options);
  return s;
}

static const Graph *graph_of(const Model *m) {
  Fetch f = {.rows = dim_find(m->graph->dims, "b")};
  return select_run(arena, m, &f);
}

static void try_rule(const char *row, bool fits) {
  const char *text = arena_printf(arena, "%s%s", head, row_text(row, 0));
  Session *s = session_of(text);
  Model *last = s->model ? last_batch_model(s, "b", ROWS % BATCH, ROWS) : NULL;
  if (!last) {
    printf("FAIL no model: %s\n", row);
    diag_print(s->diag, stdout, false);
    failed++;
    return;
  }
  bool found = last_batch_fits(arena, graph_of(s->model), graph_of(last),
                               dim_find(s->model->graph->dims, "b"));
  if (found != fits)
    printf("FAIL %s the last batch: %s\n",
           fits ? "another program for" : "the program for whole batches runs", row);
  count(found == fits);
}

// -- files --------------------------------------------------------------------------------------

static const char *path_of(const char *name) { return arena_printf(arena, "%s/%s", folder, name); }

// Writes rows first .. first + n - 1 of an input: small numbers, so that most sums are exact.
static void write_rows(const char *input, const char *tag, int64_t width, int64_t first,
                       int64_t n) {
  Array x = {.type = width ? TYPE_F32 : TYPE_I32,
             .rank = width ? 2 : 1,
             .size = {n, width},
             .elements = n * (width ? width : 1)};
  x.data = arena_alloc(arena, (size_t)x.elements * 4);
  for (int64_t i = 0; i < x.elements; i++) {
    int64_t at = first * (width ? width : 1) + i;
    double v = width ? (double)((at * 7 + at * at * 3) % 11 - 5) / 2 : (double)(at * 5 % V);
    dtype_store(x.type, (char *)x.data + i * 4, v);
  }
  Diag *d = diag_new(arena);
  if (!npy_write(path_of(arena_printf(arena, "%s%s.npy", input, tag)), &x, d)) exit(1);
}

static void write_all(const char *tag, int64_t first, int64_t n) {
  write_rows("x", tag, D, first, n);
  write_rows("z", tag, T, first, n);
  write_rows("ids", tag, 0, first, n);
}

// Runs meshc with these words in the folder. Returns false after a failure, with a message.
static bool run(const char *words, char **out) {
  int code;
  char *text = command_output(
      arena, arena_printf(arena, "cd %s && %s %s 2>&1", folder, meshc, words), &code);
  if (out) *out = text;
  if (code) printf("FAIL meshc %s: exit %d\n%s\n", words, code, text);
  return code == 0;
}

// -- predict ------------------------------------------------------------------------------------

// Reads an array of a file into the arena.
static bool read_array(const char *file, const char *key, Array *out) {
  Diag *d = diag_new(arena);
  Array read;
  if (!array_read(&read, path_of(file), key, d, (Pos){0})) {
    diag_print(d, stdout, false);
    return false;
  }
  *out = read;
  out->data = arena_copy(arena, read.data, (size_t)(read.elements * dtype_bytes(read.type)));
  array_free(&read);
  return true;
}

static double element(const Array *x, int64_t i) {
  return dtype_load(x->type, (const char *)x->data + i * dtype_bytes(x->type));
}

static bool near(double a, double b) { return fabs(a - b) <= 2e-5 * (1 + fabs(a)); }

// Returns true if the rows of `all` from `first` on equal those of `part`.
static bool same_rows(const Array *all, const Array *part, int64_t first) {
  int axis = 0;
  int64_t inner = 1;
  while (axis < all->rank && all->size[axis] == part->size[axis]) axis++;
  if (axis == all->rank || all->size[axis] != ROWS) return false;
  for (int i = axis + 1; i < all->rank; i++) inner *= all->size[i];
  for (int64_t i = 0; i < part->elements; i++) {
    int64_t outer = i / inner / part->size[axis], row = i / inner % part->size[axis];
    if (!near(element(part, i), element(all, (outer * ROWS + first + row) * inner + i % inner)))
      return false;
  }
  return true;
}

static void compare_rows(const char *const *list, uint32_t n, const char *options) {
  for (uint32_t i = 0; i < n; i++) {
    const char *key = arena_printf(arena, "y%u", i);
    Array all, part;
    bool good = read_array("all.npz", key, &all);
    for (int64_t k = 0; k * BATCH < ROWS && good; k++) {
      good = read_array(arena_printf(arena, "part%lld.npz", (long long)k), key, &part) &&
             same_rows(&all, &part, k * BATCH);
      if (!good)
        printf("FAIL predict %s: rows from %lld on: %s\n", options, (long long)(k * BATCH),
               list[i]);
    }
    count(good);
  }
}

// -- eval ---------------------------------------------------------------------------------------

static void compare_metrics(const char *const *list, uint32_t n, const char *options,
                            const char *text) {
  const char *begin = strchr(text, '{');
  json_t *root = begin ? json_loads(begin, JSON_DISABLE_EOF_CHECK, NULL) : NULL,
         *metrics = json_object_get(root, "metrics");
  for (uint32_t i = 0; i < n; i++) {
    double want = 0, got = json_real_value(json_object_get(metrics, arena_printf(arena, "m%u", i)));
    for (int64_t k = 0; k * BATCH < ROWS; k++) {
      Array part;
      int64_t rows = ROWS - k * BATCH < BATCH ? ROWS - k * BATCH : BATCH;
      if (!read_array(arena_printf(arena, "part%lld.npz", (long long)k),
                      arena_printf(arena, "m%u", i), &part))
        continue;
      want += element(&part, 0) * (double)rows / ROWS;
    }
    if (!near(want, got)) printf("FAIL eval %s: %g, not %g: %s\n", options, got, want, list[i]);
    count(near(want, got));
  }
  json_decref(root);
}

// -- all models of a list -----------------------------------------------------------------------

static const char *const meshes[] = {
    "",
    "--mesh r=2 --layout b=r",
    "--mesh r=3 --layout b=r",
    "--mesh r=2,c=2 --layout b=r,d=c",
    "--mesh r=2,c=2 --layout b=r+c,t=none",
    "--mesh r=2 --layout d=r",
    "--np 2 --mesh r=4 --layout b=r",
    "--mesh r=2 --layout b=r --verify",
};

static bool write_model(const char *const *list, uint32_t n) {
  FILE *f = fopen(path_of("model.mesh"), "w");
  if (!f) return false;
  fputs(head, f);
  for (uint32_t i = 0; i < n; i++) fputs(row_text(list[i], i), f);
  return fclose(f) == 0;
}

static void try_list(const char *const *list, uint32_t n, int programs) {
  if (!write_model(list, n)) exit(1);
  for (int k = 0; k * BATCH < ROWS; k++) {
    const char *size =
        (k + 1) * BATCH > ROWS ? arena_printf(arena, "--set b=%d", ROWS % BATCH) : "";
    const char *feeds =
        arena_printf(arena, "--feed x=x%d.npy --feed z=z%d.npy --feed ids=ids%d.npy", k, k, k);
    if (!run(arena_printf(arena, "run model.mesh %s %s --out part%d.npz", size, feeds, k), NULL))
      failed++;
  }
  for (size_t i = 0; i < countof(meshes); i++) {
    char *text;
    if (run(arena_printf(arena, "predict model.mesh %s -v --out all.npz", meshes[i]), &text))
      compare_rows(list, n, meshes[i]);
    else
      failed++;
    int compiled = 0;
    for (const char *at = text; (at = strstr(at, "compiled for eval")); at++) compiled++;
    if (compiled != programs)
      printf("FAIL %d programs, not %d: %s\n", compiled, programs, meshes[i]);
    count(compiled == programs);
    if (run(arena_printf(arena, "eval model.mesh %s --json", meshes[i]), &text))
      compare_metrics(list, n, meshes[i], text);
    else
      failed++;
  }
}

static int removed(const char *path, const struct stat *st, int kind, struct FTW *at) {
  (void)st, (void)kind, (void)at;
  return remove(path);
}

int main(void) {
  arena = arena_new();
  meshc = command_program(arena);
  if (!mkdtemp(folder)) return 1;
  for (size_t i = 0; i < countof(each); i++) try_rule(each[i], true);
  for (size_t i = 0; i < countof(own); i++) try_rule(own[i], false);
  write_all("", 0, ROWS);
  for (int k = 0; k * BATCH < ROWS; k++)
    write_all(arena_printf(arena, "%d", k), k * BATCH,
              ROWS - k * BATCH < BATCH ? ROWS - k * BATCH : BATCH);
  try_list(each, countof(each), 1);
  try_list(own, countof(own), 2);
  nftw(folder, removed, 16, FTW_DEPTH | FTW_PHYS);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  arena_free(arena);
  return failed != 0;
}

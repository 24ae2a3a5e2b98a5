// Holds what `check` says of equal bits (frontend/driver/bits.h) to runs. Each model is run on one
// processor and under several layouts: results that are said to be equal to those of one processor
// are, and of those that depend on a sum over processors some differ. Under each layout the results
// are the same again, with 1 and 3 threads unless OpenBLAS computes products, and with two ranks;
// with --exact they are those of one processor with --exact. Ends in `N passed, N failed, N
// skipped`.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/arena.h"
#include "tests/suite/common/command.h"

static Arena *arena;
static int passed, failed, said_other, were_other;
static const char *meshc, *folder;

enum { MOST_LAYOUTS = 4 };

// A model: its text without inputs, so that each run has the same values; and layouts for it,
// "--mesh ... --layout ...". `seen` is a result that differs under the first layout, or NULL.
typedef struct Model {
  const char *name, *text, *layout[MOST_LAYOUTS], *seen;
} Model;

static const Model models[] = {
    {"mlp",
     "dim b = 24, d = 40, h = 36, o = 5\nx[b, d] = random_normal[b, d]()\n"
     "param w[d, h] ~ normal(0, 1)\nparam v[h, o] ~ normal(0, 1)\n"
     "hidden = relu(sum[d](x * w))\noutput y = sum[h](hidden * v)\noutput loss = mean(y * y)\n",
     {"--mesh p=2 --layout h=p", "--mesh p=2 --layout b=p", "--mesh p=2,q=2 --layout b=p,h=q"},
     "y"},
    {"elements",
     "dim b = 30, d = 17\nx[b, d] = random_normal[b, d]()\noutput e = exp(x) * 3 + x\n"
     "output g = gelu(x) - tanh(x * 2)\noutput s = sum[d, b](x)\n",
     {"--mesh p=2 --layout b=p", "--mesh p=2,q=2 --layout b=p,d=q"},
     "s"},
    {"integers",
     "dim b = 30, d = 17\nx[b, d] = index[b] * index[d]\noutput n = sum[b](x)\n"
     "output most = max[d](x)\noutput first = argmax[d](x)\n",
     {"--mesh p=2 --layout b=p", "--mesh p=2 --layout d=p", "--mesh p=3 --layout b=p"},
     NULL},
    {"product",
     "dim b = 64, d = 96, h = 80\nx[b, d] = random_normal[b, d]()\n"
     "param w[d, h] ~ normal(0, 1)\noutput y = sum[d](x * w)\noutput kept[d] = max[h](w)\n",
     {"--mesh p=2 --layout d=p", "--mesh p=16 --layout b=p", "--mesh p=2 --layout h=p"},
     "y"},
    {"wide",
     "dim b = 17, d = 3000, h = 40\nx[b, d] = cast(random_normal[b, d](), f64)\n"
     "w[d, h] = cast(random_normal[d, h](), f64)\noutput y = sum[d](x * w)\n",
     {"--mesh p=2 --layout d=p", "--mesh p=2 --layout b=p"},
     "y"},
    {"softmax",
     "dim b = 48, d = 200\nx[b, d] = random_normal[b, d]()\noutput p = softmax[d](x)\n"
     "output n = layer_norm[d](x)\noutput order = argsort[d](x)\n",
     {"--mesh p=2 --layout d=p", "--mesh p=3 --layout b=p"},
     "n"},
    {"attention",
     "dim b = 2, t = 24, s = t, e = 8, heads = 4\nq[b, t, heads, e] = random_normal[b, t, heads, "
     "e]()\n"
     "k[b, s, heads, e] = random_uniform[b, s, heads, e]()\n"
     "p = softmax[s](sum[e](q * k))\noutput y = sum[s](p * k)\n",
     {"--mesh p=2 --layout s=p", "--mesh p=2 --layout heads=p",
      "--mesh p=2,q=2 --layout b=p,heads=q"},
     "y"},
    {"lookup",
     "dim n = 40, v = 30, d = 12\nparam table[v, d] ~ normal(0, 1)\nids[n] = index[n] % 30\n"
     "output y = take[v](table, ids)\noutput s[d] = sum[n](y)\n",
     {"--mesh p=2 --layout n=p", "--mesh p=2 --layout v=p", "--mesh p=2 --layout d=p"},
     "s"},
    {"cumulative",
     "dim b = 6, t = 40\nx[b, t] = random_normal[b, t]()\noutput c = cumsum[t](x)\n"
     "output m = cummax[t](x)\n",
     {"--mesh p=2 --layout t=p", "--mesh p=2 --layout b=p"},
     "c"},
    {"bf16",
     "dim b = 20, d = 300, h = 20\nx[b, d] = cast(random_normal[b, d](), bf16)\n"
     "param w[d, h] : bf16 ~ normal(0, 1)\noutput y = sum[d](x * w)\noutput m = max[d](x)\n",
     {"--mesh p=2 --layout d=p", "--mesh p=2 --layout b=p"},
     NULL},
    {"windows",
     "dim b = 3, x = 40, to = x, c = 5, k = 3\nv[b, x, c] = random_normal[b, x, c]()\n"
     "param f[k, c] ~ normal(0, 1)\n"
     "output y = sum[k, c](window[x -> to, k](v, pad = same) * f)\n"
     "output m = max[k](window[x -> to, k](v, pad = same))\n",
     {"--mesh p=2 --layout c=p", "--mesh p=2 --layout x=p", "--mesh p=3 --layout b=p"},
     "y"},
    {"scan",
     "dim b = 4, t = 9, d = 6\nx[t, b, d] = random_normal[t, b, d]()\n"
     "scan t (s[b, d] = 0) {\n  s = tanh(s + x)\n}\noutput last = s\noutput total = sum[b](s)\n",
     {"--mesh p=2 --layout b=p", "--mesh p=3 --layout d=p"},
     "total"},
};

// Writes the model to a file and returns its path.
static const char *model_file(const Model *m) {
  const char *path = arena_printf(arena, "%s/%s.mesh", folder, m->name);
  FILE *f = fopen(path, "w");
  if (f) fputs(m->text, f);
  if (f) fclose(f);
  return path;
}

// Runs the model; the results are in the returned folder. Returns NULL after an error.
static const char *run(const char *model, const char *options, const char *name) {
  const char *out = arena_printf(arena, "%s/%s", folder, name);
  const char *command = arena_printf(arena, "rm -rf %s; %s run %s -q %s --out %s 2>&1", out, meshc,
                                     model, options, out);
  int code;
  char *said = command_output(arena, command, &code);
  if (code == 0) return out;
  printf("FAIL %s: %s\n", command, said);
  failed++;
  return NULL;
}

// Returns whether a result has equal bits in two folders; with `name` NULL, whether all have.
static bool equal(const char *x, const char *y, const char *name) {
  int code;
  (void)command_output(arena,
                       name ? arena_printf(arena, "cmp -s %s/%s.npy %s/%s.npy", x, name, y, name)
                            : arena_printf(arena, "diff -rq %s %s", x, y),
                       &code);
  return code == 0;
}

static void expect(bool good, const char *what, const char *options, const char *name) {
  if (!good) printf("FAIL %s %s: %s\n", what, options, name);
  good ? passed++ : failed++;
}

static json_t *bits_of(const char *model, const char *options) {
  int code;
  char *text = command_output(
      arena, arena_printf(arena, "%s check %s %s --json 2>/dev/null", meshc, model, options),
      &code);
  json_t *all = json_loads(text, 0, NULL), *bits = json_incref(json_object_get(all, "bits"));
  json_decref(all);
  return bits;
}

static bool says_equal(const json_t *bits, const char *name) {
  json_t *one;
  size_t i;
  json_array_foreach(json_object_get(bits, "equal"), i, one) {
    if (!strcmp(json_string_value(one), name)) return true;
  }
  return false;
}

// Compares each result under a layout with that of one processor.
static void try_results(const Model *m, const char *layout, const json_t *bits, const char *one,
                        const char *many) {
  for (const char *c = strstr(m->text, "output "); c; c = strstr(c + 1, "output ")) {
    const char *begin = c + strlen("output ");
    const char *name = arena_text(arena, begin, strcspn(begin, " [\n"));
    bool same = equal(one, many, name);
    if (says_equal(bits, name))
      expect(same, m->name, layout, arena_printf(arena, "%s is said to be equal", name));
    else
      said_other++, were_other += !same;
    if (m->seen && layout == m->layout[0] && !strcmp(name, m->seen))
      expect(!same, m->name, layout, arena_printf(arena, "%s does not differ", name));
  }
}

// Compares runs of one layout with one another.
static void try_again(const Model *m, const char *model, const char *layout, const json_t *bits,
                      const char *many) {
  bool threads = json_is_true(json_object_get(bits, "threads"));
  const char *again = run(model, layout, "again");
  if (again) expect(equal(many, again, NULL), m->name, layout, "a second run differs");
  for (int n = 1; n <= 3 && threads; n += 2) {
    again = run(model, arena_printf(arena, "%s --threads %d", layout, n), "again");
    if (again) expect(equal(many, again, NULL), m->name, layout, "other threads");
  }
  if (!strstr(layout, "p=2") || !threads) return;
  again = run(model, arena_printf(arena, "%s --np 2", layout), "again");
  if (again) expect(equal(many, again, NULL), m->name, layout, "two ranks");
}

static void try_layout(const Model *m, const char *model, const char *layout, const char *one,
                       const char *exact) {
  json_t *bits = bits_of(model, layout);
  const char *many = run(model, layout, "many");
  expect(bits != NULL, m->name, layout, "check says nothing of bits");
  if (!bits || !many) return;
  try_results(m, layout, bits, one, many);
  try_again(m, model, layout, bits, many);
  const char *with = run(model, arena_printf(arena, "%s --exact", layout), "with");
  if (with) expect(equal(exact, with, NULL), m->name, layout, "--exact differs");
  json_decref(bits);
}

static void try_model(const Model *m) {
  const char *model = model_file(m), *one = run(model, "", "one"),
             *exact = run(model, "--exact", "exact");
  for (int i = 0; one && exact && i < MOST_LAYOUTS && m->layout[i]; i++)
    try_layout(m, model, m->layout[i], one, exact);
}

int main(void) {
  char name[] = "/tmp/meshc-bits-XXXXXX";
  int code;
  arena = arena_new();
  meshc = command_program(arena);
  folder = mkdtemp(name);
  if (!folder) return 1;
  for (size_t i = 0; i < countof(models); i++) try_model(&models[i]);
  (void)command_output(arena, arena_printf(arena, "rm -r %s", folder), &code);
  printf("of %d results that may differ from one processor %d did\n", said_other, were_other);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  arena_free(arena);
  return failed != 0;
}

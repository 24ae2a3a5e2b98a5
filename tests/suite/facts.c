// Runs `check --json` on every model of tests/models and examples, for training, evaluation and a
// run: under the model's layout, without a layout, and with its first dim split. All fields must
// exist, bytes sent must follow the formulas of the collectives, and sums must add up. One large
// model is also checked on a machine that overlaps collectives with computation: how much of their
// time is hidden. Layers of large models must fit little memory, with recomputation.
//
// Ends in `N passed, N failed, N skipped`. Skipped: what the program refuses for the reasons in
// `reasons`, such as the evaluation of a model without loss and metrics.
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/arena.h"
#include "ir/base/base.h"
#include "tests/suite/common/command.h"

#define MACHINE "examples/machines/h200x8.txt"

static Arena *arena;
static int passed, failed, skipped;
static const char *meshc;

static void fault(const char *run, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void fault(const char *run, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  printf("FAIL %s: ", run);
  vprintf(fmt, ap);
  printf("\n");
  va_end(ap);
  failed++;
}

// -- fields -------------------------------------------------------------------------------------

typedef struct Field {
  const char *name;
  json_type type;
} Field;
static const Field top[] = {
    {"schema", JSON_STRING},       {"model", JSON_STRING},         {"mesh", JSON_OBJECT},
    {"layout", JSON_OBJECT},       {"dims", JSON_OBJECT},          {"parameters", JSON_INTEGER},
    {"collectives", JSON_ARRAY},   {"wire_bytes", JSON_INTEGER},   {"flops", JSON_INTEGER},
    {"flops_whole", JSON_INTEGER}, {"redundant_flops", JSON_REAL}, {"padding", JSON_REAL},
    {"kernels", JSON_INTEGER},     {"products", JSON_INTEGER},     {"memory", JSON_OBJECT}};
static const Field memory[] = {{"parameters", JSON_INTEGER},
                               {"optimizer", JSON_INTEGER},
                               {"activations", JSON_INTEGER},
                               {"peak", JSON_INTEGER}};
static const Field collective[] = {
    {"kind", JSON_STRING},   {"axes", JSON_ARRAY},         {"group", JSON_INTEGER},
    {"dtype", JSON_STRING},  {"elements", JSON_INTEGER},   {"bytes", JSON_INTEGER},
    {"times", JSON_INTEGER}, {"wire_bytes", JSON_INTEGER}, {"phase", JSON_STRING},
    {"value", JSON_STRING},  {"line", JSON_INTEGER},       {"why", JSON_STRING}};

static bool has_fields(const char *run, const json_t *object, size_t n, const Field *field) {
  for (size_t i = 0; i < n; i++) {
    const json_t *x = json_object_get(object, field[i].name);
    if (x && json_typeof(x) == field[i].type) continue;
    fault(run, "the field %s is %s", field[i].name, x ? "of another type" : "missing");
    return false;
  }
  return true;
}

static int64_t number(const json_t *object, const char *name) {
  return (int64_t)json_integer_value(json_object_get(object, name));
}

// -- collectives --------------------------------------------------------------------------------

// Returns true if `wire` is what one processor of a group of n sends with the best ring algorithm.
static bool wire_fits(const char *kind, int64_t bytes, int64_t n, int64_t wire) {
  static const struct {
    const char *kind;
    int64_t
        shares; // bytes sent = shares * (n - 1) * bytes / n; `bytes` of all_gather is its result
  } rows[] = {{"all_reduce", 2}, {"reduce_scatter", 1}, {"all_to_all", 1}, {"all_gather", 1}};
  for (size_t i = 0; i < countof(rows); i++)
    if (strcmp(rows[i].kind, kind) == 0)
      return wire == ceil_div(rows[i].shares * (n - 1) * bytes, n);
  return strcmp(kind, "permute") == 0 && wire <= bytes;
}

static bool collective_holds(const char *run, const json_t *mesh, const json_t *c) {
  if (!has_fields(run, c, countof(collective), collective)) return false;
  const char *kind = json_string_value(json_object_get(c, "kind"));
  int64_t group = 1, n = number(c, "group");
  size_t i;
  const json_t *axis;
  json_array_foreach(json_object_get(c, "axes"), i, axis) group *=
      number(mesh, json_string_value(axis));
  if (n != group || n < 2)
    fault(run, "%s in a group of %lld, its axes make %lld", kind, (long long)n, (long long)group);
  else if (!wire_fits(kind, number(c, "bytes"), n, number(c, "wire_bytes")))
    fault(run, "%s of %lld bytes in a group of %lld sends %lld", kind,
          (long long)number(c, "bytes"), (long long)n, (long long)number(c, "wire_bytes"));
  else if (number(c, "times") < 1 || number(c, "line") < 1)
    fault(run, "%s: times %lld, line %lld", kind, (long long)number(c, "times"),
          (long long)number(c, "line"));
  else
    return true;
  return false;
}

static bool facts_hold(const char *run, const json_t *facts) {
  if (!has_fields(run, facts, countof(top), top) ||
      !has_fields(run, json_object_get(facts, "memory"), countof(memory), memory))
    return false;
  const json_t *mesh = json_object_get(facts, "mesh"), *one, *size;
  const char *axis;
  int64_t wire = 0, processors = 1;
  size_t i;
  json_array_foreach(json_object_get(facts, "collectives"), i, one) {
    if (!collective_holds(run, mesh, one)) return false;
    wire += number(one, "wire_bytes") * number(one, "times");
  }
  json_object_foreach((json_t *)(uintptr_t)mesh, axis, size) processors *= json_integer_value(size);
  double flops = (double)number(facts, "flops"), whole = (double)number(facts, "flops_whole"),
         redundant = json_real_value(json_object_get(facts, "redundant_flops"));
  if (wire != number(facts, "wire_bytes"))
    fault(run, "collectives send %lld bytes, wire_bytes is %lld", (long long)wire,
          (long long)number(facts, "wire_bytes"));
  else if (whole > 0 && fabs(flops * (double)processors / whole - 1 - redundant) > 1e-6)
    fault(run, "redundant_flops is %g", redundant);
  else if (number(json_object_get(facts, "memory"), "peak") <
           number(json_object_get(facts, "memory"), "parameters"))
    fault(run, "the peak is less than the parameters");
  else
    return true;
  return false;
}

// -- models -------------------------------------------------------------------------------------

// Returns the checked facts of one run; NULL after a failure, and for a model that is skipped.
static json_t *check(const char *model, const char *options) {
  const char *run = arena_printf(arena, "check %s %s", model, options);
  int code;
  char *text = command_output(arena, arena_printf(arena, "%s %s --json 2>&1", meshc, run), &code);
  if (code) {
    // E0502: a pin names an axis that only the model's own mesh has
    static const char *const reasons[] = {"[E0308]", "[E0502]", "[E0807]", "no loss and no metric"};
    bool skip = false;
    for (size_t i = 0; i < countof(reasons); i++) skip |= strstr(text, reasons[i]) != NULL;
    if (skip)
      skipped++;
    else
      fault(run, "exit %d: %.300s", code, text);
    return NULL;
  }
  const char *object = strchr(text, '{'); // warnings come first
  json_t *facts = object ? json_loads(object, 0, NULL) : NULL;
  if (!facts) fault(run, "no JSON: %.100s", text);
  if (facts && facts_hold(run, facts)) {
    passed++;
    return facts;
  }
  json_decref(facts);
  return NULL;
}

static void check_model(const char *model) {
  static const char *const purposes[] = {"", "--for eval", "--for run", "--for run --training"};
  json_t *facts = check(model, "--layout none");
  if (!facts) return;
  const char *dim = json_object_iter_key(json_object_iter(json_object_get(facts, "dims")));
  for (size_t i = 0; i < countof(purposes); i++) {
    json_decref(check(model, purposes[i]));
    if (dim)
      json_decref(
          check(model, arena_printf(arena, "%s --mesh p=2 --layout %s=p", purposes[i], dim)));
  }
  json_decref(facts);
}

// -- overlap ------------------------------------------------------------------------------------

// With overlap at least this share of the collectives' time must be hidden, and the memory must not
// be larger than with blocking collectives.
static const struct {
  const char *layout;
  double hidden;
} beside[] = {{"--mesh rows=8 --layout b=rows", 0.9},
              {"--mesh rows=4,cols=2 --layout b=rows,groups=cols,ff=cols", 0.4},
              {"--mesh rows=4,cols=2 --layout b=rows,groups=cols,ff=cols,soft/t=cols", 0.3},
              {"--mesh rows=8 --layout b=rows,optimizer/all=rows", 0.5},
              {"--mesh rows=8 --layout b=rows,parameters/all=rows", 0.8}};

// Writes h200x8.txt without overlap to `to`, the template of a file name.
static void make_blocking_machine(char *to) {
  int file = mkstemp(to), code = 1;
  if (file >= 0)
    command_output(arena, arena_printf(arena, "sed /^overlap/d %s >%s", MACHINE, to), &code);
  if (file >= 0) close(file);
  if (code) fault("sed", "%s cannot be written", to);
}

static void check_beside(size_t i, const char *blocking) {
  const char *model = "examples/llama.mesh";
  const char *large =
      "--set depth=8 --set groups=8 --set half=32 --set k=64 --set ff=4096 --set t=512";
  const char *run = arena_printf(arena, "%s %s --machine", large, beside[i].layout);
  json_t *blocks = check(model, arena_printf(arena, "%s %s", run, blocking));
  json_t *facts = check(model, arena_printf(arena, "%s %s", run, MACHINE));
  if (blocks && facts) {
    const json_t *predicted = json_object_get(facts, "predicted");
    double transfer = json_real_value(json_object_get(predicted, "transfer")),
           hidden = json_real_value(json_object_get(predicted, "hidden"));
    int64_t peak = number(json_object_get(facts, "memory"), "peak"),
            least = number(json_object_get(blocks, "memory"), "peak");
    if (hidden < beside[i].hidden * transfer)
      fault(beside[i].layout, "%g s of %g s in collectives are hidden", hidden, transfer);
    else if ((double)peak > 1.02 * (double)least)
      fault(beside[i].layout, "beside work the peak is %lld bytes, else %lld", (long long)peak,
            (long long)least);
    else
      passed++;
  }
  json_decref(blocks);
  json_decref(facts);
}

// -- memory of gathered parameters --------------------------------------------------------------

// Layers whose parameters are gathered again for the backward pass must fit a memory that holds the
// gathered parameters of a few layers: those of eight layers of GPT-3 take 24 GiB, of Llama 70B
// 27 GiB.
static const struct {
  const char *model, *options, *memory;
} gathered[] = {
    {"examples/gpt.mesh",
     "--set t=2048 --set vocab=50304 --set b=1536 --set heads=96 --set k=128 --mesh "
     "hosts=128,gpus=8 --machine a100x1024 --layout "
     "b=hosts,heads=gpus,ff=gpus,vocab=gpus,soft/t=gpus,parameters/all=hosts,gradients/all=hosts",
     "9GiB"},
    // the scales and shifts of all layers are gathered in one call, which comes first
    {"examples/gpt.mesh",
     "--set t=2048 --set vocab=50304 --set b=1536 --set heads=96 --set k=128 --mesh "
     "hosts=128,gpus=8 --machine a100x1024 --layout "
     "b=hosts,heads=gpus,ff=gpus,vocab=gpus,soft/t=gpus,parameters/all=hosts+gpus,"
     "gradients/all=hosts+gpus",
     "8GiB"},
    {"examples/llama.mesh",
     "--set queries=8 --set half=64 --set k=128 --set vocab=32000 --set groups=8 --set ff=28672 "
     "--set t=4096 --set b=64 --mesh hosts=8,gpus=8 --machine h100x512 --layout "
     "b=hosts+gpus,parameters/all=hosts+gpus,gradients/all=hosts+gpus",
     "8GiB"}};

static void check_gathered(size_t i) {
  int code;
  const char *run = arena_printf(
      arena, "check %s --set depth=8 --set train.precision=bf16 --device cuda %s --memory %s",
      gathered[i].model, gathered[i].options, gathered[i].memory);
  char *text = command_output(arena, arena_printf(arena, "%s %s 2>&1", meshc, run), &code);
  if (code)
    fault(run, "exit %d: %.300s", code, text);
  else
    passed++;
}

// -- predicted times of GPUs --------------------------------------------------------------------

// A step of training on a table of so many rows, with 65,536 indices.
#define TABLE(rows)                                                                                \
  "dim v = " rows ", c = 768, n = 65536\nparam table[v, c]\ninput ids[n]: i32\n"                   \
  "loss = mean(take[v](table, ids))\ntrain loss { optimizer = sgd(lr = 0.1), steps = 1 }\n"

// Steps whose time on a GPU is known, or bounded by what is known. Models are text; `options`
// replace sizes.
static const struct {
  const char *name, *model, *options;
  double least, most; // seconds
} anchors[] = {
    {"product", // 795 TFLOP/s at 8192, 716 at 4096: 1.38 and 0.19 ms
     "dim m = 8192, n = m, k = m\ninput x[m, k]: bf16\ninput w[k, n]: bf16\n"
     "output y[m, n] = sum[k](x * w)\n",
     "--machine h100", 1.25e-3, 1.6e-3},
    {"product of 4096",
     "dim m = 4096, n = m, k = m\ninput x[m, k]: bf16\ninput w[k, n]: bf16\n"
     "output y[m, n] = sum[k](x * w)\n",
     "--machine h100", 1.7e-4, 2.2e-4},
    {"sum", // 3.24 TB/s: 1.33 ms
     "dim m = 1048576, n = 1024\ninput x[m, n]\noutput y = sum(x)\n", "--machine h100", 1.2e-3,
     1.6e-3},
    {"AdamW, 124 million parameters", // 28 bytes a parameter: 0.87 ms at 4.0 TB/s
     "dim a = 512, b = 242970\nparam w[a, b]\nloss = mean(square(w))\n"
     "train loss { optimizer = adamw(lr = 1e-3), steps = 1 }\n",
     "--machine h200", 7e-4, 1e-3},
    {"MLP", // 2.4 GFLOP at 67 TFLOP/s are 37 us, and 17 launches
     "dim b = 256, i = 784, h = 1024, k = 1024, o = 10\ninput x[b, i]\ninput y[b]: i32\n"
     "param v[i, h] ~ he(i)\nparam v_b[h]\nparam w[h, k] ~ he(h)\nparam w_b[k]\n"
     "param u[k, o] ~ he(k)\nparam u_b[o]\na = relu(sum[i](x * v) + v_b)\n"
     "c = relu(sum[h](a * w) + w_b)\nl[b, o] = sum[k](c * u) + u_b\n"
     "loss = mean[b](cross_entropy[o](l, y))\ntrain loss { optimizer = adam(lr = 1e-3), steps = 1 "
     "}\n",
     "--machine h100", 5e-5, 2e-4},
    {"product with TF32", // half the rate of bf16: 2.7 ms
     "dim m = 8192, n = m, k = m\ninput x[m, k]\ninput w[k, n]\noutput y[m, n] = sum[k](x * w)\n",
     "--machine h100 --precision tf32", 2.4e-3, 3.2e-3},
    // About 170 owners divide the rows. Each of their blocks reads 65,536 indices, 256 at a time,
    // and adds a 170th of the terms one after the other. These 256 rounds and 385 terms take 0.7 us
    // each: 0.45 ms. 0.3 GB take 0.1 ms.
    {"gradient of an embedding", TABLE("50304"), "--machine h100", 4e-4, 1.5e-3},
    // 170 owners of 4 rows: each of four adds a quarter of the terms, 16,384, in 0.7 us each.
    {"gradient of a small table", TABLE("4"), "--machine h100", 1.1e-2, 1.4e-2},
    // 192 rows: some of the 170 owners have two.
    {"gradient of a table of 192 rows", TABLE("192"), "--machine h100", 6.5e-4, 8e-4},
    // 96 rows: the memory of the gradient holds the loss, 4 bytes, later in the step.
    {"gradient of a table in memory of the loss",
     "dim b = 4096, d = 8, v = 96, e = 256\ninput ids[b]: i32\nparam table[v, d] ~ normal(std = "
     "0.5)\n"
     "x = take[v](table, ids)\nparam g[d] = 1\nx = x * g * softmax[d](x)\n"
     "param r[d, e] ~ normal(std = 0.1)\nparam q[e, d] ~ glorot(e, d)\n"
     "x = x + sum[e](tanh(sum[d](x * r)) * q)\ninput label[b]: i32\n"
     "loss = mean[b](cross_entropy[d](x, label))\n"
     "train loss { optimizer = adam(lr = 0.01), steps = 1 }\n",
     "--machine h100x8 --mesh rows=2 --layout b=rows", 1e-4, 4e-4},
    {"without --machine", // that of an H100
     "dim m = 1048576, n = 1024\ninput x[m, n]\noutput y = sum(x)\n", "", 1.2e-3, 1.6e-3},
    {"all_reduce of 1 GiB", // 370 GB/s: 5.1 ms
     "dim p = 8, n = 268435456\ninput x[p, n]\noutput y = sum[p](x)\nmesh rows = 8\n"
     "layout p -> rows\n",
     "--machine h100x8", 5e-3, 9e-3},
};

static void check_anchor(size_t i) {
  char path[] = "/tmp/meshc-facts-XXXXXX";
  int file = mkstemp(path);
  size_t n = strlen(anchors[i].model);
  if (file < 0 || write(file, anchors[i].model, n) != (ssize_t)n)
    fault(anchors[i].name, "%s cannot be written", path);
  if (file >= 0) close(file);
  json_t *facts = check(path, arena_printf(arena, "--device cuda %s", anchors[i].options));
  double seconds = json_real_value(json_object_get(facts, "predicted_seconds"));
  if (facts && (seconds < anchors[i].least || seconds > anchors[i].most))
    fault(anchors[i].name, "%g s are predicted, not %g to %g", seconds, anchors[i].least,
          anchors[i].most);
  json_decref(facts);
  unlink(path);
}

// Returns the layout that `plan` proposes.
static const char *planned(const char *model, const char *options) {
  int code;
  char *text = command_output(
      arena, arena_printf(arena, "%s plan %s --json %s 2>&1", meshc, model, options), &code);
  json_t *facts = code ? NULL : json_loads(text, 0, NULL);
  const char *layout = json_string_value(json_object_get(json_object_get(facts, "use"), "layout"));
  if (!layout) fault(options, "no plan: %.200s", text);
  layout = arena_printf(arena, "%s", layout ? layout : "");
  json_decref(facts);
  return layout;
}

// Cores divide a small model's products. GPUs compute them faster than they would send the parts.
static void check_plans(void) {
  const char *model = "examples/gpt.mesh";
  const char *cores = planned(model, "--processors 8"),
             *gpus = planned(model, "--processors 8 --device cuda");
  if (!strstr(cores, "ff=") || strstr(gpus, "ff="))
    fault("plan", "%s for cores, %s for GPUs", cores, gpus);
  else
    passed++;
}

int main(void) {
  arena = arena_new();
  meshc = command_program(arena);
  models_each(check_model);
  char blocking[] = "/tmp/meshc-facts-XXXXXX";
  make_blocking_machine(blocking);
  for (size_t i = 0; i < countof(beside); i++) check_beside(i, blocking);
  unlink(blocking);
  for (size_t i = 0; i < countof(gathered); i++) check_gathered(i);
  for (size_t i = 0; i < countof(anchors); i++) check_anchor(i);
  check_plans();
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  arena_free(arena);
  return failed != 0;
}

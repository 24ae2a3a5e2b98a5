// Compares every elementwise function and its gradients with references in long double. Errors are
// measured in units of the last place. Arguments cover all exponents and signs, infinities, NaN,
// zeros, subnormals and saturation. Types: f32, f64, bf16, f16; targets: processors with and
// without fused multiply-adds, every vector width of the code generator, and a GPU, whose threads
// an emulator runs.
//
//   suite_elementwise            the arguments that the test command uses
//   suite_elementwise soak       every f16 and bf16, and every STRIDE-th f32 (default 257), with
//                                the widest vectors
//   SHOW=1: print the largest error of each function; TYPE=f32: that type alone
//
// common/elementary.c has the references and their bounds. A built-in function or an operation
// without a row there fails.
#define _XOPEN_SOURCE 700 // mkdtemp
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/cpu/host_internal.h"
#include "frontend/driver/session.h"
#include "tests/suite/common/code.h"
#include "tests/suite/common/elementary.h"
#include "tests/suite/common/program_interp.h"

enum { N = 1 << 13, MOST = 64, MOST_OUTPUTS = 3 * MOST };
static int passed, failed, skipped;
static char folder[] = "/tmp/meshc-elementwise-XXXXXX";

// -- processor features of the generated code ---------------------------------------------------

typedef struct Target {
  const char *name;
  int bits;
  const char *without; // features that the target lacks
} Target;
static const Target targets[] = {
    {"512", 512, NULL},
    {"256", 256, NULL},
    {"256 without fma", 256, "fma,avx2,f16c,avx512f"},
    {"128", 128, NULL},
    {"128 without avx", 128, "fma,avx2,f16c,avx512f,avx"},
};
enum { NTARGETS = (int)countof(targets) };

// -- the program for one type -------------------------------------------------------------------

typedef enum Which { VALUE, BY_X, BY_Z, WHICH } Which;

typedef struct Column {
  const Elementary *e;
  Which which;
  char name[40];
  Function *f;
  const Bound *bound;
  double worst; // largest error, as a part of its bound
  double ulp;   // error in units of the last place at the worst element; its arguments x, z
  double x, z, got;
} Column;

typedef struct Suite {
  Dtype type;
  Session s;
  Options options;
  Compilation made;
  int nresults;
  Column result[MOST_OUTPUTS];
  double x[N], z[N];
  int n;
} Suite;

static void folder_remove(void) {
  static const char *const names[] = {"f32", "f64", "bf16", "f16"};
  char path[80];
  for (size_t i = 0; i < countof(names); i++) {
    snprintf(path, sizeof path, "%s/%s.mesh", folder, names[i]);
    unlink(path);
  }
  rmdir(folder);
}

static bool wide_type(Dtype t) { return t == TYPE_F64; }

static void add_result(Suite *u, const Elementary *e, Which which, Function *f) {
  static const char *const suffix[WHICH] = {"", "_dx", "_dz"};
  if (!f) return;
  Column *r = &u->result[u->nresults++];
  *r = (Column){.e = e, .which = which, .f = f};
  r->bound = which == VALUE ? &e->value[wide_type(u->type)] : &e->slope[wide_type(u->type)];
  snprintf(r->name, sizeof r->name, "f_%s%s", e->name, suffix[which]);
}

// -- casts --------------------------------------------------------------------------------------

// Returns x cast as the language defines it. To integers: toward zero, saturating, NaN gives 0. To
// floats: rounded to nearest even.
static double cast_to(Dtype t, double x) {
  static const double low[TYPE_COUNT] = {[TYPE_I32] = -0x1p31},
                      high[TYPE_COUNT] = {[TYPE_I32] = 0x1p31 - 1, [TYPE_U8] = 255};
  if (t == TYPE_BOOL) return x != 0;
  if (dtype_is_float(t)) return (double)wide_round(t, (Wide)x);
  return isnan(x) ? 0 : x < low[t] ? low[t] : x > high[t] ? high[t] : trunc(x);
}

static const Dtype cast_types[] = {TYPE_F32, TYPE_F64, TYPE_BF16, TYPE_F16,
                                   TYPE_I32, TYPE_U8,  TYPE_BOOL};

static void write_casts(FILE *f) {
  for (size_t i = 0; i < countof(cast_types); i++)
    fprintf(f, "output to_%s = cast(x, %s)\n", dtype_text(cast_types[i]),
            dtype_text(cast_types[i]));
}

// -- the model ----------------------------------------------------------------------------------

static void write_model(Suite *u, const char *path) {
  FILE *f = fopen(path, "we");
  if (!f) BUG("cannot write %s", path);
  fprintf(f, "dim i = %d\ninput x[i]: %s\ninput z[i]: %s\n", N, dtype_text(u->type),
          dtype_text(u->type));
  for (int i = 0; i < u->nresults; i++) {
    const Column *r = &u->result[i];
    if (r->which == VALUE)
      fprintf(f, "output %s = %s\n", r->name, r->e->text);
    else
      fprintf(f, "output %s = gradient(sum(%s), %s)\n", r->name, r->e->text,
              r->which == BY_X ? "x" : "z");
  }
  write_casts(f);
  fclose(f);
}

static bool prepare(Suite *u) {
  char path[80];
  Session *s = &u->s;
  *s = (Session){.arena = arena_new(), .inject = {.call = -1}, .opt = &u->options};
  s->names = intern_new(s->arena);
  s->diag = diag_new(s->arena);
  for (int i = 0; i < elementary_count; i++) {
    add_result(u, &elementary[i], VALUE, elementary[i].f);
    add_result(u, &elementary[i], BY_X, elementary[i].dx);
    add_result(u, &elementary[i], BY_Z, elementary[i].dz);
  }
  snprintf(path, sizeof path, "%s/%s.mesh", folder, dtype_text(u->type));
  write_model(u, path);
  char *word[] = {arena_text(s->arena, "meshc", 5), arena_text(s->arena, "run", 3),
                  arena_text(s->arena, path, strlen(path)), arena_text(s->arena, "-q", 2), NULL};
  Selected of;
  bool good = options_parse(&u->options, s->arena, s->diag, 4, word) && session_load(s) &&
              session_make(s, "program", &of, &u->made);
  if (!good) diag_print(s->diag, stdout, false);
  return good;
}

// -- arguments ----------------------------------------------------------------------------------

static uint64_t seed = 88172645463325252;
static uint64_t draw(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  return seed ^= seed << 17;
}
static double uniform(double low, double high) {
  return low + (high - low) * (double)(draw() >> 11) * 0x1p-53;
}

static const double specials[] = {
    0,
    -0.0,
    (double)INFINITY,
    -(double)INFINITY,
    (double)NAN,
    1,
    -1,
    2,
    -2,
    3,
    0.5,
    -0.5,
    1.5,
    -2.5,
    0x1p-1074,
    -0x1p-149,
    0x1p-149,
    0x1p-126,
    0x1p-24,
    -0x1p-24,
    65504,
    -65504,
    0x1.fffffep127,
    -0x1.fffffep127,
    300,
    1000,
    -1000,
    1e20,
    -1e20,
    104,
    -104,
    88.72,
    -87.3,
};
enum { NSPECIALS = (int)countof(specials) };

// Returns a number of any exponent and sign of the type. A third of the significands are sparse or
// nearly full.
static double wild(Dtype t) {
  int range = t == TYPE_F64   ? 1074
              : t == TYPE_F16 ? 24
                              : 149,
      top = t == TYPE_F64   ? 1023
            : t == TYPE_F16 ? 15
                            : 127;
  double m = uniform(1, 2);
  uint64_t r = draw();
  if (r % 6 == 0) m = 1;
  if (r % 6 == 1) m = 2 - 0x1p-52;
  return ldexp(r >> 32 & 1 ? -m : m, (int)(r >> 8 & 0xffff) % (range + top + 1) - range);
}

static double argument(Dtype t, int k) {
  double wide = uniform(-1, 1);
  switch (k % 8) {
  case 0:
  case 1: return wild(t);
  case 2: return wide * (t == TYPE_F64 ? 760 : 110);
  case 3: return wide * 20;
  case 4: return wide * 4;
  case 5: return wide;
  case 6: return floor(wide * 64) * (k & 8 ? 0.5 : M_PI_4) * (1 + 0x1p-23 * (double)(k % 5 - 2));
  default: return ldexp(wide, -(int)(draw() % 30));
  }
}

static void fill(Suite *u) {
  u->n = N;
  for (int k = 0; k < N; k++) {
    bool pairs = k < NSPECIALS * NSPECIALS;
    double x = pairs ? specials[k % NSPECIALS] : argument(u->type, k),
           z = pairs ? specials[k / NSPECIALS] : argument(u->type, k / 8);
    if (!pairs && k % 16 == 9) z = x;
    if (!pairs && k % 16 == 10) z = x / floor(uniform(1, 1000));
    u->x[k] = (double)wide_round(u->type, (Wide)x);
    u->z[k] = (double)wide_round(u->type, (Wide)z);
  }
}

// -- comparing ----------------------------------------------------------------------------------

static void feed(const Suite *u, Exec *e, const char *name, const double *x) {
  int64_t size = dtype_bytes(u->type);
  char *data = malloc((size_t)(N * size));
  if (!data) BUG("no memory");
  for (int k = 0; k < N; k++) dtype_store(u->type, data + k * size, x[k]);
  exec_write(e, TENSOR_INPUT, name, u->type, data);
  free(data);
}

// Returns true where a gradient is not checked: at NaN beside a kink, and where a factor of the
// chain rule leaves the normal numbers of the type before the product does.
static bool is_open(const Column *r, double x, double z, Dtype t) {
  const char *name = r->e->name;
  if (r->which == VALUE) return false;
  if (r->e->kinks && (isnan(x) || isnan(z))) return true;
  if (!strcmp(name, "div") && r->which == BY_Z)
    return !wide_normal(t, 1 / (Wide)z) || !wide_normal(t, (Wide)x / (Wide)z);
  if (strcmp(name, "pow") != 0) return false;
  // for a large z, z - 1 rounds to z, which changes the sign of a power of a negative number
  if (r->which == BY_X)
    return !wide_normal(t, powl((Wide)x, (Wide)z - 1)) ||
           (x < 0 && (fabs(z) > 128 || z != floor(z)));
  return !wide_normal(t, powl((Wide)x, (Wide)z));
}

// -- completeness of the table ------------------------------------------------------------------

static bool has_row(const char *name) {
  for (int i = 0; i < elementary_count; i++)
    if (!strcmp(elementary[i].name, name)) return true;
  return false;
}

static bool in_list(const char *const *list, const char *name) {
  for (; *list; list++)
    if (!strcmp(*list, name)) return true;
  return false;
}

static void need(bool there, const char *what, const char *name) {
  *(there ? &passed : &failed) += 1;
  if (!there) printf("FAIL %s %s has no row in tests/suite/common/elementary.c\n", what, name);
}

// Checks that the table has a row for every built-in function without brackets, except copies,
// functions of integers and losses (tested by other suites), and functions that are not
// elementwise.
static void builtins_have_rows(void) {
  static const char *const others[] = {
      "cast",    "stop_gradient", "square_sum",  "sigmoid_cross_entropy",
      "size",    "layout",        "checkpoint",  "gradient",
      "grad",    "bit_and",       "bit_or",      "bit_xor",
      "bit_not", "shift_left",    "shift_right", "cond",
      NULL};
#define BUILTIN(name, bracket, rule, op, typing, ...)                                              \
  if (!strcmp(#bracket, "NONE") && !in_list(others, #name))                                        \
    need(has_row(#name), "the built-in function", #name);
#include "frontend/model/builtin.def"
#undef BUILTIN
}

// Checks that the graph of the suite has every pointwise operation, except those that only the
// compiler makes, and those of integers.
static void ops_have_rows(const Graph *g) {
  static const char *const others[] = {"stop_gradient", "checkpoint", "cast",        "bound_index",
                                       "arg_key",       "key_index",  "bit_and",     "bit_or",
                                       "bit_xor",       "shift_left", "shift_right", NULL};
  bool seen[OP_COUNT] = {false};
  for (NodeId n = 1; n <= graph_count(g); n++) seen[graph_node(g, n)->op] = true;
#define OP(id, text, args, cls, flags, attrs, linear, monoid, rows, memory, cost, infer, eval,     \
           grad, emit)                                                                             \
  if (!strcmp(#cls, "POINTWISE") && !in_list(others, text))                                        \
    need(seen[OP_##id], "the operation", text);
#include "ir/graph/ops.def"
}

// -- comparing each column ----------------------------------------------------------------------

static void look(Suite *u, Column *r, const double *got) {
  Dtype t = r->e->truth ? TYPE_F64 : u->type;
  for (int k = 0; k < u->n; k++) {
    double x = u->x[k], z = u->z[k];
    if (is_open(r, x, z, t)) continue;
    double part = elementary_error(r->f, r->bound, t, (Wide)x, (Wide)z, got[k]);
    bool sign = r->which == VALUE && !r->e->two && x == 0 && got[k] == 0 &&
                !signbit(got[k]) != !signbit((double)r->f((Wide)x, 0));
    if (sign) part = HUGE_VAL;
    if (!(part <= r->worst)) {
      r->worst = part, r->x = x, r->z = z, r->got = got[k];
      r->ulp = wide_ulps(t, got[k], r->f((Wide)x, (Wide)z), r->bound->scale);
    }
  }
}

// Reads an output of type t, as doubles, from what has run the program.
typedef void ReadOutput(void *from, const char *name, Dtype t, double *out);

static void read_exec(void *from, const char *name, Dtype t, double *out) {
  static char data[N * sizeof(double)];
  exec_read(from, TENSOR_OUTPUT, name, data);
  for (int k = 0; k < N; k++) out[k] = dtype_load(t, data + k * dtype_bytes(t));
}

static void compare(Suite *u, ReadOutput *read, void *from) {
  static double got[N];
  for (int i = 0; i < u->nresults; i++) {
    Column *r = &u->result[i];
    read(from, r->name, r->e->truth ? TYPE_BOOL : u->type, got);
    look(u, r, got);
  }
}

// Prints the results for the target of that name.
static void say(const Suite *u, const char *target) {
  bool show = getenv("SHOW") != NULL;
  for (int i = 0; i < u->nresults; i++) {
    const Column *r = &u->result[i];
    bool good = r->worst <= 1;
    *(good ? &passed : &failed) += 1;
    if (good && !show) continue;
    printf("%s %s %s (%s): %.3f ulp, %.2f of the bound, at %.9g (%a)", good ? "ok  " : "FAIL",
           r->name + 2, dtype_text(u->type), target, r->ulp, r->worst, r->x, r->x);
    if (r->e->two) printf(", %.9g (%a)", r->z, r->z);
    printf(": %.9g, not %.9Lg\n", r->got, r->f((Wide)r->x, (Wide)r->z));
  }
}

// Returns an executor with code for a target, or NULL after a message.
static Exec *exec_of(Suite *u, const Target *t, Code **code) {
  CodeOptions opt = {
      .opt = suite_opt(2), .width = t->bits, .without = t->without, .cache = suite_cache()};
  ExecOptions exec = {.threads = 1};
  *code = code_load(u->made.compiled->program, u->made.compiled->kernels, &opt, u->s.diag);
  Exec *e = *code ? exec_new(u->made.compiled->program, &exec, u->s.diag) : NULL;
  if (e) return e;
  printf("FAIL %s %s: does not compile\n", dtype_text(u->type), t->name);
  failed++;
  diag_print(u->s.diag, stdout, false);
  return NULL;
}

static void step(Suite *u, Exec *e) {
  feed(u, e, "x", u->x);
  feed(u, e, "z", u->z);
  if (exec_step(e, 0, false) != STEP_OK) BUG("the step fails");
  compare(u, read_exec, e);
}

// Returns the k-th number of a type in the order of its bits; of f32 every stride-th.
static double by_bits(Dtype t, uint64_t k, uint64_t stride) {
  uint16_t half = (uint16_t)k;
  uint32_t single = (uint32_t)(k * stride);
  return t == TYPE_F32 ? dtype_load(t, &single) : dtype_load(t, &half);
}

static void compare_casts(Suite *u, ReadOutput *read, void *from, const char *target) {
  static double got[N];
  for (size_t i = 0; i < countof(cast_types); i++) {
    Dtype to = cast_types[i];
    char name[20];
    int wrong = 0, first = 0;
    snprintf(name, sizeof name, "to_%s", dtype_text(to));
    read(from, name, to, got);
    for (int k = N; k-- > 0;) {
      double want = cast_to(to, u->x[k]);
      if (got[k] == want || (isnan(got[k]) && isnan(want))) continue;
      wrong++;
      first = k;
    }
    *(wrong ? &failed : &passed) += 1;
    if (!wrong) continue;
    printf("FAIL cast from %s to %s (%s): %d elements, the first %a: %a, not %a\n",
           dtype_text(u->type), dtype_text(to), target, wrong, u->x[first], got[first],
           cast_to(to, u->x[first]));
  }
}

static void sweep(Suite *u, Exec *e) {
  uint64_t stride = getenv("STRIDE") ? strtoull(getenv("STRIDE"), NULL, 10) : 257;
  uint64_t all = u->type == TYPE_F64   ? 1 << 22
                 : u->type == TYPE_F32 ? (UINT64_C(1) << 32) / stride
                                       : 1 << 16;
  for (uint64_t k = 0; k < all; k += N) {
    fill(u);
    for (uint64_t i = 0; i < N && u->type != TYPE_F64; i++)
      u->x[i] = by_bits(u->type, k + i, stride);
    step(u, e);
  }
}

static void forget_errors(Suite *u) {
  for (int i = 0; i < u->nresults; i++) u->result[i].worst = 0;
}

static void run(Suite *u, const Target *t, bool soak) {
  Code *code;
  Exec *e = exec_of(u, t, &code);
  forget_errors(u);
  if (e && soak)
    sweep(u, e);
  else if (e)
    step(u, e);
  if (e) say(u, t->name);
  if (e && !soak) compare_casts(u, read_exec, e, t->name);
  if (e) exec_free(e);
  if (code) code_free(code);
}

// -- a GPU --------------------------------------------------------------------------------------

static void launch_on_gpu(void *context, uint32_t k, int64_t grain, uint32_t n, GpuSet *set) {
  gpu_runner_run(context, k, grain, n, set);
}

static void read_interp(void *from, const char *name, Dtype t, double *out) {
  (void)t;
  if (!interp_read(from, TENSOR_OUTPUT, name, out)) BUG("the output %s is missing", name);
}

// Runs the kernels of the program as code for a GPU.
static void run_on_gpu(Suite *u) {
  const Program *p = u->made.compiled->program;
  GpuRunner *r = gpu_runner_new(p, u->made.compiled->kernels, u->s.diag);
  if (!r) {
    printf("FAIL %s: does not compile for a GPU\n", dtype_text(u->type));
    failed++;
    return;
  }
  Interp *in = interp_new(u->s.arena, u->made.compiled);
  interp_launch_by(in, launch_on_gpu, r);
  for (int32_t t = -1; t < (int32_t)p->ntensors; t++) {
    int64_t bytes;
    void *at = interp_memory(in, 0, t, &bytes);
    if (at) gpu_runner_allow(r, at, (size_t)bytes);
  }
  forget_errors(u);
  const char *why =
      interp_write(in, TENSOR_INPUT, "x", u->x) && interp_write(in, TENSOR_INPUT, "z", u->z)
          ? interp_run(in, 0, 0)
          : "an input is missing";
  if (why) BUG("the program fails: %s", why);
  compare(u, read_interp, in);
  say(u, "gpu");
  compare_casts(u, read_interp, in, "gpu");
  interp_free(in);
  gpu_runner_free(r);
}

static void run_type(Suite *u, bool soak) {
  if (!prepare(u)) {
    failed++;
    return;
  }
  if (u->type == TYPE_F32) ops_have_rows(u->s.model->graph);
  fill(u);
  for (int t = 0, runs = 0; t < NTARGETS && !(soak && runs > 0); t++) {
    bool able = targets[t].bits <= host_bits();
    if (able) run(u, &targets[t], soak);
    *(able ? &runs : &skipped) += 1;
  }
  if (!soak) run_on_gpu(u);
}

int main(int argc, char **argv) {
  static const Dtype types[] = {TYPE_F32, TYPE_F64, TYPE_BF16, TYPE_F16};
  static Suite suite[countof(types)];
  bool soak = argc > 1 && !strcmp(argv[1], "soak");
  const char *only = getenv("TYPE");
  if (!code_available()) {
    printf("0 passed, 0 failed, 1 skipped\n");
    return 0;
  }
  if (!mkdtemp(folder)) return 6;
  builtins_have_rows();
  for (size_t i = 0; i < countof(types); i++) {
    suite[i].type = types[i];
    if (!only || !strcmp(only, dtype_text(types[i]))) run_type(&suite[i], soak);
  }
  folder_remove();
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed > 0;
}

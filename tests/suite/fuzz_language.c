// A fuzzer that knows the grammar of model files: texts derived at random from it, and the models of this
// repository with tokens dropped, doubled, swapped and mixed, go through the parser, the builder and every pass up
// to the program. An input may be refused; it must not crash, hang or trip an invariant.
//
//   suite_fuzz_language [count=N] [seed=S]     input i of seed S is the same everywhere; SHOW=1 prints it
//
// Inputs run in a child process, which is started again behind an input that kills it.
#include <ctype.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontend/frontend.h"

enum { COUNT = 10000, SECONDS = 20, DEPTH = 9, TEXT = 1 << 16, MAX_MODELS = 256 };

// -- random choices: SplitMix64 ---------------------------------------------------------------------------------

static uint64_t state;

static uint64_t draw(void) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
static uint32_t below(uint32_t n) { return (uint32_t)(draw() % n); }

// -- the grammar ---------------------------------------------------------------------------------------------------
//
// <name> stands for a rule, everything else for itself. Alternatives are parted by `|`, the first one of a rule ends
// a derivation that has become too deep.

typedef struct Rule {
  const char *name, *body;
} Rule;
static const Rule grammar[] = {
    {"model", "<dims><inputs><params><lines><end>"},
    {"dims", "dim a = 2, b = 3, c = 4, d = a * b, e = 5, t = 6, s = t, k = 3, o = 4\n|dim a = <int>, b = <int>, c = <int>, d = a * b, e = <int>, t = <int>, s = t, k = 2, o = t - 1\n"},
    {"inputs", "input x[a, b]\ninput y[b, c]\ninput z[a, t]\ninput ids[a, t]: i32\ninput n[a]: i32\n|input x[a, b]: <type>\ninput y[b, c]: <type>\ninput z[t]\ninput ids[t]: i32\ninput n: i32\n"},
    {"params", "param w[b, c] ~ <draw>\nparam v[c] = <number>\nparam u[b, e]\nstate m[c] = 0\n|param w[b, c] ~ <draw>\nparam v[c]\nparam u[e, b] = index[b] * 0.1\nstate m[c]: <type> = 1\n"},
    {"draw", "normal(std = 0.1)|glorot(b, c)|he(b)|uniform(-1, 1)|orthogonal(b -> c)|truncated_normal(0, 1)|lecun(b)|<call>"},
    {"int", "2|3|4|5|6|8|1|12|0|a + 1|2 * 3"},
    {"number", "1|0|2|0.5|-1|1e-3|inf|3.25|1_000|-0.0|1e30"},
    {"type", "f32|i32|f64|bf16|f16|u8|bool"},
    {"dim", "a|b|c|d|e|t|s|k|o"},
    {"lines", "<line>|<line><line>|<line><line><line>|<line><lines>|<line><line><lines>"},
    {"line", "<left> = <expr>\n|<left> = <expr>\n|<left> = <expr>\n|<name>[<dimlist>] = <expr>\n|update m = <expr>\n|metric q = <expr>\n|output r = <expr>\n|<function>|<loop>|<scan>|<name>, <name> = <expr>\n|const g = <number>\n"},
    {"left", "<name>"},
    {"name", "x|y|p|q|r|f|h|w|v|g"},
    {"dimlist", "<dim>|<dim>, <dim>|<dim>, <dim>, <dim>|all but <dim>"},
    {"function", "fn f(x) = <expr>\n|fn f[i, o](x, j = <number>) {\n  param kernel[i, o] ~ glorot(i, o)\n  <line>  return <expr>\n}\n|fn h(x, y) {\n  <lines>  return <expr>, <expr>\n}\n"},
    {"loop", "for i in 0..3 {\n  <lines>}\n|for i in <int>..<int> (name = \"deep\") {\n  <lines>}\n|for i in 0..3 (checkpoint = true) {\n  p = <expr>\n  yield p as ps[b]\n}\n"},
    {"scan", "scan t (p[a] = 0) {\n  p = p + <expr>\n  yield p as ps\n}\n|scan reverse t (p = x, q[b] = <number>) {\n  <lines>  yield q as qs\n}\n"},
    {"expr", "<value>|<value>|<expr> <op> <expr>|<expr> <op> <expr>|<call>|<call>|<call>|-<expr>|(<expr>)|<expr> ^ 2|not <expr>|<reduce>|<reduce>|<shape>|<shape>"},
    {"value", "x|y|z|w|v|u|m|ids|n|p|q|r|g|<number>|index[<dim>]|size(<dim>)|training|step|values[k](1, 2, 3)|i|f.kernel"},
    {"op", "+|-|*|*|/|%|==|<|<=|and|or|^"},
    {"unary", "exp|log|sqrt|relu|tanh|sigmoid|abs|sign|floor|round|sin|gelu|silu|softplus|erf|square|reciprocal|elu|stop_gradient|checkpoint|layout|log1p"},
    {"call", "<unary>(<expr>)|<unary>(<expr>)|maximum(<expr>, <expr>)|where(<expr>, <expr>, <expr>)|clip(<expr>, <number>, <number>)|cast(<expr>, <type>)|f(<expr>)|f[b, c](<expr>)|h(<expr>, <expr>)|f[<dim>, <dim>](<expr>, name = \"in\")|gradient(<expr>, <value>)|dropout(<expr>, rate = 0.5)|random_normal[<dimlist>](std = 1)|random_uniform[<dimlist>](0, 1)|bernoulli[<dimlist>](0.5)|square_sum(\"*\")|leaky_relu(<expr>, slope = <number>)|pow(<expr>, <expr>)|layout(<expr>, <dim> -> rows)"},
    {"reduce", "sum(<expr>)|sum[<dim>](<expr> * <expr>)|sum[<dimlist>](<expr> * <expr>)|mean[<dimlist>](<expr>)|max[<dimlist>](<expr>)|min(<expr>)|prod[<dim>](<expr>)|logsumexp[<dim>](<expr>)|variance[<dim>](<expr>)|argmax[<dim>](<expr>)|any[<dim>](<expr>)|softmax[<dim>](<expr>)|log_softmax[<dim>](<expr>)|layer_norm[<dimlist>](<expr>)|batch_norm[<dim>](<expr>)|rms_norm[<dim>](<expr>)|cross_entropy[<dim>](<expr>, <expr>)|sigmoid_cross_entropy(<expr>, <expr>)|l2_normalize[<dim>](<expr>)"},
    {"shape", "rename[<dim> -> <dim>](<expr>)|split[d -> a, b](<expr>)|merge[a, b -> d](<expr>)|slice[<dim> -> <dim>](<expr>, start = <int>)|slice[t -> o](<expr>, start = n)|pad[<dim> -> <dim>](<expr>, before = 1)|concat[<dim>, <dim> -> <dim>](<expr>, <expr>)|stack[-> a](<expr>, <expr>)|select[<dim>](<expr>, <expr>)|put[<dim>](<expr>, <int>, <expr>)|reverse[<dim>](<expr>)|shift[<dim>](<expr>, by = <int>)|window[<dim> -> <dim>, k](<expr>, pad = same)|window[t -> o, k](<expr>, stride = <int>, dilation = <int>, pad = (1, 1))|max[k](window[t -> t, k](<expr>, pad = same))|fold[t, k -> o](<expr>)|take[<dim>](<expr>, ids)|one_hot[<dim>](<expr>)|scatter_add[<dim> -> <dim>](<expr>, <expr>)|cumsum[<dim>](<expr>)|cummax[<dim>](<expr>)|sort[<dim>](<expr>)|argsort[<dim>](<expr>)|top_k[<dim> -> k](<expr>)"},
    {"end", "loss = <reduce>\n<train><mesh>|loss = mean(square(<expr>))\n<train><mesh>"},
    {"train", "train loss { optimizer = <optimizer>, steps = 2 }\n||train loss {\n  optimizer = <optimizer>\n  schedule = cosine(total = 10)\n  clip_norm = 1\n  steps = 3\n  precision = bf16\n}\n|train loss { optimizer = sgd(lr = 0.1), accumulate = 2, steps = 1 }\n"},
    {"optimizer", "sgd(lr = 0.1)|adam(lr = 1e-3)|adamw(lr = 0.1, weight_decay = 0.1)|rmsprop(lr = 0.1)|adagrad(lr = 0.1)|lion(lr = 0.1)|adafactor(lr = 0.1)"},
    {"mesh", "|mesh rows = 2, cols = 2\nlayout <rule>\n|mesh rows = 3\nlayout <rule>\n|mesh rows = 2, cols = 2\nlayout <rule>, <rule>\n|mesh rows = 2\nlayout optimizer: all -> rows\nlayout soft <dim> -> rows\n"},
    {"rule", "<dim> -> rows|<dim> -> cols|<dim> -> (rows, cols)"},
};

typedef struct Text {
  char at[TEXT];
  size_t n;
} Text;

static void put(Text *t, const char *s, size_t n) {
  if (t->n + n >= TEXT) return;
  memcpy(t->at + t->n, s, n);
  t->n += n;
  t->at[t->n] = 0;
}

static const Rule *rule_find(const char *name, size_t n) {
  for (size_t i = 0; i < countof(grammar); i++)
    if (strlen(grammar[i].name) == n && memcmp(grammar[i].name, name, n) == 0) return &grammar[i];
  return NULL;
}

// The k-th alternative of a body, up to the next bar.
static const char *alternative(const char *body, uint32_t k, size_t *n) {
  while (k--) body = strchr(body, '|') + 1;
  *n = strcspn(body, "|");
  return body;
}

static void derive(Text *t, const Rule *r, int depth) {
  uint32_t count = 1;
  for (const char *p = r->body; *p; p++) count += *p == '|';
  size_t n;
  const char *p = alternative(r->body, depth > DEPTH ? 0 : below(count), &n), *end = p + n;
  while (p < end) {
    size_t length = strcspn(p, "<|"), name = 0;
    if (p + length > end) length = (size_t)(end - p);
    const Rule *next = NULL;
    if (p + length < end && p[length] == '<') name = strcspn(p + length, ">");
    if (name) next = rule_find(p + length + 1, name - 1);
    put(t, p, next ? length : length + (p + length < end));
    p += next ? length + name + 1 : length + 1;
    if (next) derive(t, next, depth + 1);
  }
}

// -- mutations of whole models ----------------------------------------------------------------------------------------

static Text model[MAX_MODELS];
static uint32_t nmodels;

static void models_read(void) {
  static const char *const where[] = {"examples/*.mesh", "tests/models/*.mesh"};
  for (size_t i = 0; i < countof(where); i++) {
    glob_t g;
    if (glob(where[i], 0, NULL, &g) != 0) continue;
    for (size_t k = 0; k < g.gl_pathc && nmodels < MAX_MODELS; k++) {
      FILE *f = fopen(g.gl_pathv[k], "rb");
      if (!f) continue;
      Text *t = &model[nmodels++];
      t->n = fread(t->at, 1, TEXT - 1, f);
      fclose(f);
    }
    globfree(&g);
  }
}

// Length of the token at p: a word or number, or one mark.
static size_t token_length(const char *p) {
  size_t n = 0;
  while (isalnum((unsigned char)p[n]) || p[n] == '_' || p[n] == '.') n++;
  return n ? n : *p ? 1 : 0;
}

static const char *token_at_random(const Text *t) {
  const char *p = t->at + below((uint32_t)t->n);
  while (p > t->at && isalnum((unsigned char)p[-1])) p--;
  return p;
}

static void mutate(Text *t) {
  static Text out;
  out.n = 0;
  const char *cut = token_at_random(t), *other = token_at_random(below(2) ? t : &model[below(nmodels)]);
  size_t length = token_length(cut), more = token_length(other);
  put(&out, t->at, (size_t)(cut - t->at));
  switch (below(5)) {
  case 0: break;                                     // dropped
  case 1: put(&out, cut, length), put(&out, cut, length); break;
  case 2: put(&out, other, more); break;             // exchanged
  case 3: put(&out, cut, length), put(&out, other, more); break;
  case 4: derive(&out, &grammar[below(countof(grammar))], DEPTH - 3); break;
  }
  put(&out, cut + length, (size_t)(t->at + t->n - cut) - length);
  *t = out;
}

static void input_make(uint64_t seed, uint64_t number, Text *t) {
  state = seed * 0x100000001b3u ^ number;
  t->n = 0;
  if (nmodels == 0 || below(3)) derive(t, rule_find("model", 5), 0);
  else *t = model[below(nmodels)];
  if (below(4) == 0)
    for (uint32_t n = 1 + below(4); n && t->n; n--) mutate(t);
}

// -- one input through the compiler ------------------------------------------------------------------------------------

static void passes_run(Arena *a, const Model *m, Diag *d) {
  Machine machine = machine_default();
  PipelineOptions opt = {.machine = &machine, .codegen = {.fuse = true, .products = below(2) != 0}};
  Compilation c;
  Fetch everything = {.training = below(2) != 0};
  Graph *g = m->graph->spec.ntrain && below(2) ? select_train(a, m, NULL) : select_run(a, m, &everything);
  if (g && !pipeline_run(a, g, &opt, "program", d, &c)) BUG("a selected graph is refused");
}

// True when the model was accepted.
static bool input_try(const Text *t) {
  Arena *a = arena_new();
  Intern *names = intern_new(a);
  Diag *d = diag_new(a);
  uint32_t source = diag_source(d, "fuzz.mesh", t->at, t->n);
  Ast *ast = ast_parse(a, names, d, source, t->at, t->n);
  ModelOptions opt = {.path = "fuzz.mesh"};
  Model *m = model_build(a, names, d, ast, &opt);
  bool good = m != NULL;
  if (m && layout_check(m->graph, &m->layout, d)) passes_run(a, m, d);
  arena_free(a);
  return good;
}

// -- children ------------------------------------------------------------------------------------------------------------

typedef struct Shared {
  uint64_t number, accepted; // input under work
} Shared;

static void child_run(Shared *s, uint64_t seed, uint64_t end) {
  static Text t;
  for (; s->number < end; s->number++) {
    input_make(seed, s->number, &t);
    alarm(SECONDS);
    s->accepted += input_try(&t);
  }
  _exit(0);
}

static void show(uint64_t seed, uint64_t number) {
  static Text t;
  input_make(seed, number, &t);
  printf("---\n%s---\n", t.at);
}

static uint64_t option(int argc, char **argv, const char *name, uint64_t otherwise) {
  size_t n = strlen(name);
  for (int i = 1; i < argc; i++)
    if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=') return strtoull(argv[i] + n + 1, NULL, 10);
  return otherwise;
}

int main(int argc, char **argv) {
  uint64_t count = option(argc, argv, "count", COUNT), seed = option(argc, argv, "seed", 1), failed = 0;
  models_read();
  Shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (s == MAP_FAILED) return perror("mmap"), 1;
  for (s->number = option(argc, argv, "first", 0); s->number < count; s->number++) {
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) return perror("fork"), 1;
    if (child == 0) child_run(s, seed, count);
    int status;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    failed++;
    const char *how = WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit";
    printf("FAIL input %llu of seed %llu: %s\n", (unsigned long long)s->number, (unsigned long long)seed, how);
    if (getenv("SHOW")) show(seed, s->number);
  }
  printf("accepted: %llu\n", (unsigned long long)s->accepted);
  printf("%llu passed, %llu failed, 0 skipped\n", (unsigned long long)(count - failed), (unsigned long long)failed);
  return failed != 0;
}

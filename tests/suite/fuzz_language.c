// A fuzzer that knows the grammar of model files. Inputs are random texts derived from the grammar,
// and the models of this repository with tokens dropped, doubled, swapped and mixed. Each goes
// through the parser, the builder and every pass up to the program. An input may be refused; it
// must not crash, hang or break an invariant.
//
//   suite_fuzz_language [count=N] [seed=S]     input i of seed S is always the same; SHOW=1 prints
//                                              inputs that fail
//
#include <stdio.h>
#include <string.h>

#include "frontend/frontend.h"
#include "tests/suite/common/fuzz.h"

enum { COUNT = 10000, DEPTH = 9 };

// -- the grammar --------------------------------------------------------------------------------
//
// <name> is a rule, everything else is literal text. `|` separates alternatives. The first
// alternative of a rule ends a derivation that has become too deep.

typedef struct Rule {
  const char *name, *body;
} Rule;
static const Rule grammar[] = {
    {"model", "<dims><inputs><params><lines><end>|<dims><inputs><params><lines><data><end>|<dims><"
              "inputs><params><lines><trains>|import \"blocks.mesh\"\n<dims><inputs><lines>"},
    {"dims",
     "dim a = 2, b = 3, c = 4, d = a * b, e = 5, t = 6, s = t, k = 3, o = 4\n|dim a = <int>, b = "
     "<int>, c = <int>, d = a * b, e = <int>, t = <int>, s = t, k = 2, o = t - 1\n"},
    {"inputs",
     "input x[a, b]\ninput y[b, c]\ninput z[a, t]\ninput ids[a, t]: i32\ninput n[a]: i32\n|input "
     "x[a, b]: <type>\ninput y[b, c]: <type>\ninput z[t]\ninput ids[t]: i32\ninput n: i32\n"},
    {"params",
     "param w[b, c] ~ <draw>\nparam v[c] = <number>\nparam u[b, e]\nstate m[c] = 0\n|param w[b, "
     "c]: <type> ~ <draw>\nparam v[c] = 1, trainable = false\nparam u[b, e] = "
     "file(\"u.npy\")\nstate m[b] ~ <draw>\n|param w[b, c] = file(\"w.safetensors\", \"w.{g}\"), "
     "trainable = false\nparam v[c] = values[c](0)\nparam u[b, e]\nstate m: <type> = 2\n|param "
     "w[b, c] ~ <draw>\nparam v[c]\nparam u[e, b] = index[b] * 0.1\nstate m[c]: <type> = 1\n"},
    {"draw", "normal(std = 0.1)|normal()|glorot(b -> c)|glorot(b, c)|he(b)|uniform(-1, "
             "1)|orthogonal(b -> c)|truncated_normal(0, 1)|lecun(b)|<call>"},
    {"int", "2|3|4|5|6|8|1|12|0|a + 1|2 * 3"},
    {"number", "1|0|2|0.5|-1|1e-3|inf|3.25|1_000|-0.0|1e30"},
    {"type", "f32|i32|f64|bf16|f16|u8|bool"},
    {"dim", "a|b|c|d|e|t|s|k|o"},
    {"lines", "<line>|<line><line>|<line><line><line>|<line><lines>|<line><line><lines>"},
    {"line",
     "<left> = <expr>\n|<left> = <expr>\n|<left> = <expr>\n|<name>[<dimlist>] = "
     "<expr>\n|update m = <expr>\n|metric q = <expr>\n|output r = "
     "<expr>\n|<function>|<loop>|<branch>|<scan>|param g[<dimlist>] ~ <draw>\n|state h[<dim>] = "
     "<number>\n|dim l = <int>\n|yield <name> as ys\n|<left> = <expr>; <name> = "
     "<expr>\n|<name>, <name> = <expr>\n|const g = <number>, l = \"w\"\n|const g = <truth>\n"},
    {"left", "<name>"},
    {"name", "x|y|p|q|r|f|h|w|v|g"},
    {"dimlist", "<dim>|<dim>, <dim>|<dim>, <dim>, <dim>|all but <dim>"},
    {"function",
     "fn f(x) = <expr>\n|fn f[i, o](x, j = <number>) {\n  param kernel[i, o] ~ glorot(i, o)\n  "
     "<line>  return <expr>\n}\n|fn h(x, y) {\n  <lines>  return <expr>, <expr>\n}\n|fn "
     "f(x, g = relu, on = true) {\n  if on { return g(<expr>) }\n  <line>  return <expr>\n}\n"},
    {"loop", "for i in 0..3 {\n  param w[b, c] ~ <draw>\n  <lines>}\n|for i in 0..k - 1 "
             "(checkpoint = true, name = \"a\") {\n  <lines>  yield <name> as ps[k]\n}\n|for i in "
             "0..3 {\n  <lines>}\n|for i in <int>..<int> (name = \"deep\") {\n  <lines>}\n|for i "
             "in 0..3 (checkpoint = true) {\n  p = <expr>\n  yield p as ps[b]\n}\n"},
    {"branch",
     "if <truth> {\n  <lines>}\n|if <truth> {\n  <line>} else {\n  <line>}\n|if <truth> "
     "{ p = <expr> } else if <truth> { p = <expr> } else { q = <expr> }\n|for n in (64, "
     "2, <number>) {\n  <line>}\n|for n, l in ((b, 1), (c, <int>)) {\n  p = "
     "sum[n](<expr>)\n  <lines>}\n|for f in (relu, tanh, <dim>) {\n  p = f(<expr>)\n}\n|for "
     "i in (true, \"w\", <expr>) (name = \"deep\") {\n  if i == \"w\" { <name> = <expr> "
     "}\n}\n"},
    {"truth", "true|<number> < <int>|size(<dim>) == <int> and <truth>|not <truth>|\"a\" == "
              "\"b\"|<expr>|g"},
    {"scan",
     "scan t (p = z, checkpoint = true) {\n  p = tanh(p + dropout(<expr>))\n  yield p as "
     "ps\n  yield z * p as qs\n}\n|scan <dim> (p[<dimlist>] = <expr>, q = p, checkpoint = "
     "false) {\n  <scan>  <lines>}\n|scan t (p[a] = 0) {\n  p = p + <expr>\n  yield p as "
     "ps\n}\n|scan reverse t (p = x, q[b] = <number>) {\n  <lines>  yield q as qs\n}\n|scan t (p = "
     "x, i = 0) "
     "while i < 3 and max(p) > 0 {\n  p = p * <expr>\n  i = i + 1\n  yield p as ps\n}\n|scan "
     "<dim> (p[<dimlist>] = <number>) while <expr> {\n  <lines>}\n"},
    {"expr", "<value>|<value>|<expr> <op> <expr>|<expr> <op> "
             "<expr>|<call>|<call>|<call>|-<expr>|(<expr>)|<expr> ^ 2|not "
             "<expr>|<reduce>|<reduce>|<shape>|<shape>"},
    {"value", "x|y|z|w|v|u|m|ids|n|p|q|r|g|<number>|index[<dim>]|size(<dim>)|training|step|values["
              "k](1, 2, 3)|i|f.kernel"},
    {"op", "+|-|*|*|/|%|==|<|<=|and|or|^"},
    {"unary",
     "exp|log|sqrt|relu|tanh|sigmoid|abs|sign|floor|round|sin|gelu|silu|softplus|erf|square|"
     "reciprocal|elu|stop_gradient|checkpoint|layout|log1p|ceil|trunc|cos|expm1|gelu_tanh|rsqrt"},
    {"call",
     "<unary>(<expr>)|<unary>(<expr>)|maximum(<expr>, <expr>)|where(<expr>, <expr>, "
     "<expr>)|clip(<expr>, <number>, <number>)|cast(<expr>, <type>)|f(<expr>)|f[b, "
     "c](<expr>)|h(<expr>, <expr>)|f(<expr>, tanh)|f(<expr>, f, "
     "false)|f[<dim>, <dim>](<expr>, name = \"in\")|gradient(<expr>, "
     "<value>)|dropout(<expr>, rate = 0.5)|random_normal[<dimlist>](std = "
     "1)|random_uniform[<dimlist>](0, "
     "1)|bernoulli[<dimlist>](0.5)|square_sum(\"*\")|leaky_relu(<expr>, slope = "
     "<number>)|pow(<expr>, <expr>)|layout(<expr>, <dim> -> rows)|layout(<expr>, <dim> -> (rows, "
     "cols), <dim> -> cols)|minimum(<expr>, <expr>)|floor_div(<expr>, <expr>)|elu(<expr>, alpha = "
     "0.5)|grad(<expr>, w)|gradient(mean(<expr>), <value>)|dropout[<dimlist>](<expr>, rate = "
     "<number>)|bernoulli[<dimlist>](<expr>)|f(<expr>, share = "
     "\"f\")|checkpoint(<expr>)|cond(<expr>, <expr>, <expr>)|cond(any(x > 0), "
     "<expr>, <expr>)|cond(training, <call>, <value>)"},
    {"reduce",
     "sum(<expr>)|sum[<dim>](<expr> * <expr>)|sum[<dimlist>](<expr> * "
     "<expr>)|mean[<dimlist>](<expr>)|max[<dimlist>](<expr>)|min(<expr>)|prod[<dim>](<expr>)|"
     "logsumexp[<dim>](<expr>)|variance[<dim>](<expr>)|l2_norm[<dim>](<expr>)|argmax[<dim>](<expr>)"
     "|argmin[<dim>](<expr>)|std[<dimlist>](<expr>)|isnan(<expr>)|isfinite(<expr>)|argmax[<dim>, "
     "<dim>](<expr>)|"
     "all[<dim>](<expr>)|variance(<expr>)|batch_norm[<dimlist>](<expr>, momentum = 0.5, eps = "
     "1e-3, name = \"n\")|layer_norm[<dim>](<expr>, eps = "
     "<number>)|any[<dim>](<expr>)|softmax[<dim>](<expr>)|log_softmax[<dim>](<expr>)|layer_norm[<"
     "dimlist>](<expr>)|batch_norm[<dim>](<expr>)|batch_norm[<dim>](<expr>, mean = <number>, "
     "variance = file(\"u.npy\"))|rms_norm[<dim>](<expr>)|cross_entropy[<dim>](<"
     "expr>, <expr>)|cross_entropy[<dim>](<expr>, n, label_smoothing = 0.1, z_loss = 1e-4, ignore "
     "= -1)|sigmoid_cross_entropy(<expr>, <expr>)|l2_normalize[<dim>](<expr>)"},
    {"shape",
     "rename[<dim> -> <dim>](<expr>)|split[d -> a, b](<expr>)|merge[a, b -> d](<expr>)|slice[<dim> "
     "-> <dim>](<expr>, start = <int>)|slice[t -> o](<expr>, start = n)|pad[<dim> -> "
     "<dim>](<expr>, before = 1)|concat[<dim>, <dim> -> <dim>](<expr>, <expr>)|stack[-> a](<expr>, "
     "<expr>)|select[<dim>](<expr>, <expr>)|put[<dim>](<expr>, <int>, "
     "<expr>)|reverse[<dim>](<expr>)|roll[<dim>](<expr>, by = "
     "<int>)|median[<dim>](<expr>)|cumprod[<dim>](<expr>)|isinf(<expr>)|bit_or(ids, <int>)|"
     "bit_xor(<expr>, <int>)|shift_right(ids, <expr>)|scatter_max[<dim> -> <dim>](<expr>, ids)|"
     "scatter_set[-> <dim>](<expr>, ids, into = <expr>)|scatter_min[-> <dim>](<expr>, ids, "
     "<expr>)|bit_and(<expr>, ids)|"
     "shift_left(ids, <int>)|bit_not(<expr>)|"
     "shuffle[<dim>](<expr>)|categorical[<dim> -> <dim>](<expr>)|categorical[<dim>](<expr>)|"
     "cholesky[<dim>, <dim>](<expr>)|triangular_solve[<dim>, <dim>](<expr>, <expr>)|"
     "solve[<dim>, <dim>](<expr>, <expr>)|inverse[<dim>, <dim>](<expr>)|"
     "determinant[<dim>, <dim>](<expr>)|logdet[<dim>, <dim>](<expr>)|qr[<dim>, <dim> -> "
     "<dim>](<expr>)|eigh[<dim>, <dim> -> <dim>](<expr>)|svd[<dim>, <dim> -> <dim>](<expr>)|"
     "fft[<dim>, <dim> -> <dim>](<expr>)|ifft[<dim>, <dim> -> <dim>](<expr>)|rfft[<dim> -> <dim>, "
     "<dim>](<expr>)|irfft[<dim>, <dim> -> <dim>](<expr>)|"
     "slice[t -> o](<expr>, start = ids)|select[<dim>](<expr>, ids)|put[<dim>](<expr>, ids, "
     "<expr>)|shift[<dim>](<expr>, by = <int>)|window[<dim> -> <dim>, "
     "k](<expr>, pad = same)|window[t -> o, k](<expr>, stride = <int>, dilation = <int>, pad = (1, "
     "1))|max[k](window[t -> t, k](<expr>, pad = same))|fold[t, k -> "
     "o](<expr>)|take[<dim>](<expr>, ids)|one_hot[<dim>](<expr>)|scatter_add[<dim> -> "
     "<dim>](<expr>, <expr>)|cumsum[<dim>](<expr>)|cumsum[<dim>](<expr>, exclusive = true, reverse "
     "= true)|argsort[<dim>](<expr>, descending = true)|sort[<dim>](<expr>, descending = "
     "true)|top_k[<dim> -> <dim>](<expr>)|slice[t -> <dim>](<expr>, start = <int>, step = "
     "-1)|pad[<dim> -> t](<expr>, before = <int>, value = <expr>)|shift[<dim>](<expr>, by = -1, "
     "fill = <number>)|concat[<dim>, <dim>, <dim> -> <dim>](<expr>, <expr>, <expr>)|stack[-> "
     "<dim>](<expr>, <expr>, <expr>)|put[t](<expr>, n, <expr>)|select[t](<expr>, n)|scatter_add[-> "
     "<dim>](<expr>, ids)|take[<dim>](<expr>, <expr>)|fold[t, k -> t](<expr>, stride = <int>, "
     "dilation = <int>, pad = same)|window[t -> <dim>, k](<expr>, stride = 2, pad = causal, value "
     "= <number>)|window[t -> o, k](<expr>, pad = (<int>, 0))|rename[<dim> -> <dim>, <dim> -> "
     "<dim>](<expr>)|split[<dim> -> <dim>, <dim>](<expr>)|merge[<dimlist> -> "
     "<dim>](<expr>)|cummax[<dim>](<expr>)|sort[<dim>](<expr>)|argsort[<dim>](<expr>)|top_k[<dim> "
     "-> k](<expr>)"},
    {"end", "loss = <reduce>\n<train><mesh>|loss = mean(square(<expr>))\n<train><mesh>"},
    {"data", "data train over a { <fields> }\n|data train over a { <fields>, shuffle = true, seed "
             "= <int> }\ndata test over a { <fields> }\n|data valid over <dim> {\n  <fields>\n  "
             "shuffle = false\n}\ndata train over a { <fields> }\n"},
    {"fields", "x = <source>|x = <source>, y = <source>, z = <source>|x = <source>, ids = "
               "<source>, n = <source>|ids = synthetic(integers(0, 3))"},
    {"source",
     "synthetic(normal)|csv(\"f.csv\", columns = 0..4)|csv(\"f.csv\", column = 4, header = "
     "auto)|csv(\"f.csv\", column = \"a\", rows = 0..<int>)|npy(\"f.npy\")|npz(\"f.npz\", "
     "\"k\")|safetensors(\"f\", \"k\")|idx(\"f.gz\", scale = 1/255)|cifar10(\"f_*.bin\", "
     "\"images\", scale = 2)|cifar10(\"f.bin\", \"labels\")|tokens(\"f.bin\", dtype = u16, skip = "
     "<int>, offset = 1)|tokens(\"f.bin\", dtype = u32)|text(\"f.txt\", offset = "
     "<int>)|synthetic(uniform)|synthetic(integers(0, 3))"},
    {"train",
     "train loss { optimizer = <optimizer>, steps = 2 }\n||train loss {\n<keys>}\n|train loss { "
     "<key>, <key>, <key> }\n|train loss { optimizer = <optimizer>, <key>, steps = 1 }\n"},
    {"trains", "loss = mean(square(<expr>))\nother = <reduce>\ntrain loss { parameters = \"w*\", "
               "<key> }\ntrain other { optimizer = <optimizer>, repeat = <int>, <key> "
               "}\n<mesh>|<data>train <reduce> { <key>, steps = 2 }\n<mesh>"},
    {"keys", "  <key>\n|  <key>\n  <key>\n|  <key>\n<keys>"},
    {"key",
     "steps = <int>|optimizer = <optimizer>|schedule = <schedule>|epochs = <int>|evaluate = "
     "<int>|log = <int>|checkpoint = <int>|clip_norm = <number>|clip_value = <number>|frozen = "
     "\"w,f.*\"|precision = <type>|accumulate = <int>|stop_early = q(patience = 2, best = "
     "min)|average = 0.9|groups = (\"w\": <optimizer>, \"f.*\": <optimizer>)|parameters = "
     "\"*\"|repeat = <int>|on_nonfinite = skip|on_nonfinite = stop|sync = every(<int>, "
     "replicas = <int>)|sync = stale(<int>, replicas = <int>)"},
    {"schedule",
     "constant(warmup = <int>)|cosine(total = 10)|linear(total = 10, final = 0.1, "
     "warmup = <int>)|inverse_sqrt(scale = 4, warmup = 2)|exponential(rate = 0.9, "
     "every = <int>)|step(every = epochs(<int>), factor = 0.5)|piecewise(10: 1, 50: "
     "0.1)|cosine(total = <number>, final = 0.1, warmup = <int>)|one_cycle(total = "
     "<int>, rise = <number>)|cosine_restarts(every = <int>, grow = <number>)|wsd(total "
     "= 20, decay = <int>, warmup = 3)|plateau(patience = <int>)|plateau(q, best = "
     "max)"},
    {"optimizer",
     "sgd(lr = 0.1)|adam(lr = 1e-3)|adamw(lr = 0.1, weight_decay = 0.1)|rmsprop(lr = "
     "0.1)|adagrad(lr = 0.1)|lion(lr = 0.1)|adafactor(lr = 0.1)|sgd(lr = <number>, "
     "momentum = 0.9, nesterov = true, weight_decay = <number>)|adamw(lr = 0.1, beta1 "
     "= 0.9, beta2 = 0.99, eps = 1e-6, no_decay = \"*\")|rmsprop(lr = 0.1, rho = 0.9, "
     "momentum = 0.5, decay = 0.1)|lion(lr = 0.1, weight_decay = 0.1)|lamb()|adadelta("
     "weight_decay = 0.1)|nadam()|radam(beta2 = <number>)|muon()|muon(out = \"<dim>\", "
     "each = \"<dim>, <dim>\")"},
    {"mesh",
     "|mesh rows = 2, cols = 2\nlayout <rule>\n|mesh rows = 3\nlayout <rule>\n|mesh rows = 2, cols "
     "= 2\nlayout <rule>, <rule>\n|mesh rows = 2\nlayout optimizer: all -> rows\nlayout soft <dim> "
     "-> rows\n|mesh rows = 2, cols = <int>, deep = 2\nlayout parameters: all -> rows\nlayout "
     "gradients: all -> cols\nlayout <tensor>: <rule>\n|mesh rows = 4\nlayout <rule>\nlayout "
     "<tensor>: <dim> -> none\nlayout soft <tensor>: <dim> -> rows\n"},
    {"tensor", "w|x|f.kernel|f*.kernel|p|deep.*.w|scan"},
    {"rule", "<dim> -> rows|<dim> -> cols|<dim> -> (rows, cols)|<dim> -> (cols, rows), <dim> -> "
             "deep|all -> rows"},
};

static const Rule *rule_find(const char *name, size_t n) {
  for (size_t i = 0; i < countof(grammar); i++)
    if (strlen(grammar[i].name) == n && memcmp(grammar[i].name, name, n) == 0) return &grammar[i];
  return NULL;
}

// Returns the k-th alternative of a body, which ends at the next bar; *n gets its length.
static const char *alternative(const char *body, uint32_t k, size_t *n) {
  while (k--) body = strchr(body, '|') + 1;
  *n = strcspn(body, "|");
  return body;
}

static void derive(FuzzText *t, const Rule *r, int depth) {
  uint32_t count = 1;
  for (const char *p = r->body; *p; p++) count += *p == '|';
  size_t n;
  const char *p = alternative(r->body, depth > DEPTH ? 0 : fuzz_below(count), &n), *end = p + n;
  while (p < end) {
    size_t length = strcspn(p, "<|"), name = 0;
    if (p + length > end) length = (size_t)(end - p);
    const Rule *next = NULL;
    if (p + length < end && p[length] == '<') name = strcspn(p + length, ">");
    if (name) next = rule_find(p + length + 1, name - 1);
    fuzz_put(t, p, next ? length : length + (p + length < end));
    p += next ? length + name + 1 : length + 1;
    if (next) derive(t, next, depth + 1);
  }
}

// Returns true if the grammar contains the word. Every built-in and every keyword that starts a
// statement must occur in it, and every rule that it names must exist.
static bool grammar_has(const char *word) {
  size_t n = strlen(word);
  for (size_t i = 0; i < countof(grammar); i++)
    for (const char *p = grammar[i].body; (p = strstr(p, word)) != NULL; p++)
      if ((p == grammar[i].body || fuzz_token(p - 1) == 1) && fuzz_token(p) == n) return true;
  return false;
}

static const char *grammar_fault(void) {
  static const char *const words[] = {
#define BUILTIN(name, ...) #name,
#include "frontend/model/builtin.def"
#undef BUILTIN
#define KEYWORD(text, parse) text,
#include "frontend/syntax/token.def"
#undef KEYWORD
  };
  static char why[100];
  for (size_t i = 0; i < countof(words); i++)
    if (!grammar_has(words[i]))
      return snprintf(why, sizeof why, "its grammar has no %s", words[i]), why;
  return NULL;
}

// -- inputs -------------------------------------------------------------------------------------

static void mutate(FuzzText *t, const FuzzText *model, uint32_t nmodels) {
  if (fuzz_below(5)) {
    fuzz_tokens(t, &model[fuzz_below(nmodels)]);
    return;
  }
  static FuzzText out;
  const char *cut = fuzz_somewhere(t);
  size_t length = fuzz_token(cut);
  out.n = 0;
  fuzz_put(&out, t->at, (size_t)(cut - t->at));
  derive(&out, &grammar[fuzz_below(countof(grammar))], DEPTH - 3);
  fuzz_put(&out, cut + length, (size_t)(t->at + t->n - cut) - length);
  *t = out;
}

static void input_make(FuzzText *t) {
  const FuzzText *model;
  uint32_t n = fuzz_models(&model);
  if (n == 0 || fuzz_below(3))
    derive(t, rule_find("model", 5), 0);
  else
    *t = model[fuzz_below(n)];
  if (n && fuzz_below(4) == 0)
    for (uint32_t k = 1 + fuzz_below(4); k && t->n; k--) mutate(t, model, n);
}

// -- one input through the compiler -------------------------------------------------------------

static void passes_run(Arena *a, const Model *m, Diag *d) {
  Machine machine = machine_default();
  PipelineOptions opt = {.machine = &machine,
                         .codegen = {.fuse = true, .products = fuzz_below(2) ? ALL_TYPES : 0}};
  Compilation c;
  Fetch everything = {.training = fuzz_below(2) != 0};
  Graph *g = m->graph->spec.ntrain && fuzz_below(2) ? select_train(a, m, NULL)
                                                    : select_run(a, m, &everything);
  if (g && !pipeline_run(a, g, &opt, "program", d, &c)) BUG("a selected graph is refused");
}

// Compiles one input. Returns true if the model was accepted.
static bool input_try(const FuzzText *t, uint64_t number) {
  (void)number;
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

int main(int argc, char **argv) {
  static const Fuzzer fuzzer = {
      .count = COUNT, .fault = grammar_fault, .make = input_make, .run = input_try};
  return fuzz_run(argc, argv, &fuzzer);
}

// Compares the decoding form of language models (frontend/step/decode.h) with their training form:
// the logits of every position, for random ids, on several meshes and layouts. The ids of a text
// are run in pieces: one position at a time, and many at once with a last run that is not full. A
// second text goes over what the first one has left in the states.
//
//   decode [TEXT]    only models whose name contains TEXT
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/generation.h"
#include "tests/suite/common/code.h"

enum { ROWS = 3, MOST_LAYOUTS = 5, MOST_WORDS = 24 };
static int passed, failed;

typedef struct LanguageCase {
  const char *name;
  const char *text;                 // NULL: the file
  const char *path, *sets;          // the file, and --set for it with spaces between
  const char *layout[MOST_LAYOUTS]; // "MESH LAYOUT", after one processor
  double bound;                     // most difference of logits, relative to the largest one
} LanguageCase;

#define HEAD                                                                                       \
  "dim b = 2, t = 32, s = t, vocab = 29, d = 16, heads = 2, k = 8\n"                               \
  "input ids[b, t]: i32\ninput next[b, t]: i32\n"                                                  \
  "param table[vocab, d] ~ normal(std = 1)\nx = take[vocab](table, ids)\n"
#define TAIL                                                                                       \
  "param head[d, vocab] ~ normal(std = 0.5)\nlogits[b, t, vocab] = sum[d](y * head)\n"             \
  "loss = mean[b, t](cross_entropy[vocab](logits, next))\n"
#define QKV                                                                                        \
  "param wq[d, heads, k] ~ normal(std = 0.3)\nparam wk[d, heads, k] ~ normal(std = 0.3)\n"         \
  "param wv[d, heads, k] ~ normal(std = 0.3)\nparam wo[heads, k, d] ~ normal(std = 0.3)\n"         \
  "q = sum[d](x * wq)\nkeys = rename[t -> s](sum[d](x * wk))\n"                                    \
  "v = rename[t -> s](sum[d](x * wv))\nscore = sum[k](q * keys) / 3\n"
#define MIX "y = x + sum[heads, k](sum[s](p * v) * wo)\n"

#define SLOTS                                                                                      \
  "dim e = 3, cap = 5, f = 12\nparam router[d, e] ~ normal(std = 1)\n"                             \
  "param wi[e, d, f] ~ normal(std = 0.3)\nparam wm[e, f, d] ~ normal(std = 0.3)\n"                 \
  "param bias[e, f] ~ normal(std = 0.3)\ngates = softmax[e](sum[d](x * router))\n"                 \
  "hot = one_hot[e](argmax[e](gates))\n"
#define FILL                                                                                       \
  "back = sum[f](relu(sum[d](sum[t](to * x) * wi) + bias) * wm)\n"                                 \
  "y = x + sum[e, cap](to * back) * sum[e](gates * hot)\n" TAIL

static const LanguageCase cases[] = {
    {"gpt",
     NULL,
     "examples/gpt.mesh",
     "depth=2",
     {"rows=2 b=rows", "cols=4 heads=cols,ff=cols,vocab=cols",
      "rows=2,cols=2 b=rows,heads=cols,ff=cols,vocab=cols,soft/t=cols", "cols=2 s=cols"},
     2e-5},
    {"llama",
     NULL,
     "examples/llama.mesh",
     "",
     {"rows=2,cols=2 b=rows,groups=cols,ff=cols,vocab=cols", "cols=3 d=cols", "cols=2 t=cols"},
     2e-5},
    {"lstm",
     NULL,
     "examples/lstm.mesh",
     "",
     {"rows=2 b=rows", "rows=2,cols=2 b=rows,k=cols", "cols=3 vocab=cols"},
     2e-5},
    {"char LM", NULL, "bench/models/charlm.mesh", "depth=2", {"cols=2 heads=cols,ff=cols"}, 2e-5},
    {"low mask",
     HEAD QKV "ok[t, s] = index[s] <= index[t]\np = softmax[s](where(ok, score, -1e9))\n" MIX TAIL,
     NULL,
     NULL,
     {"rows=2 heads=rows"},
     2e-5},
    {"added mask",
     HEAD QKV
     "bias[t, s] = where(index[s] <= index[t], 0.0, -inf)\np = softmax[s](score + bias)\n" MIX TAIL,
     NULL,
     NULL,
     {"rows=2 b=rows"},
     2e-5},
    {"low added mask",
     HEAD QKV "hidden[t, s] = cast(index[s] > index[t], f32)\n"
              "p = softmax[s](score - hidden * 1e9)\n" MIX TAIL,
     NULL,
     NULL,
     {"rows=2 heads=rows"},
     2e-5},
    {"low mask, divided",
     HEAD QKV "ok[t, s] = index[s] <= index[t]\n"
              "p = softmax[s](where(ok, score, -1e9) / sqrt(size(k)))\n" MIX TAIL,
     NULL,
     NULL,
     {"rows=2 b=rows"},
     2e-5},
    {"sums of keys",
     HEAD "all = cumsum[s](rename[t -> s](x))\nok[t, s] = index[s] <= index[t]\n"
          "y = x + sum[s](where(ok, sum[d](x * all), 0.0) * all) / 1000\n" TAIL,
     NULL,
     NULL,
     {"rows=2 b=rows"},
     2e-5},
    {"layers in time",
     HEAD "dim layers = 3\nparam w[layers, d] ~ normal(std = 0.5)\n"
          "scan t (h[b, d] = 0) {\n  scan layers (g[b, d] = h) { g = tanh(g * w + x) }\n"
          "  h = g\n  yield h as y\n}\n" TAIL,
     NULL,
     NULL,
     {"rows=2 b=rows"},
     2e-5},
    {"product mask",
     HEAD QKV "mask[t, s] = cast(index[s] <= index[t], f32)\n"
              "e = exp(score) * mask\np = e / sum[s](e)\n" MIX TAIL,
     NULL,
     NULL,
     {"rows=2 s=rows"},
     2e-5},
    {"window",
     HEAD QKV "near[t, s] = index[s] <= index[t] and index[s] > index[t] - 6\n"
              "p = softmax[s](where(near, score, -inf))\n" MIX TAIL,
     NULL,
     NULL,
     {"rows=2 heads=rows"},
     2e-5},
    {"alibi",
     HEAD QKV "dist[t, s] = cast(index[t] - index[s], f32)\n"
              "slope[heads] = 2.0 ^ (-4.0 * cast(index[heads] + 1, f32))\n"
              "far[t, s, heads] = slope * dist\nok[t, s] = index[s] <= index[t]\n"
              "p = softmax[s](where(ok, score - far, -inf))\n" MIX TAIL,
     NULL,
     NULL,
     {"rows=2 heads=rows"},
     2e-5},
    {"counted mask",
     HEAD QKV "e = where(index[s] <= index[t], exp(score), 0.25)\n"
              "p = where(index[s] <= index[t], e, 0.0) / sum[s](e)\n" MIX TAIL,
     NULL,
     NULL,
     {"rows=2 s=rows"},
     2e-5},
    {"inexact indices", // from position 15 on all are equal in u8
     HEAD QKV
     "near[t, s] = cast(index[s] + 240, u8) <= cast(index[t] + 240, u8)\n"
     "one[b, t] = where(ids >= 0, 1.0, 0.0)\n"
     "p = where(index[s] <= index[t], exp(score), 0.0) / sum[s](where(near, one, 0.0))\n" MIX TAIL,
     NULL,
     NULL,
     {"rows=2 b=rows"},
     2e-5},
    {"largest of all",
     HEAD QKV "e = where(index[s] <= index[t], score, 0.5)\nmost = max[s](e)\n"
              "p = where(index[s] <= index[t], exp(score - most), 0.0)\n" MIX TAIL,
     NULL,
     NULL,
     {"rows=2 b=rows"},
     2e-5},
    {"relative bias",
     HEAD QKV "dim far = t\nparam rel[far, heads] ~ normal(std = 1)\n"
              "bias[t, s, heads] = take[far](rel, maximum(index[t] - index[s], 0))\n"
              "ok[t, s] = index[s] <= index[t]\n"
              "p = softmax[s](where(ok, score + bias, -inf))\n" MIX TAIL,
     NULL,
     NULL,
     {"rows=2 heads=rows"},
     2e-5},
    {"experts",
     HEAD "dim e = 4, two = 2, f = 8\nparam router[d, e] ~ normal(std = 1)\n"
          "param wi[e, d, f] ~ normal(std = 0.3)\nparam wm[e, f, d] ~ normal(std = 0.3)\n"
          "gates = softmax[e](sum[d](x * router))\nbest, which = top_k[e -> two](gates)\n"
          "g = sum[two](one_hot[e](which) * best) / sum[two](best)\n"
          "y = x + sum[e](sum[f](relu(sum[d](x * wi)) * wm) * g)\n" TAIL,
     NULL,
     NULL,
     {"rows=2,cols=2 b=rows,e=cols"},
     2e-5},
    {"experts with a capacity",
     NULL,
     "examples/moe.mesh",
     "n=32",
     {"rows=2 g=rows,own=rows", "rows=2,cols=2 g=rows,own=rows,f=cols", "cols=2 d=cols"},
     2e-5},
    {"dropped positions",
     HEAD SLOTS "slot = sum[e]((cumsum[t](hot) - 1) * hot)\n"
                "to[b, t, e, cap] = where(slot < 5, hot * one_hot[cap](cast(minimum(slot, 4), "
                "i32)), 0.0)\n" FILL,
     NULL,
     NULL,
     {"rows=2,cols=2 b=rows,e=cols"},
     2e-5},
    {"places of experts",
     HEAD SLOTS "place = cumsum[t](hot, exclusive = true) * hot\n"
                "to[b, t, e, cap] = hot * one_hot[cap](cast(place, i32))\n" FILL,
     NULL,
     NULL,
     {"rows=2 e=rows"},
     2e-5},
    {"gru",
     HEAD "dim h = 12, j = h, gate = 2\nparam wz[d, gate, h] ~ normal(std = 0.3)\n"
          "param uz[j, gate, h] ~ normal(std = 0.3)\nparam wn[d, h] ~ normal(std = 0.3)\n"
          "param un[j, h] ~ normal(std = 0.3)\nparam out[h, d] ~ normal(std = 0.3)\n"
          "scan t (hid[b, h] = 0.25) {\n  z = sigmoid(sum[d](x * wz) + sum[j](rename[h -> j](hid) "
          "* uz))\n"
          "  r = select[gate](z, 0) * hid\n"
          "  n = tanh(sum[d](x * wn) + sum[j](rename[h -> j](r) * un))\n"
          "  u = select[gate](z, 1)\n  hid = u * hid + (1 - u) * n\n  yield hid as hs\n}\n"
          "y = sum[h](hs * out)\n" TAIL,
     NULL,
     NULL,
     {"rows=2,cols=2 b=rows,h=cols"},
     2e-5},
    {"two scans",
     HEAD
     "scan t (a[b, d] = 0, n = 0) {\n  n = n + 1\n  a = 0.9 * a + x\n  yield a / n as m\n}\n"
     "scan t (c[b, d] = 0) {\n  c = 0.5 * c + m * cast(index[t] % 3, f32)\n  yield c as cs\n}\n"
     "y = cs + m\n" TAIL,
     NULL,
     NULL,
     {"rows=2,cols=2 b=rows,d=cols"},
     2e-5},
    {"convolutions",
     HEAD
     "dim tap = 3\nparam w1[d, tap] ~ normal(std = 0.5)\nparam w2[d, tap] ~ normal(std = 0.5)\n"
     "c1 = relu(sum[tap](window[t -> t, tap](x, pad = causal) * w1))\n"
     "c2 = sum[tap](window[t -> t, tap](c1, pad = causal, dilation = 2) * w2)\n"
     "y = c2 + shift[t](x) + 0.5 * shift[t](c1, by = 4)\n" TAIL,
     NULL,
     NULL,
     {"rows=2,cols=2 b=rows,d=cols", "cols=2 t=cols"},
     2e-5},
    {"running",
     HEAD "y = cumsum[t](x) / (index[t] + 1) + cummax[t](x) + cumsum[t](x, exclusive = true) * "
          "0.1 + cumprod[t](1 + 0.1 * x) + cumprod[t](tanh(x), exclusive = true)\n" TAIL,
     NULL,
     NULL,
     {"rows=2,cols=2 b=rows,d=cols"},
     5e-5},
    {"linear attention",
     HEAD "dim e = 6\nparam wq[d, k] ~ normal(std = 0.3)\nparam wk[d, k] ~ normal(std = 0.3)\n"
          "param wv[d, e] ~ normal(std = 0.3)\nparam wo[e, d] ~ normal(std = 0.3)\n"
          "q = exp(sum[d](x * wq))\nkk = exp(sum[d](x * wk))\nv = sum[d](x * wv)\n"
          "kv[b, t, k, e] = kk * v\nmem = cumsum[t](kv)\nnorm = cumsum[t](kk)\n"
          "y = x + sum[e](sum[k](q * mem) / sum[k](q * norm) * wo)\n" TAIL,
     NULL,
     NULL,
     {"rows=2 b=rows"},
     5e-5},
    {"long convolution",
     HEAD "param filter[s, d] ~ normal(std = 0.3)\nlag[t, s] = index[t] - index[s]\n"
          "past = rename[t -> s](x)\nw[t, s, d] = where(lag >= 0, take[s](filter, maximum(lag, "
          "0)), 0.0)\n"
          "y = sum[s](w * past)\n" TAIL,
     NULL,
     NULL,
     {"rows=2 d=rows"},
     2e-5},
    {"flat tokens",
     HEAD QKV "p = softmax[s](where(index[s] <= index[t], score, -inf))\n" MIX
              "dim n = b * t, f = 12\nparam w1[d, f] ~ normal(std = 0.3)\n"
              "param w2[f, d] ~ normal(std = 0.3)\nflat = merge[b, t -> n](y)\n"
              "flat = flat + sum[f](relu(sum[d](rms_norm[d](flat) * w1)) * w2)\n"
              "z = split[n -> b, t](flat)\ny = z + cumsum[t](z) * 0.1\n" TAIL,
     NULL,
     NULL,
     {"rows=2 b=rows", "cols=2 f=cols,heads=cols"},
     2e-5},
    {"time first",
     "dim b = 2, t = 16, vocab = 7, d = 8\ninput ids[t, b]: i32\nparam e[vocab, d] ~ normal(std = "
     "1)\ninput next[t, b]: i32\nscan t (h[b, d] = 0) {\n  h = tanh(0.5 * h + take[vocab](e, "
     "ids))\n  yield h as hs\n}\nlogits[t, b, vocab] = sum[d](hs * e)\n"
     "loss = mean[b, t](cross_entropy[vocab](logits, next))\n"
     "data train over b { ids = synthetic(integers(0, 7)), next = synthetic(integers(0, 7)) }\n"
     "train loss { optimizer = sgd(lr = 0.1), steps = 1 }\n",
     NULL,
     NULL,
     {"rows=2 b=rows"},
     2e-5},
    {"one row",
     "dim t = 16, s = t, vocab = 7, d = 8\ninput ids[t]: i32\nparam e[vocab, d] ~ normal(std = 1)\n"
     "param places[t, d] ~ normal(std = 1)\nx = take[vocab](e, ids) + places\n"
     "ok[t, s] = index[s] <= index[t]\n"
     "p = softmax[s](where(ok, sum[d](x * rename[t -> s](x)), -inf))\n"
     "logits = sum[d](sum[s](p * rename[t -> s](x)) * e)\noutput best[t] = argmax[vocab](logits)\n",
     NULL,
     NULL,
     {"cols=2 d=cols"},
     2e-5},
};

// The cases in which a step of one position reads keys and values where they are.
static const char *const in_place[] = {"gpt", "llama", "char LM"};
// The cases in which a step computes only the positions so far.
static const char *const growing[] = {
    "gpt",        "llama",        "char LM", "low mask", "low added mask", "low mask, divided",
    "added mask", "product mask", "window",  "alibi",    "relative bias",  "flat tokens",
    "one row",    "sums of keys"};

static bool is_among(const char *name, size_t n, const char *const *list) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(name, list[i])) return true;
  return false;
}

// -- sessions ------------------------------------------------------------------------------------

typedef struct Opened {
  Session s;
  Options o;
  char *word[MOST_WORDS];
  int n;
} Opened;

static void add(Opened *x, const char *word) {
  x->word[x->n++] = arena_text(x->s.arena, word, strlen(word));
}

// Loads the model with a mesh and layout "MESH LAYOUT", or with none. Returns false after an error.
static bool open_case(Opened *x, const LanguageCase *c, const char *layout) {
  *x = (Opened){.s = {.inject = {.call = -1}, .text = c->text}};
  Session *s = &x->s;
  s->text_bytes = c->text ? strlen(c->text) : 0;
  s->arena = arena_new();
  s->names = intern_new(s->arena);
  s->diag = diag_new(s->arena);
  add(x, "meshc"), add(x, "generate"), add(x, c->path ? c->path : "text.mesh");
  if (c->sets && *c->sets) add(x, "--set"), add(x, c->sets);
  add(x, suite_opt_option(2));
  if (!suite_fuses(true)) add(x, "--no-fuse");
  if (layout) {
    size_t n = strcspn(layout, " ");
    add(x, "--mesh");
    x->word[x->n++] = arena_text(s->arena, layout, n);
    add(x, "--layout"), add(x, layout + n + 1);
  }
  s->opt = &x->o;
  return options_parse(&x->o, s->arena, s->diag, x->n, x->word) && session_load(s);
}

static void close_case(Opened *x, const LanguageCase *c, const char *layout, const char *what) {
  if (what) {
    failed++;
    printf("FAILED %s (%s): %s\n", c->name, layout ? layout : "one processor", what);
  } else {
    passed++;
  }
  if (what) diag_print(x->s.diag, stdout, false);
  arena_free(x->s.arena);
}

// -- the training form ---------------------------------------------------------------------------

typedef struct Reference {
  int64_t rows, time, vocab;
  int32_t *ids;  // rows x time
  float *logits; // rows x time x vocab
  double most;   // the largest absolute value
} Reference;

static int64_t size_of(const Model *m, DimId d) { return d ? dim_get(m->graph->dims, d)->size : 1; }

// Exchanges the axes of n x m elements of `bytes` bytes.
static void transpose(void *x, int64_t n, int64_t m, size_t bytes) {
  char *old = malloc((size_t)(n * m) * bytes);
  memcpy(old, x, (size_t)(n * m) * bytes);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++)
      memcpy((char *)x + (size_t)(j * n + i) * bytes, old + (size_t)(i * m + j) * bytes, bytes);
  free(old);
}

// Sets the ids to numbers that look random, and computes the logits. Returns what went wrong.
static const char *refer(const LanguageCase *c, uint32_t seed, Reference *out) {
  Opened x;
  LanguageModel lm;
  const char *names[] = {"logits"};
  ProgramRun run = {0};
  const char *wrong = "the training form does not run";
  if (open_case(&x, c, NULL) && language_model_find(x.s.model, NULL, (Pos){0}, &lm)) {
    const Decl *ids = &x.s.model->graph->decl.at[lm.ids - 1];
    Model *m = lm.rows ? model_of_rows(&x.s, dim_get(x.s.model->graph->dims, lm.rows)->name, ROWS)
                       : x.s.model;
    out->rows = lm.rows ? ROWS : 1;
    out->time = size_of(m, lm.time);
    out->vocab = size_of(m, lm.vocab);
    int64_t n = out->rows * out->time;
    out->ids = malloc((size_t)n * sizeof *out->ids);
    out->logits = malloc((size_t)(n * out->vocab) * sizeof *out->logits);
    for (int64_t i = 0; i < n; i++)
      out->ids[i] = (int32_t)((seed = seed * 1664525 + 1013904223) >> 8) % (int32_t)out->vocab;
    run.graph = select_run(x.s.arena, m, &(Fetch){.n = 1, .name = names});
    if (run.graph && program_open(&x.s, "eval", NULL, NULL, &run)) {
      bool time_first = ids->rank == 2 && ids->dims[0] == lm.time;
      if (time_first) transpose(out->ids, out->rows, out->time, sizeof *out->ids);
      exec_write(run.exec, TENSOR_INPUT, ids->name, TYPE_I32, out->ids);
      if (exec_step(run.exec, 0, false) == STEP_OK) wrong = NULL;
      exec_read(run.exec, TENSOR_OUTPUT, "logits", out->logits);
      if (time_first) {
        transpose(out->ids, out->time, out->rows, sizeof *out->ids);
        transpose(out->logits, out->time, out->rows, (size_t)out->vocab * sizeof *out->logits);
      }
    }
    out->most = 0;
    for (int64_t i = 0; !wrong && i < n * out->vocab; i++)
      out->most = fmax(out->most, fabs((double)out->logits[i]));
  }
  program_run_free(&run);
  if (wrong) diag_print(x.s.diag, stdout, false);
  arena_free(x.s.arena);
  return wrong;
}

// -- the decoding form ---------------------------------------------------------------------------

// Compares the logits after position `at` with the reference. Returns what is wrong, or NULL.
static const char *compare(Arena *a, const Decoder *g, const Reference *want, int64_t at,
                           double bound) {
  for (int64_t r = 0; r < want->rows; r++)
    for (int64_t v = 0; v < want->vocab; v++) {
      double x = (double)want->logits[(r * want->time + at) * want->vocab + v];
      double y = dtype_load(g->type,
                            (const char *)g->logits + (r * want->vocab + v) * dtype_bytes(g->type));
      if (!(fabs(x - y) <= bound * want->most))
        return arena_printf(a, "logit %lld of row %lld after position %lld is %g, not %g",
                            (long long)v, (long long)r, (long long)at, y, x);
    }
  return NULL;
}

// Runs a text in pieces of `first`, then `second`, then single positions.
static const char *run_text(Generation *g, const Reference *want, int64_t first, int64_t second,
                            double bound) {
  const char *wrong = NULL;
  decoder_restart(&g->decoder);
  for (int64_t at = 0; at < want->time && !wrong;) {
    int64_t n = at == 0 ? first : at == first ? second : 1;
    if (at + n > want->time) n = want->time - at;
    if (!decoder_run(&g->decoder, n, want->ids + at, want->time)) return "a run failed";
    at += n;
    wrong = compare(g->s->arena, &g->decoder, want, at - 1, bound);
  }
  return wrong;
}

// Returns whether a node of g chooses between a state and new rows, element by element.
static bool copies_state(const Graph *g) {
  for (NodeId id = 1; id <= graph_count(g); id++) {
    const Node *n = graph_node(g, id);
    for (int k = 0; n->op == OP_WHERE && k < n->nargs; k++)
      if (graph_node(g, n->args[k])->op == OP_STATE) return true;
  }
  return false;
}

static const char *run_texts(const LanguageCase *c, Opened *x, Generation *g,
                             const Reference *want) {
  static const int64_t pieces[][2] = {{1, 1}, {11, 1}, {13, 9}};
  GenerationAsk ask = {.rows = want->rows, .together = 11, .total = want->time};
  if (!generation_open(&x->s, &ask, NULL, g)) return "no decoding form";
  const char *wrong = NULL;
  if (is_among(c->name, countof(in_place), in_place) && copies_state(g->plan.step))
    wrong = "a step copies a state";
  if (is_among(c->name, countof(growing), growing) != (g->plan.over != NULL))
    wrong = g->plan.over ? "a step leaves positions out" : "a step computes all positions";
  for (size_t i = 0; i < countof(pieces) && !wrong; i++)
    wrong = run_text(g, want, pieces[i][0], pieces[i][1], c->bound);
  if (!wrong && !exec_check(g->step.exec, x->s.diag)) wrong = "the self-check fails";
  return wrong;
}

static void run_layout(const LanguageCase *c, const char *layout, const Reference *want) {
  Opened x;
  Generation g = {0};
  const char *wrong = "the model does not load";
  if (open_case(&x, c, layout)) wrong = run_texts(c, &x, &g, want);
  generation_free(&g);
  close_case(&x, c, layout, wrong);
}

static void run_case(const LanguageCase *c) {
  Reference want = {0};
  const char *wrong = refer(c, 17, &want);
  if (wrong) {
    failed++;
    printf("FAILED %s: %s\n", c->name, wrong);
  } else {
    run_layout(c, NULL, &want);
    for (int i = 0; i < MOST_LAYOUTS && c->layout[i]; i++) run_layout(c, c->layout[i], &want);
  }
  free(want.ids);
  free(want.logits);
}

int main(int argc, char **argv) {
  for (size_t i = 0; i < countof(cases); i++)
    if ((argc < 2 || strstr(cases[i].name, argv[1])) && suite_takes()) run_case(&cases[i]);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}

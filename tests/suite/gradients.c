// Compares gradients with central differences: of every example, and of every model of tests/models
// that uses only f32 and f64. Each loss that the model trains on is differentiated by every float
// parameter and input, along random directions and by single elements. Differences and gradients
// are evaluated on the graph after the passes, which rounds constants in the same way. The graph as
// selected must agree with it within the bounds.
//
// The evaluator computes in double. Parameters and inputs are multiples of 2^-8 and move by
// multiples of 2^-22, so that every point is exact in its type. A point where differences of two
// step lengths disagree is at a kink of the loss. The test then starts again with other numbers;
// the tolerance is never changed.
//
// A gradient takes the argument of stop_gradient as a constant, and a straight-through estimator is
// no derivative of its loss. So differences are of the loss in which each stop_gradient of the
// model outside loops keeps its value at the point: it is replaced by an input. The one inside a
// softmax shifts the exponents only, which changes no value.
//
//   suite_gradients [NAME]     one model; SHOW=1 prints every direction
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "tests/suite/common/compare.h"

enum { DIRECTIONS = 2, ELEMENTS = 2, MAX_SETTINGS = 24, MAX_FETCH = 256, POINTS = 24 };
static const double GRID = 0x1p-8, UNIT = 0x1p-22;
static int passed, failed;

// An example in a small size. Float inputs are multiplied by `scale`, a power of two. Integers are
// drawn from 0..below-1. The lines of `more` are appended to the model.
typedef struct Small {
  const char *name, *set;
  int below;
  double scale;
  const char *more;
} Small;
static const Small smalls[] = {
    {"cifar", "b=2,y=8,x=4,c1=3,c2=2,h=4,classes=3", 3, 128, ""},
    {"clip", "b=4,features=3,words=3,length=2,h=6,d=3,e=3", 3, 1, ""},
    {"depth", "b=4,y=8,x=4,d=4,h=5,classes=3,blocks=2", 3, 128, ""},
    {"dlrm", "b=4,numbers=3,users=5,items=4,shops=3,d=3,h=4", 2, 1, ""},
    {"gan", "b=4,z=3,h=5", 2, 1, ""},
    {"gpt", "b=2,t=4,heads=2,k=3,ff=5,vocab=6,depth=2", 6, 1, ""},
    {"gpt2", "b=2,t=3,heads=2,k=3,ff=5,vocab=6,places=5,depth=2", 6, 1,
     "loss = mean[b, t](cross_entropy[vocab](logits, ids))\n"},
    {"iris", "b=5,h1=4,h2=3", 3, 1, ""},
    {"llama", "b=2,t=3,vocab=6,depth=2,half=2,k=4,ff=5", 6, 1, ""},
    {"logistic", "b=5", 3, 1, ""},
    {"lstm", "b=2,t=4,vocab=5,d=3,k=4", 5, 1, ""},
    {"minilm", "b=2,t=3,heads=2,k=2,d=4,ff=5,words=6,places=4,depth=2", 6, 1,
     "input probe[b, d]\nloss = sum(embedding * probe)\n"},
    {"mixup", "b=4,y=8,x=4,h=5,classes=3", 3, 128, ""},
    {"mlp", "b=4", 2, 1, ""},
    {"mnist", "b=4,pixels=6,h=5,classes=3", 3, 1, ""},
    {"moe", "g=2,n=5,vocab=6,d=4,f=3,e=3,cap=2,depth=2", 6, 1, ""},
    {"resnet", "b=4,y=8,x=4,c1=2,c2=3,c4=2,classes=3,blocks=1", 3, 128, ""},
    {"tagger", "b=2,t=4,words=5,d=3,k=3", 3, 1, ""},
    {"transformer", "b=2,s=3,heads=2,k=2,ff=5,symbols=5,depth=1", 5, 1, ""},
    {"unet", "b=2,y=4,x=4,c1=2,c2=3,c4=2", 2, 1, ""},
    {"vae", "b=3,y=3,x=2,h=5,z=3", 2, 1, ""},
};

// splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014)
static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
static int64_t below(uint64_t *state, int64_t n) {
  return (int64_t)(next_random(state) % (uint64_t)n);
}

// -- the model ----------------------------------------------------------------------------------

typedef struct Subject {
  Arena *a, *scratch;
  const Small *small;
  Diag *diag;
  Model *model;
  const char *text, *loss;
  // as selected; after the passes; the latter with the loss only and inputs for stop_gradient
  const Graph *chosen, *simple, *alone;
  VEC(NodeId) stopped; // of chosen: the values of the inputs that alone has more than it
  uint32_t nfeeds;     // of chosen
  EvalFeed *feed;
  double **value; // of each feed
  uint64_t random;
} Subject;

static uint32_t read_settings(Subject *s, Intern *names, Setting *out) {
  uint32_t n = 0;
  for (const char *p = s->small->set; *p && n < MAX_SETTINGS; n++) {
    size_t name = strcspn(p, "="), all = strcspn(p, ",");
    const char *value = arena_printf(s->a, "%.*s", (int)(all - name - 1), p + name + 1);
    uint32_t source = diag_source(s->diag, "--set", value, strlen(value));
    out[n] = (Setting){
        .path = arena_printf(s->a, "%.*s", (int)name, p),
        .value = ast_parse_expression(s->a, names, s->diag, source, value, strlen(value))};
    p += all + (p[all] == ',');
  }
  return n;
}

static bool model_read(Subject *s, const char *path) {
  size_t n;
  const char *text = file_text(s->a, path, &n);
  if (!text) return false;
  s->text = text = arena_printf(s->a, "%s\n%s", text, s->small->more);
  Intern *names = intern_new(s->a);
  const Ast *ast = ast_parse(s->a, names, s->diag, diag_source(s->diag, path, text, strlen(text)),
                             text, strlen(text));
  ast = imports_resolve(s->a, names, s->diag, ast, path);
  Setting setting[MAX_SETTINGS];
  ModelOptions opt = {.path = path,
                      .nsettings = read_settings(s, names, setting),
                      .setting = setting,
                      .no_layout = true};
  s->model = ast && !diag_errors(s->diag) ? model_build(s->a, names, s->diag, ast, &opt) : NULL;
  return s->model != NULL;
}

static const Graph *only_first(Arena *a, const Graph *g) {
  Graph with = *g;
  with.output.n = 1;
  return graph_prune(a, &with, g->stage, NULL);
}

static NodeId stopped_input(Subject *s, Graph *to, NodeId n) {
  const Node *x = graph_node(s->chosen, n);
  Decl d = {.kind = DECL_INPUT, .type = x->type, .rank = x->dims->n};
  d.name = arena_printf(s->a, "stopped/%u", (unsigned)n);
  for (int i = 0; i < x->dims->n; i++) d.dims[i] = x->dims->at[i];
  vec_push(s->a, s->stopped) = n;
  return graph_decl_node(to, graph_decl(to, &d));
}

// Returns g, the graph as selected, with the loss only and an input for each stop_gradient of the
// model.
static const Graph *without_stops(Subject *s, const Graph *g) {
  Graph *to = graph_like(s->a, g, g->stage);
  NodeId *map = arena_array(s->a, NodeId, graph_count(g) + 1);
  s->stopped.n = 0;
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *x = graph_node(g, n);
    bool stop = x->op == OP_STOP && !x->region && !x->origin->composite;
    map[n] = stop ? stopped_input(s, to, n) : graph_copy(to, g, n, map);
  }
  graph_copy_outputs(to, g, map);
  return only_first(s->a, to);
}

static const Graph *after_passes(Arena *a, const Graph *g) {
  return graph_factor(a, graph_simplify(a, graph_expand(a, graph_hoist(a, g))));
}

static bool select_gradients(Subject *s) {
  const Graph *g = s->model->graph;
  const char *name[MAX_FETCH] = {s->loss};
  uint32_t n = 1;
  for (uint32_t i = 0; i < g->decl.n && n < MAX_FETCH; i++) {
    const Decl *d = &g->decl.at[i];
    const Name *x = graph_find_name(g, d->name); // after a rebinding the name means another value
    if (d->node && dtype_is_float(d->type) && d->kind <= DECL_PARAM && x && x->kind == NAME_DECL)
      name[n++] = arena_printf(s->a, "grad(%s)", d->name);
  }
  Fetch fetch = {.n = n, .name = name, .loss = s->loss, .training = true};
  s->chosen = select_run(s->a, s->model, &fetch);
  if (!s->chosen) return false;
  s->simple = after_passes(s->a, s->chosen);
  s->alone = only_first(s->a, after_passes(s->a, without_stops(s, s->chosen)));
  return true;
}

// -- random numbers -----------------------------------------------------------------------------

static double scale_of(const Subject *s, const Decl *d) {
  return d->kind == DECL_INPUT ? s->small->scale : 1;
}

// Returns a random integer: below the limit in the table, or in the range of a line "# feed NAME
// low..high".
static double draw_integer(Subject *s, const Decl *d) {
  long low = 0, high = s->small->below;
  const char *at = strstr(s->text, arena_printf(s->a, "# feed %s ", d->name));
  if (at) sscanf(at + strlen("# feed ") + strlen(d->name), "%ld..%ld", &low, &high);
  return (double)(low + below(&s->random, high - low));
}

static void feeds_draw(Subject *s) {
  const Graph *g = s->simple;
  s->nfeeds = g->decl.n;
  s->feed = arena_array(s->a, EvalFeed, g->decl.n + s->stopped.n + 1);
  s->value = arena_array(s->a, double *, g->decl.n + 1);
  for (uint32_t i = 0; i < g->decl.n; i++) {
    const Decl *d = &g->decl.at[i];
    int64_t n = 1;
    for (int k = 0; k < d->rank; k++) n *= dim_get(g->dims, d->dims[k])->size;
    s->value[i] = arena_array(s->a, double, n + 1);
    s->feed[i] = (EvalFeed){.decl = i + 1, .value = s->value[i], .n = n};
    for (int64_t k = 0; k < n; k++)
      s->value[i][k] = dtype_is_float(d->type)
                           ? scale_of(s, d) * GRID * (double)(below(&s->random, 385) - 192)
                           : draw_integer(s, d);
  }
}

// Gives the inputs for stop_gradient their values at the point.
static void stops_keep(Subject *s, const Eval *chosen) {
  for (uint32_t i = 0; i < s->stopped.n; i++) {
    const Tensor *x = eval_at(chosen, s->stopped.at[i], 0);
    s->feed[s->nfeeds + i] =
        (EvalFeed){.decl = s->nfeeds + i + 1, .value = x->value, .n = x->elements};
  }
}

static double loss_at(const Subject *s) {
  ArenaMark mark = arena_mark(s->scratch);
  Eval *e = eval_run(s->scratch, s->alone, s->nfeeds + s->stopped.n, s->feed, 3);
  double y = eval_at(e, s->alone->output.at[0].value, 0)->value[0];
  arena_reset(s->scratch, mark);
  return y;
}

static double loss_along(const Subject *s, uint32_t feed, const double *along, double steps) {
  int64_t n = s->feed[feed].n;
  double *x = s->value[feed], *was = arena_copy(s->scratch, x, sizeof *x * (size_t)n);
  for (int64_t i = 0; i < n; i++) x[i] += steps * along[i];
  double y = loss_at(s);
  memcpy(x, was, sizeof *x * (size_t)n);
  return y;
}

// -- one direction ------------------------------------------------------------------------------

typedef enum Verdict { RIGHT, WRONG, KINK } Verdict;

// Decides whether a kink lies between the points. f(x) is the loss at x steps. On a smooth function
// f(2) - f(-2) is twice f(1) - f(-1), and f(2) + f(-2) - 2 f(0) is four times f(1) + f(-1) - 2
// f(0). A kink at 0 violates the second equation, other kinks the first.
static Verdict judge(const Subject *s, uint32_t feed, const double *along, const double *grad,
                     const char *what) {
  double f0 = loss_at(s), f1 = loss_along(s, feed, along, 1), b1 = loss_along(s, feed, along, -1);
  double f2 = loss_along(s, feed, along, 2), b2 = loss_along(s, feed, along, -2);
  double slope = (8 * (f1 - b1) - (f2 - b2)) / 12, size = 0, got = 0;
  for (int64_t i = 0; i < s->feed[feed].n; i++) {
    size += fabs(grad[i] * along[i]);
    got += grad[i] * along[i];
  }
  double noise = 4e-15 * (1 + fabs(f0)), tolerance = 1e-6 * size + noise;
  bool smooth = fabs((f2 - b2) - 2 * (f1 - b1)) <= tolerance &&
                fabs((f2 + b2 - 2 * f0) - 4 * (f1 + b1 - 2 * f0)) <= tolerance + 8 * noise;
  bool right = fabs(got - slope) <= tolerance;
  if (getenv("SHOW") || (smooth && !right))
    printf("%s %s by %s, %s: differences %.12g, gradient %.12g (tolerance %.3g)\n",
           smooth ? right ? "ok  " : "FAIL" : "kink", s->small->name, s->simple->decl.at[feed].name,
           what, slope, got, tolerance);
  return !smooth ? KINK : right ? RIGHT : WRONG;
}

static void draw_along(Subject *s, uint32_t feed, int turn, double *along) {
  int64_t n = s->feed[feed].n;
  double unit = UNIT * scale_of(s, &s->simple->decl.at[feed]);
  memset(along, 0, sizeof *along * (size_t)n);
  if (turn >= DIRECTIONS)
    along[below(&s->random, n)] = 64 * unit;
  else
    for (int64_t i = 0; i < n; i++) along[i] = unit * (double)(below(&s->random, 65) - 32);
}

static Verdict check_feed(Subject *s, uint32_t feed, const double *grad) {
  double *along = arena_array(s->a, double, s->feed[feed].n + 1);
  Verdict worst = RIGHT;
  for (int turn = 0; turn < DIRECTIONS + ELEMENTS && worst == RIGHT; turn++) {
    draw_along(s, feed, turn, along);
    worst = judge(s, feed, along, grad, turn < DIRECTIONS ? "all elements" : "one element");
  }
  return worst;
}

static const Tensor *gradient_of(const Subject *s, const Eval *e, uint32_t output) {
  const Output *o = &e->graph->output.at[output];
  return eval_full(s->a, e, o->value, o->rank, o->dims, NULL);
}

static Verdict check_passes(const Subject *s, const Eval *chosen, const Eval *simple) {
  Verdict worst = RIGHT;
  for (uint32_t o = 0; o < s->simple->output.n; o++) {
    Compare c = compare_tensors(gradient_of(s, chosen, o), gradient_of(s, simple, o));
    if (c.wrong == 0) continue;
    printf("FAIL %s: the passes change %s: %s\n", s->small->name, s->simple->output.at[o].name,
           compare_text(s->a, &c));
    worst = WRONG;
  }
  return worst;
}

// Returns true if output o is the gradient by declaration d.
static bool is_gradient(const Output *o, const Decl *d) {
  size_t n = strlen(d->name);
  return !strncmp(o->name, "grad(", 5) && !strncmp(o->name + 5, d->name, n) &&
         !strcmp(o->name + 5 + n, ")");
}

// Draws one point and checks all gradients there.
static Verdict check_point(Subject *s, int *directions) {
  feeds_draw(s);
  const Eval *e[2] = {eval_run(s->a, s->chosen, s->nfeeds, s->feed, 3),
                      eval_run(s->a, s->simple, s->nfeeds, s->feed, 3)};
  *directions = 0;
  stops_keep(s, e[0]);
  Verdict worst = check_passes(s, e[0], e[1]);
  for (uint32_t o = 1; o < s->simple->output.n && worst == RIGHT; o++)
    for (uint32_t i = 0; i < s->simple->decl.n && worst == RIGHT; i++) {
      if (!is_gradient(&s->simple->output.at[o], &s->simple->decl.at[i])) continue;
      worst = check_feed(s, i, gradient_of(s, e[1], o)->value);
      *directions += DIRECTIONS + ELEMENTS;
    }
  return worst;
}

static void check_loss(Subject *s, const char *loss) {
  s->loss = loss;
  if (!select_gradients(s)) {
    printf("FAIL %s: gradients of %s cannot be selected\n", s->small->name, loss);
    diag_print(s->diag, stdout, false);
    failed++;
    return;
  }
  Verdict v = KINK;
  int directions = 0;
  for (int point = 0; point < POINTS && v == KINK; point++) {
    s->random = 2024 + (uint64_t)point;
    v = check_point(s, &directions);
  }
  if (v == KINK) printf("FAIL %s: no smooth point of %s found\n", s->small->name, loss);
  if (v == RIGHT && directions == 0)
    printf("FAIL %s: %s depends on nothing\n", s->small->name, loss), v = WRONG;
  passed += v == RIGHT ? directions : 0;
  failed += v != RIGHT;
}

// Finds the table's row for an example. A model of the tests needs none: it is small already.
static bool small_of(const char *path, bool example, Small *out) {
  const char *name = strrchr(path, '/') + 1;
  size_t length = strcspn(name, ".");
  *out = (Small){.name = path, .set = "", .below = 2, .scale = 1, .more = ""};
  for (size_t i = 0; i < countof(smalls) && example; i++)
    if (strlen(smalls[i].name) == length && !strncmp(name, smalls[i].name, length))
      return *out = smalls[i], true;
  if (!example) return true;
  printf("FAIL %s: no row says how it is made small\n", path);
  failed++;
  return false;
}

// Returns true if the graph has types that are too narrow for small steps.
static bool rounds(const Graph *g) {
  for (NodeId n = 1; n <= graph_count(g); n++)
    if (graph_node(g, n)->type == TYPE_BF16 || graph_node(g, n)->type == TYPE_F16) return true;
  return false;
}

static void check_losses(Subject *s) {
  const ModelSpec *spec = &s->model->graph->spec;
  for (uint32_t i = 0; i < spec->ntrain; i++) check_loss(s, spec->train[i].loss);
  if (!spec->ntrain && s->model->loss) check_loss(s, s->model->loss);
}

static void check_model(const char *path, bool example, const char *wanted) {
  Small small;
  if ((wanted && !strstr(path, wanted)) || !small_of(path, example, &small)) return;
  Arena *a = arena_new();
  Subject s = {.a = a, .scratch = arena_new(), .small = &small, .diag = diag_new(a)};
  if (!model_read(&s, path)) {
    printf("FAIL %s: is refused\n", path);
    diag_print(s.diag, stdout, false);
    failed++;
  } else if (example || !rounds(s.model->graph)) {
    check_losses(&s);
  }
  arena_free(s.scratch);
  arena_free(a);
}

int main(int argc, char **argv) {
  static const char *const where[] = {"examples/*.mesh", "tests/models/*.mesh"};
  for (size_t w = 0; w < countof(where); w++) {
    glob_t g;
    if (glob(where[w], 0, NULL, &g) != 0) {
      printf("FAIL there is no %s\n", where[w]);
      failed++;
      continue;
    }
    for (size_t i = 0; i < g.gl_pathc; i++)
      check_model(g.gl_pathv[i], w == 0, argc > 1 ? argv[1] : NULL);
    globfree(&g);
  }
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}

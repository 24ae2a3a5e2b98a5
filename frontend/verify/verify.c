// --verify: checks the step of a command before the command does its work. The step runs on one
// processor and on the mesh, with the same input and from equal state, and the results are
// compared.
//
// 1. Inputs, parameters, states and optimizer slots are read from the command's processors, whose
// tensors do not change.
// 2. The model without layout and pins is compiled for one processor. Its step gives the expected
// values, and verify_bound.c how far elements may differ from them.
// 3. A second set of processors runs the same step with the command's program. Some elements of
// every distinct kernel are compared with the evaluator (verify_kernels.c).
// 4. Every output and every updated tensor is compared, on all processors that have it. The bytes
// sent must be those predicted.
//
// With several processes only the first one does 2 and 4.
#include "frontend/verify/verify.h"
#include "frontend/driver/planner.h"

#include <stdlib.h>
#include <string.h>

// All elements of one value after the step on the mesh. If several processors have equal blocks of
// the value, each is a replica, with numbers from 0. Every block here is from replica `replica`.
// Replicas after 0 are kept only if their elements differ from those of replica 0.
typedef struct Got {
  uint32_t value; // index into VerifyRun.value
  int64_t replica;
  double *x;
} Got;

typedef struct Verify {
  Session *s;
  const VerifyJob *job;
  Arena *a;
  const Program *program; // the program of the step on the mesh
  Compilation whole;
  VerifyRun run;
  double **want; // [i][k]: element k of run.value[i] after the step on one processor
  VerifyBound *bound;
  bool fails; // the step on one processor ends with an error, so the command's step must fail, too
  VEC(Got) got;
  Verified out;
} Verify;

static const char *mesh_said(const Verify *v) {
  return mesh_option(v->s->arena, &v->s->model->mesh);
}

// -- lists of given tensors and of values -------------------------------------------------------

// Returns the number of valid elements of a tensor; size[i] gets the number along dim i of its
// declaration. `rows` is the number of valid rows of the batch, or -1 for all.
static int64_t sizes_of(const Program *p, const ProgTensor *t, int64_t rows, int64_t *size) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) {
    const ProgDim *d = &t->dim[t->declared[i]];
    size[i] = rows >= 0 && p->over && !strcmp(p->over, d->name) ? rows : d->whole;
    n *= size[i];
  }
  return n;
}

static void read_given(Verify *v) {
  const Program *p = v->program;
  v->run.given = arena_array(v->a, VerifyGiven, p->ntensors + 1);
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *t = &p->tensor[i];
    int64_t size[MAX_RANK];
    if (t->kind > TENSOR_SLOT) continue;
    VerifyGiven x = {
        .name = t->name, .kind = t->kind, .type = t->type, .n = sizes_of(p, t, v->job->rows, size)};
    if (session_first(v->s)) x.data = arena_alloc(v->a, (size_t)(x.n * dtype_bytes(x.type)) + 1);
    exec_read(v->job->exec, x.kind, x.name, x.data);
    v->run.given[v->run.ngiven++] = x;
  }
}

static void list_value(Verify *v, const Output *o, const Graph *g) {
  TensorKind kind = tensor_kind_of_output(g, o);
  int32_t i = program_tensor(v->program, kind, o->name);
  if (i < 0) return;
  const ProgTensor *t = &v->program->tensor[i];
  VerifyValue x = {.name = o->name, .kind = kind, .type = t->type, .rank = t->rank, .pos = t->pos};
  x.n = sizes_of(v->program, t, v->job->rows, x.size);
  for (int k = 0; k < t->rank; k++) x.dim[k] = t->dim[t->declared[k]].name;
  if (!x.pos.line) x.pos = graph_node(g, o->value)->origin->pos;
  v->run.value[v->run.nvalues++] = x;
}

static void list_values(Verify *v) {
  const Graph *g = v->job->made->simplified;
  v->run.value = arena_array(v->a, VerifyValue, g->output.n + 1);
  for (uint32_t i = 0; i < g->output.n; i++) list_value(v, &g->output.at[i], g);
}

// -- the step on one processor ------------------------------------------------------------------

// Returns the graph without pins, for a mesh of one processor. It shares the dims of `from`,
// because nothing is split on that mesh.
static Graph *without_layout(Arena *a, const Graph *from) {
  static const Mesh one;
  Graph *g = graph_like(a, from, from->stage);
  NodeId *map = arena_array(a, NodeId, graph_count(from) + 1);
  g->mesh = &one;
  g->layout = (Layout){0};
  for (NodeId n = 1; n <= graph_count(from); n++)
    map[n] = graph_node(from, n)->op == OP_PIN ? map[graph_node(from, n)->args[0]]
                                               : graph_copy(g, from, n, map);
  graph_copy_outputs(g, from, map);
  return g;
}

static bool alone_ready(Verify *v, const Graph *g) {
  if (!session_compile_alone(v->s, v->a, g, v->job->purpose, v->program->over, &v->whole))
    return false;
  v->run.exec = session_exec_alone(v->s, &v->whole);
  if (!v->run.exec)
    diag_hint(v->s->diag,
              "--verify runs the whole model on one processor: verify a smaller one, with --set");
  return v->run.exec != NULL;
}

static void alone_free(Verify *v) {
  exec_free(v->run.exec);
  compilation_free(&v->whole);
  v->run.exec = NULL;
}

// Finds the bounds of all elements. If the model is too large for the evaluator, first replaces the
// program for one processor by one with random errors in its sums, which verify_bound runs several
// times.
static bool find_bound(Verify *v) {
  if (v->fails) return true;
  if (!verify_small(&v->run, 1)) {
    alone_free(v);
    if (!alone_ready(v, verify_perturbed(v->a, v->run.graph))) return false;
  }
  v->bound = verify_bound(&v->run, v->want);
  return true;
}

// Checks that there is memory to compare the values: each element needs EACH bytes for its bounds
// and for the results of a few runs. Returns false after an error.
static bool room_to_compare(const Verify *v) {
  enum { EACH = 48 };
  double needed = 0;
  for (uint32_t i = 0; i < v->run.nvalues; i++) needed += EACH * (double)v->run.value[i].n;
  for (uint32_t i = 0; i < v->run.ngiven; i++)
    needed += 2.0 * (double)(v->run.given[i].n * dtype_bytes(v->run.given[i].type));
  int64_t available = memory_free_bytes();
  if (needed <= (double)available) return true;
  diag_error(
      v->s->diag, DIAG_NO_MEMORY, (Pos){0},
      "out of memory: --verify needs %.2f GiB to compare all values, and %.2f GiB are available",
      needed / 0x1p30, (double)available / 0x1p30);
  diag_hint(v->s->diag, "verify a smaller model, with --set");
  return false;
}

static bool run_whole(Verify *v) {
  if (!alone_ready(v, without_layout(v->a, v->job->graph)) || !room_to_compare(v)) return false;
  v->run.graph = v->whole.simplified;
  v->want = verify_numbers(&v->run);
  v->fails = !verify_run_step(&v->run, v->run.ngiven, v->run.given, v->want);
  return exec_check(v->run.exec, v->s->diag) && verify_stages(v->s, &v->run, v->job) &&
         find_bound(v);
}

// Waits for all ranks, without a time limit, because the first one may take long. Returns false
// after an error.
static bool meet(const Verify *v) {
  const RankNote mine = {.what = NOTE_VERIFY};
  return !v->s->ranks || ranks_meet(v->s->ranks, &mine, true, NULL);
}

// -- the step on the mesh -----------------------------------------------------------------------

// Reads all replicas of value i. Keeps the first one, and those that differ from it.
static void read_replicas(Verify *v, const Exec *e, uint32_t i) {
  const VerifyValue *x = &v->run.value[i];
  bool wanted = session_first(v->s);
  const double *first = NULL;
  for (int64_t k = 0; k < exec_replicas(e, x->kind, x->name); k++) {
    ArenaMark mark = arena_mark(v->a);
    double *got = wanted ? arena_array(v->a, double, x->n + 1) : NULL;
    verify_read(e, x, k, got);
    if (!wanted) continue;
    if (first && !memcmp(first, got, sizeof *got * (size_t)x->n)) {
      arena_reset(v->a, mark);
      continue;
    }
    if (!first) first = got;
    vec_push(v->a, v->got) = (Got){i, k, got};
  }
}

// Runs the step on the mesh and reads its values. While it runs, verify_kernels.c records operands
// and results of kernels (ExecProbe). Returns false after an error: the step fails either on the
// mesh or on one processor but not on both, or a kernel is wrong.
static bool run_split(Verify *v) {
  VerifyKernels *kernels = verify_kernels(v->s, v->a, v->job->made);
  v->s->apart = true; // on all ranks, also on those without the probe
  v->s->probe = session_first(v->s) ? verify_kernels_probe(kernels) : NULL;
  Exec *e = session_exec(v->s, v->job->made, NULL, NULL);
  v->s->probe = NULL;
  v->s->apart = false;
  if (!e) return false;
  exec_copy(e, v->job->exec);
  StepResult result = exec_step(e, v->job->step, v->job->commit);
  bool good = result != STEP_FAILED && (!session_first(v->s) || (result != STEP_OK) == v->fails);
  if (result == STEP_FAILED || (!good && !v->fails)) exec_fault(e, v->s->diag);
  if (!good && v->fails)
    diag_error(v->s->diag, DIAG_VERIFY, (Pos){0},
               "the step fails on one processor, but not split (%s)", mesh_said(v));
  for (uint32_t i = 0; result == STEP_OK && i < v->run.nvalues; i++) read_replicas(v, e, i);
  good = good && exec_check(e, v->s->diag) &&
         verify_kernels_agree(kernels, &v->out.kernels, &v->out.elements);
  for (int k = 0; k < COLL_COUNT; k++) v->out.wire_bytes += exec_counts(e)->wire_bytes[k];
  exec_free(e);
  return good;
}

// -- comparison of the results ------------------------------------------------------------------

// Returns the name of the element at index `at` of value x: "grad(w)[d=3, h=1]".
static const char *element_text(Arena *a, const VerifyValue *x, int64_t at) {
  const char *text = "";
  for (int d = x->rank - 1; d >= 0; d--) {
    text = arena_printf(a, "%s=%lld%s%s", x->dim[d], (long long)(at % x->size[d]),
                        *text ? ", " : "", text);
    at /= x->size[d];
  }
  return arena_printf(a, x->rank ? "%s[%s]" : "%s", x->name, text);
}

static const char *processor_said(const Verify *v, const Got *g) {
  return g->replica
             ? arena_printf(v->s->arena, ", on replica %lld of its block", (long long)g->replica)
             : "";
}

static void say_apart(Verify *v, const Got *g, int64_t at, bool whole) {
  Arena *a = v->s->arena;
  const VerifyValue *x = &v->run.value[g->value];
  double bound, want = verify_want(v->bound, g->value, at, &bound);
  const char *name = element_text(a, x, at);
  if (whole)
    diag_error(v->s->diag, DIAG_VERIFY, x->pos,
               "%s is %.9g on one processor by machine code and %.9g by the evaluator, bound %.3g",
               name, g->x[at], want, bound);
  else
    diag_error(v->s->diag, DIAG_VERIFY, x->pos,
               "%s is %.9g split (%s)%s and %.9g on one processor, bound %.3g", name, g->x[at],
               mesh_said(v), processor_said(v, g), v->want[g->value][at], bound);
}

// Compares one value. While an element is outside its bound, calls verify_widen for wider bounds,
// as often as that is possible. Returns the index of the first element that is still outside, or
// -1.
static int64_t look(Verify *v, const Got *g) {
  int64_t wrong;
  bool vague;
  double error = verify_compare(v->bound, g->value, g->x, &wrong, &vague);
  while (wrong >= 0 && verify_widen(v->bound))
    error = verify_compare(v->bound, g->value, g->x, &wrong, &vague);
  v->out.vague += vague && !g->replica;
  if (wrong < 0 && error >= v->out.error) {
    v->out.error = error;
    v->out.worst = v->run.value[g->value].name;
  }
  return wrong;
}

// Compares n results with the expected values. `whole` is true for results of the program for one
// processor, false for those of the mesh. Gives an error for the first value that differs, and
// returns false.
static bool compare_all(Verify *v, const Got *list, uint32_t n, bool whole) {
  uint32_t apart = 0;
  const Got *first = NULL;
  int64_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    int64_t wrong = look(v, &list[i]);
    if (wrong < 0) continue;
    if (!apart++) first = &list[i], at = wrong;
  }
  if (!first) return true;
  say_apart(v, first, at, whole);
  if (apart > 1)
    diag_note(v->s->diag, (Pos){0}, "so are elements of %u other value%s", apart - 1,
              plural(apart - 1));
  return false;
}

static bool compare(Verify *v) {
  VEC(Got) whole = {0};
  if (v->fails) return true; // the command's own step will give the error
  for (uint32_t i = 0; i < v->run.nvalues && verify_evaluated(v->bound); i++)
    vec_push(v->a, whole) = (Got){i, 0, v->want[i]};
  v->out.values = v->run.nvalues;
  v->out.evaluated = verify_evaluated(v->bound);
  if (!compare_all(v, whole.at, whole.n, true)) return false;
  v->out.vague = 0;
  v->out.done = compare_all(v, v->got.at, v->got.n, false);
  return v->out.done;
}

static const char *digits(Arena *a, int64_t n) {
  const char *text = "";
  for (; n >= 1000; n /= 1000) text = arena_printf(a, ",%03lld%s", (long long)(n % 1000), text);
  return arena_printf(a, "%lld%s", (long long)n, text);
}

static void print_line(const Verify *v) {
  const Verified *o = &v->out;
  Arena *a = v->s->arena;
  if (!o->done || option_given(v->s->opt, OPTION_QUIET)) return;
  fprintf(stderr, "verify: %u value%s of %s %s between one processor and split (%s), ", o->values,
          plural(o->values), v->s->opt->argument.at[0], o->values == 1 ? "agrees" : "agree",
          mesh_said(v));
  if (o->error > 0)
    fprintf(stderr, "worst error %.2g of its bound at %s", o->error, o->worst);
  else
    fprintf(stderr, "bit for bit");
  if (o->vague)
    fprintf(stderr, " (%u depend%s on decisions that rounding changes)", o->vague,
            o->vague == 1 ? "s" : "");
  fprintf(stderr,
          "; %s byte%s sent, as predicted; %u kernel%s %s with the evaluator in %s element%s\n",
          digits(a, o->wire_bytes), plural(o->wire_bytes), o->kernels, plural(o->kernels),
          o->kernels == 1 ? "agrees" : "agree", digits(a, o->elements), plural(o->elements));
}

static bool verify_all(Verify *v) {
  read_given(v);
  list_values(v);
  if (session_first(v->s) && !run_whole(v)) return false;
  if (!meet(v) || !run_split(v)) return false;
  if (session_first(v->s) && !compare(v)) return false;
  if (!meet(v)) return false;
  print_line(v);
  return true;
}

bool verify_step(Session *s, const VerifyJob *job, Verified *out) {
  *out = (Verified){0};
  if (!option_given(s->opt, OPTION_VERIFY)) return true;
  Verify v = {.s = s, .job = job, .a = arena_new(), .program = job->made->compiled->program};
  v.run = (VerifyRun){.a = v.a, .rows = job->rows, .step = job->step, .commit = job->commit};
  bool good = verify_all(&v);
  *out = v.out;
  alone_free(&v);
  arena_free(v.a);
  return good;
}

bool verify_more(Session *s, const VerifyJob *job, Verified *out) {
  Verified before = *out;
  bool good = verify_step(s, job, out);
  if (!good || !out->done || !before.done) return good;
  out->values += before.values;
  out->vague += before.vague;
  out->evaluated = out->evaluated && before.evaluated;
  out->wire_bytes += before.wire_bytes;
  out->kernels += before.kernels;
  out->elements += before.elements;
  if (before.error > out->error) out->error = before.error, out->worst = before.worst;
  return true;
}

// -- for the commands ---------------------------------------------------------------------------

bool verify_batch(Session *s, Exec *e, Feed *f, int64_t *rows) {
  const FeedInput *input;
  uint32_t n = feed_inputs(f, &input);
  const void **data = arena_array(s->arena, const void *, n + 1);
  exec_restrict_feed(e, NULL, f);
  int64_t got = feed_next(f, data);
  if (got <= 0) {
    if (got < 0) feed_fault(f, s->diag);
    return got == 0;
  }
  *rows = got < feed_batch(f) ? got : -1;
  exec_rows(e, *rows);
  for (uint32_t i = 0; i < n; i++)
    exec_write(e, TENSOR_INPUT, input[i].name, input[i].type, data[i]);
  return true;
}

void verified_json(json_t *out, const Verified *v) {
  if (!v->done) return;
  json_t *x = json_object();
  json_object_set_new(x, "values", json_integer(v->values));
  json_object_set_new(x, "vague", json_integer(v->vague));
  json_object_set_new(x, "bound", json_text(v->evaluated ? "evaluator" : "perturbed runs"));
  json_object_set_new(x, "error", json_real(v->error));
  json_object_set_new(x, "worst", v->worst && v->error > 0 ? json_text(v->worst) : json_null());
  json_object_set_new(x, "wire_bytes", json_integer(v->wire_bytes));
  json_object_set_new(x, "kernels", json_integer(v->kernels));
  json_object_set_new(x, "elements", json_integer(v->elements));
  json_object_set_new(out, "verify", x);
}

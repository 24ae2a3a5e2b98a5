// Makes a package: selects and compiles its programs for every build, gets the values of its
// parameters, and writes the folder.
#include "frontend/driver/package_internal.h"

#include "ir/base/host.h"
#include "ir/program/decode_state.h"
#include "ir/program/pack.h"
#include "runtime/package/package.h"

#include <stdlib.h>
#include <string.h>

typedef struct Making {
  Session *s;
  PackagePlan *plan;
  PackageWriter *writer;
  json_t *root;
  uint32_t nvalues;
  NamedArray *value;
  TensorKind *kind;
  int64_t steps, bytes;
} Making;

// -- values -------------------------------------------------------------------------------------

static bool is_value(const Making *m, const ProgTensor *t) {
  TensorKind k = t->kind;
  return k == TENSOR_PARAM || (k == TENSOR_STATE && !tensor_is_of_text(t)) ||
         (k == TENSOR_SLOT && m->steps > 0);
}

static bool read_values(Making *m, const Exec *e, const Program *p) {
  Session *s = m->s;
  m->value = arena_array(s->arena, NamedArray, p->ntensors + 1);
  m->kind = arena_array(s->arena, TensorKind, p->ntensors + 1);
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *t = &p->tensor[i];
    Result r;
    if (!is_value(m, t)) continue;
    if (!result_read(s, e, p, t->kind, t->name, &r)) return false;
    m->kind[m->nvalues] = t->kind;
    m->value[m->nvalues++] = (NamedArray){.name = t->name, .array = r.array};
    m->bytes += r.array.elements * dtype_bytes(r.array.type);
  }
  return true;
}

// Gets the values with which the package begins: those of --params or --checkpoint, else the
// initial ones. They are bound for a program that computes nothing.
static bool make_values(Making *m) {
  Session *s = m->s;
  const Compilation *first = &m->plan->build[0].made[0];
  Compiled kept = *first->compiled;
  Compilation bound = {.compiled = &kept};
  kept.program = program_of_values(s->arena, first->compiled->program, m->plan->trains);
  Exec *e = session_exec(s, &bound, NULL, NULL);
  bool ok = e && values_load(s, e, kept.program, m->plan->trains, &m->steps) &&
            read_values(m, e, kept.program);
  exec_free(e);
  return ok && package_put_values(m->writer, m->nvalues, m->value, m->kind);
}

// -- programs -----------------------------------------------------------------------------------

// The name of a source of positions, without the folders of this machine.
static const char *source_name(void *context, uint32_t source) {
  const char *name = diag_source_name(((const Session *)context)->diag, source),
             *slash = strrchr(name, '/');
  return slash ? slash + 1 : name;
}

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// Returns the program as the package has it: without initial values that the file of weights has,
// and with the dims of outputs as users know them.
static Program *packed_program(const Making *m, const Program *from) {
  Arena *a = m->s->arena;
  Program *p = arena_copy(a, from, sizeof *p);
  p->model = last_part(p->model);
  p->tensor = arena_copy(a, p->tensor, p->ntensors * sizeof *p->tensor);
  for (uint32_t i = 0; i < p->ntensors; i++) {
    ProgTensor *t = &p->tensor[i];
    if (is_value(m, t)) t->init = (Init){.kind = INIT_CONSTANT};
    for (int d = 0; d < t->rank && t->kind == TENSOR_OUTPUT; d++)
      t->dim[d].name = result_dim(m->s, t->dim[d].name);
  }
  return p;
}

static const char *build_name(const Making *m, const PackageBuild *b) {
  uint32_t same = 0, at = 0;
  for (uint32_t i = 0; i < m->plan->nbuilds; i++) {
    if (&m->plan->build[i] == b) at = same;
    same += !strcmp(m->plan->build[i].name, b->name);
  }
  return same < 2 ? b->name : arena_printf(m->s->arena, "%s.%u", b->name, at + 1);
}

static bool put_code(Making *m, const char *file, const Program *p, const PackageBuild *b,
                     const Compilation *c) {
  int64_t opt;
  size_t n = 0;
  if (!option_integer(m->s->opt, OPTION_OPT, 2, 0, 3, m->s->diag, &opt)) return false;
  const CodeOptions options = {.opt = (int)opt, .level = b->level};
  if (p->nkernels == 0) return package_put(m->writer, file, "", 0);
  char *code = code_object(p, c->compiled->kernels, &options, &n, m->s->diag);
  bool ok = code && package_put(m->writer, file, code, n);
  free(code);
  return ok;
}

// A program that a package cannot keep shows here, and not where it is to run.
static void check_readable(const char *file, const char *bytes, size_t n) {
  Arena *a = arena_new();
  Program p;
  char why[PACK_WHY];
  if (!pack_read(a, NULL, &pack_of_program, bytes, n, diag_new(a), &p, why) ||
      !program_sound(&p, why))
    BUG("%s %s", file, why);
  arena_free(a);
}

static json_t *put_part(Making *m, const PackageBuild *b, uint32_t k) {
  Arena *a = m->s->arena;
  const Compilation *c = &b->made[k];
  const char *stem = arena_printf(a, "%s.%s", m->plan->part[k].name, build_name(m, b)),
             *file = arena_printf(a, "%s.program", stem), *code = arena_printf(a, "%s.o", stem);
  json_t *files = NULL;
  const Program *p = packed_program(m, c->compiled->program);
  size_t n;
  char *bytes = pack_write(&pack_of_program, p, source_name, m->s, &n);
  check_readable(file, bytes, n);
  bool ok = package_put(m->writer, file, bytes, n);
  free(bytes);
  if (ok && b->gpu) files = package_gpu_code(m->s, m->writer, stem, p, b, k);
  if (ok && !b->gpu && put_code(m, code, p, b, c)) files = json_pack("{s:s}", "object", code);
  if (files) json_object_set_new(files, "program", json_string(file));
  return files;
}

static json_t *put_build(Making *m, const PackageBuild *b) {
  json_t *out = json_object(), *types = json_array();
  json_object_set_new(out, b->gpu ? "gpu" : "cpu", json_string(b->name));
  if (b->gpu) {
    json_object_set_new(out, "capability", json_integer(b->gpu->capability));
    json_object_set_new(out, "epilogues", json_integer(b->epilogues));
  }
  if (b->gpu ? b->gpu->target == GPU_EMULATED : !b->level)
    json_object_set_new(out, "identity", json_string(host_identity(m->s->arena)));
  for (int t = 0; t < TYPE_COUNT; t++)
    if (b->products & dtype_bit((Dtype)t))
      json_array_append_new(types, json_string(dtype_text((Dtype)t)));
  json_object_set_new(out, "products", types);
  for (uint32_t k = 0; k < m->plan->nparts; k++) {
    json_t *part = put_part(m, b, k);
    if (!part) {
      json_decref(out);
      return NULL;
    }
    json_object_set_new(out, m->plan->part[k].name, part);
  }
  return out;
}

// -- the description ----------------------------------------------------------------------------

static const char *kind_text(TensorKind k) {
  static const char *const text[] = {
      [TENSOR_INPUT] = "input",    [TENSOR_PARAM] = "parameter", [TENSOR_STATE] = "state",
      [TENSOR_SLOT] = "optimizer", [TENSOR_CONSTANT] = NULL,     [TENSOR_OUTPUT] = "output"};
  return text[k];
}

Result package_result(Session *s, const ProgTensor *t, const Graph *g) {
  const char **dim = arena_array(s->arena, const char *, t->rank + 1);
  Result r = {.name = t->name, .dim = dim, .array = {.type = t->type, .rank = t->rank}};
  for (int d = 0; d < t->rank; d++) {
    dim[d] = result_dim(s, t->dim[t->declared[d]].name);
    r.array.size[d] = t->dim[t->declared[d]].whole;
  }
  result_classes(s, g, &r);
  return r;
}

// Adds the names of the classes that an output consists of.
static void put_classes(const Making *m, const ProgTensor *t, const Graph *g, json_t *out) {
  const Result r = package_result(m->s, t, g);
  result_classes_json(out, &r);
}

static void list_tensors(const Making *m, const Program *p, const Graph *g, json_t *list,
                         json_t *hidden) {
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *t = &p->tensor[i];
    const char *kind = kind_text(t->kind);
    if (!kind || t->kind == TENSOR_SLOT) continue;
    if (t->kind == TENSOR_OUTPUT && select_reserved(t->name)) {
      json_array_append_new(hidden, json_text(t->name));
      continue;
    }
    json_t *dims = json_array(), *shape = json_array();
    for (int d = 0; d < t->rank; d++) {
      const ProgDim *dim = &t->dim[t->declared[d]];
      if (result_is_micro(m->s, dim->name))
        json_object_set_new(m->root, "micro", json_text(dim->name));
      json_array_append_new(dims, json_text(result_dim(m->s, dim->name)));
      json_array_append_new(shape, json_integer(dim->whole));
    }
    json_t *one = json_pack("{s:o, s:s, s:s, s:o, s:o}", "name", json_text(t->name), "kind", kind,
                            "type", dtype_text(t->type), "dims", dims, "shape", shape);
    if (t->kind == TENSOR_OUTPUT) put_classes(m, t, g, one);
    json_array_append_new(list, one);
  }
}

// Sets the output that must be finite for a step to commit (open_step in training.c).
static void set_watch(const Making *m, const Program *p) {
  bool several = program_tensor(p, TENSOR_OUTPUT, select_watched) >= 0;
  const char *watch = several ? select_watched : m->s->model->loss;
  if (m->plan->trains && watch) json_object_set_new(m->root, "watch", json_text(watch));
}

static void describe(Making *m) {
  const Session *s = m->s;
  json_t *programs = json_array(), *hidden = json_array();
  m->root = json_object();
  json_object_set_new(m->root, "schema", json_string(PACKAGE_SCHEMA));
  json_object_set_new(m->root, "meshc", json_string(MESHC_VERSION));
  json_object_set_new(m->root, "model", json_text(last_part(s->opt->argument.at[0])));
  json_object_set_new(m->root, "device", json_string(m->plan->gpu ? "cuda" : "cpu"));
  if (m->plan->gpu) json_object_set_new(m->root, "gpus", json_integer(m->plan->gpus));
  json_object_set_new(m->root, "mesh", mesh_json(&s->model->mesh));
  json_object_set_new(m->root, "layout", layout_json(s));
  json_object_set_new(m->root, "seed", json_integer((json_int_t)s->model->graph->spec.seed));
  for (uint32_t k = 0; k < m->plan->nparts; k++) {
    const PackagePart *part = &m->plan->part[k];
    const Program *p = m->plan->build[0].made[k].compiled->program;
    json_t *one = json_object(), *tensors = json_array();
    json_object_set_new(one, "name", json_string(part->name));
    json_object_set_new(one, "any_rows", json_boolean(part->any_rows));
    if (part->of.over) json_object_set_new(one, "rows", json_text(part->of.over));
    list_tensors(m, p, part->of.graph, tensors, hidden);
    json_object_set_new(one, "tensors", tensors);
    json_array_append_new(programs, one);
    if (k == 0) set_watch(m, p);
  }
  if (m->plan->generates) json_object_set_new(m->root, "text", package_text_json(&m->plan->text));
  json_object_set_new(m->root, "hidden", hidden);
  json_object_set_new(m->root, "programs", programs);
}

static bool put_vocabulary(const Making *m) {
  const PackageText *x = &m->plan->text;
  for (int i = 0; x->kind && i < x->kind->n; i++)
    if (!package_put(m->writer, x->kind->name[i], x->file[i].bytes, x->file[i].n)) return false;
  return true;
}

static bool write_all(Making *m) {
  if (!make_values(m) || !put_vocabulary(m)) return false;
  describe(m);
  json_t *training = NULL;
  if (m->plan->trains && !package_data(m->s, m->writer, m->plan->part[0].of.graph, &training))
    return false;
  if (training) json_object_set_new(m->root, "training", training);
  json_t *builds = json_array();
  json_object_set_new(m->root, "steps", json_integer(m->steps));
  json_object_set_new(m->root, "builds", builds);
  for (uint32_t i = 0; i < m->plan->nbuilds; i++) {
    json_t *build = put_build(m, &m->plan->build[i]);
    if (!build) return false;
    json_array_append_new(builds, build);
  }
  return true;
}

// -- all ----------------------------------------------------------------------------------------

bool package_write(Session *s, PackagePlan *plan, const char *path) {
  Making m = {.s = s, .plan = plan};
  m.writer = package_begin(s->arena, path, s->diag);
  if (!m.writer) return false;
  bool ok = write_all(&m);
  if (ok)
    ok = package_end(m.writer, m.root);
  else
    package_abandon(m.writer), json_decref(m.root);
  for (uint32_t i = 0; i < m.nvalues; i++) array_free(&m.value[i].array);
  plan->nvalues = m.nvalues;
  plan->bytes = m.bytes;
  return ok;
}

static void report(const Session *s, const PackagePlan *plan, const char *path, int kind,
                   PackageFacts *out) {
  Arena *a = s->arena;
  bool whole = kind != EMIT_LLVM && kind != EMIT_ASM; // else the file has a program, for one level
  *out = (PackageFacts){.path = path,
                        .programs = "",
                        .builds = "",
                        .text = whole               ? NULL
                                : kind == EMIT_LLVM ? "LLVM IR"
                                : plan->gpu         ? "PTX"
                                                    : "assembly",
                        .nvalues = plan->nvalues,
                        .bytes = plan->bytes};
  for (uint32_t k = 0; k < plan->nparts && whole; k++)
    out->programs = arena_printf(a, "%s%s%s", out->programs, k ? ", " : "", plan->part[k].name);
  if (!whole) out->programs = plan->part[package_emitted(plan)].name;
  for (uint32_t i = 0; i < (whole ? plan->nbuilds : 1); i++)
    out->builds = arena_printf(a, "%s%s%s%s", out->builds, i ? ", " : "", plan->build[i].name,
                               plan->build[i].products ? " with products" : "");
}

// Objects and executables compute outputs, or generate text; executables also train.
static bool can_emit(const Session *s, const PackagePlan *plan, int kind) {
  bool data = plan->trains && s->model->graph->spec.data[DATA_TRAIN].present;
  if (kind == EMIT_PACKAGE || package_emitted(plan) >= 0 || (kind == EMIT_EXE && data)) return true;
  diag_error(s->diag, DIAG_USAGE, option_use(s->opt, OPTION_EMIT)->pos,
             "--emit %s is for predict, and the model has no output",
             package_emit_word((PackageEmit)kind));
  return diag_hint(s->diag, "name values: --fetch NAME,...");
}

bool package_make(Session *s, PackageFacts *out) {
  PackagePlan plan = {0};
  int kind;
  const char *path = option_text(s->opt, OPTION_PACKAGE_OUT);
  if (!package_emit_kind(s, &kind) || !package_options(s, &plan) || !package_parts(s, &plan) ||
      !can_emit(s, &plan, kind) || !package_builds(s, &plan))
    return false;
  bool ok = kind == EMIT_PACKAGE ? package_write(s, &plan, path)
                                 : package_emit(s, &plan, path, (PackageEmit)kind);
  if (ok) report(s, &plan, path, kind, out);
  return ok;
}

// check: the facts of one compile, from the model's text to the memory plan, without machine code.
#include "frontend/params.h"

#include <string.h>

static const char *const purposes[] = {"", "train", "eval", "run"};

// -- what to describe ----------------------------------------------------------------------------

static bool names_results(const Graph *g) {
  for (uint32_t i = 0; i < g->name.n; i++)
    if (g->name.at[i].kind == NAME_OUTPUT || g->name.at[i].kind == NAME_METRIC) return true;
  return false;
}

// Every value that the file binds, for a model that names no output, loss or metric.
static Fetch all_values(const Session *s, Fetch f) {
  const Graph *g = s->model->graph;
  const char **names = arena_array(s->arena, const char *, g->name.n + 1);
  for (uint32_t i = 0; i < g->name.n; i++)
    if (g->name.at[i].kind == NAME_VALUE && !strchr(g->name.at[i].name, '.'))
      names[f.n++] = g->name.at[i].name;
  f.name = names;
  return f;
}

// The loss and the metrics: what an evaluation would compute of one batch.
static Fetch evaluated(const Session *s) {
  const Graph *g = s->model->graph;
  const char **names = arena_array(s->arena, const char *, g->name.n + 1);
  Fetch f = {.name = (const char *const *)names};
  if (s->model->loss) names[f.n++] = s->model->loss;
  for (uint32_t i = 0; i < g->name.n; i++)
    if (g->name.at[i].kind == NAME_METRIC) names[f.n++] = g->name.at[i].name;
  return f;
}

// Over a data block; a model without one is described by a whole batch.
static Graph *select_eval_of(Session *s, const char **over) {
  uint32_t n;
  EvalMetric *metric;
  const DataBlock *block = s->model->graph->spec.data;
  Fetch batch = evaluated(s);
  for (int k = 0; k < DATA_BLOCKS; k++)
    if (block[k].present) *over = data_over(s, (BlockKind)k);
  if (*over) return select_eval(s->arena, s->model, &n, &metric);
  if (batch.n) return select_run(s->arena, s->model, &batch);
  diag_error(s->diag, DIAG_UNKNOWN_FETCH, (Pos){0},
             "the model has no loss and no metric to evaluate");
  return NULL;
}

Graph *session_select(Session *s, const char **purpose, const char **over) {
  int word;
  bool block = s->model->graph->spec.ntrain > 0;
  *over = NULL;
  if (!option_given(s->opt, OPTION_FOR)) {
    bool run = option_given(s->opt, OPTION_FETCH) || option_given(s->opt, OPTION_LOSS) ||
               option_given(s->opt, OPTION_TRAINING);
    word = block && !run ? 1 : 3;
  } else if (!option_word(s->opt, OPTION_FOR, 4, purposes, s->diag, &word)) {
    return NULL;
  }
  *purpose = purposes[word];
  if (word == 1 && !block) {
    diag_error(s->diag, DIAG_NO_TRAIN_BLOCK, option_use(s->opt, OPTION_FOR)->pos,
               "the model has no train block");
    return NULL;
  }
  if (word == 1) return select_train(s->arena, s->model, NULL);
  if (word == 2) return select_eval_of(s, over);
  Fetch fetch = session_fetch(s);
  if (!fetch.n && !s->model->loss && !names_results(s->model->graph)) {
    fetch = all_values(s, fetch);
    if (!fetch.n) return graph_like(s->arena, s->model->graph, STAGE_GRAD);
  }
  return select_run(s->arena, s->model, &fetch);
}

// -- facts ---------------------------------------------------------------------------------------

const char *mesh_text(Arena *a, const Mesh *m) {
  const char *text = "";
  for (int i = 0; i < m->naxes; i++)
    text = arena_printf(a, "%s%s%s=%lld", text, i ? " " : "", m->axis[i].name,
                        (long long)m->axis[i].size);
  return m->naxes ? text : "one processor";
}

const char *bytes_text(Arena *a, int64_t bytes) {
  static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double x = (double)bytes;
  int k = 0;
  for (; x >= 1024 && k < 4; k++) x /= 1024;
  return arena_printf(a, k ? "%.1f %s" : "%.0f %s", x, unit[k]);
}

int64_t parameter_count(const Graph *g) {
  int64_t total = 0;
  for (uint32_t i = 0; i < g->decl.n; i++) {
    const Decl *decl = &g->decl.at[i];
    int64_t n = 1;
    for (int k = 0; k < decl->rank; k++) n *= dim_get(g->dims, decl->dims[k])->size;
    if (decl->kind == DECL_PARAM) total += n;
  }
  return total;
}

int64_t count_instructions(const Program *p, InstrKind kind) {
  int64_t n = 0;
  for (uint32_t i = 0; i < p->ninstrs; i++) n += p->instr[i].kind == kind;
  return n;
}

// -- JSON ----------------------------------------------------------------------------------------

json_t *json_shown(const Session *s, const char *text) {
  json_t *out = json_string(text);
  return out ? out : json_string(text_shown(s->arena, text));
}

int json_finish(json_t *object) {
  json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9) | JSON_ENSURE_ASCII); // no controls of terminals
  printf("\n");
  json_decref(object);
  return 0;
}

static json_t *axes_json(const Mesh *m, Axes axes) {
  json_t *out = json_array();
  for (int i = 0; i < axes.n; i++)
    json_array_append_new(out, json_string(m->axis[axes.at[i]].name));
  return out;
}

// The model's, or an imported one.
static const char *line_file(const Session *s, Pos pos) {
  return pos.source ? diag_source_name(s->diag, pos.source) : s->opt->argument.at[0];
}

json_t *collectives_json(const Session *s, const CollFacts *facts) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < facts->n; i++) {
    const CollFact *f = &facts->fact[i];
    json_t *one = json_object();
    json_object_set_new(one, "kind", json_string(coll_text(f->kind)));
    json_object_set_new(one, "axes", axes_json(&s->model->mesh, f->axes));
    json_object_set_new(one, "group", json_integer(f->group));
    json_object_set_new(one, "dtype", json_string(dtype_text(f->type)));
    json_object_set_new(one, "elements", json_integer(f->elements));
    json_object_set_new(one, "bytes", json_integer(f->bytes));
    json_object_set_new(one, "wire_bytes", json_integer(f->wire_bytes));
    json_object_set_new(one, "times", json_integer(f->times));
    json_object_set_new(one, "phase", json_string(f->backward ? "backward" : "forward"));
    json_object_set_new(one, "value", json_string(f->value ? f->value : ""));
    json_object_set_new(one, "line", json_integer(f->pos.line));
    json_object_set_new(one, "file", json_string(line_file(s, f->pos)));
    json_object_set_new(one, "why", json_string(f->why ? f->why : ""));
    json_array_append_new(list, one);
  }
  return list;
}

json_t *mesh_json(const Mesh *m) {
  json_t *out = json_object();
  for (int i = 0; i < m->naxes; i++)
    json_object_set_new(out, m->axis[i].name, json_integer(m->axis[i].size));
  return out;
}

const char *rule_key(Arena *a, const LayoutRule *r) {
  static const char *const scope[] = {"", "optimizer/", "parameters/", "gradients/", ""};
  const char *pattern =
      r->scope == LAYOUT_TENSOR ? arena_printf(a, "%s/", r->pattern) : scope[r->scope];
  return arena_printf(a, "%s%s%s", r->soft ? "soft/" : "", pattern, r->dim ? r->dim : "all");
}

json_t *layout_json(const Session *s) {
  json_t *out = json_object();
  for (uint32_t i = 0; i < s->model->layout.n; i++) {
    const LayoutRule *r = &s->model->layout.rule[i];
    json_object_set_new(out, rule_key(s->arena, r), axes_json(&s->model->mesh, r->axes));
  }
  return out;
}

static json_t *dims_json(const Graph *g) {
  json_t *out = json_object();
  for (DimId d = 1; d <= dim_count(g->dims); d++)
    if (dim_get(g->dims, d)->whole == d)
      json_object_set_new(out, dim_get(g->dims, d)->name, json_integer(dim_get(g->dims, d)->size));
  return out;
}

void program_json(json_t *out, const Compilation *c) {
  const Program *p = c->compiled->program;
  json_t *memory = json_object();
  json_object_set_new(out, "kernels", json_integer(count_instructions(p, INSTR_KERNEL)));
  json_object_set_new(out, "products", json_integer(count_instructions(p, INSTR_PRODUCT)));
  json_object_set_new(memory, "parameters", json_integer(c->partition.parameter_bytes));
  json_object_set_new(memory, "optimizer", json_integer(c->partition.optimizer_bytes));
  json_object_set_new(memory, "activations", json_integer(c->compiled->activation_bytes));
  json_object_set_new(memory, "peak", json_integer(program_bytes(p)));
  json_object_set_new(memory, "sort", json_integer(program_scratch(p)));
  json_object_set_new(memory, "again", json_string(c->again_text ? c->again_text : ""));
  json_object_set_new(out, "memory", memory);
}

static int print_json(const Session *s, const char *purpose, const Compilation *c, const ParamTable *params) {
  const PartitionFacts *f = &c->partition;
  const Simulation *predicted = session_simulate(s, c);
  json_t *out = json_object();
  json_object_set_new(out, "schema", json_string("meshc.check/1"));
  json_object_set_new(out, "model", json_string(s->opt->argument.at[0]));
  json_object_set_new(out, "for", json_string(purpose));
  json_object_set_new(out, "mesh", mesh_json(&s->model->mesh));
  json_object_set_new(out, "layout", layout_json(s));
  json_object_set_new(out, "dims", dims_json(s->model->graph));
  json_object_set_new(out, "parameters", json_integer(parameter_count(s->model->graph)));
  json_object_set_new(out, "collectives", collectives_json(s, c->facts));
  json_object_set_new(out, "wire_bytes", json_integer(c->facts->wire_bytes));
  json_object_set_new(out, "flops", json_integer(f->flops));
  json_object_set_new(out, "flops_again", json_integer(f->flops_again));
  json_object_set_new(out, "flops_whole", json_integer(f->flops_whole));
  json_object_set_new(out, "redundant_flops", json_real(f->redundant_flops));
  json_object_set_new(out, "padding", json_real(f->padding));
  program_json(out, c);
  json_object_set_new(out, "predicted_seconds", json_real(predicted->seconds));
  json_object_set_new(out, "predicted", simulation_json(predicted));
  if (params->path) json_object_set_new(out, "params", params_table_json(s, params));
  return json_finish(out);
}

// -- text ----------------------------------------------------------------------------------------

static void print_dims(const Graph *g) {
  printf("dims       ");
  const char *comma = "";
  for (DimId d = 1; d <= dim_count(g->dims); d++) {
    if (dim_get(g->dims, d)->whole != d) continue;
    printf("%s%s %lld", comma, dim_get(g->dims, d)->name, (long long)dim_get(g->dims, d)->size);
    comma = ", ";
  }
  printf("%s\n", *comma ? "" : "none");
}

static void print_layout(const Session *s) {
  const Layout *layout = &s->model->layout;
  printf("layout     ");
  for (uint32_t i = 0; i < layout->n; i++) {
    const LayoutRule *r = &layout->rule[i];
    printf("%s%s -> %s", i ? ", " : "", rule_key(s->arena, r),
           r->axes.n ? axes_text(s->arena, &s->model->mesh, r->axes) : "none");
  }
  printf("%s\n", layout->n ? "" : "every processor holds everything");
}

static void print_collectives(const Session *s, const CollFacts *facts) {
  const Mesh *m = &s->model->mesh;
  printf("collectives %u a processor and step, %s on the wire\n", facts->n,
         bytes_text(s->arena, facts->wire_bytes));
  for (uint32_t i = 0; i < facts->n; i++) {
    const CollFact *f = &facts->fact[i];
    printf("  %-14s over %-9s %10s  %-8s %s", coll_text(f->kind), axes_text(s->arena, m, f->axes),
           bytes_text(s->arena, f->bytes), f->backward ? "backward" : "forward",
           f->value ? f->value : "");
    if (f->times > 1) printf("  %lld times", (long long)f->times);
    const char *file = line_file(s, f->pos);
    if (f->pos.line && strcmp(file, s->opt->argument.at[0]) == 0)
      printf("  (line %u)", f->pos.line);
    else if (f->pos.line)
      printf("  (%s:%u)", file, f->pos.line);
    printf("%s%s\n", f->why ? ": " : "", f->why ? f->why : "");
  }
}

static void print_text(const Session *s, const char *purpose, const Compilation *c) {
  const Program *p = c->compiled->program;
  const PartitionFacts *f = &c->partition;
  printf("model      %s, for %s\n", s->opt->argument.at[0], purpose);
  print_dims(s->model->graph);
  printf("mesh       %s\n", mesh_text(s->arena, &s->model->mesh));
  print_layout(s);
  printf("parameters %lld\n", (long long)parameter_count(s->model->graph));
  printf("flops      %lld a processor", (long long)f->flops);
  if (f->flops_again) printf(", %lld of them again", (long long)f->flops_again);
  printf(", %lld in all (%.1f%% redundant), padding %.1f%%\n", (long long)f->flops_whole, 100 * f->redundant_flops, 100 * f->padding);
  printf("memory     parameters %s, optimiser %s, activations %s, peak %s a processor\n",
         bytes_text(s->arena, f->parameter_bytes), bytes_text(s->arena, f->optimizer_bytes),
         bytes_text(s->arena, c->compiled->activation_bytes),
         bytes_text(s->arena, program_bytes(p)));
  if (c->again_text) printf("           to fit, computed again for the backward pass: %s\n", c->again_text);
  printf("program    %lld kernels, %lld products\n", (long long)count_instructions(p, INSTR_KERNEL),
         (long long)count_instructions(p, INSTR_PRODUCT));
  printf("predicted  %s\n", simulation_text(s->arena, session_simulate(s, c)));
  print_collectives(s, c->facts);
}

// What an evaluation of the training could not give exactly is said here too.
static bool foresee_evaluation(Session *s) {
  const DataBlock *data = s->model->graph->spec.data;
  uint32_t n;
  EvalMetric *metric;
  if (!data[DATA_VALID].present && !data[DATA_TEST].present) return true;
  return select_eval(s->arena, s->model, &n, &metric) != NULL;
}

int cmd_check(Session *s) {
  const char *purpose, *over;
  Compilation c;
  ParamTable params;
  if (!session_load(s)) return 0;
  const Graph *g = session_select(s, &purpose, &over);
  if (g && strcmp(purpose, "train") == 0 && !foresee_evaluation(s)) return 0;
  if (!g || !session_compile(s, g, purpose, over, "program", &c) || !params_table(s, &params))
    return 0;
  if (option_given(s->opt, OPTION_JSON)) return print_json(s, purpose, &c, &params);
  print_text(s, purpose, &c);
  if (params.path) params_table_print(s, &params);
  return 0;
}

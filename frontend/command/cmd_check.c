// check: the facts of one compile, from the model's text to the memory plan, without machine code.
#include "frontend/driver/params_internal.h"

#include <string.h>

// -- JSON ---------------------------------------------------------------------------------------

static json_t *dims_json(const Graph *g) {
  json_t *out = json_object();
  for (DimId d = 1; d <= dim_count(g->dims); d++)
    if (dim_get(g->dims, d)->whole == d)
      json_object_set_new(out, dim_get(g->dims, d)->name, json_integer(dim_get(g->dims, d)->size));
  return out;
}

static int print_json(const Session *s, const char *purpose, const Compilation *c,
                      const ParamTable *params) {
  const PartitionFacts *f = &c->partition;
  const Simulation *predicted = session_simulate(s, c);
  json_t *out = json_object();
  json_object_set_new(out, "schema", json_string("meshc.check/1"));
  json_object_set_new(out, "model", json_text(s->opt->argument.at[0]));
  json_object_set_new(out, "for", json_text(purpose));
  json_object_set_new(out, "mesh", mesh_json(&s->model->mesh));
  json_object_set_new(out, "layout", layout_json(s));
  json_object_set_new(out, "dims", dims_json(s->model->graph));
  json_object_set_new(out, "parameters", json_integer(parameter_count(s->model->graph)));
  json_object_set_new(out, "collectives", collectives_json(s, c->facts));
  json_object_set_new(out, "wire_bytes", json_integer(c->facts->wire_bytes));
  json_object_set_new(out, "flops", json_integer(f->flops));
  json_object_set_new(out, "flops_again", json_integer(f->flops_rematerialised));
  json_object_set_new(out, "flops_whole", json_integer(f->flops_whole));
  json_object_set_new(out, "redundant_flops", json_real(f->redundant_flops));
  json_object_set_new(out, "padding", json_real(f->padding));
  program_json(out, c);
  json_object_set_new(out, "predicted_seconds", json_real(predicted->seconds));
  json_object_set_new(out, "predicted", simulation_json(predicted));
  if (params->path) json_object_set_new(out, "params", params_table_json(s, params));
  return json_finish(out);
}

// -- text ---------------------------------------------------------------------------------------

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
  const Layout *l = &s->model->layout;
  printf("layout     %s\n", l->n ? layout_text(s->arena, &s->model->mesh, l, " -> ", ", ")
                                 : "every processor holds everything");
}

static void print_collectives(const Session *s, const CollFacts *facts) {
  const Mesh *m = &s->model->mesh;
  printf("collectives %u a processor and step, %s sent\n", facts->n,
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
  if (f->flops_rematerialised)
    printf(", %lld of them rematerialised", (long long)f->flops_rematerialised);
  printf(", %lld in all (%.1f%% redundant), padding %.1f%%\n", (long long)f->flops_whole,
         100 * f->redundant_flops, 100 * f->padding);
  printf("memory     parameters %s, optimizer %s, activations %s, peak %s a processor\n",
         bytes_text(s->arena, f->parameter_bytes), bytes_text(s->arena, f->optimizer_bytes),
         bytes_text(s->arena, c->compiled->activation_bytes),
         bytes_text(s->arena, program_bytes(p)));
  if (c->again_text)
    printf("           to fit, rematerialised for the backward pass: %s\n", c->again_text);
  printf("program    %lld kernels, %lld products\n", (long long)count_instructions(p, INSTR_KERNEL),
         (long long)count_instructions(p, INSTR_GEMM));
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

// The command check: prints the facts of one compile (frontend/driver/check.h) as text or JSON.
#include "frontend/driver/check.h"

#include <string.h>

// -- text ---------------------------------------------------------------------------------------

static void print_dims(const Graph *g) {
  printf("dims       ");
  const char *comma = "";
  for (DimId d = 1; d <= dim_count(g->dims); d++) {
    if (dim_get(g->dims, d)->whole != d || dim_get(g->dims, d)->local) continue;
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
  if (session_for_gpu(s)) printf("device     cuda\n");
  printf("parameters %lld\n", (long long)parameter_count(s->model->graph));
  printf("flops      %lld a processor", (long long)f->flops);
  if (f->flops_rematerialised)
    printf(", %lld of them rematerialised", (long long)f->flops_rematerialised);
  printf(", %lld in all (%.1f%% redundant", (long long)f->flops_whole,
         100 * (f->redundant_flops - f->idle_flops));
  if (f->idle_flops > 0) printf(", %.1f%% idle", 100 * f->idle_flops);
  printf("), padding %.1f%%\n", 100 * f->padding);
  printf("memory     parameters %s, optimizer %s, activations %s, peak %s a processor\n",
         bytes_text(s->arena, f->parameter_bytes), bytes_text(s->arena, f->optimizer_bytes),
         bytes_text(s->arena, c->compiled->activation_bytes),
         bytes_text(s->arena, program_bytes(p)));
  if (c->again_text)
    printf("           to fit, rematerialised for the backward pass: %s\n", c->again_text);
  int64_t kernels = count_instructions(p, INSTR_KERNEL),
          products = count_instructions(p, INSTR_GEMM);
  printf("program    %lld kernel%s, %lld product%s\n", (long long)kernels, plural(kernels),
         (long long)products, plural(products));
  printf("predicted  %s\n", simulation_text(s->arena, session_simulate(s, c)));
  print_collectives(s, c->facts);
}

int cmd_check(Session *s) {
  CheckFacts c;
  if (!session_load(s) || !check_compile(s, &c)) return 0;
  if (option_given(s->opt, OPTION_JSON)) return json_finish(check_json(s, &c));
  print_text(s, c.purpose, &c.made);
  if (c.params.path) params_table_print(s, &c.params);
  return 0;
}

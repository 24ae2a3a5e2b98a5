// plan: the cheapest layouts of a model, what they cost, and why the others lose.
#include <string.h>

#include "frontend/planner.h"

enum { SHOWN = 5, MAX_PROCESSORS = 1 << 20 };

typedef struct PlanReport {
  Session *s;
  SearchTask task;
  const SearchResult *found;
  SearchChoice own;     // of the file or --layout; mesh NULL: none on these processors
  SearchChoice refined; // the best one with rules for the optimiser and soft ones
  SearchChoice small;   // the same with an eye on memory
  int64_t peak;         // of the refined one, compiled
  double seconds;       // that the search took
} PlanReport;

// -- what is asked for ---------------------------------------------------------------------------------------

static bool meshes_of(Session *s, uint32_t *n, const Mesh **mesh) {
  static const char *const names[3] = {"rows", "cols", "deep"};
  int64_t processors;
  if (!option_integer(s->opt, OPTION_PROCESSORS, 0, 1, MAX_PROCESSORS, s->diag, &processors)) return false;
  *n = 1;
  *mesh = &s->model->mesh;
  if (processors > 1) *n = search_meshes(s->arena, processors, names, mesh);
  if (mesh_size(*mesh) > 1) return true;
  diag_error(s->diag, DIAG_USAGE, (Pos){0}, "a mesh of one processor needs no layout");
  diag_hint(s->diag, "say which processors: --mesh rows=2,cols=4, or --processors 8");
  return false;
}

// -- answers -----------------------------------------------------------------------------------------------

// Bytes of the choice as a program: the model built again under the options that are printed.
static bool compiled_peak(PlanReport *r, const SearchChoice *c, int64_t *peak) {
  Session s = *r->s;
  const char *purpose, *over, *mesh = mesh_option(s.arena, c->mesh), *layout = layout_text(s.arena, c->mesh, &c->layout);
  Compilation made;
  s.options.mesh = ast_parse_mesh(s.arena, s.names, s.diag, diag_source(s.diag, "--mesh", mesh, strlen(mesh)), mesh, strlen(mesh));
  s.options.layout = NULL;
  s.options.no_layout = c->layout.n == 0;
  if (c->layout.n)
    s.options.layout =
        ast_parse_layout(s.arena, s.names, s.diag, diag_source(s.diag, "--layout", layout, strlen(layout)), layout, strlen(layout));
  s.model = model_build(s.arena, s.names, s.diag, s.ast, &s.options);
  if (!s.model || (train_counts_epochs(s.model) && !train_resolve_epochs(s.model, 1))) return false;
  const Graph *g = session_select(&s, &purpose, &over);
  if (!g || !session_compile(&s, g, purpose, over, "program", &made)) return false;
  *peak = program_bytes(made.compiled->program);
  return true;
}

static json_t *price_json(PlanReport *r, const SearchChoice *c) {
  const Machine *m = r->task.machine;
  json_t *out = json_object();
  json_object_set_new(out, "mesh", mesh_json(c->mesh));
  json_object_set_new(out, "layout", json_string(layout_text(r->s->arena, c->mesh, &c->layout)));
  json_object_set_new(out, "seconds", json_real(c->price.seconds));
  json_object_set_new(out, "compute_seconds", json_real(c->price.flops / m->flops));
  json_object_set_new(out, "memory_seconds", json_real(c->price.traffic / m->memory_rate));
  json_object_set_new(out, "transfer_seconds", json_real(c->price.transfer));
  json_object_set_new(out, "flops", json_integer((json_int_t)c->price.flops));
  json_object_set_new(out, "wire_bytes", json_integer((json_int_t)c->price.wire));
  json_object_set_new(out, "memory", json_integer((json_int_t)c->price.memory));
  return out;
}

static int plan_json(PlanReport *r) {
  json_t *out = json_object(), *list = json_array();
  json_object_set_new(out, "schema", json_string("meshc.plan/1"));
  json_object_set_new(out, "model", json_string(r->s->opt->argument.at[0]));
  json_object_set_new(out, "candidates", json_real(r->found->candidates));
  json_object_set_new(out, "priced", json_integer((json_int_t)r->found->priced));
  json_object_set_new(out, "over_memory", json_integer((json_int_t)r->found->over_memory));
  json_object_set_new(out, "proven", json_boolean(r->found->proven));
  json_object_set_new(out, "bound_seconds", json_real(r->found->bound));
  json_object_set_new(out, "search_seconds", json_real(r->seconds));
  for (uint32_t i = 0; i < r->found->n; i++) json_array_append_new(list, price_json(r, &r->found->at[i]));
  json_object_set_new(out, "layouts", list);
  json_object_set_new(out, "refined", price_json(r, &r->refined));
  json_object_set_new(out, "refined_peak", json_integer(r->peak));
  json_object_set_new(out, "smaller", price_json(r, &r->small));
  if (r->own.mesh) json_object_set_new(out, "own", price_json(r, &r->own));
  return json_finish(out);
}

// What makes c dearer than the best: the largest difference.
static const char *why_dearer(PlanReport *r, const SearchChoice *c) {
  const Price *p = &c->price, *best = &r->found->at[0].price;
  const Machine *m = r->task.machine;
  double part[3] = {(p->flops - best->flops) / m->flops, (p->traffic - best->traffic) / m->memory_rate, p->transfer - best->transfer};
  static const char *const word[3] = {"more work", "more memory traffic", "more on the wire"};
  int most = 0;
  for (int i = 1; i < 3; i++)
    if (part[i] > part[most]) most = i;
  return part[most] > 0 && p->seconds > best->seconds ? arena_printf(r->s->arena, "  +%.3f ms: %s", 1e3 * (p->seconds - best->seconds), word[most]) : "";
}

static void print_choice(PlanReport *r, const char *name, const SearchChoice *c) {
  Arena *a = r->s->arena;
  const Machine *m = r->task.machine;
  printf("%-8s %-22s %s\n", name, mesh_text(a, c->mesh), layout_text(a, c->mesh, &c->layout));
  printf("%-8s %.3f ms = work %.3f + memory %.3f + transfer %.3f; %s on the wire, holds %s%s\n", "", 1e3 * c->price.seconds,
         1e3 * c->price.flops / m->flops, 1e3 * c->price.traffic / m->memory_rate, 1e3 * c->price.transfer,
         bytes_text(a, (int64_t)c->price.wire), bytes_text(a, (int64_t)c->price.memory), why_dearer(r, c));
}

static const char *how_near(PlanReport *r) {
  double best = r->found->at[0].price.seconds;
  if (r->found->bound <= 0) return "too many for a proof";
  return arena_printf(r->s->arena, "none is more than %.1f %% cheaper: proven", 100 * (best - r->found->bound) / best);
}

static int plan_text(PlanReport *r) {
  const SearchResult *f = r->found;
  printf("%s: %.0f layouts on %lld processors, %llu priced in %.2f s; %s\n", r->s->opt->argument.at[0],
         f->candidates, (long long)mesh_size(f->at[0].mesh), (unsigned long long)f->priced, r->seconds,
         f->proven ? "the others cost more: proven" : how_near(r));
  if (f->over_memory)
    printf("%llu need more than %s a processor\n", (unsigned long long)f->over_memory, bytes_text(r->s->arena, (int64_t)r->task.memory));
  for (uint32_t i = 0; i < f->n; i++) print_choice(r, arena_printf(r->s->arena, "%u", i + 1), &f->at[i]);
  if (r->own.mesh) print_choice(r, "yours", &r->own);
  if (r->refined.layout.n > f->at[0].layout.n) print_choice(r, "refined", &r->refined);
  if (r->small.layout.n > r->refined.layout.n) print_choice(r, "smaller", &r->small);
  printf("use      --mesh %s --layout %s   (%s a processor as a program)\n", mesh_option(r->s->arena, r->refined.mesh),
         layout_text(r->s->arena, r->refined.mesh, &r->refined.layout), bytes_text(r->s->arena, r->peak));
  return 0;
}

int cmd_plan(Session *s) {
  PlanReport r = {.s = s};
  uint32_t n;
  const Mesh *mesh;
  if (!session_load(s) || !meshes_of(s, &n, &mesh) || !planner_task(s, n, mesh, SHOWN, &r.task)) return 0;
  double start = clock_seconds();
  r.found = search_layouts(s->arena, &r.task);
  if (!r.found->n) return planner_none(s, &r.task), 0;
  r.refined = search_refine(s->arena, &r.task, &r.found->at[0], false);
  r.small = search_refine(s->arena, &r.task, &r.refined, true);
  r.seconds = clock_seconds() - start;
  if (mesh == &s->model->mesh && s->model->layout.n) {
    r.own = (SearchChoice){.mesh = mesh, .layout = s->model->layout};
    r.own.price = search_price(&r.task, mesh, &r.own.layout);
  }
  if (!compiled_peak(&r, &r.refined, &r.peak)) return 0;
  return option_given(s->opt, OPTION_JSON) ? plan_json(&r) : plan_text(&r);
}

// The command plan: searches the cheapest layouts of a model and prints their costs, their
// differences from the best one, and the layout to use; as text or JSON. The search and its words
// (choice, refined, predicted) are in frontend/driver/planner.h.
#include <math.h>
#include <string.h>

#include "frontend/driver/planner.h"

enum { RULES = 4, MAX_PROCESSORS = 1 << 20 };

typedef struct PlanReport {
  Session *s;
  SearchTask task;
  Selected graph;
  SearchResult *found;
  // The layout of the model file or of --layout; own.mesh is NULL if it is for another number of
  // processors.
  SearchChoice own;
  SearchChoice refined; // the best choice of `found` with rules that make it faster
  SearchChoice small;   // the refined choice with rules that save memory
  // Predictions for the choices of `found`, and for the three above.
  Foreseen kept[PLANNER_KEPT], of_own, of_refined, of_small;

  // The choice with the fastest program among those of `found` and the refined one.
  const SearchChoice *use;
  const Foreseen *of_use;
  SearchRules rules; // the best choice of `found` with one more rule, for each possible rule
  // The entries of `rules` that are printed: the fastest, then those that need least memory.
  SearchChoice *gain[2 * RULES];
  uint32_t ngains;
  double seconds; // duration of the search
} PlanReport;

// -- the meshes ---------------------------------------------------------------------------------

// Sets the meshes to search: of --processors, else the model's mesh, else one processor. Returns
// false after an error.
static bool meshes_of(Session *s, uint32_t *n, const Mesh **mesh) {
  int64_t processors, one = mesh_size(&s->model->mesh) == 1;
  return option_integer(s->opt, OPTION_PROCESSORS, one, 1, MAX_PROCESSORS, s->diag, &processors) &&
         planner_meshes(s, processors, n, mesh);
}

// -- output -------------------------------------------------------------------------------------

static bool simulate_all(PlanReport *r) {
  if (!planner_fastest(r->s, &r->graph, &r->task, r->found, &r->refined, r->kept, &r->of_refined,
                       &r->use, &r->of_use))
    return false;
  if (r->small.layout.n == r->refined.layout.n)
    r->of_small = r->of_refined; // no rule was added
  else if (!planner_foresee(r->s, &r->graph, &r->small, &r->of_small))
    return false;
  return !r->own.mesh || planner_foresee(r->s, &r->graph, &r->own, &r->of_own);
}

static json_t *cost_json(PlanReport *r, const SearchChoice *c, const Foreseen *f) {
  const Machine *m = r->task.machine;
  json_t *out = json_object();
  json_object_set_new(out, "mesh", mesh_json(c->mesh));
  json_object_set_new(out, "layout", json_text(layout_option(r->s->arena, c->mesh, &c->layout)));
  json_object_set_new(out, "seconds", json_real(c->cost.seconds));
  json_object_set_new(out, "compute_seconds", json_real(c->cost.flops / m->flops));
  json_object_set_new(out, "memory_seconds", json_real(c->cost.traffic / m->memory_rate));
  json_object_set_new(out, "transfer_seconds", json_real(c->cost.transfer));
  json_object_set_new(out, "flops", json_integer((json_int_t)c->cost.flops));
  json_object_set_new(out, "wire_bytes", json_integer((json_int_t)c->cost.wire));
  json_object_set_new(out, "memory", json_integer((json_int_t)c->cost.memory));
  json_object_set_new(out, "predicted_seconds", json_real(f->time->seconds));
  json_object_set_new(out, "predicted", simulation_json(f->time));
  json_object_set_new(out, "peak", json_integer(f->peak));
  return out;
}

static const char *added_text(PlanReport *r, const SearchChoice *c) {
  Layout one = {1, &c->layout.rule[c->layout.n - 1]};
  return layout_option(r->s->arena, c->mesh, &one);
}

static json_t *rules_json(PlanReport *r) {
  const LayoutCost *best = &r->found->at[0].cost;
  json_t *list = json_array();
  for (uint32_t i = 0; i < r->ngains; i++) {
    const LayoutCost *p = &r->gain[i]->cost;
    json_array_append_new(list, json_pack("{s:s, s:f, s:I, s:I}", "rule", added_text(r, r->gain[i]),
                                          "seconds", p->seconds - best->seconds, "wire_bytes",
                                          (json_int_t)(p->wire - best->wire), "memory",
                                          (json_int_t)(p->memory - best->memory)));
  }
  return list;
}

static int plan_json(PlanReport *r) {
  json_t *out = json_object(), *list = json_array();
  json_object_set_new(out, "schema", json_string("meshc.plan/2"));
  json_object_set_new(out, "model", json_text(r->s->opt->argument.at[0]));
  json_object_set_new(out, "candidates", json_real(r->found->candidates));
  json_object_set_new(out, "estimated", json_integer((json_int_t)r->found->estimated));
  json_object_set_new(out, "over_memory", json_integer((json_int_t)r->found->over_memory));
  json_object_set_new(out, "proven", json_boolean(r->found->proven));
  json_object_set_new(out, "ranked", json_boolean(r->found->ranked));
  json_object_set_new(out, "bound_seconds", json_real(r->found->bound));
  json_object_set_new(out, "search_seconds", json_real(r->seconds));
  for (uint32_t i = 0; i < r->found->n; i++)
    json_array_append_new(list, cost_json(r, &r->found->at[i], &r->kept[i]));
  json_object_set_new(out, "layouts", list);
  json_object_set_new(out, "rules", rules_json(r));
  json_object_set_new(out, "refined", cost_json(r, &r->refined, &r->of_refined));
  json_object_set_new(out, "refined_peak", json_integer(r->of_refined.peak));
  json_object_set_new(out, "use", cost_json(r, r->use, r->of_use));
  json_object_set_new(out, "smaller", cost_json(r, &r->small, &r->of_small));
  if (r->own.mesh) json_object_set_new(out, "own", cost_json(r, &r->own, &r->of_own));
  return json_finish(out);
}

// Returns the difference between c and the best layout as text: the parts of its time, the largest
// first, then bytes sent and memory.
static const char *difference_text(PlanReport *r, const SearchChoice *c) {
  static const char *const word[3] = {"compute", "traffic", "transfer"};
  const LayoutCost *p = &c->cost, *best = &r->found->at[0].cost;
  const Machine *m = r->task.machine;
  Arena *a = r->s->arena;
  double all = p->seconds - best->seconds, wire = p->wire - best->wire,
         held = p->memory - best->memory;
  double part[3] = {(p->flops - best->flops) / m->flops,
                    (p->traffic - best->traffic) / m->memory_rate, p->transfer - best->transfer};
  const char *text = arena_printf(a, "%+.3f ms:", 1e3 * all);
  for (bool used[3] = {false};;) {
    int most = -1;
    for (int i = 0; i < 3; i++)
      if (!used[i] && fabs(part[i]) >= 5e-7 && (most < 0 || fabs(part[i]) > fabs(part[most])))
        most = i;
    if (most < 0) break;
    text = arena_printf(a, "%s %s %+.3f,", text, word[most], 1e3 * part[most]);
    used[most] = true;
  }
  return arena_printf(a, "%s sent %s%s, memory %s%s", text, wire < 0 ? "-" : "+",
                      bytes_text(a, (int64_t)fabs(wire)), held < 0 ? "-" : "+",
                      bytes_text(a, (int64_t)fabs(held)));
}

static void print_choice(PlanReport *r, const char *name, const SearchChoice *c,
                         const Foreseen *f) {
  Arena *a = r->s->arena;
  const Machine *m = r->task.machine;
  printf("%-8s %-22s %s\n", name, mesh_text(a, c->mesh), layout_option(a, c->mesh, &c->layout));
  printf("%-8s %.3f ms = compute %.3f + traffic %.3f + transfer %.3f; %s sent, %s a processor; "
         "predicted %s%s\n",
         "", 1e3 * c->cost.seconds, 1e3 * c->cost.flops / m->flops,
         1e3 * c->cost.traffic / m->memory_rate, 1e3 * c->cost.transfer,
         bytes_text(a, (int64_t)c->cost.wire), bytes_text(a, (int64_t)c->cost.memory),
         seconds_text(a, f->time->seconds),
         f->fits ? "" : arena_printf(a, ", needs %s", bytes_text(a, f->peak)));
  if (c != &r->found->at[0]) printf("%-8s %s\n", "", difference_text(r, c));
}

static void print_rules(PlanReport *r) {
  const LayoutCost *best = &r->found->at[0].cost;
  Arena *a = r->s->arena;
  for (uint32_t i = 0; i < r->ngains; i++) {
    const LayoutCost *p = &r->gain[i]->cost;
    double held = p->memory - best->memory;
    printf("%-8s %-32s %+.3f ms, memory %s%s\n", i ? "" : "rules", added_text(r, r->gain[i]),
           1e3 * (p->seconds - best->seconds), held < 0 ? "-" : "+",
           bytes_text(a, (int64_t)fabs(held)));
  }
}

static const char *how_near(PlanReport *r) {
  const SearchResult *f = r->found;
  double best = f->at[0].cost.seconds;
  if (f->proven)
    return f->ranked ? "the others cost more: proven" : "none is cheaper than the first: proven";
  if (f->bound <= 0)
    return f->smallest.mesh ? "only rules beyond dims fit the memory" : "too many for a proof";
  return arena_printf(r->s->arena, "none is more than %.1f %% cheaper: proven",
                      100 * (best - f->bound) / best);
}

static int plan_text(PlanReport *r) {
  const SearchResult *f = r->found;
  int64_t processors = mesh_size(f->at[0].mesh);
  printf("%s: %.0f layout%s on %lld processor%s, %llu estimated in %.2f s; %s\n",
         r->s->opt->argument.at[0], f->candidates, plural((int64_t)f->candidates),
         (long long)processors, plural(processors), (unsigned long long)f->estimated, r->seconds,
         how_near(r));
  if (f->over_memory)
    printf("%llu need%s more than %s a processor\n", (unsigned long long)f->over_memory,
           f->over_memory == 1 ? "s" : "", bytes_text(r->s->arena, (int64_t)r->task.memory));
  for (uint32_t i = 0; i < f->n; i++)
    print_choice(r, arena_printf(r->s->arena, "%u", i + 1), &f->at[i], &r->kept[i]);
  if (r->own.mesh) print_choice(r, "yours", &r->own, &r->of_own);
  if (r->refined.layout.n > f->at[0].layout.n)
    print_choice(r, "refined", &r->refined, &r->of_refined);
  if (r->small.layout.n > r->refined.layout.n) print_choice(r, "smaller", &r->small, &r->of_small);
  print_rules(r);
  printf("use      --mesh %s --layout %s   (predicted %s, %s a processor)\n",
         mesh_option(r->s->arena, r->use->mesh),
         layout_option(r->s->arena, r->use->mesh, &r->use->layout),
         seconds_text(r->s->arena, r->of_use->time->seconds),
         bytes_text(r->s->arena, r->of_use->peak));
  return 0;
}

// Fills r->gain: first the rules that make the best layout faster, then those that need least
// memory at no more than 5 % more time.
static void choose_gains(PlanReport *r) {
  const LayoutCost *best = &r->found->at[0].cost;
  for (int by_memory = 0; by_memory < 2; by_memory++)
    for (int n = 0; n < RULES; n++) {
      SearchChoice *most = NULL;
      for (uint32_t i = 0; i < r->rules.rule.n; i++) {
        SearchChoice *c = &r->rules.rule.at[i];
        bool taken = false;
        for (uint32_t k = 0; k < r->ngains; k++) taken |= r->gain[k] == c;
        bool gains = by_memory ? c->cost.memory < 0.99 * best->memory &&
                                     c->cost.seconds <= 1.05 * best->seconds
                               : c->cost.seconds < 0.998 * best->seconds;
        if (taken || !gains) continue;
        if (!most ||
            (by_memory ? c->cost.memory < most->cost.memory : c->cost.seconds < most->cost.seconds))
          most = c;
      }
      if (most) r->gain[r->ngains++] = most;
    }
}

// Estimates the layout of the file or of --layout, if its mesh has as many processors as `mesh`.
static void estimate_own(PlanReport *r, const Mesh *mesh) {
  const Mesh *own = &r->s->model->mesh;
  if (!r->s->model->layout.n || mesh_size(own) != mesh_size(mesh)) return;
  r->own = (SearchChoice){.mesh = own, .layout = r->s->model->layout};
  r->own.cost = search_cost(&r->task, own, &r->own.layout);
}

int cmd_plan(Session *s) {
  PlanReport r = {.s = s};
  uint32_t n;
  const Mesh *mesh;
  if (!session_load(s) || !meshes_of(s, &n, &mesh) ||
      !planner_task(s, n, mesh, PLANNER_KEPT, &r.task) || !session_select(s, &r.graph))
    return 0;
  double start = clock_seconds();
  if (!planner_search(s, &r.task, &r.found)) return 0;
  r.seconds = clock_seconds() - start;
  r.rules = search_rules(s->arena, &r.task, &r.found->at[0]);
  SearchRules rules = r.rules;
  r.refined = search_refine(s->arena, &r.task, &r.found->at[0], &rules, SEARCH_FASTER);
  r.small = search_refine(s->arena, &r.task, &r.refined, &rules, SEARCH_SMALLER);
  choose_gains(&r);
  estimate_own(&r, mesh);
  if (!simulate_all(&r)) return 0;
  return option_given(s->opt, OPTION_JSON) ? plan_json(&r) : plan_text(&r);
}

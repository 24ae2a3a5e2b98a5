// Collects what `meshc plan` reports: searches, refines, compiles and compares layouts. See plan.h.
#include "frontend/driver/plan.h"

enum { MAX_PROCESSORS = 1 << 20 };

// Sets *mesh to the *n meshes to search: all shapes of --processors processors. Without the option
// it is the model's mesh, or one processor if the model has no mesh. Returns false after an error.
static bool meshes_of(Session *s, uint32_t *n, const Mesh **mesh) {
  int64_t processors, one = mesh_size(&s->model->mesh) == 1;
  return option_integer(s->opt, OPTION_PROCESSORS, one, 1, MAX_PROCESSORS, s->diag, &processors) &&
         planner_meshes(s, processors, n, mesh);
}

// Fills r->gain with rules that could be added to the best layout. First come those that make a
// step faster, then those that save most memory and cost at most 5 % more time.
static void choose_gains(PlanReport *r) {
  const LayoutCost *best = &r->found->at[0].cost;
  for (int by_memory = 0; by_memory < 2; by_memory++)
    for (int n = 0; n < PLAN_RULES; n++) {
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

// Estimates the cost of the user's own layout, given in the model file or with --layout, if its
// mesh has as many processors as `mesh`.
static void estimate_own(PlanReport *r, const Mesh *mesh) {
  const Mesh *own = &r->s->model->mesh;
  if (!r->s->model->layout.n || mesh_size(own) != mesh_size(mesh)) return;
  r->own.choice = (SearchChoice){.mesh = own, .layout = r->s->model->layout};
  r->own.choice.cost = search_cost(&r->task, own, &r->s->model->layout);
}

static bool simulate_all(PlanReport *r) {
  SearchChoice small = r->small.choice;
  if (!planner_fastest(r->s, &r->graph, &r->task, r->found, &r->refined, r->kept, &r->use))
    return false;
  r->small = r->refined;
  r->small.choice = small;
  if (small.layout.n > r->refined.choice.layout.n && !foresee_step(r->s, &r->graph, &r->small))
    return false;
  if (!r->own.choice.mesh) return true;
  if (!foresee_step(r->s, &r->graph, &r->own)) return false;
  if (r->own.fits && r->own.time->seconds < r->use->time->seconds) r->use = &r->own;
  return true;
}

bool plan_make(Session *s, PlanReport *r) {
  uint32_t n;
  const Mesh *mesh;
  *r = (PlanReport){.s = s};
  if (!meshes_of(s, &n, &mesh) || !planner_task(s, n, mesh, PLANNER_KEPT, &r->task) ||
      !session_select(s, &r->graph))
    return false;
  double start = clock_seconds();
  if (!planner_search(s, &r->task, &r->found)) return false;
  r->seconds = clock_seconds() - start;
  r->rules = search_rules(s->arena, &r->task, &r->found->at[0]);
  SearchRules rules = r->rules; // a copy, because search_refine clears its argument
  r->refined.choice = search_refine(s->arena, &r->task, &r->found->at[0], &rules, SEARCH_FASTER);
  r->small.choice = search_refine(s->arena, &r->task, &r->refined.choice, &rules, SEARCH_SMALLER);
  choose_gains(r);
  estimate_own(r, mesh);
  return simulate_all(r);
}

// -- JSON ---------------------------------------------------------------------------------------

static json_t *cost_json(const PlanReport *r, const Foreseen *f) {
  const SearchChoice *c = &f->choice;
  const Machine *m = r->task.machine;
  json_t *out = json_object();
  json_object_set_new(out, "mesh", mesh_json(c->mesh));
  json_object_set_new(out, "layout", json_text(layout_option(r->s->arena, c->mesh, &c->layout)));
  json_object_set_new(out, "seconds", json_real(c->cost.seconds));
  json_object_set_new(out, "compute_seconds", json_real(c->cost.work));
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

const char *plan_rule_text(const PlanReport *r, const SearchChoice *c) {
  Layout one = {1, &c->layout.rule[c->layout.n - 1]};
  return layout_option(r->s->arena, c->mesh, &one);
}

static json_t *rules_json(const PlanReport *r) {
  const LayoutCost *best = &r->found->at[0].cost;
  json_t *list = json_array();
  for (uint32_t i = 0; i < r->ngains; i++) {
    const LayoutCost *p = &r->gain[i]->cost;
    json_array_append_new(list,
                          json_pack("{s:s, s:f, s:I, s:I}", "rule", plan_rule_text(r, r->gain[i]),
                                    "seconds", p->seconds - best->seconds, "wire_bytes",
                                    (json_int_t)(p->wire - best->wire), "memory",
                                    (json_int_t)(p->memory - best->memory)));
  }
  return list;
}

json_t *plan_json(const PlanReport *r) {
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
  for (uint32_t i = 0; i < r->found->n; i++) json_array_append_new(list, cost_json(r, &r->kept[i]));
  json_object_set_new(out, "layouts", list);
  json_object_set_new(out, "rules", rules_json(r));
  json_object_set_new(out, "refined", cost_json(r, &r->refined));
  json_object_set_new(out, "refined_peak", json_integer(r->refined.peak));
  json_object_set_new(out, "use", cost_json(r, r->use));
  json_object_set_new(out, "smaller", cost_json(r, &r->small));
  if (r->own.choice.mesh) json_object_set_new(out, "own", cost_json(r, &r->own));
  return out;
}

// Collects what `meshc plan` reports: searches layouts, compiles the best and compares them. See
// plan.h.
#include <math.h>
#include <string.h>

#include "frontend/driver/plan.h"
#include "frontend/driver/price.h"

enum { MAX_PROCESSORS = 1 << 16 }; // as a mesh can have

// Sets *mesh to the *n meshes to search: all shapes of --processors processors. Without the option
// it is the model's mesh, or one processor if the model has no mesh. Returns false after an error.
static bool meshes_of(Session *s, uint32_t *n, const Mesh **mesh) {
  int64_t processors, one = mesh_size(&s->model->mesh) == 1;
  return option_integer(s->opt, OPTION_PROCESSORS, one, 1, MAX_PROCESSORS, s->diag, &processors) &&
         planner_meshes(s, processors, n, mesh);
}

// -- the user's layout --------------------------------------------------------------------------

// Lets the user's own layout, given in the model file or with --layout, take part in the search if
// its mesh has as many processors as `mesh`.
static void enter_own(PlanReport *r, const Mesh *mesh) {
  const Mesh *own = &r->s->model->mesh;
  if (!r->s->model->layout.n || mesh_size(own) != mesh_size(mesh)) return;
  r->own = (SearchChoice){.mesh = own, .layout = r->s->model->layout};
  r->task.own = &r->own;
}

// Sets r->use to the better one of the first layout found and the user's own.
static bool choose_use(PlanReport *r) {
  r->use = r->found->at;
  if (!r->own.mesh) return true;
  if (!planner_confirm(r->s, planner_selected(&r->task), &r->own)) return false;
  if (planner_better(&r->task, &r->own, r->use)) r->use = &r->own;
  return true;
}

// -- further rules ------------------------------------------------------------------------------

static bool has_rule(const Layout *l, const LayoutRule *r) {
  for (uint32_t i = 0; i < l->n; i++) {
    const LayoutRule *x = &l->rule[i];
    bool dim = x->dim == r->dim || (x->dim && r->dim && !strcmp(x->dim, r->dim));
    bool pattern =
        x->pattern == r->pattern || (x->pattern && r->pattern && !strcmp(x->pattern, r->pattern));
    if (x->scope == r->scope && x->soft == r->soft && dim && pattern &&
        axes_equal(x->axes, r->axes))
      return true;
  }
  return false;
}

static bool same_mesh(const Mesh *x, const Mesh *y) {
  bool same = x->naxes == y->naxes;
  for (int k = 0; k < x->naxes && same; k++)
    same = x->axis[k].name == y->axis[k].name && x->axis[k].size == y->axis[k].size;
  return same;
}

// Returns whether c has the mesh and all rules of `from`, and `more` rules beside these.
static bool extends(const SearchChoice *from, const SearchChoice *c, uint32_t more) {
  if (!same_mesh(from->mesh, c->mesh) || c->layout.n != from->layout.n + more) return false;
  for (uint32_t i = 0; i < from->layout.n; i++)
    if (!has_rule(&c->layout, &from->layout.rule[i])) return false;
  return true;
}

// Returns the rule of c that `from` has not.
static const LayoutRule *added_rule(const SearchChoice *from, const SearchChoice *c) {
  uint32_t i = 0;
  while (has_rule(&from->layout, &c->layout.rule[i])) i++;
  return &c->layout.rule[i];
}

// Returns the price of r->use in the search, with which the prices of other layouts there compare.
static const SearchPrice *searched_price(const PlanReport *r) {
  for (uint32_t i = 0; i < r->found->npriced; i++)
    if (extends(r->use, &r->found->priced[i], 0)) return &r->found->priced[i].price;
  return &r->use->price;
}

static bool gains(const SearchPrice *now, const SearchPrice *from, bool by_memory) {
  return by_memory ? now->peak < 0.99 * from->peak && now->seconds <= 1.05 * from->seconds
                   : now->seconds < 0.998 * from->seconds;
}

static bool is_listed(const PlanReport *r, const LayoutRule *rule) {
  for (uint32_t i = 0; i < r->nrules; i++)
    if (r->rule[i].rule == rule) return true;
  return false;
}

// Fills r->rule: first rules that make a step faster, then those that save most memory and cost at
// most 5 % more time. Only layouts that fit the memory count.
static void choose_rules(PlanReport *r) {
  const SearchPrice *from = searched_price(r);
  for (int n = 0; n < 2 * PLAN_RULES; n++) {
    const SearchChoice *most = NULL;
    bool by_memory = n >= PLAN_RULES;
    for (uint32_t i = 0; i < r->found->npriced; i++) {
      const SearchChoice *c = &r->found->priced[i];
      const SearchPrice *p = &c->price;
      if (!extends(r->use, c, 1) || p->peak > r->task.memory || !gains(p, from, by_memory) ||
          is_listed(r, added_rule(r->use, c)))
        continue;
      if (!most || (by_memory ? p->peak < most->price.peak : p->seconds < most->price.seconds))
        most = c;
    }
    if (most)
      r->rule[r->nrules++] =
          (PlanRule){added_rule(r->use, most), most->price.seconds - from->seconds,
                     most->price.sent - from->sent, most->price.peak - from->peak};
  }
}

// Sets r->smaller to the priced layout that needs least memory, of those that take little longer
// than r->use.
static void choose_smaller(PlanReport *r) {
  const SearchPrice *from = searched_price(r);
  for (uint32_t i = 0; i < r->found->npriced; i++) {
    const SearchChoice *c = &r->found->priced[i];
    if (gains(&c->price, from, true) && (!r->smaller || c->price.peak < r->smaller->price.peak))
      r->smaller = c;
  }
}

bool plan_make(Session *s, PlanReport *r) {
  uint32_t n;
  const Mesh *mesh;
  *r = (PlanReport){.s = s};
  if (!meshes_of(s, &n, &mesh) || !planner_task(s, n, mesh, PLANNER_KEPT, &r->task) ||
      !planner_prices(s, NULL, &r->task))
    return false;
  double start = clock_seconds();
  enter_own(r, mesh);
  if (!planner_search(s, &r->task, &r->found)) return false;
  r->seconds = clock_seconds() - start;
  if (!planner_compare(s, planner_selected(&r->task), &r->task, r->found) || !choose_use(r))
    return false;
  r->products = price_products(r->task.pricer, mesh_size(mesh));
  if (r->use->accumulate) return true; // its like with other rules was not priced
  choose_rules(r);
  choose_smaller(r);
  return true;
}

// -- what was searched ---------------------------------------------------------------------------

// Returns the number of layouts in the space as text. Too many sets of dims are not counted.
static const char *count_text(const PlanReport *r) {
  double n = r->found->candidates;
  return isinf(n) ? "very many" : arena_printf(r->s->arena, "%.0f", n);
}

// Returns whether one of the choices fits and takes less time than the one to use, with the
// micro-batches of the model.
static bool any_faster(const PlanReport *r, uint32_t n, const SearchChoice *c) {
  for (uint32_t i = 0; i < n; i++)
    if (!c[i].accumulate && c[i].price.peak <= r->task.memory &&
        c[i].price.seconds < r->use->price.seconds * (1 - 1e-9))
      return true;
  return false;
}

// Returns whether a layout of the search that fits takes less time than the one to use, which may
// have fewer rules and take up to a thousandth more. The best ones have been compiled again: those
// in `at` have the later figures.
static bool is_simpler(const PlanReport *r) {
  const SearchResult *f = r->found;
  return !r->use->accumulate &&
         (any_faster(r, f->npriced, f->priced) || any_faster(r, f->n, f->at));
}

// Returns what is proven about the best layout, where the prices of all layouts are the predictions
// of their programs. Of other numbers of micro-batches than that of the model some are tried.
static const char *proven_text(const PlanReport *r) {
  const char *with = r->found->ndivided ? "without micro-batches " : "";
  return arena_printf(r->s->arena, "%snone takes %s: proven", with,
                      is_simpler(r) ? "a thousandth less time" : "less time");
}

// Returns what is proven about the best layout. The prices of a model that is its own only sample
// are the predictions of its programs.
static const char *proof_text(const PlanReport *r) {
  const SearchResult *f = r->found;
  return f->proven && r->task.npriced == 1 ? proven_text(r)
         : f->proven ? "none has a lower price: proven; prices are extrapolated from short models"
         : !f->all   ? "not all, so that is no proof"
         : r->task.npriced == 1
             ? "some may fit with recomputation that was not tried, so that is no proof"
             : "some need recomputation, whose price is interpolated, so that is no proof";
}

const char *plan_searched_text(const PlanReport *r) {
  const SearchResult *f = r->found;
  int64_t processors = mesh_size(r->use->mesh);
  return arena_printf(r->s->arena, "%s: %u of %s layout%s on %lld processor%s priced in %s; %s",
                      r->s->opt->argument.at[0], f->npriced, count_text(r),
                      f->candidates == 1 ? "" : "s", (long long)processors, plural(processors),
                      seconds_text(r->s->arena, r->seconds), proof_text(r));
}

// -- JSON ---------------------------------------------------------------------------------------

static json_t *choice_json(const PlanReport *r, const SearchChoice *c) {
  const SearchPrice *p = &c->price;
  json_t *out = json_object();
  json_object_set_new(out, "mesh", mesh_json(c->mesh));
  json_object_set_new(out, "layout", json_text(layout_option(r->s->arena, c->mesh, &c->layout)));
  if (c->accumulate) json_object_set_new(out, "accumulate", json_integer(c->accumulate));
  json_object_set_new(out, "seconds", json_real(p->seconds));
  json_object_set_new(out, "product_seconds", json_real(p->products));
  json_object_set_new(out, "kernel_seconds", json_real(p->kernels));
  json_object_set_new(out, "transfer_seconds", json_real(p->transfer));
  json_object_set_new(out, "wire_bytes", json_integer((json_int_t)p->sent));
  json_object_set_new(out, "peak", json_integer((json_int_t)p->peak));
  json_object_set_new(out, "recomputed", json_real(p->again));
  if (p->again_text) json_object_set_new(out, "again", json_text(p->again_text));
  json_object_set_new(out, "whole", json_boolean(p->whole));
  return out;
}

const char *plan_rule_text(const PlanReport *r, const PlanRule *rule) {
  LayoutRule one = *rule->rule;
  return layout_option(r->s->arena, r->use->mesh, &(Layout){1, &one});
}

static json_t *rules_json(const PlanReport *r) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < r->nrules; i++) {
    const PlanRule *p = &r->rule[i];
    json_array_append_new(list, json_pack("{s:s, s:f, s:I, s:I}", "rule", plan_rule_text(r, p),
                                          "seconds", p->seconds, "wire_bytes", (json_int_t)p->sent,
                                          "peak", (json_int_t)p->peak));
  }
  return list;
}

json_t *plan_json(const PlanReport *r) {
  json_t *out = json_object(), *list = json_array();
  json_object_set_new(out, "schema", json_string("meshc.plan/4"));
  json_object_set_new(out, "model", json_text(r->s->opt->argument.at[0]));
  double all = r->found->candidates;
  json_object_set_new(out, "candidates", isinf(all) ? json_null() : json_real(all));
  json_object_set_new(out, "priced", json_integer((json_int_t)r->found->npriced));
  json_object_set_new(out, "priced_divided", json_integer((json_int_t)r->found->ndivided));
  json_object_set_new(out, "estimated", json_integer((json_int_t)r->found->estimated));
  json_object_set_new(out, "over_memory", json_integer((json_int_t)r->found->over_memory));
  json_object_set_new(out, "proven", json_boolean(r->found->proven));
  json_object_set_new(out, "products_seconds", json_real(r->products));
  json_object_set_new(out, "search_seconds", json_real(r->seconds));
  for (uint32_t i = 0; i < r->found->n; i++)
    json_array_append_new(list, choice_json(r, &r->found->at[i]));
  json_object_set_new(out, "layouts", list);
  json_object_set_new(out, "rules", rules_json(r));
  json_object_set_new(out, "use", choice_json(r, r->use));
  if (r->smaller) json_object_set_new(out, "smaller", choice_json(r, r->smaller));
  if (r->own.mesh) json_object_set_new(out, "own", choice_json(r, &r->own));
  return out;
}

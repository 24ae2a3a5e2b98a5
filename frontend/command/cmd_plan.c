// The command plan: prints the cheapest layouts of a model with their costs, their differences from
// the best one, and the layout to use; as text or JSON. The facts are those of
// frontend/driver/plan.h.
#include <math.h>

#include "frontend/driver/plan.h"

// Returns the difference between c and the best layout as text: the parts of its time, the largest
// first, then bytes sent and memory.
static const char *difference_text(const PlanReport *r, const SearchChoice *c) {
  static const char *const word[3] = {"compute", "traffic", "transfer"};
  const LayoutCost *p = &c->cost, *best = &r->found->at[0].cost;
  const Machine *m = r->task.machine;
  Arena *a = r->s->arena;
  double all = p->seconds - best->seconds, wire = p->wire - best->wire,
         held = p->memory - best->memory;
  double part[3] = {p->work - best->work, (p->traffic - best->traffic) / m->memory_rate,
                    p->transfer - best->transfer};
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

static void print_choice(const PlanReport *r, const char *name, const Foreseen *f) {
  const SearchChoice *c = &f->choice;
  Arena *a = r->s->arena;
  const Machine *m = r->task.machine;
  printf("%-8s %-22s %s\n", name, mesh_text(a, c->mesh), layout_option(a, c->mesh, &c->layout));
  printf("%-8s %.3f ms = compute %.3f + traffic %.3f + transfer %.3f; %s sent, %s a processor; "
         "predicted %s%s\n",
         "", 1e3 * c->cost.seconds, 1e3 * c->cost.work, 1e3 * c->cost.traffic / m->memory_rate,
         1e3 * c->cost.transfer, bytes_text(a, (int64_t)c->cost.wire),
         bytes_text(a, (int64_t)c->cost.memory), seconds_text(a, f->time->seconds),
         f->fits ? "" : arena_printf(a, ", needs %s", bytes_text(a, f->peak)));
  if (f != &r->kept[0]) printf("%-8s %s\n", "", difference_text(r, c));
}

static void print_rules(const PlanReport *r) {
  const LayoutCost *best = &r->found->at[0].cost;
  Arena *a = r->s->arena;
  for (uint32_t i = 0; i < r->ngains; i++) {
    const LayoutCost *p = &r->gain[i]->cost;
    double held = p->memory - best->memory;
    printf("%-8s %-32s %+.3f ms, memory %s%s\n", i ? "" : "rules", plan_rule_text(r, r->gain[i]),
           1e3 * (p->seconds - best->seconds), held < 0 ? "-" : "+",
           bytes_text(a, (int64_t)fabs(held)));
  }
}

static const char *how_near(const PlanReport *r) {
  const SearchResult *f = r->found;
  double best = f->at[0].cost.seconds;
  if (f->beyond && f->proven) return "no layout of dims alone is cheaper: proven";
  if (f->proven)
    return f->ranked ? "the others cost more: proven" : "none is cheaper than the first: proven";
  if (f->bound <= 0)
    return f->smallest.mesh ? "only rules beyond dims fit the memory" : "too many for a proof";
  return arena_printf(r->s->arena, "none is more than %.1f %% cheaper: proven",
                      100 * (best - f->bound) / best);
}

static void print_text(const PlanReport *r) {
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
    print_choice(r, arena_printf(r->s->arena, "%u", i + 1), &r->kept[i]);
  if (r->own.choice.mesh) print_choice(r, "yours", &r->own);
  if (r->refined.choice.layout.n > f->at[0].layout.n) print_choice(r, "refined", &r->refined);
  if (r->small.choice.layout.n > r->refined.choice.layout.n) print_choice(r, "smaller", &r->small);
  print_rules(r);
  printf("use      --mesh %s --layout %s   (predicted %s, %s a processor)\n",
         mesh_option(r->s->arena, r->use->choice.mesh),
         layout_option(r->s->arena, r->use->choice.mesh, &r->use->choice.layout),
         seconds_text(r->s->arena, r->use->time->seconds), bytes_text(r->s->arena, r->use->peak));
}

int cmd_plan(Session *s) {
  PlanReport r;
  if (!session_load(s) || !plan_make(s, &r)) return 0;
  if (option_given(s->opt, OPTION_JSON)) return json_finish(plan_json(&r));
  print_text(&r);
  return 0;
}

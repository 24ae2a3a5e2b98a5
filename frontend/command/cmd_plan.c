// The command plan: prints the best layouts of a model with their predicted times and memory, their
// differences from the best one, and the layout to use; as text or JSON. The facts are those of
// frontend/driver/plan.h. --save and --against keep and compare them (plan_file.h, plan_against.h).
#include <math.h>

#include "frontend/report/plan_against.h"

// A part of a time is told if it differs by more than this share of the best layout's time, or by
// more than such a part of the whole difference, so that the parts that are told account for it.
static const double TOLD = 1e-3, TOLD_PART = 0.1;
static const double LEAST_TOLD = 5e-10; // seconds; less is shown as 0

static const char *signed_bytes(Arena *a, double bytes) {
  return arena_printf(a, "%s%s", bytes < 0 ? "-" : "+", bytes_text(a, (int64_t)fabs(bytes)));
}

// Returns the difference between c and the best layout as text: the parts of its time, the largest
// first, then bytes sent and memory.
static const char *difference_text(const PlanReport *r, const SearchChoice *c) {
  static const char *const word[3] = {"products", "kernels", "transfer"};
  const SearchPrice *p = &c->price, *best = &r->found->at[0].price;
  Arena *a = r->s->arena;
  double part[3] = {p->products - best->products, p->kernels - best->kernels,
                    p->transfer - best->transfer};
  double more = p->seconds - best->seconds;
  double told = fmax(fmin(TOLD * best->seconds, TOLD_PART * fabs(more)), LEAST_TOLD);
  const char *text = arena_printf(a, "%s:", seconds_change_text(a, more));
  for (bool used[3] = {false};;) {
    int most = -1;
    for (int i = 0; i < 3; i++)
      if (!used[i] && fabs(part[i]) >= told && (most < 0 || fabs(part[i]) > fabs(part[most])))
        most = i;
    if (most < 0) break;
    text = arena_printf(a, "%s %s %s,", text, word[most], seconds_change_text(a, part[most]));
    used[most] = true;
  }
  return arena_printf(a, "%s sent %s, memory %s", text, signed_bytes(a, p->sent - best->sent),
                      signed_bytes(a, p->peak - best->peak));
}

// Returns what a layout recomputes to fit the memory, as the end of a line, or "".
static const char *again_of(const PlanReport *r, const SearchPrice *p) {
  Arena *a = r->s->arena;
  if (p->again_text) return *p->again_text ? arena_printf(a, "; recomputes %s", p->again_text) : "";
  return p->again > 0 ? arena_printf(a, "; recomputes %.0f %% of the forward pass", 100 * p->again)
                      : "";
}

static void print_choice(const PlanReport *r, const char *name, const SearchChoice *c) {
  Arena *a = r->s->arena;
  const SearchPrice *p = &c->price;
  printf("%-8s %-22s %s%s\n", name, mesh_text(a, c->mesh), layout_option(a, c->mesh, &c->layout),
         c->accumulate ? arena_printf(a, ", accumulate = %lld", (long long)c->accumulate) : "");
  printf("%-8s %s = products %s + kernels %s + transfer %s; %s sent, %s a processor%s%s\n", "",
         seconds_text(a, p->seconds), seconds_text(a, p->products), seconds_text(a, p->kernels),
         seconds_text(a, p->transfer), bytes_text(a, (int64_t)p->sent),
         bytes_text(a, (int64_t)p->peak), p->peak > r->task.memory ? ": too much" : "",
         again_of(r, p));
  if (c != r->found->at) printf("%-8s %s\n", "", difference_text(r, c));
}

static void print_rules(const PlanReport *r) {
  for (uint32_t i = 0; i < r->nrules; i++)
    printf("%-8s %-32s %s, memory %s\n", i ? "" : "rules", plan_rule_text(r, &r->rule[i]),
           seconds_change_text(r->s->arena, r->rule[i].seconds),
           signed_bytes(r->s->arena, r->rule[i].peak));
}

// Returns how far the best layout is from the time that no layout can be below, as the end of a
// line.
static const char *distance_text(const PlanReport *r) {
  double times = r->use->price.seconds / r->products;
  if (!(r->products > 0) || times < 1) return "";
  const char *how = times < 2
                        ? arena_printf(r->s->arena, "%.*f %% more", times < 1.1, 100 * (times - 1))
                        : arena_printf(r->s->arena, "%.3g times as long", times);
  return arena_printf(r->s->arena, ": no layout takes less, and the best takes %s", how);
}

// Prints what was searched, and what is proven.
static void print_search(const PlanReport *r) {
  const SearchResult *f = r->found;
  puts(plan_searched_text(r));
  printf("products alone, evenly divided, take %s%s\n", seconds_text(r->s->arena, r->products),
         distance_text(r));
  if (f->ndivided)
    printf("with 2 and more micro-batches %u %s priced\n", f->ndivided,
           f->ndivided == 1 ? "was" : "were");
  if (f->over_memory)
    printf("%llu need%s more than %s a processor\n", (unsigned long long)f->over_memory,
           f->over_memory == 1 ? "s" : "", bytes_text(r->s->arena, (int64_t)r->task.memory));
}

static const char *accumulate_option(Arena *a, const SearchChoice *c) {
  return c->accumulate ? arena_printf(a, " --set train.accumulate=%lld", (long long)c->accumulate)
                       : "";
}

static void print_text(const PlanReport *r) {
  Arena *a = r->s->arena;
  print_search(r);
  for (uint32_t i = 0; i < r->found->n; i++)
    print_choice(r, arena_printf(a, "%u", i + 1), &r->found->at[i]);
  if (r->own.mesh) print_choice(r, "yours", &r->own);
  if (r->smaller) print_choice(r, "smaller", r->smaller);
  print_rules(r);
  printf("use      --mesh %s --layout %s%s   (predicted %s, %s a processor)\n",
         mesh_option(a, r->use->mesh), layout_option(a, r->use->mesh, &r->use->layout),
         accumulate_option(a, r->use), seconds_text(a, r->use->price.seconds),
         bytes_text(a, (int64_t)r->use->price.peak));
}

// Prints the plan, and what differs from the saved one if `against` is not NULL.
static void print_plan(const PlanReport *r, const PlanAgainst *against) {
  if (!option_given(r->s->opt, OPTION_JSON)) {
    print_text(r);
    if (against) plan_against_print(against);
    return;
  }
  json_t *out = plan_json(r);
  if (against) json_object_set_new(out, "against", plan_against_json(against));
  json_finish(out);
}

// The file of --against is read before that of --save is written: both may be the same.
int cmd_plan(Session *s) {
  PlanReport r;
  SavedPlan then;
  const PlanAgainst *against = NULL;
  bool compare = option_given(s->opt, OPTION_PLAN_AGAINST);
  if (!plan_file_check(s) || (compare && !plan_file_read(s, &then)) || !session_load(s) ||
      !plan_make(s, &r) || (compare && !(against = plan_against(&r, &then))))
    return 0;
  if (plan_file_write(&r)) print_plan(&r, against);
  return 0;
}

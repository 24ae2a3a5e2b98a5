// Compares a plan with a saved one. See plan_against.h. What a price would be with only some of the
// changes is priced by plan_price; the prices of then and of now are those of the plans themselves.
#include "frontend/report/plan_against.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/report/line_diff.h"

enum { ALL_NOW = (1 << PLAN_PARTS) - 1 };

// -- what has changed ---------------------------------------------------------------------------

static void changed(PlanAgainst *p, const char *kind, const char *name, const char *then,
                    const char *now) {
  if (then && now && !strcmp(then, now)) return;
  vec_push(p->a, p->change) = (PlanChange){kind, name, then, now};
}

static const char *find(uint32_t n, const SavedName *list, const char *name) {
  for (uint32_t i = 0; i < n; i++)
    if (!strcmp(list[i].name, name)) return list[i].text;
  return NULL;
}

static void change_dims(PlanAgainst *p) {
  const SavedPlan *then = &p->then, *now = &p->now;
  for (uint32_t i = 0; i < then->ndims; i++)
    changed(p, "dim", then->dim[i].name, then->dim[i].text,
            find(now->ndims, now->dim, then->dim[i].name));
  for (uint32_t i = 0; i < now->ndims; i++)
    if (!find(then->ndims, then->dim, now->dim[i].name))
      changed(p, "dim", now->dim[i].name, NULL, now->dim[i].text);
}

static void change_lines(PlanAgainst *p) {
  if (!strcmp(p->then.digest, p->now.digest)) return;
  ChangedLines lines = changed_lines(p->a, p->then.text, p->now.text);
  for (uint32_t i = 0; i < lines.n; i++) {
    const ChangedLine *x = &lines.at[i];
    changed(p, "line", arena_printf(p->a, "line %u", x->line), x->now ? NULL : x->text,
            x->now ? x->text : NULL);
  }
  if (!lines.n) changed(p, "import", "", p->then.digest, p->now.digest);
}

// The options that say which meshes and layouts are searched.
static bool of_space(const char *option) {
  return !strcmp(option, option_name(OPTION_MESH)) || !strcmp(option, option_name(OPTION_LAYOUT)) ||
         !strcmp(option, option_name(OPTION_PROCESSORS));
}

// Returns whether the text of --set gives the size of a dim, which is compared as such.
static bool sets_dim(const SavedPlan *plan, const SavedName *option) {
  size_t n = strcspn(option->text, "=");
  for (uint32_t i = 0; i < plan->ndims && !strcmp(option->name, option_name(OPTION_SET)); i++)
    if (strlen(plan->dim[i].name) == n && !strncmp(plan->dim[i].name, option->text, n)) return true;
  return false;
}

// Returns all uses of an option in a plan, "h=4, o=2", or NULL if there is none.
static const char *uses(Arena *a, const SavedPlan *plan, const char *name) {
  const char *out = NULL;
  for (uint32_t i = 0; i < plan->noptions; i++) {
    const SavedName *x = &plan->option[i];
    if (strcmp(x->name, name) != 0 || sets_dim(plan, x)) continue;
    const char *text = *x->text ? x->text : "on";
    out = out ? arena_printf(a, "%s, %s", out, text) : text;
  }
  return out;
}

static void change_options(PlanAgainst *p) {
  const SavedPlan *of[] = {&p->then, &p->now};
  for (int side = 0; side < 2; side++)
    for (uint32_t i = 0; i < of[side]->noptions; i++) {
      const char *name = of[side]->option[i].name;
      bool first = find(i, of[side]->option, name) == NULL;
      const char *then = uses(p->a, of[0], name), *now = uses(p->a, of[1], name);
      if (first && (side == 0 || !then) && (then || now) && !(then && now && !strcmp(then, now)))
        changed(p, of_space(name) ? "space" : "option", name, then, now);
    }
}

// Splits the text of a machine file into names and numbers.
static uint32_t figures_of(Arena *a, const char *machine, SavedName **out) {
  uint32_t n = 0;
  for (const char *c = machine; *c; c++) n += *c == '\n';
  *out = arena_array(a, SavedName, n + 1);
  n = 0;
  for (size_t length; *machine; machine += length + (machine[length] != '\0')) {
    length = strcspn(machine, "\n");
    char *line = arena_text(a, machine, length), *equals = strstr(line, " = ");
    if (!equals) continue;
    *equals = '\0';
    (*out)[n++] = (SavedName){line, equals + 3};
  }
  return n;
}

static void change_machine(PlanAgainst *p) {
  SavedName *then, *now;
  uint32_t nthen = figures_of(p->a, p->then.machine, &then);
  uint32_t nnow = figures_of(p->a, p->now.machine, &now);
  changed(p, "machine", "", p->then.machine_name, p->now.machine_name);
  for (uint32_t i = 0; i < nthen; i++)
    changed(p, "machine", then[i].name, then[i].text, find(nnow, now, then[i].name));
  for (uint32_t i = 0; i < nnow; i++)
    if (!find(nthen, then, now[i].name)) changed(p, "machine", now[i].name, NULL, now[i].text);
}

static void find_changes(PlanAgainst *p) {
  changed(p, "meshc", "", p->then.version, p->now.version);
  changed(p, "model", "", p->then.model, p->now.model);
  change_dims(p);
  change_lines(p);
  change_options(p);
  change_machine(p);
  if (p->then.memory != p->now.memory)
    changed(p, "memory", "", bytes_text(p->a, (int64_t)p->then.memory),
            arena_printf(p->a, "%s", bytes_text(p->a, (int64_t)p->now.memory)));
}

static bool has_change(const PlanAgainst *p, const char *kind) {
  for (uint32_t i = 0; i < p->change.n; i++)
    if (!strcmp(p->change.at[i].kind, kind)) return true;
  return false;
}

// Returns the set of the parts that differ (bits 1 << PlanPart).
static uint32_t parts_changed(const PlanAgainst *p) {
  bool model = has_change(p, "dim") || has_change(p, "line") || has_change(p, "import") ||
               has_change(p, "option");
  return (uint32_t)model << PART_MODEL | (uint32_t)has_change(p, "machine") << PART_MACHINE |
         (uint32_t)has_change(p, "memory") << PART_MEMORY;
}

// -- prices -------------------------------------------------------------------------------------

// A comparison while it is made. The parts that have not changed are always taken from now.
typedef struct Work {
  PlanAgainst *p;
  PlanPricing pricing;
  uint32_t parts; // those that have changed
} Work;

// Returns whether both lists of rules have the same rules, in any order.
static bool same_rules(const char *x, const char *y) {
  if (strlen(x) != strlen(y)) return false;
  for (size_t n; *x; x += n + (x[n] == ',')) {
    n = strcspn(x, ",");
    const char *at = y;
    while (*at && (strcspn(at, ",") != n || strncmp(at, x, n) != 0))
      at += strcspn(at, ","), at += *at == ',';
    if (!*at) return false;
  }
  return true;
}

static bool same_choice(const SavedChoice *x, const SavedChoice *y) {
  return !strcmp(x->mesh, y->mesh) && same_rules(x->layout, y->layout) &&
         x->accumulate == y->accumulate;
}

// Sets *out to the price of a layout in a plan, if the plan has it for the whole program.
static bool known_price(const SavedPlan *plan, const SavedChoice *layout, SearchPrice *out) {
  const SavedChoice *found = same_choice(&plan->use, layout) ? &plan->use : NULL;
  for (uint32_t i = 0; i < plan->nchoices && !found; i++)
    if (same_choice(&plan->choice[i], layout)) found = &plan->choice[i];
  if (found) *out = found->price;
  return found && found->price.whole;
}

// Sets *out to the price of a layout with the parts `from` of now and the others of then, by this
// version of meshc.
static bool price_with(const Work *w, uint32_t from, const SavedChoice *layout, SearchPrice *out) {
  const PlanAgainst *p = w->p;
  from |= ALL_NOW & ~w->parts;
  if (from == ALL_NOW && known_price(&p->now, layout, out)) return true;
  bool then = (from & w->parts) == 0 && !has_change(p, "meshc");
  if (then && known_price(&p->then, layout, out)) return true;
  return plan_price(&w->pricing, from, layout, out);
}

// Divides the difference between the prices of then and now among its causes: each change is made
// after the ones before.
static void divide(const Work *w, PlanPriced *x) {
  static const uint32_t with[CAUSES] = {0, 1 << PART_MACHINE, 1 << PART_MACHINE | 1 << PART_MEMORY,
                                        ALL_NOW};
  double before = x->then.seconds;
  x->divided = x->was && x->is;
  for (int i = 0; i < CAUSES && x->divided; i++) {
    SearchPrice price;
    x->divided = price_with(w, with[i], &x->layout, &price);
    x->by_cause[i] = price.seconds - before;
    before = price.seconds;
  }
}

static void add_priced(const Work *w, const SavedChoice *layout) {
  PlanPriced x = {.layout = *layout};
  for (uint32_t i = 0; i < w->p->priced.n; i++)
    if (same_choice(&w->p->priced.at[i].layout, layout)) return;
  x.was = known_price(&w->p->then, layout, &x.then);
  x.is = price_with(w, ALL_NOW, layout, &x.now);
  divide(w, &x);
  vec_push(w->p->a, w->p->priced) = x;
}

// -- why ----------------------------------------------------------------------------------------

// How the layouts to use of then and of now compare with some parts of now.
typedef struct Duel {
  bool known, won, lost; // both have a price; that of now is better, or worse
  SearchPrice then, now;
  double memory;
} Duel;

static Duel duel(const Work *w, uint32_t from) {
  const PlanAgainst *p = w->p;
  Duel d = {.memory = (from | ~w->parts) & 1u << PART_MEMORY ? p->now.memory : p->then.memory};
  d.known = price_with(w, from, &p->then.use, &d.then) && price_with(w, from, &p->now.use, &d.now);
  bool fit = d.then.peak <= d.memory, fits = d.now.peak <= d.memory;
  double more = fit != fits ? fit - fits
                : fits      ? d.now.seconds / d.then.seconds - 1
                            : d.now.peak / d.then.peak - 1;
  d.won = d.known && more < -SEARCH_ALIKE;
  d.lost = d.known && more > SEARCH_ALIKE;
  return d;
}

// Returns two times as text, "446 us against 500 us", with their difference where it does not show.
static const char *times_text(Arena *a, double now, double then) {
  const char *x = seconds_text(a, now), *y = seconds_text(a, then);
  bool alike = !strcmp(x, y) && now != then;
  return arena_printf(a, "%s against %s%s", x, y,
                      alike ? arena_printf(a, " (%s)", seconds_change_text(a, now - then)) : "");
}

// Returns how a duel came out, the layout of now first.
static const char *score(Arena *a, const Duel *d) {
  bool fit = d->then.peak <= d->memory, fits = d->now.peak <= d->memory;
  if (fit && fits) return times_text(a, d->now.seconds, d->then.seconds);
  return arena_printf(a, "%s a processor against %s, of %s", bytes_text(a, (int64_t)d->now.peak),
                      bytes_text(a, (int64_t)d->then.peak), bytes_text(a, (int64_t)d->memory));
}

static const char *const part_name[] = {
    [PART_MODEL] = "the model", [PART_MACHINE] = "the machine", [PART_MEMORY] = "the memory limit"};

static void say(PlanAgainst *p, const char *text) { vec_push(p->a, p->why) = text; }

// Says which of the changed parts alone makes the layout of now the better one. Returns whether
// there is one.
static bool say_parts(const Work *w) {
  PlanAgainst *p = w->p;
  bool any = false;
  for (int part = 0; part < PLAN_PARTS; part++) {
    if (!(w->parts & 1u << part)) continue;
    Duel d = duel(w, 1u << part);
    any |= d.won;
    if (d.won && w->parts == 1u << part)
      say(p, arena_printf(p->a, "%s: %s", part_name[part], score(p->a, &d)));
    else if (d.known)
      say(p, arena_printf(p->a, "%s alone %s: %s", part_name[part],
                          d.won ? "suffices" : "would not", score(p->a, &d)));
  }
  return any;
}

// Says why the layout to use is another one than it was. The layout of now is the better one with
// all parts of now; with those of then it must not have been, or meshc searches otherwise.
static void explain_choice(const Work *w) {
  PlanAgainst *p = w->p;
  Duel now = duel(w, ALL_NOW), then = duel(w, 0);
  if (has_change(p, "space")) say(p, "other meshes or layouts are searched");
  if (!now.known)
    say(p, "the layout of then cannot be compiled now");
  else if (now.lost)
    say(p, arena_printf(p->a, "this search did not price the layout of then, which is better: %s",
                        score(p->a, &now)));
  else if (!now.won)
    say(p, arena_printf(p->a, "both are alike now: %s", score(p->a, &now)));
  else if (then.won && has_change(p, "meshc"))
    say(p, arena_printf(p->a,
                        "this version of meshc prices or searches otherwise: with all else "
                        "as it was, %s",
                        score(p->a, &then)));
  else if (then.won)
    say(p, arena_printf(p->a, "the search of then did not price it: it was better already, %s",
                        score(p->a, &then)));
  else if (!say_parts(w) && (w->parts & (w->parts - 1)))
    say(p, arena_printf(p->a, "only together: %s", score(p->a, &now)));
}

PlanAgainst *plan_against(const PlanReport *r, const SavedPlan *then) {
  Arena *a = r->s->arena;
  PlanAgainst *p = arena_new_of(a, PlanAgainst);
  *p = (PlanAgainst){.a = a,
                     .path = option_text(r->s->opt, OPTION_PLAN_AGAINST),
                     .all = option_given(r->s->opt, OPTION_VERBOSE),
                     .then = *then};
  json_t *contents = plan_saved_json(r);
  bool good = plan_saved_read(r->s, "this plan", contents, &p->now);
  json_decref(contents);
  if (!good) return NULL;
  find_changes(p);
  Work w = {p, {r->s, {&p->then, &p->now}}, parts_changed(p)};
  p->same_layout = same_choice(&p->then.use, &p->now.use);
  add_priced(&w, &p->then.use);
  add_priced(&w, &p->now.use);
  for (uint32_t i = 0; i < p->then.nchoices; i++)
    if (p->then.choice[i].price.whole) add_priced(&w, &p->then.choice[i]);
  if (!p->same_layout) explain_choice(&w);
  return p;
}

// -- text ---------------------------------------------------------------------------------------

// Of another machine all figures differ: they are listed on request.
static bool is_hidden(const PlanAgainst *p, const PlanChange *c) {
  return !p->all && *c->name && !strcmp(c->kind, "machine") &&
         strcmp(p->then.machine_name, p->now.machine_name) != 0;
}

static void print_change(const PlanChange *c) {
  const char *space = *c->name ? " " : "";
  if (c->then && c->now)
    printf("%-8s %s%s%s -> %s\n", c->kind, c->name, space, c->then, c->now);
  else
    printf("%-8s %s %s%s%s\n", strcmp(c->kind, "line") ? c->kind : "model", c->now ? "+" : "-",
           c->name, strcmp(c->kind, "line") ? space : ": ", c->now ? c->now : c->then);
}

static const char *layout_words(Arena *a, const SavedChoice *c) {
  const char *more = c->accumulate
                         ? arena_printf(a, " --set train.accumulate=%lld", (long long)c->accumulate)
                         : "";
  return arena_printf(a, "%s%s--layout %s%s", *c->mesh ? "--mesh " : "",
                      *c->mesh ? arena_printf(a, "%s ", c->mesh) : "", c->layout, more);
}

static void print_causes(Arena *a, const PlanPriced *x) {
  static const char *const name[CAUSES] = {"meshc", "machine", "memory limit", "model"};
  const char *sign = ":";
  for (int i = 0; i < CAUSES && x->divided; i++) {
    if (fabs(x->by_cause[i]) < 1e-4 * x->then.seconds) continue;
    printf("%s %s %s%s", sign, name[i], x->by_cause[i] < 0 ? "-" : "+",
           seconds_text(a, fabs(x->by_cause[i])));
    sign = ",";
  }
}

static void print_priced(const PlanAgainst *p, const PlanPriced *x) {
  printf("price    %s: ", layout_words(p->a, &x->layout));
  printf("%s -> %s", x->was ? seconds_text(p->a, x->then.seconds) : "not priced",
         x->is ? seconds_text(p->a, x->now.seconds) : "not possible");
  if (x->was && x->is && x->then.peak != x->now.peak)
    printf(", %s -> %s", bytes_text(p->a, (int64_t)x->then.peak),
           bytes_text(p->a, (int64_t)x->now.peak));
  if (x->is && x->now.peak > p->now.memory) printf(", too much");
  print_causes(p->a, x);
  printf("\n");
}

void plan_against_print(const PlanAgainst *p) {
  printf("against  %s: %s\n", p->path,
         p->change.n ? "what has changed since" : "nothing has changed");
  uint32_t hidden = 0;
  for (uint32_t i = 0; i < p->change.n; i++)
    if (is_hidden(p, &p->change.at[i]))
      hidden++;
    else
      print_change(&p->change.at[i]);
  if (hidden) printf("machine  %u figures: -v lists them\n", hidden);
  for (uint32_t i = 0; i < p->priced.n; i++) print_priced(p, &p->priced.at[i]);
  if (p->same_layout) {
    printf("layout   the same as then\n");
    return;
  }
  printf("layout   %s -> %s\n", layout_words(p->a, &p->then.use), layout_words(p->a, &p->now.use));
  for (uint32_t i = 0; i < p->why.n; i++) printf("%-8s %s\n", i ? "" : "because", p->why.at[i]);
}

// -- JSON ---------------------------------------------------------------------------------------

static json_t *price_json(bool known, const SearchPrice *x) {
  return known ? json_pack("{s:f, s:I, s:I}", "seconds", x->seconds, "wire_bytes",
                           (json_int_t)x->sent, "peak", (json_int_t)x->peak)
               : json_null();
}

static json_t *causes_json(const PlanPriced *x) {
  return x->divided ? json_pack("{s:f, s:f, s:f, s:f}", "meshc", x->by_cause[CAUSE_MESHC],
                                "machine", x->by_cause[CAUSE_MACHINE], "memory",
                                x->by_cause[CAUSE_MEMORY], "model", x->by_cause[CAUSE_MODEL])
                    : json_null();
}

static json_t *changes_json(const PlanAgainst *p) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < p->change.n; i++) {
    const PlanChange *c = &p->change.at[i];
    json_t *one = json_pack("{s:s, s:o}", "kind", c->kind, "name", json_text(c->name));
    json_object_set_new(one, "then", c->then ? json_text(c->then) : json_null());
    json_object_set_new(one, "now", c->now ? json_text(c->now) : json_null());
    json_array_append_new(list, one);
  }
  return list;
}

json_t *plan_against_json(const PlanAgainst *p) {
  json_t *prices = json_array(), *why = json_array(), *out = json_object();
  for (uint32_t i = 0; i < p->priced.n; i++) {
    const PlanPriced *x = &p->priced.at[i];
    json_t *row = json_pack("{s:s, s:o, s:o, s:o, s:o}", "mesh", x->layout.mesh, "layout",
                            json_text(x->layout.layout), "then", price_json(x->was, &x->then),
                            "now", price_json(x->is, &x->now), "by_cause", causes_json(x));
    if (x->layout.accumulate)
      json_object_set_new(row, "accumulate", json_integer(x->layout.accumulate));
    json_array_append_new(prices, row);
  }
  for (uint32_t i = 0; i < p->why.n; i++) json_array_append_new(why, json_text(p->why.at[i]));
  json_object_set_new(out, "file", json_text(p->path));
  json_object_set_new(out, "changes", changes_json(p));
  json_object_set_new(out, "prices", prices);
  json_object_set_new(out, "same_layout", json_boolean(p->same_layout));
  json_object_set_new(out, "because", why);
  return out;
}

// Prices layouts with parts of saved plans. See plan_then.h. Each price is that of a session of its
// own, which builds the model from the text that was saved. Errors are not reported: a layout that
// cannot be priced is an answer.
#include "frontend/driver/plan_then.h"

#include <string.h>

enum { OWN_WORDS = 8 }; // words of a command line beside the saved options

static const SavedPlan *side(const PlanPricing *p, uint32_t from, PlanPart part) {
  return from & 1u << part ? p->sides.now : p->sides.then;
}

static char *word(Arena *a, const char *name, const char *text) {
  return arena_printf(a, "%s%s%s", name, *text ? "=" : "", text);
}

// The options that choose what is searched. A layout that is priced has its own mesh and rules.
static bool is_space(const char *name) {
  return !strcmp(name, option_name(OPTION_MESH)) || !strcmp(name, option_name(OPTION_LAYOUT)) ||
         !strcmp(name, option_name(OPTION_PROCESSORS));
}

// Parses the options of a saved plan, with the mesh and rules of a layout, into *out.
static bool parse_options(Session *s, const SavedPlan *plan, const SavedChoice *layout,
                          Options *out) {
  static char program[] = "meshc", command[] = "plan";
  char **argv = arena_array(s->arena, char *, plan->noptions + OWN_WORDS);
  int argc = 0;
  argv[argc++] = program;
  argv[argc++] = command;
  argv[argc++] = arena_text(s->arena, plan->model, strlen(plan->model));
  for (uint32_t i = 0; i < plan->noptions; i++)
    if (!is_space(plan->option[i].name))
      argv[argc++] = word(s->arena, plan->option[i].name, plan->option[i].text);
  if (*layout->mesh) argv[argc++] = word(s->arena, option_name(OPTION_MESH), layout->mesh);
  argv[argc++] = word(s->arena, option_name(OPTION_LAYOUT), layout->layout);
  if (layout->accumulate)
    argv[argc++] =
        word(s->arena, option_name(OPTION_SET),
             arena_printf(s->arena, "train.accumulate=%lld", (long long)layout->accumulate));
  return options_parse(out, s->arena, s->diag, argc, argv);
}

// Loads the model of a saved plan as session *out under a layout. Its imports are read as they are
// now. Returns false if that is not possible, or if they have changed since.
static bool load(const PlanPricing *p, const SavedPlan *model, const SavedChoice *layout,
                 Session *out) {
  Options *options = arena_new_of(out->arena, Options);
  out->diag = diag_new(out->arena);
  if (!parse_options(out, model, layout, options)) return false;
  options->argument.at[0] = p->s->opt->argument.at[0]; // imports are found beside the model of now
  options->use[OPTION_DATA_DIR] = p->s->opt->use[OPTION_DATA_DIR];
  out->opt = options;
  out->text = model->text;
  out->text_bytes = strlen(model->text);
  return session_load(out) && !strcmp(plan_digest(out), model->digest);
}

// Fills *out from the compile of a loaded session.
static bool price(Session *s, SearchPrice *out) {
  Foreseen f;
  Selected of;
  Compilation made;
  if (!session_make(s, "program", &of, &made) || !foresee_made(s, &made, &f)) return false;
  *out = foreseen_price(&f);
  return true;
}

bool plan_price(const PlanPricing *p, uint32_t from, const SavedChoice *layout, SearchPrice *out) {
  const SavedPlan *machine = side(p, from, PART_MACHINE);
  Session s = {.arena = arena_new(), .names = p->s->names, .trial = true};
  s.budget = side(p, from, PART_MEMORY)->memory;
  bool good = load(p, side(p, from, PART_MODEL), layout, &s) &&
              machine_read_text(&s.machine, s.diag, machine->machine_name, machine->machine);
  s.machine.states_memory = machine->states_memory;
  if (good) s.machine.tf32 = session_tf32(&s);
  good = good && price(&s, out);
  arena_free(s.arena);
  return good;
}

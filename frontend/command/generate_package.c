// The command generate on a package: one text after the other, with its own vocabulary.
#include "frontend/command/generate_internal.h"
#include "frontend/command/package_command.h"
#include "runtime/package/package_text.h"

// The package has one row, which beam search would need for each beam.
static bool no_beams(const Session *s) {
  const OptionUse *use = option_use(s->opt, OPTION_BEAMS);
  if (!use) return true;
  diag_error(s->diag, DIAG_UNAVAILABLE, use->pos, "a package generates one text at a time");
  return diag_hint(s->diag, "beam search needs the model: meshc generate MODEL --beams %s",
                   use->text);
}

static bool generate(Generate *x, const Package *p, PackageGenerator *g) {
  Session *s = x->s;
  int64_t before;
  ExecOptions options;
  const char *values = option_text(s->opt, OPTION_PARAMS);
  const PackageProgram *step = package_program(p, PACKAGE_GENERATE);
  if (!step) step = &p->program[0]; // package_generator_open reports it
  if (!package_exec_options(s, p, &step->program, &options) ||
      !package_generator_open(s->arena, p, &options, NULL, s->diag, g))
    return false;
  if (values && !package_read_values(&step->program, g->step, values, &before, s->diag))
    return false;
  x->texts.codec = g->codec;
  return generate_options(x, options.seed) && session_same_files(s, true) &&
         generate_texts(x, &g->decoder);
}

int generate_package(Session *s) {
  Generate x = {.s = s};
  PackageGenerator g = {0};
  Package *p = no_beams(s) && package_options_fit(s)
                   ? package_open(s->arena, s->opt->argument.at[0], s->diag)
                   : NULL;
  if (p) (void)!generate(&x, p, &g);
  generate_free(&x);
  package_generator_free(&g);
  package_close(p);
  return 0;
}

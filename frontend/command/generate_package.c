// The command generate on a package, with its own vocabulary.
#include "frontend/command/generate_internal.h"
#include "frontend/command/package_command.h"
#include "runtime/package/package_text.h"

static bool generate(Generate *x, const Package *p, PackageGenerator *g) {
  Session *s = x->s;
  int64_t before;
  ExecOptions options;
  const Options *o = s->opt;
  PackageTextAsk ask = {.prompts = o->use[OPTION_PROMPT].n + o->use[OPTION_PROMPT_FILE].n};
  const char *values = option_text(o, OPTION_PARAMS);
  if (!option_integer(o, OPTION_BEAMS, 0, 1, MOST_BEAMS, s->diag, &ask.beams) ||
      !package_exec_options(s, p, &p->program[0].program, &options) ||
      !package_generator_open(s->arena, p, &options, &ask, s->diag, g))
    return false;
  if (values && !package_read_values(g->decoder.step.program, g->step, values, &before, s->diag))
    return false;
  x->texts.codec = g->codec;
  return generate_options(x, options.seed) && session_same_files(s, true) &&
         generate_texts(x, &g->decoder);
}

int generate_package(Session *s) {
  Generate x = {.s = s};
  PackageGenerator g = {0};
  Package *p = package_options_fit(s)
                   ? package_open(s->arena, s->opt->argument.at[0], s->ranks, s->diag)
                   : NULL;
  if (p) (void)!generate(&x, p, &g);
  generate_free(&x);
  package_generator_free(&g);
  package_close(p);
  return 0;
}

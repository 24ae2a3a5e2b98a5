// The command generate: text from a causal language model. Input: a model, its parameters, prompts;
// or a package. Output: the texts, as they are made, or JSON.
#include "frontend/command/generate_internal.h"
#include "frontend/command/package_command.h"
#include "frontend/driver/generation.h"

static bool read_options(Generate *x, GenerationAsk *ask) {
  const Session *s = x->s;
  const Graph *g = s->model->graph;
  const OptionUse *logits = option_use(s->opt, OPTION_LOGITS);
  LanguageModel lm;
  ask->logits = logits ? logits->text : NULL;
  ask->at = logits ? logits->pos : (Pos){0};
  if (!language_model_find(s->model, ask->logits, ask->at, &lm)) return false;
  const char *path;
  const DataSource *source = generation_source(s, &lm, &path);
  return generate_codec(x, source, path, dim_get(g->dims, lm.vocab)->size) &&
         generate_options(x, g->spec.seed);
}

// Sets what the programs depend on: the number and the lengths of the texts.
static void ask_for(const Texts *x, GenerationAsk *ask) {
  ask->rows = x->beams ? x->beams : x->n;
  ask->together = INT64_MAX;
  for (uint32_t i = 0; i < x->n; i++) {
    int64_t n = x->prompt[i].n;
    if (n < ask->together) ask->together = n;
    if (n + x->most > ask->total) ask->total = n + x->most;
  }
}

int cmd_generate(Session *s) {
  if (package_given(s)) return generate_package(s);
  Generate x = {.s = s};
  Generation g = {0};
  GenerationAsk ask = {0};
  bool good = values_check(s) && session_load(s) && read_options(&x, &ask);
  if (good) ask_for(&x.texts, &ask);
  if (good && generation_open(s, &ask, NULL, &g)) (void)!generate_texts(&x, &g.decoder);
  generate_free(&x);
  generation_free(&g);
  return 0;
}

// What generates text with a model from a text: its decoding form, which shares the parameters of
// the model's other programs, and the vocabulary of its data.
#include "frontend/library/library_internal.h"

static bool open_vocabulary(CompiledModel *m, const DataSource *source, const char *path) {
  const DataSource none = {0};
  if (path && !m->vocabulary)
    m->vocabulary = vocabulary_open(path, m->s.diag, (source ? source : &none)->pos);
  return !path || m->vocabulary;
}

bool library_text(meshc_model *model, LibraryText *out) {
  CompiledModel *m = library_model_of(model);
  Generation *g = &m->generation;
  const GenerationAsk ask = {.rows = 1, .shares = true};
  const meshc_program *store = library_store(model);
  const char *path;
  if (!store) return false;
  if (!g->decoder.logits && !generation_open(&m->s, &ask, library_shared(model), g)) {
    generation_free(g);
    *g = (Generation){0};
    return false;
  }
  const DataSource *source = generation_source(&m->s, &g->plan.lm, &path);
  if (!open_vocabulary(m, source, path)) return false;
  *out = (LibraryText){&g->decoder, token_codec(source, m->vocabulary, g->decoder.vocab)};
  return true;
}

// The programs of a package that generate text: those of the decoding form for one text, over the
// whole context of the model; and the vocabulary of its ids.
#include "frontend/driver/package_internal.h"
#include "runtime/package/package.h"

#include <string.h>

// Sets what ids are: pieces of the vocabulary of --vocab or of the data, bytes, or numbers.
static bool choose_tokens(Session *s, const LanguageModel *lm, PackageText *x) {
  const OptionUse *use = option_use(s->opt, OPTION_VOCAB);
  const char *path;
  int kind;
  const DataSource *source = generation_source(s, lm, &path);
  if (!option_word(s->opt, OPTION_TOKENS, 2, token_kinds, s->diag, &kind)) return false;
  x->tokens =
      option_given(s->opt, OPTION_TOKENS) ? (TokenKind)kind : token_codec(source, NULL, 1).kind;
  if (use) path = use->text;
  if (!path || option_given(s->opt, OPTION_TOKENS)) return true;
  Pos at = use ? use->pos : source ? source->pos : (Pos){0};
  if (!vocabulary_files(s->arena, path, s->diag, at, x->file, &x->kind)) return false;
  Vocabulary *v = vocabulary_read(x->file, x->kind, s->diag, at); // that it can be read
  vocabulary_free(v);
  x->tokens = TOKEN_PIECES;
  return v != NULL;
}

static void add_part(PackagePlan *plan, const char *name, const Graph *g) {
  plan->part[plan->nparts++] = (PackagePart){.name = name, .of = {.purpose = "eval", .graph = g}};
}

bool package_text_parts(Session *s, PackagePlan *plan) {
  const OptionUse *logits = option_use(s->opt, OPTION_LOGITS);
  const GenerationAsk ask = {
      .logits = logits ? logits->text : NULL, .at = logits ? logits->pos : (Pos){0}, .rows = 1};
  GenerationPlan g;
  if (!generation_plan(s, &ask, &g) || !choose_tokens(s, &g.lm, &plan->text)) return false;
  plan->text.facts = g.facts;
  add_part(plan, PACKAGE_GENERATE, g.step);
  if (g.chunk) add_part(plan, PACKAGE_PROMPT, g.chunk);
  return true;
}

json_t *package_text_json(const PackageText *x) {
  json_t *out = json_object(), *kept = json_array(), *files = json_array();
  if (x->facts.rows) json_object_set_new(out, "rows", json_text(x->facts.rows));
  json_object_set_new(out, "time", json_text(x->facts.time));
  if (x->facts.context < INT64_MAX)
    json_object_set_new(out, "context", json_integer(x->facts.context));
  for (uint32_t i = 0; i < x->facts.nkept; i++) {
    const DecodeKept *k = &x->facts.kept[i];
    json_array_append_new(kept, json_pack("{s:o, s:o, s:i}", "state", json_text(k->state), "rows",
                                          json_text(k->rows), "axis", k->axis));
  }
  json_object_set_new(out, "kept", kept);
  json_object_set_new(out, "tokens", json_string(token_kinds[x->tokens]));
  for (int i = 0; x->kind && i < x->kind->n; i++)
    json_array_append_new(files, json_string(x->kind->name[i]));
  json_object_set_new(out, "vocabulary", files);
  return out;
}

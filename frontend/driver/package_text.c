// The programs of a package that generate text: those of the decoding form for one text, and with
// --rows for several, over the whole context of the model; and the vocabulary of its ids.
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

static void add_part(PackagePlan *plan, const char *name, const Graph *g, const char *over) {
  plan->part[plan->nparts++] =
      (PackagePart){.name = name, .of = {.purpose = "eval", .graph = g, .over = over}};
}

// Adds the programs of `rows` texts at a time. Returns false after an error.
static bool add_programs(Session *s, int64_t rows, PackagePlan *plan, GenerationPlan *g) {
  const OptionUse *logits = option_use(s->opt, OPTION_LOGITS);
  const GenerationAsk ask = {
      .logits = logits ? logits->text : NULL, .at = logits ? logits->pos : (Pos){0}, .rows = rows};
  if (!generation_plan(s, &ask, g)) return false;
  add_part(plan, rows > 1 ? PACKAGE_GENERATE_ROWS : PACKAGE_GENERATE, g->step, g->over);
  if (g->chunk) add_part(plan, rows > 1 ? PACKAGE_PROMPT_ROWS : PACKAGE_PROMPT, g->chunk, NULL);
  return true;
}

bool package_text_parts(Session *s, PackagePlan *plan) {
  GenerationPlan one, several;
  PackageText *x = &plan->text;
  if (!option_integer(s->opt, OPTION_ROWS, 1, 1, PACKAGE_ROWS, s->diag, &x->texts) ||
      !add_programs(s, 1, plan, &one) || !choose_tokens(s, &one.lm, x))
    return false;
  x->facts = one.facts;
  if (x->texts == 1) return true;
  if (!add_programs(s, x->texts, plan, &several)) return false;
  x->several = several.facts;
  return true;
}

static json_t *facts_json(const DecoderFacts *f) {
  json_t *out = json_object(), *kept = json_array();
  if (f->rows) json_object_set_new(out, "rows", json_text(f->rows));
  json_object_set_new(out, "time", json_text(f->time));
  if (f->context < INT64_MAX) json_object_set_new(out, "context", json_integer(f->context));
  for (uint32_t i = 0; i < f->nkept; i++) {
    const DecodeKept *k = &f->kept[i];
    json_array_append_new(kept, json_pack("{s:o, s:o, s:i}", "state", json_text(k->state), "rows",
                                          json_text(k->rows), "axis", k->axis));
  }
  json_object_set_new(out, "kept", kept);
  return out;
}

json_t *package_text_json(const PackageText *x) {
  json_t *out = facts_json(&x->facts), *files = json_array();
  if (x->texts > 1) {
    json_t *several = facts_json(&x->several);
    json_object_set_new(several, "texts", json_integer(x->texts));
    json_object_set_new(out, "several", several);
  }
  json_object_set_new(out, "tokens", json_string(token_kinds[x->tokens]));
  for (int i = 0; x->kind && i < x->kind->n; i++)
    json_array_append_new(files, json_string(x->kind->name[i]));
  json_object_set_new(out, "vocabulary", files);
  return out;
}

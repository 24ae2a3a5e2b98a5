// What a package says about the text that it generates, and the decoder of its programs
// (package_text.h).
#include "runtime/package/package_text.h"
#include "runtime/package/package_internal.h"

#include <stdlib.h>
#include <string.h>

static const char *text_of(Arena *a, const json_t *x, const char *key) {
  const char *text = json_string_value(json_object_get(x, key));
  return text ? arena_text(a, text, strlen(text)) : NULL;
}

static bool read_kept(Arena *a, const json_t *list, DecoderFacts *f) {
  DecodeKept *kept = arena_array(a, DecodeKept, json_array_size(list) + 1);
  f->kept = kept;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *x = json_array_get(list, i);
    const json_int_t axis = json_integer_value(json_object_get(x, "axis"));
    DecodeKept *k = &kept[f->nkept++];
    *k = (DecodeKept){text_of(a, x, "state"), text_of(a, x, "rows"), (int)axis};
    if (!k->state || !k->rows || axis < 0 || axis >= MAX_RANK) return false;
  }
  return true;
}

static bool read_tokens(const json_t *x, PackageTextFacts *out) {
  const char *tokens = json_string_value(json_object_get(x, "tokens"));
  const char *file = json_string_value(json_array_get(json_object_get(x, "vocabulary"), 0));
  int kind = 0;
  while (kind <= TOKEN_PIECES && (!tokens || strcmp(tokens, token_kinds[kind]) != 0)) kind++;
  out->tokens = (TokenKind)kind;
  out->kind = file ? vocabulary_kind(file) : NULL;
  return kind <= TOKEN_PIECES && (kind == TOKEN_PIECES) == (out->kind != NULL);
}

static bool read_facts(Arena *a, const json_t *x, DecoderFacts *f) {
  const json_t *context = json_object_get(x, "context");
  f->rows = text_of(a, x, "rows");
  f->time = text_of(a, x, "time");
  f->context = context ? json_integer_value(context) : INT64_MAX;
  return f->time && f->context > 0 && read_kept(a, json_object_get(x, "kept"), f);
}

const PackageTextFacts *package_text_read(Arena *a, const json_t *x) {
  PackageTextFacts *out = arena_new_of(a, PackageTextFacts);
  const json_t *several = json_object_get(x, "several");
  out->texts = several ? json_integer_value(json_object_get(several, "texts")) : 1;
  bool good = out->texts > 0 && read_facts(a, x, &out->decoder) && read_tokens(x, out) &&
              (!several || read_facts(a, several, &out->several));
  return good ? out : NULL;
}

// -- the decoder ---------------------------------------------------------------------------------

static bool open_vocabulary(Arena *a, const Package *p, Diag *d, PackageGenerator *g) {
  const VocabularyKind *kind = p->text->kind;
  VocabularyFile file[VOCABULARY_FILES];
  for (int i = 0; kind && i < kind->n; i++) {
    size_t n;
    const char *bytes = source_file(a, p->source, kind->name[i], &n, d);
    file[i] = (VocabularyFile){arena_printf(a, "%s/%s", p->path, kind->name[i]), bytes, n};
    if (!bytes) return false;
  }
  if (kind) g->vocabulary = vocabulary_read(file, kind, d, (Pos){0});
  g->codec = token_codec(NULL, g->vocabulary, g->decoder.vocab);
  g->codec.kind = p->text->tokens;
  return !kind || g->vocabulary;
}

// The programs with which texts are made, and what is said about them.
typedef struct TextPrograms {
  const PackageProgram *step, *chunk; // chunk: NULL if there is none
  const DecoderFacts *facts;
} TextPrograms;

static TextPrograms choose_programs(const Package *p, const PackageTextAsk *ask) {
  bool several = p->text->texts > 1 && !ask->step && (ask->prompts > 1 || ask->beams > 1);
  return (TextPrograms){
      package_program(p, several ? PACKAGE_GENERATE_ROWS : PACKAGE_GENERATE),
      package_program(p, several ? PACKAGE_PROMPT_ROWS : PACKAGE_PROMPT),
      several ? &p->text->several : &p->text->decoder,
  };
}

static bool open_programs(Arena *a, const Package *p, const ExecOptions *options,
                          const TextPrograms *use, Diag *d, PackageGenerator *g) {
  ExecOptions with = *options;
  if (!g->step) {
    g->own_step = true;
    g->step = package_exec(use->step, options, d);
    if (!g->step || !package_load(p, &use->step->program, g->step, d)) return false;
  }
  with.share = g->step;
  if (use->chunk) g->chunk = package_exec(use->chunk, &with, d);
  if (use->chunk && !g->chunk) return false;
  const DecoderProgram one = {.program = &use->step->program, .exec = g->step},
                       many = {.program = use->chunk ? &use->chunk->program : NULL,
                               .exec = g->chunk};
  char why[DECODER_WHY];
  return decoder_open(a, use->facts, &one, &many, d, why, &g->decoder) ||
         package_damaged(p->source, PACKAGE_FILE, why, d);
}

static bool rows_suffice(const Package *p, const PackageTextAsk *ask, Diag *d) {
  if (ask->beams <= p->text->texts) return true;
  diag_error(d, DIAG_UNAVAILABLE, (Pos){0},
             "the package %s makes %lld text%s at a time, and the search has %lld beams", p->path,
             (long long)p->text->texts, plural(p->text->texts), (long long)ask->beams);
  return diag_hint(d, "compile the model with --rows %lld", (long long)ask->beams);
}

bool package_generator_open(Arena *a, const Package *p, const ExecOptions *options,
                            const PackageTextAsk *ask, Diag *d, PackageGenerator *out) {
  *out = (PackageGenerator){.step = ask->step};
  TextPrograms use = p->text ? choose_programs(p, ask) : (TextPrograms){0};
  if (use.step)
    return rows_suffice(p, ask, d) && open_programs(a, p, options, &use, d, out) &&
           open_vocabulary(a, p, d, out);
  diag_error(d, DIAG_UNAVAILABLE, (Pos){0}, "the package %s generates no text", p->path);
  return diag_hint(d, "compile the model with --for generate");
}

void package_generator_free(PackageGenerator *g) {
  decoder_free(&g->decoder);
  vocabulary_free(g->vocabulary);
  exec_free(g->chunk); // first: it uses the tensors of g->step
  if (g->own_step) exec_free(g->step);
  *g = (PackageGenerator){0};
}

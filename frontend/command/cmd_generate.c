// The command generate: text from a causal language model. Input: a model, its parameters, prompts.
// Output: the texts, as they are made, or JSON.
//
// All prompts are rows of one batch at one position: the ids that the shortest prompt has are run
// at once. After that each run is one position: a row whose prompt goes on takes its next id, any
// other row the id that its logits give.
#include "frontend/command/generate_internal.h"

#include <stdlib.h>
#include <string.h>

static int64_t shortest(const Generate *x) {
  int64_t n = INT64_MAX;
  for (uint32_t r = 0; r < x->nprompts; r++)
    if (x->prompt[r].n < n) n = x->prompt[r].n;
  return n;
}

static int64_t longest(const Generate *x) {
  int64_t n = 0;
  for (uint32_t r = 0; r < x->nprompts; r++)
    if (x->prompt[r].n > n) n = x->prompt[r].n;
  return n;
}

// Returns false after an error: a prompt does not fit the context.
static bool fits(const Generate *x) {
  if (longest(x) <= x->g.context) return true;
  const char *time = dim_get(x->g.model->graph->dims, x->g.lm.time)->name;
  diag_error(x->s->diag, DIAG_USAGE, (Pos){0},
             "a prompt has %lld ids, and the context of the model is %s = %lld",
             (long long)longest(x), time, (long long)x->g.context);
  return diag_hint(x->s->diag,
                   "shorten the prompt, or say --set %s=%lld if no parameter has the dim %s", time,
                   (long long)longest(x), time);
}

static void make_texts(Generate *x) {
  x->text = arena_array(x->s->arena, GeneratedText, x->nprompts);
  for (uint32_t r = 0; r < x->nprompts; r++) {
    GeneratedText *t = &x->text[r];
    *t = (GeneratedText){.prompt = x->prompt[r].n, .n = x->prompt[r].n};
    t->room = t->n + x->most;
    t->id = arena_array(x->s->arena, int32_t, t->room);
    memcpy(t->id, x->prompt[r].id, (size_t)t->n * sizeof *t->id);
  }
}

static bool not_finite(const Generate *x, int64_t row) {
  diag_error(x->s->diag, DIAG_NOT_FINITE, (Pos){0},
             "a logit of position %lld of text %lld is NaN, or none is finite",
             (long long)x->g.position, (long long)row + 1);
  return diag_hint(x->s->diag, "check the parameters: --params or --checkpoint");
}

bool generate_begin(Generate *x, uint32_t first, int64_t n) {
  int64_t rows = x->g.rows;
  int32_t *ids = arena_array(x->s->arena, int32_t, rows * n);
  for (int64_t r = 0; r < rows; r++)
    memcpy(&ids[r * n], x->prompt[x->beams ? first : r].id, (size_t)n * sizeof *ids);
  double start = clock_seconds();
  bool good = generation_run(&x->g, n, ids, n);
  x->first_seconds += clock_seconds() - start;
  return good;
}

// Sets *id to the next id of row r: of its prompt, or the one that its logits give, which is
// appended to its text. Returns false after an error.
static bool next_id(Generate *x, uint32_t r, int32_t *id) {
  GeneratedText *t = &x->text[r];
  int64_t position = x->g.position, bytes = x->g.vocab * dtype_bytes(x->g.type);
  *id = 0;
  if (t->end) return true;
  if (position < t->prompt) return *id = t->id[position], true;
  *id = sampler_next(x->sampler, x->g.type, (const char *)x->g.logits + r * bytes, r, position);
  if (*id < 0) return not_finite(x, r);
  generate_append(x, t, *id);
  x->timed++;
  return true;
}

static bool all_ended(const Generate *x) {
  for (uint32_t r = 0; r < x->nprompts; r++)
    if (!x->text[r].end) return false;
  return true;
}

static bool go_on(Generate *x) {
  int32_t *ids = arena_array(x->s->arena, int32_t, x->nprompts);
  double start = clock_seconds();
  for (bool good = true; good;) {
    for (uint32_t r = 0; r < x->nprompts && good; r++) good = next_id(x, r, &ids[r]);
    if (!good) return false;
    if (x->g.position >= x->g.context) generate_context_ends(x);
    if (!generate_show(x)) return false;
    if (all_ended(x)) break;
    if (!generation_run(&x->g, 1, ids, 1)) return false;
  }
  x->seconds += clock_seconds() - start;
  return true;
}

static bool open(Generate *x) {
  const OptionUse *logits = option_use(x->s->opt, OPTION_LOGITS);
  GenerationAsk ask = {.logits = logits ? logits->text : NULL,
                       .at = logits ? logits->pos : (Pos){0},
                       .rows = x->beams ? x->beams : x->nprompts,
                       .together = shortest(x),
                       .total = longest(x) + x->most};
  if (!generation_open(x->s, &ask, &x->g) || !fits(x)) return false;
  x->sampler = sampler_new(&x->sampling, x->g.vocab);
  make_texts(x);
  return true;
}

static void say_rate(const Generate *x) {
  if (!option_given(x->s->opt, OPTION_VERBOSE) || !session_first(x->s)) return;
  fprintf(stderr, "meshc: prompts in %s, then %lld ids in %s: %.1f ids/s\n",
          seconds_text(x->s->arena, x->first_seconds), (long long)x->timed,
          seconds_text(x->s->arena, x->seconds), (double)x->timed / x->seconds);
}

int cmd_generate(Session *s) {
  Generate x = {.s = s};
  bool good = values_check(s) && session_load(s) && generate_options(&x) && open(&x) &&
              (x.beams ? generate_beams(&x) : generate_begin(&x, 0, shortest(&x)) && go_on(&x)) &&
              exec_check(x.g.step.exec, s->diag);
  if (good) say_rate(&x);
  if (good && session_first(s) && option_given(s->opt, OPTION_JSON)) generate_json(&x);
  sampler_free(x.sampler);
  vocabulary_free(x.vocabulary);
  generation_free(&x.g);
  return 0;
}

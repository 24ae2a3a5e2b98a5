// Selects the graph that --for, --fetch and --training ask for, which check, dump and explain
// describe. Input: the loaded model. Output: a graph for session_compile.
#include "frontend/driver/asynchronous.h"
#include "frontend/step/decode.h"

#include <string.h>

static const char *const purposes[] = {"", "train", "eval", "run", "generate"};

typedef VEC(const char *) NameList;

// Splits a list of names at commas that are not inside parentheses.
static void split_names(const Session *s, const char *text, NameList *names) {
  int depth = 0;
  for (const char *from = text, *c = from;; c++) {
    depth += (*c == '(') - (*c == ')');
    if (*c && (*c != ',' || depth > 0)) continue;
    const char *end = c;
    while (from < end && *from == ' ') from++;
    while (end > from && end[-1] == ' ') end--;
    if (end > from) vec_push(s->arena, *names) = intern_n(s->names, from, (size_t)(end - from));
    if (!*c) break;
    from = c + 1;
  }
}

Fetch session_fetch(const Session *s) {
  const OptionUse *use = option_use(s->opt, OPTION_FETCH);
  Fetch f = {.loss = option_text(s->opt, OPTION_LOSS),
             .training = option_given(s->opt, OPTION_TRAINING)};
  if (f.loss) f.loss_pos = option_use(s->opt, OPTION_LOSS)->pos;
  NameList names = {0};
  if (!use) return f;
  f.pos = use->pos;
  for (uint32_t i = 0; i < s->opt->use[OPTION_FETCH].n; i++)
    split_names(s, s->opt->use[OPTION_FETCH].at[i].text, &names);
  f.name = (const char *const *)names.at;
  f.n = names.n;
  return f;
}

static bool names_results(const Graph *g) {
  for (uint32_t i = 0; i < g->name.n; i++)
    if (g->name.at[i].kind == NAME_OUTPUT || g->name.at[i].kind == NAME_METRIC) return true;
  return false;
}

// Returns f with all values added that the model file binds, for a model without outputs, loss and
// metrics.
static Fetch all_values(const Session *s, Fetch f) {
  const Graph *g = s->model->graph;
  const char **names = arena_array(s->arena, const char *, g->name.n + 1);
  for (uint32_t i = 0; i < g->name.n; i++)
    if (g->name.at[i].kind == NAME_VALUE && !strchr(g->name.at[i].name, '.'))
      names[f.n++] = g->name.at[i].name;
  f.name = names;
  return f;
}

Fetch session_evaluated(const Session *s) {
  const Graph *g = s->model->graph;
  const char **names = arena_array(s->arena, const char *, g->name.n + 1);
  Fetch f = {.name = (const char *const *)names};
  if (s->model->loss) names[f.n++] = s->model->loss;
  for (uint32_t i = 0; i < g->name.n; i++)
    if (g->name.at[i].kind == NAME_METRIC) names[f.n++] = g->name.at[i].name;
  return f;
}

// Returns the graph of the evaluation over a data block, and sets *over to the batch dim of this
// block. Without a data block returns the graph of loss and metrics of one batch and leaves *over
// unchanged. Returns NULL after an error.
static Graph *select_eval_of(Session *s, const char **over) {
  uint32_t n;
  EvalMetric *metric;
  const DataBlock *block = s->model->graph->spec.data;
  Fetch batch = session_evaluated(s);
  for (int k = 0; k < DATA_BLOCKS; k++)
    if (block[k].present) *over = data_over(s, (BlockKind)k);
  if (*over) return select_eval(s->arena, s->model, &n, &metric);
  if (batch.n) return select_run(s->arena, s->model, &batch);
  diag_error(s->diag, DIAG_UNKNOWN_FETCH, (Pos){0},
             "the model has no loss and no metric to evaluate");
  return NULL;
}

// Returns the graph that --fetch, --loss and --training ask for, or NULL after an error.
static Graph *select_fetched(Session *s) {
  Fetch fetch = session_fetch(s);
  if (!fetch.n && !s->model->loss && !names_results(s->model->graph)) {
    fetch = all_values(s, fetch);
    if (!fetch.n) return graph_like(s->arena, s->model->graph, STAGE_GRAD);
  }
  return select_run(s->arena, s->model, &fetch);
}

// Returns the graph of a decoding run of one position, whose states keep all positions of the
// model's context. *over gets the dim of which it runs as many positions as there are, or NULL.
// Returns NULL after an error.
static Graph *select_generated(Session *s, const char **over) {
  LanguageModel lm;
  DecodeFacts facts;
  if (!language_model_find(s->model, NULL, (Pos){0}, &lm)) return NULL;
  DecodeAsk ask = {
      .positions = 1, .context = dim_get(s->model->graph->dims, lm.time)->size, .narrow = true};
  Graph *g = select_decode(s->arena, s->model, &lm, &ask, &facts);
  if (g && !session_for_gpu(s)) *over = facts.growing;
  return g;
}

bool session_select(Session *s, Selected *out) {
  int word;
  bool block = s->model->graph->spec.ntrain > 0;
  if (!option_given(s->opt, OPTION_FOR)) {
    bool run = option_given(s->opt, OPTION_FETCH) || option_given(s->opt, OPTION_LOSS) ||
               option_given(s->opt, OPTION_TRAINING);
    word = block && !run ? 1 : 3;
  } else if (!option_word(s->opt, OPTION_FOR, countof(purposes), purposes, s->diag, &word)) {
    return false;
  }
  *out = (Selected){.purpose = purposes[word]};
  if (word == 1 && !block)
    return diag_error(s->diag, DIAG_NO_TRAIN_BLOCK, option_use(s->opt, OPTION_FOR)->pos,
                      "the model has no train block");
  out->graph = word == 1 && stale_given(s) ? stale_replica(s)
               : word == 1                 ? select_train(s->arena, s->model, NULL)
               : word == 2                 ? select_eval_of(s, &out->over)
               : word == 4                 ? select_generated(s, &out->over)
                                           : select_fetched(s);
  return out->graph != NULL;
}

bool session_make(Session *s, const char *last, Selected *of, Compilation *out) {
  return session_select(s, of) && session_compile(s, of->graph, of->purpose, of->over, last, out);
}

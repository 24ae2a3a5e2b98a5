// Selects, compiles and binds the programs of a decoding form (generation.h).
#include "frontend/driver/generation.h"

#include <string.h>

enum {
  LEAST_MANY = 8,   // positions: a shorter prompt is run one position at a time
  MOST_MANY = 128,  // positions of one run
  CONTEXT_STEP = 64 // states keep a multiple of so many positions
};

static int64_t size_of(const Model *m, DimId d) { return dim_get(m->graph->dims, d)->size; }

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

// Sets out->model to the model with ask->rows rows. Returns false after an error.
static bool choose_model(Session *s, const GenerationAsk *ask, GenerationPlan *out) {
  LanguageModel *lm = &out->lm;
  out->model = s->model;
  if (!language_model_find(out->model, ask->logits, ask->at, lm)) return false;
  if (!lm->rows && ask->rows > 1)
    return diag_error(s->diag, DIAG_USAGE, (Pos){0},
                      "the model has no batch dim: it takes one prompt at a time");
  if (!lm->rows || size_of(out->model, lm->rows) == ask->rows) return true;
  out->model = model_of_rows(s, dim_get(s->model->graph->dims, lm->rows)->name, ask->rows);
  return out->model && language_model_find(out->model, ask->logits, ask->at, lm);
}

static int64_t how_many(int64_t together) {
  int64_t many = LEAST_MANY;
  if (together < LEAST_MANY) return 1;
  while (many < together && many < MOST_MANY) many *= 2;
  return many;
}

// Selects the graph of a run of one position. States keep the positions that the texts need; all of
// the model where positions behind that of a run may count, as in a sum without a mask.
static const Graph *select_step(Session *s, GenerationPlan *p, int64_t total, DecodeAsk *one,
                                DecodeFacts *facts) {
  int64_t time = size_of(p->model, p->lm.time);
  one->context = total ? least(ceil_div(total, CONTEXT_STEP) * CONTEXT_STEP, time) : time;
  const Graph *g = select_decode(s->arena, p->model, &p->lm, one, facts);
  if (!g || one->context == time || !facts->nkept || facts->growing) return g;
  one->context = time;
  return select_decode(s->arena, p->model, &p->lm, one, facts);
}

bool generation_plan(Session *s, const GenerationAsk *ask, GenerationPlan *out) {
  DecodeFacts facts;
  *out = (GenerationPlan){0};
  if (!choose_model(s, ask, out)) return false;
  const DimTable *dims = out->model->graph->dims;
  int64_t time = size_of(out->model, out->lm.time);
  int64_t many = how_many(ask->together ? ask->together : least(time, MOST_MANY));
  DecodeAsk one = {.positions = 1, .narrow = !ask->shares}, more;
  out->step = select_step(s, out, ask->total, &one, &facts);
  if (!out->step) return false;
  out->over = session_for_gpu(s) ? NULL : facts.growing; // there each length is planned anew
  out->facts = (DecoderFacts){.rows = out->lm.rows ? dim_get(dims, out->lm.rows)->name : NULL,
                              .time = dim_get(dims, out->lm.time)->name,
                              .context = facts.bounded ? one.context : INT64_MAX,
                              .nkept = facts.nkept,
                              .kept = facts.kept};
  if (many == 1) return true;
  more = one;
  more.positions = many;
  more.partly = true;
  out->chunk = select_decode(s->arena, out->model, &out->lm, &more, &facts);
  return out->chunk != NULL;
}

static DecoderProgram program_of(const ProgramRun *p) {
  return (DecoderProgram){.program = p->exec ? p->made.compiled->program : NULL, .exec = p->exec};
}

bool generation_open(Session *s, const GenerationAsk *ask, const Exec *share, Generation *out) {
  int64_t before;
  char why[DECODER_WHY];
  *out = (Generation){.s = s};
  if (!generation_plan(s, ask, &out->plan)) return false;
  out->step.graph = out->plan.step;
  out->chunk.graph = out->plan.chunk;
  if (!program_open(s, "eval", out->plan.over, share, &out->step) ||
      (!share &&
       !values_load(s, out->step.exec, out->step.made.compiled->program, false, &before)) ||
      (out->chunk.graph && !program_open(s, "eval", NULL, out->step.exec, &out->chunk)))
    return false;
  DecoderProgram step = program_of(&out->step), chunk = program_of(&out->chunk);
  if (!decoder_open(s->arena, &out->plan.facts, &step, &chunk, s->diag, why, &out->decoder))
    BUG("a program of the decoding form %s", why);
  return session_same_files(s, true);
}

void generation_free(Generation *g) {
  decoder_free(&g->decoder);
  program_run_free(&g->chunk); // first: it uses the tensors of g->step
  program_run_free(&g->step);
}

const DataSource *generation_source(const Session *s, const LanguageModel *lm,
                                    const char **vocabulary) {
  const Graph *g = s->model->graph;
  const char *ids = g->decl.at[lm->ids - 1].name;
  const DataSource *source = NULL;
  for (int k = DATA_BLOCKS; k-- > 0;)
    for (uint32_t i = 0; g->spec.data[k].present && i < g->spec.data[k].nfields; i++)
      if (strcmp(g->spec.data[k].field[i].input, ids) == 0)
        source = &g->spec.data[k].field[i].source;
  *vocabulary = source ? source->vocabulary : NULL;
  if (*vocabulary && **vocabulary != '/')
    *vocabulary = arena_printf(s->arena, "%s/%s", s->directory, *vocabulary);
  return source;
}

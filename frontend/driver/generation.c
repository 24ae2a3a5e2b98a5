// Compiles and runs the decoding form of a language model (generation.h).
//
//   prompt of 100 ids     one run of the program for up to 128 positions, 100 of them valid
//   each further id       one run of the program for one position
#include "frontend/driver/generation.h"

#include "ir/program/decode_state.h"

#include <stdlib.h>
#include <string.h>

enum {
  LEAST_MANY = 8,   // positions: a shorter prompt is run one position at a time
  MOST_MANY = 128,  // positions of one run
  CONTEXT_STEP = 64 // states keep a multiple of so many positions
};

static int64_t size_of(const Model *m, DimId d) { return dim_get(m->graph->dims, d)->size; }

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

// -- the programs --------------------------------------------------------------------------------

// Sets g->model to the model with ask->rows rows. Returns false after an error.
static bool choose_model(Generation *g, const GenerationAsk *ask) {
  Session *s = g->s;
  LanguageModel *lm = &g->lm;
  g->model = s->model;
  if (!language_model_find(g->model, ask->logits, ask->at, lm)) return false;
  if (!lm->rows && ask->rows > 1)
    return diag_error(s->diag, DIAG_USAGE, (Pos){0},
                      "the model has no batch dim: it takes one prompt at a time");
  if (!lm->rows || size_of(g->model, lm->rows) == ask->rows) return true;
  g->model = model_of_rows(s, dim_get(s->model->graph->dims, lm->rows)->name, ask->rows);
  return g->model && language_model_find(g->model, ask->logits, ask->at, lm);
}

static int64_t how_many(int64_t together) {
  int64_t many = LEAST_MANY;
  if (together < LEAST_MANY) return 1;
  while (many < together && many < MOST_MANY) many *= 2;
  return many;
}

// Selects the graphs of both programs, before either is compiled. Returns false after an error.
static bool select_both(Generation *g, const GenerationAsk *ask) {
  DecodeFacts facts;
  int64_t time = size_of(g->model, g->lm.time);
  int64_t wanted = ceil_div(ask->total > 0 ? ask->total : 1, CONTEXT_STEP) * CONTEXT_STEP;
  DecodeAsk one = {.positions = 1, .context = least(wanted, time)}, more = one;
  g->many = how_many(ask->together);
  g->step.graph = select_decode(g->s->arena, g->model, &g->lm, &one, &facts);
  if (!g->step.graph) return false;
  g->kept = facts.kept;
  g->nkept = facts.nkept;
  g->context = facts.bounded ? time : INT64_MAX;
  if (g->many == 1) return true;
  more.positions = g->many;
  more.partly = true;
  g->chunk.graph = select_decode(g->s->arena, g->model, &g->lm, &more, &facts);
  return g->chunk.graph != NULL;
}

// Finds the tensors of states with a row for each position in a program. *most gets the bytes of
// the largest rows, if they are more.
static KeptRows *find_kept(const Generation *g, const ProgramRun *p, int64_t *most) {
  const Program *program = p->made.compiled->program;
  KeptRows *out = arena_array(g->s->arena, KeptRows, g->nkept + 1);
  for (uint32_t i = 0; i < g->nkept; i++) {
    const DecodeKept *k = &g->kept[i];
    out[i] = (KeptRows){(uint32_t)program_tensor(program, TENSOR_STATE, k->state),
                        (uint32_t)program_tensor(program, TENSOR_OUTPUT, k->rows), k->axis};
    const ProgTensor *rows = &program->tensor[out[i].rows];
    int64_t bytes = dtype_bytes(rows->type);
    for (int d = 0; d < rows->rank; d++) bytes *= rows->dim[d].whole;
    if (bytes > *most) *most = bytes;
  }
  return out;
}

bool generation_open(Session *s, const GenerationAsk *ask, Generation *out) {
  int64_t before, most = 1;
  *out = (Generation){.s = s, .rows = ask->rows, .many = 1};
  if (!choose_model(out, ask) || !select_both(out, ask) ||
      !program_open(s, "eval", NULL, NULL, &out->step) ||
      !values_load(s, out->step.exec, out->step.made.compiled->program, false, &before) ||
      (out->many > 1 && !program_open(s, "eval", NULL, out->step.exec, &out->chunk)))
    return false;
  const Program *p = out->step.made.compiled->program;
  out->type = p->tensor[program_tensor(p, TENSOR_OUTPUT, decode_logits)].type;
  out->vocab = size_of(out->model, out->lm.vocab);
  out->of_step = find_kept(out, &out->step, &most);
  if (out->many > 1) out->of_chunk = find_kept(out, &out->chunk, &most);
  out->room = mem_alloc((size_t)most);
  out->logits = mem_alloc((size_t)(out->rows * out->vocab * dtype_bytes(out->type)));
  out->ids = mem_alloc((size_t)(out->rows * out->many) * sizeof *out->ids);
  return session_same_files(s, true);
}

void generation_free(Generation *g) {
  program_run_free(&g->chunk); // first: it uses the tensors of g->step
  program_run_free(&g->step);
  free(g->logits);
  free(g->room);
  free(g->ids);
}

// -- running -------------------------------------------------------------------------------------

// Writes the rows that a run has output to the states.
static void keep_rows(Generation *g, const ProgramRun *p, const KeptRows *kept) {
  for (uint32_t i = 0; i < g->nkept; i++) {
    const KeptRows *k = &kept[i];
    const ProgTensor *rows = &p->made.compiled->program->tensor[k->rows];
    exec_read_tensor(p->exec, k->rows, g->room);
    exec_write_part(p->exec, k->state, k->axis, g->position,
                    rows->dim[rows->declared[k->axis]].whole, g->room);
  }
}

// Runs `valid` positions with a program for `positions` of them, whose ids are in g->ids.
static bool run_once(Generation *g, ProgramRun *p, int64_t valid) {
  int32_t position = (int32_t)g->position, count = (int32_t)valid;
  const Program *program = p->made.compiled->program;
  exec_write(p->exec, TENSOR_INPUT, decode_ids, TYPE_I32, g->ids);
  if (program_tensor(program, TENSOR_INPUT, decode_position) >= 0)
    exec_write(p->exec, TENSOR_INPUT, decode_position, TYPE_I32, &position);
  if (program_tensor(program, TENSOR_INPUT, decode_count) >= 0)
    exec_write(p->exec, TENSOR_INPUT, decode_count, TYPE_I32, &count);
  if (exec_step(p->exec, 0, true) != STEP_OK) {
    exec_fault(p->exec, g->s->diag);
    return false;
  }
  keep_rows(g, p, p == &g->chunk ? g->of_chunk : g->of_step);
  g->position += valid;
  exec_read(p->exec, TENSOR_OUTPUT, decode_logits, g->logits);
  return exec_works(p->exec, g->s->diag);
}

bool generation_run(Generation *g, int64_t n, const int32_t *ids, int64_t stride) {
  for (int64_t first = 0; first < n;) {
    bool chunk = g->many > 1 && n - first >= LEAST_MANY;
    int64_t positions = chunk ? g->many : 1, valid = least(positions, n - first);
    memset(g->ids, 0, (size_t)(g->rows * positions) * sizeof *g->ids);
    for (int64_t r = 0; r < g->rows; r++)
      memcpy(&g->ids[r * positions], &ids[r * stride + first], (size_t)valid * sizeof *ids);
    if (!run_once(g, chunk ? &g->chunk : &g->step, valid)) return false;
    first += valid;
  }
  return true;
}

void generation_restart(Generation *g) { g->position = 0; }

// -- beams ---------------------------------------------------------------------------------------

// Copies the rows of tensor t, of which `axis` runs over rows, from `old` to `new`.
static void take_rows(const ProgTensor *t, int axis, const int64_t *source, const char *old,
                      char *new) {
  int64_t outer = 1, inner = dtype_bytes(t->type), rows = t->dim[t->declared[axis]].whole;
  for (int i = 0; i < axis; i++) outer *= t->dim[t->declared[i]].whole;
  for (int i = axis + 1; i < t->rank; i++) inner *= t->dim[t->declared[i]].whole;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t r = 0; r < rows; r++)
      memcpy(new + (o * rows + r) * inner, old + (o * rows + source[r]) * inner, (size_t)inner);
}

static int axis_of_rows(const Generation *g, const ProgTensor *t) {
  const char *rows = dim_get(g->model->graph->dims, g->lm.rows)->name;
  for (int i = 0; i < t->rank; i++)
    if (strcmp(t->dim[t->declared[i]].name, rows) == 0) return i;
  return -1;
}

static bool reorder_state(Generation *g, const ProgTensor *t, const int64_t *source) {
  int axis = axis_of_rows(g, t);
  if (axis < 0) return true;
  int64_t bytes = dtype_bytes(t->type);
  for (int i = 0; i < t->rank; i++) bytes *= t->dim[i].whole;
  char *old = mem_alloc((size_t)bytes), *new = mem_alloc((size_t)bytes);
  exec_read(g->step.exec, TENSOR_STATE, t->name, old);
  take_rows(t, axis, source, old, new);
  exec_write(g->step.exec, TENSOR_STATE, t->name, t->type, new);
  free(old);
  free(new);
  return exec_works(g->step.exec, g->s->diag);
}

bool generation_reorder(Generation *g, const int64_t *source) {
  const Program *p = g->step.made.compiled->program;
  bool same = true, good = true;
  for (int64_t r = 0; r < g->rows; r++) same = same && source[r] == r;
  for (uint32_t i = 0; i < p->ntensors && !same && good; i++)
    if (tensor_is_of_text(&p->tensor[i])) good = reorder_state(g, &p->tensor[i], source);
  return good;
}

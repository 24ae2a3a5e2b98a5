// Finds the cost of the step without each rule, without each layout(...), and with changed layouts.
// See what_if.h.
#include "frontend/report/what_if_internal.h"

enum {
  MOST_CAUSES = 64,      // rules and layout(...) that can be left out together: bits of a set
  NODES_AT_ONCE = 200000 // nodes of all graphs that are compiled at the same time, about
};

// -- comparing ----------------------------------------------------------------------------------

enum { SAME_TIME = 1000000 }; // times that differ by less than this part of them count as equal

static bool slower(const Foreseen *now, const Foreseen *step) {
  return step->time->seconds > now->time->seconds * (1 + 1.0 / SAME_TIME);
}

bool what_if_worse(const Foreseen *now, const Foreseen *step) {
  return slower(now, step) || step->peak > now->peak;
}

bool what_if_helps(const Foreseen *now, const Foreseen *step) {
  bool faster = step->time->seconds < 0.998 * now->time->seconds,
       smaller = (double)step->peak < 0.99 * (double)now->peak;
  return (faster || smaller) && !what_if_worse(now, step);
}

bool what_if_equal(const Foreseen *now, const Foreseen *step) {
  return now->calls == step->calls && now->bytes == step->bytes && now->kept == step->kept &&
         now->work.flops == step->work.flops && now->peak == step->peak && !slower(now, step) &&
         !slower(step, now);
}

// -- answering ----------------------------------------------------------------------------------

Session what_if_session(const Session *s, Arena *a) {
  Session own = session_of_job(s, a);
  own.known = NULL;
  own.trial = true;
  return own;
}

// Gives session s the model without n layout(...), and selects the graph of it. Returns false after
// an error.
static bool select_without(Session *s, uint32_t n, const Pos *pin, Selected *of) {
  ModelOptions options = s->options;
  options.nunpinned = n;
  options.unpinned = pin;
  s->model = model_build(s->arena, s->names, s->diag, s->ast, &options);
  return s->model && (!train_counts_epochs(s->model) || train_resolve_epochs(s->model, 1)) &&
         session_select(s, of);
}

// Compiles the step under mesh and layout, and sets x->known to whether the layout is valid.
static void answer(const Question *q) {
  const Asker *k = q->k;
  Session own = what_if_session(k->s, q->arena);
  Selected of = k->simple.graph ? k->simple : *k->of;
  own.simplified = k->simple.graph && !q->npins;
  q->x->step.choice = (SearchChoice){.mesh = q->mesh, .layout = q->layout};
  if (q->npins && !select_without(&own, q->npins, q->pin, &of)) return;
  const Graph *g = own.model->graph;
  Graph model = graph_with_dims(q->arena, g, dim_table_whole(q->arena, g->dims));
  model.mesh = q->mesh;
  q->x->known = layout_check(&model, &q->layout, own.diag) && foresee_step(&own, &of, &q->x->step);
}

static void run_question(void *question) {
  const Question *q = question;
  Pair *p = q->pair;
  answer(q);
  if (!p || atomic_fetch_sub(&p->left, 1) > 1 || !p->together) return;
  bool alone = false;
  for (int i = 0; i < 2; i++) {
    const WhatIf *x = p->alone[i]->x;
    alone |= x->known && what_if_helps(&q->k->w->now, &x->step);
  }
  if (!alone) what_if_ask(p->together);
}

// -- asking -------------------------------------------------------------------------------------

Arena *what_if_arena(Asker *k) { return vec_push(k->s->arena, k->memory) = arena_new(); }

void what_if_ask(Question *q) {
  q->job = (Job){.work = run_question, .context = q};
  jobs_add(q->k->jobs, &q->job);
}

// Returns a question about the step itself.
static Question *question_new(Asker *k, WhatIf *x) {
  Question *q = arena_new_of(k->s->arena, Question);
  *q = (Question){.k = k,
                  .arena = what_if_arena(k),
                  .mesh = &k->s->model->mesh,
                  .layout = k->s->model->layout,
                  .x = x};
  return q;
}

// Returns the layout of the model without rules: bit i of `gone` for rule i.
static Layout layout_without(const Session *s, uint64_t gone) {
  const Layout *from = &s->model->layout;
  Layout out = {.rule = arena_array(s->arena, LayoutRule, from->n + 1)};
  for (uint32_t i = 0; i < from->n; i++)
    if (i >= MOST_CAUSES || !(gone >> i & 1)) out.rule[out.n++] = from->rule[i];
  return out;
}

static void ask_without_rule(Asker *k, uint32_t i) {
  Arena *a = k->s->arena;
  const Layout *from = &k->s->model->layout;
  Question *q = question_new(k, &k->w->without[i]);
  q->layout = (Layout){.rule = arena_array(a, LayoutRule, from->n)};
  for (uint32_t r = 0; r < from->n; r++)
    if (r != i) q->layout.rule[q->layout.n++] = from->rule[r];
  *q->x =
      (WhatIf){.kind = "without", .text = layout_rule_text(a, &k->s->model->mesh, &from->rule[i])};
  what_if_ask(q);
}

static bool same_place(Pos x, Pos y) {
  return x.line == y.line && x.col == y.col && x.source == y.source;
}

static void list_pins(Asker *k) {
  const Graph *g = k->s->model->graph;
  Arena *a = k->s->arena;
  VEC(PinPlace) list = {0};
  for (NodeId n = 1; n <= graph_count(g); n++) {
    Pos pos = graph_node(g, n)->origin->pos;
    bool seen = graph_node(g, n)->op != OP_PIN;
    for (uint32_t i = 0; i < list.n; i++) seen |= same_place(list.at[i].pos, pos);
    if (!seen)
      vec_push(a, list) = (PinPlace){pos, graph_node(g, n)->attr->axes,
                                     arena_printf(a, "layout(...) at line %u", pos.line)};
  }
  k->w->pin = list.at;
  k->w->npins = list.n;
}

static void ask_without_pin(Asker *k, uint32_t pin) {
  Question *q = question_new(k, &k->w->without[k->w->nrules + pin]);
  *q->x = (WhatIf){.kind = "without", .text = k->w->pin[pin].text};
  q->npins = 1;
  q->pin = &k->w->pin[pin].pos;
  what_if_ask(q);
}

// Asks what the step costs with as many processors along the axis of `b` as there are blocks. With
// several axes it is not clear which of them is to be shorter.
static void ask_fewer(Asker *k, const IdleBlocks *b, WhatIf *x) {
  Arena *a = k->s->arena;
  *x = (WhatIf){.kind = "fewer"};
  if (b->axes.n != 1) return;
  Question *q = question_new(k, x);
  Mesh *mesh = arena_new_of(a, Mesh);
  *mesh = k->s->model->mesh;
  mesh->axis[b->axes.at[0]].size = b->used;
  x->text = arena_printf(a, "%s = %lld", mesh->axis[b->axes.at[0]].name, (long long)b->used);
  q->mesh = mesh;
  what_if_ask(q);
}

static void ask_idle(Asker *k) {
  WhatIfs *w = k->w;
  w->idle = idle_blocks(k->s->arena, k->made->lowered, &w->nidle);
  w->fewer = arena_array(k->s->arena, WhatIf, w->nidle + 1);
  for (uint32_t i = 0; i < w->nidle; i++) ask_fewer(k, &w->idle[i], &w->fewer[i]);
}

// -- all of them --------------------------------------------------------------------------------

static Asker asker_of(Session *s, const Selected *of, const Compilation *made, WhatIfs *w) {
  Asker k = {.s = s, .made = made, .of = of, .simple = *of, .w = w};
  k.simple.graph = w->simplified;
  return k;
}

// Returns the number of threads that compile.
static int threads_of(const Session *s, const Selected *of) {
  int threads = session_threads(s), most = 1 + NODES_AT_ONCE / ((int)graph_count(of->graph) + 1);
  return threads < most ? threads : most;
}

// Runs the jobs, and gives their memory to the session.
static void answer_all(Asker *k) {
  jobs_run(k->jobs);
  for (uint32_t i = 0; i < k->memory.n; i++) arena_join(k->s->arena, k->memory.at[i]);
}

WhatIfs *what_ifs(Session *s, const Selected *of, const Compilation *made, WhatIfAsk ask) {
  WhatIfs *w = arena_new_of(s->arena, WhatIfs);
  WhatIfDepth depth = ask.depth;
  w->simplified = made->simplified;
  Asker k = asker_of(s, of, made, w);
  if (!foresee_made(s, made, &w->now)) return NULL;
  if (mesh_size(&s->model->mesh) < 2 || option_given(s->opt, OPTION_EXACT))
    depth = depth < WHAT_IF_RULES ? depth : WHAT_IF_RULES;
  k.jobs = jobs_new(s->arena, threads_of(s, of));
  // The longest first: then all threads have work to the end.
  BudgetJob *budget = ask.budget ? what_if_budget(&k) : NULL;
  MovesJob *moves = depth >= WHAT_IF_BEST ? what_if_moves(&k, depth) : NULL;
  if (depth >= WHAT_IF_PINS) list_pins(&k);
  w->nrules = s->model->layout.n;
  w->without = arena_array(s->arena, WhatIf, w->nrules + w->npins + 1);
  for (uint32_t i = 0; depth >= WHAT_IF_RULES && i < w->nrules; i++) ask_without_rule(&k, i);
  for (uint32_t i = 0; i < w->npins; i++) ask_without_pin(&k, i);
  if (depth >= WHAT_IF_BEST) ask_idle(&k);
  answer_all(&k);
  if (moves) what_if_tried(&k, moves);
  return what_if_budget_good(budget) ? w : NULL;
}

WhatIf what_if_without_several(Session *s, const Selected *of, WhatIfs *w, uint64_t causes) {
  Asker k = asker_of(s, of, NULL, w);
  WhatIf x = {.kind = "without", .text = "several"};
  Pos pin[MOST_CAUSES];
  uint32_t n = 0;
  for (uint32_t i = 0; i < w->npins && w->nrules + i < MOST_CAUSES; i++)
    if (causes >> (w->nrules + i) & 1) pin[n++] = w->pin[i].pos;
  answer(&(Question){.k = &k,
                     .arena = s->arena,
                     .mesh = &s->model->mesh,
                     .layout = layout_without(s, causes),
                     .npins = n,
                     .pin = pin,
                     .x = &x});
  return x;
}

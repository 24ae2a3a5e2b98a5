// Collects what each instruction of a step computes and costs, from program, fusion and simulator.
#include "frontend/report/step_facts.h"

#include <string.h>

#include "frontend/report/kernel_facts.h"

static const char *const kind_words[] = {
    [INSTR_KERNEL] = "kernel",   [INSTR_GEMM] = "product",
    [INSTR_ORDERED] = "ordered", [INSTR_MATRIX] = "matrix",
    [INSTR_FILL] = "fill",       [INSTR_COPY] = "copy",
    [INSTR_COMMIT] = "commit",   [INSTR_COLLECTIVE] = "collective",
};

// What is needed to make the facts.
typedef struct Maker {
  Arena *a;
  const Compilation *c;
  const Program *p;
  const Simulation *t;
  const KernelReaders *readers;
  // The groups that instruction i runs are group[at[i] .. at[i + 1]).
  uint32_t *at, *group;
} Maker;

typedef VEC(const char *) Names;

static void find_groups(Maker *m) {
  const Fusion *f = m->c->fusion;
  const GroupNote *note = m->c->compiled->group;
  uint32_t n = m->p->ninstrs;
  m->at = arena_array(m->a, uint32_t, n + 2);
  m->group = arena_array(m->a, uint32_t, f->ngroups + 1);
  for (uint32_t g = 0; g < f->ngroups; g++)
    if (note[g].instr) m->at[note[g].instr + 1]++;
  for (uint32_t i = 2; i < n + 2; i++) m->at[i] += m->at[i - 1];
  for (uint32_t g = 0; g < f->ngroups; g++)
    if (note[g].instr) m->group[m->at[note[g].instr]++] = g;
}

// -- values -------------------------------------------------------------------------------------

static bool has_name(const Names *names, const char *name) {
  for (uint32_t i = 0; i < names->n; i++)
    if (!strcmp(names->at[i], name)) return true;
  return false;
}

static void add_name(Arena *a, Names *names, const char *name) {
  if (name && !has_name(names, name)) vec_push(a, *names) = name;
}

// Sets the names of the values that the instruction stores and computes.
static void find_names(const Maker *m, StepFact *x) {
  const Fusion *f = m->c->fusion;
  const InstrNote *note = &m->p->note[x->instr];
  Names stored = {0}, inside = {0};
  for (uint32_t i = 0; i < note->nvalues; i++) add_name(m->a, &stored, note->value[i].value);
  for (uint32_t i = m->at[x->instr]; i < m->at[x->instr + 1]; i++) {
    const Group *g = &f->group[m->group[i]];
    for (uint32_t k = 0; k < g->nnodes; k++) {
      const char *name = graph_node(f->graph, g->node[k])->origin->value;
      if (name && !has_name(&stored, name)) add_name(m->a, &inside, name);
    }
  }
  x->nstored = stored.n, x->stored = stored.at;
  x->ninside = inside.n, x->inside = inside.at;
}

static const char *phase_of(const Maker *m, uint32_t instr) {
  if (m->at[instr] == m->at[instr + 1])
    return m->p->instr[instr].kind == INSTR_COMMIT ? "update" : "";
  const Fusion *f = m->c->fusion;
  const Group *g = &f->group[m->group[m->at[instr]]];
  NodeId first = g->nstored ? g->stored[0] : g->node[0];
  if (f->update[first]) return "update";
  return graph_node(f->graph, first)->origin->backward ? "backward" : "forward";
}

// -- ends ---------------------------------------------------------------------------------------

// Returns the name of the instruction that runs a group: "contract of hidden", "sum at line 9".
static const char *reader_name(const Maker *m, uint32_t group) {
  Pos pos;
  uint32_t instr = m->c->compiled->group[group].instr;
  const char *name = instr ? program_instr_name(m->p, instr - 1, &pos) : "scan";
  const InstrValue *value = instr ? program_instr_value(m->p, instr - 1) : NULL;
  if (value && value->value) return arena_printf(m->a, "%s of %s", value->op, name);
  return instr && pos.line ? arena_printf(m->a, "%s at line %u", name, pos.line) : name;
}

typedef VEC(StepEnd) Ends;

// Adds the readers of a group to the ends of its instruction, those with one reason to one end.
static void add_ends(const Maker *m, uint32_t group, Ends *ends, Names *names) {
  uint32_t n;
  const KernelReader *r = kernel_ends(m->a, m->c, m->readers, group, &n);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at = 0;
    while (at < ends->n && strcmp(ends->at[at].name, apart_name(r[i].why))) at++;
    if (at == ends->n) {
      vec_push(m->a, *ends) = (StepEnd){.name = apart_name(r[i].why), .why = apart_text(r[i].why)};
      names[at] = (Names){0};
    }
    if (r[i].group != group) add_name(m->a, &names[at], reader_name(m, r[i].group));
  }
}

// Sets the end of a collective: why its call has no more parts.
static void find_bucket_end(const Maker *m, StepFact *x) {
  const Fusion *f = m->c->fusion;
  const Group *g = &f->group[m->group[m->at[x->instr]]];
  uint32_t of = f->buckets ? f->buckets->of[g->node[0]] : 0;
  const Bucket *b = of ? &f->buckets->bucket[of - 1] : NULL;
  StepEnd *end = arena_new_of(m->a, StepEnd);
  if (!b) return;
  *end = (StepEnd){.name = bucket_end_name(b->end), .why = bucket_end_text(b->end)};
  if (b->next) {
    end->reader = arena_array(m->a, const char *, 1);
    end->reader[end->n++] = coll_value_name(f->graph, graph_node(f->graph, b->next));
  }
  x->end = end;
  x->nends = 1;
}

// Sets the ends of an instruction other than a collective: why its readers are no part of it.
static void find_ends(const Maker *m, StepFact *x) {
  Ends ends = {0};
  Names *names = arena_array(m->a, Names, APART_COUNT);
  for (uint32_t i = m->at[x->instr]; i < m->at[x->instr + 1]; i++)
    add_ends(m, m->group[i], &ends, names);
  for (uint32_t i = 0; i < ends.n; i++) ends.at[i].n = names[i].n, ends.at[i].reader = names[i].at;
  x->end = ends.at;
  x->nends = ends.n;
}

// -- facts --------------------------------------------------------------------------------------

static StepFact fact_of(const Maker *m, uint32_t i) {
  const Instr *in = &m->p->instr[i];
  const InstrNote *note = &m->p->note[i];
  bool collective = in->kind == INSTR_COLLECTIVE;
  StepFact x = {.instr = i,
                .kind = kind_words[in->kind],
                .what = collective ? coll_text(in->u.collective.kind) : kind_words[in->kind],
                .phase = phase_of(m, i),
                .main = program_instr_value(m->p, i),
                .bytes = note->bytes,
                .sent = collective ? in->u.collective.wire_bytes : 0,
                .written = note->written,
                .flops = note->flops,
                .runs = 1,
                .predicted = m->t->of[i],
                .measured = -1,
                .limit = limit_texts[m->t->limit[i]],
                .count = 1};
  if (in->kind == INSTR_KERNEL) x.kernel = m->p->kernel[in->u.kernel.kernel].name;
  x.name = program_instr_name(m->p, i, &x.pos);
  find_names(m, &x);
  collective ? find_bucket_end(m, &x) : find_ends(m, &x);
  return x;
}

static Maker maker_of(Arena *a, const Compilation *c, const Simulation *t) {
  Maker m = {.a = a, .c = c, .p = c->compiled->program, .t = t, .readers = kernel_readers(a, c)};
  find_groups(&m);
  return m;
}

StepFacts *step_facts(const Session *s, const Compilation *c, const Simulation *t, const Exec *e,
                      int64_t steps) {
  Arena *a = s->arena;
  Maker m = maker_of(a, c, t);
  const double *seconds = e ? exec_profile(e) : NULL;
  int64_t runs[LOOP_DEPTH + 1] = {1};
  int depth = 0;
  StepFacts *out = arena_new_of(a, StepFacts);
  *out = (StepFacts){.a = a,
                     .made = c,
                     .diag = s->diag,
                     .model = s->opt->argument.at[0],
                     .seconds = t->seconds,
                     .at = arena_array(a, StepFact, m.p->ninstrs + 1)};
  for (uint32_t i = 0; i < m.p->ninstrs; i++) {
    const Instr *in = &m.p->instr[i];
    if (in->kind == INSTR_LOOP) runs[depth + 1] = runs[depth] * in->u.loop.count.base, depth++;
    if (in->kind == INSTR_END) depth--;
    if (in->kind == INSTR_LOOP || in->kind == INSTR_END) continue;
    StepFact *x = &out->at[out->n++];
    *x = fact_of(&m, i);
    x->runs = runs[depth];
    if (seconds) x->measured = seconds[i] / (double)steps;
  }
  return out;
}

void step_facts_note(const StepFacts *f) {
  InstrNote *note = f->made->compiled->program->note;
  for (uint32_t i = 0; i < f->n; i++) {
    const StepFact *x = &f->at[i];
    note[x->instr].predicted = x->runs ? x->predicted / (double)x->runs : 0;
    note[x->instr].limit = x->limit;
    note[x->instr].ends = step_ends_text(f->a, x);
  }
}

// Reads the schedule of a train block, and converts epochs to steps.
//
// Input: the entry `schedule`. Output: a ScheduleSpec. The number of batches in an epoch is known
// only after the data is opened; until then a number in epochs is marked in ScheduleSpec.in_epochs.
//
//   step(every = epochs(30), factor = 0.1)    every = 30, marked; with 100 batches in an epoch
//                                             train_resolve_epochs makes it 3000
#include <math.h>
#include <string.h>

#include "frontend/model/formal_internal.h"
#include "frontend/model/train_internal.h"

static const Form schedules[] = {
    {"constant", SCHEDULE_CONSTANT, (const Formal[]){D(warmup, 0), END}},
    {"linear", SCHEDULE_LINEAR, (const Formal[]){V(total), D(final, 0), D(warmup, 0), END}},
    {"cosine", SCHEDULE_COSINE, (const Formal[]){V(total), D(final, 0), D(warmup, 0), END}},
    {"inverse_sqrt", SCHEDULE_INVERSE_SQRT, (const Formal[]){V(scale), D(warmup, 0), END}},
    {"exponential", SCHEDULE_EXPONENTIAL, (const Formal[]){V(rate), V(every), D(warmup, 0), END}},
    {"step", SCHEDULE_STEP, (const Formal[]){V(every), V(factor), D(warmup, 0), END}},
    {"piecewise", SCHEDULE_PIECEWISE, NULL},
    {"one_cycle", SCHEDULE_ONE_CYCLE,
     (const Formal[]){V(total), D(rise, 0.3), D(start, 0.04), D(final, 4e-6), END}},
    {"cosine_restarts", SCHEDULE_RESTARTS,
     (const Formal[]){V(every), D(grow, 1), D(final, 0), D(warmup, 0), END}},
    {"wsd", SCHEDULE_STABLE_DECAY,
     (const Formal[]){V(total), V(decay), D(final, 0), D(warmup, 0), END}},
    {"plateau", SCHEDULE_PLATEAU,
     (const Formal[]){O(of), D(factor, 0.1), D(patience, 10), D(threshold, 1e-4), D(final, 0),
                      D(warmup, 0), O(best), END}},
};

// The arguments of schedules that are numbers.
static const struct {
  const char *name;
  size_t at;  // offset in ScheduleSpec
  bool steps; // a number of steps, which the model may also give in epochs
} fields[] = {
    {"warmup", offsetof(ScheduleSpec, warmup), true},
    {"total", offsetof(ScheduleSpec, total), true},
    {"every", offsetof(ScheduleSpec, every), true},
    {"scale", offsetof(ScheduleSpec, scale), true},
    {"final", offsetof(ScheduleSpec, final), false},
    {"rate", offsetof(ScheduleSpec, rate), false},
    {"factor", offsetof(ScheduleSpec, factor), false},
    {"start", offsetof(ScheduleSpec, start), false},
    {"rise", offsetof(ScheduleSpec, rise), false},
    {"grow", offsetof(ScheduleSpec, grow), false},
    {"decay", offsetof(ScheduleSpec, decay), true},
    {"patience", offsetof(ScheduleSpec, patience), false},
    {"threshold", offsetof(ScheduleSpec, threshold), false},
};
// Bit i of ScheduleSpec.in_epochs says that fields[i] is in epochs. Bit PIECES + k says it of the
// STEP in piece k of piecewise(STEP: FACTOR, ...), which has at most MAX_PIECES pieces.
enum { PIECES = countof(fields) };

static double *field_at(ScheduleSpec *s, size_t i) {
  return (double *)(void *)((char *)s + fields[i].at);
}

static size_t field_find(const char *name) {
  for (size_t i = 0; i < countof(fields); i++)
    if (!strcmp(fields[i].name, name)) return i;
  BUG("no number %s of a schedule", name);
}

// Reads a number or, if the field counts steps, epochs(NUMBER), which sets the bit `mark` in
// s->in_epochs. Returns false after an error.
static bool number_read(Build *b, const Ast *e, bool steps, unsigned mark, ScheduleSpec *s,
                        double *out) {
  static const Formal one[] = {V(n), END};
  if (!steps || e->kind != AST_CALL || strcmp(e->text, "epochs")) return build_number(b, e, out);
  s->in_epochs |= mark;
  return call_numbers(b, e, one, out);
}

// Reads piecewise(STEP: FACTOR, ..., warmup = N). Returns false after an error.
static bool schedule_pieces(Build *b, const Ast *e, ScheduleSpec *s) {
  for (uint32_t i = 0; i < e->nargs; i++) {
    const AstArg *arg = &e->args[i];
    if (arg->name && !strcmp(arg->name, "warmup")) {
      if (!number_read(b, arg->value, true, 1u << field_find("warmup"), s, &s->warmup) ||
          !range_ok(b, arg->value->pos, e->text, "warmup", s->warmup))
        return false;
      continue;
    }
    int64_t n = s->npieces;
    if (!arg->key || n == MAX_PIECES)
      return diag_error(b->d, arg->key ? DIAG_UNSUPPORTED : DIAG_BAD_ARGUMENTS, arg->pos,
                        "piecewise takes up to %d pieces STEP: FACTOR", MAX_PIECES);
    if (!number_read(b, arg->key, true, 1u << (PIECES + n), s, &s->at[n]) ||
        !build_number(b, arg->value, &s->value[n]) ||
        !range_ok(b, arg->pos, e->text, "step", s->at[n]) ||
        !range_ok(b, arg->value->pos, e->text, "factor", s->value[n]))
      return false;
    s->npieces++;
  }
  if (!s->npieces)
    diag_error(b->d, DIAG_BAD_ARGUMENTS, e->pos, "piecewise needs pieces STEP: FACTOR");
  return s->npieces > 0;
}

// Checks the numbers of a schedule against each other, all in steps. A schedule in epochs is
// checked after its conversion to steps. Returns false after an error.
static bool schedule_ok(Diag *d, Pos pos, const ScheduleSpec *s) {
  bool ramp = s->kind == SCHEDULE_LINEAR || s->kind == SCHEDULE_COSINE;
  if (s->in_epochs) return true;
  if (s->kind == SCHEDULE_ONE_CYCLE && s->total < 2)
    return diag_error(d, DIAG_BAD_ARGUMENTS, pos,
                      "'total' of the schedule is %g, a cycle has at least 2 steps", s->total);
  if (s->kind == SCHEDULE_STABLE_DECAY && s->total < s->warmup + s->decay)
    return diag_error(d, DIAG_BAD_ARGUMENTS, pos,
                      "'total' of the schedule is %g, it must be at least its warmup of %g and its "
                      "decay of %g together",
                      s->total, s->warmup, s->decay);
  if (s->patience != floor(s->patience))
    return diag_error(d, DIAG_BAD_ARGUMENTS, pos, "'patience' is a number of evaluations, not %g",
                      s->patience);
  if (ramp && s->total <= s->warmup)
    return diag_error(d, DIAG_BAD_ARGUMENTS, pos,
                      "'total' of the schedule is %g, it must be above its warmup of %g", s->total,
                      s->warmup);
  for (int64_t i = 1; i < s->npieces; i++) {
    if (s->at[i] > s->at[i - 1]) continue;
    return diag_error(d, DIAG_BAD_ARGUMENTS, pos,
                      "the steps of piecewise must ascend, and %g follows %g", s->at[i],
                      s->at[i - 1]);
  }
  return true;
}

// Reads the arguments of `plateau` that are names: of = NAME and best = min or max. NULL: not
// given.
static bool plateau_word(Build *b, const Ast *e, const char *formal, ScheduleSpec *s) {
  int best = BEST_UNKNOWN;
  if (!e) return true;
  if (!strcmp(formal, "of")) {
    s->of = e->text;
    return e->kind == AST_NAME || diag_error(b->d, DIAG_BAD_ARGUMENTS, e->pos,
                                             "'of' is the name of a metric or of a loss");
  }
  bool good = word_read(b, e, formal, "min", "max", &best);
  s->best = (StopBest)best;
  return good;
}

static bool schedule_numbers(Build *b, const Ast *e, const Formal *f, ScheduleSpec *s) {
  const Ast *arg[MAX_FORMALS];
  if (!call_bind(b, e, f, arg)) return false;
  for (int k = 0; f[k].name; k++) {
    if (f[k].raw) {
      if (!plateau_word(b, arg[k], f[k].name, s)) return false;
      continue;
    }
    size_t i = field_find(f[k].name);
    double *at = field_at(s, i);
    *at = f[k].value;
    if (!arg[k]) continue;
    if (!number_read(b, arg[k], fields[i].steps, 1u << i, s, at) ||
        !range_ok(b, arg[k]->pos, e->text, f[k].name, *at))
      return false;
  }
  return true;
}

bool schedule_read(Build *b, const Ast *e, ScheduleSpec *out) {
  const Form *form = form_of(e, countof(schedules), schedules);
  if (!form) {
    form_unknown(b, e, countof(schedules), schedules, DIAG_UNKNOWN_FUNCTION, "a schedule");
    return false;
  }
  *out = (ScheduleSpec){.kind = (ScheduleKind)form->kind, .pos = e->pos};
  bool good = form->formal ? schedule_numbers(b, e, form->formal, out) : schedule_pieces(b, e, out);
  return good && schedule_ok(b->d, e->pos, out);
}

bool train_counts_epochs(const Model *m) {
  for (uint32_t i = 0; i < m->graph->spec.ntrain; i++)
    if (m->graph->spec.train[i].schedule.in_epochs) return true;
  return false;
}

static bool resolve_epochs(const Model *m, int64_t batches) {
  bool good = true;
  for (uint32_t i = 0; i < m->graph->spec.ntrain; i++) {
    ScheduleSpec *s = &m->graph->spec.train[i].schedule;
    for (size_t k = 0; k < countof(fields); k++)
      if (s->in_epochs >> k & 1) *field_at(s, k) *= (double)batches;
    for (int64_t k = 0; k < s->npieces; k++)
      if (s->in_epochs >> (PIECES + k) & 1) s->at[k] *= (double)batches;
    s->in_epochs = 0;
    good &= schedule_ok(m->diag, s->pos, s);
  }
  return good;
}

// Converts the schedules of the model and, with `accumulate`, those of the model of a micro-batch,
// which has its own train blocks.
bool train_resolve_epochs(Model *m, int64_t batches) {
  return resolve_epochs(m, batches) && (!m->part || resolve_epochs(m->part, batches));
}

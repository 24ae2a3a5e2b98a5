// Compiles small models, runs them and takes their times (measure_internal.h).
#include "frontend/command/measure_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 5, KEPT = 1, FIT_ROUNDS = 32 };

typedef struct Probe {
  Session s;
  Compilation made;
  Exec *exec;
  int64_t steps;
} Probe;

static void probe_close(Probe *p) {
  exec_free(p->exec);
  compilation_free(&p->made);
}

static bool probe_open(Session *s, const char *text, Probe *p) {
  Selected of;

  *p = (Probe){.s = *s};
  Session *own = &p->s;
  own->text = text;
  own->source = diag_source(s->diag, "probe", text, strlen(text));
  own->directory = ".";
  own->options = (ModelOptions){.path = "probe"};
  own->ast = ast_parse(own->arena, own->names, own->diag, own->source, text, strlen(text));
  if (diag_errors(own->diag)) return false;
  own->model = model_build(own->arena, own->names, own->diag, own->ast, &own->options);
  if (!own->model || !session_agree(own)) return false;
  if (!session_make(own, NULL, &of, &p->made)) return false;
  p->exec = session_exec(own, &p->made, NULL, NULL);
  if (p->exec) exec_profile_switch(p->exec, false);
  if (p->exec) synthetic_feed(p->exec, p->made.compiled->program);
  return p->exec != NULL;
}

static bool probe_run(Probe *p, int64_t steps) {
  for (int64_t i = 0; i < steps; i++)
    if (exec_step(p->exec, p->steps++, false) != STEP_OK) {
      exec_fault(p->exec, p->s.diag);
      return false;
    }
  return true;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Returns the seconds that all instructions of a kind have taken since the program was bound.
static double spent_on(const Probe *p, InstrKind kind) {
  const Program *program = p->made.compiled->program;
  const double *seconds = exec_profile(p->exec);
  double sum = 0;
  for (uint32_t i = 0; i < program->ninstrs; i++)
    if (program->instr[i].kind == kind) sum += seconds[i];
  return sum;
}

// Measures the seconds of one step of a model, or only of the instructions of `kind` in it;
// INSTR_END means the whole step. *out is the second fastest of several batches of steps, because
// other processes can only slow them down. Returns false after an error.
// *made gets the compiled program.
static bool probe_once(Session *s, const char *text, int64_t steps, InstrKind kind, double *out,
                       const Compiled **made) {
  Probe p;
  double each[BATCHES];
  bool whole = kind == INSTR_END, good = probe_open(s, text, &p) && probe_run(&p, steps + 3);
  if (good) exec_profile_switch(p.exec, !whole);
  for (int i = 0; i < BATCHES && good; i++) {
    double start = whole ? clock_seconds() : spent_on(&p, kind);
    good = probe_run(&p, steps);
    each[i] = ((whole ? clock_seconds() : spent_on(&p, kind)) - start) / (double)steps;
  }
  probe_close(&p);
  if (!good) return false;
  *made = p.made.compiled;
  qsort(each, BATCHES, sizeof *each, by_value);
  *out = each[KEPT];
  return true;
}

// -- sweeps -------------------------------------------------------------------------------------

const Probed *sweep_probe(Sweep *b, const char *text, int64_t steps, InstrKind kind) {
  int i = 0;
  double seconds;
  const Compiled *made;
  if (!probe_once(b->s, text, steps, kind, &seconds, &made)) return NULL;
  while (i < b->nprobes && strcmp(b->probed[i].text, text) != 0) i++;
  if (i == MOST_PROBES) BUG("more than %d probes", (int)MOST_PROBES);
  if (i == b->nprobes) b->probed[b->nprobes++] = (Probed){text, seconds, made};
  if (b->probed[i].seconds > seconds) b->probed[i].seconds = seconds;
  return &b->probed[i];
}

bool sweep_time(Sweep *b, const char *text, int64_t steps, InstrKind kind, double *out) {
  const Probed *p = sweep_probe(b, text, steps, kind);
  if (p) *out = p->seconds;
  return p != NULL;
}

double sweep_simulated(const Sweep *b, const Probed *p, InstrKind kind, const Machine *m) {
  return simulate_cores(b->s->arena, p->made, m)->of_kind[kind];
}

static double simulated_with(const Sweep *b, const Probed *p, InstrKind kind, double *figure,
                             double value) {
  *figure = value;
  return sweep_simulated(b, p, kind, &b->m);
}

void sweep_fit(const Sweep *b, const Probed *p, InstrKind kind, double low, double high,
               double *figure) {
  double before = *figure;
  bool matters = simulated_with(b, p, kind, figure, low) > simulated_with(b, p, kind, figure, high);
  for (int i = 0; i < FIT_ROUNDS; i++) {
    double middle = sqrt(low * high);
    *(simulated_with(b, p, kind, figure, middle) > p->seconds ? &low : &high) = middle;
  }
  if (!matters) *figure = before;
}

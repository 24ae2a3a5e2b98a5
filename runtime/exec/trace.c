// Records the instructions that each worker runs, in one list a worker, and writes the lists as a
// Chrome trace.
#include "runtime/exec/trace.h"
#include "runtime/exec/exec_internal.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_TEXT = 480 };
enum { MOST_EVENTS = 1 << 20 }; // most events of one worker; later ones are dropped

typedef struct TraceEvent {
  TraceSpan span;
  uint64_t sequence; // of a collective on the CPU: the number of the call
} TraceEvent;
typedef struct TraceList {
  size_t n, room;
  TraceEvent *at;
} TraceList;
struct Trace {
  int workers;
  TraceList list[];
};

Trace *trace_new(int workers) {
  Trace *t = mem_zeroed(1, sizeof *t + sizeof *t->list * (size_t)workers);
  t->workers = workers;
  return t;
}

void trace_free(Trace *t) {
  for (int w = 0; t && w < t->workers; w++) free(t->list[w].at);
  free(t);
}

void exec_trace(Exec *e, Trace *t) { e->trace = t; }

static void add_event(Trace *t, int worker, const TraceSpan *span, uint64_t sequence) {
  TraceList *l = &t->list[worker];
  if (l->n == MOST_EVENTS) return;
  if (l->n == l->room) {
    l->room = l->room ? 2 * l->room : 1024;
    l->at = mem_grow(l->at, l->room * sizeof *l->at);
  }
  l->at[l->n++] = (TraceEvent){*span, sequence};
}

void trace_add(Trace *t, int worker, int64_t processor, uint32_t instr, int64_t step,
               uint64_t sequence, double began) {
  TraceSpan span = {.instr = instr,
                    .processor = processor,
                    .step = step,
                    .began = began,
                    .ended = clock_seconds()};
  add_event(t, worker, &span, sequence);
}

void trace_add_span(Trace *t, const TraceSpan *s) { add_event(t, 0, s, 0); }

// -- writing the trace --------------------------------------------------------------------------

enum { COMPUTE, COMMUNICATE, COPIES }; // tracks of a process

typedef struct Writer {
  const Exec *e;
  AtomicFile out;
  double origin;
  bool first;
} Writer;

static void put_event(Writer *w, json_t *event) {
  char *text = json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(12));
  if (!w->first) atomic_file_put(&w->out, ",\n", 2);
  w->first = false;
  if (text) atomic_file_put(&w->out, text, strlen(text));
  free(text);
  json_decref(event);
}

static void put_name(Writer *w, int64_t r, int track, const char *what, const char *name) {
  put_event(w, json_pack("{s:s, s:s, s:I, s:i, s:{s:s}}", "ph", "M", "name", what, "pid",
                         (json_int_t)r, "tid", track, "args", "name", name));
}

static void put_processors(Writer *w) {
  const Mesh *m = &w->e->program->mesh;
  for (int64_t r = w->e->first; r < w->e->first + w->e->own; r++) {
    char at[PLACE_TEXT], name[PLACE_TEXT + 32];
    snprintf(name, sizeof name, "processor %lld%s%s", (long long)r, m->naxes ? " " : "",
             mesh_coordinates(m, r, " ", at, sizeof at));
    put_name(w, r, COMPUTE, "process_name", name);
    put_name(w, r, COMPUTE, "thread_name", "compute");
    put_name(w, r, COMMUNICATE, "thread_name", "communication");
  }
}

static void put_gpu(Writer *w) {
  long long first = w->e->first, last = w->e->first + w->e->own - 1;
  char name[PLACE_TEXT];
  if (first == last)
    snprintf(name, sizeof name, "GPU of processor %lld", first);
  else
    snprintf(name, sizeof name, "GPU of processors %lld to %lld", first, last);
  put_name(w, first, COMPUTE, "process_name", name);
  put_name(w, first, COMPUTE, "thread_name", "compute");
  put_name(w, first, COMMUNICATE, "thread_name", "communication");
  put_name(w, first, COPIES, "thread_name", "copies of inputs");
}

// Returns the name of instruction i in the trace: the kind of a collective, otherwise the value
// that the instruction computes.
static const char *instr_name(const Program *p, uint32_t i) {
  Pos pos;
  const Instr *in = &p->instr[i];
  return in->kind == INSTR_COLLECTIVE ? coll_text(in->u.collective.kind)
                                      : program_instr_name(p, i, &pos);
}

// Adds what a prediction says of the instruction, if there was one.
static void put_prediction(const InstrNote *note, json_t *args) {
  if (!note->limit) return;
  json_object_set_new(args, "predicted_seconds", json_real(note->predicted));
  json_object_set_new(args, "limit", json_string(note->limit));
  json_object_set_new(args, "ends", json_string(note->ends));
}

static void put_note(const Program *p, uint32_t i, json_t *args) {
  Pos pos;
  const char *value = program_instr_name(p, i, &pos);
  const InstrNote *note = p->note ? &p->note[i] : NULL;
  const Instr *in = &p->instr[i];
  if (in->kind == INSTR_KERNEL)
    json_object_set_new(args, "kernel", json_string(p->kernel[in->u.kernel.kernel].name));
  if (!note) return;
  json_object_set_new(args, "value", json_string(value));
  if (pos.line) json_object_set_new(args, "line", json_integer(pos.line));
  if (note->nvalues) json_object_set_new(args, "op", json_string(program_instr_value(p, i)->op));
  if (note->nvalues > 1) json_object_set_new(args, "values", json_integer(note->nvalues));
  json_object_set_new(args, "bytes", json_integer(note->bytes));
  json_object_set_new(args, "flops", json_integer(note->flops));
  json_object_set_new(args, "written", json_integer(note->written));
  put_prediction(note, args);
}

static bool is_collective(const Program *p, const TraceSpan *x) {
  return x->instr != UINT32_MAX && p->instr[x->instr].kind == INSTR_COLLECTIVE;
}

// Returns the arguments of an event.
static json_t *event_args(const Program *p, const TraceSpan *x) {
  json_t *args = json_pack("{s:I}", "step", (json_int_t)x->step);
  if (x->instr == UINT32_MAX) return args;
  json_object_set_new(args, "instruction", json_integer(x->instr));
  if (is_collective(p, x)) {
    const Collective *c = &p->instr[x->instr].u.collective;
    json_object_set_new(args, "value",
                        json_string(c->nparts && c->part[0].value ? c->part[0].value : ""));
    json_object_set_new(args, "bytes", json_integer(c->bytes));
    json_object_set_new(args, "line", json_integer(c->pos.line));
    json_object_set_new(args, "why", json_string(c->why ? c->why : ""));
    if (p->note) put_prediction(&p->note[x->instr], args);
  } else
    put_note(p, x->instr, args);
  return args;
}

static void put_ran(Writer *w, const TraceSpan *x) {
  const Program *p = w->e->program;
  bool collective = is_collective(p, x);
  const char *category = x->instr == UINT32_MAX ? "step" : collective ? "collective" : "kernel";
  put_event(w, json_pack("{s:s, s:s, s:s, s:I, s:i, s:f, s:f, s:o}", "ph", "X", "name",
                         x->instr == UINT32_MAX ? x->what : instr_name(p, x->instr), "cat",
                         category, "pid", (json_int_t)x->processor, "tid",
                         x->copies    ? COPIES
                         : collective ? COMMUNICATE
                                      : COMPUTE,
                         "ts", 1e6 * (x->began - w->origin), "dur", 1e6 * (x->ended - x->began),
                         "args", event_args(p, x)));
}

// Writes an arrow of the trace for one call of a collective. It goes from the event of the first
// processor of the group to x, the event of another processor.
static void put_arrow(Writer *w, const TraceEvent *from, const TraceEvent *x) {
  json_int_t id =
      (json_int_t)(x->sequence * (uint64_t)w->e->processors + (uint64_t)x->span.processor);
  const char *name = instr_name(w->e->program, x->span.instr);
  put_event(w, json_pack("{s:s, s:s, s:s, s:I, s:I, s:i, s:f}", "ph", "s", "name", name, "cat",
                         "collective", "id", id, "pid", (json_int_t)from->span.processor, "tid",
                         COMMUNICATE, "ts", 1e6 * (from->span.began - w->origin)));
  put_event(w, json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:i, s:f}", "ph", "f", "bp", "e", "name",
                         name, "cat", "collective", "id", id, "pid", (json_int_t)x->span.processor,
                         "tid", COMMUNICATE, "ts", 1e6 * (x->span.ended - w->origin)));
}

static int by_call(const void *a, const void *b) {
  const TraceEvent *x = a, *y = b;
  if (x->sequence != y->sequence) return x->sequence < y->sequence ? -1 : 1;
  return (x->span.processor > y->span.processor) - (x->span.processor < y->span.processor);
}

// Writes the arrows between the events all[0..n) of collectives. The events are sorted by call, and
// those of a call by processor.
static void put_arrows(Writer *w, size_t n, const TraceEvent *all) {
  const Mesh *m = &w->e->program->mesh;
  for (size_t i = 0, call = 0; i < n; i++) {
    if (all[i].sequence != all[call].sequence) call = i;
    Axes axes = w->e->program->instr[all[i].span.instr].u.collective.axes;
    int64_t first = axes_peer(m, axes, all[i].span.processor, 0);
    for (size_t k = call; first != all[i].span.processor && k < i; k++)
      if (all[k].span.processor == first) put_arrow(w, &all[k], &all[i]);
  }
}

// Writes the events, and the arrows between those of collectives on the CPU. On a GPU a collective
// is one event.
static void put_events(Writer *w, const Trace *t) {
  size_t total = 0, parts = 0;
  for (int i = 0; i < t->workers; i++) total += t->list[i].n;
  TraceEvent *all = mem_alloc(sizeof *all * (total + 1));
  for (int i = 0; i < t->workers; i++)
    for (size_t k = 0; k < t->list[i].n; k++) {
      const TraceEvent *x = &t->list[i].at[k];
      put_ran(w, &x->span);
      if (!w->e->device && is_collective(w->e->program, &x->span)) all[parts++] = *x;
    }
  if (parts) {
    qsort(all, parts, sizeof *all, by_call);
    put_arrows(w, parts, all);
  }
  free(all);
}

static double first_moment(const Trace *t) {
  double first = (double)INFINITY;
  for (int w = 0; w < t->workers; w++)
    for (size_t k = 0; k < t->list[w].n; k++) first = fmin(first, t->list[w].at[k].span.began);
  return first;
}

bool trace_write(const Trace *t, const Exec *e, const char *path, Diag *d) {
  Writer w = {.e = e, .origin = first_moment(t), .first = true};
  static const char begin[] = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n",
                    end[] = "\n]}\n";
  if (!atomic_file_open(&w.out, path, d)) return false;
  atomic_file_put(&w.out, begin, sizeof begin - 1);
  if (e->device)
    put_gpu(&w);
  else
    put_processors(&w);
  put_events(&w, t);
  atomic_file_put(&w.out, end, sizeof end - 1);
  return atomic_file_close(&w.out, d);
}

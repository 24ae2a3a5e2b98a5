// Makes an Exec from a program and options: starts its workers (threads), and takes its memory.
#include "ir/base/guard.h"
#include "runtime/exec/exec_internal.h"
#include "runtime/exec/product_internal.h"

#include <stdlib.h>

static bool check_kernels(const Program *p, Diag *d) {
  for (uint32_t k = 0; k < p->nkernels; k++)
    if (!p->kernel[k].run || (p->kernel[k].partial_bytes && !p->kernel[k].combine)) {
      diag_error(d, DIAG_UNAVAILABLE, (Pos){0}, "kernel %s has no machine code", p->kernel[k].name);
      return false;
    }
  return products_check(p, d);
}

// Returns the number of workers (threads) for a new team: the number from the options or of the
// available cores. Ranks (processes) on one machine divide this number among them.
static int workers_wanted(const ExecOptions *opt) {
  int n = opt->threads > 0 ? opt->threads : cores_available();
  if (!opt->ranks) return n;
  if (opt->threads == 0) return ranks_cores(opt->ranks, n);
  return n / ranks_local_count(opt->ranks) > 1 ? n / ranks_local_count(opt->ranks) : 1;
}

static bool start_workers(Exec *e, const ExecOptions *opt, Diag *d) {
  e->team = opt->share ? team_share(opt->share->team) : team_new(workers_wanted(opt));
  if (!e->team) {
    diag_error(d, DIAG_NO_MEMORY, (Pos){0}, "out of memory: the system starts no more threads");
    diag_hint(d, "use fewer threads (--threads), or raise the limit of processes (ulimit -u)");
    return false;
  }
  e->workers = team_workers(e->team);
  bool spin = team_spins(e->team);
  e->all = barrier_new(e->workers, spin);
  e->comm = e->ranks ? comm_ranks(e->ranks, &e->program->mesh, e->workers)
                     : comm_local(&e->program->mesh, e->workers);
  e->fault = arena_array(e->memory, StepFault, e->processors * e->workers);
  e->of_context = arena_array(e->memory, Barrier *, e->processors);
  for (int w = 0; w < e->workers; w++) {
    Seat s = exec_seat(e, w, e->workers);
    if (s.members == 1 || s.member != 0) continue;
    e->of_context[s.first] = barrier_new(s.members, spin);
  }
  return true;
}

static int32_t find_finite_tensor(const Program *p, const char *name) {
  int32_t t = name ? program_tensor(p, TENSOR_OUTPUT, name) : -1;
  return t >= 0 && p->tensor[t].rank == 0 && dtype_is_float(p->tensor[t].type) ? t : -1;
}

typedef struct Making {
  Exec *exec;
  const ExecOptions *opt;
  Diag *diag;
  bool made;
} Making;

static void make(void *making) {
  Making *m = making;
  Exec *e = m->exec;
  m->made = start_workers(e, m->opt, m->diag) &&
            (e->device || products_reserve(e->program, e->workers, m->diag)) &&
            exec_bind(e, m->diag) && exec_initialise(e, m->diag);
  if (!m->made || !e->device) return;
  e->work_on_device = e->device->begin(e->device, e, m->diag);
  m->made = e->work_on_device != NULL;
}

static Exec *exec_of_options(const Program *p, const ExecOptions *opt) {
  Exec *e = mem_zeroed(1, sizeof *e);
  e->program = p;
  e->share = opt->share;
  e->seed = opt->seed;
  e->directory = opt->directory;
  e->inject = opt->inject ? *opt->inject : (ExecInject){.call = -1};
  e->inject_instr = exec_inject_instr(e);
  e->probe = opt->probe;
  // the device of a rank does not reach the memory of other processors
  e->apart = opt->apart || opt->probe || (opt->device && opt->ranks);
  e->common = !e->apart && !opt->ranks && !opt->device && e->inject.call < 0;
  e->alone = opt->alone;
  e->stop_request = opt->stop_request;
  e->device = opt->device;
  e->rows = -1;
  e->finite_tensor = find_finite_tensor(p, opt->must_be_finite);
  e->memory = arena_new();
  e->processors = mesh_size(&p->mesh);
  e->ranks = opt->ranks;
  e->first = opt->ranks ? ranks_first_processor(opt->ranks) : 0;
  e->own = opt->ranks ? ranks_processors(opt->ranks) : e->processors;
  if (opt->profile) e->seconds = arena_array(e->memory, double, p->ninstrs + 1);
  e->timed = opt->profile;
  return e;
}

Exec *exec_new(const Program *p, const ExecOptions *opt, Diag *d) {
  if (!device_check(opt, d) || (!opt->device && !check_kernels(p, d))) return NULL;
  (void)mem_doing("taking the memory of the program for", p->for_);
  Exec *e = exec_of_options(p, opt);
  Making m = {.exec = e, .opt = opt, .diag = d};
  Failure why;
  bool ended = guard_run(make, &m, &why);
  if (ended && m.made) {
    arena_keep(e->memory);
    return e;
  }
  exec_free(e);
  if (!ended) guard_raise(&why);
  return NULL;
}

void exec_free(Exec *e) {
  if (!e) return;
  if (e->device) e->device->end(e->work_on_device);
  team_free(e->team);
  exec_unbind(e);
  comm_free(e->comm);
  barrier_free(e->all);
  for (int64_t c = 0; e->of_context && c < e->processors; c++) barrier_free(e->of_context[c]);
  arena_free(e->memory);
  free(e);
}

// With a single rank there is nobody to agree with, and a device does not set e->asked
// (GpuVote.asked).
bool exec_stop_asked(const Exec *e) {
  return e->ranks && ranks_count(e->ranks) > 1 ? e->asked : exec_stop_requested(e);
}
const CommCount *exec_counts(const Exec *e) { return &e->comm->count; }
bool exec_is_stuck(const Exec *e) { return e && e->under_way; }
int exec_workers(const Exec *e) { return e->workers; }
const double *exec_profile(const Exec *e) { return e->seconds; }
void exec_profile_switch(Exec *e, bool on) { e->timed = on && e->seconds; }
int64_t exec_bytes(const Exec *e) { return e->context[e->first].bytes; }

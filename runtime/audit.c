// What a run did beside what the program said that it would do: bytes moved and memory taken. And the copy of a
// processor's memory, and the wrong element, with which tests see that nothing is taken on trust.
#include "runtime/bound.h"

#include <string.h>

#define REPORT "this is a fault of meshc: please report it with the model and the options"

// A step that a communicator's failure ends has moved nobody knows what.
void exec_foresee(Exec *e) {
  if (e->result == STEP_FAILED) e->interrupted = true;
  program_count_add(&e->moved_as_planned, &e->moves[0]);
  if (!e->stop) program_count_add(&e->moved_as_planned, &e->moves[1]);
}

const ProgramCount *exec_predicted(const Exec *e) { return &e->moved_as_planned; }

static bool same_count(const Exec *e, CollKind k, const char *what, int64_t counted, int64_t predicted, Diag *d) {
  if (counted == predicted) return true;
  diag_error(d, DIAG_FAILURE, (Pos){0}, "%s for %s: %lld %s counted, %lld predicted in %lld steps", coll_text(k), e->program->for_,
             (long long)counted, what, (long long)predicted, (long long)e->steps);
  diag_hint(d, REPORT);
  return false;
}

// What the processor should have got: the program's memory without what another program shares.
static int64_t bytes_expected(const Exec *e) {
  int64_t bytes = program_bytes(e->program);
  for (uint32_t t = 0; e->share && t < e->program->ntensors; t++)
    if (tensor_is_persistent(e->program, t) && e->own_offset[t] < 0)
      bytes -= ceil_div(e->program->tensor[t].bytes, MEMORY_ALIGN) * MEMORY_ALIGN;
  return bytes;
}

bool exec_check(const Exec *e, Diag *d) {
  const CommCount *got = &e->comm->count;
  const ProgramCount *want = &e->moved_as_planned;
  bool good = true;
  for (int k = 0; k < COLL_COUNT && !e->interrupted; k++) {
    good &= same_count(e, (CollKind)k, "calls", got->calls[k], want->calls[k], d);
    good &= same_count(e, (CollKind)k, "bytes", got->bytes[k], want->bytes[k], d);
    good &= same_count(e, (CollKind)k, "bytes on the wire", got->wire_bytes[k], want->wire_bytes[k], d);
  }
  for (int64_t r = e->first; r < e->first + e->own; r++) {
    if (e->context[r].bytes == bytes_expected(e)) continue;
    diag_error(d, DIAG_FAILURE, (Pos){0}, "processor %lld has %lld bytes for %s, %lld were predicted", (long long)r,
               (long long)e->context[r].bytes, e->program->for_, (long long)bytes_expected(e));
    diag_hint(d, REPORT);
    return false;
  }
  return good;
}

void exec_copy(Exec *to, const Exec *from) {
  const Program *p = to->program;
  if (p != from->program) BUG("memory of another program");
  exec_rows(to, from->rows);
  for (int64_t r = to->first; r < to->first + to->own; r++)
    for (uint32_t t = 0; t < p->ntensors; t++)
      if (tensor_is_persistent(p, t) || p->tensor[t].kind == TENSOR_INPUT)
        memcpy(to->context[r].tensor[t], from->context[r].tensor[t], (size_t)p->tensor[t].bytes);
}

uint32_t exec_spoilt(const Exec *e) {
  int64_t call = e->spoil.kernel ? e->spoil.call : -1;
  for (uint32_t i = 0; i < e->program->ninstrs && call >= 0; i++) {
    const Instr *in = &e->program->instr[i];
    if (in->kind == INSTR_KERNEL && e->program->kernel[in->u.kernel.kernel].nnum > 0 && call-- == 0) return i;
  }
  return UINT32_MAX;
}

const double *exec_spoilt_numbers(const Exec *e, const ProgKernel *k, const double *num) {
  double *wrong = arena_copy(e->memory, num, sizeof *num * k->nnum);
  wrong[0] = 1.5 * wrong[0] + 1;
  return wrong;
}

// The first part that has an element there.
void exec_spoil(Exec *e, uint32_t i) {
  const Collective *w = &e->program->instr[i].u.collective;
  int64_t r = e->spoil.processor;
  if ((int64_t)e->call[i].sequence != e->spoil.call || r < e->first || r >= e->first + e->own) return;
  const CommMember *m = &e->member[i][r];
  for (uint32_t part = 0; part < w->nparts; part++) {
    bool empty = false;
    for (int d = 0; d < w->part[part].rank; d++) empty = empty || m->dst_valid[part * MAX_RANK + (uint32_t)d] == 0;
    if (empty) continue;
    double x = dtype_load(w->type, m->dst[part]);
    dtype_store(w->type, m->dst[part], dtype_round(w->type, w->type == TYPE_BOOL ? x == 0 : 1.5 * x + 1));
    return;
  }
}

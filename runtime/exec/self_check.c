// The self-check: compares the bytes sent and the memory of a run with the predictions of the
// program.
#include "runtime/exec/exec_internal.h"

#include <string.h>

#define REPORT "this is a fault of meshc: please report it with the model and the options"

// After a step that failed in a collective, the number of bytes sent is unknown. Then
// exec_count_predicted sets e->interrupted, and exec_check compares no counts.
void exec_count_predicted(Exec *e) {
  if (e->result == STEP_FAILED) e->interrupted = true;
  program_count_add(&e->predicted, &e->moves[0]);
  if (!e->stop) program_count_add(&e->predicted, &e->moves[1]);
}

const ProgramCount *exec_predicted(const Exec *e) { return &e->predicted; }

static bool same_count(const Exec *e, CollKind k, const char *what, int64_t counted,
                       int64_t predicted, Diag *d) {
  if (counted == predicted || (counted < predicted && program_may_skip(e->program))) return true;
  diag_error(d, DIAG_FAILURE, (Pos){0}, "%s for %s: %lld %s counted, %lld predicted in %lld step%s",
             coll_text(k), e->program->for_, (long long)counted, what, (long long)predicted,
             (long long)e->steps, plural(e->steps));
  diag_hint(d, REPORT);
  return false;
}

// Returns the predicted bytes of memory of a processor: those of the program, less those of tensors
// that e shares with another Exec.
static int64_t bytes_expected(const Exec *e) {
  int64_t bytes = program_bytes(e->program);
  for (uint32_t t = 0; e->share && t < e->program->ntensors; t++)
    if (tensor_is_persistent(e->program, t) && e->own_offset[t] < 0)
      bytes -= ceil_div(e->program->tensor[t].bytes, MEMORY_ALIGN) * MEMORY_ALIGN;
  return bytes;
}

bool exec_check(const Exec *e, Diag *d) {
  if (!exec_works(e, d)) return false;
  const CommCount *got = &e->comm->count;
  const ProgramCount *want = &e->predicted;
  bool good = true;
  for (int k = 0; k < COLL_COUNT && !e->interrupted; k++) {
    good &= same_count(e, (CollKind)k, "calls", got->calls[k], want->calls[k], d);
    good &= same_count(e, (CollKind)k, "bytes", got->bytes[k], want->bytes[k], d);
    good &= same_count(e, (CollKind)k, "bytes sent", got->wire_bytes[k], want->wire_bytes[k], d);
  }
  for (int64_t r = e->first; r < e->first + e->own; r++) {
    if (e->context[r].bytes == bytes_expected(e)) continue;
    diag_error(d, DIAG_FAILURE, (Pos){0},
               "processor %lld has %lld bytes for %s, %lld were predicted", (long long)r,
               (long long)e->context[r].bytes, e->program->for_, (long long)bytes_expected(e));
    diag_hint(d, REPORT);
    return false;
  }
  return good;
}

// The calls of the executor to the device that runs an Exec (device.h).
#include "runtime/exec/device.h"

#include "runtime/exec/exec_internal.h"

void exec_writes(const Exec *e, uint32_t t) {
  if (e->work_on_device) e->device->writes(e->work_on_device, t);
}

void exec_wrote(const Exec *e, uint32_t t) {
  if (e->work_on_device) e->device->wrote(e->work_on_device, t);
}

bool exec_fetch(const Exec *e, uint32_t t) {
  return !e->work_on_device || e->device->fetch(e->work_on_device, t);
}

bool exec_fetch_bytes(const Exec *e, const void *at, int64_t bytes) {
  return !e->work_on_device || e->device->fetch_bytes(e->work_on_device, at, bytes);
}

bool exec_works(const Exec *e, Diag *d) {
  if (!e->device || (e->device->wait(e->work_on_device) && e->result != STEP_FAILED)) return true;
  e->device->why(e->work_on_device, d);
  if (!diag_errors(d) && e->ranks && ranks_failed(e->ranks)) return ranks_lost(d);
  return false;
}

static bool lacks(Diag *d, const char *what, const char *instead) {
  diag_error(d, DIAG_UNAVAILABLE, (Pos){0}, "--device cuda does not support %s yet", what);
  return diag_hint(d, "%s", instead);
}

bool device_check(const ExecOptions *opt, Diag *d) {
  if (!opt->device) return true;
  if ((opt->ranks != NULL) != opt->device->ranks)
    return lacks(d, "these processes", "the program was compiled for another number of ranks");
  if (opt->probe) return lacks(d, "the check of kernels", "verify with --device cpu");
  if (opt->ranks && ranks_injects_note(opt->ranks))
    return lacks(d, "--fault count@, kind@, line@, skip@",
                 "inject a signal, kill@RANK:CALL or stop@RANK:CALL, or a fault in a kernel, "
                 "kernel@PROCESSOR:CALL");
  if (opt->inject && opt->inject->call >= 0 && !opt->inject->kernel)
    return lacks(d, "--fault value@", "inject a fault in a kernel, kernel@PROCESSOR:CALL");
  return true;
}

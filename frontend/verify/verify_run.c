// Runs a step of --verify on given tensors and reads the resulting values.
#include "frontend/verify/verify.h"

#include <stdlib.h>

void verify_read(const Exec *e, const VerifyValue *x, int64_t replica, double *out) {
  int64_t bytes = dtype_bytes(x->type);
  char *data = out ? mem_alloc((size_t)(x->n * bytes) + 1) : NULL;
  exec_read_replica(e, x->kind, x->name, replica, data);
  for (int64_t k = 0; out && k < x->n; k++) out[k] = dtype_load(x->type, data + k * bytes);
  free(data);
}

double **verify_numbers(const VerifyRun *r) {
  double **out = arena_array(r->a, double *, r->nvalues + 1);
  for (uint32_t i = 0; i < r->nvalues; i++) out[i] = arena_array(r->a, double, r->value[i].n + 1);
  return out;
}

bool verify_run_step(const VerifyRun *r, uint32_t n, const VerifyGiven *given, double **out) {
  exec_rows(r->exec, r->rows);
  for (uint32_t i = 0; i < n; i++)
    exec_write(r->exec, given[i].kind, given[i].name, given[i].type, given[i].data);
  if (exec_step(r->exec, r->step, r->commit) != STEP_OK) return false;
  for (uint32_t i = 0; i < r->nvalues; i++) verify_read(r->exec, &r->value[i], 0, out[i]);
  return true;
}

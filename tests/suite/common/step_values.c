#include "tests/suite/common/step_values.h"

#include <string.h>

#include "tests/suite/common/compare.h"

void step_give(Maker *m, Exec *e, const Program *p) {
  for (uint32_t i = 0; i < m->ninputs; i++) {
    const Decl *d = &m->g->decl.at[m->feed[i].decl - 1];
    if (program_tensor(p, tensor_kind(d->kind), d->name) < 0)
      continue; // a graph may read less than was declared
    int64_t size = dtype_bytes(d->type);
    char *data = arena_alloc(m->a, (size_t)(m->feed[i].n * size));
    for (int64_t k = 0; k < m->feed[i].n; k++)
      dtype_store(d->type, data + k * size, m->feed[i].value[k]);
    exec_write(e, tensor_kind(d->kind), d->name, d->type, data);
  }
}

StepValue step_value(Maker *m, Exec *e, Expect *truth, uint32_t i) {
  const Output *o = &truth->graph->output.at[i];
  const Decl *d = o->kind == OUT_UPDATE ? &truth->graph->decl.at[o->target - 1] : NULL;
  StepValue v = {.name = o->name, .want = expect_output(truth, i)};
  v.bytes = (size_t)(v.want->elements * dtype_bytes(v.want->type));
  v.data = arena_alloc(m->a, v.bytes + 1);
  exec_read(e, d ? tensor_kind(d->kind) : TENSOR_OUTPUT, o->name, v.data);
  return v;
}

static const char *judge(Maker *m, const StepValue *v) {
  double *got = arena_array(m->a, double, v->want->elements + 1);
  for (int64_t k = 0; k < v->want->elements; k++)
    got[k] = dtype_load(v->want->type, (char *)v->data + k * dtype_bytes(v->want->type));
  Compare c = compare_tensor(v->want, got);
  if (c.wrong == 0) return compare_ok(&c) ? NULL : layout_vacuous;
  return arena_printf(m->a, "%s: %s", v->name, compare_text(m->a, &c));
}

const char *step_judge(Maker *m, Expect *truth, int64_t step, uint32_t n, StepValue *value) {
  const char *vacuous = NULL;
  for (uint32_t i = 0; i < n; i++) {
    const char *wrong = judge(m, &value[i]);
    if (wrong && wrong != layout_vacuous) { // more evaluations with random errors may show that
                                            // rounding alone decides the value
      expect_more(truth, step);
      value[i].want = expect_output(truth, i);
      wrong = judge(m, &value[i]);
    }
    if (wrong && wrong != layout_vacuous) return wrong;
    if (wrong) vacuous = wrong;
  }
  return vacuous;
}

const char *step_differs(const StepValue *a, const StepValue *b, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (memcmp(a[i].data, b[i].data, a[i].bytes) != 0) return a[i].name;
  return NULL;
}

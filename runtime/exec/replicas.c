// Replicas: processors with equal blocks of a parameter, which share its memory and divide its
// updates (codegen/program/divide_updates.c).
//
// Whether processors share a tensor is seen from its addresses. So programs that use the memory of
// another Exec, and ranks on several machines, need no rules of their own: processors with separate
// copies divide nothing.
#include "runtime/exec/exec_internal.h"

static bool is_here(const Exec *e, int64_t r) { return !e->ranks || ranks_is_local(e->ranks, r); }

// A probe compares whole results of single processors, so with a probe nothing is shared.
const Context *exec_keeper(const Exec *e, const Context *c, uint32_t t) {
  const ProgTensor *x = &e->program->tensor[t];
  const Mesh *m = &e->program->mesh;
  Axes axes = tensor_replicated(m, x);
  for (int64_t k = 0; x->shared && !e->probe && k < axes_size(m, axes); k++) {
    int64_t r = axes_peer(m, axes, c->processor, k);
    if (is_here(e, r)) return &e->context[r];
  }
  return c;
}

bool exec_keeps(const Exec *e, int64_t r, uint32_t t) {
  return exec_keeper(e, &e->context[r], t) == &e->context[r];
}

int64_t exec_bytes_kept(const Exec *e, int64_t r) {
  const Program *p = e->program;
  int64_t bytes = 0;
  for (uint32_t t = 0; t < p->ntensors; t++)
    if (e->own_offset[t] >= 0 && exec_keeps(e, r, t)) {
      int64_t end = e->own_offset[t] + p->tensor[t].bytes;
      bytes = end > bytes ? end : bytes;
    }
  return bytes;
}

// Returns how many of the processors of a group over `axes` share the memory of tensor t with
// processor c. *rank gets the number of those before c, and *first the first of them. Looks at
// processors up to c only if later ones have no addresses yet.
static int64_t sharers(const Exec *e, const Context *c, Axes axes, uint32_t t, int64_t *rank,
                       const Context **first) {
  const Mesh *m = &e->program->mesh;
  int64_t n = 0;
  for (int64_t k = 0; k < axes_size(m, axes); k++) {
    const Context *other = &e->context[axes_peer(m, axes, c->processor, k)];
    if (!other->tensor || !c->tensor[t] || other->tensor[t] != c->tensor[t]) continue;
    if (n == 0) *first = other;
    if (other == c) *rank = n;
    n++;
  }
  return n;
}

const Context *exec_operands_of(const Exec *e, const Context *c, const KernelSet *set) {
  int64_t rank;
  const Context *first = c;
  if (set->divided) {
    uint32_t t = (uint32_t)set->divided - 1;
    Axes axes = tensor_replicated(&e->program->mesh, &e->program->tensor[t]);
    sharers(e, c, axes, t, &rank, &first);
  }
  return first;
}

const Context *exec_result_of(const Exec *e, const Context *c, const Collective *w,
                              const CollPart *p) {
  int64_t rank;
  const Context *first = c;
  if (p->once) sharers(e, c, w->axes, (uint32_t)p->once - 1, &rank, &first);
  return first;
}

void exec_divide_units(const Exec *e, const Context *c, int32_t divided, BoundSet *set) {
  int64_t rank = 0, units = set->units;
  const Context *first;
  uint32_t t = (uint32_t)divided - 1;
  Axes axes = tensor_replicated(&e->program->mesh, &e->program->tensor[t]);
  int64_t n = sharers(e, c, axes, t, &rank, &first);
  set->from = units * rank / n;
  set->units = units * (rank + 1) / n - set->from;
}

// -- sums that their readers compute -------------------------------------------------------------

// Returns whether in every group of a collective all processors share the memory of tensor t, so
// that each can read the operands of the others.
static bool groups_share(const Exec *e, Axes axes, uint32_t t) {
  int64_t rank, n = axes_size(&e->program->mesh, axes);
  const Context *first;
  for (int64_t r = 0; r < e->processors; r++)
    if (sharers(e, &e->context[r], axes, t, &rank, &first) != n) return false;
  return true;
}

static const bool *late_parts(Exec *e, const Collective *w) {
  bool *late = arena_array(e->memory, bool, w->nparts + 1), any = false;
  for (uint32_t i = 0; i < w->nparts; i++) {
    const CollPart *p = &w->part[i];
    late[i] = p->late && groups_share(e, w->axes, (uint32_t)p->once - 1);
    any = any || late[i];
  }
  return any ? late : NULL;
}

static const BoundSum *bind_sum(Exec *e, const Context *c, const LateSum *s) {
  const Collective *w = &e->program->instr[s->instr].u.collective;
  const CollPart *p = &w->part[s->part];
  int64_t n = axes_size(&e->program->mesh, w->axes);
  BoundSum *b = arena_new_of(e->memory, BoundSum);
  char **src = arena_array(e->memory, char *, n);
  for (int64_t k = 0; k < n; k++)
    src[k] =
        exec_address(&e->context[axes_peer(&e->program->mesh, w->axes, c->processor, k)], p->src);
  *b = (BoundSum){.of = {.src = src, .nsrc = n, .ndst = 1, .combine = combine_of(w->type)},
                  .monoid = w->monoid,
                  .ptr = s->ptr,
                  .bytes = dtype_bytes(w->type),
                  .elements = 1,
                  .unit = s->unit};
  for (int d = 0; d < p->rank; d++) b->elements *= p->dst_block[d];
  return b;
}

static void bind_launch_sums(Exec *e, const Context *c, uint32_t i) {
  const KernelLaunch *l = &e->program->instr[i].u.kernel;
  for (uint32_t s = 0; s < l->nsets; s++) {
    const LateSum *late = l->set[s].late;
    if (late && e->late[late->instr] && e->late[late->instr][late->part])
      c->instr[i].u.kernel.set[s].sum = bind_sum(e, exec_operands_of(e, c, &l->set[s]), late);
  }
}

void exec_bind_sums(Exec *e) {
  const Program *p = e->program;
  e->late = arena_array(e->memory, const bool *, p->ninstrs + 1);
  for (uint32_t i = 0; i < p->ninstrs; i++)
    if (p->instr[i].kind == INSTR_COLLECTIVE) e->late[i] = late_parts(e, &p->instr[i].u.collective);
  for (int64_t r = e->first; r < e->first + e->own; r++)
    for (uint32_t i = 0; i < p->ninstrs; i++)
      if (p->instr[i].kind == INSTR_KERNEL) bind_launch_sums(e, &e->context[r], i);
}

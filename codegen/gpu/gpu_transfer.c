// The kernels that carry out collectives between processors on one GPU, and those that pack and
// unpack messages between GPUs (collectives/local/messages.h).
//
// Each transfer of a collective (collectives/local/transfer_plan.h) is one loop nest: load an
// element of each source, combine them, store the result to each destination. A thread has loaded
// an element of all sources before it stores it, so that a source may also be a destination.
//
// Elements are combined in the order and in the groups of collectives/local/combine.c. So a
// collective on a GPU has the bits of one on a CPU.
#include "codegen/fuse/kernel_build_internal.h"
#include "collectives/local/devices.h"
#include "collectives/local/messages.h"
#include "collectives/local/transfer.h"
#include "ir/base/hash.h"

#include <string.h>

enum { GROUP = 16 }; // sources whose sum is added up before it is added to that of earlier ones

// The op that combines two elements, by monoid.
static const Op join_op[MONOID_COUNT] = {[MONOID_SUM] = OP_ADD,
                                         [MONOID_MAX] = OP_MAXIMUM,
                                         [MONOID_MIN] = OP_MINIMUM,
                                         [MONOID_PROD] = OP_MUL};
static const Op join_bool[MONOID_COUNT] = {
    [MONOID_SUM] = OP_OR, [MONOID_MAX] = OP_OR, [MONOID_MIN] = OP_AND, [MONOID_PROD] = OP_AND};

typedef struct Making {
  const PartPlan *plan;
  Kernel *k;
  Dtype type; // in which elements are combined
} Making;

static int32_t add_stmt(Making *m, KKind kind, Op op, int32_t a, int32_t b, int32_t index) {
  KStmt s = stmt_new(kind, op, m->type, LEVEL_OUTER, 0, 0);
  s.arg[0] = a;
  s.arg[1] = b;
  s.index = index;
  m->k->stmt[m->k->nstmts] = s;
  return m->k->nstmts++;
}

// The newer element is the first argument: a maximum then returns the older one of equal elements.
static int32_t add_join(Making *m, int32_t older, int32_t newer) {
  const Op *ops = m->type == TYPE_BOOL ? join_bool : join_op;
  return add_stmt(m, K_OP, ops[m->plan->monoid], newer, older, -1);
}

// Adds statements that combine one element of each source. Returns the last one.
static int32_t add_sources(Making *m) {
  int32_t n = (int32_t)m->plan->sources, total = NO_STMT, part = NO_STMT;
  for (int32_t s = 0; s < n; s++) add_stmt(m, K_LOAD, OP_CAST, NO_STMT, NO_STMT, s);
  for (int32_t s = 0; s < n; s++) {
    part = s % GROUP ? add_join(m, part, s) : s;
    if (s % GROUP == GROUP - 1 || s == n - 1)
      total = total == NO_STMT ? part : add_join(m, total, part);
  }
  return total;
}

static KPtr pointer_of(const PartPlan *p, bool written, int offset_slot) {
  KPtr ptr = {.type = p->type, .written = written};
  const int64_t *stride = written ? p->to_stride : p->from_stride;
  for (int l = 0; l < p->nloops; l++) ptr.stride[l] = stride[l];
  if (offset_slot >= 0) ptr.base[ptr.nbases++] = (KBase){(int16_t)offset_slot, p->align};
  return ptr;
}

static Kernel *kernel_of(Arena *a, const PartPlan *p, int64_t results) {
  Kernel *k = arena_new_of(a, Kernel);
  int64_t all = p->sources + results;
  *k = (Kernel){.nouter = (uint8_t)p->nloops,
                .vector = (int8_t)(p->nloops - 1),
                .block = p->block,
                .rows = -1,
                .nphases = 1,
                .nptr = (uint16_t)all,
                .nslots = (uint16_t)(p->nloops + p->from_moves + p->to_moves)};
  for (int l = 0; l < p->nloops; l++) k->loop[l] = (KLoop){.name = "box", .slot = (int16_t)l};
  int from = p->from_moves ? p->nloops : -1, to = p->to_moves ? k->nslots - 1 : -1;
  k->ptr = arena_array(a, KPtr, all + 1);
  for (int64_t i = 0; i < all; i++)
    k->ptr[i] = pointer_of(p, i >= p->sources, i < p->sources ? from : to);
  k->stmt = arena_array(a, KStmt, 3 * p->sources + results);
  bool narrow = p->type == TYPE_BF16 || p->type == TYPE_F16;
  Making m = {p, k, narrow ? TYPE_F32 : p->type};
  int32_t value = add_sources(&m);
  for (int64_t i = 0; i < results; i++)
    add_stmt(&m, K_STORE, OP_CAST, value, NO_STMT, (int32_t)(p->sources + i));
  k->why = arena_printf(a, "%s of %lld blocks",
                        p->monoid == MONOID_NONE ? "copy" : monoid_text(p->monoid),
                        (long long)p->sources);
  return k;
}

// Appends kernel k to the program, unless it has an equal one. Returns its index.
static uint32_t add_kernel(Arena *a, Compiled *c, Kernel *k) {
  Program *p = c->program;
  const char *text = kernel_identity(a, k);
  for (uint32_t i = 0; i < p->nkernels; i++)
    if (strcmp(p->kernel[i].text, text) == 0) return i;
  uint32_t n = p->nkernels++;
  k->name = arena_printf(a, "k%016llx", (unsigned long long)fnv_text(text));
  p->kernel[n] = (ProgKernel){
      .name = k->name, .text = text, .nptr = k->nptr, .nslot = k->nslots, .nnum = k->nnum};
  c->kernels[n] = k;
  return n;
}

// Makes room for `more` kernels.
static void grow_kernels(Arena *a, Compiled *c, uint32_t more) {
  Program *p = c->program;
  ProgKernel *entry = arena_array(a, ProgKernel, p->nkernels + more + 1);
  Kernel **kernels = arena_array(a, Kernel *, p->nkernels + more + 1);
  for (uint32_t i = 0; i < p->nkernels; i++) entry[i] = p->kernel[i], kernels[i] = c->kernels[i];
  p->kernel = entry;
  c->kernels = kernels;
}

static uint32_t add_plan(Arena *a, Compiled *c, const PartPlan *p, int64_t results) {
  return add_kernel(a, c, kernel_of(a, p, results));
}

static PartPlan *local_kernels(Arena *a, Compiled *c, const Collective *w) {
  PartPlan *plan = transfer_plans(a, c->program, w);
  grow_kernels(a, c, 2 * w->nparts);
  for (uint32_t i = 0; i < w->nparts; i++) {
    PartPlan *p = &plan[i];
    if (p->nloops == 0) continue;
    p->kernel = add_plan(a, c, p, p->results);
    p->least_kernel =
        p->least_results == p->results ? p->kernel : add_plan(a, c, p, p->least_results);
  }
  return plan;
}

static MessagePart *message_kernels(Arena *a, Compiled *c, const Collective *w, int64_t each) {
  MessagePart *part = message_plans(a, c->program, w, each);
  grow_kernels(a, c, 2 * w->nparts);
  for (uint32_t i = 0; i < w->nparts; i++) {
    if (!part[i].moves) continue;
    part[i].pack.kernel = add_plan(a, c, &part[i].pack, 1);
    part[i].unpack.kernel = add_plan(a, c, &part[i].unpack, 1);
  }
  return part;
}

GpuTransfers *gpu_transfers(Arena *a, Compiled *c, int64_t each) {
  const Program *p = c->program;
  GpuTransfers *out = arena_new_of(a, GpuTransfers);
  out->local = arena_array(a, PartPlan *, p->ninstrs + 1);
  out->messages = each ? arena_array(a, MessagePart *, p->ninstrs + 1) : NULL;
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    const Collective *w = &p->instr[i].u.collective;
    if (p->instr[i].kind != INSTR_COLLECTIVE) continue;
    if (each && devices_along(&p->mesh, group_axes(w), each) > 1)
      out->messages[i] = message_kernels(a, c, w, each);
    else
      out->local[i] = local_kernels(a, c, w);
  }
  out->join = each ? gpu_overlap(a, c, out->messages) : NULL;
  return out;
}

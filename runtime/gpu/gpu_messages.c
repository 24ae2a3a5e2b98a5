// Collectives between GPUs in the plan of a step: launches that pack slots, messages, and launches
// that unpack slots (collectives/local/messages.h).
//
// They are in a stream of their own, in which a collective waits for what was put into the main
// stream before it. The main stream waits for a collective before the first operation that accesses
// its memory (GpuProgram.join), and for all at loops, at the commit and at the end of a step. Slots
// are used in the stream of messages only, by one collective after another.
//
// The slots of a plan are memory of the GPU. Like all operands, they have addresses on the host
// while the plan is made, which gpu_operand translates. There is no memory at these addresses: they
// are only reserved, so that no other operand has them.
#define _GNU_SOURCE // MAP_ANONYMOUS
#include "runtime/gpu/gpu_plan_internal.h"

#include <sys/mman.h>

// Returns whether a collective writes memory that outlives the step.
static bool writes_lasting(const Program *p, const Collective *c) {
  bool lasting = false;
  for (uint32_t i = 0; i < c->nparts; i++) lasting = lasting || gpu_is_lasting(p, c->part[i].dst);
  return lasting;
}

// Lists what this rank does in a collective, in w->arena. After the commit of a step that is not
// good, messages travel all the same, but kernels do nothing: so only kernels write what outlives
// the step.
static MessageCall list_call(DeviceWork *w, const StepPlan *p, const GpuRound *round) {
  Exec *e = w->exec;
  CommCall *call = &e->call[round->instr];
  for (int64_t c = 0; c < e->processors; c++) exec_move_operands(e, c, round->instr, &round->steps);
  call->defers = p->defers;
  bool by_kernels = p->commit != UINT32_MAX && writes_lasting(e->program, call->what);
  return message_call(w->arena, w->code->messages[round->instr], &e->program->mesh, call, e->first,
                      e->own, by_kernels, p->slots);
}

// Returns the bytes of the records of n sets.
static size_t records_of(const DeviceWork *w, const TransferSet *set, uint32_t n) {
  size_t bytes = 0;
  for (uint32_t i = 0; i < n; i++)
    bytes += gpu_table_record(&w->exec->program->kernel[set[i].kernel]);
  return bytes;
}

bool gpu_messages_measure(DeviceWork *w, StepPlan *p, const GpuRound *round) {
  ArenaMark mark = arena_mark(w->arena);
  MessageCall c = list_call(w, p, round);
  p->need.table += records_of(w, c.pack, c.npacks) + records_of(w, c.unpack, c.nunpacks);
  // calls use the slots one after another
  if ((size_t)c.staging > p->need.slots) p->need.slots = (size_t)c.staging;
  arena_reset(w->arena, mark);
  return true;
}

// Returns message m with addresses on the GPU.
static Message on_gpu(const DeviceWork *w, const StepPlan *p, Message m) {
  if (m.from) m.from = (const void *)(uintptr_t)gpu_operand(w, p, m.from);
  if (m.to) m.to = (void *)(uintptr_t)gpu_operand(w, p, m.to);
  return m;
}

static void add_messages(const DeviceWork *w, StepPlan *p, const MessageCall *c) {
  Message *m = arena_array(p->arena, Message, c->nmessages + 1);
  if (c->nmessages == 0) return;
  for (uint32_t i = 0; i < c->nmessages; i++) m[i] = on_gpu(w, p, c->message[i]);
  vec_push(p->arena, p->op) =
      (GpuOp){.kind = GPU_MESSAGES, .u.messages = {.axes = c->axes, .n = c->nmessages, .at = m}};
}

// -- the two streams ----------------------------------------------------------------------------

static void add_mark(StepPlan *p, GpuOpKind kind, int mark, bool all) {
  vec_push(p->arena, p->op) = (GpuOp){.kind = kind, .u.mark = {mark, all}};
}

// Lets the main stream wait for the first n collectives under way, at the end of the last round.
// They run one after another: so it waits for the mark of the last one of them only.
static void join_first(StepPlan *p, uint32_t n) {
  if (n == 0) return;
  add_mark(p, GPU_JOIN, p->under_way.at[n - 1].mark, n == p->under_way.n);
  p->round.at[p->round.n - 1].end = p->op.n;
  p->under_way.n -= n;
  for (uint32_t i = 0; i < p->under_way.n; i++) p->under_way.at[i] = p->under_way.at[i + n];
}

void gpu_messages_join(StepPlan *p, uint32_t instr) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->under_way.n; i++) {
    const UnderWay *u = &p->under_way.at[i];
    bool again = instr <= u->instr; // a loop has begun its next round
    if (instr >= u->join || again) n = i + 1;
  }
  join_first(p, n);
}

// Puts the operations from number `first` on into the stream of messages, and notes the collective
// `instr`, which they carry out, as under way.
static void put_beside(const DeviceWork *w, StepPlan *p, uint32_t first, uint32_t instr) {
  int mark = p->under_way.n ? (p->under_way.at[p->under_way.n - 1].mark + 1) % GPU_MARKS : 0;
  for (uint32_t i = first; i < p->op.n; i++) p->op.at[i].beside = true;
  add_mark(p, GPU_DONE, mark, false);
  vec_push(p->arena, p->under_way) = (UnderWay){instr, w->code->join[instr], mark};
}

bool gpu_messages_plan(DeviceWork *w, StepPlan *p, GpuRound *round) {
  const Exec *e = w->exec;
  int part = p->commit == UINT32_MAX ? 0 : 1;
  ArenaMark mark = arena_mark(w->arena);
  MessageCall c = list_call(w, p, round);
  transfer_count(&e->program->mesh, &e->call[round->instr], &p->count[part], 0);
  if (p->under_way.n == GPU_MARKS) join_first(p, 1);
  vec_push(p->arena, p->op) = (GpuOp){.kind = GPU_FORK};
  uint32_t first = p->op.n;
  bool good = gpu_launch_sets(w, p, round, c.pack, c.npacks);
  if (good) add_messages(w, p, &c);
  good = good && gpu_launch_sets(w, p, round, c.unpack, c.nunpacks);
  if (good) put_beside(w, p, first, round->instr);
  arena_reset(w->arena, mark);
  return good;
}

// -- addresses of slots -------------------------------------------------------------------------

bool gpu_slots_reserve(DeviceWork *w, StepPlan *p) {
  if (p->need.slots == 0) return true;
  void *at =
      mmap(NULL, p->need.slots, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return diag_error(w->diag, DIAG_NO_MEMORY, (Pos){0},
                      "out of memory: no addresses for %zu bytes of slots", p->need.slots);
  p->slots = at;
  return true;
}

void gpu_slots_release(StepPlan *p) {
  if (p->slots) munmap(p->slots, p->need.slots);
}

CudaAddress gpu_operand(const DeviceWork *w, const StepPlan *p, const void *host) {
  uintptr_t offset = (uintptr_t)host - (uintptr_t)p->slots;
  return p->slots && offset < p->need.slots ? p->slots_at + offset : gpu_translate(w, host);
}

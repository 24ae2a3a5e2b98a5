// Collectives, sends and receives of the stand-in for NCCL (transfer.h), in pieces that fit the
// memory that ranks share. Reductions are computed in the order of ranks.
#include "tests/standin/nccl/transfer.h"

#include <stdio.h>
#include <string.h>

#include "ir/base/base.h"
#include "tests/standin/fail.h"
#include "tests/standin/standin.h"

static const struct {
  ncclDataType_t theirs;
  Dtype type;
} types[] = {
    {ncclUint8, TYPE_U8},    {ncclInt32, TYPE_I32},     {ncclInt64, TYPE_I64},
    {ncclUint64, TYPE_U64},  {ncclFloat16, TYPE_F16},   {ncclFloat32, TYPE_F32},
    {ncclFloat64, TYPE_F64}, {ncclBfloat16, TYPE_BF16},
};

static const Dtype *find_type(ncclDataType_t type) {
  for (size_t i = 0; i < countof(types); i++)
    if (types[i].theirs == type) return &types[i].type;
  return NULL;
}

int64_t transfer_bytes(ncclDataType_t type) {
  const Dtype *t = find_type(type);
  return t ? dtype_bytes(*t) : 0;
}

const char *transfer_name(Kind kind) {
  static const char *const name[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather",
                                     "ncclSend", "ncclRecv"};
  return name[kind];
}

static Call call_of(const Part *p) {
  Call c = {.kind = (int32_t)p->kind,
            .type = (int32_t)p->type,
            .op = p->kind < ALL_GATHER ? (int32_t)p->op : 0,
            .number = p->kind < SEND ? p->comm->collectives : p->comm->exchanges,
            .graph = meshc_standin_launch(),
            .count = p->count};
  char graph[32] = "";
  if (c.graph) snprintf(graph, sizeof graph, " in graph %u", c.graph);
  snprintf(c.text, sizeof c.text, "operation %u%s, %s of %lld elements of %s%s", c.number, graph,
           transfer_name(p->kind), (long long)c.count, dtype_text(*find_type(p->type)),
           c.op == ncclSum ? "" : ", no sum");
  return c;
}

// -- collectives --------------------------------------------------------------------------------

static bool same(const Call *a, const Call *b) {
  return a->kind == b->kind && a->type == b->type && a->op == b->op && a->number == b->number &&
         a->graph == b->graph && a->count == b->count;
}

// Meets the other ranks, which must make the same call.
static void agree(const Part *p) {
  const struct ncclComm *c = p->comm;
  Meeting *m = c->meeting;
  m->desk[c->rank].call = call_of(p);
  meeting_wait(m, c->rank);
  for (int i = 0; i < c->nranks; i++)
    if (!same(&m->desk[i].call, &m->desk[c->rank].call))
      standin_fail("the ranks do not agree: rank %d calls %s, rank %d calls %s", c->rank,
                   m->desk[c->rank].call.text, i, m->desk[i].call.text);
  meeting_wait(m, c->rank);
}

static double combine(ncclRedOp_t op, double a, double b) {
  switch (op) {
  case ncclSum: return a + b;
  case ncclProd: return a * b;
  case ncclMax: return a > b ? a : b;
  case ncclMin: return a < b ? a : b;
  default: standin_fail("the stand-in for NCCL lacks reduction %d", (int)op);
  }
}

// Combines integers of 8 bytes, which a double does not hold. Sums and products wrap.
static uint64_t combine_wide(ncclRedOp_t op, bool is_signed, uint64_t a, uint64_t b) {
  bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
  switch (op) {
  case ncclSum: return a + b;
  case ncclProd: return a * b;
  case ncclMax: return less ? b : a;
  case ncclMin: return less ? a : b;
  default: standin_fail("the stand-in for NCCL lacks reduction %d", (int)op);
  }
}

static void reduce_wide(const Part *p, char *to, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t value, other;
    memcpy(&value, p->comm->meeting->desk[0].data + i * 8, 8);
    for (int r = 1; r < p->comm->nranks; r++) {
      memcpy(&other, p->comm->meeting->desk[r].data + i * 8, 8);
      value = combine_wide(p->op, p->type == ncclInt64, value, other);
    }
    memcpy(to + i * 8, &value, 8);
  }
}

// Reduces the n elements on the desks of all ranks to `to`.
static void reduce_desks(const Part *p, char *to, int64_t n) {
  if (p->type == ncclInt64 || p->type == ncclUint64) {
    reduce_wide(p, to, n);
    return;
  }
  Dtype type = *find_type(p->type), sum = dtype_accumulator(type);
  int64_t bytes = dtype_bytes(type);
  for (int64_t i = 0; i < n; i++) {
    double value = dtype_load(type, p->comm->meeting->desk[0].data + i * bytes);
    for (int r = 1; r < p->comm->nranks; r++)
      value = dtype_round(
          sum, combine(p->op, value, dtype_load(type, p->comm->meeting->desk[r].data + i * bytes)));
    dtype_store(type, to + i * bytes, dtype_round(type, value));
  }
}

// Puts n elements from `from` on the desk of this rank, and waits until all ranks have done so.
static void put_on_desk(const Part *p, const char *from, int64_t n) {
  memcpy(p->comm->meeting->desk[p->comm->rank].data, from, (size_t)(n * transfer_bytes(p->type)));
  meeting_wait(p->comm->meeting, p->comm->rank);
}

// Reduces p->count elements at `from` of each rank to `to`, or drops the result if `to` is NULL.
static void reduce(const Part *p, const char *from, char *to) {
  int64_t bytes = transfer_bytes(p->type), piece = MEETING_BYTES / bytes;
  for (int64_t i = 0; i < p->count; i += piece) {
    int64_t n = p->count - i < piece ? p->count - i : piece;
    put_on_desk(p, from + i * bytes, n);
    if (to) reduce_desks(p, to + i * bytes, n);
    meeting_wait(p->comm->meeting, p->comm->rank);
  }
}

static void gather(const Part *p) {
  int64_t bytes = transfer_bytes(p->type), piece = MEETING_BYTES / bytes;
  for (int64_t i = 0; i < p->count; i += piece) {
    int64_t n = p->count - i < piece ? p->count - i : piece;
    put_on_desk(p, p->from + i * bytes, n);
    for (int r = 0; r < p->comm->nranks; r++)
      memcpy(p->to + (r * p->count + i) * bytes, p->comm->meeting->desk[r].data,
             (size_t)(n * bytes));
    meeting_wait(p->comm->meeting, p->comm->rank);
  }
}

static void run_collective(const Part *p) {
  int64_t block = p->count * transfer_bytes(p->type);
  agree(p);
  if (p->kind == ALL_GATHER) gather(p);
  if (p->kind == ALL_REDUCE) reduce(p, p->from, p->to);
  for (int r = 0; r < p->comm->nranks && p->kind == REDUCE_SCATTER; r++)
    reduce(p, p->from + r * block, r == p->comm->rank ? p->to : NULL);
}

// -- sends and receives -------------------------------------------------------------------------

// Sends or receives the next piece if the box allows it. Returns whether it did. Part.from and to
// move on; *left: the bytes that remain.
static bool send_piece(Part *p, int64_t *left) {
  Box *box = &p->comm->meeting->box[p->comm->rank][p->peer];
  if (atomic_load(&box->full)) return false;
  box->bytes = (int32_t)(*left < MEETING_BYTES ? *left : MEETING_BYTES);
  box->call = call_of(p);
  memcpy(box->data, p->from, (size_t)box->bytes);
  p->from += box->bytes;
  *left -= box->bytes;
  atomic_store(&box->full, 1);
  return true;
}

static bool receive_piece(Part *p, int64_t *left) {
  Box *box = &p->comm->meeting->box[p->peer][p->comm->rank];
  if (!atomic_load(&box->full)) return false;
  Call own = call_of(p);
  if (own.count != box->call.count || own.type != box->call.type || own.graph != box->call.graph)
    standin_fail("the ranks do not agree: rank %d calls %s from rank %d, which calls %s",
                 p->comm->rank, own.text, p->peer, box->call.text);
  memcpy(p->to, box->data, (size_t)box->bytes);
  p->to += box->bytes;
  *left -= box->bytes;
  atomic_store(&box->full, 0);
  return true;
}

// Whether an earlier call of the same kind with the same peer is not done: it comes first.
static bool has_to_wait(const Part *part, const bool *done, int i) {
  for (int j = 0; j < i; j++)
    if (!done[j] && part[j].kind == part[i].kind && part[j].peer == part[i].peer &&
        part[j].comm == part[i].comm)
      return true;
  return false;
}

static bool move_piece(Part *part, bool *done, int64_t *left, int i) {
  if (done[i] || has_to_wait(part, done, i)) return false;
  bool moved =
      part[i].kind == SEND ? send_piece(&part[i], &left[i]) : receive_piece(&part[i], &left[i]);
  if (moved && left[i] == 0) done[i] = true;
  return moved;
}

static _Noreturn void fail_exchange(const Part *part, const bool *done, int n) {
  int i = 0;
  if (meeting_late) longjmp(*meeting_late, 1);
  while (i < n - 1 && done[i]) i++;
  standin_fail("rank %d waits in %s with rank %d, which does not take part", part[i].comm->rank,
               call_of(&part[i]).text, part[i].peer);
}

static void exchange(Part *part, int n) {
  bool done[TRANSFER_PARTS] = {false};
  int64_t left[TRANSFER_PARTS];
  for (int i = 0; i < n; i++) left[i] = part[i].count * transfer_bytes(part[i].type);
  Deadline d = deadline_begin();
  for (int remain = n; remain > 0;) {
    bool moved = false;
    for (int i = 0; i < n; i++)
      if (move_piece(part, done, left, i)) moved = true;
    remain = 0;
    for (int i = 0; i < n; i++) remain += !done[i];
    if (moved) d = deadline_begin();
    if (remain && !moved && deadline_over(&d)) fail_exchange(part, done, n);
  }
}

void transfer_group(Part *part, int n) {
  Part pair[TRANSFER_PARTS];
  int pairs = 0;
  for (int i = 0; i < n; i++) {
    if (part[i].comm->destroyed)
      standin_fail("%s of a communicator that is destroyed", transfer_name(part[i].kind));
    if (part[i].kind >= SEND) {
      part[i].comm->exchanges++;
      pair[pairs++] = part[i];
      continue;
    }
    part[i].comm->collectives++;
    run_collective(&part[i]);
  }
  exchange(pair, pairs);
}

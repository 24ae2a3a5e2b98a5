// Plans the messages of a collective, and lists those of one processor (messages.h).
//
// The library combines what it combines as meshc does: sums and products of numbers, and the larger
// or smaller of integers. It loses a NaN among floats whose maximum it takes, and has no bools. So
// these elements travel to all who need them, and a kernel combines them.
#include "collectives/local/messages.h"

#include <string.h>

#include "collectives/local/transfer_plan_internal.h"

// Returns whether kernels combine the elements of a collective.
static bool kernels_combine(const Collective *c) {
  bool reduces = c->kind == COLL_ALL_REDUCE || c->kind == COLL_REDUCE_SCATTER;
  bool ordered = c->monoid == MONOID_MAX || c->monoid == MONOID_MIN;
  return reduces && (c->type == TYPE_BOOL || (ordered && dtype_is_float(c->type)));
}

// -- planning -----------------------------------------------------------------------------------

// The transfers of a part in a full batch.
typedef struct PartTransfers {
  VEC(Transfer) transfer;
} PartTransfers;
typedef struct Collecting {
  Arena *a;
  PartTransfers *part;
} Collecting;

static void take_transfer(const TransferWalk *w, const Transfer *t, int64_t elements, int64_t job) {
  (void)elements, (void)job;
  Collecting *c = w->context;
  vec_push(c->a, c->part[w->part - w->call->what->part].transfer) = *t;
}

// Sets the strides and the size of a slot. An all_reduce has slots that lie as its blocks do.
static void plan_slot(const PartTransfers *t, const Collective *c, const CollPart *part,
                      MessagePart *out) {
  for (uint32_t i = 0; i < t->transfer.n; i++)
    for (int d = 0; d < part->rank; d++) {
      int64_t n = t->transfer.at[i].extent[d];
      if (n > out->most[d]) out->most[d] = n;
    }
  if (c->kind == COLL_ALL_REDUCE)
    for (int d = 0; d < part->rank; d++) out->most[d] = part->src_block[d];
  out->elements = row_strides(part->rank, out->most, out->stride);
  out->slot = ceil_div(out->elements * dtype_bytes(c->type), SLOT_ALIGN) * SLOT_ALIGN;
}

// Returns transfer t from the operand to a slot, or from slots to the result.
static Transfer slot_side(const MessagePart *p, const Transfer *t, bool packs) {
  Transfer out = *t;
  memcpy(packs ? out.to_stride : out.from_stride, p->stride, sizeof p->stride);
  *(packs ? &out.to : &out.from) = 0;
  return out;
}

// Plans the kernel that packs, or the one that unpacks, all transfers of a part.
static void plan_side(Arena *a, const PartTransfers *t, const Collective *c, const CollPart *part,
                      const bool *varies, bool packs, MessagePart *out) {
  PartPlan *plan = packs ? &out->pack : &out->unpack;
  bool combines = !packs && out->combines;
  PartBoxes boxes = {.a = a, .plan = plan, .rank = part->rank + 1, .varies = varies};
  *plan = (PartPlan){.monoid = combines ? c->monoid : MONOID_NONE,
                     .sources = combines ? t->transfer.at[0].nsrc : 1,
                     .results = 1,
                     .least_results = 1,
                     .bytes = combines ? 1 : dtype_bytes(c->type)};
  for (uint32_t i = 0; i < t->transfer.n; i++) {
    Transfer side = slot_side(out, &t->transfer.at[i], packs);
    vec_push(a, boxes.box) = transfer_box(&side, plan->bytes);
  }
  part_plan(&boxes, c->type);
}

MessagePart *message_plans(Arena *a, const Program *p, const Collective *c) {
  MessagePart *out = arena_array(a, MessagePart, c->nparts + 1);
  Collecting collecting = {.a = a, .part = arena_array(a, PartTransfers, c->nparts + 1)};
  CommCall call = full_call(a, p, c);
  walk_by_dim(&p->mesh, &call, take_transfer, &collecting);
  for (uint32_t i = 0; i < c->nparts; i++) {
    const PartTransfers *t = &collecting.part[i];
    const bool *varies = varying_dims(a, p, c, &c->part[i]);
    out[i].moves = t->transfer.n > 0;
    if (!out[i].moves) continue;
    out[i].combines = kernels_combine(c);
    plan_slot(t, c, &c->part[i], &out[i]);
    plan_side(a, t, c, &c->part[i], varies, true, &out[i]);
    plan_side(a, t, c, &c->part[i], varies, false, &out[i]);
  }
  return out;
}

// -- listing ------------------------------------------------------------------------------------

// A transfer of the group of the processor, and the processor's part in it.
typedef struct Involved {
  Transfer t;
  int64_t source, result; // index of the processor among sources and destinations; -1: it is none
  const char *src;        // its blocks
  char *dst;
} Involved;

typedef struct Listing {
  Arena *a;
  const MessagePart *part;
  const Mesh *mesh;
  const Collective *what;
  int64_t processor, me, members; // number of the processor, its rank in the group, and its size
  char *staging;
  int64_t used; // bytes of slots so far
  VEC(TransferSet) pack, unpack;
  VEC(Message) message;
  // the transfers of the current part, and its number
  VEC(Involved) involved;
  int64_t current;
} Listing;

// Returns n new slots of the current part. Offsets are integers, since `staging` may be NULL.
static char *new_slots(Listing *l, int64_t n) {
  char *at = (char *)((uintptr_t)l->staging + (uintptr_t)l->used);
  l->used += n * l->part[l->current].slot;
  return at;
}

static char *slot_at(const Listing *l, char *slots, int64_t k) {
  return (char *)((uintptr_t)slots + (uintptr_t)(k * l->part[l->current].slot));
}

static TransferSet new_set(Listing *l, const PartPlan *plan, const Transfer *side) {
  TransferSet set = {.kernel = plan->kernel,
                     .ptr = arena_array(l->a, void *, plan->sources + 1),
                     .slot = arena_array(l->a, int64_t, plan->nloops + 2)};
  Box b = transfer_box(side, plan->bytes);
  part_slots(plan, &b, &set);
  return set;
}

static void add_pack(Listing *l, const Involved *v, char *slot) {
  const MessagePart *p = &l->part[l->current];
  Transfer side = slot_side(p, &v->t, true);
  TransferSet set = new_set(l, &p->pack, &side);
  set.ptr[0] = (void *)(uintptr_t)v->src;
  set.ptr[1] = slot;
  vec_push(l->a, l->pack) = set;
}

// Lists the unpacking of a box from `source`: as many slots as the plan has sources.
static void add_unpack(Listing *l, const Involved *v, const char *const *source) {
  const MessagePart *p = &l->part[l->current];
  Transfer side = slot_side(p, &v->t, false);
  TransferSet set = new_set(l, &p->unpack, &side);
  for (int64_t k = 0; k < p->unpack.sources; k++) set.ptr[k] = (void *)(uintptr_t)source[k];
  set.ptr[p->unpack.sources] = v->dst;
  vec_push(l->a, l->unpack) = set;
}

static void add_message(Listing *l, Message m) {
  if (m.count > 0) vec_push(l->a, l->message) = m;
}

static void add_send(Listing *l, const void *from, int64_t bytes, int64_t peer) {
  add_message(
      l,
      (Message){.kind = MESSAGE_SEND, .from = from, .count = bytes, .type = TYPE_U8, .peer = peer});
}

static void add_receive(Listing *l, void *to, int64_t bytes, int64_t peer) {
  add_message(
      l,
      (Message){.kind = MESSAGE_RECEIVE, .to = to, .count = bytes, .type = TYPE_U8, .peer = peer});
}

// -- blocks that lie as slots do ----------------------------------------------------------------

// Returns how many elements of a slot lie from the first to the last one of a box, gaps included.
static int64_t span_of(const MessagePart *p, const Transfer *t) {
  int64_t span = 1;
  for (int d = 0; d < t->rank; d++) span += (t->extent[d] - 1) * p->stride[d];
  return span;
}

// Returns whether a box lies with the strides `stride` as it lies in a slot.
static bool lies_so(const MessagePart *p, const Transfer *t, const int64_t *stride) {
  for (int d = 0; d < t->rank; d++)
    if (t->extent[d] > 1 && stride[d] != p->stride[d]) return false;
  return true;
}

// Returns whether a message may be sent from the operand itself.
static bool sends_directly(const MessagePart *p, const Transfer *t) {
  return lies_so(p, t, t->from_stride);
}

// Returns whether a slot has other elements between those of a box.
static bool has_gaps(const MessagePart *p, const Transfer *t) {
  int64_t n = 1;
  for (int d = 0; d < t->rank; d++) n *= t->extent[d];
  return span_of(p, t) != n;
}

// Returns whether a message may be received in the result itself: it must not write what is in
// between the elements of the box.
static bool receives_directly(const MessagePart *p, const Transfer *t) {
  return lies_so(p, t, t->to_stride) && !has_gaps(p, t);
}

// Returns whether the library may use the block of one side (the sources, or the results) itself:
// all members of the group have boxes of the largest size, which lie one after the other in the
// block, in the order of the members.
static bool all_lie_so(const Listing *l, bool sources) {
  const MessagePart *p = &l->part[l->current];
  if (l->involved.n != l->members) return false;
  for (uint32_t k = 0; k < l->involved.n; k++) {
    const Transfer *t = &l->involved.at[k].t;
    if (memcmp(t->extent, p->most, (size_t)t->rank * sizeof *t->extent) != 0 ||
        !lies_so(p, t, sources ? t->from_stride : t->to_stride) ||
        (sources ? t->from : t->to) != (int64_t)k * p->elements)
      return false;
  }
  return true;
}

static const char *operand_at(const Listing *l, const Involved *v) {
  return v->src + v->t.from * dtype_bytes(l->what->type);
}
static char *result_at(const Listing *l, const Involved *v) {
  return v->dst + v->t.to * dtype_bytes(l->what->type);
}

// -- kinds of collectives -----------------------------------------------------------------------

// Sends one box to member `to`. Returns the slot in which it is packed, where a box for this member
// itself stays; NULL if it is sent from the operand.
static const char *send_box(Listing *l, const Involved *v, int64_t to) {
  const MessagePart *p = &l->part[l->current];
  bool direct = to != l->me && sends_directly(p, &v->t);
  char *slot = direct ? NULL : new_slots(l, 1);
  if (!direct) add_pack(l, v, slot);
  if (to != l->me)
    add_send(l, direct ? operand_at(l, v) : slot, span_of(p, &v->t) * dtype_bytes(l->what->type),
             to);
  return slot;
}

static void send_to_all(Listing *l, const Involved *v) {
  for (int64_t k = 0; k < l->members; k++)
    if (k != l->me) (void)send_box(l, v, k);
}

// Receives the boxes that a kernel combines, and lists the kernel. own: the box of this member.
// sends: it also sends its box to all, when its turn comes (see list_all_reduce).
static void combine_boxes(Listing *l, const Involved *v, const char *own, bool sends) {
  const MessagePart *p = &l->part[l->current];
  const char **source = arena_array(l->a, const char *, l->members);
  for (int64_t k = 0; k < l->members; k++) {
    if (k == l->me && sends) send_to_all(l, v);
    char *slot = k == l->me ? NULL : new_slots(l, 1);
    if (slot) add_receive(l, slot, span_of(p, &v->t) * dtype_bytes(l->what->type), k);
    source[k] = slot ? slot : own;
  }
  add_unpack(l, v, source);
}

// There is one transfer, whose elements lie one after the other. Where a kernel combines, member 0
// sends to all, then member 1, and so on: all members list their messages in this one order, which
// messages that leave in several groups need (messages.h).
static void list_all_reduce(Listing *l) {
  const MessagePart *p = &l->part[l->current];
  const Involved *v = &l->involved.at[0];
  if (!p->combines) {
    add_message(l, (Message){.kind = MESSAGE_REDUCE,
                             .from = v->src,
                             .to = v->dst,
                             .count = span_of(p, &v->t),
                             .type = l->what->type,
                             .monoid = l->what->monoid});
    return;
  }
  combine_boxes(l, v, v->src, true);
}

// Lists a reduce_scatter that the library combines.
static void list_reduced_scatter(Listing *l) {
  const MessagePart *p = &l->part[l->current];
  int64_t size = dtype_bytes(l->what->type);
  bool direct = all_lie_so(l, true);
  char *slots = direct ? NULL : new_slots(l, l->members), *to = NULL;
  const char *from = direct ? l->involved.at[0].src : slots;
  for (uint32_t i = 0; i < l->involved.n; i++) {
    const Involved *v = &l->involved.at[i];
    int64_t k = axes_rank(l->mesh, group_axes(l->what), v->t.dst_of[0]);
    if (!direct) add_pack(l, v, slot_at(l, slots, k));
    if (v->result < 0) continue;
    if (direct && receives_directly(p, &v->t)) {
      to = result_at(l, v);
    } else {
      to = direct ? new_slots(l, 1) : slot_at(l, slots, l->me);
      add_unpack(l, v, (const char *const[]){to});
    }
  }
  if (!to) to = direct ? new_slots(l, 1) : slot_at(l, slots, l->me); // its piece is empty
  add_message(l, (Message){.kind = MESSAGE_REDUCE_SCATTER,
                           .from = from,
                           .to = to,
                           .count = direct ? p->elements : p->slot / size,
                           .type = l->what->type,
                           .monoid = l->what->monoid});
}

static void list_reduce_scatter(Listing *l) {
  if (!l->part[l->current].combines) {
    list_reduced_scatter(l);
    return;
  }
  for (uint32_t i = 0; i < l->involved.n; i++) {
    const Involved *v = &l->involved.at[i];
    const char *own = send_box(l, v, axes_rank(l->mesh, group_axes(l->what), v->t.dst_of[0]));
    if (v->result >= 0) combine_boxes(l, v, own, false);
  }
}

static void list_all_gather(Listing *l) {
  const MessagePart *p = &l->part[l->current];
  bool direct = all_lie_so(l, false);
  char *slots = direct ? NULL : new_slots(l, l->members);
  const char *from = NULL;
  int64_t bytes = direct ? p->elements * dtype_bytes(l->what->type) : p->slot;
  for (uint32_t i = 0; i < l->involved.n; i++) {
    const Involved *v = &l->involved.at[i];
    int64_t k = axes_rank(l->mesh, group_axes(l->what), v->t.src_of[0]);
    char *slot = direct ? NULL : slot_at(l, slots, k);
    bool whole = span_of(p, &v->t) * dtype_bytes(l->what->type) == bytes;
    if (v->source >= 0 && whole && sends_directly(p, &v->t)) from = operand_at(l, v);
    if (v->source >= 0 && !from) {
      from = direct ? new_slots(l, 1) : slot;
      add_pack(l, v, (char *)(uintptr_t)from);
    }
    if (!direct) add_unpack(l, v, (const char *const[]){slot});
  }
  if (!from) from = slot_at(l, slots, l->me); // its piece is empty, so the slots are there
  add_message(l, (Message){.kind = MESSAGE_GATHER,
                           .from = from,
                           .to = direct ? l->involved.at[0].dst : slots,
                           .count = bytes,
                           .type = TYPE_U8});
}

// Lists an all_to_all or a permute: its transfers are from one processor to one.
static void list_exchange(Listing *l) {
  const MessagePart *p = &l->part[l->current];
  Axes axes = group_axes(l->what);
  for (uint32_t i = 0; i < l->involved.n; i++) {
    const Involved *v = &l->involved.at[i];
    const char *slot = NULL;
    if (v->source >= 0) slot = send_box(l, v, axes_rank(l->mesh, axes, v->t.dst_of[0]));
    if (v->result < 0) continue;
    bool direct = v->source < 0 && receives_directly(p, &v->t);
    char *to = direct ? result_at(l, v) : v->source < 0 ? new_slots(l, 1) : NULL;
    if (to)
      add_receive(l, to, span_of(p, &v->t) * dtype_bytes(l->what->type),
                  axes_rank(l->mesh, axes, v->t.src_of[0]));
    if (!direct) add_unpack(l, v, (const char *const[]){to ? to : slot});
  }
}

// -- the walk -----------------------------------------------------------------------------------

static void list_part(Listing *l) {
  static void (*const kinds[COLL_COUNT])(Listing * l) = {
      [COLL_ALL_REDUCE] = list_all_reduce,
      [COLL_ALL_GATHER] = list_all_gather,
      [COLL_REDUCE_SCATTER] = list_reduce_scatter,
      [COLL_ALL_TO_ALL] = list_exchange,
      [COLL_PERMUTE] = list_exchange,
  };
  if (l->involved.n) kinds[l->what->kind](l);
  l->involved.n = 0;
}

static int64_t index_of(const int64_t *list, int64_t n, int64_t x) {
  for (int64_t i = 0; i < n; i++)
    if (list[i] == x) return i;
  return -1;
}

// Notes a transfer of a walk in which the processor takes part.
static void take_involved(const TransferWalk *w, const Transfer *t, int64_t elements, int64_t job) {
  (void)elements, (void)job;
  Listing *l = w->context;
  Involved v = {.t = *t,
                .source = index_of(t->src_of, t->nsrc, l->processor),
                .result = index_of(t->dst_of, t->ndst, l->processor)};
  int64_t part = w->part - w->call->what->part;
  if (v.source < 0 && v.result < 0) return;
  if (part != l->current) list_part(l);
  l->current = part;
  const CommMember *own = &w->call->member[l->processor];
  v.src = own->src[part];
  v.dst = own->dst[part];
  // the walk uses its list of processors again for the next group
  v.t.src_of = arena_copy(l->a, t->src_of, sizeof *t->src_of * (size_t)t->nsrc);
  v.t.dst_of = arena_copy(l->a, t->dst_of, sizeof *t->dst_of * (size_t)t->ndst);
  vec_push(l->a, l->involved) = v;
}

MessageCall message_call(Arena *a, const MessagePart *part, const Mesh *m, const CommCall *call,
                         int64_t processor, char *staging) {
  Axes axes = group_axes(call->what);
  Listing l = {.a = a,
               .part = part,
               .mesh = m,
               .what = call->what,
               .processor = processor,
               .me = axes_rank(m, axes, processor),
               .members = axes_size(m, axes),
               .staging = staging};
  walk_by_dim(m, call, take_involved, &l);
  list_part(&l);
  order_sets(a, l.pack.at, l.pack.n);
  order_sets(a, l.unpack.at, l.unpack.n);
  return (MessageCall){.axes = axes,
                       .npacks = l.pack.n,
                       .nmessages = l.message.n,
                       .nunpacks = l.unpack.n,
                       .pack = l.pack.at,
                       .unpack = l.unpack.at,
                       .message = l.message.at,
                       .staging = l.used};
}

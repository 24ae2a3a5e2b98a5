// Plans the messages of a collective, and lists those of one device (messages.h).
//
// The library combines what it combines as meshc does: sums and products of numbers, and the larger
// or smaller of integers. It loses a NaN among floats whose maximum it takes, and has no bools. So
// these elements travel to all who need them, and a kernel combines them.
//
// Operands of several members on one device are combined there before they travel.
#include "collectives/local/messages.h"

#include <string.h>

#include "collectives/local/devices.h"
#include "collectives/local/transfer_plan_internal.h"

static bool reduces(const Collective *c) {
  return c->kind == COLL_ALL_REDUCE || c->kind == COLL_REDUCE_SCATTER;
}

// Returns whether the elements of several devices are combined by kernels, not by the library.
static bool kernels_combine(const Collective *c) {
  bool ordered = c->monoid == MONOID_MAX || c->monoid == MONOID_MIN;
  return reduces(c) && (c->type == TYPE_BOOL || (ordered && dtype_is_float(c->type)));
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

// Plans the kernel that packs, or the one that unpacks, all transfers of a part. The kernel
// combines the boxes of `sources` operands or slots, or copies if that is 1.
static void plan_side(Arena *a, const PartTransfers *t, const Collective *c, const CollPart *part,
                      const bool *varies, bool packs, int64_t sources, MessagePart *out) {
  PartPlan *plan = packs ? &out->pack : &out->unpack;
  bool combines = sources > 1;
  PartBoxes boxes = {.a = a, .plan = plan, .rank = part->rank + 1, .varies = varies};
  *plan = (PartPlan){.monoid = combines ? c->monoid : MONOID_NONE,
                     .sources = sources,
                     .results = 1,
                     .least_results = 1,
                     .bytes = combines ? 1 : dtype_bytes(c->type)};
  for (uint32_t i = 0; i < t->transfer.n; i++) {
    Transfer side = slot_side(out, &t->transfer.at[i], packs);
    vec_push(a, boxes.box) = transfer_box(&side, plan->bytes);
  }
  part_plan(&boxes, c->type);
}

MessagePart *message_plans(Arena *a, const Program *p, const Collective *c, int64_t each) {
  Axes axes = group_axes(c);
  int64_t devices = devices_along(&p->mesh, axes, each),
          members = axes_size(&p->mesh, axes) / devices;
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
    plan_side(a, t, c, &c->part[i], varies, true, reduces(c) ? members : 1, &out[i]);
    plan_side(a, t, c, &c->part[i], varies, false, out[i].combines ? devices : 1, &out[i]);
  }
  return out;
}

// -- listing ------------------------------------------------------------------------------------

// A transfer of a group, and the blocks of the device's processors in it: of the nsrc that are
// sources, and of the ndst that are destinations.
typedef struct Involved {
  Transfer t;
  int64_t nsrc, ndst;
  char **src, **dst;
} Involved;

typedef struct Listing {
  Arena *a;
  const MessagePart *part;
  const Mesh *mesh;
  const Collective *what;
  Axes axes;           // along which the members of a group differ
  int64_t first, each; // the processors of the device
  int64_t me, devices; // number of the device among those of a group, and how many these are
  int64_t members;     // of a group on each device
  bool by_kernels;     // of message_call
  char *staging;
  int64_t used; // bytes of slots so far
  VEC(TransferSet) pack, unpack;
  VEC(Message) message;
  // the transfers of the current part in the current group; the number of this part, and the first
  // processor of this group
  VEC(Involved) involved;
  int64_t current, group;
} Listing;

static int64_t device_of(const Listing *l, int64_t processor) {
  return device_index(l->mesh, l->axes, l->each, processor);
}

// Returns the number of a processor among the members of its group, where those of one device
// follow those of the device before.
static int64_t number_of(const Listing *l, int64_t processor) {
  return device_of(l, processor) * l->members + device_place(l->mesh, l->axes, l->each, processor);
}

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
  if (v->nsrc != p->pack.sources) BUG("a box is packed from other blocks than planned");
  for (int64_t k = 0; k < v->nsrc; k++) set.ptr[k] = v->src[k];
  set.ptr[v->nsrc] = slot;
  vec_push(l->a, l->pack) = set;
}

// Lists the unpacking of a box to each destination, from `source`: as many slots as the plan has
// sources.
static void add_unpack(Listing *l, const Involved *v, const char *const *source) {
  const MessagePart *p = &l->part[l->current];
  Transfer side = slot_side(p, &v->t, false);
  for (int64_t d = 0; d < v->ndst; d++) {
    TransferSet set = new_set(l, &p->unpack, &side);
    for (int64_t k = 0; k < p->unpack.sources; k++) set.ptr[k] = (void *)(uintptr_t)source[k];
    set.ptr[p->unpack.sources] = v->dst[d];
    vec_push(l->a, l->unpack) = set;
  }
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
  return p->pack.sources == 1 && lies_so(p, t, t->from_stride);
}

// Returns whether a slot has other elements between those of a box.
static bool has_gaps(const MessagePart *p, const Transfer *t) {
  int64_t n = 1;
  for (int d = 0; d < t->rank; d++) n *= t->extent[d];
  return span_of(p, t) != n;
}

// Returns whether a message may be received in the result itself: it must not write what is in
// between the elements of the box.
static bool receives_directly(const Listing *l, const Transfer *t) {
  const MessagePart *p = &l->part[l->current];
  return !l->by_kernels && lies_so(p, t, t->to_stride) && !has_gaps(p, t);
}

// Returns whether the library may use the block of one side (the sources, or the results) itself:
// each device has one member of the group. All have boxes of the largest size, which lie one after
// the other in the block, in the order of the members.
static bool all_lie_so(const Listing *l, bool sources) {
  const MessagePart *p = &l->part[l->current];
  if (l->members > 1 || l->involved.n != l->devices) return false;
  for (uint32_t k = 0; k < l->involved.n; k++) {
    const Transfer *t = &l->involved.at[k].t;
    if (memcmp(t->extent, p->most, (size_t)t->rank * sizeof *t->extent) != 0 ||
        !lies_so(p, t, sources ? t->from_stride : t->to_stride) ||
        (sources ? t->from : t->to) != (int64_t)k * p->elements)
      return false;
  }
  return true;
}

// Returns where the box is in the only source, or in the only destination, on this device.
static const char *operand_at(const Listing *l, const Involved *v) {
  return v->src[0] + v->t.from * dtype_bytes(l->what->type);
}
static char *result_at(const Listing *l, const Involved *v) {
  return v->dst[0] + v->t.to * dtype_bytes(l->what->type);
}

// -- kinds of collectives -----------------------------------------------------------------------

// Sends one box to device `to`. Returns the slot in which it is packed, where a box for this device
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

static void send_to_all(Listing *l, const Involved *v, const char *own) {
  const MessagePart *p = &l->part[l->current];
  for (int64_t k = 0; k < l->devices; k++)
    if (k != l->me) add_send(l, own, span_of(p, &v->t) * dtype_bytes(l->what->type), k);
}

// Receives the boxes that a kernel combines, and lists the kernel. own: the box of this device.
// sends: it also sends its box to all, when its turn comes (see list_all_reduce).
static void combine_boxes(Listing *l, const Involved *v, const char *own, bool sends) {
  const MessagePart *p = &l->part[l->current];
  const char **source = arena_array(l->a, const char *, l->devices);
  for (int64_t k = 0; k < l->devices; k++) {
    if (k == l->me && sends) send_to_all(l, v, own);
    char *slot = k == l->me ? NULL : new_slots(l, 1);
    if (slot) add_receive(l, slot, span_of(p, &v->t) * dtype_bytes(l->what->type), k);
    source[k] = slot ? slot : own;
  }
  add_unpack(l, v, source);
}

// There is one transfer, whose elements lie one after the other, as they do in a slot. Where a
// kernel combines, device 0 sends to all, then device 1, and so on: this is the one order that all
// lists follow (MessageCall.message).
static void list_all_reduce(Listing *l) {
  const MessagePart *p = &l->part[l->current];
  const Involved *v = &l->involved.at[0];
  bool packs = l->members > 1, unpacks = packs || l->by_kernels;
  char *slot = unpacks && (packs || !p->combines) ? new_slots(l, 1) : NULL;
  if (packs) add_pack(l, v, slot);
  if (p->combines) {
    combine_boxes(l, v, packs ? slot : v->src[0], true);
    return;
  }
  add_message(l, (Message){.kind = MESSAGE_REDUCE,
                           .from = packs ? slot : v->src[0],
                           .to = unpacks ? slot : v->dst[0],
                           .count = span_of(p, &v->t),
                           .type = l->what->type,
                           .monoid = l->what->monoid});
  if (unpacks) add_unpack(l, v, (const char *const[]){slot});
}

// Lists a reduce_scatter that the library combines. It needs the boxes of all destinations one
// after the other: the operand itself, if they lie so there, or slots.
static void list_reduced_scatter(Listing *l) {
  const MessagePart *p = &l->part[l->current];
  int64_t size = dtype_bytes(l->what->type);
  bool direct = all_lie_so(l, true);
  char *slots = direct ? NULL : new_slots(l, l->devices * l->members);
  char *to = direct ? NULL : slot_at(l, slots, l->me * l->members);
  const char *from = direct ? l->involved.at[0].src[0] : slots;
  for (uint32_t i = 0; i < l->involved.n; i++) {
    const Involved *v = &l->involved.at[i];
    char *slot = direct ? NULL : slot_at(l, slots, number_of(l, v->t.dst_of[0]));
    if (!direct) add_pack(l, v, slot);
    if (v->ndst == 0) continue;
    if (direct && receives_directly(l, &v->t)) {
      to = result_at(l, v);
    } else {
      if (direct) slot = to = new_slots(l, 1);
      add_unpack(l, v, (const char *const[]){slot});
    }
  }
  add_message(l, (Message){.kind = MESSAGE_REDUCE_SCATTER,
                           .from = from,
                           .to = to,
                           .count = direct ? p->elements : l->members * p->slot / size,
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
    const char *own = send_box(l, v, device_of(l, v->t.dst_of[0]));
    if (v->ndst) combine_boxes(l, v, own, false);
  }
}

static void list_all_gather(Listing *l) {
  const MessagePart *p = &l->part[l->current];
  bool direct = !l->by_kernels && all_lie_so(l, false);
  char *slots = direct ? NULL : new_slots(l, l->devices * l->members);
  const char *from = direct ? NULL : slot_at(l, slots, l->me * l->members);
  int64_t bytes = direct ? p->elements * dtype_bytes(l->what->type) : p->slot;
  for (uint32_t i = 0; i < l->involved.n; i++) {
    const Involved *v = &l->involved.at[i];
    char *slot = direct ? NULL : slot_at(l, slots, number_of(l, v->t.src_of[0]));
    bool whole = span_of(p, &v->t) * dtype_bytes(l->what->type) == bytes;
    if (v->nsrc && l->members == 1 && whole && sends_directly(p, &v->t)) {
      from = operand_at(l, v);
    } else if (v->nsrc) {
      char *packed = direct ? new_slots(l, 1) : slot;
      add_pack(l, v, packed);
      if (direct) from = packed;
    }
    if (!direct) add_unpack(l, v, (const char *const[]){slot});
  }
  add_message(l, (Message){.kind = MESSAGE_GATHER,
                           .from = from,
                           .to = direct ? l->involved.at[0].dst[0] : slots,
                           .count = l->members * bytes,
                           .type = TYPE_U8});
}

// Lists an all_to_all or a permute: its transfers are from one processor to one.
static void list_exchange(Listing *l) {
  const MessagePart *p = &l->part[l->current];
  for (uint32_t i = 0; i < l->involved.n; i++) {
    const Involved *v = &l->involved.at[i];
    const char *slot = NULL;
    if (v->nsrc) slot = send_box(l, v, device_of(l, v->t.dst_of[0]));
    if (v->ndst == 0) continue;
    bool direct = v->nsrc == 0 && receives_directly(l, &v->t);
    char *to = direct ? result_at(l, v) : v->nsrc == 0 ? new_slots(l, 1) : NULL;
    if (to)
      add_receive(l, to, span_of(p, &v->t) * dtype_bytes(l->what->type),
                  device_of(l, v->t.src_of[0]));
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

// Sets *out to the addresses of the blocks that belong to processors of the device, and returns
// their number. Block i of n is at address[i] and belongs to processor list[i].
static int64_t own_blocks(const Listing *l, const int64_t *list, int64_t n, char *const *address,
                          char ***out) {
  int64_t own = 0;
  *out = arena_array(l->a, char *, n + 1);
  for (int64_t i = 0; i < n; i++)
    if (list[i] >= l->first && list[i] < l->first + l->each) (*out)[own++] = address[i];
  return own;
}

// Notes a transfer of a walk in which the device takes part.
static void take_involved(const TransferWalk *w, const Transfer *t, int64_t elements, int64_t job) {
  (void)elements, (void)job;
  Listing *l = w->context;
  Involved v = {.t = *t};
  v.nsrc = own_blocks(l, t->src_of, t->nsrc, t->src, &v.src);
  // an all_reduce has all of the group as destinations, even where they share memory
  int64_t ndst = l->what->kind == COLL_ALL_REDUCE ? t->nsrc : t->ndst;
  v.ndst = own_blocks(l, t->dst_of, ndst, t->dst, &v.dst);
  int64_t part = w->part - w->call->what->part;
  if (v.nsrc == 0 && v.ndst == 0) return;
  if (part != l->current || w->peer[0] != l->group) list_part(l);
  l->current = part;
  l->group = w->peer[0];
  // the walk uses its list of processors again for the next group
  v.t.src_of = arena_copy(l->a, t->src_of, sizeof *t->src_of * (size_t)t->nsrc);
  v.t.dst_of = arena_copy(l->a, t->dst_of, sizeof *t->dst_of * (size_t)t->ndst);
  vec_push(l->a, l->involved) = v;
}

MessageCall message_call(Arena *a, const MessagePart *part, const Mesh *m, const CommCall *call,
                         int64_t first, int64_t each, bool by_kernels, char *staging) {
  Axes axes = group_axes(call->what);
  int64_t devices = devices_along(m, axes, each);
  Listing l = {.a = a,
               .part = part,
               .mesh = m,
               .what = call->what,
               .axes = axes,
               .first = first,
               .each = each,
               .me = device_index(m, axes, each, first),
               .devices = devices,
               .members = axes_size(m, axes) / devices,
               .by_kernels = by_kernels,
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

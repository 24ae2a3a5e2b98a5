// Plans the kernels that carry out a collective on a device, and lists their operands.
//
// A plan holds for batches of all sizes. So two dims are joined to one loop only if they are
// contiguous in every transfer, and the size of the inner one does not depend on the batch.
#include "collectives/local/transfer_plan_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
  WORD = 4,          // bytes of a word that a copy moves
  VECTOR_BYTES = 16, // bytes that a thread loads at once, if offsets allow it
  UNIT = 1024        // most elements of the last loop in a unit
};

// -- the boxes of a part ------------------------------------------------------------------------

Box transfer_box(const Transfer *t, int64_t bytes) {
  Box b = {.from = t->from * bytes, .to = t->to * bytes};
  for (int d = 0; d < t->rank; d++) {
    b.extent[d] = t->extent[d];
    b.from_stride[d] = t->from_stride[d] * bytes;
    b.to_stride[d] = t->to_stride[d] * bytes;
  }
  b.extent[t->rank] = bytes;
  b.from_stride[t->rank] = b.to_stride[t->rank] = 1;
  return b;
}

typedef struct Planning {
  Arena *a;
  PartPlan *plan; // of all parts
  PartBoxes *part;
} Planning;

// Enters one transfer of a walk in the boxes of its part.
static void take_box(const TransferWalk *w, const Transfer *t, int64_t elements, int64_t job) {
  (void)elements, (void)job;
  Planning *p = w->context;
  int64_t i = w->part - w->call->what->part;
  PartPlan *plan = &p->plan[i];
  plan->sources = t->nsrc;
  plan->results = t->ndst;
  bool copies = t->nsrc == 1;
  plan->monoid = copies ? MONOID_NONE : w->call->what->monoid;
  plan->bytes = copies ? dtype_bytes(w->call->what->type) : 1;
  vec_push(p->a, p->part[i].box) = transfer_box(t, plan->bytes);
}

// -- the loops of a part ------------------------------------------------------------------------

// Returns whether dim d has one element in every transfer of the part, in all batches.
static bool is_single(const PartBoxes *p, int d) {
  for (uint32_t i = 0; i < p->box.n; i++)
    if (p->box.at[i].extent[d] != 1) return false;
  return !p->varies[d];
}

// Returns whether the elements of dims `outer` and d are contiguous in every transfer of the part.
static bool joins(const PartBoxes *p, int outer, int d) {
  for (uint32_t i = 0; i < p->box.n; i++) {
    const Box *b = &p->box.at[i];
    if (b->from_stride[outer] != b->extent[d] * b->from_stride[d] ||
        b->to_stride[outer] != b->extent[d] * b->to_stride[d])
      return false;
  }
  return !p->varies[d];
}

// Sets the loops of the plan, with strides in bytes for a copy.
static void plan_loops(PartBoxes *p) {
  PartPlan *plan = p->plan;
  int last = -1; // last dim of the current loop with more than one element
  for (int d = 0; d < p->rank; d++) {
    if (is_single(p, d) && (plan->nloops > 0 || d + 1 < p->rank)) continue;
    if (last < 0 || !joins(p, last, d)) plan->first[plan->nloops++] = (uint8_t)d;
    plan->from_stride[plan->nloops - 1] = p->box.at[0].from_stride[d];
    plan->to_stride[plan->nloops - 1] = p->box.at[0].to_stride[d];
    last = d;
  }
  plan->first[plan->nloops] = (uint8_t)p->rank;
}

// Returns the size of a loop for one box.
static int64_t loop_size(const PartPlan *plan, const Box *b, int loop) {
  int64_t n = 1;
  for (int d = plan->first[loop]; d < plan->first[loop + 1]; d++) n *= b->extent[d];
  return loop == plan->nloops - 1 ? n / plan->divisor : n;
}

// Returns whether a copy can move words of that many bytes: sizes of the last loop, strides and
// offsets are multiples of them in all batches.
static bool moves_words(const PartBoxes *p, int64_t word) {
  const PartPlan *plan = p->plan;
  int last = plan->nloops - 1, d = plan->first[last];
  bool fits = plan->from_stride[last] == 1 && plan->to_stride[last] == 1;
  for (int l = 0; l < last; l++)
    fits = fits && plan->from_stride[l] % word == 0 && plan->to_stride[l] % word == 0;
  for (uint32_t i = 0; i < p->box.n && fits; i++) {
    const Box *b = &p->box.at[i];
    int64_t size = loop_size(plan, b, last);
    if (p->varies[d] && b->extent[d]) size /= b->extent[d];
    fits = size % word == 0 && b->from % word == 0 && b->to % word == 0;
  }
  return fits;
}

// Sets the type of the kernel. A copy gets words instead of bytes, if it can move words; a last
// loop of one word is left out.
static void plan_type(PartBoxes *p, Dtype type) {
  PartPlan *plan = p->plan;
  int last = plan->nloops - 1;
  plan->word = plan->divisor = 1;
  plan->type = plan->monoid == MONOID_NONE ? TYPE_U8 : type;
  if (plan->monoid != MONOID_NONE || !moves_words(p, WORD)) return;
  plan->word = WORD;
  plan->type = TYPE_I32;
  for (int l = 0; l < last; l++) plan->from_stride[l] /= WORD, plan->to_stride[l] /= WORD;
  bool single = last > 0 && !p->varies[plan->first[last]];
  for (uint32_t i = 0; i < p->box.n; i++)
    single = single && loop_size(plan, &p->box.at[i], last) == WORD;
  if (single)
    plan->nloops--;
  else
    plan->divisor = WORD;
}

// Sets which offsets are slots, what they are multiples of, and the elements of a unit.
static void plan_offsets(PartBoxes *p) {
  PartPlan *plan = p->plan;
  int64_t most = 1;
  plan->align = VECTOR_BYTES / dtype_bytes(plan->type);
  for (uint32_t i = 0; i < p->box.n; i++) {
    const Box *b = &p->box.at[i];
    plan->from_moves = plan->from_moves || b->from;
    plan->to_moves = plan->to_moves || b->to;
    while (b->from / plan->word % plan->align || b->to / plan->word % plan->align) plan->align /= 2;
    int64_t size = loop_size(plan, b, plan->nloops - 1);
    if (size > most) most = size;
  }
  // of one loop, so that tensors of all sizes share kernels
  plan->block = plan->nloops == 1 ? UNIT : 1;
  while (plan->block < most && plan->block < UNIT) plan->block *= 2;
}

void part_plan(PartBoxes *p, Dtype type) {
  plan_loops(p);
  plan_type(p, type);
  plan_offsets(p);
}

// -- planning all parts of a collective ---------------------------------------------------------

// Returns whether a size depends on the number of rows in the batch.
static bool size_varies(const Program *p, Size size) {
  for (int32_t s = size.slot; s >= 0; s = p->slot[s].times - 1)
    if (p->slot[s].live || p->slot[s].batch || (p->over && strcmp(p->slot[s].dim, p->over) == 0))
      return true;
  return false;
}

const bool *varying_dims(Arena *a, const Program *p, const Collective *c, const CollPart *part) {
  bool *varies = arena_array(a, bool, MAX_RANK + 1);
  for (int d = 0; d < part->rank; d++)
    varies[d] = size_varies(p, part->src_valid[d]) || size_varies(p, part->dst_valid[d]);
  // an all_reduce also combines padding, but along dim 0
  for (int d = 1; d < part->rank && c->kind == COLL_ALL_REDUCE; d++) varies[d] = false;
  return varies;
}

static int64_t full_size(const Program *p, Size s, int64_t r) {
  return s.slot < 0 ? s.base : s.base * program_slot(p, s.slot, r, -1);
}

CommCall full_call(Arena *a, const Program *p, const Collective *c) {
  int64_t n = mesh_size(&p->mesh);
  CommMember *member = arena_array(a, CommMember, n);
  void **none = arena_array(a, void *, c->nparts + 1);
  for (int64_t r = 0; r < n; r++) {
    int64_t *src = arena_array(a, int64_t, (size_t)c->nparts * MAX_RANK + 1);
    int64_t *dst = arena_array(a, int64_t, (size_t)c->nparts * MAX_RANK + 1);
    for (uint32_t i = 0; i < c->nparts; i++)
      for (int d = 0; d < c->part[i].rank; d++) {
        src[i * MAX_RANK + (uint32_t)d] = full_size(p, c->part[i].src_valid[d], r);
        dst[i * MAX_RANK + (uint32_t)d] = full_size(p, c->part[i].dst_valid[d], r);
      }
    member[r] = (CommMember){r, none, none, src, dst};
  }
  return (CommCall){.what = c, .members = n, .member = member};
}

void walk_by_dim(const Mesh *m, const CommCall *call, TransferTake *take, void *context) {
  WalkRoom room = walk_room(mesh_size(m), 1);
  TransferWalk w = walk_begin(&room, 0, m, call, 0, 1);
  w.take = take;
  w.context = context;
  w.by_dim = true;
  transfers_walk(&w);
  walk_room_free(&room);
}

PartPlan *transfer_plans(Arena *a, const Program *p, const Collective *c) {
  Planning planning = {.a = a,
                       .plan = arena_array(a, PartPlan, c->nparts + 1),
                       .part = arena_array(a, PartBoxes, c->nparts + 1)};
  CommCall call = full_call(a, p, c);
  walk_by_dim(&p->mesh, &call, take_box, &planning);
  for (uint32_t i = 0; i < c->nparts; i++) {
    PartBoxes *part = &planning.part[i];
    part->a = a;
    part->plan = &planning.plan[i];
    part->rank = c->part[i].rank + 1;
    part->varies = varying_dims(a, p, c, &c->part[i]);
    if (part->box.n == 0) continue; // nothing moves in any batch
    part->plan->least_results = c->part[i].once ? 1 : part->plan->results;
    part_plan(part, c->type);
  }
  return planning.plan;
}

// -- the operands of a call ---------------------------------------------------------------------

typedef struct Listing {
  Arena *a;
  const PartPlan *plan;
  int64_t first, each; // the processors whose groups are listed
  VEC(TransferSet) set;
} Listing;

void part_slots(const PartPlan *p, const Box *b, TransferSet *set) {
  int n = 0;
  if (b->from % (p->word * p->align) || b->to % (p->word * p->align))
    BUG("a transfer that begins elsewhere than planned");
  set->units = 1;
  for (int l = 0; l < p->nloops; l++) {
    int64_t size = loop_size(p, b, l);
    set->slot[n++] = size;
    set->units *= l == p->nloops - 1 ? ceil_div(size, p->block) : size;
  }
  if (p->from_moves) set->slot[n++] = b->from / p->word / p->align;
  if (p->to_moves) set->slot[n++] = b->to / p->word / p->align;
}

// Enters the operands of one transfer of a walk in the list.
static void take_set(const TransferWalk *w, const Transfer *t, int64_t elements, int64_t job) {
  (void)elements, (void)job;
  Listing *l = w->context;
  const PartPlan *p = &l->plan[w->part - w->call->what->part];
  if (t->src_of[0] < l->first || t->src_of[0] >= l->first + l->each) return;
  if (t->nsrc != p->sources || (t->ndst != p->results && t->ndst != p->least_results))
    BUG("a transfer that was not planned");
  if (t->nsrc == 1 && t->ndst == 1 && t->src[0] == t->dst[0] && t->from == t->to) return;
  TransferSet set = {.kernel = t->ndst == p->results ? p->kernel : p->least_kernel,
                     .ptr = arena_array(l->a, void *, t->nsrc + t->ndst),
                     .slot = arena_array(l->a, int64_t, p->nloops + 2)};
  for (int64_t i = 0; i < t->nsrc; i++) set.ptr[i] = t->src[i];
  for (int64_t i = 0; i < t->ndst; i++) set.ptr[t->nsrc + i] = t->dst[i];
  Box b = transfer_box(t, p->bytes);
  part_slots(p, &b, &set);
  vec_push(l->a, l->set) = set;
}

// A set in the order of a walk, for sorting.
typedef struct NumberedSet {
  TransferSet set;
  uint32_t number;
} NumberedSet;

static int by_kernel(const void *x, const void *y) {
  const NumberedSet *a = x, *b = y;
  if (a->set.kernel != b->set.kernel) return a->set.kernel < b->set.kernel ? -1 : 1;
  return a->number < b->number ? -1 : a->number > b->number;
}

void order_sets(Arena *a, TransferSet *set, uint32_t n) {
  NumberedSet *list = arena_array(a, NumberedSet, n + 1);
  for (uint32_t i = 0; i < n; i++) list[i] = (NumberedSet){set[i], i};
  qsort(list, n, sizeof *list, by_kernel);
  for (uint32_t i = 0; i < n; i++) set[i] = list[i].set;
}

uint32_t transfer_sets(Arena *a, const PartPlan *plan, const Mesh *m, const CommCall *call,
                       int64_t first, int64_t each, TransferSet **out) {
  Listing l = {.a = a, .plan = plan, .first = first, .each = each};
  walk_by_dim(m, call, take_set, &l);
  order_sets(a, l.set.at, l.set.n);
  *out = l.set.at;
  return l.set.n;
}

void transfer_count(const Mesh *m, const CommCall *call, CommCount *count, double seconds) {
  WalkRoom room = walk_room(mesh_size(m), 1);
  TransferWalk w = walk_begin(&room, 0, m, call, 0, 1);
  call_count(&w, count, seconds);
  walk_room_free(&room);
}

// Vector clocks (order.h). Operations are kept, in the order in which they were executed, until the
// host has waited for all of them.
#include "tests/standin/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/mem.h"

// -- clocks -------------------------------------------------------------------------------------

void clock_free(Clock *c) {
  free(c->at);
  *c = (Clock){0};
}

uint32_t clock_of(const Clock *c, uint32_t lane) { return lane < c->n ? c->at[lane] : 0; }

bool clock_covers(const Clock *c, uint32_t lane, uint32_t operations) {
  return clock_of(c, lane) >= operations;
}

void clock_cover(Clock *c, uint32_t lane, uint32_t operations) {
  if (lane >= c->n) {
    c->at = mem_grow(c->at, (lane + 1) * sizeof *c->at);
    memset(c->at + c->n, 0, (lane + 1 - c->n) * sizeof *c->at);
    c->n = lane + 1;
  }
  if (c->at[lane] < operations) c->at[lane] = operations;
}

void clock_join(Clock *c, const Clock *other) {
  for (uint32_t lane = 0; lane < other->n; lane++)
    if (other->at[lane]) clock_cover(c, lane, other->at[lane]);
}

// -- operations ---------------------------------------------------------------------------------

typedef struct Operation {
  uint32_t segment; // its first one
  uint32_t lane, number;
  char name[68];
} Operation;

typedef struct Lane {
  uint32_t length, forgotten; // operations begun; how many of them are not kept
  uint32_t *at;               // of those kept: the place in Order.operation
  uint32_t room;
} Lane;

// A read whose place in a cell of the shadow memory was taken by an unordered one.
typedef struct KeptRead {
  uint32_t segment;
  const char *at;
  size_t bytes;
} KeptRead;

struct Order {
  uint32_t next_segment;
  Operation *operation;
  uint32_t noperations, operations;
  Lane *lane;
  uint32_t nlanes;
  KeptRead *kept;
  size_t nkept, keeps;
  Clock now; // of the running operation
  ShadowOrder shadow;
};

// Returns the operation of a segment, or NULL if it is forgotten.
static const Operation *operation_of(const Order *o, uint32_t segment) {
  uint32_t low = 0, high = o->noperations; // the wanted one is the last with a segment so low
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (o->operation[middle].segment <= segment)
      low = middle + 1;
    else
      high = middle;
  }
  return low ? &o->operation[low - 1] : NULL;
}

static bool is_ordered(void *self, uint32_t segment) {
  const Order *o = self;
  const Operation *p = operation_of(o, segment);
  return !p || clock_covers(&o->now, p->lane, p->number);
}

static void keep_read(void *self, uint32_t segment, const char *at, size_t bytes) {
  Order *o = self;
  KeptRead *last = o->nkept ? &o->kept[o->nkept - 1] : NULL;
  if (last && last->segment == segment && last->at + last->bytes == at) {
    last->bytes += bytes;
    return;
  }
  if (o->nkept == o->keeps) {
    o->keeps = 2 * o->keeps + 64;
    o->kept = mem_grow(o->kept, o->keeps * sizeof *o->kept);
  }
  o->kept[o->nkept++] = (KeptRead){segment, at, bytes};
}

static uint32_t kept_read(void *self, const char *at, size_t bytes) {
  const Order *o = self;
  for (size_t i = 0; i < o->nkept; i++)
    if (at < o->kept[i].at + o->kept[i].bytes && o->kept[i].at < at + bytes &&
        !is_ordered(self, o->kept[i].segment))
      return o->kept[i].segment;
  return 0;
}

Order *order_new(void) {
  Order *o = mem_zeroed(1, sizeof *o);
  o->next_segment = 1;
  o->shadow = (ShadowOrder){o, is_ordered, keep_read, kept_read};
  return o;
}

void order_free(Order *o) {
  if (!o) return;
  for (uint32_t i = 0; i < o->nlanes; i++) free(o->lane[i].at);
  free(o->lane);
  free(o->operation);
  free(o->kept);
  clock_free(&o->now);
  free(o);
}

uint32_t order_add_lane(Order *o) {
  o->lane = mem_grow(o->lane, (o->nlanes + 1) * sizeof *o->lane);
  o->lane[o->nlanes] = (Lane){0};
  return o->nlanes++;
}

uint32_t order_lanes(const Order *o) { return o->nlanes; }
uint32_t order_lane_length(const Order *o, uint32_t lane) { return o->lane[lane].length; }
uint32_t *order_next_segment(Order *o) { return &o->next_segment; }

static void add_to_lane(Lane *l, uint32_t place) {
  uint32_t kept = l->length - l->forgotten;
  if (kept == l->room) {
    l->room = 2 * l->room + 16;
    l->at = mem_grow(l->at, l->room * sizeof *l->at);
  }
  l->at[kept] = place;
  l->length++;
}

// Returns the first segment of the operations that the running one is not ordered behind, or
// `segment` if there is none.
static uint32_t safe_segment(const Order *o, uint32_t segment) {
  uint32_t safe = segment;
  for (uint32_t i = 0; i < o->nlanes; i++) {
    const Lane *l = &o->lane[i];
    uint32_t covered = clock_of(&o->now, i);
    if (covered < l->forgotten) covered = l->forgotten; // the host waited for these
    if (covered >= l->length) continue;
    uint32_t first = o->operation[l->at[covered - l->forgotten]].segment;
    if (first < safe) safe = first;
  }
  return safe;
}

uint32_t order_begin(Order *o, uint32_t lane, const Clock *behind, const char *name,
                     ShadowSelf *self) {
  if (o->noperations == o->operations) {
    o->operations = 2 * o->operations + 64;
    o->operation = mem_grow(o->operation, o->operations * sizeof *o->operation);
  }
  if (o->now.n) memset(o->now.at, 0, o->now.n * sizeof *o->now.at);
  clock_join(&o->now, behind);
  uint32_t segment = o->next_segment++, safe = safe_segment(o, segment);
  Operation *p = &o->operation[o->noperations];
  *p = (Operation){.segment = segment, .lane = lane, .number = o->lane[lane].length + 1};
  snprintf(p->name, sizeof p->name, "%s", name);
  add_to_lane(&o->lane[lane], o->noperations++);
  *self = (ShadowSelf){
      .safe = safe, .launch = segment, .block = segment, .segment = segment, .order = &o->shadow};
  return p->number;
}

void order_name(const Order *o, uint32_t segment, char *text, size_t n) {
  const Operation *p = operation_of(o, segment);
  if (p)
    snprintf(text, n, "%s (operation %u of its stream)", p->name, p->number);
  else
    snprintf(text, n, "an earlier operation");
}

void order_forget(Order *o, const Clock *host) {
  for (uint32_t i = 0; i < o->nlanes; i++)
    if (!clock_covers(host, i, o->lane[i].length)) return;
  for (uint32_t i = 0; i < o->nlanes; i++) o->lane[i].forgotten = o->lane[i].length;
  o->noperations = 0;
  o->nkept = 0;
}

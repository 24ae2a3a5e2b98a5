// Which operations are ordered before which: vector clocks.
//
// A lane is a sequence of operations, each ordered behind the one before: a stream, or one of the
// streams that a graph was captured from. A clock has a number for each lane: it says that the
// first so many operations of the lane happened before. Operation A is ordered before B if the
// clock of B covers the place of A in its lane. The host has a clock, too: what it has waited for.
#ifndef TESTS_STANDIN_ORDER_H
#define TESTS_STANDIN_ORDER_H

#include "tests/standin/shadow.h"

typedef struct Clock {
  uint32_t *at; // by lane
  uint32_t n;   // lanes that it knows; it covers no operation of others
} Clock;

void clock_free(Clock *c);
void clock_cover(Clock *c, uint32_t lane, uint32_t operations);
void clock_join(Clock *c, const Clock *other); // covers what either covered
bool clock_covers(const Clock *c, uint32_t lane, uint32_t operations);
// Returns the number of operations of the lane that the clock covers.
uint32_t clock_of(const Clock *c, uint32_t lane);

typedef struct Order Order;

Order *order_new(void);
void order_free(Order *o);
uint32_t order_add_lane(Order *o);
uint32_t order_lanes(const Order *o);                      // number of lanes
uint32_t order_lane_length(const Order *o, uint32_t lane); // operations begun in it so far
// The number of the next segment of shadow memory, which emulator_new takes.
uint32_t *order_next_segment(Order *o);

// Begins the next operation of a lane, ordered behind all that `behind` covers. Accesses are made
// as *self until the next operation begins. `name` is copied. Returns its number in the lane, from
// 1: a clock that covers as many operations of the lane covers it.
uint32_t order_begin(Order *o, uint32_t lane, const Clock *behind, const char *name,
                     ShadowSelf *self);
// Writes the name of the operation of a segment to text[0..n).
void order_name(const Order *o, uint32_t segment, char *text, size_t n);
// Forgets operations that need not be known any more, if the clock of the host covers all.
void order_forget(Order *o, const Clock *host);

#endif

// Chooses the memory of the carries of loops so that rounds copy nothing: a group writes the next
// value of a carry where the next round reads it. In: the Builder, before the first instruction
// (histories_place) and at the end of each loop (carry_in_place). Other carries are copied
// (program_loops.c).
//
// If the values of a carry or its next values of all rounds are collected, the carry has a history,
// one buffer with a block for each round and one for the start value. In the loop t = T:
//
//   forward   start, next 0, ..., next T-1     the carry of round t is block t, its next one t + 1
//   reverse   next 0, ..., next T-1, start     the carry of round t is block t + 1, its next one t
//
// Otherwise the next value takes over the memory of the carry, if the round reads the carry for the
// last time before it writes the next value.
#include "codegen/program/program_internal.h"

enum { BLOCK_ALIGN = 64 }; // blocks of a history begin at cache lines

static NodeId alias_root(const Builder *b, NodeId n) {
  while (op_is_alias((Op)graph_node(b->g, n)->op)) n = view_of(b->g, n);
  return n;
}

// Returns the node in whose memory the next value of `carry` is, 0 if the scan has none.
static NodeId next_root(const Builder *b, NodeId scan, NodeId carry) {
  const Node *x = graph_node(b->g, scan);
  uint32_t k = graph_node(b->g, carry)->attr->carry;
  return k < x->nargs ? alias_root(b, x->args[k]) : 0;
}

// -- histories ---------------------------------------------------------------------------------

// Returns whether n, a COLLECT, collects the values of node `of`.
static bool collects(const Builder *b, NodeId n, NodeId of) {
  return alias_root(b, graph_node(b->g, n)->args[1]) == of;
}

// Returns whether `carry` gets a history. A group of the loop must write its next value, both must
// still be without memory, and a COLLECT must need the values of all rounds.
static bool wants_history(const Builder *b, NodeId scan, NodeId carry) {
  NodeId next = next_root(b, scan, carry);
  RegionId loop = graph_node(b->g, scan)->attr->region;
  Slot short_loop;
  // a history has no value of a round that is skipped or left
  if (region_get(b->g, loop)->guarded || b->stop[loop]) return false;
  if (!next || b->placed[next] || node_bytes(b->g, carry) % BLOCK_ALIGN ||
      !group_executes(&b->f->group[b->f->of[next]]) || graph_node(b->g, next)->region != loop ||
      graph_node(b->g, next)->op == OP_COLLECT ||
      extent_slot(b->g, b->f->rows, region_get(b->g, loop)->t, &short_loop))
    return false;
  bool wants = false;
  for (uint32_t i = b->collects.first[loop]; i < b->collects.first[loop + 1]; i++) {
    NodeId n = b->collects.node[i];
    if (!collects(b, n, next) && !collects(b, n, carry)) continue;
    if (b->placed[n] || b->collected_in[n]) return false;
    wants = true;
  }
  return wants;
}

// Returns the part of a history from byte `shift` on.
static Ref history_part(Builder *b, uint32_t history, int64_t shift, NodeId n) {
  const PlanBuffer *all = &b->buffer.at[history];
  const char *value = graph_node(b->g, n)->origin->value;
  int64_t bytes = all->bytes - shift;
  Ref part = builder_buffer(
      b, arena_printf(b->a, "%%%u %s", n, value ? value : op_row(graph_node(b->g, n)->op)->text),
      bytes);
  PlanBuffer *p = &b->buffer.at[part.offset];
  p->same = history + 1;
  p->part = true;
  p->shift = shift;
  return part;
}

static void place(Builder *b, NodeId n, Ref at) {
  b->place[n] = at;
  b->placed[n] = true;
}

// Returns the next result of a loop, a COLLECT or FINAL, in the order of ids, and advances at[],
// the places in both lists. Returns 0 at their end.
static NodeId next_result(const Builder *b, RegionId loop, uint32_t at[2]) {
  const RegionNodes *list[] = {&b->collects, &b->finals};
  int best = -1;
  for (int i = 0; i < 2; i++)
    if (at[i] < list[i]->first[loop + 1] &&
        (best < 0 || list[i]->node[at[i]] < list[best]->node[at[best]]))
      best = i;
  return best < 0 ? 0 : list[best]->node[at[best]++];
}

static void history_make(Builder *b, NodeId scan, NodeId carry) {
  RegionId loop = graph_node(b->g, scan)->attr->region;
  const Region *region = region_get(b->g, loop);
  NodeId next = next_root(b, scan, carry);
  int64_t bytes = node_bytes(b->g, carry), rounds = dim_get(b->g->dims, region->t)->size;
  Ref all = builder_buffer(b, arena_printf(b->a, "history of %%%u", carry), bytes * (rounds + 1));
  uint32_t history = (uint32_t)all.offset;
  b->buffer.at[history].node = carry;
  int64_t of_carry = region->reverse ? bytes : 0, of_next = bytes - of_carry;
  b->history[carry] = history + 1;
  place(b, carry, builder_step_ref(b, history_part(b, history, of_carry, carry), loop, bytes));
  place(b, next, builder_step_ref(b, history_part(b, history, of_next, next), loop, bytes));
  uint32_t at[] = {b->collects.first[loop], b->finals.first[loop]};
  for (NodeId n; (n = next_result(b, loop, at)) != 0;) {
    bool final = graph_node(b->g, n)->op == OP_FINAL;
    if (final && graph_node(b->g, n)->args[1] == carry)
      place(b, n, history_part(b, history, region->reverse ? 0 : bytes * rounds, n));
    if (!final && collects(b, n, carry)) place(b, n, history_part(b, history, of_carry, n));
    if (!final && collects(b, n, next)) place(b, n, history_part(b, history, of_next, n));
  }
}

void histories_place(Builder *b) {
  b->history = arena_array(b->a, uint32_t, graph_count(b->g) + 1);
  for (NodeId scan = 1; scan <= graph_count(b->g); scan++) {
    const Node *x = graph_node(b->g, scan);
    RegionId loop = x->op == OP_SCAN ? x->attr->region : 0;
    for (uint32_t i = b->carries.first[loop]; loop && i < b->carries.first[loop + 1]; i++)
      if (wants_history(b, scan, b->carries.node[i])) history_make(b, scan, b->carries.node[i]);
  }
}

Ref carry_start_ref(Builder *b, NodeId carry) {
  if (!b->history[carry]) return builder_ref(b, carry);
  const Region *region = region_get(b->g, graph_node(b->g, carry)->region);
  int64_t rounds = dim_get(b->g->dims, region->t)->size;
  return history_part(b, b->history[carry] - 1,
                      region->reverse ? rounds * node_bytes(b->g, carry) : 0, carry);
}

// -- next values in the memory of their carries ------------------------------------------------

// Returns whether r is the whole memory of a buffer of its own.
static bool is_own_buffer(const Builder *b, Ref r) {
  return r.tensor < 0 && !r.stride && !b->buffer.at[r.offset].same;
}

// Returns whether another carry of the scan gets the value that `carry` has at the start of a
// round.
static bool is_handed_on(const Builder *b, NodeId scan, NodeId carry) {
  const Node *x = graph_node(b->g, scan);
  for (int i = 0; i < x->nargs; i++)
    if (alias_root(b, x->args[i]) == carry) return true;
  return false;
}

// Returns whether launch i may store buffer `to` in the memory of buffer `from`, which it loads.
static bool stores_over(const Builder *b, uint32_t i, int64_t from, int64_t to) {
  const Instr *in = &b->instr.at[i];
  if (in->kind != INSTR_KERNEL || in->u.kernel.nsets != 1) return false;
  const Kernel *k = b->kernels.at[in->u.kernel.kernel];
  const KernelSet *s = &in->u.kernel.set[0];
  for (int store = 0; store < k->nptr; store++)
    for (int load = 0; load < k->nptr; load++)
      if (k->ptr[store].written && !k->ptr[load].written && s->ptr[load].tensor < 0 &&
          s->ptr[store].tensor < 0 && s->ptr[load].offset == from && s->ptr[store].offset == to)
        return plan_overlays(b, k, s, load, store);
  return false;
}

// Notes the uses of buffers by the instructions of the innermost open loop. Returns false if it has
// loops or collectives: the first have several orders of uses, the second may read their source
// later.
static bool note_round(Builder *b) {
  for (uint32_t i = b->begin.at[b->begin.n - 1] + 1; i < b->instr.n; i++) {
    InstrKind kind = b->instr.at[i].kind;
    if (kind == INSTR_LOOP || kind == INSTR_COLLECTIVE) return false;
    plan_note_uses(b, i);
  }
  return true;
}

void carry_in_place(Builder *b, NodeId scan, NodeId carry) {
  NodeId next = next_root(b, scan, carry);
  if (!next || graph_node(b->g, next)->region != b->open ||
      graph_node(b->g, next)->op == OP_CARRY || graph_node(b->g, next)->op == OP_COLLECT)
    return;
  Ref from = builder_ref(b, carry), to = builder_ref(b, next);
  if (!is_own_buffer(b, from) || !is_own_buffer(b, to) || is_handed_on(b, scan, carry) ||
      b->buffer.at[from.offset].bytes != b->buffer.at[to.offset].bytes || !note_round(b))
    return;
  const PlanBuffer *old = &b->buffer.at[from.offset], *new = &b->buffer.at[to.offset];
  if (old->last > new->first ||
      (old->last == new->first && !stores_over(b, new->first, from.offset, to.offset)))
    return;
  b->buffer.at[to.offset].same = (uint32_t)from.offset + 1;
}

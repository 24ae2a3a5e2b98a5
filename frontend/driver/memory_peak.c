// Finds the instruction at which a step needs most memory, and groups the buffers that are live
// there. See memory_peak.h.
#include "frontend/driver/memory_peak.h"

#include <stdlib.h>
#include <string.h>

// -- live bytes ---------------------------------------------------------------------------------

static int by_size(const void *x, const void *y) {
  const PlanBuffer *const *a = x, *const *b = y;
  if ((*a)->bytes != (*b)->bytes) return (*a)->bytes > (*b)->bytes ? -1 : 1;
  return *a < *b ? -1 : *a > *b;
}

// Lists in t->alive the buffers that are live when the step needs most memory, largest first. A
// buffer in the memory of another buffer is not listed separately.
static void find_alive(Arena *a, const Compiled *c, Timeline *t) {
  t->alive = arena_array(a, const PlanBuffer *, c->nbuffers + 1);
  for (uint32_t i = 0; i < c->nbuffers; i++) {
    const PlanBuffer *b = &c->buffer[i];
    if (!b->same && b->first <= t->peak && t->peak <= b->last) t->alive[t->nalive++] = b;
  }
  if (t->nalive) qsort(t->alive, t->nalive, sizeof *t->alive, by_size);
}

int64_t *memory_live(Arena *a, const Compiled *c) {
  uint32_t n = c->program->ninstrs;
  int64_t *live = arena_array(a, int64_t, n + 2);
  for (uint32_t i = 0; i < c->nbuffers; i++) {
    const PlanBuffer *b = &c->buffer[i];
    if (b->same) continue;
    live[b->first] += b->bytes;
    if (b->last < n) live[b->last + 1] -= b->bytes;
  }
  for (uint32_t i = 1; i < n; i++) live[i] += live[i - 1];
  return live;
}

static void find_live(Arena *a, const Compiled *c, Timeline *t) {
  t->live = memory_live(a, c);
  for (uint32_t i = 0; i < t->n; i++)
    if (t->live[i] > t->live[t->peak]) t->peak = i;
}

// -- groups -------------------------------------------------------------------------------------

// A group in the making, and the rounds of a loop in which its values are.
typedef struct Member {
  PeakGroup group;
  const char *key;        // equal for all buffers of the group
  const char *rest;       // name of the value after its round; NULL: it is in no round
  const char *made;       // what computes it: " (exp at line 12)"
  const char *low, *high; // the first and the last round: "layer.0", "layer.11"
} Member;

// Returns the place of a node as text: " at line 12", or "" if it has none.
static const char *at_line(Arena *a, Pos pos) {
  return pos.line ? arena_printf(a, " at line %u", pos.line) : "";
}

// Returns the name of the value in a buffer; without one, that of the value of a step which it
// collects, or its operation. For a gradient returns the name of its parameter, and sets *gradient.
static const char *bare_name(const Compilation *c, const PlanBuffer *b, bool *gradient) {
  *gradient = false;
  if (!b->node) return b->value;
  const Node *x = graph_node(c->fusion->graph, b->node);
  *gradient = x->origin->gradient_of;
  if (*gradient) return x->origin->gradient_of;
  if (x->origin->value) return x->origin->value;
  const Node *step = x->op == OP_COLLECT ? graph_node(c->fusion->graph, x->args[1]) : x;
  return step->origin->value ? step->origin->value : op_row((Op)x->op)->text;
}

// Returns the buffer that is at this offset of the work arena while instruction i runs, or NULL.
static const PlanBuffer *buffer_at(const Compiled *c, int64_t offset, uint32_t i) {
  for (uint32_t k = 0; k < c->nbuffers; k++) {
    const PlanBuffer *b = &c->buffer[k];
    if (b->first <= i && i <= b->last && b->offset <= offset && offset < b->offset + b->bytes)
      return b;
  }
  return NULL;
}

// Returns what instruction i, which computes no value of the model, does with a value that it is
// the last one to read.
static const char *last_use(Arena *a, const Compilation *c, uint32_t i) {
  const Program *p = c->compiled->program;
  const Instr *in = i < p->ninstrs ? &p->instr[i] : NULL;
  if (in && in->kind == INSTR_END) return "needed to the end of a loop";
  if (!in || in->kind != INSTR_COPY) return arena_printf(a, "needed until instruction %u", i);
  const Ref *to = &in->u.copy.dst;
  if (to->tensor >= 0) {
    const ProgTensor *t = &p->tensor[to->tensor];
    return arena_printf(a, "then copied to %s%s", t->name, at_line(a, t->pos));
  }
  const PlanBuffer *b = buffer_at(c->compiled, to->offset, i);
  if (!b || !b->node) return "then copied to a value of a loop";
  bool gradient;
  const char *name = bare_name(c, b, &gradient);
  return arena_printf(a, gradient ? "then copied to grad(%s)%s" : "then copied to %s%s", name,
                      at_line(a, graph_node(c->fusion->graph, b->node)->origin->pos));
}

// Returns why buffer b is still live at the peak.
static const char *live_until(Arena *a, const Compilation *c, const PlanBuffer *b) {
  const Program *p = c->compiled->program;
  const InstrValue *reader =
      b->last < p->ninstrs && p->note ? program_instr_value(p, b->last) : NULL;
  bool forward = b->node && !graph_node(c->fusion->graph, b->node)->origin->backward;
  if (b->kept) return "an input or a result of the step";
  if (!reader) return last_use(a, c, b->last);
  if (forward && reader->backward)
    return arena_printf(a, "kept for the backward pass%s", at_line(a, reader->pos));
  return arena_printf(a, "last read by %s%s", reader->op, at_line(a, reader->pos));
}

// Returns the operation that computes the value of a buffer, in brackets.
static const char *made_by(Arena *a, const Compilation *c, const PlanBuffer *b) {
  if (!b->node) return "";
  const Node *x = graph_node(c->fusion->graph, b->node);
  return arena_printf(a, " (%s%s%s)",
                      x->origin->backward && !x->origin->gradient_of ? "backward, " : "",
                      node_source_name(c->fusion->graph, b->node), at_line(a, x->origin->pos));
}

static Member member_of(Arena *a, const Compilation *c, const PlanBuffer *b) {
  bool gradient;
  const char *name = bare_name(c, b, &gradient);
  size_t loop = 0, n = round_prefix(name, &loop);
  const char *rest = arena_printf(a, gradient ? "grad(%s)" : "%s", n ? name + n + 1 : name);
  Member m = {.group = {.until = live_until(a, c, b), .n = 1, .each = b->bytes, .bytes = b->bytes},
              .made = made_by(a, c, b)};
  m.group.what = arena_printf(a, "%s%s%.*s%s", rest, n ? " of " : "", (int)n, name, m.made);
  m.key = arena_printf(a, "%.*s %s%s %lld %s", (int)loop, name, rest, m.made, (long long)b->bytes,
                       m.group.until);
  if (!n) return m;
  m.rest = rest;
  m.low = m.high = arena_text(a, name, n);
  return m;
}

// Returns the number of a round: 11 of "layer.11".
static long round_number(const char *round) { return strtol(strrchr(round, '.') + 1, NULL, 10); }

static void add_member(Member *to, const Member *one) {
  to->group.n++;
  to->group.bytes += one->group.bytes;
  if (!one->rest) return;
  if (round_number(one->low) < round_number(to->low)) to->low = one->low;
  if (round_number(one->high) > round_number(to->high)) to->high = one->high;
}

static int by_bytes(const void *x, const void *y) {
  const PeakGroup *a = x, *b = y;
  if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
  return strcmp(a->what, b->what);
}

static void find_groups(Arena *a, const Compilation *c, Timeline *t) {
  Member *all = arena_array(a, Member, t->nalive + 1);
  for (uint32_t i = 0; i < t->nalive; i++) {
    Member one = member_of(a, c, t->alive[i]);
    uint32_t k = 0;
    while (k < t->ngroups && strcmp(all[k].key, one.key) != 0) k++;
    if (k == t->ngroups)
      all[t->ngroups++] = one;
    else
      add_member(&all[k], &one);
  }
  t->group = arena_array(a, PeakGroup, t->ngroups + 1);
  for (uint32_t k = 0; k < t->ngroups; k++) {
    const Member *m = &all[k];
    t->group[k] = m->group;
    if (m->low != m->high)
      t->group[k].what = arena_printf(a, "%s of %s to %s%s", m->rest, m->low, m->high, m->made);
  }
  if (t->ngroups) qsort(t->group, t->ngroups, sizeof *t->group, by_bytes);
}

Timeline memory_timeline(Arena *a, const Compilation *c) {
  const Program *p = c->compiled->program;
  Timeline t = {.n = p->ninstrs, .persistent = program_bytes(p) - p->arena_bytes};
  find_live(a, c->compiled, &t);
  find_alive(a, c->compiled, &t);
  find_groups(a, c, &t);
  return t;
}

const char *peak_group_text(Arena *a, const PeakGroup *g) {
  const char *size = bytes_text(a, g->each);
  if (g->n > 1) size = arena_printf(a, "%u buffers of %s", g->n, size);
  return arena_printf(a, "%s, %s, %s", g->what, size, g->until);
}

int64_t peak_rest_bytes(const Timeline *t, uint32_t first) {
  int64_t bytes = 0;
  for (uint32_t i = first; i < t->ngroups; i++) bytes += t->group[i].bytes;
  return bytes;
}

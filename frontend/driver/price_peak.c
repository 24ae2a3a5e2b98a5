// Extrapolates the peak memory of a step from samples with short loops. See price_peak.h.
//
// The instructions of the first sample, whose loops all have the same few rounds, are matched with
// those of each other sample, in which one loop has a round more: by a longest common subsequence
// of their keys. The additional round can be taken to be the first one or the last one, and an
// instruction of a round is then matched with that of the next round or of the same round:
//
//   three rounds     a0 a1 a2 | z        a: the memory at the end of a round; z: behind the loop
//   four rounds      a0 a1 a2 a3 | z
//   first            a1 a2 a3 | z
//   last             a0 a1 a2 | z
//
// At z both give how the memory grows with every round. In a round they differ: the second round
// may need more than the first one for other reasons than their number. So the lower result counts.
// What it misses in rounds, memory that grows from round to round, is there behind the loop, too.
//
// Gathers share calls, and where a call takes parts of several rounds, samples of other lengths
// have it at other places of their rounds: the buffers of its results are then no growth.
#include "frontend/driver/price_peak.h"

#include <math.h>

#include "frontend/driver/memory_peak.h"
#include "ir/base/hash.h"

enum { MOST_PAIRS = 1 << 24 }; // of instructions; the table of lengths has two bytes for each

static const uint32_t NO_MATCH = UINT32_MAX;

// Returns a number for instruction i alone: its kind, and the statement and the operation of its
// value.
static uint64_t own_key(const Program *p, uint32_t i) {
  const InstrValue *v = p->note ? program_instr_value(p, i) : NULL;
  uint64_t h = hash_word(FNV_START, (uint64_t)p->instr[i].kind);
  if (!v) return h;
  h = hash_word(h, (uint64_t)v->pos.line << 32 | v->pos.col);
  return hash_word(h, fnv_text(v->op) << 1 | v->backward);
}

// Returns the key of instruction i. It has the numbers of the neighbours, too: otherwise an
// instruction before or after a loop would be matched with one in it that does the same.
static uint64_t key_of(const Program *p, uint32_t i) {
  enum { NEIGHBOURS = 2 }; // on each side
  uint64_t h = FNV_START;
  for (uint32_t k = i; k <= i + 2 * NEIGHBOURS; k++) // the number of a neighbour, and NEIGHBOURS
    h = hash_word(h,
                  k < NEIGHBOURS || k - NEIGHBOURS >= p->ninstrs ? 0 : own_key(p, k - NEIGHBOURS));
  return h;
}

// Returns the class of a buffer. The values of different rounds have the same statement.
static uint64_t class_of(const Compilation *c, const PlanBuffer *b) {
  uint64_t h = hash_word(FNV_START, (uint64_t)b->bytes);
  if (!b->node) return h;
  const Node *x = graph_node(c->fusion->graph, b->node);
  h = hash_word(h, (uint64_t)x->origin->pos.line << 32 | x->origin->pos.col);
  return hash_word(h, (uint64_t)x->op << 1 | x->origin->backward);
}

static bool is_gathered(const Compilation *c, const PlanBuffer *b) {
  return b->node && graph_node(c->fusion->graph, b->node)->op == OP_ALL_GATHER;
}

// Lists the buffers that memory_live counts.
static void list_buffers(Arena *a, const Compilation *c, SampleMemory *m) {
  m->buffer = arena_array(a, SampleBuffer, c->compiled->nbuffers + 1);
  for (uint32_t i = 0; i < c->compiled->nbuffers; i++) {
    const PlanBuffer *b = &c->compiled->buffer[i];
    if (!b->same)
      m->buffer[m->nbuffers++] =
          (SampleBuffer){class_of(c, b), (double)b->bytes, is_gathered(c, b), b->first, b->last};
  }
}

SampleMemory sample_memory(Arena *a, const Compilation *c, double weight) {
  const Program *p = c->compiled->program;
  double bytes = (double)program_bytes(p);
  SampleMemory m = {.weight = weight,
                    .bytes = bytes,
                    .persistent = bytes - (double)p->arena_bytes,
                    .n = p->ninstrs,
                    .live = memory_live(a, c->compiled),
                    .key = arena_array(a, uint64_t, p->ninstrs + 1)};
  for (uint32_t i = 0; i < p->ninstrs; i++) m.key[i] = key_of(p, i);
  list_buffers(a, c, &m);
  return m;
}

SampleMemory *sample_memory_copy(Arena *a, const SampleMemory *of) {
  SampleMemory *m = arena_copy(a, of, sizeof *of);
  m->live = arena_copy(a, of->live, of->n * sizeof *of->live);
  m->key = arena_copy(a, of->key, of->n * sizeof *of->key);
  m->buffer = arena_copy(a, of->buffer, of->nbuffers * sizeof *of->buffer);
  return m;
}

// Returns a table of (x->n + 1) * (y->n + 1) lengths: at [i][j] that of the longest common
// subsequence of the instructions from i on of x and from j on of y.
static uint16_t *common_lengths(Arena *a, const SampleMemory *x, const SampleMemory *y) {
  size_t width = y->n + 1;
  uint16_t *length = arena_array(a, uint16_t, (x->n + 1) * width);
  for (uint32_t i = x->n; i-- > 0;)
    for (uint32_t j = y->n; j-- > 0;) {
      uint16_t down = length[(i + 1) * width + j], right = length[i * width + j + 1];
      length[i * width + j] = x->key[i] == y->key[j]
                                  ? (uint16_t)(length[(i + 1) * width + j + 1] + 1)
                              : down > right ? down
                                             : right;
    }
  return length;
}

// Sets match[i] to the instruction of y that is matched with instruction i of x, or to NO_MATCH.
// late: the last possible one, else the first.
static void match_all(const SampleMemory *x, const SampleMemory *y, const uint16_t *length,
                      bool late, uint32_t *match) {
  size_t width = y->n + 1;
  uint32_t j = 0;
  for (uint32_t i = 0; i < x->n; i++) {
    const uint16_t *row = &length[i * width], *next = row + width;
    match[i] = NO_MATCH;
    // Without instruction i the rest has a subsequence as long: it is not needed.
    if (next[j] == row[j]) continue;
    while (x->key[i] != y->key[j] || (late && row[j + 1] == row[j])) j++;
    match[i] = j++;
  }
}

// The extrapolated memory at each instruction of the first sample.
typedef struct Extrapolated {
  uint32_t n; // number of samples
  const SampleMemory *of;
  uint32_t **match; // of each sample: the instructions that are matched with those of the first one
  double *memory;   // NAN where it is unknown
} Extrapolated;

static Extrapolated extrapolate(Arena *a, uint32_t n, const SampleMemory *of, bool late) {
  const SampleMemory *x = &of[0];
  Extrapolated e = {n, of, arena_array(a, uint32_t *, n), arena_array(a, double, x->n + 1)};
  for (uint32_t i = 0; i < x->n; i++) e.memory[i] = x->weight * (double)x->live[i];
  for (uint32_t k = 1; k < n; k++) {
    const SampleMemory *y = &of[k];
    uint32_t *match = e.match[k] = arena_array(a, uint32_t, x->n + 1);
    match_all(x, y, common_lengths(a, x, y), late, match);
    for (uint32_t i = 0; i < x->n; i++)
      e.memory[i] += match[i] == NO_MATCH ? (double)NAN : y->weight * (double)y->live[match[i]];
  }
  return e;
}

// -- what grows with every round ------------------------------------------------------------------

// Buffers of a class that are live at an instruction of the first sample, and at those that are
// matched with it.
typedef struct LiveClass {
  uint64_t class;
  double bytes; // of one buffer
  bool gathered;
  double first;    // number of buffers in the first sample
  double most;     // the largest number in any sample
  double weighted; // the extrapolated number
  double now;      // the number in the sample that is counted
} LiveClass;
typedef VEC(LiveClass) LiveClasses;

static LiveClass *live_class(Arena *a, LiveClasses *list, const SampleBuffer *b) {
  for (uint32_t i = 0; i < list->n; i++)
    if (list->at[i].class == b->class) return &list->at[i];
  LiveClass *c = &vec_push(a, *list);
  *c = (LiveClass){.class = b->class, .bytes = b->bytes, .gathered = b->gathered};
  return c;
}

// Adds the buffers of sample number k that are live at instruction `at`.
static void count_live(Arena *a, const SampleMemory *m, uint32_t k, uint32_t at,
                       LiveClasses *list) {
  for (uint32_t i = 0; i < list->n; i++) list->at[i].now = 0;
  for (uint32_t i = 0; i < m->nbuffers; i++)
    if (m->buffer[i].first <= at && at <= m->buffer[i].last)
      live_class(a, list, &m->buffer[i])->now++;
  for (uint32_t i = 0; i < list->n; i++) {
    LiveClass *c = &list->at[i];
    if (k == 0) c->first = c->now;
    c->most = fmax(c->most, c->now);
    c->weighted += m->weight * c->now;
  }
}

// Returns the extrapolated memory at instruction i of the first sample. Gathered values that grow
// in number with every round are several in the first sample already. Where there is one or none of
// a class, the call of another sample takes parts of other rounds: more rounds need no more.
static double growing(const Extrapolated *e, uint32_t i) {
  enum { SEVERAL = 2 };
  Arena *a = arena_new();
  LiveClasses list = {0};
  double memory = 0;
  for (uint32_t k = 0; k < e->n; k++) count_live(a, &e->of[k], k, k ? e->match[k][i] : i, &list);
  for (uint32_t c = 0; c < list.n; c++) {
    const LiveClass *x = &list.at[c];
    memory +=
        x->bytes * (x->gathered && x->first < SEVERAL ? fmin(x->weighted, x->most) : x->weighted);
  }
  arena_free(a);
  return memory;
}

// Returns the largest extrapolated memory of all instructions of the first sample.
static double largest(uint32_t n, const SampleMemory *of) {
  Arena *a = arena_new();
  const Extrapolated first = extrapolate(a, n, of, true), last = extrapolate(a, n, of, false);
  double most = 0;
  for (uint32_t i = 0; i < of[0].n; i++) {
    const Extrapolated *e =
        first.memory[i] <= last.memory[i] || isnan(last.memory[i]) ? &first : &last;
    if (e->memory[i] > most) most = fmax(most, growing(e, i));
  }
  arena_free(a);
  return most;
}

double price_peak(uint32_t n, const SampleMemory *of, double *kept) {
  double peak = 0;
  bool matched = n > 1;
  *kept = 0;
  for (uint32_t k = 0; k < n; k++) {
    peak += of[k].weight * of[k].bytes;
    *kept += of[k].weight * of[k].persistent;
    matched &= (double)of[0].n * of[k].n <= MOST_PAIRS && of[k].n < UINT16_MAX;
  }
  if (!matched) return peak;
  return fmax(peak, *kept + largest(n, of));
}

// Merges neighbours in a text, the pair with the least priority first (Gage, "A New Algorithm for
// Data Compression", 1994; Sennrich et al., "Neural Machine Translation of Rare Words with Subword
// Units", 2016). A heap has the pairs that could be merged, so n parts take n log n steps. A pair
// in the heap whose parts have changed since is left out when its turn comes.
#include "runtime/tokens/vocabulary_internal.h"

#include <stdlib.h>

typedef struct Pair {
  double priority;
  int64_t left;
  size_t bytes; // of both parts, to see whether one has changed
  int32_t id;
} Pair;
typedef struct Heap {
  Pair *at;
  int64_t n, room;
} Heap;

static bool before(const Pair *a, const Pair *b) {
  return a->priority < b->priority || (a->priority == b->priority && a->left < b->left);
}

static void heap_push(Heap *h, Pair p) {
  if (h->n == h->room) {
    h->room = h->room ? 2 * h->room : 64;
    h->at = mem_grow(h->at, (size_t)h->room * sizeof *h->at);
  }
  int64_t i = h->n++;
  for (; i > 0 && before(&p, &h->at[(i - 1) / 2]); i = (i - 1) / 2) h->at[i] = h->at[(i - 1) / 2];
  h->at[i] = p;
}

static Pair heap_pop(Heap *h) {
  Pair top = h->at[0], last = h->at[--h->n];
  int64_t i = 0;
  for (int64_t k = 1; k < h->n; i = k, k = 2 * k + 1) {
    if (k + 1 < h->n && before(&h->at[k + 1], &h->at[k])) k++;
    if (!before(&h->at[k], &last)) break;
    h->at[i] = h->at[k];
  }
  h->at[i] = last;
  return top;
}

typedef struct Merging {
  const char *text;
  Part *part;
  MergeRule *rule;
  void *context;
  Heap heap;
} Merging;

static void offer(Merging *m, int64_t left) {
  if (left < 0 || m->part[left].right < 0) return;
  const Part *a = &m->part[left], *b = &m->part[a->right];
  if (a->frozen || b->frozen) return;
  Merge merge = m->rule(m->context, m->text, a, b);
  if (merge.id >= 0) heap_push(&m->heap, (Pair){merge.priority, left, a->n + b->n, merge.id});
}

void parts_merge(const char *text, Part *part, int64_t n, MergeRule *rule, void *context) {
  Merging m = {text, part, rule, context, {0}};
  for (int64_t i = 0; i < n; i++) {
    part[i].left = i - 1;
    part[i].right = i + 1 < n ? i + 1 : -1;
  }
  for (int64_t i = 0; i < n; i++) offer(&m, i);
  while (m.heap.n > 0) {
    Pair p = heap_pop(&m.heap);
    Part *a = &part[p.left];
    if (a->n == 0 || a->right < 0 || a->n + part[a->right].n != p.bytes) continue;
    Part *b = &part[a->right];
    a->n = p.bytes;
    a->id = p.id;
    a->right = b->right;
    b->n = 0;
    if (a->right >= 0) part[a->right].left = p.left;
    offer(&m, a->left);
    offer(&m, p.left);
  }
  free(m.heap.at);
}

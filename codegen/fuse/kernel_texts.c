// A table of the identities of kernels. In: kernels. Out: their identities (kernel_identity), equal
// ones at the same address.
//
// The layers of a model have equal kernels. Printing takes much longer than comparing, so that a
// kernel is printed only if the table has none with equal fields.
#include "codegen/fuse/kernel.h"
#include "ir/base/hash.h"
#include "ir/base/intern.h"

#include <string.h>

typedef struct KernelSlot {
  uint64_t hash;
  const Kernel *kernel; // NULL: the slot is free
  const char *text;
} KernelSlot;

struct KernelTexts {
  Arena *arena;
  Intern *texts; // kernels with other fields may have equal texts
  KernelSlot *slot;
  uint32_t n, cap; // cap is a power of two
};

KernelTexts *kernel_texts_new(Arena *a) {
  KernelTexts *t = arena_new_of(a, KernelTexts);
  *t = (KernelTexts){
      .arena = a, .texts = intern_new(a), .slot = arena_array(a, KernelSlot, 64), .cap = 64};
  return t;
}

// -- fields that the text shows -------------------------------------------------------------------

static int all_loops(const Kernel *k) { return k->nouter + k->ninner + k->ndots; }

static bool same_words(const int64_t *x, const int64_t *y, int n) {
  return n == 0 || memcmp(x, y, (size_t)n * sizeof *x) == 0;
}

static bool same_loop(const KLoop *x, const KLoop *y) {
  return x->size == y->size && x->slot == y->slot && x->nparts == y->nparts &&
         same_words(x->part, y->part, x->nparts);
}

static bool same_pointer(const KPtr *x, const KPtr *y, int loops) {
  if (x->type != y->type || x->written != y->written || x->streamed != y->streamed ||
      x->offset != y->offset || x->nbases != y->nbases || !same_words(x->stride, y->stride, loops))
    return false;
  for (int i = 0; i < x->nbases; i++)
    if (x->base[i].slot != y->base[i].slot || x->base[i].stride != y->base[i].stride) return false;
  return true;
}

static bool same_pointers(const KPtr *x, const KPtr *y, int n, int loops) {
  for (int i = 0; i < n; i++)
    if (!same_pointer(&x[i], &y[i], loops)) return false;
  return true;
}

static bool same_stmt(const KStmt *x, const KStmt *y) {
  return x->kind == y->kind && x->op == y->op && x->type == y->type && x->level == y->level &&
         x->phase == y->phase && memcmp(x->arg, y->arg, sizeof x->arg) == 0 &&
         x->index == y->index && x->other == y->other && x->slot == y->slot && x->step == y->step;
}

static bool same_kernel(const Kernel *x, const Kernel *y) {
  if (x->nouter != y->nouter || x->ninner != y->ninner || x->ndots != y->ndots ||
      x->vector != y->vector || x->block != y->block || x->rows != y->rows ||
      x->images != y->images || x->nphases != y->nphases || x->nptr != y->nptr ||
      x->nwalks != y->nwalks || x->nslots != y->nslots || x->nnum != y->nnum ||
      x->nstmts != y->nstmts)
    return false;
  for (int i = 0; i < all_loops(x); i++)
    if (!same_loop(&x->loop[i], &y->loop[i])) return false;
  for (int i = 0; i < x->nstmts; i++)
    if (!same_stmt(&x->stmt[i], &y->stmt[i])) return false;
  return same_pointers(x->ptr, y->ptr, x->nptr, all_loops(x)) &&
         same_pointers(x->walk, y->walk, x->nwalks, all_loops(x));
}

// Returns a hash of some of the fields: equal kernels have equal hashes.
static uint64_t kernel_hash(const Kernel *k) {
  uint64_t h = hash_word(FNV_START, (uint64_t)k->nouter << 32 | (uint64_t)k->ninner << 16 |
                                        (uint64_t)k->nstmts << 40 | k->nptr);
  for (int i = 0; i < all_loops(k); i++) h = hash_word(h, (uint64_t)k->loop[i].size);
  for (int i = 0; i < k->nptr; i++) {
    h = hash_word(h, (uint64_t)k->ptr[i].type << 8 | k->ptr[i].streamed);
    h = hash_word(h, (uint64_t)k->ptr[i].offset); // micro-batches read other rows
    for (int l = 0; l < all_loops(k); l++) h = hash_word(h, (uint64_t)k->ptr[i].stride[l]);
  }
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    h = hash_word(h, (uint64_t)s->kind << 48 | (uint64_t)s->op << 32 | (uint64_t)s->type << 16 |
                         (uint64_t)s->phase << 8 | s->level);
    h = hash_word(h, (uint64_t)(uint32_t)s->arg[0] << 32 | (uint32_t)s->arg[1]);
    h = hash_word(h, (uint64_t)(uint32_t)s->index << 32 ^ (uint64_t)s->step);
  }
  return h;
}

// -- the table ------------------------------------------------------------------------------------

static KernelSlot *find(const KernelTexts *t, const Kernel *k, uint64_t hash) {
  uint32_t i = (uint32_t)hash & (t->cap - 1);
  while (t->slot[i].kernel && (t->slot[i].hash != hash || !same_kernel(t->slot[i].kernel, k)))
    i = (i + 1) & (t->cap - 1);
  return &t->slot[i];
}

static void grow(KernelTexts *t) {
  KernelSlot *old = t->slot;
  uint32_t cap = t->cap;
  t->cap = 2 * cap;
  t->slot = arena_array(t->arena, KernelSlot, t->cap);
  for (uint32_t i = 0; i < cap; i++)
    if (old[i].kernel) *find(t, old[i].kernel, old[i].hash) = old[i];
}

// Returns the slot of kernel k, in which `text` is NULL if it is new.
static KernelSlot *enter(KernelTexts *t, const Kernel *k) {
  if (t->n >= t->cap / 2) grow(t);
  uint64_t hash = kernel_hash(k);
  KernelSlot *slot = find(t, k, hash);
  if (!slot->kernel) *slot = (KernelSlot){hash, k, NULL}, t->n++;
  return slot;
}

const char *kernel_text(KernelTexts *t, const Kernel *k) {
  KernelSlot *slot = enter(t, k);
  if (!slot->text) slot->text = intern(t->texts, kernel_identity(t->arena, k));
  return slot->text;
}

const char *kernel_number(KernelTexts *t, const Kernel *k) {
  KernelSlot *slot = enter(t, k);
  if (!slot->text) slot->text = arena_printf(t->arena, "%u", t->n);
  return slot->text;
}

// Chooses the pointers through which kernels store past the caches (KPtr.streamed), and the fills
// that do so.
//
// A store of an ordinary kind first reads its cache line, and the line is written back later. A
// streamed store writes the line alone, which saves a third of the traffic of a copy. It pays in
// kernels whose values together are larger than the cache that all processors share. It loses where
// the line is in a cache, and so is not used where a kernel writes over a value that it reads.
#include "codegen/program/program_internal.h"

enum { LEAST_PART = 4 }; // a smaller part of what a kernel moves stays in the cache beside the rest

// Returns whether every run of the vector loop begins at the start of a cache line, if the buffer
// does. The lanes of a streamed store must not cross a line.
static bool begins_at_lines(const Kernel *k, const KPtr *p) {
  int64_t bytes = dtype_bytes(p->type), block = k->vector < k->nouter ? k->block : 0;
  if (k->vector < 0 || k->rows >= 0 || p->nbases || p->stride[k->vector] != 1) return false;
  if (p->offset * bytes % CACHE_LINE || block * bytes % CACHE_LINE) return false;
  for (int l = 0; l < k->nouter + k->ninner; l++)
    if (l != k->vector && p->stride[l] * bytes % CACHE_LINE) return false;
  return true;
}

// Returns whether K_STORE statements alone use pointer p of the kernel.
static bool only_stored(const Kernel *k, int p) {
  bool stored = false;
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    bool uses = s->kind == K_LOAD || s->kind == K_LOAD_AT || s->kind == K_ACCUM ||
                s->kind == K_SCATTER || s->kind == K_STORE;
    if (!uses || s->index != p) continue;
    if (s->kind != K_STORE) return false;
    stored = true;
  }
  return stored;
}

// Returns whether no other pointer of the launch addresses the memory of pointer p.
static bool alone_in_memory(const Builder *b, const Kernel *k, const KernelSet *s, int p) {
  uint32_t own = plan_owner(b, s->ptr[p].offset);
  for (int q = 0; q < k->nptr; q++)
    if (q != p && s->ptr[q].tensor < 0 && plan_owner(b, s->ptr[q].offset) == own) return false;
  return true;
}

static bool exceeds_cache(const Builder *b, int64_t bytes) {
  return bytes > b->opt->shared_cache / mesh_size(b->g->mesh);
}

// Returns the bytes that instruction i, a launch, reads and writes.
static int64_t launch_bytes(const Builder *b, uint32_t i) {
  const Group *g = &b->f->group[b->schedule.group[b->from.at[i] - 1]];
  return g->load_bytes + g->store_bytes;
}

// moved: the bytes that the launch reads and writes
static bool is_streamed(const Builder *b, const Kernel *k, const KernelSet *s, int p,
                        int64_t moved) {
  Ref r = s->ptr[p];
  if (!k->ptr[p].written || r.tensor >= 0 || r.stride) return false;
  if (b->buffer.at[r.offset].bytes < moved / LEAST_PART) return false;
  return only_stored(k, p) && begins_at_lines(k, &k->ptr[p]) && alone_in_memory(b, k, s, p);
}

// Gives launch i a kernel of its own if some of its pointers are streamed.
static void stream_launch(Builder *b, uint32_t i) {
  KernelLaunch *l = &b->instr.at[i].u.kernel;
  const Kernel *k = b->kernels.at[l->kernel];
  KPtr *ptr = NULL;
  int64_t moved = launch_bytes(b, i);
  if (l->nsets != 1 || !exceeds_cache(b, moved)) return;
  for (int p = 0; p < k->nptr; p++) {
    if (!is_streamed(b, k, &l->set[0], p, moved)) continue;
    if (!ptr) ptr = arena_copy(b->a, k->ptr, k->nptr * sizeof *ptr);
    ptr[p].streamed = true;
  }
  if (!ptr) return;
  Kernel *streaming = arena_copy(b->a, k, sizeof *k);
  streaming->ptr = ptr;
  l->kernel = kernel_share(b, streaming);
}

void plan_streams(Builder *b) {
  uint32_t before = b->kernel.n;
  if (b->opt->shared_cache <= 0) return;
  for (uint32_t i = 0; i < b->instr.n; i++) {
    Instr *in = &b->instr.at[i];
    if (in->kind == INSTR_KERNEL) stream_launch(b, i);
    if (in->kind == INSTR_FILL) in->u.fill.streamed = exceeds_cache(b, in->u.fill.bytes);
  }
  if (b->kernel.n > before) kernels_drop_unused(b);
}

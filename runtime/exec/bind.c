// Binding: allocates the memory of the processors, and computes the addresses and numbers that the
// references and run-time slots of a Program stand for. So a step looks nothing up and allocates
// nothing. Input: a Program. Output: the contexts of an Exec (exec_internal.h).
#include "runtime/exec/exec_internal.h"
#include "runtime/exec/thin_product.h"

#include <stdlib.h>
#include <string.h>

// -- memory -------------------------------------------------------------------------------------

// Returns which tensor of the program of e->share has the memory that tensor t of e->program uses,
// as an index in Program.tensor; -1 if t has memory of its own. e->share is the Exec whose
// persistent tensors e shares.
static int32_t shared_tensor(const Exec *e, uint32_t t) {
  const ProgTensor *x = &e->program->tensor[t];
  if (!e->share || x->kind == TENSOR_CONSTANT) return -1;
  return program_tensor(e->share->program, x->kind, x->name);
}

static bool same_blocks(const ProgTensor *a, const ProgTensor *b) {
  bool same = a->type == b->type && a->rank == b->rank && a->bytes == b->bytes;
  for (int d = 0; same && d < a->rank; d++)
    same = a->dim[d].whole == b->dim[d].whole && a->dim[d].block == b->dim[d].block &&
           axes_equal(a->dim[d].axes, b->dim[d].axes) &&
           strcmp(a->dim[d].name, b->dim[d].name) == 0;
  return same;
}

// Places the tensors with memory of their own that processors share, or those that they do not
// share, after the tensors placed so far.
static void place_own(Exec *e, bool shared) {
  for (uint32_t t = 0; t < e->program->ntensors; t++) {
    const ProgTensor *x = &e->program->tensor[t];
    if (e->own_offset[t] < 0 || x->shared != shared) continue;
    e->own_offset[t] = e->own_bytes;
    e->own_bytes += ceil_div(x->bytes, MEMORY_ALIGN) * MEMORY_ALIGN;
  }
}

// Sets the offset of each persistent tensor (kept from step to step) in Context.own, one tensor
// after another, shared ones at the end, and their total size e->own_bytes. Tensors shared from
// e->share take no space there. Returns false after an error in d.
static bool lay_out(Exec *e, Diag *d) {
  const Program *p = e->program;
  e->own_offset = arena_array(e->memory, int64_t, p->ntensors + 1);
  e->own_bytes = 0;
  for (uint32_t t = 0; t < p->ntensors; t++) {
    e->own_offset[t] = -1;
    if (!tensor_is_persistent(p, t)) continue;
    int32_t other = shared_tensor(e, t);
    if (other >= 0 && !same_blocks(&p->tensor[t], &e->share->program->tensor[other])) {
      diag_error(d, DIAG_FAILURE, p->tensor[t].pos,
                 "%s is laid out differently in the programs for %s and %s", p->tensor[t].name,
                 e->share->program->for_, p->for_);
      return false;
    }
    if (other < 0) e->own_offset[t] = 0;
  }
  place_own(e, false);
  place_own(e, true);
  return true;
}

static bool enough_memory(const Exec *e, Diag *d) {
  int64_t each, needed, available = memory_free_bytes();
  int64_t here = e->ranks ? ranks_local_processors(e->ranks) : e->processors;
  // With a device the work arena of the host is mapped and hardly used.
  int64_t arena = e->device ? 0 : e->program->arena_bytes;
  bool fits =
      size_add(e->own_bytes, arena, &each) && size_mul(each, here, &needed) && needed <= available;
  if (fits) return true;
  double gib = 1024.0 * 1024.0 * 1024.0;
  diag_error(d, DIAG_NO_MEMORY, (Pos){0},
             "out of memory: %lld processor%s need%s %.2f GiB each (%.2f GiB of parameters and "
             "states), and %.2f GiB are "
             "available in all",
             (long long)here, plural(here), here == 1 ? "s" : "",
             ((double)e->own_bytes + (double)arena) / gib, (double)e->own_bytes / gib,
             (double)available / gib);
  diag_hint(d, "take a smaller batch, or split more dims over the mesh");
  return false;
}

// Returns the first of the processors that keep values together with processor c which are common
// along `axes` (Ref.common): c itself if each keeps its own.
static const Context *first_along(const Exec *e, const Context *c, AxisSet axes) {
  if (!axes || !e->common) return c;
  return &e->context[axes_peer(&e->program->mesh, axis_set_list(axes), c->processor, 0)];
}

static char *address(const Exec *e, const Context *c, Ref r) {
  c = first_along(e, c, r.common);
  char *at = r.tensor < 0 ? c->arena : c->tensor[r.tensor];
  return at ? at + r.offset : NULL; // NULL: the processor is on another machine
}

static bool is_here(const Exec *e, int64_t r) { return !e->ranks || ranks_is_local(e->ranks, r); }

// Returns the processor with the memory of tensor t that processor c uses: c itself or, for a
// persistent tensor that processors share, the first one on this machine with an equal block.
static const Context *keeper(const Exec *e, const Context *c, uint32_t t) {
  const ProgTensor *x = &e->program->tensor[t];
  const Mesh *m = &e->program->mesh;
  Axes axes = tensor_replicated(m, x);
  if (x->at.tensor < 0) return first_along(e, c, x->at.common);
  for (int64_t k = 0; x->shared && !e->apart && k < axes_size(m, axes); k++) {
    int64_t r = axes_peer(m, axes, c->processor, k);
    if (is_here(e, r)) return &e->context[r];
  }
  return c;
}

bool exec_keeps(const Exec *e, int64_t r, uint32_t t) {
  return keeper(e, &e->context[r], t) == &e->context[r];
}

// Sets the addresses of all tensors of processor c. Persistent tensors (kept from step to step)
// come first, because other tensors may be views of them, which use their memory.
static void place_tensors(Exec *e, Context *c) {
  const Program *p = e->program;
  int64_t index = c - e->context;
  for (uint32_t t = 0; t < p->ntensors; t++) {
    if (!tensor_is_persistent(p, t)) continue;
    int32_t other = shared_tensor(e, t);
    if (other >= 0)
      c->tensor[t] = e->share->context[index].tensor[other];
    else
      c->tensor[t] = c->own ? keeper(e, c, t)->own + e->own_offset[t] : NULL;
  }
  for (uint32_t t = 0; t < p->ntensors; t++)
    if (!tensor_is_persistent(p, t)) c->tensor[t] = address(e, c, p->tensor[t].at);
}

typedef struct ConstantFill {
  const ProgTensor *tensor;
  char *block;
} ConstantFill;
static void fill_run(void *context, int64_t at, int64_t index, int64_t step, int64_t n) {
  const ConstantFill *f = context;
  int64_t bytes = dtype_bytes(f->tensor->type);
  for (int64_t i = 0; i < n; i++)
    dtype_store(f->tensor->type, f->block + (at + i) * bytes,
                dtype_round(f->tensor->type, f->tensor->data[index + i * step]));
}

// Writes the constants of the program to the memory of processor c. The data of a constant is in
// its physical order of dims, the order in memory. But block_visit, which visits the elements,
// counts indices in the order of the model text. So block_visit gets a copy of the tensor whose
// declared order is the physical one.
static void fill_constants(const Exec *e, const Context *c) {
  for (uint32_t t = 0; t < e->program->ntensors; t++) {
    ProgTensor x = e->program->tensor[t];
    if (x.kind != TENSOR_CONSTANT || !x.data) continue;
    for (uint8_t d = 0; d < x.rank; d++) x.declared[d] = d;
    ConstantFill f = {&x, c->tensor[t]};
    block_visit(e->program, &x, c->processor, -1, fill_run, &f);
  }
}

// -- processors that share the memory of a tensor -----------------------------------------------

int64_t exec_sharers(const Exec *e, const Context *c, Axes axes, uint32_t t, int64_t *rank,
                     const Context **first) {
  const Mesh *m = &e->program->mesh;
  int64_t n = 0;
  for (int64_t k = 0; k < axes_size(m, axes); k++) {
    const Context *other = &e->context[axes_peer(m, axes, c->processor, k)];
    if (!other->tensor || !c->tensor[t] || other->tensor[t] != c->tensor[t]) continue;
    if (n == 0) *first = other;
    if (other == c) *rank = n;
    n++;
  }
  return n;
}

// Returns the processor in whose memory processor c finds the operands of a set that processors
// divide, or c if the set is not divided.
static const Context *operands_of(const Exec *e, const Context *c, const KernelSet *set) {
  int64_t rank;
  const Context *first = c;
  if (set->divided) {
    uint32_t t = (uint32_t)set->divided - 1;
    Axes axes = tensor_replicated(&e->program->mesh, &e->program->tensor[t]);
    exec_sharers(e, c, axes, t, &rank, &first);
  }
  return first;
}

// Returns the processor whose memory gets the result of a part of a collective for processor c.
static const Context *result_of(const Exec *e, const Context *c, const Collective *w,
                                const CollPart *p) {
  int64_t rank;
  const Context *first = c;
  if (p->once) exec_sharers(e, c, w->axes, (uint32_t)p->once - 1, &rank, &first);
  return first;
}

// -- addresses of the operands of instructions --------------------------------------------------

static void bind_kernel(Exec *e, const Context *c, const KernelLaunch *l, BoundKernel *b) {
  const ProgKernel *k = &e->program->kernel[l->kernel];
  b->kernel = k;
  b->nsets = l->nsets;
  b->grain = l->grain > 0 ? l->grain : 1;
  b->strips = l->strips;
  b->row_units = l->row_units;
  Axes common = axis_set_list(e->common ? l->common : 0);
  b->sharers = axes_size(&e->program->mesh, common);
  b->rank = axes_rank(&e->program->mesh, common, c->processor);
  const Context *first = first_along(e, c, l->common);
  b->partial = address(e, first, l->partial);
  b->meets = b->sharers > 1;
  b->set = arena_array(e->memory, BoundSet, l->nsets);
  for (uint32_t s = 0; s < l->nsets; s++) {
    BoundSet *set = &b->set[s];
    set->ptr = arena_array(e->memory, void *, k->nptr + 1u);
    set->slot = arena_array(e->memory, int64_t, k->nslot + 1u);
    set->num = l->set[s].num;
    b->meets = b->meets || (l->set[s].divided && !e->apart);
    const Context *at = operands_of(e, first, &l->set[s]);
    for (int i = 0; i < k->nptr; i++) {
      set->ptr[i] = address(e, at, l->set[s].ptr[i]);
      if (l->set[s].ptr[i].stride) set->ref = l->set[s].ptr;
    }
  }
}

static void bind_collective(Exec *e, const Context *c, const Collective *w, CommMember *m,
                            BoundInstr *b) {
  void **src = arena_array(e->memory, void *, w->nparts + 1);
  void **dst = arena_array(e->memory, void *, w->nparts + 1);
  for (uint32_t i = 0; i < w->nparts; i++) {
    src[i] = address(e, c, w->part[i].src);
    dst[i] = address(e, result_of(e, c, w, &w->part[i]), w->part[i].dst);
  }
  m->processor = c->processor;
  m->src = b->u.valid.from = src;
  m->dst = b->u.valid.to = dst;
  m->src_valid = b->u.valid.src = arena_array(e->memory, int64_t, (size_t)w->nparts * MAX_RANK + 1);
  m->dst_valid = b->u.valid.dst = arena_array(e->memory, int64_t, (size_t)w->nparts * MAX_RANK + 1);
}

// Stores in *b the addresses and the size of an INSTR_COPY instruction or, if `src` is NULL, of an
// INSTR_FILL, which writes zeros.
static void bind_copy(const Exec *e, const Context *c, Ref dst, const Ref *src, int64_t bytes,
                      BoundInstr *b) {
  b->u.copy.dst = address(e, c, dst);
  b->u.copy.to = dst;
  b->u.copy.src = src ? address(e, c, *src) : NULL;
  if (src) b->u.copy.from = *src;
  b->u.copy.bytes = bytes;
  b->solo = bytes < SOLO_BYTES;
}

static void bind_gemm(const Exec *e, const Context *c, const Gemm *w, BoundGemm *b) {
  b->what = w;
  b->way = product_way(w->factors, NULL);
  b->thin = gemm_is_thin(w) && thin_opens();
  b->a = address(e, c, w->a);
  b->b = address(e, c, w->b);
  b->c = address(e, c, w->c);
  for (int x = 0; x < GEMM_EXTRAS; x++)
    b->extra[x] = gemm_extra(w, x) ? address(e, c, *gemm_extra(w, x)) : NULL;
}

static void bind_ordered(const Exec *e, const Context *c, const Ordered *w, BoundOrdered *b) {
  b->what = w;
  b->src = address(e, c, w->src);
  b->dst = address(e, c, w->dst);
}

static void bind_matrix(const Exec *e, const Context *c, const MatrixCall *w, BoundMatrix *b) {
  b->what = w;
  b->engine = matrix_engine();
  b->a = address(e, c, w->a);
  b->b = address(e, c, w->b);
  b->dst = address(e, c, w->dst);
}

static void bind_loop(const Exec *e, const Context *c, uint32_t i, BoundInstr *b) {
  const Instr *in = e->program->instr;
  for (uint32_t k = i + 1; k < in[i].u.loop.end; k++)
    b->u.loop.meets = b->u.loop.meets || in[k].kind == INSTR_COLLECTIVE;
  if (in[i].u.loop.guarded) b->u.loop.guard = address(e, c, in[i].u.loop.guard);
}

// Changes a number of the kernel if a fault is to be injected in instruction i.
static void inject_numbers(const Exec *e, const Context *c, uint32_t i, BoundKernel *b) {
  if (i == e->inject_instr && c->processor == e->inject.processor)
    b->set[0].num = exec_inject_numbers(e, b->kernel, b->set[0].num);
}

static void bind_instr(Exec *e, const Context *c, uint32_t i) {
  const Instr *in = &e->program->instr[i];
  BoundInstr *b = &c->instr[i];
  b->kind = in->kind;
  switch (in->kind) {
  case INSTR_KERNEL:
    bind_kernel(e, c, &in->u.kernel, &b->u.kernel);
    inject_numbers(e, c, i, &b->u.kernel);
    break;
  case INSTR_GEMM: bind_gemm(e, c, &in->u.gemm, &b->u.gemm); break;
  case INSTR_ORDERED: bind_ordered(e, c, &in->u.ordered, &b->u.ordered); break;
  case INSTR_MATRIX: bind_matrix(e, c, &in->u.matrix, &b->u.matrix); break;
  case INSTR_COLLECTIVE:
    bind_collective(e, c, &in->u.collective, &e->member[i][c - e->context], b);
    break;
  case INSTR_FILL:
    bind_copy(e, c, in->u.fill.dst, NULL, in->u.fill.bytes, b);
    b->u.copy.streamed = in->u.fill.streamed;
    break;
  case INSTR_COPY: bind_copy(e, c, in->u.copy.dst, &in->u.copy.src, in->u.copy.bytes, b); break;
  case INSTR_LOOP: bind_loop(e, c, i, b); break;
  case INSTR_END:
    b->u.loop = c->instr[in->u.end.begin].u.loop;
    b->u.loop.guard = in->u.end.stops ? address(e, c, in->u.end.alive) : NULL;
    break;
  case INSTR_COMMIT: break;
  }
}

void exec_move_operands(Exec *e, int64_t c, uint32_t i, const LoopSteps *s) {
  const Collective *w = &e->program->instr[i].u.collective;
  const Context *context = &e->context[c];
  if (!context->arena) return;
  for (uint32_t k = 0; k < w->nparts; k++) {
    Ref src = w->part[k].src, dst = w->part[k].dst;
    const BoundInstr *b = &context->instr[i];
    if (src.stride) b->u.valid.from[k] = address(e, context, src) + ref_moved(src, s->depth, s->at);
    if (dst.stride) b->u.valid.to[k] = address(e, context, dst) + ref_moved(dst, s->depth, s->at);
  }
}

// -- binding the program ------------------------------------------------------------------------

static void bind_calls(Exec *e) {
  const Program *p = e->program;
  e->call = arena_array(e->memory, CommCall, p->ninstrs + 1);
  e->member = arena_array(e->memory, CommMember *, p->ninstrs + 1);
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    if (p->instr[i].kind != INSTR_COLLECTIVE) continue;
    e->member[i] = arena_array(e->memory, CommMember, e->processors);
    e->call[i] = (CommCall){
        .what = &p->instr[i].u.collective, .members = e->processors, .member = e->member[i]};
  }
}

static bool no_memory(const Exec *e, int64_t r, Diag *d) {
  diag_error(d, DIAG_NO_MEMORY, (Pos){0},
             "out of memory: %lld bytes for processor %lld could not be allocated",
             (long long)(e->own_bytes + e->program->arena_bytes), (long long)r);
  return false;
}

// Allocates the memory of the processors in segments that all ranks (processes) of the machine map.
// The ranks wait for each other first: every rank must have measured the free memory
// (enough_memory) before any rank allocates.
static bool share_memory(Exec *e, Diag *d) {
  if (!e->ranks || !ranks_meet_local(e->ranks, false)) return !e->ranks;
  e->kept = ranks_segment(e->ranks, e->own_bytes, true);
  // with a device the work arena of the host is hardly used
  e->work = e->kept ? ranks_segment(e->ranks, e->program->arena_bytes, !e->device) : NULL;
  return e->work || (!ranks_failed(e->ranks) && no_memory(e, e->first, d));
}

// Returns new memory for processor c. If several ranks (processes) run the program, this is the
// part of c in the shared segment w, otherwise newly mapped memory. Adds `bytes` to Context.bytes.
static char *memory_of(const Exec *e, Context *c, const SharedSegment *w, int64_t bytes) {
  c->bytes += bytes;
  return e->ranks ? segment_at(w, c->processor) : memory_map(bytes);
}

// Sets c->next_thin.
static void find_thin(const Exec *e, Context *c) {
  uint32_t next = UINT32_MAX, n = e->program->ninstrs;
  int depth = 0;
  c->next_thin = arena_array(e->memory, uint32_t, n + 1);
  c->next_thin[n] = next;
  for (uint32_t i = n; i-- > 0;) {
    const BoundInstr *b = &c->instr[i];
    depth += (b->kind == INSTR_END) - (b->kind == INSTR_LOOP);
    if (b->kind == INSTR_GEMM && b->u.gemm.thin && !depth) next = i;
    c->next_thin[i] = depth ? UINT32_MAX : next;
  }
  if (next == UINT32_MAX) c->next_thin = NULL;
}

static bool bind_context(Exec *e, int64_t r, Diag *d) {
  const Program *p = e->program;
  Context *c = &e->context[r];
  c->processor = r;
  c->own = memory_of(e, c, e->kept, e->own_bytes);
  c->arena = memory_of(e, c, e->work, p->arena_bytes);
  if (exec_is_own(e, r) && (!c->own || !c->arena)) return no_memory(e, r, d);
  c->tensor = arena_array(e->memory, char *, p->ntensors + 1);
  c->slot = arena_array(e->memory, int64_t, p->nslots + 1);
  c->instr = arena_array(e->memory, BoundInstr, p->ninstrs + 1);
  place_tensors(e, c);
  if (exec_is_own(e, r)) fill_constants(e, c);
  for (uint32_t i = 0; i < p->ninstrs; i++)
    if (exec_is_own(e, r) || p->instr[i].kind == INSTR_COLLECTIVE) bind_instr(e, c, i);
  for (uint32_t i = 0; i < p->ninstrs && exec_is_own(e, r); i++) exec_bind_steps(e, c, i);
  if (exec_is_own(e, r)) find_thin(e, c), exec_bind_coming(p, c);
  return true;
}

static void bind_moved(Exec *e) {
  uint32_t most = 0;
  for (uint32_t k = 0; k < e->program->nkernels; k++)
    if (e->program->kernel[k].nptr > most) most = e->program->kernel[k].nptr;
  e->moved = arena_array(e->memory, void **, e->workers);
  for (int w = 0; w < e->workers; w++) e->moved[w] = arena_array(e->memory, void *, most + 16);
}

// Sets *out to work memory of `bytes` bytes for each of n workers or processors.
static bool bind_work(int64_t bytes, int64_t n, const char *each, char **out, Diag *d) {
  int64_t all;
  if (bytes == 0) return true;
  if (size_mul(bytes, n, &all) && (*out = memory_map(all))) return true;
  return diag_error(d, DIAG_NO_MEMORY, (Pos){0},
                    "out of memory: %lld bytes of work memory a %s could not be allocated",
                    (long long)bytes, each);
}

static bool bind_scratch(Exec *e, Diag *d) {
  const Program *p = e->program;
  e->scratch_bytes = program_scratch(p);
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    if (p->instr[i].kind != INSTR_GEMM || !gemm_is_thin(&p->instr[i].u.gemm)) continue;
    int64_t bytes = thin_bytes(&p->instr[i].u.gemm);
    if (bytes > e->thin_bytes) e->thin_bytes = bytes;
  }
  e->turn = arena_array(e->memory, ThinTurn, e->own);
  e->ahead = arena_array(e->memory, ThinAhead, e->workers);
  for (int w = 0; w < e->workers; w++) e->ahead[w].instr = UINT32_MAX;
  return bind_work(e->scratch_bytes, e->workers, "worker", &e->scratch, d) &&
         bind_work(e->thin_bytes, e->own, "processor", &e->thin, d);
}

// Returns how many bytes of its memory of persistent tensors processor r uses. Those that it shares
// with another processor, in the memory of that one, are at the end.
static int64_t bytes_kept(const Exec *e, int64_t r) {
  const Program *p = e->program;
  int64_t bytes = 0;
  for (uint32_t t = 0; t < p->ntensors; t++)
    if (e->own_offset[t] >= 0 && exec_keeps(e, r, t)) {
      int64_t end = e->own_offset[t] + p->tensor[t].bytes;
      bytes = end > bytes ? end : bytes;
    }
  return bytes;
}

// Touches the memory of the processors of this process. Segments of ranks are touched already. With
// a device, steps use no memory of the host.
static void touch_all(Exec *e) {
  if (e->device) return;
  for (int64_t r = 0; !e->ranks && r < e->processors; r++) {
    memory_touch(e->team, e->context[r].own, bytes_kept(e, r));
    memory_touch(e->team, e->context[r].arena, e->program->arena_bytes);
  }
  memory_touch(e->team, e->scratch, e->scratch_bytes * e->workers);
  memory_touch(e->team, e->thin, e->thin_bytes * e->own);
}

bool exec_bind(Exec *e, Diag *d) {
  if (!lay_out(e, d) || !enough_memory(e, d) || !share_memory(e, d)) return false;
  bind_moved(e);
  e->context = arena_array(e->memory, Context, e->processors);
  bind_calls(e);
  for (int64_t r = 0; r < e->processors; r++)
    if (!bind_context(e, r, d)) return false;
  exec_bind_sums(e);
  exec_bind_sizes(e);
  if (!bind_scratch(e, d)) return false;
  touch_all(e);
  return true;
}

void exec_unbind(Exec *e) {
  free(e->zeros);
  segment_free(e->kept);
  segment_free(e->work);
  for (int64_t r = 0; !e->ranks && e->context && r < e->processors; r++) {
    memory_unmap(e->context[r].own, e->own_bytes);
    memory_unmap(e->context[r].arena, e->program->arena_bytes);
  }
  memory_unmap(e->scratch, e->scratch_bytes * e->workers);
  memory_unmap(e->thin, e->thin_bytes * e->own);
}

void exec_rows(Exec *e, int64_t rows) {
  if (rows == e->rows) return;
  e->rows = rows;
  exec_bind_sizes(e);
}

void exec_copy(Exec *to, const Exec *from) {
  const Program *p = to->program;
  if (p != from->program) BUG("memory of another program");
  exec_rows(to, from->rows);
  for (uint32_t t = 0; t < p->ntensors; t++) {
    if (!tensor_is_persistent(p, t) && p->tensor[t].kind != TENSOR_INPUT) continue;
    bool got = exec_fetch(from, t);
    exec_writes(to, t);
    for (int64_t r = to->first; r < to->first + to->own && got; r++)
      memcpy(to->context[r].tensor[t], from->context[r].tensor[t], (size_t)p->tensor[t].bytes);
    exec_wrote(to, t);
  }
}

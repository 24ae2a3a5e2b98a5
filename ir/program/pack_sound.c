// Checks a Program that was read from bytes: what the ranges of single fields (pack_program.c) do
// not say. Kernels are not looked at: whoever runs a program trusts its machine code.
#include "ir/program/pack.h"
#include "ir/program/program.h"

#include <stdio.h>
#include <string.h>

typedef struct Look {
  const Program *program;
  char *why;
  uint32_t instr;
  bool good;
} Look;

static bool wrong(Look *l, const char *what) {
  if (l->good) snprintf(l->why, PACK_WHY, "has %s at instruction %u", what, l->instr);
  l->good = false;
  return false;
}

// Returns the bytes of the memory in which a reference is.
static int64_t memory_of(const Program *p, int32_t tensor) {
  return tensor < 0 ? p->arena_bytes : p->tensor[tensor].bytes;
}

static void look_at_ref(void *context, Ref *r) {
  Look *l = context;
  int64_t bytes = memory_of(l->program, r->tensor);
  if (r->offset < 0 || r->offset > bytes || !bytes) wrong(l, "a place outside of its memory");
}

// Returns whether a tensor has the bytes of its block, and the whole tensor a number of bytes.
static bool has_room(const ProgTensor *x) {
  int64_t block = dtype_bytes(x->type), whole = block;
  for (int i = 0; i < x->rank; i++) {
    const ProgDim *dim = &x->dim[i];
    if ((!dim->axes.n && dim->block < dim->whole) || !size_mul(block, dim->block, &block) ||
        !size_mul(whole, dim->whole, &whole))
      return false;
  }
  return block <= x->bytes;
}

// Tensors are in memory of their own, in the arena, or in a tensor that has memory of its own.
static void look_at_tensors(Look *l) {
  const Program *p = l->program;
  for (uint32_t t = 0; t < p->ntensors; t++) {
    const ProgTensor *x = &p->tensor[t];
    int32_t in = x->at.tensor;
    bool seen[MAX_RANK] = {false}, named = x->name != NULL;
    for (int i = 0; i < x->rank; i++) {
      named = named && x->dim[i].name;
      if (x->declared[i] >= x->rank || seen[x->declared[i]]) wrong(l, "a tensor with a dim twice");
      seen[x->declared[i] % MAX_RANK] = true;
    }
    if (!named) wrong(l, "a tensor or dim without a name");
    if (in >= 0 && !tensor_is_persistent(p, (uint32_t)in)) wrong(l, "a tensor in no memory");
    if (!has_room(x)) wrong(l, "a tensor that is larger than its bytes");
    if (x->at.offset < 0 || x->bytes > memory_of(p, in) - x->at.offset)
      wrong(l, "a tensor outside of its memory");
  }
}

// A slot that is multiplied by another one comes to an end.
static void look_at_slots(Look *l) {
  const Program *p = l->program;
  for (uint32_t s = 0; s < p->nslots; s++) {
    uint32_t links = 0;
    int32_t at = (int32_t)s;
    while (at >= 0 && links++ <= LOOP_DEPTH * MAX_RANK) at = p->slot[at].times - 1;
    if (at >= 0) wrong(l, "a slot that is a factor of itself");
    if (p->slot[s].live && !p->slot[s].steps) wrong(l, "a slot of a loop without steps");
  }
}

// Every loop has an end, loops nest, and nothing is repeated after the commit.
static void look_at_loops(Look *l) {
  const Program *p = l->program;
  uint32_t open[LOOP_DEPTH];
  int depth = 0;
  bool committed = false;
  for (l->instr = 0; l->instr < p->ninstrs && l->good; l->instr++) {
    const Instr *in = &p->instr[l->instr];
    if (in->kind == INSTR_COMMIT) {
      if (committed || depth) wrong(l, "a second commit, or one in a loop");
      committed = true;
    } else if (in->kind == INSTR_LOOP) {
      if (depth == LOOP_DEPTH || committed || p->instr[in->u.loop.end].kind != INSTR_END)
        wrong(l, "a loop without end");
      else
        open[depth++] = l->instr;
    } else if (in->kind == INSTR_END) {
      if (!depth || open[--depth] != in->u.end.begin ||
          p->instr[in->u.end.begin].u.loop.end != l->instr)
        wrong(l, "the end of no loop");
    }
  }
  if (l->good && depth) wrong(l, "a loop without end");
}

// The dims over which an index is checked have names, and their positions are numbers.
static void look_at_checks(Look *l) {
  const Program *p = l->program;
  for (uint32_t i = 0; i < p->nchecks; i++) {
    const Check *c = &p->check[i];
    int64_t positions = 1;
    bool good = c->row <= c->rank;
    for (int k = 0; k < c->rank; k++)
      good = good && c->loop[k].name && size_mul(positions, c->loop[k].whole, &positions);
    if (!good) wrong(l, "a check of an index without its dims");
  }
}

static bool are_distinct(const Axes *axes) {
  for (int i = 0; i < axes->n; i++)
    for (int k = 0; k < i; k++)
      if (axes->at[i] == axes->at[k]) return false;
  return true;
}

// A sum over processors is of a divided set, and has pointers to blocks in the work arenas.
static bool is_sum_good(const Program *p, const KernelSet *set, int nptr) {
  const SetSum *sum = set->sum;
  if (!set->divided || !are_distinct(&sum->axes) || sum->own >= nptr) return false;
  const Ref *own = &set->ptr[sum->own];
  return sum->others + axes_size(&p->mesh, sum->axes) - 1 <= nptr && own->tensor < 0 &&
         sum->bytes <= p->arena_bytes - own->offset;
}

static void look_at_launch(Look *l, const KernelLaunch *x) {
  const ProgKernel *kernel = &l->program->kernel[x->kernel];
  int64_t each = kernel->partial_bytes, bytes;
  if (x->nsets && !x->set) wrong(l, "a launch without operands");
  for (uint32_t i = 0; i < x->nsets && l->good; i++)
    if (x->set[i].sum && !is_sum_good(l->program, &x->set[i], kernel->nptr))
      wrong(l, "a sum over processors without its operands");
  if (!each) return;
  if (x->partial.offset < 0 || !size_mul(each, x->chunks > 1 ? x->chunks : 1, &bytes) ||
      bytes > memory_of(l->program, x->partial.tensor) - x->partial.offset)
    wrong(l, "partial results outside of its memory");
}

// The dims that a collective of each kind needs in all of its parts.
static const struct {
  bool gathered, split;
} dims_of[COLL_COUNT] = {
    [COLL_ALL_GATHER] = {.gathered = true},
    [COLL_REDUCE_SCATTER] = {.split = true},
    [COLL_ALL_TO_ALL] = {true, true},
};

static bool is_dim_of(const CollPart *x, int d, bool needed) {
  return d < x->rank && (d >= 0 || !needed);
}

// Returns whether the memory at a reference has room for a block.
static bool holds(const Look *l, const Ref *at, Dtype type, int rank, const int64_t *block) {
  int64_t bytes = dtype_bytes(type);
  for (int i = 0; i < rank; i++)
    if (!size_mul(bytes, block[i], &bytes)) return false;
  return bytes <= memory_of(l->program, at->tensor) - at->offset;
}

static void look_at_collective(Look *l, const Collective *c) {
  if (!are_distinct(&c->axes) || !are_distinct(&c->to))
    wrong(l, "a collective along an axis twice");
  for (uint32_t i = 0; i < c->nparts; i++) {
    const CollPart *x = &c->part[i];
    if (!is_dim_of(x, x->gathered, dims_of[c->kind].gathered) ||
        !is_dim_of(x, x->split, dims_of[c->kind].split))
      wrong(l, "a collective along a dim that its operand lacks");
    if (!holds(l, &x->src, c->type, x->rank, x->src_block) ||
        !holds(l, &x->dst, c->type, x->rank, x->dst_block))
      wrong(l, "a collective outside of its memory");
  }
}

static void look_at_bytes(Look *l, const Ref *at, int64_t bytes) {
  if (bytes > memory_of(l->program, at->tensor) - at->offset)
    wrong(l, "a copy outside of its memory");
}

static void look_at_instrs(Look *l) {
  const Program *p = l->program;
  for (l->instr = 0; l->instr < p->ninstrs && l->good; l->instr++) {
    Instr *in = &p->instr[l->instr];
    int nptr = in->kind == INSTR_KERNEL ? p->kernel[in->u.kernel.kernel].nptr : 0;
    if (in->kind == INSTR_KERNEL) look_at_launch(l, &in->u.kernel);
    if (in->kind == INSTR_COLLECTIVE) look_at_collective(l, &in->u.collective);
    if (in->kind == INSTR_FILL) look_at_bytes(l, &in->u.fill.dst, in->u.fill.bytes);
    if (in->kind == INSTR_COPY) look_at_bytes(l, &in->u.copy.dst, in->u.copy.bytes);
    if (in->kind == INSTR_COPY) look_at_bytes(l, &in->u.copy.src, in->u.copy.bytes);
    if (l->good) instr_refs(in, nptr, look_at_ref, l);
  }
}

bool program_sound(const Program *p, char *why) {
  Look l = {.program = p, .why = why, .good = true};
  if (!p->model || !p->for_) wrong(&l, "no name");
  for (int i = 0; i < p->mesh.naxes; i++)
    if (!p->mesh.axis[i].name) wrong(&l, "an axis without a name");
  look_at_tensors(&l);
  look_at_slots(&l);
  look_at_checks(&l);
  if (l.good) look_at_loops(&l);
  if (l.good) look_at_instrs(&l);
  return l.good;
}

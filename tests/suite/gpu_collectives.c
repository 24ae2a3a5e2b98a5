// Compares the kernels that carry out collectives on a GPU (codegen/gpu/gpu_transfer.c) with the
// local communicator, bit for bit. The collectives are those of random graphs under random layouts,
// each with several element types, ways to combine, and numbers of rows in the batch. The kernels
// run as machine code of this processor, and as code of a GPU on the emulator of GPU threads: all
// transfers of a call that have one kernel in one launch. The messages between GPUs with one or
// several processors each (collectives/local/messages.h) are compared, too; their kernels run on
// this processor.
//
//   gpu_collectives [CASE | seed=N]    SEEDS=n as in layouts
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "collectives/local/devices.h"
#include "collectives/local/transfer_plan.h"
#include "tests/suite/common/emulated.h"
#include "tests/suite/common/gpu_launch.h"
#include "tests/suite/common/layout_maker.h"
#include "tests/suite/common/message_run.h"

enum { SEEDS = 80, LAYOUTS = 1, VARIANTS = 2, LARGE_GROUP = 40 };

// -- machine code of kernels, which cases share -------------------------------------------------

typedef struct Known {
  char *text;
  KernelFn *run;
  GpuRunner *gpu;
  Kernel *kernel; // in memory that lasts as long as `gpu`
  struct Known *next;
} Known;
static Known *known;
static int kernels;                  // number of them
static int64_t calls[COLL_COUNT][2]; // calls that were checked, and sets in them

static void *copy(const void *from, size_t n) { return memcpy(mem_zeroed(1, n), from, n); }

static Kernel *copy_kernel(const Kernel *from) {
  Kernel *k = copy(from, sizeof *k);
  k->ptr = copy(from->ptr, sizeof *k->ptr * k->nptr);
  k->stmt = copy(from->stmt, sizeof *k->stmt * k->nstmts);
  return k;
}

// Compiles a program of kernel `from` alone for a processor and for a GPU. The code stays until the
// suite ends.
static Known *compile(Program *p, const Kernel *from, Diag *d) {
  Known *k = mem_zeroed(1, sizeof *k);
  k->kernel = copy_kernel(from);
  k->gpu = gpu_runner_new(p, &k->kernel, d);
  if (!k->gpu || !code_load(p, &k->kernel, &(CodeOptions){.opt = 0}, d)) return NULL;
  k->run = p->kernel[0].run;
  return k;
}

// Returns the code of kernel i of the program; NULL if it does not compile.
static const Known *code_of(Maker *m, const Compiled *c, uint32_t i) {
  const char *text = c->program->kernel[i].text;
  for (const Known *k = known; k; k = k->next)
    if (strcmp(k->text, text) == 0) return k;
  Program one = *c->program;
  ProgKernel entry = c->program->kernel[i];
  one.nkernels = 1;
  one.kernel = &entry;
  one.ninstrs = 0;
  Known *k = compile(&one, c->kernels[i], m->diag);
  if (!k) return NULL;
  k->text = copy(text, strlen(text) + 1);
  k->next = known;
  known = k;
  kernels++;
  return k;
}

// -- memory of all processors -------------------------------------------------------------------

// The blocks of a collective, four times: the communicator has those of side 0, the kernels on a
// processor those of side 1, the kernels on a GPU those of side 2, which are in `device`, and the
// messages those of side 3.
enum { SIDES = 4, DEVICE_SIDE = 2, MESSAGE_SIDE = 3, ROOM = 1 << 24 };
static char device[ROOM];
static size_t device_used;
typedef struct Blocks {
  const Collective *what;
  int64_t processors, each; // of the mesh, and of a device of side 3
  char **at[SIDES][2];      // side, source or result: address by processor * nparts + part
  CommMember *member[SIDES];
} Blocks;

static int64_t block_bytes(const Collective *c, uint32_t part, int result) {
  const CollPart *p = &c->part[part];
  int64_t n = dtype_bytes(c->type);
  for (int d = 0; d < p->rank; d++) n *= result ? p->dst_block[d] : p->src_block[d];
  return n;
}

static double random_value(Maker *m, Dtype type) {
  static const double special[] = {0, -0.0, (double)NAN, (double)INFINITY, 1e-40, 3};
  if (type == TYPE_BOOL) return maker_draw(m, 2);
  if (!dtype_is_float(type)) return maker_draw(m, 200);
  if (!maker_draw(m, 12)) return dtype_round(type, special[maker_draw(m, countof(special))]);
  return dtype_round(type, ((double)maker_draw(m, 20001) - 10000) / 777);
}

// Returns a random value whose sums and products are exact: they do not depend on their order, and
// members on one device are combined first.
static double exact_value(Maker *m, const Collective *c) {
  bool product = c->monoid == MONOID_PROD && dtype_is_float(c->type);
  return product ? 1.0 - 2 * maker_draw(m, 2) : maker_draw(m, c->type == TYPE_BOOL ? 2 : 4);
}

// Returns whether a result may depend on the order in which members are combined.
static bool rounds(const Collective *c) {
  return dtype_is_float(c->type) && (c->monoid == MONOID_SUM || c->monoid == MONOID_PROD);
}

// Returns a new block with random elements.
static char *random_block(Maker *m, const Collective *c, bool exact, int64_t bytes) {
  char *at = arena_alloc(m->a, (size_t)bytes + 64);
  for (int64_t i = 0; i < bytes; i += dtype_bytes(c->type))
    dtype_store(c->type, at + i, exact ? exact_value(m, c) : random_value(m, c->type));
  return at;
}

static char *copy_block(Maker *m, int side, const char *from, int64_t bytes) {
  char *at = device + device_used;
  if (side != DEVICE_SIDE) at = arena_alloc(m->a, (size_t)bytes + 64);
  if (side == DEVICE_SIDE) device_used += ((size_t)bytes + 127) / 64 * 64;
  if (device_used > ROOM) BUG("blocks need more memory");
  return memcpy(at, from, (size_t)bytes);
}

static int64_t size_of(const Program *p, Size s, int64_t r, int64_t rows) {
  return s.slot < 0 ? s.base : s.base * program_slot(p, s.slot, r, rows);
}

static CommMember member_of(Maker *m, const Program *p, const Blocks *b, int side, int64_t r,
                            int64_t rows) {
  const Collective *c = b->what;
  int64_t *src = arena_array(m->a, int64_t, c->nparts * MAX_RANK);
  int64_t *dst = arena_array(m->a, int64_t, c->nparts * MAX_RANK);
  for (uint32_t i = 0; i < c->nparts; i++)
    for (int d = 0; d < c->part[i].rank; d++) {
      src[i * MAX_RANK + (uint32_t)d] = size_of(p, c->part[i].src_valid[d], r, rows);
      dst[i * MAX_RANK + (uint32_t)d] = size_of(p, c->part[i].dst_valid[d], r, rows);
    }
  return (CommMember){r, (void *const *)&b->at[side][0][r * c->nparts],
                      (void *const *)&b->at[side][1][r * c->nparts], src, dst};
}

// Returns the processor that has the result of part i for processor r.
static int64_t result_of(const Program *p, const Collective *c, uint32_t i, int64_t r) {
  return c->part[i].once ? axes_peer(&p->mesh, c->axes, r, 0) : r;
}

// Allocates all blocks, with equal random elements on all sides. in_place: the results of an
// all_reduce have the memory of the operands.
static void fill_blocks(Maker *m, const Program *p, Blocks *b, bool in_place) {
  const Collective *c = b->what;
  for (int result = 0; result < 2; result++)
    for (int side = 0; side < SIDES; side++) {
      b->at[side][result] = arena_array(m->a, char *, b->processors * c->nparts);
      for (int64_t r = 0; r < b->processors; r++)
        for (uint32_t i = 0; i < c->nparts; i++) {
          char **at = b->at[side][result];
          int64_t own = r * c->nparts + i, bytes = block_bytes(c, i, result);
          int64_t other = result_of(p, c, i, r) * c->nparts + i;
          if (side == MESSAGE_SIDE) other = own; // on a GPU of its own, nothing is shared
          if (result && in_place)
            at[own] = b->at[side][0][other];
          else if (result && other != own)
            at[own] = at[other];
          else
            at[own] = side ? copy_block(m, side, b->at[0][result][own], bytes)
                           : random_block(m, c, b->each > 1 && rounds(c), bytes);
        }
    }
}

static Blocks blocks_new(Maker *m, const Program *p, const Collective *c, int64_t each,
                         int64_t rows) {
  Blocks b = {.what = c, .processors = mesh_size(&p->mesh), .each = each};
  device_used = 0;
  fill_blocks(m, p, &b, c->kind == COLL_ALL_REDUCE && maker_draw(m, 2));
  for (int side = 0; side < SIDES; side++) {
    b.member[side] = arena_array(m->a, CommMember, b.processors);
    for (int64_t r = 0; r < b.processors; r++)
      b.member[side][r] = member_of(m, p, &b, side, r, rows);
  }
  return b;
}

// -- running and comparing ----------------------------------------------------------------------

static bool same(Dtype type, const char *x, const char *y) {
  if (memcmp(x, y, (size_t)dtype_bytes(type)) == 0) return true;
  return isnan(dtype_load(type, x)) && isnan(dtype_load(type, y));
}

// Returns how many bytes of a result are to be compared. Where processors share a result
// (CollPart.once), those on GPUs of their own do not: what no message changes differs.
static int64_t compared_bytes(const Blocks *b, uint32_t part, int64_t r, int side, bool defers) {
  const CollPart *p = &b->what->part[part];
  const int64_t *valid = b->member[side][r].src_valid + part * MAX_RANK;
  int64_t bytes = block_bytes(b->what, part, 1);
  if (side != MESSAGE_SIDE || (!p->once && !p->deferred)) return bytes;
  if (p->deferred && defers) return 0;
  for (int d = 1; d < p->rank; d++)
    if (valid[d] == 0) return 0;
  return p->rank && p->dst_block[0] ? bytes / p->dst_block[0] * valid[0] : bytes;
}

// defers: CommCall.defers.
static const char *compare(Maker *m, const Blocks *b, int side, bool defers) {
  const Collective *c = b->what;
  int64_t size = dtype_bytes(c->type);
  for (int64_t r = 0; r < b->processors; r++)
    for (uint32_t i = 0; i < c->nparts; i++)
      for (int64_t at = 0; at < compared_bytes(b, i, r, side, defers); at += size) {
        const char *x = b->at[0][1][r * c->nparts + i] + at;
        const char *y = b->at[side][1][r * c->nparts + i] + at;
        if (!same(c->type, x, y))
          return arena_printf(m->a,
                              "side %d: %s of %s, part %u: element %lld of processor %lld is "
                              "%g, not %g",
                              side, coll_text(c->kind), dtype_text(c->type), i,
                              (long long)(at / size), (long long)r, dtype_load(c->type, y),
                              dtype_load(c->type, x));
      }
  return NULL;
}

// Runs the units of a set in pieces, from the last piece to the first: their order is free.
static void run_set(KernelFn *run, const TransferSet *set, int64_t piece) {
  Status status = {0};
  KernelCall call = {.ptr = set->ptr, .slot = set->slot, .status = &status};
  for (int64_t lo = (set->units - 1) / piece * piece; lo >= 0; lo -= piece)
    run(&call, lo, lo + piece < set->units ? lo + piece : set->units);
}

// Launches a kernel on the emulator for n sets.
static void launch(Maker *m, const Known *k, const TransferSet *set, uint32_t n) {
  GpuSet *operands = arena_array(m->a, GpuSet, n);
  for (uint32_t i = 0; i < n; i++)
    operands[i] = (GpuSet){.ptr = set[i].ptr, .slot = set[i].slot, .units = set[i].units};
  gpu_runner_run(k->gpu, 0, 1, n, operands);
}

// Runs the sets of a call of `each` processors from `first` on: on a processor one by one, on a GPU
// those of one kernel together. Returns what is wrong, or NULL.
static const char *run_sets(Maker *m, const Compiled *c, const PartPlan *plan, const CommCall *call,
                            int64_t first, int64_t each, bool on_gpu) {
  TransferSet *set;
  uint32_t n = transfer_sets(m->a, plan, &c->program->mesh, call, first, each, &set), together;
  calls[call->what->kind][1] += n;
  for (uint32_t i = 0; i < n; i += together) {
    const Known *k = code_of(m, c, set[i].kernel);
    if (!k) return "a kernel does not compile";
    together = 1;
    while (on_gpu && i + together < n && set[i + together].kernel == set[i].kernel) together++;
    if (on_gpu)
      launch(m, k, &set[i], together);
    else
      run_set(k->run, &set[i], 1 + maker_draw(m, 3));
  }
  return NULL;
}

// Returns whether all valid elements of a collective are in its blocks.
static bool fits(const Program *p, const Collective *c, int64_t rows) {
  for (int64_t r = 0; r < mesh_size(&p->mesh); r++)
    for (uint32_t i = 0; i < c->nparts; i++)
      for (int d = 0; d < c->part[i].rank; d++)
        if (size_of(p, c->part[i].src_valid[d], r, rows) > c->part[i].src_block[d] ||
            size_of(p, c->part[i].dst_valid[d], r, rows) > c->part[i].dst_block[d])
          return false;
  return true;
}

typedef struct MessageKernels {
  Maker *m;
  const Compiled *c;
} MessageKernels;

static const char *run_message_set(void *context, const TransferSet *set) {
  const MessageKernels *k = context;
  const Known *known_kernel = code_of(k->m, k->c, set->kernel);
  if (!known_kernel) return "a kernel does not compile";
  run_set(known_kernel->run, set, 1 + maker_draw(k->m, 3));
  return NULL;
}

// The devices of side 3, with `each` processors each, and the plan of a collective there: messages
// between devices (`part`) or, where it needs none (NULL), transfers within each device (`local`).
typedef struct Shared {
  int64_t each;
  const MessagePart *part;
  const PartPlan *local;
} Shared;

static const char *run_shared(Maker *m, const Compiled *c, const Shared *s, const CommCall *call) {
  const char *wrong = NULL;
  if (s->part)
    return message_run(m->a, s->part, &c->program->mesh, s->each, call, maker_draw(m, 2),
                       run_message_set, &(MessageKernels){m, c});
  for (int64_t r = 0; r < mesh_size(&c->program->mesh) && !wrong; r += s->each)
    wrong = run_sets(m, c, s->local, call, r, s->each, false);
  return wrong;
}

// Carries out a collective of the program in all ways.
static const char *check_call(Maker *m, const Compiled *c, const PartPlan *plan,
                              const Shared *shared, const Collective *what, int64_t rows) {
  if (!fits(c->program, what, rows)) return "a block has more valid elements than room";
  Blocks b = blocks_new(m, c->program, what, shared->each, rows);
  bool defers = maker_draw(m, 2);
  Comm *comm = comm_local(&c->program->mesh, 1);
  const char *wrong = NULL;
  for (int side = 0; side < SIDES && !wrong; side++) {
    CommCall call = {what, 0, b.processors, b.member[side], defers};
    if (side == MESSAGE_SIDE)
      wrong = run_shared(m, c, shared, &call);
    else if (side > 0)
      wrong = run_sets(m, c, plan, &call, 0, b.processors, side == DEVICE_SIDE);
    else if (!comm_run(comm, &call, 0, 1))
      wrong = "the communicator fails";
    if (side > 0 && !wrong) wrong = compare(m, &b, side, defers);
  }
  calls[what->kind][0]++;
  comm_free(comm);
  return wrong;
}

// Returns a copy of a collective with another type, way to combine, and marks of its parts.
static Collective variant_of(Maker *m, const Collective *from) {
  Collective c = *from;
  c.part = arena_copy(m->a, from->part, sizeof *c.part * c.nparts);
  c.type = (Dtype)maker_draw(m, TYPE_COUNT);
  bool reduces = c.kind == COLL_ALL_REDUCE || c.kind == COLL_REDUCE_SCATTER;
  if (reduces) c.monoid = (Monoid)(MONOID_SUM + maker_draw(m, MONOID_COUNT - MONOID_SUM));
  for (uint32_t i = 0; i < c.nparts && c.kind == COLL_ALL_REDUCE; i++) {
    c.part[i].once = !maker_draw(m, 3);
    c.part[i].deferred = !maker_draw(m, 4);
  }
  return c;
}

// Draws how many processors share a device: a number by which the mesh can be divided into devices.
static int64_t draw_each(Maker *m, const Mesh *mesh) {
  int64_t n = mesh_size(mesh), each;
  do each = 1 + maker_draw(m, (uint32_t)n);
  while (n % each || !devices_fit(mesh, each));
  return each;
}

// Checks the collectives of a program, in variants, with full and incomplete batches.
static const char *check_program(Maker *m, Compiled *c, int64_t rows) {
  Program *p = c->program;
  const char *wrong = NULL;
  for (int v = 0; v < VARIANTS && !wrong; v++) {
    Instr *instr = arena_copy(m->a, p->instr, sizeof *instr * p->ninstrs);
    for (uint32_t i = 0; i < p->ninstrs; i++)
      if (instr[i].kind == INSTR_COLLECTIVE && v > 0)
        instr[i].u.collective = variant_of(m, &p->instr[i].u.collective);
    Instr *before = p->instr;
    p->instr = instr;
    PartPlan **plan = gpu_transfers(m->a, c, 0)->local;
    int64_t each = maker_draw(m, 2) ? 1 : draw_each(m, &p->mesh);
    GpuTransfers *shared = gpu_transfers(m->a, c, each);
    for (uint32_t i = 0; i < p->ninstrs && !wrong; i++)
      for (int k = 0; k < 2 && !wrong && plan[i]; k++)
        wrong =
            check_call(m, c, plan[i], &(Shared){each, shared->messages[i], shared->local[i]},
                       &instr[i].u.collective, k ? (int64_t)maker_draw(m, (uint32_t)rows + 1) : -1);
    p->instr = before;
  }
  return wrong;
}

// Checks reductions of so many processors that they are combined in groups.
static const char *check_large_group(Maker *m) {
  CollPart part = {.src = {.tensor = -1},
                   .dst = {.tensor = -1},
                   .rank = 1,
                   .src_block = {33},
                   .dst_block = {33},
                   .gathered = -1,
                   .split = -1};
  part.src_valid[0] = part.dst_valid[0] = (Size){33, -1};
  Instr instr = {.kind = INSTR_COLLECTIVE};
  instr.u.collective = (Collective){.kind = COLL_ALL_REDUCE,
                                    .axes = {1, {0}},
                                    .monoid = MONOID_SUM,
                                    .nparts = 1,
                                    .part = &part,
                                    .bytes = 33};
  Program p = {.instr = &instr, .ninstrs = 1};
  p.mesh = (Mesh){.naxes = 1, .axis = {{.name = "p", .size = 15 + maker_draw(m, LARGE_GROUP)}}};
  Compiled c = {.program = &p};
  return check_program(m, &c, 1);
}

static const char *check(Maker *m, const Graph *g, const Eval *whole) {
  (void)whole;
  Machine machine = machine_default();
  const Dim *over = dim_get(m->dims, m->b);
  CodegenOptions opt = {.fuse = true, .products = ALL_TYPES, .for_ = "train", .over = over->name};
  Graph *low = collectives_share(m->a, lower(m->a, place(m->a, g, &m->layout, &machine)));
  layout_saw(low);
  Order *order = order_choose(m->a, remat(m->a, low, 0), &(StoreOptions){0}, true);
  Fusion *f = fuse(m->a, order, collectives_bucket(m->a, order->graph, &machine), &opt);
  const char *wrong = check_program(m, program_build(m->a, f, &opt), over->size);
  return wrong ? wrong : check_large_group(m);
}

int main(int argc, char **argv) {
  if (!code_available()) {
    printf("0 passed, 0 failed, %d skipped\n", SEEDS * LAYOUTS);
    return 0;
  }
  emulated_allow(device, sizeof device);
  int code = random_cases(argc, argv, SEEDS, LAYOUTS, check);
  emulated_forget(0);
  for (int k = 0; k < COLL_COUNT; k++)
    fprintf(stderr, "%s: %lld calls, %lld sets\n", coll_text((CollKind)k), (long long)calls[k][0],
            (long long)calls[k][1]);
  fprintf(stderr, "%d kernels\n", kernels);
  return code;
}

// The products that programs have, on a GPU: small graphs of all operations that contract, random
// graphs and loops, each under random layouts, become Programs in which every contraction that can
// be a Gemm is one. Each Gemm of each processor runs by runtime/gpu/gpu_product.c and is compared
// with a plain triple loop (tests/suite/common/product_test.h), in the last round of the loops
// around it.
//
//   gpu_products_graphs [CASE | seed=N]    SEEDS=n as in layouts
#include <stdio.h>

#include "codegen/codegen.h"
#include "tests/suite/common/layout_cases.h"
#include "tests/suite/common/product_test.h"

enum { RANDOM_GRAPHS = 150, LAYOUTS = 2 };

static ProductTest *test;
static int64_t products; // that were compared

// Returns a size on processor r, in the round `steps`.
static int64_t size_on(const Program *p, int64_t r, Size s, const LoopSteps *steps) {
  if (s.slot < 0) return s.base;
  const Slot *slot = &p->slot[s.slot];
  int64_t step = slot->live && slot->loop < steps->depth ? steps->at[slot->loop] : 0;
  return s.base * program_slot_in(p, s.slot, r, -1, step);
}

static BoundGemm bind(const Program *p, int64_t r, const Gemm *g, const LoopSteps *steps) {
  BoundGemm b = {.what = g,
                 .m = size_on(p, r, g->m, steps),
                 .n = size_on(p, r, g->n, steps),
                 .k = size_on(p, r, g->k, steps),
                 .batches = 1};
  for (int i = 0; i < g->nbatch; i++) {
    b.count[i] = size_on(p, r, g->batch[i].count, steps);
    b.batches *= b.count[i];
  }
  return b;
}

// Runs all products of processor r. Returns NULL or what is wrong.
static const char *run_processor(Arena *a, const Program *p, int64_t r) {
  LoopSteps steps = {.depth = 0};
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    const Instr *in = &p->instr[i];
    if (in->kind == INSTR_END) steps.depth--;
    if (in->kind == INSTR_LOOP) {
      int64_t count = size_on(p, r, in->u.loop.count, &steps);
      steps.at[steps.depth++] = count > 0 ? count - 1 : 0;
    }
    if (in->kind != INSTR_GEMM) continue;
    const BoundGemm b = bind(p, r, &in->u.gemm, &steps);
    const char *wrong = product_test(test, &b, &steps, 0, products++ % 2);
    Pos pos;
    if (wrong)
      return arena_printf(a, "processor %d, product %s: %s", (int)r, program_instr_name(p, i, &pos),
                          wrong);
  }
  return NULL;
}

static const char *run_program(Maker *m, const Graph *g, const Eval *whole) {
  (void)whole;
  Machine machine = machine_default();
  CodegenOptions opt = {.fuse = true, .products = ALL_TYPES, .product_work = 1, .for_ = "train"};
  Graph *low = collectives_share(m->a, lower(m->a, place(m->a, g, &m->layout, &machine)));
  layout_saw(low);
  Order *order = order_choose(m->a, remat(m->a, low, 0), &(StoreOptions){0}, true);
  Fusion *f = fuse(m->a, order, collectives_bucket(m->a, order->graph, &machine), &opt);
  const Program *p = program_build(m->a, f, &opt)->program;
  const char *wrong = NULL;
  for (int64_t r = 0; r < mesh_size(&p->mesh) && !wrong; r++) wrong = run_processor(m->a, p, r);
  return wrong;
}

int main(int argc, char **argv) {
  test = product_test_new();
  if (!test) return printf("0 passed, 1 failed, 0 skipped\n"), 1;
  int code = random_cases(argc, argv, RANDOM_GRAPHS, LAYOUTS, run_program);
  product_test_free(test);
  fprintf(stderr, "%lld products\n", (long long)products);
  return code;
}

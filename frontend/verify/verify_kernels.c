// --verify: compares every distinct kernel of the split step with the evaluator. When the first
// processor runs a kernel for the first time, some elements of its results are computed in double
// from the kernel's operands (codegen/fuse/kernel_sample.h). This finds faults of kernels that the
// program for one processor has too, and that a comparison of the two programs cannot see.
#include "frontend/verify/verify.h"

#include <math.h>

#include "codegen/fuse/kernel_sample.h"

struct VerifyKernels {
  Session *s;
  Arena *a;
  const Compilation *made;
  bool *seen;
  const KernelSample *now;
  ExecProbe probe;
  uint32_t kernels, elements, left_out, wrong;
  double used;
  const char *text; // the message about the first wrong element; NULL: none is wrong
  Pos pos;
};

static void before(void *self, uint32_t kernel, uint32_t instr, const KernelCall *call) {
  VerifyKernels *v = self;
  bool *seen = &v->seen[kernel];
  (void)instr;
  if (*seen) return;
  *seen = true;
  v->now = kernel_sample(v->a, v->made->compiled->kernels[kernel], call);
}

// Returns the position of an element along those loops of the kernel on which the result depends:
// "[b=3, c=7]".
static const char *place_text(Arena *a, const Kernel *k, const KernelElement *e) {
  const KPtr *p = &k->ptr[k->stmt[e->stmt].index];
  const char *text = "";
  for (int l = k->nouter + k->ninner - 1; l >= 0; l--)
    if (p->stride[l])
      text = arena_printf(a, "%s=%lld%s%s", k->loop[l].name, (long long)e->counter[l],
                          *text ? ", " : "", text);
  return *text ? arena_printf(a, "[%s]", text) : "";
}

static void note_wrong(VerifyKernels *v, const KernelElement *e, double got, uint32_t instr) {
  const Kernel *k = v->now->kernel;
  const Node *n = graph_node(v->made->order->graph, k->stmt[e->stmt].node);
  const char *name = n->origin->value ? n->origin->value : op_row((Op)n->op)->text;
  if (v->wrong++) return;
  v->pos = n->origin->pos;
  v->text = arena_printf(
      v->s->arena,
      "%s%s is %.9g by its kernel and %.9g by the evaluator, bound %.3g (instruction %u)", name,
      place_text(v->a, k, e), got, e->want, e->bound, instr);
}

static void after(void *self, uint32_t instr) {
  VerifyKernels *v = self;
  double got = 0;
  if (!v->now) return;
  const KernelElement *e = kernel_sample_wrong(v->now, &got, &v->used);
  if (e) note_wrong(v, e, got, instr);
  v->kernels++;
  v->elements += v->now->n;
  v->left_out += v->now->left_out;
  v->now = NULL;
}

VerifyKernels *verify_kernels(Session *s, Arena *a, const Compilation *made) {
  VerifyKernels *v = arena_new_of(a, VerifyKernels);
  uint32_t n = made->compiled->program->nkernels;
  *v = (VerifyKernels){.s = s,
                       .a = a,
                       .made = made,
                       .seen = arena_array(a, bool, n + 1),
                       .probe = {v, before, after}};
  return v;
}

const ExecProbe *verify_kernels_probe(const VerifyKernels *v) { return &v->probe; }

bool verify_kernels_agree(const VerifyKernels *v, uint32_t *kernels, uint32_t *elements) {
  *kernels = v->kernels;
  *elements = v->elements;
  if (!v->wrong) return true;
  diag_error(v->s->diag, DIAG_VERIFY, v->pos, "%s", v->text);
  if (v->wrong > 1)
    diag_note(v->s->diag, (Pos){0}, "so are elements of %u other kernel%s", v->wrong - 1,
              plural(v->wrong - 1));
  return false;
}

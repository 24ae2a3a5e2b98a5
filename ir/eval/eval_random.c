// Random draws in the evaluator. The random words of an element depend on its position in the full
// tensor (ir/base/philox.h), so every processor draws its own block.
#include "ir/base/philox.h"
#include "ir/eval/eval_rules.h"

static Cell cell_uniform(const uint32_t w[4], bool f64) {
  return (Cell){philox_uniform(w, f64), 0, false};
}

static Cell cell_normal(const uint32_t w[4], bool f64) {
  double error = f64 ? PHILOX_NORMAL_ERROR64 : PHILOX_NORMAL_ERROR;
  return (Cell){philox_normal(w, f64), error * philox_radius(w, f64), false};
}

// Makes operand 1 of the walk count positions in the full tensor. Returns the position of the
// block's first element.
static int64_t global_positions(const EvalNode *c, StrideWalk *w) {
  int64_t *stride = w->stride[w->operands++], step = 1, from = 0;
  for (int i = w->rank - 1; i >= 0; i--) { // dims are in order of declaration
    const Dim *d = dim_get(c->g->dims, w->dim[i]);
    stride[i] = step;
    from += step * dim_offset(c->g->dims, c->g->mesh, w->dim[i], c->r);
    step *= dim_get(c->g->dims, d->whole)->size;
  }
  return from;
}

static void draw(const EvalNode *c, Cell (*cell)(const uint32_t w[4], bool f64)) {
  StrideWalk w;
  walk_init(&w);
  walk_dims(&w, c->out);
  walk_operand(&w, c->out);
  int64_t from = global_positions(c, &w);
  for (bool on = walk_first(&w); on; on = walk_next(&w))
    for (int64_t i = 0; i < w.inner; i++) {
      uint32_t words[4];
      philox_words(c->n->attr.key, c->g->spec.seed, from + w.at[1] + i * w.step[1], c->step, 0,
                   words);
      tensor_put(c->out, w.at[0] + i * w.step[0], cell(words, c->out->type == TYPE_F64));
    }
}

void eval_random_uniform(const EvalNode *c) { draw(c, cell_uniform); }
void eval_random_normal(const EvalNode *c) { draw(c, cell_normal); }

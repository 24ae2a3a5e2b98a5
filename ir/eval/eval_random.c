// Random draws in the evaluator. The random words of an element depend on its position in the whole
// tensor (ir/base/philox.h), so each processor draws the elements of its own block.
#include "ir/base/philox.h"
#include "ir/eval/eval_rules.h"

static Cell cell_uniform(const uint32_t w[4], bool f64) {
  return (Cell){philox_uniform(w, f64), 0, false};
}

static Cell cell_normal(const uint32_t w[4], bool f64) {
  double error = f64 ? PHILOX_NORMAL_ERROR64 : PHILOX_NORMAL_ERROR;
  return (Cell){philox_normal(w, f64), error * philox_radius(w, f64), false};
}

static void draw(const EvalNode *c, Cell (*cell)(const uint32_t w[4], bool f64)) {
  StrideWalk w = walk_over(c->out, c->out, NULL);
  DimId whole[MAX_RANK];
  for (int i = 0; i < w.rank; i++) whole[i] = dim_get(c->g->dims, w.dim[i])->whole;
  // from + w.at[1] is the position of an element in the whole tensor.
  int64_t from = walk_whole(&w, c->g, c->r, w.rank, whole);
  for (bool on = walk_first(&w); on; on = walk_next(&w)) {
    uint32_t words[4];
    philox_words(c->n->attr->key, c->g->spec.seed, from + w.at[1], c->run->step, 0, words);
    tensor_put(c->out, w.at[0], cell(words, c->out->type == TYPE_F64));
  }
}

void eval_random_uniform(const EvalNode *c) { draw(c, cell_uniform); }
void eval_random_normal(const EvalNode *c) { draw(c, cell_normal); }

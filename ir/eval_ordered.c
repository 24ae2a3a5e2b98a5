// Ordered ops of the evaluator.
#include "ir/eval_rules.h"

void eval_cumsum(const EvalNode *c) { BUG("cumsum of node %u", c->id); }
void eval_cummax(const EvalNode *c) { BUG("cummax of node %u", c->id); }
void eval_cum_index(const EvalNode *c) { BUG("cum_index of node %u", c->id); }
void eval_argsort(const EvalNode *c) { BUG("argsort of node %u", c->id); }
void eval_top_k(const EvalNode *c) { BUG("top_k of node %u", c->id); }

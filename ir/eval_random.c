// Draws of the evaluator.
#include "ir/eval_rules.h"

void eval_random_uniform(const EvalNode *c) { BUG("draw of node %u", c->id); }
void eval_random_normal(const EvalNode *c) { BUG("draw of node %u", c->id); }

// Loops of the evaluator.
#include "ir/eval_rules.h"

void eval_carry(const EvalNode *c) { BUG("carry of node %u", c->id); }
void eval_time_step(const EvalNode *c) { BUG("at of node %u", c->id); }
void eval_scan(const EvalNode *c) { BUG("scan of node %u", c->id); }
void eval_final(const EvalNode *c) { BUG("final of node %u", c->id); }
void eval_collect(const EvalNode *c) { BUG("collect of node %u", c->id); }

// Derivative rules of ordered ops.
#include "ir/grad_rules.h"

void grad_cumsum(Grad *c) { BUG("gradient of cumsum %u", c->id); }
void grad_cummax(Grad *c) { BUG("gradient of cummax %u", c->id); }

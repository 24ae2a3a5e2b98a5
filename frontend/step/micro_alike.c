// Finds whether a step that takes its batch in micro-batches (`accumulate`) computes the same: the
// mean of the losses of the micro-batches must be the loss of the batch. It is if the loss is made
// of means over the batch of values that each depend on one row. Then the gradients are the same,
// too.
//
//   mean(cross_entropy[c](logits, label)) + 1e-4 * square_sum("w")     the same
//   mean[b](logsumexp[o](similarity[b, o])), o another name of b       not: rows are compared
//   batch_norm[b](x), update seen = mean[b](x)                         not: statistics of a batch
#include "frontend/step/select_internal.h"

// How a value of the whole batch follows from those of equal micro-batches.
typedef enum Division {
  DIVIDES_FREE,  // it depends on no row: they are all the same
  DIVIDES_ROWS,  // each of its elements depends on one row
  DIVIDES_MEAN,  // it is their mean
  DIVIDES_NEVER, // it cannot be had from them
} Division;

static bool only(const Division *arg, int n, Division most) {
  for (int i = 0; i < n; i++)
    if (arg[i] == DIVIDES_ROWS || arg[i] > most) return false;
  return true;
}

// Returns the division of node n, which mixes rows; arg[i]: that of argument i.
static Division mixed_division(const RowFacts *rows, const Node *n, const Division *arg) {
  bool mean = n->op == OP_MEAN && arg[0] == DIVIDES_ROWS && !rows_in(rows, n->dims);
  bool linear = n->op == OP_ADD || n->op == OP_SUB || n->op == OP_NEG || n->op == OP_CAST ||
                n->op == OP_STOP || n->op == OP_CHECKPOINT || n->op == OP_PIN;
  bool product = n->op == OP_MUL && (arg[0] == DIVIDES_FREE || arg[1] == DIVIDES_FREE);
  bool quotient = n->op == OP_DIV && arg[1] == DIVIDES_FREE;
  if (mean) return DIVIDES_MEAN;
  return (linear || product || quotient) && only(arg, n->nargs, DIVIDES_MEAN) ? DIVIDES_MEAN
                                                                              : DIVIDES_NEVER;
}

static Division *divisions(Arena *a, const Graph *g, const RowFacts *rows) {
  Division *of = arena_array(a, Division, graph_count(g) + 1), arg[MAX_ARGS];
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *x = graph_node(g, n);
    for (int i = 0; i < x->nargs; i++) arg[i] = of[x->args[i]];
    of[n] = !rows->batch[n]   ? DIVIDES_FREE
            : !rows->mixed[n] ? DIVIDES_ROWS
                              : mixed_division(rows, x, arg);
  }
  return of;
}

static bool runs_over(const Graph *g, DimId over) {
  for (uint32_t i = 0; i < g->decl.n; i++)
    for (int k = 0; k < g->decl.at[i].rank; k++)
      if (g->decl.at[i].kind != DECL_INPUT && g->decl.at[i].dims[k] == over) return true;
  return false;
}

bool micro_batches_alike(const Model *m) {
  const Graph *g = m->graph;
  const DataBlock *data = &g->spec.data[DATA_TRAIN];
  if (!g->spec.ntrain || !data->present || runs_over(g, data->over)) return false;
  Arena *a = arena_new();
  RowFacts rows = rows_mark(a, g, data->over);
  const Division *of = divisions(a, g, &rows);
  bool alike = true;
  for (uint32_t i = 0; i < g->spec.ntrain && alike; i++) {
    Division loss = of[graph_find_name(g, g->spec.train[i].loss)->value];
    alike = loss == DIVIDES_FREE || loss == DIVIDES_MEAN;
  }
  for (uint32_t i = 0; i < g->output.n && alike; i++) // updates of states
    alike = of[g->output.at[i].value] == DIVIDES_FREE;
  arena_free(a);
  return alike;
}

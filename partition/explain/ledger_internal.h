// What the files behind `explain` share.
#ifndef PARTITION_EXPLAIN_PRIVATE_H
#define PARTITION_EXPLAIN_PRIVATE_H

#include "partition/explain/ledger.h"
#include "partition/sharding/sharding_internal.h"

// -- ledger_cause.c -----------------------------------------------------------------------------
// Fills has and wants of `out`: the shardings before and after collective node `moved` of the
// lowered graph, and the layout rules or words behind them. out->node and out->reader are set.
void sides_find(Arena *a, const Placer *p, const Graph *lowered, NodeId moved, LedgerPart *out);
// "add at line 45", "the output y". For reader 0: the output that returns node `of` of graph g.
const char *reader_text(Arena *a, const Graph *g, NodeId of, NodeId reader);
const char *output_name(Arena *a, const Output *out); // "the output y", "the update of w"

// -- ledger_rules.c -----------------------------------------------------------------------------
// Fills l->rule from the layout, without what they cost.
void rules_list(Arena *a, Ledger *l);
// Places the graph once more without each rule: the step then, and which rows go (LedgerRow.cause).
void rules_try(const Machine *machine, Ledger *l);

bool share_axis(Axes a, Axes b);

// -- ledger_lines.c -----------------------------------------------------------------------------
// Rows that only differ in the round of a loop become lines.
void lines_find(Arena *a, Ledger *l);
// Whether a comma-separated list of names has one.
bool names_mention(const char *list, const char *name);

#endif

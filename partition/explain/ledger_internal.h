// What the files behind `explain` share.
#ifndef PARTITION_EXPLAIN_PRIVATE_H
#define PARTITION_EXPLAIN_PRIVATE_H

#include "partition/explain/ledger.h"
#include "partition/sharding/sharding_internal.h"

// -- ledger_cause.c -----------------------------------------------------------------------------
// The index of the rule of the layout that cuts dim k of node n over `axis`: its own, that of the
// argument that brings the cut, or of a user that asks for it. -1: none.
int rule_behind(const Placer *p, NodeId n, int k, int axis);
// The states of both ends of collective node `moved` (of the lowered graph), and what is behind
// them.
void sides_find(Arena *a, const Placer *p, const Graph *lowered, NodeId moved, LedgerPart *out);
// "add at line 45", "the output y"; reader 0: an output that hands out `of`.
const char *reader_text(Arena *a, const Placer *p, NodeId of, NodeId reader);

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

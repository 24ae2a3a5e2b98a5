// Functions that the files of the ledger share (ledger.h).
#ifndef PARTITION_EXPLAIN_PRIVATE_H
#define PARTITION_EXPLAIN_PRIVATE_H

#include "partition/explain/ledger.h"
#include "partition/sharding/sharding_internal.h"

// -- ledger_cause.c -----------------------------------------------------------------------------
// Fills out->has and out->wants: the shardings of a value before and after collective node `moved`
// of the lowered graph, with the layout rules that cause them. The caller has set out->node and
// out->reader.
void sides_find(Arena *a, const Placer *p, const Graph *lowered, NodeId moved, LedgerPart *out);

// -- ledger_rules.c -----------------------------------------------------------------------------
// Makes l->rule, one entry for each rule of the layout and each pin of `from`. Sets only the rule,
// its text and its place in each entry; rules_try sets the rest.
void rules_list(Arena *a, const LedgerSource *from, Ledger *l);
// Compares the ledger rows with the calls without each layout rule and without each pin, to find
// what causes them. Fills the fields cause, partly and left of all ledger rows.
void rules_try(const LedgerSource *from, Ledger *l);

// -- ledger_lines.c -----------------------------------------------------------------------------
// Fills l->line: ledger rows (collective calls) that differ only in the round (iteration) of a loop
// become one line.
void lines_find(Arena *a, Ledger *l);

// -- ledger_alike.c -----------------------------------------------------------------------------
// Returns lines about work that is repeated and tensors that are copied (Ledger.work, copies). With
// `all` also about those that are less than a hundredth of all.
const char *alike_text(Arena *a, const Ledger *l, bool all);

#endif

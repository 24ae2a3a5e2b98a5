// What `explain` knows: one structure behind its text, JSON, graph and page.
//
// The ledger has a row a collective call, in the order of the program. A row knows its parts (the
// values packed into the call), of each its state before and after, who reads it, and the rule of
// the layout behind either side; what would remove it was tried, by placing the graph once more
// without that rule. Rows that only differ in the round of a loop are one line.
#ifndef PARTITION_EXPLAIN_H
#define PARTITION_EXPLAIN_H

#include "partition/partition.h"

// A state that a value is in, or is wanted in, and what brings it about.
typedef struct LedgerSide {
  Dims dims;       // block dims
  Axes partial;    // each processor along these holds a term
  Monoid monoid;   // of the terms
  int rule;        // index of the rule behind it, -1: none
  const char *why; // without a rule, in words, or NULL
} LedgerSide;

// A value that moves.
typedef struct LedgerPart {
  const char *value;   // its name, or its operation's
  NodeId node, reader; // of the placed graph; 0: not known. A reader of 0: an output
  const char *user;    // "add at line 45", "the update of w"
  int64_t bytes;       // of the call
  LedgerSide has, wants;
} LedgerPart;

typedef struct LedgerRow {
  const CollFact *fact;
  uint32_t nparts;
  LedgerPart *part;
  int cause;     // index of a rule without which the value does not move so, -1: no single rule
  int partly;    // without a cause: of one without which it moves over fewer axes, -1: none
  Axes left;     // these
  uint32_t line; // index
} LedgerRow;

// Rows that are the same in all rounds of a loop.
typedef struct LedgerLine {
  uint32_t n, *row;          // in the order of the program
  const char *value;         // "layer.0.x ... layer.11.x", "46 gradients: bytes, places, ..."
  bool shortened;            // it leaves names out
  bool unequal;              // its calls are of different sizes
  int64_t calls, wire_bytes; // of all, in a step
  double seconds;
} LedgerLine;

typedef struct LedgerTotal {
  Axes axes;
  int64_t group, calls, wire_bytes;
  double seconds;
} LedgerTotal;

typedef struct LedgerRule {
  const LayoutRule *rule;
  const char *text;          // "heads -> cols", "optimizer: all -> rows", "soft t -> cols"
  const char *place;         // "gpt.mesh:60", "--layout"; "" if it has none
  uint32_t rows;             // that stand behind it (LedgerRow.cause)
  int64_t calls, wire_bytes; // of these
  // The step without it.
  int64_t without_calls, without_bytes, without_flops,
      without_memory; // memory: parameters and optimizer
} LedgerRule;

typedef struct Ledger {
  const Placement *placement;
  const Graph *graph; // of one processor
  const Diag *diag;
  const CollFacts *facts;
  PartitionFacts partition;
  int64_t peak_bytes; // of a processor; 0: not known
  const char *step;   // what a step takes, predicted, in words; NULL: not known
  uint32_t nrows, nlines, ntotals, nrules;
  LedgerRow *row;
  LedgerLine *line;
  LedgerTotal *total;        // by set of axes
  LedgerRule *rule;          // of the layout, in its order
  int64_t calls, wire_bytes; // in a step
  double seconds;
} Ledger;

typedef struct LedgerSource {
  const Placement *placement;
  const Graph *graph; // the graph of one processor that `buckets` is of
  const Buckets *buckets;
  const CollFacts *facts; // of these
  PartitionFacts partition;
  const Machine *machine;
  const Diag *diag;
} LedgerSource;
Ledger *ledger_new(Arena *a, const LedgerSource *from);
// The ledger as text; `all`: every row and every name. With peak_bytes set the head tells them.
char *ledger_text(Arena *a, const Ledger *l, bool all);
// What would remove a row: "leaving out heads -> cols (--layout) would remove it", or that no rule
// alone does.
const char *ledger_remedy(Arena *a, const Ledger *l, const LedgerRow *row);
// Whether the step is the same without it.
bool rule_idle(const Ledger *l, const LedgerRule *r);
// "bytes[vocab/cols, d]" without the name; "sum over cols, b/rows" of a side.
const char *ledger_dims(Arena *a, const Ledger *l, const LedgerSide *side);
const char *ledger_state(Arena *a, const Ledger *l, const LedgerSide *side);
// "gpt.mesh:45", "--layout", "" for nowhere.
const char *ledger_place(Arena *a, const Ledger *l, Pos pos);

// -- values -------------------------------------------------------------------------------------
typedef enum ValueKind {
  VALUE_INPUT,
  VALUE_PARAM,
  VALUE_STATE,
  VALUE_SLOT,
  VALUE_COMPUTED,
  VALUE_GRADIENT
} ValueKind;
extern const char *const value_kinds[]; // "input", "parameter" ...

typedef struct ValueDim {
  const char *name;
  int64_t size, block; // of all, of one processor at most
  Axes axes;           // that cut it
  int rule;            // that decided, -1: none
  const char *why;     // without a rule: "as its arguments"; NULL: it is whole
} ValueDim;

typedef struct ValueUse {
  NodeId node;      // 0: an output
  const char *user; // "contract at line 24"
  const char *of;   // the value that it is a part of, or NULL
  bool backward;
  const char *wants; // state
  bool converts;     // other than the one at hand
  uint32_t times;    // equal uses
} ValueUse;

// Where a value lives.
typedef struct ExplainedValue {
  const char *name;
  ValueKind kind;
  NodeId node; // of the placed graph; 0: nothing reads this tensor
  DeclId decl; // or 0
  Dtype type;
  Pos pos;
  int ndims;
  ValueDim dim[MAX_RANK]; // as its uses see it, canonical order
  Axes partial;           // each processor along these holds a term of it when it is computed
  Monoid monoid;
  Axes same;                         // processors along these hold the same
  const char *computed, *seen, *why; // states and their reason
  int64_t bytes, block_bytes;        // whole, of one processor
  uint32_t nrows, *row;              // of the ledger that move it
  int64_t calls, wire_bytes;         // its share of these
  uint32_t kept_for;                 // uses by the backward pass
  bool constant;                     // depends on no declared tensor
  int gradient;                      // of a parameter: index of its gradient, -1: none
  uint32_t nslots;
  uint32_t *slot;     // indices of the optimizer's tensors of a parameter
  const char *memory; // where the work arena has it, or NULL; told by others
} ExplainedValue;

typedef struct ExplainedValues {
  uint32_t n;
  ExplainedValue *at; // declared tensors first, then in the order of the graph
} ExplainedValues;
// Every declared tensor that is read, every named value, gradients of parameters.
ExplainedValues *explained_values(Arena *a, const Ledger *l);
// The index of the value of that name, or -1.
int explained_find(const ExplainedValues *v, const char *name);
// A node that the model names but that is a part of others: added to v; -1 when there is none.
int explained_part(Arena *a, const Ledger *l, ExplainedValues *v, const char *name);
// Who reads it.
ValueUse *explained_uses(Arena *a, const Ledger *l, const ExplainedValue *v, uint32_t *n);
char *explained_text(Arena *a, const Ledger *l, const ExplainedValues *v, int value);

#endif

// The ledger: the data behind the text, JSON, graph and page of `explain`.
//
// It has one row for each collective call, in program order. A row lists the values of the call,
// for each its sharding before and after, its reader, and the layout rules behind both shardings.
// To find what would remove a row, the graph is placed once more without each rule. Rows that
// differ only in the round of a loop form one line.
#ifndef PARTITION_EXPLAIN_H
#define PARTITION_EXPLAIN_H

#include "partition/partition.h"

// The sharding of a value before or after a call, and its cause.
typedef struct LedgerSide {
  Dims dims;       // block dims of the value
  Axes partial;    // axes over which the value is partial
  Monoid monoid;   // how partial sums combine
  int rule;        // index of the layout rule that causes the sharding, -1: none
  const char *why; // the cause in words if there is no rule, or NULL
} LedgerSide;

// One value of a call: a bucket sends several values in one call, each is a part of it.
typedef struct LedgerPart {
  const char *value;       // its name, or that of its operation
  const char *gradient_of; // the tensor whose gradient the value is, or NULL
  NodeId node;             // of the placed graph; 0: not known
  NodeId reader;           // the node that reads the value after the call; 0: an output
  const char *user;        // "add at line 45", "the update of w"
  int64_t bytes;           // of this value in one call
  LedgerSide has, wants;
} LedgerPart;

typedef struct LedgerRow {
  const CollFact *fact;
  uint32_t nparts;
  LedgerPart *part;
  int cause;  // index of a rule whose removal removes the call, -1: no single rule does
  int partly; // without a cause: index of a rule whose removal leaves the call fewer axes, -1: none
  Axes left;  // the axes of the call without rule `partly`
  uint32_t line; // index of its LedgerLine
} LedgerRow;

// Rows that are equal in all rounds of a loop.
typedef struct LedgerLine {
  uint32_t n, *row;          // indices, in program order
  const char *value;         // names of the values of all rows: "layer.0.x ... layer.11.x"
  bool shortened;            // `value` does not list all names
  bool unequal;              // its calls differ in size
  int64_t calls, wire_bytes; // of all rows in a step, sent by one processor
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
  uint32_t rows;             // rows whose cause it is
  int64_t calls, wire_bytes; // of these rows
  // The step without this rule.
  int64_t without_calls, without_bytes, without_flops,
      without_memory; // bytes of parameters and optimizer states of one processor
} LedgerRule;

typedef struct Ledger {
  const Placement *placement;
  const Graph *graph; // of one processor
  const Diag *diag;
  const CollFacts *facts;
  PartitionFacts partition;
  int64_t peak_bytes; // of a processor; 0: not known
  const char *step;   // the predicted time of a step, as text; NULL: not known
  uint32_t nrows, nlines, ntotals, nrules;
  LedgerRow *row;
  LedgerLine *line;
  LedgerTotal *total;        // one for each set of axes
  LedgerRule *rule;          // one for each rule of the layout, in its order
  int64_t calls, wire_bytes; // in a step
  double seconds;
} Ledger;

typedef struct LedgerSource {
  const Placement *placement;
  const Graph *graph; // of one processor; `buckets` has ids of its nodes
  const Buckets *buckets;
  const CollFacts *facts; // fact[i] describes bucket i
  PartitionFacts partition;
  const Machine *machine;
  const Diag *diag;
} LedgerSource;
// Makes the ledger in `a`. What `from` points to must outlive it.
Ledger *ledger_new(Arena *a, const LedgerSource *from);
// Returns the ledger as text, with one entry for each LedgerLine, long lists of names shortened.
// `all`: one entry for each LedgerRow, with all names.
char *ledger_text(Arena *a, const Ledger *l, bool all);
// Returns a text that says how to remove a row: "leaving out heads -> cols (--layout) would remove
// it", or which rules ask for it if no single rule would do.
const char *ledger_remedy(Arena *a, const Ledger *l, const LedgerRow *row);
// Returns whether calls, bytes sent, flops and memory are equal without the rule.
bool ledger_rule_idle(const Ledger *l, const LedgerRule *r);
// Return the block dims of a value before or after a call, "[vocab/cols, d]", and its sharding,
// "sum over cols b/rows" or "replicated".
const char *ledger_dims(Arena *a, const Ledger *l, const LedgerSide *side);
const char *ledger_sharding(Arena *a, const Ledger *l, const LedgerSide *side);
// Returns the place of a rule or call, "gpt.mesh:45" or "--layout"; "" if it has none.
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
  int64_t size, block; // elements of the dim, and of the longest block of a processor
  Axes axes;           // the axes that split the dim
  int rule;            // index of the layout rule that causes the split, -1: none
  const char *why;     // without a rule: "as its arguments and users"; NULL: not split
} ValueDim;

typedef struct ValueUse {
  NodeId node;      // 0: an output
  const char *user; // "contract at line 24"
  const char *of;   // name of the value that the reader computes, or NULL
  bool gradient;    // `of` is the gradient of a declaration
  bool backward;
  const char *wants; // the sharding that it reads
  bool converts;     // it differs from the computed one
  uint32_t times;    // number of equal uses that this entry stands for
} ValueUse;

// How one value lies on the mesh, and what its movement costs.
typedef struct ExplainedValue {
  const char *name;
  ValueKind kind;
  const char *gradient_of; // the tensor whose gradient the value is, or NULL
  NodeId node;             // of the placed graph; 0: nothing reads this tensor
  DeclId decl;             // or 0
  Dtype type;
  Pos pos;
  int ndims;
  ValueDim dim[MAX_RANK]; // in the settled sharding, canonical order
  Axes partial;           // axes over which it is partial when it is computed
  Monoid monoid;
  Axes same; // axes of size 2 or more over which it is replicated
  const char *computed, *seen,
      *why; // computed sharding, settled sharding, and the cause of the settled one
  int64_t bytes, block_bytes; // of the tensor, of one processor
  uint32_t nrows, *row;       // rows of the ledger that move it
  int64_t calls, wire_bytes;  // calls of these rows; the share of this value in their bytes
  uint32_t kept_for;          // number of readers in the backward pass
  bool constant;              // depends on no declared tensor
  int gradient;               // of a parameter: index of its gradient, -1: none
  uint32_t nslots;
  uint32_t *slot;     // of a parameter: indices of the optimizer's tensors
  const char *memory; // its place in the arena of the program, or NULL; set by the caller
} ExplainedValue;

typedef struct ExplainedValues {
  uint32_t n;
  ExplainedValue *at; // declared tensors first, then in graph order
} ExplainedValues;
// Returns the declared tensors that some node reads, all named values, and gradients of parameters.
ExplainedValues *explained_values(Arena *a, const Ledger *l);
// Returns the index of the value of that name, or -1.
int explained_find(const ExplainedValues *v, const char *name);
// Appends a named value that the list lacks, because a statement of the model made several nodes
// and the list has only the last. Returns its index, or -1 if no node has the name. The array has
// room for one such value.
int explained_part(Arena *a, const Ledger *l, ExplainedValues *v, const char *name);
// Returns the readers of a value and their number in *n. Readers with equal texts are one entry.
ValueUse *explained_uses(Arena *a, const Ledger *l, const ExplainedValue *v, uint32_t *n);
// Returns value v->at[value] as text.
char *explained_text(Arena *a, const Ledger *l, const ExplainedValues *v, int value);

#endif

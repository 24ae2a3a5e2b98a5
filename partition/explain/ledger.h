// The ledger: the data behind the text, JSON, graph and page of `explain`.
//
// It has one row for each collective call, in program order. A row lists the values of the call,
// for each its sharding before and after, its reader, and the layout rules behind both shardings.
// To find what would remove a row, the calls of a step without each rule are compared with it, and
// those without each layout(...) of the model. Rows that differ only in the round of a loop form
// one line.
#ifndef PARTITION_EXPLAIN_H
#define PARTITION_EXPLAIN_H

#include "partition/partition.h"

// The sharding of a value before or after a collective call, and why the value has this sharding.
typedef struct LedgerSide {
  Dims dims;       // block dims of the value
  Axes partial;    // axes over which the value is partial
  Monoid monoid;   // how partial sums combine
  int rule;        // index of the layout rule that causes the sharding, -1: none
  const char *why; // the cause in words if there is no rule, or NULL
} LedgerSide;

// One value that a collective call moves. A bucket is a call that moves several values, each of
// which has its own LedgerPart.
typedef struct LedgerPart {
  const char *value;       // name of the value, else of its operation
  bool unnamed;            // it is the name of an operation
  const char *gradient_of; // the tensor whose gradient the value is, or NULL
  NodeId node;             // id in the placed graph; 0: not known
  NodeId reader;           // node that reads the value after the call; 0: an output does
  const char *user;        // the reader as text: "add at line 45", "the update of w"
  const char *why;         // of a part of a bucket may differ from CollFact.why; NULL: not known
  int64_t bytes;           // bytes of this value in one call
  LedgerSide has, wants;
} LedgerPart;

typedef struct LedgerRow {
  const CollFact *fact;
  uint32_t nparts;
  LedgerPart *part;
  int cause;  // index in Ledger.rule of what removes the call if it is left out, -1: none
  int partly; // index of a layout rule without which the call has fewer axes, -1: none
  Axes left;  // axes of the call in the placement without rule `partly`
  // What has been left out together (ledger_blame_together): bit i for Ledger.rule[i]; 0: nothing.
  uint64_t left_out;
  bool together;      // the call is gone without them
  const char *advice; // with `together`: whether to leave them out is advised (LedgerRule.advice)
  uint32_t line;      // index of its LedgerLine
} LedgerRow;

// Rows of the ledger (collective calls) that are equal in all rounds (iterations) of a loop and are
// printed as one line.
typedef struct LedgerLine {
  uint32_t n, *row;          // number of rows, and their indices in Ledger.row, in program order
  const char *value;         // names of the values of all rows: "layer.0.x ... layer.11.x"
  bool shortened;            // `value` leaves out some of the names
  bool unequal;              // the calls differ in bytes
  int64_t calls, wire_bytes; // number of calls and bytes sent by one processor, all rows, in a step
  double seconds;
} LedgerLine;

typedef struct LedgerTotal {
  Axes axes;
  int64_t group, calls, wire_bytes;
  double seconds;
} LedgerTotal;

// A rule of the layout, or a layout(...) of the model, which is a pin.
typedef struct LedgerRule {
  const LayoutRule *rule;    // NULL for a pin
  Axes axes;                 // that the rule or pin names
  const char *text;          // "heads -> cols", "optimizer: all -> rows", "layout(...) at line 6"
  const char *place;         // "gpt.mesh:60", "--layout"; "" if it has none, or for a pin
  uint32_t rows;             // number of rows that have this rule as LedgerRow.cause; of a pin:
                             // that are gone without it
  int64_t calls, wire_bytes; // number of calls of these rows, and bytes sent in them
  // Texts that the caller sets, or NULL: the cost of the step without the rule, and whether to
  // leave it out is advised.
  const char *without, *advice;
} LedgerRule;

// A layout(...) of the model, and the collective calls of a step without it.
typedef struct LedgerPin {
  const char *text;         // "layout(...) at line 6"
  Axes axes;                // the axes that it names
  const CollFacts *without; // NULL: not known
} LedgerPin;

// A value that several processors compute alike, or of which each has a copy.
typedef struct AlikeValue {
  const char *name; // values of the rounds of a loop are one: "layer.*.q"
  double amount;    // flops of a processor, or bytes of a processor that a split would spare
} AlikeValue;
// What the processors along a set of axes compute or keep alike.
typedef struct Alike {
  Axes axes;
  double total;                   // sum of the amounts of its values
  VEC(AlikeValue) value;          // the largest amount first
  uint32_t first_line, last_line; // lines of the model; 0: not known
  uint32_t ndims;
  const char **dim; // of work: its dims that are not split and that no layout rule names
} Alike;
typedef struct AlikeList {
  uint32_t n;
  Alike *at; // the largest total first
} AlikeList;
// A dim whose blocks are fewer than the processors over which it is split.
typedef struct IdleBlocks {
  const char *dim;
  Axes axes;
  int64_t size, block; // elements of the dim, and of its blocks
  int64_t parts, used; // processors along the axes, and those that have elements of the dim
} IdleBlocks;

typedef struct Ledger {
  const Placement *placement;
  const Graph *graph; // of one processor
  const Diag *diag;
  const CollFacts *facts;
  PartitionFacts partition;
  int64_t peak_bytes;   // of a processor; 0: not known
  const char *step;     // predicted time of a step, as text; NULL: not known
  const char *memory;   // lines about the peak, each with its end; NULL: not known
  const char *what_ifs; // lines about changed layouts, each with its end; NULL: not known
  uint32_t nrows, nlines, ntotals, nrules, npins;
  LedgerRow *row;
  LedgerLine *line;
  LedgerTotal *total;        // one for each set of axes
  LedgerRule *rule;          // the nrules rules of the layout, in its order, then the npins pins
  int64_t calls, wire_bytes; // in a step
  double seconds;
  AlikeList work; // contractions that processors compute alike
  // Contractions that each processor computes of its own partial sums: the whole work, although the
  // results differ.
  AlikeList of_sums;
  const char *uneven; // uneven_text
  AlikeList copies;   // values that they keep alike; the caller sets it with alike_memory
} Ledger;

typedef struct LedgerSource {
  const Placement *placement;
  const Graph *graph;   // of one processor; `buckets` has ids of its nodes
  const Graph *lowered; // the same before passes of code generation; NULL: `graph`
  const Buckets *buckets;
  const CollFacts *facts; // fact[i] describes bucket i
  PartitionFacts partition;
  const Machine *machine;
  const Diag *diag;
  // For each layout rule the collective calls of a step without it. Where one is NULL, the graph is
  // placed once more. NULL: that is done for all rules.
  const CollFacts *const *without;
  uint32_t npins;
  const LedgerPin *pin;
} LedgerSource;
// Returns the ledger, a list of the collective calls with their causes, in arena `a`. What `from`
// points to must outlive the ledger.
Ledger *ledger_new(Arena *a, const LedgerSource *from);
// Returns the ledger as text, with one entry for each LedgerLine and with long lists of names
// shortened. With `all`, the text has one entry for each LedgerRow and all names.
char *ledger_text(Arena *a, const Ledger *l, bool all);
// Returns a text that says how to avoid the collective call of a row: "leaving out heads -> cols
// (--layout) would remove it: not advised, step +3.1 us". If leaving out no single rule would, the
// text names the rules that cause the call.
const char *ledger_remedy(Arena *a, const Ledger *l, const LedgerRow *row);
// Returns the rules and pins that may ask for the call of a row together, bit i for l->rule[i], if
// there are several of which none alone removes the call; else 0. Whether they do is to be tried
// (ledger_blame_together).
uint64_t ledger_asked_by(const Ledger *l, const LedgerRow *row);
// Returns whether `without`, the calls of another step, lacks the calls of all rows for which
// ledger_asked_by is `asked` and which ledger_blame_together has not found to stay.
bool ledger_all_gone(const Ledger *l, uint64_t asked, const CollFacts *without);
// Says of the rows for which ledger_asked_by is `asked` whether their calls are gone in `without`,
// the calls of a step without `left_out`, some or all of these rules and pins.
void ledger_blame_together(Ledger *l, uint64_t asked, uint64_t left_out, const CollFacts *without,
                           const char *advice);
// Returns what the conversion of a value in a row costs beside the other way to convert: "gathered
// (8.0 KiB) rather than reducing grad(wi) (64.0 KiB)", in bytes that a processor sends. Returns
// NULL if the other way is not that simple. `part` is a part of `row`.
const char *ledger_choice(Arena *a, const Ledger *l, const LedgerRow *row, const LedgerPart *part);
// ledger_dims returns the block dims of a value before or after a call, "[vocab/cols, d]".
// ledger_sharding returns its sharding, "sum over cols b/rows" or "replicated".
const char *ledger_dims(Arena *a, const Ledger *l, const LedgerSide *side);
const char *ledger_sharding(Arena *a, const Ledger *l, const LedgerSide *side);
// Fills l->work and l->of_sums from the graph of one processor.
void alike_work(Arena *a, const Graph *lowered, Ledger *l);
// Returns the dims of that graph whose blocks do not suffice for all processors, and sets *n to
// their number.
IdleBlocks *idle_blocks(Arena *a, const Graph *lowered, uint32_t *n);
// Returns the dim of that graph whose last block is shortest beside the others, as text: " (i is 14
// in blocks of 4 over tile)"; "" if all blocks together have at most a twentieth too many elements.
const char *uneven_text(Arena *a, const Graph *lowered);
// Returns the place of a layout rule or collective call as text, "gpt.mesh:45" or "--layout", or ""
// if `pos` is no place.
const char *ledger_place(Arena *a, const Ledger *l, Pos pos);

// Returns the text with the number of each round (iteration of a `for`) replaced by a star:
// "layer.*.x" for "layer.3.x".
const char *name_with_stars(Arena *a, const char *text);

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
  NodeId node;      // the reader; 0: an output
  const char *user; // the reader as text: "contract at line 24"
  const char *of;   // name of the value that the reader computes, or NULL
  bool gradient;    // `of` is the gradient of a declaration
  bool backward;
  const char *wants; // sharding in which the node or output reads the value, as text
  bool converts;     // `wants` differs from the sharding in which the value is computed
  uint32_t times;    // number of equal uses that this entry stands for
} ValueUse;

// How one value is split over the mesh, who reads it, and what the collectives that move it cost.
typedef struct ExplainedValue {
  const char *name;
  ValueKind kind;
  const char *gradient_of; // the tensor whose gradient the value is, or NULL
  NodeId node;             // id in the placed graph; 0: nothing reads this tensor
  DeclId decl;             // declaration of the value; 0: it is computed
  Dtype type;
  Pos pos;
  int ndims;
  ValueDim dim[MAX_RANK]; // as the settled sharding splits them, in the order of the value's dims
  Axes partial;           // axes over which the value is partial when it is computed
  Monoid monoid;
  Axes same; // axes of size 2 or more over which the value is replicated
  const char *computed, *seen,
      *why; // computed sharding, settled sharding, and the cause of the settled one
  int64_t bytes, block_bytes; // of the whole tensor; of the block of one processor
  uint32_t nrows, *row;       // number and indices of the ledger rows whose calls move the value
  int64_t calls, wire_bytes;  // calls of these rows; bytes that they send for this value
  double seconds;             // predicted, of these calls: the share that these bytes have
  uint32_t kept_for;          // number of readers in the backward pass
  bool constant;              // the value depends on no declared tensor
  int gradient; // of a parameter: index of its gradient in ExplainedValues.at, -1: none
  uint32_t nslots;
  uint32_t *slot;     // of a parameter: indices of its optimizer tensors in ExplainedValues.at
  const char *memory; // place in the program's arena as text, or NULL; the caller sets it
} ExplainedValue;

typedef struct ExplainedValues {
  uint32_t n;
  ExplainedValue *at; // declared tensors first, then in graph order
} ExplainedValues;
// Returns the list of values that `explain` can show: the declared tensors that some node reads,
// all named values, and the gradients of parameters.
ExplainedValues *explained_values(Arena *a, const Ledger *l);
// Returns the tensors and kept values of which several processors have a copy. The caller has set
// ExplainedValue.memory: computed values without a buffer are left out.
AlikeList alike_memory(Arena *a, const Ledger *l, const ExplainedValues *values);
// Returns the index in v->at of the value with this name, or -1 if the list has no such value.
int explained_find(const ExplainedValues *v, const char *name);
// Appends to v a named value that the list lacks. If a statement of the model made several nodes,
// the list has only the last node. Returns the index of the value in v->at, or -1 if no node has
// the name. The array v->at has room for one such value.
int explained_part(Arena *a, const Ledger *l, ExplainedValues *v, const char *name);
// Returns the readers of a value, and sets *n to the number of entries. Readers that are described
// by equal texts are one entry.
ValueUse *explained_uses(Arena *a, const Ledger *l, const ExplainedValue *v, uint32_t *n);
// Returns the text that `explain NAME` prints for v->at[value]: its shardings, readers and bytes
// sent.
char *explained_text(Arena *a, const Ledger *l, const ExplainedValues *v, int value);
// Returns what `explain 'layer.*.q'` prints: the text of each value whose name matches the pattern,
// without those that differ only in the number of a round, and totals over all. Returns NULL if no
// name matches.
char *explained_pattern_text(Arena *a, const Ledger *l, const ExplainedValues *v,
                             const char *pattern);

#endif

// The facts that `explain` shows of one compiled step, in one structure, and the functions that
// write them as text, JSON, DOT or a page.
#ifndef FRONTEND_EXPLAIN_H
#define FRONTEND_EXPLAIN_H

#include "frontend/driver/session.h"
#include "partition/explain/ledger.h"

// The memory of the work arena of one processor during the step.
typedef struct Timeline {
  uint32_t n;         // instructions
  int64_t *live;      // live bytes at each instruction
  uint32_t peak;      // index of the first instruction with the most live bytes
  int64_t persistent; // bytes of parameters, states, optimizer, constants: allocated all the time
  uint32_t nalive;
  const PlanBuffer **alive; // buffers that are live at the peak, largest first
} Timeline;

// A round is one iteration of a `for` of the model. The names of its values begin with the loop and
// a number: layer.3.attention.q is in round 3 of the loop `layer`. Rounds look alike if their
// values have equal shardings and collectives.

// A box of the drawing of values: one named value.
typedef struct GraphBox {
  const char *name; // full name of the value
  const char *rest; // name without "layer.3.", such as "attention.q"; the full name outside loops
  int value;        // index into ExplainedValues
  int round;        // index into ValueGraph.round; -1: outside loops
  uint32_t rank;    // above the ranks of all boxes that it is computed from
} GraphBox;
typedef struct GraphEdge {
  uint32_t from, to; // indices of boxes
} GraphEdge;
// A round: `name` is "layer.3" and `loop` is "layer".
typedef struct GraphRound {
  const char *name, *loop;
  uint32_t alike; // index of the first round that looks like it
} GraphRound;
// A collective, shown at the box of the value that it moves.
typedef struct GraphMove {
  uint32_t row;      // index into Ledger.row
  uint32_t from, to; // boxes of the value and of its reader; equal if the reader has no box
} GraphMove;
// The graph of named values. An edge leads from a value to one that is computed from it. Values
// without a name are not shown: they are part of the edges.
typedef struct ValueGraph {
  uint32_t nboxes, nedges, nrounds, nmoves;
  GraphBox *box;
  GraphEdge *edge;
  GraphRound *round;
  GraphMove *move;
} ValueGraph;

typedef struct Explain {
  const Session *session;
  const Compilation *made;
  const char *purpose;
  Ledger *ledger;
  ExplainedValues *values;
  Timeline memory;
  const Simulation *step; // the predicted times
} Explain;

// Collects the facts of c, which must be compiled up to the program. Allocates from the session's
// arena.
Explain *explain_new(Session *s, const Compilation *c, const char *purpose);
// -- explain_graph.c
// Returns the graph of named values with their rounds and collectives, in the arena `a`.
ValueGraph *value_graph(Arena *a, const Explain *e);
// Returns the length of the round in a name: that of "layer.3" for "layer.3.attention.q", 0 outside
// loops. *loop gets the length of the loop's name, "layer".
size_t round_prefix(const char *name, size_t *loop);
// Returns the colour of a value, below STATE_COLOURS: 0 if it is replicated, else a number for the
// set of axes that split it.
enum { STATE_COLOURS = 8 };
int state_colour(const Explain *e, const ExplainedValue *v);
extern const char *const state_colours[]; // by state_colour; for light backgrounds
// -- explain_json.c
// Returns all facts as a new JSON object, which takes the list `collectives` (collectives_json).
// `value` is the index in e->values of the value that the user asked for, or -1.
json_t *explain_json(const Explain *e, json_t *collectives, int value);
// -- explain_dot.c, explain_html.c
void explain_dot(FILE *f, const Explain *e);
// Writes the whole page of `explain`.
void explain_page(FILE *f, const Explain *e);
void html_graph(FILE *f, const Explain *e);   // explain_svg.c: the graph of values
void html_kernels(FILE *f, const Explain *e); // explain_kernels.c: the kernels of the step
// Writes parts of a page for the report of a training: the mesh with the blocks of a chosen value,
// the ledger, the rules and the memory. Call it between html_head and html_end; html_script must
// follow it.
void html_explained(FILE *f, const Explain *e);

// -- html.c -------------------------------------------------------------------------------------
void html_text(FILE *f, const char *text); // writes text with HTML escapes
// Writes `text` with HTML escapes between two pieces of HTML, such as "<td>" and "</td>".
void html_in(FILE *f, const char *before, const char *text, const char *after);
// Writes a cell with the number `text`, by which the table is sorted as `sort`.
void html_number(FILE *f, double sort, const char *text);
// Begins a table with attributes (" class=..." or "") and the heads of its columns, separated by
// "|". html_table_end ends it.
void html_table(FILE *f, const char *attributes, const char *heads);
void html_table_end(FILE *f);
// Write the start of a page, with title and styles, and its end.
void html_head(FILE *f, const char *title);
void html_end(FILE *f);
extern const char html_script[]; // explain_script.c

#endif

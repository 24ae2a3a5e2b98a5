// The facts that `explain` shows of one compiled step, in one structure, and the functions that
// write them as text, JSON, DOT or a page.
#ifndef FRONTEND_EXPLAIN_H
#define FRONTEND_EXPLAIN_H

#include "frontend/driver/memory_peak.h"
#include "frontend/report/what_if.h"
#include "partition/explain/ledger.h"

// A round is one iteration of a `for` of the model. The names of its values begin with the loop and
// a number: layer.3.attention.q is in round 3 of the loop `layer`. Rounds look alike if their
// values have equal shardings and collectives.

// A box in the drawing of a model's values: one named value.
typedef struct GraphBox {
  const char *name; // full name of the value
  const char *rest; // name without "layer.3.", such as "attention.q"; the full name outside loops
  int value;        // index into ExplainedValues.at
  int round;        // index into ValueGraph.round; -1: outside loops
  uint32_t rank;    // row of the drawing, from the top; below all boxes that lead to this one
} GraphBox;
typedef struct GraphEdge {
  uint32_t from, to; // indices into ValueGraph.box
} GraphEdge;
// A round (one iteration of a loop): `name` is "layer.3" and `loop` is "layer", for example.
typedef struct GraphRound {
  const char *name, *loop;
  uint32_t alike; // index into ValueGraph.round of the first round that looks like this one
} GraphRound;
// A collective of the ledger, with the boxes between which the drawing shows the collective.
typedef struct GraphMove {
  uint32_t row;      // index into Ledger.row
  uint32_t from, to; // boxes of the value and of its reader; equal if the reader has none
} GraphMove;
// The drawing of the named values, which are its boxes. An edge leads from a value to one that is
// computed from it, either directly or only through values without a name.
typedef struct ValueGraph {
  uint32_t nboxes, nedges, nrounds, nmoves;
  GraphBox *box;
  GraphEdge *edge;
  GraphRound *round;
  GraphMove *move;
} ValueGraph;

typedef struct Comparison Comparison; // frontend/report/compare.h

typedef struct Explain {
  const Session *session;
  const Compilation *made;
  const char *purpose;
  Ledger *ledger;
  ExplainedValues *values;
  Timeline memory;
  const Simulation *step; // the predicted times
  const WhatIfs *what_if;
  const char *sync;          // what replicas send between steps (sync_text), or NULL
  const char *pattern;       // the name with stars that the user asked for, or NULL
  const Comparison *against; // the comparison with the step of --against, or NULL
} Explain;

// Returns the facts that `explain` shows of compilation c of the selected graph, which must be
// compiled up to the program, with what-ifs as `ask` says. The result lives in the session's arena.
// Returns NULL after an error.
Explain *explain_new(Session *s, const Compilation *c, const Selected *of, WhatIfAsk ask);
// -- explain_memory.c
// Returns lines about the values at the peak of memory and what a budget costs; NULL: there are
// none.
const char *explain_memory_text(Arena *a, const Explain *e);
// Returns the memory over the step as a new JSON object.
json_t *explain_memory_json(const Explain *e);
// -- explain_graph.c
// Returns the graph of named values with the rounds (iterations) of its loops and its collectives,
// in the arena `a`.
ValueGraph *value_graph(Arena *a, const Explain *e);
enum { STATE_COLOURS = 8 }; // number of colours for shardings
// Returns the index of the value's colour in state_colours. The index is 0 if the value is
// replicated, else it stands for the set of axes that split the value.
int state_colour(const Explain *e, const ExplainedValue *v);
extern const char *const state_colours[]; // CSS colours for light backgrounds
// -- explain_json.c
// Returns all facts that `explain` shows as a new JSON object, which takes over the list
// `collectives` (collectives_json). `value` is the index in e->values of the value that the user
// asked for, or -1 for none.
json_t *explain_json(const Explain *e, json_t *collectives, int value);
// Returns a new JSON object with the file, line and column of a place, or null if `pos` is none.
json_t *place_json(const Explain *e, Pos pos);
// -- explain_what_if.c
// Each returns a new JSON value: the figures of the step under a changed layout, or null if it is
// not valid; the list of the pins of the model; the list of changed layouts that were compiled.
json_t *what_if_json(const Explain *e, const WhatIf *x);
json_t *pins_json(const Explain *e);
json_t *tried_json(const Explain *e);
// Writes the layout rules and pins with the step without them, and the changed layouts.
void html_what_ifs(FILE *f, const Explain *e);
// -- explain_alike.c
// Writes what processors do alike, and which are idle.
void html_alike(FILE *f, const Explain *e);
// Each returns a new JSON list: the dims with fewer blocks than processors; what processors compute
// or keep alike, with amounts under the key `unit`.
json_t *idle_json(const Explain *e);
json_t *alike_json(const Explain *e, const AlikeList *list, const char *unit);
// -- explain_dot.c, explain_html.c
// Writes the graph of named values in DOT, the language of Graphviz.
void explain_dot(FILE *f, const Explain *e);
// Writes the whole HTML page that `explain` makes.
void explain_page(FILE *f, const Explain *e);
void html_graph(FILE *f, const Explain *e);   // explain_svg.c: writes the graph of values
void html_kernels(FILE *f, const Explain *e); // explain_kernels.c: writes the kernels of the step
// Writes the parts of a page that describe a step, and the scripts of the page: the mesh with the
// blocks of a chosen value, the graphs of values and kernels, the ledger, the rules, the times, the
// memory and the values. Call it between html_head and html_end.
void html_explained(FILE *f, const Explain *e);

// -- html.c -------------------------------------------------------------------------------------
void html_text(FILE *f, const char *text); // writes text with HTML escapes
// Writes `text` with HTML escapes between two pieces of HTML, such as "<td>" and "</td>".
void html_in(FILE *f, const char *before, const char *text, const char *after);
// Writes a table cell that shows `text`. When the user sorts the table, the script of the page uses
// the number `sort` for this cell.
void html_number(FILE *f, double sort, const char *text);
// Begins a table with the HTML attributes `attributes` (" class=..." or ""). `heads` has the heads
// of its columns, separated by "|". html_table_end ends the table.
void html_table(FILE *f, const char *attributes, const char *heads);
void html_table_end(FILE *f);
// Writes the start of an HTML page, with title and styles.
void html_head(FILE *f, const char *title);
void html_end(FILE *f);          // writes the end of a page
extern const char html_script[]; // explain_script.c: the script of the page of `explain`

#endif

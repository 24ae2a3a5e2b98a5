// `explain`: what one compile is about to do, in one structure, and its forms: text, JSON, dot, a
// page.
#ifndef FRONTEND_EXPLAIN_H
#define FRONTEND_EXPLAIN_H

#include "frontend/driver/session.h"
#include "partition/explain/ledger.h"

// What lives in the work arena of a processor while the step runs.
typedef struct Timeline {
  uint32_t n;         // instructions
  int64_t *live;      // bytes at each
  uint32_t peak;      // where they are most, the first such
  int64_t persistent; // parameters, states, optimizer, constants: always there
  uint32_t nalive;
  const PlanBuffer **alive; // at the peak, largest first
} Timeline;

// A value in the drawing: a box. Boxes of one round of a loop are of one scope.
typedef struct GraphBox {
  const char *name; // in full
  const char *rest; // without its round: "attention.q"; the name itself outside loops
  int value;        // index into values
  int round;        // index into rounds, -1: outside
  uint32_t rank;
} GraphBox;
typedef struct GraphEdge {
  uint32_t from, to; // boxes
} GraphEdge;
// A round of a loop: "layer.3" of the loop "layer".
typedef struct GraphRound {
  const char *name, *loop;
  uint32_t alike; // index of the first round that looks the same
} GraphRound;
// A collective at the box of the value that moves.
typedef struct GraphMove {
  uint32_t row;      // of the ledger
  uint32_t from, to; // boxes; equal: within the value's own line
} GraphMove;
// Values and what they are made of; what has no name is part of the edges.
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
  const Simulation *step; // what it is predicted to take
} Explain;

// c is compiled up to the program.
Explain *explain_new(Session *s, const Compilation *c, const char *purpose);
// -- explain_graph.c
ValueGraph *value_graph(Arena *a, const Explain *e);
// "layer.3" of "layer.3.attention.q": its length, 0 outside of loops; *loop gets that of "layer".
size_t round_prefix(const char *name, size_t *loop);
// The class of a value's colour: 0: replicated, else a number for the set of axes that split it,
// below STATE_COLOURS.
enum { STATE_COLOURS = 8 };
int state_colour(const Explain *e, const ExplainedValue *v);
extern const char *const state_colours[]; // for light pages
// -- explain_json.c: everything; `value`: of a NAME, -1 without
json_t *explain_json(const Explain *e, json_t *collectives, int value);
// -- explain_dot.c, explain_html.c
void explain_dot(FILE *f, const Explain *e);
void explain_page(FILE *f, const Explain *e);
void html_graph(FILE *f, const Explain *e);   // explain_svg.c: the graph of values
void html_kernels(FILE *f, const Explain *e); // explain_kernels.c: the kernels of the step
// Parts of a page, for the report of a training: the mesh with the blocks of a chosen value,
// ledger, rules, memory; between html_head and html_end, and behind them html_script.
void html_explained(FILE *f, const Explain *e);

// -- html.c -------------------------------------------------------------------------------------
void html_text(FILE *f, const char *text); // escaped
void html_head(FILE *f, const char *title);
void html_end(FILE *f);
extern const char html_script[]; // explain_script.c

#endif

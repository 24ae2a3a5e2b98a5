// The what-ifs of `explain`: the cost of the step without each layout rule and each layout(...) of
// the model, and with layouts that differ in a rule or two. Input: the selected graph, and the
// compile that is explained. Output: WhatIfs. All costs are those of compiled programs
// (frontend/driver/foresee.h); estimates only choose which layouts are compiled.
#ifndef FRONTEND_WHAT_IF_H
#define FRONTEND_WHAT_IF_H

#include "frontend/driver/foresee.h"
#include "frontend/driver/moves.h"
#include "partition/explain/ledger.h"

// The step under a changed layout.
typedef struct WhatIf {
  const char *kind; // "without", "fewer", "add", "replace", "exchange", "both"
  const char *text; // the change: "+ heads -> cols", "b -> rows" of a rule that is left out
  bool known;       // false: the changed layout is not valid, and `step` is not filled
  Foreseen step;
} WhatIf;

// A layout(...) of the model, by its place. In a function that is called several times, and in a
// loop, it pins several values.
typedef struct PinPlace {
  Pos pos;
  Axes axes;        // the axes that it names
  const char *text; // "layout(...) at line 6"
} PinPlace;

typedef enum WhatIfDepth {
  WHAT_IF_NONE,  // none, for a form that does not show them
  WHAT_IF_RULES, // leave out each layout rule
  WHAT_IF_PINS,  // also each layout(...); the graph must be that of session_select
  WHAT_IF_BEST,  // also compile the changed layouts that look best by estimate
  WHAT_IF_ALL,   // compile many more of them
} WhatIfDepth;

typedef struct WhatIfAsk {
  WhatIfDepth depth;
  bool budget; // also compile the step once more under another memory budget
} WhatIfAsk;

// A memory budget under which the same step was compiled once more, to say what it costs: half of
// its work memory or, if it has been rematerialised to fit a budget, none. It is not tried for
// programs without a backward pass and for those of very many operations.
typedef struct BudgetTrial {
  bool tried;
  int64_t budget; // 0: none, while the step has the budget of --memory
  int64_t peak;   // bytes of a processor under it
  double seconds; // predicted time of a step
} BudgetTrial;

typedef struct WhatIfs {
  Foreseen now;            // the explained step itself
  const Graph *simplified; // its graph after stage "simplify", or NULL
  uint32_t nrules;         // number of layout rules
  uint32_t npins;          // number of places with layout(...)
  PinPlace *pin;           // in the order of the model
  WhatIf *without; // nrules + npins entries: without each rule, then without each layout(...)
  uint32_t nidle;  // number of dims with fewer blocks than processors
  IdleBlocks *idle;
  WhatIf *fewer;      // for each of them: the step with as many processors as it has blocks
  uint32_t ntried;    // number of changed layouts that were compiled
  WhatIf *tried;      // the fastest first
  uint32_t estimated; // number of changed layouts whose cost was estimated
  BudgetTrial budget;
} WhatIfs;
// Returns the what-ifs of the step that `made` is the compile of, in the session's arena. `of` is
// the graph that was compiled. They are compiled at the same time, on as many threads as there are
// cores (or as --threads says), but fewer for very large graphs, whose compiles take much
// memory. The result is the same for any number of threads. Returns NULL after an error.
WhatIfs *what_ifs(Session *s, const Selected *of, const Compilation *made, WhatIfAsk ask);

// Returns the step without several causes: bit i of `causes` for rule i of the layout, and the bits
// after those of the rules for the layout(...) of w->pin.
WhatIf what_if_without_several(Session *s, const Selected *of, WhatIfs *w, uint64_t causes);

// Returns whether the changed step is slower or needs more memory than the step itself. Then the
// change is not advised.
bool what_if_worse(const Foreseen *now, const Foreseen *step);
// Returns whether the changed step is faster or needs less memory, and is not worse.
bool what_if_helps(const Foreseen *now, const Foreseen *step);
// Returns whether all figures of both steps are equal.
bool what_if_equal(const Foreseen *now, const Foreseen *step);

// -- what_if_text.c: costs as text, in arena `a` --------------------------------------------------
// Returns the step without a rule: "1 call, 64 B, step 17.7 ms (-3.43 ms), 0 B over hosts, flops
// x2.00, peak -1.2 MiB; not advised". What does not change is left out.
const char *what_if_without_text(Arena *a, const WhatIfs *w, const WhatIf *x);
// Returns what leaving out a rule does to time and memory: "not advised, step +3.43 ms, peak +12
// B", or NULL if nothing is known.
const char *what_if_advice(Arena *a, const WhatIfs *w, const WhatIf *x);
// Returns the cost of a changed layout: "step 0.452 ms (-0.897 ms), flops /3.91, +32.0 KiB sent".
const char *what_if_change_text(Arena *a, const WhatIfs *w, const WhatIf *x);
// Returns the lines about dims with fewer blocks than processors: "idle: 2 of 8 along p (b is 12 in
// blocks of 2); p = 6 takes 7.590 ms against 7.618 ms".
const char *what_if_idle_lines(Arena *a, const WhatIfs *w);
// Returns the lines of the text of `explain` about changed layouts that were compiled: those that
// help, or with `all` every one.
const char *what_if_lines(Arena *a, const WhatIfs *w, bool all);

#endif

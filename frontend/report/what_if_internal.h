// What the files of the what-ifs share (what_if.h). A what-if is a question, and each question is
// compiled in a job of its own (ir/base/jobs.h).
//
//   what_if.c         lists the questions, and answers them
//   what_if_moves.c   the questions about changed layouts
//   what_if_budget.c  the question what a memory budget costs
//
// While the jobs run nobody changes the session, its model and the compiled step: each job has a
// copy of what it changes, in an arena of its own. Afterwards the session's arena gets these
// arenas.
#ifndef FRONTEND_WHAT_IF_INTERNAL_H
#define FRONTEND_WHAT_IF_INTERNAL_H

#include <stdatomic.h>

#include "frontend/report/what_if.h"
#include "ir/base/jobs.h"

// What all questions about a step share.
typedef struct Asker {
  Session *s;
  const Compilation *made; // the step
  const Selected *of;
  Selected simple; // the same, but its graph has passed stage "simplify", which no layout changes
  WhatIfs *w;
  Jobs *jobs;
  VEC(Arena *) memory; // of the jobs
} Asker;

// Two moves that add a rule each, and that make the step faster only together, by estimate.
typedef struct Pair {
  const Move *x, *y;
  Move both;
  double seconds;
  struct Question *alone[2]; // about x and y
  struct Question *together; // asked if neither x nor y helps alone
  atomic_int left;           // number of answers to `alone` that are to come
} Pair;

// What would the step cost under this mesh and layout, without some layout(...)?
typedef struct Question {
  Asker *k;
  Arena *arena; // for the answer
  Job job;
  const Mesh *mesh;
  Layout layout;
  uint32_t npins;
  const Pos *pin; // places of the layout(...) that are left out
  WhatIf *x;      // gets the answer
  Pair *pair;     // the pair for whose sake it is asked, or NULL
} Question;

// -- what_if.c
// Returns an arena for a job. To be called before the jobs run.
Arena *what_if_arena(Asker *k);
// Returns the session for a job (session_of_job).
Session what_if_session(const Session *s, Arena *a);
// Adds a question with an arena to the jobs.
void what_if_ask(Question *q);

// -- what_if_moves.c
// The job that estimates changed layouts and asks about the best ones.
typedef struct MovesJob {
  Asker *k;
  Arena *arena;
  Job job;
  Session quiet; // what the task refers to: the session with messages that are not shown
  SearchTask task;
  WhatIfDepth depth;
  uint32_t most; // number of changed layouts to compile at most, beside those of a pair
  uint32_t n;    // number of questions that were asked
  Question *question;
} MovesJob;
// Adds the job. Returns NULL if nothing can be estimated.
MovesJob *what_if_moves(Asker *k, WhatIfDepth depth);
// Writes the answers to k->w->tried, the fastest first.
void what_if_tried(Asker *k, const MovesJob *m);

// -- what_if_budget.c
// The job that compiles the step under a memory budget.
typedef struct BudgetJob {
  Asker *k;
  Arena *arena;
  Job job;
  bool good;
} BudgetJob;
// Adds the job. Returns NULL if no budget is tried.
BudgetJob *what_if_budget(Asker *k);
// Returns false if there was an error, which is now among the messages of the session.
MUST_USE bool what_if_budget_good(BudgetJob *b);

#endif

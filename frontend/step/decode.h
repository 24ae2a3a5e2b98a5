// The decoding form of a causal language model: from the training form, which computes the logits
// of all positions at once, the graph that computes the next positions from kept values of the
// earlier ones. Input: a Model. Output: a graph like those of the select functions.
//
//   keys[t]                 of the positions of this run only; all keys so far are a state
//   rename[t -> s](keys)    that state, with the new rows written at the position of the run
//   index[t]                index + position, a scalar input
//   scan t (h)              the loop over the new positions; h is a state between runs
//   logits[t]               of the last new position only
#ifndef FRONTEND_STEP_DECODE_H
#define FRONTEND_STEP_DECODE_H

#include "frontend/frontend.h"
#include "ir/program/decode_state.h"

// The parts of a language model. Names and sizes are those of the model file.
typedef struct LanguageModel {
  const char *logits; // for messages: the name of the value
  NodeId value;       // the node of the logits in the model's graph
  DeclId ids;         // the input of ids, over time and perhaps over rows
  DimId rows, time;   // dims of the ids; rows: 0 if they have one dim
  DimId vocab;        // the other dim of the logits
} LanguageModel;
// Finds the parts of the model. `logits` names the value of --logits; NULL: it is the first
// argument of the cross entropy in the loss, else the last output or value with the dims of the ids
// and one more. Returns false after an error.
MUST_USE bool language_model_find(const Model *m, const char *logits, Pos at, LanguageModel *out);

typedef struct DecodeAsk {
  int64_t positions; // how many positions a run computes
  int64_t context;   // how many positions states keep; at most the size of the time dim
  // the runs have up to `positions` valid positions: the input DECODE_COUNT says how many
  bool partly;
  bool narrow; // parameters are kept in the type in which products read them (decode_narrow.c)
} DecodeAsk;
typedef struct DecodeFacts {
  // the graph has states with a row for each position, or reads a parameter by position: no more
  // than DecodeAsk.context positions can be computed
  bool bounded;
  uint32_t nstates; // number of states that keep values of earlier positions
  uint32_t nkept;
  const DecodeKept *kept; // those with a row for each position
  // of a run of one position: the dim of positions of these states, if positions behind that of the
  // run can be left out of it (decode_growing.c); else NULL
  const char *growing;
} DecodeFacts;
// Returns the graph of a decoding run, whose inputs and output are those of
// ir/program/decode_state.h. Graphs of one model must all be made before one is compiled. Returns
// NULL after an error, such as a value that looks ahead.
Graph *select_decode(Arena *a, const Model *m, const LanguageModel *lm, const DecodeAsk *ask,
                     DecodeFacts *out);

#endif

// Takes programs from the compile cache, and keeps them there (codegen/cpu/program_cache.c).
#ifndef FRONTEND_PROGRAM_REUSE_H
#define FRONTEND_PROGRAM_REUSE_H

#include "frontend/driver/session.h"
#include "ir/program/pack.h"

// A compile whose program may be in the cache.
typedef struct ProgramReuse {
  bool usable; // false: the command reads more than the program, or there is no cache
  ProgramKey key;
} ProgramReuse;

// Returns the key of the program that pipeline_run makes of g for a command that will run it.
ProgramReuse program_reuse(const Session *s, const Graph *g, const PipelineOptions *opt);
// Fills *out with a program from the cache: of a Compilation only `selected`, `code`, `predicted`
// and the program of `compiled` are set. Returns false if there is none, or if the session has not
// the memory for it: then messages need the results of all passes.
MUST_USE bool program_reused(Session *s, const Graph *g, const PipelineOptions *opt,
                             const ProgramReuse *r, Compilation *out);
// Keeps the program of c, and sets c->predicted.
void program_reuse_later(Session *s, const PipelineOptions *opt, const ProgramReuse *r,
                         Compilation *c);

// The record of all that a compile reads, for the unit test of tables (tests/unit/ir_pack.c).
extern const PackRecord pack_of_question;

#endif

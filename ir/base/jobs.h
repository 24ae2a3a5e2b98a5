// Independent pieces of work that run on several threads. The library uses it, too: threads live
// only while jobs_run runs.
#ifndef IR_JOBS_H
#define IR_JOBS_H

#include "ir/base/arena.h"
#include "ir/base/guard.h"

// A piece of work. It is memory of the caller, and belongs to the jobs until jobs_run has ended.
typedef struct Job {
  GuardedWork *work;
  void *context;
  struct Job *next;
} Job;
typedef struct Jobs Jobs;

// Returns an empty list of jobs, in arena `a`, that run on at most `threads` threads, of which one
// is the caller of jobs_run.
Jobs *jobs_new(Arena *a, int threads);
// Adds a job. Thread rule: a job that runs may add others, from its thread.
void jobs_add(Jobs *jobs, Job *job);
// Runs all jobs, and returns when they have ended. They begin in the order in which they were
// added. With one thread each runs alone, in the caller; if the system starts no more threads,
// fewer run the jobs. The jobs may not share anything that one of them writes to without a lock:
// in particular each needs an arena, which the caller makes so that a failure frees it
// (ir/base/guard.h). After the failure of a job no other begins, and it is raised in the caller.
void jobs_run(Jobs *jobs);

#endif

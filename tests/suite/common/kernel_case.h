// Hand-made kernels, run as machine code and by the plain interpreter (kernel_interp.h) on the same
// memory.
#ifndef TESTS_SUITE_COMMON_KERNEL_CASE_H
#define TESTS_SUITE_COMMON_KERNEL_CASE_H

#include "tests/suite/common/kernel_interp.h"

enum { MAX_P = 8, MAX_S = MAX_INTERP_STMTS, MAX_SLOT = 8, MAX_NUM = 8, GUARD = 64, RANK_LIMIT = 3 };

typedef struct Case {
  char name[96];
  Kernel k;
  KPtr ptr[MAX_P], walk[MAX_P];
  int64_t size[MAX_P]; // elements, where loads with guards make that less than pointers run over
  KStmt stmt[MAX_S];
  int64_t slot[MAX_SLOT];
  double num[MAX_NUM];
  double tol; // relative, on top of what the type rounds
  int data;   // how to fill memory, see fill()
  int chunks; // how many to cut the units into
} Case;

enum { DATA_REAL, DATA_POSITIVE, DATA_SPECIAL, DATA_SMALL, DATA_WILD, DATA_INDEX };

uint64_t case_random(void);
int case_below(int n);

// A new case among those that cases_run runs, without loops.
Case *case_new(const char *fmt, ...) PRINTF_LIKE(1, 2);
// A loop of `size`, its extent in a slot when valid < size.
void case_loop(Case *c, bool outer, int64_t size, int64_t valid);
// A pointer, a walk; strides of the first n loops.
int case_pointer(Case *c, Dtype t, bool written, int n, const int64_t *stride);
int case_walk(Case *c, int64_t offset, int n, const int64_t *stride);
#define STRIDES(...)                                                                               \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

int case_stmt(Case *c, KKind kind, Op op, Dtype t, KLevel level, int phase, int a, int b, int d,
              int index);
int case_load(Case *c, int p, KLevel level, int phase);
int case_op1(Case *c, Op op, Dtype t, KLevel level, int phase, int a);
int case_op2(Case *c, Op op, Dtype t, KLevel level, int phase, int a, int b);
int case_reduce(Case *c, Op op, Dtype t, int phase, int a);
void case_store(Case *c, int p, KLevel level, int phase, int a);
void case_accum(Case *c, Op op, Dtype t, int p, KLevel level, int phase, int a);

// Runs all cases at every vector width, or the one that argv[1] names, and prints the line of
// totals; the exit code. case_seed: where random numbers start.
int cases_run(int argc, char **argv);
extern uint64_t case_seed;

#endif

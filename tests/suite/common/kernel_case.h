// Hand-made kernels. Each is run as machine code and by the plain interpreter (kernel_interp.h) on
// the same memory, and the results are compared.
#ifndef TESTS_SUITE_COMMON_KERNEL_CASE_H
#define TESTS_SUITE_COMMON_KERNEL_CASE_H

#include "ir/program/program.h"
#include "tests/suite/common/kernel_interp.h"

enum { MAX_P = 8, MAX_S = MAX_INTERP_STMTS, MAX_SLOT = 8, MAX_NUM = 8, GUARD = 64, RANK_LIMIT = 3 };

typedef struct Case {
  char name[96];
  Kernel k;
  KPtr ptr[MAX_P], walk[MAX_P];
  int64_t size[MAX_P]; // elements of each pointer; a load with a guard may have fewer than its
                       // loops cover
  KStmt stmt[MAX_S];
  int64_t slot[MAX_SLOT];
  double num[MAX_NUM];
  double tol; // relative tolerance, added to the rounding of the type
  int data;   // how memory is filled, see fill()
  int chunks; // into how many chunks the units are cut
} Case;

enum { DATA_REAL, DATA_POSITIVE, DATA_SPECIAL, DATA_SMALL, DATA_WILD, DATA_INDEX };

uint64_t case_random(void);
int case_below(int n);

// Returns a new case, without loops, which cases_run will run.
Case *case_new(const char *fmt, ...) PRINTF_LIKE(1, 2);
// Adds a loop of `size`; its extent is in a slot when valid < size.
void case_loop(Case *c, bool outer, int64_t size, int64_t valid);
// Adds a pointer with the strides of the first n loops. Returns its number.
int case_pointer(Case *c, Dtype t, bool written, int n, const int64_t *stride);
int case_walk(Case *c, int64_t offset, int n, const int64_t *stride);
#define STRIDES(...)                                                                               \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

int case_stmt(Case *c, KKind kind, Op op, Dtype t, KLevel level, int phase, int a, int b, int d,
              int index);
int case_load(Case *c, int p, KLevel level, int phase);
// Adds a load in the inner loops, cast to type t if pointer p has another one.
int case_load_as(Case *c, int p, Dtype t, int phase);
int case_op1(Case *c, Op op, Dtype t, KLevel level, int phase, int a);
int case_op2(Case *c, Op op, Dtype t, KLevel level, int phase, int a, int b);
int case_reduce(Case *c, Op op, Dtype t, int phase, int a);
void case_store(Case *c, int p, KLevel level, int phase, int a);
void case_accum(Case *c, Op op, Dtype t, int p, KLevel level, int phase, int a);

// -- kernel_cases.c, window_cases.c, tile_cases.c, scatter_cases.c, row_cases.c, column_cases.c: the
// cases
void kernel_cases_add(int randoms); // with so many random kernels
void window_cases_add(void);
void tile_cases_add(void);    // products of matrices
void scatter_cases_add(void); // kernels that only scatter
void row_cases_add(void);     // few rows of many elements
void column_cases_add(void);  // few columns of many elements

// Runs all cases, or the one that argv[1] names, at every vector width. Prints the line of totals
// and returns the exit code. case_seed: start of the random numbers.
int cases_run(int argc, char **argv);
extern uint64_t case_seed;

// -- other ways to run the cases
// Stores the array of all cases in *out and returns their number. Prints and returns -1 if one of
// them is no valid kernel.
int cases_all(Case **out);
int64_t case_units(const Case *c);
// The arguments of one run of case number `i`: mem[p] is the memory of pointer p.
typedef struct CaseRun {
  const Case *c;
  int i;
  char **mem;
  const int64_t *elements; // of each pointer
  Status status;           // the result
  void *context;
} CaseRun;
typedef struct CaseWay {
  void (*run)(CaseRun *r);
  void *context;
  bool good; // set by case_check: whether the results are those of the interpreter
} CaseWay;
// Runs case i in each of the ways, and by the interpreter. Prints what differs. Returns whether all
// are good.
bool case_check(int i, int nways, CaseWay *way);
// Returns a program of all cases, and its kernels in *kernels.
Program *cases_program(Arena *a, Kernel ***kernels);

#endif

// Prints kernels and checks their invariants. The text of a kernel without names is its identity.
//
//   kernel k1a2b outer(b:64) inner(c:10 vector) phases 3  # softmax rows
//     p0 f32 [10 1] read                   pointer, its type and its stride along each loop
//     p1 f32 [10 1] written
//     %0 = load p0 : f32  inner 0          statement, its type, level and phase
//     %1 = reduce max %0 : f32  inner 0
#include "codegen/fuse/kernel.h"
#include "ir/base/stream.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_text[] = {
    [K_NUM] = "num",       [K_LOAD] = "load",         [K_LOAD_AT] = "load_at",
    [K_OP] = "op",         [K_POSITION] = "position", [K_QUOTIENT] = "quotient",
    [K_INSIDE] = "inside", [K_REDUCE] = "reduce",     [K_ACCUM] = "accum",
    [K_STORE] = "store",   [K_SCATTER] = "scatter",   [K_DOT] = "dot",
};
static const char *const level_text[] = {
    [LEVEL_PROLOGUE] = "prologue",
    [LEVEL_OUTER] = "outer",
    [LEVEL_INNER] = "inner",
};

typedef struct KernelPrinter {
  const Kernel *k;
  FILE *file;
  bool named; // print the names of loops and kernel, and the reason (Kernel.why)
} KernelPrinter;

static int loops(const Kernel *k) { return k->nouter + k->ninner; }

static void print_loops(const KernelPrinter *o, const char *what, int first, int n) {
  fprintf(o->file, " %s(", what);
  for (int i = first; i < first + n; i++) {
    const KLoop *l = &o->k->loop[i];
    fprintf(o->file, "%s", i > first ? ", " : "");
    if (o->named) fprintf(o->file, "%s:", l->name);
    if (l->size) fprintf(o->file, "%lld", (long long)l->size);
    if (l->slot >= 0) fprintf(o->file, "%ss%d", l->size ? " up to " : "", l->slot);
    for (int j = 0; j < l->nparts; j++)
      fprintf(o->file, "%s%lld", j ? "*" : " = ", (long long)l->part[j]);
    if (i == o->k->vector) fprintf(o->file, " vector");
    if (i == o->k->vector && i < o->k->nouter)
      fprintf(o->file, " block %lld", (long long)o->k->block);
    if (i == o->k->rows) fprintf(o->file, " rows");
  }
  fprintf(o->file, ")");
}

static void print_walk(const KernelPrinter *o, const KPtr *ptr) {
  fprintf(o->file, "[");
  for (int i = 0; i < loops(o->k) + o->k->ndots; i++)
    fprintf(o->file, "%s%lld", i ? " " : "", (long long)ptr->stride[i]);
  fprintf(o->file, "]");
  if (ptr->offset) fprintf(o->file, " from %lld", (long long)ptr->offset);
  for (int i = 0; i < ptr->nbases; i++)
    fprintf(o->file, " from s%d*%lld", ptr->base[i].slot, (long long)ptr->base[i].stride);
}

static void print_pointer(const KernelPrinter *o, int p) {
  const KPtr *ptr = &o->k->ptr[p];
  fprintf(o->file, "  p%d %s ", p, dtype_text(ptr->type));
  print_walk(o, ptr);
  fprintf(o->file, " %s\n", ptr->streamed ? "streamed" : ptr->written ? "written" : "read");
}

static bool is_guarded(KKind kind) {
  return kind == K_LOAD || kind == K_LOAD_AT || kind == K_INSIDE;
}
static bool has_pointer(KKind kind) {
  return kind == K_LOAD || kind == K_LOAD_AT || kind == K_ACCUM || kind == K_STORE ||
         kind == K_SCATTER || kind == K_DOT;
}

static void print_stmt(const KernelPrinter *o, int i) {
  const KStmt *s = &o->k->stmt[i];
  const char *op = op_row(s->op)->text;
  fprintf(o->file, "  %%%d = %s", i, s->kind == K_OP ? op : kind_text[s->kind]);
  if (s->kind == K_REDUCE || s->kind == K_ACCUM || s->kind == K_SCATTER)
    fprintf(o->file, " %s", op);
  if (has_pointer(s->kind))
    fprintf(o->file, " p%d", s->index);
  else if (s->kind == K_POSITION)
    fprintf(o->file, " w%d", s->index);
  else if (s->index >= 0)
    fprintf(o->file, " #%d", s->index);
  if (s->kind == K_DOT) fprintf(o->file, " p%d", s->other);
  for (int j = 0; j < 3; j++)
    if (s->arg[j] != NO_STMT)
      fprintf(o->file, " %s%%%d", j == 1 && is_guarded(s->kind) ? "if " : "", s->arg[j]);
  if (s->step) fprintf(o->file, " step %lld", (long long)s->step);
  if (s->slot >= 0) fprintf(o->file, " s%d", s->slot);
  fprintf(o->file, " : %s  %s %d\n", dtype_text(s->type), level_text[s->level], s->phase);
}

static char *print(Arena *a, const Kernel *k, bool named) {
  TextStream text;
  stream_begin(&text);
  KernelPrinter o = {.k = k, .named = named, .file = text.file};
  fprintf(o.file, "kernel");
  if (named && k->name) fprintf(o.file, " %s", k->name);
  print_loops(&o, "outer", 0, k->nouter);
  print_loops(&o, "inner", k->nouter, k->ninner);
  if (k->ndots) print_loops(&o, "dots", loops(k), k->ndots);
  if (k->images) fprintf(o.file, " images");
  fprintf(o.file, " phases %d slots %d numbers %d", k->nphases, k->nslots, k->nnum);
  if (named && k->why) fprintf(o.file, "  # %s", k->why);
  fprintf(o.file, "\n");
  for (int p = 0; p < k->nptr; p++) print_pointer(&o, p);
  for (int w = 0; w < k->nwalks; w++) {
    fprintf(o.file, "  w%d ", w);
    print_walk(&o, &k->walk[w]);
    fprintf(o.file, "\n");
  }
  for (int i = 0; i < k->nstmts; i++) print_stmt(&o, i);
  return stream_end(&text, a);
}

char *kernel_print(Arena *a, const Kernel *k) { return print(a, k, true); }
char *kernel_identity(Arena *a, const Kernel *k) { return print(a, k, false); }

KNumber number_known(double x, Dtype type) {
  if (x == 0 && !signbit(x)) return NUMBER_ZERO;
  if (!dtype_is_float(type) || !isinf(x)) return NUMBER_ANY;
  return x < 0 ? NUMBER_LEAST : NUMBER_GREATEST;
}

// -- loops around a statement --------------------------------------------------------------------

int kernel_depth(const Kernel *k, KLevel level) {
  return level == LEVEL_PROLOGUE ? 0 : k->nouter + (level == LEVEL_INNER ? k->ninner : 0);
}

static LoopSet moving_loops(const KPtr *p, int loops) {
  LoopSet out = 0;
  for (int l = 0; l < loops; l++)
    if (p->stride[l]) out |= (LoopSet)1 << l;
  return out;
}

LoopSet stmt_loops(const Kernel *k, const LoopSet *of, const KStmt *s) {
  int loops = k->nouter + k->ninner;
  LoopSet out = 0;
  for (int i = 0; i < 3; i++)
    if (s->arg[i] != NO_STMT) out |= of[s->arg[i]];
  if (s->kind == K_LOAD || s->kind == K_LOAD_AT || s->kind == K_STORE || s->kind == K_SCATTER)
    out |= moving_loops(&k->ptr[s->index], loops);
  if (s->kind == K_DOT)
    out |= moving_loops(&k->ptr[s->index], loops) | moving_loops(&k->ptr[s->other], loops);
  if (s->kind == K_POSITION) out |= moving_loops(&k->walk[s->index], loops);
  if (s->kind == K_OP && s->op == OP_INDEX) out |= (LoopSet)1 << s->index;
  // the result of a reduction is equal for all counters of the inner loops
  return s->kind == K_REDUCE ? out & (((LoopSet)1 << k->nouter) - 1) : out;
}

// -- invariants of a kernel --------------------------------------------------------------------

static bool fail(char *why, const char *fmt, ...) PRINTF_LIKE(2, 3);
static bool fail(char *why, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(why, 200, fmt, ap);
  va_end(ap);
  return false;
}

// Returns whether statement `to` can use the result of statement `from`. Statements in the phase of
// `from` can if they have its level or a deeper one. Statements of later phases can unless `from`
// is inside the inner loops. The result of a reduction is available in later phases only. A phase
// is one pass over the inner loops.
static bool usable(const KStmt *from, const KStmt *to) {
  if (from->level == LEVEL_PROLOGUE) return true;
  if (to->level == LEVEL_PROLOGUE) return false;
  if (from->kind == K_REDUCE) return to->phase > from->phase;
  if (from->level == LEVEL_INNER) return to->level == LEVEL_INNER && to->phase == from->phase;
  return to->phase >= from->phase;
}

enum { NONE, NEEDED, EITHER };
static const uint8_t arguments[][3] = {
    [K_NUM] = {NONE},        [K_LOAD] = {NONE, EITHER},      [K_LOAD_AT] = {NEEDED, EITHER},
    [K_OP] = {NONE},         [K_REDUCE] = {NEEDED},          [K_POSITION] = {EITHER, EITHER},
    [K_QUOTIENT] = {NEEDED}, [K_INSIDE] = {NEEDED, EITHER},  [K_ACCUM] = {NEEDED},
    [K_STORE] = {NEEDED},    [K_SCATTER] = {NEEDED, NEEDED}, [K_DOT] = {NONE},
};

static int argument_use(const KStmt *s, int j) {
  if (s->kind != K_OP) return arguments[s->kind][j];
  return j < (op_is_draw(s->op) ? 1 : op_row(s->op)->nargs) ? NEEDED : NONE;
}

static bool verify_args(const Kernel *k, int i, char *why) {
  const KStmt *s = &k->stmt[i];
  for (int j = 0; j < 3; j++) {
    int use = argument_use(s, j);
    if (use == NONE && s->arg[j] != NO_STMT)
      return fail(why, "statement %d has too many arguments", i);
    if (use == NONE || (use == EITHER && s->arg[j] == NO_STMT)) continue;
    if (s->arg[j] < 0 || s->arg[j] >= i)
      return fail(why, "argument %d of statement %d is no earlier one", j, i);
    const KStmt *from = &k->stmt[s->arg[j]];
    if (from->kind == K_STORE || from->kind == K_ACCUM || from->kind == K_SCATTER)
      return fail(why, "statement %d uses statement %d, which has no value", i, s->arg[j]);
    if (!usable(from, s))
      return fail(why, "statement %d uses statement %d, which runs elsewhere", i, s->arg[j]);
  }
  return true;
}

// Checks a K_POSITION. Its walk (an address without memory, kernel.h) may have strides only along
// loops that contain the statement.
static bool verify_walk(const Kernel *k, int i, char *why) {
  const KStmt *s = &k->stmt[i];
  if (s->kind != K_POSITION) return true;
  const KPtr *w = &k->walk[s->index];
  for (int l = 0; l < loops(k); l++)
    if (w->stride[l] && s->level < (l < k->nouter ? LEVEL_OUTER : LEVEL_INNER))
      return fail(why, "position %d moves along a loop that is not open", i);
  return true;
}

static bool moves_along(const Kernel *k, const KPtr *p, int first, int n) {
  for (int i = first; i < first + n && i < loops(k) + k->ndots; i++)
    if (p->stride[i]) return true;
  return false;
}

// Checks a K_DOT, whose second pointer is not checked as KStmt.index.
static bool verify_dot(const Kernel *k, int i, char *why) {
  const KStmt *s = &k->stmt[i];
  if (s->kind != K_DOT) return true;
  if (s->level != LEVEL_INNER) return fail(why, "dot %d is not inside the inner loops", i);
  if (s->other < 0 || s->other >= k->nptr) return fail(why, "dot %d has no second pointer", i);
  if (k->ptr[s->other].written) return fail(why, "dot %d reads a written pointer", i);
  if (s->type != TYPE_F32 && s->type != TYPE_F64) return fail(why, "dot %d has a narrow type", i);
  return true;
}

static bool verify_pointer(const Kernel *k, int i, char *why) {
  const KStmt *s = &k->stmt[i];
  if (!has_pointer(s->kind)) return true;
  if (s->index < 0 || s->index >= k->nptr) return fail(why, "statement %d has no pointer", i);
  const KPtr *p = &k->ptr[s->index];
  bool writes = s->kind != K_LOAD && s->kind != K_LOAD_AT && s->kind != K_DOT;
  if (s->kind != K_DOT && moves_along(k, p, loops(k), k->ndots))
    return fail(why, "statement %d moves along a dot loop", i);
  if (p->written != writes)
    return fail(why, "statement %d %s pointer %d", i, writes ? "writes read-only" : "reads written",
                s->index);
  if (s->level < LEVEL_INNER && moves_along(k, p, k->nouter, k->ninner) && s->kind != K_ACCUM)
    return fail(why, "statement %d of an outer level moves along an inner loop", i);
  if (s->level == LEVEL_PROLOGUE && (writes || moves_along(k, p, 0, k->nouter)))
    return fail(why, "statement %d of the prologue writes or moves", i);
  if (s->kind == K_ACCUM && moves_along(k, p, 0, k->nouter))
    return fail(why, "accumulator %d moves along an outer loop", i);
  return true;
}

static bool verify_stmt(const Kernel *k, int i, char *why) {
  const KStmt *s = &k->stmt[i];
  if (s->phase >= k->nphases) return fail(why, "statement %d is in no phase", i);
  if (s->level == LEVEL_PROLOGUE && s->phase)
    return fail(why, "statement %d of the prologue has a phase", i);
  if (s->kind == K_REDUCE && (s->level != LEVEL_INNER))
    return fail(why, "reduction %d is not inside the inner loops", i);
  bool num = s->kind == K_NUM || (s->kind == K_OP && s->op == OP_BOUND);
  if (num && (s->index < 0 || s->index >= k->nnum))
    return fail(why, "statement %d has no numeric argument", i);
  if (s->kind == K_POSITION && (s->index < 0 || s->index >= k->nwalks))
    return fail(why, "position %d has no walk", i);
  if (s->kind == K_OP && s->op == OP_INDEX && (s->index < 0 || s->index >= loops(k)))
    return fail(why, "index %d has no loop", i);
  if (s->slot >= k->nslots) return fail(why, "statement %d has no slot", i);
  return verify_args(k, i, why) && verify_walk(k, i, why) && verify_pointer(k, i, why) &&
         verify_dot(k, i, why);
}

bool kernel_verify(const Kernel *k, char *why) {
  if (loops(k) + k->ndots > MAX_LOOPS) return fail(why, "%d loops", loops(k) + k->ndots);
  int last_inner = loops(k) - 1, last_outer = k->nouter - 1;
  if (k->vector >= 0 && k->vector != last_outer && k->vector != last_inner)
    return fail(why, "vector loop %d is not the last of its kind", k->vector);
  if (k->vector >= 0 && k->vector < k->nouter && k->block < 1)
    return fail(why, "an outer vector loop without blocks");
  if (k->rows >= k->nouter) return fail(why, "the rows loop is not outer");
  for (int i = 0; i < loops(k) + k->ndots; i++)
    if (k->loop[i].slot >= k->nslots || (k->loop[i].slot < 0 && k->loop[i].size < 1))
      return fail(why, "loop %d has no extent", i);
  for (int i = 0; i < k->nstmts; i++)
    if (!verify_stmt(k, i, why)) return false;
  return true;
}

// Builds a Program from a Fusion: the instructions of the groups in the order of the schedule, the
// directory of tensors, the memory plan. The result lacks only machine code.
#include "codegen/program/program_internal.h"

#include <string.h>

// Room in the lists of a program for instructions of loops, copies and the commit, and for
// constants
enum { MORE = 64 };

static void emit_group(Builder *b, uint32_t at) {
  const Group *g = &b->f->group[b->schedule.group[at]];
  switch (g->kind) {
  case GROUP_KERNEL: {
    uint32_t n = 1;
    while (at >= b->schedule.commit && g->launch && at + n < b->schedule.n &&
           b->f->group[b->schedule.group[at + n]].launch == g->launch)
      n++;
    launch_emit(b, n, &b->schedule.group[at]);
    break;
  }
  case GROUP_GEMM: gemm_emit(b, g); break;
  case GROUP_COLLECTIVE: collective_emit(b, g); break;
  case GROUP_ORDERED:
    if (op_row((Op)graph_node(b->g, g->node[0])->op)->cls == MATRIX)
      matrix_emit(b, g->node[0]);
    else
      ordered_emit(b, g->node[0]);
    break;
  case GROUP_LOOP: loop_close(b, g->node[0]); break;
  case GROUP_ALIAS:
  case GROUP_SOURCE: break;
  }
}

// Records in b->from the group to which the instructions added since the last call belong: the
// group at index at - 1 of the schedule. With at 0 they belong to no group.
static void mark_from(Builder *b, uint32_t at) {
  while (b->from.n < b->instr.n) vec_push(b->a, b->from) = at;
}

static void emit_all(Builder *b) {
  bool commits = false;
  for (uint32_t i = 0; i < b->g->output.n; i++) commits |= b->g->output.at[i].kind == OUT_UPDATE;
  for (uint32_t i = 0; i < b->schedule.n; i++) {
    bool continued = i > b->schedule.commit && b->schedule.position[b->schedule.group[i]] ==
                                                   b->schedule.position[b->schedule.group[i - 1]];
    if (i == b->schedule.commit && commits)
      vec_push(b->a, b->instr) = (Instr){.kind = INSTR_COMMIT};
    if (continued) continue;
    loops_open(b, group_region(b->f, &b->f->group[b->schedule.group[i]]));
    mark_from(b, 0);
    emit_group(b, i);
    mark_from(b, i + 1);
  }
  if (b->schedule.commit == b->schedule.n && commits)
    vec_push(b->a, b->instr) = (Instr){.kind = INSTR_COMMIT};
  updates_copy(b);
}

// Returns the flops of products that a mask leaves out (values/live.c).
static int64_t left_out(const Builder *b) {
  double flops = 0;
  for (uint32_t i = 0; i < b->f->ngroups; i++) {
    const Group *g = &b->f->group[i];
    if (g->gemm && g->gemm->live)
      flops += (1 - g->gemm->live->share) * (double)contract_flops(b->g, g->node[0], NULL, NULL) *
               (double)region_times(b->g, group_region(b->f, g));
  }
  return (int64_t)flops;
}

static void fill_program(Builder *b) {
  Program *p = b->p;
  p->nslots = b->slot.n;
  p->slot = b->slot.at;
  p->ntensors = b->tensor.n;
  p->tensor = b->tensor.at;
  p->nkernels = b->kernel.n;
  p->kernel = b->kernel.at;
  p->ninstrs = b->instr.n;
  p->instr = b->instr.at;
  p->nchecks = b->check.n;
  p->check = b->check.at;
  p->flops = graph_flops(b->g) - left_out(b);
}

// Makes room for the instructions, about one for each group, and for the tensors: these lists are
// long, and their entries large.
static void make_room(Builder *b) {
  b->instr.cap = b->schedule.n + MORE;
  b->instr.at = arena_alloc_raw(b->a, b->instr.cap * sizeof *b->instr.at);
  b->tensor.cap = b->g->decl.n + b->g->output.n + MORE;
  b->tensor.at = arena_alloc_raw(b->a, b->tensor.cap * sizeof *b->tensor.at);
}

Compiled *program_build(Arena *a, const Fusion *f, const CodegenOptions *opt) {
  bug_context("program", 0);
  const Graph *g = f->graph;
  Builder b = {.a = a,
               .f = f,
               .g = g,
               .opt = opt,
               .sizes = coll_sizes_new(a, g),
               .scan = region_scans(a, g),
               .carries = region_ends(a, g, OP_CARRY),
               .finals = region_ends(a, g, OP_FINAL),
               .collects = region_ends(a, g, OP_COLLECT)};
  b.p = arena_new_of(a, Program);
  *b.p = (Program){.model = g->model, .for_ = opt->for_, .mesh = *g->mesh, .over = opt->over};
  b.place = arena_array(a, Ref, graph_count(g) + 1);
  b.placed = arena_array(a, bool, graph_count(g) + 1);
  b.decl_tensor = arena_array(a, int32_t, g->decl.n + 1);
  b.identities = kernel_texts_new(a);
  b.schedule = schedule_make(a, f, opt->overlap);
  make_room(&b);
  stops_find(&b);
  collected_find(&b);
  directory_make(&b);
  updates_place(&b);
  histories_place(&b);
  emit_all(&b);
  directory_outputs(&b);
  plan_memory(&b);
  notes_make(&b);
  fill_program(&b);
  Compiled *c = arena_new_of(a, Compiled);
  *c = (Compiled){.program = b.p,
                  .kernels = b.kernels.at,
                  .activation_bytes = b.p->arena_bytes,
                  .nbuffers = b.buffer.n,
                  .buffer = b.buffer.at,
                  .group = b.note};
  c->live_bytes = plan_live(&b);
  c->instead = arena_array(a, uint32_t, b.instr.n + 1);
  for (uint32_t i = 0; i < b.guard.n; i++) c->instead[b.guard.at[i].begin] = b.guard.at[i].instead;
  return c;
}

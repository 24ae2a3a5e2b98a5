// The command check: prints the facts of one compile (frontend/driver/check.h) as text or JSON.
#include "frontend/driver/check.h"

#include <string.h>

// -- text ---------------------------------------------------------------------------------------

static void print_dims(const Graph *g) {
  printf("dims       ");
  const char *comma = "";
  for (DimId d = 1; d <= dim_count(g->dims); d++) {
    if (dim_get(g->dims, d)->whole != d || dim_get(g->dims, d)->local) continue;
    printf("%s%s %lld", comma, dim_get(g->dims, d)->name, (long long)dim_get(g->dims, d)->size);
    comma = ", ";
  }
  printf("%s\n", *comma ? "" : "none");
}

static void print_layout(const Session *s) {
  const Layout *l = &s->model->layout;
  printf("layout     %s\n", l->n ? layout_text(s->arena, &s->model->mesh, l, " -> ", ", ")
                                 : "every processor holds everything");
}

// Returns a position for people: "line 7", or "dense.mesh:7" in a file that the model imports.
static const char *place_text(const Session *s, Pos pos) {
  const char *file = line_file(s, pos);
  bool own = strcmp(file, s->opt->argument.at[0]) == 0;
  return own ? arena_printf(s->arena, "line %u", pos.line)
             : arena_printf(s->arena, "%s:%u", file, pos.line);
}

static void print_calls(const Session *s, const CollFacts *facts) {
  const Mesh *m = &s->model->mesh;
  for (uint32_t i = 0; i < facts->n; i++) {
    const CollFact *f = &facts->fact[i];
    printf("  %-14s over %-9s %10s  %-8s %s", coll_text(f->kind), axes_text(s->arena, m, f->axes),
           bytes_text(s->arena, f->bytes), f->backward ? "backward" : "forward",
           f->value ? f->value : "");
    if (f->times > 1) printf("  %lld times", (long long)f->times);
    if (f->pos.line) printf("  (%s)", place_text(s, f->pos));
    printf("%s%s\n", f->why ? ": " : "", f->why ? f->why : "");
  }
}

static void print_collectives(const Session *s, const CheckFacts *c) {
  const CollFacts *facts = c->made.facts;
  printf("collectives %u a processor and step, %s sent\n", facts->n,
         bytes_text(s->arena, facts->wire_bytes));
  print_calls(s, facts);
  if (!c->sync.replicas) return;
  printf("sync       %s\n", sync_text(s, &c->sync));
  print_calls(s, c->sync.made.facts);
}

// -- which bits are equal -------------------------------------------------------------------------

enum { MOST_SUMS = 8 };

// Prints a line `name   values (line 7): why`. At most MOST_SUMS values are named.
static void print_sums(const Session *s, const char *name, const BitsSums *list, const char *why) {
  if (!list->n) return;
  printf("  %-11s", name);
  for (uint32_t i = 0; i < list->n && i < MOST_SUMS; i++) {
    const BitsSum *x = &list->at[i];
    printf("%s %s", i ? "," : "", x->value);
    if (x->pos.line) printf(" (%s)", place_text(s, x->pos));
  }
  if (list->n > MOST_SUMS) printf(", %u more", list->n - MOST_SUMS);
  printf(": %s\n", why);
}

static void print_equal(const BitsFacts *b) {
  if (!b->equal.n) return;
  printf("  %-11s", "equal");
  if (b->equal.n == b->outputs) {
    printf(" all results\n");
    return;
  }
  for (uint32_t i = 0; i < b->equal.n && i < MOST_SUMS; i++)
    printf("%s %s", i ? "," : "", b->equal.at[i]);
  if (b->equal.n > MOST_SUMS) printf(", %u more", b->equal.n - MOST_SUMS);
  printf(": depend on no such sum\n");
}

// Prints what --exact would cost.
static void print_exact(const Session *s, const BitsFacts *b) {
  const Foreseen *now = &b->now, *then = &b->with_exact;
  Arena *a = s->arena;
  if (b->no_exact) {
    printf("  %-11s not known: %s\n", "--exact", b->no_exact);
    return;
  }
  printf(
      "  %-11s the same bits on every mesh: step %s (x%.2f), flops x%.2f, peak %s (now %s)%s, %s "
      "sent\n",
      "--exact", seconds_text(a, then->time->seconds),
      now->time->seconds > 0 ? then->time->seconds / now->time->seconds : 1,
      now->work.flops ? (double)then->work.flops / (double)now->work.flops : 1,
      bytes_text(a, then->peak), bytes_text(a, now->peak), then->fits ? "" : ": too much",
      then->bytes ? bytes_text(a, then->bytes) : "nothing");
}

static void print_bits(const Session *s, const BitsFacts *b) {
  if (b->raced) {
    printf("bits       not the same from run to run: updates are made in the order in which "
           "replicas finish steps\n");
    return;
  }
  printf("bits       the same from run to run%s\n",
         b->gpu ? ", while the compile cache keeps the algorithms of products, and as far as NCCL "
                  "adds alike; not those of a CPU"
         : b->library.n ? " with the same number of threads; not those of a GPU"
                        : ", with any number of threads and ranks; not those of a GPU");
  print_sums(s, "threads", &b->library,
             "the order in which OpenBLAS adds may depend on their number");
  if (b->exact) {
    printf("  %-11s all results, on every mesh: --exact\n", "equal");
    return;
  }
  if (mesh_size(&s->model->mesh) > 1) {
    print_sums(s, "differ", &b->apart,
               "summed over processors, so in another order than on one of them");
    print_sums(s, "may differ", &b->resized, "summed in blocks of other sizes");
    print_equal(b);
  }
  print_exact(s, b);
}

static void print_text(const Session *s, const CheckFacts *check) {
  const Compilation *c = &check->made;
  const Program *p = c->compiled->program;
  const PartitionFacts *f = &c->partition;
  printf("model      %s, for %s\n", s->opt->argument.at[0], check->purpose);
  print_dims(s->model->graph);
  printf("mesh       %s\n", mesh_text(s->arena, &s->model->mesh));
  print_layout(s);
  if (session_for_gpu(s)) printf("device     cuda\n");
  printf("parameters %lld\n", (long long)parameter_count(s->model->graph));
  printf("flops      %lld a processor", (long long)f->flops);
  if (f->flops_rematerialised)
    printf(", %lld of them rematerialised", (long long)f->flops_rematerialised);
  printf(", %lld in all (%.1f%% redundant", (long long)f->flops_whole,
         100 * (f->redundant_flops - f->idle_flops));
  if (f->idle_flops > 0) printf(", %.1f%% idle", 100 * f->idle_flops);
  printf("), padding %.1f%%\n", 100 * f->padding);
  printf("memory     parameters %s, optimizer %s, activations %s, peak %s a processor\n",
         bytes_text(s->arena, f->parameter_bytes), bytes_text(s->arena, f->optimizer_bytes),
         bytes_text(s->arena, c->compiled->activation_bytes),
         bytes_text(s->arena, check_peak(check)));
  if (c->again_text)
    printf("           to fit, rematerialised for the backward pass: %s\n", c->again_text);
  int64_t kernels = count_instructions(p, INSTR_KERNEL),
          products = count_instructions(p, INSTR_GEMM);
  printf("program    %lld kernel%s, %lld product%s\n", (long long)kernels, plural(kernels),
         (long long)products, plural(products));
  printf("predicted  %s\n", simulation_text(s->arena, session_simulate(s, c)));
  print_collectives(s, check);
}

int cmd_check(Session *s) {
  CheckFacts c;
  BitsFacts bits;
  if (!session_load(s) || !check_compile(s, &c)) return 0;
  if (option_given(s->opt, OPTION_JSON)) return json_finish(check_json(s, &c));
  if (!bits_find(s, &c.of, &c.made, &bits)) return 0;
  print_text(s, &c);
  print_bits(s, &bits);
  if (c.params.path) params_table_print(s, &c.params);
  return 0;
}

// The command bench: times a step on generated input and compares it with its predicted time and
// with the roofline of this machine, which is measured in the same run. Input: a model and --for,
// --fetch, --steps. Output: text or JSON.
//
// The roofline (Williams et al. 2009) is the longest of three times: all flops of contractions at
// the FMA peak of all cores, the least memory traffic at the copy rate, and the reads of this
// traffic at the read rate; of a GPU all rates are figures of the machine file. That traffic is one
// read of every parameter, state and optimizer tensor, one write of those that the step changes,
// and every input and output once. Replicas count once, because they share this machine.
#include "frontend/command/hardware.h"
#include "frontend/driver/asynchronous.h"
#include "frontend/report/step_facts.h"
#include "frontend/verify/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef struct Bench {
  Session *s;
  Selected of;
  Compilation made;
  Verified verified;
  Exec *exec;
  int64_t steps, profiled; // numbers of timed and of profiled steps
  double median, best;
  // Flops, copied bytes and read bytes per second: measured on all cores that the step uses, or by
  // the figures of all GPUs that it uses.
  double peak, copy, read;
  int64_t bytes, bytes_read; // least memory traffic of a step, and what of it is read, in bytes
  int64_t resident; // peak of the resident memory of this process until the steps ended, in bytes
  const Simulation *predicted;
  const char *machine; // the machine file behind `predicted`; NULL: the built-in figures
  Machine figures;     // the figures behind `predicted`
} Bench;

// Numbers of steps: of those that warm up, of timed ones (FEW if LEAST take too long), of profiled
// ones.
enum { WARM = 40, FEW = 3, LEAST = 20, MOST = 10000, PROFILED = 10 };
static const double budget = 1.0;    // seconds of timed steps if --steps is not given
static const double long_time = 5.0; // seconds after which FEW timed or profiled steps are enough

// -- time ---------------------------------------------------------------------------------------

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static bool trains(const Bench *b) { return strcmp(b->of.purpose, "train") == 0; }

static bool step(Bench *b, int64_t number) {
  if (exec_step(b->exec, number, trains(b)) == STEP_OK) return true;
  exec_fault(b->exec, b->s->diag);
  return false;
}

// Runs the first steps, which are slower: memory is cold, and the runtime still chooses its number
// of workers. *fit gets the number of steps that fit the budget. With ranks it is the number that
// rank 0 found, because all must run equally many steps. Returns false after an error.
static bool warm_up(Bench *b, int64_t *fit) {
  double began = clock_seconds();
  int64_t i = 0;
  for (; i < WARM && (i < FEW || (!b->s->ranks && clock_seconds() - began < budget)); i++)
    if (!step(b, i)) return false;
  *fit = clamp64((int64_t)((double)i * budget / (clock_seconds() - began)), LEAST, MOST);
  if (!b->s->ranks) return true;
  RankNote mine = {.what = NOTE_STEP, .value = *fit};
  const RankNote *const *all;
  if (!ranks_meet(b->s->ranks, &mine, false, &all)) return false;
  *fit = all[0]->value;
  return true;
}

// Returns whether `done` timed steps, which took `spent` seconds, are enough.
static bool enough(int64_t done, double spent) {
  return (done >= LEAST && spent > budget) || (done >= FEW && spent > long_time);
}

static bool time_steps(Bench *b, int64_t wanted, int64_t fit) {
  int64_t most = wanted ? wanted : b->s->ranks ? fit : MOST;
  double *spent = arena_array(b->s->arena, double, most), began = clock_seconds();
  for (int64_t i = 0; i < most; i++) {
    double start = clock_seconds();
    if (!wanted && !b->s->ranks && enough(i, start - began)) break;
    if (!step(b, WARM + i)) return false;
    spent[b->steps++] = clock_seconds() - start;
  }
  qsort(spent, (size_t)b->steps, sizeof *spent, by_value);
  b->median = spent[b->steps / 2];
  b->best = spent[0];
  return true;
}

static bool time_instructions(Bench *b) {
  double began = clock_seconds();
  exec_profile_switch(b->exec, true);
  for (; b->profiled < PROFILED; b->profiled++) {
    bool late = b->profiled >= FEW && clock_seconds() - began > long_time;
    if (late && !b->s->ranks) break; // all ranks must run equally many steps
    if (!step(b, WARM + b->steps + b->profiled)) return false;
  }
  exec_profile_switch(b->exec, false);
  return true;
}

// -- the roofline -------------------------------------------------------------------------------

static int64_t decl_bytes(const Graph *g, const Decl *d) {
  int64_t n = dtype_bytes(d->type);
  for (int i = 0; i < d->rank; i++) n *= dim_get(g->dims, d->dims[i])->size;
  return n;
}

static int64_t least_read(const Graph *g) {
  int64_t bytes = 0;
  for (uint32_t i = 0; i < g->decl.n; i++)
    if (g->decl.at[i].node) bytes += decl_bytes(g, &g->decl.at[i]);
  return bytes;
}

static int64_t least_written(const Graph *g) {
  int64_t bytes = 0;
  for (uint32_t i = 0; i < g->output.n; i++) bytes += node_bytes(g, g->output.at[i].value);
  return bytes;
}

// Returns the flops per second that a GPU reaches on the products of the step at best, by the rates
// of their types.
static double gpu_peak(const Bench *b) {
  const Graph *g = b->made.simplified;
  double flops = 0, seconds = 0;
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    if (node->op != OP_CONTRACT) continue;
    double each = (double)contract_flops(g, n, NULL, NULL) * (double)region_times(g, node->region);
    flops += each;
    seconds += each / machine_flops(&b->figures, (Dtype)graph_node(g, node->args[0])->type);
  }
  return seconds > 0 ? flops / seconds : b->figures.flops;
}

static double flop_seconds(const Bench *b) {
  return (double)b->made.partition.flops_whole / b->peak;
}
// The time of the least memory traffic, by the rate that binds: where nearly all of it is read,
// that is the read rate.
static double copy_seconds(const Bench *b) { return b->copy > 0 ? (double)b->bytes / b->copy : 0; }
static double read_seconds(const Bench *b) {
  return b->read > 0 ? (double)b->bytes_read / b->read : 0;
}
static double byte_seconds(const Bench *b) { return fmax(copy_seconds(b), read_seconds(b)); }
static double bound_seconds(const Bench *b) { return fmax(flop_seconds(b), byte_seconds(b)); }

// -- results ------------------------------------------------------------------------------------

static json_t *roofline_json(const Bench *b) {
  json_t *out = json_object();
  json_object_set_new(out, "flops", json_integer(b->made.partition.flops_whole));
  json_object_set_new(out, "bytes", json_integer(b->bytes));
  json_object_set_new(out, "flops_per_second", json_real(b->peak));
  json_object_set_new(out, "bytes_per_second", json_real(b->copy));
  json_object_set_new(out, "read_bytes", json_integer(b->bytes_read));
  json_object_set_new(out, "read_bytes_per_second", json_real(b->read));
  json_object_set_new(out, "seconds", json_real(bound_seconds(b)));
  json_object_set_new(out, "steps_per_second", json_real(1 / bound_seconds(b)));
  json_object_set_new(out, "ratio", json_real(b->median / bound_seconds(b)));
  return out;
}

// Kinds of instructions whose measured and predicted seconds are compared.
static const struct {
  InstrKind kind;
  const char *name;
} compared[] = {{INSTR_GEMM, "products"},
                {INSTR_KERNEL, "kernels"},
                {INSTR_ORDERED, "ordered"},
                {INSTR_MATRIX, "matrices"},
                {INSTR_COLLECTIVE, "collectives"}};

// Returns the measured seconds of a step in all instructions of a kind.
static double measured_of(const Bench *b, InstrKind kind) {
  const Program *p = b->made.compiled->program;
  const double *seconds = exec_profile(b->exec);
  double all = 0;
  for (uint32_t i = 0; seconds && i < p->ninstrs; i++)
    if (p->instr[i].kind == kind) all += seconds[i] / (double)b->profiled;
  return all;
}

static json_t *measured_json(const Bench *b) {
  json_t *out = json_object();
  for (size_t i = 0; i < countof(compared); i++)
    json_object_set_new(out, compared[i].name, json_real(measured_of(b, compared[i].kind)));
  return out;
}

// Adds what was run, and by what.
static void put_run(json_t *out, const Bench *b) {
  const Session *s = b->s;
  json_object_set_new(out, "schema", json_string("meshc.bench/1"));
  json_object_set_new(out, "model", json_text(s->opt->argument.at[0]));
  json_object_set_new(out, "for", json_text(b->of.purpose));
  json_object_set_new(out, "mesh", mesh_json(&s->model->mesh));
  json_object_set_new(out, "layout", layout_json(s));
  json_object_set_new(out, "threads", json_integer(exec_workers(b->exec)));
  json_object_set_new(out, "cpu", json_text(code_cpu()));
  json_object_set_new(out, "products_by", json_text(s->products));
}

// Adds the time of a step, measured and predicted.
static void put_times(json_t *out, const Bench *b) {
  const char *machine = b->machine ? b->machine : b->s->machine_name;
  json_object_set_new(out, "steps", json_integer(b->steps));
  json_object_set_new(out, "seconds", json_real(b->median));
  json_object_set_new(out, "best_seconds", json_real(b->best));
  json_object_set_new(out, "steps_per_second", json_real(1 / b->median));
  json_object_set_new(out, "predicted_seconds", json_real(b->predicted->seconds));
  json_object_set_new(out, "predicted", simulation_json(b->predicted));
  json_object_set_new(out, "measured", measured_json(b));
  json_object_set_new(out, "machine", machine ? json_text(machine) : json_null());
}

static int print_json(const Bench *b) {
  const Session *s = b->s;
  json_t *out = json_object(), *list = collectives_json(s, b->made.facts);
  collectives_measured(s, list, &b->made, b->exec, b->profiled);
  put_run(out, b);
  put_times(out, b);
  json_object_set_new(out, "instructions",
                      step_facts_json(step_facts(s, &b->made, b->predicted, b->exec, b->profiled)));
  json_object_set_new(out, "roofline", roofline_json(b));
  if (s->gpu) json_object_set_new(out, "gpu", json_text(gpu_facts(s->gpu)->name));
  program_json(out, &b->made);
  json_object_set_new(out, "collectives", list);
  json_object_set_new(out, "wire_bytes", json_integer(b->made.facts->wire_bytes));
  json_object_set_new(out, "allocated", json_integer(exec_bytes(b->exec)));
  json_object_set_new(out, "resident_bytes", json_integer(b->resident));
  verified_json(out, &b->verified);
  return json_finish(out);
}

static int by_measured(const void *a, const void *b) {
  const StepFact *x = a, *y = b;
  if (x->measured != y->measured) return x->measured > y->measured ? -1 : 1;
  return (x->instr > y->instr) - (x->instr < y->instr);
}

// Prints the instructions that take longest, equal ones together: what each computes, costs and why
// it ends.
static void print_slowest(const Bench *b) {
  enum { SHOWN = 8 };
  Arena *a = b->s->arena;
  StepFacts *rows = step_rows(step_facts(b->s, &b->made, b->predicted, b->exec, b->profiled));
  qsort(rows->at, rows->n, sizeof *rows->at, by_measured);
  for (uint32_t i = 0; i < rows->n && i < SHOWN; i++) {
    const StepFact *x = &rows->at[i];
    int64_t runs = x->runs * x->count;
    const char *ends = step_ends_text(a, x);
    printf("%s %-10s %s  %s%s%s  %.4g MFLOP  %s; predicted %s, limit %s\n",
           i ? "          " : "slowest   ", seconds_text(a, x->measured),
           x->main ? x->main->op : x->what, step_values_text(a, x),
           x->pos.line ? arena_printf(a, " (line %u)", x->pos.line) : "",
           runs > 1 ? arena_printf(a, "  x%lld", (long long)runs) : "", (double)x->flops / 1e6,
           bytes_text(a, x->bytes), seconds_text(a, x->predicted), x->limit);
    if (*ends) printf("%21s ends: %s\n", "", ends);
  }
}

static const char *machine_text(const Bench *b) {
  if (b->machine) return b->machine;
  if (!b->s->machine_name) return "built-in figures; doctor --measure FILE measures this one";
  return arena_printf(
      b->s->arena, "%s, which meshc knows; doctor --measure FILE --device cuda measures this one",
      b->s->machine_name);
}

// Prints the seconds of each kind of instruction, and their ratio to the predicted ones.
static void print_measured(const Bench *b) {
  const char *text = "";
  for (size_t i = 0; i < countof(compared); i++) {
    double seconds = measured_of(b, compared[i].kind),
           predicted = b->predicted->of_kind[compared[i].kind];
    if (seconds <= 0 || predicted <= 0) continue;
    text = arena_printf(b->s->arena, "%s%s %s %s (%.2f times)", text, *text ? "," : "",
                        compared[i].name, seconds_text(b->s->arena, seconds), seconds / predicted);
  }
  if (*text) printf("measured  %s\n", text);
}

// Warns if this run is much faster than the kept figures: another process was busy when doctor
// measured them.
static void warn_slow_figures(const Bench *b) {
  double cores = fmax(b->figures.cores, 1), now = b->peak / cores;
  if (!b->machine || option_text(b->s->opt, OPTION_MACHINE) || b->s->gpu || b->s->ranks) return;
  if (b->figures.flops >= now * 2 / 3) return;
  printf("           measured at %.1f GFLOP/s a core, but this run reaches %.1f: the machine was "
         "busy; doctor --measure FILE measures it again\n",
         b->figures.flops / 1e9, now / 1e9);
}

static void print_predicted(const Bench *b) {
  printf("predicted  %s; the step takes %.2f times that\n",
         simulation_text(b->s->arena, b->predicted), b->median / b->predicted->seconds);
  print_measured(b);
  printf("machine    %s\n", machine_text(b));
  warn_slow_figures(b);
}

static void print_roofline(const Bench *b) {
  Arena *a = b->s->arena;
  const PartitionFacts *f = &b->made.partition;
  printf("roofline   %s: %.5g steps/s, of which the step reaches %.1f%%\n",
         seconds_text(a, bound_seconds(b)), 1 / bound_seconds(b),
         100 * bound_seconds(b) / b->median);
  printf("  products %.3f GFLOP at %.1f GFLOP/s: %s\n", (double)f->flops_whole / 1e9, b->peak / 1e9,
         seconds_text(a, flop_seconds(b)));
  printf("  bytes    %s at %.1f GB/s: %s\n", bytes_text(a, b->bytes), b->copy / 1e9,
         seconds_text(a, copy_seconds(b)));
  printf("  read     %s at %.1f GB/s: %s\n", bytes_text(a, b->bytes_read), b->read / 1e9,
         seconds_text(a, read_seconds(b)));
}

static void print_text(const Bench *b) {
  const Session *s = b->s;
  Arena *a = s->arena;
  const Program *p = b->made.compiled->program;
  printf("model      %s, for %s\n", s->opt->argument.at[0], b->of.purpose);
  printf("mesh       %s, %s\n", mesh_text(a, &s->model->mesh), device_text(s, b->exec));
  printf("step       %s, median of %lld, best %s: %.5g steps/s\n",
         seconds_text(b->s->arena, b->median), (long long)b->steps,
         seconds_text(b->s->arena, b->best), 1 / b->median);
  print_predicted(b);
  print_roofline(b);
  int64_t kernels = count_instructions(p, INSTR_KERNEL),
          products = count_instructions(p, INSTR_GEMM);
  printf("program    %lld kernel%s, %lld product%s, %u collective%s\n", (long long)kernels,
         plural(kernels), (long long)products, plural(products), b->made.facts->n,
         plural(b->made.facts->n));
  printf("bytes      %s a processor, %s sent\n", bytes_text(a, exec_bytes(b->exec)),
         bytes_text(a, b->made.facts->wire_bytes));
  print_slowest(b);
}

// -- the command --------------------------------------------------------------------------------

// Predicts the time of a step by --machine, else by the file that doctor --measure has kept.
static bool predict(Bench *b) {
  Session *s = b->s;
  Machine m = s->machine;
  int64_t threads;
  if (!option_integer(s->opt, OPTION_THREADS, cores_available(), 1, 4096, s->diag, &threads))
    return false;
  b->machine = option_text(s->opt, OPTION_MACHINE);
  if (!b->machine) b->machine = machine_kept(s, threads, &m);
  b->figures = m;
  b->predicted = simulate(s->arena, b->made.compiled, &m);
  return true;
}

static bool prepare(Bench *b) {
  Session *s = b->s;

  if (!session_make(s, NULL, &b->of, &b->made)) return false;
  if (!strcmp(b->of.purpose, "train") && stale_given(s) && !training_without_sync(s, "bench"))
    return false;
  b->exec = session_exec(s, &b->made, NULL, NULL);
  if (!b->exec) return false;
  synthetic_feed(b->exec, b->made.compiled->program);
  b->bytes_read = least_read(b->made.simplified);
  b->bytes = b->bytes_read + least_written(b->made.simplified);
  if (!predict(b)) return false;
  VerifyJob job = {.graph = b->of.graph,
                   .made = &b->made,
                   .exec = b->exec,
                   .purpose = b->of.purpose,
                   .rows = -1,
                   .commit = trains(b)};
  return verify_step(s, &job, &b->verified);
}

static int64_t peak_resident(void) {
  struct rusage use;
  return getrusage(RUSAGE_SELF, &use) == 0 ? (int64_t)use.ru_maxrss * 1024 : 0;
}

// Measures the rates of the CPU. It is called twice, and the better measurement counts: other
// processes may have slowed one of them. Ranks measure at the same time, each with its share of the
// machine, and their rates are added: that of this rank, times the number of ranks. Returns false
// once the run of ranks has failed.
static bool measure_rates(Bench *b, int threads) {
  Ranks *r = b->s->ranks;
  double ranks = r ? ranks_count(r) : 1;
  if (r && !ranks_meet_local(r, true)) return false;
  b->peak = fmax(b->peak, ranks * peak_flops(threads));
  if (r && !ranks_meet_local(r, true)) return false;
  b->copy = fmax(b->copy, ranks * peak_copy(threads));
  if (r && !ranks_meet_local(r, true)) return false;
  b->read = fmax(b->read, ranks * peak_read(threads));
  return true;
}

static bool measure(Bench *b, int64_t wanted) {
  int threads = exec_workers(b->exec);
  int64_t fit;
  if (!warm_up(b, &fit) || !time_steps(b, wanted, fit)) return false;
  b->resident = peak_resident(); // before the arrays that measure rates are made
  if (b->s->gpu) {
    double gpus = b->s->ranks ? ranks_count(b->s->ranks) : 1; // a rank has a GPU
    b->peak = gpus * gpu_peak(b);
    b->copy = b->read = gpus * b->figures.memory_rate;
    return time_instructions(b);
  }
  return measure_rates(b, threads) && time_instructions(b) && measure_rates(b, threads);
}

int cmd_bench(Session *s) {
  Bench b = {.s = s};
  int64_t wanted;
  bool good = session_load(s) &&
              option_integer(s->opt, OPTION_STEPS, 0, 1, 1000000, s->diag, &wanted) &&
              prepare(&b) && measure(&b, wanted) && exec_check(b.exec, s->diag);
  if (good && option_given(s->opt, OPTION_JSON))
    print_json(&b);
  else if (good)
    print_text(&b);
  exec_free(b.exec);
  compilation_free(&b.made);
  return 0;
}

// Compiles a graph with the options of the command line, and binds the program to its processors.
// Input: the graph of session_select or of the command. Output: a Compilation, and an Exec.
#include "frontend/driver/memory_remedies.h"
#include "frontend/driver/program_reuse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Returns the bytes that a processor has of the GPU, which all of them share in one process.
static double gpu_memory_each(const Session *s) {
  double all = s->gpu ? (double)gpu_facts(s->gpu)->memory : (double)s->machine.memory;
  int64_t n = s->ranks ? ranks_processors(s->ranks) : mesh_size(&s->model->mesh);
  return floor(all / (double)n);
}

bool session_memory(const Session *s, double *out) {
  static const struct {
    const char *unit;
    double bytes;
  } units[] = {{"", 1},         {"B", 1},      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
               {"TiB", 0x1p40}, {"KB", 1e3},   {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
               {"K", 0x1p10},   {"M", 0x1p20}, {"G", 0x1p30},   {"T", 0x1p40}};
  const OptionUse *use = option_use(s->opt, OPTION_MEMORY);
  *out = s->budget;
  if (s->budget > 0) return true;
  *out = (double)s->machine.memory;
  if (!use && session_has_gpu(s) && !option_given(s->opt, OPTION_MACHINE))
    *out = gpu_memory_each(s);
  if (!use) return true;
  char *end;
  double x = strtod(use->text, &end);
  for (size_t i = 0; end != use->text && x > 0 && x < 0x1p60 && i < countof(units); i++)
    if (!strcmp(end, units[i].unit)) {
      *out = fmin(x * units[i].bytes, 0x1p62);
      return true;
    }
  diag_error(s->diag, DIAG_USAGE, use->pos,
             "--memory takes a size of a processor's memory, not '%s'", use->text);
  return diag_hint(s->diag, "write a number and a unit: --memory 8GiB");
}

int session_threads(const Session *s) {
  if (s->in_job) return 1;
  int ranks = s->ranks ? ranks_local_count(s->ranks) : 1;
  int64_t threads = cores_available() / (ranks > 0 ? ranks : 1);
  const OptionUse *given = option_use(s->opt, OPTION_THREADS); // its number has been checked
  if (given) threads = strtol(given->text, NULL, 10);
  return (int)clamp64(threads, 1, INT32_MAX);
}

Session session_of_job(const Session *s, Arena *a) {
  Session own = *s;
  own.arena = a;
  own.names = intern_over(a, s->names);
  own.diag = diag_new(a);
  own.in_job = true;
  return own;
}

// Returns the number of threads of a compile. The times that -v prints can be told apart with one.
static int compile_threads(const Session *s) {
  bool timed = option_given(s->opt, OPTION_VERBOSE) && !s->trial;
  return timed ? 1 : session_threads(s);
}

// Compares the memory that the program needs with --memory and with `memory` of a machine file. Too
// much is an error. More than the machine file's memory is only a warning if the command runs
// nothing, because the user may be choosing a model size for that machine. Returns false after an
// error.
static bool memory_suffices(Session *s, const Compilation *c, bool runs) {
  double most;
  bool budget = option_given(s->opt, OPTION_MEMORY);
  if (!(budget || s->machine.states_memory) || !c->compiled || s->trial) return true;
  if (!session_memory(s, &most)) return false;
  int64_t needed = program_bytes(c->compiled->program) + s->beside;
  if ((double)needed <= most) return true;
  const char *text =
      arena_printf(s->arena, "the program for %s needs %s a processor, %s %s",
                   c->compiled->program->for_, bytes_text(s->arena, needed),
                   budget ? "--memory allows" : "a processor of the machine file has",
                   bytes_text(s->arena, (int64_t)most));
  Pos at = option_use(s->opt, budget ? OPTION_MEMORY : OPTION_MACHINE)->pos;
  if (budget || runs)
    diag_error(s->diag, DIAG_NO_MEMORY, at, "%s", text);
  else
    diag_warning(s->diag, DIAG_OVER_MEMORY, at, "%s", text);
  const MemoryWays *ways = budget || runs ? memory_ways(s, c, most) : NULL;
  const char *cost = memory_cost(s, ways);
  diag_hint(
      s->diag,
      "--memory %lld suffices%s%s; else split more dims, use a larger mesh, or a smaller batch",
      (long long)needed, *cost ? ": " : "", cost);
  memory_note_values(s, c);
  memory_note_ways(s, ways);
  return !(budget || runs);
}

// Returns the types of products that a machine computes without generated kernels.
static DtypeSet machine_products(const Machine *m) {
  return dtype_bit(TYPE_F32) | dtype_bit(TYPE_F64) | (m->bf16_flops > 0 ? dtype_bit(TYPE_BF16) : 0);
}

// Returns the types whose products a program of graph g may have. A precision may turn f32 to bf16.
// f64 is in the set only if the graph has it, so that OpenBLAS is loaded only where it is needed.
static DtypeSet product_candidates(const Graph *g) {
  DtypeSet set = dtype_bit(TYPE_F32) | dtype_bit(TYPE_BF16);
  for (NodeId n = 0; n < graph_count(g); n++)
    if (graph_node(g, n)->type == TYPE_F64) set |= dtype_bit(TYPE_F64);
  return set;
}

static bool has_products(const Graph *g) {
  for (NodeId n = 1; n <= graph_count(g); n++)
    if (graph_node(g, n)->op == OP_CONTRACT) return true;
  return false;
}

// Changes options that are made for the CPU to those of a GPU, whose library computes products, and
// whose memory all processors of the process share. Without the library, kernels compute them, in
// tiles (codegen/gpu/gpu_product.c). Where nothing is to run there, the library is assumed.
static void for_gpu(Session *s, const Graph *g, bool runs, PipelineOptions *out) {
  bool library = !s->gpu || gpu_library_of_products();
  out->gpu = runs ? s->gpu : NULL;
  out->each = s->ranks ? ranks_processors(s->ranks) : 0;
  if (runs) s->products = library ? "cuBLASLt" : "generated kernels";
  if (out->codegen.products)
    out->codegen.products =
        library ? dtype_bit(TYPE_F32) | dtype_bit(TYPE_F64) | dtype_bit(TYPE_BF16) : 0;
  out->codegen.gpu = true;
  out->codegen.tf32 = session_tf32(s);
  bool asked = runs && out->codegen.products && has_products(g);
  out->codegen.epilogues = asked ? gpu_epilogues(s->gpu) : ALL_EPILOGUES;
  out->codegen.shared_cache = 0;
}

// `gpu`: the program is for the GPU of --device cuda, if that is given; false: for the CPU.
static bool read_pipeline(Session *s, const Graph *g, const char *purpose, const char *over,
                          bool runs, bool gpu, PipelineOptions *out) {
  int64_t opt;
  double memory;
  if (!option_integer(s->opt, OPTION_OPT, 2, 0, 3, s->diag, &opt) || !session_memory(s, &memory))
    return false;
  gpu = gpu && session_for_gpu(s);
  if (runs && !gpu) product_way(TYPE_F32, &s->products);
  *out = (PipelineOptions){
      .codegen = {.fuse = !option_given(s->opt, OPTION_NO_FUSE) && !s->unfused,
                  .products = option_given(s->opt, OPTION_EXACT) ? 0
                              : runs && !gpu ? product_types(product_candidates(g))
                                             : machine_products(&s->machine),
                  .for_ = purpose,
                  .over = over,
                  .overlap = s->machine.overlap > 0,
                  .shared_cache = s->machine.l3,
                  .launch_bytes = (int64_t)(s->machine.launch * s->machine.memory_rate),
                  .keep = strcmp(purpose, "train") == 0 ||
                          (strcmp(purpose, "run") == 0 &&
                           (s->keeps || option_given(s->opt, OPTION_SAVE_PARAMS)))},
      .code = {.opt = (int)opt, .cache = cache_folder(s)},
      .store = {.like = s->stores, .freely = !s->keeps},
      .machine = &s->machine,
      .memory = (int64_t)memory,
      .begun = s->begun,
      .simplified = s->simplified,
      .known = runs || s->stores || s->unfused ? NULL : s->known,
      .accumulate = s->options.accumulate,
      .threads = compile_threads(s),
      .machine_code = runs,
  };
  if (gpu) for_gpu(s, g, runs, out);
  return true;
}

// Checks that the program's collectives have the calls and bytes that collectives_facts counted on
// the graph. Returns false after an error, which is a fault of meshc.
static bool planned_alike(const Compilation *c, Diag *d) {
  ProgramCount part[2], facts = {0};
  if (!c->compiled || !c->facts) return true;
  program_count(c->compiled->program, 0, -1, part);
  program_count_add(&part[0], &part[1]);
  for (uint32_t i = 0; i < c->facts->n; i++) {
    const CollFact *f = &c->facts->fact[i];
    facts.calls[f->kind] += f->times;
    facts.bytes[f->kind] += f->times * f->bytes;
    facts.wire_bytes[f->kind] += f->times * f->wire_bytes;
  }
  for (int k = 0; k < COLL_COUNT; k++) {
    int64_t calls = part[0].calls[k], bytes = part[0].bytes[k];
    if (calls == facts.calls[k] && bytes == facts.bytes[k] &&
        part[0].wire_bytes[k] == facts.wire_bytes[k])
      continue;
    diag_error(d, DIAG_FAILURE, (Pos){0},
               "%s for %s: the program has %lld call%s of %lld byte%s, %lld of %lld were planned",
               coll_text((CollKind)k), c->compiled->program->for_, (long long)calls, plural(calls),
               (long long)bytes, plural(bytes), (long long)facts.calls[k],
               (long long)facts.bytes[k]);
    return diag_hint(d,
                     "this is a fault of meshc: please report it with the model and the options");
  }
  return true;
}

static void say_orders(Session *s, const Order *o) {
  if (o && option_given(s->opt, OPTION_VERBOSE) && session_first(s) && !s->trial)
    fprintf(stderr, "meshc: orders of dims: as asked for %s, searched %s (estimates): %s\n",
            seconds_text(s->arena, o->asked), seconds_text(s->arena, o->searched),
            o->taken ? "the searched ones are taken" : "those asked for are kept");
}

bool session_compile(Session *s, const Graph *g, const char *purpose, const char *over,
                     const char *last, Compilation *out) {
  PipelineOptions options;
  bool runs = last == NULL;
  if (!read_pipeline(s, g, purpose, over, runs, true, &options)) return false;
  options.timings = &s->timings;
  double start = clock_seconds();
  bool cached = options.code.cache != NULL;
  if (runs && !session_before_compile(s, cached)) return false;
  const ProgramReuse reuse = runs ? program_reuse(s, g, &options) : (ProgramReuse){0};
  if (!program_reused(s, g, &options, &reuse, out)) {
    if (!pipeline_run(s->arena, g, &options, last, s->diag, out)) return false;
    program_reuse_later(s, &options, &reuse, out);
  }
  say_orders(s, out->order);
  if (runs && !session_after_compile(s, cached, out->compiled->program)) return false;
  if (runs && option_given(s->opt, OPTION_VERBOSE) && session_first(s))
    fprintf(stderr,
            "meshc: compiled for %s in %.3f s: %u instruction%s, %u kernel%s; %s, products by %s\n",
            purpose, clock_seconds() - start, out->compiled->program->ninstrs,
            plural(out->compiled->program->ninstrs), out->compiled->program->nkernels,
            plural(out->compiled->program->nkernels), code_cpu(), s->products);
  if (option_given(s->opt, OPTION_VERBOSE) && !s->trial) timings_print(stderr, &s->timings);
  timings_start(&s->timings, s->arena);
  if (runs) arena_drop_spares(); // steps need the memory more
  if (runs && !s->stores) {
    s->stores = out->compiled->program;
    s->stores_kept = reuse.usable;
    s->stores_key = reuse.key;
  }
  return planned_alike(out, s->diag) && memory_suffices(s, out, runs);
}

bool session_passes(Session *s, Arena *a, const Graph *g, const char *purpose,
                    void (*passed)(void *watcher, const char *pass, const Graph *g), void *watcher,
                    Compilation *out) {
  PipelineOptions options;
  if (!read_pipeline(s, g, purpose, NULL, false, false, &options)) return false;
  options.passed = passed;
  options.watcher = watcher;
  return pipeline_run(a, g, &options, "fuse", s->diag, out);
}

bool session_program(Session *s, Arena *a, const Graph *g, const Selected *of, ProgramWay way,
                     Compilation *out) {
  PipelineOptions options;
  if (!read_pipeline(s, g, of->purpose, of->over, false, true, &options)) return false;
  options.memory = way.memory;
  options.sparing = way.sparing;
  options.codegen.simulated = true;
  if (way.begun) options.begun = way.begun;
  options.again = way.again;
  options.plain = way.plain;
  options.modest = way.modest;
  options.sums = way.sums;
  options.first = way.first;
  options.wanted_again = way.wanted_again;
  options.watcher = way.watcher;
  options.store.times = way.times;
  return pipeline_run(a, g, &options, way.last ? way.last : "program", s->diag, out);
}

bool session_package(Session *s, const Graph *g, const Selected *of, PackageWay way,
                     Compilation *out) {
  PipelineOptions options;
  if (!read_pipeline(s, g, of->purpose, of->over, false, true, &options)) return false;
  options.known = NULL; // of programs with other products
  if (options.codegen.products) options.codegen.products = way.products;
  options.codegen.epilogues = way.epilogues;
  options.each = way.each;
  options.transfers = session_for_gpu(s);
  if (!pipeline_run(s->arena, g, &options, "program", s->diag, out)) return false;
  if (!s->stores) s->stores = out->compiled->program;
  return planned_alike(out, s->diag) && memory_suffices(s, out, true);
}

DtypeSet session_products(const Session *s, const Graph *g) {
  return option_given(s->opt, OPTION_EXACT) ? 0 : product_types(product_candidates(g));
}

bool session_compile_alone(Session *s, Arena *a, const Graph *g, const char *purpose,
                           const char *over, Compilation *out) {
  PipelineOptions options;
  return read_pipeline(s, g, purpose, over, true, false, &options) &&
         pipeline_run(a, g, &options, NULL, s->diag, out);
}

static bool exec_options(Session *s, ExecOptions *out) {
  int64_t threads;
  if (!option_integer(s->opt, OPTION_THREADS, 0, 1, 4096, s->diag, &threads)) return false;
  *out = (ExecOptions){
      .threads = (int)threads, .seed = s->model->graph->spec.seed, .directory = s->directory};
  return true;
}

Exec *session_exec_alone(Session *s, const Compilation *c) {
  ExecOptions options;
  if (!exec_options(s, &options)) return NULL;
  // This program may have no collectives, so only a fault in a kernel is injected.
  if (s->inject.kernel) options.inject = &s->inject;
  return exec_new(c->compiled->program, &options, s->diag);
}

Exec *session_exec(Session *s, const Compilation *c, const Exec *share,
                   const char *must_be_finite) {
  ExecOptions options;
  if (!exec_options(s, &options)) return NULL;
  options.ranks = s->ranks;
  options.share = share;
  options.must_be_finite = must_be_finite;
  options.inject = &s->inject;
  options.probe = c->on_gpu ? NULL : s->probe;
  options.apart = s->apart;
  options.alone = s->alone;
  options.stop_request = s->stop_request;
  options.device = gpu_program_device(c->on_gpu);
  options.profile = option_given(s->opt, OPTION_JSON) || s->opt->command == COMMAND_BENCH ||
                    s->opt->command == COMMAND_DOCTOR;
  Exec *e = exec_new(c->compiled->program, &options, s->diag);
  if (!e && c->on_gpu && diag_exit(s->diag) == EXIT_MEMORY) {
    memory_note_values(s, c);
    memory_note_ways(s, memory_ways(s, c, gpu_memory_each(s)));
  }
  if (e && s->opt->command == COMMAND_BENCH)
    exec_profile_switch(e, false); // bench switches it on for the timed steps
  if (e && option_given(s->opt, OPTION_VERBOSE) && session_first(s))
    fprintf(stderr, "meshc: %lld processor%s on %d thread%s, %s each\n",
            (long long)mesh_size(&s->model->mesh), plural(mesh_size(&s->model->mesh)),
            exec_workers(e), plural(exec_workers(e)), bytes_text(s->arena, exec_bytes(e)));
  return e;
}

Exec *session_exec_part(Session *s, const Compilation *c, int64_t parts,
                        const char *must_be_finite) {
  ExecOptions options;
  if (!exec_options(s, &options)) return NULL;
  int n = options.threads ? options.threads : cores_available();
  if (s->ranks) n = options.threads ? n / ranks_local_count(s->ranks) : ranks_cores(s->ranks, n);
  options.threads = n / parts > 1 ? (int)(n / parts) : 1;
  options.must_be_finite = must_be_finite;
  options.stop_request = s->stop_request;
  return exec_new(c->compiled->program, &options, s->diag);
}

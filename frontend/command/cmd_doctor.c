// The command doctor: prints the hardware and libraries of this machine with measured rates;
// --measure writes a machine file for --machine.
#include "frontend/command/hardware.h"
#include "frontend/command/measure_internal.h"
#include "frontend/driver/session.h"
#include "ir/base/disk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 512, REPEATS = 5, MEETINGS = 20000 };

// Returns flops per second of one core in a product of f32: the best of several calls. Returns 0
// where only generated kernels compute such products.
static double measure_product(void) {
  const ProductWay *way = product_way(TYPE_F32, NULL);
  if (!way) return 0;
  float *x = mem_zeroed(3 * SIDE * SIDE, sizeof *x);
  int64_t scratch = gemm_scratch(&(Gemm){.factors = TYPE_F32}, SIDE, SIDE, SIDE);
  void *work = mem_aligned(MEMORY_ALIGN, (size_t)scratch);
  Product p = {.factors = TYPE_F32,
               .type = TYPE_F32,
               .m = SIDE,
               .n = SIDE,
               .k = SIDE,
               .a = x,
               .b = x + SIDE * SIDE,
               .c = x + 2 * SIDE * SIDE,
               .lda = SIDE,
               .ldb = SIDE,
               .ldc = SIDE};
  double best = 0;
  for (int i = 0; i < REPEATS; i++) {
    double start = clock_seconds();
    product_run(way, &p, work);
    double rate = 2.0 * SIDE * SIDE * SIDE / (clock_seconds() - start);
    if (rate > best) best = rate;
  }
  free(x);
  return best;
}

static void *meet(void *barrier) {
  for (int i = 0; i < MEETINGS; i++) barrier_wait(barrier);
  return NULL;
}

// Returns the seconds that two processors of this process spend on the barriers of one collective:
// before, during and after it.
static double measure_latency(void) {
  enum { MEETINGS_A_CALL = 3 };
  Barrier *b = barrier_new(2, cores_available() > 1);
  pthread_t other;
  double start = clock_seconds(), each = 0;
  if (pthread_create(&other, NULL, meet, b) == 0) {
    meet(b);
    pthread_join(other, NULL);
    each = (clock_seconds() - start) / MEETINGS;
  }
  barrier_free(b);
  return MEETINGS_A_CALL * each;
}

// Returns the bytes of the cache of a level, or `otherwise` if they are unknown. sysfs is preferred
// to sysconf: in a virtual machine sysconf may report the cache of the whole socket.
static int64_t cache_bytes(int level, int64_t otherwise) {
  long n = 0;
  char path[80];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", level);
  FILE *f = mem_fopen(path, "re");
  bool told = f && fscanf(f, "%ldK", &n) == 1 && n > 0;
  if (f) fclose(f);
  if (told) return n * 1024;
#if defined(_SC_LEVEL2_CACHE_SIZE) && defined(_SC_LEVEL3_CACHE_SIZE)
  n = sysconf(level == 2 ? _SC_LEVEL2_CACHE_SIZE : _SC_LEVEL3_CACHE_SIZE);
#endif
  return n > 0 ? n : otherwise;
}

// Returns the bytes of the third level of cache that this machine can use. A virtual machine shows
// the cache of its host, which it shares with others. No CPU has had more than 32 MiB a core.
static int64_t shared_cache_bytes(int64_t otherwise) {
  int64_t most = (INT64_C(32) << 20) * cores_available(), n = cache_bytes(3, otherwise);
  return n < most ? n : most;
}

typedef struct Doctor {
  Session *s;
  Hardware found;
  int threads;         // all cores of this process
  double peak, all;    // f32 multiply-adds per second, times 2: of one core, of all cores
  double copy, copies; // bytes per second, of one core and of all cores
  double product, latency;
} Doctor;

// -- the machine file: figures of one processor, on one core ------------------------------------

// Measures the machine and writes its figures as text to *out. Without the LLVM back end the
// figures of kernels remain those of the built-in machine. Returns false after an error.
static bool machine_text(Doctor *d, const char **out) {
  Machine m = machine_default();
  m.l2 = cache_bytes(2, m.l2);
  m.l3 = shared_cache_bytes(m.l3);
  m.memory_rate = d->copy;
  m.bandwidth = d->copy / 2;
  m.latency = d->latency;
  m.flops = d->product > 0 ? d->product : d->peak;
  m.cores = cores_available();
  m.shared = 1;
  if (code_available() && !machine_measure(d->s, &m)) return false;
  m.memory = d->found.memory / (int64_t)m.cores;
  *out = arena_printf(d->s->arena, "%s%s", machine_title(d->s, (int64_t)m.cores),
                      machine_print_notes(d->s->arena, &m, measure_note));
  return true;
}

// Measures the GPU of --device cuda and writes its figures as text to *out. Returns false after an
// error.
static bool gpu_text(Doctor *d, const char **out) {
  Session *s = d->s;
  if (s->ranks) {
    diag_error(s->diag, DIAG_UNAVAILABLE, option_use(s->opt, OPTION_DEVICE)->pos,
               "several processes cannot measure a GPU together");
    return diag_hint(s->diag, "leave out --np: one process measures one GPU");
  }
  if (!session_open_device(s)) return false;
  Machine m = s->machine;
  m.multiprocessors = d->found.gpus.gpu[0].multiprocessors;
  m.memory = gpu_facts(s->gpu)->memory;
  if (!gpu_measure(s, &m)) return false;
  *out = arena_printf(s->arena, "%s%s", machine_title(s, 0),
                      machine_print_notes(s->arena, &m, measure_note));
  return true;
}

static bool measured_text(Doctor *d, const char **out) {
  return session_for_gpu(d->s) ? gpu_text(d, out) : machine_text(d, out);
}

// Writes the machine file of --measure. All ranks measure together, and rank 0 writes. A single
// process opens the file first, so that a path that cannot be written fails before the measurement.
// Returns false after an error.
static bool write_machine(Doctor *d) {
  Session *s = d->s;
  const OptionUse *use = option_use(s->opt, OPTION_MEASURE);
  const char *text;
  DiskFile f;
  if (!use) return true;
  if (s->ranks)
    return measured_text(d, &text) &&
           (!session_first(s) || session_write(s, use->text, text, strlen(text), false, use->pos));
  if (!disk_begin(&f, use->text)) return session_cannot_write(s, use->text, use->pos);
  if (!measured_text(d, &text)) {
    disk_abandon(&f);
    return false;
  }
  disk_put(&f, text, strlen(text));
  machine_keep(s, text);
  return disk_commit(&f) || session_cannot_write(s, use->text, use->pos);
}

// -- results ------------------------------------------------------------------------------------

// Returns what computes products of a type.
static const char *product_text(Dtype type) {
  const char *name;
  (void)product_way(type, &name);
  return name;
}

typedef struct NamedLibrary {
  const char *name, *key; // in the text and in the JSON
  const LibraryFacts *facts;
} NamedLibrary;

enum { GPU_LIBRARIES = 4 };

// Writes the driver and the libraries for programs on GPUs to `out`.
static void gpu_libraries(const Hardware *found, NamedLibrary out[GPU_LIBRARIES]) {
  const NamedLibrary all[GPU_LIBRARIES] = {{"CUDA", "driver", &found->gpus.driver},
                                           {"cuBLASLt", "cublaslt", &found->cublaslt},
                                           {"nvJitLink", "nvjitlink", &found->nvjitlink},
                                           {"NCCL", "nccl", &found->nccl}};
  memcpy(out, all, sizeof all);
}

static void print_gpus(const Doctor *d) {
  const GpuSurvey *gpus = &d->found.gpus;
  NamedLibrary library[GPU_LIBRARIES];
  if (gpus->ngpus == 0) printf("gpus       none\n");
  for (int i = 0; i < gpus->ngpus; i++) {
    const SurveyedGpu *g = &gpus->gpu[i];
    printf("gpu %-6d %s, compute capability %d.%d, %d multiprocessors, %s\n", i, g->name,
           g->capability / 10, g->capability % 10, g->multiprocessors,
           bytes_text(d->s->arena, g->memory));
  }
  gpu_libraries(&d->found, library);
  for (int i = 0; i < GPU_LIBRARIES; i++) {
    const LibraryFacts *f = library[i].facts;
    printf("%-10s %s%s%s%s%s\n", library[i].name, *f->version ? f->version : "none",
           *f->path ? ", " : "", f->path, *f->why ? ": " : "", f->why);
  }
}

static void print_text(const Doctor *d) {
  const Hardware *found = &d->found;
  printf("cores      %d\n", cores_available());
  printf("cpu        %s\n", code_cpu());
  printf("compiler   %s\n", code_version());
  printf("products   f32: %s; f64: %s; bf16: %s\n", product_text(TYPE_F32), product_text(TYPE_F64),
         product_text(TYPE_BF16));
  printf("peak       %.1f GFLOP/s, one core, f32 multiply-adds; %.1f with %d core%s\n",
         d->peak / 1e9, d->all / 1e9, d->threads, plural(d->threads));
  printf("copy       %.1f GB/s, one core, read and written; %.1f with %d core%s\n", d->copy / 1e9,
         d->copies / 1e9, d->threads, plural(d->threads));
  if (d->product > 0)
    printf("product    %.1f GFLOP/s, one core, f32, %d x %d\n", d->product / 1e9, SIDE, SIDE);
  printf("latency    %s, a collective of two processors of this process\n",
         seconds_text(d->s->arena, d->latency));
  printf("simd       %s\n", found->simd);
  printf("memory     %s free\n", bytes_text(d->s->arena, found->memory));
  print_gpus(d);
  printf("MPI        %s\n", found->mpi ? found->mpi : "none");
  printf("devices    cpu%s\n", found->gpus.ngpus ? ", cuda" : "");
  printf("comm       local%s\n", ranks_over_mpi() ? ", mpi" : "");
}

static json_t *products_json(void) {
  static const Dtype types[] = {TYPE_F32, TYPE_F64, TYPE_BF16};
  json_t *out = json_object();
  for (size_t i = 0; i < countof(types); i++)
    json_object_set_new(out, dtype_text(types[i]), json_text(product_text(types[i])));
  return out;
}

static json_t *gpus_json(const GpuSurvey *gpus) {
  json_t *out = json_array();
  for (int i = 0; i < gpus->ngpus; i++) {
    const SurveyedGpu *g = &gpus->gpu[i];
    json_t *one = json_object();
    char capability[16];
    snprintf(capability, sizeof capability, "%d.%d", g->capability / 10, g->capability % 10);
    json_object_set_new(one, "name", json_text(g->name));
    json_object_set_new(one, "compute_capability", json_string(capability));
    json_object_set_new(one, "multiprocessors", json_integer(g->multiprocessors));
    json_object_set_new(one, "memory_bytes", json_integer(g->memory));
    json_array_append_new(out, one);
  }
  return out;
}

static json_t *text_or_null(const char *text) { return text ? json_text(text) : json_null(); }

static json_t *library_json(const LibraryFacts *f) {
  json_t *out = json_object();
  json_object_set_new(out, "version", text_or_null(*f->version ? f->version : NULL));
  json_object_set_new(out, "path", text_or_null(*f->path ? f->path : NULL));
  json_object_set_new(out, "missing", text_or_null(*f->why ? f->why : NULL));
  return out;
}

static json_t *cuda_json(const Hardware *found) {
  json_t *out = json_object();
  NamedLibrary library[GPU_LIBRARIES];
  gpu_libraries(found, library);
  json_object_set_new(out, "gpus", gpus_json(&found->gpus));
  for (int i = 0; i < GPU_LIBRARIES; i++)
    json_object_set_new(out, library[i].key, library_json(library[i].facts));
  return out;
}

// Returns the names of all GPUs, or NULL if there are none.
static const char *gpu_names(const Doctor *d) {
  const GpuSurvey *gpus = &d->found.gpus;
  const char *out = NULL;
  for (int i = 0; i < gpus->ngpus; i++)
    out = arena_printf(d->s->arena, "%s%s%s", out ? out : "", out ? ", " : "", gpus->gpu[i].name);
  return out;
}

static int print_json(const Doctor *d) {
  json_t *out = json_object();
  const char *nccl = d->found.nccl.version;
  json_object_set_new(out, "schema", json_string("meshc.doctor/1"));
  json_object_set_new(out, "cores", json_integer(cores_available()));
  json_object_set_new(out, "cpu", json_text(code_cpu()));
  json_object_set_new(out, "compiler", json_text(code_version()));
  json_object_set_new(out, "products", products_json());
  json_object_set_new(out, "peak_flops_per_second", json_real(d->peak));
  json_object_set_new(out, "peak_flops_per_second_all", json_real(d->all));
  json_object_set_new(out, "copy_bytes_per_second", json_real(d->copy));
  json_object_set_new(out, "copy_bytes_per_second_all", json_real(d->copies));
  json_object_set_new(out, "product_flops_per_second", json_real(d->product));
  json_object_set_new(out, "latency_seconds", json_real(d->latency));
  json_object_set_new(out, "simd", json_text(d->found.simd));
  json_object_set_new(out, "memory_bytes", json_integer(d->found.memory));
  json_object_set_new(out, "gpus", text_or_null(gpu_names(d)));
  json_object_set_new(out, "mpi", text_or_null(d->found.mpi));
  json_object_set_new(out, "nccl", text_or_null(*nccl ? nccl : NULL));
  json_object_set_new(out, "cuda", cuda_json(&d->found));
  json_t *devices = json_pack("[s]", "cpu");
  if (d->found.gpus.ngpus) json_array_append_new(devices, json_string("cuda"));
  json_object_set_new(out, "devices", devices);
  json_t *comms = json_pack("[s]", "local");
  if (ranks_over_mpi()) json_array_append_new(comms, json_string("mpi"));
  json_object_set_new(out, "comm", comms);
  return json_finish(out);
}

int cmd_doctor(Session *s) {
  Doctor d = {.s = s,
              .threads = cores_available(),
              .found = hardware_find(s->arena),
              .peak = peak_flops(1),
              .copy = peak_copy(1)};
  d.all = peak_flops(d.threads);
  d.copies = peak_copy(d.threads);
  d.product = measure_product();
  d.latency = measure_latency();
  if (!write_machine(&d)) return 0;
  if (option_given(s->opt, OPTION_JSON)) return print_json(&d);
  print_text(&d);
  return 0;
}

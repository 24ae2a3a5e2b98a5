// Assembles code for GPUs by ptxas, for compute capabilities 8.0 and 9.0: the hand-made kernels of
// suite_kernels, products in tiles of each kind, the kernels of the op table (common/op_cases.h),
// those of 500 random graphs, ordered operations, and those of the examples. The assembler must
// take all of it, without spilled registers. Kernels of the examples may not need more registers
// and shared memory than gpu_registers.txt says. Without ptxas everything is skipped.
//
//   suite_gpu_assemble         every SAMPLE-th kernel of most of these, each for one of the two
//   suite_gpu_assemble all     all of them, each for both
//   suite_gpu_assemble bless   only the examples; writes gpu_registers.txt
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/gpu/gpu_product.h"
#include "frontend/frontend.h"
#include "ir/base/map.h"
#include "tests/suite/common/code.h"
#include "tests/suite/common/kernel_case.h"
#include "tests/suite/common/layout_maker.h"
#include "tests/suite/common/op_cases.h"
#include "tests/suite/common/registers.h"

enum { SAMPLE = 12 };
static const int capabilities[CAPABILITIES] = {80, 90};
static const char figures[] = "tests/suite/gpu_registers.txt";
// Options of `meshc dump`. Long sequences have attention without stored scores.
static const char *const examples[] = {"mnist.mesh",
                                       "cifar.mesh",
                                       "gpt.mesh",
                                       "transformer.mesh",
                                       "unet.mesh",
                                       "dlrm.mesh",
                                       "moe.mesh",
                                       "resnet.mesh",
                                       "minilm.mesh",
                                       "lstm.mesh",
                                       "vae.mesh",
                                       "clip.mesh",
                                       "gan.mesh",
                                       "gpt2.mesh",
                                       "iris.mesh",
                                       "llama.mesh",
                                       "logistic.mesh",
                                       "mlp.mesh",
                                       "tagger.mesh",
                                       "gpt.mesh --device cuda --set t=512",
                                       "llama.mesh --device cuda --set t=512 --precision bf16"};

static int passed, failed, skipped, registers;
static bool whole;            // whether all is assembled
static Registers *of_kernels; // of the examples
static char folder[] = "/tmp/meshc-assemble-XXXXXX";

static const char *assembler(void) {
  static const char *const at[] = {"ptxas", "/usr/local/cuda/bin/ptxas"};
  for (size_t i = 0; i < countof(at); i++) {
    char command[100];
    snprintf(command, sizeof command, "%s --version >/dev/null 2>&1", at[i]);
    if (system(command) == 0) return at[i];
  }
  return NULL;
}

// Counts the functions of a log of ptxas, and those among them that spill.
// capability: index in `capabilities` of that for which they were assembled.
static void read_log(const char *path, int capability, const char *what) {
  FILE *f = fopen(path, "r");
  char line[1000], name[500] = "";
  while (f && fgets(line, sizeof line, f)) {
    int stack, stores, loads, used;
    const char *at = strstr(line, "Function properties for ");
    if (at) snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 24, "\n"), at + 24);
    if (sscanf(line, " %d bytes stack frame, %d bytes spill stores, %d bytes spill loads", &stack,
               &stores, &loads) == 3) {
      if (stores + loads) printf("FAIL %s: %s spills\n", what, name);
      *(stores + loads ? &failed : &passed) += 1;
    }
    at = strstr(line, "Used ");
    if (!at || sscanf(at, "Used %d registers", &used) != 1) continue;
    if (used > registers) registers = used;
    registers_note(of_kernels, name, capability, used);
  }
  if (f) fclose(f);
}

static void print_file(const char *path) {
  FILE *f = fopen(path, "r");
  char line[1000];
  for (int i = 0; f && i < 10 && fgets(line, sizeof line, f); i++) printf("  %s", line);
  if (f) fclose(f);
}

// Assembles a file of PTX and counts its functions. capability: index in `capabilities`.
static void assemble(const char *ptxas, const char *ptx, int capability, const char *what) {
  char log[100], command[500];
  snprintf(log, sizeof log, "%s/log", folder);
  snprintf(command, sizeof command, "%s -v -arch=sm_%d -o /dev/null %s >%s 2>&1", ptxas,
           capabilities[capability], ptx, log);
  if (system(command) == 0) {
    read_log(log, capability, what);
    return;
  }
  printf("FAIL %s: ptxas refuses it\n", what);
  print_file(log);
  failed++;
}

// Returns whether list number `list` is assembled for capability number i.
static bool wanted(size_t list, size_t i) { return whole || list % countof(capabilities) == i; }

// -- kernels ------------------------------------------------------------------------------------

typedef VEC(Kernel *) Kernels;

// tile: GpuCodeOptions.tile.
static void assemble_program(Arena *a, const char *ptxas, const Program *p, Kernel *const *kernels,
                             int tile, size_t list, const char *what) {
  Diag *d = diag_new(a);
  for (size_t i = 0; i < countof(capabilities); i++) {
    if (!wanted(list, i)) continue;
    GpuCodeOptions opt = {
        .target = GPU_PTX, .capability = capabilities[i], .opt = suite_opt(2), .tile = tile};
    char ptx[100], *text = gpu_code_text(a, p, kernels, &opt, d);
    snprintf(ptx, sizeof ptx, "%s/code.ptx", folder);
    FILE *f = fopen(ptx, "w");
    if (!text || !f) {
      diag_print(d, stdout, false);
      failed++;
      return;
    }
    fputs(text, f);
    fclose(f);
    assemble(ptxas, ptx, (int)i, what);
  }
}

static void assemble_kernels(Arena *a, const char *ptxas, const Kernels *k, int tile, size_t list,
                             const char *what) {
  Program p = {.nkernels = k->n, .kernel = arena_array(a, ProgKernel, k->n + 1), .for_ = "run"};
  for (uint32_t i = 0; i < k->n; i++) p.kernel[i].name = arena_printf(a, "k%u", i);
  assemble_program(a, ptxas, &p, k->at, tile, list, what);
}

// Assembles the functions of all ordered operations, of every type but bool.
static void ordered(Arena *a, const char *ptxas) {
  enum { KINDS = ORDERED_TOP_K + 1 };
  Program p = {.for_ = "run", .instr = arena_array(a, Instr, KINDS * TYPE_COUNT)};
  for (int i = 0; i < KINDS * TYPE_COUNT; i++) {
    Ordered w = {.kind = (OrderedKind)(i % KINDS), .type = (Dtype)(i / KINDS)};
    if (w.type != TYPE_BOOL) p.instr[p.ninstrs++] = (Instr){.kind = INSTR_ORDERED, .u.ordered = w};
  }
  assemble_program(a, ptxas, &p, NULL, 0, 0, "ordered operations");
}

static void hand_made(Arena *a, const char *ptxas, int sample) {
  Case *cases;
  kernel_cases_add(150);
  window_cases_add();
  row_cases_add();
  column_cases_add();
  int n = cases_all(&cases);
  Kernels k = {0};
  for (int i = 0; i < n; i += sample) vec_push(a, k) = &cases[i].k;
  assemble_kernels(a, ptxas, &k, 0, 0, "hand-made kernels");
}

// Assembles products in tiles of each kind. The list of cases must be empty before.
static void products(Arena *a, const char *ptxas, int sample) {
  Case *cases;
  tile_cases_add();
  int n = cases_all(&cases);
  for (int tile = 1; tile <= gpu_product_shapes(); tile++) {
    Kernels k = {0};
    for (int i = tile; i < n; i += sample) vec_push(a, k) = &cases[i].k;
    assemble_kernels(a, ptxas, &k, tile, (size_t)tile, arena_printf(a, "products, tile %d", tile));
  }
}

// The kernels that were found so far, each once.
typedef struct Found {
  NameMap known; // by text
  Kernels kernel;
} Found;

// Adds the kernels of a graph of whole tensors that are not known yet.
static void add_kernels_of(Arena *a, const Graph *g, const Layout *layout, bool gpu, Intern *names,
                           Found *out) {
  Machine machine = machine_default();
  CodegenOptions opt = {.fuse = true, .gpu = gpu, .for_ = "run"};
  const Graph *lowered = collectives_share(a, lower(a, place(a, g, layout, &machine)));
  Order *order = order_choose(a, lowered, &(StoreOptions){0}, true);
  Compiled *made =
      program_build(a, fuse(a, order, collectives_bucket(a, order->graph, &machine), &opt), &opt);
  for (uint32_t i = 0; i < made->program->nkernels; i++) {
    const char *text = intern(names, made->program->kernel[i].text);
    if (map_get(&out->known, text)) continue;
    map_put(a, &out->known, text, made->kernels[i]);
    vec_push(a, out->kernel) = made->kernels[i];
  }
}

static void of_ops(Arena *a, const char *ptxas, int sample) {
  static const Mesh one;
  Intern *names = intern_new(a);
  DimTable *dims = dim_table_new(a, names);
  Found k = {0};
  for (int i = 0; i < op_case_count(); i += sample) {
    OpCase c;
    if (!op_case_build(a, dims, &one, i, &c)) continue;
    add_kernels_of(a, graph_simplify(a, graph_expand(a, c.graph)), &(Layout){0}, false, names, &k);
  }
  assemble_kernels(a, ptxas, &k.kernel, 0, 1, "kernels of operations");
}

// Assembles the kernels of random graphs under random layouts.
static void of_graphs(Arena *a, const char *ptxas) {
  enum { GRAPHS = 500 };
  Intern *names = intern_new(a);
  Maker *m = arena_array(a, Maker, GRAPHS);
  Found k = {0};
  for (uint64_t i = 0; i < GRAPHS; i++)
    add_kernels_of(a, random_case_graph(i + 1, &m[i]), &m[i].layout, true, names, &k);
  for (size_t i = 0; i < countof(capabilities); i++) {
    Kernels some = {0}; // each for one of the two
    for (uint32_t n = (uint32_t)i; n < k.kernel.n; n += whole ? 1 : 2 * SAMPLE)
      vec_push(a, some) = k.kernel.at[n];
    if (!whole || !i) assemble_kernels(a, ptxas, &some, 0, i, "kernels of random graphs");
  }
  printf("%d random graphs: %u kernels\n", GRAPHS, k.kernel.n);
  for (int i = 0; i < GRAPHS; i++) arena_free(m[i].a);
}

static void of_example(const char *ptxas, size_t list) {
  const char *program = getenv("MESHC"), *name = examples[list];
  char command[300], ptx[100];
  snprintf(ptx, sizeof ptx, "%s/code.ptx", folder);
  snprintf(command, sizeof command, "%s dump examples/%s --stage ptx >%s",
           program ? program : "build/release/meshc", name, ptx);
  if (system(command) == 0) {
    registers_plans(of_kernels, ptx, name);
    for (size_t i = 0; i < countof(capabilities); i++)
      if (wanted(list, i)) assemble(ptxas, ptx, (int)i, name);
    return;
  }
  printf("FAIL %s: has no PTX\n", name);
  failed++;
}

// Returns the versions of the assembler and of LLVM, on which registers depend.
static const char *versions(Arena *a, const char *ptxas) {
  char line[200] = "";
  FILE *f = popen(arena_printf(a, "%s --version | tail -n 1", ptxas), "r");
  if (f && !fgets(line, sizeof line, f)) line[0] = 0;
  if (f) pclose(f);
  return arena_printf(a, "ptxas: %.*s, %s", (int)strcspn(line, "\n"), line, code_version());
}

// Compares the kernels of the examples with the file.
static void check_registers(void) {
  RegistersResult r = registers_compare(of_kernels);
  if (!r.compared) printf("%s was made by other versions: not compared\n", figures);
  printf("%s: %d kernels as it says, %d need less or hardly more, %d need more, %d are new\n",
         figures, r.same, r.better, r.worse, r.more);
  passed += r.same + r.better;
  failed += r.worse;
  skipped += !r.compared;
}

static void assemble_all(Arena *a, const char *ptxas) {
  int sample = whole ? 1 : SAMPLE;
  products(a, ptxas, whole ? 7 : 61);
  hand_made(a, ptxas, sample);
  of_ops(a, ptxas, sample);
  of_graphs(a, ptxas);
  ordered(a, ptxas);
}

int main(int argc, char **argv) {
  bool bless = argc > 1 && !strcmp(argv[1], "bless");
  whole = bless || (argc > 1 && !strcmp(argv[1], "all"));
  const char *ptxas = assembler();
  if (!ptxas || !code_available() || !mkdtemp(folder)) {
    printf("0 passed, 0 failed, %d skipped\n", (int)countof(examples) + 5);
    return 0;
  }
  Arena *a = arena_new();
  of_kernels = registers_read(a, figures, versions(a, ptxas));
  if (!bless) assemble_all(a, ptxas);
  for (size_t i = 0; i < countof(examples); i++) of_example(ptxas, i);
  if (bless && !registers_write(of_kernels)) {
    printf("FAIL %s cannot be written\n", figures);
    failed++;
  }
  if (!bless) check_registers();
  char command[100];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  if (system(command) != 0) printf("%s is left over\n", folder);
  arena_free(a);
  printf("at most %d registers\n%d passed, %d failed, %d skipped\n", registers, passed, failed,
         skipped);
  return failed != 0;
}

// Runs random graphs under random layouts on several processes: 2 and 4 ranks, forked by this suite
// and started by mpirun. Every output must have the bits that the same program gives in one
// process. The bytes that the communicators count must be those that the compiler predicts. The
// same ranks run all graphs, one after the other; one rank compiles.
//
//   suite_ranks [seed=N]     SEEDS=n: number of graphs; FROM=n: the first; NP=n: only that many
//                            ranks; WAY=fork, WAY=mpirun
#define _XOPEN_SOURCE 700 // mkdtemp
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "runtime/runtime.h"
#include "tests/suite/common/code.h"
#include "tests/suite/common/layout_cases.h"

enum { STEP = 3, SEEDS = 100, LAYOUTS = 1 };

static Ranks *ranks;
static const char *cache;

static void hand_in(Maker *m, Exec *e, const Program *p) {
  for (uint32_t i = 0; i < m->ninputs; i++) {
    const Decl *d = &m->g->decl.at[m->feed[i].decl - 1];
    if (program_tensor(p, tensor_kind(d->kind), d->name) < 0) continue;
    int64_t size = dtype_bytes(d->type);
    char *data = arena_alloc(m->a, (size_t)(m->feed[i].n * size));
    for (int64_t k = 0; k < m->feed[i].n; k++)
      dtype_store(d->type, data + k * size, m->feed[i].value[k]);
    exec_write(e, tensor_kind(d->kind), d->name, d->type, data);
  }
}

// Returns all tensors after a step, concatenated.
static char *values_of(Maker *m, const Exec *e, const Program *p, size_t *bytes) {
  *bytes = 0;
  for (int pass = 0;; pass++) {
    char *all = pass ? arena_alloc(m->a, *bytes + 1) : NULL, *to = all;
    for (uint32_t i = 0; i < p->ntensors; i++) {
      const ProgTensor *t = &p->tensor[i];
      int64_t n = dtype_bytes(t->type);
      for (int k = 0; k < t->rank; k++) n *= t->dim[k].whole;
      if (t->kind == TENSOR_CONSTANT || t->kind == TENSOR_INPUT) continue;
      if (!pass) {
        *bytes += (size_t)n;
        continue;
      }
      exec_read(e, t->kind, t->name, to);
      to += n;
    }
    if (pass) return all;
  }
}

static const char *compare_counts(Maker *m, const CommCount *here, const CommCount *there) {
  for (int k = 0; k < COLL_COUNT; k++)
    if (here->calls[k] != there->calls[k] || here->bytes[k] != there->bytes[k] ||
        here->wire_bytes[k] != there->wire_bytes[k])
      return arena_printf(m->a, "%s: other counts in ranks than in one process",
                          coll_text((CollKind)k));
  return NULL;
}

// Runs the step in this process alone, or as one of the ranks `with`. Returns NULL, or what failed.
static const char *run(Maker *m, const Program *p, Ranks *with, char **out, size_t *bytes,
                       CommCount *count) {
  ExecOptions opt = {.threads = with ? 0 : 1, .ranks = with};
  Exec *e = exec_new(p, &opt, m->diag);
  if (!e) return "the executor refuses the program";
  hand_in(m, e, p);
  const char *wrong = exec_step(e, STEP, true) == STEP_OK ? NULL : "the step fails";
  if (!wrong) *out = values_of(m, e, p, bytes);
  if (!wrong && !exec_check(e, m->diag)) {
    diag_print(m->diag, stdout, false);
    wrong = "the run is not what was predicted";
  }
  *count = *exec_counts(e);
  exec_free(e);
  return wrong;
}

static const char *compare(Maker *m, const Program *p) {
  char *here = NULL, *there = NULL;
  size_t bytes = 0;
  CommCount counted[2];
  const char *wrong = run(m, p, NULL, &here, &bytes, &counted[0]);
  if (!wrong) wrong = run(m, p, ranks, &there, &bytes, &counted[1]);
  if (!wrong && memcmp(here, there, bytes) != 0) wrong = "ranks give other bits than one process";
  return wrong ? wrong : compare_counts(m, &counted[0], &counted[1]);
}

static const char *check(Maker *m, const Graph *g, const Eval *whole) {
  (void)whole;
  Machine machine = machine_default();
  CodegenOptions opt = {.fuse = suite_fuses(true),
                        .products = product_types(ALL_TYPES),
                        .product_work = 1,
                        .for_ = "train"};
  Graph *low = collectives_share(m->a, lower(m->a, place(m->a, g, &m->layout, &machine)));
  layout_saw(low);
  Order *order = order_choose(m->a, remat(m->a, low, 0), &(StoreOptions){0}, false);
  Fusion *f = fuse(m->a, order, collectives_bucket(m->a, order->graph, &machine), &opt);
  Compiled *c = program_build(m->a, f, &opt);
  CodeOptions code_opt = {.opt = suite_opt(0), .without = suite_without(), .cache = cache};
  if (!ranks_use_mesh(ranks, &c->program->mesh)) return "the mesh does not suit the ranks";
  if (!ranks_is_leader(ranks) && !ranks_meet_local(ranks, true)) return "the ranks are lost";
  Code *code = code_load(c->program, c->kernels, &code_opt, m->diag);
  if (ranks_is_leader(ranks) && !ranks_meet_local(ranks, true)) return "the ranks are lost";
  if (!code) return "does not compile";
  const char *wrong = compare(m, c->program);
  code_free(code);
  return wrong;
}

static int rank_main(int argc, char **argv) {
  char why[512] = "";
  int code = 1;
  ranks = ranks_join(60, why, sizeof why, &code);
  if (!ranks) {
    fprintf(stderr, "%s\n", why);
    return code;
  }
  cache = getenv("SUITE_RANKS_CACHE");
  int nothing = ranks_rank(ranks) > 0 ? open("/dev/null", O_WRONLY) : -1;
  if (nothing >= 0) dup2(nothing, STDOUT_FILENO);
  random_ranks = ranks_count(ranks);
  code = random_cases(argc, argv, SEEDS, LAYOUTS, check);
  fflush(stdout);
  code = ranks_leave(ranks, code);
  ranks_free(ranks);
  return code;
}

static bool mpi_works(void) {
  return ranks_over_mpi() && system("command -v mpirun >/dev/null") == 0;
}

static void remove_cache(void) {
  char path[512];
  DIR *folder = opendir(cache);
  for (const struct dirent *entry; folder && (entry = readdir(folder));) {
    snprintf(path, sizeof path, "%s/%s", cache, entry->d_name);
    if (entry->d_name[0] != '.') unlink(path);
  }
  if (folder) closedir(folder);
  rmdir(cache);
}

// Turns the leak check off: Open MPI leaks memory.
static void no_leak_check(void) {
  const char *others = getenv("ASAN_OPTIONS");
  char options[1024];
  snprintf(options, sizeof options, "%s:detect_leaks=0", others ? others : "");
  setenv("ASAN_OPTIONS", options, 1);
}

// Starts `count` ranks. The output of rank 0 is kept, because it has the line of totals.
static int launch(int count, bool mpi, char **argv, int *passed, int *failed) {
  FILE *kept = tmpfile();
  char line[4096];
  int p, f, s, before = dup(STDOUT_FILENO);
  double began = clock_seconds();
  if (!kept || before < 0) return 1;
  if (mpi) no_leak_check();
  fflush(stdout);
  dup2(fileno(kept), STDOUT_FILENO);
  int code = ranks_launch(count, argv, mpi, false);
  dup2(before, STDOUT_FILENO);
  close(before);
  rewind(kept);
  bool counted = false;
  while (fgets(line, sizeof line, kept)) {
    if (sscanf(line, "%d passed, %d failed, %d skipped", &p, &f, &s) == 3) {
      *passed += p;
      *failed += f;
      counted = true;
    } else {
      printf("%s %d ranks: %s", mpi ? "mpirun," : "forked,", count, line);
    }
  }
  fclose(kept);
  if (!counted || (code && !*failed)) {
    printf("FAIL %s %d ranks end with exit code %d\n", mpi ? "mpirun," : "forked,", count, code);
    (*failed)++;
  }
  printf("%s %d ranks: %.1f s\n", mpi ? "mpirun," : "forked,", count, clock_seconds() - began);
  return code;
}

static bool wanted(const char *variable, const char *value) {
  const char *only = getenv(variable);
  return !only || strcmp(only, value) == 0;
}

int main(int argc, char **argv) {
  static const struct {
    bool mpi;
    const char *way, *np;
  } runs[] = {
      {false, "fork", "2"}, {false, "fork", "4"}, {true, "mpirun", "2"}, {true, "mpirun", "4"}};
  char folder[] = "/tmp/meshc-ranks-XXXXXX";
  int passed = 0, failed = 0, skipped = 0, code = 0;
  if (ranks_started()) return rank_main(argc, argv);
  if (!code_available()) {
    printf("0 passed, 0 failed, %d skipped\n", SEEDS * LAYOUTS * (int)countof(runs));
    return 0;
  }
  cache = mkdtemp(folder);
  if (cache) setenv("SUITE_RANKS_CACHE", cache, 1);
  for (size_t i = 0; i < countof(runs); i++) {
    if (!wanted("NP", runs[i].np) || !wanted("WAY", runs[i].way)) continue;
    if (runs[i].mpi && !mpi_works())
      skipped += SEEDS * LAYOUTS;
    else
      code |= launch(atoi(runs[i].np), runs[i].mpi, argv, &passed, &failed);
  }
  if (cache) remove_cache();
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return code || failed;
}

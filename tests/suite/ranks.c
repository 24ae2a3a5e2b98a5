// Random graphs under random layouts on several processes: with 2 and with 4 ranks every output must have the bits
// that the same program gives in one process, and what the communicators count must be what the compiler predicts.
//
//   suite_ranks [seed=N]     SEEDS=n: that many graphs; NP=n: that many ranks only
#define _XOPEN_SOURCE 700 // mkdtemp
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "runtime/runtime.h"
#include "tests/suite/common/layout_cases.h"

enum { STEP = 3, SEEDS = 50, LAYOUTS = 2 };

static Ranks *ranks;
static const char *cache;

static const TensorKind kind_of[] = {TENSOR_INPUT, TENSOR_PARAM, TENSOR_STATE, TENSOR_SLOT}; // of a DeclKind

static void hand_in(Maker *m, Exec *e, const Program *p) {
  for (uint32_t i = 0; i < m->ninputs; i++) {
    const Decl *d = &m->g->decl.at[m->feed[i].decl - 1];
    if (program_tensor(p, kind_of[d->kind], d->name) < 0) continue;
    int64_t size = dtype_bytes(d->type);
    char *data = arena_alloc(m->a, (size_t)(m->feed[i].n * size));
    for (int64_t k = 0; k < m->feed[i].n; k++) dtype_store(d->type, data + k * size, m->feed[i].value[k]);
    exec_write(e, kind_of[d->kind], d->name, d->type, data);
  }
}

// All tensors after a step, one behind the other.
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

static bool has_loops(const Program *p) {
  for (uint32_t i = 0; i < p->ninstrs; i++)
    if (p->instr[i].kind == INSTR_LOOP) return true;
  return false;
}

static const char *compare_counts(Maker *m, const Program *p, const CommCount *here, const CommCount *there) {
  int64_t predicted[COLL_COUNT] = {0};
  for (uint32_t i = 0; i < p->ninstrs; i++)
    if (p->instr[i].kind == INSTR_COLLECTIVE) predicted[p->instr[i].u.collective.kind] += p->instr[i].u.collective.bytes;
  for (int k = 0; k < COLL_COUNT; k++) {
    if (here->calls[k] != there->calls[k] || here->bytes[k] != there->bytes[k] || here->wire_bytes[k] != there->wire_bytes[k])
      return arena_printf(m->a, "%s: other counts in ranks than in one process", coll_text((CollKind)k));
    if (!has_loops(p) && predicted[k] != there->bytes[k])
      return arena_printf(m->a, "%s: %lld bytes counted, %lld predicted", coll_text((CollKind)k), (long long)there->bytes[k],
                          (long long)predicted[k]);
  }
  return NULL;
}

// Runs the step in this process alone, or (`with`) as one of the ranks. A sentence when it fails.
static const char *run(Maker *m, const Program *p, Ranks *with, char **out, size_t *bytes, CommCount *count) {
  ExecOptions opt = {.threads = with ? 0 : 1, .ranks = with};
  Exec *e = exec_new(p, &opt, m->diag);
  if (!e) return "the executor refuses the program";
  hand_in(m, e, p);
  const char *wrong = exec_step(e, STEP, true) == STEP_OK ? NULL : "the step fails";
  if (!wrong) *out = values_of(m, e, p, bytes);
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
  return wrong ? wrong : compare_counts(m, p, &counted[0], &counted[1]);
}

static const char *check(Maker *m, const Graph *g, const Eval *whole) {
  (void)whole;
  Machine machine = machine_default();
  const char *blas;
  CodegenOptions opt = {.fuse = true, .products = blas_open(&blas), .product_work = 1, .for_ = "train"};
  Graph *low = collectives_share(m->a, lower(m->a, place(m->a, g, &m->layout, &machine)));
  layout_saw(low);
  if (mesh_size(&m->mesh) % ranks_count(ranks) != 0) return NULL;
  Order *order = order_choose(m->a, remat(m->a, low));
  Fusion *f = fuse(m->a, order, collectives_pack(m->a, order->graph, &machine), &opt);
  Compiled *c = program_build(m->a, f, &opt);
  CodeOptions code_opt = {.opt = 1, .cache = cache};
  if (!ranks_use_mesh(ranks, &c->program->mesh)) return "the mesh does not suit the ranks";
  if (!ranks_lead(ranks) && !ranks_meet_near(ranks, true)) return "the ranks are lost";
  Code *code = code_load(c->program, c->kernels, &code_opt, m->diag);
  if (ranks_lead(ranks) && !ranks_meet_near(ranks, true)) return "the ranks are lost";
  if (!code) return "does not compile";
  const char *wrong = compare(m, c->program);
  code_free(code);
  return wrong;
}

static int rank_main(int argc, char **argv) {
  char why[512] = "";
  ranks = ranks_join(60, why, sizeof why);
  if (!ranks) {
    fprintf(stderr, "%s\n", why);
    return 1;
  }
  cache = getenv("SUITE_RANKS_CACHE");
  int nothing = ranks_rank(ranks) > 0 ? open("/dev/null", O_WRONLY) : -1;
  if (nothing >= 0) dup2(nothing, STDOUT_FILENO);
  int code = random_cases(argc, argv, SEEDS, LAYOUTS, check);
  fflush(stdout);
  code = ranks_leave(ranks, code);
  ranks_free(ranks);
  return code;
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

// What rank 0 prints is kept, for the line of totals.
static int launch(int count, char **argv, int *passed, int *failed) {
  FILE *kept = tmpfile();
  char line[4096];
  int p, f, s, before = dup(STDOUT_FILENO);
  if (!kept || before < 0) return 1;
  fflush(stdout);
  dup2(fileno(kept), STDOUT_FILENO);
  int code = ranks_launch(count, argv, false);
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
      printf("%d ranks: %s", count, line);
    }
  }
  fclose(kept);
  if (!counted) (*failed)++;
  return code;
}

int main(int argc, char **argv) {
  static const int counts[] = {2, 4};
  char folder[] = "/tmp/meshc-ranks-XXXXXX";
  const char *only = getenv("NP");
  int passed = 0, failed = 0, code = 0;
  if (ranks_started()) return rank_main(argc, argv);
  if (!code_available()) {
    printf("0 passed, 0 failed, %d skipped\n", SEEDS * LAYOUTS);
    return 0;
  }
  cache = mkdtemp(folder);
  if (cache) setenv("SUITE_RANKS_CACHE", cache, 1);
  for (size_t i = 0; i < countof(counts); i++)
    if (!only || atoi(only) == counts[i]) code |= launch(counts[i], argv, &passed, &failed);
  if (cache) remove_cache();
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return code;
}

// The program in the executables of `meshc compile --emit exe`: it runs the package at the end of
// its own file on inputs from files, without meshc.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/guard.h"
#include "runtime/package/package_batch.h"

typedef struct Runner {
  Arena *arena;
  Diag *diag;
  const char *name, *out, *params;
  int threads;
  VEC(const char *) feed, fetch;
  PackageBatches batches;
} Runner;

static int help(const Package *p, const char *name, FILE *to) {
  fprintf(
      to,
      "usage: %s [--feed NAME=FILE]... [--fetch NAME]... [--out DIR|FILE]\n\n"
      "Computes the outputs of %s, compiled by meshc %s for %s.\n\n"
      "  --feed NAME=FILE   an input: .npy, .npz:KEY, .safetensors:KEY, or a number for a scalar\n"
      "  --fetch NAME       an output; default: all\n"
      "  --out DIR|FILE     write DIR/NAME.npy, or one .npz or .safetensors; default: print\n"
      "  --params FILE      other parameters, .safetensors or .npz\n"
      "  --threads N        default: as many as cores\n\n",
      name, p->model, p->version, p->cpu);
  const Program *program = &package_program(p, "predict")->program;
  for (uint32_t i = 0; i < program->ntensors; i++) {
    const ProgTensor *t = &program->tensor[i];
    if (t->kind != TENSOR_INPUT && t->kind != TENSOR_OUTPUT) continue;
    fprintf(to, "%s %s %s", t->kind == TENSOR_INPUT ? "input " : "output", t->name,
            dtype_text(t->type));
    for (int d = 0; d < t->rank; d++)
      fprintf(to, "%s%s %lld%s", d ? ", " : " [", t->dim[t->declared[d]].name,
              (long long)t->dim[t->declared[d]].whole, d == t->rank - 1 ? "]" : "");
    fprintf(to, "\n");
  }
  return to == stdout ? 0 : 2;
}

// Reads the options. Returns false after an error, or if --help is among them, which *asked says.
static bool read_options(Runner *r, int argc, char **argv, bool *asked) {
  *asked = false;
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    *asked |= !strcmp(word, "--help") || !strcmp(word, "-h");
    if (*asked) return false;
    bool known = !strcmp(word, "--feed") || !strcmp(word, "--fetch") || !strcmp(word, "--out") ||
                 !strcmp(word, "--params") || !strcmp(word, "--threads");
    if (!known || !value) {
      diag_error(r->diag, DIAG_USAGE, (Pos){0},
                 known ? "%s needs an argument" : "unknown option '%s'", word);
      return diag_hint(r->diag, "see %s --help", r->name);
    }
    i++;
    if (!strcmp(word, "--feed")) vec_push(r->arena, r->feed) = value;
    if (!strcmp(word, "--fetch")) vec_push(r->arena, r->fetch) = value;
    if (!strcmp(word, "--out")) r->out = value;
    if (!strcmp(word, "--params")) r->params = value;
    if (!strcmp(word, "--threads")) r->threads = atoi(value);
  }
  return true;
}

static Package *open_own(const Runner *r) {
  struct stat s;
  size_t n;
  int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  void *map = fd >= 0 && fstat(fd, &s) == 0
                  ? mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                  : MAP_FAILED;
  if (fd >= 0) close(fd);
  const char *bytes = map != MAP_FAILED ? package_at_end(map, (size_t)s.st_size, &n) : NULL;
  if (bytes) return package_open_packed(r->arena, r->name, bytes, n, r->diag);
  diag_error(r->diag, DIAG_FILE_MALFORMED, (Pos){0}, "%s contains no package, or is cut off",
             r->name);
  diag_hint(r->diag, "meshc compile MODEL --emit exe -o FILE makes an executable");
  return NULL;
}

static bool compute(Runner *r, const Package *p, Exec *e) {
  PackageBatches *b = &r->batches;
  int64_t steps;
  *b = (PackageBatches){.arena = r->arena,
                        .diag = r->diag,
                        .package = p,
                        .program = package_program(p, "predict"),
                        .exec = e,
                        .first = true,
                        .feed = arena_array(r->arena, NamedArray, r->feed.n + 1)};
  for (uint32_t i = 0; i < r->feed.n; i++)
    if (!package_feed(r->arena, p, b->program, r->feed.at[i], (Pos){0}, &b->feed[b->nfeeds++],
                      r->diag))
      return false;
  if (!package_load(p, &b->program->program, e, r->diag) ||
      (r->params && !package_read_values(&b->program->program, e, r->params, &steps, r->diag)) ||
      !package_predict(b, r->fetch.n, (const char *const *)r->fetch.at))
    return false;
  if (r->out) return package_write_results(b, r->out);
  for (uint32_t i = 0; i < b->nresults; i++)
    array_print(stdout, b->result[i].name, b->result[i].dim, &b->result[i].array);
  return true;
}

static void run(Runner *r, const Package *p) {
  const ExecOptions options = {.threads = r->threads > 0 ? r->threads : 0, .seed = p->seed};
  Exec *e = exec_new(&package_program(p, "predict")->program, &options, r->diag);
  if (e) (void)!compute(r, p, e);
  for (uint32_t i = 0; i < r->batches.nresults; i++) array_free(&r->batches.result[i].array);
  for (uint32_t i = 0; i < r->batches.nfeeds; i++) array_free(&r->batches.feed[i].array);
  exec_free(e);
}

int main(int argc, char **argv) {
  Runner r = {.name = argc > 0 ? argv[0] : "runner"};
  bool asked;
  process_own();
  r.arena = arena_new();
  r.diag = diag_new(r.arena);
  bool ok = read_options(&r, argc, argv, &asked);
  Package *p = ok || asked ? open_own(&r) : NULL;
  if (p && !package_program(p, "predict")) BUG("an executable without a program for predict");
  if (p && asked)
    (void)help(p, r.name, stdout);
  else if (p)
    run(&r, p);
  package_close(p);
  diag_print(r.diag, stderr, false);
  int code = diag_exit(r.diag);
  if (fflush(stdout) != 0 && code == 0) code = 7;
  arena_free(r.arena);
  return code;
}

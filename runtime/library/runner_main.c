// The program in the executables of `meshc compile --emit exe`: it runs the package at the end of
// its own file on inputs from files, or on prompts, without meshc.
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/disk.h"
#include "ir/base/guard.h"
#include "runtime/library/runner.h"
#include "runtime/package/package_batch.h"

// -- options -------------------------------------------------------------------------------------

typedef enum OptionKind { LIST, WORD, INTEGER, REAL, SWITCH } OptionKind;
typedef struct RunnerOption {
  const char *name, *argument, *help;
  OptionKind kind;
  size_t at;        // its place in Runner
  double low, high; // of numbers
} RunnerOption;

#define OUTPUT(name) offsetof(Runner, name)
#define TEXT(name) offsetof(Runner, text.name)
static const RunnerOption output_options[] = {
    {"--feed", "NAME=FILE", "an input: .npy, .npz:KEY, .safetensors:KEY, or a number for a scalar",
     LIST, OUTPUT(feed), 0, 0},
    {"--fetch", "NAME", "an output; default: all", LIST, OUTPUT(fetch), 0, 0},
    {"--out", "DIR|FILE", "write DIR/NAME.npy, or one .npz or .safetensors; default: print", WORD,
     OUTPUT(out), 0, 0},
    {"--params", "FILE", "other parameters, .safetensors or .npz", WORD, OUTPUT(params), 0, 0},
    {"--threads", "N", "default: as many as cores", INTEGER, OUTPUT(threads), 1, 4096},
    {"--train", NULL, "train with the files of the model's data block", SWITCH, OUTPUT(train), 0,
     0},
    {"--data-dir", "DIR", "where they are; default: here", WORD, OUTPUT(directory), 0, 0},
    {"--steps", "N", "default: as many as the model says", INTEGER, OUTPUT(steps), 1, 0x1p53},
    {"--save-params", "FILE", "write what was trained, .safetensors or .npz", WORD, OUTPUT(save), 0,
     0},
    {0}};
// The first rows are of packages that predict, the last ones of packages that train.
enum { PREDICT_OPTIONS = 3, TRAIN_OPTIONS = 4 };
static const RunnerOption text_options[] = {
    {"--prompt", "TEXT", "text to go on from; default: standard input", LIST, TEXT(prompt), 0, 0},
    {"--prompt-file", "FILE", "the same from a file", LIST, TEXT(file), 0, 0},
    {"--max-tokens", "N", "most ids after a prompt; default 200", INTEGER, TEXT(most), 1,
     INT32_MAX},
    {"--temperature", "X", "draw from softmax(logits / X); default 0: the most probable id", REAL,
     TEXT(temperature), 0, 1000},
    {"--top-k", "K", "draw among the K most probable ids", INTEGER, TEXT(top_k), 1, INT32_MAX},
    {"--top-p", "P", "draw among the most probable ids whose probabilities add up to P", REAL,
     TEXT(top_p), 0, 1},
    {"--beams", "N", "beam search: keep the N most probable texts", INTEGER, TEXT(beams), 1, 64},
    {"--seed", "N", "of the draws; default 0", INTEGER, TEXT(seed), 0, 0x1p53},
    {"--stop", "TEXT", "end a text before TEXT", LIST, TEXT(stop), 0, 0},
    {"--quiet", NULL, "print the new text only, without the prompt", SWITCH, TEXT(quiet), 0, 0},
    {"--params", "FILE", "other parameters, .safetensors or .npz", WORD, OUTPUT(params), 0, 0},
    {"--threads", "N", "default: as many as cores", INTEGER, OUTPUT(threads), 1, 4096},
    {0}};

static const char *const no_options[] = {NULL};

static bool predicts(const Package *p) { return package_program(p, "predict") != NULL; }

// Returns the options of a package: all n.
static const RunnerOption *options_of(const Package *p, size_t *n) {
  size_t first = predicts(p) ? 0 : PREDICT_OPTIONS, last = p->training ? 0 : TRAIN_OPTIONS;
  *n = (p->text ? countof(text_options) : countof(output_options) - first - last) - 1;
  return p->text ? text_options : output_options + first;
}

static void list_options(const Package *p, FILE *to) {
  size_t n;
  const RunnerOption *o = options_of(p, &n);
  for (size_t i = 0; i < n; i++)
    fprintf(to, "  %-13s %-10s %s\n", o[i].name, o[i].argument ? o[i].argument : "", o[i].help);
}

static void list_tensors(const Program *program, FILE *to) {
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
}

static void help(const Package *p, const char *name, FILE *to) {
  fprintf(to, "usage: %s [option...]\n\n%s %s, compiled by meshc %s for %s.\n\n", name,
          p->text       ? "Generates text with"
          : predicts(p) ? "Computes the outputs of"
                        : "Trains",
          p->model, p->version, p->build);
  list_options(p, to);
  fprintf(to, "\n");
  const PackageProgram *predict = package_program(p, "predict");
  if (predict) list_tensors(&predict->program, to);
}

static bool wrong_value(const Runner *r, const RunnerOption *o, const char *value) {
  return diag_error(r->diag, DIAG_USAGE, (Pos){0}, "%s takes %s from %.0f to %.0f, not '%s'",
                    o->name, o->kind == INTEGER ? "an integer" : "a number", o->low, o->high,
                    value);
}

static bool set_option(Runner *r, const RunnerOption *o, const char *value) {
  char *at = (char *)r + o->at, *end = NULL;
  if (o->kind == LIST) vec_push(r->arena, *(Words *)(void *)at) = value;
  if (o->kind == WORD) *(const char **)(void *)at = value;
  if (o->kind == SWITCH) *(bool *)at = true;
  if (o->kind == LIST || o->kind == WORD || o->kind == SWITCH) return true;
  double x = strtod(value, &end);
  if (o->kind == INTEGER) {
    int64_t n = strtoll(value, &end, 10);
    x = (double)n;
    *(int64_t *)(void *)at = n;
  } else {
    *(double *)(void *)at = x;
  }
  return (*value && !*end && x >= o->low && x <= o->high) || wrong_value(r, o, value);
}

// Tells the messages which options there are.
static void tell_options(const Runner *r, const Package *p) {
  Words names = {0};
  size_t n;
  const RunnerOption *o = options_of(p, &n);
  for (size_t i = 0; i < n; i++) vec_push(r->arena, names) = o[i].name;
  vec_push(r->arena, names) = NULL;
  diag_program(r->diag, r->name, names.at);
}

static const RunnerOption *find_option(const Package *p, const char *name) {
  size_t n;
  const RunnerOption *o = options_of(p, &n);
  for (size_t i = 0; i < n; i++)
    if (strcmp(o[i].name, name) == 0) return &o[i];
  return NULL;
}

// Reports the option `name` with the error `text`.
static bool wrong_option(const Runner *r, const Package *p, const char *name, const char *text) {
  const char *names[countof(output_options) + countof(text_options)];
  size_t n;
  const RunnerOption *o = options_of(p, &n);
  for (size_t i = 0; i < n; i++) names[i] = o[i].name;
  diag_error(r->diag, DIAG_USAGE, (Pos){0}, "%s", text);
  diag_hint(r->diag, "see %s --help", r->name);
  return diag_nearest(r->diag, name, names, n);
}

// Reads the options: --NAME VALUE, --NAME=VALUE, or --NAME for a switch. Returns false after an
// error.
static bool read_options(Runner *r, const Package *p, int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *equals = strncmp(argv[i], "--", 2) == 0 ? strchr(argv[i], '=') : NULL,
               *name = equals ? arena_text(r->arena, argv[i], (size_t)(equals - argv[i])) : argv[i],
               *value = equals ? equals + 1 : NULL;
    const RunnerOption *o = find_option(p, name);
    if (!o) return wrong_option(r, p, name, arena_printf(r->arena, "unknown option '%s'", name));
    if (o->argument && !value && !(value = argv[++i]))
      return wrong_option(r, p, "", arena_printf(r->arena, "%s needs an argument", name));
    if (!o->argument && value)
      return wrong_option(r, p, "", arena_printf(r->arena, "%s takes no argument", name));
    if (!set_option(r, o, value)) return false;
  }
  return true;
}

// Returns whether `out`, a file to be written, is one of those that are read, or the executable.
static bool is_read(const Runner *r, const char *out) {
  bool same =
      disk_same_file(out, "/proc/self/exe") || (r->params && disk_same_file(out, r->params));
  for (uint32_t i = 0; i < r->feed.n; i++) {
    const char *equals = strchr(r->feed.at[i], '='), *path = equals ? equals + 1 : r->feed.at[i],
               *key = strrchr(path, ':');
    same |= disk_same_file(out, path);
    if (key) same |= disk_same_file(out, arena_text(r->arena, path, (size_t)(key - path)));
  }
  return same;
}

// Parameters may be saved where they were read; package_train_open looks at the data.
static bool may_write(const Runner *r) {
  bool save = r->save && disk_same_file(r->save, "/proc/self/exe");
  if (!save && (!r->out || !is_read(r, r->out)))
    return !r->out || package_may_write(r->out, r->diag);
  diag_error(r->diag, DIAG_USAGE, (Pos){0}, "%s is also read in this run", save ? r->save : r->out);
  return diag_hint(r->diag, "name another file to write");
}

// Returns false after an error: an option that what is to be done does not look at.
static bool options_fit(const Runner *r, bool trains) {
  const char *of_training = r->directory ? "--data-dir"
                            : r->steps   ? "--steps"
                            : r->save    ? "--save-params"
                                         : NULL,
             *of_outputs = r->feed.n    ? "--feed"
                           : r->fetch.n ? "--fetch"
                           : r->out     ? "--out"
                                        : NULL;
  if (!(trains ? of_outputs : of_training)) return true;
  diag_error(r->diag, DIAG_USAGE, (Pos){0}, "%s is an option of a run %s --train",
             trains ? of_outputs : of_training, trains ? "without" : "with");
  return diag_hint(r->diag, trains ? "leave out --train, which takes its rows from the data block"
                                   : "add --train, or leave it out");
}

static bool asks_for_help(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return true;
  return false;
}

// -- the package ---------------------------------------------------------------------------------

// look: only what --help says is needed.
static Package *open_own(const Runner *r, bool look) {
  struct stat s;
  size_t n;
  int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  void *map = fd >= 0 && fstat(fd, &s) == 0
                  ? mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                  : MAP_FAILED;
  if (fd >= 0) close(fd);
  const char *bytes = map != MAP_FAILED ? package_at_end(map, (size_t)s.st_size, &n) : NULL;
  if (bytes)
    return (look ? package_look : package_open_packed)(r->arena, r->name, bytes, n, r->diag);
  diag_error(r->diag, DIAG_FILE_MALFORMED, (Pos){0}, "%s contains no package, or is cut off",
             r->name);
  diag_hint(r->diag, "meshc compile MODEL --emit exe -o FILE makes an executable");
  return NULL;
}

static bool compute(Runner *r, const Package *p, Exec *e, PackageBatches *b) {
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
      !package_predict(b, r->fetch.n, r->fetch.at))
    return false;
  if (r->out) return package_write_results(b, r->out);
  for (uint32_t i = 0; i < b->nresults; i++) {
    const PackageResult *x = &b->result[i];
    array_print_named(stdout, x->name, x->dim, &x->array, &x->element, x->axis);
  }
  return true;
}

static void run_outputs(Runner *r, const Package *p) {
  const ExecOptions options = {.threads = (int)r->threads, .seed = p->seed};
  PackageBatches batches = {0};
  Exec *e = package_exec(package_program(p, "predict"), &options, r->diag);
  if (e) (void)!compute(r, p, e, &batches);
  for (uint32_t i = 0; i < batches.nresults; i++) array_free(&batches.result[i].array);
  for (uint32_t i = 0; i < batches.nfeeds; i++) array_free(&batches.feed[i].array);
  exec_free(e);
}

static void run_model(Runner *r, const Package *p) {
  bool trains = r->train || !predicts(p);
  if (options_fit(r, trains) && may_write(r)) (trains ? runner_train : run_outputs)(r, p);
}

static void run(Runner *r, const Package *p, int argc, char **argv) {
  if (!p->text && !predicts(p) && !p->training) BUG("an executable without a program that it runs");
  tell_options(r, p);
  if (asks_for_help(argc, argv))
    help(p, r->name, stdout);
  else if (read_options(r, p, argc, argv))
    (p->text ? runner_text : run_model)(r, p);
}

// Reports results that could not be written. A write before the last one may have failed, too.
static void check_output(const Runner *r) {
  bool flushed = fflush(stdout) == 0;
  if ((flushed && !ferror(stdout)) || diag_errors(r->diag)) return;
  diag_error(r->diag, DIAG_NO_DISK, (Pos){0}, "cannot write standard output%s%s",
             flushed ? "" : ": ", flushed ? ", which is incomplete" : strerror(errno));
}

int main(int argc, char **argv) {
  Runner r = {.name = argc > 0 ? argv[0] : "runner",
              .text = {.most = 200, .temperature = -1, .top_p = 1}};
  process_own();
  r.arena = arena_new();
  r.diag = diag_new(r.arena);
  diag_program(r.diag, r.name, no_options); // until it is known what the package does
  Package *p = open_own(&r, asks_for_help(argc, argv));
  if (p) run(&r, p, argc, argv);
  package_close(p);
  check_output(&r);
  diag_print(r.diag, stderr, false);
  int code = diag_errors(r.diag) ? diag_exit(r.diag) : r.code;
  arena_free(r.arena);
  return code;
}

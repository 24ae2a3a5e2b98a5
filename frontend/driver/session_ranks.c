// Starts and joins the ranks of a run (--np, mpirun), checks that they agree on model and options,
// and decides which of them prints. The rendezvous itself is collectives/ranks.
//
// Every rank runs the same program. Only rank 0 prints and writes files. Another rank prints an
// error only if no other rank has reported it.
#define _GNU_SOURCE // fopencookie
#include "frontend/driver/session.h"
#include "frontend/driver/signals.h"
#include "ir/base/hash.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WHY = 512, DEADLINE = 60 };

bool session_first(const Session *s) { return !s->ranks || ranks_rank(s->ranks) == 0; }
bool session_remarks(const Session *s) {
  return session_first(s) && !option_given(s->opt, OPTION_QUIET);
}

// -- starting and joining -----------------------------------------------------------------------

static bool runs_on_ranks(CommandId c) {
  return c == COMMAND_RUN || c == COMMAND_TRAIN || c == COMMAND_EVAL || c == COMMAND_PREDICT ||
         c == COMMAND_GENERATE || c == COMMAND_BENCH || c == COMMAND_DOCTOR;
}

static bool refuse(const Session *s, OptionId id, const char *why, const char *hint) {
  diag_error(s->diag, DIAG_USAGE, option_use(s->opt, id)->pos, "%s", why);
  if (hint) diag_hint(s->diag, "%s", hint);
  return false;
}

// Returns whether the launcher gave this process rank 0. Only rank 0 prints the message if the
// ranks cannot join, because joining then fails for all ranks.
static bool is_first_by_launcher(void) {
  static const char *const sign[] = {"MESHC_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
  for (size_t i = 0; i < countof(sign); i++) {
    const char *text = getenv(sign[i]);
    if (text) return atoi(text) == 0;
  }
  return true;
}

// Returns how many ranks the launcher has started, 0 if it does not say.
static int ranks_by_launcher(void) {
  static const char *const sign[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
  for (size_t i = 0; i < countof(sign); i++) {
    const char *text = getenv(sign[i]);
    if (text) return atoi(text);
  }
  return 0;
}

// Refuses --np under a launcher that has started another number of ranks. Returns false after an
// error, which rank 0 reports.
static bool np_fits(const Session *s, int64_t np) {
  int started = np && ranks_started() ? ranks_by_launcher() : 0;
  if (!started || started == np) return true;
  if (!is_first_by_launcher()) return false;
  diag_error(s->diag, DIAG_USAGE, option_use(s->opt, OPTION_NP)->pos,
             "--np %lld, and the MPI launcher has started %d rank%s", (long long)np, started,
             plural(started));
  return diag_hint(s->diag, "leave out --np under mpirun, or mpirun, which --np starts where the "
                            "program has --comm mpi");
}

static void drop_output(void) {
  // the JSON of this rank's errors still goes to the standard output that the process started with
  json_output(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  int nothing = open("/dev/null", O_WRONLY);
  if (nothing >= 0) dup2(nothing, STDOUT_FILENO);
  if (nothing >= 0) close(nothing);
}

// Reads the faults that a processor injects. "value@2:40": collective 40 of processor 2 gives it a
// wrong element. "kernel@2:40": kernel 40 of processor 2 computes a wrong number. Faults of ranks
// are read by ranks_inject. Returns false if the text is malformed.
static bool read_inject(Session *s, const OptionUse *fault) {
  char rest;
  long long processor, call;
  bool value = fault && !strncmp(fault->text, "value@", 6),
       kernel = fault && !strncmp(fault->text, "kernel@", 7);
  if (fault && !strncmp(fault->text, "pass@", 5)) s->inject_pass = fault->text + 5;
  if (!value && !kernel) return true;
  if (sscanf(strchr(fault->text, '@') + 1, "%lld:%lld%c", &processor, &call, &rest) != 2 ||
      processor < 0 || call < 0)
    return false;
  s->inject = (ExecInject){processor, call, kernel};
  return true;
}

static int refuse_fault(const Session *s) {
  refuse(s, OPTION_FAULT,
         "--fault takes HOW@RANK:CALL, like count@1:40, or value@PROCESSOR:CALL, "
         "kernel@PROCESSOR:CALL",
         "HOW is one of count, kind, line, skip, kill, stop");
  return 2;
}

static int join(Session *s, int64_t deadline, bool log_all, DigestMode data) {
  char why[WHY] = "";
  int code;
  s->ranks = ranks_join((double)deadline, why, sizeof why, &code);
  if (!s->ranks && !*why) return code;
  if (!s->ranks) {
    if (is_first_by_launcher()) fprintf(stderr, "meshc: error: %s\n", why);
    return 2;
  }
  const OptionUse *fault = option_use(s->opt, OPTION_FAULT);
  if (ranks_rank(s->ranks) > 0 && !log_all) drop_output();
  if (data != DIGEST_OFF) digest_record(data);
  return !fault || s->inject.call >= 0 || s->inject_pass || ranks_inject(s->ranks, fault->text)
             ? 0
             : refuse_fault(s);
}

// Refuses a model on standard input for several ranks, because only one process can read it.
// Returns false after an error, which rank 0 reports.
static bool model_for_all(const Session *s, bool ranks) {
  if (!ranks || s->opt->command == COMMAND_DOCTOR || !session_from_stdin(s)) return true;
  if (!is_first_by_launcher()) return false;
  diag_error(s->diag, DIAG_USAGE, (Pos){0},
             "several processes cannot read the model from standard input");
  return diag_hint(s->diag, "write it to a file that all of them can read");
}

// What the options say about ranks.
typedef struct RankOptions {
  int64_t np, deadline; // np is 0 without --np
  bool local, mpi;      // --comm local: a single process; --comm mpi
  bool saves;           // the run saves checkpoints
  bool log_all;         // all ranks print
  DigestMode check;
} RankOptions;

static bool read_options(const Session *s, RankOptions *o) {
  static const char *const words[] = {"local", "mpi", "nccl"}, *const logs[] = {"0", "all"},
                           *const data[] = {"sampled", "full", "off"};
  static const DigestMode modes[] = {DIGEST_SAMPLED, DIGEST_FULL, DIGEST_OFF};
  int comm, log, check;
  if (!option_integer(s->opt, OPTION_NP, 0, 1, 4096, s->diag, &o->np) ||
      !option_integer(s->opt, OPTION_TIMEOUT, DEADLINE, 0, 1000000, s->diag, &o->deadline) ||
      !option_word(s->opt, OPTION_COMM, 3, words, s->diag, &comm) ||
      !option_word(s->opt, OPTION_LOG_RANK, 2, logs, s->diag, &log) ||
      !option_word(s->opt, OPTION_CHECK_DATA, 3, data, s->diag, &check))
    return false;
  bool given = option_given(s->opt, OPTION_COMM);
  o->local = given && comm == 0;
  o->mpi = given && comm == 1;
  o->saves = s->opt->command == COMMAND_TRAIN && option_given(s->opt, OPTION_CHECKPOINT_DIR);
  o->log_all = log == 1;
  o->check = modes[check];
  return true;
}

// Refuses options with which no ranks can start. Returns false after an error.
static bool may_start(const Session *s, const RankOptions *o) {
  if (o->np && o->local)
    return refuse(s, OPTION_NP, "--np starts processes, and --comm local is a single one", NULL);
  return np_fits(s, o->np) && model_for_all(s, o->np > 0 || (!o->local && ranks_started()));
}

// Refuses options of ranks for a single process. Returns false after an error.
static bool may_run(const Session *s, const RankOptions *o) {
  if (o->mpi && !ranks_started())
    return refuse(s, OPTION_COMM, "--comm mpi needs ranks", "say --np N, or mpirun -n N meshc ...");
  bool single = o->local || !ranks_started();
  if (single && option_given(s->opt, OPTION_FAULT) && s->inject.call < 0 && !s->inject_pass)
    return refuse(s, OPTION_FAULT,
                  "--fault HOW@RANK:CALL is of ranks, and this is a single process",
                  "say --np N, or value@PROCESSOR:CALL");
  return true;
}

bool session_ranks(Session *s, char **argv, int *code) {
  RankOptions o;
  *code = 2;
  if (!runs_on_ranks(s->opt->command)) return true;
  if (!session_check_device(s)) {
    *code = diag_exit(s->diag);
    return false;
  }
  if (!read_inject(s, option_use(s->opt, OPTION_FAULT))) return refuse_fault(s) == 0;
  if (!read_options(s, &o) || !may_start(s, &o)) return false;
  if (o.np && !ranks_started()) {
    *code = ranks_launch((int)o.np, argv, o.mpi, o.saves);
    return false;
  }
  if (o.saves) signals_expect_checkpoint();
  if (!may_run(s, &o)) return false;
  if (o.local || !ranks_started()) return true;
  *code = join(s, o.deadline, o.log_all, o.check);
  return *code == 0;
}

// -- facts about the run in which all ranks must agree ------------------------------------------

static const char *const facts[] = {"version of meshc", "seed",       "mesh",
                                    "layout",           "model file", "model (options, imports)"};
_Static_assert(countof(facts) * sizeof(uint64_t) <= NOTE_DATA, "the facts fit a note");

static uint64_t hash_json(json_t *x) {
  char *text = json_dumps(x, JSON_COMPACT);
  uint64_t h = fnv_text(text);
  free(text);
  json_decref(x);
  return h;
}

// Ends the run with an error at the first fact (version, mesh, options ...) in which a rank differs
// from rank 0. Returns false after the error.
static bool compare_facts(Session *s, const RankNote *const *all) {
  uint64_t first[countof(facts)], other[countof(facts)];
  memcpy(first, all[0]->data, sizeof first);
  for (int i = 1; i < ranks_count(s->ranks); i++) {
    memcpy(other, all[i]->data, sizeof other);
    for (size_t k = 0; k < countof(facts); k++)
      if (first[k] != other[k])
        return ranks_fail(s->ranks, "rank %d has another %s than rank 0", i, facts[k]);
  }
  return true;
}

bool session_agree(Session *s) {
  if (!s->ranks) return true;
  const RankNote *const *all;
  RankNote mine = {.what = NOTE_MODEL};
  const uint64_t own[countof(facts)] = {
      fnv_text(MESHC_VERSION),
      s->model->graph->spec.seed,
      hash_json(mesh_json(&s->model->mesh)),
      hash_json(layout_json(s)),
      fnv_text(s->text),
      fnv_text(graph_print(s->arena, s->model->graph, NULL, NULL, NULL)),
  };
  memcpy(mine.data, own, sizeof own);
  if (!session_same_files(s, false)) return false;
  if (!ranks_meet(s->ranks, &mine, false, &all) || !compare_facts(s, all)) return false;
  if (ranks_use_mesh(s->ranks, &s->model->mesh)) return true;
  int64_t processors = mesh_size(&s->model->mesh);
  if (processors == 1)
    diag_error(s->diag, DIAG_USAGE, s->model->mesh.pos,
               "%d ranks cannot share one processor: the model has no mesh", ranks_count(s->ranks));
  else
    diag_error(s->diag, DIAG_USAGE, s->model->mesh.pos,
               "%d ranks cannot share the %lld processors of the mesh %s", ranks_count(s->ranks),
               (long long)processors, mesh_text(s->arena, &s->model->mesh));
  return diag_hint(s->diag, "the number of ranks must divide the number of processors: --mesh "
                            "AXIS=SIZE,... sets the mesh");
}

bool session_before_compile(Session *s, bool cached) {
  return !s->ranks || !cached || ranks_is_leader(s->ranks) || ranks_meet_local(s->ranks, true);
}

// Returns a hash of a program without the texts of its kernels, which one from the compile cache
// lacks. The names of kernels are hashes of their texts.
static uint64_t program_hash(Arena *a, const Program *p) {
  Program bare = *p;
  bare.kernel = arena_copy(a, p->kernel, p->nkernels * sizeof *p->kernel);
  for (uint32_t i = 0; i < p->nkernels; i++) bare.kernel[i].text = NULL;
  return fnv_text(program_print(a, &bare));
}

bool session_after_compile(Session *s, bool cached, const Program *p) {
  if (!s->ranks) return true;
  if (cached && ranks_is_leader(s->ranks) && !ranks_meet_local(s->ranks, true)) return false;
  const RankNote *const *all;
  RankNote mine = {.what = NOTE_COMPILE};
  uint64_t own = program_hash(s->arena, p), other;
  memcpy(mine.data, &own, sizeof own);
  if (!ranks_meet(s->ranks, &mine, true, &all)) return false;
  for (int i = 1; i < ranks_count(s->ranks); i++) {
    memcpy(&own, all[0]->data, sizeof own);
    memcpy(&other, all[i]->data, sizeof other);
    if (own != other)
      return ranks_fail(s->ranks, "rank %d has compiled another program than rank 0", i);
  }
  return true;
}

// -- who prints ---------------------------------------------------------------------------------

typedef struct Prefixed {
  int rank;
  bool inside; // the last byte written was not the end of a line
} Prefixed;

static ssize_t write_prefixed(void *cookie, const char *text, size_t n) {
  Prefixed *p = cookie;
  for (size_t i = 0; i < n; i++) {
    if (!p->inside) fprintf(stdout, "rank %d: ", p->rank);
    p->inside = text[i] != '\n';
    fputc(text[i], stdout);
  }
  return fflush(stdout) == 0 ? (ssize_t)n : 0;
}

FILE *session_output(const Session *s) {
  static Prefixed own;
  const char *log = option_text(s->opt, OPTION_LOG_RANK);
  if (!s->ranks || !log || strcmp(log, "all") != 0) return stdout;
  own.rank = ranks_rank(s->ranks);
  FILE *f = fopencookie(&own, "w", (cookie_io_functions_t){.write = write_prefixed});
  if (!f) return stdout;
  setvbuf(f, NULL, _IOLBF, 0);
  return f;
}

// Returns true in the one rank that prints the diagnostics. All ranks have those of a run that
// succeeded or was interrupted, so rank 0 prints them. An error is printed by the first rank that
// claims the report.
bool session_speaks(const Session *s, int code) {
  if (!s->ranks) return true;
  if (code == 0 || code == EXIT_INTERRUPTED) return ranks_rank(s->ranks) == 0;
  return code != EXIT_LOST && ranks_claim_report(s->ranks);
}

int session_leave(Session *s, int code) {
  if (!s->ranks) return code;
  code = ranks_leave(s->ranks, code);
  ranks_free(s->ranks);
  s->ranks = NULL;
  return code;
}

// What `meshc compile --emit` writes beside packages: an executable, an object or a shared object
// with a header, or the text of the kernels. All but the last contain a packed package.
//
//   exe          a copy of the program meshc_runner, then the package
//   obj, shared  a C source with the package in its data, compiled by the system's cc
#define _GNU_SOURCE // mkdtemp
#include "frontend/driver/package_emit_internal.h"
#include "ir/base/disk.h"
#include "runtime/package/package.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct Emitting {
  Session *s;
  const char *out, *folder; // the file to write; a folder for parts, which is removed at the end
  const char *package;      // in the folder
  Interface interface;
} Emitting;

static bool fails(const Emitting *e, const char *path) {
  return session_cannot_write(e->s, path, (Pos){0});
}

// -- parts of the installation ------------------------------------------------------------------

// Returns the path of a file that is installed with meshc: beside the program, or in ../lib.
// Returns NULL after an error.
static const char *installed(const Session *s, const char *file) {
  static const char *const places[] = {"", "../lib/meshc/", "../lib/"};
  char self[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n > 0) {
    self[n] = '\0';
    for (size_t i = 0; i < countof(places); i++) {
      const char *path =
          arena_printf(s->arena, "%s/%s%s", path_folder(s->arena, self), places[i], file);
      if (access(path, R_OK) == 0) return path;
    }
  }
  diag_error(s->diag, DIAG_UNAVAILABLE, option_use(s->opt, OPTION_EMIT)->pos,
             "this installation of meshc lacks %s", file);
  diag_hint(s->diag, "install meshc by cmake --install, or build the target %s", file);
  return NULL;
}

// -- an executable ------------------------------------------------------------------------------

// Copies a file to `out`. Returns its bytes, or -1 with errno.
static int64_t copy_file(const char *path, DiskFile *out) {
  enum { PIECE = 1 << 16 };
  FILE *f = mem_fopen(path, "rb");
  char *room = mem_alloc(PIECE);
  int64_t all = f ? 0 : -1;
  for (size_t n; f && (n = fread(room, 1, PIECE, f)) > 0; all += (int64_t)n) disk_put(out, room, n);
  if (f && ferror(f)) all = -1;
  if (f) fclose(f);
  free(room);
  return all;
}

// Writes a copy of the file `from` to e->out, with the package behind it if `package` is not NULL.
static bool put_copy(const Emitting *e, const char *from, const char *package, bool executable) {
  DiskFile f;
  if (!disk_begin(&f, e->out)) return fails(e, e->out);
  int64_t n = copy_file(from, &f);
  bool ok = n >= 0 && (!package || package_append(e->s->arena, package, n, &f, e->s->diag));
  if (!ok) disk_abandon(&f);
  if (n < 0) return fails(e, from);
  if (!ok) return false;
  mode_t mask = umask(0);
  umask(mask);
  return (disk_commit(&f) && (!executable || chmod(e->out, 0777 & ~mask) == 0)) || fails(e, e->out);
}

static bool emit_exe(const Emitting *e) {
  const char *runner = installed(e->s, "meshc_runner");
  return runner && put_copy(e, runner, e->package, true);
}

// -- objects ------------------------------------------------------------------------------------

// Runs the C compiler, which prints its own messages. Returns false after an error.
static bool run_cc(const Emitting *e, char **argv) {
  const char *cc = getenv("CC");
  Session *s = e->s;
  pid_t child;
  int status = 0;
  if (!cc || !*cc) cc = "cc";
  argv[0] = arena_text(s->arena, cc, strlen(cc));
  int error = posix_spawnp(&child, cc, NULL, NULL, argv, environ);
  if (error == 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
      WEXITSTATUS(status) == 0)
    return true;
  if (error || (WIFEXITED(status) && WEXITSTATUS(status) == 127))
    diag_error(s->diag, DIAG_UNAVAILABLE, option_use(s->opt, OPTION_EMIT)->pos,
               "cannot run the C compiler %s: %s", cc, strerror(error ? error : ENOENT));
  else
    diag_error(s->diag, DIAG_FAILURE, option_use(s->opt, OPTION_EMIT)->pos,
               "the C compiler %s failed", cc);
  return diag_hint(s->diag, "install gcc or name one by CC; --emit exe and packages need none");
}

static bool write_text(const Emitting *e, const char *path, const char *packed) {
  char *text;
  size_t n;
  FILE *f = mem_stream(&text, &n);
  if (packed)
    put_source(f, &e->interface, packed);
  else
    put_header(f, &e->interface);
  mem_stream_close(f);
  bool ok = session_write(e->s, path, text, n, false, (Pos){0});
  free(text);
  return ok;
}

static bool pack(const Emitting *e, const char *path) {
  DiskFile f;
  int64_t bytes;
  if (!disk_begin(&f, path)) return fails(e, path);
  if (package_pack(e->s->arena, e->package, &f, &bytes, e->s->diag))
    return disk_commit(&f) || fails(e, path);
  disk_abandon(&f);
  return false;
}

static char *word(const Emitting *e, const char *text) {
  return arena_text(e->s->arena, text, strlen(text));
}

// The compiler writes to our folder: what fails at the place of e->out is then ours to report.
static bool emit_object(const Emitting *e, bool shared) {
  Arena *a = e->s->arena;
  const char *library = shared ? installed(e->s, "libmeshc_run.a") : "",
             *packed = arena_printf(a, "%s/packed", e->folder),
             *source = arena_printf(a, "%s/source.c", e->folder),
             *made = arena_printf(a, "%s/made", e->folder);
  size_t stem = strlen(e->out) - (text_ends(e->out, ".so") ? 3 : text_ends(e->out, ".o") ? 2 : 0);
  const char *header = arena_printf(a, "%.*s.h", (int)stem, e->out);
  if (!library || !pack(e, packed) || !write_text(e, source, packed)) return false;
  char *link[] = {NULL,
                  word(e, "-shared"),
                  word(e, "-fPIC"),
                  word(e, "-O2"),
                  word(e, "-o"),
                  word(e, made),
                  word(e, source),
                  word(e, library),
                  word(e, "-Wl,--exclude-libs,ALL"),
                  word(e, "-Wl,--gc-sections,-s"),
                  word(e, "-ljansson"),
                  word(e, "-lz"),
                  word(e, "-lm"),
                  word(e, "-ldl"),
                  word(e, "-lpthread"),
                  NULL};
  char *only[] = {NULL,          word(e, "-c"), word(e, "-fPIC"), word(e, "-O2"),
                  word(e, "-o"), word(e, made), word(e, source),  NULL};
  return run_cc(e, shared ? link : only) && put_copy(e, made, NULL, shared) &&
         write_text(e, header, NULL);
}

// -- texts --------------------------------------------------------------------------------------

static bool emit_text(Session *s, const PackagePlan *plan, const char *out, bool assembly) {
  int64_t opt;
  if (!option_integer(s->opt, OPTION_OPT, 2, 0, 3, s->diag, &opt)) return false;
  const PackageBuild *b = &plan->build[0];
  const CodeOptions options = {.opt = (int)opt, .level = b->level};
  const Compiled *c = b->made[package_emitted(plan)].compiled;
  const char *text = b->gpu
                         ? package_gpu_text(s, b, (uint32_t)package_emitted(plan))
                         : code_text(s->arena, c->program, c->kernels, &options, assembly, s->diag);
  return text && session_write(s, out, text, strlen(text), false, (Pos){0});
}

// -- all ----------------------------------------------------------------------------------------

static bool is_part(const char *name) {
  (void)name; // all files of the temporary folder are ours
  return true;
}

static const char *path_temporary(void) {
  const char *path = getenv("TMPDIR");
  return path && *path == '/' ? path : "/tmp";
}

static void remove_folder(const char *path) {
  int folder = disk_folder(path), above = disk_folder(path_temporary());
  if (folder >= 0) {
    (void)disk_remove_folder(folder, "package", is_part);
    close(folder);
  }
  const char *slash = strrchr(path, '/');
  if (above >= 0) {
    (void)disk_remove_folder(above, slash ? slash + 1 : path, is_part);
    close(above);
  }
}

static bool emit(Emitting *e, PackagePlan *plan, PackageEmit kind) {
  return package_write(e->s, plan, e->package) &&
         (kind == EMIT_EXE ? emit_exe(e) : emit_object(e, kind == EMIT_SHARED));
}

// Returns what the outputs stand for, by the numbers of their tensors.
static const Result *results(Session *s, const Program *p, const Graph *g) {
  Result *r = arena_array(s->arena, Result, p->ntensors + 1);
  for (uint32_t t = 0; t < p->ntensors; t++)
    if (p->tensor[t].kind == TENSOR_OUTPUT) r[t] = package_result(s, &p->tensor[t], g);
  return r;
}

bool package_emit(Session *s, PackagePlan *plan, const char *out, PackageEmit kind) {
  if (kind == EMIT_LLVM || kind == EMIT_ASM) return emit_text(s, plan, out, kind == EMIT_ASM);
  int part = package_emitted(plan) < 0 ? 0 : package_emitted(plan);
  const char *slash = strrchr(out, '/'), *model = strrchr(s->opt->argument.at[0], '/');
  const char *file = slash ? slash + 1 : out;
  size_t stem = strcspn(file, ".");
  const char *name = c_name(s->arena, arena_text(s->arena, file, stem ? stem : strlen(file)));
  const Program *program = plan->build[0].made[part].compiled->program;
  char *folder = arena_printf(s->arena, "%s/meshc-XXXXXX", path_temporary());
  if (!mkdtemp(folder)) return session_cannot_write(s, folder, (Pos){0});
  Emitting e = {.s = s,
                .out = out,
                .folder = folder,
                .package = arena_printf(s->arena, "%s/package", folder),
                .interface = {s->arena, name, model ? model + 1 : s->opt->argument.at[0], program,
                              c_names(s->arena, program), plan->generates,
                              results(s, program, plan->part[part].of.graph)}};
  bool ok = emit(&e, plan, kind);
  remove_folder(folder);
  return ok;
}

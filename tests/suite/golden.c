// Runs every text case under tests/cases. A case is a file with the model, the command lines and
// the expected output:
//
//   # meshc check --layout b=rows --mesh rows=2      first lines, optional; default: check
//   dim b = 4
//   y = relu(z)  # error E0201: unknown name z       an error expected on its line
//   --- contains        ordered substrings of standard output, one per line
//   --- lacks           substrings that must not occur there
//   --- expect          standard output exactly (`golden --bless FILE` rewrites it)
//   --- same NAME       standard output is the file NAME
//   --- stderr          ordered substrings of standard error
//   --- exit 3          the exit code (default 0, or not 0 when errors are expected)
//   --- memory 300      limit in MiB of the memory that the program may allocate; skipped under the
//                       sanitizers, which need more than any limit
//   --- file data.csv   a file beside the model, up to the next section; `bytes NAME` is one in hex
//   --- link NAME PATH  a symbolic link beside the model
//
// Several `# meshc` lines run one after the other. The expectations are about the last command; the
// others must succeed. `> NAME` keeps the output of a command beside the model. The folder of the
// model and its files is empty before each case; {dir} in options and in expected output means this
// folder. `{none}`: no model is given. The suite finds all cases by itself. It fails if a row of
// ir/base/diag.def has no case that shows its code.
#define _XOPEN_SOURCE 700 // nftw
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontend/frontend.h"
#include "tests/suite/common/code.h"

typedef struct Section {
  const char *head; // "contains", "exit 3"
  char *body;       // NUL-terminated
} Section;

enum { MAX_SECTIONS = 32, MAX_LINES = 2000, MAX_WORDS = 64, MAX_COMMANDS = 8 };
typedef struct Case {
  const char *path;
  int ncommands;
  const char *command[MAX_COMMANDS]; // without "# meshc "
  char *model;
  int nsections;
  Section section[MAX_SECTIONS];
} Case;

static Arena *arena;
static int passed, failed, skipped;
static bool seen[DIAG_COUNT];
static char work[] = "/tmp/meshc-golden-XXXXXX";

static char *read_file(const char *path) {
  size_t n;
  return file_text(arena, path, &n);
}

static void make_parents(const char *path) {
  char *part = arena_printf(arena, "%s", path);
  for (char *slash = part; (slash = strchr(slash + 1, '/'));) {
    *slash = 0;
    mkdir(part, 0777);
    *slash = '/';
  }
}

static void write_file(const char *path, const char *text) {
  make_parents(path);
  FILE *f = fopen(path, "wb");
  if (!f) return;
  fputs(text, f);
  fclose(f);
}

// Reads a case and splits its text at the `--- ` lines.
static Case case_read(const char *path) {
  Case c = {.path = path, .model = read_file(path)};
  if (!c.model) return c;
  for (const char *line = c.model; !strncmp(line, "# meshc ", 8) && c.ncommands < MAX_COMMANDS;
       line += strcspn(line, "\n") + 1)
    c.command[c.ncommands++] = arena_text(arena, line + 8, strcspn(line + 8, "\n"));
  if (!c.ncommands) c.command[c.ncommands++] = "check";
  char *at = !strncmp(c.model, "--- ", 4) ? c.model : strstr(c.model, "\n--- ");
  while (at && c.nsections < MAX_SECTIONS) {
    if (*at == '\n') at++; // the newline ends the section before
    *at = 0;
    char *head = at + 4, *end = strchr(head, '\n');
    if (end) *end = 0;
    Section *s = &c.section[c.nsections++];
    s->head = head;
    s->body = end ? end + 1 : head + strlen(head);
    at = !strncmp(s->body, "--- ", 4) ? s->body : strstr(s->body, "\n--- ");
  }
  return c;
}

static const Section *case_section(const Case *c, const char *head) {
  for (int i = 0; i < c->nsections; i++)
    if (!strncmp(c->section[i].head, head, strlen(head))) return &c->section[i];
  return NULL;
}

// -- the folder of a case -----------------------------------------------------------------------

static const char *beside(const char *name) { return arena_printf(arena, "%s/%s", work, name); }

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at) {
  (void)info, (void)kind;
  return at->level ? remove(path) : 0;
}

static void empty_folder(void) { nftw(work, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

// Writes a file from pairs of hex digits. Blanks, line ends and comments after `#` are ignored.
static void write_bytes(const char *path, const char *hex) {
  FILE *f = fopen(path, "wb");
  if (!f) return;
  while (*(hex += strspn(hex, " \n"))) {
    char pair[3] = {hex[0], hex[1]};
    if (*hex == '#' || !hex[1])
      hex += strcspn(hex, "\n");
    else
      fputc((int)strtol(pair, NULL, 16), f), hex += 2;
  }
  fclose(f);
}

static void write_link(const char *name_and_target) {
  char *name = arena_printf(arena, "%s", name_and_target), *target = strchr(name, ' ');
  if (!target) return;
  *target = 0;
  make_parents(beside(name));
  if (symlink(target + 1, beside(name)) != 0) perror(name);
}

static void fill_folder(const Case *c) {
  empty_folder();
  write_file(beside("model.mesh"), c->model);
  for (int i = 0; i < c->nsections; i++) {
    const Section *s = &c->section[i];
    if (!strncmp(s->head, "file ", 5)) write_file(beside(s->head + 5), s->body);
    if (!strncmp(s->head, "bytes ", 6)) write_bytes(beside(s->head + 6), s->body);
    if (!strncmp(s->head, "link ", 5)) write_link(s->head + 5);
  }
}

// -- the program --------------------------------------------------------------------------------

// Runs argv with its output in two files and at most `memory` MiB (0: no limit). Returns the exit
// code, or 128 + signal.
static int run_program(char **argv, const char *out, const char *err, int memory) {
  pid_t child = fork();
  if (child == 0) {
    int in = open("/dev/null", O_RDONLY), o = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600),
        e = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    struct rlimit limit = {(rlim_t)memory << 20, (rlim_t)memory << 20};
    if (memory && setrlimit(RLIMIT_AS, &limit) != 0) _exit(126);
    dup2(in, 0);
    dup2(o, 1);
    dup2(e, 2);
    execv(argv[0], argv);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Splits a command line at blanks (no quoting) and inserts the model after the command's name.
// *keep gets the file of a `> NAME` at its end, or NULL.
static void make_args(const char *command, char **argv, const char **keep) {
  int n = 0;
  const char *program = getenv("MESHC");
  argv[n++] = arena_printf(arena, "%s", program ? program : "build/release/meshc");
  char *line = arena_printf(arena, "%s", command), *save = NULL;
  bool model = !strstr(command, "{none}");
  for (char *w = strtok_r(line, " ", &save); w && n < MAX_WORDS - 2;
       w = strtok_r(NULL, " ", &save)) {
    char *dir = strstr(w, "{dir}");
    if (!strcmp(w, ">") && (w = strtok_r(NULL, " ", &save)))
      *keep = beside(w);
    else if (w && strcmp(w, "{none}"))
      argv[n++] = dir ? arena_printf(arena, "%.*s%s%s", (int)(dir - w), w, work, dir + 5) : w;
    if (n == 2 && model) argv[n++] = arena_printf(arena, "%s", beside("model.mesh")), model = false;
  }
  argv[n] = NULL;
}

// Returns the text with {dir} in place of the folder's name, which differs between runs.
static char *anonymous(char *text) {
  size_t n = strlen(work);
  VEC(char) out = {0};
  for (const char *p = text; *p;) {
    bool here = !strncmp(p, work, n);
    for (const char *c = here ? "{dir}" : ""; *c; c++) vec_push(arena, out) = *c;
    if (here)
      p += n;
    else
      vec_push(arena, out) = *p++;
  }
  vec_push(arena, out) = 0;
  return out.at;
}

// Looks for the lines of `wanted` as ordered substrings of text. Returns the first missing one, or
// NULL.
static char *missing_line(const char *text, const char *wanted) {
  char *list = arena_printf(arena, "%s", wanted), *save = NULL;
  for (char *w = strtok_r(list, "\n", &save); w; w = strtok_r(NULL, "\n", &save)) {
    const char *found = strstr(text, w);
    if (!found) return w;
    text = found + strlen(w);
  }
  return NULL;
}
static char *present_line(const char *text, const char *unwanted) {
  char *list = arena_printf(arena, "%s", unwanted), *save = NULL;
  for (char *w = strtok_r(list, "\n", &save); w; w = strtok_r(NULL, "\n", &save))
    if (strstr(text, w)) return w;
  return NULL;
}

static void fault(const Case *c, bool *good, const char *what, const char *detail) {
  printf("FAIL %s: %s%s\n", c->path, what, detail);
  *good = false;
}

// Compares the expected errors, `# error CODE: text` in lines of the model, with the messages
// "model:LINE:COL: error: ..." in `said`.
static bool check_errors(const Case *c, const char *model, const char *said) {
  bool good = true;
  static bool expected[MAX_LINES];
  memset(expected, 0, sizeof expected);
  uint32_t line = 1;
  for (const char *p = c->model; *p; p++) {
    if (*p == '\n') line++;
    const char *mark = !strncmp(p, "# error", 7) ? p : NULL;
    if (!mark || line >= MAX_LINES) continue;
    const char *colon = strstr(mark, ": "), *end = strchr(mark, '\n');
    if (!end) end = mark + strlen(mark);
    expected[line] = true;
    char *code = colon && colon < end && mark[7] == ' '
                     ? arena_text(arena, mark + 8, (size_t)(colon - mark - 8))
                     : NULL;
    char *text =
        colon && colon < end ? arena_text(arena, colon + 2, (size_t)(end - colon - 2)) : NULL;
    char *place = arena_printf(arena, "%s:%u:", model, line);
    bool found = false;
    for (const char *at = strstr(said, place); at && !found; at = strstr(at + 1, place)) {
      const char *stop = strchr(at, '\n');
      char *one = arena_text(arena, at, stop ? (size_t)(stop - at) : strlen(at));
      found =
          strstr(one, "error: ") && (!text || strstr(one, text)) && (!code || strstr(one, code));
    }
    if (!found)
      fault(c, &good, "no such error on line ",
            arena_printf(arena, "%u: %s; said:\n%s", line, text ? text : "", said));
  }
  char *prefix = arena_printf(arena, "%s:", model);
  for (const char *at = strstr(said, prefix); at; at = strstr(at + 1, prefix)) {
    const char *stop = strchr(at, '\n');
    char *one = arena_text(arena, at, stop ? (size_t)(stop - at) : strlen(at));
    unsigned long n = strtoul(one + strlen(prefix), NULL, 10);
    if (strstr(one, ": error: ") && n < MAX_LINES && !expected[n])
      fault(c, &good, "unexpected ", one);
  }
  return good;
}

static void note_codes(const char *said) {
  for (int i = 0; i < DIAG_COUNT; i++)
    if (strstr(said, diag_code((DiagId)i))) seen[i] = true;
}

static void bless(const Case *c, const char *out) {
  char *text = read_file(c->path), *at = strstr(text, "\n--- expect\n");
  if (!at) return;
  const char *rest = strstr(at + 12, "\n--- ");
  at[12] = 0;
  write_file(c->path, arena_printf(arena, "%s%s%s", text, out, rest ? rest + 1 : ""));
}

static bool check_texts(const Case *c, char *text, char *said, bool blessing) {
  bool good = true;
  const Section *s;
  char *w;
  text = anonymous(text);
  said = anonymous(said);
  if ((s = case_section(c, "contains")) && (w = missing_line(text, s->body)))
    fault(c, &good, "output lacks ", arena_printf(arena, "%s; it is\n%s", w, text));
  if ((s = case_section(c, "lacks")) && (w = present_line(text, s->body)))
    fault(c, &good, "output has ", w);
  if ((s = case_section(c, "stderr")) && (w = missing_line(said, s->body)))
    fault(c, &good, "messages lack ", arena_printf(arena, "%s; said:\n%s", w, said));
  if ((s = case_section(c, "same "))) {
    char *other = read_file(beside(s->head + 5));
    if (!other || strcmp(text, anonymous(other)))
      fault(c, &good, "output is not that of ", s->head + 5);
  }
  if ((s = case_section(c, "expect")) && strcmp(text, s->body)) {
    if (blessing)
      bless(c, text);
    else
      fault(c, &good, "output differs:\n", text);
  }
  return good;
}

static bool check_exit(const Case *c, int code, bool errors, const char *said) {
  bool good = true;
  const Section *s = case_section(c, "exit ");
  if (s && code != atoi(s->head + 5))
    fault(c, &good, "exit ", arena_printf(arena, "%d, expected %s: %s", code, s->head + 5, said));
  if (!s && (errors ? code == 0 || code > 7 : code != 0))
    fault(c, &good, "exit ", arena_printf(arena, "%d: %s", code, said));
  return good;
}

// Runs command i of a case. All but the last must only succeed.
static bool command_run(const Case *c, int i, bool blessing) {
  char *argv[MAX_WORDS];
  const char *out = beside(".out"), *err = beside(".err");
  const Section *memory = case_section(c, "memory ");
  bool last = i == c->ncommands - 1, good = true, errors = strstr(c->model, "# error") != NULL;
  make_args(c->command[i], argv, &out);
  int code = run_program(argv, out, err, last && memory ? atoi(memory->head + 7) : 0);
  char *said = read_file(err), *text = read_file(out);
  if (!said || !text) said = text = arena_printf(arena, "nothing could be read back");
  note_codes(said);
  note_codes(text);
  if (!last) {
    if (code != 0) fault(c, &good, c->command[i], arena_printf(arena, ": exit %d: %s", code, said));
    return good;
  }
  good = check_exit(c, code, errors, said);
  if (errors && !check_errors(c, beside("model.mesh"), said)) good = false;
  return check_texts(c, text, said, blessing) && good;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LIMITS_MEMORY = false };
#else
enum { LIMITS_MEMORY = true };
#endif

// Returns true for a case that this build cannot run. The codes in its expectations count as shown.
static bool case_skip(const Case *c) {
  if (LIMITS_MEMORY || !c->model || !case_section(c, "memory ")) return false;
  for (int i = 0; i < c->nsections; i++) note_codes(c->section[i].body);
  skipped++;
  return true;
}

static void case_run(const char *path, bool blessing) {
  ArenaMark mark = arena_mark(arena);
  Case c = case_read(path);
  if (case_skip(&c)) return;
  bool good = c.model != NULL;
  if (good) fill_folder(&c);
  for (int i = 0; good && i < c.ncommands; i++) good = command_run(&c, i, blessing);
  *(good ? &passed : &failed) += 1;
  arena_reset(arena, mark);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

// Paths of all *.mesh below a folder, sorted.
typedef VEC(char *) Paths;
static void find_cases(const char *dir, Paths *out) {
  DIR *d = opendir(dir);
  if (!d) return;
  for (struct dirent *e; (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    char *path = arena_printf(arena, "%s/%s", dir, e->d_name);
    struct stat st;
    size_t n = strlen(path);
    if (stat(path, &st)) continue;
    if (S_ISDIR(st.st_mode))
      find_cases(path, out);
    else if (n > 5 && !strcmp(path + n - 5, ".mesh"))
      vec_push(arena, *out) = path;
  }
  closedir(d);
}

int main(int argc, char **argv) {
  arena = arena_new();
  if (!mkdtemp(work)) return 1;
  bool blessing = argc > 1 && !strcmp(argv[1], "--bless");
  int first = blessing ? 2 : 1;
  Paths paths = {0};
  for (int i = first; i < argc; i++) vec_push(arena, paths) = argv[i];
  if (argc <= first) find_cases("tests/cases", &paths);
  if (paths.n) qsort(paths.at, paths.n, sizeof *paths.at, by_name);
  for (uint32_t i = 0; i < paths.n; i++)
    if (suite_takes()) case_run(paths.at[i], blessing);
  for (int i = 0; argc <= first && i < DIAG_COUNT; i++) {
    if (!seen[i]) printf("FAIL no case under tests/cases shows %s\n", diag_code((DiagId)i));
    *(seen[i] ? &passed : &failed) += 1;
  }
  empty_folder();
  rmdir(work);
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed != 0;
}

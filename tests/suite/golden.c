// Runs every text case under tests/cases: a model, how meshc is called on it, what must come out.
//
//   # meshc check --layout b=rows --mesh rows=2      first line, optional; default: check
//   dim b = 4
//   y = relu(z)  # error E0201: unknown name z       an error expected on its line
//   --- contains        ordered substrings of standard output, one a line
//   --- lacks           substrings that must not occur there
//   --- expect          standard output exactly (`golden --bless FILE` rewrites it)
//   --- stderr          ordered substrings of standard error
//   --- exit 3          the exit code (default 0, or not 0 when errors are expected)
//   --- file data.csv   a file beside the model, to the next section
//
// Cases are found by themselves. {dir} in the options is the folder that holds model and files. The
// suite fails when a row of ir/diag.def has no case that names its code.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/diag.h"

typedef struct Section {
  const char *head; // "contains", "exit 3"
  char *body;       // NUL-terminated
} Section;

enum { MAX_SECTIONS = 32, MAX_LINES = 2000, MAX_ARGS = 64 };
typedef struct Case {
  const char *path;
  char *command; // of the first line, or NULL
  char *model;
  int nsections;
  Section section[MAX_SECTIONS];
} Case;

static Arena *arena;
static int passed, failed;
static bool seen[DIAG_COUNT];
static char work[] = "/tmp/meshc-golden-XXXXXX";

static char *read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  long n = ftell(f);
  rewind(f);
  char *text = arena_alloc(arena, (size_t)n + 1);
  text[fread(text, 1, (size_t)n, f)] = 0;
  fclose(f);
  return text;
}

static void write_file(const char *path, const char *text) {
  FILE *f = fopen(path, "wb");
  if (!f) return;
  fputs(text, f);
  fclose(f);
}

// Cuts the text of a case at its `--- ` lines.
static Case case_read(const char *path) {
  Case c = {.path = path, .model = read_file(path)};
  if (!c.model) return c;
  if (!strncmp(c.model, "# meshc ", 8)) {
    char *end = strchr(c.model, '\n');
    c.command = arena_text(arena, c.model + 8, end ? (size_t)(end - c.model - 8) : strlen(c.model + 8));
  }
  char *at = !strncmp(c.model, "--- ", 4) ? c.model : strstr(c.model, "\n--- ");
  while (at && c.nsections < MAX_SECTIONS) {
    if (*at == '\n') *at++ = 0, at[-1] = '\n', at[0] = 0; // the newline belongs to what stands before
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

// Runs argv with its output in files; the exit code, or 128 + signal.
static int run_program(char **argv, const char *out, const char *err) {
  pid_t child = fork();
  if (child == 0) {
    int in = open("/dev/null", O_RDONLY), o = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600),
        e = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
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

// Splits a command line at blanks (no quoting), putting the model behind the command's name.
static void make_args(const Case *c, const char *model, char **argv) {
  int n = 0;
  const char *program = getenv("MESHC");
  argv[n++] = arena_printf(arena, "%s", program ? program : "build/release/meshc");
  char *line = arena_printf(arena, "%s", c->command ? c->command : "check"), *save = NULL;
  for (char *w = strtok_r(line, " ", &save); w && n < MAX_ARGS - 2; w = strtok_r(NULL, " ", &save)) {
    char *dir = strstr(w, "{dir}");
    argv[n++] = dir ? arena_printf(arena, "%.*s%s%s", (int)(dir - w), w, work, dir + 5) : w;
    if (n == 2 && !strstr(c->command ? c->command : "", "{none}")) argv[n++] = arena_printf(arena, "%s", model);
  }
  int kept = 0;
  for (int i = 0; i < n; i++)
    if (strcmp(argv[i], "{none}")) argv[kept++] = argv[i];
  argv[kept] = NULL;
}

// Ordered substrings, one a line of `wanted`; the first that is missing, or NULL.
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

// The expectations `# error CODE: text` of the model's lines against "model:LINE:COL: error: ..." said.
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
    char *code = colon && colon < end && mark[7] == ' ' ? arena_text(arena, mark + 8, (size_t)(colon - mark - 8)) : NULL;
    char *text = colon && colon < end ? arena_text(arena, colon + 2, (size_t)(end - colon - 2)) : NULL;
    char *place = arena_printf(arena, "%s:%u:", model, line);
    bool found = false;
    for (const char *at = strstr(said, place); at && !found; at = strstr(at + 1, place)) {
      const char *stop = strchr(at, '\n');
      char *one = arena_text(arena, at, stop ? (size_t)(stop - at) : strlen(at));
      found = strstr(one, "error: ") && (!text || strstr(one, text)) && (!code || strstr(one, code));
    }
    if (!found) fault(c, &good, "no such error on line ", arena_printf(arena, "%u: %s; said:\n%s", line, text ? text : "", said));
  }
  char *prefix = arena_printf(arena, "%s:", model);
  for (const char *at = strstr(said, prefix); at; at = strstr(at + 1, prefix)) {
    const char *stop = strchr(at, '\n');
    char *one = arena_text(arena, at, stop ? (size_t)(stop - at) : strlen(at));
    unsigned long n = strtoul(one + strlen(prefix), NULL, 10);
    if (strstr(one, ": error: ") && n < MAX_LINES && !expected[n]) fault(c, &good, "unexpected ", one);
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

static void case_run(const char *path, bool blessing) {
  ArenaMark mark = arena_mark(arena);
  Case c = case_read(path);
  bool good = c.model != NULL;
  const char *model = arena_printf(arena, "%s/model.mesh", work);
  char *argv[MAX_ARGS];
  if (good) {
    write_file(model, c.model);
    for (int i = 0; i < c.nsections; i++)
      if (!strncmp(c.section[i].head, "file ", 5))
        write_file(arena_printf(arena, "%s/%s", work, c.section[i].head + 5), c.section[i].body);
    make_args(&c, model, argv);
    char *out = arena_printf(arena, "%s/out", work), *err = arena_printf(arena, "%s/err", work);
    int code = run_program(argv, out, err);
    char *said = read_file(err), *text = read_file(out);
    note_codes(said);
    note_codes(text);
    const Section *s;
    bool errors = strstr(c.model, "# error") != NULL;
    if ((s = case_section(&c, "exit"))) {
      if (code != atoi(s->head + 5)) fault(&c, &good, "exit ", arena_printf(arena, "%d, expected %s: %s", code, s->head + 5, said));
    } else if (errors ? code == 0 || code > 7 : code != 0) {
      fault(&c, &good, "exit ", arena_printf(arena, "%d: %s", code, said));
    }
    if (errors && !check_errors(&c, model, said)) good = false;
    char *w;
    if ((s = case_section(&c, "contains")) && (w = missing_line(text, s->body))) fault(&c, &good, "output lacks ", w);
    if ((s = case_section(&c, "lacks")) && (w = present_line(text, s->body))) fault(&c, &good, "output has ", w);
    if ((s = case_section(&c, "stderr")) && (w = missing_line(said, s->body))) fault(&c, &good, "messages lack ", arena_printf(arena, "%s; said:\n%s", w, said));
    if ((s = case_section(&c, "expect")) && strcmp(text, s->body)) {
      if (blessing) bless(&c, text);
      else fault(&c, &good, "output differs:\n", text);
    }
  }
  *(good ? &passed : &failed) += 1;
  arena_reset(arena, mark);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

// All *.mesh below `dir`, sorted.
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
    if (S_ISDIR(st.st_mode)) find_cases(path, out);
    else if (n > 5 && !strcmp(path + n - 5, ".mesh")) vec_push(arena, *out) = path;
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
  for (uint32_t i = 0; i < paths.n; i++) case_run(paths.at[i], blessing);
  for (int i = 0; argc <= first && i < DIAG_COUNT; i++) {
    if (!seen[i]) printf("FAIL no case under tests/cases shows %s\n", diag_code((DiagId)i));
    *(seen[i] ? &passed : &failed) += 1;
  }
  char *argv_rm[] = {arena_printf(arena, "/bin/rm"), arena_printf(arena, "-rf"), work, NULL};
  run_program(argv_rm, "/dev/null", "/dev/null");
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}

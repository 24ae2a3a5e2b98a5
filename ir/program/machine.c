// Figures of a machine: the built-in ones, and machine files with lines `name = number` that change
// them.
#include "ir/program/machine.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Returns the built-in figures, those of a desktop machine of two cores. They stay the same in all
// versions, so that tests can expect costs.
Machine machine_default(void) {
  return (Machine){.latency = 5e-6,
                   .bandwidth = 1e10,
                   .memory_rate = 4e10,
                   .flops = 2e11,
                   .memory = INT64_C(16) << 30,
                   .l2 = INT64_C(1) << 20,
                   .l3 = INT64_C(32) << 20,
                   .l2_rate = 1.2e11,
                   .l3_rate = 7e10,
                   .launch = 1e-7,
                   .operations = 3e10,
                   .half = 12};
}

typedef struct Figure {
  const char *name;
  size_t offset;
  bool whole;       // the field is an int64_t, a number of bytes; false: a double
  bool positive;    // 0 is refused, because costs are divided by it
  bool of_gpu;      // the machine file of a GPU must have it
  double most;      // if above 0, only the integers 0, 1, ... most are accepted
  const char *unit; // and an example, for hints
} Figure;

static const Figure figures[] = {
    {"latency", offsetof(Machine, latency), false, false, true, 0, "in seconds: latency = 5e-6"},
    {"bandwidth", offsetof(Machine, bandwidth), false, true, true, 0,
     "in bytes/s: bandwidth = 1e10"},
    {"memory_rate", offsetof(Machine, memory_rate), false, true, true, 0,
     "in bytes/s: memory_rate = 4e10"},
    {"flops", offsetof(Machine, flops), false, true, true, 0, "in operations/s: flops = 2e11"},
    {"tile_flops", offsetof(Machine, tile_flops), false, false, false, 0,
     "in operations/s: tile_flops = 2e11"},
    {"winograd_flops", offsetof(Machine, winograd_flops), false, false, false, 0,
     "in operations/s: winograd_flops = 2e11"},
    {"bf16_flops", offsetof(Machine, bf16_flops), false, false, false, 0,
     "in operations/s: bf16_flops = 2e11"},
    {"tf32_flops", offsetof(Machine, tf32_flops), false, false, false, 0,
     "in operations/s: tf32_flops = 2e11"},
    {"f64_flops", offsetof(Machine, f64_flops), false, false, false, 0,
     "in operations/s: f64_flops = 2e11"},
    {"memory", offsetof(Machine, memory), true, false, true, 0, "in bytes: memory = 16e9"},
    {"l2", offsetof(Machine, l2), true, false, false, 0, "in bytes: l2 = 1048576"},
    {"l3", offsetof(Machine, l3), true, false, false, 0, "in bytes: l3 = 33554432"},
    {"l2_rate", offsetof(Machine, l2_rate), false, false, false, 0, "in bytes/s: l2_rate = 1.2e11"},
    {"l3_rate", offsetof(Machine, l3_rate), false, false, false, 0, "in bytes/s: l3_rate = 7e10"},
    {"core_rate", offsetof(Machine, core_rate), false, false, false, 0,
     "in bytes/s: core_rate = 1e10"},
    {"launch", offsetof(Machine, launch), false, false, true, 0, "in seconds: launch = 1e-7"},
    {"operations", offsetof(Machine, operations), false, false, true, 0,
     "in operations/s: operations = 3e10"},
    {"half", offsetof(Machine, half), false, false, true, 0, "in elements: half = 12"},
    {"multiprocessors", offsetof(Machine, multiprocessors), false, false, true, 0,
     "a number, as in multiprocessors = 132"},
    {"cores", offsetof(Machine, cores), false, false, false, 0, "a number, as in cores = 2"},
    {"shared", offsetof(Machine, shared), false, false, false, 1, "0 or 1"},
    {"overlap", offsetof(Machine, overlap), false, false, false, 1, "0 or 1"},
};

// Flops per second of f32 products that no CPU reaches and every GPU in use exceeds. A machine file
// with more than this describes a GPU.
static const double gpu_flops = 2e13;

// The state while a machine file is read. stated[i] tells whether the file states figure i; `kind`
// is what its line `kind` says.
typedef struct Reading {
  Machine *m;
  Diag *d;
  bool stated[countof(figures)];
  enum { KIND_NONE, KIND_CPU, KIND_GPU } kind;
} Reading;

static const Figure *figure_find(const char *name) {
  for (size_t i = 0; i < countof(figures); i++)
    if (strcmp(figures[i].name, name) == 0) return &figures[i];
  return NULL;
}

static bool unknown_figure(Diag *d, Pos at, const char *name) {
  const char *names[countof(figures)];
  char list[40 * countof(figures)], *end = list;
  for (size_t i = 0; i < countof(figures); i++) {
    names[i] = figures[i].name;
    end = stpcpy(stpcpy(end, i ? ", " : ""), names[i]);
  }
  diag_error(d, DIAG_FILE_MALFORMED, at, "no machine figure is called '%.40s'", name);
  diag_hint(d, "figures are: %s, and kind = cpu or gpu; of an axis: latency.rows, bandwidth.rows",
            list);
  diag_nearest(d, name, names, countof(figures));
  return false;
}

// Returns a pointer to the figure `name` in m that concerns the mesh axis `axis`, such as
// latency.rows. Returns NULL after an error.
static double *axis_figure(Machine *m, Diag *d, Pos at, const char *name, const char *axis) {
  bool latency = strncmp(name, "latency.", 8) == 0;
  if (!latency && strncmp(name, "bandwidth.", 10) != 0) {
    diag_error(d, DIAG_FILE_MALFORMED, at, "%s: only latency and bandwidth can be those of an axis",
               name);
    return NULL;
  }
  int k = 0;
  while (k < m->naxes && strcmp(m->axis[k].axis, axis) != 0) k++;
  if (k == MAX_AXES || strlen(axis) >= AXIS_NAME || !*axis) {
    diag_error(d, DIAG_FILE_MALFORMED, at,
               "%s: at most %d axes have figures, their names at most %d characters", name,
               MAX_AXES, AXIS_NAME - 1);
    return NULL;
  }
  if (k == m->naxes) {
    m->axis[m->naxes++] = (AxisLink){.link = {-1, -1}};
    memcpy(m->axis[k].axis, axis, strlen(axis));
  }
  return latency ? &m->axis[k].link.latency : &m->axis[k].link.bandwidth;
}

static bool figure_fits(const Figure *f, double x) {
  if (!isfinite(x) || x < 0 || (f && f->whole && x > 0x1p62)) return false;
  if (f && f->most > 0 && (x > f->most || x != floor(x))) return false;
  return !f || !f->positive || x > 0;
}

static bool set_kind(Reading *r, Pos at, const char *word) {
  r->kind = !strcmp(word, "cpu") ? KIND_CPU : !strcmp(word, "gpu") ? KIND_GPU : KIND_NONE;
  if (r->kind != KIND_NONE) return true;
  diag_error(r->d, DIAG_FILE_MALFORMED, at, "kind is cpu or gpu, not '%.40s'", word);
  return false;
}

static void put_figure(void *field, bool whole, double x) {
  int64_t bytes = whole ? (int64_t)x : 0;
  memcpy(field, whole ? (const void *)&bytes : &x, whole ? sizeof bytes : sizeof x);
}

static bool set_figure(Reading *r, Pos at, const char *name, const char *number) {
  Diag *d = r->d;
  const char *dot = strchr(name, '.');
  const Figure *f = dot ? NULL : figure_find(name);
  if (!strcmp(name, "kind")) return set_kind(r, at, number);
  if (!f && !dot) return unknown_figure(d, at, name);
  if (f && r->stated[f - figures])
    return diag_error(d, DIAG_FILE_MALFORMED, at, "%s is stated twice", name);
  if (f) r->stated[f - figures] = true;
  void *field = dot ? (void *)axis_figure(r->m, d, at, name, dot + 1) : (char *)r->m + f->offset;
  if (!field) return false;
  char *end;
  double x = strtod(number, &end);
  if (*number == 0 || *end != 0 || !figure_fits(f, x) || (dot && *name == 'b' && x <= 0)) {
    diag_error(d, DIAG_FILE_MALFORMED, at, "'%.40s' is not a number that %s can be", number, name);
    return diag_hint(d, "it is %s", f ? f->unit : *name == 'b' ? "in bytes/s" : "in seconds");
  }
  put_figure(field, f && f->whole, x);
  return true;
}

static void trim_space(char *text) {
  size_t n = strlen(text);
  while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t')) text[--n] = 0;
}

// Reads one line of a machine file. Blank lines and comments have no effect. Returns false after an
// error.
static bool machine_line(Reading *r, Pos at, char *line) {
  line[strcspn(line, "#\r\n")] = 0;
  const char *space = " \t";
  char *name = line + strspn(line, space);
  if (*name == 0) return true;
  char *equals = strchr(name, '=');
  if (!equals) {
    diag_error(r->d, DIAG_FILE_MALFORMED, at, "expected a line `name = number`");
    return diag_hint(r->d, "as in flops = 2e11; # starts a comment");
  }
  *equals = 0;
  char *number = equals + 1 + strspn(equals + 1, space);
  trim_space(name);
  trim_space(number);
  return set_figure(r, at, name, number);
}

// Completes the figures of a GPU. A figure that its file lacks becomes 0 instead of the built-in
// figure of a CPU. Returns false, with an error in r->d, if the file lacks a figure that a GPU must
// have.
static bool complete_gpu(Reading *r, Pos file) {
  char missing[256] = "";
  for (size_t i = 0; i < countof(figures); i++) {
    size_t n = strlen(missing);
    if (r->stated[i]) continue;
    if (figures[i].of_gpu)
      snprintf(missing + n, sizeof missing - n, "%s%s", n ? ", " : "", figures[i].name);
    else
      put_figure((char *)r->m + figures[i].offset, figures[i].whole, 0);
  }
  if (!*missing) return true;
  diag_error(r->d, DIAG_FILE_MALFORMED, file, "the file describes a GPU%s and lacks: %s",
             r->kind == KIND_GPU ? "" : " (more than 2e13 flops)", missing);
  diag_hint(r->d, "add them (examples/machines/h200.txt has those of an H200); they are not filled "
                  "with figures of a CPU; if it is one, say kind = cpu");
  return false;
}

// Completes the figures when all lines of a machine file have been read. Returns false after an
// error.
static bool complete(Reading *r, uint32_t source) {
  Machine *m = r->m;
  m->states_memory = r->stated[figure_find("memory") - figures];
  m->gpu = r->kind == KIND_GPU || (r->kind == KIND_NONE && m->flops > gpu_flops);
  return !m->gpu || complete_gpu(r, (Pos){.source = source});
}

static bool no_file(Diag *d, const char *path, uint32_t source) {
  Arena *a = arena_new();
  diag_error(d, DIAG_FILE_MISSING, (Pos){.source = source}, "cannot open machine file %s: %s", path,
             strerror(errno));
  diag_hint(d, "machines that need no file are: %s", machine_names(a));
  arena_free(a);
  return false;
}

bool machine_read(Machine *m, Diag *d, const char *path) {
  uint32_t source = diag_source(d, path, NULL, 0);
  FILE *f = mem_fopen(path, "r");
  if (!f) return no_file(d, path, source);
  char *line = NULL;
  size_t room = 0;
  bool ok = true;
  Reading r = {.m = m, .d = d};
  for (uint32_t n = 1; getline(&line, &room, f) >= 0; n++)
    if (!machine_line(&r, (Pos){.source = source, .line = n}, line)) ok = false;
  free(line);
  if (!feof(f)) mem_check_errno();
  if (ferror(f)) {
    diag_error(d, DIAG_FILE_MALFORMED, (Pos){.source = source}, "cannot read it");
    ok = false;
  }
  fclose(f);
  return complete(&r, source) && ok;
}

bool machine_read_text(Machine *m, Diag *d, const char *name, const char *text) {
  uint32_t source = diag_source(d, name, NULL, 0);
  Arena *a = arena_new();
  Reading r = {.m = m, .d = d};
  bool ok = true;
  *m = machine_default();
  for (uint32_t n = 1; *text; n++) {
    size_t length = strcspn(text, "\n");
    char *line = arena_text(a, text, length);
    if (!machine_line(&r, (Pos){.source = source, .line = n}, line)) ok = false;
    text += length + (text[length] != 0);
  }
  arena_free(a);
  return complete(&r, source) && ok;
}

// -- machines by name ---------------------------------------------------------------------------

typedef struct NamedMachine {
  const char *name, *text; // the text of its machine file
} NamedMachine;
static const NamedMachine named[] = {
#include "machine_files.h"
};

bool machine_named(Machine *m, const char *name) {
  size_t i = 0;
  while (i < countof(named) && strcmp(named[i].name, name) != 0) i++;
  if (i == countof(named)) return false;
  Arena *a = arena_new();
  if (!machine_read_text(m, diag_new(a), name, named[i].text))
    BUG("the machine file of %s has an error", name);
  m->states_memory = false; // of the machine that runs the program the memory is known
  arena_free(a);
  return true;
}

const char *machine_names(Arena *a) {
  const char *list = "";
  for (size_t i = 0; i < countof(named); i++)
    list = arena_printf(a, "%s%s%s", list, i ? ", " : "", named[i].name);
  return list;
}

static double figure_value(const Machine *m, const Figure *f) {
  const void *field = (const char *)m + f->offset;
  int64_t bytes;
  double x;
  memcpy(&bytes, field, sizeof bytes);
  memcpy(&x, field, sizeof x);
  return f->whole ? (double)bytes : x;
}

char *machine_print_notes(Arena *a, const Machine *m, MachineNote *note) {
  char *text = arena_printf(a, "%s", m->gpu ? "kind = gpu\n" : "");
  for (size_t i = 0; i < countof(figures); i++) {
    const char *line = arena_printf(a, "%s = %.*g", figures[i].name, figures[i].whole ? 15 : 6,
                                    figure_value(m, &figures[i]));
    const char *said = note ? note(figures[i].name, m->gpu) : NULL;
    text = said ? arena_printf(a, "%s%-27s # %s\n", text, line, said)
                : arena_printf(a, "%s%s\n", text, line);
  }
  for (int k = 0; k < m->naxes; k++) {
    const AxisLink *x = &m->axis[k];
    if (x->link.latency >= 0)
      text = arena_printf(a, "%slatency.%s = %.6g\n", text, x->axis, x->link.latency);
    if (x->link.bandwidth >= 0)
      text = arena_printf(a, "%sbandwidth.%s = %.6g\n", text, x->axis, x->link.bandwidth);
  }
  return text;
}

char *machine_print(Arena *a, const Machine *m) { return machine_print_notes(a, m, NULL); }

double machine_flops(const Machine *m, Dtype t) {
  if ((t == TYPE_BF16 || t == TYPE_F16) && m->bf16_flops > 0) return m->bf16_flops;
  if (t == TYPE_F64) return m->f64_flops > 0 ? m->f64_flops : m->flops / 2;
  return t == TYPE_F32 && m->tf32 && m->tf32_flops > 0 ? m->tf32_flops : m->flops;
}

double machine_tile_flops(const Machine *m) {
  return m->tile_flops > 0 ? m->tile_flops : 0.9 * m->flops;
}

double machine_winograd_flops(const Machine *m) {
  return m->winograd_flops > 0 ? m->winograd_flops : 0.7 * m->flops;
}

Link machine_link(const Machine *m, const char *axis) {
  Link out = {m->latency, m->bandwidth};
  for (int k = 0; k < m->naxes; k++) {
    if (strcmp(m->axis[k].axis, axis) != 0) continue;
    if (m->axis[k].link.latency >= 0) out.latency = m->axis[k].link.latency;
    if (m->axis[k].link.bandwidth >= 0) out.bandwidth = m->axis[k].link.bandwidth;
  }
  return out;
}

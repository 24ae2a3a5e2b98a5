// Machine figures: the built-in ones, and files of `name = number` lines that change them.
#include "ir/machine.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A desktop machine of two cores: what a test needs is that it never changes.
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
  bool whole;    // an int64_t number of bytes
  bool positive; // something is divided by it
  double most;   // it is one of 0, 1, ... most; 0: any number
} Figure;

static const Figure figures[] = {
    {"latency", offsetof(Machine, latency), false, false, 0},
    {"bandwidth", offsetof(Machine, bandwidth), false, true, 0},
    {"memory_rate", offsetof(Machine, memory_rate), false, true, 0},
    {"flops", offsetof(Machine, flops), false, true, 0},
    {"memory", offsetof(Machine, memory), true, false, 0},
    {"l2", offsetof(Machine, l2), true, false, 0},
    {"l3", offsetof(Machine, l3), true, false, 0},
    {"l2_rate", offsetof(Machine, l2_rate), false, false, 0},
    {"l3_rate", offsetof(Machine, l3_rate), false, false, 0},
    {"launch", offsetof(Machine, launch), false, false, 0},
    {"operations", offsetof(Machine, operations), false, false, 0},
    {"half", offsetof(Machine, half), false, false, 0},
    {"cores", offsetof(Machine, cores), false, false, 0},
    {"shared", offsetof(Machine, shared), false, false, 1},
    {"overlap", offsetof(Machine, overlap), false, false, 1},
};

static const Figure *figure_find(const char *name) {
  for (size_t i = 0; i < countof(figures); i++)
    if (strcmp(figures[i].name, name) == 0) return &figures[i];
  return NULL;
}

static void unknown_figure(Diag *d, Pos at, const char *name) {
  const char *names[countof(figures)];
  for (size_t i = 0; i < countof(figures); i++) names[i] = figures[i].name;
  diag_error(d, DIAG_FILE_MALFORMED, at, "no machine figure is called '%.40s'", name);
  diag_hint(d, "figures are: latency, bandwidth (also of an axis: latency.rows), memory_rate, flops, memory, l2, l3, l2_rate, "
               "l3_rate, launch, operations, half, cores, shared, overlap");
  diag_nearest(d, name, names, countof(figures));
}

// latency.rows, bandwidth.rows: the place of the figure; NULL after an error.
static double *axis_figure(Machine *m, Diag *d, Pos at, const char *name, const char *axis) {
  bool latency = strncmp(name, "latency.", 8) == 0;
  if (!latency && strncmp(name, "bandwidth.", 10) != 0) {
    diag_error(d, DIAG_FILE_MALFORMED, at, "%s: only latency and bandwidth can be those of an axis", name);
    return NULL;
  }
  int k = 0;
  while (k < m->naxes && strcmp(m->axis[k].axis, axis) != 0) k++;
  if (k == MAX_AXES || strlen(axis) >= AXIS_NAME || !*axis) {
    diag_error(d, DIAG_FILE_MALFORMED, at, "%s: at most %d axes have figures, their names at most %d characters", name, MAX_AXES,
               AXIS_NAME - 1);
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

static bool set_figure(Machine *m, Diag *d, Pos at, const char *name, const char *number) {
  const char *dot = strchr(name, '.');
  const Figure *f = dot ? NULL : figure_find(name);
  if (!f && !dot) {
    unknown_figure(d, at, name);
    return false;
  }
  void *field = dot ? (void *)axis_figure(m, d, at, name, dot + 1) : (char *)m + f->offset;
  if (!field) return false;
  char *end;
  double x = strtod(number, &end);
  if (*number == 0 || *end != 0 || !figure_fits(f, x) || (dot && *name == 'b' && x <= 0)) {
    diag_error(d, DIAG_FILE_MALFORMED, at, "'%.40s' is not a number that %s can be", number, name);
    return false;
  }
  if (f && f->whole) {
    int64_t bytes = (int64_t)x;
    memcpy(field, &bytes, sizeof bytes);
  } else {
    memcpy(field, &x, sizeof x);
  }
  return true;
}

static void cut_space(char *text) {
  size_t n = strlen(text);
  while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t')) text[--n] = 0;
}

// Blank lines and comments are fine.
static bool machine_line(Machine *m, Diag *d, Pos at, char *line) {
  line[strcspn(line, "#\r\n")] = 0;
  const char *space = " \t";
  char *name = line + strspn(line, space);
  if (*name == 0) return true;
  char *equals = strchr(name, '=');
  if (!equals) {
    diag_error(d, DIAG_FILE_MALFORMED, at, "expected a line `name = number`");
    return false;
  }
  *equals = 0;
  char *number = equals + 1 + strspn(equals + 1, space);
  cut_space(name);
  cut_space(number);
  return set_figure(m, d, at, name, number);
}

bool machine_read(Machine *m, Diag *d, const char *path) {
  uint32_t source = diag_source(d, path, NULL, 0);
  FILE *f = fopen(path, "r");
  if (!f) {
    diag_error(d, DIAG_FILE_MISSING, (Pos){.source = source}, "cannot open machine file %s: %s",
               path, strerror(errno));
    return false;
  }
  char *line = NULL;
  size_t room = 0;
  bool ok = true;
  for (uint32_t n = 1; getline(&line, &room, f) >= 0; n++)
    if (!machine_line(m, d, (Pos){.source = source, .line = n}, line)) ok = false;
  free(line);
  if (ferror(f)) {
    diag_error(d, DIAG_FILE_MALFORMED, (Pos){.source = source}, "cannot read it");
    ok = false;
  }
  fclose(f);
  return ok;
}

static double figure_value(const Machine *m, const Figure *f) {
  const void *field = (const char *)m + f->offset;
  int64_t bytes;
  double x;
  memcpy(&bytes, field, sizeof bytes);
  memcpy(&x, field, sizeof x);
  return f->whole ? (double)bytes : x;
}

char *machine_print(Arena *a, const Machine *m) {
  char *text = arena_printf(a, "%s", "");
  for (size_t i = 0; i < countof(figures); i++)
    text = arena_printf(a, "%s%s = %.*g\n", text, figures[i].name, figures[i].whole ? 15 : 6, figure_value(m, &figures[i]));
  for (int k = 0; k < m->naxes; k++) {
    const AxisLink *x = &m->axis[k];
    if (x->link.latency >= 0) text = arena_printf(a, "%slatency.%s = %.6g\n", text, x->axis, x->link.latency);
    if (x->link.bandwidth >= 0) text = arena_printf(a, "%sbandwidth.%s = %.6g\n", text, x->axis, x->link.bandwidth);
  }
  return text;
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

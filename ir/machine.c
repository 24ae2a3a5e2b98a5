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
                   .l3 = INT64_C(32) << 20};
}

typedef struct Figure {
  const char *name;
  size_t offset;
  bool whole; // an int64_t number of bytes
} Figure;

static const Figure figures[] = {
    {"latency", offsetof(Machine, latency), false},
    {"bandwidth", offsetof(Machine, bandwidth), false},
    {"memory_rate", offsetof(Machine, memory_rate), false},
    {"flops", offsetof(Machine, flops), false},
    {"memory", offsetof(Machine, memory), true},
    {"l2", offsetof(Machine, l2), true},
    {"l3", offsetof(Machine, l3), true},
};

static const Figure *figure_find(const char *name) {
  for (size_t i = 0; i < countof(figures); i++)
    if (strcmp(figures[i].name, name) == 0) return &figures[i];
  return NULL;
}

static void unknown_figure(Diag *d, Pos at, const char *name) {
  const char *names[countof(figures)];
  for (size_t i = 0; i < countof(figures); i++) names[i] = figures[i].name;
  diag_error(d, DIAG_FILE_MALFORMED, at, "no machine figure is called %s", name);
  diag_hint(d, "figures are: latency, bandwidth, memory_rate, flops, memory, l2, l3");
  diag_nearest(d, name, names, countof(figures));
}

static bool set_figure(Machine *m, Diag *d, Pos at, const char *name, const char *number) {
  const Figure *f = figure_find(name);
  if (!f) {
    unknown_figure(d, at, name);
    return false;
  }
  char *end;
  double x = strtod(number, &end);
  if (*number == 0 || *end != 0 || !isfinite(x) || x < 0 || (f->whole && x > 0x1p62)) {
    diag_error(d, DIAG_FILE_MALFORMED, at, "%s is not a number that %s can be", number, name);
    return false;
  }
  void *field = (char *)m + f->offset;
  if (f->whole) {
    int64_t bytes = (int64_t)x;
    memcpy(field, &bytes, sizeof bytes);
  } else {
    memcpy(field, &x, sizeof x);
  }
  return true;
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
  name[strcspn(name, space)] = 0;
  char *number = equals + 1 + strspn(equals + 1, space);
  number[strcspn(number, space)] = 0;
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
  char line[512];
  bool ok = true;
  for (uint32_t n = 1; fgets(line, sizeof line, f); n++)
    if (!machine_line(m, d, (Pos){.source = source, .line = n}, line)) ok = false;
  if (ferror(f)) {
    diag_error(d, DIAG_FILE_MALFORMED, (Pos){.source = source}, "cannot read it");
    ok = false;
  }
  fclose(f);
  return ok;
}

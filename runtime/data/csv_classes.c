// Names of classes: a hash table with linear probing from texts to numbers.
#include "runtime/data/csv_source_internal.h"

#include <stdlib.h>
#include <string.h>

static uint32_t place_of(const Classes *c, const char *text, size_t n) {
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
  uint32_t i = (uint32_t)(h ^ h >> 32) & (c->room - 1);
  while (c->slot[i] &&
         (strncmp(c->name[c->slot[i] - 1], text, n) != 0 || c->name[c->slot[i] - 1][n]))
    i = (i + 1) & (c->room - 1);
  return i;
}

static void index_names(Classes *c) {
  free(c->slot);
  c->slot = mem_zeroed(c->room, sizeof *c->slot);
  for (uint32_t i = 0; i < c->n; i++) c->slot[place_of(c, c->name[i], strlen(c->name[i]))] = i + 1;
}

int64_t classes_find(Classes *c, const char *text, size_t n, bool add) {
  if (!c->room && !add) return -1;
  if (2 * c->n >= c->room) {
    c->room = c->room ? 2 * c->room : 32;
    c->name = mem_grow(c->name, c->room * sizeof *c->name);
    index_names(c);
  }
  uint32_t i = place_of(c, text, n);
  if (c->slot[i]) return c->slot[i] - 1;
  if (!add || c->n == MOST_CLASSES) return -1;
  c->name[c->n] = mem_text_n(text, n);
  c->slot[i] = ++c->n;
  return c->n - 1;
}

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static double number_of(const char *text) {
  double x = 0;
  return csv_number(text, strlen(text), '.', &x) ? x : 0;
}

static int by_value(const void *a, const void *b) {
  double x = number_of(*(char *const *)a), y = number_of(*(char *const *)b);
  return x < y ? -1 : x > y ? 1 : by_bytes(a, b);
}

void classes_sort(Classes *c) {
  bool numbers = true;
  double x;
  for (uint32_t i = 0; i < c->n; i++)
    numbers &= csv_number(c->name[i], strlen(c->name[i]), '.', &x);
  if (!c->n) return;
  qsort(c->name, c->n, sizeof *c->name, numbers ? by_value : by_bytes);
  index_names(c);
}

void classes_free(Classes *c) {
  for (uint32_t i = 0; i < c->n; i++) free(c->name[i]);
  free(c->name);
  free(c->slot);
  *c = (Classes){0};
}

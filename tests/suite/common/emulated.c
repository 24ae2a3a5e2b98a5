#include "tests/suite/common/emulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/program/image.h"
#include "tests/standin/emulator.h"

enum { MOST_REGIONS = 256, MOST_IMAGES = 16 };

static Emulator *emulator;
static uint32_t segment = 1; // next one of the emulator
static Shadow region[MOST_REGIONS];
static int nregions;

struct EmulatedImage {
  uint32_t n;
  Image *image[MOST_IMAGES];
};

static Shadow *find(void *self, const char *at) {
  (void)self;
  for (int i = 0; i < nregions; i++)
    if (at >= region[i].from && at < region[i].from + region[i].bytes) return &region[i];
  return NULL;
}

static void explain(void *self, const char *at, char *text, size_t n) {
  (void)self;
  snprintf(text, n, "%p is outside of all operands", (const void *)at);
}

static void operation(void *self, uint32_t number, char *text, size_t n) {
  (void)self;
  snprintf(text, n, "operation %u", number);
}

void emulated_allow(void *at, size_t n) {
  if (!n) return;
  if (nregions == MOST_REGIONS) BUG("more than %d regions", MOST_REGIONS);
  shadow_begin(&region[nregions++], at, n, false);
}

int emulated_regions(void) { return nregions; }

void emulated_forget(int kept) {
  while (nregions > kept) shadow_end(&region[--nregions]);
}

EmulatedImage *emulated_load(const GpuCode *code) {
  static const EmulatorMemory memory = {NULL, find, explain, operation};
  const GpuImage *image;
  char why[200];
  uint32_t n = gpu_code_images(code, &image);
  EmulatedImage *i = mem_zeroed(1, sizeof *i);
  if (n > MOST_IMAGES) BUG("%u images", n);
  for (; i->n < n; i->n++) {
    i->image[i->n] = image_load(image[i->n].at, image[i->n].n, why);
    if (!i->image[i->n]) BUG("an image cannot be loaded: %s", why);
  }
  if (!emulator) emulator = emulator_new(&memory, &segment, 1);
  return i;
}

void emulated_free(EmulatedImage *i) {
  for (uint32_t k = 0; i && k < i->n; k++) image_free(i->image[k]);
  free(i);
}

void emulated_launch(const EmulatedImage *i, const char *name, const void *table, uint32_t nsets,
                     int32_t flags, const GpuHeader *header, EmulatedGrid grid) {
  EmulatorLaunch l = {.name = name,
                      .table = table,
                      .header = header,
                      .nsets = (int32_t)nsets,
                      .flags = flags,
                      .blocks_x = grid.x,
                      .blocks_y = grid.y,
                      .threads = grid.threads,
                      .shared = grid.shared,
                      .safe = segment};
  void *at = NULL;
  for (uint32_t k = 0; k < i->n && !at; k++) at = image_symbol(i->image[k], name);
  if (!at) BUG("no image has the function %s", name);
  memcpy(&l.function, &at, sizeof at);
  if (grid.x > 0 && grid.y > 0) emulator_run(emulator, &l);
}

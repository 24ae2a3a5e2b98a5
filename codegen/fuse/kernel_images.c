// The gradient of the weights of a 3x3 convolution: rewrites its kernel so that the units are
// images, and the chunks of a launch are groups of images.
//
//   outer(ky:3, kx:3, c:32 rows, n:32 vector) inner(b:64, y:30, x:30)   reduce sum image * slope
//   outer(b:64) inner(y:30, x:30, ky:3, kx:3, c:32, n:32 vector)         accum sum image * slope
//
// The outer loops may have any sequence, because the weights may have any order in memory.
// A back end computes such a kernel (Kernel.images) for one image after the other, so that it reads
// each image once, and adds the values of an image in blocks (codegen/cpu/winograd_plan.c).
#include "codegen/fuse/kernel_build_internal.h"

#include <string.h>

enum {
  TAPS = 3,
  LEAST_CHANNELS = 16,
  CHANNEL_STEP = 16,
  LEAST_SIDE = 4,
  LEAST_IMAGES = 4,
  LEAST_WORK = 8192, // fewest results of all images: a chunk has about 2048 of them
  // Upper limits of the results of an image and of one row of them. They bound the chains of f32
  // additions (ir/program/sums.h).
  MOST_RESULTS = 4096,
  MOST_COLUMNS = 128
};

// The loops of the kernel by their meaning, as indices of Kernel.loop. kx: -1 if one loop covers kx
// and the channels.
typedef struct Roles {
  int y, x, ky, kx, rows, columns;
  int64_t channels;
} Roles;

static const KPtr *pointer_of(const Kernel *k, int s) { return &k->ptr[k->stmt[s].index]; }

static int moving_outer_loops(const Kernel *k, int s) {
  int n = 0;
  for (int l = 0; l < k->nouter; l++) n += pointer_of(k, s)->stride[l] != 0;
  return n;
}

// Returns the statement that the gradient stores, a sum of f32 products of two loads, if the kernel
// does nothing else. Else returns NO_STMT. *image, *slope: the loads. The slope moves along one
// outer loop only.
static int lone_product_sum(const Kernel *k, int *image, int *slope) {
  int sum = k->nstmts - 2;
  if (sum < 1 || k->nphases != 2 || k->stmt[sum].kind != K_REDUCE || k->stmt[sum].op != OP_SUM ||
      k->stmt[sum].type != TYPE_F32)
    return NO_STMT;
  const KStmt *store = &k->stmt[sum + 1], *product = &k->stmt[k->stmt[sum].arg[0]];
  if (store->kind != K_STORE || store->arg[0] != sum || pointer_of(k, sum + 1)->type != TYPE_F32 ||
      product->kind != K_OP || product->op != OP_MUL)
    return NO_STMT;
  int left = product->arg[0], right = product->arg[1];
  for (int i = 0; i < sum; i++) {
    const KStmt *s = &k->stmt[i];
    if (s->level != LEVEL_INNER || s->kind == K_LOAD_AT || (s->kind == K_OP && s != product))
      return NO_STMT;
    if (s->kind == K_LOAD && ((i != left && i != right) || pointer_of(k, i)->type != TYPE_F32))
      return NO_STMT;
  }
  if (k->stmt[left].kind != K_LOAD || k->stmt[right].kind != K_LOAD) return NO_STMT;
  bool swap = moving_outer_loops(k, left) == 1;
  *image = swap ? right : left;
  *slope = swap ? left : right;
  return sum;
}

// Returns whether the guard of the image, a chain of K_INSIDE statements, compares plain positions
// with constant limits.
static bool plain_guard(const Kernel *k, int guard) {
  for (int s = guard; s != NO_STMT; s = k->stmt[s].arg[1]) {
    const KStmt *in = &k->stmt[s], *at = &k->stmt[in->arg[0]];
    if (in->kind != K_INSIDE || in->slot >= 0 || at->kind != K_POSITION || at->arg[0] != NO_STMT ||
        at->arg[1] != NO_STMT || k->walk[at->index].nbases)
      return false;
  }
  return true;
}

// Returns the inner loop along which the image has stride `stride`, or -1.
static int inner_with(const Kernel *k, const KPtr *image, int64_t stride) {
  for (int l = k->nouter; l < k->nouter + k->ninner; l++)
    if (image->stride[l] == stride) return l;
  return -1;
}

// Finds the roles of the outer loops by the strides of the two operands. The slope is the gradient
// of the convolution's result. The loop over columns changes the address in the slope only. The
// loops over channels and over taps change the address in the image only; the taps along y are
// further apart than those along x.
static bool find_outer_roles(const Kernel *k, const KPtr *image, const KPtr *slope, Roles *r) {
  *r = (Roles){.ky = -1, .kx = -1, .rows = -1, .columns = -1};
  for (int l = 0; l < k->nouter; l++) {
    int64_t step = image->stride[l];
    bool tap = !slope->stride[l] && step > 1 && k->loop[l].size == TAPS;
    int *role = slope->stride[l] == 1 && !step   ? &r->columns
                : !slope->stride[l] && step == 1 ? &r->rows
                : tap && r->ky < 0               ? &r->ky
                : tap                            ? &r->kx
                                                 : NULL;
    if (!role || *role >= 0) return false;
    *role = l;
  }
  if (r->kx >= 0 && image->stride[r->kx] > image->stride[r->ky]) {
    int kx = r->ky;
    r->ky = r->kx;
    r->kx = kx;
  }
  return r->ky >= 0 && r->rows >= 0 && r->columns >= 0;
}

static bool find_roles(const Kernel *k, const KPtr *image, const KPtr *slope, Roles *r) {
  if (!find_outer_roles(k, image, slope, r)) return false;
  r->channels = k->loop[r->rows].size;
  if (r->kx < 0) r->channels /= TAPS;
  int64_t step = r->kx < 0 ? r->channels : image->stride[r->kx];
  if (r->kx < 0 && r->channels * TAPS != k->loop[r->rows].size) return false;
  r->y = inner_with(k, image, image->stride[r->ky]);
  r->x = inner_with(k, image, step);
  return r->y >= 0 && r->x >= 0 && r->x != r->y;
}

static bool long_enough(const Kernel *k, const Roles *r) {
  int64_t rows = k->loop[r->y].size, columns = k->loop[r->x].size, n = k->loop[r->columns].size;
  int64_t images = 1;
  for (int l = k->nouter; l < k->nouter + k->ninner; l++)
    if (l != r->y && l != r->x) images *= loop_rounds(k, l);
  for (int l = 0; l < k->nouter; l++)
    if (k->loop[l].slot >= 0) return false;
  return k->loop[r->y].slot < 0 && k->loop[r->x].slot < 0 && images >= LEAST_IMAGES &&
         rows >= LEAST_SIDE && columns >= LEAST_SIDE && columns <= MOST_COLUMNS &&
         rows * columns <= MOST_RESULTS && size_times(rows * columns, images) >= LEAST_WORK &&
         r->channels >= LEAST_CHANNELS && r->channels % CHANNEL_STEP == 0 && n >= LEAST_CHANNELS &&
         n % CHANNEL_STEP == 0;
}

// Writes to `to` the loops in their new order, and to from[i] the old index of each; a loop over kx
// and the channels becomes two loops. Returns their number; *nouter: the images.
static int new_loops(const Kernel *k, const Roles *r, KLoop *to, int *from, int *nouter) {
  int n = 0;
  for (int l = k->nouter; l < k->nouter + k->ninner; l++)
    if (l != r->y && l != r->x) from[n++] = l;
  *nouter = n;
  from[n++] = r->y;
  from[n++] = r->x;
  from[n++] = r->ky;
  from[n++] = r->kx < 0 ? r->rows : r->kx;
  from[n++] = r->rows;
  from[n++] = r->columns;
  for (int i = 0; i < n; i++) {
    to[i] = k->loop[from[i]];
    to[i].nparts = 0;
    to[i].part = NULL;
  }
  to[n - 3].size = TAPS;
  to[n - 2].size = r->channels;
  if (r->kx < 0) to[n - 3].name = "kx", to[n - 2].name = "channels";
  return n;
}

static void move_strides(KPtr *p, const Roles *r, const int *from, int n) {
  int64_t old[MAX_LOOPS];
  memcpy(old, p->stride, sizeof old);
  memset(p->stride, 0, sizeof old);
  for (int i = 0; i < n; i++) p->stride[i] = old[from[i]];
  if (r->kx < 0) p->stride[n - 3] *= r->channels;
}

void kernel_by_images(Kernel *k) {
  int image = 0, slope = 0, from[MAX_LOOPS + 1], nouter;
  Roles r;
  if (k->nouter + k->ninner >= MAX_LOOPS) return;
  int sum = lone_product_sum(k, &image, &slope);
  if (sum == NO_STMT || k->stmt[slope].arg[1] != NO_STMT ||
      !plain_guard(k, k->stmt[image].arg[1]) ||
      !find_roles(k, pointer_of(k, image), pointer_of(k, slope), &r) || !long_enough(k, &r))
    return;
  KLoop loop[MAX_LOOPS];
  int n = new_loops(k, &r, loop, from, &nouter);
  memcpy(k->loop, loop, sizeof *loop * (size_t)n);
  for (int p = 0; p < k->nptr; p++) move_strides(&k->ptr[p], &r, from, n);
  for (int w = 0; w < k->nwalks; w++) move_strides(&k->walk[w], &r, from, n);
  k->stmt[sum].kind = K_ACCUM;
  k->stmt[sum].index = k->stmt[sum + 1].index;
  k->nstmts--;
  k->nouter = (uint8_t)nouter;
  k->ninner = (uint8_t)(n - nouter);
  k->nphases = 1;
  k->vector = (int8_t)(n - 1);
  k->rows = -1;
  k->block = 0;
  k->images = true;
}

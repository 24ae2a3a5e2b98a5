// Memory of the stand-in of libcuda: allocation, page-locked memory, copies, fills.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/standin/cuda/host.h"
#include "tests/standin/cuda/stream.h"

enum { PAGE = 4096 };

static char *pointer(CudaAddress at) { return (char *)(uintptr_t)at; }

// -- allocation ---------------------------------------------------------------------------------

// Returns what a call has to return that needs a context and may not happen during a capture.
static CudaResult check_call(void) {
  return current_context ? capture_disturbed() : CUDA_BAD_CONTEXT;
}

CudaResult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  BEGIN("cuMemGetInfo");
  if (!current_context) END(CUDA_BAD_CONTEXT);
  *free_bytes = memory_left(state.memory);
  *total = memory_size(state.memory);
  END(CUDA_OK);
}

CudaResult cuMemAlloc_v2(CudaAddress *at, size_t bytes) {
  BEGIN("cuMemAlloc");
  CudaResult r = check_call();
  if (r == CUDA_OK && bytes == 0) r = CUDA_BAD_VALUE;
  if (r != CUDA_OK) END(r);
  *at = (CudaAddress)(uintptr_t)memory_allocate(state.memory, bytes);
  END(*at ? CUDA_OK : CUDA_NO_MEMORY);
}

CudaResult cuMemFree_v2(CudaAddress at) {
  BEGIN("cuMemFree");
  CudaResult r = check_call();
  if (r != CUDA_OK || !at) END(r);
  memory_release(state.memory, pointer(at), state.hangs || state.failed ? NULL : &state.host);
  END(CUDA_OK);
}

CudaResult cuMemHostAlloc(void **at, size_t bytes, unsigned flags) {
  BEGIN("cuMemHostAlloc");
  CudaResult r = check_call();
  if (r == CUDA_OK && bytes == 0) r = CUDA_BAD_VALUE;
  if (r != CUDA_OK) END(r);
  *at = host_allocate(bytes, flags & CUDA_HOST_MAPPED);
  END(*at ? CUDA_OK : CUDA_NO_MEMORY);
}

CudaResult cuMemFreeHost(void *at) {
  BEGIN("cuMemFreeHost");
  CudaResult r = check_call();
  if (r == CUDA_OK) host_release(at, true, state_call());
  END(r);
}

CudaResult cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
  BEGIN("cuMemHostRegister");
  (void)flags;
  CudaResult r = check_call();
  if (r != CUDA_OK) END(r);
  END(host_register(at, bytes) ? CUDA_OK : CUDA_ALREADY_REGISTERED);
}

CudaResult cuMemHostUnregister(void *at) {
  BEGIN("cuMemHostUnregister");
  CudaResult r = check_call();
  if (r == CUDA_OK) host_release(at, false, state_call());
  END(r);
}

// -- copies -------------------------------------------------------------------------------------

typedef struct Copy {
  char *to;
  const char *from;
  size_t bytes;
} Copy;

static void run_copy(void *argument) {
  const Copy *c = argument;
  memmove(c->to, c->from, c->bytes);
}

// Enqueues a copy. to_host and from_host: STANDIN_HOST where that side is memory of the host.
static CudaResult copy(char *to, int to_host, const char *from, int from_host, size_t bytes,
                       CudaStream stream) {
  if (!current_context) return CUDA_BAD_CONTEXT;
  if (bytes == 0) return CUDA_OK;
  Copy c = {to, from, bytes};
  StandinAccess access[] = {{from, bytes, 1, 0, from_host},
                            {to, bytes, 1, 0, to_host | STANDIN_WRITES}};
  char name[64];
  snprintf(name, sizeof name, "%s of %llu bytes", state_call(), (unsigned long long)bytes);
  return stream_enqueue(stream, work_new(name, access, 2, run_copy, &c, sizeof c));
}

// A copy to memory that is not page-locked ends before the call returns, unless it is captured.
static CudaResult wait_if_pageable(CudaResult r, const void *to, CudaStream stream) {
  if (r != CUDA_OK || host_find(to) || stream_of(stream)->capture) return r;
  return stream_wait(stream);
}

CudaResult cuMemcpyHtoDAsync_v2(CudaAddress to, const void *from, size_t bytes, CudaStream stream) {
  BEGIN("cuMemcpyHtoDAsync");
  END(copy(pointer(to), 0, from, STANDIN_HOST, bytes, stream));
}

CudaResult cuMemcpyDtoHAsync_v2(void *to, CudaAddress from, size_t bytes, CudaStream stream) {
  BEGIN("cuMemcpyDtoHAsync");
  CudaResult r = copy(to, STANDIN_HOST, pointer(from), 0, bytes, stream);
  END(wait_if_pageable(r, to, stream));
}

CudaResult cuMemcpyDtoDAsync_v2(CudaAddress to, CudaAddress from, size_t bytes, CudaStream stream) {
  BEGIN("cuMemcpyDtoDAsync");
  if (to < from + bytes && from < to + bytes)
    standin_fail("cuMemcpyDtoDAsync copies %llu bytes from %p to %p: the two overlap",
                 (unsigned long long)bytes, (void *)pointer(from), (void *)pointer(to));
  END(copy(pointer(to), 0, pointer(from), 0, bytes, stream));
}

CudaResult cuMemcpyHtoD_v2(CudaAddress to, const void *from, size_t bytes) {
  BEGIN("cuMemcpyHtoD");
  CudaResult r = copy(pointer(to), 0, from, STANDIN_HOST, bytes, NULL);
  END(r == CUDA_OK ? stream_wait(NULL) : r);
}

CudaResult cuMemcpyDtoH_v2(void *to, CudaAddress from, size_t bytes) {
  BEGIN("cuMemcpyDtoH");
  CudaResult r = copy(to, STANDIN_HOST, pointer(from), 0, bytes, NULL);
  END(r == CUDA_OK ? stream_wait(NULL) : r);
}

// -- fills --------------------------------------------------------------------------------------

typedef struct Fill {
  char *at;
  size_t width, rows, pitch;
  unsigned char value;
} Fill;

// Fills with zeros. Whole pages of memory are given back to the system, which makes them zeros when
// they are touched: programs clear large memories of which they use little.
static void clear(char *at, size_t bytes) {
  uintptr_t from = ((uintptr_t)at + PAGE - 1) / PAGE * PAGE,
            to = ((uintptr_t)at + bytes) / PAGE * PAGE;
  size_t before = from - (uintptr_t)at;
  if (from >= to || madvise((void *)from, to - from, MADV_DONTNEED) != 0) {
    memset(at, 0, bytes);
    return;
  }
  memset(at, 0, before);
  memset((void *)to, 0, (uintptr_t)at + bytes - to);
}

static void run_fill(void *argument) {
  const Fill *f = argument;
  for (size_t row = 0; row < f->rows; row++)
    if (f->value == 0)
      clear(f->at + row * f->pitch, f->width);
    else
      memset(f->at + row * f->pitch, f->value, f->width);
}

static CudaResult fill(Fill f, CudaStream stream) {
  if (!current_context) return CUDA_BAD_CONTEXT;
  if (f.width == 0 || f.rows == 0) return CUDA_OK;
  if (f.rows > 1 && f.pitch < f.width) return CUDA_BAD_VALUE;
  StandinAccess access = {f.at, f.width, f.rows, f.pitch, STANDIN_WRITES};
  return stream_enqueue(stream, work_new(state_call(), &access, 1, run_fill, &f, sizeof f));
}

CudaResult cuMemsetD8Async(CudaAddress at, unsigned char value, size_t n, CudaStream stream) {
  BEGIN("cuMemsetD8Async");
  END(fill((Fill){pointer(at), n, 1, n, value}, stream));
}

CudaResult cuMemsetD8_v2(CudaAddress at, unsigned char value, size_t n) {
  BEGIN("cuMemsetD8");
  END(fill((Fill){pointer(at), n, 1, n, value}, NULL));
}

CudaResult cuMemsetD2D8Async(CudaAddress at, size_t pitch, unsigned char value, size_t width,
                             size_t height, CudaStream stream) {
  BEGIN("cuMemsetD2D8Async");
  END(fill((Fill){pointer(at), width, height, pitch, value}, stream));
}

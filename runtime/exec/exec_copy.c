// Runs the copies and fills of a program: the share of one worker (thread) of a processor.
#include "runtime/exec/exec_internal.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

// Sets n bytes to 0 by stores that go past the caches, where the processor has such stores.
static void zero_streamed(char *to, size_t n) {
#if defined(__SSE2__)
  enum { STORE = 16 };
  size_t before = -(uintptr_t)to % STORE;
  if (before > n) before = n;
  memset(to, 0, before);
  for (to += before, n -= before; n >= STORE; to += STORE, n -= STORE)
    _mm_stream_si128((__m128i *)(void *)to, _mm_setzero_si128());
  _mm_sfence();
#endif
  memset(to, 0, n);
}

void run_copy(const BoundInstr *b, int member, int members, const LoopSteps *steps) {
  int64_t lo, hi, from = ref_moved(b->u.copy.from, steps->depth, steps->at);
  share_of(b->u.copy.bytes, 4096, member, members, &lo, &hi);
  char *dst = (char *)b->u.copy.dst + ref_moved(b->u.copy.to, steps->depth, steps->at) + lo;
  if (b->u.copy.streamed)
    zero_streamed(dst, (size_t)(hi - lo));
  else if (b->kind == INSTR_FILL)
    memset(dst, 0, (size_t)(hi - lo));
  else
    memmove(dst, (const char *)b->u.copy.src + from + lo, (size_t)(hi - lo));
}

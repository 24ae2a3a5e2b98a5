// Page-locked memory of the host (host.h).
#define _GNU_SOURCE // REG_EFL
#include "tests/standin/cuda/host.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "ir/base/mem.h"
#include "tests/standin/fail.h"

enum { PAGE = 4096 };
#if defined(__x86_64__) && defined(__linux__)
enum { SINGLE_STEPS = 1, TRAP_FLAG = 0x100 };
#else
enum { SINGLE_STEPS = 0 };
#endif

typedef struct Range { // page-locked memory
  Shadow shadow;
  bool allocated, polled;
} Range;

typedef struct Pending { // a copy for which the host has not waited
  char *at;
  size_t bytes;
  bool writes;
  uint64_t digest; // of the bytes that it reads
  uint32_t lane, number;
  char name[64];
} Pending;

static Range **range;
static size_t nranges;
static Pending *pending;
static size_t npending, room;
static int64_t *held, shown; // values of polled memory that the host has not seen; the one it sees
static size_t nheld;
void (*host_other_fault)(const char *at);

// -- ranges -------------------------------------------------------------------------------------

static Range *range_of(const char *at) {
  for (size_t i = 0; i < nranges; i++)
    if (at >= range[i]->shadow.from && at < range[i]->shadow.from + range[i]->shadow.bytes)
      return range[i];
  return NULL;
}

Shadow *host_find(const char *at) {
  Range *r = range_of(at);
  return r ? &r->shadow : NULL;
}

bool host_is_polled(const char *at) {
  const Range *r = range_of(at);
  return r && r->polled;
}

static Range *add_range(char *at, size_t bytes, bool allocated) {
  range = mem_grow(range, (nranges + 1) * sizeof *range);
  Range *r = range[nranges++] = mem_zeroed(1, sizeof *r);
  r->allocated = allocated;
  shadow_begin(&r->shadow, at, bytes, false);
  r->shadow.outside = true;
  return r;
}

static size_t pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

void *host_allocate(size_t bytes, bool polled) {
  void *at = mmap(NULL, pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return NULL;
  memset(at, 0xff, bytes); // its contents are undefined
  add_range(at, bytes, true)->polled = polled;
  return at;
}

bool host_register(char *at, size_t bytes) {
  for (size_t i = 0; i < nranges; i++) {
    const Shadow *s = &range[i]->shadow;
    if (at < s->from + s->bytes && s->from < at + bytes) return false;
  }
  add_range(at, bytes, false);
  return true;
}

static void end_range(size_t i) {
  Range *r = range[i];
  if (r->allocated) munmap(r->shadow.from, pages(r->shadow.bytes));
  shadow_end(&r->shadow);
  free(r);
  range[i] = range[--nranges];
}

void host_release(char *at, bool allocated, const char *call) {
  size_t i = 0;
  while (i < nranges && (range[i]->shadow.from != at || range[i]->allocated != allocated)) i++;
  if (i == nranges) standin_fail("%s gets %p, which begins no such memory", call, (void *)at);
  for (size_t p = 0; p < npending; p++)
    if (pending[p].at < at + range[i]->shadow.bytes && at < pending[p].at + pending[p].bytes)
      standin_fail("%s ends memory that %s accesses, for which the host has not waited: "
                   "synchronise its stream before",
                   call, pending[p].name);
  end_range(i);
}

uint32_t host_leaks(char *text, size_t n) {
  if (nranges)
    snprintf(text, n, "%u pieces of page-locked memory, one of %llu bytes", (unsigned)nranges,
             (unsigned long long)range[0]->shadow.bytes);
  return (uint32_t)nranges;
}

// -- protected pages ----------------------------------------------------------------------------

// Sets from..to to the pages that are protected for a copy: those that it writes, as far as they
// lie in its page-locked memory. Returns false if there are none.
static bool guarded(const Pending *p, char **from, char **to) {
  const Range *r = range_of(p->at);
  if (!p->writes || !r) return false;
  uintptr_t low = (uintptr_t)r->shadow.from, high = low + r->shadow.bytes;
  if (r->allocated) high = low + pages(r->shadow.bytes);
  uintptr_t a = (uintptr_t)p->at, b = a + p->bytes;
  a = (SINGLE_STEPS ? a : a + PAGE - 1) / PAGE * PAGE;
  b = (SINGLE_STEPS ? b + PAGE - 1 : b) / PAGE * PAGE;
  if (a < low) a += PAGE;
  if (b > high) b -= PAGE;
  *from = (char *)a;
  *to = (char *)b;
  return a < b;
}

static void protect(int how) {
  char *from, *to;
  for (size_t i = 0; i < npending; i++)
    if (guarded(&pending[i], &from, &to)) mprotect(from, (size_t)(to - from), how);
}

static uint64_t digest(const char *at, size_t bytes) {
  uint64_t d = 14695981039346656037u, word;
  for (; bytes >= sizeof word; at += sizeof word, bytes -= sizeof word) {
    memcpy(&word, at, sizeof word);
    d = (d ^ word) * 1099511628211u;
    d ^= d >> 32;
  }
  for (; bytes > 0; at++, bytes--) d = (d ^ (unsigned char)*at) * 1099511628211u;
  return d;
}

static bool touches_host(const StandinAccess *access, int n) {
  for (int i = 0; i < n; i++)
    if (range_of(access[i].at)) return true;
  return false;
}

static bool lifted; // host_guard has to protect pages again

void host_lift(const StandinAccess *access, int n) {
  lifted = npending > 0 && (!access || touches_host(access, n));
  if (lifted) protect(PROT_READ | PROT_WRITE);
}

void host_guard(const StandinAccess *access, int n, uint32_t lane, uint32_t number,
                const char *name) {
  if (!lifted && !touches_host(access, n)) return;
  for (int i = 0; i < n; i++) {
    if (!range_of(access[i].at)) continue;
    if (npending == room) {
      room = 2 * room + 16;
      pending = mem_grow(pending, room * sizeof *pending);
    }
    Pending *p = &pending[npending++];
    *p = (Pending){.at = (char *)(uintptr_t)access[i].at,
                   .bytes = access[i].bytes,
                   .writes = access[i].flags & STANDIN_WRITES,
                   .lane = lane,
                   .number = number};
    if (!p->writes) p->digest = digest(p->at, p->bytes);
    snprintf(p->name, sizeof p->name, "%s", name);
  }
  protect(PROT_NONE);
}

// Whether a later copy, for which the host has not waited either, writes a part of what p reads.
static bool written_since(const Pending *p) {
  for (const Pending *q = p + 1; q < pending + npending; q++)
    if (q->writes && q->at < p->at + p->bytes && p->at < q->at + q->bytes) return true;
  return false;
}

static void check_source(const Pending *p) {
  if (!p->writes && !written_since(p) && digest(p->at, p->bytes) != p->digest)
    standin_fail("the host changed a part of the %llu bytes at %p that %s reads, before it waited "
                 "for the copy: synchronise its stream, or an event behind it, before",
                 (unsigned long long)p->bytes, (void *)p->at, p->name);
}

void host_waited(const Clock *host) {
  if (npending == 0) return;
  protect(PROT_READ | PROT_WRITE);
  for (size_t i = 0; i < npending; i++)
    if (clock_covers(host, pending[i].lane, pending[i].number)) check_source(&pending[i]);
  size_t kept = 0;
  for (size_t i = 0; i < npending; i++)
    if (!clock_covers(host, pending[i].lane, pending[i].number)) pending[kept++] = pending[i];
  npending = kept;
  protect(PROT_NONE);
}

void host_free_all(void) {
  protect(PROT_READ | PROT_WRITE);
  npending = 0;
  free(pending);
  pending = NULL;
  while (nranges) end_range(nranges - 1);
  free(range);
  range = NULL;
  free(held);
  held = NULL;
  nheld = 0;
}

// -- polled memory ------------------------------------------------------------------------------

// Returns the first number of the polled memory, of which there is one piece at most. NULL: none.
static int64_t *polled(void) {
  for (size_t i = 0; i < nranges; i++)
    if (range[i]->polled) return (int64_t *)(void *)range[i]->shadow.from;
  return NULL;
}

void host_hold(void) {
  int64_t *at = polled();
  if (!at || *at == (nheld ? held[nheld - 1] : shown)) return;
  held = mem_grow(held, (nheld + 1) * sizeof *held);
  held[nheld++] = *at;
}

void host_show(double share) {
  int64_t *at = polled();
  size_t n = share < 1 ? (size_t)(share * (double)nheld) : nheld;
  if (!at) return;
  if (n > 0) shown = held[n - 1];
  *at = shown;
  if (n == nheld) nheld = 0;
}

// -- faults -------------------------------------------------------------------------------------

static struct sigaction old_fault, old_trap;

// Returns whether `at` lies in a protected page. Ends the process if a copy writes that byte.
static bool is_guarded(const char *at) {
  bool found = false;
  char *from, *to;
  for (size_t i = 0; i < npending; i++) {
    const Pending *p = &pending[i];
    if (p->writes && at >= p->at && at < p->at + p->bytes)
      standin_fail("the host accesses byte %lld of the %llu bytes at %p that %s writes, before it "
                   "waited for the copy: synchronise its stream, or an event behind it, before",
                   (long long)(at - p->at), (unsigned long long)p->bytes, (void *)p->at, p->name);
    if (guarded(p, &from, &to) && at >= from && at < to) found = true;
  }
  return found;
}

static void on_fault(int signal, siginfo_t *info, void *context) {
  char *at = info->si_addr;
  if (is_guarded(at)) {
    // Lets the instruction run, and comes back behind it.
    mprotect((void *)((uintptr_t)at / PAGE * PAGE), PAGE, PROT_READ | PROT_WRITE);
#if defined(__x86_64__) && defined(__linux__)
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
#else
    (void)context;
#endif
    return;
  }
  if (host_other_fault) host_other_fault(at);
  sigaction(signal, &old_fault, NULL); // the instruction runs again, for the handler before
}

static void on_trap(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
#if defined(__x86_64__) && defined(__linux__)
  ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
#else
  (void)context;
#endif
  protect(PROT_NONE);
}

void host_begin(void) {
  struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  struct sigaction trap = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &fault, &old_fault);
  if (SINGLE_STEPS) sigaction(SIGTRAP, &trap, &old_trap);
}

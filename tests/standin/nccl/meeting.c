// Memory that the ranks of a communicator share (meeting.h): a file of /dev/shm, whose name is
// removed as soon as all ranks have opened it.
#include "tests/standin/nccl/meeting.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/standin/fail.h"

// -- deadlines ----------------------------------------------------------------------------------

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

Deadline deadline_begin(void) {
  const char *text = getenv("MESHC_STANDIN_NCCL_SECONDS");
  return (Deadline){.end = seconds() + (text ? strtod(text, NULL) : 20)};
}

bool deadline_over(Deadline *d) {
  if (++d->turns < 200) {
    sched_yield();
    return false;
  }
  struct timespec nap = {.tv_nsec = 100000};
  nanosleep(&nap, NULL);
  return seconds() > d->end;
}

_Thread_local jmp_buf *meeting_late;

// -- meetings -----------------------------------------------------------------------------------

Meeting *meeting_join(const char *name, int nranks, int rank) {
  int file = shm_open(name, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Meeting)) != 0)
    standin_fail("ncclCommInitRank: no shared memory %s", name);
  Meeting *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (m == MAP_FAILED) standin_fail("ncclCommInitRank: shared memory %s cannot be mapped", name);
  close(file);
  int none = 0;
  if (!atomic_compare_exchange_strong(&m->nranks, &none, nranks) && none != nranks)
    standin_fail("ncclCommInitRank: rank %d says that there are %d ranks, another one says %d",
                 rank, nranks, none);
  snprintf(m->desk[rank].call.text, MEETING_TEXT, "ncclCommInitRank");
  if (atomic_fetch_add(&m->joined, 1) + 1 == nranks) shm_unlink(name);
  meeting_wait(m, rank);
  return m;
}

void meeting_leave(Meeting *m) { munmap(m, sizeof *m); }

// Reports that some ranks have not come, and what all are doing.
static _Noreturn void fail_waiting(const Meeting *m, int rank) {
  if (meeting_late) longjmp(*meeting_late, 1);
  char text[1000];
  size_t used = 0;
  for (int i = 0; i < m->nranks && used < sizeof text; i++)
    if (i != rank)
      used += (size_t)snprintf(text + used, sizeof text - used, ", rank %d: %s", i,
                               m->desk[i].call.text[0] ? m->desk[i].call.text : "not there");
  standin_fail("rank %d waits in %s for other ranks, which do not come%s", rank,
               m->desk[rank].call.text, text);
}

void meeting_wait(Meeting *m, int rank) {
  unsigned round = atomic_load(&m->round);
  if (atomic_fetch_add(&m->arrived, 1) + 1 == m->nranks) {
    atomic_store(&m->arrived, 0);
    atomic_fetch_add(&m->round, 1);
    return;
  }
  Deadline d = deadline_begin();
  while (atomic_load(&m->round) == round)
    if (deadline_over(&d)) fail_waiting(m, rank);
}

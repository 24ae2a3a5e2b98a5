// Shared segments, the memory of the processors of a machine that all its ranks map, and the
// broadcast of a block to other machines.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collectives/ranks/ranks_internal.h"

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 }; // bytes of a page and of a huge page
enum { PASSING = 1 << 20 };                // most bytes of a message of ranks_broadcast_block

struct SharedSegment {
  const Ranks *ranks;
  int64_t stride;   // bytes from the memory of one processor to that of the next
  size_t map_bytes; // bytes of the memory of one rank
  int n;
  char *at[]; // by index of a rank on this machine: the address at which its memory is mapped
};

void segment_free(SharedSegment *w) {
  for (int i = 0; w && i < w->n; i++)
    if (w->at[i]) munmap(w->at[i], w->map_bytes);
  free(w);
}

char *segment_at(const SharedSegment *w, int64_t processor) {
  const Ranks *r = w->ranks;
  if (!ranks_is_local(r, processor)) return NULL;
  int rank = (int)(processor / r->each), i = 0;
  while (r->local_rank[i] != rank) i++;
  return w->at[i] + processor % r->each * w->stride;
}

// Maps the memory of the rank with index i on this machine, which process `pid` has open as
// descriptor `fd`. With `touch` the rank that owns the memory touches all its pages, so that no
// later step waits until the system provides them.
static bool map_of(SharedSegment *w, int i, int pid, int fd, bool touch) {
  const Ranks *r = w->ranks;
  w->at[i] = shared_map(pid, fd, w->map_bytes);
  if (!w->at[i]) return false;
#ifdef MADV_HUGEPAGE
  if (w->map_bytes >= HUGE_PAGE) madvise(w->at[i], w->map_bytes, MADV_HUGEPAGE);
#endif
  if (i != r->index || !touch) return true;
#ifdef MADV_POPULATE_WRITE
  if (madvise(w->at[i], w->map_bytes, MADV_POPULATE_WRITE) == 0) return true;
#endif
  memset(w->at[i], 0, w->map_bytes);
  return true;
}

SharedSegment *ranks_segment(Ranks *r, int64_t bytes, bool touch) {
  SharedSegment *w = mem_zeroed(1, sizeof *w + sizeof(char *) * (size_t)r->nlocal);
  int64_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE, all = 0;
  w->ranks = r;
  w->n = r->nlocal;
  w->stride = ceil_div(bytes > 0 ? bytes : 1, unit) * unit;
  int fd = size_mul(w->stride, r->each, &all) ? shared_make((size_t)all) : -1;
  w->map_bytes = (size_t)all;
  const RankNote *const *note;
  RankNote mine = {.what = NOTE_MEMORY, .size = bytes, .value = fd};
  bool good = ranks_meet(r, &mine, false, &note);
  for (int i = 0; good && i < r->nlocal; i++)
    good =
        note[r->local_rank[i]]->value >= 0 && map_of(w, i, atomic_load(&r->rendezvous->rank[i].pid),
                                                     (int)note[r->local_rank[i]]->value, touch);
  good = ranks_meet_local(r, false) && good; // waits until all ranks have mapped it
  if (fd >= 0) close(fd);
  if (good) return w;
  segment_free(w);
  return NULL;
}

// -- broadcast to other machines ----------------------------------------------------------------

// Sends n bytes in `room` from the leader of machine `from` to the buffer `room` of the leaders of
// all other machines. A leader is the first rank of a machine. Returns false once the run has
// failed.
static bool pass_piece(Ranks *r, int from, char *room, int64_t n) {
  TransportPeer *peer = mem_zeroed((size_t)r->machines, sizeof *peer);
  int npeers = 0;
  for (int m = 0; m < r->machines; m++)
    if (from == r->machine && m != from)
      peer[npeers++] = (TransportPeer){.rank = r->leader[m], .out = room, .nout = n};
  if (from != r->machine)
    peer[npeers++] = (TransportPeer){.rank = r->leader[from], .in = room, .nin = n};
  bool good = ranks_exchange(r, npeers, peer, (WaitLimit){.seconds = r->deadline});
  free(peer);
  return good;
}

bool ranks_broadcast_block(Ranks *r, int64_t processor, const void *block, int64_t bytes,
                           void *out) {
  if (r->machines == 1) return true;
  if (!r->passing && !(r->passing = ranks_segment(r, PASSING, true))) return false;
  char *room = segment_at(r->passing, r->leader[r->machine] * r->each);
  int from = ranks_machine(r, processor);
  for (int64_t at = 0; at < bytes; at += PASSING) {
    int64_t n = bytes - at < PASSING ? bytes - at : PASSING;
    if (r->index == 0 && from == r->machine) memcpy(room, (const char *)block + at, (size_t)n);
    if (r->index == 0 && !pass_piece(r, from, room, n)) return false;
    if (!ranks_meet_local(r, false)) return false;
    if (out && from != r->machine) memcpy((char *)out + at, room, (size_t)n);
    if (!ranks_meet_local(r, false)) return false;
  }
  return true;
}

// Ranks: facts about the run, meetings of the ranks of all machines, and the end of a rank.
#define _GNU_SOURCE
#include "collectives/ranks/ranks_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  INTERNODE_SECONDS = 4, // added to the time limit of a wait for other machines
  BUSY = 4096            // number of polls of a wait before it begins to sleep between polls
};

// -- facts about the run ------------------------------------------------------------------------

int ranks_rank(const Ranks *r) { return r->rank; }
int ranks_count(const Ranks *r) { return r->count; }
int ranks_local_count(const Ranks *r) { return r->nlocal; }
int ranks_local_index(const Ranks *r) { return r->index; }
bool ranks_is_leader(const Ranks *r) { return r->index == 0; }
int64_t ranks_first_processor(const Ranks *r) { return r->rank * r->each; }
int64_t ranks_processors(const Ranks *r) { return r->each; }
int64_t ranks_local_processors(const Ranks *r) { return r->nlocal * r->each; }
bool ranks_is_local(const Ranks *r, int64_t processor) {
  return ranks_machine(r, processor) == r->machine;
}
bool ranks_failed(const Ranks *r) { return atomic_load(&r->rendezvous->failed) != 0; }

int ranks_cores(const Ranks *r, int all) {
  if (r->bound) return all;
  int n = all / r->nlocal + (r->index < all % r->nlocal);
  return n < 1 ? 1 : n;
}

bool ranks_use_mesh(Ranks *r, const Mesh *mesh) {
  int64_t n = mesh_size(mesh);
  if (n % r->count != 0) return false;
  r->mesh = mesh;
  r->each = n / r->count;
  ranks_name(r, r->rank, r->rendezvous->rank[r->index].name, RANK_NAME);
  if (r->guard_info) ranks_name(r, r->rank, r->guard_info->name, RANK_NAME);
  return true;
}

// -- meetings -----------------------------------------------------------------------------------

// The state of one wait of this rank for messages of other machines.
typedef struct Waiting {
  const Ranks *r;
  double began; // clock (seconds) at the start of the wait; with limit.patient, at the last
                // heartbeat if one has come since
  WaitLimit limit;
  uint32_t calls;
  bool late;
} Waiting;

// Restarts the time limit of wait w if any other machine has sent a heartbeat since the last call.
// Does so only for a patient wait, whose limit counts from the last heartbeat.
static void listen(Waiting *w) {
  const Ranks *r = w->r;
  for (int m = 0; w->limit.patient && m < r->machines; m++)
    if (m != r->machine && r->transport->received_heartbeats(r->leader[m]) > 0)
      w->began = clock_seconds();
}

static bool keep_waiting(void *context) {
  Waiting *w = context;
  if (++w->calls < BUSY && w->calls % 64) return true;
  if (atomic_load(&w->r->rendezvous->failed)) return false;
  listen(w);
  w->late =
      w->limit.seconds > 0 && clock_seconds() - w->began > w->limit.seconds + INTERNODE_SECONDS;
  if (w->late) return false;
  const struct timespec nap = {0, 20000};
  if (!w->r->spin || w->calls > 64 * BUSY) nanosleep(&nap, NULL);
  return true;
}

bool ranks_exchange(Ranks *r, int n, TransportPeer *peer, WaitLimit limit) {
  Waiting w = {r, clock_seconds(), limit, 0, false};
  atomic_store(&r->rendezvous->waits_for_machines, 1);
  bool good = r->transport->exchange(n, peer, keep_waiting, &w);
  listen(&w); // receives the heartbeats: MPI must not end with unreceived messages
  atomic_store(&r->rendezvous->waits_for_machines, 0);
  if (good || atomic_load(&r->rendezvous->failed)) return good;
  int k = 0;
  while (k + 1 < n && peer[k].nin >= 0) k++;
  char name[RANK_NAME], here[128];
  // Other machines may also wait for the lost rank, and one of them should report it. So machine m
  // waits m / 4 seconds before it does.
  const struct timespec pause = {r->machine / 4, r->machine % 4 * 250000000L};
  nanosleep(&pause, NULL);
  return ranks_fail(
      r,
      w.late ? "%s does not answer: rank %d waited for it more than %g seconds %s"
             : "the connection to %s is lost: rank %d waited for it, at most %g seconds, %s",
      ranks_name(r, peer[k].rank, name, sizeof name), r->rank, limit.seconds,
      doing_text(r->now.what, (int)r->now.line, here, sizeof here));
}

// Gets the notes of all ranks of the run; a note says what a rank is about to do. The leaders
// (first ranks) of the machines exchange the notes of their machines, and write all notes to the
// shared memory of each machine. `half` (0 or 1) selects the array of notes that this meeting uses.
// Returns false once the run has failed.
static bool gather_notes(Ranks *r, int half, WaitLimit limit) {
  RankNote *all = rendezvous_notes(r->rendezvous, half);
  if (r->index == 0) {
    TransportPeer *peer = mem_zeroed((size_t)r->count * (size_t)r->nlocal, sizeof *peer);
    int n = 0;
    // each note is a message of its own, because machines have different numbers of ranks
    for (int k = 0; k < r->nlocal; k++) all[r->local_rank[k]] = r->rendezvous->rank[k].note[half];
    for (int m = 0; m < r->machines; m++) {
      int theirs = 0;
      if (m == r->machine) continue;
      for (int i = 0; i < r->count; i++) {
        if (r->machine_of[i] != m) continue;
        TransportPeer p = {.rank = r->leader[m], .in = &all[i], .nin = sizeof(RankNote)};
        if (theirs < r->nlocal) p.out = &all[r->local_rank[theirs]], p.nout = sizeof(RankNote);
        peer[n++] = p;
        theirs++;
      }
      for (; theirs < r->nlocal; theirs++)
        peer[n++] = (TransportPeer){
            .rank = r->leader[m], .out = &all[r->local_rank[theirs]], .nout = sizeof(RankNote)};
    }
    bool good = ranks_exchange(r, n, peer, limit);
    free(peer);
    if (!good) return false;
  }
  if (limit.seconds > 0) limit.seconds += INTERNODE_SECONDS;
  if (!rendezvous_meet(r, limit)) return false;
  for (int i = 0; i < r->count; i++) r->all[i] = &all[i];
  return true;
}

static void describe(const RankNote *n, char *out, size_t room) {
  char doing[128];
  doing_text(n->what, (int)n->line, doing, sizeof doing);
  if (n->what >= NOTE_CALL)
    snprintf(out, room, "%s (call %llu, %lld byte%s, %lld element%s)", doing,
             (unsigned long long)n->sequence, (long long)n->size, plural(n->size),
             (long long)n->elements, plural(n->elements));
  else
    snprintf(out, room, "%s", doing);
}

static bool agree(Ranks *r) {
  const RankNote *a = r->all[0];
  for (int i = 1; i < r->count; i++) {
    const RankNote *b = r->all[i];
    if (a->what == b->what && a->line == b->line && a->sequence == b->sequence &&
        a->size == b->size && a->elements == b->elements)
      continue;
    if (r->machine > 0) { // machine 0 finds the difference too, and reports it
      rendezvous_end(r->rendezvous, EXIT_LOST);
      return false;
    }
    char name[2][RANK_NAME], text[2][192];
    describe(a, text[0], sizeof text[0]);
    describe(b, text[1], sizeof text[1]);
    return ranks_fail(r, "the ranks do not do the same: %s is %s, and %s is %s",
                      ranks_name(r, i, name[1], RANK_NAME), text[1],
                      ranks_name(r, 0, name[0], RANK_NAME), text[0]);
  }
  return true;
}

bool ranks_meet(Ranks *r, const RankNote *mine, bool patient, const RankNote *const **all) {
  const WaitLimit limit = {r->deadline, patient};
  RendezvousRank *own = &r->rendezvous->rank[r->index];
  int half = (int)(r->notes++ & 1);
  r->now = own->note[half] = *mine;
  if (r->guard_info) r->guard_info->doing = mine->what, r->guard_info->line = mine->line;
  atomic_store(&own->doing, (int)mine->what);
  atomic_store(&own->line, (int)mine->line);
  if (!rendezvous_meet(r, limit)) return false;
  for (int i = 0; i < r->nlocal; i++) r->all[r->local_rank[i]] = &r->rendezvous->rank[i].note[half];
  if (r->machines > 1 && !gather_notes(r, half, limit)) return false;
  if (all) *all = r->all;
  return agree(r);
}

bool ranks_meet_local(Ranks *r, bool patient) {
  return rendezvous_meet(r, (WaitLimit){r->deadline, patient});
}

void ranks_do(Ranks *r, NoteKind what) {
  RendezvousRank *own = &r->rendezvous->rank[r->index];
  r->now = (RankNote){.what = (uint32_t)what};
  if (r->guard_info) r->guard_info->doing = r->now.what, r->guard_info->line = 0;
  atomic_store(&own->doing, (int)what);
  atomic_store(&own->line, 0);
}

void ranks_advance(Ranks *r) { atomic_fetch_add(&r->rendezvous->rank[r->index].advances, 1); }

unsigned ranks_advances(const Ranks *r) {
  unsigned all = 0;
  for (int i = 0; i < r->nlocal; i++) all += atomic_load(&r->rendezvous->rank[i].advances);
  return all;
}

// A rank that has been silent for as long as the deadline is the better reason: it is found within
// this time after the deadline.
static const double SILENT_SECONDS = 1;

bool ranks_watch(Ranks *r, double waited, const char *what) {
  char name[RANK_NAME];
  int missing;
  // no rank arrives at a meeting of this number: all are looked at
  if (!rendezvous_check(r, LLONG_MAX, waited, (WaitLimit){r->deadline, true}, &missing))
    return false;
  if (r->deadline <= 0 || waited <= r->deadline + SILENT_SECONDS) return true;
  return ranks_fail(r, "%s has waited for %s more than %g seconds, the deadline of --timeout",
                    ranks_name(r, r->rank, name, sizeof name), what, r->deadline);
}

// -- the end of a rank --------------------------------------------------------------------------

int ranks_leave(Ranks *r, int code) {
  RankNote end = {.what = NOTE_END, .size = code};
  bool well = (code == 0 || code == EXIT_INTERRUPTED) && ranks_meet(r, &end, true, NULL);
  if (!well) {
    rendezvous_end(r->rendezvous, code ? code : EXIT_LOST);
    code = atomic_load(&r->rendezvous->failed);
  }
  if (*r->error && ranks_claim_report(r)) ranks_report(r->error);
  atomic_store(&r->rendezvous->rank[r->index].left, 1 + code);
  heartbeat_end(r);
  if (r->guard_info && atomic_load(&r->guard_info->guarded))
    kill(getppid(), SIGCONT); // continues the guard, which could not end if it is stopped
  if (well && r->transport) r->transport->stop();
  return code;
}

// The module meshc_mpi: a Transport over MPI 3.1. No other file uses MPI.
#define _GNU_SOURCE // for PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/ranks/transport.h"

enum { TAG = 1, TAG_HEARTBEAT = 2, MESSAGE_MAX = 1 << 30 };

// A mutex that the thread that calls MPI holds. MPI is started in a mode in which only one thread
// at a time may call it.
static pthread_mutex_t gate = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static bool heartbeats_on;          // heartbeats are sent: MPI allows calls by a second thread
static atomic_uint exchanges;       // number of calls of mpi_exchange begun so far
static MPI_Request *heartbeat_sent; // by rank: the request of the last heartbeat sent to it

// Restricts Open MPI to shared memory if all ranks run on one machine, because with TCP it would
// listen on every network interface. Keeps settings that the user has made.
static void stay_local(void) {
  const char *all = getenv("OMPI_COMM_WORLD_SIZE"), *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (!all || !here || strcmp(all, here) != 0) return;
  setenv("OMPI_MCA_pml", "ob1", 0);
  setenv("OMPI_MCA_btl", "self,vader", 0);
}

static bool mpi_start(int *rank, int *count, char *why, size_t room) {
  int level;
  stay_local();
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS ||
      level < MPI_THREAD_FUNNELED) {
    snprintf(why, room, "MPI does not start with threads");
    return false;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, count);
  heartbeat_sent = calloc((size_t)*count, sizeof *heartbeat_sent);
  for (int i = 0; heartbeat_sent && i < *count; i++) heartbeat_sent[i] = MPI_REQUEST_NULL;
  heartbeats_on = heartbeat_sent && level >= MPI_THREAD_SERIALIZED;
  return true;
}

static bool post(const TransportPeer *p, MPI_Request *receive, MPI_Request *send) {
  *receive = *send = MPI_REQUEST_NULL;
  if (p->nin > MESSAGE_MAX || p->nout > MESSAGE_MAX) return false;
  bool good = true;
  if (p->nin)
    good = MPI_Irecv(p->in, (int)p->nin, MPI_BYTE, p->rank, TAG, MPI_COMM_WORLD, receive) ==
           MPI_SUCCESS;
  if (good && p->nout)
    good = MPI_Isend(p->out, (int)p->nout, MPI_BYTE, p->rank, TAG, MPI_COMM_WORLD, send) ==
           MPI_SUCCESS;
  return good;
}

// Sets `nin`, the bytes to receive, to -1 for each of n peers whose message has not come.
static void mark_missing(int n, TransportPeer *peer, MPI_Request *request) {
  for (int i = 0; i < n; i++) {
    int done = 1;
    if (peer[i].nin && MPI_Test(&request[2 * i], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
      peer[i].nin = -1;
  }
}

static bool received_all(int n, const TransportPeer *peer, const MPI_Status *status) {
  for (int i = 0; i < n; i++) {
    int got = 0;
    if (!peer[i].nin) continue;
    MPI_Get_count(&status[2 * i], MPI_BYTE, &got);
    if (got != peer[i].nin) return false;
  }
  return true;
}

static bool exchange(int n, TransportPeer *peer, bool (*waits)(void *), void *context) {
  MPI_Request *request = calloc((size_t)n * 2 + 1, sizeof *request);
  MPI_Status *status = calloc((size_t)n * 2 + 1, sizeof *status);
  bool good = request && status;
  int done = 0;
  for (int i = 0; good && i < n; i++) good = post(&peer[i], &request[2 * i], &request[2 * i + 1]);
  while (good && !done) {
    good = MPI_Testall(2 * n, request, &done, status) == MPI_SUCCESS;
    if (good && !done) good = waits(context);
  }
  if (!good && request && status) mark_missing(n, peer, request);
  good = good && received_all(n, peer, status);
  free(request);
  free(status);
  return good;
}

static bool mpi_exchange(int n, TransportPeer *peer, bool (*waits)(void *), void *context) {
  atomic_fetch_add(&exchanges, 1);
  pthread_mutex_lock(&gate);
  bool good = exchange(n, peer, waits, context);
  pthread_mutex_unlock(&gate);
  return good;
}

// -- heartbeats ---------------------------------------------------------------------------------

// Sends a heartbeat message to a rank. Does nothing if the previous heartbeat to this rank has not
// been sent completely.
static void send_one(int rank) {
  int done = 0;
  if (MPI_Test(&heartbeat_sent[rank], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done) return;
  MPI_Isend(NULL, 0, MPI_BYTE, rank, TAG_HEARTBEAT, MPI_COMM_WORLD, &heartbeat_sent[rank]);
}

static void mpi_send_heartbeats(int n, const int *rank) {
  static unsigned last;
  unsigned now = atomic_load(&exchanges);
  bool idle = now == last;
  last = now;
  if (!heartbeats_on || !idle || pthread_mutex_trylock(&gate) != 0) return;
  for (int i = 0; i < n; i++) send_one(rank[i]);
  pthread_mutex_unlock(&gate);
}

static int mpi_received_heartbeats(int rank) {
  int n = 0, there = 0;
  pthread_mutex_lock(&gate); // recursive: also called during an exchange
  while (heartbeats_on &&
         MPI_Iprobe(rank, TAG_HEARTBEAT, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE) ==
             MPI_SUCCESS &&
         there &&
         MPI_Recv(NULL, 0, MPI_BYTE, rank, TAG_HEARTBEAT, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
             MPI_SUCCESS)
    n++;
  pthread_mutex_unlock(&gate);
  return n;
}

static void mpi_stop(void) { MPI_Finalize(); }

__attribute__((visibility("default"))) const Transport *meshc_transport(void);
const Transport *meshc_transport(void) {
  static const Transport mpi = {mpi_start, mpi_exchange, mpi_send_heartbeats,
                                mpi_received_heartbeats, mpi_stop};
  return &mpi;
}

// The module meshc_mpi: a Transport over MPI 3.1. All that the program knows of MPI is in this file.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "collectives/transport.h"

enum { TAG = 1, MESSAGE_MAX = 1 << 30 };

static bool mpi_start(int *rank, int *count, char *why, size_t room) {
  int level;
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS || level < MPI_THREAD_FUNNELED) {
    snprintf(why, room, "MPI does not start with threads");
    return false;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, count);
  return true;
}

static bool post(const TransportPeer *p, MPI_Request *receive, MPI_Request *send) {
  *receive = *send = MPI_REQUEST_NULL;
  if (p->nin > MESSAGE_MAX || p->nout > MESSAGE_MAX) return false;
  bool good = true;
  if (p->nin)
    good = MPI_Irecv(p->in, (int)p->nin, MPI_BYTE, p->rank, TAG, MPI_COMM_WORLD, receive) == MPI_SUCCESS;
  if (good && p->nout)
    good = MPI_Isend(p->out, (int)p->nout, MPI_BYTE, p->rank, TAG, MPI_COMM_WORLD, send) == MPI_SUCCESS;
  return good;
}

// After giving up: whose messages are missing.
static void mark_missing(int n, TransportPeer *peer, MPI_Request *request) {
  for (int i = 0; i < n; i++) {
    int done = 1;
    if (peer[i].nin && MPI_Test(&request[2 * i], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) peer[i].nin = -1;
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

static bool mpi_exchange(int n, TransportPeer *peer, bool (*waits)(void *), void *context) {
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

static void mpi_stop(void) { MPI_Finalize(); }

__attribute__((visibility("default"))) const Transport *meshc_transport(void);
const Transport *meshc_transport(void) {
  static const Transport mpi = {mpi_start, mpi_exchange, mpi_stop};
  return &mpi;
}

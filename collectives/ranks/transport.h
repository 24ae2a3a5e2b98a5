// Transport: messages between ranks on several machines. The program does not link MPI: the module
// meshc_mpi (collectives/ranks/comm_mpi.c) does, and only a rank that mpirun has started loads it.
// Its one symbol is TRANSPORT_SYMBOL.
#ifndef COLLECTIVES_TRANSPORT_H
#define COLLECTIVES_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One message to a peer and one from it.
typedef struct TransportPeer {
  int rank;
  const void *out; // nout bytes to send; 0: no message
  int64_t nout;
  void *in; // gets the nin bytes that are received; 0: no message
  int64_t nin;
} TransportPeer;

typedef struct Transport {
  // Joins the run. False with a message in `why`.
  bool (*start)(int *rank, int *count, char *why, size_t room);
  // Exchanges all messages of n peers. Calls waits(context) repeatedly meanwhile, and gives up when
  // that returns false, or after an error of the transport: then nin is -1 where a message has not
  // come. Only the first thread of the rank calls it.
  bool (*exchange)(int n, TransportPeer *peer, bool (*waits)(void *), void *context);
  // Sends a heartbeat to each of n ranks, unless the first thread exchanges messages or has done so
  // since the last call. For another thread of the rank.
  void (*send_heartbeats)(int n, const int *rank);
  // Heartbeats of that rank since the last call. For the first thread.
  int (*received_heartbeats)(int rank);
  void (*stop)(void); // all ranks call it together
} Transport;

#define TRANSPORT_SYMBOL "meshc_transport"
typedef const Transport *TransportEntry(void);

#endif

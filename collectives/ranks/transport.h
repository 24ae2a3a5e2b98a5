// Transport: how ranks on several machines reach one another. The program does not link MPI; the
// module meshc_mpi does (collectives/ranks/comm_mpi.c), and is opened only by a rank that mpirun
// has started. Its one symbol is meshc_transport.
#ifndef COLLECTIVES_TRANSPORT_H
#define COLLECTIVES_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One message to a peer and one from it; 0 bytes: none. Both sides know the sizes.
typedef struct TransportPeer {
  int rank;
  const void *out;
  int64_t nout;
  void *in;
  int64_t nin;
} TransportPeer;

typedef struct Transport {
  // Joins the run; false with a sentence in why.
  bool (*start)(int *rank, int *count, char *why, size_t room);
  // All messages of n peers. waits(context) is called again and again meanwhile; false from it
  // gives up, and so does an error of the transport; then nin is -1 where a message has not come.
  // The first thread of a rank calls it.
  bool (*exchange)(int n, TransportPeer *peer, bool (*waits)(void *), void *context);
  // Sends a life sign to each of n ranks, unless the first thread exchanges messages or has done so
  // since the last call. Another thread of the rank calls it.
  void (*send_heartbeats)(int n, const int *rank);
  int (*received_heartbeats)(
      int rank);      // life signs of that rank since the last call; the first thread calls it
  void (*stop)(void); // all ranks together
} Transport;

#define TRANSPORT_SYMBOL "meshc_transport"
typedef const Transport *TransportEntry(void);

#endif

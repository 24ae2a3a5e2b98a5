// Transport: messages between ranks on several machines. The program does not link MPI: the module
// meshc_mpi (collectives/ranks/comm_mpi.c) does, and only a rank that mpirun has started loads it.
// Its one symbol is TRANSPORT_SYMBOL.
#ifndef COLLECTIVES_TRANSPORT_H
#define COLLECTIVES_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A peer: another rank with which this rank exchanges messages, with one message to send and one to
// receive.
typedef struct TransportPeer {
  int rank;
  const void *out; // the message to send, of nout bytes
  int64_t nout;    // 0: there is no message to send
  void *in;        // buffer for the message to receive, of nin bytes
  int64_t nin;     // 0: there is no message to receive
} TransportPeer;

typedef struct Transport {
  // Joins the run. Returns false after an error, with a message in `why`.
  bool (*start)(int *rank, int *count, char *why, size_t room);
  // Exchanges the messages of n peers. Calls waits(context) repeatedly meanwhile. Gives up when
  // that returns false, or after an error of the transport: then returns false and sets `nin` of
  // each peer whose message has not come to -1. Only the main thread of the rank calls it.
  bool (*exchange)(int n, TransportPeer *peer, bool (*waits)(void *), void *context);
  // Sends a heartbeat to each of n ranks, unless the main thread is exchanging messages or has done
  // so since the last call. Another thread of the rank calls it.
  void (*send_heartbeats)(int n, const int *rank);
  // Returns the number of heartbeats received from a rank since the last call. Only the main thread
  // calls it.
  int (*received_heartbeats)(int rank);
  void (*stop)(void); // leaves the run; all ranks call it together
} Transport;

#define TRANSPORT_SYMBOL "meshc_transport"
typedef const Transport *TransportEntry(void);

#endif

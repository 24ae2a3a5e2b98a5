// Transfers: what a collective moves, box by box, the same for every communicator.
//
// Every kind becomes transfers: a box of elements, one or several sources that are combined in the
// order of ranks, one or several destinations. all_reduce is one transfer n -> n, reduce_scatter n
// of n -> 1, all_gather n of 1 -> n, all_to_all and permute 1 -> 1.
#ifndef COLLECTIVES_TRANSFER_H
#define COLLECTIVES_TRANSFER_H

#include "collectives/local/comm.h"

enum { TRANSFER_SMALL_BYTES = 4096 }; // what fits a page is moved faster than another worker wakes

typedef struct Transfer Transfer;
// n elements behind `from` in all sources into those behind `to` in all destinations.
typedef void Combine(const Transfer *t, int64_t from, int64_t to, int64_t n, Monoid monoid);

// A box of elements and where it stands in source and destination.
struct Transfer {
  int rank;
  int64_t extent[MAX_RANK], from_stride[MAX_RANK], to_stride[MAX_RANK]; // elements
  int64_t from, to;                                                     // first element
  int64_t nsrc, ndst;
  const int64_t *src_of, *dst_of; // processors
  char *const *src, *const *dst;  // NULL in those of processors on other machines
  Combine *combine;
};

// One worker's walk over the transfers of a call, in an order that is the same for everyone. `take`
// gets each that has elements, its dims joined where they are contiguous on both sides.
typedef struct TransferWalk TransferWalk;
typedef void TransferTake(const TransferWalk *w, const Transfer *t, int64_t elements, int64_t job);
struct TransferWalk {
  const Mesh *mesh;
  const CommCall *call;
  TransferTake *take;
  void *context;
  int64_t job;   // transfers seen
  int64_t *peer; // room for a number and two addresses a processor
  char **src, **dst;
};
void transfers_walk(TransferWalk *w);

// This worker's part of a transfer: elements in ranges, small transfers in turn. A worker reads all
// sources of a range before it writes a destination, so equal source and destination are safe, and
// the number of workers changes no bit.
void transfer_share(const Transfer *t, const Collective *c, int64_t elements, int64_t job,
                    int worker, int workers);
// Elements lo..hi-1 of the box, counted row-major.
void transfer_range(const Transfer *t, const Collective *c, int64_t lo, int64_t hi);
// The same of source `src` into packed, and of packed into destination `dst`.
void transfer_copy_out(const Transfer *t, const Collective *c, const char *src, int64_t lo,
                       int64_t hi, char *packed);
void transfer_copy_in(const Transfer *t, const Collective *c, const char *packed, int64_t lo,
                      int64_t hi, char *dst);

// How elements of a type are combined, by the widest vectors of this processor.
Combine *combine_of(Dtype type);

// Adds a call to the counters: operand bytes at the call, padding included, of the processor that
// sends most (decision 28), and what a ring sends for them.
void call_count(const TransferWalk *w, CommCount *count, double seconds);

#endif

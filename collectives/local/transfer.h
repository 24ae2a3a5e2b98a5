// Transfers: the copies that a collective consists of. All communicators use them.
//
// A transfer is a box of elements with one or several sources, which are combined in the order of
// ranks, and one or several destinations. In a group of n processors
//
//   all_reduce      is one transfer from n to n processors,
//   reduce_scatter  n transfers from n to 1,
//   all_gather      n transfers from 1 to n,
//   all_to_all      and permute are transfers from 1 to 1.
//
// Every communicator walks over the same transfers in the same order (transfers_walk) and does
// those that concern it.
#ifndef COLLECTIVES_TRANSFER_H
#define COLLECTIVES_TRANSFER_H

#include "collectives/local/comm.h"

// A call of at most this many bytes is done by one worker: waking another takes longer.
enum { TRANSFER_SMALL_BYTES = 4096 };

typedef struct Transfer Transfer;
// Combines n elements from offset `from` of all sources into offset `to` of all destinations.
typedef void Combine(const Transfer *t, int64_t from, int64_t to, int64_t n, Monoid monoid);

struct Transfer {
  int rank;
  int64_t extent[MAX_RANK], from_stride[MAX_RANK], to_stride[MAX_RANK]; // elements
  int64_t from, to;               // offset of the first element in a source and in a destination
  int64_t nsrc, ndst;             // a transfer with several sources is combined, else copied
  const int64_t *src_of, *dst_of; // processors
  char *const *src, *const *dst;  // their blocks; NULL for a processor on another machine
  Combine *combine;
};

typedef struct TransferWalk TransferWalk;
// What a walk does with each transfer that is not empty. `elements` is the number of elements of
// its box, `job` its number among the transfers of the call.
typedef void TransferTake(const TransferWalk *w, const Transfer *t, int64_t elements, int64_t job);
// One worker's walk over the transfers of a call.
struct TransferWalk {
  const Mesh *mesh;
  const CommCall *call;
  TransferTake *take;
  void *context;
  int worker, workers; // transfer_share takes the share of this worker
  Combine *combine;    // for the element type of the call
  int64_t job;         // transfers seen
  int64_t *peer;       // the current group: processors and the addresses of their blocks
  char **src, **dst;
};
void transfers_walk(TransferWalk *w);

// Memory for the walks of several workers, so that a step allocates nothing.
typedef struct WalkRoom {
  int64_t processors;
  int64_t *peer;  // for each worker `processors` numbers of processors
  char **address; // for each worker 2 * `processors` addresses of blocks
} WalkRoom;
WalkRoom walk_room(int64_t processors, int workers);
void walk_room_free(WalkRoom *r);
// Returns a walk of worker number `worker` among the `workers` that divide the call. `room` is the
// number of the worker in its own process: which part of r's memory the walk uses.
TransferWalk walk_begin(const WalkRoom *r, int room, const Mesh *mesh, const CommCall *call,
                        int worker, int workers);

// A TransferTake that does this worker's share: a range of the elements of each transfer. The
// workers take small transfers whole, one after another. A worker reads all sources of a range
// before it writes a destination, so a source may also be a destination. Results do not depend on
// the number of workers, bit by bit.
void transfer_share(const TransferWalk *w, const Transfer *t, int64_t elements, int64_t job);
// Copies elements lo..hi-1 of the box of t, counted row-major. With `fills_buffer`, `from` is a
// source block and `to` a contiguous buffer for these elements; otherwise `from` is such a buffer
// and `to` a destination block.
void transfer_copy(const Transfer *t, const Collective *c, int64_t lo, int64_t hi,
                   bool fills_buffer, const char *from, char *to);

// Combines elements of a type with the widest vectors of this CPU.
Combine *combine_of(Dtype type);

// Adds the call to the counters: bytes as coll_call_bytes counts them (collectives/collectives.h),
// and what a ring sends for them.
void call_count(const TransferWalk *w, CommCount *count, double seconds);

#endif

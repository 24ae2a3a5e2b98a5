// Transfers: the copies that a collective consists of. All communicators use them.
//
// A transfer is a box of elements with one or several sources, which are combined in the order of
// processors, and one or several destinations. A group is the processors that exchange blocks in a
// collective. In a group of n processors
//
//   all_reduce      is one transfer from n to n processors,
//   reduce_scatter  n transfers from n to 1,
//   all_gather      n transfers from 1 to n,
//   all_to_all      and permute are transfers from 1 to 1.
//
// Every communicator walks over all transfers of a call, in an order that is equal everywhere
// (transfers_walk), and does those that concern it.
#ifndef COLLECTIVES_TRANSFER_H
#define COLLECTIVES_TRANSFER_H

#include "collectives/local/comm.h"

// One worker does a call of at most this many bytes alone, because waking another worker takes
// longer.
enum { TRANSFER_SMALL_BYTES = 4096 };

typedef struct Transfer Transfer;
// A function that combines n elements at offset `from` of all sources of a transfer by `monoid`,
// such as sum. It writes the results at offset `to` of all destinations. Offsets count elements.
typedef void Combine(const Transfer *t, int64_t from, int64_t to, int64_t n, Monoid monoid);

struct Transfer {
  int rank;
  // the box: its sizes, and its strides in the blocks of the sources and destinations, in elements
  int64_t extent[MAX_RANK], from_stride[MAX_RANK], to_stride[MAX_RANK];
  int64_t from, to;               // offset of the first element in a source and in a destination
  int64_t nsrc, ndst;             // number of sources and of destinations
  const int64_t *src_of, *dst_of; // by source and by destination: its processor
  char *const *src, *const *dst;  // addresses of their blocks; NULL on another machine
  Combine *combine;
};

typedef struct TransferWalk TransferWalk;
// A function that a walk over the transfers of a call calls for each transfer that is not empty.
// `elements` is the number of elements of the transfer; `job` is its number among all transfers of
// the call.
typedef void TransferTake(const TransferWalk *w, const Transfer *t, int64_t elements, int64_t job);
// The walk of one worker (thread) over the transfers of a collective call. Its callback `take` does
// the worker's share of each transfer.
struct TransferWalk {
  const Mesh *mesh;
  const CommCall *call;
  TransferTake *take;
  void *context;
  int worker, workers; // number of this worker among the workers that divide the call
  Combine *combine;    // for the element type of the call
  bool by_dim; // boxes keep the dims of the blocks; false: dims are joined where they can be
  int64_t job; // number of the next transfer of the call
  const CollPart *part; // the current part
  int64_t *peer;        // the processors of the current group
  char **src, **dst;    // addresses of the blocks of these processors, of the current part
};
void transfers_walk(TransferWalk *w);
// Returns the axes along which the members of a group (processors that exchange blocks) differ.
// These are the axes that split the source or the destination.
Axes group_axes(const Collective *c);

// Memory for the walks of several workers over the transfers of a call, so that a step allocates
// nothing.
typedef struct WalkRoom {
  int64_t processors;
  int64_t *peer;  // for each worker `processors` entries: TransferWalk.peer
  char **address; // for each worker 2 * `processors` entries: TransferWalk.src and dst
} WalkRoom;
WalkRoom walk_room(int64_t processors, int workers);
void walk_room_free(WalkRoom *r);
// Returns a walk over the transfers of a call for worker number `worker` of the `workers` that
// divide the call. The walk uses the memory in r that belongs to worker number `room` of this
// process.
TransferWalk walk_begin(const WalkRoom *r, int room, const Mesh *mesh, const CommCall *call,
                        int worker, int workers);

// The callback of a walk that does one worker's share: a range of the elements of each large
// transfer, and every workers-th small transfer. A worker reads all sources of a range before it
// writes a destination, so a source may also be a destination. The bits of the results do not
// depend on the number of workers.
void transfer_share(const TransferWalk *w, const Transfer *t, int64_t elements, int64_t job);
// Copies elements lo..hi-1 of the transfer t, counted row-major. With `fills_buffer`, `from` is a
// source block and `to` a contiguous buffer for these elements. Otherwise `from` is such a buffer
// and `to` a destination block.
void transfer_copy(const Transfer *t, const Collective *c, int64_t lo, int64_t hi,
                   bool fills_buffer, const char *from, char *to);

// Returns the function that combines elements of `type` from several processors, in the version for
// the widest vectors of this CPU.
Combine *combine_of(Dtype type);

// Adds the call that walk w has done, and its `seconds`, to the counters in *count.
void call_count(const TransferWalk *w, CommCount *count, double seconds);

#endif

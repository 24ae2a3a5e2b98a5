// Streams, events and graphs of the stand-in of libcuda.
#ifndef TESTS_STANDIN_STREAM_H
#define TESTS_STANDIN_STREAM_H

#include "tests/standin/cuda/state.h"

// A captured graph. While streams are captured, each has a lane of the graph: a sequence of nodes.
// Clocks within a graph count nodes of these lanes.
typedef struct Node {
  Work work;
  uint32_t lane;
  Clock behind;
} Node;

struct CUgraph_st {
  Handle handle;
  Node *node;
  uint32_t n, room;
  uint32_t *length; // nodes of each lane
  uint32_t lanes;
  CudaStream origin; // the stream whose capture made it; NULL when the capture has ended
  CudaCapture mode;
  unsigned long thread; // which began the capture
  bool broken;          // by a call that is not permitted
};

struct CUgraphExec_st {
  Handle handle;
  struct CUgraph_st *graph; // a copy, no handle of its own
  uint32_t *lane;           // of Order, for each lane of the graph
  Clock last;               // covers the last launch
};

struct CUstream_st {
  Handle handle;
  bool blocking; // ordered with the default stream
  uint32_t lane;
  Clock clock; // covers what is ordered before its next operation
  struct CUgraph_st *capture;
  uint32_t capture_lane;
  Clock capture_clock;
};

struct CUevent_st {
  Handle handle;
  bool recorded, timed;
  int asked; // how often cuEventQuery asked since it was recorded
  Clock clock;
  struct CUgraph_st *capture;
  Clock capture_clock;
  double seconds;
};

// Returns the stream of a handle, of which NULL is the default stream. Ends the process if it is
// none.
struct CUstream_st *stream_of(CudaStream stream);
// Orders the next operation of a stream behind what CUDA says: what the host has waited for, and
// for the default stream all streams that are not CUDA_STREAM_NON_BLOCKING, which in turn are
// ordered behind it.
void stream_order(struct CUstream_st *s);
// Enqueues w, which belongs to the stream then: runs it, or makes it a node of a graph.
CudaResult stream_enqueue(CudaStream stream, Work w);
// A graph has been launched: with MESHC_STANDIN_SLOW it seems to go on for some time to those who
// ask (cuStreamQuery, cuEventQuery).
void stream_seems_slow(void);
// The host waits for a stream.
CudaResult stream_wait(CudaStream stream);
// Returns what a call that is not permitted during a capture has to return, CUDA_OK if there is no
// capture that it disturbs. The capture is broken then.
CudaResult capture_disturbed(void);
// Frees the nodes of a graph.
void graph_clear(struct CUgraph_st *g);

#endif

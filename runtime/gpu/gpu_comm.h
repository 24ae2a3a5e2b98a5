// Communicators of NCCL: how ranks that have a GPU each exchange blocks. For each list of axes
// along which a collective goes from GPU to GPU, a rank has one communicator with the ranks of its
// group, however many processors it has (collectives/local/devices.h).
//
// Where ranks wait for one another, a lost rank, an error of the library or a deadline makes the
// run fail (ranks.h): a GPU that waits for another one cannot end by itself.
#ifndef RUNTIME_GPU_COMM_H
#define RUNTIME_GPU_COMM_H

#include "collectives/local/messages.h"
#include "collectives/ranks/ranks.h"
#include "runtime/gpu/nccl.h"

typedef struct GpuComms GpuComms;

// Opens NCCL, with the GPU in use. Returns NULL after an error in d. r must outlive the result.
// Free it with gpu_comms_free.
GpuComms *gpu_comms_new(Ranks *r, Diag *d);
// Makes the communicators that the collectives of a program need and that are not there yet, and
// that of all ranks, whose axes are mesh_axes. All ranks call it together, with the GPU in use.
// Returns false after an error in d, or if the run has failed.
MUST_USE bool gpu_comms_add(GpuComms *c, const Program *p, CudaStream stream, Diag *d);
bool gpu_comms_first(const GpuComms *c); // returns whether this is the first rank
// Gives the bytes that the first rank has at `data` to all ranks, which call it together. Returns
// false as gpu_comms_add does.
MUST_USE bool gpu_comms_share(GpuComms *c, void *data, int64_t bytes, Diag *d);
// Enqueues messages of the group of this rank along `axes` in a stream, all at once. Addresses are
// those of the GPU. Returns false as gpu_comms_add does.
MUST_USE bool gpu_comms_send(GpuComms *c, Axes axes, const Message *m, uint32_t n,
                             CudaStream stream, Diag *d);
bool gpu_comms_several(const GpuComms *c); // returns whether there are several ranks
// Returns the address of an int64_t of the host to which steps write signs of progress
// (GpuJudging.sign).
CudaAddress gpu_comms_sign(const GpuComms *c);
// Notes a sign of progress of the host: it prepares a step that other ranks wait for.
void gpu_comms_advance(GpuComms *c);
// Waits until a stream is empty, or until an event is reached. The deadline of the ranks counts
// from the last sign of progress of a rank of this machine. `what` names the wait in an error of
// the GPU. Returns false as gpu_comms_add does.
MUST_USE bool gpu_comms_wait(GpuComms *c, CudaStream stream, const char *what, Diag *d);
MUST_USE bool gpu_comms_wait_event(GpuComms *c, CudaEvent event, const char *what, Diag *d);
// Ends all messages under way, which other ranks may not answer. The communicators cannot be used
// any more. Call it only when all graphs with messages are freed: NCCL waits for that. c may be
// NULL.
void gpu_comms_abort(GpuComms *c);
// Ends the communicators: all ranks call it together, unless they are aborted. c may be NULL.
void gpu_comms_free(GpuComms *c);

#endif

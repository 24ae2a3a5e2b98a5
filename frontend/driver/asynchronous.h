// Training with asynchronous updates, `sync = stale(...)`: replicas that compute gradients, and
// servers that make the updates (runtime/train/stale.c).
//
// There are two programs. That of a replica is compiled for the mesh of a group of processors
// (Model.part). That of the servers is compiled for the whole mesh; its layout splits parameters
// over the axes over which that of the model splits the batch. It has no collectives: each
// processor updates its shards by itself.
#ifndef FRONTEND_ASYNCHRONOUS_H
#define FRONTEND_ASYNCHRONOUS_H

#include "frontend/driver/training.h"

// Returns whether the model has asynchronous updates.
bool stale_given(const Session *s);
// Checks that the layout and the options fit asynchronous updates, if the model has them. Returns
// false after an error.
MUST_USE bool stale_allowed(Session *s);
// Selects the graph of the servers, with its layout. Returns NULL after an error.
const Graph *stale_server(Session *s);
// Checks that the compiled program of the servers has no collectives. Returns false after an error.
MUST_USE bool stale_servers_apart(Session *s, const Compilation *c);
// Compiles and binds both programs, opens the data, and fills job->stale. The layout of the
// session's model becomes that of the servers, for the programs that share their tensors. Returns
// false after an error.
MUST_USE bool stale_open_programs(Session *s, ProgramRun *p, TrainJob *job);
// Returns the graph of the step of a replica. Returns NULL after an error.
const Graph *stale_replica(Session *s);

#endif

// Carries out the messages of a collective (collectives/local/messages.h) between devices whose
// memory is that of this process: what a library of devices does.
#ifndef TESTS_SUITE_MESSAGE_RUN_H
#define TESTS_SUITE_MESSAGE_RUN_H

#include "collectives/local/messages.h"

// Runs a kernel on one set. Returns what is wrong, or NULL.
typedef const char *RunSet(void *context, const TransferSet *set);
// Carries out a call on all processors of the mesh, `each` to a device, whose members all have
// addresses. by_kernels: as for message_call. Returns what is wrong, or NULL.
const char *message_run(Arena *a, const MessagePart *part, const Mesh *m, int64_t each,
                        const CommCall *call, bool by_kernels, RunSet *run, void *context);

#endif

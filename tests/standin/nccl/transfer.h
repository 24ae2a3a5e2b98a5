// What the calls of NCCL compute and exchange, once all ranks are there.
#ifndef TESTS_STANDIN_TRANSFER_H
#define TESTS_STANDIN_TRANSFER_H

#include "ir/base/dtype.h"
#include "tests/standin/nccl/meeting.h"
#include "tests/standin/nccl/nccl_api.h"

typedef enum Kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, SEND, RECEIVE } Kind;

struct ncclComm {
  bool destroyed;
  bool blocks;           // false: calls return ncclInProgress, and are done when that is asked for
  bool asked, finalized; // the state of the last call was asked for; ncclCommFinalize was called
  ncclResult_t error;    // ncclCommGetAsyncError
  int rank, nranks;
  uint32_t collectives, exchanges; // run so far; exchanges are sends and receives
  Meeting *meeting;
  struct ncclComm *next;
};

// One call. `count` is that of the call: elements of one rank's block.
typedef struct Part {
  Kind kind;
  const char *from;
  char *to;
  int64_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int peer;
  struct ncclComm *comm;
} Part;

enum { TRANSFER_PARTS = 1024 }; // calls of a group, at most

// Returns the bytes of an element, or 0 for a type that the stand-in lacks.
int64_t transfer_bytes(ncclDataType_t type);
const char *transfer_name(Kind kind);
// Runs the calls of a group: collectives one after the other, then all sends and receives at once.
// Ends the process if the ranks do not agree, or do not come.
void transfer_group(Part *part, int n);

#endif

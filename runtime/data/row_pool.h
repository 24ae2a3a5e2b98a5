// A pool of threads that share the rows of a batch: each takes the next row that no other has
// taken. For sources whose rows need much work, such as images.
#ifndef RUNTIME_ROW_POOL_H
#define RUNTIME_ROW_POOL_H

#include "runtime/runtime_internal.h"

// Why a row cannot be read: the message without the name of the input, its code, and what the user
// can do about it, or NULL.
enum { FAULT_TEXT = 640 };
typedef struct RowFault {
  DiagId id;
  const char *hint;
  char text[FAULT_TEXT];
} RowFault;

typedef struct RowPool RowPool;
// Reads a row; `worker` is the number of the thread, from 0. Returns false with a reason in
// `fault`.
typedef bool RowWork(void *context, int worker, int64_t row, RowFault *fault);

// Makes a pool of `workers` threads, one of which is the caller of row_pool_run. If the system
// starts no more threads, it has fewer.
RowPool *row_pool_new(int workers);
int row_pool_workers(const RowPool *p);
// Calls the work for all rows from..to-1 and returns when it is done. Returns false if it failed
// for a row; *out then is about the first such row, whatever the threads do. Only one run at a
// time. Raises a failure of a thread (ir/base/guard.h) in the caller.
MUST_USE bool row_pool_run(RowPool *p, int64_t from, int64_t to, RowWork *work, void *context,
                           RowFault *out);
void row_pool_free(RowPool *p); // p may be NULL

#endif

// Memory that the ranks of a communicator share, and how they meet there.
#ifndef TESTS_STANDIN_MEETING_H
#define TESTS_STANDIN_MEETING_H

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { MEETING_RANKS = 16, MEETING_BYTES = 64 << 10, MEETING_TEXT = 120 };

// What a rank is doing: calls of all ranks must be equal where they meet.
typedef struct Call {
  int32_t kind, type, op;
  uint32_t number; // of the operation among collectives or among sends and receives, from 1
  uint32_t graph;  // meshc_standin_launch
  int64_t count;
  char text[MEETING_TEXT]; // for messages: "ncclAllReduce number 3 of 100 elements of type 7"
} Call;

// A box through which one rank sends to another.
typedef struct Box {
  atomic_int full;
  int32_t bytes;
  Call call;
  char data[MEETING_BYTES];
} Box;

typedef struct Desk { // of a rank
  Call call;
  char data[MEETING_BYTES];
} Desk;

typedef struct Meeting {
  atomic_int joined;
  atomic_int nranks;
  atomic_int arrived;
  atomic_uint round;
  Desk desk[MEETING_RANKS];
  Box box[MEETING_RANKS][MEETING_RANKS]; // from, to
} Meeting;

// Opens the meeting of that name, creating it if need be, and waits until all ranks have.
Meeting *meeting_join(const char *name, int nranks, int rank);
void meeting_leave(Meeting *m);
// Waits until all ranks have come here as often as this one. Ends the process after a time.
void meeting_wait(Meeting *m, int rank);
// A deadline for waiting in a loop: returns false, after a short sleep, while there is time.
typedef struct Deadline {
  double end;
  long turns;
} Deadline;
Deadline deadline_begin(void);
// Where this thread goes on if other ranks do not come in time; NULL: that ends the process.
extern _Thread_local jmp_buf *meeting_late;
bool deadline_over(Deadline *d);

#endif

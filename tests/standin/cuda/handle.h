// Handles of the stand-in of libcuda: streams, events, graphs, modules, functions. A destroyed one
// is kept until the process ends, so that its use is known.
#ifndef TESTS_STANDIN_HANDLE_H
#define TESTS_STANDIN_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum HandleKind {
  HANDLE_CONTEXT = 0x5d1,
  HANDLE_STREAM,
  HANDLE_EVENT,
  HANDLE_GRAPH,
  HANDLE_GRAPH_EXEC,
  HANDLE_MODULE,
  HANDLE_FUNCTION
} HandleKind;

// The first member of each struct that a handle points to.
typedef struct Handle {
  HandleKind kind;
  bool destroyed;
  uint32_t number;               // among those of its kind, from 1
  void (*release)(void *handle); // frees what it refers to; NULL: nothing
  struct Handle *next;
} Handle;

// Returns a new handle of `bytes` zeroed bytes.
void *handle_new(HandleKind kind, size_t bytes, void (*release)(void *handle));
// Ends the process unless h is a handle of this kind that is not destroyed. `call`: for the
// message.
void handle_check(const void *h, HandleKind kind, const char *call);
// Calls release; the handle is destroyed from now on.
void handle_destroy(void *h);
// Calls each(handle) for all handles of a kind that are not destroyed.
void handle_each(HandleKind kind, void (*each)(void *handle, void *argument), void *argument);
// Writes to text[0..n) how many streams, events, ... are not destroyed; returns their number.
uint32_t handle_leaks(char *text, size_t n);
void handle_free_all(void);

#endif

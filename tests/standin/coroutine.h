// Coroutines: functions with stacks of their own, between which one thread of the system switches.
// A switch saves the registers that calls preserve, and costs a few nanoseconds: ucontext makes a
// system call for the mask of signals each time, and serves only where there is no assembly.
#ifndef TESTS_STANDIN_COROUTINE_H
#define TESTS_STANDIN_COROUTINE_H

#include <stddef.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

typedef struct Coroutine {
#if defined(__x86_64__) || defined(__aarch64__)
  void *stack; // its stack pointer while it does not run; its registers lie there
#else
  ucontext_t context;
  void (*enter)(void *argument);
  void *argument;
#endif
} Coroutine;

// Prepares *c to call enter(argument) on the stack from..from+bytes when it is first switched to.
// `enter` must never return: its last act is a switch to another coroutine. The stack must stay.
void coroutine_prepare(Coroutine *c, char *from, size_t bytes, void (*enter)(void *),
                       void *argument);
// Saves the running code in *from and goes on with *to, which was prepared or saved before by the
// same thread of the system. Returns when somebody switches back to *from.
void coroutine_switch(Coroutine *from, const Coroutine *to);

#endif

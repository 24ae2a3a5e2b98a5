// Page-locked memory of the host, which copies access while the host runs on. Until the host has
// waited for a copy, it may not touch the bytes that the copy writes, and not change those that it
// reads. The first is found by protected pages: an access to other bytes of such a page runs as a
// single step of the processor (x86-64; elsewhere only pages that are written whole are protected).
// The second is found by comparing when the host has waited.
#ifndef TESTS_STANDIN_HOST_H
#define TESTS_STANDIN_HOST_H

#include "tests/standin/order.h"
#include "tests/standin/standin.h"

// Takes over faults of memory (SIGSEGV), once.
void host_begin(void);
// Allocates memory on pages of its own, or takes over memory of the caller. polled: the host reads
// it while functions write it, so that it is not protected.
void *host_allocate(size_t bytes, bool polled);
// Returns false if a part of at..at+bytes is page-locked already.
bool host_register(char *at, size_t bytes);
// Ends what host_allocate (`allocated`) or host_register began. Ends the process if `at` does not
// begin such memory, or if the clock of the host does not cover all copies of it.
void host_release(char *at, bool allocated, const char *call);
// Returns the shadow of the page-locked memory that `at` lies in, or NULL.
Shadow *host_find(const char *at);
bool host_is_polled(const char *at);
// For operations that seem to take time though they are over: takes back what has been written to
// polled memory, and lets the host see it bit by bit. host_hold is called behind each function that
// runs; host_show when the host asks: `share`, from 0 to 1, of the values held since are over.
void host_hold(void);
void host_show(double share);

// Called before and after an operation, operation `number` of `lane`, that accesses access[0..n).
// access NULL, before: it is not known what it accesses.
void host_lift(const StandinAccess *access, int n);
void host_guard(const StandinAccess *access, int n, uint32_t lane, uint32_t number,
                const char *name);
// Called when the clock of the host covers more: checks and forgets the copies that it covers.
void host_waited(const Clock *host);
// Writes to text[0..n) what is still page-locked; returns the number of ranges.
uint32_t host_leaks(char *text, size_t n);
void host_free_all(void);

// What a fault of memory is about if it is none of ours: set by the stand-in. Ends the process, or
// returns.
extern void (*host_other_fault)(const char *at);

#endif

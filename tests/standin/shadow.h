// Shadow memory: who accessed each byte last, so that two accesses that nothing orders are found
// when the second one happens.
//
// Time is cut into segments, numbered from 1 in the order in which they are executed. Each
// operation (a launch, a copy) begins a segment. Within a launch, so does each block, each warp at
// the start of a block and behind each barrier of the block, and each barrier of a warp. So the
// segment of an earlier access tells where it was made, as seen from the running thread:
//
//   an earlier operation | an earlier block | this block, before a barrier | another warp | now
//                      launch             block                          part           warp
//
// The words below the line are the first segments of the running launch, of its running block, of
// the part of that block since the last barrier, and of the running warp in that part. Accesses
// before `launch` are ordered as the operations are (ShadowOrder). Blocks of a launch are not
// ordered. Parts of a block are, but not the warps within a part, nor the threads of a warp within
// a segment.
//
// A page of 4096 bytes has one cell as long as whole pages are accessed, then one for each 4 bytes,
// for each 2 bytes, or for each byte after the first access that needs it.
#ifndef TESTS_STANDIN_SHADOW_H
#define TESTS_STANDIN_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHADOW_PAGE = 4096 };

typedef enum ShadowHow { SHADOW_READ, SHADOW_WRITE, SHADOW_ATOMIC } ShadowHow;

// The last write and the last read of some bytes: segment (0: none) and thread of the block.
typedef struct ShadowCell {
  uint32_t written, read;
  uint16_t writer, reader;
} ShadowCell;
// Instead of a thread: several threads of a warp read in one segment, several blocks of a launch
// read or made atomic operations, one block made atomic operations, several warps read in one part.
enum {
  SHADOW_THREADS = 0xffff,
  SHADOW_BLOCKS = 0xfffe,
  SHADOW_ATOMICS = 0xfffd,
  SHADOW_WARPS = 0xfffc
};

typedef struct ShadowPage {
  ShadowCell *cells; // NULL: the page was never accessed
  int shift;         // a cell stands for 1 << shift bytes
} ShadowPage;

typedef struct Shadow {
  char *from; // the bytes that are shadowed
  size_t bytes;
  ShadowPage *page;
  bool poisoned; // a page is filled with 0xff at its first access, unless that writes it whole
  bool outside;  // the host writes these bytes, too, without telling: all count as written
} Shadow;

// Shadows the bytes from..from+bytes. They and the shadow are touched only where they are accessed.
void shadow_begin(Shadow *s, char *from, size_t bytes, bool poisoned);
void shadow_end(Shadow *s);

typedef enum ShadowFault {
  SHADOW_FINE,
  SHADOW_RACE_THREADS,    // another thread of the block, no barrier between
  SHADOW_RACE_BLOCKS,     // another block of the launch
  SHADOW_RACE_OPERATIONS, // an earlier operation that is not ordered before this one
  SHADOW_UNWRITTEN        // a read of a byte that was not written since segment ShadowSelf.since
} ShadowFault;

// Decides the order of operations.
typedef struct ShadowOrder {
  void *self;
  // Returns whether the operation of `segment`, an earlier one, is ordered before the running one.
  bool (*ordered)(void *self, uint32_t segment);
  // Keeps in mind that the operation of `segment` read the bytes at..at+bytes, because the running
  // operation, which is not ordered behind it, reads them too and takes its place in the cell.
  void (*keep_read)(void *self, uint32_t segment, const char *at, size_t bytes);
  // Returns the segment of such a kept read of one of these bytes that is not ordered before the
  // running operation, or 0.
  uint32_t (*kept_read)(void *self, const char *at, size_t bytes);
} ShadowOrder;

// Who accesses: the running thread, block and operation.
typedef struct ShadowSelf {
  uint32_t safe; // operations of segments below are ordered before this one
  uint32_t launch, block, part, warp, segment;
  // Bytes that are read must have been written in this segment or a later one. 0: never written
  // ones may be read, too.
  uint32_t since;
  uint16_t thread;
  const ShadowOrder *order; // NULL: all earlier operations are ordered before
  // What a fault is about: the byte, and the earlier access.
  const char *at;
  uint32_t other;
  uint16_t other_thread; // or SHADOW_THREADS, ...
  bool other_wrote;
} ShadowSelf;

// Records an access to at..at+bytes, which lies in the shadowed bytes, and returns what is wrong
// with it. Accesses of at most 16 bytes must be aligned to their length.
ShadowFault shadow_access(Shadow *s, ShadowSelf *self, const char *at, size_t bytes, ShadowHow how);

#endif

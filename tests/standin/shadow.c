// Shadow memory (shadow.h). Most accesses find a cell of their own thread and segment: these are
// the first tests of each function.
#include "tests/standin/shadow.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ir/base/mem.h"

// The first access to less than a whole page divides it into cells of 1 << WORD_SHIFT bytes, or of
// fewer if the access is not aligned to them.
enum { PAGE_SHIFT = 12, WORD_SHIFT = 2 };
_Static_assert(SHADOW_PAGE == 1 << PAGE_SHIFT, "the size of a page is given twice");

static size_t pages_of(size_t bytes) { return (bytes + SHADOW_PAGE - 1) / SHADOW_PAGE; }

void shadow_begin(Shadow *s, char *from, size_t bytes, bool poisoned) {
  *s = (Shadow){.from = from, .bytes = bytes, .poisoned = poisoned};
  size_t table = (pages_of(bytes) + 1) * sizeof *s->page;
  void *map =
      mmap(NULL, table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) mem_exhausted(table);
  s->page = map;
}

void shadow_end(Shadow *s) {
  for (size_t i = 0; i < pages_of(s->bytes); i++) free(s->page[i].cells);
  munmap(s->page, (pages_of(s->bytes) + 1) * sizeof *s->page);
  *s = (Shadow){0};
}

// -- pages --------------------------------------------------------------------------------------

static size_t bytes_of_page(const Shadow *s, size_t page) {
  size_t rest = s->bytes - page * SHADOW_PAGE;
  return rest < SHADOW_PAGE ? rest : SHADOW_PAGE;
}

// Divides the cells of a page into cells of 1 << shift bytes, each a copy of the one it lay in.
static void divide(ShadowPage *p, int shift) {
  size_t n = (size_t)SHADOW_PAGE >> shift;
  int each = p->shift - shift;
  ShadowCell *cells = mem_alloc(n * sizeof *cells);
  for (size_t i = 0; i < n; i++) cells[i] = p->cells[i >> each];
  free(p->cells);
  p->cells = cells;
  p->shift = shift;
}

// Returns the page of the shadowed byte `offset`, with cells of at most 1 << shift bytes.
// `overwritten`: all bytes of the page are written now.
static ShadowPage *page_of(Shadow *s, size_t offset, int shift, bool overwritten) {
  ShadowPage *p = &s->page[offset / SHADOW_PAGE];
  if (!p->cells) {
    if (s->poisoned && !overwritten)
      memset(s->from + offset / SHADOW_PAGE * SHADOW_PAGE, 0xff,
             bytes_of_page(s, offset / SHADOW_PAGE));
    p->cells = mem_zeroed(1, sizeof *p->cells);
    p->shift = PAGE_SHIFT;
  }
  if (p->shift > shift) divide(p, shift);
  return p;
}

// -- one cell -----------------------------------------------------------------------------------

static ShadowFault fault(ShadowSelf *self, ShadowFault fault, uint32_t other, uint16_t thread,
                         bool wrote) {
  self->other = other;
  self->other_thread = thread;
  self->other_wrote = wrote;
  return fault;
}

static bool ordered(const ShadowSelf *self, uint32_t segment) {
  return segment < self->safe || !self->order || self->order->ordered(self->order->self, segment);
}

// Returns what is wrong with an access after the write in the cell.
static ShadowFault after_write(ShadowSelf *self, const ShadowCell *c, ShadowHow how) {
  uint32_t w = c->written;
  if (w < self->safe || (w == self->segment && c->writer == self->thread)) return SHADOW_FINE;
  bool atomics = c->writer == SHADOW_ATOMICS || c->writer == SHADOW_BLOCKS;
  if (w >= self->launch && atomics && how == SHADOW_ATOMIC) return SHADOW_FINE;
  if (w < self->launch)
    return ordered(self, w) ? SHADOW_FINE : fault(self, SHADOW_RACE_OPERATIONS, w, c->writer, true);
  if (w < self->block || c->writer == SHADOW_BLOCKS)
    return fault(self, SHADOW_RACE_BLOCKS, w, c->writer, true);
  bool apart = w < self->warp || w == self->segment || c->writer == SHADOW_ATOMICS;
  return w >= self->part && apart ? fault(self, SHADOW_RACE_THREADS, w, c->writer, true)
                                  : SHADOW_FINE;
}

// Returns what is wrong with a write after the read in the cell.
static ShadowFault after_read(ShadowSelf *self, const ShadowCell *c) {
  uint32_t r = c->read;
  if (r < self->safe || (r == self->segment && c->reader == self->thread)) return SHADOW_FINE;
  if (r < self->launch)
    return ordered(self, r) ? SHADOW_FINE
                            : fault(self, SHADOW_RACE_OPERATIONS, r, c->reader, false);
  if (r < self->block || c->reader == SHADOW_BLOCKS)
    return fault(self, SHADOW_RACE_BLOCKS, r, c->reader, false);
  bool apart = r < self->warp || r == self->segment || c->reader == SHADOW_WARPS;
  return r >= self->part && apart ? fault(self, SHADOW_RACE_THREADS, r, c->reader, false)
                                  : SHADOW_FINE;
}

static void note_read(const ShadowSelf *self, ShadowCell *c, const char *at, size_t bytes) {
  uint32_t r = c->read;
  if (r == self->segment && c->reader == self->thread) return;
  if (r < self->launch) {
    if (r != 0 && !ordered(self, r)) self->order->keep_read(self->order->self, r, at, bytes);
    c->reader = self->thread;
  } else if (r < self->block || c->reader == SHADOW_BLOCKS)
    c->reader = SHADOW_BLOCKS;
  else if (r >= self->part && (r < self->warp || c->reader == SHADOW_WARPS))
    c->reader = SHADOW_WARPS;
  else
    c->reader = r == self->segment ? SHADOW_THREADS : self->thread;
  c->read = self->segment;
}

static void note_write(const ShadowSelf *self, ShadowCell *c, ShadowHow how) {
  bool blocks =
      c->written >= self->launch && (c->written < self->block || c->writer == SHADOW_BLOCKS);
  c->writer = how == SHADOW_WRITE ? self->thread : blocks ? SHADOW_BLOCKS : SHADOW_ATOMICS;
  c->written = self->segment;
}

static ShadowFault after_kept_read(ShadowSelf *self, const char *at, size_t bytes) {
  uint32_t kept = self->order ? self->order->kept_read(self->order->self, at, bytes) : 0;
  return kept ? fault(self, SHADOW_RACE_OPERATIONS, kept, 0, false) : SHADOW_FINE;
}

// Records an access to a cell, which stands for the bytes at..at+bytes. Returns what is wrong.
static inline ShadowFault access_cell(ShadowSelf *self, ShadowCell *c, const char *at, size_t bytes,
                                      ShadowHow how) {
  ShadowFault f = how != SHADOW_WRITE && c->written < self->since ? SHADOW_UNWRITTEN
                                                                  : after_write(self, c, how);
  if (f == SHADOW_FINE && how != SHADOW_READ) f = after_read(self, c);
  if (f != SHADOW_FINE) {
    self->at = at;
    return f;
  }
  if (how == SHADOW_READ)
    note_read(self, c, at, bytes);
  else
    note_write(self, c, how);
  return SHADOW_FINE;
}

// -- accesses -----------------------------------------------------------------------------------

// Records an access to cells first..last of a page, whose first byte is at `page`. Stops at the
// first cell with which something is wrong.
static ShadowFault access_cells(ShadowSelf *self, ShadowPage *p, const char *page, size_t first,
                                size_t last, ShadowHow how) {
  size_t width = (size_t)1 << p->shift;
  ShadowFault f = SHADOW_FINE;
  for (size_t i = first; i <= last && f == SHADOW_FINE; i++)
    f = access_cell(self, &p->cells[i], page + (i << p->shift), width, how);
  return f;
}

// An access within one page. A whole page that is written has one cell afterwards.
static ShadowFault access_page(Shadow *s, ShadowSelf *self, size_t offset, size_t bytes,
                               ShadowHow how) {
  size_t in_page = offset % SHADOW_PAGE;
  bool whole = in_page == 0 && bytes == bytes_of_page(s, offset / SHADOW_PAGE);
  int shift = whole ? PAGE_SHIFT : WORD_SHIFT;
  while (!whole && ((offset | bytes) & (((size_t)1 << shift) - 1)) != 0) shift--;
  ShadowPage *p = page_of(s, offset, shift, whole && how == SHADOW_WRITE);
  ShadowFault f = access_cells(self, p, s->from + (offset - in_page), in_page >> p->shift,
                               (in_page + bytes - 1) >> p->shift, how);
  if (whole && how == SHADOW_WRITE && f == SHADOW_FINE) p->shift = PAGE_SHIFT;
  return f;
}

ShadowFault shadow_access(Shadow *s, ShadowSelf *self, const char *at, size_t bytes,
                          ShadowHow how) {
  size_t offset = (size_t)(at - s->from), end = offset + bytes;
  if (how != SHADOW_READ && self->order) {
    ShadowFault f = after_kept_read(self, at, bytes);
    if (f != SHADOW_FINE) {
      self->at = at;
      return f;
    }
  }
  while (offset < end) {
    size_t page_end = (offset / SHADOW_PAGE + 1) * SHADOW_PAGE,
           to = end < page_end ? end : page_end;
    ShadowFault f = access_page(s, self, offset, to - offset, how);
    if (f != SHADOW_FINE) return f;
    offset = to;
  }
  return SHADOW_FINE;
}

// Writes the cost of what-ifs as text: each figure of the changed step that differs from the step
// itself. See what_if.h.
#include "frontend/report/what_if.h"

#include <math.h>
#include <string.h>

enum { HELPS_SHOWN = 3 }; // lines of changed layouts without -v, of each kind

// Returns the change of a time or of bytes with its sign: "+3.43 ms", "-1.2 MiB". A change that is
// only rounding is "+0 us".
static const char *time_change(Arena *a, const Foreseen *now, const Foreseen *step) {
  double change = step->time->seconds - now->time->seconds;
  if (fabs(change) < 1e-6 * now->time->seconds) change = 0;
  return seconds_change_text(a, change);
}

static const char *bytes_change(Arena *a, int64_t change) {
  return arena_printf(a, "%s%s", change < 0 ? "-" : "+",
                      bytes_text(a, change < 0 ? -change : change));
}

static const char *join(Arena *a, const char *text, const char *more) {
  return *more ? arena_printf(a, "%s%s%s", text, *text ? ", " : "", more) : text;
}

static const char *step_text(Arena *a, const Foreseen *now, const Foreseen *step) {
  return arena_printf(a, "step %s (%s)", seconds_text(a, step->time->seconds),
                      time_change(a, now, step));
}

// Returns the bytes that f sends over a set of axes.
static int64_t bytes_over(const Foreseen *f, Axes axes) {
  for (uint32_t i = 0; i < f->nover; i++)
    if (axes_equal(f->over[i].axes, axes)) return f->over[i].bytes;
  return 0;
}

// Returns the bytes that the changed step sends over each set of axes over which it sends another
// number of bytes: "0 B over hosts, 64 B over cols".
static const char *axes_bytes(Arena *a, const Foreseen *now, const Foreseen *step) {
  const Foreseen *of[] = {now, step};
  const Mesh *mesh = now->choice.mesh;
  const char *text = "";
  for (int k = 0; k < 2; k++)
    for (uint32_t i = 0; i < of[k]->nover; i++) {
      Axes axes = of[k]->over[i].axes;
      int64_t was = bytes_over(now, axes), is = bytes_over(step, axes);
      if (was == is || (k == 1 && was)) continue;
      text =
          join(a, text, arena_printf(a, "%lld B over %s", (long long)is, axes_text(a, mesh, axes)));
    }
  return text;
}

// Returns the change of the flops of a processor, "flops x2.00" or "flops /3.91", or "".
static const char *flops_change(Arena *a, const Foreseen *now, const Foreseen *step) {
  double x = now->work.flops ? (double)step->work.flops / (double)now->work.flops : 1;
  if (step->work.flops == now->work.flops || x <= 0) return "";
  return x > 1 ? arena_printf(a, "flops x%.2f", x) : arena_printf(a, "flops /%.2f", 1 / x);
}

static const char *peak_text(Arena *a, const Foreseen *now, const Foreseen *step) {
  return step->peak == now->peak
             ? ""
             : arena_printf(a, "peak %s", bytes_change(a, step->peak - now->peak));
}

static const char *not_advised(const Foreseen *now, const Foreseen *step) {
  return what_if_worse(now, step) ? "; not advised" : "";
}

const char *what_if_without_text(Arena *a, const WhatIfs *w, const WhatIf *x) {
  const Foreseen *now = &w->now, *step = &x->step;
  if (!x->known) return "the layout is not valid without it";
  if (what_if_equal(now, step)) return "nothing changes without it";
  const char *text = arena_printf(a, "without it %lld call%s, %lld B", (long long)step->calls,
                                  plural(step->calls), (long long)step->bytes);
  text = join(a, text, step_text(a, now, step));
  if (now->nover > 1 || step->nover > 1) text = join(a, text, axes_bytes(a, now, step));
  text = join(a, text, flops_change(a, now, step));
  text = join(a, text, peak_text(a, now, step));
  return arena_printf(a, "%s%s", text, not_advised(now, step));
}

const char *what_if_advice(Arena *a, const WhatIfs *w, const WhatIf *x) {
  const Foreseen *now = &w->now, *step = &x->step;
  if (!x->known || what_if_equal(now, step)) return NULL;
  const char *text = what_if_worse(now, step) ? "not advised" : "";
  text = join(a, text, arena_printf(a, "step %s", time_change(a, now, step)));
  text = join(a, text, peak_text(a, now, step));
  return text;
}

const char *what_if_change_text(Arena *a, const WhatIfs *w, const WhatIf *x) {
  const Foreseen *now = &w->now, *step = &x->step;
  const char *text = join(a, step_text(a, now, step), flops_change(a, now, step));
  if (step->bytes != now->bytes)
    text = join(a, text, arena_printf(a, "%s sent", bytes_change(a, step->bytes - now->bytes)));
  text = join(a, text, peak_text(a, now, step));
  return arena_printf(a, "%s%s", text, not_advised(now, step));
}

const char *what_if_idle_lines(Arena *a, const WhatIfs *w) {
  const char *text = "";
  for (uint32_t i = 0; i < w->nidle; i++) {
    const IdleBlocks *b = &w->idle[i];
    const WhatIf *x = &w->fewer[i];
    text = arena_printf(a, "%sidle: %lld of %lld along %s (%s is %lld in blocks of %lld)", text,
                        (long long)(b->parts - b->used), (long long)b->parts,
                        axes_text(a, w->now.choice.mesh, b->axes), b->dim, (long long)b->size,
                        (long long)b->block);
    if (x->known)
      text = arena_printf(a, "%s; %s takes %s against %s", text, x->text,
                          seconds_text(a, x->step.time->seconds),
                          seconds_text(a, w->now.time->seconds));
    text = arena_printf(a, "%s\n", text);
  }
  return text;
}

static const char *line_of(Arena *a, const WhatIfs *w, const WhatIf *x, const char *head) {
  return arena_printf(a, "%s: %s: %s\n", head, x->text, what_if_change_text(a, w, x));
}

// Returns the words with which the line of a changed layout begins.
static const char *head_of(const WhatIfs *w, const WhatIf *x) {
  if (what_if_helps(&w->now, &x->step))
    return strcmp(x->kind, "both") ? "would help" : "would help together";
  return x->step.time->seconds < 0.998 * w->now.time->seconds ? "faster, but larger" : "tried";
}

const char *what_if_lines(Arena *a, const WhatIfs *w, bool all) {
  const char *text = "";
  uint32_t helps = 0, larger = 0;
  for (uint32_t i = 0; i < w->ntried; i++) {
    const WhatIf *x = &w->tried[i];
    const char *head = head_of(w, x);
    bool good = what_if_helps(&w->now, &x->step);
    if (!all && (good ? helps++ >= HELPS_SHOWN : *head == 't' || larger++ > 0)) continue;
    text = arena_printf(a, "%s%s", text, line_of(a, w, x, head));
  }
  if (all && w->estimated)
    text = arena_printf(
        a,
        "%s%u of %u changed layouts were compiled, the others cost as much or more by estimate\n",
        text, w->ntried, w->estimated);
  return text;
}

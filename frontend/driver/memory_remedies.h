// What to do about a step that needs too much memory: the largest values at its peak, and the
// cheapest ways out with their costs, as notes of an error. Input: a compilation that does not
// fit.
#ifndef FRONTEND_MEMORY_REMEDIES_H
#define FRONTEND_MEMORY_REMEDIES_H

#include "frontend/driver/session.h"

// Adds to the last message of s->diag notes that name the values that program c holds at its peak.
void memory_note_values(Session *s, const Compilation *c);
// Adds notes with the layouts of one further rule under which the step needs at most `most` bytes:
// the fastest first, each with its peak and predicted time. If none fits, names a layout with more
// rules that needs least. Every layout that is named has been compiled. Steps of very many
// operations get no such note.
void memory_note_layouts(Session *s, const Compilation *c, double most);
// Returns the predicted time of c as text, compared with the step without a budget: "step 38.2 ms
// (+10.3 %)". Returns "" if it cannot be predicted.
const char *memory_cost(Session *s, const Compilation *c);

#endif

// What the files share that make texts (texts.h).
#ifndef RUNTIME_TEXTS_INTERNAL_H
#define RUNTIME_TEXTS_INTERNAL_H

#include "runtime/generate/texts.h"

// -- text_ends.c
// Appends an id to a text, and ends it if it has come to a stop or to its length.
void texts_append(const Texts *x, GeneratedText *t, int32_t id);
// Shows what can be shown now: the first text that is not shown in full, as far as it cannot become
// a part of a stop, and later ones that have ended. Returns false if `show` did.
MUST_USE bool texts_show(Texts *x);
// -- texts.c: runs the first n ids of prompts: in row r that of text number text[r]. Returns false
// after an error.
MUST_USE bool texts_begin(Texts *x, const uint32_t *text, int64_t n);
// Reports that a logit of the last position is not finite. Returns false.
bool texts_not_finite(const Texts *x, uint32_t text);
// -- text_beams.c: beam search for each prompt in turn. Returns false after an error.
MUST_USE bool texts_by_beams(Texts *x);

#endif

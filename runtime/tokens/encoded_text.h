// A text as the ids of a vocabulary. Inputs that read the same text with the same vocabulary, such
// as the tokens of a language model and those that follow, share its ids: it is encoded once.
#ifndef RUNTIME_ENCODED_TEXT_H
#define RUNTIME_ENCODED_TEXT_H

#include "runtime/tokens/vocabulary.h"

typedef struct EncodedText EncodedText;
// Returns the ids of the text in the file `path`, in the vocabulary at `vocabulary`. It is read
// unless a user of the same files has it already. Returns NULL after an error in d at `at`. The
// caller gives the result back with encoded_text_close. Thread rule: any thread.
EncodedText *encoded_text_open(const char *path, const char *vocabulary, Diag *d, Pos at);
void encoded_text_close(EncodedText *e); // NULL is allowed
const IdList *encoded_text_ids(const EncodedText *e);

#endif

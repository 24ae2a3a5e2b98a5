// What the files of the command dump share.
#ifndef FRONTEND_DUMP_H
#define FRONTEND_DUMP_H

#include "frontend/driver/session.h"

// Returns the text of stage sass: machine code of a GPU of that compute capability (times 10), made
// from PTX. Returns NULL after an error, also if ptx is NULL.
char *sass_text(Session *s, const char *ptx, int capability);

#endif

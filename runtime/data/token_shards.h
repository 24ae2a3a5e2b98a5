// Tokens in several files, the shards. A row lies within one shard, as does the token behind it, so
// a shard of k tokens has (k - 1) / n rows of n tokens, whatever the offset. The rows of all shards
// follow one another. A shard is opened when one of its rows is read first.
#ifndef RUNTIME_TOKEN_SHARDS_H
#define RUNTIME_TOKEN_SHARDS_H

#include "runtime/runtime_internal.h"

typedef struct TokenShards TokenShards;
// How the tokens lie in each file: `skip` bytes, then tokens of `bytes` bytes. A row has n tokens,
// and begins `offset` tokens later than the rows do.
typedef struct TokenForm {
  int64_t skip, bytes, offset, n;
} TokenForm;
// Finds the shards that match a path with stars, and their sizes. Returns NULL after an error in d
// at `at`. The caller frees the result with token_shards_close.
TokenShards *token_shards_open(const char *path, const TokenForm *form, Diag *d, Pos at);
void token_shards_close(TokenShards *t); // NULL is allowed
int64_t token_shards_rows(const TokenShards *t);
// Returns the path of the shard that has row *row, and makes *row the number within that shard.
const char *token_shards_path(const TokenShards *t, int64_t *row);
// Reads the bytes of a row to `out`. Returns false with a reason in `why` that names the shard. One
// thread reads at a time.
MUST_USE bool token_shards_read(TokenShards *t, int64_t row, void *out, char *why);

#endif

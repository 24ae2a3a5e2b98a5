// Gives all ranks a few bytes of each rank (ranks_gather), in the notes of meetings: first how many
// there are, then pieces of NOTE_DATA bytes. This needs neither a mesh nor a segment, and is meant
// for some KiB, such as the facts that one rank has found in a file.
#include <stdlib.h>
#include <string.h>

#include "collectives/ranks/ranks.h"

// Meets the other ranks until all have told their bytes. start[i] is where those of rank i are in
// `all`, and start[i + 1] where they end.
static bool tell(Ranks *r, const char *mine, const int64_t *start, char *all) {
  const RankNote *const *note;
  int n = ranks_count(r), own = ranks_rank(r);
  int64_t most = 0;
  for (int i = 0; i < n; i++)
    if (start[i + 1] - start[i] > most) most = start[i + 1] - start[i];
  for (int64_t at = 0; at < most; at += NOTE_DATA) {
    RankNote next = {.what = NOTE_SHARE};
    int64_t left = start[own + 1] - start[own] - at;
    if (left > 0) memcpy(next.data, mine + at, (size_t)(left < NOTE_DATA ? left : NOTE_DATA));
    if (!ranks_meet(r, &next, true, &note)) return false;
    for (int i = 0; i < n; i++) {
      left = start[i + 1] - start[i] - at;
      if (left > 0)
        memcpy(all + start[i] + at, note[i]->data, (size_t)(left < NOTE_DATA ? left : NOTE_DATA));
    }
  }
  return true;
}

char *ranks_gather(Ranks *r, const void *mine, int64_t bytes, int64_t *start) {
  const RankNote *const *note;
  const RankNote first = {.what = NOTE_SHARE, .value = bytes};
  if (!ranks_meet(r, &first, true, &note)) return NULL;
  start[0] = 0;
  for (int i = 0; i < ranks_count(r); i++) start[i + 1] = start[i] + note[i]->value;
  char *all = mem_alloc((size_t)start[ranks_count(r)] + 1);
  if (tell(r, mine, start, all)) return all;
  free(all);
  return NULL;
}

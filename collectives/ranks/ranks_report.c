// Printing the reason why a run has ended: one process of the run does it.
#define _GNU_SOURCE
#include "collectives/ranks/ranks_internal.h"
#include "ir/base/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void ranks_report(const char *reason) {
  if (process_owned()) abrupt_say(DIAG_PEER_LOST, reason, NULL);
}

// Only the first process that creates a certain file may print why the run ended. The file is in
// the session folder of mpirun, which all ranks of a machine can reach before they have met and
// after one has died. mpirun removes the folder.
bool ranks_claim_by_launcher(void) {
  char path[PATH_MAX];
  const char *folder = getenv("PMIX_SERVER_TMPDIR"), *job = getenv("PMIX_NAMESPACE");
  if (!folder || !job || strchr(job, '/') ||
      snprintf(path, sizeof path, "%s/meshc-said-%s", folder, job) >= PATH_MAX)
    return true;
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return errno != EEXIST;
  close(fd);
  return true;
}

bool ranks_claim_report(Ranks *r) {
  int none = 0;
  // The first machine reports what all machines see. Its end also ends the others: mpirun
  // terminates them, and kills them a second later.
  const struct timespec pause = {r->swept ? 3 : 1, 0};
  if (r->swept || (r->machine > 0 && !*r->error)) nanosleep(&pause, NULL);
  return atomic_compare_exchange_strong(&r->rendezvous->reporter, &none, 1 + r->rank) &&
         (!r->guard_info || ranks_claim_by_launcher());
}

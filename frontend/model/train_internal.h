// Readers of the entries of a train block, shared by train.c, train_optimizer.c and
// train_schedule.c. All return false after an error.
#ifndef FRONTEND_TRAIN_H
#define FRONTEND_TRAIN_H

#include "frontend/model/build_internal.h"

// Reads an optimizer, such as adam(lr = 1e-3).
MUST_USE bool optimizer_read(Build *b, const Ast *e, OptimizerSpec *out);
// Reads groups, such as ("head.*": adam(lr = 1e-3), ...), into t->group.
MUST_USE bool groups_read(Build *b, const Ast *e, TrainSpec *t);
// Reads a schedule, such as cosine(total = 1000, warmup = 100).
MUST_USE bool schedule_read(Build *b, const Ast *e, ScheduleSpec *out);

// Reads a string with a comma-separated list of patterns. Each must match a parameter.
MUST_USE bool patterns_read(Build *b, const Ast *e, const char **out);

// matrix_dims.c: reads a string with a comma-separated list of names of dims.
MUST_USE bool dim_names_read(Build *b, const Ast *e, const char **out);
// matrix_dims.c: reports an error if block t trains a parameter with muon that is no matrix.
void matrices_check(Build *b, const TrainSpec *t);

// train.c: reads a name that must be `first` or `second`: *out becomes 1 or 2. `key` is what the
// name is a value of.
MUST_USE bool word_read(Build *b, const Ast *e, const char *key, const char *first,
                        const char *second, int *out);
// train.c: checks that the entry `key` at e may split the batch into n equal parts. The batch dim
// is the dim of the block `data train`, which must exist; no parameter or state may have that dim.
// Returns false after an error.
MUST_USE bool splits_batch(Build *b, const Ast *e, const char *key, int64_t n);

// train_sync.c: reads `sync` into the TrainSpec at `train`.
MUST_USE bool sync_read(Build *b, const Entry *entry, void *train);
// train_sync.c: reports keys that do not go together with `sync`.
void sync_check(Build *b, const TrainSpec *t);
// train_sync.c: gives the model of one replica with asynchronous updates the mesh on which a
// replica runs: the axes over which the layout splits the batch have size 1.
void sync_mesh(Model *replica);

#endif

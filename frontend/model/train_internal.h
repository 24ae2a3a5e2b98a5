// Private to the reading of train blocks: train.c and the files of its parts.
#ifndef FRONTEND_TRAIN_H
#define FRONTEND_TRAIN_H

#include "frontend/model/build_internal.h"

// Optimisers and schedules as calls; false after an error.
MUST_USE bool optimizer_read(Build *b, const Ast *e, OptimizerSpec *out);
// ("head.*": adam(lr = 1e-3), ...)
MUST_USE bool groups_read(Build *b, const Ast *e, TrainSpec *t);
MUST_USE bool schedule_read(Build *b, const Ast *e, ScheduleSpec *out);

// A list of patterns of which at least one parameter matches one.
MUST_USE bool patterns_read(Build *b, const Ast *e, const char **out);

#endif

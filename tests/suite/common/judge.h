// What `judge` and `move` (ir/program/gpu_step.h) do, in C.
#ifndef TESTS_SUITE_COMMON_JUDGE_H
#define TESTS_SUITE_COMMON_JUDGE_H

#include "ir/program/gpu_step.h"

// Runs the judge. record: a GpuJudging and its values; header: two, and a GpuVote behind them.
// Addresses are those of the host.
void judge_run(const void *record, GpuHeader *header, int32_t flags);
// Runs `move` on nsets records.
void move_run(const char *table, const GpuHeader *header, int32_t nsets, int32_t flags);

#endif

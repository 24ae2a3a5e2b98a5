// What a machine has for programs on GPUs: the driver, the GPUs, the libraries. The answers are
// plain data without pointers, so that a process of its own can find them and write them into a
// pipe.
#ifndef RUNTIME_GPU_SURVEY_H
#define RUNTIME_GPU_SURVEY_H

#include "ir/base/library_table.h"

enum { SURVEYED_GPUS = 16 }; // the most GPUs that are described

typedef struct LibraryFacts {
  char version[32];                             // "" if the library is missing
  char path[sizeof(((LibraryFound *)0)->path)]; // the file that was opened
  char why[sizeof(((LibraryFound *)0)->why)];   // a sentence that says what is missing, or ""
} LibraryFacts;

typedef struct SurveyedGpu {
  char name[128];
  int capability; // compute capability, such as 90 for 9.0
  int multiprocessors;
  int64_t memory; // bytes
} SurveyedGpu;
typedef struct GpuSurvey {
  LibraryFacts driver; // the version is that of CUDA
  int ngpus;           // at most SURVEYED_GPUS
  SurveyedGpu gpu[SURVEYED_GPUS];
} GpuSurvey;

// Describes the driver and its GPUs.
void gpu_survey(GpuSurvey *out);
// Describe a library each.
void cublaslt_survey(LibraryFacts *out);
void nccl_survey(LibraryFacts *out);
// Copies path and sentence of a library, and its version.
void library_facts(const LibraryFound *found, const char *version, LibraryFacts *out);

// Returns whether the machine has a GPU that programs can use. Otherwise *why gets a sentence that
// says what is missing, what brings it, and what works without it. Thread rule: any thread.
bool gpu_available(const char **why);

#endif

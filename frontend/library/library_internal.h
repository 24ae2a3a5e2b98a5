// Models of libmeshc that are compiled from a text, over a session of the driver.
#ifndef FRONTEND_LIBRARY_INTERNAL_H
#define FRONTEND_LIBRARY_INTERNAL_H

#include "frontend/driver/generation.h"
#include "runtime/library/library.h"

typedef struct CompiledProgram {
  meshc_program base; // the first member
  const Graph *graph;
  Compilation made;
} CompiledProgram;

typedef struct CompiledModel {
  meshc_model base; // the first member
  Session s;        // its arena and messages are those of `base`
  Options options;
  ProgramRun train, test; // programs of meshc_train: a training step, and its evaluation
  ProgramRun eval;        // program of the current call of meshc_evaluate
  Generation generation;  // of meshc_generate, made at its first call
  Vocabulary *vocabulary; // of its ids, or NULL
  Saver *saver;           // checkpoint writer of the current call of meshc_save
  TrainJob job;
  int64_t default_steps;          // number of training steps in the train block
  double *value;                  // losses and metrics that a step reports
  const char *const *metric_name; // names of the metrics of an evaluation
  int64_t epoch, row;             // position of the next batch of meshc_train
} CompiledModel;

// -- library_model.c ----------------------------------------------------------------------------
static inline CompiledModel *library_model_of(meshc_model *m) { return (CompiledModel *)(void *)m; }
// Adds a use of an option with this text. With text NULL it removes the use that was added last: a
// call sets an option, does its work and removes the option.
void library_option(CompiledModel *m, OptionId id, const char *text);

// -- library_lists.c ----------------------------------------------------------------------------
// Fills the lists of tensors of a model, by kind, in the model's arena.
void library_list_model(CompiledModel *m);

// The functions of LibraryKind (runtime/library/library.h), by file.
// -- library_program.c
CompiledProgram *library_program_of(meshc_program *p);
meshc_program *library_store(meshc_model *m);
meshc_program *library_compile(meshc_model *m, meshc_purpose purpose, const char *const *fetch,
                               size_t n);
// -- library_train.c
bool library_train(meshc_model *m, int64_t steps, const Reporting *to);
bool library_evaluate(meshc_model *m, const char *data, const Reporting *to);
// Frees what a training or an evaluation has opened, and clears *p.
void library_run_free(ProgramRun *p);
// -- library_parameters.c
bool library_load(meshc_model *m, const char *path);
bool library_save(meshc_model *m, const char *path);
// -- library_generate.c
bool library_text(meshc_model *m, LibraryText *out);
// -- library_facts.c
char *library_json(meshc_model *m, const char *command, meshc_purpose purpose);

#endif

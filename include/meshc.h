/* libmeshc: compiles models of meshc and runs them inside another program.
 *
 *   meshc_model *m = meshc_open_file("mlp.mesh", options, &error);
 *   meshc_program *step = meshc_compile(m, MESHC_TRAIN, NULL, 0, &error);
 *   for (...) meshc_run(step, batch, 2, &loss, 1, &error);
 *   meshc_save(m, "mlp.safetensors", &error);
 *   meshc_close(m);
 *
 * Errors. A function that can fail returns 0 (or a handle) on success, and else a code above 0 (or
 * NULL): 1 a failure of meshc or of the system, 2 wrong use, 3 an error in the model, 4 a number
 * that is not finite, 5 data, 7 memory or disk. If the argument `error` is not NULL, *error becomes
 * NULL on success, and else a list of messages that the caller frees with meshc_error_free.
 * After a failed allocation or an internal error inside a call the model is broken: all that still
 * works are meshc_read, if no step was under way, and meshc_close.
 *
 * Threads. A model and its programs are used by one thread at a time. Different models may be used
 * by different threads at the same time. The library starts threads of its own for steps and data,
 * and for compiles, while a call compiles a program, looks for a layout or explains one.
 *
 * GPU. With the option ("device", "cuda") programs run on the first GPU, in the memory that the
 * processors of the mesh have there. The GPU is opened by the first call that compiles a program;
 * what is missing is an error of that call. Buffers of the caller stay in the memory of the host.
 * A call leaves the GPU's primary context current in its thread. After a failure of the GPU, such
 * as an access outside of its memory, all models on it fail until the process ends.
 *
 * The process. The library does not print, exit, abort, install signal handlers, change the
 * locale, or change the floating-point environment. It reads the files that a model names, and
 * keeps compiled kernels in $XDG_CACHE_HOME/meshc or $HOME/.cache/meshc (option "no-cache").
 *
 * Texts are NUL-terminated UTF-8. Pointers that a function returns belong to the library unless it
 * says otherwise, and live as long as the handle that they come from.
 */
#ifndef MESHC_H
#define MESHC_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MESHC_API __attribute__((visibility("default")))
#else
#define MESHC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* -- versions --------------------------------------------------------------------------------- */

/* Changes when a program that was built with an older header must be built again. */
#define MESHC_ABI_VERSION 1

/* Returns the ABI version of the library, to compare with MESHC_ABI_VERSION. Any thread may call
 * it. */
MESHC_API int meshc_abi_version(void);
/* Returns the version of the library, such as "0.2.0", in static memory. Any thread may call it. */
MESHC_API const char *meshc_version(void);

/* -- errors ----------------------------------------------------------------------------------- */

typedef struct meshc_error meshc_error;

typedef struct meshc_message {
  const char *severity; /* "error" or "warning" */
  const char *code;     /* "E0301"; `meshc explain E0301` says what it means */
  const char *text;
  const char *hint; /* what the user can change; NULL if there is no hint */
  /* The file of the model, a file that it imports, or the name of an option, such as "--mesh".
   * NULL if the message is not about a place in a text. */
  const char *file;
  int line, column; /* place in the file, counted from 1, in characters; 0 if there is no place */
  int length;       /* number of characters at that place which the message is about */
} meshc_message;

/* Returns the number of messages; 0 if `error` is NULL. */
MESHC_API size_t meshc_error_count(const meshc_error *error);
/* Returns message i, counted from 0 in the order in which the messages were found, or NULL if there
 * are not as many. It lives as long as the error. */
MESHC_API const meshc_message *meshc_error_at(const meshc_error *error, size_t i);
/* Frees the list of messages. NULL is allowed. */
MESHC_API void meshc_error_free(meshc_error *error);

/* -- options ---------------------------------------------------------------------------------- */

typedef struct meshc_options meshc_options;

/* Returns a list without options, or NULL if there is no memory. The caller frees it with
 * meshc_options_free. */
MESHC_API meshc_options *meshc_options_new(void);
/* Adds an option of the commands that read a model, by its long name without dashes, with the
 * value that the command line takes: ("set", "b=64"), ("mesh", "rows=2,cols=2"),
 * ("layout", "b=rows,h=cols"), ("device", "cuda"), ("machine", "node.json"), ("threads", "4"),
 * ("seed", "7"), ("precision", "bf16"), ("memory", "8GiB"), ("data-dir", "data"). "set" may be
 * given several times. The value of a switch, such as "exact" or "no-cache", is NULL. Both texts
 * are copied. Values are checked by meshc_open_file. Returns 0, 2 if there is no such option or if
 * an option that takes a value has none, or 7 if there is no memory. */
MESHC_API int meshc_options_set(meshc_options *options, const char *name, const char *value);
/* Frees the list of options. NULL is allowed. */
MESHC_API void meshc_options_free(meshc_options *options);

/* -- models ----------------------------------------------------------------------------------- */

typedef struct meshc_model meshc_model;

/* Reads, checks and builds a model; `options` may be NULL and is not kept. Relative paths in the
 * model start at its folder, or at the option "data-dir". Returns NULL after an error, else the
 * model, which the caller frees with meshc_close. */
MESHC_API meshc_model *meshc_open_file(const char *path, const meshc_options *options,
                                       meshc_error **error);
/* Checks and builds a model from `size` bytes of text, which are copied. `name` is the name of the
 * file in messages; NULL means "model". Relative paths in the model start at the folder of that
 * name. `options` may be NULL and is not kept. Returns NULL after an error, else the model, which
 * the caller frees with meshc_close. */
MESHC_API meshc_model *meshc_open_text(const char *text, size_t size, const char *name,
                                       const meshc_options *options, meshc_error **error);
/* Opens a package: a model that `meshc compile` has compiled, in the folder `path`. It needs no
 * compiler: a program that opens only packages links libmeshc_run, 1/30 of libmeshc, in which
 * meshc_open_file and meshc_open_text are errors. meshc_compile then returns a program of the
 * package; the values that it can fetch were chosen when the package was made. meshc_train needs a
 * package of --for train; meshc_evaluate and meshc_json are errors. The options are "threads" and
 * "data-dir", the folder where the paths of the data begin. Returns NULL after an error, else the
 * model, which the caller frees with meshc_close. */
MESHC_API meshc_model *meshc_open_package(const char *path, const meshc_options *options,
                                          meshc_error **error);
/* Opens a packed package of `size` bytes (docs/package.md), which must live as long as the model.
 * `name` is its name in messages; NULL means "package". Otherwise as meshc_open_package. */
MESHC_API meshc_model *meshc_open_packed(const void *bytes, size_t size, const char *name,
                                         const meshc_options *options, meshc_error **error);
/* Frees the model with all its programs. NULL is allowed. */
MESHC_API void meshc_close(meshc_model *model);
/* Returns the warnings of all calls so far, or NULL if there are none. The list belongs to the
 * model and lives until the next call with the model. */
MESHC_API const meshc_error *meshc_warnings(const meshc_model *model);

typedef enum meshc_type {
  MESHC_F32 = 0,
  MESHC_F64 = 1,
  MESHC_BF16 = 2, /* the upper half of an f32 */
  MESHC_F16 = 3,
  MESHC_I32 = 4,
  MESHC_U8 = 5,
  MESHC_BOOL = 6, /* a byte, 0 or 1 */
  MESHC_I64 = 7   /* in buffers only: models compute in i32 */
} meshc_type;

/* Returns the bytes of an element; 0 if `type` is no meshc_type. */
MESHC_API size_t meshc_type_size(meshc_type type);

typedef enum meshc_kind {
  MESHC_INPUT = 0,
  MESHC_PARAMETER = 1,
  MESHC_STATE = 2,
  MESHC_OUTPUT = 3 /* what a program computes: outputs, losses and metrics, fetched values */
} meshc_kind;

typedef struct meshc_tensor {
  const char *name;
  meshc_kind kind;
  meshc_type type;
  int rank;               /* number of dims; 0 for a single number */
  const char *const *dim; /* name of each dim, in declared order */
  const int64_t *size;    /* number of elements along each dim */
} meshc_tensor;

/* Returns the number of tensors of a kind. Those of the kind MESHC_OUTPUT are the outputs, losses
 * and metrics of the model. */
MESHC_API size_t meshc_tensor_count(const meshc_model *model, meshc_kind kind);
/* Returns tensor i of a kind, counted from 0, or NULL if there are not as many. It lives as long as
 * the model. */
MESHC_API const meshc_tensor *meshc_tensor_at(const meshc_model *model, meshc_kind kind, size_t i);

/* -- programs --------------------------------------------------------------------------------- */

typedef struct meshc_program meshc_program;

typedef enum meshc_purpose {
  MESHC_PREDICT = 0,  /* outputs of the model */
  MESHC_EVALUATE = 1, /* loss and metrics of one batch */
  MESHC_TRAIN = 2     /* loss and metrics of one batch, and the update of the train block */
} meshc_purpose;

/* Compiles the model for all processors of its mesh and allocates their memory. The outputs of
 * the program are the nfetch names of `fetch` (values, metrics, gradients "grad(w)"); if nfetch is
 * 0, the outputs are those of the purpose. All programs of a model share its parameters and states.
 * The program belongs to the model and lives until meshc_close. Returns NULL after an error. */
MESHC_API meshc_program *meshc_compile(meshc_model *model, meshc_purpose purpose,
                                       const char *const *fetch, size_t nfetch,
                                       meshc_error **error);
/* Return the number of a program's tensors of a kind, and tensor i of the kind, or NULL if there
 * are not as many. Inputs are those that the program reads, outputs those that it computes. A
 * tensor lives as long as the model. */
MESHC_API size_t meshc_program_tensor_count(const meshc_program *program, meshc_kind kind);
MESHC_API const meshc_tensor *meshc_program_tensor_at(const meshc_program *program, meshc_kind kind,
                                                      size_t i);

/* A buffer of the caller for one tensor. */
typedef struct meshc_array {
  const char *name;
  meshc_type type;
  int rank;
  const char *const *dim; /* name of the dim along each axis; NULL: declared order */
  const int64_t *size;    /* number of elements along each axis; NULL: as in the tensor */
  const int64_t *stride;  /* bytes from one element to the next along each axis, which may be 0 or
                             negative; NULL: C order without gaps */
  void *data;             /* the element with all indices 0 */
} meshc_array;

/* Runs the program once, on all processors: reads the inputs from `in`, computes, and writes the
 * values that `out` names. `in` must have every input that the program reads. A program for
 * training also updates parameters, states and the optimizer; if the loss or a gradient is not
 * finite, it updates nothing and the result is 4. A buffer in C order of the tensor's type is
 * copied once, into or out of the memory of the processors; other buffers element by element. A
 * buffer at the address that meshc_data returns is not copied. Integers must be exact in the other
 * type; f64 is rounded to f32. The buffers are not kept. The step allocates nothing after the first
 * call with the same kind of buffers. */
MESHC_API int meshc_run(meshc_program *program, const meshc_array *in, size_t nin,
                        const meshc_array *out, size_t nout, meshc_error **error);

/* Returns the address of a tensor in the memory of the program, in C order of its dims. Returns
 * NULL if the tensor is not in that form (several processors, another order of dims, a program on a
 * GPU), or if there is no such tensor. The caller writes inputs before each meshc_run. Outputs are
 * valid until the next meshc_run. The memory lives as long as the program. */
MESHC_API void *meshc_data(meshc_program *program, meshc_kind kind, const char *name);

/* -- training on the model's data ------------------------------------------------------------- */

typedef struct meshc_progress {
  int64_t step, steps;     /* number of steps done, and of the whole training */
  const char *data;        /* data block: "train", "valid" or "test" */
  size_t count;            /* number of values: the losses, then the metrics */
  const char *const *name; /* name of each value */
  const double *value;
} meshc_progress;

/* Called after every step, and after every evaluation, by the thread that called meshc_train. The
 * arguments live until it returns. It must not call functions with the same model. A result other
 * than 0 ends the training after this step. */
typedef int meshc_progress_function(void *context, const meshc_progress *progress);

/* Trains on the data blocks of the model as its train block says, and goes on where an earlier call
 * ended. If `steps` is 0, the number of steps is that of the train block. `progress` may be NULL.
 * Returns 0 also when `progress` has ended the training. */
MESHC_API int meshc_train(meshc_model *model, int64_t steps, meshc_progress_function *progress,
                          void *context, meshc_error **error);
/* Computes loss and metrics over the data block "test", "valid" or "train" (NULL means "test") and
 * calls `progress` once. Returns 0 or the code of an error. */
MESHC_API int meshc_evaluate(meshc_model *model, const char *data,
                             meshc_progress_function *progress, void *context, meshc_error **error);
/* Returns the number of training steps so far, including those of a loaded optimizer state. */
MESHC_API int64_t meshc_steps(const meshc_model *model);

/* -- text ------------------------------------------------------------------------------------- */

/* How the ids of a text are chosen. All fields may be 0. */
typedef struct meshc_sampling {
  int64_t max_tokens; /* most ids after the prompt; 0: 200 */
  double temperature; /* ids are drawn from softmax(logits / temperature); 0: the most probable id
                         is taken */
  int64_t top_k;      /* ids are drawn among the top_k most probable ones; 0: among all */
  double top_p;       /* among the most probable ones whose probabilities add up to top_p; 0: all */
  uint64_t seed;      /* equal seeds draw equal ids */
  const char *const *stop; /* texts, each of which ends the generated one before it */
  size_t stops;            /* their number */
} meshc_sampling;

/* Called with each part of a generated text, by the thread that called meshc_generate; `text` lives
 * until it returns. It must not call functions with the same model. A result other than 0 ends the
 * text. */
typedef int meshc_text_function(void *context, const char *text, size_t size);

/* Continues the `size` bytes of `prompt` with a causal language model, or with a package of
 * `meshc compile --for generate`, and calls `text` with what follows, as it is made. Text is split
 * into ids as `meshc generate` does: by the vocabulary of the data block or package, else into
 * bytes where the data is text(...), else text is a list of ids, such as "464 2159". The programs
 * are compiled at the first call. `how` may be NULL. Returns 0, also when `text` has ended it, or
 * the code of an error: 2 if the prompt does not fit the context or the model is not causal, 4 if
 * its logits are not finite. */
MESHC_API int meshc_generate(meshc_model *model, const char *prompt, size_t size,
                             const meshc_sampling *how, meshc_text_function *text, void *context,
                             meshc_error **error);

/* -- parameters ------------------------------------------------------------------------------- */

/* meshc_read copies a parameter or state into a buffer, meshc_write copies a buffer into a
 * parameter or state; the `name` of the buffer says which. Return 0 or the code of an error.
 * Parameters and states get their initial values in the first call that needs them. */
MESHC_API int meshc_read(meshc_model *model, const meshc_array *out, meshc_error **error);
MESHC_API int meshc_write(meshc_model *model, const meshc_array *in, meshc_error **error);

/* Loads parameters and states, and the state of the optimizer where there is one: from a file
 * (.safetensors, .npz), a folder of .npy files, or a checkpoint of `meshc train`. */
MESHC_API int meshc_load(meshc_model *model, const char *path, meshc_error **error);
/* Writes parameters, states and the state of the optimizer: to PATH if it ends in .safetensors or
 * .npz, else as a checkpoint step-N in the folder PATH, which `meshc` reads. A file is replaced
 * when the new one is complete. */
MESHC_API int meshc_save(meshc_model *model, const char *path, meshc_error **error);

/* -- facts ------------------------------------------------------------------------------------ */

/* Returns what a command of the program meshc prints with --json and --for `purpose`: "check"
 * (flops, memory, every collective, predicted time), "explain" (the cause of every collective) or
 * "plan" (the cheapest layouts on the model's mesh, with costs and predicted times). The caller
 * frees the text with meshc_free. Returns NULL after an error. */
MESHC_API char *meshc_json(meshc_model *model, const char *command, meshc_purpose purpose,
                           meshc_error **error);
/* Frees a text that this library has returned to be freed. NULL is allowed. */
MESHC_API void meshc_free(char *text);

#ifdef __cplusplus
}
#endif

#endif

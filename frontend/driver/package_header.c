// The C interface of a package that is compiled into an object: a header with three functions, and
// the source that implements them over libmeshc_run.
//
//   NAME *NAME_init(void);                                    loads the programs and the values
//   int NAME_run(NAME *, const T *INPUT, ..., T *OUTPUT...);  computes, or
//   int NAME_generate(NAME *, const char *prompt, ...);       generates text
//   void NAME_free(NAME *);
#include "frontend/driver/package_emit_internal.h"

#include <string.h>

// The type of an element in C, and its meshc_type.
static const struct {
  Dtype type;
  const char *c, *number;
} types[] = {{TYPE_F32, "float", "0"},    {TYPE_F64, "double", "1"},  {TYPE_BF16, "uint16_t", "2"},
             {TYPE_F16, "uint16_t", "3"}, {TYPE_I32, "int32_t", "4"}, {TYPE_U8, "uint8_t", "5"},
             {TYPE_BOOL, "uint8_t", "6"}};

static size_t type_of(Dtype t) {
  size_t i = 0;
  while (i + 1 < countof(types) && types[i].type != t) i++;
  return i;
}

static int64_t elements(const ProgTensor *t) {
  int64_t n = 1;
  for (int d = 0; d < t->rank; d++) n *= t->dim[d].whole;
  return n;
}

// The dims of a tensor as a comment: "b 8, d 4".
static const char *shape_comment(Arena *a, const ProgTensor *t) {
  const char *text = t->rank ? "" : "one number";
  for (int d = 0; d < t->rank; d++)
    text = arena_printf(a, "%s%s%s %lld", text, d ? ", " : "", t->dim[t->declared[d]].name,
                        (long long)t->dim[t->declared[d]].whole);
  return text;
}

// Calls `put` for each input and then for each output of the program.
static void each(FILE *f, const Interface *i,
                 void (*put)(FILE *, const Interface *, const ProgTensor *)) {
  static const TensorKind kinds[] = {TENSOR_INPUT, TENSOR_OUTPUT};
  for (size_t k = 0; k < countof(kinds); k++)
    for (uint32_t t = 0; t < i->program->ntensors; t++)
      if (i->program->tensor[t].kind == kinds[k]) put(f, i, &i->program->tensor[t]);
}

static long number_of(const Interface *i, const ProgTensor *t) {
  return (long)(t - i->program->tensor);
}

// Writes a name as a string of C. No escape runs into the character behind it.
static void put_string(FILE *f, const char *text) {
  fputc('"', f);
  for (; *text; text++)
    if ((unsigned char)*text < ' ' || *text == 127)
      fprintf(f, "\\%03o", (unsigned)*text);
    else
      fprintf(f, strchr("\"\\?", *text) ? "\\%c" : "%c", *text);
  fputc('"', f);
}

// Writes the initial values of an array of names: "#define NAME_found_CLASSES {"cat", "dog"}". With
// `dim` they are of the positions along it, else of the numbers of the output.
static void put_names(FILE *f, const Interface *i, const char *name, const char *dim,
                      const ClassNames *c) {
  if (!c->n) return;
  const char *of = dim ? c_name(i->arena, arena_printf(i->arena, "_OF_%s", dim)) : "";
  fprintf(f, "#define %s_%s_CLASSES%s {", i->name, name, of);
  for (uint32_t k = 0; k < c->n; k++) {
    if (k) fputs(", ", f);
    put_string(f, c->name[k]);
  }
  fprintf(f, "} /* the classes of its %s%s, from 0 */\n", dim ? "positions along " : "numbers",
          dim ? dim : "");
}

// The names of the classes that the numbers of an output, or the positions along its dims, are.
static void put_classes(FILE *f, const Interface *i, const ProgTensor *t, const char *name) {
  const Result *r = &i->result[number_of(i, t)];
  if (t->kind != TENSOR_OUTPUT) return;
  put_names(f, i, name, NULL, &r->element);
  for (int d = 0; d < t->rank; d++) put_names(f, i, name, r->dim[d], &r->axis[d]);
}

static void put_size(FILE *f, const Interface *i, const ProgTensor *t) {
  const char *name = i->names[number_of(i, t)];
  fprintf(f, "#define %s_%s_ELEMENTS %lld /* %s%s%s of %s: %s */\n", i->name, name,
          (long long)elements(t), t->kind == TENSOR_INPUT ? "input" : "output",
          strcmp(name, t->name) ? " " : "", strcmp(name, t->name) ? t->name : "",
          types[type_of(t->type)].c, shape_comment(i->arena, t));
  put_classes(f, i, t, name);
}

static void put_pointer(FILE *f, const ProgTensor *t) {
  fprintf(f, ", %s%s *", t->kind == TENSOR_INPUT ? "const " : "", types[type_of(t->type)].c);
}

static void put_parameter(FILE *f, const Interface *i, const ProgTensor *t) {
  put_pointer(f, t);
  fputs(i->names[number_of(i, t)], f);
}

// In the source, parameters have numbers: no name of the model can be that of something else.
static void put_numbered(FILE *f, const Interface *i, const ProgTensor *t) {
  put_pointer(f, t);
  fprintf(f, "t%ld", number_of(i, t));
}

// The function that computes outputs: "int NAME_run(NAME *m, ...)".
static void put_run(FILE *f, const Interface *i,
                    void (*put)(FILE *, const Interface *, const ProgTensor *)) {
  fprintf(f, "int %s_run(%s *m", i->name, i->name);
  each(f, i, put);
  fprintf(f, ")");
}

// The function that generates text.
static void put_generate(FILE *f, const Interface *i) {
  fprintf(f,
          "int %s_generate(%s *m, const char *prompt, size_t size, int64_t max_tokens, double "
          "temperature,\n    int64_t top_k, double top_p, uint64_t seed, %s_text *text, void "
          "*context)",
          i->name, i->name, i->name);
}

static const char about_run[] =
    "/* Computes the outputs of one batch. Returns 0, or the code of an error: 5 data, such as an\n"
    " * index out of range; 7 memory; others as in meshc.h. */\n";
static const char about_generate[] =
    "/* Continues `size` bytes of `prompt`, and calls `text` with what follows, as it is made: at\n"
    " * most max_tokens ids (0: 200), drawn from softmax(logits / temperature) among the top_k "
    "most\n"
    " * probable ids (0: all) and those whose probabilities add up to top_p (0: all). Temperature "
    "0:\n"
    " * the most probable id. Returns 0, or the code of an error as in meshc.h. */\n";

// The function that does what the package is for. `put` writes the parameters of NAME_run.
static void put_function(FILE *f, const Interface *i,
                         void (*put)(FILE *, const Interface *, const ProgTensor *)) {
  if (i->text)
    put_generate(f, i);
  else
    put_run(f, i, put);
}

// How the functions are used, as a comment.
static void put_usage(FILE *f, const Interface *i) {
  fprintf(f,
          "/* %s, compiled by meshc " MESHC_VERSION ".\n"
          " *\n"
          " *   %s *m = %s_init();\n"
          " *   if (m == NULL || %s_%s(m, ...) != 0) puts(%s_error());\n"
          " *   %s_free(m);\n"
          " *\n%s"
          " * Threads: one %s is used by one thread at a time, different ones by different threads "
          "at the\n"
          " * same time. It has threads of its own. Nothing is printed, and no call ends the "
          "process. */\n",
          i->model, i->name, i->name, i->name, i->text ? "generate" : "run", i->name, i->name,
          i->text ? ""
                  : " * Arrays are in C order, without gaps, of so many elements. bf16 and f16 are "
                    "16-bit patterns.\n",
          i->name);
}

// The types, and the function that loads the package.
static void put_types(FILE *f, const Interface *i) {
  fprintf(f,
          "\ntypedef struct %s %s;\n\n"
          "/* Loads the code for this CPU, and the parameters. Returns NULL after an error. */\n"
          "%s *%s_init(void);\n",
          i->name, i->name, i->name, i->name);
  if (i->text)
    fprintf(f,
            "/* Receives a part of a text. A result other than 0 ends the text. */\n"
            "typedef int %s_text(void *context, const char *text, size_t size);\n",
            i->name);
}

void put_header(FILE *f, const Interface *i) {
  put_usage(f, i);
  fprintf(f,
          "#ifndef %s_PACKAGE_H\n#define %s_PACKAGE_H\n\n#include <stddef.h>\n#include "
          "<stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
          i->name, i->name);
  if (!i->text) each(f, i, put_size);
  put_types(f, i);
  fputs(i->text ? about_generate : about_run, f);
  put_function(f, i, put_parameter);
  fprintf(f,
          ";\n/* Frees it. NULL is allowed. */\nvoid %s_free(%s *m);\n"
          "/* Returns the last error of this thread, in memory that its next error overwrites. */\n"
          "const char *%s_error(void);\n\n#ifdef __cplusplus\n}\n#endif\n#endif\n",
          i->name, i->name, i->name);
}

// -- the source ---------------------------------------------------------------------------------

// What the source uses of meshc.h, so that it needs no header to be found.
static const char declarations[] =
    "typedef struct meshc_model meshc_model;\n"
    "typedef struct meshc_program meshc_program;\n"
    "typedef struct meshc_error meshc_error;\n"
    "typedef struct { const char *severity, *code, *text, *hint, *file; int line, column, length; "
    "}\n"
    "    meshc_message;\n"
    "typedef struct { const char *name; int type, rank; const char *const *dim; const int64_t "
    "*size;\n"
    "    const int64_t *stride; void *data; } meshc_array;\n"
    "meshc_model *meshc_open_packed(const void *, size_t, const char *, const void *, meshc_error "
    "**);\n"
    "meshc_program *meshc_compile(meshc_model *, int, const char *const *, size_t, meshc_error "
    "**);\n"
    "int meshc_run(meshc_program *, const meshc_array *, size_t, const meshc_array *, size_t,\n"
    "    meshc_error **);\n"
    "typedef struct { int64_t max_tokens; double temperature; int64_t top_k; double top_p;\n"
    "    uint64_t seed; const char *const *stop; size_t stops; } meshc_sampling;\n"
    "int meshc_generate(meshc_model *, const char *, size_t, const meshc_sampling *,\n"
    "    int (*)(void *, const char *, size_t), void *, meshc_error **);\n"
    "const meshc_message *meshc_error_at(const meshc_error *, size_t);\n"
    "void meshc_error_free(meshc_error *);\n"
    "void meshc_close(meshc_model *);\n\n";

static void put_array(FILE *f, const Interface *i, const ProgTensor *t) {
  fprintf(f, "    {\"%s\", %s, %d, 0, 0, 0, (void *)(uintptr_t)t%ld},\n", t->name,
          types[type_of(t->type)].number, t->rank, number_of(i, t));
}

static int count(const Interface *i, TensorKind kind) {
  int n = 0;
  for (uint32_t t = 0; t < i->program->ntensors; t++) n += i->program->tensor[t].kind == kind;
  return n;
}

static void put_run_body(FILE *f, const Interface *i) {
  int nin = count(i, TENSOR_INPUT), nout = count(i, TENSOR_OUTPUT);
  fprintf(f, " {\n  const meshc_array array[] = {\n");
  each(f, i, put_array);
  fprintf(f,
          "  };\n  meshc_error *e = NULL;\n"
          "  if (!m) return meshc_no_handle();\n"
          "  int code = meshc_run(m->program, array, %d, array + %d, %d, &e);\n"
          "  if (code) meshc_keep(e);\n  return code;\n}\n",
          nin, nin, nout);
}

static void put_generate_body(FILE *f, const Interface *i) {
  (void)i;
  fprintf(f, " {\n"
             "  const meshc_sampling how = {max_tokens, temperature, top_k, top_p, seed, 0, 0};\n"
             "  meshc_error *e = NULL;\n"
             "  if (!m) return meshc_no_handle();\n"
             "  int code = meshc_generate(m->model, prompt, size, &how, text, context, &e);\n"
             "  if (code) meshc_keep(e);\n  return code;\n}\n");
}

// The bytes of the packed package, in the object.
static void put_packed(FILE *f, const char *packed) {
  fprintf(f,
          "__asm__(\".section .rodata\\n.balign 64\\n.local meshc_packed\\nmeshc_packed:\\n\"\n"
          "    \".incbin \\\"%s\\\"\\nmeshc_packed_end:\\n.previous\\n\");\n"
          "extern const char meshc_begin[] __asm__(\"meshc_packed\") "
          "__attribute__((visibility(\"hidden\")));\n"
          "extern const char meshc_end[] __asm__(\"meshc_packed_end\") "
          "__attribute__((visibility(\"hidden\")));\n\n",
          packed);
}

// What keeps the message of an error, for NAME_error.
static const char errors[] =
    "static _Thread_local char meshc_why[512];\n\n"
    "static void meshc_keep(meshc_error *e) {\n"
    "  const meshc_message *m = meshc_error_at(e, 0);\n"
    "  snprintf(meshc_why, sizeof meshc_why, \"%s [%s]\", m ? m->text : \"failed\", m ? "
    "m->code : \"\");\n"
    "  meshc_error_free(e);\n}\n\n"
    "static int meshc_no_handle(void) {\n"
    "  snprintf(meshc_why, sizeof meshc_why, \"the handle is NULL [E0601]\");\n  return 2;\n}\n\n";

// The function that loads the package.
static void put_init(FILE *f, const Interface *i) {
  fprintf(f,
          "MESHC_API %s *%s_init(void) {\n"
          "  %s *m = calloc(1, sizeof *m);\n"
          "  meshc_error *e = NULL;\n"
          "  if (!m) return NULL;\n"
          "  m->model = meshc_open_packed(meshc_begin, (size_t)(meshc_end - meshc_begin), \"%s\", "
          "NULL, &e);\n"
          "%s"
          "  meshc_keep(e);\n  %s_free(m);\n  return NULL;\n}\n\n",
          i->name, i->name, i->name, i->name,
          i->text ? "  if (m->model) return m;\n"
                  : "  if (m->model) m->program = meshc_compile(m->model, 0, NULL, 0, &e);\n"
                    "  if (m->program) return m;\n",
          i->name);
}

void put_source(FILE *f, const Interface *i, const char *packed) {
  fputs("#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n\n", f);
  put_header(f, i);
  fprintf(f, "\n#define MESHC_API __attribute__((visibility(\"default\")))\n%s", declarations);
  put_packed(f, packed);
  fprintf(f, "struct %s { meshc_model *model; meshc_program *program; };\n%s", i->name, errors);
  fprintf(f,
          "MESHC_API const char *%s_error(void) { return meshc_why; }\n\n"
          "MESHC_API void %s_free(%s *m) {\n  if (m) meshc_close(m->model);\n  free(m);\n}\n\n",
          i->name, i->name, i->name);
  put_init(f, i);
  fputs("MESHC_API ", f);
  put_function(f, i, put_numbered);
  (i->text ? put_generate_body : put_run_body)(f, i);
}

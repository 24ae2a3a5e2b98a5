// Ast: the model file as written. One node type; kinds, what text and kids mean, stand in ast.def.
#ifndef FRONTEND_AST_H
#define FRONTEND_AST_H

#include "ir/base/diag.h"
#include "ir/base/intern.h"

typedef enum AstKind {
#define AST(id, text) AST_##id,
#include "frontend/syntax/ast.def"
#undef AST
  AST_COUNT
} AstKind;

typedef struct Ast Ast;

// One item between brackets, `sum[all but b]`, `split[d -> heads, k]`, `stack[-> n]`: dims, an
// arrow before some.
typedef struct AstDim {
  const char *name;
  bool arrow; // an arrow stands before this item
  Pos pos;
} AstDim;

// One argument between parentheses: `x`, `rate = 0.1`, `1000: 1`, `d -> heads`.
typedef struct AstArg {
  const char *name; // of a named argument, else NULL
  Ast *key;         // before a colon, else NULL
  bool arrow;       // an arrow stands before this argument
  Ast *value;
  Pos pos; // of the name or the value
} AstArg;

struct Ast {
  AstKind kind;
  Pos pos;
  const char *text; // name, operator, string
  double number;    // of NUMBER
  bool integer;     // of NUMBER: without fraction or exponent; other kinds: see ast.def
  bool has_brackets, all_but, has_parens;
  uint32_t ndims;
  AstDim *dims;
  uint32_t nargs;
  AstArg *args;
  uint32_t nkids;
  Ast **kids;
  Pos end; // last character
};

// Parses a file's text, registered as `source` in d. Never NULL; errors are in d, and the tree
// holds what could be read (the parser resumes at the next statement). Deep nesting is an error,
// never a crash.
Ast *ast_parse(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text, size_t n);
// One expression, one `--set` value, one layout or mesh in command-line form.
Ast *ast_parse_expression(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text,
                          size_t n);
// "rows=2,cols=4" or "rows:2;cols:4" as a MESH statement; "b=rows,optimizer/all=rows" as a LAYOUT
// statement.
Ast *ast_parse_mesh(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text, size_t n);
Ast *ast_parse_layout(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text,
                      size_t n);
// The tree as an indented text (`dump --stage ast`).
char *ast_print(Arena *a, const Ast *t);
// A model file in canonical form (`fmt`): comments stay, blank lines too (at most one in a row),
// the tree is the same, and formatting again changes nothing. NULL after syntax errors in d.
char *ast_format(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text, size_t n);

#endif

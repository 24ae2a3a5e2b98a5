// The Ast: a model file as a tree, as it is written. All nodes have one type. ast.def lists the
// kinds of nodes, and what `text`, `kids` and the other fields mean for each.
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

// One item between brackets, as in `sum[all but b]`, `split[d -> heads, k]`, `stack[-> n]`.
typedef struct AstDim {
  const char *name;
  bool arrow; // there is an arrow before this item
  Pos pos;
} AstDim;

// One argument between parentheses, as `x`, `rate = 0.1`, `1000: 1`, `d -> heads`.
typedef struct AstArg {
  const char *name; // the name, in `rate = 0.1`; else NULL
  Ast *key;         // expression before a colon, else NULL
  bool arrow;       // there is an arrow before this argument
  Ast *value;
  Pos pos; // position of the name or, without a name, of the value
} AstArg;

struct Ast {
  AstKind kind;
  Pos pos;
  const char *text; // name, operator or string
  double number;    // value of a NUMBER
  bool integer;     // for NUMBER: no fraction and no exponent; for other kinds see ast.def
  bool has_brackets, all_but, has_parens;
  uint32_t ndims;
  AstDim *dims;
  uint32_t nargs;
  AstArg *args;
  uint32_t nkids;
  Ast **kids;
  Pos end; // the last character of the node
};

// Parses the text of a model file, n bytes, which is registered as `source` in d. Always returns a
// tree, allocated from a. Errors go to d; the parser then resumes at the next statement, and the
// tree has the statements without errors. Nesting that is too deep is an error.
Ast *ast_parse(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text, size_t n);
// Parses one expression, such as a value of `--set`. Always returns a node; errors go to d.
Ast *ast_parse_expression(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text,
                          size_t n);
// Parses the command-line form of a mesh, "rows=2,cols=4" or "rows:2;cols:4", into a MESH
// statement. Errors go to d. For a mesh of sizes without names ("2x2") it reports an error and
// returns NULL.
Ast *ast_parse_mesh(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text, size_t n);
// Parses the command-line form of a layout, "b=rows,optimizer/all=rows", into a LAYOUT statement.
// Errors go to d.
Ast *ast_parse_layout(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text,
                      size_t n);
// Returns tree t as indented text (`dump --stage ast`), allocated from a.
char *ast_print(Arena *a, const Ast *t);
// Returns the text of a model file in canonical form (`fmt`), allocated from a; NULL after syntax
// errors, which go to d. Comments and blank lines are kept; several blank lines in a row become
// one. Parsing the result gives an equal tree, and formatting the result again changes nothing.
char *ast_format(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text, size_t n);

#endif

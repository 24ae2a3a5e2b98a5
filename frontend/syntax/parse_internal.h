// The parser's inside: what parse.c, parse_expr.c and parse_stmt.c share.
#ifndef FRONTEND_PARSE_H
#define FRONTEND_PARSE_H

#include "frontend/syntax/ast.h"
#include "frontend/syntax/habits.h"
#include "frontend/syntax/lex.h"

enum { MAX_DEPTH = 400 }; // of expressions and blocks inside one another; parentheses count twice

// A parse function that returns NULL or false has said why; its caller gives up too, up to the
// statement, behind which parsing resumes.
typedef struct Parser {
  Arena *a;
  Intern *names;
  Diag *d;
  uint32_t source;
  const char *text;
  Token *token;   // the last one is EOF
  uint32_t at;    // the next one
  uint32_t start; // the first one of this statement or entry: a line end before it ends nothing
  int open;       // parentheses and brackets around it: inside, line ends mean nothing
  int depth;
  bool for_head; // in the range of a `for`, where `(` may start the options
} Parser;

// -- parse.c: tokens and nodes ------------------------------------------------------------------
// A parser at the first token of text; tokens stay where the caller put them.
Parser parser_new(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text, size_t n,
                  Tokens *tokens);
Ast *parse_file(Parser *p);
// A statement or an entry starts at the next token.
void parser_start(Parser *p);
Token *parser_peek(const Parser *p);
Token *parser_ahead(const Parser *p, uint32_t n); // n tokens on, EOF at the end
Token *parser_take(Parser *p);
bool parser_at(const Parser *p, TokenKind kind);
bool parser_at_word(const Parser *p, const char *word);
// Takes the next token if it is of that kind and on this line (brackets and `;` aside).
bool parser_accept(Parser *p, TokenKind kind);
// True where a statement may end: a line end outside brackets, `;`, `}` or the end of the file.
bool parser_at_end(const Parser *p);
Pos token_pos(const Parser *p, const Token *t);
// "expected WHAT, found ..." at the next token. Always false.
bool parser_expected(Parser *p, const char *what);
bool parser_expect(Parser *p, TokenKind kind, const char *what);
// The name that must stand here, or NULL.
const Token *parser_name(Parser *p, const char *what);
// False with an error for a name with dots: those are full names, which scopes make.
bool parser_is_new(Parser *p, const Token *t);
// A name that is new here, without dots, or NULL.
const Token *parser_new_name(Parser *p, const char *what);
// Counts one level of nesting; false (said) when there are too many. After true: parser_leave.
bool parser_enter(Parser *p);
void parser_leave(Parser *p);

Ast *ast_new(Parser *p, AstKind kind, Pos pos);
// Growing lists of a node under construction.
typedef VEC(Ast *) Kids;
typedef VEC(AstArg) Args;
typedef VEC(AstDim) AstDims;
void ast_set_kids(Ast *t, const Kids *kids);
// Sets t->end to the last character taken, and returns t.
Ast *ast_end(Parser *p, Ast *t);

// -- parse_expr.c -------------------------------------------------------------------------------
Ast *parse_expr(Parser *p);
// `[b, h]`, the bracket not yet taken: dims, arrows, `all but`, into t.
bool parse_dims(Parser *p, Ast *t);

// -- parse_stmt.c: what statements share --------------------------------------------------------
// A statement named by `name`, or by its keyword where there is none.
Ast *ast_statement(Parser *p, AstKind kind, const Token *name);
Ast *ast_with_kids(Parser *p, Ast *t, const Kids *kids); // and its end
void ast_set_args(Ast *t, const Args *args);
// Statements up to `}` or the end of the file.
void parse_statements(Parser *p, Kids *out);
// `{ statements }`; `{ NAME = VALUE, ... }`, entries separated by line ends or commas or both.
Ast *parse_block(Parser *p);
bool parse_entries(Parser *p, Kids *kids);
// `[b, h]` if it follows; NAME[dims] on the left side; `= EXPRESSION`; one `NAME = VALUE` of a
// list of options.
bool parse_optional_dims(Parser *p, Ast *t);
// `: TYPE` as a NAME, NULL when there is none; false after an error.
bool parse_type(Parser *p, Ast **out);
Ast *parse_target(Parser *p);
bool parse_value(Parser *p, Kids *kids);
bool parse_option_item(Parser *p, Args *args);
// `head.kernel`, `layer.*.wi`: the token behind a name with stars (the next one: none stands here).
// The lexer keeps it as text; parse_pattern reads it, as a NAME.
const Token *pattern_end(const Parser *p);
Ast *parse_pattern(Parser *p, const Token *end);

// -- parse_declare.c, parse_flow.c --------------------------------------------------------------
// The rest of a statement whose keyword was taken.
typedef Ast *ParseStatement(Parser *p, const Token *keyword);
#define KEYWORD(word, parse) ParseStatement parse;
#include "frontend/syntax/token.def"
#undef KEYWORD
Ast *parse_bind(Parser *p);

#endif

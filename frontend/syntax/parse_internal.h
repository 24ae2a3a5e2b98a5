// Private: the parser's data, and the functions that the parse*.c files share.
#ifndef FRONTEND_PARSE_H
#define FRONTEND_PARSE_H

#include "frontend/syntax/ast.h"
#include "frontend/syntax/habits.h"
#include "frontend/syntax/lex.h"

enum { MAX_DEPTH = 400 }; // limit of nested expressions and blocks; parentheses count twice

// The state of the parser. A parse function that returns NULL or false has given an error. Its
// caller then returns as well, up to the statement, and parsing resumes after that.
typedef struct Parser {
  Arena *a;
  Intern *names;
  Diag *d;
  uint32_t source;
  const char *text;
  Token *token;   // all tokens; the last one is EOF
  uint32_t at;    // index of the next token
  uint32_t start; // first token of the current statement or entry; a line end before it does not
                  // end the statement
  int open;       // open parentheses and brackets around the next token; inside them line ends are
                  // ignored
  int depth;
  bool for_head; // inside the range of a `for`, where `(` may start the options
} Parser;

// -- parse.c: tokens and nodes ------------------------------------------------------------------
// Returns a parser at the first token of text. *tokens gets the tokens; it must live as long as the
// parser.
Parser parser_new(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text, size_t n,
                  Tokens *tokens);
// Parses all tokens. Always returns a FILE node; errors go to p->d.
Ast *parse_file(Parser *p);
// Marks the next token as the start of a statement or an entry.
void parser_start(Parser *p);
// Return the next token, or the one n tokens after it (EOF after the end), without taking it.
Token *parser_peek(const Parser *p);
Token *parser_ahead(const Parser *p, uint32_t n);
// Takes the next token, which is returned. EOF is not passed.
Token *parser_take(Parser *p);
// Return true if the next token has that kind, or is that name.
bool parser_at(const Parser *p, TokenKind kind);
bool parser_at_word(const Parser *p, const char *word);
// Takes the next token if it has that kind and no line end that ends the statement is before it.
// Returns true if it took the token. Brackets and `;` may be on another line.
bool parser_accept(Parser *p, TokenKind kind);
// Returns true if a statement may end here: at a line end outside brackets, `;`, `}` or the end of
// the file.
bool parser_at_end(const Parser *p);
// Returns the position of a token.
Pos token_pos(const Parser *p, const Token *t);
// Gives the error "expected WHAT, found ..." at the next token. Always returns false.
bool parser_expected(Parser *p, const char *what);
// Takes a token of that kind, or gives the error "expected WHAT" and returns false.
bool parser_expect(Parser *p, TokenKind kind, const char *what);
// Takes a name, or gives an error and returns NULL.
const Token *parser_name(Parser *p, const char *what);
// Returns false after an error if the name has dots. Dotted names are full names, which scopes
// make.
bool parser_is_new(Parser *p, const Token *t);
// Takes the name of a new value, without dots, or gives an error and returns NULL.
const Token *parser_new_name(Parser *p, const char *what);
// Counts one level of nesting. Returns false after an error if there are too many levels. After
// true, call parser_leave.
bool parser_enter(Parser *p);
void parser_leave(Parser *p);

// Returns a new node without kids.
Ast *ast_new(Parser *p, AstKind kind, Pos pos);
// Lists of a node under construction.
typedef VEC(Ast *) Kids;
typedef VEC(AstArg) Args;
typedef VEC(AstDim) AstDims;
void ast_set_kids(Ast *t, const Kids *kids);
// Sets t->end to the last character taken. Returns t.
Ast *ast_end(Parser *p, Ast *t);

// -- parse_expr.c -------------------------------------------------------------------------------
// Parses an expression. Returns NULL after an error.
Ast *parse_expr(Parser *p);
// Parses `[b, h]` into t, starting at the bracket: dims, arrows, `all but`.
bool parse_dims(Parser *p, Ast *t);

// -- parse_stmt.c: what statements share --------------------------------------------------------
// Returns a new statement with the text and position of `name`: the name that it declares, or its
// keyword.
Ast *ast_statement(Parser *p, AstKind kind, const Token *name);
Ast *ast_with_kids(Parser *p, Ast *t, const Kids *kids); // sets the kids and the end of t
void ast_set_args(Ast *t, const Args *args);
// Parses statements up to `}` or the end of the file.
void parse_statements(Parser *p, Kids *out);
// Parse `{ statements }`, and `{ NAME = VALUE, ... }`, in which line ends, commas or both separate
// the entries.
Ast *parse_block(Parser *p);
bool parse_entries(Parser *p, Kids *kids);
// Parses `[b, h]` into t if it follows. Returns false after an error.
bool parse_optional_dims(Parser *p, Ast *t);
// Parses `: TYPE`. *out gets the type as a NAME, or NULL if there is none. Returns false after an
// error.
bool parse_type(Parser *p, Ast **out);
// Parses the left side of a statement: NAME[dims], with a type or without one.
Ast *parse_target(Parser *p);
// Parses `= EXPRESSION` and adds it to kids.
bool parse_value(Parser *p, Kids *kids);
// Parses one `NAME = VALUE` of a list of options and adds it to args.
bool parse_option_item(Parser *p, Args *args);
// Returns the token after a name with stars, such as `head.kernel` or `layer.*.wi`. If it is the
// next token, there is no such name here.
const Token *pattern_end(const Parser *p);
// Takes the tokens up to `end`. Returns their text as a NAME.
Ast *parse_pattern(Parser *p, const Token *end);

// -- parse_declare.c, parse_flow.c --------------------------------------------------------------
// Parses the rest of a statement whose keyword was taken.
typedef Ast *ParseStatement(Parser *p, const Token *keyword);
#define KEYWORD(word, parse) ParseStatement parse;
#include "frontend/syntax/token.def"
#undef KEYWORD
Ast *parse_bind(Parser *p);

#endif

// The parser's data, and the functions that the parse*.c files share. The *next token* is the first
// token that has not been parsed. To *take* it means to move past it.
#ifndef FRONTEND_PARSE_H
#define FRONTEND_PARSE_H

#include "frontend/syntax/ast.h"
#include "frontend/syntax/habits.h"
#include "frontend/syntax/lex.h"

enum { MAX_DEPTH = 400 }; // limit of nested expressions and blocks; parentheses count twice

// The state of the parser. A parse function that returns NULL or false has reported an error. Its
// callers then return NULL or false as well, until parse_statements resumes at the next statement.
typedef struct Parser {
  Arena *a;
  Intern *names;
  Diag *d;
  uint32_t source;
  const char *text;
  Token *token; // all tokens; the last one is EOF
  uint32_t at;  // index of the next token
  // index of the first token of the current statement or entry; a line end before that token does
  // not end the statement
  uint32_t start;
  // number of open parentheses and brackets around the next token; inside them line ends are
  // ignored
  int open;
  int depth;     // number of nested expressions and blocks around the next token
  bool for_head; // inside the range of a `for`, where `(` may start the options
} Parser;

// -- parse.c: tokens and nodes ------------------------------------------------------------------
// Returns a parser at the first token of text. *tokens gets the tokens; *tokens must live as long
// as the parser.
Parser parser_new(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text, size_t n,
                  Tokens *tokens);
// Parses all tokens. Always returns a FILE node; errors go to p->d.
Ast *parse_file(Parser *p);
// Marks the next token as the start of a statement or an entry, for `fmt` and for line ends.
void parser_start(Parser *p);
// Returns the next token without taking it.
Token *parser_peek(const Parser *p);
// Returns the token that is n tokens after the next one, or EOF, without taking it.
Token *parser_ahead(const Parser *p, uint32_t n);
// Takes the next token and returns it. At EOF it returns EOF and does not move.
Token *parser_take(Parser *p);
// Returns true if the next token has that kind.
bool parser_at(const Parser *p, TokenKind kind);
// Returns true if the next token is the name `word`.
bool parser_at_word(const Parser *p, const char *word);
// Takes the next token and returns true if it has that kind and is still part of the statement. A
// line end before the token may end the statement, except before `;` and `}`.
bool parser_accept(Parser *p, TokenKind kind);
// Returns true if a statement may end here: at a line end outside brackets, `;`, `}` or the end of
// the file.
bool parser_at_end(const Parser *p);
// Returns the position of a token.
Pos token_pos(const Parser *p, const Token *t);
// Reports the error "expected WHAT, found ..." at the next token, unless the lexer has reported
// that token. Always returns false.
bool parser_expected(Parser *p, const char *what);
// Takes a token of that kind, or gives the error "expected WHAT" and returns false.
bool parser_expect(Parser *p, TokenKind kind, const char *what);
// Takes a name, or gives an error and returns NULL.
const Token *parser_name(Parser *p, const char *what);
// Returns true if the name t may be the name of a new value. Reports an error if it has dots,
// because only scopes make dotted names.
bool parser_is_new(Parser *p, const Token *t);
// Takes the name of a new value, without dots, or gives an error and returns NULL.
const Token *parser_new_name(Parser *p, const char *what);
// Counts one level of nesting. Returns false after an error if there are too many levels. After
// true, call parser_leave.
bool parser_enter(Parser *p);
void parser_leave(Parser *p);

// Returns a new node without kids.
Ast *ast_new(Parser *p, AstKind kind, Pos pos);
// Appends `kid`, which may be NULL, to the kids of t. Returns false if it is NULL: for a required
// kid this means that its parse function has given an error.
bool ast_add(Parser *p, Ast *t, Ast *kid);
void ast_add_arg(Parser *p, Ast *t, AstArg arg);
void ast_add_dim(Parser *p, Ast *t, const Token *name, bool arrow);
// Sets t->end to the last character of the last token taken. Returns t.
Ast *ast_end(Parser *p, Ast *t);

// -- parse_expr.c -------------------------------------------------------------------------------
// Parses an expression. Returns NULL after an error.
Ast *parse_expr(Parser *p);
// Parses `[b, h]` into t, starting at the bracket: dims, arrows, `all but`.
bool parse_dims(Parser *p, Ast *t);

// -- parse_stmt.c: what statements share --------------------------------------------------------
// Returns a new statement node with the text and position of token `name`, which is the name that
// the statement declares or its keyword.
Ast *ast_statement(Parser *p, AstKind kind, const Token *name);
// Parses statements up to `}` or the end of the file and adds them to the kids of t.
void parse_statements(Parser *p, Ast *t);
// Parses `{ statements }`.
Ast *parse_block(Parser *p);
// Parses `{ NAME = VALUE, ... }` and adds the entries to the kids of t. Line ends, commas or both
// separate the entries. Returns false after an error.
bool parse_entries(Parser *p, Ast *t);
// Takes the next token if it is the name `word`. Otherwise reports an error, with the hint `hint`
// if that is not NULL, and returns false.
bool parse_word(Parser *p, const char *word, const char *hint);
// Parses one item of a list and adds it to t. Returns false after an error.
typedef bool ParseItem(Parser *p, Ast *t);
// Parses `(item, ...)` into t if it follows. With `loose` the list may be empty or end in a comma.
// Returns false after an error.
bool parse_list(Parser *p, Ast *t, ParseItem *item, bool loose);
// Parses `[b, h]` into t if it follows. Returns false after an error.
bool parse_optional_dims(Parser *p, Ast *t);
// Parses `: TYPE` if it follows. *out gets the type as a NAME, or NULL if there is none. Returns
// false after an error.
bool parse_type(Parser *p, Ast **out);
// Parses the left side of a statement: NAME[dims], with a type or without one.
Ast *parse_target(Parser *p);
// Parses `= EXPRESSION` and adds the expression to the kids of t. Returns false after an error.
bool parse_value(Parser *p, Ast *t);
// Parses the rest of `NAME = EXPRESSION`. `name` is the token of NAME, which has been taken; it is
// NULL after an error.
Ast *parse_named(Parser *p, AstKind kind, const Token *name);
// Parses one option `NAME = VALUE` of a parameter, a state, a `for` or a `scan` as an argument of
// t.
ParseItem parse_option_item;

// -- layout rules: parse_declare.c, shared with parse_option.c ----------------------------------
// Parses the scope of a layout rule, such as `head.kernel` or `layer.*.wi`, and the token of kind
// `end` after it. If the next tokens are not of this form, returns NULL and takes no token.
Ast *parse_scope(Parser *p, TokenKind end);
// Parses the dim of a layout rule. Returns a RULE without axes; NULL after an error, whose message
// describes the form of a rule by `form`.
Ast *parse_rule_dim(Parser *p, Ast *scope, bool soft, const char *form);
// Parses the name of an axis, or `none`, and adds it to the dims of rule t.
ParseItem parse_rule_axis;

// -- parse_declare.c, parse_flow.c --------------------------------------------------------------
// Parses the rest of a statement whose keyword was taken.
typedef Ast *ParseStatement(Parser *p, const Token *keyword);
#define KEYWORD(word, parse) ParseStatement parse;
#include "frontend/syntax/token.def"
#undef KEYWORD
Ast *parse_bind(Parser *p);

#endif

// Prints the tree as text, one node a line, with its children indented:
//
//   bind
//     target y [b, c]
//     call relu
//       binary          a chain of operators is one node here: x * w + bias
//         name x
//         * name w
//         + name bias
#include "frontend/syntax/ast.h"

#include <stdarg.h>
#include <string.h>

static const char *const kind_text[AST_COUNT] = {
#define AST(id, text) text,
#include "frontend/syntax/ast.def"
#undef AST
};

typedef struct Printer {
  Arena *a;
  VEC(char) out;
} Printer;

static void put(Printer *p, const char *text) {
  for (; *text; text++) vec_push(p->a, p->out) = *text;
}

static void put_quoted(Printer *p, const char *text) {
  put(p, "\"");
  for (; *text; text++) {
    char plain[2] = {*text, '\0'};
    put(p, *text == '"'    ? "\\\""
           : *text == '\\' ? "\\\\"
           : *text == '\n' ? "\\n"
           : *text == '\t' ? "\\t"
                           : plain);
  }
  put(p, "\"");
}

static void put_indent(Printer *p, int depth) {
  while (depth-- > 0) put(p, "  ");
}

static void put_dims(Printer *p, const Ast *t) {
  put(p, t->all_but ? " [all but " : " [");
  for (uint32_t i = 0; i < t->ndims; i++) {
    put(p, t->dims[i].arrow ? (i ? " -> " : "-> ") : i ? ", " : "");
    put(p, t->dims[i].name);
  }
  put(p, "]");
}

// Prints the rest of a node's line: its text, dims and flags.
static void put_details(Printer *p, const Ast *t) {
  if (t->kind == AST_STRING || t->kind == AST_IMPORT) {
    put(p, " ");
    put_quoted(p, t->text);
  } else if (t->text && t->kind != AST_BIND && t->kind != AST_METRIC && t->kind != AST_OUTPUT &&
             t->kind != AST_RANGE && t->kind != AST_DIM && t->kind != AST_CONST &&
             t->kind != AST_MESH && t->kind != AST_LAYOUT && t->kind != AST_RETURN &&
             t->kind != AST_TRAIN) {
    put(p, " ");
    put(p, t->text);
  }
  if (t->has_brackets || t->ndims) put_dims(p, t);
  if (t->kind == AST_SCAN && t->integer) put(p, " reverse");
  if (t->kind == AST_RULE && t->integer) put(p, " soft");
  if ((t->kind == AST_PARAM || t->kind == AST_STATE) && t->integer) put(p, " drawn");
}

static void print_node(Printer *p, const Ast *t, int depth, const char *prefix);

// Prints the operands of a chain of binary operators, left to right. A chain may be very long, so a
// loop follows its left operands and recursion is avoided.
static void print_chain(Printer *p, const Ast *t, int depth) {
  VEC(const Ast *) spine = {0};
  for (; t->kind == AST_BINARY; t = t->kids[0]) {
    vec_push(p->a, spine) = t;
    if (t->kids[0]->has_parens) {
      t = t->kids[0];
      break;
    }
  }
  print_node(p, t, depth, "");
  for (uint32_t i = spine.n; i-- > 0;)
    print_node(p, spine.at[i]->kids[1], depth, arena_printf(p->a, "%s ", spine.at[i]->text));
}

static void print_args(Printer *p, const Ast *t, int depth) {
  for (uint32_t i = 0; i < t->nargs; i++) {
    const AstArg *arg = &t->args[i];
    const char *name = arg->name ? arena_printf(p->a, "%s = ", arg->name) : "";
    const char *prefix = arg->arrow ? arena_printf(p->a, "-> %s", name) : name;
    if (arg->key) print_node(p, arg->key, depth, "key ");
    if (arg->value)
      print_node(p, arg->value, depth, prefix);
    else {
      put_indent(p, depth);
      put(p, arena_printf(p->a, "argument %s\n", arg->name));
    }
  }
}

static void print_node(Printer *p, const Ast *t, int depth, const char *prefix) {
  put_indent(p, depth);
  put(p, prefix);
  put(p, kind_text[t->kind]);
  if (t->kind == AST_BINARY) {
    put(p, "\n");
    print_chain(p, t, depth + 1);
    return;
  }
  put_details(p, t);
  put(p, "\n");
  for (uint32_t i = 0; i < t->nkids; i++)
    if (t->kids[i]) print_node(p, t->kids[i], depth + 1, "");
  print_args(p, t, depth + 1);
}

char *ast_print(Arena *a, const Ast *t) {
  Printer p = {.a = a};
  print_node(&p, t, 0, "");
  vec_push(a, p.out) = '\0';
  return p.out.at;
}

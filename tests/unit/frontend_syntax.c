// Tests the lexer, the parser, the tree print and the formatter: trees of texts, positions of
// errors, and that no text, truncated or corrupted, makes the parser crash.
#include "frontend/syntax/ast.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct Parsed {
  Arena *a;
  Intern *names;
  Diag *d;
  uint32_t source;
  Ast *tree;
} Parsed;

static Parsed open_text(const char *text, size_t n) {
  Parsed p = {.a = arena_new()};
  p.names = intern_new(p.a);
  p.d = diag_new(p.a);
  p.source = diag_source(p.d, "t.mesh", text, n);
  return p;
}

static Parsed parse_n(const char *text, size_t n) {
  Parsed p = open_text(text, n);
  p.tree = ast_parse(p.a, p.names, p.d, p.source, text, n);
  return p;
}

static Parsed parse(const char *text) { return parse_n(text, strlen(text)); }

static char *messages(Parsed *p) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  diag_print(p->d, f, false);
  fclose(f);
  char *kept = arena_text(p->a, text, n);
  free(text);
  return kept;
}

static void expect_tree(const char *text, const char *want) {
  Parsed p = parse(text);
  if (diag_errors(p.d)) fail_msg("%s: %s", text, messages(&p));
  assert_string_equal(ast_print(p.a, p.tree), want);
  arena_free(p.a);
}

// Checks that the first error is at "line:col" and contains the words.
static void expect_error(const char *text, const char *place, const char *words) {
  Parsed p = parse(text);
  const char *said = messages(&p);
  const char *want = arena_printf(p.a, "t.mesh:%s: error: ", place);
  if (!strstr(said, want) || !strstr(said, words))
    fail_msg("%s: wanted %s and '%s' in:\n%s", text, want, words, said);
  assert_int_equal(diag_exit(p.d), 3);
  arena_free(p.a);
}

static const char *const everything =
    "# Every construct of the language.\n"
    "import \"blocks.mesh\"\n"
    "dim b = 1_000, t = 128,\n"
    "  d = heads * k / 2 % 7\n"
    "const rate = 1e-3, weights = \"m \\\"x\\\" \\\\ \\n\\t.safetensors\"\n"
    "\n"
    "input x[b, d]; input ids[b, t]: i32\n"
    "input lr\n"
    "param w[d, h] ~ glorot(d -> heads, k)\n"
    "param table[v, d]: bf16 = file(\"v.npy\", \"layer.{layer}.w\"), trainable = false\n"
    "param gain = 0.5\n"
    "state m[h] = 0\n"
    "update m[h] = 0.9 * m + 0.1 * mean[b](x)\n"
    "state = tanh(x)\n"
    "output, in = f(x)\n"
    "dim[b] = x\n"
    "fn dense[in, out](x, bias = true) {  # dims in brackets\n"
    "  param kernel[in, out] ~ he(in)\n"
    "  dim s = t\n"
    "  return sum[in](x * kernel), x\n"
    "}\n"
    "fn swish(x, beta = 1) = x * sigmoid(beta * x)\n"
    "fn none() = 1\n"
    "p, q[b, h] = dense[d, h](x, name = \"head\")\n"
    "y[b] = -x ^ 2 ^ -3 + (a - b) * c / d % e - -f\n"
    "z = not a == b and c < d or not (e >= f)\n"
    "keep = sum[all but b, t](x) + index[t]\n"
    "s = split[d -> heads, k](merge[heads, k -> d](rename[t -> s, d -> e](x)))\n"
    "n = stack[-> n](a, b, values[c](0.485, 0.456,\n"
    "  0.406))\n"
    "c = sum[ky, kx](window[x -> ox, kx](img, stride = 2, pad = (1, 2)) * w) +\n"
    "  max[ky](window[y -> y, ky](img, pad = same))\n"
    "l = layout(x, b -> rows, d -> (cols, depth)) + layer.0.attention.wq\n"
    "for layer in 0..12 (checkpoint = true, name = \"decoder\") { x = block(x) }\n"
    "for i in 1..depth + 1 (name = \"e\") {\n"
    "  x = x; y = x\n"
    "\n"
    "\n"
    "  # a comment\n"
    "  yield x as xs[layers]\n"
    "}\n"
    "scan reverse t (h[b, k] = h0, c = 0, checkpoint = true) {\n"
    "  yield h as hs\n"
    "}\n"
    "scan t { yield x as ys }\n"
    "metric accuracy[b] = mean(argmax[c](l) == y)\n"
    "output probs = softmax[c](l)\n"
    "output hidden\n"
    "data train over b { x = csv(\"a.csv\", columns = 0..4), y = npy(\"y.npy\"), shuffle = true,\n"
    "  seed = 1 }\n"
    "train mean(loss) {\n"
    "  optimizer = adam(lr = 0.01)   # the usual\n"
    "  checkpoint = 1000, log = 10,\n"
    "  schedule = piecewise(1000: 1, 5000: 0.1)\n"
    "  groups = (\"head.*\": adam(lr = 1e-3), \"x\": sgd(1)), frozen = \"encoder.*\"\n"
    "  stop_early = accuracy(patience = 5, best = max)\n"
    "}\n"
    "mesh rows = 2, cols = 2\n"
    "layout b -> rows, h -> (cols, depth)\n"
    "layout optimizer: all -> rows\n"
    "layout head.kernel: classes -> cols, b -> none\n"
    "layout layer.*.moe.wi: e -> rows\n"
    "layout *.0.wi: e -> rows\n"
    "layout soft t -> cols, attention.s -> none\n";

static void test_trees(void **state) {
  (void)state;
  expect_tree(
      "y = -x ^ 2 ^ -3",
      "file\n  bind\n    target y\n    unary -\n      binary\n        name x\n        ^ binary\n"
      "          number 2\n          ^ unary -\n            number 3\n");
  expect_tree("y = a - b * c - d", "file\n  bind\n    target y\n    binary\n      name a\n      - "
                                   "binary\n        name b\n        * name c\n      - name d\n");
  expect_tree("y = a - (b - c)", "file\n  bind\n    target y\n    binary\n      name a\n      - "
                                 "binary\n        name b\n        - name c\n");
  expect_tree(
      "y = not a == b and c",
      "file\n  bind\n    target y\n    binary\n      unary not\n        binary\n          name a\n"
      "          == name b\n      and name c\n");
  expect_tree("s = stack[-> n](layout(x, b -> (rows, cols)), k = 1_0)",
              "file\n  bind\n    target s\n    call stack [-> n]\n      call layout\n        name "
              "x\n        name b\n        -> list\n"
              "          name rows\n          name cols\n      k = number 1_0\n");
  expect_tree("layout layer.*.0.wi: e -> rows, soft t -> (a, b)",
              "file\n  layout\n    rule e [rows]\n      name layer.*.0.wi\n    rule t [a, b] "
              "soft\n      name layer.*.0.wi\n");
  expect_tree("for i in 0..d (name = \"a\") { x = x }",
              "file\n  for i\n    range\n      number 0\n      name d\n    block\n      bind\n     "
              "   target x\n        name x\n    name = string \"a\"\n");
  expect_tree("scan reverse t (h[b] = 0, checkpoint = true) { h = h }",
              "file\n  scan t reverse\n    block\n      bind\n        target h\n        name h\n   "
              " bind\n      target h [b]\n      number 0\n"
              "    checkpoint = name true\n");
  expect_tree("state = x\nparam state ~ normal(), trainable = false\n",
              "file\n  bind\n    target state\n    name x\n  param state drawn\n    call normal\n  "
              "  trainable = name false\n");
  expect_tree("train l {\n groups = (\"a\": f(), \"b\": 2)\n}\n",
              "file\n  train\n    name l\n    entry groups\n      list\n        key string \"a\"\n "
              "       call f\n        key string \"b\"\n        number 2\n");
  expect_tree("x = 1\r\ny = inf\r\n",
              "file\n  bind\n    target x\n    number 1\n  bind\n    target y\n    number inf\n");
}

static void test_everything(void **state) {
  (void)state;
  Parsed p = parse(everything);
  if (diag_errors(p.d)) fail_msg("%s", messages(&p));
  assert_int_equal(p.tree->nkids, 41);
  arena_free(p.a);
}

static void test_errors(void **state) {
  (void)state;
  expect_error("a < b", "1:3", "expected '='");
  expect_error("x = a < b < c", "1:11", "E0107");
  expect_error("x = (a == b", "1:12", "expected ',' or ')'");
  expect_error("x = a\n  + b\n", "2:3", "at the end of the line before");
  expect_error("\xC3\xA4 = 1", "1:1", "'\xC3\xA4' is not a name");
  expect_error("s = \"\xC3\xA4\xC3\xB6\" ? 2", "1:10", "E0101");
  expect_error("x = 1 \xFF", "1:7", "E0102");
  expect_error("x = \xC0\xAF", "1:5", "E0102");
  expect_error("# \xED\xA0\x80", "1:3", "E0102");
  expect_error("x = 1__0", "1:5", "E0103");
  expect_error("x = 12ab", "1:5", "E0103");
  expect_error("x = .5", "1:5", "write 0.5");
  expect_error("x = 1e999", "1:5", "too large");
  expect_error("x = \"abc", "1:5", "E0104");
  expect_error("x = \"a\\q\"", "1:7", "E0104");
  expect_error("inptu x[b]", "1:1", "did you mean input");
  expect_error("x =\n", "1:4", "expected an expression");
  expect_error("return\n", "1:7", "found the end of the line");
  expect_error("fn f[(x) {\n  y = 1\n  return y\n}\nz = \n", "1:6", "expected the name of a dim");
  expect_error("for i in 3 { x = x }", "1:10", "runs over a range");
  expect_error("for i in 0..3\n{ x = x }", "1:14", "expected '{'");
  expect_error("x = a ** b", "1:8", "x ^ 2");
  expect_error("x = a = b", "1:7", "expected the end of the statement, found '='");
  expect_error("data train { x = 1 }", "1:12", "expected 'over'");
  expect_error("}", "1:1", "found '}'");
  expect_error("fn f() {\n", "1:9", "expected '}'");
  expect_error("x = ()", "1:5", "these parentheses are empty");
  expect_error("x = \xE2\x88\x92"
               "1",
               "1:5", "write - for minus");
}

// Each bad line gives one error, and the good lines between them are parsed.
static void test_recovery(void **state) {
  (void)state;
  Parsed p = parse("x = (1\ny = 2\nz = + 3\nfn f(x { a = ; }\nw = 4\nv = 1 2\nu = 5\n");
  assert_int_equal(diag_errors(p.d), 4);
  uint32_t binds = 0;
  for (uint32_t i = 0; i < p.tree->nkids; i++) binds += p.tree->kids[i]->kind == AST_BIND;
  assert_true(binds >= 3);
  arena_free(p.a);
}

static void test_nul(void **state) {
  (void)state;
  Parsed p = parse_n("x = 1\0y", 7);
  assert_non_null(strstr(messages(&p), "t.mesh:1:6: error: the text contains a NUL byte"));
  arena_free(p.a);
  p = parse_n("\xFF\xFEx\0=\0001\0", 8);
  assert_non_null(strstr(messages(&p), "t.mesh:1:1: error: the file is UTF-16, not UTF-8 [E0102]"));
  assert_int_equal(diag_errors(p.d), 1);
  arena_free(p.a);
}

static char *repeat(const char *head, const char *part, int n, const char *tail) {
  size_t one = strlen(part);
  char *out = malloc(strlen(head) + one * (size_t)n + strlen(tail) + 1), *at = out + strlen(head);
  strcpy(out, head);
  for (int i = 0; i < n; i++, at += one) memcpy(at, part, one + 1);
  strcpy(at, tail);
  return out;
}

static void expect_too_deep(char *text) {
  Parsed p = parse(text);
  if (!strstr(messages(&p), "E0106")) fail_msg("%.40s...: not too deep", text);
  assert_int_equal(diag_exit(p.d), 3);
  arena_free(p.a);
  free(text);
}

static void test_deep(void **state) {
  (void)state;
  expect_too_deep(repeat("x = ", "(", 100000, ""));
  expect_too_deep(repeat("x = ", "f(", 100000, "1"));
  expect_too_deep(repeat("x = ", "- ", 100000, "1"));
  expect_too_deep(repeat("x = ", "not ", 100000, "1"));
  expect_too_deep(repeat("x = ", "2 ^ ", 100000, "1"));
  expect_too_deep(repeat("", "fn f() {\n", 100000, "x = 1\n"));
  expect_too_deep(repeat("x = f", "(a = ", 100000, "1"));
}

static void test_long(void **state) {
  (void)state;
  char *text = repeat("x = a", " + a * b", 20000, "\n");
  Parsed p = parse(text);
  assert_int_equal(diag_errors(p.d), 0);
  assert_true(strlen(ast_print(p.a, p.tree)) > 20000);
  assert_string_equal(ast_format(p.a, p.names, p.d, p.source, text, strlen(text)), text);
  arena_free(p.a);
  free(text);
}

static uint32_t noise;
static uint32_t next_noise(void) { return noise = noise * 1664525u + 1013904223u; }

// Formats a text that can be parsed: the tree must stay the same, and formatting again must change
// nothing. Returns true if the text can be parsed.
static bool survive(const char *text, size_t n) {
  Parsed p = parse_n(text, n);
  bool good = diag_errors(p.d) == 0;
  char *formatted = ast_format(p.a, p.names, p.d, p.source, text, n),
       *tree = ast_print(p.a, p.tree);
  assert_true(!good || formatted);
  if (good) {
    char *again = ast_format(p.a, p.names, p.d, p.source, formatted, strlen(formatted));
    Ast *after = ast_parse(p.a, p.names, p.d, p.source, formatted, strlen(formatted));
    assert_non_null(again);
    if (strcmp(again, formatted))
      fail_msg("of:\n%.*s\nonce:\n%s\ntwice:\n%s", (int)n, text, formatted, again);
    assert_string_equal(ast_print(p.a, after), tree);
  }
  arena_free(p.a);
  return good;
}

static void test_truncated(void **state) {
  (void)state;
  for (size_t n = 0; n <= strlen(everything); n++) {
    char *text = malloc(n + 1); // exact size, so that the sanitizer finds a read beyond it
    memcpy(text, everything, n);
    survive(text, n);
    free(text);
  }
}

static void test_flipped(void **state) {
  (void)state;
  noise = 7;
  size_t n = strlen(everything);
  char *text = malloc(n);
  for (int i = 0; i < 3000; i++) {
    memcpy(text, everything, n);
    for (uint32_t k = next_noise() >> 29; k < 8; k++)
      text[(next_noise() >> 8) % n] = (char)(next_noise() >> 24);
    survive(text, n);
  }
  free(text);
}

// Inserts blanks, line ends, semicolons and comments at random places of a model.
static void test_format_anything(void **state) {
  (void)state;
  static const char *const insert[] = {
      "\n",    "\n\n", ";",     " ",        "\t",        "# c\n",           ";# d\n",
      "\n# e", "\r\n", ";;\n;", "\n# h\n;", "\n;# i\n;", " # f \n\n\n# g\n"};
  int good = 0;
  noise = 3;
  size_t n = strlen(everything);
  for (int i = 0; i < 2000; i++) {
    char *text = malloc(n + 100), *to = text;
    size_t from = 0;
    for (uint32_t k = 1 + (next_noise() >> 30); k > 0; k--) {
      size_t at = from + (next_noise() >> 8) % (n - from); // after the previous insertion
      while (at < n && !strchr(" \n,{}()[]", everything[at])) at++;
      memcpy(to, everything + from, at - from);
      to += at - from;
      from = at;
      const char *piece = insert[(next_noise() >> 8) % countof(insert)];
      memcpy(to, piece, strlen(piece));
      to += strlen(piece);
    }
    memcpy(to, everything + from, n - from);
    good += survive(text, (size_t)(to - text) + n - from);
    free(text);
  }
  assert_true(good > 300);
}

static void test_random_bytes(void **state) {
  (void)state;
  noise = 1;
  size_t n = 1000000;
  char *text = malloc(n);
  for (size_t i = 0; i < n; i++) text[i] = (char)(next_noise() >> 24);
  survive(text, n);
  const char *const alphabet = "x=()[]{},;:~-+*/%^.#\n \"0123abin<>!orand";
  for (size_t i = 0; i < n; i++) text[i] = alphabet[(next_noise() >> 16) % strlen(alphabet)];
  survive(text, n);
  free(text);
}

static void expect_format(const char *text, const char *want) {
  Parsed p = open_text(text, strlen(text));
  char *got = ast_format(p.a, p.names, p.d, p.source, text, strlen(text));
  if (!got) fail_msg("%s: %s", text, messages(&p));
  assert_string_equal(got, want);
  char *again = ast_format(p.a, p.names, p.d, p.source, got, strlen(got));
  assert_non_null(again);
  assert_string_equal(again, got);
  Ast *before = ast_parse(p.a, p.names, p.d, p.source, text, strlen(text));
  Ast *after = ast_parse(p.a, p.names, p.d, p.source, got, strlen(got));
  assert_string_equal(ast_print(p.a, before), ast_print(p.a, after));
  arena_free(p.a);
}

static void test_format(void **state) {
  (void)state;
  expect_format("", "");
  expect_format("x=f( a,b )\n", "x = f(a, b)\n");
  expect_format("x=- x  ^-2;y  =  (a- b)*c\n\n\n\nz=sum [ d ] (x)#c  ",
                "x = -x ^ -2\ny = (a - b) * c\n\nz = sum[d](x)  #c\n");
}

static void test_format_blocks(void **state) {
  (void)state;
  expect_format("for i in 0 .. 3 ( name=\"a\" ) {\n# first\n\nx = x ;y = x }",
                "for i in 0..3 (name = \"a\") {\n  # first\n\n  x = x\n  y = x\n}\n");
  expect_format("for i in 0..3{x=x;y=x;}", "for i in 0..3 { x = x; y = x }\n");
  expect_format("x = a+\nb*f(c,\nd\n)\n", "x = a +\n  b * f(c,\n  d\n)\n");
  expect_format("train l { a=1,b = 2\n\n\n c = ( \"x\" :f( ) )  # why\n  }",
                "train l {\n  a = 1, b = 2\n\n  c = (\"x\": f())  # why\n}\n");
  expect_format("layout layer.*.wi : e->rows ,soft t-> ( a,b)",
                "layout layer.*.wi: e -> rows, soft t -> (a, b)\n");
  expect_format("param w[ d ] :bf16~he( d )\nfn f [ a ] ( x , y=1 )=x",
                "param w[d]: bf16 ~ he(d)\nfn f[a](x, y = 1) = x\n");
}

static void test_format_everything(void **state) {
  (void)state;
  Parsed p = open_text(everything, strlen(everything));
  char *got = ast_format(p.a, p.names, p.d, p.source, everything, strlen(everything));
  assert_non_null(got);
  expect_format(everything, got);
  arena_free(p.a);
}

static void test_options(void **state) {
  (void)state;
  Parsed p = open_text("", 0);
  const char *mesh = "rows:2; cols = 4";
  assert_string_equal(
      ast_print(p.a, ast_parse_mesh(p.a, p.names, p.d, p.source, mesh, strlen(mesh))),
      "mesh\n  define rows\n    number 2\n  define cols\n    number 4\n");
  const char *layout = "b=rows+cols,optimizer/all=rows,layer.*.wi/e:cols;soft/t=cols,d=none";
  assert_string_equal(
      ast_print(p.a, ast_parse_layout(p.a, p.names, p.d, p.source, layout, strlen(layout))),
      "layout\n  rule b [rows, cols]\n  rule all [rows]\n    name optimizer\n  rule e [cols]\n    "
      "name layer.*.wi\n"
      "  rule t [cols] soft\n  rule d [none]\n");
  const char *value = "sgd(lr = 0.1)";
  assert_string_equal(
      ast_print(p.a, ast_parse_expression(p.a, p.names, p.d, p.source, value, strlen(value))),
      "call sgd\n  lr = number 0.1\n");
  assert_int_equal(diag_errors(p.d), 0);
  ast_parse_layout(p.a, p.names, p.d, p.source, "b=", 2);
  assert_int_equal(diag_errors(p.d), 1);
  ast_parse_mesh(p.a, p.names, p.d, p.source, "rows", 4);
  assert_int_equal(diag_errors(p.d), 2);
  arena_free(p.a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_trees),         cmocka_unit_test(test_everything),
      cmocka_unit_test(test_errors),        cmocka_unit_test(test_recovery),
      cmocka_unit_test(test_nul),           cmocka_unit_test(test_deep),
      cmocka_unit_test(test_long),          cmocka_unit_test(test_truncated),
      cmocka_unit_test(test_flipped),       cmocka_unit_test(test_format_anything),
      cmocka_unit_test(test_random_bytes),  cmocka_unit_test(test_format),
      cmocka_unit_test(test_format_blocks), cmocka_unit_test(test_format_everything),
      cmocka_unit_test(test_options),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Generates op cases: rows of dim patterns, expanded over types and kinds of inputs.
#include "tests/suite/common/op_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/philox.h"

// Dims are letters. Their sizes are small, different and mostly not divisible.
static const struct {
  char name;
  int64_t size;
} dim_rows[] = {{'a', 3},  {'b', 5}, {'c', 17}, {'d', 4}, {'e', 3},
                {'p', 12}, {'v', 7}, {'f', 3},  {'s', 8}};

// A row of dim patterns. An argument is a string of dim letters; "@ab": ids below size(v); "?ab":
// bool; "=2": a constant; NULL: none. "~a,b,c,d;f" is no argument but the relation of a window,
// with its fill. Marks after the dims of an ordered op: "<" reverse, "|" exclusive, ">" descending;
// of a triangular matrix: "|" upper.
typedef struct Row {
  const char *arg[3], *dims, *to;
  int type; // 1 + attr.type, 0: the arguments' type
} Row;

// clang-format off
static const Row unary[] = {{{"ab"}, 0, 0, 0}, {{"bc"}, 0, 0, 0}, {{""}, 0, 0, 0}};
static const Row binary[] = {
    {{"ab", "ab"}, 0, 0, 0}, {{"abc", "b"}, 0, 0, 0}, {{"a", "bc"}, 0, 0, 0}, {{"bc", ""}, 0, 0, 0}};
static const Row clip_rows[] = {{{"ab", "", ""}, 0, 0, 0}, {{"bc", "b", "ab"}, 0, 0, 0}};
static const Row where_rows[] = {
    {{"?ab", "ab", "ab"}, 0, 0, 0}, {{"?b", "ab", ""}, 0, 0, 0}, {{"?ab", "a", "c"}, 0, 0, 0}};
static const Row pow_rows[] = {{{"ab", "ab"}, 0, 0, 0}, {{"bc", "b"}, 0, 0, 0}, {{"bc", "=0"}, 0, 0, 0},
                               {{"bc", "=1"}, 0, 0, 0}, {{"bc", "=2"}, 0, 0, 0}, {{"bc", "=3"}, 0, 0, 0},
                               {{"bc", "=4"}, 0, 0, 0}, {{"bc", "=0.5"}, 0, 0, 0}, {{"bc", "=-1"}, 0, 0, 0},
                               {{"bc", "=-0.5"}, 0, 0, 0}, {{"bc", "=1.7"}, 0, 0, 0}};
static const Row cast_rows[] = {{{"bc"}, 0, 0, 1 + TYPE_F32}, {{"bc"}, 0, 0, 1 + TYPE_BF16},
                                {{"bc"}, 0, 0, 1 + TYPE_F16}, {{"bc"}, 0, 0, 1 + TYPE_F64},
                                {{"bc"}, 0, 0, 1 + TYPE_I32}, {{"bc"}, 0, 0, 1 + TYPE_U8},
                                {{"bc"}, 0, 0, 1 + TYPE_BOOL}};
static const Row bound_rows[] = {{{"@ab"}, "v", 0, 0}};
static const Row key_rows[] = {{{"ab"}, 0, 0, 0}, {{"bc"}, 0, 0, 0}};
static const Row reduce_rows[] = {{{"abc"}, "b", 0, 0}, {{"abc"}, "c", 0, 0}, {{"abc"}, "ac", 0, 0},
                                  {{"bc"}, "bc", 0, 0}, {{"c"}, "c", 0, 0}, {{"ab"}, "a", 0, 0}};
static const Row arg_rows[] = {{{"abc"}, "b", 0, 0}, {{"bc"}, "c", 0, 0}, {{"bc"}, "b", 0, 0}, {{"c"}, "c", 0, 0},
                               {{"abc"}, "cb", "b", 0}, {{"abc"}, "ca", "c", 0}, {{"ab"}, "ab", "b", 0}, {{"abc"}, "bca", "c", 0}};
static const Row contract_rows[] = {
    {{"ab", "bc"}, "b", 0, 0},   {{"cb", "ab"}, "b", 0, 0},   {{"abc", "abd"}, "b", 0, 0}, {{"abc", "bcd"}, "bc", 0, 0},
    {{"bc", "bc"}, "bc", 0, 0},  {{"bc", "c"}, "c", 0, 0},    {{"abc", "ad"}, "c", 0, 0},  {{"ab", "cd"}, "", 0, 0},
    {{"abc", "cv"}, "c", 0, 0},  {{"abcd", "acv"}, "cd", 0, 0}, {{"ab", "ab"}, "a", 0, 0}, {{"c", "c"}, "c", 0, 0},
    {{"bc", "cd"}, "c", 0, 1 + TYPE_F32}};
static const Row broadcast_rows[] = {{{"a"}, "bc", 0, 0}, {{"b"}, "a", 0, 0}, {{""}, "ab", 0, 0}, {{"ac"}, "b", 0, 0}};
static const Row rename_rows[] = {{{"ab"}, "a", "e", 0}, {{"be"}, "e", "a", 0}, {{"aeb"}, "ae", "ea", 0}};
static const Row split_rows[] = {{{"p"}, "p", "da", 0}, {{"bp"}, "p", "ad", 0}, {{"pv"}, "p", "de", 0}};
static const Row merge_rows[] = {{{"da"}, "da", "p", 0}, {{"abd"}, "ad", "p", 0}, {{"adb"}, "da", "p", 0}};
static const Row take_rows[] = {{{"vb", "@a"}, "v", 0, 0}, {{"avb", "@ac"}, "v", 0, 0}, {{"v", "@ab"}, "v", 0, 0},
                                {{"vb", "@"}, "v", 0, 0}, {{"abv", "@ab"}, "v", 0, 0}};
static const Row scatter_rows[] = {{{"cb", "@c"}, "c", "v", 0}, {{"abc", "@ab"}, "b", "v", 0}, {{"b", "@cb"}, "cb", "v", 0},
                                   {{"ab", "@"}, "", "v", 0}, {{"c", "@c"}, "c", "v", 0}};
static const Row cumsum_rows[] = {{{"abc"}, "b", 0, 0}, {{"bc"}, "c|", 0, 0}, {{"abc"}, "a<", 0, 0}, {{"c"}, "c<|", 0, 0}};
static const Row cummax_rows[] = {{{"abc"}, "b", 0, 0}, {{"bc"}, "c", 0, 0}, {{"ab"}, "a<", 0, 0}, {{"c"}, "c", 0, 0}};
static const Row argsort_rows[] = {{{"abc"}, "b", 0, 0}, {{"bc"}, "c", 0, 0}, {{"bc"}, "b>", 0, 0}, {{"c"}, "c>", 0, 0}};
static const Row top_k_rows[] = {{{"abc"}, "b", "d", 0}, {{"bc"}, "c", "a", 0}, {{"ac"}, "c", "d", 0}, {{"c"}, "c", "p", 0}};
// Rows, then columns, of the matrix in argument 1, whose diagonal gets 16 more.
static const Row square_rows[] = {{{"bae"}, "ae", 0, 0}, {{"ae"}, "ea", 0, 0}, {{"aed"}, "ae", 0, 0}};
static const Row system_rows[] = {{{"bae", "bad"}, "ae", 0, 0}, {{"bae", "a"}, "ae", 0, 0}, {{"ae", "cab"}, "ae", 0, 0},
                                  {{"bea", "eb"}, "ea", 0, 0}};
static const Row qr_rows[] = {{{"bda"}, "da", "vf", 0}, {{"da"}, "da", "ve", 0}};
static const Row eigh_rows[] = {{{"bae"}, "ae", "df", 0}, {{"ea"}, "ea", "df", 0}};
static const Row svd_rows[] = {{{"bda"}, "da", "se", 0}, {{"ad"}, "ad", "sf", 0}, {{"bae"}, "ae", "vf", 0}};
static const Row triangular_rows[] = {{{"bae", "bad"}, "ae", 0, 0}, {{"ea", "bec"}, "ea|", 0, 0}};
static const Row window_rows[] = {
    {{"bc", "~2,1,-1,1"}, "c", "pe", 0},    {{"cb", "~1,3,-4,1;3"}, "c", "vd", 0},  {{"ac", "~1,1,0,1"}, "c", "ba", 0},
    {{"c", "~3,-2,1,1"}, "c", "bd", 0},     {{"acb", "~-2,1,20,1;-1"}, "c", "pe", 0}, {{"ec", "~1,-1,2,1"}, "c", "pe", 0},
    {{"pe", "~1,-1,1,2"}, "p", "ce", 0},    {{"bpe", "~1,-2,3,3"}, "p", "ce", 0},   {{"pb", "~2,-1,1,3;2"}, "p", "cd", 0},
    {{"ep", "~-1,2,9,2;1"}, "p", "ve", 0},  {{"cb", "~-1,0,16,1"}, "c", "c", 0},    {{"bc", "~1,0,-2,1;1"}, "c", "c", 0},
    {{"bc", "~3,0,2,1"}, "c", "d", 0},      {{"ba", "~1,0,-1,1;4"}, "b", "c", 0},   {{"ap", "~1,0,0,3"}, "p", "c", 0},
    {{"bc", "~2,0,-6,1;8"}, "c", "c", 0}, {{"bc", "~0,0,4,1"}, "c", "", 0},      {{"c", "~0,0,16,1"}, "c", "", 0},
    {{"ac", "~0,0,40,1;2"}, "c", "", 0},    {{"ab", "~1,0,90,1"}, "b", "v", 0}};
static const Row window_at_rows[] = {
    {{"bc", "@", "~1,0,3,1"}, "c", "d", 0},   {{"cb", "@", "~-2,0,12,1;1"}, "c", "p", 0}, {{"bc", "@", "~0,0,2,1"}, "c", "", 0},
    {{"bc", "@", "~2,1,-3,1"}, "c", "ve", 0}, {{"pe", "@", "~1,-1,0,2"}, "p", "ce", 0},   {{"c", "@", "~0,0,0,1;3"}, "c", "", 0}};
static const Row pin_rows[] = {{{"ab"}, "a", 0, 0}, {{"bc"}, "", 0, 0}, {{"c"}, "c", 0, 0}};
// a loop over the dim: what each step reads, and the initial value of the carry
static const Row loop_rows[] = {{{"bc", "c"}, "b", 0, 0}, {{"abd", "ad"}, "b<", 0, 0}, {{"c", ""}, "c", 0, 0}};
static const Row decl_rows[] = {{{0}, "ab", 0, 0}, {{0}, "", 0, 0}};
static const Row scalar_rows[] = {{{0}, "", 0, 0}};
static const Row index_rows[] = {{{0}, "b", 0, 0}, {{0}, "c", 0, 0}};
static const Row values_rows[] = {{{0}, "bc", 0, 0}, {{0}, "cb", 0, 0}, {{0}, "", 0, 0}};
// clang-format on

typedef struct Rows {
  const Row *at;
  int n;
} Rows;
#define ROWS(r) ((Rows){r, (int)countof(r)})

// Returns the rows of an op. Ops without rows of their own use those of their class and number of
// arguments.
static Rows rows_of(Op op) {
  // clang-format off
  static const struct {
    Op op;
    const Row *at;
    int n;
  } own[] = {{OP_CLIP, clip_rows, countof(clip_rows)},          {OP_WHERE, where_rows, countof(where_rows)},
             {OP_POW, pow_rows, countof(pow_rows)},             {OP_CAST, cast_rows, countof(cast_rows)},
             {OP_BOUND, bound_rows, countof(bound_rows)},       {OP_ARG_KEY, key_rows, countof(key_rows)},
             {OP_KEY_INDEX, key_rows, countof(key_rows)},       {OP_ARGMAX, arg_rows, countof(arg_rows)},
             {OP_ARGMIN, arg_rows, countof(arg_rows)},          {OP_CONTRACT, contract_rows, countof(contract_rows)},
             {OP_BROADCAST, broadcast_rows, countof(broadcast_rows)}, {OP_RENAME, rename_rows, countof(rename_rows)},
             {OP_SPLIT, split_rows, countof(split_rows)},       {OP_MERGE, merge_rows, countof(merge_rows)},
             {OP_TAKE, take_rows, countof(take_rows)},          {OP_SCATTER_ADD, scatter_rows, countof(scatter_rows)},
             {OP_WINDOW, window_rows, countof(window_rows)},    {OP_WINDOW_AT, window_at_rows, countof(window_at_rows)},
             {OP_INPUT, decl_rows, countof(decl_rows)},         {OP_PARAM, decl_rows, countof(decl_rows)},
             {OP_STATE, decl_rows, countof(decl_rows)},         {OP_CONST, scalar_rows, countof(scalar_rows)},
             {OP_STEP, scalar_rows, countof(scalar_rows)},      {OP_VALUES, values_rows, countof(values_rows)},
             {OP_INDEX, index_rows, countof(index_rows)},       {OP_CUMSUM, cumsum_rows, countof(cumsum_rows)},
             {OP_CUMPROD, cumsum_rows, countof(cumsum_rows)},
             {OP_CUMMAX, cummax_rows, countof(cummax_rows)},    {OP_CUM_INDEX, cummax_rows, countof(cummax_rows)},
             {OP_ARGSORT, argsort_rows, countof(argsort_rows)}, {OP_TOP_K, top_k_rows, countof(top_k_rows)},
             {OP_TRIANGULAR_SOLVE, triangular_rows, countof(triangular_rows)},
             {OP_SOLVE, system_rows, countof(system_rows)},     {OP_QR, qr_rows, countof(qr_rows)},
             {OP_EIGH, eigh_rows, countof(eigh_rows)},          {OP_SVD, svd_rows, countof(svd_rows)},
             {OP_PIN, pin_rows, countof(pin_rows)},             {OP_CARRY, loop_rows, countof(loop_rows)},
             {OP_AT, loop_rows, countof(loop_rows)},            {OP_SCAN, loop_rows, 1},
             {OP_FINAL, loop_rows, countof(loop_rows)},         {OP_COLLECT, loop_rows, countof(loop_rows)},
             {OP_RANDOM_UNIFORM, values_rows, countof(values_rows)},
             {OP_RANDOM_NORMAL, values_rows, countof(values_rows)}};
  // clang-format on
  for (size_t i = 0; i < countof(own); i++)
    if (own[i].op == op) return (Rows){own[i].at, own[i].n};
  const OpRow *row = op_row(op);
  if (row->cls == POINTWISE) return row->nargs == 1 ? ROWS(unary) : ROWS(binary);
  if (row->cls == REDUCE) return ROWS(reduce_rows);
  if (row->cls == MATRIX) return ROWS(square_rows);
  return (Rows){NULL, 0}; // selection folds `training`; a whole graph has no collectives
}

// -- which types a row of the op table takes ----------------------------------------------------
//
// From the infer rule of an op, written independently of ir/graph/infer.c. f: f32, h: bf16 and f16,
// d: f64, i: i32, u: u8, b: bool.
#define ANY_TYPE "fhdiub"
#define NUMBERS "fhdiu"
static const struct {
  const char *rule, *types;
} takes_rows[] = {{"decl", ANY_TYPE},      {"values", ANY_TYPE},  {"typed", ANY_TYPE},
                  {"index", "i"},          {"step", "i"},         {"training", ""},
                  {"random", "f"},         {"same", NUMBERS},     {"flt", "fhd"},
                  {"boolean", "b"},        {"join", NUMBERS},     {"compare", ANY_TYPE},
                  {"join_any", ANY_TYPE},  {"any", ANY_TYPE},     {"bits", "i"},
                  {"bound", "i"},          {"where", ANY_TYPE},   {"arg_key", "fhiub"},
                  {"key_index", "fhiub"},  {"sum", ANY_TYPE},     {"mean", ANY_TYPE},
                  {"arg", ANY_TYPE},       {"contract", NUMBERS}, {"broadcast", ANY_TYPE},
                  {"rename", ANY_TYPE},    {"split", ANY_TYPE},   {"merge", ANY_TYPE},
                  {"take", ANY_TYPE},      {"scatter", NUMBERS},  {"window", ANY_TYPE},
                  {"window_at", ANY_TYPE}, {"ordered", NUMBERS},  {"order_index", NUMBERS},
                  {"top_k", NUMBERS},      {"matrix", "fd"},      {"carry", ANY_TYPE},
                  {"at", ANY_TYPE},        {"scan", ANY_TYPE},    {"final", ANY_TYPE},
                  {"collect", ANY_TYPE},   {"pin", ANY_TYPE},     {"all_reduce", ""},
                  {"reblock", ""}};

static const char *takes_text(Op op) {
  static const char *const rule[OP_COUNT] = {
#define OP(id, text, args, cls, flags, attrs, linear, monoid, rows, memory, cost, infer, eval,     \
           grad, emit)                                                                             \
  [OP_##id] = #infer,
#include "ir/graph/ops.def"
  };
  if (op_row(op)->cls == COLLECTIVE) return "";
  for (size_t i = 0; i < countof(takes_rows); i++)
    if (!strcmp(takes_rows[i].rule, rule[op])) return takes_rows[i].types;
  BUG("nothing says which types %s takes", op_row(op)->text);
}

static const Dtype types[] = {TYPE_F32, TYPE_BF16, TYPE_F16, TYPE_F64,
                              TYPE_I32, TYPE_U8,   TYPE_BOOL};

bool op_takes(Op op, Dtype t) {
  const char letter[] = {[TYPE_F32] = 'f', [TYPE_BF16] = 'h', [TYPE_F16] = 'h', [TYPE_F64] = 'd',
                         [TYPE_I32] = 'i', [TYPE_U8] = 'u',   [TYPE_BOOL] = 'b'};
  return t < countof(letter) && strchr(takes_text(op), letter[t]);
}

// -- the list of cases --------------------------------------------------------------------------

typedef struct Choice {
  Op op;
  const Row *row;
  Dtype type;
  OpInputs inputs;
} Choice;

// Returns true if a combination is a case. Integers are drawn in one way only, special numbers make
// mod jump everywhere, and random draws take no numbers.
static bool is_case(const Choice *c) {
  if (!op_takes(c->op, c->type)) return false;
  if (c->row->type && c->op == OP_CONTRACT && dtype_bytes(c->type) != 2)
    return false; // result wider than the arguments
  if (c->inputs == INPUTS_SPECIAL && (c->op == OP_MOD || c->op == OP_FLOOR_DIV)) return false;
  bool draw = op_is_draw(c->op);
  return c->inputs == INPUTS_SMOOTH || (dtype_is_float(c->type) && !draw);
}

enum { MAX_CASES = 1 << 14 };
static Choice cases[MAX_CASES];

static void cases_of(Op op, int *n) {
  Rows rows = rows_of(op);
  for (int r = 0; r < rows.n; r++)
    for (size_t t = 0; t < countof(types); t++)
      for (int k = 0; k < INPUTS_KINDS; k++) {
        Choice c = {op, &rows.at[r], types[t], (OpInputs)k};
        if (*n == MAX_CASES) BUG("more than %d cases", MAX_CASES);
        if (is_case(&c)) cases[(*n)++] = c;
      }
}

int op_case_count(void) {
  static int n;
  if (n == 0)
    for (int op = 0; op < OP_COUNT; op++) cases_of((Op)op, &n);
  return n;
}

// -- inputs -------------------------------------------------------------------------------------

// splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014)
static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

typedef struct Range {
  double low, high;
  bool both_signs; // low..high in magnitude
} Range;

// Returns a range of arguments in which the op is defined and not too steep.
static Range smooth_range(Op op, int arg) {
  switch ((int)op) {
  case OP_LOG:
  case OP_SQRT:
  case OP_RSQRT: return (Range){0.1, 4, false};
  case OP_LOG1P: return (Range){-0.9, 3, false};
  case OP_POW: return arg == 0 ? (Range){0.1, 3, false} : (Range){-2, 2, false};
  case OP_RECIPROCAL: return (Range){0.5, 3, true};
  case OP_DIV:
  case OP_MOD:
  case OP_FLOOR_DIV: return arg == 0 ? (Range){-9, 9, false} : (Range){0.7, 3, true};
  case OP_CUMPROD:
  case OP_PROD: return (Range){0.6, 1.6, true};
  case OP_FLOOR:
  case OP_CEIL:
  case OP_TRUNC:
  case OP_ROUND:
  case OP_CAST: return (Range){-9, 9, false};
  }
  return (Range){-2, 2, false};
}

static double smooth_number(Range range, uint64_t *state) {
  double unit = (double)(next_random(state) >> 11) * 0x1p-53;
  double x = range.low + (range.high - range.low) * unit;
  return range.both_signs && next_random(state) & 1 ? -x : x;
}

static bool divides(Op op, int arg) {
  return arg == 1 && (op == OP_MOD || op == OP_FLOOR_DIV || op == OP_DIV);
}

static double whole_number(Op op, int arg, Dtype t, uint64_t *state) {
  bool product = op == OP_PROD || op == OP_CUMPROD;
  bool long_sum = op == OP_CUMSUM && t == TYPE_U8; // over 255, where it wraps around
  double reach = op == OP_POW && arg == 1 ? 3 : product ? 2 : long_sum ? 60 : 4;
  double x = (double)(next_random(state) % (uint64_t)(2 * reach + 1)) - reach;
  if (t == TYPE_BOOL) return x > 0;
  if (t == TYPE_U8 || (op == OP_POW && arg == 1)) x = fabs(x);
  if ((product || (op == OP_POW && arg == 0)) && !dtype_is_float(t) && x == 0) x = 1;
  return divides(op, arg) && x == 0 ? 1 : x;
}

static double special_number(Op op, uint64_t *state) {
  double large = op == OP_CUMPROD ? 2 : op == OP_POW ? 9 : 300; // powers are within f16
  const double odd[] = {0.0, -0.0, 1, -1, 0.5, -2.5, 3, -large, large, 1e-30};
  uint64_t k = next_random(state) % 26;
  if (k >= countof(odd) + 3) return smooth_number((Range){-3, 3, false}, state);
  return k == 10 ? (double)NAN : k == 11 ? (double)INFINITY : k == 12 ? -(double)INFINITY : odd[k];
}

void op_case_draw(Op op, int arg, Dtype t, OpInputs kind, uint64_t seed, int64_t n, double *out) {
  uint64_t state = seed;
  for (int64_t i = 0; i < n; i++) {
    double x = !dtype_is_float(t) || kind == INPUTS_TIES ? whole_number(op, arg, t, &state)
               : kind == INPUTS_SPECIAL                  ? special_number(op, &state)
                                        : smooth_number(smooth_range(op, arg), &state);
    out[i] = dtype_round(t, x);
  }
}

// -- graphs -------------------------------------------------------------------------------------

typedef struct Build {
  Arena *a;
  Graph *g;
  Choice c;
  uint64_t seed;
  VEC(EvalFeed) feeds;
  NodeId arg[3];
  DeclId decl[3];
  int nargs;
  Affine affine;
  double fill;
} Build;

static DimId letter(DimTable *t, char name) {
  char text[2] = {name, 0};
  DimId d = dim_find(t, text);
  for (size_t i = 0; i < countof(dim_rows) && !d; i++)
    if (dim_rows[i].name == name) d = dim_add(t, text, dim_rows[i].size, (Pos){0});
  return d;
}

static int letters(DimTable *t, const char *text, DimId *out) {
  int n = 0;
  for (; text && text[n] >= 'a' && text[n] <= 'z'; n++) out[n] = letter(t, text[n]);
  return n;
}

static unsigned marks(const char *text) {
  unsigned flags = 0;
  for (; text && *text; text++)
    flags |= *text == '<'   ? ORDER_REVERSE
             : *text == '|' ? ORDER_EXCLUSIVE
             : *text == '>' ? ORDER_DESCENDING
                            : 0;
  return flags;
}

static double *draw_feed(Build *b, int arg, Dtype type, bool ids, int64_t n) {
  double *x = arena_array(b->a, double, n);
  uint64_t seed = b->seed + (uint64_t)arg * 7919;
  op_case_draw(b->c.op, arg, type, b->c.inputs, seed, n, x);
  for (int64_t i = 0; i < n && ids; i++) x[i] = (double)(next_random(&seed) % 7);
  return x;
}

static DeclId declare(Build *b, DeclKind kind, const char *name, const char *dims, Dtype type,
                      int arg, bool ids) {
  Decl d = {.kind = kind, .name = name, .type = type};
  d.rank = (uint8_t)letters(b->g->dims, dims, d.dims);
  int64_t n = 1;
  for (int i = 0; i < d.rank; i++) n *= dim_get(b->g->dims, d.dims[i])->size;
  DeclId id = graph_decl(b->g, &d);
  vec_push(b->a, b->feeds) = (EvalFeed){id, draw_feed(b, arg, type, ids, n), n};
  graph_decl_node(b->g, id);
  return id;
}

static void read_affine(Build *b, const char *spec) {
  int64_t *const into[] = {&b->affine.out, &b->affine.tap, &b->affine.offset, &b->affine.divisor};
  char *end = arena_printf(b->a, "%s", spec);
  for (int i = 0; i < 4; i++) *into[i] = strtoll(end + 1, &end, 10);
  b->fill = *end ? dtype_round(b->c.type, strtod(end + 1, NULL)) : 0;
}

static void add_arg(Build *b, const char *spec) {
  if (spec[0] == '~') {
    read_affine(b, spec);
    return;
  }
  int i = b->nargs++;
  if (spec[0] == '=') {
    double v = strtod(spec + 1, NULL);
    b->arg[i] = graph_const(b->g, b->c.type, v);
    return;
  }
  bool ids = spec[0] == '@', predicate = spec[0] == '?';
  Dtype type = ids ? TYPE_I32 : predicate ? TYPE_BOOL : b->c.type;
  const char *name = arena_printf(b->a, "x%d", i);
  b->decl[i] = declare(b, DECL_INPUT, name, spec + (ids || predicate), type, i, ids);
  b->arg[i] = b->g->decl.at[b->decl[i] - 1].node;
}

static NodeId build_source(Build *b) {
  const Row *row = b->c.row;
  DeclKind kind = b->c.op == OP_INPUT ? DECL_INPUT : b->c.op == OP_PARAM ? DECL_PARAM : DECL_STATE;
  DimId dims[MAX_RANK];
  int n = letters(b->g->dims, row->dims, dims);
  if (op_is_decl(b->c.op)) {
    b->decl[0] = declare(b, kind, "x0", row->dims, b->c.type, 0, false);
    b->nargs = 1;
    return b->arg[0] = b->g->decl.at[b->decl[0] - 1].node;
  }
  bool draw = op_is_draw(b->c.op);
  Attr attr = {.type = draw ? 0 : b->c.type,
               .key = draw ? philox_key("case", (uint32_t)n) : 0,
               .ndims = (uint8_t)n,
               .dims = dims,
               .ndata = 1};
  for (int i = 0; i < n; i++) attr.ndata *= dim_get(b->g->dims, dims[i])->size;
  attr.data = draw_feed(b, 0, b->c.type, false, attr.ndata);
  attr.num[0] = draw ? 0 : attr.data[0];
  if (b->c.op != OP_VALUES) attr.ndata = 0, attr.data = NULL;
  return graph_add(b->g, b->c.op, 0, NULL, &attr);
}

// An arg_key may only go through a maximum to its index: keys themselves are never outputs.
static NodeId build_key(Build *b) {
  char why[200];
  DimId d = graph_node(b->g, b->arg[0])->dims->at[0];
  NodeId args[2] = {b->arg[0], graph_index(b->g, d)};
  NodeId key = graph_try(b->g, OP_ARG_KEY, 2, args, NULL, 0, why);
  if (key && b->c.op == OP_ARG_KEY)
    key = graph_reduce(b->g, OP_MAX, key, &(Dims){.n = 1, .at = {d}});
  return key ? graph_unary(b->g, OP_KEY_INDEX, key) : 0;
}

// Returns the next value of the carry, from the carry and the element that the step reads.
static NodeId build_step(Build *b, NodeId state, NodeId read) {
  if (b->c.type == TYPE_BOOL) return graph_binary(b->g, OP_NE, state, read);
  if (!dtype_is_float(b->c.type)) return graph_binary(b->g, OP_ADD, state, read);
  NodeId part = graph_binary(b->g, OP_MUL, state, graph_const(b->g, b->c.type, 0.5));
  return graph_binary(b->g, OP_ADD, graph_binary(b->g, OP_MUL, part, read), read);
}

// Builds a loop of one carry. The result shows the case's op: the carry before each step, the
// elements read, the carry after the last step, or the values of all steps.
static NodeId build_loop(Build *b) {
  DimId t;
  letters(b->g->dims, (char[]){b->c.row->dims[0], 0}, &t);
  RegionId r = graph_region(
      b->g, &(Region){.t = t, .reverse = (marks(b->c.row->dims) & ORDER_REVERSE) != 0});
  Attr along = {.ndims = 1, .dims = &t, .region = r};
  NodeId state = graph_add(b->g, OP_CARRY, 1, &b->arg[1], &(Attr){.region = r});
  NodeId read = graph_add(b->g, OP_AT, 1, &b->arg[0], &along), next = build_step(b, state, read);
  NodeId scan = graph_add(b->g, OP_SCAN, 1, &next, &(Attr){.region = r}), args[2] = {scan, next};
  along.region = 0;
  if (b->c.op == OP_CARRY || b->c.op == OP_FINAL || b->c.op == OP_SCAN) args[1] = state;
  if (b->c.op == OP_AT) args[1] = read;
  return b->c.op == OP_FINAL || b->c.op == OP_SCAN ? graph_add(b->g, OP_FINAL, 2, args, NULL)
                                                   : graph_add(b->g, OP_COLLECT, 2, args, &along);
}

// Adds a pin: the first dim over the first axis of the mesh, if there is one.
static NodeId build_pin(Build *b) {
  DimId dims[MAX_RANK];
  bool cut = letters(b->g->dims, b->c.row->dims, dims) > 0 && b->g->mesh->naxes > 0;
  Attr attr = {.ndims = cut, .dims = dims, .axes = {.n = cut}};
  return graph_add(b->g, OP_PIN, 1, b->arg, &attr);
}

// Adds 16 to the diagonal of the matrix: it is then far from singular and, unless its numbers are
// special, positive definite.
static void regular_matrix(Build *b, const DimId *dims) {
  Graph *g = b->g;
  NodeId same = graph_binary(g, OP_EQ, graph_index(g, dims[0]), graph_index(g, dims[1]));
  NodeId more = graph_where(g, same, graph_const(g, b->c.type, 16), graph_const(g, b->c.type, 0));
  b->arg[0] = graph_binary(g, OP_ADD, b->arg[0], more);
}

static NodeId build_y(Build *b) {
  const Row *row = b->c.row;
  if (op_row(b->c.op)->cls == SOURCE) return build_source(b);
  for (int i = 0; i < 3 && row->arg[i]; i++) add_arg(b, row->arg[i]);
  if (b->c.op == OP_PIN) return build_pin(b);
  if (op_row(b->c.op)->cls == REGION) return build_loop(b);
  if (b->c.op == OP_ARG_KEY || b->c.op == OP_KEY_INDEX) return build_key(b);
  DimId dims[MAX_RANK], to[MAX_RANK];
  Attr attr = {.type = row->type ? (Dtype)(row->type - 1) : b->c.type, .dims = dims, .to = to};
  attr.ndims = (uint8_t)letters(b->g->dims, row->dims, dims);
  attr.nto = (uint8_t)letters(b->g->dims, row->to, to);
  attr.flags = marks(row->dims);
  if (op_row(b->c.op)->cls == MATRIX) regular_matrix(b, dims);
  attr.affine = b->affine;
  attr.num[0] = b->fill;
  char why[200];
  return graph_try(b->g, b->c.op, b->nargs, b->arg, &attr, 0, why);
}

static void add_gradients(Build *b, OpCase *out) {
  Node y = *graph_node(b->g, out->y);
  NodeId by[3];
  for (int i = 0; i < b->nargs; i++) {
    if (!b->decl[i] || !dtype_is_float((Dtype)graph_node(b->g, b->arg[i])->type)) continue;
    out->by[out->ngrads] = b->decl[i];
    by[out->ngrads++] = b->arg[i];
  }
  if (out->ngrads == 0 || !dtype_is_float((Dtype)y.type) || b->c.inputs == INPUTS_SPECIAL) {
    out->ngrads = 0;
    return;
  }
  char dims[MAX_RANK + 1] = {0};
  for (int i = 0; i < y.dims->n; i++) dims[i] = dim_get(b->g->dims, y.dims->at[i])->name[0];
  DeclId w = declare(b, DECL_INPUT, "w", dims, (Dtype)y.type, 3, false);
  NodeId weighted = graph_binary(b->g, OP_MUL, out->y, b->g->decl.at[w - 1].node);
  out->loss = graph_reduce(b->g, OP_SUM, weighted, y.dims);
  graph_gradients(b->g, out->loss, out->ngrads, by, out->grad);
}

static void hand_out(Build *b, const char *name, NodeId value) {
  const Dims *d = graph_node(b->g, value)->dims;
  Output o = {.kind = OUT_VALUE, .name = name, .value = value, .rank = d->n};
  for (int i = 0; i < d->n; i++) o.dims[i] = d->at[i];
  vec_push(b->a, b->g->output) = o;
}

static const char *case_name(Arena *a, const Choice *c) {
  static const char *const kind[] = {"", " ties", " special"};
  const Row *r = c->row;
  const char *args = "";
  for (int i = 0; i < 3 && r->arg[i]; i++)
    args = arena_printf(a, "%s%s[%s]", args, i ? " " : "", r->arg[i]);
  return arena_printf(
      a, "%s %s %s%s%s%s%s%s%s", op_row(c->op)->text, dtype_text(c->type), args,
      r->dims ? " over " : "", r->dims ? r->dims : "", r->to ? " to " : "", r->to ? r->to : "",
      r->type ? arena_printf(a, " as %s", dtype_text((Dtype)(r->type - 1))) : "", kind[c->inputs]);
}

const char *op_cases_missing(Arena *a, bool (*seen)[TYPE_COUNT]) {
  const char *missing = NULL;
  for (int op = 0; op < OP_COUNT; op++)
    for (size_t t = 0; t < countof(types); t++)
      if (op_takes((Op)op, types[t]) && !seen[op][types[t]])
        missing = arena_printf(a, "%s%s%s %s", missing ? missing : "", missing ? ", " : "",
                               op_row((Op)op)->text, dtype_text(types[t]));
  return missing;
}

// Returns the seed of a case's numbers. It depends on the name of the case only, so that a new row
// changes no other case. FNV-1a, from a start value for which no case is vacuous.
static uint64_t seed_of(const char *name) {
  uint64_t h = 0xcbf29ce484222325u ^ 7;
  for (; *name; name++) h = (h ^ (uint8_t)*name) * 0x100000001b3u;
  return h;
}

bool op_case_build(Arena *a, DimTable *dims, const Mesh *mesh, int i, OpCase *out) {
  Build b = {.a = a, .g = graph_new(a, dims, mesh, STAGE_GRAPH)};
  if (i >= op_case_count()) BUG("there is no case %d", i);
  b.c = cases[i];
  const char *name = case_name(a, &b.c);
  b.seed = seed_of(name);
  for (size_t k = 0; k < countof(dim_rows); k++) letter(dims, dim_rows[k].name);
  b.g->model = "op_cases";
  b.g->origin.why = "case";
  *out = (OpCase){.name = name, .op = b.c.op, .type = b.c.type, .inputs = b.c.inputs, .graph = b.g};
  out->y = build_y(&b);
  if (!out->y) return false;
  add_gradients(&b, out);
  hand_out(&b, "y", out->y);
  for (int k = 0; k < out->ngrads; k++)
    hand_out(&b, arena_printf(a, "grad %s", b.g->decl.at[out->by[k] - 1].name), out->grad[k]);
  out->nfeeds = b.feeds.n;
  out->feeds = b.feeds.at;
  return true;
}

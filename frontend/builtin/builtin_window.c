// Builds `window` and its transpose `fold`, and the maxima of windows. Padding has four forms. The
// sizes of the dims must agree with the formula. Also has the helpers of builtin_internal.h.
//
// A window relates a source position s, an output position o and a tap k:
// s = stride * o + dilation * k - pad.
//
//   window[y -> oy, ky](x, pad = same)   one WINDOW node from y to (oy, ky)
//   fold[y, ky -> y2](x, stride = 2)     the inverse relation as a WINDOW node, summed over ky
//   max[ky](window[y -> oy, ky](x))      positions outside x have the least value of its type
#include <math.h>
#include <string.h>

#include "frontend/builtin/builtin_internal.h"

// -- helpers of builtin_internal.h --------------------------------------------------------------

Pos call_pos(const Call *c, int i) { return c->raw[i] ? c->raw[i]->pos : c->pos; }

// Returns "second " for the second of several operands, "" for the only one.
static const char *which_operand(const Call *c, const Value *v) {
  static const char *const ordinal[] = {"first ", "second ", "third "};
  size_t n = 0, at = countof(ordinal);
  for (int i = 0; c->row->formal[i].name; i++) {
    if (!c->row->formal[i].required || c->row->formal[i].raw) continue;
    if (v == &c->arg[i]) at = n;
    n++;
  }
  return n > 1 && at < countof(ordinal) ? ordinal[at] : "";
}

bool call_has(Build *b, const Call *c, uint32_t i, const Value *v) {
  const Dims *have = build_dims(b, v);
  if (dims_has(have, c->dim[i])) return true;
  return diag_error(b->d, DIAG_MISSING_DIM, c->ast->dims[i].pos,
                    "%s of dim '%s', but its %soperand is over %s", c->row->name,
                    c->ast->dims[i].name, which_operand(c, v), dims_listed(b, have));
}

bool call_new(Build *b, const Call *c, uint32_t i, const Value *v, uint32_t gone) {
  const Dims *have = build_dims(b, v);
  if (!dims_has(have, c->dim[i]) || c->dim[i] == c->dim[gone]) return true;
  diag_error(b->d, DIAG_BAD_ARGUMENTS, c->ast->dims[i].pos,
             "the operand over %s already has the dim '%s'", dims_listed(b, have),
             c->ast->dims[i].name);
  return diag_hint(b->d, "declare another dim of that size");
}

bool call_add(Build *b, const Call *c, uint32_t i, Dims *set) {
  if (!dims_has(set, c->dim[i])) return dims_add(b->g->dims, set, c->dim[i]);
  return diag_error(b->d, DIAG_BAD_ARGUMENTS, c->ast->dims[i].pos, "dim '%s' is named twice",
                    c->ast->dims[i].name);
}

bool call_misuse(Build *b, const Call *c) {
  return diag_error(b->d, DIAG_BAD_ARGUMENTS, c->pos, "%s is written %s", c->row->name,
                    builtin_form(c->row->name));
}

bool call_map(Build *b, const Call *c, uint32_t nfrom, uint32_t nto) {
  bool good = c->ndims == nfrom + nto && !c->ast->all_but;
  for (uint32_t i = 0; i < c->ndims; i++) good &= c->arrow[i] == (i == nfrom);
  return good || call_misuse(b, c);
}

bool call_number(Build *b, const Call *c, int i, double *out) {
  *out = c->arg[i].number;
  if (c->arg[i].kind == VALUE_NUMBER) return true;
  return diag_error(b->d, DIAG_NOT_A_CONSTANT, call_pos(c, i),
                    "%s of %s must be a number that is known at compile time",
                    c->row->formal[i].name, c->row->name);
}

bool call_integer(Build *b, const Call *c, int i, int64_t least, int64_t *out) {
  double x;
  if (!call_number(b, c, i, &x)) return false;
  if (x == floor(x) && x >= (double)least && x <= (double)MAX_STEP) {
    *out = (int64_t)x;
    return true;
  }
  return diag_error(b->d, DIAG_BAD_ARGUMENTS, call_pos(c, i),
                    "%s of %s must be an integer from %lld to 2^30, not %g", c->row->formal[i].name,
                    c->row->name, (long long)least, x);
}

bool call_positions(Build *b, const Call *c, int i, NodeId *out) {
  const Node *n = graph_node(b->g, c->arg[i].node);
  *out = 0;
  if (dtype_class((Dtype)n->type) != CLASS_INT) {
    diag_error(b->d, DIAG_BAD_TYPE, call_pos(c, i), "%s of %s must be i32, not %s",
               c->row->formal[i].name, c->row->name, dtype_text((Dtype)n->type));
    return diag_hint(b->d, "use cast(x, i32)");
  }
  *out = graph_cast(b->g, c->arg[i].node, TYPE_I32);
  return true;
}

// Returns the type that holds elements of type t and the number `fill`.
static Dtype filled_type(const Build *b, Dtype t, double fill) {
  if (dtype_is_float(t) || dtype_round(t, fill) == fill) return t;
  return dtype_round(TYPE_I32, fill) == fill ? TYPE_I32 : b->real;
}

NodeId window_emit(Build *b, Pos pos, NodeId x, NodeId start, DimId from, int nto, const DimId *to,
                   Affine f, double fill) {
  Dtype type = filled_type(b, (Dtype)graph_node(b->g, x)->type, fill);
  NodeId args[2] = {graph_cast(b->g, x, type), start};
  Attr attr = {.ndims = 1, .dims = &from, .nto = (uint8_t)nto, .to = to, .affine = f};
  attr.num[0] = dtype_round(type, fill);
  NodeId y = build_emit(b, pos, start ? OP_WINDOW_AT : OP_WINDOW, start ? 2 : 1, args, &attr);
  if (y && type == TYPE_F32 && attr.num[0] != fill)
    values_exact(b, y, arena_copy(b->a, &fill, sizeof fill));
  return y;
}

// -- positions of windows -----------------------------------------------------------------------

// A window of k taps over n source positions, which has o output positions.
typedef struct Taps {
  // all in elements; before, after: the padding
  int64_t n, k, o, stride, dilation, before, after;
  bool same; // true for `pad = same`: the padding follows from the sizes
} Taps;

// Returns the number of source positions from the first tap of a window to the last, both included.
static int64_t span(const Taps *w) { return (w->k - 1) * w->dilation + 1; }

// Sets the padding for `pad = same`, with which there are ceil(n / stride) output positions. If its
// total is odd, there is one more element after than before.
static void pad_same(Taps *w) {
  int64_t total = (ceil_div(w->n, w->stride) - 1) * w->stride + span(w) - w->n;
  if (total < 0) total = 0;
  w->before = total / 2;
  w->after = total - w->before;
  w->same = true;
}

static bool pad_pair(Build *b, const Ast *pad, Taps *w) {
  int64_t *into[2] = {&w->before, &w->after};
  for (int i = 0; i < 2; i++) {
    if (!build_integer(b, pad->args[i].value, into[i])) return false;
    if (*into[i] >= 0 && *into[i] <= MAX_STEP) continue;
    return diag_error(b->d, DIAG_BAD_ARGUMENTS, pad->args[i].pos,
                      "padding must be from 0 to 2^30, not %lld", (long long)*into[i]);
  }
  return true;
}

static bool pad_read(Build *b, const Ast *pad, Taps *w) {
  if (!pad) return true;
  bool name = pad->kind == AST_NAME;
  if (name && !strcmp(pad->text, "valid")) return true;
  if (name && !strcmp(pad->text, "same")) {
    pad_same(w);
    return true;
  }
  if (name && !strcmp(pad->text, "causal")) {
    w->before = span(w) - 1;
    return true;
  }
  bool pair = pad->kind == AST_LIST && pad->nargs == 2;
  for (uint32_t i = 0; pair && i < 2; i++)
    pair = !pad->args[i].name && !pad->args[i].key && !pad->args[i].arrow;
  if (pair) return pad_pair(b, pad, w);
  return diag_error(b->d, DIAG_BAD_ARGUMENTS, pad->pos,
                    "expected a padding: valid, same, causal or (before, after)");
}

// Reads stride, dilation and padding, which are formals 1, 2 and 3 of window and fold. Returns
// false after an error.
static bool taps_read(Build *b, const Call *c, Taps *w) {
  return call_integer(b, c, 1, 1, &w->stride) && call_integer(b, c, 2, 1, &w->dilation) &&
         pad_read(b, c->raw[3], w);
}

// Returns the number of output positions, (n + before + after - span) / stride + 1 rounded down.
// Returns 0 if the window is longer than the padded source.
static int64_t places(const Taps *w) {
  int64_t room = w->n + w->before + w->after - span(w);
  return room < 0 ? 0 : room / w->stride + 1;
}

static bool distinct(Build *b, const Call *c, uint32_t i, uint32_t k) {
  if (c->dim[i] != c->dim[k]) return true;
  diag_error(b->d, DIAG_BAD_ARGUMENTS, c->ast->dims[i].pos,
             "dim '%s' cannot be both the new dim and the dim of the taps", c->ast->dims[i].name);
  return diag_hint(b->d, "give the taps a dim of their own");
}

// -- window -------------------------------------------------------------------------------------

static bool places_ok(Build *b, const Call *c, const Taps *w) {
  int64_t want = places(w);
  const char *from = c->ast->dims[0].name, *to = c->ast->dims[1].name;
  if (want == w->o) return true;
  if (want == 0) {
    int64_t padded = w->n + w->before + w->after;
    diag_error(b->d, DIAG_SIZE_MISMATCH, c->pos,
               "a window over %lld element%s does not fit into the %lld element%s of '%s'",
               (long long)span(w), plural(span(w)), (long long)padded, plural(padded), from);
    return diag_hint(b->d, "pad it: pad = same, or pad = (before, after)");
  }
  diag_error(b->d, DIAG_SIZE_MISMATCH, c->ast->dims[1].pos,
             "windows over '%s' have %lld place%s, but '%s' has size %lld", from, (long long)want,
             plural(want), to, (long long)w->o);
  return diag_hint(b->d, "dim %s = %lld", to, (long long)want);
}

Value builtin_window(Build *b, const Call *c) {
  const Value *x = &c->arg[0];
  double fill;
  if (!call_map(b, c, 1, 2) || !call_has(b, c, 0, x) || !distinct(b, c, 2, 0) ||
      !distinct(b, c, 2, 1) || !call_new(b, c, 1, x, 0) || !call_new(b, c, 2, x, 0) ||
      !call_number(b, c, 4, &fill))
    return value_poison;
  Taps w = {.n = call_size(b, c, 0), .o = call_size(b, c, 1), .k = call_size(b, c, 2)};
  if (!taps_read(b, c, &w) || !places_ok(b, c, &w)) return value_poison;
  Affine f = {w.stride, w.dilation, -w.before, 1};
  return value_tensor(window_emit(b, c->pos, x->node, 0, c->dim[0], 2, c->dim + 1, f, fill));
}

// -- fold ---------------------------------------------------------------------------------------

static bool folded_ok(Build *b, const Call *c, const Taps *w) {
  if (places(w) == w->o) return true;
  const char *from = c->ast->dims[0].name, *to = c->ast->dims[2].name;
  int64_t least = w->same ? (w->o - 1) * w->stride + 1
                          : (w->o - 1) * w->stride + span(w) - w->before - w->after;
  int64_t most = w->same ? w->o * w->stride : least + w->stride - 1;
  diag_error(b->d, DIAG_SIZE_MISMATCH, c->ast->dims[2].pos,
             "windows over the %lld element%s of '%s' have %lld place%s, but '%s' has size %lld",
             (long long)w->n, plural(w->n), to, (long long)places(w), plural(places(w)), from,
             (long long)w->o);
  if (most < 1)
    diag_hint(b->d, "the padding is more than the windows cover");
  else if (least < most)
    diag_hint(b->d, "dim %s = %lld to %lld", to, (long long)(least < 1 ? 1 : least),
              (long long)most);
  else
    diag_hint(b->d, "dim %s = %lld", to, (long long)most);
  return false;
}

Value builtin_fold(Build *b, const Call *c) {
  const Value *x = &c->arg[0];
  if (!call_map(b, c, 2, 1) || !call_has(b, c, 0, x) || !call_has(b, c, 1, x) ||
      !distinct(b, c, 1, 0) || !distinct(b, c, 2, 1) || !call_new(b, c, 2, x, 0))
    return value_poison;
  Taps w = {.n = call_size(b, c, 2), .o = call_size(b, c, 0), .k = call_size(b, c, 1)};
  if (!taps_read(b, c, &w) || !folded_ok(b, c, &w)) return value_poison;
  NodeId wide = build_node(b, *x, build_join(b, ARITHMETIC, 1, x));
  Affine back = {1, -w.dilation, w.before, w.stride};
  DimId to[2] = {c->dim[2], c->dim[1]};
  NodeId spread = window_emit(b, c->pos, wide, 0, c->dim[0], 2, to, back, 0);
  if (!spread) return value_poison;
  return value_tensor(graph_reduce(b->g, OP_SUM, spread, &(Dims){.n = 1, .at = {c->dim[1]}}));
}

// -- maxima of windows --------------------------------------------------------------------------

// Returns true if e is a call of window that does not state the value of positions outside the
// source. A maximum over the window must not read the default 0 there. *operand gets the call's
// first argument.
static bool fills_zero(Build *b, const Ast *e, const Ast **operand) {
  const Ast *arg[MAX_FORMALS];
  if (e->kind != AST_CALL || strcmp(e->text, "window")) return false;
  if (!call_bind(b, e, builtin_find("window")->formal, arg)) return false;
  *operand = arg[0];
  return !arg[4];
}

static double least_value(Dtype t) {
  if (dtype_is_float(t)) return -(double)INFINITY;
  return t == TYPE_I32 ? (double)INT32_MIN : 0;
}

// Returns node n, built from expression e, unless e is a window with fills_zero. For such a window,
// returns a copy whose positions outside the source have the least value of the type. Its operand
// is treated likewise, so that windows of windows are copied, too.
static NodeId refilled(Build *b, const Ast *e, NodeId n) {
  const Ast *operand;
  if (graph_node(b->g, n)->op != OP_WINDOW || !fills_zero(b, e, &operand)) return n;
  Node window = *graph_node(b->g, n);
  NodeId x = refilled(b, operand, window.args[0]);
  Attr attr = *window.attr;
  attr.num[0] = least_value((Dtype)window.type);
  b->g->origin.pos = e->pos;
  return graph_add(b->g, OP_WINDOW, 1, &x, &attr);
}

Value builtin_max(Build *b, const Call *c) {
  Call own = *c;
  if (own.arg[0].kind == VALUE_TENSOR) own.arg[0].node = refilled(b, c->raw[0], c->arg[0].node);
  return builtin_reduce(b, &own);
}

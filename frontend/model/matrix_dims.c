// Decides which dims of a parameter are the outputs and the inputs of the matrices that the
// optimizer muon updates, and checks that all parameters that it trains are matrices.
//
//   w[d, h]                                         in d, out h: the last dim is out
//   w[d, heads, k]     out = "heads, k"             in d, out heads and k
//   w[layer, d, h]     each = "layer"               a matrix for each layer, in d, out h
//   w[ky, kx, c, f]    out = "f"                    in ky, kx and c, out f
#include <string.h>

#include "frontend/model/build_internal.h"
#include "frontend/model/train_internal.h"

// Returns whether the list of names, separated by commas, has `name`. A NULL list has no names.
static bool lists(Arena *a, const char *names, const char *name) {
  char *list = arena_printf(a, "%s", names ? names : ""), *save = NULL;
  for (char *p = strtok_r(list, ", ", &save); p; p = strtok_r(NULL, ", ", &save))
    if (!strcmp(p, name)) return true;
  return false;
}

bool dim_names_read(Build *b, const Ast *e, const char **out) {
  bool good = build_string(b, e, out);
  char *list = arena_printf(b->a, "%s", good ? *out : ""), *save = NULL;
  for (char *p = strtok_r(list, ", ", &save); p; p = strtok_r(NULL, ", ", &save))
    good &= dim_lookup(b, intern(b->names, p), e->pos) != 0;
  return good;
}

static void side_add(const Graph *g, Dims *side, double *size, DimId d) {
  if (!dims_add(g->dims, side, d)) BUG("a declaration of too many dims");
  *size *= (double)dim_get(g->dims, d)->size;
}

const char *matrix_dims(const Graph *g, const OptimizerSpec *s, const Decl *d, MatrixDims *out) {
  DimId rest[MAX_RANK];
  int n = 0;
  *out = (MatrixDims){.outs = 1, .ins = 1};
  for (int i = 0; i < d->rank; i++)
    if (!lists(g->arena, s->each, dim_get(g->dims, d->dims[i])->name)) rest[n++] = d->dims[i];
  for (int i = 0; i < n; i++)
    if (lists(g->arena, s->out, dim_get(g->dims, rest[i])->name))
      side_add(g, &out->out, &out->outs, rest[i]);
  if (n < 2) return "it has fewer than two dims";
  if (out->out.n == n) return "all its dims are outputs";
  if (out->out.n == 0 && n > 2) return "it has more than two dims, and none of them is in 'out'";
  if (out->out.n == 0) side_add(g, &out->out, &out->outs, rest[n - 1]);
  for (int i = 0; i < n; i++)
    if (!dims_has(&out->out, rest[i])) side_add(g, &out->in, &out->ins, rest[i]);
  int shorter = out->outs <= out->ins ? out->out.n : out->in.n;
  return d->rank - n + 3 * shorter > MAX_RANK ? "its products have too many dims" : NULL;
}

static void not_matrix(Build *b, const OptimizerSpec *s, const Decl *d, const char *why) {
  diag_error(b->d, DIAG_BAD_BLOCK, s->pos, "muon updates matrices, and '%s' is not one: %s",
             d->name, why);
  if (d->rank > 2)
    diag_hint(b->d,
              "name the dims of its outputs: muon(..., out = \"%s\"), or dims that number "
              "matrices: each = \"%s\"",
              dim_get(b->g->dims, d->dims[d->rank - 1])->name,
              dim_get(b->g->dims, d->dims[0])->name);
  else
    diag_hint(b->d, "give it another optimizer: groups = (\"%s\": adamw(lr = 3e-4))", d->name);
}

void matrices_check(Build *b, const TrainSpec *t) {
  MatrixDims m;
  for (uint32_t i = 0; i < b->g->decl.n; i++) {
    const Decl *d = &b->g->decl.at[i];
    if (!train_trains(b->a, t, d)) continue;
    const OptimizerSpec *s = train_optimizer(b->g, t, d->name);
    const char *why = s->kind == OPTIMIZER_MUON ? matrix_dims(b->g, s, d, &m) : NULL;
    if (!why) continue;
    not_matrix(b, s, d, why);
    return; // one message is enough: a pattern of a group often serves all such parameters
  }
}

// Decides in which forms the nodes of a model are needed for decoding, and how each is computed
// (decode_build_internal.h). Input: the analysis of causal.c. Output: Decode.want.
#include "frontend/step/decode_build_internal.h"

static int times_in(const Decode *d, int n, const DimId *list) {
  int found = 0;
  for (int i = 0; i < n; i++) found += causal_time(&d->c, list[i]) >= 0;
  return found;
}

static bool has_time(const Decode *d, const Dims *dims, Form f) {
  int k = form_time(f);
  return k >= 0 && dims_has(dims, d->c.time[k]);
}

// Returns whether the rename n pairs time dims with time dims.
static bool pairs_times(const Decode *d, const Node *n) {
  for (int i = 0; i < n->attr->ndims; i++)
    if ((causal_time(&d->c, n->attr->dims[i]) >= 0) != (causal_time(&d->c, n->attr->to[i]) >= 0))
      return false;
  return true;
}

// Returns whether a part of node n, which reads no ids, is computed from the same parts of its
// arguments.
static bool by_parts(const Decode *d, const Node *n) {
  switch ((int)op_row((Op)n->op)->cls) {
  case SOURCE: return n->op == OP_INDEX;
  case POINTWISE: return true;
  case REDUCE:
  case CONTRACT: return !times_in(d, n->attr->ndims, n->attr->dims);
  case MOVE:
    if (n->op == OP_RENAME) return pairs_times(d, n);
    return n->op == OP_BROADCAST || n->op == OP_PIN;
  }
  return false;
}

static bool renames_to(const Decode *d, const Node *n, Form f) {
  return n->op == OP_RENAME && form_time(f) >= 0 &&
         dim_in(d->c.time[form_time(f)], n->attr->nto, n->attr->to);
}

// Returns whether n merges a time dim with others to that of form f, or splits such a merged dim.
static bool reshapes_to(const Decode *d, const Node *n, Form f) {
  int k = form_time(f);
  if (k < 0 || (n->op != OP_MERGE && n->op != OP_SPLIT)) return false;
  int from = n->op == OP_SPLIT ? causal_time(&d->c, n->attr->dims[0]) : k;
  return from >= 0 && d->c.merge[from] && dim_in(d->c.time[k], n->attr->nto, n->attr->to);
}

// Returns whether a merged time dim is among the dims.
static bool has_merged(const Decode *d, const Dims *dims) {
  for (int i = 0; i < dims->n; i++) {
    int k = causal_time(&d->c, dims->at[i]);
    if (k >= 0 && d->c.merge[k]) return true;
  }
  return false;
}

static bool windows_to(const Decode *d, const Node *n, Form f) {
  return op_row((Op)n->op)->cls == WINDOW && n->attr->nto && form_time(f) >= 0 &&
         n->attr->to[0] == d->c.time[form_time(f)];
}

// The part of a value that depends on no ids.
static Way way_of_given(const Decode *d, NodeId id, Form f) {
  const Node *n = graph_node(d->from, id);
  int times = times_in(d, n->dims->n, n->dims->at);
  if (has_merged(d, n->dims)) return WAY_NONE;
  if (f == FORM_PAST || !has_time(d, n->dims, f)) {
    if (n->region) return WAY_NONE;
    return times && by_parts(d, n) ? WAY_COPY : WAY_SLICE;
  }
  if (n->op == OP_INDEX) return WAY_INDEX;
  if (windows_to(d, n, f) && n->op == OP_WINDOW && n->attr->affine.divisor == 1 && times == 1)
    return WAY_WINDOW;
  if (!by_parts(d, n)) return WAY_SLICE;
  return renames_to(d, n, f) ? WAY_RENAME : WAY_COPY;
}

// The past of a value that depends on ids.
static Way way_of_past(const Decode *d, NodeId id) {
  const Node *n = graph_node(d->from, id);
  bool one = times_in(d, n->dims->n, n->dims->at) == 1 && !has_merged(d, n->dims);
  return one && !n->region ? WAY_KEEP : WAY_NONE;
}

static bool is_running(const Decode *d, const Node *n, Form f) {
  return op_row((Op)n->op)->cls == ORDERED && n->attr->dims[0] == d->c.time[form_time(f)];
}

Way decode_way(const Decode *d, NodeId id, Form f) {
  const Node *n = graph_node(d->from, id);
  if (f == FORM_FULL) return WAY_COPY;
  if (!d->c.reads[id] && !n->region) return way_of_given(d, id, f);
  if (f == FORM_PAST) return way_of_past(d, id);
  if (id == d->c.ids) return form_is_last(f) ? WAY_PART : WAY_IDS;
  RegionId loop = op_row((Op)n->op)->cls == REGION ? causal_region(d->from, n) : 0;
  bool region = causal_loop(&d->c, loop);
  if (region && region_get(d->from, loop)->parent) return WAY_NONE;
  if (region || is_running(d, n, f) || (n->region && causal_loop(&d->c, n->region))) {
    if (form_is_last(f)) return n->region ? WAY_NONE : WAY_PART;
    if (region) return WAY_LOOP;
  }
  if (is_running(d, n, f))
    return decode_running_rule((Op)n->op) && !n->region ? WAY_RUNNING : WAY_NONE;
  if (renames_to(d, n, f) || reshapes_to(d, n, f)) return WAY_RENAME;
  return windows_to(d, n, f) ? WAY_WINDOW : WAY_COPY;
}

static Form time_of_rename(const Decode *d, const Node *n, Form f) {
  for (int i = 0; i < n->attr->nto; i++)
    if (n->attr->to[i] == d->c.time[form_time(f)])
      return form_of(causal_time(&d->c, n->attr->dims[i]), form_is_last(f));
  return f;
}

// Returns the form of the argument of a merge or split for which reshapes_to is true.
static Form time_of_reshape(const Decode *d, const Node *n, Form f) {
  DimId from = n->op == OP_SPLIT ? n->attr->dims[0] : n->attr->dims[causal_merged(&d->c, n)];
  return form_of(causal_time(&d->c, from), form_is_last(f));
}

// Returns whether the node, in a loop, belongs to the position of the loop, or to no position: it
// has no time dim, or the loop runs over time.
static bool goes_with_loop(const Decode *d, const Node *n) {
  RegionId r = n->region;
  while (r && !causal_loop(&d->c, r)) r = region_get(d->from, r)->parent;
  return n->region && (r || !times_in(d, n->dims->n, n->dims->at));
}

Form decode_argument(const Decode *d, NodeId id, int k, Form f) {
  const Node *n = graph_node(d->from, id), *x = graph_node(d->from, n->args[k]);
  if (f == FORM_FULL || f == FORM_PAST) return f;
  if (renames_to(d, n, f)) return time_of_rename(d, n, f);
  if (reshapes_to(d, n, f)) return time_of_reshape(d, n, f);
  if (windows_to(d, n, f)) return k || !d->c.reads[n->args[0]] ? FORM_FULL : FORM_PAST;
  const Slots *slots = d->c.slots[n->args[k]];
  bool own = slots && slots->time == form_time(f); // those of the positions of a run
  bool loop = goes_with_loop(d, x) || x->op == OP_SCAN;
  return own || loop || has_time(d, x->dims, f) ? f : FORM_PAST;
}

// -- what is needed ------------------------------------------------------------------------------

static bool refuse(const Decode *d, NodeId id) {
  const Node *n = graph_node(d->from, id);
  diag_error(d->diag, DIAG_UNSUPPORTED, n->origin->pos,
             "'%s' (%s) cannot be computed position by position", causal_name(d->from, id),
             node_source_name(d->from, id));
  if (n->region && !causal_loop(&d->c, n->region))
    return diag_hint(d->diag, "a scan keeps no positions from run to run: write a loop over layers "
                              "as for i in 0..N");
  return diag_hint(d->diag, "see docs/cli/generate.md for the operations that can");
}

static void want(Decode *d, NodeId id, Form f) { d->want[(size_t)id * d->nforms + f] = true; }

// Carries of a loop, whose next values its scan has as arguments.
static void want_carries(Decode *d, NodeId scan, Form f) {
  for (NodeId id = 1; id < scan; id++) {
    const Node *n = graph_node(d->from, id);
    if (n->op == OP_CARRY && n->attr->region == graph_node(d->from, scan)->attr->region)
      want(d, id, f);
  }
}

static void want_arguments(Decode *d, NodeId id, Form f, Way way) {
  const Node *n = graph_node(d->from, id);
  switch (way) {
  case WAY_SLICE: want(d, id, FORM_FULL); break;
  case WAY_PART: want(d, id, f - 1); break;
  case WAY_KEEP:
    for (int k = 0; k < d->c.ntimes; k++)
      if (dims_has(n->dims, d->c.time[k])) want(d, id, form_of(k, false));
    break;
  case WAY_IDS:
  case WAY_INDEX:
  case WAY_NONE: break;
  default:
    if (n->op == OP_SCAN && f != FORM_FULL) want_carries(d, id, f);
    for (int k = 0; k < n->nargs; k++) want(d, n->args[k], decode_argument(d, id, k, f));
  }
}

bool decode_want(Decode *d, NodeId output, Form f) {
  bool good = true;
  want(d, output, f);
  for (NodeId id = output; id > 0 && good; id--) {
    // From the last form on: what a form needs of the same node has a lower number, except what a
    // state needs, whose forms are looked at again.
    for (int again = 0; again < 2; again++)
      for (f = d->nforms; f-- > 0 && good;) {
        if (!d->want[(size_t)id * d->nforms + f]) continue;
        Way way = decode_way(d, id, f);
        want_arguments(d, id, f, way);
        if (way == WAY_NONE) good = refuse(d, id);
      }
  }
  return good;
}

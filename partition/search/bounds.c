// Computes lower bounds of the cost of layouts (bounds_internal.h) from tables
// (bounds_tables_internal.h), one axis after the other.
#include <math.h>
#include <string.h>

#include "partition/search/bounds_tables_internal.h"

void bounds_begin(Bounds *l, int naxes, const uint32_t kind[]) {
  l->naxes = naxes;
  l->together = false;
  for (int k = 0; k < naxes; k++) l->axis[k] = &l->kind[kind[k]];
  for (int k = naxes - 1; k >= 0; k--) {
    Depth *d = &l->depth[k], *behind = &l->depth[k + 1];
    const KindTable *t = k + 1 < naxes ? l->axis[k + 1] : NULL;
    for (uint32_t i = 0; i < l->nparts; i++)
      d->rest_share[i] = t ? behind->rest_share[i] * t->best_share[i] : 1;
    for (uint32_t i = 0; i < l->nheld; i++)
      d->rest_held[i] = t ? behind->rest_held[i] * t->best_held[i] : 1;
    for (uint32_t i = 0; i < l->nvalues; i++) {
      d->rest_left[i] = t ? behind->rest_left[i] * t->best_left[i] : 1;
      d->rest_flow[i] = t ? behind->rest_flow[i] + t->min_flow[i] : 0;
    }
  }
}

void bounds_enter(Bounds *l, int k) {
  Depth *d = &l->depth[k];
  for (uint32_t i = 0; i < l->npositive; i++)
    d->weight[i] = l->part[i].amount * d->share[i] * d->rest_share[i];
}

static double parts_with(const Bounds *l, const Depth *d, const KindTable *t, uint32_t set) {
  const double *share = t->share + (size_t)set * l->nparts,
               *upper = t->upper + (size_t)set * l->nparts;
  double a = 0, b = 0;
  uint32_t i = 0;
  for (; i + 1 < l->npositive; i += 2)
    a += d->weight[i] * share[i], b += d->weight[i + 1] * share[i + 1];
  if (i < l->npositive) a += d->weight[i] * share[i];
  for (i = l->npositive; i < l->nparts; i++) b += l->part[i].amount * min_of(d->upper[i], upper[i]);
  return a + b;
}

// Fills out[] with lower bounds of the seconds that the values of class i take to move, one for
// each kind of Flow. The next axis of the mesh is assumed to split a set of dims. `d` describes the
// axes that have their sets already. `at` is the index of the set and the class in the matrices of
// t, the tables of the next axis.
//   JOIN  Sums and gathers over axes of p and q processors send (1 - 1/p) + (1 - 1/q) / p of the
//         bytes, in the cheaper order of the axes. Memory is read and written once.
//   SEND  Each axis sends the blocks that remain after splits and moves over the other axes.
//   HALO  Several axes exchange the edges together: the axis with most seconds counts.
static void flows_with(const Depth *d, uint32_t i, const KindTable *t, size_t at,
                       double out[FLOWS]) {
  double left = t->left[at], passed = t->passed[at], mine = d->left[i], behind = d->passed[i];
  double now = d->flow[FLOW_JOIN][i] * left, more = t->flow[FLOW_JOIN][at] * mine;
  out[FLOW_JOIN] = min_of(now + more * behind, now * passed + more);
  now = d->flow[FLOW_JOIN_MEMORY][i] * left, more = t->flow[FLOW_JOIN_MEMORY][at] * mine;
  out[FLOW_JOIN_MEMORY] = min_of(max_of(now, more * behind), max_of(now * passed, more));
  now = d->flow[FLOW_SEND][i] * left * passed, more = t->flow[FLOW_SEND][at] * mine * behind;
  out[FLOW_SEND] = min_of(now + more * behind, now * passed + more);
  out[FLOW_SEND_MEMORY] = max_of(d->flow[FLOW_SEND_MEMORY][i] * left * passed,
                                 t->flow[FLOW_SEND_MEMORY][at] * mine * behind);
  out[FLOW_HALO] = max_of(d->flow[FLOW_HALO][i] * left, t->flow[FLOW_HALO][at] * mine);
}

static double values_with(const Bounds *l, const Depth *d, const KindTable *t, uint32_t set) {
  size_t row = (size_t)set * l->nvalues;
  double all = 0, flow[FLOWS];
  for (uint32_t i = 0; i < l->nvalues; i++) {
    if (!d->moved[i] && !t->moved[row + i]) {
      all += d->rest_flow[i];
      continue;
    }
    flows_with(d, i, t, row + i, flow);
    double x = 0;
    for (int f = 0; f < FLOWS; f++) x += flow[f];
    all += (x > 0 ? x * d->rest_left[i] : x) + d->rest_flow[i];
  }
  return all;
}

// Returns the seconds of work that a step takes longer because uneven splits make the longest
// blocks longer than the average. Axis k is assumed to split set number `set` of dims, and the axes
// before k those assigned to them.
static double short_blocks(const Bounds *l, int k, uint32_t set) {
  const Depth *d = &l->depth[k];
  double all = 0;
  for (uint32_t i = 0; i < l->npositive; i++) {
    const PartClass *c = &l->part[i];
    if (!c->uneven) continue;
    double over[MAX_PART_DIMS] = {0}, true_share = 1, equal = 1;
    for (int j = 0; j <= k; j++) {
      uint8_t code = c->code[l->axis[j]->first + (j < k ? l->chosen[j] : set)];
      if (!code) continue;
      equal /= l->axis[j]->size;
      if (code == EVEN)
        true_share /= l->axis[j]->size;
      else
        over[code - 1] = (over[code - 1] > 0 ? over[code - 1] : 1) * l->axis[j]->size;
    }
    for (int s = 0; s < MAX_PART_DIMS; s++)
      if (over[s] > 0) true_share *= ceil((double)c->size[s] / over[s]) / (double)c->size[s];
    all += c->amount * (true_share - equal) * d->rest_share[i];
  }
  return all;
}

// Returns true if the next axis cannot split set number `set` of dims. Every layout that continues
// with this choice then needs more memory than the task allows.
static bool too_large(const Bounds *l, const Depth *d, const KindTable *t, uint32_t set) {
  double bytes = 0;
  const double *share = t->held + (size_t)set * l->nheld;
  for (uint32_t i = 0; i < l->nheld; i++)
    bytes +=
        l->held[i].amount * (l->held[i].amount > 0 ? d->held[i] * share[i] * d->rest_held[i] : 1);
  return bytes > l->task->memory * (1 + 1e-9);
}

double bounds_with(Bounds *l, int k, uint32_t set, double limit) {
  const Depth *d = &l->depth[k];
  const KindTable *t = l->axis[k];
  double seconds =
      parts_with(l, d, t, set) + max_of(d->latency, l->cost[t->first + set]->cost.latency);
  if (seconds >= limit) return seconds;
  seconds += values_with(l, d, t, set);
  if (seconds >= limit) return seconds;
  if (!l->together) seconds += short_blocks(l, k, set);
  return seconds < limit && too_large(l, d, t, set) ? (double)INFINITY : seconds;
}

void bounds_assign(Bounds *l, int k, uint32_t set) {
  const Depth *d = &l->depth[k];
  Depth *to = &l->depth[k + 1];
  const KindTable *t = l->axis[k];
  size_t parts = (size_t)set * l->nparts, held = (size_t)set * l->nheld,
         values = (size_t)set * l->nvalues;
  for (uint32_t i = 0; i < l->nparts; i++) {
    to->share[i] = d->share[i] * t->share[parts + i];
    to->upper[i] = min_of(d->upper[i], t->upper[parts + i]);
  }
  for (uint32_t i = 0; i < l->nheld; i++) to->held[i] = d->held[i] * t->held[held + i];
  for (uint32_t i = 0; i < l->nvalues; i++) {
    double left = t->left[values + i], passed = t->passed[values + i], flow[FLOWS];
    flows_with(d, i, t, values + i, flow);
    for (int f = 0; f < FLOWS; f++) to->flow[f][i] = flow[f];
    to->moved[i] = d->moved[i] || t->moved[values + i];
    to->left[i] = d->left[i] * left;
    to->passed[i] = d->passed[i] * passed;
  }
  to->latency = max_of(d->latency, l->cost[t->first + set]->cost.latency);
  l->chosen[k] = set;
}

// -- two axes together --------------------------------------------------------------------------

struct PairBound {
  double *share, *flow[FLOWS];
  double latency;
};

const PairBound *bounds_pair(Bounds *l, const PartTable *parts, const PartCosts *together) {
  PairBound *p = arena_new_of(l->a, PairBound);
  *p = (PairBound){.share = arena_array(l->a, double, l->nparts + 1),
                   .latency = together->cost.latency};
  for (uint32_t i = 0; i < parts->part.n; i++)
    if (l->part_class[i])
      p->share[l->part_class[i] - 1] += parts->part.at[i].amount * together->share[i];
  for (uint32_t i = 0; i < l->nparts; i++)
    p->share[i] = l->part[i].amount != 0 ? p->share[i] / l->part[i].amount : 1;
  for (int f = 0; f < FLOWS; f++) {
    p->flow[f] = arena_array(l->a, double, l->nvalues + 1);
    for (uint32_t v = 0; v < parts->nvalues; v++)
      if (l->value_class[v])
        p->flow[f][l->value_class[v] - 1] += parts->weight[v] * together->flow[f][v];
  }
  return p;
}

void bounds_begin_pair(Bounds *l, int naxes, const uint32_t kind[], const PairBound *pair,
                       const uint32_t set[2]) {
  bounds_begin(l, naxes, kind);
  bounds_assign(l, 0, set[0]);
  bounds_assign(l, 1, set[1]);
  Depth *d = &l->depth[2];
  for (uint32_t i = 0; i < l->nparts; i++) {
    d->share[i] = pair->share[i];
    d->upper[i] = min_of(d->upper[i], max_of(pair->share[i], 0));
  }
  for (int f = 0; f < FLOWS; f++) memcpy(d->flow[f], pair->flow[f], sizeof(double) * l->nvalues);
  for (uint32_t i = 0; i < l->nvalues; i++) {
    d->moved[i] = false;
    for (int f = 0; f < FLOWS; f++) d->moved[i] |= is_some(pair->flow[f][i]);
  }
  d->latency = pair->latency;
  l->together = true;
}

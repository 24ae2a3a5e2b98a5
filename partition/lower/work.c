// Flops, padding and bytes of one processor, for `check`.
#include <math.h>

#include "partition/sharding/sharding_internal.h"

// Adds to *held the elements of all blocks of declared tensor n, and to *valid those of them that
// are not padding.
static void block_elements(const Graph *g, const Node *n, double *held, double *valid) {
  for (int64_t r = 0; r < mesh_size(g->mesh); r++) {
    double block = 1, own = 1;
    for (int i = 0; i < n->dims->n; i++) {
      const Dim *d = dim_get(g->dims, n->dims->at[i]);
      block *= (double)d->size;
      own *=
          (double)dim_valid(g->dims, g->mesh, n->dims->at[i], r, dim_get(g->dims, d->whole)->size);
    }
    *held += block;
    *valid += own;
  }
}

// Returns the share of the n blocks of dims, on all processors together, that is within the dims.
static double share_within(const Graph *g, int n, const DimId *dims) {
  double share = 1;
  for (int i = 0; i < n; i++) {
    const Dim *d = dim_get(g->dims, dims[i]), *whole = dim_get(g->dims, d->whole);
    if (d->axes.n && !d->out)
      share *= (double)whole->size / (double)(d->size * axes_size(g->mesh, d->axes));
  }
  return share;
}

// Returns the flops of contractions of one processor for elements that are beyond the end of a dim.
static double flops_beyond(const Graph *g) {
  double flops = 0;
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    if (node->op != OP_CONTRACT) continue;
    double within = share_within(g, node->dims->n, node->dims->at) *
                    share_within(g, node->attr->ndims, node->attr->dims);
    flops += (1 - within) * (double)contract_flops(g, n, NULL, NULL) *
             (double)region_times(g, node->region);
  }
  return flops;
}

PartitionFacts partition_facts(const Graph *whole, const Graph *lowered) {
  PartitionFacts f = {.flops = graph_flops(lowered), .flops_whole = graph_flops(whole)};
  double held = 0, valid = 0;
  for (uint32_t d = 0; d < lowered->decl.n; d++) {
    const Decl *decl = &lowered->decl.at[d];
    if (!decl->node) continue;
    int64_t bytes = node_bytes(lowered, decl->node);
    if (decl->kind == DECL_PARAM || decl->kind == DECL_STATE) f.parameter_bytes += bytes;
    if (decl->kind == DECL_SLOT) f.optimizer_bytes += bytes;
    block_elements(lowered, graph_node(lowered, decl->node), &held, &valid);
  }
  if (f.flops_whole) {
    double all = (double)mesh_size(lowered->mesh) / (double)f.flops_whole;
    f.redundant_flops = (double)f.flops * all - 1;
    f.idle_flops = flops_beyond(lowered) * all;
  }
  if (fabs(f.redundant_flops) < 1e-12) f.redundant_flops = 0;
  if (fabs(f.redundant_flops - f.idle_flops) < 1e-12) f.idle_flops = f.redundant_flops;
  f.padding = held > 0 ? 1 - valid / held : 0;
  return f;
}

void partition_facts_rematerialised(PartitionFacts *f, const Graph *once, const Graph *g) {
  f->flops = graph_flops(g);
  f->flops_rematerialised = f->flops - graph_flops(once);
}

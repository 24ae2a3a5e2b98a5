// The tables of the fields of a Graph, for pack.c. They are only written (pack_graph.h), so
// integers have no ranges. A member that is added to one of these structs gets a row here: the unit
// test ir_pack.c finds members without one.
#include "ir/graph/pack_graph.h"
#include "ir/graph/graph.h"
#include "ir/program/pack_fields.h"

#define NUMBERS(T, member, counter)                                                                \
  BY_RULE(T, member, INT, MEMBER, COUNTED(T, counter), .n = 1, .low = 0, .high = INT64_MAX)
#define REALS(T, member, counter) BY_RULE(T, member, REAL, MEMBER, COUNTED(T, counter), .n = 1)
#define DIMS(T, member, counter) USED(T, member, INT, counter, .low = 0, .high = UINT32_MAX)
#define ONE(T, member, table) BY_RULE(T, member, RECORD, ONE, .n = 1, .record = &table##_record)
// The elements of a VEC, whose capacity is left out.
#define VECTOR(T, member, table)                                                                   \
  ANY(T, member.n), LEFT(T, member.cap), LIST(T, member.at, member.n, table)

// -- nodes --------------------------------------------------------------------------------------

static const PackField dims_fields[] = {COUNT(Dims, n, MAX_RANK), DIMS(Dims, at, n)};
static RECORD(Dims, dims);

static const PackField attr_fields[] = {
    ANY(Attr, type),
    ANY(Attr, decl),
    ALL(Attr, num, REAL, 2, .low = 0),
    COUNT(Attr, ndims, UINT8_MAX),
    COUNT(Attr, nto, UINT8_MAX),
    NUMBERS(Attr, dims, ndims),
    NUMBERS(Attr, to, nto),
    HAS(Attr, axes, axes),
    ANY(Attr, monoid),
    ANY(Attr, ndata),
    REALS(Attr, data, ndata),
    HAS(Attr, affine, affine),
    ANY(Attr, key),
    ANY(Attr, carry),
    ANY(Attr, tag),
    ANY(Attr, flags),
    ANY(Attr, region),
};
static RECORD(Attr, attr);

static const PackField origin_fields[] = {
    POS(Origin, pos),       TEXT(Origin, value),    TEXT(Origin, why), TEXT(Origin, gradient_of),
    ANY(Origin, composite), BOOL(Origin, backward), ANY(Origin, of),   ANY(Origin, reader),
};
static RECORD(Origin, origin);

static const PackField node_fields[] = {
    ANY(Node, op),
    ANY(Node, type),
    ANY(Node, instance),
    ANY(Node, region),
    COUNT(Node, nargs, MAX_ARGS),
    ONE(Node, dims, dims),
    NUMBERS(Node, args, nargs),
    LEFT(Node, attr_hash),
    ONE(Node, attr, attr),
    ONE(Node, origin, origin),
};
static RECORD(Node, node);

// -- declarations, outputs, loops, layout -------------------------------------------------------

static const PackField decl_fields[] = {
    ANY(Decl, kind), TEXT(Decl, name),         ANY(Decl, type), COUNT(Decl, rank, MAX_RANK),
    ANY(Decl, node), DIMS(Decl, dims, rank),   ANY(Decl, of),   BOOL(Decl, frozen),
    POS(Decl, pos),  HAS(Decl, init, initial),
};
static RECORD(Decl, decl);

static const PackField output_fields[] = {
    ANY(Output, kind),        TEXT(Output, name),  TEXT(Output, gradient_of),
    ANY(Output, value),       ANY(Output, target), COUNT(Output, rank, MAX_RANK),
    DIMS(Output, dims, rank),
};
static RECORD(Output, output);

static const PackField name_fields[] = {
    TEXT(Name, name),       ANY(Name, kind),    ANY(Name, value), COUNT(Name, rank, MAX_RANK),
    DIMS(Name, dims, rank), BOOL(Name, stated), POS(Name, pos),
};
static RECORD(Name, name);

static const PackField region_fields[] = {
    ANY(Region, parent),     ANY(Region, t),        BOOL(Region, reverse),
    BOOL(Region, recompute), BOOL(Region, guarded), POS(Region, pos),
};
static RECORD(Region, region);

static const PackField rule_fields[] = {
    ANY(LayoutRule, scope), TEXT(LayoutRule, pattern), TEXT(LayoutRule, dim),
    BOOL(LayoutRule, soft), BOOL(LayoutRule, none),    HAS(LayoutRule, axes, axes),
    POS(LayoutRule, pos),   POS(LayoutRule, dim_pos),  POS(LayoutRule, axis_pos),
};
static RECORD(LayoutRule, rule);

static const PackField layout_fields[] = {COUNT(Layout, n, UINT32_MAX),
                                          LIST(Layout, rule, n, rule)};
static RECORD(Layout, layout);

// -- training -----------------------------------------------------------------------------------

static const PackField optimizer_fields[] = {
    ANY(OptimizerSpec, kind),          REAL(OptimizerSpec, lr),
    REAL(OptimizerSpec, momentum),     REAL(OptimizerSpec, beta1),
    REAL(OptimizerSpec, beta2),        REAL(OptimizerSpec, eps),
    REAL(OptimizerSpec, weight_decay), REAL(OptimizerSpec, rho),
    REAL(OptimizerSpec, decay),        REAL(OptimizerSpec, momentum_decay),
    BOOL(OptimizerSpec, nesterov),     TEXT(OptimizerSpec, no_decay),
    TEXT(OptimizerSpec, out),          TEXT(OptimizerSpec, each),
    POS(OptimizerSpec, pos),
};
static RECORD(OptimizerSpec, optimizer);

static const PackField schedule_fields[] = {
    ANY(ScheduleSpec, kind),
    REAL(ScheduleSpec, warmup),
    REAL(ScheduleSpec, total),
    REAL(ScheduleSpec, final),
    REAL(ScheduleSpec, scale),
    REAL(ScheduleSpec, rate),
    REAL(ScheduleSpec, every),
    REAL(ScheduleSpec, factor),
    REAL(ScheduleSpec, start),
    REAL(ScheduleSpec, rise),
    REAL(ScheduleSpec, grow),
    REAL(ScheduleSpec, decay),
    REAL(ScheduleSpec, patience),
    REAL(ScheduleSpec, threshold),
    TEXT(ScheduleSpec, of),
    ANY(ScheduleSpec, best),
    ANY(ScheduleSpec, npieces),
    ALL(ScheduleSpec, at, REAL, MAX_PIECES, .low = 0),
    ALL(ScheduleSpec, value, REAL, MAX_PIECES, .low = 0),
    ANY(ScheduleSpec, in_epochs),
    POS(ScheduleSpec, pos),
};
static RECORD(ScheduleSpec, schedule);

static const PackField group_fields[] = {TEXT(GroupSpec, pattern),
                                         HAS(GroupSpec, optimizer, optimizer)};
static RECORD(GroupSpec, group);

static const PackField train_fields[] = {
    TEXT(TrainSpec, loss),
    HAS(TrainSpec, optimizer, optimizer),
    COUNT(TrainSpec, ngroups, UINT32_MAX),
    LIST(TrainSpec, group, ngroups, group),
    TEXT(TrainSpec, parameters),
    TEXT(TrainSpec, frozen),
    ANY(TrainSpec, repeat),
    HAS(TrainSpec, schedule, schedule),
    REAL(TrainSpec, clip_norm),
    REAL(TrainSpec, clip_value),
    ANY(TrainSpec, steps),
    ANY(TrainSpec, epochs),
    ANY(TrainSpec, evaluate),
    ANY(TrainSpec, log),
    ANY(TrainSpec, checkpoint),
    ANY(TrainSpec, accumulate),
    ANY(TrainSpec, sync),
    ANY(TrainSpec, replicas),
    BOOL(TrainSpec, sync_slots),
    POS(TrainSpec, sync_pos),
    ANY(TrainSpec, ahead),
    REAL(TrainSpec, average),
    TEXT(TrainSpec, stop_early),
    ANY(TrainSpec, patience),
    ANY(TrainSpec, stop_best),
    POS(TrainSpec, stop_pos),
    ANY(TrainSpec, on_nonfinite),
    BOOL(TrainSpec, scaled),
    POS(TrainSpec, pos),
};
static RECORD(TrainSpec, train);

static const PackField spec_fields[] = {
    ALL(ModelSpec, data, RECORD, DATA_BLOCKS, .record = &pack_of_data_block),
    COUNT(ModelSpec, ntrain, UINT32_MAX),
    LIST(ModelSpec, train, ntrain, train),
    ANY(ModelSpec, seed),
};
static RECORD(ModelSpec, spec);

// -- the graph ----------------------------------------------------------------------------------

static const PackField graph_fields[] = {
    LEFT(Graph, arena),         LEFT(Graph, dims),
    ONE(Graph, mesh, mesh),     ANY(Graph, stage),
    TEXT(Graph, model),         VECTOR(Graph, node, node),
    VECTOR(Graph, decl, decl),  VECTOR(Graph, output, output),
    VECTOR(Graph, name, name),  VECTOR(Graph, region, region),
    HAS(Graph, layout, layout), HAS(Graph, spec, spec),
    HAS(Graph, origin, origin), ANY(Graph, exact.n),
    LEFT(Graph, exact.cap),     REALS(Graph, exact.at, exact.n),
    LEFT(Graph, table),
};
const PackRecord pack_of_graph = {"Graph", sizeof(Graph), countof(graph_fields), graph_fields};

static const PackField dim_fields[] = {
    TEXT(Dim, name),      ANY(Dim, size),    ANY(Dim, whole),
    HAS(Dim, axes, axes), ANY(Dim, follows), POS(Dim, pos),
    ANY(Dim, out),        ANY(Dim, tap),     HAS(Dim, footprint, footprint),
    BOOL(Dim, local),     ANY(Dim, by),      LEFT(Dim, live),
};
const PackRecord pack_of_dim = {"Dim", sizeof(Dim), countof(dim_fields), dim_fields};

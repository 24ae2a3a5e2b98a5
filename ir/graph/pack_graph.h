// The records of a Graph and of a Dim, for pack_write. They are only written: the compile cache
// finds a program by all that its compile reads.
#ifndef IR_PACK_GRAPH_H
#define IR_PACK_GRAPH_H

#include "ir/program/pack.h"

// All of a Graph but its table of dims, and the dims of its data blocks.
extern const PackRecord pack_of_graph;
// All of a Dim but Dim.live, which whole dims of a model do not have.
extern const PackRecord pack_of_dim;

#endif

// Flags of ordered operations (cumsum, cummax, cum_index, argsort, top_k). Nodes have them in
// Attr.flags, instructions in Ordered.flags.
#ifndef IR_ORDERED_H
#define IR_ORDERED_H

enum { ORDER_EXCLUSIVE = 1, ORDER_REVERSE = 2, ORDER_DESCENDING = 4 };

#endif

/* The op table: every op is one row, from which everything else about it follows. Rows are next to their rules in
 * ops_*.c. */
#include "graph_impl.h"

#define MEGA_OP_ENTRY(upper, lower) [OP_##upper] = &mega_op_row_##lower,
const op_row *const mega_op_table[OP_COUNT] = {MEGA_OP_LIST(MEGA_OP_ENTRY)};
#undef MEGA_OP_ENTRY

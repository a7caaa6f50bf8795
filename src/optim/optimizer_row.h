/* The caller's own optimizer (mega_optimizer_row), for optimizer.c. */
#ifndef MEGALITH_OPTIMIZER_ROW_H
#define MEGALITH_OPTIMIZER_ROW_H

#include "megalith/optim.h"

mega_status mega_optimizer_row_check(const mega_optimizer_row *row);
int mega_optimizer_row_states(const mega_optimizer_row *row);
/* Updates all elements of the call. weight: bf16 copies of param, which are written too; NULL: none. */
void mega_optimizer_row_run(const mega_optimizer_row *row, mega_team *team, const mega_optimizer_call *call,
                            void *weight);

#endif

/* Checks whether a model that only runs forward fits into memory. */
#ifndef MEGALITH_BUDGET_H
#define MEGALITH_BUDGET_H

#include "megalith/engine.h"

/* To be called before anything is allocated. Compares the memory of the engine and of the process itself with limit (0:
 * none). For the message: what, such as "generation"; remedy, the options to change if the weights alone would fit. */
mega_status budget_check(size_t limit, const mega_engine *e, const char *what, const char *remedy);

#endif

/* Whether a model that only runs forward may be held. */
#ifndef MEGALITH_BUDGET_H
#define MEGALITH_BUDGET_H

#include "megalith/engine.h"

/* Before anything is allocated: what the engine will hold and the process itself against limit (0: none). what:
 * "generation"; remedy: what would make it fit where the weights alone do. */
mega_status budget_check(size_t limit, const mega_engine *e, const char *what, const char *remedy);

#endif

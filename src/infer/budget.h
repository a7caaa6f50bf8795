/* Whether a model that only runs forward may be held. */
#ifndef MEGALITH_BUDGET_H
#define MEGALITH_BUDGET_H

#include "megalith/program.h"

/* Before anything is allocated: the weights of params, `count` programs and the process itself against limit (0: none).
 * what: "generation"; remedy: what would make it fit. */
mega_status budget_check(size_t limit, const mega_params *params, const mega_program *const *program, int count,
                         const char *what, const char *remedy);

#endif

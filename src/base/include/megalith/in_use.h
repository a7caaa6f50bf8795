/* Counts who uses an object that somebody else may destroy, so that destroying it too early, as from a callback of a
 * call that uses it, is refused and frees nothing. */
#ifndef MEGALITH_IN_USE_H
#define MEGALITH_IN_USE_H

#include "megalith/threads.h"
#include <stdatomic.h>
#include <stdbool.h>

typedef atomic_int mega_users; /* a member of the object; 0: nobody uses it. Any thread may count */

void mega_users_add(mega_users *users, int change); /* 1: one more uses the object; -1: one less. NULL: nothing */
/* Returns is_used; then warns that `call` (mega_world_destroy) did nothing because the object is used by `by`, and
 * leaves that as the message. */
bool mega_refuse_destroy(bool is_used, const char *call, const char *by);

mega_users *mega_team_users(mega_team *team); /* NULL for NULL */

#endif

/* Counts who uses an object (in_use.h). */
#include "megalith/in_use.h"
#include "megalith/log.h"

void mega_users_add(mega_users *users, int change)
{
    if (users != NULL) atomic_fetch_add(users, change);
}

bool mega_refuse_destroy(bool is_used, const char *call, const char *by)
{
    if (!is_used) return false;
    (void)MEGA_MISTAKE("%s: still used by %s; call it after that has ended: nothing was freed", call, by);
    mega_warn("%s", mega_error_message());
    return true;
}

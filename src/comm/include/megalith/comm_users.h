/* Who uses a world or a layout, which then cannot be destroyed (in_use.h). */
#ifndef MEGALITH_COMM_USERS_H
#define MEGALITH_COMM_USERS_H

#include "megalith/comm.h"
#include "megalith/in_use.h"

mega_users *mega_world_users(mega_world *world);    /* NULL for NULL. Its layouts count by themselves */
mega_users *mega_layout_users(mega_layout *layout); /* NULL for NULL */

#endif

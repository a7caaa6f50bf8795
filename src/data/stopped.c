/* The error when a signal ends work on data. A separate file, so that readers of files link without data sets. */
#include "data_impl.h"

mega_status mega_data_stopped(const char *what)
{
    return MEGA_FAIL(MEGA_ERR_INTERRUPTED, "%s was interrupted by a signal", what);
}

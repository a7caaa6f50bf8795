/* Sum over rows; the threads share chunks of rows (share.h). */
#include "cpu/share.h"

CPU_SUMS_KERNEL(mega_cpu_column_sum, column_sum, sum);

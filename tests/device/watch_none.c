/* In the place of the watch, for a library without it. */
#include "watch.h"

void watch_begin(void)
{
}
void watch_memory_add(const void *at, size_t bytes, bool is_written)
{
    (void)at;
    (void)bytes;
    (void)is_written;
}
void watch_memory_remove(const void *at)
{
    (void)at;
}
void watch_work_begin(const watch_work *work)
{
    (void)work;
}
void watch_range(const void *at, size_t bytes, bool is_write)
{
    (void)at;
    (void)bytes;
    (void)is_write;
}
uint64_t watch_reports(void)
{
    return 0;
}
uint64_t watch_accesses(void)
{
    return 0;
}
const char *watch_first_report(void)
{
    return "";
}
void watch_forget(bool is_quiet)
{
    (void)is_quiet;
}

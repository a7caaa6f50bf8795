/* What looks on while a step runs. */
#ifndef MEGALITH_ENGINE_WATCH_H
#define MEGALITH_ENGINE_WATCH_H

#include "engine_impl.h"

/* monitor.c: monitors and profilers. begin: before the first pass of a step, with its number of micro-batches. pass:
 * after each pass, is_last: of the last micro-batch. step: after the update; `seconds`: of the whole step. memory: logs
 * the memory. event: gives a value to the monitors. is_open: whether there are any, which it opens. None of them
 * fails. */
bool engine_monitor_is_open(mega_engine *e);
void engine_monitor_begin(mega_engine *e, int64_t micro_batches);
void engine_monitor_pass(mega_engine *e, bool is_forward, bool is_last, const mega_step_times *pass);
void engine_monitor_step(mega_engine *e, const mega_step_result *r, double seconds);
void engine_monitor_memory(const mega_engine *e, const char *where);
void engine_monitor_event(mega_engine *e, const char *tag, double value);
void engine_monitor_close(mega_engine *e);

#endif

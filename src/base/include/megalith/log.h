/* The log sink. The library never writes to a stream itself: it passes each line to the function that the program set,
 * on any thread. Each rank warns for itself: a program that sets the sink on one rank gets each warning once. */
#ifndef MEGALITH_LOG_H
#define MEGALITH_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mega_log_level {
    MEGA_LOG_ERROR,
    MEGA_LOG_WARN,
    MEGA_LOG_INFO,
    MEGA_LOG_DEBUG,
    MEGA_LOG_TRACE
} mega_log_level;

/* Receives one line without its newline. Without a sink (the default) lines are dropped. */
typedef void mega_log_sink(void *user, mega_log_level level, const char *line);
void mega_log_set_sink(mega_log_sink *sink, void *user);
void mega_log(mega_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define mega_info(...)  mega_log(MEGA_LOG_INFO, __VA_ARGS__)
#define mega_warn(...)  mega_log(MEGA_LOG_WARN, __VA_ARGS__)
#define mega_debug(...) mega_log(MEGA_LOG_DEBUG, __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif

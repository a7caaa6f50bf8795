/* Invariants that we can prove. Failing is our bug: prints file, line, values, then aborts. Never for a user's mistake.
 */
#ifndef MEGALITH_ASSERT_H
#define MEGALITH_ASSERT_H

#ifdef __cplusplus
extern "C" {
#endif

/* An attribute and not _Noreturn, which is not C++. */
void mega_assert_failed(const char *expression, const char *file, int line, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 4, 5)));

#ifdef MEGA_ASSERTS
#define MEGA_ASSERT(condition, ...)                                                        \
    do {                                                                                   \
        if (!(condition)) mega_assert_failed(#condition, __FILE__, __LINE__, __VA_ARGS__); \
    } while (0)
#else
#define MEGA_ASSERT(condition, ...) ((void)0)
#endif

/* Level of the costly checks, from the environment variable MEGA_CHECK: 0 none, 1 local (NaN per op, arena canaries,
 * verified programs), 2 also between ranks. */
int mega_check_level(void);

#ifdef __cplusplus
}
#endif

#endif

/* Assertions about invariants that we can prove. A failed one is a bug of megalith: it prints file, line and values and
 * aborts. Never used for a user's mistake. */
#ifndef MEGALITH_ASSERT_H
#define MEGALITH_ASSERT_H

/* an attribute, because _Noreturn is not C++ */
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

/* Returns the level of the costly checks, from the environment variable MEGA_CHECK: 0 none, 1 local (NaN per op, arena
 * canaries, verified programs), 2 also between ranks. */
int mega_check_level(void);

#endif

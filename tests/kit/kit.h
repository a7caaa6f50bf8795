/* Functions shared by all tests. Include this instead of cmocka.h. */
#ifndef MEGALITH_TESTS_KIT_H
#define MEGALITH_TESTS_KIT_H

/* cmocka.h requires these four headers before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Fails the test at this line, with the error's message, unless the status is MEGA_OK. (The type is int instead of
 * mega_status so that this header needs no other.) */
#define need(status) mega_kit_need((status), __FILE__, __LINE__)
void mega_kit_need(int status, const char *file, int line);
/* Fails the test at this line unless the status is `expected` and the error's message contains `said`. */
#define need_error(status, expected, said) mega_kit_need_error((status), (expected), (said), __FILE__, __LINE__)
void mega_kit_need_error(int status, int expected, const char *said, const char *file, int line);
/* Fails the test at this line unless the text contains `part`. */
#define assert_has(text, part) mega_kit_assert_has((text), (part), __FILE__, __LINE__)
void mega_kit_assert_has(const char *text, const char *part, const char *file, int line);

/* Returns the path of a shared file, for example "gpt2/vocab.json", or NULL if it does not exist: under MEGA_TEST_DATA,
 * else under $MEGA_SOURCE/../shared/data. Borrowed until the program ends. */
const char *mega_kit_data(const char *name);
/* Like mega_kit_data, but if the file does not exist, ends the running test as skipped and prints the reason. */
const char *mega_kit_need_data(const char *name);
/* Returns the path of a file of the repository: $MEGA_SOURCE/name. Borrowed until the program ends. */
const char *mega_kit_source(const char *name);

/* Creates an empty folder under TMPDIR (else /tmp) and returns its path. It is removed with its contents when the
 * program ends. */
const char *mega_kit_temp_folder(void);
/* Returns folder/name. Borrowed until the program ends. */
const char *mega_kit_path(const char *folder, const char *name);
/* Writes text to a file; fails the test if this is not possible. */
void mega_kit_write(const char *path, const char *text);

/* Returns when the thread sleeps or has ended; at once if the system does not report it. tid = pid is the main
 * thread. */
void mega_kit_until_asleep(int pid, int tid);

/* Returns the next number of Marsaglia's xorshift64; *state is its last one, and not 0. */
uint64_t mega_kit_next(uint64_t *state);
/* Fill out with n floats from Philox: uniform in [-1, 1), or normal N(0, 1). Equal seeds give equal numbers. */
void mega_kit_random(float *out, int64_t n, uint32_t seed);
void mega_kit_normal(float *out, int64_t n, uint32_t seed);
/* Return ||a-b|| / ||b||, in double; ||a-b|| if b is all zero. NaN anywhere gives NaN. */
double mega_kit_relative_error(const float *a, const float *b, int64_t n);
double mega_kit_relative_error_f64(const double *a, const double *b, int64_t n);
/* Fails the test, and prints the worst index, unless the relative error is at most `tolerance`. */
void mega_kit_assert_close(const char *what, const float *a, const float *b, int64_t n, double tolerance);

/* Returns a Python that has torch, transformers, tokenizers, …: the environment's MEGA_PEERS, or NULL. */
const char *mega_kit_peers(void);
/* Like mega_kit_peers, but ends the running test as skipped if there is none. */
const char *mega_kit_need_peers(void);

/* Calls `attempt` with its first allocation failing, then its second, and so on, until it makes fewer allocations. Each
 * failed attempt must return MEGA_ERR_MEMORY with a message; the last must succeed. `attempt` frees what it allocated.
 * Returns the number of allocations of a whole attempt. */
typedef int mega_kit_attempt(void *user);
int mega_kit_fail_each_allocation(mega_kit_attempt *attempt, void *user);

/* Prints "SKIPPED: reason" and ends the running test as skipped. */
void mega_kit_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif

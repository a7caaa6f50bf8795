/* Status codes, and the per-thread record of what went wrong.
 *
 * A function that can fail returns mega_status and leaves a message that names the subject, what was found, what was
 * expected, and what to do. The first function that knows the cause writes the message with MEGA_FAIL; callers pass the
 * status on with MEGA_TRY and may prepend context with MEGA_CONTEXT. MEGA_NO_MEMORY is for failed allocations:
 * "SUBJECT: no memory for WHAT". The library prints nothing. */
#ifndef MEGALITH_STATUS_H
#define MEGALITH_STATUS_H

#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* docs/errors.md is written from these comments (tools/make_errors_page.sh). */
typedef enum mega_status {
    MEGA_OK = 0,
    MEGA_ERR_USAGE,       /* an option or argument is wrong */
    MEGA_ERR_NOT_FOUND,   /* a file, a folder or a name does not exist */
    MEGA_ERR_IO,          /* the system refused to open, read, write, map or sync a file */
    MEGA_ERR_FORMAT,      /* a file or a text is damaged or not in the expected format */
    MEGA_ERR_MEMORY,      /* an allocation failed, or a plan does not fit into the memory */
    MEGA_ERR_NUMERIC,     /* a value is not finite */
    MEGA_ERR_UNSUPPORTED, /* what is asked for is known and not implemented yet */
    MEGA_ERR_INTERRUPTED, /* a signal asked to stop */
    MEGA_ERR_BUSY,        /* another process works on the same output */
    MEGA_ERR_COMM         /* another rank failed or left, or the transport between ranks did */
} mega_status;

/* A function whose status the caller must use: compilers warn if it is dropped. */
#define MEGA_CHECK_RESULT __attribute__((warn_unused_result))

/* "usage", "not found", … */
const char *mega_status_name(mega_status st);

/* Records code and message for this thread, replacing an earlier record, and returns code. */
mega_status mega_error_set(mega_status code, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Puts "text: " in front of this thread's record. */
void mega_error_prepend(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Returns the message; borrowed until the next call on this thread; "" if nothing failed. */
const char *mega_error_message(void);
/* Returns the source position of the MEGA_FAIL, "file.c:123"; for a mistake in the options, that of the rule that found
 * it. */
const char *mega_error_where(void);
void mega_error_clear(void);
/* Moves a record between threads or ranks: copies this thread's record out, or sets it. */
#define MEGA_ERROR_BYTES 4096
typedef struct mega_error_record {
    mega_status code;
    char text[MEGA_ERROR_BYTES];
    char where[96]; /* as mega_error_where returns it */
} mega_error_record;
void mega_error_get(mega_error_record *out);
/* Like mega_error_get, for a failure with status `st`: the record's code is `st` in any case, and if the function that
 * failed recorded no message for that status, the text says so. */
void mega_error_get_of(mega_status st, mega_error_record *out);
mega_status mega_error_restore(const mega_error_record *record);

/* Returns `code` itself and not the result of a function in another file, so that compilers and analyzers see that a
 * failure is never MEGA_OK and that values set only on success are not used after it. `code` is evaluated twice. */
static inline mega_status mega_error_code(mega_status recorded, mega_status code)
{
    (void)recorded;
    return code;
}
#define MEGA_FAIL(code, ...) mega_error_code(mega_error_set((code), __FILE__, __LINE__, __VA_ARGS__), (code))
/* The most frequent failure: a mistake of the user, or of the caller of a function. */
#define MEGA_MISTAKE(...)             MEGA_FAIL(MEGA_ERR_USAGE, __VA_ARGS__)
#define MEGA_NO_MEMORY(subject, what) MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory for %s", subject, what)
#define MEGA_TRY(call)                                            \
    do {                                                          \
        const mega_status mega_try_status_ = (call);              \
        if (mega_try_status_ != MEGA_OK) return mega_try_status_; \
    } while (0)
/* Drops the status of a call whose failure does not matter; a comment beside it says why. */
#define MEGA_IGNORE(call)                         \
    do {                                          \
        const mega_status mega_ignored_ = (call); \
        (void)mega_ignored_;                      \
    } while (0)
#define MEGA_CONTEXT(...) mega_error_prepend(__VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif

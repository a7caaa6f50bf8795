/* For the programs of tests/ranks that call an engine wrongly, and for those whose samples are a few small tokens. */
#ifndef MEGALITH_TESTS_RANK_CALLS_H
#define MEGALITH_TESTS_RANK_CALLS_H

#include "megalith/engine_commands.h"
#include "rank.h"
#include <string.h>

/* Returns 1, and prints what came instead, unless the call returned `expected` and its message contains `said`; else
 * 0. */
static inline int rank_call_differs(const mega_engine *e, const char *call, mega_status st, mega_status expected,
                                    const char *said)
{
    if (st == expected && strstr(mega_error_message(), said) != NULL) return 0;
    fprintf(stderr, "rank %d, %s: %s, \"%s\", expected \"%s\"\n", mega_world_rank(mega_engine_world(e)), call,
            mega_status_name(st), mega_error_message(), said);
    return 1;
}

enum { RANK_SEQ = 4, RANK_IDS = 10 };

static inline int32_t rank_token(int64_t sample, int i)
{
    return (int32_t)((sample * 3 + i * (1 + sample % 4)) % RANK_IDS);
}

/* Reads "tokens", RANK_SEQ ids below RANK_IDS. */
static inline mega_status rank_read_tokens(void *user, int64_t index, mega_sample *sample)
{
    int32_t token[RANK_SEQ];
    (void)user;
    for (int i = 0; i < RANK_SEQ; i++) token[i] = rank_token(index, i);
    return mega_sample_set_i32(sample, "tokens", token, RANK_SEQ);
}

#endif

/* Runs over many samples: the texts of an encoder, for embeddings and for what fills masks, and the windows of an
 * evaluation; and a row of logits, also of a generation. */
#ifndef MEGALITH_INFER_ENCODE_H
#define MEGALITH_INFER_ENCODE_H

#include "megalith/batch.h"
#include "megalith/engine_commands.h"

/* `fill` may be called for numbers beyond the last sample, which fill up a batch; `take` once after each run, with the
 * number of its first sample, which may be beyond the last one, too: with expert parallelism all ranks make as many
 * runs. Both in the order of the samples, those of other ranks of dp left out. */
typedef struct encode_work {
    int64_t samples;
    void (*fill)(void *user, int64_t number, int64_t row, mega_sample *sample); /* row: of the batch */
    void (*take)(void *user, int64_t first);
    void *user;
} encode_work;

/* Collective over the world: the ranks of dp divide the samples. The engine is in MEGA_EVAL. */
mega_status encode_run(mega_engine *e, const encode_work *w);
/* Fills what an encoder reads of a text; without tokens, a sample that nobody reads. */
void encode_fill(mega_sample *sample, int64_t positions, const int32_t *tokens, int64_t count, int32_t pad);
/* Checks that ids are of the vocabulary; call and text are for messages. */
mega_status encode_check_ids(const char *call, const char *text, int64_t number, const int32_t *ids, int64_t count,
                             int64_t vocab);
/* Reads row `row` of the output "logits" of `rows` rows into out [vocab], in float. Each rank of tp has computed those
 * of a part of the padded vocabulary. */
void encode_logits(const mega_engine *e, const mega_run_value *all, int64_t row, int64_t rows, int64_t vocab,
                   int64_t padded_vocab, float *out);

/* The numbers of an output, read a piece at a time; begin with .value alone. */
enum { ENCODE_BYTES = 64 << 10 };
typedef struct encode_numbers {
    const mega_run_value *value;
    int64_t first, count;                        /* of the numbers in `piece` */
    double piece[ENCODE_BYTES / sizeof(double)]; /* of any type */
} encode_numbers;
/* Returns number i. Ascending numbers are read once. */
double encode_number(encode_numbers *x, int64_t i);

#endif

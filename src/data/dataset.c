/* The order of a data set's samples, and reading the samples of a batch. */
#include "megalith/batch.h"
#include "megalith/philox.h"

enum { ROUNDS = 4 };

/* A Feistel network over 2 * bits bits: it is a permutation for any round function (Luby and Rackoff 1988). */
static uint64_t permutation_mix(uint64_t x, int bits, uint32_t seed, uint32_t epoch)
{
    const uint64_t mask = (1ULL << bits) - 1;
    uint64_t left = x >> bits, right = x & mask;
    for (uint32_t r = 0; r < ROUNDS; r++) {
        const mega_philox counter = {{(uint32_t)right, (uint32_t)(right >> 32), epoch, r}};
        const uint64_t next = left ^ (mega_philox4x32(counter, seed, 0x6f726465).v[0] & mask);
        left = right;
        right = next;
    }
    return left << bits | right;
}

/* Numbers of at least count are permuted again until they are less; this takes four rounds on average at most. */
static int64_t permutation_at(int64_t at, int64_t count, uint32_t seed, uint32_t epoch)
{
    int bits = 1;
    while (bits < 31 && (1LL << (2 * bits)) < count) bits++;
    uint64_t x = (uint64_t)at;
    do x = permutation_mix(x, bits, seed, epoch);
    while (x >= (uint64_t)count);
    return (int64_t)x;
}

int64_t mega_dataset_index(const mega_dataset *d, uint32_t seed, int64_t n)
{
    if (d == NULL || d->count < 1 || n < 0) {
        (void)MEGA_MISTAKE(
            "mega_dataset_index: found sample %lld and a data set of %lld samples; expected at least 0, and a "
            "data set with at least 1 sample",
            (long long)n, d == NULL ? 0LL : (long long)d->count);
        return -1;
    }
    const int64_t epoch = d->epoch > 0 && d->epoch < d->count ? d->epoch : d->count, at = n % epoch;
    return d->first + (d->in_order ? at : permutation_at(at, d->count, seed, (uint32_t)(n / epoch)));
}

static mega_status dataset_check(const mega_dataset *d)
{
    if (d == NULL || d->read == NULL)
        return MEGA_MISTAKE("data set: %s is NULL; expected a value", d == NULL ? "it" : "its function read");
    if (d->epoch < 0 || d->epoch > d->count)
        return MEGA_MISTAKE("data set: found epoch %lld; expected 0 to count (%lld)", (long long)d->epoch,
                            (long long)d->count);
    if (d->first < 0 || d->count < 1)
        return MEGA_MISTAKE(
            "data set: found count %lld and first %lld; expected a count of at least 1 and a first sample "
            "of at least 0",
            (long long)d->count, (long long)d->first);
    return MEGA_OK;
}

static mega_status dataset_read_batch(const mega_dataset *d, uint32_t seed, mega_batch *b)
{
    mega_batch_set_seed(b, seed);
    for (int64_t i = 0; i < mega_batch_num_samples(b); i++) {
        mega_sample *sample = mega_batch_sample(b, i);
        const int64_t n = mega_sample_index(sample), index = mega_dataset_index(d, seed, n);
        mega_error_clear(); /* so that an older message is not attributed to a failure without one */
        const mega_status st = d->read(d->user, index, sample);
        if (st == MEGA_OK) continue;
        if (d->count == INT64_MAX) /* mega_dataset_sampled: its index is the position in the run */
            MEGA_CONTEXT("sample %lld of the run", (long long)n);
        else
            MEGA_CONTEXT("sample %lld of the run, index %lld of the data set", (long long)n, (long long)index);
        return st;
    }
    return d->collate != NULL ? d->collate(d->user, b) : MEGA_OK;
}

mega_status mega_dataset_fill(const mega_dataset *d, uint32_t seed, mega_batch *b)
{
    MEGA_TRY(dataset_check(d));
    if (d->use != NULL) d->use(d->user, 1);
    const mega_status st = dataset_read_batch(d, seed, b);
    if (d->use != NULL) d->use(d->user, -1);
    return st;
}

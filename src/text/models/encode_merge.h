/* Merges words with ranks of 16 bits. Each merge depends on the previous one: the least rank, its position, its
 * neighbours, their new ranks from the table. To hide that latency, several words are merged in turn, one step each.
 * Part of encode_body.c, compiled for each instruction set. */
#ifndef MEGALITH_TEXT_ENCODE_MERGE_H
#define MEGALITH_TEXT_ENCODE_MERGE_H

#include "encode_vector.h"
#include "encoder.h"

enum { LANES = 16, LANE_BYTES = 64, NO_ID = 0xFFFF };

/* A word being merged; its symbols keep their positions, 1 to the number of bytes, and are linked. Sentinels that are
 * in no pair precede the first and follow the last. */
typedef struct merge_lane {
    /* rank of the symbol with the next one; MEGA_NO_RANK: no pair, or the symbol was removed */
    uint16_t rank[LANE_BYTES];
    uint16_t made[LANE_BYTES + 2]; /* id that the pair becomes */
    uint16_t id[LANE_BYTES + 2];
    uint8_t next[LANE_BYTES + 16], prev[LANE_BYTES + 16];
    uint8_t at, before;                              /* the last merge and the symbol before it */
    uint32_t left, right, left_bucket, right_bucket; /* the pairs that it creates, and their buckets in the table */
    struct merge_job *job;
} merge_lane;

/* A word of at most LANE_BYTES bytes, and where its ids go; there is room for as many ids as bytes. */
typedef struct merge_job {
    const uint8_t *word;
    int32_t *out;
    uint32_t size, count; /* number of bytes, of ids */
    uint64_t key[2];
} merge_job;

static inline void lane_begin(merge_lane *lane, const mega_pair_table *t, merge_job *job, int blocks)
{
    static const uint8_t count[LANE_BYTES + 17] = {
        255, 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
        26,  27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52,
        53,  54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79};
    const int n = (int)job->size;
    const uint8_t *word = job->word;
    lane->job = job;
    memcpy(lane->prev, count, 16 * (size_t)blocks + 2);
    memcpy(lane->next, count + 2, 16 * (size_t)blocks + 2);
    memset(lane->rank, 0xFF, 32 * (size_t)blocks);
    lane->id[0] = lane->id[n + 1] = NO_ID;
    lane->id[n] = t->id[word[n - 1]];
    for (int i = 1; i < n; i++) {
        const uint32_t pair = t->byte[word[i - 1] << 8 | word[i]];
        lane->id[i] = t->id[word[i - 1]];
        lane->made[i] = (uint16_t)(pair >> 16);
        lane->rank[i] = (uint16_t)pair;
    }
}

/* First half of a merge: up to prefetching the buckets of its new pairs. Returns false if no merge is left. Among equal
 * ranks the first position wins. */
static inline bool lane_merge(merge_lane *lane, const mega_pair_table *t, int blocks)
{
    int at;
    const uint32_t rank = blocks == 1 ? least_of_16(lane->rank, &at) : least_of_64(lane->rank, &at);
    if (rank == MEGA_NO_RANK) return false;
    const int gone = lane->next[at], after = lane->next[gone], before = lane->prev[at];
    const uint16_t id = lane->made[at];
    lane->id[at] = id;
    lane->next[at] = (uint8_t)after;
    lane->prev[after] = (uint8_t)at;
    lane->at = (uint8_t)at;
    lane->before = (uint8_t)before;
    put16(lane->rank, gone, MEGA_NO_RANK);
    lane->right = (uint32_t)id << 16 | lane->id[after];
    lane->left = (uint32_t)lane->id[before] << 16 | id;
    lane->right_bucket = mega_pair_table_bucket(t, lane->right);
    lane->left_bucket = mega_pair_table_bucket(t, lane->left);
    __builtin_prefetch(t->slot + lane->right_bucket);
    __builtin_prefetch(t->slot + lane->left_bucket);
    return true;
}

/* Second half: looks up the pairs that the new symbol forms. */
static inline void lane_pairs(merge_lane *lane, const mega_pair_table *t)
{
    const uint32_t right = find_pair(t, lane->right, lane->right_bucket);
    const uint32_t left = find_pair(t, lane->left, lane->left_bucket);
    lane->made[lane->at] = (uint16_t)(right >> 16);
    lane->made[lane->before] = (uint16_t)(left >> 16);
    put16(lane->rank, lane->at, right);
    put16(lane->rank, lane->before, left);
}

static inline void lane_end(const merge_lane *lane)
{
    merge_job *job = lane->job;
    uint32_t count = 0;
    for (uint32_t at = 1; at <= job->size; at = lane->next[at]) job->out[count++] = lane->id[at];
    job->count = count;
}

/* Merges words of 2 to blocks * 16 bytes. */
static inline void merge_jobs(const mega_pair_table *t, merge_job *const *job, int jobs, int blocks)
{
    merge_lane lanes[LANES], *lane[LANES];
    int live = 0, next = 0;
    for (; live < LANES && next < jobs; live++) {
        lane[live] = &lanes[live];
        lane_begin(lane[live], t, job[next++], blocks);
    }
    while (live > 0) {
        for (int i = 0; i < live; i++) {
            while (__builtin_expect(!lane_merge(lane[i], t, blocks), 0)) {
                lane_end(lane[i]);
                if (next < jobs) {
                    lane_begin(lane[i], t, job[next++], blocks);
                } else {
                    lane[i] = lane[--live];
                    if (i == live) break;
                }
            }
        }
        for (int i = 0; i < live; i++) lane_pairs(lane[i], t);
    }
}

#endif

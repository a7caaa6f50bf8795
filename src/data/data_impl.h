/* Shared by the files of data/. */
#ifndef MEGA_DATA_IMPL_H
#define MEGA_DATA_IMPL_H

#include "megalith/blocks.h"
#include "megalith/file.h"
#include "megalith/gpt_data.h"
#include "megalith/in_use.h"
#include "megalith/indexed.h"
#include "megalith/lock.h"
#include "megalith/npy.h"
#include "megalith/sentence_data.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- random.c: the generators that determine the order of samples ---- */

/* MT19937 (Matsumoto, Nishimura 1998), seeded and read like NumPy's legacy RandomState and C++ std::mt19937. */
typedef struct mega_mt19937 {
    uint32_t state[624];
    int next;
} mega_mt19937;
void mega_mt19937_seed(mega_mt19937 *r, uint32_t seed);
uint32_t mega_mt19937_u32(mega_mt19937 *r);
uint64_t mega_mt19937_interval(mega_mt19937 *r, uint64_t max); /* a number from 0 to max, inclusive */
double mega_mt19937_double(mega_mt19937 *r);                   /* from 0 to below 1, with 53 bits: NumPy's random() */

/* The 64-bit Mersenne twister, C++ std::mt19937_64. */
typedef struct mega_mt19937_64 {
    uint64_t state[312];
    int next;
} mega_mt19937_64;
void mega_mt19937_64_seed(mega_mt19937_64 *r, uint64_t seed);
uint64_t mega_mt19937_64_u64(mega_mt19937_64 *r);

/* For loops over many items: checks *stop once every 65,536 items. */
static inline bool mega_data_is_stopped(const volatile sig_atomic_t *stop, int64_t i)
{
    return (i & 0xffff) == 0 && stop != NULL && *stop != 0;
}
mega_status mega_data_stopped(const char *what); /* returns MEGA_ERR_INTERRUPTED */

/* RandomState.shuffle of one-dimensional arrays. If stopped early, the items are partly shuffled. */
void mega_mt19937_shuffle_i32(mega_mt19937 *r, int32_t *x, int64_t n, const volatile sig_atomic_t *stop);
void mega_mt19937_shuffle_i64(mega_mt19937 *r, int64_t *x, int64_t n, const volatile sig_atomic_t *stop);
/* torch.randperm(n) on the CPU, with a generator seeded with `seed`. */
void mega_torch_randperm(uint64_t seed, int64_t *out, int64_t n);

/* ---- indexed.c ---- */

void mega_indexed_retain(mega_indexed *ix); /* adds an owner; close removes one. Not atomic. */
/* Returns the content of the .bin file. */
const void *mega_indexed_raw(const mega_indexed *ix, size_t *out_bytes);
uint32_t mega_indexed_crc32c(const mega_indexed *ix);
int64_t mega_indexed_index_bytes(const mega_indexed *ix);
/* tokens of these sequences, in O(1) */
int64_t mega_indexed_tokens_between(const mega_indexed *ix, int64_t begin, int64_t end);

/* ---- indexed_pair.c: replacing a .bin and an .idx file together ---- */

typedef enum pair_path {
    PAIR_BIN,
    PAIR_IDX,
    PAIR_NEW_BIN, /* complete, not yet renamed */
    PAIR_NEW_IDX, /* the same; while this file exists, the new pair is the valid one */
    PAIR_OLD_BIN,
    PAIR_OLD_IDX,
    PAIR_LOCK,
    PAIR_PATHS
} pair_path;
typedef struct mega_pair {
    const char *prefix; /* borrowed */
    char *folder, *path[PAIR_PATHS];
} mega_pair;
mega_status mega_pair_init(mega_pair *p, const char *prefix);
void mega_pair_fini(mega_pair *p);
/* For writers: one process at a time. Returns MEGA_ERR_BUSY, naming the other process. */
mega_status mega_pair_lock(const mega_pair *p, mega_lock **out);
/* Renames two files of the folder, complete and synced, to the names of the pair. On failure the old pair is unchanged,
 * or the message says what happens to it. The caller holds the lock. */
mega_status mega_pair_commit(const mega_pair *p, const char *bin, const char *idx);
/* Completes a commit that a dead process left if its new pair is valid, otherwise removes it. The caller holds the
 * lock. */
mega_status mega_pair_complete(const mega_pair *p);
/* Maps both files of the same pair; completes what a dead process left, and waits for a commit in progress. */
mega_status mega_pair_map(const char *prefix, mega_map *index, mega_map *bin);

/* ---- gpt_share.c: one copy of a block for all ranks of a host ---- */

typedef struct mega_gpt_block {
    void *data; /* NULL: none */
    size_t bytes;
} mega_gpt_block;
/* Creates a block of zeros. If this process created `share`, other ranks find the block under `key`; with share NULL,
 * or opened from another rank, the block is private. */
mega_status mega_gpt_block_make(mega_gpt_share *share, uint64_t key, size_t bytes, const char *what,
                                mega_gpt_block *out);
/* Maps the block with that key and size. Returns false if there is none, or share is NULL. */
bool mega_gpt_block_find(const mega_gpt_share *share, uint64_t key, size_t bytes, mega_gpt_block *out);
void mega_gpt_block_fini(mega_gpt_block *block);
/* Frees the block that was created last; no other rank may have mapped it. */
void mega_gpt_share_drop(mega_gpt_share *share, uint64_t key);

/* ---- blocks_text.c: the tokens of texts ---- */

enum { MEGA_BLOCKS_PIECE = 1 << 20 /* tokens */ };

typedef struct mega_blocks_text {
    int32_t **piece; /* tokens, in pieces of MEGA_BLOCKS_PIECE, so that what was copied can be freed */
    int64_t pieces, most_pieces, tokens;
    int64_t *end; /* for each text, the tokens up to its end */
    int64_t texts, capacity;
} mega_blocks_text; /* zero-initialised is valid and empty */
/* Appends the texts of the files. */
mega_status mega_blocks_tokenize(const mega_blocks_options *o, const mega_list *files, mega_blocks_text *out);
/* Copies all tokens to `out`, and frees them one piece after the other: there are hardly ever two copies. */
void mega_blocks_text_move(mega_blocks_text *t, int32_t *out);
void mega_blocks_text_fini(mega_blocks_text *t);

/* ---- gpt_index.c: the three arrays of one split ---- */

typedef struct mega_gpt_index_spec {
    const mega_indexed *data;
    int64_t begin, end; /* sequences that belong to the split; with `sentences`: documents */
    int64_t seq_length, num_samples;
    uint32_t seed;
    const volatile sig_atomic_t *stop; /* as in mega_gpt_data_options */
    const mega_sentence_options *sentences;
    bool is_estimate; /* the plan is not for building: a walk over many epochs may end early and estimate the rest */
} mega_gpt_index_spec;

/* Sizes that follow from a spec without building anything. */
typedef struct mega_gpt_index_plan {
    int64_t tokens; /* tokens per epoch */
    int64_t epochs;
    bool separate_last_epoch;
    int64_t samples;          /* rows of shuffle_idx; sample_idx has one more */
    int64_t samples_previous; /* samples of the first epochs-1 epochs */
    int64_t documents;        /* entries in doc_idx */
    mega_npy_type sample_type, shuffle_type;
    bool is_sentence_map; /* `sample` is the map of sentence_map.c, and there is no other array */
} mega_gpt_index_plan;
mega_status mega_gpt_index_plan_make(const mega_gpt_index_spec *spec, mega_gpt_index_plan *out);

/* With spec->sentences the only array is `sample`: u32 [samples, 3], see sentence_map.c. Otherwise:
 * doc_idx i32[documents]; sample_idx [samples+1, 2] of sample_type; shuffle_idx [samples] of shuffle_type. They point
 * into one block, or into mapped cache files. */
typedef struct mega_gpt_index {
    const int32_t *doc;
    const void *sample, *shuffle;
    mega_gpt_index_plan plan;
    mega_gpt_block block;
    mega_map map[3]; /* the mapped cache files */
} mega_gpt_index;
size_t mega_gpt_index_bytes(const mega_gpt_index_plan *plan);
/* Creates the block of the arrays in `share`, under `key`. */
mega_status mega_gpt_index_build(const mega_gpt_index_spec *spec, const mega_gpt_index_plan *plan,
                                 mega_gpt_share *share, uint64_t key, mega_gpt_index *out);
/* Finds the arrays that the first rank of this host built. Returns false if share has none with that key. */
bool mega_gpt_index_find(const mega_gpt_index_plan *plan, const mega_gpt_share *share, uint64_t key,
                         mega_gpt_index *out);
void mega_gpt_index_fini(mega_gpt_index *index);

/* ---- sentence_map.c: where the samples of BERT and T5 begin and end ---- */

enum { MEGA_SENTENCE_MAP = 3 /* numbers of a row: first sentence, the one after the last, tokens wanted */ };
mega_status mega_sentence_map_plan(const mega_gpt_index_spec *spec, mega_gpt_index_plan *out);
void mega_sentence_map_build(const mega_gpt_index_spec *spec, const mega_gpt_index_plan *plan, uint32_t *map);
/* the least number of sentences of a sample */
int64_t mega_sentence_least(const mega_sentence_options *o);

/* ---- sentence_mask.c: which tokens of a sample are predicted ---- */

/* Work space of a row, and the tokens of the sample with their masks. */
typedef struct mega_sentence_mask {
    int32_t *token;  /* [count] in; out: as the model reads them */
    int32_t *label;  /* [count] out: the token that was there, -1 where it is not predicted */
    int32_t *after;  /* [count] out: at the first token of a masked span, the position after it; 0 elsewhere */
    int32_t *word;   /* [count] the word of a token, -1: it is never masked */
    int32_t *begins; /* [count + 1] the first token of a word */
    int32_t *order;  /* [count] */
    int64_t count;
    int64_t masked; /* out: tokens with a label */
    int64_t spans;  /* out */
} mega_sentence_mask;
void mega_sentence_mask_draw(const mega_sentence_options *o, int64_t target, mega_mt19937 *random,
                             mega_sentence_mask *m);

/* ---- sentence_row.c: one sample ---- */

typedef struct mega_sentence_source {
    const mega_sentence_options *options;
    const mega_indexed *data;
    const uint32_t *map;
    int64_t samples;
    uint32_t seed;
} mega_sentence_source;
/* 0 <= index < samples */
mega_status mega_sentence_read(const mega_sentence_source *source, int64_t index, mega_sentence_row *row);
/* Fills the inputs that sentence_data.h names. */
void mega_sentence_fill(const mega_sentence_options *o, const mega_sentence_row *row, mega_sample *sample);

/* ---- gpt_cache.c ---- */

/* Gets the arrays from the share or the cache, or builds them and puts them there. folder NULL: no cache. name
 * ("train"): for log lines. */
mega_status mega_gpt_index_get(const mega_gpt_index_spec *spec, const char *folder, mega_gpt_share *share,
                               const char *name, mega_gpt_index *out);

/* ---- gpt_dataset.c: turns samples of the data set into rows of a batch ---- */

typedef struct mega_gpt_rows mega_gpt_rows;
mega_status mega_gpt_rows_create(const mega_gpt_data_options *o, const char *split, mega_gpt_rows **out);
void mega_gpt_rows_destroy(mega_gpt_rows *r);

/* ---- gpt_data.c; gpt_build.c makes them ---- */

struct mega_gpt_data {
    int64_t seq_length, samples;
    bool has_sentences;  /* samples are read with mega_sentence_sample */
    mega_gpt_rows *rows; /* NULL in members of a blend, and with check_only */
    /* either one split of one prefix … */
    mega_indexed *data;
    int64_t begin, end;           /* the sequences of the split */
    int64_t told_begin, told_end; /* the same, counted as --split counts them: documents where there are sentences */
    mega_gpt_index index;
    mega_sentence_options sentences;
    uint32_t seed;
    /* … or a blend, or concatenated parts */
    int num_members;
    bool is_joined;
    mega_gpt_data **member;
    mega_gpt_block order; /* order of a blend */
    int64_t *sample_of;   /* [samples], inside that block */
    int16_t *member_of;   /* [samples], the member that each sample comes from */
    mega_users users;     /* engines and readings */
};

/* Bytes of the order of a blend. */
size_t mega_blend_order_bytes(const mega_gpt_data *blend);
mega_gpt_rows *mega_gpt_data_rows(const mega_gpt_data *d); /* NULL if built with check_only */
/* path prefix of the files that hold this sample */
const char *mega_gpt_data_prefix(const mega_gpt_data *d, int64_t index);

/* ---- gpt_blend.c ---- */

/* Samples requested from a member of a blend: ceil(total * weight * 1.005). */
int64_t mega_blend_request(int64_t total, double weight);
/* Computes the greedy order: member[i] and the index of its sample for i < size, so that counts follow the weights as
 * closely as possible. Normalises the weights as Megatron does (NumPy's sum). */
mega_status mega_blend_order(const double *weights, int count, int64_t size, const volatile sig_atomic_t *stop,
                             int16_t *member, int64_t *sample);

#endif

/* Attention ops. (The contract of all ops is in ops.h.) */
#ifndef MEGALITH_OPS_ATTENTION_H
#define MEGALITH_OPS_ATTENTION_H

#include "megalith/op_types.h"

#define MEGA_KERNELS_ATTENTION(X) \
    X(attention)                  \
    X(attention_grad)             \
    X(attention_cached)           \
    X(attention_sinks_grad)

#define MEGA_OPS_ATTENTION(X)             \
    X(ATTENTION, attention)               \
    X(ATTENTION_GRAD, attention_grad)     \
    X(ATTENTION_CACHED, attention_cached) \
    X(ATTENTION_SINKS_GRAD, attention_sinks_grad)

/* Which keys a query sees besides the causal mask, what is done with scores, and which key/value head a query head
 * reads. All zero: nothing more. */
typedef struct mega_attention_rules {
    bool has_window; /* query i sees only keys i - window_left <= j <= i + window_right; -1: no limit on this side */
    int64_t window_left, window_right;
    double softcap;      /* c > 0: a score s = scale q.k becomes c tanh(s / c) */
    int64_t alibi_heads; /* heads of the whole model; > 0: mega_alibi_slope * (j - i) is added to the score, after the
                            cap */
    int64_t bias_buckets, bias_distance; /* > 0: rows of a table of biases, and the distance from which on all positions
                                            are in the last bucket (mega_relative_bucket) */
    bool bias_one_side;
    int64_t group, group_begin; /* head h reads key/value head (group_begin + h) / group; group 0: heads / kv_heads, and
                                   group_begin 0 */
} mega_attention_rules;

/* Returns the slope of head `head` of a model of `heads` heads, 2^(-8 (head + 1) / heads) if heads is a power of 2
 * (Press et al. 2022); otherwise the slopes of the next lower power of 2, then every second slope of the next
 * higher. */
double mega_alibi_slope(int64_t head, int64_t heads);

/* The most rows that a table of biases has. */
#define MEGA_BIAS_BUCKETS 256

/* Returns the bucket of the distance j - i of key j from query i (Raffel et al. 2020): one for each short distance,
 * then ever longer ranges, up to distance `most`; the second half of the buckets is for keys after the query. With
 * one_side all buckets are for keys before it, and later keys count as distance 0. */
int64_t mega_relative_bucket(int64_t distance, int64_t buckets, int64_t most, bool one_side);

/* Attention over the heads of this rank: softmax(scale q k^T) v, computed as in FlashAttention (Dao et al. 2022),
 * without an [S, K] matrix in memory. Each of B sequences has S = seq queries and K = keys keys: query i of sequence b
 * is row t = b*S + i of q, key j is row b*K + j of k and v. Query i sees keys j with key_begin[t] <= j < key_end[t];
 * NULL means 0, and K. If causal, it sees none with j > i; `rules` may restrict this further. The causal mask, windows
 * and ALiBi compare i with j and need K = S. A query that sees no key has out 0, lse 0 and no gradient.
 *   q [B*S, H*D] with row stride ld_q; k, v [B*K, G*D] with ld_kv; out [B*S, H*D] with ld_out; lse [H, B*S] acc, the
 *   natural log of the softmax denominator.
 * Dropout of the probabilities: key j of row (head_begin + h)*S + i of sample sample_id[t] at `site`
 * (mega_dropout_block_of_keys). lse does not include dropout. head_begin is the number of the first head in the whole
 * model.
 *
 * sinks[h] is a score of head h that is in the denominator of each of its softmaxes, and has no value (gpt_oss); lse
 * includes it, and is sinks[h] for a query that sees no key. */
typedef struct mega_attention_args {
    mega_kernel_head head;
    void *out, *lse;
    const void *q, *k, *v;
    const int32_t *key_begin, *key_end /* [B*S] or NULL */;
    const void *bias; /* [rules.bias_buckets, H] or NULL: added to the scores, row mega_relative_bucket(j - i, ...) */
    const void *sinks /* [H] or NULL */;
    const uint32_t *sample_id /* [B*S]; may be NULL when dropout is 0 */;
    int64_t batch, seq, keys, heads, kv_heads, head_dim, head_begin, ld_q, ld_kv, ld_out;
    double scale, dropout;
    uint32_t site;
    bool causal;
    mega_attention_rules rules;
} mega_attention_args;

/* dq, dk, dv are overwritten, also for key/value heads that no query head reads; their strides are ld_dq and ld_dkv.
 * forward has the arguments of the forward call,
 * including its results out and lse. */
typedef struct mega_attention_grad_args {
    mega_kernel_head head;
    void *dq, *dk, *dv;
    const void *dout;
    void *dbias; /* [rules.bias_buckets, H] acc, added to; NULL: not wanted */
    int64_t ld_dq, ld_dkv, ld_dout;
    mega_attention_args forward;
} mega_attention_grad_args;

/* Attention for generation. For each sequence b, appends the `rows` new keys and values to the step->kv_length[b] rows
 * in the cache. New query i, at position kv_length[b] + i, then sees all keys up to and including its own position that
 * `rules` leave.
 * The cache has the key of position p at p. Rows at positions beyond the capacity (padding of a last chunk) are not
 * copied, and their out is 0. If is_ring, it has it at p mod capacity, in place of older ones, and there is no end. The
 * window must then leave at most the last capacity - rows keys and the own one: a row of padding overwrites none that a
 * later query sees.
 *   q [B*rows, H*D] with row stride ld_q; k, v [B*rows, G*D] with ld_kv; k_cache, v_cache [B, capacity, G*D];
 *   out [B*rows, H*D] with ld_out */
typedef struct mega_attention_cached_args {
    mega_kernel_head head;
    void *out, *k_cache, *v_cache;
    const void *q, *k, *v;
    const void *bias, *sinks; /* [rules.bias_buckets, H] and [H], or NULL, as in mega_attention_args */
    int64_t batch, rows, capacity, heads, kv_heads, head_dim, ld_q, ld_kv, ld_out;
    double scale;
    int64_t head_begin;
    bool is_ring;
    mega_attention_rules rules;
} mega_attention_cached_args;

/* dsinks[h] -= the sum over rows t of e^(sinks[h] - lse[h, t]) times the dot product of dout and out of the head.
 *   dsinks [heads] acc; dout, out [rows, heads * head_dim]; lse [heads, rows] acc; sinks [heads] */
typedef struct mega_attention_sinks_grad_args {
    mega_kernel_head head;
    void *dsinks;
    const void *dout, *out, *lse, *sinks;
    int64_t rows, heads, head_dim;
} mega_attention_sinks_grad_args;

typedef struct mega_attention_shape {
    int64_t batch, seq, heads, kv_heads, head_dim, head_begin;
    int64_t keys; /* keys of each sequence, if they are not those of its queries; 0: seq */
    double scale, dropout;
    uint32_t site;
    bool causal;
    bool is_ring; /* of attention_cached */
    mega_attention_rules rules;
} mega_attention_shape;

/* Queries, keys and values: either all in q, [T, (H+2G)*D]: Q heads, then K heads, then V heads, with k and v none; or
 * in a tensor each, q [B*S, H*D] and k, v [B*K, G*D]. bias: a table [rules.bias_buckets, H] by relative position, or
 * none. */
typedef struct mega_attention_qkv {
    mega_tensor q, k, v, bias;
    mega_tensor sinks; /* [H], a parameter, or none */
} mega_attention_qkv;

/* The keys that each query sees, I32 [B*S]; mega_none(): no limit on this side. */
typedef struct mega_attention_keys {
    mega_tensor begin, end;
} mega_attention_keys;

mega_tensor mega_op_attention(mega_graph *g, mega_attention_qkv qkv, mega_attention_keys keys, mega_tensor sample_id,
                              const mega_attention_shape *s);
/* Attention for generation. s->seq is the number of new rows per sequence (1 for decode); caches are [B, capacity,
 * G*D]. */
mega_tensor mega_op_attention_cached(mega_graph *g, mega_attention_qkv qkv, mega_tensor k_cache, mega_tensor v_cache,
                                     const mega_attention_shape *s);

#endif

/* Attention. (What holds for all ops: ops.h.) */
#ifndef MEGALITH_OPS_ATTENTION_H
#define MEGALITH_OPS_ATTENTION_H

#include "megalith/op_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MEGA_KERNELS_ATTENTION(X) \
    X(attention)                  \
    X(attention_grad)             \
    X(attention_cached)

#define MEGA_OPS_ATTENTION(X)         \
    X(ATTENTION, attention)           \
    X(ATTENTION_GRAD, attention_grad) \
    X(ATTENTION_CACHED, attention_cached)

/* Attention over the heads held here, softmax(scale q k^T) v, flash style: never an [S, S] matrix in memory
 * (Dao et al. 2022). Row t of sequence b and position i is b*S + i. Query i sees keys j with
 * segment_start[t] <= j <= i (segment_start NULL: 0) when causal, else all keys of its sequence.
 *   q [T, H*D] with row stride ld_q; k, v [T, G*D] with ld_kv; out [T, H*D] with ld_out; lse [H, T] acc, natural log of
 *   the softmax denominator. Head h reads key/value head h*G/H.
 * Dropout on probabilities: key j of row (head_begin + h)*S + i of sample sample_id[t] at `site`
 * (mega_dropout_block_of_keys); lse is without it.
 */
typedef struct mega_attention_args {
    mega_kernel_head head;
    void *out, *lse;
    const void *q, *k, *v;
    const int32_t *segment_start /* [T] or NULL */;
    const uint32_t *sample_id /* [T]; may be NULL when dropout is 0 */;
    int64_t batch, seq, heads, kv_heads, head_dim, head_begin, ld_q, ld_kv, ld_out;
    double scale, dropout;
    uint32_t site;
    bool causal;
} mega_attention_args;

/* dq, dk, dv overwrite, with the strides ld_dq, ld_dkv. forward holds the arguments of the forward call (out and lse as
 * results of it). */
typedef struct mega_attention_grad_args {
    mega_kernel_head head;
    void *dq, *dk, *dv;
    const void *dout;
    int64_t ld_dq, ld_dkv, ld_dout;
    mega_attention_args forward;
} mega_attention_grad_args;

/* Generation. Per sequence b: copies the `rows` new keys and values after the step->kv_length[b] ones in the cache,
 * then each new query i (position kv_length[b] + i) sees all keys up to and with its own position. A row whose position
 * lies past the capacity (padding of a last chunk) is not copied and gets out = 0. q [B*rows, H*D] ld_q; k, v [B*rows,
 * G*D] ld_kv; k_cache, v_cache [B, capacity, G*D]; out [B*rows, H*D] ld_out */
typedef struct mega_attention_cached_args {
    mega_kernel_head head;
    void *out, *k_cache, *v_cache;
    const void *q, *k, *v;
    int64_t batch, rows, capacity, heads, kv_heads, head_dim, ld_q, ld_kv, ld_out;
    double scale;
} mega_attention_cached_args;

typedef struct mega_attention_shape {
    int64_t batch, seq, heads, kv_heads, head_dim, head_begin;
    double scale, dropout;
    uint32_t site;
    bool causal;
} mega_attention_shape;
/* qkv [T, (H+2G)*D]: Q heads, then K heads, then V heads. */
mega_tensor mega_op_attention(mega_graph *g, mega_tensor qkv, mega_tensor segment_start, mega_tensor sample_id,
                              const mega_attention_shape *s);
/* Generation: s->seq is the rows of each sequence in this program (1 for decode). caches [B, capacity, G*D]. */
mega_tensor mega_op_attention_cached(mega_graph *g, mega_tensor qkv, mega_tensor k_cache, mega_tensor v_cache,
                                     const mega_attention_shape *s);

#ifdef __cplusplus
}
#endif

#endif

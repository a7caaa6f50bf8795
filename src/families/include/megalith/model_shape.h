/* The shape of a language model, of one stack of layers (a decoder or an encoder) or of two (T5), as config.json of its
 * folder and options describe it. A plain value; a zero-initialized mega_network_shape is that of GPT-2. */
#ifndef MEGALITH_MODEL_SHAPE_H
#define MEGALITH_MODEL_SHAPE_H

#include "megalith/builder.h"
#include "megalith/rope_scaling.h"
#include <string.h>

struct mega_family;

enum {
    MEGA_SHAPE_LAYERS = 512,  /* layers that can differ in window and rotation */
    MEGA_SHAPE_FACTORS = 128, /* pairs of channels of a head that longrope scales */
    MEGA_SHAPE_EOS = 8,       /* ids that end a text */
    MEGA_SHAPE_LABELS = 1024  /* bytes of the names of classes */
};

typedef enum mega_position_kind {
    MEGA_POSITIONS_TABLE, /* a learned table */
    MEGA_POSITIONS_ROPE,  /* rotation of queries and keys */
    MEGA_POSITIONS_ALIBI, /* slopes added to scores */
    MEGA_POSITIONS_NONE
} mega_position_kind;

/* A rotation; its numbers are those of transformers' rope_parameters. */
typedef struct mega_rope_settings {
    double theta, fraction; /* fraction: share of the channels of a head that is rotated; 0: all */
    bool interleaved;       /* pairs are neighbours; else a channel and the one half a head further */
    mega_rope_scaling scaling;
    double factor, beta_fast, beta_slow, attention_factor, mscale, mscale_all_dim, low_freq_factor, high_freq_factor;
    bool no_truncate;
    int64_t original_positions;
    int num_factors; /* longrope */
    double short_factor[MEGA_SHAPE_FACTORS], long_factor[MEGA_SHAPE_FACTORS];
} mega_rope_settings;

/* Where a branch is normalized. */
typedef enum mega_norm_place {
    MEGA_NORM_BEFORE,   /* its input */
    MEGA_NORM_AFTER,    /* its output, before the sum */
    MEGA_NORM_BOTH,     /* both */
    MEGA_NORM_AFTER_SUM /* the sum (post-norm) */
} mega_norm_place;

typedef enum mega_query_norm { MEGA_QUERY_NORM_NONE, MEGA_QUERY_NORM_HEAD, MEGA_QUERY_NORM_ALL } mega_query_norm;

/* Encoder-decoders. */
typedef enum mega_t5_kind {
    MEGA_T5_NONE,     /* one stack */
    MEGA_T5_MEGATRON, /* blocks of GPT-2 with biases, a table of positions that both stacks read, a bias of the head */
    MEGA_T5_ORIGINAL  /* RMS norms, no biases, scores without a scale and with biases of relative positions */
} mega_t5_kind;

/* What config.json says of a loss that transformers adds only if asked to, where nothing else is known. */
#define MEGA_ROUTER_AUX_LOSS_COEF 0.001

#define MEGA_SIGMOID_EPSILON 1e-20 /* added to a sum of scores by a sigmoid, in Megatron-core and in transformers */

/* A layer of experts in the place of the MLP (mega_moe); count 0: none. */
typedef struct mega_experts_shape {
    int64_t count, choices, hidden;    /* experts, how many of them a token chooses, and the width inside one */
    uint16_t fewer[MEGA_SHAPE_LAYERS]; /* layer i has so many experts; 0: `count` */
    int64_t shared;                    /* width of an MLP beside the experts, which computes every token; 0: none */
    bool blended;    /* both are weighted, by a softmax over two numbers of the token (mega_blend); else added */
    bool has_biases; /* of the router and of both linear layers of each expert */
    /* Gates and what they multiply are cut (mega_glu_args); 0: they are not. gate_alpha: the factor of a gate */
    double gate_limit, gate_alpha;
    bool shared_gate; /* its result is multiplied by the sigmoid of a linear layer of the token */
    mega_route_score score;
    bool choice_bias;              /* numbers of the experts are added to their scores for the choice alone */
    int64_t groups, chosen_groups; /* of consecutive experts: a token chooses from the best ones; 0 or 1: one group */
    int64_t group_best; /* the best experts of a group whose scores are its own; 0: as many as are chosen from one */
    double scale;       /* factor of the weights of the chosen experts; 0: 1 */
    double epsilon;     /* added to their sum where they are divided by it */
    double margin;      /* MEGA_ROUTE_SOFTMAX_OF_NEAR: half of the margin of the op, as in config.json */
    double balance;  /* coefficient of the loss of balance, as in config.json; transformers adds it only if asked to */
    bool normalized; /* the weights of the chosen experts are divided by their sum */
    double jitter;   /* in training, of what router and experts read, as Mixtral; 0: none */
    uint64_t dense[MEGA_SHAPE_LAYERS / 64]; /* bit i: layer i has an MLP, of ffn_hidden */
} mega_experts_shape;

/* Latent attention (mega_latent_options); kv_rank 0: none. */
typedef struct mega_latent_shape {
    int64_t q_rank, kv_rank, own_dim, rope_dim, value_dim;
} mega_latent_shape;

typedef struct mega_network_shape {
    const struct mega_family *family; /* names of the tensors; NULL: gpt2 */

    mega_position_kind positions;
    int64_t skipped_positions; /* rows of the table before that of position 0 */
    mega_rope_settings rope;
    double window_theta;                      /* theta of the layers with a window; 0: as the others */
    uint64_t no_rope[MEGA_SHAPE_LAYERS / 64]; /* bit i: layer i is not rotated */
    bool has_window, window_by_layer;         /* window_by_layer: only the layers of `windowed` have it */
    int64_t window_left, window_right;        /* position i sees i - left to i + right; -1: no limit */
    uint64_t windowed[MEGA_SHAPE_LAYERS / 64];
    int64_t first_full; /* as in config.json: max_window_layers, which counts where there is no list */

    int64_t kv_heads, head_dim;              /* 0: as many as heads; hidden / heads */
    double attention_scale;                  /* 0: 1 / sqrt(head_dim) */
    double attention_softcap, logit_softcap; /* 0: none */
    bool sinks;                              /* each head has a score without a value in its softmaxes */
    mega_query_norm query_norm;
    mega_latent_shape latent;
    bool no_qkv_bias, no_out_bias, no_mlp_bias;

    bool rms, norm_plus_one, norm_no_bias, norm_no_weight;
    mega_norm_place norm_place;
    bool embedding_norm, no_final_norm;
    bool kept_attention;        /* no dropout after the output of attention */
    bool parallel, shared_norm; /* parallel: both branches read the input of the layer; shared_norm: after one norm */

    mega_activation_kind activation;
    bool gated, gate_second;
    mega_experts_shape experts;

    /* Of encoders such as BERT's. */
    bool is_encoder;     /* attention sees both sides; the input "key_end" hides padding */
    int64_t token_types; /* rows of the table of token types; 0: none */
    bool first_unnormed; /* layer 0 reads the embedding without a norm before its attention */
    bool transform;      /* the head first applies a linear layer, an activation and a norm */
    mega_activation_kind transform_activation;
    bool transform_no_bias;
    bool no_head;       /* of a folder that holds an encoder alone, which can be embedded with */
    bool sentence_head; /* a pooler and two classes: BERT's binary head */
    /* A classifier of samples instead of these heads. classes: number of them; 0: none. choices: a sample is that many
     * sequences, one of which is right; 0: none. */
    int64_t classes, choices;
    char labels[MEGA_SHAPE_LABELS]; /* the names of the classes, each ended by a zero; "": those of their numbers */

    /* Of encoder-decoders; num_layers and the members above are those of both stacks. */
    mega_t5_kind t5;
    int64_t decoder_layers;
    int64_t relative_buckets, relative_distance; /* MEGA_T5_ORIGINAL: rows of the table of biases, and where they end */
    bool biases_by_layer;                        /* MEGA_T5_ORIGINAL: each layer has a table; else each stack has one */
    int64_t decoder_start;                       /* the id that the decoder reads first; -1: none is known */

    bool untied, head_bias;
    double embedding_scale, residual_scale, logit_scale; /* 0: 1 */

    bool has_ids;                          /* the members below are from a folder */
    int64_t bos, pad, eos[MEGA_SHAPE_EOS]; /* bos, pad: -1: none */
    int num_eos;
} mega_network_shape;

/* From config.json of a folder. */
typedef struct mega_model_shape {
    int64_t num_layers, hidden, ffn_hidden, heads, positions, vocab;
    double norm_epsilon, attention_dropout, hidden_dropout, init_std;
    int64_t eos; /* -1: none */
    mega_network_shape net;
} mega_model_shape;

/* Returns the name of a class; NULL: it has none but LABEL_0, LABEL_1, … */
static inline const char *mega_shape_label(const mega_network_shape *n, int64_t class_)
{
    const char *at = n->labels, *end = n->labels + MEGA_SHAPE_LABELS;
    for (; at < end && *at != '\0'; at += strlen(at) + 1)
        if (class_-- == 0) return at;
    return NULL;
}

/* Adds the name of the next class. Returns false if there is no room for it, and then changes nothing. */
static inline bool mega_shape_add_label(mega_network_shape *n, const char *name)
{
    const size_t bytes = strlen(name) + 1;
    size_t at = 0;
    while (at < MEGA_SHAPE_LABELS && n->labels[at] != '\0') at += strlen(n->labels + at) + 1;
    if (bytes == 1 || at + bytes >= MEGA_SHAPE_LABELS) return false;
    memcpy(n->labels + at, name, bytes);
    return true;
}

static inline bool mega_shape_bit(const uint64_t *bits, int64_t i)
{
    return i < MEGA_SHAPE_LAYERS && (bits[i / 64] >> (i % 64) & 1) != 0;
}

/* Returns the experts of layer i; 0: it has an MLP. */
static inline int64_t mega_shape_experts(const mega_experts_shape *e, int64_t i)
{
    if (e->count == 0 || mega_shape_bit(e->dense, i)) return 0;
    return i < MEGA_SHAPE_LAYERS && e->fewer[i] > 0 ? e->fewer[i] : e->count;
}

static inline void mega_shape_set_bit(uint64_t *bits, int64_t i)
{
    if (i < MEGA_SHAPE_LAYERS) bits[i / 64] |= (uint64_t)1 << (i % 64);
}

#endif

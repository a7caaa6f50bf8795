/* The kind of a network in words, from what was built: a model that is loaded may be of another kind than options say.
 * And what the table of options says of it. */

#include "tasks/task_gpt.h"
#include "train_impl.h"
#include <stdio.h>
#include <string.h>

static const char *activation(const mega_network_shape *n)
{
    static const char *const gated[] = {[MEGA_ACT_GELU_TANH] = "GEGLU (tanh)",
                                        [MEGA_ACT_GELU] = "GEGLU",
                                        [MEGA_ACT_RELU] = "ReGLU",
                                        [MEGA_ACT_RELU_SQUARED] = "gated squared ReLU",
                                        [MEGA_ACT_SILU] = "SwiGLU",
                                        [MEGA_ACT_TANH] = "gated tanh",
                                        [MEGA_ACT_SIGMOID] = "GLU",
                                        [MEGA_ACT_IDENTITY] = "LiGLU"};
    static const char *const plain[] = {[MEGA_ACT_GELU_TANH] = "GELU (tanh)",
                                        [MEGA_ACT_GELU] = "GELU",
                                        [MEGA_ACT_RELU] = "ReLU",
                                        [MEGA_ACT_RELU_SQUARED] = "squared ReLU",
                                        [MEGA_ACT_SILU] = "SiLU",
                                        [MEGA_ACT_TANH] = "tanh",
                                        [MEGA_ACT_SIGMOID] = "sigmoid",
                                        [MEGA_ACT_IDENTITY] = "no activation"};
    return n->gated ? gated[n->activation] : plain[n->activation];
}

static void put_norms(const mega_network_shape *n, mega_buffer *out)
{
    static const char *const place[] = {[MEGA_NORM_BEFORE] = "",
                                        [MEGA_NORM_AFTER] = " after each branch",
                                        [MEGA_NORM_BOTH] = " before and after each branch",
                                        [MEGA_NORM_AFTER_SUM] = " after each sum"};
    mega_buffer_printf(out, "%s%s%s", n->rms ? "RMSNorm" : "LayerNorm", n->norm_plus_one ? " of 1 + weight" : "",
                       place[n->norm_place]);
    if (n->query_norm != MEGA_QUERY_NORM_NONE) mega_buffer_puts(out, ", norms of queries and keys");
}

static void put_positions(const mega_network_shape *n, mega_buffer *out)
{
    static const char *const scaling[] = {[MEGA_ROPE_NONE] = "",
                                          [MEGA_ROPE_LINEAR] = ", linear scaling",
                                          [MEGA_ROPE_DYNAMIC] = ", dynamic scaling",
                                          [MEGA_ROPE_YARN] = ", YaRN",
                                          [MEGA_ROPE_LLAMA3] = ", Llama 3's scaling",
                                          [MEGA_ROPE_LONGROPE] = ", LongRoPE"};
    if (n->t5 == MEGA_T5_ORIGINAL) {
        mega_buffer_puts(out, ", relative positions");
        return;
    }
    switch (n->positions) {
    case MEGA_POSITIONS_ROPE:
        mega_buffer_printf(out, ", RoPE (base %.10g", n->rope.theta);
        if (n->rope.fraction > 0 && n->rope.fraction < 1)
            mega_buffer_printf(out, ", %g %% of a head", 100 * n->rope.fraction);
        mega_buffer_printf(out, "%s)", scaling[n->rope.scaling]);
        return;
    case MEGA_POSITIONS_ALIBI: mega_buffer_puts(out, ", ALiBi"); return;
    case MEGA_POSITIONS_NONE: mega_buffer_puts(out, ", no positions"); return;
    case MEGA_POSITIONS_TABLE: mega_buffer_puts(out, ", learned positions");
    }
}

static const char *biases(const mega_network_shape *n)
{
    if (n->no_qkv_bias && n->no_out_bias && n->no_mlp_bias) return "no biases";
    if (!n->no_qkv_bias && n->no_out_bias && n->no_mlp_bias) return "biases of Q, K and V alone";
    if (!n->no_qkv_bias && !n->no_out_bias && !n->no_mlp_bias) return "biases";
    return "biases of some layers";
}

static void put_experts(const mega_experts_shape *e, mega_buffer *out)
{
    int64_t fewest = e->count;
    if (e->count == 0) return;
    for (int64_t i = 0; i < MEGA_SHAPE_LAYERS; i++)
        if (e->fewer[i] > 0 && e->fewer[i] < fewest) fewest = e->fewer[i];
    mega_buffer_puts(out, ", ");
    if (fewest < e->count) mega_buffer_printf(out, "%lld to ", (long long)fewest);
    mega_buffer_printf(out, "%lld experts of %lld, %lld of them a token", (long long)e->count, (long long)e->hidden,
                       (long long)e->choices);
    if (e->shared > 0) mega_buffer_printf(out, ", an MLP of %lld beside them", (long long)e->shared);
}

void train_network_words(const mega_network_shape *n, mega_buffer *out)
{
    put_norms(n, out);
    put_positions(n, out);
    mega_buffer_printf(out, ", %s, %s", activation(n), biases(n));
    put_experts(&n->experts, out);
    if (n->parallel) mega_buffer_puts(out, ", attention and MLP in parallel");
    if (n->has_window && n->window_left >= 0)
        mega_buffer_printf(out, ", window of %lld", (long long)n->window_left + 1);
    if (n->classes == 0 && n->choices == 0)
        mega_buffer_puts(out, n->untied ? ", a head of its own" : ", head tied to the embedding");
}

/* ---- the table of options ---- */

/* A line of the table whose value follows from the network. */
typedef struct table_value {
    const char *dest;
    char text[48];
} table_value;

static const char *truth(bool on)
{
    return on ? "True" : "False";
}

enum { VALUES = 20 };

static int list_values(const mega_network_shape *n, int64_t heads, table_value out[VALUES])
{
    static const char *const positions[] = {[MEGA_POSITIONS_TABLE] = "learned_absolute",
                                            [MEGA_POSITIONS_ROPE] = "rope",
                                            [MEGA_POSITIONS_ALIBI] = "alibi",
                                            [MEGA_POSITIONS_NONE] = "none"};
    const bool rotates = n->positions == MEGA_POSITIONS_ROPE;
    const int64_t groups = n->kv_heads > 0 ? n->kv_heads : heads;
    int count = 0;
#define VALUE(name, ...)                                              \
    do {                                                              \
        out[count].dest = name;                                       \
        snprintf(out[count++].text, sizeof out[0].text, __VA_ARGS__); \
    } while (0)
    VALUE("normalization", "%s", n->rms ? "RMSNorm" : "LayerNorm");
    VALUE("position_embedding_type", "%s", n->t5 == MEGA_T5_ORIGINAL ? "relative" : positions[n->positions]);
    VALUE("add_position_embedding", "%s", truth(n->positions == MEGA_POSITIONS_TABLE && n->t5 != MEGA_T5_ORIGINAL));
    VALUE("use_rotary_position_embeddings", "%s", truth(rotates));
    if (rotates) VALUE("rotary_base", "%.10g", n->rope.theta);
    if (rotates) VALUE("rotary_percent", "%g", n->rope.fraction > 0 ? n->rope.fraction : 1.0);
    if (rotates) VALUE("rotary_interleaved", "%s", truth(n->rope.interleaved));
    VALUE("group_query_attention", "%s", truth(groups != heads));
    VALUE("num_query_groups", "%lld", (long long)groups);
    VALUE("swiglu", "%s", truth(n->gated && n->activation == MEGA_ACT_SILU));
    VALUE("squared_relu", "%s", truth(!n->gated && n->activation == MEGA_ACT_RELU_SQUARED));
    VALUE("add_bias_linear", "%s", truth(!n->no_out_bias && !n->no_mlp_bias));
    VALUE("add_qkv_bias", "%s", truth(!n->no_qkv_bias && n->no_out_bias));
    VALUE("qk_layernorm", "%s", truth(n->query_norm != MEGA_QUERY_NORM_NONE));
    VALUE("apply_layernorm_1p", "%s", truth(n->norm_plus_one));
    VALUE("embed_layernorm", "%s", truth(n->embedding_norm));
    VALUE("untie_embeddings_and_output_weights", "%s", truth(n->untied));
#undef VALUE
    return count;
}

static const char *network_value(const table_value *value, int count, const char *line, size_t n)
{
    for (int i = 0; i < count; i++)
        if (strlen(value[i].dest) == n && strncmp(value[i].dest, line, n) == 0) return value[i].text;
    return NULL;
}

/* The options of a network that is loaded have their defaults, and say nothing of it. */
mega_status train_options_table(const trainer *t, mega_buffer *out)
{
    const mega_model_shape shape = t->task->shape(&t->network, -1);
    table_value value[VALUES];
    mega_buffer table = {0};
    mega_status st = mega_options_dump_arguments(t->cfg->engine.options, &table);
    const int count = t->network.self != NULL && t->is_loaded ? list_values(&shape.net, shape.heads, value) : 0;
    for (const char *at = table.data; st == MEGA_OK && at != NULL && *at != '\0';) {
        const size_t n = strcspn(at, "\n"), name = strcspn(at + strspn(at, " "), " ");
        const char *word = at + strspn(at, " "), *dots = strstr(at, " .");
        const char *text = dots != NULL && dots < at + n ? network_value(value, count, word, name) : NULL;
        if (text != NULL) {
            const size_t head = (size_t)(dots + 1 - at);
            mega_buffer_printf(out, "%.*s %s\n", (int)(head + strspn(at + head, ".")), at, text);
        } else
            mega_buffer_printf(out, "%.*s\n", (int)n, at);
        at += n + (at[n] == '\n');
    }
    mega_buffer_fini(&table);
    return st == MEGA_OK ? mega_buffer_check(out, "the list of arguments") : st;
}

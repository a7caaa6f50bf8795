/* Experts in config.json: which layers have them, their groups, and the keys of a router of any kind, which folders
 * have that are ours alone. */
#include "hf_impl.h"

#include <stdio.h>
#include <string.h>

/* Whether the shape can say of each layer what it has; reports it if not. */
static bool experts_have_layers(hf_reader *r, const mega_model_shape *s)
{
    char expected[96];
    if (s->num_layers <= MEGA_SHAPE_LAYERS) return true;
    snprintf(expected, sizeof expected, "at most %d layers in a model with experts", MEGA_SHAPE_LAYERS);
    hf_refuse(r, "num_hidden_layers", json_object_get(r->json, "num_hidden_layers"), expected);
    return false;
}

/* Every `step`-th layer has experts, but for those of the list. */
void hf_take_dense_layers(hf_reader *r, mega_model_shape *s)
{
    mega_experts_shape *e = &s->net.experts;
    const int64_t step = hf_take_int(r, "decoder_sparse_step", 1);
    const json_t *list = hf_take(r, "mlp_only_layers");
    if (!experts_have_layers(r, s)) return;
    for (int64_t i = 0; i < s->num_layers; i++)
        if ((i + 1) % step != 0) mega_shape_set_bit(e->dense, i);
    if (list == NULL || json_is_null(list)) return;
    for (size_t k = 0; k < json_array_size(list); k++) {
        const json_t *layer = json_array_get(list, k);
        if (json_is_integer(layer) && json_integer_value(layer) >= 0)
            mega_shape_set_bit(e->dense, json_integer_value(layer));
        else
            hf_refuse(r, "mlp_only_layers", layer, "numbers of layers, from 0");
    }
    if (!json_is_array(list)) hf_refuse(r, "mlp_only_layers", list, "a list of numbers of layers");
}

void hf_put_dense_layers(const mega_model_shape *s, void *user, hf_put *put)
{
    mega_buffer list = {0};
    mega_buffer_puts(&list, "[");
    for (int64_t i = 0, n = 0; i < s->num_layers; i++)
        if (mega_shape_bit(s->net.experts.dense, i))
            mega_buffer_printf(&list, n++ == 0 ? "%lld" : ", %lld", (long long)i);
    mega_buffer_puts(&list, "]");
    hf_put_int(user, put, "decoder_sparse_step", 1);
    hf_put_text(user, put, "mlp_only_layers", &list);
}

void hf_take_first_dense(hf_reader *r, mega_model_shape *s, int64_t fallback)
{
    const int64_t first = hf_take_whole(r, "first_k_dense_replace", fallback);
    if (!experts_have_layers(r, s)) return;
    for (int64_t i = 0; i < first && i < s->num_layers; i++) mega_shape_set_bit(s->net.experts.dense, i);
}

void hf_put_first_dense(const mega_model_shape *s, void *user, hf_put *put)
{
    int64_t first = 0;
    while (first < s->num_layers && mega_shape_bit(s->net.experts.dense, first)) first++;
    hf_put_int(user, put, "first_k_dense_replace", first);
}

void hf_check_groups(hf_reader *r, const mega_model_shape *s, const char *groups, const char *chosen)
{
    const mega_experts_shape *e = &s->net.experts;
    char expected[128];
    if (e->groups < 1 || e->chosen_groups < 1 || e->count < 1) return; /* reported already */
    if (e->count % e->groups != 0 || e->count / e->groups < 2) {
        snprintf(expected, sizeof expected, "a divisor of the %lld experts, for groups of two or more",
                 (long long)e->count);
        hf_refuse(r, groups, json_object_get(r->json, groups), expected);
    } else if (e->chosen_groups > e->groups || e->count / e->groups * e->chosen_groups < e->choices) {
        snprintf(expected, sizeof expected, "at most %lld groups, with %lld experts or more in them",
                 (long long)e->groups, (long long)e->choices);
        hf_refuse(r, chosen, json_object_get(r->json, chosen), expected);
    }
}

/* A token chooses at most all experts. */
void hf_check_choices(hf_reader *r, const mega_model_shape *s, const char *key)
{
    char expected[64];
    if (s->net.experts.choices <= s->net.experts.count) return;
    snprintf(expected, sizeof expected, "at most %lld, the number of experts", (long long)s->net.experts.count);
    hf_refuse(r, key, json_object_get(r->json, key), expected);
}

/* ---- folders of our own ---- */

static const char *const scores[] = {[MEGA_ROUTE_SOFTMAX] = "softmax", [MEGA_ROUTE_SIGMOID] = "sigmoid"};

static mega_route_score take_score(hf_reader *r)
{
    const json_t *v = hf_take(r, "scoring_func");
    if (v == NULL || json_is_null(v)) return MEGA_ROUTE_SOFTMAX;
    for (size_t i = 0; i < sizeof scores / sizeof *scores; i++)
        if (json_is_string(v) && strcmp(json_string_value(v), scores[i]) == 0) return (mega_route_score)i;
    hf_refuse(r, "scoring_func", v, "\"softmax\" or \"sigmoid\"");
    return MEGA_ROUTE_SOFTMAX;
}

static bool is_choice_of_groups(const mega_experts_shape *e)
{
    const int64_t chosen = e->chosen_groups;
    if (e->groups == 0) return chosen == 0;
    return e->count % e->groups == 0 && chosen >= 1 && chosen <= e->groups && e->choices % chosen == 0 &&
           e->choices / chosen <= e->count / e->groups;
}

/* Of the layers that do not have as many as others. */
static void take_fewer(hf_reader *r, mega_model_shape *s)
{
    mega_experts_shape *e = &s->net.experts;
    const json_t *list = hf_take(r, "num_experts_by_layer");
    if (list == NULL || json_is_null(list)) return;
    const size_t layers = s->num_layers > MEGA_SHAPE_LAYERS ? 0 : (size_t)s->num_layers;
    bool is_right = json_is_array(list) && json_array_size(list) == layers;
    for (size_t i = 0; i < layers && is_right; i++) {
        const json_t *count = json_array_get(list, i);
        const json_int_t n = json_is_integer(count) ? json_integer_value(count) : -1;
        is_right = n >= 0 && n <= e->count;
        if (is_right && n > 0) e->fewer[i] = (uint16_t)n;
    }
    if (!is_right)
        hf_refuse(r, "num_experts_by_layer", list, "a number for each layer, from 0 to num_experts, of at most 512");
}

static void put_fewer(const mega_model_shape *s, void *user, hf_put *put)
{
    mega_buffer list = {0};
    bool differ = false;
    for (int64_t i = 0; i < s->num_layers; i++) {
        const int64_t count = mega_shape_experts(&s->net.experts, i);
        differ = differ || (count > 0 && count != s->net.experts.count);
        mega_buffer_printf(&list, "%s%lld", i == 0 ? "[" : ", ", (long long)count);
    }
    mega_buffer_puts(&list, "]");
    if (differ) hf_put_text(user, put, "num_experts_by_layer", &list);
    else
        mega_buffer_fini(&list);
}

void hf_take_experts(hf_reader *r, mega_model_shape *s)
{
    mega_experts_shape *e = &s->net.experts;
    e->count = hf_take_whole(r, "num_experts", 0);
    if (e->count == 0) return;
    if (e->count > MEGA_ROUTE_EXPERTS)
        hf_refuse(r, "num_experts", json_object_get(r->json, "num_experts"), "at most 2048");
    take_fewer(r, s);
    e->balance = MEGA_ROUTER_AUX_LOSS_COEF;
    e->choices = hf_take_int(r, "num_experts_per_tok", 2);
    e->hidden = hf_take_int(r, "moe_intermediate_size", s->ffn_hidden);
    e->score = take_score(r);
    e->normalized = hf_take_bool(r, "norm_topk_prob", true);
    if (e->score == MEGA_ROUTE_SIGMOID && e->normalized) e->epsilon = MEGA_SIGMOID_EPSILON;
    e->scale = hf_take_positive(r, "routed_scaling_factor", 1.0);
    e->groups = hf_take_whole(r, "n_group", 0);
    e->chosen_groups = hf_take_whole(r, "topk_group", 0);
    e->choice_bias = hf_take_bool(r, "use_expert_bias", false);
    hf_take_dense_layers(r, s);
    hf_check_choices(r, s, "num_experts_per_tok");
    if (!is_choice_of_groups(e))
        hf_refuse(r, "n_group", json_object_get(r->json, "n_group"),
                  "a divisor of num_experts, with a topk_group that divides num_experts_per_tok");
    e->has_biases = !s->net.no_mlp_bias;
    e->blended = hf_take_bool(r, "blended_mlp", false);
    e->shared = e->blended ? s->ffn_hidden : 0;
}

void hf_put_experts(const mega_model_shape *s, void *user, hf_put *put)
{
    const mega_experts_shape *e = &s->net.experts;
    char text[32];
    if (e->count == 0) return;
    hf_put_int(user, put, "num_experts", e->count);
    put_fewer(s, user, put);
    hf_put_int(user, put, "num_experts_per_tok", e->choices);
    hf_put_int(user, put, "moe_intermediate_size", e->hidden);
    if (e->blended) put(user, "blended_mlp", "true");
    snprintf(text, sizeof text, "\"%s\"", e->score == MEGA_ROUTE_SIGMOID ? "sigmoid" : "softmax");
    put(user, "scoring_func", text);
    put(user, "norm_topk_prob", e->normalized ? "true" : "false");
    hf_put_whole_or_float(user, put, "routed_scaling_factor", e->scale > 0.0 ? e->scale : 1.0);
    hf_put_int(user, put, "n_group", e->groups);
    hf_put_int(user, put, "topk_group", e->chosen_groups);
    if (e->choice_bias) put(user, "use_expert_bias", "true");
    hf_put_dense_layers(s, user, put);
}

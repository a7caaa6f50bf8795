/* The mixture of experts that options describe (Megatron-core's names). */
#include "network.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- which layers have experts ---- */

/* A list such as "([0]*3+[1])*2" as it is read: a 1 for each layer that has experts. */
typedef struct pattern {
    const char *at;
    bool is_wrong;
    int64_t count; /* of layers read so far; those after MEGA_SHAPE_LAYERS have no bit */
    uint64_t has[MEGA_SHAPE_LAYERS / 64];
} pattern;

enum { PATTERN_DEPTH = 8, PATTERN_MOST = 1 << 14 };

static void pattern_add(pattern *p, bool has)
{
    if (has) mega_shape_set_bit(p->has, p->count);
    p->count++;
    p->is_wrong = p->is_wrong || p->count > PATTERN_MOST;
}

static bool pattern_takes(pattern *p, char c)
{
    while (isspace((unsigned char)*p->at)) p->at++;
    if (*p->at != c) return false;
    p->at++;
    return true;
}

/* 0 or 1, with commas between them, to the bracket that ends the list. */
static void pattern_read_list(pattern *p)
{
    do {
        const bool is_one = pattern_takes(p, '1');
        p->is_wrong = p->is_wrong || (!is_one && !pattern_takes(p, '0'));
        if (!p->is_wrong) pattern_add(p, is_one);
    } while (!p->is_wrong && pattern_takes(p, ','));
    p->is_wrong = p->is_wrong || !pattern_takes(p, ']');
}

/* Adds the layers from number `first` on again, so that they are there `times` times. */
static void pattern_repeat(pattern *p, int64_t first, int64_t times)
{
    const int64_t n = p->count - first;
    p->is_wrong = p->is_wrong || times < 1 || times > PATTERN_MOST;
    for (int64_t i = 0; !p->is_wrong && i < n * (times - 1); i++) pattern_add(p, mega_shape_bit(p->has, first + i % n));
}

/* Lists and groups in parentheses, each with or without "* N", added by "+". */
static void pattern_read(pattern *p, int depth)
{
    do {
        const int64_t first = p->count;
        if (pattern_takes(p, '[')) pattern_read_list(p);
        else if (depth < PATTERN_DEPTH && pattern_takes(p, '(')) {
            pattern_read(p, depth + 1);
            p->is_wrong = p->is_wrong || !pattern_takes(p, ')');
        } else
            p->is_wrong = true;
        while (!p->is_wrong && pattern_takes(p, '*')) {
            char *end;
            const long times = strtol(p->at, &end, 10);
            p->is_wrong = end == p->at;
            p->at = end;
            pattern_repeat(p, first, times);
        }
    } while (!p->is_wrong && pattern_takes(p, '+'));
}

static bool pattern_has(const pattern *p, int64_t layer, int64_t every)
{
    return every > 0 ? layer % every == 0 : mega_shape_bit(p->has, layer);
}

static mega_status set_last_layers(const mega_model_options *o, mega_experts_shape *e)
{
    const int64_t every = o->expert_interval;
    if (every > o->num_layers)
        return MEGA_MISTAKE("--expert-interval %lld of %lld layers: no layer has experts; leave --num-experts out",
                            (long long)every, (long long)o->num_layers);
    if (o->num_layers > MEGA_SHAPE_LAYERS && every != 1)
        return MEGA_MISTAKE("--expert-interval %lld: expected 1 for %lld layers; only %d can differ", (long long)every,
                            (long long)o->num_layers, MEGA_SHAPE_LAYERS);
    for (int64_t i = 0; i < o->num_layers; i++)
        if ((i + 1) % every != 0) mega_shape_set_bit(e->dense, i);
    return MEGA_OK;
}

static mega_status set_layers(const mega_model_options *o, mega_experts_shape *e)
{
    if (o->expert_interval > 0) return set_last_layers(o, e);
    const char *text = o->moe_layer_freq != NULL ? o->moe_layer_freq : "1";
    pattern p = {.at = text};
    char *end;
    long every = strtol(text, &end, 10);
    if (end == text || *end != '\0') every = 0;
    if (every == 0) {
        pattern_read(&p, 0);
        while (isspace((unsigned char)*p.at)) p.at++;
        p.is_wrong = p.is_wrong || *p.at != '\0';
    }
    if (every < 0 || p.is_wrong)
        return MEGA_MISTAKE(
            "--moe-layer-freq %s: expected N, for the first layer and every N-th after it, or a list of "
            "a 0 or 1 for each layer, such as [0,1,1,1] or ([0]*3+[1])*2",
            text);
    if (every == 0 && p.count != o->num_layers)
        return MEGA_MISTAKE("--moe-layer-freq %s: a list of %lld layers, and --num-layers is %lld", text,
                            (long long)p.count, (long long)o->num_layers);
    if (o->num_layers > MEGA_SHAPE_LAYERS && every != 1)
        return MEGA_MISTAKE("--moe-layer-freq %s: expected 1 for %lld layers; only %d can differ", text,
                            (long long)o->num_layers, MEGA_SHAPE_LAYERS);
    int64_t dense = 0;
    for (int64_t i = 0; i < o->num_layers && every != 1; i++) {
        if (pattern_has(&p, i, every)) continue;
        mega_shape_set_bit(e->dense, i);
        dense++;
    }
    if (dense == o->num_layers && dense > 0)
        return MEGA_MISTAKE("--moe-layer-freq %s: no layer has experts; leave --num-experts out", text);
    return MEGA_OK;
}

/* ---- how many experts ---- */

static mega_status network_check_counts(const mega_model_options *o)
{
    for (size_t i = 0; i < o->num_experts.count; i++)
        if (mega_model_experts_at(o, i) == 0)
            return MEGA_MISTAKE("--num-experts %s: expected a whole number from 1 to %d", o->num_experts.item[i],
                                MEGA_ROUTE_EXPERTS);
    return MEGA_OK;
}

/* Several numbers are those of the layers with experts, in order. */
static mega_status network_set_counts(const mega_model_options *o, mega_experts_shape *e)
{
    const size_t count = o->num_experts.count;
    int64_t layers = 0;
    for (int64_t i = 0; i < o->num_layers; i++) layers += mega_shape_experts(e, i) > 0;
    if (count < 2) return MEGA_OK;
    if ((int64_t)count != layers || o->num_layers > MEGA_SHAPE_LAYERS)
        return MEGA_MISTAKE("--num-experts: %zu numbers, and %lld layers have experts (--moe-layer-freq, "
                            "--expert-interval); expected one number, or one for each of these, of at most %d layers",
                            count, (long long)layers, MEGA_SHAPE_LAYERS);
    for (int64_t i = 0, k = 0; i < o->num_layers; i++) {
        if (mega_shape_experts(e, i) == 0) continue;
        const int64_t n = mega_model_experts_at(o, (size_t)k++);
        if (n < e->choices || n % (e->groups > 0 ? e->groups : 1) != 0)
            return MEGA_MISTAKE("--num-experts: %lld in layer %lld, of which a token chooses %lld%s; expected as many "
                                "experts as choices or more, in groups of one size",
                                (long long)n, (long long)i, (long long)e->choices, e->groups > 0 ? " by groups" : "");
        e->fewer[i] = n < e->count ? (uint16_t)n : 0;
    }
    return MEGA_OK;
}

/* ---- how a token chooses ---- */

static mega_status experts_check_groups(const mega_experts_shape *e)
{
    const long long count = e->count, groups = e->groups, chosen = e->chosen_groups, k = e->choices;
    if (groups == 0 && chosen == 0) return MEGA_OK;
    if (groups == 0 || chosen == 0)
        return MEGA_MISTAKE("--moe-router-num-groups and --moe-router-group-topk belong together: give both or none");
    if (count % groups != 0 || chosen > groups || k % chosen != 0 || k / chosen > count / groups)
        return MEGA_MISTAKE("--moe-router-num-groups %lld and --moe-router-group-topk %lld with --num-experts %lld and "
                            "--moe-router-topk %lld: expected groups that divide the experts, no more chosen groups "
                            "than groups, and the same number of choices, at most all experts, from each",
                            groups, chosen, count, k);
    if (e->score == MEGA_ROUTE_SOFTMAX && e->normalized)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "--moe-router-num-groups %lld: groups are chosen by scores, not by logits: give "
                         "--moe-router-pre-softmax or --moe-router-score-function sigmoid with it",
                         groups);
    return MEGA_OK;
}

static mega_status set_choice(const mega_model_options *o, mega_experts_shape *e)
{
    const char *type = o->moe_router_load_balancing_type;
    const bool is_sinkhorn = type != NULL && strcmp(type, "sinkhorn") == 0; /* whose weights Megatron-core fixes */
    const bool asks_sigmoid = o->moe_router_score_function != NULL && o->moe_router_score_function[1] == 'i';
    const bool is_sigmoid = is_sinkhorn ? o->moe_router_topk == 1 : asks_sigmoid;
    e->choices = o->moe_router_topk;
    e->score = is_sigmoid ? MEGA_ROUTE_SIGMOID : MEGA_ROUTE_SOFTMAX;
    /* A softmax over the logits of the chosen experts is one over all, divided by the sum of the chosen ones. */
    e->normalized = is_sigmoid ? e->choices > 1 : !o->moe_router_pre_softmax && !is_sinkhorn;
    e->epsilon = is_sigmoid && e->normalized ? MEGA_SIGMOID_EPSILON : 0.0;
    e->scale = isnan(o->moe_router_topk_scaling_factor) ? 0.0 : o->moe_router_topk_scaling_factor;
    e->groups = o->moe_router_num_groups;
    e->chosen_groups = o->moe_router_group_topk;
    const int64_t experts = mega_model_num_experts(o);
    if (experts == 0) return MEGA_OK;
    e->choice_bias = o->moe_router_enable_expert_bias;
    if (e->choice_bias && !is_sigmoid)
        return MEGA_MISTAKE("--moe-router-enable-expert-bias: expected scores from 0 to 1 that do not depend on each "
                            "other, to which a bias is added; give --moe-router-score-function sigmoid with it");
    if (e->choices > experts)
        return MEGA_MISTAKE("--moe-router-topk %lld of --num-experts %lld: expected at most all of them",
                            (long long)e->choices, (long long)experts);
    if (e->choices == 1 && e->normalized)
        return MEGA_MISTAKE("--moe-router-topk 1: the weight of one expert, divided by the sum of all chosen ones, is "
                            "always 1, so that the router would learn nothing; give --moe-router-pre-softmax");
    return MEGA_OK;
}

mega_status network_set_experts(const mega_model_options *o, mega_network_shape *net)
{
    mega_experts_shape *e = &net->experts;
    e->count = mega_model_num_experts(o);
    MEGA_TRY(network_check_counts(o));
    e->hidden = o->moe_ffn_hidden_size > 0 ? o->moe_ffn_hidden_size : o->ffn_hidden_size;
    e->balance = MEGA_ROUTER_AUX_LOSS_COEF;
    MEGA_TRY(set_choice(o, e));
    if (e->count == 0) return MEGA_OK;
    MEGA_TRY(experts_check_groups(e));
    e->has_biases = o->add_bias_linear;
    e->blended = o->mlp_type != NULL && strcmp(o->mlp_type, "residual") == 0;
    e->shared = e->blended ? o->ffn_hidden_size : 0;
    MEGA_TRY(set_layers(o, e));
    return network_set_counts(o, e);
}

bool mega_network_has_experts_alone(const mega_network_shape *net, int64_t layers)
{
    for (int64_t i = 0; i < layers; i++)
        if (mega_shape_bit(net->experts.dense, i)) return false;
    return net->experts.count > 0 && !net->experts.blended;
}

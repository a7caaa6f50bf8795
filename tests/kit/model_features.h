/* Whether every feature of a small model matters: its losses change when the feature is taken out of the network and
 * the weights stay, and when the numbers of a parameter become neutral. A comparison with a model of which this holds
 * sees a feature that is missing. Only for test programs that link the room model. */
#ifndef MEGALITH_TESTS_MODEL_FEATURES_H
#define MEGALITH_TESTS_MODEL_FEATURES_H

#include "gpt_run.h"
#include "megalith/family.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A loss that changes by this comes of a logit that changes by more than 1e-3. */
#define FEATURES_LEAST 2e-3

typedef bool features_remove(mega_network_shape *n, const mega_transformer *m); /* false: it has no such feature */

static inline bool features_any(const uint64_t *bits, const mega_transformer *m, bool value)
{
    for (int64_t i = 0; i < m->num_layers; i++)
        if (mega_shape_bit(bits, i) == value) return true;
    return false;
}

/* clang-format off */
#define FEATURE(name, is_on, removal) \
    static inline bool features_##name(mega_network_shape *n, const mega_transformer *m) \
    { \
        (void)m; \
        if (!(is_on)) return false; \
        removal; \
        return true; \
    }
#define FEATURES_ROTATES (n->positions == MEGA_POSITIONS_ROPE)
FEATURE(table, n->positions == MEGA_POSITIONS_TABLE, n->positions = MEGA_POSITIONS_NONE)
FEATURE(first_rows, n->skipped_positions > 0, n->skipped_positions = 0)
FEATURE(rotation, FEATURES_ROTATES, n->positions = MEGA_POSITIONS_NONE)
FEATURE(rotated_share, FEATURES_ROTATES && n->rope.fraction > 0.0 && n->rope.fraction < 1.0, n->rope.fraction = 0.0)
FEATURE(rotation_scaled, FEATURES_ROTATES && n->rope.scaling != MEGA_ROPE_NONE, n->rope.scaling = MEGA_ROPE_NONE)
FEATURE(rotation_interleaved, FEATURES_ROTATES && n->rope.interleaved, n->rope.interleaved = false)
FEATURE(rotation_of_windows, n->window_theta > 0.0 && n->window_theta != n->rope.theta, n->window_theta = 0.0)
FEATURE(layers_not_rotated, FEATURES_ROTATES && features_any(n->no_rope, m, true), memset(n->no_rope, 0, sizeof n->no_rope))
FEATURE(alibi, n->positions == MEGA_POSITIONS_ALIBI, n->positions = MEGA_POSITIONS_NONE)
FEATURE(window, n->has_window && (!n->window_by_layer || features_any(n->windowed, m, true)), n->has_window = false)
FEATURE(layers_without_window, n->has_window && n->window_by_layer && features_any(n->windowed, m, false), n->window_by_layer = false)
FEATURE(score_scale, n->attention_scale > 0.0, n->attention_scale = 0.0)
FEATURE(score_cap, n->attention_softcap > 0.0, n->attention_softcap = 0.0)
FEATURE(logit_cap, n->logit_softcap > 0.0, n->logit_softcap = 0.0)
FEATURE(query_norm, n->query_norm != MEGA_QUERY_NORM_NONE, n->query_norm = MEGA_QUERY_NORM_NONE)
FEATURE(query_norm_of_all, n->query_norm == MEGA_QUERY_NORM_ALL, n->query_norm = MEGA_QUERY_NORM_HEAD)
FEATURE(rms, n->rms, n->rms = false)
FEATURE(one_plus_weight, n->norm_plus_one, n->norm_plus_one = false)
FEATURE(norms_on_both_sides, n->norm_place == MEGA_NORM_BOTH, n->norm_place = MEGA_NORM_BEFORE)
FEATURE(norms_after, n->norm_place == MEGA_NORM_AFTER || n->norm_place == MEGA_NORM_AFTER_SUM, n->norm_place = MEGA_NORM_BEFORE)
FEATURE(embedding_norm, n->embedding_norm, n->embedding_norm = false)
FEATURE(no_last_norm, n->no_final_norm, n->no_final_norm = false)
FEATURE(parallel, n->parallel, n->parallel = false)
FEATURE(shared_norm, n->shared_norm, n->shared_norm = false)
FEATURE(activation, true, n->activation = n->activation == MEGA_ACT_RELU ? MEGA_ACT_TANH : MEGA_ACT_RELU)
FEATURE(gate, n->gated && n->t5 == MEGA_T5_NONE, n->gate_second = !n->gate_second)
FEATURE(choices, n->experts.count > 0, n->experts.choices = n->experts.choices == 1 ? 2 : 1)
FEATURE(normalized_choices, n->experts.count > 0 && n->experts.score < MEGA_ROUTE_SOFTMAX_OF_CHOSEN, n->experts.normalized = !n->experts.normalized)
FEATURE(router_score, n->experts.count > 0, n->experts.score = n->experts.score == MEGA_ROUTE_SIGMOID ? MEGA_ROUTE_SOFTMAX : MEGA_ROUTE_SIGMOID)
FEATURE(router_margin, n->experts.margin > 0.0, n->experts.margin = 100.0)
FEATURE(expert_biases, n->experts.has_biases, n->experts.has_biases = false)
FEATURE(gate_limit, n->experts.gate_limit > 0.0, n->experts.gate_limit = 1000.0)
FEATURE(gate_alpha, n->experts.gate_limit > 0.0, n->experts.gate_alpha = 1.0)
FEATURE(sinks, n->sinks, n->sinks = false)
FEATURE(choice_bias, n->experts.choice_bias, n->experts.choice_bias = false)
FEATURE(expert_groups, n->experts.groups > 1, n->experts.groups = 1)
FEATURE(router_scale, n->experts.scale != 0.0 && n->experts.scale != 1.0, n->experts.scale = 0.0)
FEATURE(shared_expert, n->experts.shared > 0, n->experts.shared = 0)
FEATURE(shared_gate, n->experts.shared_gate, n->experts.shared_gate = false)
FEATURE(untied, n->untied, n->untied = false)
FEATURE(embedding_scale, n->embedding_scale != 0.0 && n->embedding_scale != 1.0, n->embedding_scale = 0.0)
FEATURE(residual_scale, n->residual_scale != 0.0 && n->residual_scale != 1.0, n->residual_scale = 0.0)
FEATURE(logit_scale, n->logit_scale != 0.0 && n->logit_scale != 1.0, n->logit_scale = 0.0)
FEATURE(token_types, n->token_types > 0, n->token_types = 0)
FEATURE(transform, n->transform, n->transform = false)
FEATURE(transform_activation, n->transform, n->transform_activation = n->transform_activation == MEGA_ACT_RELU ? MEGA_ACT_TANH : MEGA_ACT_RELU)
FEATURE(first_unnormed, n->first_unnormed, n->first_unnormed = false)
FEATURE(relative_distance, n->t5 == MEGA_T5_ORIGINAL, n->relative_distance *= 4)
/* clang-format on */

typedef struct features_row {
    const char *name;
    features_remove *remove;
} features_row;

#define FEATURES_ROW(name)     \
    {                          \
#name, features_##name \
    }
static const features_row features_all[] = {FEATURES_ROW(table),
                                            FEATURES_ROW(first_rows),
                                            FEATURES_ROW(rotation),
                                            FEATURES_ROW(rotated_share),
                                            FEATURES_ROW(rotation_scaled),
                                            FEATURES_ROW(rotation_interleaved),
                                            FEATURES_ROW(alibi),
                                            FEATURES_ROW(rotation_of_windows),
                                            FEATURES_ROW(layers_not_rotated),
                                            FEATURES_ROW(window),
                                            FEATURES_ROW(layers_without_window),
                                            FEATURES_ROW(score_scale),
                                            FEATURES_ROW(score_cap),
                                            FEATURES_ROW(logit_cap),
                                            FEATURES_ROW(query_norm),
                                            FEATURES_ROW(rms),
                                            FEATURES_ROW(query_norm_of_all),
                                            FEATURES_ROW(one_plus_weight),
                                            FEATURES_ROW(norms_after),
                                            FEATURES_ROW(norms_on_both_sides),
                                            FEATURES_ROW(embedding_norm),
                                            FEATURES_ROW(no_last_norm),
                                            FEATURES_ROW(parallel),
                                            FEATURES_ROW(shared_norm),
                                            FEATURES_ROW(activation),
                                            FEATURES_ROW(gate),
                                            FEATURES_ROW(choices),
                                            FEATURES_ROW(normalized_choices),
                                            FEATURES_ROW(router_score),
                                            FEATURES_ROW(expert_biases),
                                            FEATURES_ROW(gate_limit),
                                            FEATURES_ROW(gate_alpha),
                                            FEATURES_ROW(sinks),
                                            FEATURES_ROW(choice_bias),
                                            FEATURES_ROW(expert_groups),
                                            FEATURES_ROW(router_scale),
                                            FEATURES_ROW(shared_expert),
                                            FEATURES_ROW(shared_gate),
                                            FEATURES_ROW(untied),
                                            FEATURES_ROW(embedding_scale),
                                            FEATURES_ROW(residual_scale),
                                            FEATURES_ROW(logit_scale),
                                            FEATURES_ROW(token_types),
                                            FEATURES_ROW(transform),
                                            FEATURES_ROW(transform_activation),
                                            FEATURES_ROW(first_unnormed),
                                            FEATURES_ROW(relative_distance)};
enum { FEATURES = sizeof features_all / sizeof *features_all };

/* A family whose layers all have names, also those that its models lack. */
typedef struct features_named {
    mega_family family;
    mega_family_names names;
} features_named;

static inline void features_name(features_named *out, mega_network_shape *net)
{
    out->family = *mega_family_of(net);
    out->names = *out->family.names;
    const char **const name[] = {&out->names.positions, &out->names.embedding_norm, &out->names.final_norm,
                                 &out->names.norm_1,    &out->names.norm_2,         &out->names.after_1,
                                 &out->names.after_2};
    static const char *const instead[] = {"kit_positions", "kit_embedding_norm", "kit_final_norm", "kit_norm_1",
                                          "kit_norm_2",    "kit_after_1",        "kit_after_2"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (*name[i] == NULL) *name[i] = instead[i];
    out->family.names = &out->names;
    net->family = &out->family;
}

static inline gpt_run features_open(const mega_transformer *m, int64_t batch, int64_t length)
{
    return gpt_run_make(
        m, &(gpt_run_options){
               .dtype = MEGA_F64, .backend = MEGA_BACKEND_PLAIN, .batch = batch, .seq = length, .evaluate = true});
}

static inline void features_copy_inputs(const gpt_run *to, const gpt_run *from)
{
    static const char *const name[] = {
        "tokens",  "labels",      "loss_mask", "position_ids",   "seq_position",  "sample_id",           "key_begin",
        "key_end", "token_types", "is_random", "decoder_tokens", "cross_key_end", "decoder_position_ids"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        void *a = mega_program_tensor(to->program, name[i], 0), *b = mega_program_tensor(from->program, name[i], 0);
        const int64_t n = to->batch * (strcmp(name[i], "is_random") == 0 ? 1 : to->seq); /* numbers of 32 bits */
        if (a != NULL && b != NULL) memcpy(a, b, (size_t)n * 4);
    }
    mega_error_clear();
}

/* Parameters of one name have the same numbers; those that only `to` has keep their initial values. */
static inline void features_copy_weights(const gpt_run *to, const gpt_run *from)
{
    for (int i = 0; i < mega_params_count(to->params); i++)
        for (int k = 0; k < mega_params_count(from->params); k++) {
            const mega_param *p = mega_params_get(to->params, i), *q = mega_params_get(from->params, k);
            if (strcmp(p->name, q->name) != 0) continue;
            const int64_t n = p->count < q->count ? p->count : q->count;
            memcpy(mega_params_master(to->params, i), mega_params_master(from->params, k), (size_t)n * sizeof(double));
        }
}

/* How many numbers features_losses writes: a loss for each position, and two logits for each sample of a head for
 * pairs. */
static inline int64_t features_count(const gpt_run *r)
{
    return r->batch * (r->seq + 2);
}

static inline void features_losses(const gpt_run *r, double *out)
{
    GPT_RUN_OK(mega_params_publish(r->params));
    GPT_RUN_OK(mega_program_forward(r->program, 0));
    const double *logits = r->gpt.net.sentence_head ? mega_program_tensor(r->program, "class_logits", 0) : NULL;
    memcpy(out, mega_program_tensor(r->program, "token_loss", 0), (size_t)(r->batch * r->seq) * sizeof *out);
    for (int64_t i = 0; i < 2 * r->batch; i++) out[r->batch * r->seq + i] = logits != NULL ? logits[i] : 0.0;
}

/* Returns the largest change of a loss or logit against `losses`. */
static inline double features_change(const gpt_run *r, const double *losses)
{
    double worst = 0.0, *now = calloc((size_t)features_count(r), sizeof *now);
    features_losses(r, now);
    for (int64_t i = 0; i < features_count(r); i++) worst = fmax(worst, fabs(now[i] - losses[i]));
    free(now);
    return worst;
}

/* Returns the name of a parameter that could as well be neutral, or NULL. */
static inline const char *features_idle_parameter(const gpt_run *r, const double *losses)
{
    for (int i = 0; i < mega_params_count(r->params); i++) {
        const mega_param *p = mega_params_get(r->params, i);
        if (strstr(p->name, "_k.bias") != NULL) continue; /* it adds the same to all scores of a query */
        const size_t bytes = (size_t)p->count * sizeof(double);
        const char *end = strrchr(p->name, '.');
        const bool is_gain = p->num_dims == 1 && end != NULL && strcmp(end, ".weight") == 0;
        double *w = mega_params_master(r->params, i), *was = malloc(bytes);
        memcpy(was, w, bytes);
        for (int64_t k = 0; k < p->count; k++) w[k] = is_gain && !r->gpt.net.norm_plus_one ? 1.0 : 0.0;
        const double change = features_change(r, losses);
        memcpy(w, was, bytes);
        free(was);
        if (!(change > FEATURES_LEAST)) return p->name;
    }
    return NULL;
}

/* Returns the name of a feature, or of a parameter, of a model with weights and inputs that changes nothing; NULL:
 * there is none. Sets the features that it has in `met`, of FEATURES entries. */
static inline const char *features_idle(const gpt_run *whole, bool *met)
{
    double *losses = calloc((size_t)features_count(whole), sizeof *losses);
    const char *idle = NULL;
    features_losses(whole, losses);
    for (int i = 0; i < FEATURES && idle == NULL; i++) {
        mega_transformer without = whole->gpt;
        if (!features_all[i].remove(&without.net, &whole->gpt)) continue;
        gpt_run r = features_open(&without, whole->batch, whole->seq);
        features_copy_weights(&r, whole);
        features_copy_inputs(&r, whole);
        met[i] = true;
        if (!(features_change(&r, losses) > FEATURES_LEAST)) idle = features_all[i].name;
        gpt_run_free(&r);
    }
    if (idle == NULL) idle = features_idle_parameter(whole, losses);
    free(losses);
    return idle;
}

#endif

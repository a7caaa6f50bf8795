/* A small GPT for tests: layout, parameters, one program over a micro-batch, and inputs that depend only on the sample.
 * Only for test programs that link the room model. */
#ifndef MEGALITH_TESTS_GPT_RUN_H
#define MEGALITH_TESTS_GPT_RUN_H

#include "gpt_describe.h"
#include "kit.h"
#include "megalith/memory.h"
#include "megalith/philox.h"
#include "megalith/program.h"
#include "megalith/threads.h"
#include "megalith/transformer.h"

#include <string.h>

typedef struct gpt_run {
    mega_transformer gpt;
    mega_layout *layout;
    mega_params *params;
    mega_program *program;
    mega_team *team;
    int64_t batch, seq;
} gpt_run;

typedef struct gpt_run_options {
    mega_dtype dtype;
    mega_backend_kind backend;
    int threads, slots;
    int64_t batch, seq;
    bool evaluate, no_fusion, per_token_loss;
} gpt_run_options;

static inline mega_transformer gpt_run_tiny(void)
{
    mega_transformer gpt =
        gpt_of((gpt_size){.layers = 3, .heads = 3, .head_dim = 8, .positions = 16, .vocab = 29, .init_std = 0.2});
    gpt.ffn_hidden = 40;
    gpt.recompute_layers = 1;
    return gpt;
}

#define GPT_RUN_OK(call)                                             \
    do {                                                             \
        if ((call) != MEGA_OK) fail_msg("%s", mega_error_message()); \
    } while (0)

static inline gpt_run gpt_run_make(const mega_transformer *m, const gpt_run_options *o)
{
    gpt_run r = {.gpt = *m, .batch = o->batch, .seq = o->seq};
    GPT_RUN_OK(mega_layout_create(NULL, NULL, &r.layout));
    GPT_RUN_OK(mega_params_create(r.layout, &r.params));
    GPT_RUN_OK(gpt_declare(m, r.params));
    GPT_RUN_OK(mega_params_place(r.params, o->dtype, 0));
    GPT_RUN_OK(mega_params_allocate(r.params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    GPT_RUN_OK(mega_params_initialize(r.params, 1234));
    if (o->threads > 1) GPT_RUN_OK(mega_team_create(o->threads, &r.team));
    mega_graph *g = NULL;
    GPT_RUN_OK(mega_graph_create(o->dtype, r.params, r.layout, &g));
    GPT_RUN_OK(o->evaluate ? gpt_describe_evaluate(g, m, 0, o->batch, o->seq)
                           : gpt_describe_train(g, m, 0, o->batch, o->seq));
    const mega_program_options po = {.backend = o->backend,
                                     .team = r.team,
                                     .differentiate = !o->evaluate,
                                     .per_token_loss = o->per_token_loss,
                                     .no_fusion = o->no_fusion,
                                     .slots = o->slots,
                                     .name = o->evaluate ? "evaluate" : "train"};
    GPT_RUN_OK(mega_program_build(g, &po, &r.program));
    GPT_RUN_OK(mega_program_allocate(r.program));
    mega_program_step_block(r.program)->seed = 99;
    mega_program_step_block(r.program)->step = 3;
    mega_program_step_block(r.program)->loss_factor = 1.0;
    return r;
}

static inline void gpt_run_free(gpt_run *r)
{
    mega_program_destroy(r->program);
    mega_team_destroy(r->team);
    mega_params_destroy(r->params);
    mega_layout_destroy(r->layout);
}

/* Fills the inputs with samples first … first + batch - 1; tokens, labels and masks are functions of the sample id and
 * the position. Sample 1 has two segments, so that key_begin and position_ids are not trivial. */
static inline void gpt_run_fill(gpt_run *r, int slot, uint32_t first)
{
    int32_t *const tokens = mega_program_tensor(r->program, "tokens", slot);
    int32_t *const labels = mega_program_tensor(r->program, "labels", slot);
    float *const mask = mega_program_tensor(r->program, "loss_mask", slot);
    int32_t *const position = mega_program_tensor(r->program, "position_ids", slot);
    int32_t *const where = mega_program_tensor(r->program, "seq_position", slot);
    int32_t *const sample = mega_program_tensor(r->program, "sample_id", slot);
    int32_t *const start = mega_program_tensor(r->program, "key_begin", slot);
    int32_t *const end = mega_program_tensor(r->program, "key_end", slot); /* an encoder has these three */
    int32_t *const types = mega_program_tensor(r->program, "token_types", slot);
    int32_t *const pair = mega_program_tensor(r->program, "is_random", slot);
    int32_t *const target =
        mega_program_tensor(r->program, "decoder_tokens", slot); /* of a T5 with as many positions */
    int32_t *const target_position = mega_program_tensor(r->program, "decoder_position_ids", slot);
    int32_t *const source_end = mega_program_tensor(r->program, "cross_key_end", slot);
    mega_error_clear();
    for (int64_t b = 0; b < r->batch; b++) {
        if (pair != NULL) pair[b] = (int32_t)((first + (uint32_t)b) % 2);
        for (int64_t i = 0; i < r->seq; i++) {
            const int64_t t = b * r->seq + i;
            const uint32_t id = first + (uint32_t)b;
            const mega_philox x = mega_philox4x32((mega_philox){{id, (uint32_t)i, 0, 0}}, 5, 6);
            const int32_t begin = id == 1 && i >= r->seq / 2 ? (int32_t)(r->seq / 2) : 0;
            tokens[t] = (int32_t)(x.v[0] % (uint32_t)r->gpt.vocab);
            labels[t] = (int32_t)(x.v[1] % (uint32_t)r->gpt.vocab);
            mask[t] = x.v[2] % 5 == 0 ? 0.0f : 1.0f;
            sample[t] = (int32_t)id;
            where[t] = (int32_t)i;
            if (start != NULL) start[t] = begin;
            if (end != NULL) end[t] = (int32_t)(r->seq - id % 3);
            if (types != NULL) types[t] = i >= r->seq / 3;
            if (target != NULL) target[t] = (int32_t)(x.v[3] % (uint32_t)r->gpt.vocab);
            if (target_position != NULL) target_position[t] = (int32_t)i;
            if (source_end != NULL) source_end[t] = (int32_t)(r->seq - id % 3);
            if (position != NULL) position[t] = (int32_t)i - begin; /* not every model reads it */
        }
    }
}

static inline double gpt_run_number(const gpt_run *r, const void *acc, int64_t i)
{
    return mega_params_acc_dtype(r->params) == MEGA_F64 ? ((const double *)acc)[i] : (double)((const float *)acc)[i];
}

/* Returns the mean loss over the unmasked tokens of the micro-batch that just ran. */
static inline double gpt_run_loss(const gpt_run *r, int slot)
{
    mega_program_loss loss = {0};
    mega_program_loss_get(r->program, 0, slot, &loss);
    return gpt_run_number(r, loss.sum, 0) / gpt_run_number(r, loss.weight, 0);
}

static inline void gpt_run_zero_gradients(const gpt_run *r)
{
    memset(mega_params_flat_grad(r->params), 0, mega_params_bytes(r->params, MEGA_PARAMS_GRADS));
}

#endif

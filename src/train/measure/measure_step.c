/* Measures a training step of a small GPT on random tokens. */
#include "../tasks/task.h"
#include "measure.h"
#include "megalith/batch.h"
#include "megalith/engine_commands.h"
#include "megalith/philox.h"

#include <stdio.h>

typedef struct shape {
    int64_t layers, hidden, heads, seq, vocab, batch;
} shape;

typedef struct stepper {
    mega_engine *engine;
    shape s;
} stepper;

static void fill(mega_batch *b, const shape *s)
{
    for (int64_t row = 0; row < mega_batch_num_samples(b); row++) {
        mega_sample *sample = mega_batch_sample(b, row);
        int32_t *tokens = mega_sample_i32(sample, "tokens", s->seq);
        int32_t *labels = mega_sample_i32(sample, "labels", s->seq);
        int32_t *positions = mega_sample_i32(sample, "position_ids", s->seq);
        int32_t *begins = mega_sample_i32(sample, "key_begin", s->seq);
        float *mask = mega_sample_f32(sample, "loss_mask", s->seq);
        for (int64_t i = 0; i < s->seq; i++) {
            const mega_philox random = mega_philox4x32((mega_philox){{(uint32_t)(row * s->seq + i), 0, 0, 0}}, 1, 2);
            if (tokens != NULL) tokens[i] = (int32_t)(random.v[0] % (uint32_t)s->vocab);
            if (labels != NULL) labels[i] = (int32_t)(random.v[1] % (uint32_t)s->vocab);
            if (positions != NULL) positions[i] = (int32_t)i;
            if (begins != NULL) begins[i] = 0;
            if (mask != NULL) mask[i] = 1.0f;
        }
    }
}

static mega_status measure_one_step(const measured_device *d, void *user)
{
    stepper *s = user;
    mega_step_result result = {.loss = 0};
    (void)d;
    fill(mega_engine_batch(s->engine), &s->s);
    return mega_engine_train_batch(s->engine, &result);
}

static mega_status create(const measured_device *d, const mega_task_model *gpt, mega_engine **out)
{
    mega_engine_options o;
    MEGA_TRY(mega_train_engine_options(d->o->cfg, &o));
    o.team = d->o->team;
    o.no_evaluate = true;
    MEGA_TRY(mega_engine_create(&(mega_setup){.model = &gpt->model, .options = &o}, out));
    MEGA_TRY(mega_engine_allocate(*out));
    return mega_engine_initialize(*out, 1234);
}

static void configure(mega_train_options *cfg, const shape *s, mega_dtype type)
{
    mega_optim_options *optim = &cfg->engine.optim;
    mega_model_options *model = &cfg->model;
    model->num_layers = s->layers;
    model->hidden_size = s->hidden;
    model->ffn_hidden_size = 4 * s->hidden;
    model->num_attention_heads = s->heads;
    model->kv_channels = s->hidden / s->heads;
    model->padded_vocab_size = s->vocab;
    model->hidden_dropout = model->attention_dropout = 0;
    cfg->seq_length = model->max_position_embeddings = s->seq;
    optim->micro_batch_size = optim->global_batch_size = s->batch;
    optim->train_iters = 1000000;
    optim->lr = 1e-4;
    optim->lr_decay_style = MEGA_LR_CONSTANT;
    cfg->engine.backend.params_dtype = type;
}

mega_status measure_step(const measured_device *d, mega_dtype type)
{
    static const shape quick = {2, 32, 2, 32, 128, 2}, whole = {6, 384, 6, 256, 8192, 64};
    stepper s = {.s = d->o->is_quick ? quick : whole};
    if (d->backend != MEGA_BACKEND_CUDA && s.s.batch > 8) s.s.batch = 8;
    const mega_task *task = train_task_of("pretrain_gpt");
    mega_task_model gpt = {.self = NULL};
    mega_measured m = {.unit = "tokens/s"};
    mega_engine_cost cost;
    configure(d->o->cfg, &s.s, type);
    mega_status st = task->make_model(&(mega_task_options){.cfg = d->o->cfg, .vocab_rows = s.s.vocab}, &gpt);
    if (st == MEGA_OK) st = create(d, &gpt, &s.engine);
    if (st == MEGA_OK) {
        mega_engine_cost_get(s.engine, &cost);
        const double of_token = cost.flops / (double)s.s.seq;
        snprintf(m.name, sizeof m.name, "step_small_%s", mega_dtype_name(type));
        snprintf(m.text, sizeof m.text, "%lld layers of %lld, %lld x %lld tokens, %.4g MFLOP a token",
                 (long long)s.s.layers, (long long)s.s.hidden, (long long)s.s.batch, (long long)s.s.seq,
                 of_token * 1e-6);
        const double peak = measure_peak(d, type);
        st = measure_rate(d, &m, (double)(s.s.batch * s.s.seq), peak / of_token, measure_one_step, &s);
    }
    mega_engine_destroy(s.engine);
    task->free_model(&gpt);
    return st;
}

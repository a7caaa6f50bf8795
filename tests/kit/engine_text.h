/* Generates greedy texts through the public calls of an engine, as a C program would, and evaluates them by a forward
 * over whole texts. Only for test programs that link the rooms engine and model. */
#ifndef MEGALITH_TESTS_ENGINE_TEXT_H
#define MEGALITH_TESTS_ENGINE_TEXT_H

#include "engine_run.h"

#include <math.h>
#include <string.h>

enum {
    TEXT_SAMPLES = 2,
    TEXT_PREFILL = 4,
    TEXT_SEQ = ENGINE_RUN_SEQ,
    TEXT_VOCAB = ENGINE_RUN_VOCAB,
    TEXT_TOKENS = TEXT_SAMPLES * TEXT_SEQ
};

/* Lengths of the prompts: one ends within its first chunk, the other has several chunks. */
static const int32_t text_prompt[TEXT_SAMPLES] = {3, 9};

typedef struct engine_text {
    int32_t token[TEXT_SAMPLES][TEXT_SEQ];
    int32_t length[TEXT_SAMPLES], filled[TEXT_SAMPLES], taken[TEXT_SAMPLES];
    int runs; /* number of engine runs */
} engine_text;

static inline mega_engine_options text_options(mega_dtype compute, mega_mode mode)
{
    return (mega_engine_options){.compute = compute,
                                 .micro_batch = TEXT_SAMPLES,
                                 .seq = TEXT_SEQ,
                                 .prefill = mode == MEGA_GENERATE ? TEXT_PREFILL : 0,
                                 .batch = {.global_batch = TEXT_SAMPLES, .micro_step = TEXT_SAMPLES}};
}

/* Creates an engine with the weights of seed 11, which are the same in every layout. */
static inline mega_status text_engine(mega_engine **out, const mega_transformer *gpt, mega_mode mode,
                                      const mega_engine_options *options)
{
    mega_transformer_list list;
    mega_engine_options o = *options;
    o.stage_programs = (int)gpt->stage_chunks;
    MEGA_TRY(mega_transformer_list_create(gpt, o.layout.pp > 1 ? o.layout.pp : 1, &list));
    const mega_model model = mega_transformer_model(&list);
    mega_status st = mega_engine_create(&(mega_setup){.model = &model, .mode = mode, .options = &o}, out);
    mega_transformer_list_destroy(&list);
    if (st == MEGA_OK) st = mega_engine_allocate(*out);
    return st == MEGA_OK ? mega_engine_initialize(*out, 11) : st;
}

static inline void text_begin(engine_text *t, int32_t first)
{
    *t = (engine_text){.runs = 0};
    for (int b = 0; b < TEXT_SAMPLES; b++) {
        t->length[b] = text_prompt[b];
        for (int i = 0; i < text_prompt[b]; i++) t->token[b][i] = (first + 7 * b + 3 * i * i) % TEXT_VOCAB;
    }
}

/* Fills the batch with the next rows of every sample. Returns the program that reads them, or -1 if all texts are
 * complete. */
static inline int text_fill(engine_text *t, mega_engine *e)
{
    int32_t most = 0;
    for (int b = 0; b < TEXT_SAMPLES; b++)
        if (t->length[b] < TEXT_SEQ && t->length[b] - t->filled[b] > most) most = t->length[b] - t->filled[b];
    if (most == 0) return -1;
    const mega_run program = most > 1 ? MEGA_RUN_PREFILL : MEGA_RUN_DECODE;
    const int rows = (int)mega_engine_run_rows(e, program);
    mega_batch *batch = mega_engine_run_batch(e, program);
    for (int b = 0; b < TEXT_SAMPLES; b++) {
        int32_t token[TEXT_SEQ] = {0}, position[TEXT_SEQ] = {0}, last = b * rows;
        const int32_t pending = t->length[b] < TEXT_SEQ ? t->length[b] - t->filled[b] : 0;
        t->taken[b] = pending < rows ? pending : rows;
        for (int i = 0; i < t->taken[b]; i++) {
            token[i] = t->token[b][t->filled[b] + i];
            position[i] = t->filled[b] + i;
        }
        if (t->taken[b] > 0) last += t->taken[b] - 1;
        mega_sample *s = mega_batch_sample(batch, b);
        if (mega_sample_set_i32(s, "tokens", token, rows) != MEGA_OK ||
            mega_sample_set_i32(s, "position_ids", position, rows) != MEGA_OK ||
            mega_sample_set_i32(s, "last_rows", &last, 1) != MEGA_OK)
            return -1;
    }
    return (int)program;
}

static inline double text_number(const mega_run_value *v, int64_t i)
{
    double wide;
    float narrow;
    if (mega_run_value_read(v, i, 1, v->dtype == MEGA_F64 ? (void *)&wide : &narrow) != MEGA_OK) return NAN;
    return v->dtype == MEGA_F64 ? wide : (double)narrow;
}

static inline int32_t text_argmax(const mega_engine *e, const mega_run_value *logits, int b)
{
    const int64_t tp = mega_engine_layout(e)->tp.size, part = logits->count / TEXT_SAMPLES / tp;
    int32_t best = 0;
    double most = -1e300;
    for (int32_t v = 0; v < TEXT_VOCAB; v++) {
        const double now = text_number(logits, (v / part * TEXT_SAMPLES + b) * part + v % part);
        if (now > most) most = now, best = v;
    }
    return best;
}

/* Extends every text to the length that the model allows. */
static inline mega_status text_generate(engine_text *t, mega_engine *e)
{
    const mega_axis *pp = &mega_engine_layout(e)->pp;
    for (int program = text_fill(t, e); program >= 0; program = text_fill(t, e)) {
        int32_t next[TEXT_SAMPLES] = {0};
        bool draws = false;
        mega_run_value logits;
        MEGA_TRY(mega_engine_run(e, (mega_run)program, t->filled));
        t->runs++;
        for (int b = 0; b < TEXT_SAMPLES; b++) {
            t->filled[b] += t->taken[b];
            draws = draws || (t->taken[b] > 0 && t->filled[b] == t->length[b]);
        }
        if (!draws) continue; /* only a chunk of a prompt was read; there is no new token yet */
        MEGA_TRY(mega_engine_wait(e));
        if (mega_engine_run_output(e, (mega_run)program, "logits", &logits))
            for (int b = 0; b < TEXT_SAMPLES; b++) next[b] = text_argmax(e, &logits, b);
        MEGA_TRY(mega_comm_broadcast(pp->comm, "next tokens", next, (int64_t)sizeof next, pp->size - 1));
        for (int b = 0; b < TEXT_SAMPLES; b++)
            if (t->taken[b] > 0 && t->filled[b] == t->length[b]) t->token[b][t->length[b]++] = next[b];
    }
    return mega_engine_wait(e);
}

/* Computes the loss of each token of the texts with MEGA_RUN_EVALUATE; every rank gets all of them in `out`. `label` is
 * the label at every position, or -1 for the token that follows. */
static inline mega_status text_losses(const engine_text *t, mega_engine *e, int32_t label, double out[TEXT_TOKENS])
{
    const mega_axis *pp = &mega_engine_layout(e)->pp;
    mega_batch *batch = mega_engine_run_batch(e, MEGA_RUN_EVALUATE);
    mega_run_value loss;
    for (int b = 0; b < TEXT_SAMPLES; b++) {
        int32_t row[TEXT_SEQ + 1] = {0};
        const mega_ltor_options o = {.eod = -1};
        memcpy(row, t->token[b], sizeof t->token[b]);
        mega_ltor_sample(mega_batch_sample(batch, b), row, TEXT_SEQ, &o);
        for (int i = 0; i < TEXT_SEQ; i++) row[i] = label >= 0 ? label : row[i + 1];
        MEGA_TRY(mega_sample_set_i32(mega_batch_sample(batch, b), "labels", row, TEXT_SEQ));
    }
    MEGA_TRY(mega_engine_run(e, MEGA_RUN_EVALUATE, NULL));
    MEGA_TRY(mega_engine_wait(e));
    if (mega_engine_run_output(e, MEGA_RUN_EVALUATE, "token_loss", &loss))
        for (int i = 0; i < TEXT_TOKENS; i++) out[i] = text_number(&loss, i);
    return mega_comm_broadcast(pp->comm, "losses", out, (int64_t)sizeof(double) * TEXT_TOKENS, pp->size - 1);
}

/* Finds the most likely token after each position of the texts, by forwards over whole texts: the token with the least
 * loss. */
static inline mega_status text_most_likely(const engine_text *t, mega_engine *e, int32_t out[TEXT_TOKENS])
{
    double least[TEXT_TOKENS], now[TEXT_TOKENS];
    for (int32_t v = 0; v < TEXT_VOCAB; v++) {
        MEGA_TRY(text_losses(t, e, v, now));
        for (int i = 0; i < TEXT_TOKENS; i++)
            if (v == 0 || now[i] < least[i]) least[i] = now[i], out[i] = v;
    }
    return MEGA_OK;
}

#endif

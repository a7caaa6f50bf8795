/* Programs of a GPT without an engine, for tests and measurements. Only for programs that link the room model. */
#ifndef MEGALITH_TESTS_GPT_DESCRIBE_H
#define MEGALITH_TESTS_GPT_DESCRIBE_H

#include "megalith/language.h"
#include "megalith/layers.h"
#include "megalith/model_parts.h"
#include "megalith/transformer.h"

typedef struct gpt_size {
    int64_t layers, heads, head_dim, positions, vocab;
    double init_std;
} gpt_size;

/* Returns a GPT of this size, of GPT-2's proportions. The caller sets what else it wants. */
static inline mega_transformer gpt_of(gpt_size s)
{
    return (mega_transformer){.num_layers = s.layers,
                              .hidden = s.heads * s.head_dim,
                              .ffn_hidden = 4 * s.heads * s.head_dim,
                              .heads = s.heads,
                              .head_dim = s.head_dim,
                              .positions = s.positions,
                              .vocab = s.vocab,
                              .padded_vocab = mega_vocab_pad(s.vocab, 16, 1),
                              .norm_epsilon = 1e-5,
                              .init_std = s.init_std};
}

/* Returns the number of programs per stage; 1 if there is only one stage. */
static inline int gpt_programs(const mega_transformer *m, const mega_axis *pp)
{
    return pp->size > 1 && m->stage_chunks > 1 ? (int)m->stage_chunks : 1;
}

static inline mega_status gpt_declare(const mega_transformer *m, mega_params *params)
{
    const mega_axis *pp = &mega_params_layout(params)->pp;
    mega_transformer_list list;
    MEGA_TRY(mega_transformer_list_create(m, pp->size, &list));
    const mega_model model = mega_transformer_model(&list);
    const mega_status st = mega_model_declare(&model, gpt_programs(m, pp), params);
    mega_transformer_list_destroy(&list);
    return st;
}

static inline mega_status gpt_describe(mega_graph *g, const mega_transformer *m, int chunk, mega_model_sizes what)
{
    const mega_axis *pp = &mega_graph_layout(g)->pp;
    mega_transformer_list list;
    MEGA_TRY(mega_transformer_list_create(m, pp->size, &list));
    const mega_model model = mega_transformer_model(&list);
    const mega_status st = mega_model_describe(&model, gpt_programs(m, pp), chunk, what, g);
    mega_transformer_list_destroy(&list);
    return st;
}

static inline mega_status gpt_describe_train(mega_graph *g, const mega_transformer *m, int chunk, int64_t batch,
                                             int64_t seq)
{
    return gpt_describe(g, m, chunk, (mega_model_sizes){.mode = MEGA_TRAIN, .samples = batch, .positions = seq});
}

static inline mega_status gpt_describe_evaluate(mega_graph *g, const mega_transformer *m, int chunk, int64_t batch,
                                                int64_t seq)
{
    return gpt_describe(g, m, chunk, (mega_model_sizes){.mode = MEGA_EVAL, .samples = batch, .positions = seq});
}

static inline mega_status gpt_describe_generate(mega_graph *g, const mega_transformer *m, int64_t batch, int64_t rows,
                                                int64_t cache)
{
    return gpt_describe(g, m, 0,
                        (mega_model_sizes){.mode = MEGA_GENERATE, .samples = batch, .positions = rows, .cache = cache});
}

/* Creates a language model for one rank. It borrows `list`, which the caller releases with
 * mega_transformer_list_destroy. */
static inline mega_status gpt_language(mega_language_model *out, mega_transformer_list *list, const mega_transformer *m)
{
    MEGA_TRY(mega_transformer_list_create(m, 1, list));
    *out = (mega_language_model){.model = mega_transformer_model(list),
                                 .positions = m->positions,
                                 .vocab = m->vocab,
                                 .padded_vocab = m->padded_vocab};
    return MEGA_OK;
}

#endif

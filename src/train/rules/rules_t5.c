/* Rules of the options of pretrain_t5. */
#include "train_rules.h"

static int64_t decoder_length(const mega_train_options *cfg)
{
    return cfg->t5.decoder_seq_length > 0 ? cfg->t5.decoder_seq_length : cfg->seq_length;
}

mega_sentence_options train_sentences_t5(const mega_train_options *cfg, const mega_sentence_vocabulary *words)
{
    return (mega_sentence_options){.kind = MEGA_SENTENCES_T5,
                                   .vocabulary = words,
                                   .mask_prob = cfg->t5.mask_prob,
                                   .short_seq_prob = cfg->t5.short_seq_prob,
                                   .decoder_seq_length = decoder_length(cfg)};
}

/* Options that are about one stack of layers, or about several documents in one sample. */
static void refuse_options_of_gpt(mega_options *o)
{
    static const char *const of_documents[] = {"reset_position_ids", "reset_attention_mask", "eod_mask_loss"};
    static const char *const of_stages[] = {"decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers",
                                            "num_layers_per_virtual_pipeline_stage"};
    for (size_t i = 0; i < MEGA_COUNT(of_documents); i++)
        if (mega_options_is_given(o, of_documents[i]))
            mega_options_mistake(o,
                                 "%s is about several documents in one sample of a GPT; the samples of a T5 are of one "
                                 "document each, leave it out",
                                 mega_options_origin(o, of_documents[i]));
    for (size_t i = 0; i < MEGA_COUNT(of_stages); i++)
        if (mega_options_is_given(o, of_stages[i]))
            mega_options_mistake(o,
                                 "%s is about one stack of layers, and a T5 has two; give "
                                 "--pipeline-model-parallel-split-rank, or --num-virtual-stages-per-pipeline-rank, or "
                                 "leave it out: the layers are cut by their weights",
                                 mega_options_origin(o, of_stages[i]));
}

void mega_train_rule_t5(mega_train_options *cfg)
{
    mega_options *o = cfg->engine.options;
    const mega_sentence_options s = train_sentences_t5(cfg, NULL);
    const int64_t stages = cfg->engine.comm.pipeline_model_parallel_size;
    const int64_t split = cfg->t5.pipeline_model_parallel_split_rank;
    refuse_options_of_gpt(o);
    train_check_sentences(cfg, &s);
    if (split > 0 && split >= stages)
        mega_options_mistake(o,
                             "%s: the decoder begins in this stage, and stages are numbered from 0 to %lld "
                             "(--pipeline-model-parallel-size %lld); give a smaller number, or leave it out",
                             mega_options_origin(o, "pipeline_model_parallel_split_rank"), (long long)(stages - 1),
                             (long long)stages);
    if (cfg->load == NULL && cfg->t5.t5_form == MEGA_T5_FORM_MEGATRON && cfg->model.max_position_embeddings > 0 &&
        decoder_length(cfg) > cfg->model.max_position_embeddings)
        mega_options_mistake(
            o,
            "--decoder-seq-length %lld is longer than the %lld positions of the table that encoder and "
            "decoder share; give --max-position-embeddings %lld",
            (long long)decoder_length(cfg), (long long)cfg->model.max_position_embeddings,
            (long long)decoder_length(cfg));
    if (cfg->load == NULL && cfg->t5.t5_form != MEGA_T5_FORM_MEGATRON &&
        cfg->model.attention_dropout != cfg->model.hidden_dropout)
        mega_options_mistake(
            o,
            "--attention-dropout %g and --hidden-dropout %g: --t5-form t5, v1.1, mt5 and umt5 have one "
            "dropout, dropout_rate of their folders; give both the same value",
            cfg->model.attention_dropout, cfg->model.hidden_dropout);
}

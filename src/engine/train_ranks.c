/* What ranks have to do alike, and what one of them does for all. */
#include "megalith/compare.h"
#include "megalith/hash.h"
#include "megalith/record.h"
#include "train_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool train_is_first(const trainer *t)
{
    return mega_world_rank(t->world) == 0;
}

mega_status train_agree(const trainer *t, mega_status st)
{
    return t->world == NULL ? st : mega_comm_agree(mega_world_comm(t->world), st);
}

void train_note(const trainer *t, const char *phase)
{
    mega_record_long_phase(mega_world_record(t->world), phase);
}

mega_status train_ask_ranks(trainer *t, double minutes, bool *late)
{
    const mega_config *cfg = t->cfg;
    int32_t word[2] = {t->io->stop != NULL ? (int32_t)*t->io->stop : 0, 0};
    word[1] = train_is_first(t) && cfg->exit_duration_in_mins > 0 && minutes > (double)cfg->exit_duration_in_mins;
    if (t->world != NULL)
        MEGA_TRY(mega_comm_all_reduce(mega_world_comm(t->world), "signals", word, 2, MEGA_I32, MEGA_REDUCE_MAX));
    t->stop = word[0];
    *late = word[1] != 0;
    return MEGA_OK;
}

/* Options that say who calls whom when, and what is learned: where a rank has another value, others would wait for what
 * it never sends, or train something else without a word. */
static const char *const option_name[] = {"tensor-model-parallel-size",
                                          "pipeline-model-parallel-size",
                                          "num-layers-per-virtual-pipeline-stage",
                                          "num-layers",
                                          "hidden-size",
                                          "seq-length",
                                          "micro-batch-size",
                                          "global-batch-size",
                                          "train-iters",
                                          "train-samples",
                                          "eval-interval",
                                          "eval-iters",
                                          "save-interval",
                                          "exit-interval",
                                          "seed",
                                          "lr",
                                          "min-lr",
                                          "weight-decay",
                                          "clip-grad",
                                          "hidden-dropout",
                                          "attention-dropout",
                                          "load (1: given)",
                                          "save (1: given)",
                                          "skip-train",
                                          "log-params-norm"};
enum { OPTIONS = sizeof option_name / sizeof option_name[0] };

static void options_of(const mega_config *c, double out[OPTIONS])
{
    const double value[OPTIONS] = {(double)c->tensor_model_parallel_size,
                                   (double)c->pipeline_model_parallel_size,
                                   (double)c->num_layers_per_virtual_pipeline_stage,
                                   (double)c->num_layers,
                                   (double)c->hidden_size,
                                   (double)c->seq_length,
                                   (double)c->micro_batch_size,
                                   (double)c->global_batch_size,
                                   (double)c->train_iters,
                                   (double)c->train_samples,
                                   (double)c->eval_interval,
                                   (double)c->eval_iters,
                                   (double)c->save_interval,
                                   (double)c->exit_interval,
                                   (double)c->seed,
                                   c->lr,
                                   c->min_lr,
                                   c->weight_decay,
                                   c->clip_grad,
                                   c->hidden_dropout,
                                   c->attention_dropout,
                                   c->load != NULL,
                                   c->save != NULL,
                                   c->skip_train,
                                   c->log_params_norm};
    memcpy(out, value, sizeof value);
}

static uint64_t hash_options(const void *of, int64_t begin, int64_t end)
{
    double value[OPTIONS];
    options_of(of, value);
    return mega_hash64(MEGA_HASH_START, value + begin, (size_t)(end - begin) * sizeof *value);
}

static void describe_option(const void *of, int64_t i, char out[MEGA_COMPARED_TEXT])
{
    double value[OPTIONS];
    options_of(of, value);
    snprintf(out, MEGA_COMPARED_TEXT, "--%s %.9g", option_name[i], value[i]);
}

mega_status train_compare_options(const trainer *t)
{
    const mega_compared l = {.what = "options",
                             .item = "option",
                             .of = t->cfg,
                             .count = OPTIONS,
                             .hash = hash_options,
                             .describe = describe_option};
    if (mega_world_size(t->world) == 1) return MEGA_OK;
    return train_agree(t, mega_comm_compare(mega_world_comm(t->world), &l));
}

/* Megatron's line for each rank that holds other parameters. */
mega_status train_say_parameters(const trainer *t)
{
    const mega_axis *tp = &mega_engine_layout(t->engine)->tp, *pp = &mega_engine_layout(t->engine)->pp;
    const int64_t mine = mega_params_local_count(mega_engine_params(t->engine));
    int64_t *all = mega_malloc((size_t)(tp->size * pp->size + tp->size) * sizeof *all);
    if (all == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "training: no memory to count parameters");
    int64_t *stage = all + (ptrdiff_t)tp->size * pp->size;
    mega_status st = mega_comm_all_gather(tp->comm, "number of parameters", stage, &mine, 1, MEGA_I64);
    if (st == MEGA_OK) st = mega_comm_all_gather(pp->comm, "number of parameters", all, stage, tp->size, MEGA_I64);
    for (int i = 0; i < tp->size * pp->size && st == MEGA_OK; i++)
        train_line(t, " > number of parameters on (tensor, pipeline) model parallel rank (%d, %d): %lld", i % tp->size,
                   i / tp->size, (long long)all[i]);
    mega_free(all);
    return st;
}

/* The data of run_clm: blocks of text (data/blocks.c). Every epoch reads all blocks, shuffled anew, in whole global
 * batches: its last batch is filled up with the epoch's first blocks, as Accelerate fills it. */
#include "megalith/blocks.h"
#include "megalith/hash.h"
#include "task_gpt.h"

enum { HASHED_SAMPLES = 16 };

typedef struct clm_split {
    const mega_blocks *blocks;
    int which;
    uint32_t seed;
    int64_t of_epoch; /* samples that an epoch reads, a multiple of the global batch */
    int64_t length;
} clm_split;

mega_status task_clm_make_texts(const mega_task_data_options *o, mega_task_texts *out)
{
    const mega_clm_options *c = &o->cfg->clm;
    const mega_blocks_options b = {.train = &c->train,
                                   .validation = &c->validation,
                                   .validation_percent = c->validation_split_percentage,
                                   .key = c->text_column_name,
                                   .any_column = !mega_options_is_given(o->cfg->engine.options, "text_column_name"),
                                   .most_train = c->max_train_samples,
                                   .most_validation = c->max_eval_samples,
                                   .drops_line_ends = c->no_keep_linebreaks,
                                   .length = o->cfg->seq_length,
                                   .tokenizer = o->tokenizer,
                                   .team = o->team,
                                   .share = o->share,
                                   .stop = o->stop};
    mega_blocks *blocks = NULL;
    MEGA_TRY(mega_blocks_build(&b, &blocks));
    *out = (mega_task_texts){.self = blocks, .epochs = c->num_train_epochs};
    out->samples[MEGA_SPLIT_TRAIN] = mega_blocks_count(blocks, MEGA_SPLIT_TRAIN);
    out->samples[MEGA_SPLIT_VALID] = mega_blocks_count(blocks, MEGA_SPLIT_VALID);
    return MEGA_OK;
}

void task_clm_free_texts(mega_task_texts *texts)
{
    mega_blocks_destroy(texts->self);
    *texts = (mega_task_texts){.self = NULL};
}

mega_status task_clm_check_data_options(const mega_task_data_options *o)
{
    (void)o; /* ends of documents have no meaning in blocks, and clm_options.c refuses the options that need them */
    return MEGA_OK;
}

static mega_status clm_make_split(const mega_task_data_options *o, int which, mega_task_data *out)
{
    const int64_t count = o->texts->samples[which], batch = o->cfg->engine.optim.global_batch_size;
    const bool is_train = which == MEGA_SPLIT_TRAIN;
    *out = (mega_task_data){.self = NULL};
    if (count == 0) return MEGA_OK;
    clm_split *s = mega_calloc(1, sizeof *s);
    if (s == NULL) return MEGA_NO_MEMORY("training data", "the record of a split");
    *s = (clm_split){.blocks = o->texts->self, .which = which, .seed = o->seed, .length = o->cfg->seq_length};
    s->of_epoch = is_train ? (count + batch - 1) / batch * batch : count;
    const int64_t steps = o->cfg->engine.optim.train_iters;
    *out = (mega_task_data){.self = s, .samples = is_train && steps > 0 ? steps * batch : s->of_epoch};
    if (is_train) out->order_bytes = mega_blocks_bytes(s->blocks);
    return MEGA_OK;
}

mega_status task_clm_make_data(const mega_task_data_options *o, mega_task_data out[MEGA_SPLIT_COUNT])
{
    for (int i = 0; i < MEGA_SPLIT_COUNT; i++) out[i] = (mega_task_data){.self = NULL};
    if (o->texts == NULL || o->texts->self == NULL) return MEGA_OK;
    MEGA_TRY(clm_make_split(o, MEGA_SPLIT_TRAIN, &out[MEGA_SPLIT_TRAIN]));
    return clm_make_split(o, MEGA_SPLIT_VALID, &out[MEGA_SPLIT_VALID]);
}

/* Never called with more than one part: a run reads epochs, of which there are as many as it asks for. */
mega_status task_clm_join_data(mega_task_data *part, int count, mega_task_data *out)
{
    for (int i = 1; i < count; i++) task_clm_free_data(&part[i]);
    *out = part[0];
    return MEGA_OK;
}

void task_clm_free_data(mega_task_data *d)
{
    mega_free(d->self);
    *d = (mega_task_data){.self = NULL};
}

uint64_t task_clm_data_hash(const mega_task_data *d)
{
    const clm_split *s = d->self;
    return mega_blocks_hash(s->blocks, s->which);
}

mega_status task_clm_look_at_data(const mega_task_data *d, uint64_t *content)
{
    *content = task_clm_data_hash(d);
    return MEGA_OK;
}

/* Returns the block that is sample n of the run. */
static int64_t block_of(const clm_split *s, int64_t n)
{
    const mega_dataset blocks = {.count = mega_blocks_count(s->blocks, s->which)};
    if (s->which != MEGA_SPLIT_TRAIN) return n;
    return mega_dataset_index(&blocks, s->seed, n / s->of_epoch * blocks.count + n % s->of_epoch % blocks.count);
}

static mega_status read_block(void *user, int64_t n, mega_sample *sample)
{
    const clm_split *s = user;
    return mega_blocks_read(s->blocks, s->which, block_of(s, n), sample);
}

mega_dataset task_clm_dataset(const mega_task_data *d)
{
    return (mega_dataset){
        .count = d->samples, .read = read_block, .user = d->self, .in_order = true, .is_thread_safe = true};
}

uint64_t task_clm_order_hash(const mega_task_data *d, int64_t samples)
{
    const clm_split *s = d->self;
    uint64_t hash = MEGA_HASH_START;
    for (int64_t i = 0; i < HASHED_SAMPLES; i++) {
        const int64_t block = block_of(s, i * (samples - 1) / (HASHED_SAMPLES - 1));
        hash = mega_hash64(hash, mega_blocks_tokens(s->blocks, s->which, block), (size_t)s->length * sizeof(int32_t));
    }
    return hash;
}

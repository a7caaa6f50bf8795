/* The order of training samples. It depends on how many samples are requested from a dataset: whole epochs are
 * shuffled together, so requesting more changes the position of every sample (Megatron's rule, data/gpt_index.c). A
 * resumed run keeps the order of its checkpoint: run.json contains the numbers of samples that were requested. If the
 * run now reads more samples than that order has, another part of the data follows, shuffled separately with the next
 * seed. By then, every sample of the earlier parts has been read once in each of its epochs. */
#include "megalith/assert.h"
#include "megalith/log.h"
#include "train_impl.h"
#include <string.h>

typedef struct parts {
    mega_task_data *data;
    int64_t *asked;
    int count;
    int64_t samples; /* sum over all parts */
} parts;

/* Opens the training data again, requesting `asked` samples, as part number `parts->count`. */
static mega_status sample_order_add_part(const trainer *t, parts *p, const mega_task_data_options *o, int64_t asked)
{
    mega_task_data built[MEGA_SPLIT_COUNT];
    mega_task_data_options own = *o;
    memset(own.num_samples, 0, sizeof own.num_samples);
    own.num_samples[MEGA_SPLIT_TRAIN] = asked;
    own.seed = o->seed + (uint32_t)p->count;
    MEGA_TRY(t->task->make_data(&own, built));
    MEGA_ASSERT(built[MEGA_SPLIT_TRAIN].self != NULL, "no part of %lld samples", (long long)asked);
    p->data[p->count] = built[MEGA_SPLIT_TRAIN];
    p->asked[p->count++] = asked;
    p->samples += built[MEGA_SPLIT_TRAIN].samples;
    return MEGA_OK;
}

static void warn_of_more(const trainer *t, int64_t wanted, int64_t held)
{
    const mega_train_options *cfg = t->cfg;
    mega_warn(
        "%s asks for %lld training samples and the order of the checkpoint (--load %s) holds %lld: the run keeps that "
        "order; after sample %lld it reads further epochs, each shuffled separately",
        mega_options_origin(t->cfg->engine.options,
                            cfg->engine.optim.train_samples > 0 ? "train_samples" : "train_iters"),
        (long long)wanted, cfg->load, (long long)held, (long long)held);
}

/* Appends the stored parts of the checkpoint after the first one, and another part for the samples that are still
 * missing. */
static mega_status add_parts(trainer *t, const mega_task_data_options *o, parts *p)
{
    const train_stored *stored = &t->stored;
    const int64_t wanted = o->num_samples[MEGA_SPLIT_TRAIN];
    const bool starts_again = t->cfg->dataloader_type == MEGA_DATALOADER_CYCLIC;
    for (int i = 1; i < stored->orders; i++) MEGA_TRY(sample_order_add_part(t, p, o, stored->order[i]));
    if (stored->orders == 0 || starts_again || p->samples >= wanted) return MEGA_OK;
    warn_of_more(t, wanted, p->samples);
    return sample_order_add_part(t, p, o, wanted - p->samples);
}

static mega_status sample_order_join(trainer *t, const mega_task_data_options *o, parts *p)
{
    mega_task_data *first = &t->data[MEGA_SPLIT_TRAIN];
    p->data[0] = *first;
    p->asked[0] = o->num_samples[MEGA_SPLIT_TRAIN];
    if (t->stored.orders > 0) p->asked[0] = t->stored.order[0];
    p->count = 1;
    p->samples = first->samples;
    *first = (mega_task_data){.self = NULL};
    mega_status st = add_parts(t, o, p);
    if (st == MEGA_OK && p->count > 1) return t->task->join_data(p->data, p->count, first);
    *first = p->data[0];
    for (int i = 1; i < p->count; i++) t->task->free_data(&p->data[i]);
    return st;
}

mega_status train_build_data(trainer *t, const mega_task_data_options *o)
{
    mega_task_data_options first = *o;
    if (t->stored.orders > 0 && first.num_samples[MEGA_SPLIT_TRAIN] > 0)
        first.num_samples[MEGA_SPLIT_TRAIN] = t->stored.order[0];
    MEGA_TRY(t->task->make_data(&first, t->data));
    if (t->data[MEGA_SPLIT_TRAIN].self == NULL) return MEGA_OK;
    const size_t most = (size_t)t->stored.orders + 1;
    parts p = {.data = mega_calloc(most, sizeof(mega_task_data)), .asked = mega_calloc(most, sizeof(int64_t))};
    mega_status st = p.data == NULL || p.asked == NULL ? MEGA_NO_MEMORY("training data", "their order")
                                                       : sample_order_join(t, o, &p);
    mega_free(p.data);
    t->order.samples = p.asked;
    t->order.parts = p.count;
    return st;
}

uint64_t train_order_hash(const trainer *t, int64_t samples)
{
    return t->task->order_hash(&t->data[MEGA_SPLIT_TRAIN], samples);
}

int64_t train_cyclic_epoch(const trainer *t, int64_t *permutation)
{
    const int64_t total = t->data[MEGA_SPLIT_TRAIN].samples, micro = t->cfg->engine.optim.micro_batch_size;
    *permutation = t->cfg->engine.dataloader_drop_last ? total : total - total % micro;
    if (t->cfg->engine.dataloader_drop_last) return total - total % t->cfg->engine.optim.global_batch_size;
    return total - total % (micro * t->cfg->engine.data_parallel_size);
}

/* Maps the n-th consumed sample of a run to an index of the data set: a function of the order, the data set's size and
 * n. */
#include "data_impl.h"
#include "megalith/memory.h"
#include <pthread.h>

struct mega_sampler {
    mega_sampler_type type;
    int64_t total;
    int64_t active;       /* cyclic: samples per epoch */
    int64_t length;       /* cyclic: entries of the permutation, `active` or a few more */
    int64_t *permutation; /* the permutation of epoch `epoch` */
    int64_t epoch;
    pthread_mutex_t lock; /* protects the permutation and its epoch */
    mega_users users;     /* of data sets in its order */
};

/* length, active: as in the struct. */
static mega_status sampler_make(mega_sampler_type type, int64_t total, int64_t length, int64_t active,
                                mega_sampler **out)
{
    mega_sampler *s = mega_calloc(1, sizeof *s);
    if (s == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "sampler: no memory");
    *s = (mega_sampler){.type = type, .total = total, .epoch = -1};
    pthread_mutex_init(&s->lock, NULL);
    if (type == MEGA_SAMPLER_CYCLIC) {
        s->active = active;
        s->length = length;
        s->permutation = mega_malloc((size_t)s->length * sizeof *s->permutation);
        if (s->permutation == NULL) {
            mega_sampler_destroy(s);
            return MEGA_FAIL(MEGA_ERR_MEMORY, "sampler: no memory for a permutation of %lld samples", (long long)total);
        }
    }
    *out = s;
    return MEGA_OK;
}

mega_status mega_sampler_create(mega_sampler_type type, int64_t total, int64_t micro_batch, int64_t data_parallel,
                                mega_sampler **out)
{
    const int64_t rows = micro_batch * data_parallel;
    if (total < 1 || micro_batch < 1 || data_parallel < 1 || (type == MEGA_SAMPLER_CYCLIC && total < rows))
        return MEGA_MISTAKE(
            "sampler: found a data set of %lld samples, expected at least one micro-batch for every rank "
            "(--micro-batch-size %lld, %lld data-parallel rank%s); use more data or a smaller batch",
            (long long)total, (long long)micro_batch, (long long)data_parallel, data_parallel == 1 ? "" : "s");
    return sampler_make(type, total, total - total % micro_batch, total - total % rows, out);
}

mega_status mega_sampler_create_drop_last(mega_sampler_type type, int64_t total, int64_t batch, mega_sampler **out)
{
    if (total < 1 || batch < 1 || (type == MEGA_SAMPLER_CYCLIC && total < batch))
        return MEGA_MISTAKE(
            "sampler: found a data set of %lld samples, expected at least one --global-batch-size (%lld), "
            "since --dataloader-drop-last drops every smaller batch; use more data, a smaller batch, or "
            "leave the option out",
            (long long)total, (long long)batch);
    return sampler_make(type, total, total, total - total % batch, out);
}

size_t mega_sampler_bytes(mega_sampler_type type, int64_t total)
{
    return type == MEGA_SAMPLER_CYCLIC ? (size_t)total * sizeof(int64_t) : 0;
}

void mega_sampler_destroy(mega_sampler *s)
{
    if (s == NULL || mega_refuse_destroy(atomic_load(&s->users) > 0, "mega_sampler_destroy", "an engine that reads it"))
        return;
    pthread_mutex_destroy(&s->lock);
    MEGA_FREE(s->permutation, s);
}

mega_status mega_sampler_index(mega_sampler *s, int64_t consumed, int64_t *out_index)
{
    if (s->type == MEGA_SAMPLER_SINGLE) {
        if (consumed >= s->total)
            return MEGA_MISTAKE("sampler: all %lld samples of the data set are consumed; use fewer iterations, or "
                                "--dataloader-type cyclic, which starts again",
                                (long long)s->total);
        *out_index = consumed;
        return MEGA_OK;
    }
    const int64_t epoch = consumed / s->active;
    pthread_mutex_lock(&s->lock);
    if (epoch != s->epoch) {
        mega_torch_randperm((uint64_t)epoch, s->permutation, s->length);
        s->epoch = epoch;
    }
    *out_index = s->permutation[consumed % s->active];
    pthread_mutex_unlock(&s->lock);
    return MEGA_OK;
}

static mega_status read_sampled(void *user, int64_t n, mega_sample *sample)
{
    const mega_sampled *s = user;
    int64_t index;
    MEGA_TRY(mega_sampler_index(s->sampler, n, &index));
    return s->dataset.read(s->dataset.user, index, sample);
}

static mega_status collate_sampled(void *user, mega_batch *batch)
{
    const mega_sampled *s = user;
    return s->dataset.collate(s->dataset.user, batch);
}

static void use_sampled(void *user, int change)
{
    const mega_sampled *s = user;
    mega_users_add(&s->sampler->users, change);
    if (s->dataset.use != NULL) s->dataset.use(s->dataset.user, change);
}

mega_dataset mega_dataset_sampled(mega_sampled *s)
{
    return (mega_dataset){.count = INT64_MAX,
                          .read = read_sampled,
                          .collate = s->dataset.collate != NULL ? collate_sampled : NULL,
                          .use = use_sampled,
                          .user = s,
                          .in_order = true,
                          .is_thread_safe = s->dataset.is_thread_safe};
}

/* The three arrays that turn a split of documents into shuffled samples of seq_length + 1 tokens:
 *
 *   doc_idx      the documents (sequences of the .idx) of E epochs, shuffled; concatenated they are the token stream
 *   sample_idx   where in that stream each sample begins: position in doc_idx, offset in that document. Samples
 *                overlap by one token: the last label of one sample is the first input of the next
 *   shuffle_idx  the order in which samples are used
 *
 * The same seed gives the same arrays as in Megatron-LM: one RandomState(seed) shuffles first doc_idx, then
 * shuffle_idx. */
#include "data_impl.h"
#include "megalith/assert.h"
#include "megalith/memory.h"

/* The smallest number of epochs with enough tokens for the requested samples. */
static int64_t epochs_needed(int64_t tokens, int64_t seq_length, int64_t num_samples)
{
    const int64_t needed = num_samples * seq_length + 1;
    const int64_t epochs = (needed + tokens - 1) / tokens;
    return epochs > 1 ? epochs : 1;
}

/* If less than 80 % of the last epoch's samples are needed, shuffling it together with the others would move samples of
 * it forward and drop samples of earlier epochs; it is then shuffled separately. */
static bool last_epoch_is_separate(const mega_gpt_index_plan *p, const mega_gpt_index_spec *spec)
{
    if (p->epochs == 1) return false;
    const int64_t last = spec->num_samples - p->samples_previous;
    const int64_t per_epoch = (p->tokens - 1) / spec->seq_length;
    MEGA_ASSERT(last >= 0 && last <= per_epoch + 1, "the last epoch gives %lld samples, but an epoch has %lld",
                (long long)last, (long long)per_epoch);
    return last < (int64_t)(0.80 * (double)per_epoch);
}

mega_status mega_gpt_index_plan_make(const mega_gpt_index_spec *spec, mega_gpt_index_plan *out)
{
    const int64_t count = spec->end - spec->begin;
    const int64_t L = spec->seq_length;
    const char *prefix = mega_indexed_prefix(spec->data);
    if (spec->sentences != NULL) return mega_sentence_map_plan(spec, out);
    mega_gpt_index_plan p = {.tokens = mega_indexed_tokens_between(spec->data, spec->begin, spec->end)};
    if (p.tokens == 0)
        return MEGA_FAIL(
            MEGA_ERR_FORMAT,
            "data set %s: its %lld sequences from %lld on contain no token, expected at least one; were all texts "
            "empty?",
            prefix, (long long)count, (long long)spec->begin);
    if (L < 1 || spec->num_samples < 0 || spec->num_samples > (INT64_MAX / 4 - p.tokens) / L)
        return MEGA_MISTAKE("data set %s: cannot give %lld samples of %lld tokens; expected a sequence length "
                            "of 1 or more and fewer samples",
                            prefix, (long long)spec->num_samples, (long long)L);
    p.epochs = epochs_needed(p.tokens, L, spec->num_samples);
    p.samples = (p.epochs * p.tokens - 1) / L;
    p.samples_previous = p.epochs > 1 ? ((p.epochs - 1) * p.tokens - 1) / L : 0;
    if (spec->end > INT32_MAX || p.epochs > INT64_MAX / 8 / count)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "data set %s: %lld sequences for %lld epochs; expected fewer than 2^31 "
                         "sequences; split the data into several prefixes",
                         prefix, (long long)count, (long long)p.epochs);
    p.documents = p.epochs * count;
    p.separate_last_epoch = last_epoch_is_separate(&p, spec);
    p.sample_type = p.documents > INT32_MAX ? MEGA_NPY_I8 : MEGA_NPY_I4;
    p.shuffle_type = p.samples >= (int64_t)UINT32_MAX - 1 ? MEGA_NPY_I8 : MEGA_NPY_U4;
    *out = p;
    return MEGA_OK;
}

static void build_documents(int32_t *doc, const mega_gpt_index_spec *spec, const mega_gpt_index_plan *plan,
                            mega_mt19937 *random)
{
    const int64_t count = spec->end - spec->begin;
    const int64_t together = plan->separate_last_epoch ? plan->documents - count : plan->documents;
    for (int64_t e = 0; e < plan->epochs; e++) {
        for (int64_t i = 0; i < count; i++) doc[e * count + i] = (int32_t)(spec->begin + i);
    }
    mega_mt19937_shuffle_i32(random, doc, together, spec->stop);
    if (plan->separate_last_epoch) mega_mt19937_shuffle_i32(random, doc + together, count, spec->stop);
}

static void put_sample(void *sample, mega_npy_type type, int64_t row, int64_t position, int64_t offset)
{
    if (type == MEGA_NPY_I8) {
        int64_t *to = (int64_t *)sample + 2 * row;
        to[0] = position;
        to[1] = offset;
    } else {
        int32_t *to = (int32_t *)sample + 2 * row;
        to[0] = (int32_t)position;
        to[1] = (int32_t)offset;
    }
}

static void build_samples(void *sample, const int32_t *doc, const mega_gpt_index_spec *spec,
                          const mega_gpt_index_plan *plan)
{
    int64_t position = 0, offset = 0;
    put_sample(sample, plan->sample_type, 0, 0, 0);
    for (int64_t row = 1; row <= plan->samples && !mega_data_is_stopped(spec->stop, row); row++) {
        int64_t remaining = spec->seq_length + 1;
        for (;;) {
            const int64_t size = mega_indexed_size(spec->data, doc[position]) - offset;
            remaining -= size;
            if (remaining <= 0) {
                offset += remaining + size - 1; /* the last token of this sample is the first of the next */
                break;
            }
            position++;
            offset = 0;
        }
        put_sample(sample, plan->sample_type, row, position, offset);
    }
}

static void build_shuffle(void *shuffle, const mega_gpt_index_plan *plan, mega_mt19937 *random,
                          const volatile sig_atomic_t *stop)
{
    const int64_t n = plan->samples, first = plan->separate_last_epoch ? plan->samples_previous : n;
    if (plan->shuffle_type == MEGA_NPY_I8) {
        int64_t *x = shuffle;
        for (int64_t i = 0; i < n; i++) x[i] = i;
        mega_mt19937_shuffle_i64(random, x, first, stop);
        mega_mt19937_shuffle_i64(random, x + first, n - first, stop);
        return;
    }
    int32_t *x = shuffle; /* read as uint32 later; a shuffle only moves bits */
    for (int64_t i = 0; i < n; i++) x[i] = (int32_t)(uint32_t)i;
    mega_mt19937_shuffle_i32(random, x, first, stop);
    mega_mt19937_shuffle_i32(random, x + first, n - first, stop);
}

static size_t sample_bytes(const mega_gpt_index_plan *plan)
{
    if (plan->is_sentence_map) return (size_t)plan->samples * MEGA_SENTENCE_MAP * sizeof(uint32_t);
    return (size_t)(plan->samples + 1) * 2 * mega_npy_element(plan->sample_type);
}

/* Orders the arrays so that the widest possible type comes first: sample_idx, then shuffle_idx, then doc_idx. */
size_t mega_gpt_index_bytes(const mega_gpt_index_plan *plan)
{
    if (plan->is_sentence_map) return sample_bytes(plan);
    return sample_bytes(plan) + (size_t)plan->samples * mega_npy_element(plan->shuffle_type) +
           (size_t)plan->documents * sizeof(int32_t);
}

static void view_block(mega_gpt_index *index)
{
    char *at = index->block.data;
    index->sample = at;
    if (index->plan.is_sentence_map) return;
    index->shuffle = at += sample_bytes(&index->plan);
    at += (size_t)index->plan.samples * mega_npy_element(index->plan.shuffle_type);
    index->doc = (const int32_t *)(void *)at;
}

static void build_arrays(const mega_gpt_index_spec *spec, const mega_gpt_index_plan *plan, mega_gpt_index *index)
{
    int32_t *doc = (int32_t *)(uintptr_t)index->doc;
    mega_mt19937 random;
    mega_mt19937_seed(&random, spec->seed);
    build_documents(doc, spec, plan, &random);
    build_samples(index->block.data, doc, spec, plan);
    build_shuffle((void *)(uintptr_t)index->shuffle, plan, &random, spec->stop);
}

mega_status mega_gpt_index_build(const mega_gpt_index_spec *spec, const mega_gpt_index_plan *plan,
                                 mega_gpt_share *share, uint64_t key, mega_gpt_index *out)
{
    mega_gpt_index index = {.plan = *plan};
    MEGA_TRY(mega_gpt_block_make(share, key, mega_gpt_index_bytes(plan), "order of samples", &index.block));
    view_block(&index);
    if (plan->is_sentence_map) mega_sentence_map_build(spec, plan, index.block.data);
    else
        build_arrays(spec, plan, &index);
    if (mega_data_is_stopped(spec->stop, 0)) {
        mega_gpt_index_fini(&index);
        return mega_data_stopped("building the sample index");
    }
    *out = index;
    return MEGA_OK;
}

bool mega_gpt_index_find(const mega_gpt_index_plan *plan, const mega_gpt_share *share, uint64_t key,
                         mega_gpt_index *out)
{
    mega_gpt_index index = {.plan = *plan};
    if (!mega_gpt_block_find(share, key, mega_gpt_index_bytes(plan), &index.block)) return false;
    view_block(&index);
    *out = index;
    return true;
}

void mega_gpt_index_fini(mega_gpt_index *index)
{
    mega_gpt_block_fini(&index->block);
    for (int i = 0; i < 3; i++) mega_map_close(&index->map[i]);
    *index = (mega_gpt_index){0};
}

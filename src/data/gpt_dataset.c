/* A GPT data set as samples by index (mega_dataset): each sample becomes a row of a batch, on any thread. */
#include "data_impl.h"
#include "megalith/hash.h"
#include "megalith/memory.h"
#include <pthread.h>

enum { HASHED_SAMPLES = 16 }; /* each likely to be in another page of the mapped data */

struct mega_gpt_rows {
    mega_ltor_options ltor;
    int64_t vocab;
    const char *split;
    pthread_mutex_t lock; /* protects the buffers below, so that reading allocates nothing */
    bool has_sentences;
    mega_sentence_options sentences;
    mega_sentence_row row; /* one sample of BERT or T5 */
    int32_t tokens[];      /* one sample of a GPT, seq_length + 1 */
};

mega_status mega_gpt_rows_create(const mega_gpt_data_options *o, const char *split, mega_gpt_rows **out)
{
    if (o->sentences != NULL && o->sentences->vocabulary == NULL)
        return MEGA_MISTAKE("mega_gpt_data_build: sentences are given without their vocabulary");
    mega_gpt_rows *r = mega_calloc(1, sizeof *r + ((size_t)o->seq_length + 1) * sizeof *r->tokens);
    if (r == NULL) return MEGA_NO_MEMORY("data set", "a row");
    r->ltor = o->ltor;
    r->vocab = o->vocab;
    r->split = split;
    if (o->sentences != NULL) {
        r->has_sentences = true;
        r->sentences = *o->sentences;
        const mega_status st = mega_sentence_row_create(o->sentences, o->seq_length, &r->row);
        if (st != MEGA_OK) mega_free(r);
        MEGA_TRY(st);
    }
    pthread_mutex_init(&r->lock, NULL);
    *out = r;
    return MEGA_OK;
}

void mega_gpt_rows_destroy(mega_gpt_rows *r)
{
    if (r == NULL) return;
    pthread_mutex_destroy(&r->lock);
    mega_sentence_row_destroy(&r->row);
    mega_free(r);
}

static mega_status dataset_check_ids(const mega_gpt_data *d, const mega_gpt_rows *r, int64_t index)
{
    const int64_t length = mega_gpt_data_seq_length(d);
    for (int64_t i = 0; r->vocab > 0 && i <= length; i++) {
        if (r->tokens[i] >= 0 && r->tokens[i] < r->vocab) continue;
        MEGA_TRY(mega_map_check()); /* a truncated file is the better explanation */
        return MEGA_MISTAKE(
            "%s.bin: %s sample %lld holds token id %d, but the vocabulary has %lld ids; the data was "
            "tokenized with another vocabulary, or is damaged: give the right vocabulary (--tokenizer-type, "
            "--vocab-file, --merge-file), or run preprocess_data again",
            mega_gpt_data_prefix(d, index), r->split, (long long)index, r->tokens[i], (long long)r->vocab);
    }
    return MEGA_OK;
}

static mega_status read_gpt_row(const mega_gpt_data *d, mega_gpt_rows *r, int64_t index, mega_sample *sample)
{
    MEGA_TRY(mega_gpt_data_sample(d, index, r->tokens));
    MEGA_TRY(dataset_check_ids(d, r, index));
    mega_ltor_sample(sample, r->tokens, mega_gpt_data_seq_length(d), &r->ltor);
    return MEGA_OK;
}

static mega_status read_sentence_row(const mega_gpt_data *d, mega_gpt_rows *r, int64_t index, mega_sample *sample)
{
    MEGA_TRY(mega_sentence_sample(d, index, &r->row));
    mega_sentence_fill(&r->sentences, &r->row, sample);
    return MEGA_OK;
}

static mega_status read_row(void *user, int64_t index, mega_sample *sample)
{
    const mega_gpt_data *d = user;
    mega_gpt_rows *r = mega_gpt_data_rows(d);
    pthread_mutex_lock(&r->lock);
    const mega_status st = (r->has_sentences ? read_sentence_row : read_gpt_row)(d, r, index, sample);
    pthread_mutex_unlock(&r->lock);
    return st;
}

/* Refuses to train on the zeros that replace lost bytes of a truncated file. */
static mega_status dataset_check_files(void *user, mega_batch *batch)
{
    (void)user, (void)batch;
    return mega_map_check();
}

uint64_t mega_gpt_data_order_hash(const mega_gpt_data *d, int64_t samples)
{
    mega_gpt_rows *r = mega_gpt_data_rows(d);
    const size_t bytes = ((size_t)mega_gpt_data_seq_length(d) + 1) * sizeof *r->tokens;
    uint64_t hash = MEGA_HASH_START;
    pthread_mutex_lock(&r->lock);
    /* a sample that cannot be read is reported by the step that needs it */
    for (int64_t i = 0; i < HASHED_SAMPLES; i++) {
        const int64_t at = i * (samples - 1) / (HASHED_SAMPLES - 1);
        if (r->has_sentences) MEGA_IGNORE(mega_sentence_sample(d, at, &r->row));
        else
            MEGA_IGNORE(mega_gpt_data_sample(d, at, r->tokens));
        const mega_sentence_row *w = &r->row;
        hash = mega_hash64(hash, r->tokens, bytes);
        if (!r->has_sentences) continue;
        hash = mega_hash64(hash, w->tokens, (size_t)w->seq_length * sizeof *w->tokens);
        hash = mega_hash64(hash, w->labels, (size_t)w->label_length * sizeof *w->labels);
    }
    pthread_mutex_unlock(&r->lock);
    return hash;
}

static uint64_t dataset_hash(void *user)
{
    const mega_gpt_data *d = user;
    uint64_t content = 0;
    MEGA_IGNORE(mega_gpt_data_content_hash(d, &content)); /* 0 if the content cannot be read */
    const uint64_t all[] = {mega_gpt_data_hash(d), content, mega_gpt_data_order_hash(d, mega_gpt_data_samples(d))};
    return mega_hash64(MEGA_HASH_START, all, sizeof all);
}

static void dataset_use(void *user, int change)
{
    mega_users_add(&((mega_gpt_data *)user)->users, change);
}

mega_dataset mega_dataset_gpt(mega_gpt_data *d)
{
    if (d == NULL || mega_gpt_data_rows(d) == NULL) {
        (void)MEGA_MISTAKE("mega_dataset_gpt: the data %s; build it with mega_gpt_data_build",
                           d == NULL ? "is NULL: the split is empty" : "was built with check_only");
        return (mega_dataset){.count = 0};
    }
    return (mega_dataset){.count = mega_gpt_data_samples(d),
                          .read = read_row,
                          .collate = dataset_check_files,
                          .hash = dataset_hash,
                          .use = dataset_use,
                          .user = d,
                          .in_order = true,
                          .is_thread_safe = true};
}

/* GPT data sets for a training loop: read sample by sample. gpt_build.c makes them. */
#include "data_impl.h"
#include "megalith/hash.h"
#include "megalith/memory.h"

enum { SAMPLED_BLOCKS = 1024, LEAST_BLOCKS = 8 /* least for each member of a blend */ };

void mega_gpt_data_destroy(mega_gpt_data *d)
{
    if (d == NULL ||
        mega_refuse_destroy(atomic_load(&d->users) > 0, "mega_gpt_data_destroy", "an engine that reads it"))
        return;
    for (int i = 0; i < d->num_members; i++) mega_gpt_data_destroy(d->member[i]);
    mega_free(d->member);
    mega_gpt_rows_destroy(d->rows);
    mega_gpt_block_fini(&d->order);
    mega_gpt_index_fini(&d->index);
    mega_indexed_close(d->data);
    mega_free(d);
}

mega_status mega_gpt_data_join(mega_gpt_data *const *part, int count, mega_gpt_data **out)
{
    mega_gpt_data *d = mega_calloc(1, sizeof *d), **member = mega_calloc((size_t)count, sizeof(mega_gpt_data *));
    if (d == NULL || member == NULL) {
        for (int i = 0; i < count; i++) mega_gpt_data_destroy(part[i]);
        MEGA_FREE(d, member);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "data set: no memory for %d parts", count);
    }
    *d = (mega_gpt_data){.seq_length = part[0]->seq_length,
                         .has_sentences = part[0]->has_sentences,
                         .num_members = count,
                         .is_joined = true,
                         .member = member};
    for (int i = 0; i < count; i++) {
        member[i] = part[i];
        d->samples += part[i]->samples;
    }
    d->rows = part[0]->rows;
    part[0]->rows = NULL;
    *out = d;
    return MEGA_OK;
}

int64_t mega_gpt_data_samples(const mega_gpt_data *d)
{
    return d->samples;
}

size_t mega_blend_order_bytes(const mega_gpt_data *blend)
{
    return (size_t)blend->samples * (sizeof *blend->sample_of + sizeof *blend->member_of);
}

size_t mega_gpt_data_bytes(const mega_gpt_data *d)
{
    if (d == NULL) return 0;
    if (d->num_members == 0) return mega_gpt_index_bytes(&d->index.plan);
    size_t bytes = d->is_joined ? 0 : mega_blend_order_bytes(d);
    for (int i = 0; i < d->num_members; i++) bytes += mega_gpt_data_bytes(d->member[i]);
    return bytes;
}

int64_t mega_gpt_data_seq_length(const mega_gpt_data *d)
{
    return d->seq_length;
}

uint64_t mega_gpt_data_hash(const mega_gpt_data *d)
{
    if (d == NULL) return MEGA_HASH_START; /* a member of weight 0 */
    if (d->num_members == 0) return mega_indexed_hash(d->data);
    if (d->is_joined) return mega_gpt_data_hash(d->member[0]);
    uint64_t hash = MEGA_HASH_START;
    for (int i = 0; i < d->num_members; i++) {
        const uint64_t member = mega_gpt_data_hash(d->member[i]);
        hash = mega_hash64(hash, &member, sizeof member);
    }
    return hash;
}

static mega_status content_hash(const mega_gpt_data *d, int blocks, uint64_t *out)
{
    *out = MEGA_HASH_START;
    if (d == NULL) return MEGA_OK; /* a member of weight 0 */
    if (d->num_members == 0) return mega_indexed_sample_hash(d->data, blocks, out);
    if (d->is_joined) return content_hash(d->member[0], blocks, out);
    const int each = blocks / d->num_members > LEAST_BLOCKS ? blocks / d->num_members : LEAST_BLOCKS;
    uint64_t hash = MEGA_HASH_START, member;
    for (int i = 0; i < d->num_members; i++) {
        MEGA_TRY(content_hash(d->member[i], each, &member));
        hash = mega_hash64(hash, &member, sizeof member);
    }
    *out = hash;
    return MEGA_OK;
}

mega_status mega_gpt_data_content_hash(const mega_gpt_data *d, uint64_t *out)
{
    return content_hash(d, SAMPLED_BLOCKS, out);
}

/* ---- examining some of the tokens ---- */

enum { BLOCK = 256 };

static bool look_at_block(const mega_gpt_data *d, const int32_t *block, int64_t n, int64_t vocab, int32_t eod,
                          int64_t sequence, mega_gpt_data_probe *p)
{
    for (int64_t i = 0; i < n; i++) {
        p->ends += block[i] == eod;
        if (block[i] >= 0 && block[i] < vocab) continue;
        p->stray_in = mega_indexed_prefix(d->data);
        p->sequence = sequence;
        p->id = block[i];
        return false;
    }
    p->tokens += n;
    return true;
}

/* Examines blocks at equal distances, so that a text appended last is seen as well as the first one. */
static void look_at_prefix(const mega_gpt_data *d, int64_t tokens, int64_t vocab, int32_t eod, mega_gpt_data_probe *p)
{
    int32_t block[BLOCK];
    const int64_t all = mega_indexed_tokens_between(d->data, d->begin, d->end);
    const int64_t stride = all / (tokens / BLOCK + 1) > BLOCK ? all / (tokens / BLOCK + 1) : BLOCK;
    int64_t passed = 0, next = 0; /* tokens before this sequence; start of the next block */
    for (int64_t s = d->begin; s < d->end; passed += mega_indexed_size(d->data, s++)) {
        const int64_t end = passed + mega_indexed_size(d->data, s);
        while (next < end) {
            const int64_t n = end - next < BLOCK ? end - next : BLOCK;
            mega_indexed_get(d->data, s, next - passed, n, block);
            if (!look_at_block(d, block, n, vocab, eod, s, p)) return;
            next += stride > BLOCK ? stride : n;
        }
    }
}

static void data_look_at(const mega_gpt_data *d, int64_t tokens, int64_t vocab, int32_t eod, mega_gpt_data_probe *p)
{
    if (d->num_members == 0) look_at_prefix(d, tokens, vocab, eod, p);
    for (int i = 0; i < d->num_members && p->stray_in == NULL; i++)
        if (d->member[i] != NULL) data_look_at(d->member[i], tokens / d->num_members, vocab, eod, p);
}

void mega_gpt_data_look(const mega_gpt_data *d, int64_t tokens, int64_t vocab, int32_t eod, mega_gpt_data_probe *out)
{
    *out = (mega_gpt_data_probe){.stray_in = NULL};
    data_look_at(d, tokens, vocab, eod, out);
}

/* ---- reading ---- */

static int64_t data_shuffled(const mega_gpt_index *x, int64_t i)
{
    if (x->plan.shuffle_type == MEGA_NPY_I8) return ((const int64_t *)x->shuffle)[i];
    return ((const uint32_t *)x->shuffle)[i];
}

static void sample_begin(const mega_gpt_index *x, int64_t row, int64_t *position, int64_t *offset)
{
    if (x->plan.sample_type == MEGA_NPY_I8) {
        const int64_t *from = (const int64_t *)x->sample + 2 * row;
        *position = from[0];
        *offset = from[1];
    } else {
        const int32_t *from = (const int32_t *)x->sample + 2 * row;
        *position = from[0];
        *offset = from[1];
    }
}

/* An index or data file was overwritten: lengths and offsets contradict each other. */
static mega_status data_changed(const mega_gpt_data *d, int64_t index)
{
    MEGA_TRY(mega_map_check()); /* names a file that was truncated */
    return MEGA_FAIL(MEGA_ERR_FORMAT,
                     "data set %s: sample %lld cannot be read: its .idx file or the index made from it was overwritten "
                     "while it was being read. Restore the data, then start again; replace a file in use by renaming",
                     mega_indexed_prefix(d->data), (long long)index);
}

static mega_status read_sample(const mega_gpt_data *d, int64_t index, int32_t *tokens)
{
    const int64_t row = data_shuffled(&d->index, index);
    int64_t position, offset;
    if (row < 0 || row >= d->index.plan.samples) return data_changed(d, index);
    sample_begin(&d->index, row, &position, &offset);
    for (int64_t have = 0, want = d->seq_length + 1; have < want; position++, offset = 0) {
        if (position < 0 || position >= d->index.plan.documents) return data_changed(d, index);
        const int64_t doc = d->index.doc[position];
        const int64_t rest = doc >= d->begin && doc < d->end ? mega_indexed_size(d->data, doc) - offset : -1;
        const int64_t n = rest < want - have ? rest : want - have;
        if (!mega_indexed_has(d->data, doc, offset, n)) return data_changed(d, index);
        mega_indexed_get(d->data, doc, offset, n, tokens + have);
        have += n;
    }
    return MEGA_OK;
}

/* Returns the member that holds a sample; *index becomes its index there. */
static const mega_gpt_data *member_with(const mega_gpt_data *d, int64_t *index)
{
    while (d->num_members > 0) {
        int i = 0;
        if (d->is_joined) {
            for (; *index >= d->member[i]->samples; i++) *index -= d->member[i]->samples;
        } else { /* the greedy order may request one or two samples more than a small member has: start again at its
                  * first */
            i = d->member_of[*index];
            *index = d->sample_of[*index] % d->member[i]->samples;
        }
        d = d->member[i];
    }
    return d;
}

mega_status mega_gpt_data_sample(const mega_gpt_data *d, int64_t index, int32_t *tokens)
{
    if (index < 0 || index >= d->samples)
        return MEGA_MISTAKE("mega_gpt_data_sample: found index %lld, expected 0 to %lld", (long long)index,
                            (long long)d->samples - 1);
    if (d->has_sentences)
        return MEGA_MISTAKE("mega_gpt_data_sample: the samples are BERT's or T5's, which "
                            "mega_sentence_sample makes");
    const mega_gpt_data *member = member_with(d, &index);
    return read_sample(member, index, tokens);
}

mega_status mega_sentence_sample(const mega_gpt_data *d, int64_t index, mega_sentence_row *row)
{
    if (index < 0 || index >= d->samples || !d->has_sentences)
        return MEGA_MISTAKE("mega_sentence_sample: found index %lld, expected 0 to %lld of data built with "
                            "sentences",
                            (long long)index, (long long)d->samples - 1);
    const mega_gpt_data *m = member_with(d, &index);
    const mega_sentence_source source = {
        .options = &m->sentences, .data = m->data, .map = m->index.sample, .samples = m->samples, .seed = m->seed};
    return mega_sentence_read(&source, index, row);
}

const char *mega_gpt_data_prefix(const mega_gpt_data *d, int64_t index)
{
    return mega_indexed_prefix(member_with(d, &index)->data);
}

mega_gpt_rows *mega_gpt_data_rows(const mega_gpt_data *d)
{
    return d->rows;
}

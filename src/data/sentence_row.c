/* One sample of BERT or T5: reads the sentences of a row of the map, cuts them to the length of the sample, masks
 * tokens and pads. Everything is drawn from RandomState(seed + index), as in Megatron-LM. */
#include "data_impl.h"
#include "megalith/batch.h"
#include "megalith/memory.h"

enum { ARRAYS_PER_TOKEN = 6, NSP_TRIES = 10 };

/* ---- memory ---- */

mega_status mega_sentence_row_create(const mega_sentence_options *o, int64_t seq_length, mega_sentence_row *out)
{
    const int64_t labels = o->kind == MEGA_SENTENCES_T5 ? o->decoder_seq_length : seq_length;
    const size_t s = (size_t)seq_length, d = (size_t)labels;
    /* tokens, types, padding_mask; decoder_tokens, labels, loss_mask; the work space */
    int32_t *at = mega_calloc(3 * s + 3 * d + ARRAYS_PER_TOKEN * s + 1, sizeof *at);
    if (at == NULL) return MEGA_NO_MEMORY("data set", "a row");
    *out = (mega_sentence_row){.seq_length = seq_length,
                               .label_length = labels,
                               .tokens = at,
                               .types = at + s,
                               .padding_mask = at + 2 * s,
                               .decoder_tokens = at + 3 * s,
                               .labels = at + 3 * s + d,
                               .loss_mask = (float *)(void *)(at + 3 * s + 2 * d),
                               .memory = at};
    return MEGA_OK;
}

void mega_sentence_row_destroy(mega_sentence_row *row)
{
    mega_free(row->memory);
    *row = (mega_sentence_row){.memory = NULL};
}

/* Returns the memory after the arrays of a row, in which its tokens are masked. */
static mega_sentence_mask row_mask(mega_sentence_row *row)
{
    const size_t s = (size_t)row->seq_length;
    int32_t *at = (int32_t *)row->memory + 3 * s + 3 * (size_t)row->label_length;
    return (mega_sentence_mask){.token = at,
                                .label = at + s,
                                .after = at + 2 * s,
                                .word = at + 3 * s,
                                .order = at + 4 * s,
                                .begins = at + 5 * s};
}

/* ---- reading tokens ---- */

/* Consecutive tokens of the data: those of sentences begin … end - 1, without `front` tokens and cut to `count`. */
typedef struct segment {
    int64_t begin, end, front, count;
} segment;

static segment segment_of(const mega_indexed *data, int64_t begin, int64_t end)
{
    return (segment){begin, end, 0, mega_indexed_tokens_between(data, begin, end)};
}

static mega_status row_changed(const mega_sentence_source *s, int64_t index)
{
    MEGA_TRY(mega_map_check()); /* names a file that was truncated */
    return MEGA_FAIL(MEGA_ERR_FORMAT,
                     "data set %s: sample %lld cannot be read: its .idx file or the index made from it was overwritten "
                     "while it was being read. Restore the data, then start again; replace a file in use by renaming",
                     mega_indexed_prefix(s->data), (long long)index);
}

static mega_status copy_segment(const mega_sentence_source *s, int64_t index, const segment *g, int32_t *out)
{
    const int64_t size = s->options->vocabulary->size;
    int64_t at = g->begin, skip = g->front;
    for (; at < g->end && skip >= mega_indexed_size(s->data, at); at++) skip -= mega_indexed_size(s->data, at);
    for (int64_t have = 0; have < g->count; at++, skip = 0) {
        const int64_t rest = at < g->end ? mega_indexed_size(s->data, at) - skip : -1;
        const int64_t n = rest < g->count - have ? rest : g->count - have;
        if (n < 0 || !mega_indexed_has(s->data, at, skip, n)) return row_changed(s, index);
        mega_indexed_get(s->data, at, skip, n, out + have);
        have += n;
    }
    for (int64_t i = 0; i < g->count; i++) {
        if (out[i] >= 0 && out[i] < size) continue;
        MEGA_TRY(mega_map_check());
        return MEGA_MISTAKE("%s.bin: sample %lld holds token id %d, but the vocabulary has %lld ids; the data was "
                            "tokenized with another vocabulary, or is damaged: give the right vocabulary "
                            "(--tokenizer-type, --vocab-file), or run preprocess_data again",
                            mega_indexed_prefix(s->data), (long long)index, out[i], (long long)size);
    }
    return MEGA_OK;
}

/* ---- the two segments of BERT ---- */

static int64_t document_of(const mega_indexed *data, int64_t sentence)
{
    int64_t low = 0, high = mega_indexed_documents(data); /* the document is in [low, high) */
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (mega_indexed_document(data, middle) <= sentence) low = middle;
        else
            high = middle;
    }
    return low;
}

/* Puts sentences of another document into *b, or leaves it. */
static bool draw_other(const mega_sentence_source *s, int64_t sentence, mega_mt19937 *random, segment *b)
{
    const int64_t own = document_of(s->data, sentence);
    for (int i = 0; i < NSP_TRIES; i++) {
        const int64_t other = (int64_t)mega_mt19937_interval(random, (uint64_t)s->samples - 1);
        const uint32_t *row = s->map + MEGA_SENTENCE_MAP * other;
        if (document_of(s->data, row[0]) == own) continue;
        *b = segment_of(s->data, row[0], row[1]);
        return true;
    }
    return false;
}

static bool draw_segments(const mega_sentence_source *s, const uint32_t *row, mega_mt19937 *random, segment ab[2])
{
    const int64_t begin = row[0], end = row[1], n = end - begin;
    if (!s->options->binary_head) {
        ab[0] = segment_of(s->data, begin, end);
        ab[1] = (segment){.begin = end, .end = end};
        return false;
    }
    const int64_t cut = begin + 1 + (n >= 3 ? (int64_t)mega_mt19937_interval(random, (uint64_t)n - 2) : 0);
    ab[0] = segment_of(s->data, begin, cut);
    ab[1] = segment_of(s->data, cut, end);
    if (mega_mt19937_double(random) >= 0.5) return false;
    if (s->options->nsp) return draw_other(s, begin, random, &ab[1]);
    const segment a = ab[0];
    ab[0] = ab[1];
    ab[1] = a;
    return true;
}

/* Removes tokens from the ends of the longer segment, in turn, until both have `most` together. */
static bool cut_segments(segment ab[2], int64_t most, mega_mt19937 *random)
{
    const bool is_long = ab[0].count + ab[1].count > most;
    while (ab[0].count + ab[1].count > most) {
        segment *longer = ab[0].count > ab[1].count ? &ab[0] : &ab[1];
        longer->count--;
        if (mega_mt19937_double(random) < 0.5) longer->front++;
    }
    return is_long;
}

/* ---- the arrays ---- */

static void pad_tokens(mega_sentence_row *row, int32_t pad)
{
    for (int64_t i = 0; i < row->seq_length; i++) {
        const bool is_token = i < row->length;
        if (!is_token) row->tokens[i] = row->types[i] = pad;
        row->padding_mask[i] = is_token;
    }
}

static mega_status read_bert(const mega_sentence_source *s, int64_t index, mega_mt19937 *random, mega_sentence_row *row)
{
    const mega_sentence_vocabulary *v = s->options->vocabulary;
    const uint32_t *at = s->map + MEGA_SENTENCE_MAP * index;
    mega_sentence_mask m = row_mask(row);
    segment ab[2];
    row->is_random = draw_segments(s, at, random, ab);
    row->truncated = cut_segments(ab, at[2], random);
    m.token[m.count++] = v->cls;
    for (int k = 0; k < 2; k++) {
        if (k == 1 && ab[k].count == 0) break;
        MEGA_TRY(copy_segment(s, index, &ab[k], m.token + m.count));
        const int64_t first = k == 0 ? 0 : m.count;
        m.count += ab[k].count;
        m.token[m.count++] = v->sep;
        for (int64_t i = first; i < m.count; i++) row->types[i] = k;
    }
    mega_sentence_mask_draw(s->options, at[2], random, &m);
    row->length = row->label_positions = m.count;
    for (int64_t i = 0; i < row->seq_length; i++) {
        if (i < m.count) row->tokens[i] = m.token[i];
        row->labels[i] = i < m.count ? m.label[i] : -1;
        row->loss_mask[i] = row->labels[i] >= 0 ? 1.0f : 0.0f;
    }
    pad_tokens(row, v->pad);
    return MEGA_OK;
}

static mega_status check_t5_room(const mega_sentence_source *s, int64_t index, const mega_sentence_mask *m,
                                 const mega_sentence_row *row)
{
    const char *prefix = mega_indexed_prefix(s->data);
    if (m->spans > s->options->vocabulary->sentinels)
        return MEGA_MISTAKE("data set %s: sample %lld has %lld masked spans, but the vocabulary has %lld ids to put in "
                            "their place; give more with --vocab-extra-ids, or mask less (--mask-prob)",
                            prefix, (long long)index, (long long)m->spans,
                            (long long)s->options->vocabulary->sentinels);
    if (1 + m->spans + m->masked > row->label_length)
        return MEGA_MISTAKE(
            "data set %s: sample %lld has %lld masked tokens in %lld spans, for which the decoder needs "
            "%lld positions, but it has %lld; increase --decoder-seq-length, or mask less (--mask-prob)",
            prefix, (long long)index, (long long)m->masked, (long long)m->spans, (long long)(1 + m->spans + m->masked),
            (long long)row->label_length);
    return MEGA_OK;
}

/* The encoder reads the text with a sentinel for each span; the decoder reads and predicts sentinels and spans. */
static void put_spans(const mega_sentence_vocabulary *v, const mega_sentence_mask *m, mega_sentence_row *row)
{
    int64_t read = 0, said = 0, sentinel = 0;
    row->decoder_tokens[0] = v->bos;
    for (int64_t i = 0; i < m->count;) {
        if (m->after[i] == 0) {
            row->tokens[read++] = m->token[i++];
            continue;
        }
        row->tokens[read++] = row->labels[said++] = v->sentinel[sentinel++];
        for (const int64_t end = m->after[i]; i < end; i++)
            if (m->label[i] >= 0) row->labels[said++] = m->label[i];
    }
    memcpy(row->decoder_tokens + 1, row->labels, (size_t)said * sizeof *row->labels);
    row->labels[said++] = v->eos;
    row->length = read;
    row->label_positions = said;
    for (int64_t i = 0; i < row->label_length; i++) {
        row->loss_mask[i] = i < said ? 1.0f : 0.0f;
        if (i < said) continue;
        row->decoder_tokens[i] = v->pad;
        row->labels[i] = -1;
    }
}

static mega_status read_t5(const mega_sentence_source *s, int64_t index, mega_mt19937 *random, mega_sentence_row *row)
{
    const uint32_t *at = s->map + MEGA_SENTENCE_MAP * index;
    mega_sentence_mask m = row_mask(row);
    segment text = segment_of(s->data, at[0], at[1]);
    row->is_random = false;
    row->truncated = text.count > at[2];
    if (row->truncated) text.count = at[2];
    MEGA_TRY(copy_segment(s, index, &text, m.token));
    m.count = text.count;
    mega_sentence_mask_draw(s->options, at[2], random, &m);
    MEGA_TRY(check_t5_room(s, index, &m, row));
    put_spans(s->options->vocabulary, &m, row);
    memset(row->types, 0, (size_t)row->seq_length * sizeof *row->types);
    pad_tokens(row, s->options->vocabulary->pad);
    return MEGA_OK;
}

mega_status mega_sentence_read(const mega_sentence_source *s, int64_t index, mega_sentence_row *row)
{
    const uint32_t *at = s->map + MEGA_SENTENCE_MAP * index;
    mega_mt19937 random;
    const int64_t most = row->seq_length - mega_sentence_added(s->options);
    if (at[0] >= at[1] || at[1] > mega_indexed_sequences(s->data) || at[2] > most) return row_changed(s, index);
    mega_mt19937_seed(&random, s->seed + (uint32_t)index);
    return s->options->kind == MEGA_SENTENCES_T5 ? read_t5(s, index, &random, row) : read_bert(s, index, &random, row);
}

/* ---- the inputs of a model ---- */

static void fill_positions(mega_sample *sample, const char *input, int64_t count)
{
    int32_t *to = mega_sample_i32(sample, input, count);
    for (int64_t i = 0; to != NULL && i < count; i++) to[i] = (int32_t)i;
}

static void fill_same(mega_sample *sample, const char *input, int64_t count, int64_t value)
{
    int32_t *to = mega_sample_i32(sample, input, count);
    for (int64_t i = 0; to != NULL && i < count; i++) to[i] = (int32_t)value;
}

/* Copies `set` numbers and puts 0 for the others, and for numbers below 0. */
static void fill_copy(mega_sample *sample, const char *input, int64_t count, int64_t set, const int32_t *from)
{
    int32_t *to = mega_sample_i32(sample, input, count);
    for (int64_t i = 0; to != NULL && i < count; i++) to[i] = i < set && from[i] > 0 ? from[i] : 0;
}

void mega_sentence_fill(const mega_sentence_options *o, const mega_sentence_row *row, mega_sample *sample)
{
    const int64_t S = row->seq_length, D = row->label_length;
    float *loss_mask = mega_sample_f32(sample, "loss_mask", D);
    if (loss_mask != NULL) memcpy(loss_mask, row->loss_mask, (size_t)D * sizeof *loss_mask);
    fill_copy(sample, "tokens", S, S, row->tokens);
    fill_copy(sample, "labels", D, D, row->labels);
    fill_copy(sample, "padding_mask", S, S, row->padding_mask);
    fill_positions(sample, "position_ids", S);
    fill_same(sample, "key_end", S, row->length);
    if (o->kind == MEGA_SENTENCES_T5) {
        fill_copy(sample, "decoder_tokens", D, D, row->decoder_tokens);
        fill_positions(sample, "decoder_position_ids", D);
        fill_same(sample, "cross_key_end", D, row->length);
        return;
    }
    fill_copy(sample, "token_types", S, row->length, row->types);
    fill_same(sample, "is_random", 1, row->is_random);
}

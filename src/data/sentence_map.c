/* The map of the samples of BERT and T5: for each sample its first sentence, the sentence after its last, and how many
 * tokens it should have. As in Megatron-LM, a walk over the documents closes a sample when it has enough tokens, whole
 * epochs are walked until there are enough samples, and then all samples are shuffled. */
#include "data_impl.h"
#include <math.h>

mega_status mega_sentence_check(const mega_sentence_options *o, int64_t seq_length)
{
    const bool t5 = o->kind == MEGA_SENTENCES_T5;
    const int64_t least = mega_sentence_added(o) + 2;
    if (seq_length < least || seq_length > INT32_MAX / 16)
        return MEGA_MISTAKE("%s: found %lld, expected %lld to %d: a sample has %lld tokens besides its text",
                            t5 ? "--encoder-seq-length" : "--seq-length", (long long)seq_length, (long long)least,
                            INT32_MAX / 16, (long long)mega_sentence_added(o));
    if (t5 && (o->decoder_seq_length < least || o->decoder_seq_length > INT32_MAX / 16))
        return MEGA_MISTAKE("--decoder-seq-length: found %lld, expected %lld to %d", (long long)o->decoder_seq_length,
                            (long long)least, INT32_MAX / 16);
    if (!(o->mask_prob > 0 && o->mask_prob <= 1))
        return MEGA_MISTAKE("--mask-prob: found %g, expected a number above 0, and 1 at most: without "
                            "masked tokens there is nothing to predict",
                            o->mask_prob);
    if (o->short_seq_prob != 0 && !(o->short_seq_prob >= 1e-9 && o->short_seq_prob <= 1))
        return MEGA_MISTAKE("--short-seq-prob: found %g, expected 0 to 1", o->short_seq_prob);
    if (o->nsp && (t5 || !o->binary_head))
        return MEGA_MISTAKE("--bert-nsp: there is no binary head that could predict the next sentence; "
                            "leave out --bert-nsp or --bert-no-binary-head");
    if (t5 && o->vocabulary != NULL && o->vocabulary->sentinels < 1)
        return MEGA_MISTAKE("--vocab-extra-ids: the vocabulary has no <extra_id_0>, which T5 puts in the "
                            "place of masked tokens; give --vocab-extra-ids 100");
    return MEGA_OK;
}

enum { LONG_SENTENCE = 512 /* documents with a sentence of more tokens are left out */, BERT_ADDED = 3, T5_ADDED = 2 };

int64_t mega_sentence_added(const mega_sentence_options *o)
{
    return o->kind == MEGA_SENTENCES_T5 ? T5_ADDED : BERT_ADDED;
}

int64_t mega_sentence_least(const mega_sentence_options *o)
{
    return o->kind == MEGA_SENTENCES_BERT && o->binary_head ? 2 : 1;
}

/* ---- the walk ---- */

typedef struct map_walk {
    const mega_gpt_index_spec *spec;
    mega_mt19937 random;
    uint32_t longest; /* tokens that a sample has at most */
    uint32_t one_in;  /* one sample in this many is short; 0: none is */
    int64_t least, samples;
    uint32_t *map; /* NULL: the samples are only counted */
} map_walk;

static void walk_begin(map_walk *w, const mega_gpt_index_spec *spec, uint32_t *map)
{
    const mega_sentence_options *o = spec->sentences;
    *w = (map_walk){.spec = spec,
                    .longest = (uint32_t)(spec->seq_length - mega_sentence_added(o)),
                    .one_in = o->short_seq_prob > 0 ? (uint32_t)round(1 / o->short_seq_prob) : 0,
                    .least = mega_sentence_least(o),
                    .map = map};
    mega_mt19937_seed(&w->random, spec->seed);
}

static uint32_t draw_target(map_walk *w)
{
    if (w->one_in == 0) return w->longest;
    const uint32_t u = mega_mt19937_u32(&w->random);
    return u % w->one_in == 0 ? 2 + u % (w->longest - 1) : w->longest;
}

static bool has_long_sentence(const mega_indexed *data, int64_t begin, int64_t end)
{
    for (int64_t s = begin; s < end; s++)
        if (mega_indexed_size(data, s) > LONG_SENTENCE) return true;
    return false;
}

static void put_row(map_walk *w, int64_t begin, int64_t end, uint32_t target)
{
    if (w->map != NULL) {
        uint32_t *row = w->map + MEGA_SENTENCE_MAP * w->samples;
        row[0] = (uint32_t)begin;
        row[1] = (uint32_t)end;
        row[2] = target;
    }
    w->samples++;
}

static void walk_document(map_walk *w, int64_t document)
{
    const mega_indexed *data = w->spec->data;
    const int64_t end = mega_indexed_document(data, document + 1);
    int64_t begin = mega_indexed_document(data, document), tokens = 0;
    if (end - begin < w->least || (end - begin > 1 && has_long_sentence(data, begin, end))) return;
    uint32_t target = draw_target(w);
    for (int64_t s = begin; s < end; s++) {
        const int64_t left = end - s - 1;
        tokens += mega_indexed_size(data, s);
        if (left > 0 && (tokens < target || left == 1 || s + 1 - begin < w->least)) continue;
        put_row(w, begin, s + 1, target);
        begin = s + 1;
        tokens = 0;
        target = draw_target(w); /* also after the last sample, as Megatron draws it */
    }
}

static void walk_epoch(map_walk *w)
{
    for (int64_t d = w->spec->begin; d < w->spec->end && !mega_data_is_stopped(w->spec->stop, d); d++)
        walk_document(w, d);
}

/* ---- planning and building ---- */

static mega_status map_has_no_sample(const mega_gpt_index_spec *spec)
{
    const long long least = (long long)mega_sentence_least(spec->sentences);
    return MEGA_FAIL(MEGA_ERR_FORMAT,
                     "data set %s: none of its documents %lld to %lld gives a sample; expected one with at least %lld "
                     "sentence%s, none of them longer than %d tokens: create the data with preprocess_data "
                     "--split-sentences%s",
                     mega_indexed_prefix(spec->data), (long long)spec->begin, (long long)spec->end, least,
                     least == 1 ? "" : "s", LONG_SENTENCE,
                     least == 1 ? "" : ", or train without sentence pairs (--bert-no-binary-head)");
}

static mega_status map_too_large(const mega_gpt_index_spec *spec)
{
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "data set %s: %lld sentences for %lld samples; expected fewer than 2^32 sentences; split the data "
                     "into several prefixes, or request fewer samples",
                     mega_indexed_prefix(spec->data), (long long)mega_indexed_sequences(spec->data),
                     (long long)spec->num_samples);
}

enum { COUNTED_FOR_ESTIMATE = 1 << 20 };

/* Epochs differ only in which samples are drawn to be short, so later ones are assumed to have as many as these. */
static void estimate_rest(const mega_gpt_index_spec *spec, int64_t counted, mega_gpt_index_plan *p)
{
    const double per_epoch = (double)counted / (double)p->epochs;
    const double epochs = ceil((double)spec->num_samples / per_epoch);
    p->epochs = epochs < INT32_MAX - 1 ? (int64_t)epochs : INT32_MAX - 1;
    p->samples = (int64_t)((double)p->epochs * per_epoch);
    if (p->samples < spec->num_samples) p->samples = spec->num_samples;
}

mega_status mega_sentence_map_plan(const mega_gpt_index_spec *spec, mega_gpt_index_plan *out)
{
    mega_gpt_index_plan p = {.sample_type = MEGA_NPY_U4, .is_sentence_map = true};
    MEGA_TRY(mega_sentence_check(spec->sentences, spec->seq_length));
    if (mega_indexed_sequences(spec->data) >= UINT32_MAX || spec->num_samples > INT64_MAX / 64)
        return map_too_large(spec);
    map_walk w;
    walk_begin(&w, spec, NULL);
    const bool counts_all = !spec->is_estimate || spec->num_samples <= COUNTED_FOR_ESTIMATE;
    const int64_t counted = counts_all ? spec->num_samples : COUNTED_FOR_ESTIMATE;
    for (; w.samples < counted && p.epochs < INT32_MAX - 1; p.epochs++) {
        walk_epoch(&w);
        if (mega_data_is_stopped(spec->stop, 0)) return mega_data_stopped("counting the samples");
        if (w.samples == 0) return map_has_no_sample(spec);
    }
    p.samples = w.samples;
    if (!counts_all) estimate_rest(spec, w.samples, &p);
    p.tokens = mega_indexed_tokens_between(spec->data, mega_indexed_document(spec->data, spec->begin),
                                           mega_indexed_document(spec->data, spec->end));
    *out = p;
    return MEGA_OK;
}

static void shuffle_map(uint32_t *map, int64_t samples, uint32_t seed, const volatile sig_atomic_t *stop)
{
    mega_mt19937_64 random;
    mega_mt19937_64_seed(&random, (uint64_t)((int64_t)(int32_t)seed + 1));
    for (int64_t i = samples - 1; i > 0 && !mega_data_is_stopped(stop, i); i--) {
        uint32_t kept[MEGA_SENTENCE_MAP], *a = map + MEGA_SENTENCE_MAP * i;
        uint32_t *b = map + MEGA_SENTENCE_MAP * (int64_t)(mega_mt19937_64_u64(&random) % (uint64_t)(i + 1));
        memcpy(kept, a, sizeof kept);
        memmove(a, b, sizeof kept);
        memcpy(b, kept, sizeof kept);
    }
}

void mega_sentence_map_build(const mega_gpt_index_spec *spec, const mega_gpt_index_plan *plan, uint32_t *map)
{
    map_walk w;
    walk_begin(&w, spec, map);
    for (int64_t epoch = 0; epoch < plan->epochs; epoch++) walk_epoch(&w);
    shuffle_map(map, plan->samples, spec->seed, spec->stop);
}

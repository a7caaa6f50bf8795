/* The data of pretrain_gpt and pretrain_bert: reads samples from indexed data in Megatron's order (data/gpt_data.c).
 * Each sample is one row of a batch. */
#include "task_gpt.h"

/* Number of tokens checked before the first step, so that a wrong tokenizer is reported at once and
 * not after an hour. */
enum { PROBE_TOKENS = 1 << 20 };

/* The data of one split. */
typedef struct split {
    mega_gpt_data *data;
    mega_ltor_options ltor;
    int64_t vocab; /* samples may contain ids below this */
    int which;
    const mega_train_options *cfg;
} split;

static mega_ltor_options task_data_ltor_options(const mega_task_data_options *o)
{
    return (mega_ltor_options){.eod = o->tokenizer != NULL ? mega_tokenizer_eod(o->tokenizer) : -1,
                               .reset_position_ids = o->cfg->data.reset_position_ids,
                               .reset_attention_mask = o->cfg->data.reset_attention_mask,
                               .eod_mask_loss = o->cfg->data.eod_mask_loss};
}

mega_status task_gpt_check_data_options(const mega_task_data_options *o)
{
    const mega_ltor_options ltor = task_data_ltor_options(o);
    return mega_ltor_check(&ltor, o->tokenizer != NULL ? mega_tokenizer_type(o->tokenizer) : NULL);
}

/* ---- opening ---- */

void task_gpt_free_data(mega_task_data *d)
{
    split *s = d->self;
    if (s != NULL) {
        mega_gpt_data_destroy(s->data);
        mega_free(s);
    }
    *d = (mega_task_data){.self = NULL};
}

static mega_task_data handle_of(split *s)
{
    return (mega_task_data){
        .self = s, .samples = mega_gpt_data_samples(s->data), .order_bytes = mega_gpt_data_bytes(s->data)};
}

/* Creates a split; takes ownership of the data. */
static mega_status gpt_data_make_split(const mega_task_data_options *o, const mega_ltor_options *ltor, int which,
                                       mega_gpt_data *data, mega_task_data *out)
{
    split *s = mega_calloc(1, sizeof *s);
    if (s == NULL) {
        mega_gpt_data_destroy(data);
        return MEGA_NO_MEMORY("training data", "the record of a split");
    }
    *s = (split){.data = data, .ltor = *ltor, .vocab = o->vocab, .which = which, .cfg = o->cfg};
    *out = handle_of(s);
    return MEGA_OK;
}

/* Lengths that are too short are reported by the rules of the options, and the data are checked all the same. */
static int64_t raise_lengths(int64_t seq_length, mega_sentence_options *s)
{
    const int64_t least = s != NULL ? mega_sentence_added(s) + 2 : 1;
    if (s != NULL && s->decoder_seq_length <= seq_length && s->decoder_seq_length < least)
        s->decoder_seq_length = least;
    return seq_length < least ? least : seq_length;
}

mega_status task_gpt_make_data_of(const mega_task_data_options *o, const mega_sentence_options *sentences,
                                  mega_task_data out[MEGA_SPLIT_COUNT])
{
    const mega_train_options *cfg = o->cfg;
    mega_gpt_data *built[MEGA_SPLIT_COUNT] = {NULL};
    mega_sentence_options raised = sentences != NULL ? *sentences : (mega_sentence_options){0};
    mega_gpt_data_options g = {
        .data_path = cfg->data.data_path.item,
        .num_data_path = (int)cfg->data.data_path.count,
        .data_path2 = cfg->data.data_path2.item,
        .num_data_path2 = (int)cfg->data.data_path2.count,
        .split = cfg->data.split,
        .separate = {cfg->data.train_data_path.item, cfg->data.valid_data_path.item, cfg->data.test_data_path.item},
        .num_separate = {(int)cfg->data.train_data_path.count, (int)cfg->data.valid_data_path.count,
                         (int)cfg->data.test_data_path.count},
        .cache_path = cfg->data.data_cache_path,
        .share = o->share,
        .check_only = o->check_only,
        .seq_length = raise_lengths(cfg->seq_length, sentences != NULL ? &raised : NULL),
        .seed = o->seed,
        /* samples of sentences are of one document each; the rules say so */
        .ltor = sentences != NULL ? (mega_ltor_options){.eod = -1} : task_data_ltor_options(o),
        .sentences = sentences != NULL ? &raised : NULL,
        .vocab = o->vocab,
        .stop = o->stop};
    mega_status st = MEGA_OK;
    for (int i = 0; i < MEGA_SPLIT_COUNT; i++) {
        g.num_samples[i] = o->num_samples[i];
        out[i] = (mega_task_data){.self = NULL};
    }
    MEGA_TRY(mega_gpt_data_build(&g, built));
    for (int i = 0; i < MEGA_SPLIT_COUNT; i++) {
        if (built[i] == NULL) continue;
        if (st == MEGA_OK) st = gpt_data_make_split(o, &g.ltor, i, built[i], &out[i]);
        else
            mega_gpt_data_destroy(built[i]);
    }
    for (int i = 0; i < MEGA_SPLIT_COUNT && st != MEGA_OK; i++) task_gpt_free_data(&out[i]);
    return st;
}

mega_status task_gpt_make_data(const mega_task_data_options *o, mega_task_data out[MEGA_SPLIT_COUNT])
{
    return task_gpt_make_data_of(o, NULL, out);
}

mega_status task_gpt_join_data(mega_task_data *part, int count, mega_task_data *out)
{
    split *first = part[0].self;
    mega_gpt_data **data = mega_calloc((size_t)count, sizeof(mega_gpt_data *));
    mega_status st = data != NULL ? MEGA_OK : MEGA_NO_MEMORY("training data", "their parts");
    for (int i = 0; i < count && st == MEGA_OK; i++) {
        split *s = part[i].self;
        data[i] = s->data;
        s->data = NULL;
    }
    if (st == MEGA_OK) st = mega_gpt_data_join(data, count, &first->data);
    mega_free(data);
    for (int i = st == MEGA_OK ? 1 : 0; i < count; i++) task_gpt_free_data(&part[i]);
    if (st == MEGA_OK) *out = handle_of(first);
    return st;
}

/* ---- checking ---- */

static mega_status refuse_id(const split *s, const mega_gpt_data_probe *p)
{
    return MEGA_MISTAKE(
        "%s.bin: sequence %lld holds token id %d, but the vocabulary of %s has %lld ids; these data were "
        "tokenized with another vocabulary, or are damaged: give that one (--tokenizer-type, --vocab-file, "
        "--merge-file), or run preprocess_data again",
        p->stray_in, (long long)p->sequence, p->id, s->cfg->text.tokenizer_type, (long long)s->vocab);
}

uint64_t task_gpt_data_hash(const mega_task_data *d)
{
    const split *s = d->self;
    return mega_gpt_data_hash(s->data);
}

mega_status task_gpt_look_at_data(const mega_task_data *d, uint64_t *content)
{
    const split *s = d->self;
    mega_gpt_data_probe p;
    const char *others, *prefix = train_data_prefix(s->cfg, s->which, &others);
    if (s->vocab > 0) {
        mega_gpt_data_look(s->data, PROBE_TOKENS, s->vocab, s->ltor.eod, &p);
        if (p.stray_in != NULL) return refuse_id(s, &p);
        /* a small split may be a single document */
        if (s->which == MEGA_SPLIT_TRAIN) MEGA_TRY(mega_ltor_check_ends(&s->ltor, prefix, p.tokens, p.ends));
    }
    return mega_gpt_data_content_hash(s->data, content);
}

/* ---- reading ---- */

mega_dataset task_gpt_dataset(const mega_task_data *d)
{
    const split *s = d->self;
    return mega_dataset_gpt(s->data);
}

uint64_t task_gpt_order_hash(const mega_task_data *d, int64_t samples)
{
    const split *s = d->self;
    return mega_gpt_data_order_hash(s->data, samples);
}

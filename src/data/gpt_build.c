/* Builds data sets from --data-path and --split (or one path per split): from a single prefix or a blend, whose weights
 * are given or are the sizes of its members. */
#include "data_impl.h"
#include "megalith/hash.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

static const char *const split_name[MEGA_SPLIT_COUNT] = {"train", "validation", "test"};
static const char *const row_name[MEGA_SPLIT_COUNT] = {"training", "validation", "test"};

static char *cache_folder(const mega_gpt_data_options *o, const char *prefix)
{
    if (o->cache_path != NULL) return mega_strdup(o->cache_path);
    char *folder = mega_path_folder(prefix);
    char *cache = folder != NULL ? mega_path_join(folder, "index-cache") : NULL;
    mega_free(folder);
    return cache;
}

static mega_status single_load(mega_gpt_data *d, const mega_gpt_data_options *o, const mega_gpt_index_spec *spec,
                               int split)
{
    const char *prefix = mega_indexed_prefix(spec->data);
    char *folder = NULL;
    if (o->check_only) {
        mega_gpt_index_spec checked = *spec;
        checked.is_estimate = true;
        MEGA_TRY(mega_gpt_index_plan_make(&checked, &d->index.plan));
        d->samples = d->index.plan.samples;
        return MEGA_OK;
    }
    if (!o->in_memory) {
        folder = cache_folder(o, prefix);
        if (folder == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "data set %s: no memory for a folder name", prefix);
    }
    const mega_status st = mega_gpt_index_get(spec, folder, o->share, split_name[split], &d->index);
    mega_free(folder);
    if (st != MEGA_OK) return st;
    d->samples = d->index.plan.samples;
    if (o->sentences != NULL) d->sentences = *o->sentences;
    return MEGA_OK;
}

/* Says what a split of a prefix has. */
static void report_split(const mega_gpt_data_options *o, const mega_gpt_data *d, int split, bool is_quiet)
{
    const mega_gpt_index_plan *p = &d->index.plan;
    const bool documents = d->has_sentences || mega_indexed_sequences(d->data) == mega_indexed_documents(d->data);
    if (o->check_only) return;
    mega_log(is_quiet || o->is_quiet ? MEGA_LOG_DEBUG : MEGA_LOG_INFO,
             " > %s: %s, %s %lld to %lld, %lld tokens, %lld epoch%s%s, %lld samples", split_name[split],
             mega_indexed_prefix(d->data), documents ? "documents" : "sequences", (long long)d->told_begin,
             (long long)d->told_end, (long long)p->tokens, (long long)p->epochs, p->epochs == 1 ? "" : "s",
             p->separate_last_epoch ? " (the last one shuffled separately)" : "", (long long)p->samples);
}

/* Creates one split of an open prefix. *out is NULL if it has no documents or no sample is requested. */
static mega_status single_create(const mega_gpt_data_options *o, mega_indexed *data, int split,
                                 const int64_t bounds[MEGA_SPLIT_COUNT + 1], int64_t num_samples, mega_gpt_data **out)
{
    *out = NULL;
    const mega_gpt_index_spec spec = {.data = data,
                                      .begin = bounds[split],
                                      .end = bounds[split + 1],
                                      .seq_length = o->seq_length,
                                      .num_samples = num_samples,
                                      .seed = o->seed,
                                      .stop = o->stop,
                                      .sentences = o->sentences};
    if (spec.begin >= spec.end || num_samples <= 0) return MEGA_OK;
    mega_gpt_data *d = mega_calloc(1, sizeof *d);
    if (d == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "data set %s: no memory", mega_indexed_prefix(data));
    d->seq_length = o->seq_length;
    d->has_sentences = o->sentences != NULL;
    d->seed = o->seed;
    d->data = data;
    d->begin = d->has_sentences ? mega_indexed_document(data, spec.begin) : spec.begin;
    d->end = d->has_sentences ? mega_indexed_document(data, spec.end) : spec.end;
    d->told_begin = spec.begin;
    d->told_end = spec.end;
    mega_indexed_retain(data);
    const mega_status st = single_load(d, o, &spec, split);
    if (st != MEGA_OK) {
        mega_gpt_data_destroy(d);
        return st;
    }
    *out = d;
    return MEGA_OK;
}

/* Creates the splits of one prefix. whole: every requested split is the whole prefix. num_samples 0: not requested. */
static mega_status prefix_build(const mega_gpt_data_options *o, const char *prefix, bool whole,
                                const int64_t num_samples[MEGA_SPLIT_COUNT], mega_gpt_data *out[MEGA_SPLIT_COUNT])
{
    mega_indexed *data;
    MEGA_TRY(mega_indexed_open(prefix, &data));
    int64_t bounds[MEGA_SPLIT_COUNT + 1];
    mega_status st = MEGA_OK;
    const int64_t items = o->sentences != NULL ? mega_indexed_documents(data) : mega_indexed_sequences(data);
    if (mega_indexed_tokens(data) == 0)
        st = MEGA_FAIL(MEGA_ERR_FORMAT,
                       "data set %s: its %lld documents contain no token, expected at least one; were all texts empty?",
                       prefix, (long long)mega_indexed_documents(data));
    if (st == MEGA_OK && !whole) st = mega_split_bounds(o->split != NULL ? o->split : "969, 30, 1", items, bounds);
    for (int k = 0; st == MEGA_OK && k < MEGA_SPLIT_COUNT; k++) {
        if (whole) {
            bounds[k] = 0;
            bounds[k + 1] = items;
        }
        st = single_create(o, data, k, bounds, num_samples[k], &out[k]);
    }
    mega_indexed_close(data);
    return st;
}

enum { TOLD = 1 }; /* members of a blend that the log describes */

/* The value of one option: members with normalised weights. is_by_size: prefixes alone, whose weights follow from their
 * sizes. */
typedef struct blend_list {
    int count;
    bool is_by_size;
    const char **prefix;
    double *weight;
} blend_list;

static void blend_list_fini(blend_list *b)
{
    MEGA_FREE(b->prefix, b->weight);
}

static mega_status parse_weights(blend_list *b, const char *const *args, int n, const char *option)
{
    double sum = 0;
    for (int i = 0; i < b->count; i++) {
        char *end;
        b->weight[i] = strtod(args[2 * i], &end);
        if (end == args[2 * i] || *end != '\0' || !(b->weight[i] >= 0) || isinf(b->weight[i]) || n % 2 != 0)
            return MEGA_MISTAKE(
                "%s: found %d values, with \"%s\" as number %d; expected one prefix, or pairs of a weight and a "
                "prefix: 0.3 first_text_document 0.7 second_text_document",
                option, n, args[2 * i], 2 * i + 1);
        b->prefix[i] = args[2 * i + 1];
        sum += b->weight[i];
    }
    if (!(sum > 0)) return MEGA_MISTAKE("%s: all weights are 0, expected at least one above 0", option);
    if (isinf(sum))
        return MEGA_MISTAKE("%s: the weights add up to more than a number can hold (%g); only their ratios matter, so "
                            "divide all of them by the largest",
                            option, DBL_MAX);
    for (int i = 0; i < b->count; i++) {
        const bool given = b->weight[i] > 0;
        b->weight[i] /= sum;
        if (given && b->weight[i] == 0)
            mega_warn("%s: the weight %s of %s is negligible compared to the sum of all weights, %g: none of its data "
                      "is read",
                      option, args[2 * i], b->prefix[i], sum);
    }
    return MEGA_OK;
}

static mega_status blend_list_init(blend_list *b, const char *const *args, int n, const char *option)
{
    const bool is_by_size = mega_blend_is_by_size(args, n);
    *b = (blend_list){.count = n == 1 || is_by_size ? n : n / 2, .is_by_size = is_by_size};
    if (b->count > INT16_MAX)
        return MEGA_MISTAKE("%s: found %d members, expected at most %d", option, b->count, INT16_MAX);
    b->prefix = mega_calloc((size_t)b->count, sizeof *b->prefix);
    b->weight = mega_calloc((size_t)b->count, sizeof *b->weight);
    mega_status st = MEGA_OK;
    if (b->prefix == NULL || b->weight == NULL) {
        st = MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory for %d members", option, b->count);
    } else if (n == 1) {
        b->prefix[0] = args[0];
        b->weight[0] = 1;
    } else if (is_by_size) {
        memcpy(b->prefix, args, (size_t)n * sizeof *b->prefix);
    } else {
        st = parse_weights(b, args, n, option);
    }
    if (st != MEGA_OK) blend_list_fini(b);
    return st;
}

/* The data of one prefix. */
typedef struct blend_member {
    mega_gpt_data *split[MEGA_SPLIT_COUNT];
} blend_member;

static mega_status build_order(mega_gpt_data *d, const mega_gpt_data_options *o, const blend_list *b)
{
    const int64_t fact[] = {b->count, d->samples};
    uint64_t key = mega_hash64(MEGA_HASH_START, "blend", sizeof "blend");
    key = mega_hash64(key, fact, sizeof fact);
    key = mega_hash64(key, b->weight, (size_t)b->count * sizeof *b->weight);
    const bool found = mega_gpt_block_find(o->share, key, mega_blend_order_bytes(d), &d->order);
    if (!found) MEGA_TRY(mega_gpt_block_make(o->share, key, mega_blend_order_bytes(d), "order of a blend", &d->order));
    d->sample_of = d->order.data;
    d->member_of = (int16_t *)(d->sample_of + d->samples);
    return found ? MEGA_OK : mega_blend_order(b->weight, b->count, d->samples, o->stop, d->member_of, d->sample_of);
}

/* Creates a data set of num_samples samples over one split of the members, which it takes over. */
static mega_status blend_create(const mega_gpt_data_options *o, const blend_list *b, blend_member *member, int split,
                                int64_t samples, mega_gpt_data **out)
{
    mega_gpt_data *d = mega_calloc(1, sizeof *d);
    if (d == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "blend: no memory");
    d->seq_length = o->seq_length;
    d->has_sentences = o->sentences != NULL;
    d->samples = samples;
    d->member = mega_calloc((size_t)b->count, sizeof(mega_gpt_data *));
    mega_status st =
        d->member != NULL ? MEGA_OK : MEGA_FAIL(MEGA_ERR_MEMORY, "blend: no memory for %d members", b->count);
    if (st == MEGA_OK && !o->check_only) st = build_order(d, o, b);
    if (st != MEGA_OK) {
        mega_gpt_data_destroy(d);
        return st;
    }
    d->num_members = b->count;
    for (int i = 0; i < b->count; i++) {
        d->member[i] = member[i].split[split];
        member[i].split[split] = NULL;
    }
    *out = d;
    return MEGA_OK;
}

/* Creates one split of a blend; NULL if no member has it. */
static mega_status blend_split(const mega_gpt_data_options *o, const blend_list *b, blend_member *member, int split,
                               mega_gpt_data **out)
{
    int missing = -1, there = 0;
    for (int i = 0; i < b->count; i++) {
        /* no samples are requested from a member of weight 0, and it is never chosen */
        if (member[i].split[split] != NULL || b->weight[i] == 0) {
            there += member[i].split[split] != NULL;
        } else {
            missing = i;
        }
    }
    if (there == 0) return MEGA_OK;
    if (missing >= 0)
        return MEGA_MISTAKE(
            "blend: %s has no document in its %s part (--split %s) although other members have; give it more "
            "documents or another --split, or name the parts with --train-data-path, --valid-data-path and "
            "--test-data-path",
            b->prefix[missing], split_name[split], o->split != NULL ? o->split : "969, 30, 1");
    int64_t samples = 0; /* as in Megatron, the sum of those requested of each member */
    for (int i = 0; i < b->count; i++) samples += mega_blend_request(o->num_samples[split], b->weight[i]);
    return blend_create(o, b, member, split, samples, out);
}

/* Says what the first members have; what the others have only at the level of debugging. */
static void tell_members(const mega_gpt_data_options *o, const blend_list *b, const blend_member *member)
{
    for (int i = 0; i < b->count; i++)
        for (int k = 0; k < MEGA_SPLIT_COUNT; k++)
            if (member[i].split[k] != NULL) report_split(o, member[i].split[k], k, i >= TOLD);
}

static mega_status blend_build(const mega_gpt_data_options *o, const blend_list *b, const bool wanted[MEGA_SPLIT_COUNT],
                               bool whole, mega_gpt_data *out[MEGA_SPLIT_COUNT])
{
    blend_member *member = mega_calloc((size_t)b->count, sizeof *member);
    if (member == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "blend: no memory for %d members", b->count);
    mega_status st = MEGA_OK;
    for (int i = 0; st == MEGA_OK && i < b->count; i++) {
        int64_t ask[MEGA_SPLIT_COUNT];
        if (mega_data_is_stopped(o->stop, 0)) {
            st = mega_data_stopped("opening the data");
            break;
        }
        for (int k = 0; k < MEGA_SPLIT_COUNT; k++) {
            const int64_t n = wanted[k] ? o->num_samples[k] : 0;
            ask[k] = b->count == 1 ? n : mega_blend_request(n, b->weight[i]);
        }
        st = prefix_build(o, b->prefix[i], whole, ask, member[i].split);
    }
    if (st == MEGA_OK) tell_members(o, b, member);
    for (int k = 0; st == MEGA_OK && k < MEGA_SPLIT_COUNT; k++) {
        if (b->count > 1) {
            st = blend_split(o, b, member, k, &out[k]);
        } else if (wanted[k]) {
            out[k] = member[0].split[k];
            member[0].split[k] = NULL;
        }
    }
    for (int i = 0; i < b->count; i++) {
        for (int k = 0; k < MEGA_SPLIT_COUNT; k++) mega_gpt_data_destroy(member[i].split[k]);
    }
    mega_free(member);
    return st;
}

/* Opens one epoch of each member, whose samples are its weight: that is how Megatron weighs prefixes without numbers,
 * those of BERT and T5 as those of GPT. */
static mega_status open_by_size(const mega_gpt_data_options *o, const blend_list *b, int split, bool whole,
                                blend_member *member, int64_t *out_sum)
{
    int64_t ask[MEGA_SPLIT_COUNT] = {0};
    ask[split] = 1; /* a data set of one sample has all of its epoch */
    *out_sum = 0;
    for (int i = 0; i < b->count; i++) {
        if (mega_data_is_stopped(o->stop, 0)) return mega_data_stopped("opening the data");
        MEGA_TRY(prefix_build(o, b->prefix[i], whole, ask, member[i].split));
        const mega_gpt_data *d = member[i].split[split];
        b->weight[i] = d != NULL ? (double)d->samples : 0;
        *out_sum += d != NULL ? d->samples : 0;
    }
    return MEGA_OK;
}

/* One split of prefixes without weights. Megatron ends where each has been read once; here they go on with the same
 * weights. */
static mega_status blend_by_size(const mega_gpt_data_options *o, const blend_list *b, int split, bool whole,
                                 mega_gpt_data *out[MEGA_SPLIT_COUNT])
{
    const bool wanted[MEGA_SPLIT_COUNT] = {split == 0, split == 1, split == 2};
    int64_t sum;
    blend_member *member = mega_calloc((size_t)b->count, sizeof *member);
    if (member == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "blend: no memory for %d members", b->count);
    mega_status st = open_by_size(o, b, split, whole, member, &sum);
    const bool is_enough = st == MEGA_OK && o->num_samples[split] <= sum;
    if (is_enough) tell_members(o, b, member); /* otherwise they are opened again, for more epochs */
    if (is_enough) st = blend_create(o, b, member, split, o->num_samples[split], &out[split]);
    for (int i = 0; i < b->count; i++) mega_gpt_data_destroy(member[i].split[split]);
    mega_free(member);
    if (st != MEGA_OK || is_enough || sum == 0) return st;
    for (int i = 0; i < b->count; i++) b->weight[i] /= (double)sum;
    return blend_build(o, b, wanted, whole, out);
}

static mega_status build_by_size(const mega_gpt_data_options *o, const blend_list *b,
                                 const bool wanted[MEGA_SPLIT_COUNT], bool whole, mega_gpt_data *out[MEGA_SPLIT_COUNT])
{
    for (int k = 0; k < MEGA_SPLIT_COUNT; k++)
        if (wanted[k] && o->num_samples[k] > 0) MEGA_TRY(blend_by_size(o, b, k, whole, out));
    return MEGA_OK;
}

static mega_status build_from(const mega_gpt_data_options *o, const char *const *args, int n, const char *option,
                              const bool wanted[MEGA_SPLIT_COUNT], bool whole, mega_gpt_data *out[MEGA_SPLIT_COUNT])
{
    blend_list b;
    MEGA_TRY(blend_list_init(&b, args, n, option));
    const mega_status st =
        b.is_by_size ? build_by_size(o, &b, wanted, whole, out) : blend_build(o, &b, wanted, whole, out);
    if (st == MEGA_OK && !o->check_only && !o->is_quiet && b.count > TOLD)
        mega_info(" > and %d more data sets (--log-level debug lists them)", b.count - TOLD);
    blend_list_fini(&b);
    return st;
}

/* Builds the parts of --data-path, of which --data-path2 may replace the validation, as in Megatron's
 * finetune_gpt.py. */
static mega_status build_split(const mega_gpt_data_options *o, mega_gpt_data *out[MEGA_SPLIT_COUNT])
{
    const bool has_second = o->num_data_path2 > 0;
    mega_gpt_data_options second = *o;
    second.split = "98,2,0";
    MEGA_TRY(build_from(o, o->data_path, o->num_data_path, "--data-path", (const bool[3]){true, !has_second, true},
                        false, out));
    return !has_second ? MEGA_OK
                       : build_from(&second, o->data_path2, o->num_data_path2, "--data-path2",
                                    (const bool[3]){false, true, false}, false, out);
}

static mega_status build_all(const mega_gpt_data_options *o, mega_gpt_data *out[MEGA_SPLIT_COUNT])
{
    static const char *const option[MEGA_SPLIT_COUNT] = {"--train-data-path", "--valid-data-path", "--test-data-path"};
    const bool separate = o->num_separate[0] > 0 || o->num_separate[1] > 0 || o->num_separate[2] > 0;
    if (separate == (o->num_data_path > 0))
        return MEGA_MISTAKE(
            "data: found %s, expected --data-path PREFIX, or at least one of --train-data-path, --valid-data-path and "
            "--test-data-path",
            separate ? "both" : "no data set");
    if (separate && o->num_data_path2 > 0)
        return MEGA_MISTAKE("data: --data-path2 is the validation beside --data-path; give --valid-data-path "
                            "beside --train-data-path");
    if (!separate) return build_split(o, out);
    for (int k = 0; k < MEGA_SPLIT_COUNT; k++) {
        const bool wanted[MEGA_SPLIT_COUNT] = {k == 0, k == 1, k == 2};
        if (o->num_separate[k] > 0)
            MEGA_TRY(build_from(o, o->separate[k], o->num_separate[k], option[k], wanted, true, out));
    }
    return MEGA_OK;
}

mega_status mega_gpt_data_build(const mega_gpt_data_options *o, mega_gpt_data *out[MEGA_SPLIT_COUNT])
{
    mega_gpt_data *built[MEGA_SPLIT_COUNT] = {NULL};
    mega_status st = build_all(o, built);
    if (st == MEGA_OK) st = mega_map_check();
    for (int k = 0; k < MEGA_SPLIT_COUNT && st == MEGA_OK && !o->check_only; k++)
        if (built[k] != NULL) st = mega_gpt_rows_create(o, row_name[k], &built[k]->rows);
    for (int k = 0; k < MEGA_SPLIT_COUNT; k++) {
        if (st == MEGA_OK) {
            out[k] = built[k];
        } else {
            mega_gpt_data_destroy(built[k]);
        }
    }
    return st;
}

/* The data of a run: the task's datasets, the samplers, and the samples of a batch. */
#include "megalith/file.h"
#include "megalith/indexed.h"
#include "megalith/indexed_tokenizer.h"
#include "megalith/log.h"
#include "train_impl.h"

/* Returns the number of validation batches that the whole training reads, even if this run ends earlier. The formula
 * is Megatron's, because the number determines the order of samples. Without training there is one evaluation. */
static int64_t batches_of_validation(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    const int64_t during = cfg->skip_train ? 0 : t->train_iters / cfg->eval_interval;
    return cfg->eval_iters == 0 ? 0 : (during + 1) * cfg->eval_iters;
}

static mega_sampler_type sampler_type(const trainer *t)
{
    return t->cfg->dataloader_type == MEGA_DATALOADER_CYCLIC ? MEGA_SAMPLER_CYCLIC : MEGA_SAMPLER_SINGLE;
}

/* Returns the bytes of order data for this rank: a host holds one copy of the arrays, and each of its ranks has its
 * own permutations. */
static size_t order_bytes(const trainer *t)
{
    size_t shared = 0, own = 0;
    for (int i = 0; i < MEGA_SPLIT_COUNT; i++) {
        shared += t->data[i].order_bytes;
        if (t->data[i].self != NULL) own += mega_sampler_bytes(sampler_type(t), t->data[i].samples);
    }
    return shared / (size_t)t->cfg->engine.local_world_size + own;
}

static mega_status open_samplers(trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    const mega_sampler_type type = sampler_type(t);
    for (int i = 0; i < MEGA_SPLIT_COUNT; i++) {
        if (t->data[i].self == NULL) continue;
        if (i == MEGA_SPLIT_TRAIN && cfg->engine.dataloader_drop_last)
            MEGA_TRY(mega_sampler_create_drop_last(type, t->data[i].samples, cfg->engine.optim.global_batch_size,
                                                   &t->sampled[i].sampler));
        else
            MEGA_TRY(mega_sampler_create(type, t->data[i].samples, cfg->engine.optim.micro_batch_size,
                                         cfg->engine.data_parallel_size, &t->sampled[i].sampler));
        t->sampled[i].dataset = t->task->dataset(&t->data[i]);
    }
    return MEGA_OK;
}

const char *train_data_prefix(const mega_train_options *cfg, int split, const char **others)
{
    const mega_list *own[] = {&cfg->data.train_data_path, &cfg->data.valid_data_path, &cfg->data.test_data_path};
    const bool is_second = split == MEGA_SPLIT_VALID && cfg->data.data_path2.count > 0;
    const mega_list *list = is_second                       ? &cfg->data.data_path2
                            : cfg->data.data_path.count > 0 ? &cfg->data.data_path
                                                            : own[split];
    *others = list->count > 1 ? " or another of the blend" : "";
    /* weight prefix weight prefix …, or prefixes alone: the second is one of them in either case */
    return list->count > 0 ? list->item[list->count > 1 ? 1 : 0] : "the data";
}

const char *train_split_name(int split)
{
    static const char *const name[MEGA_SPLIT_COUNT] = {"training", "validation", "test"};
    return name[split];
}

/* Returns the number of samples that the whole training reads. A run that began with larger batches has consumed more
 * than its number of iterations suggests. */
static int64_t train_samples(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    const int64_t all = t->train_iters * cfg->engine.optim.global_batch_size,
                  to_go = (t->train_iters - t->first_iteration) * cfg->engine.optim.global_batch_size;
    if (cfg->skip_train) return 0;
    if (cfg->engine.optim.train_samples > 0) return cfg->engine.optim.train_samples;
    return to_go > 0 && cfg->consumed_train_samples + to_go > all ? cfg->consumed_train_samples + to_go : all;
}

static mega_task_data_options data_options(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    return (mega_task_data_options){.cfg = cfg,
                                    .tokenizer = t->text.tokenizer,
                                    .words = t->text.words,
                                    .vocab = t->text.tokenizer != NULL ? t->text.vocab : 0,
                                    .num_samples = {train_samples(t),
                                                    batches_of_validation(t) * cfg->engine.optim.global_batch_size,
                                                    cfg->eval_iters * cfg->engine.optim.global_batch_size},
                                    .seed = (uint32_t)cfg->engine.seed,
                                    .texts = &t->epochs.texts,
                                    .stop = t->io != NULL ? t->io->stop : NULL};
}

static mega_status need_training(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    if (t->data[MEGA_SPLIT_TRAIN].self != NULL || cfg->skip_train) return MEGA_OK;
    return MEGA_MISTAKE(
        "--split %s leaves no documents for training; its first number must be above 0 and the data set "
        "large enough for a share",
        cfg->data.split != NULL ? cfg->data.split : "969, 30, 1");
}

/* Reports a wrong tokenizer, or documents without an end token, before the first step and not after an hour. */
static mega_status look_at_data(trainer *t)
{
    MEGA_TRY(need_training(t));
    for (int i = 0; i < MEGA_SPLIT_COUNT; i++) {
        if (t->data[i].self == NULL) continue;
        if (mega_team_is_stopped(t->team))
            return MEGA_FAIL(MEGA_ERR_INTERRUPTED, "checking the data was interrupted by a signal");
        MEGA_TRY(t->task->look_at_data(&t->data[i], &t->content[i]));
    }
    return mega_map_check();
}

/* Ids of another tokenizer are ids of this one too, if it has as many: only the file beside the data tells. */
static void compare_tokenizers_of_data(const trainer *t)
{
    const mega_data_options *d = &t->cfg->data;
    const mega_list *const lists[] = {&d->data_path, &d->train_data_path, &d->valid_data_path, &d->test_data_path};
    if (t->text.tokenizer == NULL || !train_is_first(t)) return;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (size_t k = 0; k < lists[i]->count; k++) /* weights of a mixture have no such file */
            mega_indexed_compare_tokenizer(lists[i]->item[k], t->text.tokenizer);
}

mega_status train_check_data(trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    train_plan_iterations(t);
    mega_task_data_options o = data_options(t);
    const mega_data_options *d = &cfg->data;
    const size_t given = t->task->course->in_epochs ? t->epochs.texts.self != NULL
                                                    : d->data_path.count + d->train_data_path.count +
                                                          d->valid_data_path.count + d->test_data_path.count;
    if (given == 0 || mega_options_is_faulty(cfg->engine.options, MEGA_TOPIC_DATA)) return MEGA_OK;
    o.check_only = true;
    if (o.num_samples[MEGA_SPLIT_TRAIN] < 1 && !cfg->skip_train) o.num_samples[MEGA_SPLIT_TRAIN] = 1;
    MEGA_TRY(t->task->make_data(&o, t->data));
    t->order.bytes = order_bytes(t);
    /* The tokens of all texts and the caches of the tokenizer may be more than what the engine will hold. */
    if (!t->task->course->in_epochs) compare_tokenizers_of_data(t);
    if (t->epochs.texts.self != NULL) t->reading_bytes = mega_memory_peak();
    return look_at_data(t);
}

void train_close_checked_data(trainer *t)
{
    for (int i = 0; i < MEGA_SPLIT_COUNT; i++) t->task->free_data(&t->data[i]);
}

mega_status train_open_share(const trainer *t, mega_gpt_share **share)
{
    enum { WORDS = sizeof(mega_gpt_offer) / sizeof(int64_t) };
    const int first = mega_world_host_first(t->world);
    mega_gpt_offer mine = {.fd = -1}, *all = mega_malloc((size_t)mega_world_size(t->world) * sizeof *all);
    mega_status st = all != NULL ? MEGA_OK : MEGA_NO_MEMORY("training data", "offers of ranks");
    if (*share != NULL) mega_gpt_share_offer(*share, &mine);
    st = train_agree(t, st);
    if (st == MEGA_OK)
        st = mega_comm_all_gather(mega_world_comm(t->world), "order of samples", all, &mine, WORDS, MEGA_I64);
    if (st == MEGA_OK && mega_world_rank(t->world) != first) st = mega_gpt_share_open(&all[first], share);
    mega_free(all);
    return st;
}

/* Builds the data in an order that avoids duplicate work. The first rank builds what is not cached. Then the first
 * rank of each other host finds the cache, or builds what its host lacks; the other ranks map the memory of their
 * host's first rank. */
static mega_status build_in_turn(trainer *t, mega_task_data_options *o)
{
    const int rank = mega_world_rank(t->world);
    const bool leads = rank == mega_world_host_first(t->world);
    if (mega_world_size(t->world) == 1) return train_build_data(t, o);
    mega_status st = train_agree(t, leads ? mega_gpt_share_create(&o->share) : MEGA_OK);
    if (st == MEGA_OK) st = train_agree(t, rank == 0 ? train_build_data(t, o) : MEGA_OK);
    if (st == MEGA_OK) st = train_agree(t, leads && rank != 0 ? train_build_data(t, o) : MEGA_OK);
    if (st == MEGA_OK) st = train_agree(t, train_open_share(t, &o->share));
    if (st == MEGA_OK) st = train_agree(t, leads ? MEGA_OK : train_build_data(t, o));
    mega_gpt_share_destroy(o->share);
    return st;
}

static mega_status build_data(trainer *t)
{
    mega_task_data_options o = data_options(t);
    if (!t->task->course->in_epochs && t->io->is_detailed) {
        train_line(t, " > datasets target sizes (minimum size):");
        train_line(t, "    train:      %lld", (long long)o.num_samples[MEGA_SPLIT_TRAIN]);
        train_line(t, "    validation: %lld", (long long)o.num_samples[MEGA_SPLIT_VALID]);
        train_line(t, "    test:       %lld", (long long)o.num_samples[MEGA_SPLIT_TEST]);
    }
    train_line(t, "> building train, validation, and test datasets for %s ...", t->task->model_name);
    MEGA_TRY(build_in_turn(t, &o));
    t->order.bytes = order_bytes(t);
    if (t->io->is_detailed) train_line(t, "> finished creating %s datasets ...", t->task->model_name);
    return MEGA_OK;
}

/* Returns the documents of the one data set that the validation is a share of, if it has too few for that share; 0:
 * there is another reason, or there are several data sets. */
static int64_t too_few(const mega_list *list, const char *split)
{
    enum { MANY = 1 << 30 };
    int64_t bounds[MEGA_SPLIT_COUNT + 1], documents = 0;
    mega_indexed *data;
    if (list->count != 1 || mega_split_bounds(split, MANY, bounds) != MEGA_OK ||
        bounds[MEGA_SPLIT_VALID] == bounds[MEGA_SPLIT_VALID + 1])
        return 0;
    if (mega_indexed_open(list->item[0], &data) == MEGA_OK) {
        documents = mega_indexed_documents(data);
        mega_indexed_close(data);
    }
    mega_error_clear();
    return documents;
}

static void warn_of_no_validation(const mega_train_options *cfg)
{
    const bool is_second = cfg->data.data_path2.count > 0;
    const char *split = is_second ? "98,2,0" : cfg->data.split != NULL ? cfg->data.split : "969, 30, 1";
    const int64_t documents = too_few(is_second ? &cfg->data.data_path2 : &cfg->data.data_path, split);
    if (documents > 0)
        mega_warn(
            "no validation data: the data set has %lld document%s, which --split %s shares out whole, and leaves the "
            "validation none; nothing is evaluated during training: make data of more documents (preprocess_data "
            "--split-on-blank-lines, or JSON lines), give the validation a larger share, or --valid-data-path",
            (long long)documents, documents == 1 ? "" : "s", split);
    else
        mega_warn("no validation data (--split %s%s): nothing is evaluated during training", split,
                  is_second ? " of --data-path2" : ", or --valid-data-path");
}

mega_status train_open_data(trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    MEGA_TRY(build_data(t));
    MEGA_TRY(need_training(t));
    if (t->data[MEGA_SPLIT_VALID].self == NULL && cfg->eval_iters > 0 && !t->task->course->in_epochs)
        warn_of_no_validation(cfg);
    MEGA_TRY(open_samplers(t));
    if (t->data[MEGA_SPLIT_TRAIN].self != NULL) t->order.hash = train_order_hash(t, t->data[MEGA_SPLIT_TRAIN].samples);
    MEGA_TRY(train_agree(t, mega_map_check()));
    train_warn_of_other_data(t);
    return MEGA_OK;
}

void train_close_data(trainer *t)
{
    if (t->epochs.texts.self != NULL) t->task->free_texts(&t->epochs.texts);
    for (int i = 0; i < MEGA_SPLIT_COUNT; i++) {
        mega_sampler_destroy(t->sampled[i].sampler);
        t->task->free_data(&t->data[i]);
    }
    mega_free(t->order.samples);
    mega_free(t->stored.order);
}

mega_status train_check_ends(const trainer *t)
{
    const mega_task_data_options o = {.cfg = t->cfg, .tokenizer = t->text.tokenizer};
    return t->task->check_data_options == NULL ? MEGA_OK : t->task->check_data_options(&o);
}

/* Reads a training sample. The engine is created before the data are open, but reads no sample before
 * its first step. */
static mega_status read_training(void *user, int64_t n, mega_sample *sample)
{
    const mega_dataset d = mega_dataset_sampled(&((trainer *)user)->sampled[MEGA_SPLIT_TRAIN]);
    return d.read(d.user, n, sample);
}

static mega_status collate_training(void *user, mega_batch *batch)
{
    const mega_dataset *d = &((trainer *)user)->sampled[MEGA_SPLIT_TRAIN].dataset;
    return d->collate != NULL ? d->collate(d->user, batch) : MEGA_OK;
}

void train_set_training_data(trainer *t)
{
    t->training_data = (mega_dataset){.count = INT64_MAX,
                                      .read = read_training,
                                      .collate = collate_training,
                                      .user = t,
                                      .in_order = true,
                                      .is_thread_safe = true};
}

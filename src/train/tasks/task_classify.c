/* tasks with labels: the row of classifiers, encoders with a head for samples, and their data, which are in
 * memory (data/labelled.h). An epoch reads all training samples, shuffled anew, in whole global batches: what does not
 * fill the last one is left out or, with --keep-last, filled up with samples without a label. */
#include "megalith/family.h"
#include "megalith/hash.h"
#include "megalith/labelled.h"
#include "task_gpt.h"
#include <stdio.h>

enum { HASHED_SAMPLES = 16 };

/* Without a task that is known, a mistake was reported, and checks go on as for the first one. */
static const mega_labelled_task *task_of(const mega_train_options *cfg)
{
    const mega_labelled_task *found = mega_labelled_find(cfg->classify.task);
    return found != NULL ? found : mega_labelled_task_get(0);
}

/* ---- the tokenizer ---- */

typedef struct classify_words {
    int32_t cls, sep, pad;
} classify_words;

static mega_status classify_read_tokenizer(const mega_tokenizer *t, void **out)
{
    classify_words *w = mega_calloc(1, sizeof *w);
    *out = w;
    if (w == NULL) return MEGA_NO_MEMORY("tokenizer", "the ids of its special tokens");
    *w = (classify_words){.cls = mega_tokenizer_role(t, MEGA_ROLE_CLS, "[CLS] <s>"),
                          .sep = mega_tokenizer_role(t, MEGA_ROLE_SEP, "[SEP] </s>"),
                          .pad = mega_tokenizer_role(t, MEGA_ROLE_PAD, "[PAD] <pad>")};
    if (w->cls >= 0 && w->sep >= 0 && w->pad >= 0) return MEGA_OK;
    return MEGA_MISTAKE(
        "the tokenizer (%s) lacks %s; a task with labels needs [CLS], [SEP] and [PAD], or <s>, </s> and "
        "<pad>: give the vocabulary of the BERT (--tokenizer-type BertWordPieceLowerCase, --vocab-file)",
        mega_tokenizer_type(t),
        w->cls < 0   ? "[CLS]"
        : w->sep < 0 ? "[SEP]"
                     : "[PAD]");
}

/* ---- the model ---- */

/* Returns "3 classes" or "4 choices" in a buffer of the caller's. */
static const char *size_of(int64_t classes, int64_t choices, char out[32])
{
    snprintf(out, 32, "%lld %s", (long long)(choices > 0 ? choices : classes), choices > 0 ? "choices" : "classes");
    return out;
}

static mega_status classify_check_folder(const mega_task_options *o, const mega_labelled_task *task, bool is_new)
{
    const mega_network_shape *n = &o->stored->net;
    const mega_family *f = mega_family_of(n);
    const bool has_none = n->classes == 0 && n->choices == 0;
    char found[32], expected[32];
    if (!n->is_encoder || f->names->classifier == NULL || n->token_types < 2)
        return MEGA_FAIL(
            MEGA_ERR_UNSUPPORTED,
            "--load: the folder holds a %s; --task %s needs a bert or megatron-bert with two types of tokens",
            f->model_type, task->name);
    if (has_none && o->cfg->skip_train)
        return MEGA_MISTAKE(
            "--load: the folder holds a %s without a classifier, and nothing is trained; give --epochs N and "
            "--train-data, or the folder of a classifier that was trained for %s",
            f->model_type, task->name);
    if (has_none && !o->cfg->finetune)
        return MEGA_MISTAKE("--load: the folder holds a %s without a classifier, so no run of %s can go on from it; "
                            "--pretrained-checkpoint with this folder begins one",
                            f->model_type, task->name);
    if (is_new || (n->classes == task->classes && n->choices == task->choices)) return MEGA_OK;
    return MEGA_MISTAKE(
        "--load: the folder holds a classifier of %s, and %s has %s; give one that was trained for this "
        "task, or begin a new one from this folder with --pretrained-checkpoint, --epochs and --train-data",
        size_of(n->classes, n->choices, found), task->name, size_of(task->classes, task->choices, expected));
}

static mega_status refuse_names(const mega_task_options *o, const mega_labelled_task *task)
{
    const mega_network_shape *n = &o->stored->net;
    mega_buffer found = {0}, expected = {0};
    for (int64_t i = 0; i < task->classes; i++) {
        const char *name = mega_shape_label(n, i);
        mega_buffer_printf(&found, "%s%s", i > 0 ? ", " : "", name != NULL ? name : "(too long)");
        mega_buffer_printf(&expected, "%s%s", i > 0 ? ", " : "", task->named[i]);
    }
    mega_status st = mega_buffer_check(&found, "--load");
    if (st == MEGA_OK) st = mega_buffer_check(&expected, "--load");
    if (st == MEGA_OK)
        st = MEGA_MISTAKE("--load %s: its config.json calls the classes %s (id2label), which are not those of %s; "
                          "expected %s, in the order that the model was trained with, or no names (LABEL_0, …) if this "
                          "is the order",
                          o->cfg->load, found.data, task->name, expected.data);
    mega_buffer_fini(&found);
    mega_buffer_fini(&expected);
    return st;
}

/* Sets order[label] to the class of a folder that is called so. Returns false if its names are not those of the
 * task. */
static bool find_order(const mega_network_shape *n, const mega_labelled_task *task,
                       int32_t order[MEGA_LABELLED_CLASSES])
{
    for (int32_t i = 0; i < MEGA_LABELLED_CLASSES; i++) order[i] = i;
    if (n->classes != task->classes || mega_shape_label(n, 0) == NULL) return true;
    for (int32_t i = 0; i < task->classes; i++) order[i] = -1;
    for (int32_t c = 0; c < task->classes; c++) {
        const char *name = mega_shape_label(n, c);
        const int32_t label = name != NULL ? mega_labelled_label_of(task, name) : -1;
        if (label < 0 || order[label] >= 0) return false;
        order[label] = c;
    }
    return true;
}

/* A run of one task may begin from the classifier of another: of that the encoder and the pooler are taken. */
static bool begins_new(const mega_task_options *o, const mega_labelled_task *task, bool is_named)
{
    const mega_network_shape *n = &o->stored->net;
    const bool fits = is_named && n->classes == task->classes && n->choices == task->choices;
    return (n->classes == 0 && n->choices == 0) || (o->cfg->finetune && !o->cfg->skip_train && !fits);
}

/* The classes of a new classifier have the names of the task; those of a folder keep theirs. */
static void name_classes(const mega_labelled_task *task, mega_network_shape *net)
{
    memset(net->labels, 0, sizeof net->labels);
    for (int64_t i = 0; i < task->classes; i++) (void)mega_shape_add_label(net, task->named[i]);
}

static mega_status classify_make_model(const mega_task_options *o, mega_task_model *out)
{
    const mega_labelled_task *task = task_of(o->cfg);
    const classify_words *w = o->words;
    const bool is_stored = o->stored != NULL;
    bool is_new = true;
    mega_network_shape net;
    *out = (mega_task_model){.self = NULL};
    if (is_stored) {
        int32_t order[MEGA_LABELLED_CLASSES];
        const bool is_named = find_order(&o->stored->net, task, order);
        is_new = begins_new(o, task, is_named);
        MEGA_TRY(classify_check_folder(o, task, is_new));
        if (!is_new && !is_named) return refuse_names(o, task);
        MEGA_TRY(task_gpt_check_kind(o->cfg, "load", o->stored->heads, &o->stored->net));
        net = o->stored->net;
    } else {
        MEGA_TRY(mega_network_from_options(&o->cfg->model, &net));
        if (!net.gated && net.activation == MEGA_ACT_GELU_TANH) net.activation = MEGA_ACT_GELU;
        mega_network_make_encoder(&net, false, false, w != NULL ? w->pad : 0);
    }
    mega_network_make_classifier(&net, task->classes, task->choices);
    if (is_new) name_classes(task, &net);
    MEGA_TRY(task_gpt_make(o, &net, !is_stored, out));
    out->begins_classifier = is_stored && is_new;
    return MEGA_OK;
}

static void classify_card(const mega_task_model *m, const mega_train_options *cfg, mega_buffer *out)
{
    const bool chooses = task_of(cfg)->choices > 0;
    task_gpt_put_card(m, cfg, "BERT", chooses ? "multiple-choice" : "text-classification", out);
}

/* ---- the data ---- */

enum { TEXTS_TRAIN, TEXTS_VALID, TEXTS_COUNT };

/* A set of the validation data, as a data set. */
typedef struct classify_set {
    const mega_labelled *labelled;
    const mega_labelled_set *set;
} classify_set;

typedef struct classify_texts {
    mega_labelled *texts[TEXTS_COUNT]; /* NULL: none */
    classify_set *set;
    size_t sets;
} classify_texts;

static void free_texts(mega_task_texts *texts)
{
    classify_texts *t = texts->self;
    if (t != NULL) {
        for (int i = 0; i < TEXTS_COUNT; i++) mega_labelled_close(t->texts[i]);
        mega_free(t->set);
    }
    mega_free(t);
    *texts = (mega_task_texts){.self = NULL};
}

static mega_status list_sets(classify_texts *t)
{
    const mega_labelled *l = t->texts[TEXTS_VALID];
    const size_t count = l != NULL ? mega_labelled_sets(l) : 0;
    t->set = mega_calloc(count + 1, sizeof *t->set);
    if (t->set == NULL) return MEGA_NO_MEMORY("tasks", "the list of their data");
    for (; t->sets < count; t->sets++)
        t->set[t->sets] = (classify_set){.labelled = l, .set = mega_labelled_set_get(l, t->sets)};
    return MEGA_OK;
}

static void note_mistake(void *user, mega_status st)
{
    mega_options_add_mistake(user, st);
}

static mega_status classify_read_list(const mega_task_data_options *o, int which, const mega_list *list,
                                      mega_labelled **out)
{
    const classify_words *w = o->words;
    int32_t order[MEGA_LABELLED_CLASSES];
    const mega_labelled_task *task = task_of(o->cfg);
    /* classify_make_model refuses other names; choices have none */
    const bool has_order = o->stored != NULL && task->choices == 0 && find_order(&o->stored->net, task, order);
    const mega_labelled_options l = {.task = task,
                                     .path = list->item,
                                     .num_paths = list->count,
                                     .tokenizer = o->tokenizer,
                                     .cls = w->cls,
                                     .sep = w->sep,
                                     .pad = w->pad,
                                     .seq_length = o->cfg->seq_length,
                                     .needs_labels = which == TEXTS_TRAIN,
                                     .order = has_order ? order : NULL,
                                     .team = o->team,
                                     .mistake = note_mistake,
                                     .user = o->cfg->engine.options};
    return list->count > 0 ? mega_labelled_open(&l, out) : MEGA_OK;
}

/* Both lists are read, so that the mistakes of all files are known. */
static mega_status make_texts(const mega_task_data_options *o, mega_task_texts *out)
{
    const mega_classify_options *c = &o->cfg->classify;
    const mega_list *list[TEXTS_COUNT] = {&c->train_data, &c->valid_data};
    classify_texts *t = mega_calloc(1, sizeof *t);
    *out = (mega_task_texts){.self = t, .epochs = c->epochs, .drops_last = !c->keep_last};
    if (t == NULL) return MEGA_NO_MEMORY("tasks", "their data");
    mega_status st = MEGA_OK;
    for (int i = o->cfg->skip_train ? TEXTS_VALID : TEXTS_TRAIN; i < TEXTS_COUNT; i++) {
        const mega_status read = classify_read_list(o, i, list[i], &t->texts[i]);
        if (read != MEGA_OK) st = read;
        if (read == MEGA_ERR_MEMORY || read == MEGA_ERR_INTERRUPTED) break;
    }
    if (st == MEGA_OK) st = list_sets(t);
    if (st != MEGA_OK) {
        free_texts(out);
        return st;
    }
    if (t->texts[TEXTS_TRAIN] != NULL) out->samples[MEGA_SPLIT_TRAIN] = mega_labelled_count(t->texts[TEXTS_TRAIN]);
    if (t->texts[TEXTS_VALID] != NULL) out->samples[MEGA_SPLIT_VALID] = mega_labelled_count(t->texts[TEXTS_VALID]);
    return MEGA_OK;
}

typedef struct classify_split {
    const mega_labelled *labelled;
    bool is_train;
    uint32_t seed;
    int64_t count, of_epoch; /* samples; those that an epoch reads, a multiple of the global batch */
} classify_split;

static mega_status make_split(const mega_task_data_options *o, int which, const mega_labelled *of, mega_task_data *out)
{
    const bool is_train = which == MEGA_SPLIT_TRAIN;
    *out = (mega_task_data){.self = NULL};
    if (of == NULL) return MEGA_OK;
    const int64_t count = mega_labelled_count(of), batch = o->cfg->engine.optim.global_batch_size;
    const int64_t steps = o->cfg->engine.optim.train_iters, rest = o->cfg->classify.keep_last ? batch - 1 : 0;
    const int64_t of_epoch = (count + rest) / batch * batch;
    if (is_train && of_epoch == 0) return MEGA_OK; /* train_read_texts has refused it */
    classify_split *s = mega_calloc(1, sizeof *s);
    if (s == NULL) return MEGA_NO_MEMORY("training data", "the record of a split");
    *s = (classify_split){.labelled = of, .is_train = is_train, .seed = o->seed, .count = count, .of_epoch = of_epoch};
    const int64_t once = (count + batch - 1) / batch * batch;
    const int64_t evaluated = o->num_samples[which] > once ? o->num_samples[which] : once;
    *out = (mega_task_data){.self = s, .samples = !is_train ? evaluated : steps > 0 ? steps * batch : of_epoch};
    return MEGA_OK;
}

static void free_data(mega_task_data *d)
{
    mega_free(d->self);
    *d = (mega_task_data){.self = NULL};
}

static mega_status classify_make_data(const mega_task_data_options *o, mega_task_data out[MEGA_SPLIT_COUNT])
{
    for (int i = 0; i < MEGA_SPLIT_COUNT; i++) out[i] = (mega_task_data){.self = NULL};
    if (o->texts == NULL || o->texts->self == NULL) return MEGA_OK;
    const classify_texts *t = o->texts->self;
    MEGA_TRY(make_split(o, MEGA_SPLIT_TRAIN, t->texts[TEXTS_TRAIN], &out[MEGA_SPLIT_TRAIN]));
    const mega_status st = make_split(o, MEGA_SPLIT_VALID, t->texts[TEXTS_VALID], &out[MEGA_SPLIT_VALID]);
    if (st != MEGA_OK) free_data(&out[MEGA_SPLIT_TRAIN]);
    return st;
}

/* Never called with more than one part: a run reads epochs, of which there are as many as it asks for. */
static mega_status join_data(mega_task_data *part, int count, mega_task_data *out)
{
    for (int i = 1; i < count; i++) free_data(&part[i]);
    *out = part[0];
    return MEGA_OK;
}

static uint64_t data_hash(const mega_task_data *d)
{
    const classify_split *s = d->self;
    return mega_labelled_hash(s->labelled);
}

static mega_status classify_look_at_data(const mega_task_data *d, uint64_t *content)
{
    *content = data_hash(d);
    return MEGA_OK;
}

/* Returns the sample that is number n of the run; *left_out: it fills up a batch. Evaluation begins again after the
 * last sample. */
static int64_t sample_of(const classify_split *s, int64_t n, bool *left_out)
{
    const mega_dataset samples = {.count = s->count};
    *left_out = false;
    if (!s->is_train) return n % s->count;
    const int64_t epoch = n / s->of_epoch, at = n % s->of_epoch;
    *left_out = at >= s->count;
    return *left_out ? 0 : mega_dataset_index(&samples, s->seed, epoch * s->count + at);
}

static mega_status classify_read_sample(void *user, int64_t n, mega_sample *sample)
{
    const classify_split *s = user;
    bool left_out;
    const int64_t index = sample_of(s, n, &left_out);
    mega_labelled_fill(s->labelled, index, left_out, sample);
    return MEGA_OK;
}

static mega_dataset dataset(const mega_task_data *d)
{
    return (mega_dataset){
        .count = d->samples, .read = classify_read_sample, .user = d->self, .in_order = true, .is_thread_safe = true};
}

static uint64_t order_hash(const mega_task_data *d, int64_t samples)
{
    const classify_split *s = d->self;
    uint64_t hash = MEGA_HASH_START;
    for (int64_t i = 0; i < HASHED_SAMPLES; i++) {
        bool left_out;
        const int64_t index = sample_of(s, i * (samples - 1) / (HASHED_SAMPLES - 1), &left_out);
        hash = mega_hash64(hash, &index, sizeof index);
    }
    return hash;
}

static mega_status read_of_set(void *user, int64_t n, mega_sample *sample)
{
    const classify_set *s = user;
    mega_labelled_fill(s->labelled, s->set->first + n, false, sample);
    return MEGA_OK;
}

static bool evaluation_set(const mega_task_texts *texts, size_t i, mega_task_set *out)
{
    const classify_texts *t = texts->self;
    if (t == NULL || i >= t->sets) return false;
    const mega_labelled_set *set = t->set[i].set;
    *out = (mega_task_set){.samples = {.count = set->count,
                                       .read = read_of_set,
                                       .user = &t->set[i],
                                       .in_order = true,
                                       .is_thread_safe = true},
                           .name = set->name,
                           .is_test = set->is_test};
    return true;
}

const mega_task train_task_classify = {.command = "tasks",
                                       .model_name = "classification",
                                       .use = "tasks",
                                       .use_effect = "evaluates it",
                                       .shows_parts_alone = true,
                                       .likelihoods = 1,
                                       .course = &train_by_sets,
                                       .stored_args = task_gpt_stored_args,
                                       .take_shape = task_gpt_take_shape,
                                       TASK_GPT_MODEL,
                                       .make_model = classify_make_model,
                                       .compare = task_gpt_compare,
                                       .shape = task_gpt_shape_of_encoder,
                                       .describe = task_gpt_describe,
                                       .card = classify_card,
                                       .make_texts = make_texts,
                                       .free_texts = free_texts,
                                       .evaluation_set = evaluation_set,
                                       .read_tokenizer = classify_read_tokenizer,
                                       .make_data = classify_make_data,
                                       .join_data = join_data,
                                       .free_data = free_data,
                                       .data_hash = data_hash,
                                       .look_at_data = classify_look_at_data,
                                       .dataset = dataset,
                                       .order_hash = order_hash};

/* Tests that results do not depend on the layout of ranks: runs steps of a small GPT with dropout in a layout
 * of ranks, and compares them with the same steps on one rank, which the first rank runs for all. Compares losses,
 * gradient norms and each weight tensor's slice. The first step that differs ends the run; the steps are then repeated
 * to find the first instruction, or weight, that differs.
 *
 *   ranks_parity [tp=N] [sp=1] [pp=N] [first=N] [last=N] [chunks=N] [layers=N] [precision=f64|f32|bf16|f16] [micro=N]
 *                [recompute=none|full|selective|budget] [distribute=1] [zero=0|1|2|3] [overlap=1] [threads=N]
 *                [loss=token|micro] [decay=none|constant|grows] [lr=constant|linear|cosine|root] 
 *                [optimizer=NAME] [freeze=N] [ramp=1] [curriculum=1] [groups=1] [sums=N] [grads=f32|bf16|f16]
 *                [reduce=f32|bf16|f16] [odd=1] [spoil=STEP]
 *                [-- the settings of a further run]…
 *   ranks_parity optimizers        writes the names of all optimizers
 *
 * grads: the type in which gradients are held; with a 16-bit type, layouts differ by its rounding. reduce: the type of
 * their sums over dp; the one rank rounds likewise (rounded_sums.h). Ranks that hold addends of a gradient (slabs, or
 * stages with a tied table under ZeRO 2 and 3) round each for itself, so that these layouts differ by the rounding.
 * odd: sizes that are no multiple of anything. After the steps, the gaps between parameters must be zero.
 * loss: mean over tokens, or mean of the means of micro-batches. ramp: the first steps have half the batch. spoil: the
 * last rank reads a wrong token in this step, which the test must find. */
#include "device.h"
#include "engine_run.h"
#include "engine_trace.h"
#include "megalith/gpt_data.h"
#include "megalith/memory.h"
#include "megalith/threads.h"
#include "rank.h"
#include "rounded_sums.h"
#include "rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQ = ENGINE_RUN_SEQ, BATCH = 8, LEAST_BATCH = 4, STEPS = 12 };

typedef struct setting {
    int tp, threads, micro_batch, precision;
    int pp, first, last, layers; /* pipeline stages; layers of the first, the last, the model */
    int chunks;                  /* programs per stage */
    int sp;                      /* sequence parallelism */
    int distribute;              /* distribute saved activations over tp */
    int zero, persist;           /* ZeRO stage; elements of buckets that are not sharded */
    int overlap;                 /* sum gradients during the backward pass, start gathers early */
    int mean_of_means, decay, lr, optimizer, ramp, curriculum; /* indices in their lists of words */
    int groups;                                                /* parameters have groups */
    int freeze;                                                /* updates of 1-bit Adam before it compresses; 0: all */
    int sums;                                                  /* elements of gradients per sum over tp; 0: default */
    int grads, reduce; /* indices in grad_dtypes: the type in which gradients are held, that of their sums */
    int odd;           /* sizes */
    int dp;
    int spoil; /* step (counted from 1) in which the last rank reads a wrong token */
    mega_dtype compute;
    int recompute;
    double tolerance, weights, value; /* for losses and norms; for weights; for results of instructions */
} setting;

static const struct {
    mega_dtype dtype;
    double tolerance, weights;
    double value; /* for results of instructions */
} precisions[] = {{MEGA_F64, 1e-8, 1e-8, 1e-7},
                  {MEGA_F32, 1e-5, 1e-5, 1e-3},
                  {MEGA_BF16, 2e-2, 2e-2, 0.2},
                  {MEGA_F16, 3e-3, 3e-3, 0.05}};

static const mega_dtype grad_dtypes[] = {MEGA_F32, MEGA_BF16, MEGA_F16};

/* Reads a setting whose values are words; its number is the index in the list of words. */
static void read_choice(const char *name, const char *text, const char *const *words, int *out)
{
    for (*out = 0; words[*out] != NULL; ++*out)
        if (strcmp(words[*out], text) == 0) return;
    fprintf(stderr, "unknown choice %s=%s\n", name, text);
    exit(2);
}

/* Sets the optimizer whose name it is; there is a word for each row of the table. */
static void read_optimizer(const char *text, int *out)
{
    for (*out = 0; *out < MEGA_OPTIMIZER_KINDS; ++*out)
        if (strcmp(mega_optimizer_kind_name((mega_optimizer_kind)*out), text) == 0) return;
    fprintf(stderr, "unknown choice optimizer=%s\n", text);
    exit(2);
}

static void read_word(setting *s, const char *name, const char *text)
{
    const struct {
        const char *name;
        int *out;
        const char *words[6]; /* empty: the setting is a number */
    } settings[] = {{"tp", &s->tp, {0}},
                    {"sp", &s->sp, {0}},
                    {"pp", &s->pp, {0}},
                    {"first", &s->first, {0}},
                    {"last", &s->last, {0}},
                    {"chunks", &s->chunks, {0}},
                    {"layers", &s->layers, {0}},
                    {"micro", &s->micro_batch, {0}},
                    {"threads", &s->threads, {0}},
                    {"zero", &s->zero, {0}},
                    {"persist", &s->persist, {0}},
                    {"overlap", &s->overlap, {0}},
                    {"distribute", &s->distribute, {0}},
                    {"ramp", &s->ramp, {0}},
                    {"curriculum", &s->curriculum, {0}},
                    {"groups", &s->groups, {0}},
                    {"freeze", &s->freeze, {0}},
                    {"sums", &s->sums, {0}},
                    {"spoil", &s->spoil, {0}},
                    {"odd", &s->odd, {0}},
                    {"reduce", &s->reduce, {"f32", "bf16", "f16"}},
                    {"grads", &s->grads, {"f32", "bf16", "f16"}},
                    {"precision", &s->precision, {"f64", "f32", "bf16", "f16"}},
                    {"recompute",
                     &s->recompute,
                     {"none", "selective", "full", "budget"}}, /* the first three as mega_transformer_recompute */
                    {"loss", &s->mean_of_means, {"token", "micro"}},
                    {"decay", &s->decay, {"none", "constant", "grows"}},
                    {"lr", &s->lr, {"constant", "linear", "cosine", "root"}}}; /* as mega_lr_style */
    if (strcmp(name, "optimizer") == 0) {
        read_optimizer(text, &s->optimizer);
        return;
    }
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (strcmp(name, settings[i].name) != 0) continue;
        if (settings[i].words[0] == NULL) *settings[i].out = atoi(text);
        else
            read_choice(name, text, settings[i].words, settings[i].out);
        return;
    }
    fprintf(stderr, "unknown setting %s\n", name);
    exit(2);
}

static setting read_setting(int argc, char **argv)
{
    setting s = {.tp = 1, .pp = 1, .layers = 2, .threads = 1, .micro_batch = 2};
    for (int i = 1; i < argc; i++) {
        char name[32];
        const char *is = strchr(argv[i], '=');
        snprintf(name, sizeof name, "%.*s", is == NULL ? 0 : (int)(is - argv[i]), argv[i]);
        read_word(&s, name, is == NULL ? argv[i] : is + 1);
    }
    s.compute = precisions[s.precision].dtype;
    s.tolerance = precisions[s.precision].tolerance;
    s.weights = precisions[s.precision].weights;
    s.value = precisions[s.precision].value;
    const int rounds = s.grads != 0 ? s.grads : s.sp != 0 || (s.pp > 1 && s.zero >= 2) ? s.reduce : 0;
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
        if (rounds == 0 || precisions[i].dtype != grad_dtypes[rounds]) continue;
        s.tolerance = fmax(s.tolerance, precisions[i].tolerance);
        s.weights = fmax(s.weights, precisions[i].weights);
        s.value = fmax(s.value, precisions[i].value);
    }
    return s;
}

enum { RECOMPUTE_BUDGET = MEGA_TRANSFORMER_RECOMPUTE_FULL + 1 };

typedef struct run {
    mega_transformer gpt;
    mega_team *team;
    mega_engine *engine;
    mega_step_result result[STEPS];
} run;

/* Sets the recipe: everything that changes between steps changes several times before the last one. */
static void set_recipe(mega_engine_options *o, const setting *s)
{
    static const double decay[] = {0, 0.1, 0.2};
    mega_lr_schedule *r = &o->schedule;
    const double rate = s->optimizer == MEGA_OPTIMIZER_SGD ? 3e-3 : s->optimizer == MEGA_OPTIMIZER_LION ? 1e-4 : 3e-4;
    o->optimizer.kind = (mega_optimizer_kind)s->optimizer;
    o->optimizer.momentum = 0.9;
    o->optimizer.beta3 = 0.99;
    o->optimizer.alpha = 2;
    o->optimizer.alpha_steps = STEPS / 2;
    o->optimizer.warmup_steps = STEPS / 4;
    o->optimizer.freeze_step = s->freeze > 0 ? s->freeze : STEPS;
    o->optimizer.weight_lr_power = 2;
    o->optimizer.max_coeff = 10;
    o->optimizer.min_coeff = 0.01;
    o->optimizer.muon_momentum = 0.9;
    o->optimizer.muon_nesterov = true;
    o->optimizer.muon_split = s->decay == 1; /* Q, K and V together, or each for itself */
    o->optimizer.muon_steps = 5;
    o->optimizer.muon_coefficients = s->decay == 1 ? MEGA_MUON_QUINTIC : MEGA_MUON_SIMPLE;
    o->optimizer.muon_scale = MEGA_MUON_SPECTRAL;
    o->optimizer.muon_extra_scale = 0.2;
    o->per_token_loss = !s->mean_of_means;
    *r = (mega_lr_schedule){.style = (mega_lr_style)s->lr, .max_lr = rate, .decay = 9 * BATCH};
    if (r->style != MEGA_LR_CONSTANT) {
        r->min_lr = 0.1 * r->max_lr;
        r->warmup_init = 0.5 * r->max_lr;
        r->warmup = 2.5 * BATCH;
    }
    r->decay_style = s->decay == 2 ? MEGA_WD_LINEAR : MEGA_WD_CONSTANT;
    r->end_weight_decay = decay[s->decay];
    r->weight_decay_samples = 9 * BATCH;
    static const char *groups[] = {"*ln_*:lr_scale=0.5,weight_decay=0.3",
                                   "re:h\\.[0-9]*\\.(attn\\.c_proj|ln_2)|wte:frozen"};
    if (s->groups) {
        o->group = groups;
        o->num_groups = sizeof groups / sizeof *groups;
    }
    /* samples have 4 positions in the first steps, then 8, then 12, then all 16 */
    if (s->curriculum) o->curriculum = (mega_curriculum){.is_on = true, .least = 4, .steps = 8, .unit = 4};
    if (s->ramp) {
        o->batch.start = LEAST_BATCH;
        o->batch.increment = BATCH - LEAST_BATCH;
        o->batch.samples = 4 * LEAST_BATCH;
    }
}

/* Returns a budget that the rank with the most activations meets only if it recomputes. */
static int64_t most_but_one_byte(const run *r, const mega_engine_options *o)
{
    mega_engine *e = NULL;
    mega_engine_memory m;
    need(gpt_engine_create(&e, &r->gpt, o));
    mega_engine_memory_get(e, &m);
    mega_engine_destroy(e);
    int64_t most = (int64_t)(m.saved + m.scratch);
    need(mega_comm_all_reduce(mega_world_comm(o->world), "activations", &most, 1, MEGA_I64, MEGA_REDUCE_MAX));
    return most - 1;
}

/* Opens a run. The padding of the vocabulary differs between layouts on purpose: it must have no effect. The mean over
 * tokens does not depend on how they are split into micro-batches, so one rank then takes the batch as a single one. */
static void open_run(run *r, const setting *s, mega_world *world, bool same_micro_batches)
{
    const int tp = world == NULL ? 1 : s->tp, pp = world == NULL ? 1 : s->pp, dp = mega_world_size(world) / tp / pp;
    const bool cuts = world != NULL || s->mean_of_means || same_micro_batches || s->reduce != 0;
    const int64_t micro = cuts ? s->micro_batch : s->ramp ? LEAST_BATCH : BATCH;
    r->gpt = engine_run_gpt();
    r->gpt.padded_vocab = 56 + 8 * (tp - 1);
    if (s->odd) r->gpt.hidden = 36, r->gpt.head_dim = 9, r->gpt.ffn_hidden = 92;
    r->gpt.attention_dropout = r->gpt.hidden_dropout = 0.1;
    if (s->recompute != RECOMPUTE_BUDGET) r->gpt.recompute = (mega_transformer_recompute)s->recompute;
    r->gpt.num_layers = s->layers;
    r->gpt.first_stage_layers = s->first;
    r->gpt.last_stage_layers = s->last;
    r->gpt.stage_chunks = s->chunks;
    r->gpt.sequence_parallel = world != NULL && s->sp != 0;
    r->gpt.distribute_saved = world != NULL && s->distribute != 0;
    need(mega_team_create(s->threads, &r->team));
    mega_engine_options o = engine_run_options(BATCH, micro, 0);
    set_recipe(&o, s);
    o.compute = s->compute;
    o.loss_scale.fixed = 1024; /* of fp16 */
    o.team = r->team;
    o.world = world;
    o.layout.tp = tp;
    o.layout.pp = pp;
    o.batch.micro_step = micro * dp;
    o.bucket_elements = 5000;
    o.tp_sum_elements = s->sums;
    o.grad_accum_dtype = grad_dtypes[s->grads];
    if (world != NULL) o.sums.dtype = grad_dtypes[s->reduce];
    o.zero_stage = world != NULL ? s->zero : 0;
    o.zero_persistence = s->persist;
    if (s->overlap == 1) o.place = (mega_place_options){true, 1000000, 1000000, 1000000};
    if (s->recompute == RECOMPUTE_BUDGET && world != NULL) o.recompute.budget = most_but_one_byte(r, &o);
    need(gpt_engine_create(&r->engine, &r->gpt, &o));
    need(mega_engine_allocate(r->engine));
    need(mega_engine_compare_ranks(r->engine));
    need(mega_engine_initialize(r->engine, 1234));
}

/* Sample n of the run depends only on n. */
static void fill(mega_batch *b, bool spoiled)
{
    const mega_ltor_options o = {
        .eod = 3, .eod_mask_loss = true, .reset_position_ids = true, .reset_attention_mask = true};
    for (int64_t i = 0; i < mega_batch_num_samples(b); i++) {
        mega_sample *sample = mega_batch_sample(b, i);
        int32_t row[SEQ + 1];
        engine_run_sample(row, mega_sample_index(sample));
        if (spoiled && i == 0) row[0] ^= 1, row[1] ^= 1;
        mega_ltor_sample(sample, row, SEQ, &o);
    }
}

static void step(run *r, int i, bool spoiled)
{
    fill(mega_engine_batch(r->engine), spoiled);
    need(mega_engine_train_batch(r->engine, &r->result[i]));
}

/* A step of the one rank that the others are compared with. */
static void step_alone(run *r, const setting *s, int i)
{
    mega_engine *e = r->engine;
    rounded_sums sums = {.ranks = s->dp, .type = grad_dtypes[s->reduce], .each = s->zero >= 2};
    if (s->reduce == 0 || s->dp == 1) {
        step(r, i, false);
        return;
    }
    rounded_begin(&sums, mega_engine_params(e));
    bool is_last = false;
    for (int64_t m = 0; !is_last; m++) {
        is_last = mega_engine_is_accumulation_boundary(e);
        fill(mega_engine_micro_batch(e), false);
        need(mega_engine_forward(e, NULL));
        need(mega_engine_backward(e));
        rounded_take(&sums, mega_engine_params(e), m, is_last);
        need(mega_engine_step(e, &r->result[i]));
    }
    rounded_end(&sums);
}

static bool is_spoiled(const setting *s, const mega_world *world, int i)
{
    return i + 1 == s->spoil && mega_world_rank(world) == mega_world_size(world) - 1;
}

/* Broadcasts the results that the first rank has computed alone. */
static void share(run *one, mega_world *world)
{
    mega_comm *all = mega_world_comm(world);
    const mega_params *p = mega_engine_params(one->engine);
    need(mega_comm_broadcast(all, "results", one->result, sizeof one->result, 0));
    for (int i = 0; i < mega_params_count(p); i++) {
        const size_t bytes = (size_t)mega_params_get(p, i)->count * mega_dtype_size(mega_params_acc_dtype(p));
        need(mega_comm_broadcast(all, "weights", mega_params_master(p, i), (int64_t)bytes, 0));
    }
}

static void close_run(run *r)
{
    mega_engine_destroy(r->engine);
    mega_team_destroy(r->team);
}

/* Number i of a copy. */
static double number(const mega_params *p, const void *acc, int64_t i)
{
    return mega_params_acc_dtype(p) == MEGA_F64 ? ((const double *)acc)[i] : (double)((const float *)acc)[i];
}

/* Returns the index in the whole tensor for an index along the cut dimension of a slice. */
static int64_t whole_index(const mega_param *p, const mega_axis *tp, int dim, int64_t local)
{
    if (p->axis != MEGA_AXIS_TP || p->cut_dim != dim) return local;
    const int64_t block = p->shape[dim] / p->num_parts, slice = block / tp->size;
    return local / slice * block + tp->rank * slice + local % slice;
}

typedef struct difference {
    double apart, size; /* sums of squares */
} difference;

/* Compares the weights that this rank owns, except the biases of keys: their true gradient is zero, and Adam makes a
 * step from its rounding error. */
static difference compare_weight(const run *many, const run *one, int i)
{
    const mega_params *a = mega_engine_params(many->engine), *b = mega_engine_params(one->engine);
    const mega_axis *tp = &mega_engine_layout(many->engine)->tp;
    const mega_param *p = mega_params_get(a, i);
    const int j = mega_params_find(b, p->name);
    const mega_param *q = mega_params_get(b, j);
    void *x = device_copy_owned(a, i), *y = device_copy_owned(b, j);
    const mega_range owned = mega_params_owned(a, i);
    difference d = {0, 0};
    for (int64_t k = 0; k < owned.count; k++) {
        const int64_t row = (owned.first + k) / p->local_shape[1], col = (owned.first + k) % p->local_shape[1];
        const int64_t r = whole_index(p, tp, 0, row), c = whole_index(p, tp, 1, col);
        const bool is_key = p->num_parts == 3 && p->num_dims == 1 && r / (p->shape[0] / 3) == 1;
        if (r >= p->true_shape[0] || is_key) continue; /* skip padding and biases of keys */
        const double u = number(a, x, k), v = number(b, y, r * q->local_shape[1] + c);
        d.apart += (u - v) * (u - v);
        d.size += v * v;
    }
    free(x);
    free(y);
    return d;
}

/* Compares each tensor separately in double, otherwise all tensors together. */
static int compare_weights(const run *many, const run *one, const setting *s)
{
    difference all = {0, 0};
    int failures = 0;
    double worst = 0;
    for (int i = 0; i < mega_params_count(mega_engine_params(many->engine)); i++) {
        const char *name = mega_params_get(mega_engine_params(many->engine), i)->name;
        const difference d = compare_weight(many, one, i);
        const double relative = sqrt(d.apart / (d.size > 0 ? d.size : 1));
        if (s->compute == MEGA_F64 && !(relative <= s->weights)) {
            fprintf(stderr, "%s: %.3g apart, at most %.3g\n", name, relative, s->weights);
            failures++;
        }
        worst = relative > worst ? relative : worst;
        all.apart += d.apart;
        all.size += d.size;
    }
    const double together = sqrt(all.apart / all.size);
    if (!(together <= s->weights)) {
        fprintf(stderr, "all weights: %.3g apart, at most %.3g\n", together, s->weights);
        failures++;
    }
    if (mega_engine_layout(many->engine)->world.rank == 0)
        printf("  weights %.2g (worst tensor %.2g)", together, worst);
    return failures;
}

static double apart(double a, double b)
{
    return fabs(a - b) / fabs(b);
}

static bool agree(const mega_step_result *a, const mega_step_result *b, const setting *s)
{
    return apart(a->loss, b->loss) <= s->tolerance && apart(a->grad_norm, b->grad_norm) <= s->tolerance &&
           a->samples == b->samples && a->tokens == b->tokens && a->lr == b->lr && a->weight_decay == b->weight_decay;
}

static void print_results(const run *many, const run *one)
{
    double loss = 0, norm = 0;
    for (int i = 0; i < STEPS; i++) {
        loss = fmax(loss, apart(many->result[i].loss, one->result[i].loss));
        norm = fmax(norm, apart(many->result[i].grad_norm, one->result[i].grad_norm));
    }
    printf(" loss %.2g norm %.2g\n", loss, norm);
}

/* Checks that two runs in the same layout have the same bits. */
static int compare_bits(const run *a, const run *b)
{
    const mega_params *p = mega_engine_params(a->engine), *q = mega_engine_params(b->engine);
    for (int i = 0; i < mega_params_count(p); i++) {
        const size_t bytes = (size_t)mega_params_owned(p, i).count * mega_dtype_size(mega_params_acc_dtype(p));
        if (device_is_equal(mega_params_master(p, i), mega_params_master(q, i), bytes)) continue;
        fprintf(stderr, "the same layout gave other bits the second time, first in %s\n", mega_params_get(p, i)->name);
        return 1;
    }
    return 0;
}

/* Checks that the copies of tied parameters on all stages have the same bits. */
static int compare_tied(const run *r)
{
    const mega_params *p = mega_engine_params(r->engine);
    const mega_layout *l = mega_engine_layout(r->engine);
    int64_t least = 0, most;
    bool has_ties = false;
    for (int i = 0; i < mega_params_count(p); i++) {
        unsigned char *bytes = device_copy_owned(p, i);
        const size_t size = (size_t)mega_params_owned(p, i).count * mega_dtype_size(mega_params_acc_dtype(p));
        for (size_t k = 0; k < size && mega_params_get(p, i)->tie != MEGA_TIE_NONE; k++)
            least = (least * 31 + bytes[k]) % 288230376151711717;
        free(bytes);
        has_ties = has_ties || mega_params_get(p, i)->tie != MEGA_TIE_NONE;
    }
    most = has_ties ? least : INT64_MIN;
    least = has_ties ? least : INT64_MAX;
    need(mega_comm_all_reduce(l->pp.comm, "tied bits", &least, 1, MEGA_I64, MEGA_REDUCE_MIN));
    need(mega_comm_all_reduce(l->pp.comm, "tied bits", &most, 1, MEGA_I64, MEGA_REDUCE_MAX));
    if (l->pp.size == 1 || least == most) return 0;
    fprintf(stderr, "the embeddings of first and last stage are not the same bits\n");
    return 1;
}

/* Checks that the gaps between parameters are zero: in the gradients that this rank counts in norms, and in its
 * masters. */
static int compare_gaps(const run *r)
{
    const mega_params *p = mega_engine_params(r->engine);
    for (int b = 0; b < mega_params_num_buckets(p); b++) {
        const mega_bucket *bucket = mega_params_bucket(p, b);
        const mega_range slice = mega_params_slice(p, b);
        int64_t k = slice.first;
        for (int i = bucket->first_param + bucket->num_params - 1; i >= bucket->first_param - 1; i--) { /* by offset */
            const mega_param *next = i >= bucket->first_param ? mega_params_get(p, i) : NULL;
            for (; k < slice.first + slice.count && (next == NULL || k < next->offset); k++) {
                const void *gradient = mega_params_grad_at(p, b, k);
                if (device_number(mega_params_master_at(p, b, k), mega_params_acc_dtype(p), 0) == 0 &&
                    (gradient == NULL || device_number(gradient, mega_params_grad_dtype(p, b), 0) == 0))
                    continue;
                fprintf(stderr, "bucket %d: element %lld, which belongs to no parameter, is not 0\n", b, (long long)k);
                return 1;
            }
            if (next != NULL && next->offset + next->count > k) k = next->offset + next->count;
        }
    }
    return 0;
}

/* ---- the first difference ---- */

/* Returns the first weight that differs, in model order; INT64_MAX: none. */
static int64_t first_weight(const run *many, const run *one, const setting *s, char text[TRACE_TEXT])
{
    const mega_params *p = mega_engine_params(many->engine);
    for (int i = 0; i < mega_params_count(p); i++) {
        const difference d = compare_weight(many, one, i);
        const double relative = sqrt(d.apart / (d.size > 0 ? d.size : 1));
        if (relative <= s->weights) continue;
        snprintf(text, TRACE_TEXT, "rank %d: the update, with what ranks exchange for it, made %s %.3g apart",
                 mega_engine_layout(many->engine)->world.rank, mega_params_get(p, i)->name, relative);
        return mega_params_find(mega_engine_params(one->engine), mega_params_get(p, i)->name);
    }
    return INT64_MAX;
}

/* The rank with the lowest number prints its text. Returns false if no rank has one. */
static bool print_first(mega_world *world, int step, int64_t number, const char *text)
{
    int64_t least = number;
    need(mega_comm_all_reduce(mega_world_comm(world), "first difference", &least, 1, MEGA_I64, MEGA_REDUCE_MIN));
    int64_t speaker = least == number ? mega_world_rank(world) : mega_world_size(world);
    need(mega_comm_all_reduce(mega_world_comm(world), "first difference", &speaker, 1, MEGA_I64, MEGA_REDUCE_MIN));
    if (least == INT64_MAX) return false;
    if (speaker == mega_world_rank(world)) fprintf(stderr, "first difference: step %d, %s\n", step + 1, text);
    return true;
}

/* Repeats the steps up to the one that differed, and compares each of its instructions. Every rank also runs the steps
 * as a single rank, with the same micro-batches. */
static void find_first_difference(const setting *s, mega_world *world, int last)
{
    run one, many;
    trace alone = {0}, all = {0};
    char text[TRACE_TEXT] = "";
    bool found = false;
    open_run(&one, s, NULL, true);
    open_run(&many, s, world, true);
    for (int i = 0; i <= last && !found; i++) {
        trace_begin(&alone, one.engine, NULL, 0);
        step_alone(&one, s, i);
        trace_begin(&all, many.engine, &alone, s->value);
        step(&many, i, is_spoiled(s, world, i));
        found = print_first(world, i, all.order, all.text) ||
                print_first(world, i, first_weight(&many, &one, s, text), text);
    }
    if (!found && mega_world_rank(world) == 0)
        fprintf(stderr,
                "every instruction and weight agrees with one rank that has the same micro-batches: look at what "
                "is summed over micro-batches and ranks (loss, norm, counts)\n");
    trace_end(&alone);
    trace_end(&all);
    close_run(&one);
    close_run(&many);
}

/* Trains twice in this layout; stops at the first step that differs from one rank's. */
static int train_and_compare(run *many, run *again, const run *one, const setting *s, mega_world *world)
{
    for (int i = 0; i < STEPS; i++) {
        const mega_step_result *a = &many->result[i], *b = &one->result[i];
        step(many, i, is_spoiled(s, world, i));
        step(again, i, is_spoiled(s, world, i));
        if (agree(a, b, s)) continue; /* all ranks have the same numbers */
        if (mega_world_rank(world) == 0)
            fprintf(stderr,
                    "step %d: loss %.12g and %.12g on one rank, gradient norm %.12g and %.12g, at most %.3g apart; "
                    "learning rate %g and %g, weight decay %g and %g, samples %lld and %lld\n",
                    i + 1, a->loss, b->loss, a->grad_norm, b->grad_norm, s->tolerance, a->lr, b->lr, a->weight_decay,
                    b->weight_decay, (long long)a->samples, (long long)b->samples);
        find_first_difference(s, world, i);
        return 1;
    }
    int failures = compare_weights(many, one, s) + compare_bits(many, again) + compare_tied(many) + compare_gaps(many);
    if (mega_world_rank(world) == 0) print_results(many, one);
    return failures;
}

static int list_optimizers(void)
{
    for (int k = 0; k < MEGA_OPTIMIZER_KINDS; k++) puts(mega_optimizer_kind_name((mega_optimizer_kind)k));
    return 0;
}

static int run_row(mega_world *world, int argc, char **argv)
{
    run one, many, again;
    setting s = read_setting(argc, argv);
    s.dp = mega_world_size(world) / s.tp / s.pp;
    open_run(&one, &s, NULL, false);
    open_run(&many, &s, world, false);
    open_run(&again, &s, world, false);
    for (int i = 0; i < STEPS && mega_world_rank(world) == 0; i++) step_alone(&one, &s, i);
    share(&one, world);
    const int failures = train_and_compare(&many, &again, &one, &s, world);
    close_run(&one);
    close_run(&many);
    close_run(&again);
    return failures;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "optimizers") == 0) return list_optimizers();
    return rows_main(argc, argv, run_row);
}

/* Law 1 over ranks: steps of a small GPT with dropout in a layout of ranks, against the same steps on one rank, which
 * the first rank makes for all. Losses, gradient norms and each weight tensor's slice are compared.
 *
 *   ranks_parity [tp=N] [sp=1] [pp=N] [first=N] [last=N] [chunks=N] [layers=N] [precision=f64|f32|bf16] [micro=N]
 *                [recompute=none|full|selective] [distribute=1] [zero=0|1|2|3] [overlap=1] [threads=N]
 */
#include "engine_run.h"
#include "megalith/gpt_data.h"
#include "megalith/memory.h"
#include "megalith/threads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQ = ENGINE_RUN_SEQ, BATCH = 8, STEPS = 20 };

static void need(mega_status st)
{
    if (st == MEGA_OK) return;
    fprintf(stderr, "%s\n", mega_error_message());
    exit(1);
}

typedef struct setting {
    int tp, threads, micro_batch, precision;
    int pp, first, last, layers; /* pipeline stages; layers of the first and last; of the model */
    int chunks;                  /* programs a stage */
    int sp;                      /* sequence parallelism */
    int distribute;              /* saved activations over tp */
    int zero, persist;           /* stage; elements of buckets that stay whole */
    int overlap;                 /* gradients summed while the backward runs, gathers started early */
    mega_dtype compute;
    mega_gpt_recompute recompute;
    double tolerance, weights; /* of losses and norms; of weights */
} setting;

static const struct {
    mega_dtype dtype;
    double tolerance, weights;
} precisions[] = {{MEGA_F64, 1e-8, 1e-8}, {MEGA_F32, 1e-5, 1e-5}, {MEGA_BF16, 2e-2, 2e-2}};

static int choice(const char *const *names, int count, const char *text)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], text) == 0) return i;
    fprintf(stderr, "unknown choice %s\n", text);
    exit(2);
}

static void read_word(setting *s, const char *name, const char *text)
{
    static const char *const ways[] = {"none", "selective", "full"}; /* as mega_gpt_recompute */
    static const char *const names[] = {"f64", "f32", "bf16"};
    const struct {
        const char *name;
        int *number;
    } numbers[] = {
        {"tp", &s->tp},        {"micro", &s->micro_batch}, {"sp", &s->sp},           {"threads", &s->threads},
        {"zero", &s->zero},    {"persist", &s->persist},   {"overlap", &s->overlap}, {"distribute", &s->distribute},
        {"pp", &s->pp},        {"first", &s->first},       {"last", &s->last},       {"layers", &s->layers},
        {"chunks", &s->chunks}};
    if (strcmp(name, "precision") == 0) s->precision = choice(names, 3, text);
    else if (strcmp(name, "recompute") == 0)
        s->recompute = (mega_gpt_recompute)choice(ways, 3, text);
    else {
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            if (strcmp(name, numbers[i].name) == 0) {
                *numbers[i].number = atoi(text);
                return;
            }
        fprintf(stderr, "unknown setting %s\n", name);
        exit(2);
    }
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
    return s;
}

typedef struct run {
    mega_gpt gpt;
    mega_team *team;
    mega_engine *engine;
    mega_step_result result[STEPS];
} run;

/* The vocabulary's padding differs between layouts on purpose: it must not be seen. The loss is per token, so that the
 * cut into micro-batches does not enter the mean. */
static void open_run(run *r, const setting *s, mega_world *world)
{
    const int tp = world == NULL ? 1 : s->tp, pp = world == NULL ? 1 : s->pp, dp = mega_world_size(world) / tp / pp;
    const int64_t micro = world == NULL ? BATCH : s->micro_batch;
    r->gpt = engine_run_gpt();
    r->gpt.padded_vocab = 56 + 8 * (tp - 1);
    r->gpt.attention_dropout = r->gpt.hidden_dropout = 0.1;
    r->gpt.recompute = s->recompute;
    r->gpt.num_layers = s->layers;
    r->gpt.first_stage_layers = s->first;
    r->gpt.last_stage_layers = s->last;
    r->gpt.stage_chunks = s->chunks;
    r->gpt.per_token_loss = true;
    r->gpt.sequence_parallel = world != NULL && s->sp != 0;
    r->gpt.distribute_saved = world != NULL && s->distribute != 0;
    need(mega_team_create(&r->team, s->threads));
    mega_engine_options o = engine_run_options(BATCH, micro, 3e-4);
    o.compute = s->compute;
    o.team = r->team;
    o.world = world;
    o.layout.tp = tp;
    o.layout.pp = pp;
    o.batch.micro_step = micro * dp;
    o.per_token_loss = true;
    o.bucket_elements = 5000;
    o.zero_stage = world != NULL ? s->zero : 0;
    o.zero_persistence = s->persist;
    if (s->overlap == 1) o.place = (mega_place_options){true, 1000000, 1000000, 1000000};
    need(mega_engine_create(&r->engine, mega_engine_gpt(&r->gpt), &o));
    need(mega_engine_allocate(r->engine));
    need(mega_engine_initialize(r->engine, 1234));
}

/* Sample n of the run is a function of n alone. */
static void fill(run *r)
{
    mega_batch *b = mega_engine_batch(r->engine);
    const mega_ltor_options o = {
        .eod = 3, .eod_mask_loss = true, .reset_position_ids = true, .reset_attention_mask = true};
    for (int64_t i = 0; i < b->rows; i++) {
        const int64_t at = i * SEQ,
                      sample = mega_engine_progress_get(r->engine)->consumed_samples + mega_engine_sample(r->engine, i);
        int32_t row[SEQ + 1];
        engine_run_sample(row, sample);
        mega_ltor_row(row, SEQ, &o, b->tokens + at, b->labels + at, b->loss_mask + at, b->position_ids + at,
                      b->segment_start + at);
        b->sample_id[i] = (uint32_t)sample;
    }
}

static void train(run *r)
{
    for (int i = 0; i < STEPS; i++) {
        fill(r);
        need(mega_engine_step(r->engine, &r->result[i]));
    }
}

/* What the first rank computed alone. */
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

static double number(const mega_params *p, const void *acc, int64_t i)
{
    return mega_params_acc_dtype(p) == MEGA_F64 ? ((const double *)acc)[i] : (double)((const float *)acc)[i];
}

/* Where an index along the cut dimension of a slice stands in the whole tensor. */
static int64_t whole_index(const mega_param *p, const mega_axis *tp, int dim, int64_t local)
{
    if (p->axis != MEGA_AXIS_TP || p->cut_dim != dim) return local;
    const int64_t block = p->shape[dim] / p->blocks, slice = block / tp->size;
    return local / slice * block + tp->rank * slice + local % slice;
}

typedef struct difference {
    double apart, size; /* squares */
} difference;

/* Of what this rank owns; without the biases of keys: their true gradient is zero, and Adam makes a step of its
 * rounding. */
static difference compare_weight(const run *many, const run *one, int i)
{
    const mega_params *a = mega_engine_params(many->engine), *b = mega_engine_params(one->engine);
    const mega_axis *tp = &mega_engine_layout(many->engine)->tp;
    const mega_param *p = mega_params_get(a, i);
    const int j = mega_params_find(b, p->name);
    const mega_param *q = mega_params_get(b, j);
    const void *x = mega_params_master(a, i), *y = mega_params_master(b, j);
    const mega_range owned = mega_params_owned(a, i);
    difference d = {0, 0};
    for (int64_t k = 0; k < owned.count; k++) {
        const int64_t row = (owned.first + k) / p->local_shape[1], col = (owned.first + k) % p->local_shape[1];
        const int64_t r = whole_index(p, tp, 0, row), c = whole_index(p, tp, 1, col);
        const bool is_key = p->blocks == 3 && p->num_dims == 1 && r / (p->shape[0] / 3) == 1;
        if (r >= p->true_shape[0] || is_key) continue; /* padding; biases of keys */
        const double u = number(a, x, k), v = number(b, y, r * q->local_shape[1] + c);
        d.apart += (u - v) * (u - v);
        d.size += v * v;
    }
    return d;
}

/* In double each tensor for itself; otherwise all together. */
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
    if (mega_engine_layout(many->engine)->world.rank == 0) printf("weights %.2g (worst tensor %.2g)", together, worst);
    return failures;
}

static int compare_results(const run *many, const run *one, const setting *s)
{
    double loss = 0, norm = 0;
    for (int i = 0; i < STEPS; i++) {
        const mega_step_result *a = &many->result[i], *b = &one->result[i];
        loss = fmax(loss, fabs(a->loss - b->loss) / b->loss);
        norm = fmax(norm, fabs(a->grad_norm - b->grad_norm) / b->grad_norm);
        if (a->samples != b->samples || a->tokens != b->tokens) return 1;
    }
    if (mega_engine_layout(many->engine)->world.rank == 0) printf(" loss %.2g norm %.2g\n", loss, norm);
    if (loss <= s->tolerance && norm <= s->tolerance) return 0;
    fprintf(stderr, "losses %.3g apart, gradient norms %.3g, at most %.3g\n", loss, norm, s->tolerance);
    return 1;
}

/* The same layout twice: the same bits. */
static int compare_bits(const run *a, const run *b)
{
    const mega_params *p = mega_engine_params(a->engine), *q = mega_engine_params(b->engine);
    bool same = true;
    for (int i = 0; i < mega_params_count(p); i++) {
        const size_t bytes = (size_t)mega_params_owned(p, i).count * mega_dtype_size(mega_params_acc_dtype(p));
        same = same && memcmp(mega_params_master(p, i), mega_params_master(q, i), bytes) == 0;
    }
    if (same) return 0;
    fprintf(stderr, "the same layout gave other bits the second time\n");
    return 1;
}

/* The two copies of a tied table are equal bit for bit. */
static int compare_tied(const run *r)
{
    const mega_params *p = mega_engine_params(r->engine);
    const mega_layout *l = mega_engine_layout(r->engine);
    int64_t least = 0, most;
    for (int i = 0; i < mega_params_count(p); i++) {
        const unsigned char *bytes = mega_params_master(p, i);
        const size_t size = (size_t)mega_params_owned(p, i).count * mega_dtype_size(mega_params_acc_dtype(p));
        for (size_t k = 0; k < size && mega_params_get(p, i)->tie != MEGA_TIE_NONE; k++)
            least = (least * 31 + bytes[k]) % 288230376151711717;
    }
    most = least;
    need(mega_comm_all_reduce(l->embedding.comm, "tied bits", &least, 1, MEGA_I64, MEGA_REDUCE_MIN));
    need(mega_comm_all_reduce(l->embedding.comm, "tied bits", &most, 1, MEGA_I64, MEGA_REDUCE_MAX));
    if (least == most) return 0;
    fprintf(stderr, "the embeddings of first and last stage are not the same bits\n");
    return 1;
}

int main(int argc, char **argv)
{
    mega_world *world;
    run one, many, again;
    const setting s = read_setting(argc, argv);
    need(mega_world_create(&world, NULL));
    open_run(&one, &s, NULL);
    open_run(&many, &s, world);
    open_run(&again, &s, world);
    if (mega_world_rank(world) == 0) train(&one);
    share(&one, world);
    train(&many);
    train(&again);
    const int failures = compare_weights(&many, &one, &s) + compare_results(&many, &one, &s) +
                         compare_bits(&many, &again) + compare_tied(&many);
    close_run(&one);
    close_run(&many);
    close_run(&again);
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}

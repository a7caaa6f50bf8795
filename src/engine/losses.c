/* The named losses and metrics of a model (mega_loss_add): one list for all ranks, made when the engine is created, and
 * the sums over a step or an evaluation for each of them. A program of any pipeline stage may have any of them. */
#include "engine_build.h"
#include "engine_calls.h"
#include "engine_losses.h"
#include "megalith/compare.h"
#include "megalith/device_memory.h"
#include "megalith/hash.h"
#include "megalith/kernels.h"
#include "megalith/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the list ---- */

/* A loss that a program declares. In a gathered list, an empty name ends the losses of a program. */
typedef struct declared {
    char name[MEGA_LOSS_NAME];
    double coefficient;
    int32_t is_of_layers;
} declared;

typedef enum kind { TRAIN, EVALUATE, NUM_KINDS } kind;

/* Parts of the model are in the order of its layers: each stage has the first of its parts, then each its second. */
static int losses_part(const mega_engine *e, int stage, int chunk)
{
    return chunk * (e->options.layout.planned_ranks > 0 ? 1 : e->layout->pp.size) + stage;
}

/* Returns the records of one program of a stage, in all [stages, chunks, kinds, MEGA_METRICS]. */
static declared *losses_records_at(const mega_engine *e, declared *all, int stage, int chunk, kind k)
{
    return all + ((size_t)(stage * e->programs.chunks + chunk) * NUM_KINDS + k) * MEGA_METRICS;
}

static void losses_read_own(const mega_engine *e, declared *own)
{
    for (int c = 0; c < e->programs.chunks; c++)
        for (kind k = TRAIN; k < NUM_KINDS; k++) {
            const mega_program *p = k == TRAIN ? e->programs.chunk[c].train : e->programs.chunk[c].evaluate;
            mega_program_loss l;
            for (int i = 0; p != NULL && mega_program_loss_get(p, i, 0, &l); i++) {
                declared *out = losses_records_at(e, own, 0, c, k) + i;
                snprintf(out->name, sizeof out->name, "%s", l.name);
                out->coefficient = l.coefficient;
                out->is_of_layers = l.is_of_layers;
            }
        }
}

static mega_status losses_add(mega_engine *e, const declared *d, kind k, int part)
{
    const int at = engine_loss_find(e, d->name);
    if (at < 0 && e->model.num_losses == MEGA_METRICS)
        return MEGA_MISTAKE("model: \"%s\" is one too many; the pipeline stages together may declare %d "
                            "losses and metrics",
                            d->name, MEGA_METRICS);
    engine_loss *l = &e->model.loss[at < 0 ? e->model.num_losses : at];
    if (at < 0) {
        snprintf(l->name, sizeof l->name, "%s", d->name);
        l->coefficient = d->coefficient;
        l->is_of_layers = d->is_of_layers != 0;
        e->model.num_losses++;
    }
    bool *has = k == TRAIN ? &l->is_trained : &l->is_evaluated;
    if (!*has) l->counted_by[k] = part;
    else if (!d->is_of_layers || !l->is_of_layers)
        return MEGA_MISTAKE(
            "model: two parts of the pipeline declare the loss \"%s\"; give each loss and metric a name "
            "of its own",
            d->name);
    *has = true;
    if (l->coefficient == d->coefficient) return MEGA_OK;
    return MEGA_MISTAKE("model: loss \"%s\" has the coefficient %g in %s and %g in %s; declare it with one", d->name,
                        l->coefficient, k == TRAIN ? "one part of the pipeline" : "training", d->coefficient,
                        k == TRAIN ? "another" : "evaluation");
}

/* Adds the losses of all programs to the engine's list, in the order of the model's parts; part n is chunk n / stages
 * of stage n % stages. Losses that only evaluation declares come last. */
static mega_status losses_add_all(mega_engine *e, declared *all, int stages)
{
    for (kind k = TRAIN; k < NUM_KINDS; k++)
        for (int part = 0; part < stages * e->programs.chunks; part++) {
            const declared *d = losses_records_at(e, all, part % stages, part / stages, k);
            for (int i = 0; i < MEGA_METRICS && d[i].name[0] != '\0'; i++) MEGA_TRY(losses_add(e, &d[i], k, part));
        }
    return MEGA_OK;
}

/* Sets *out to whether a stage has an output, from which the caller computes what it wants after a forward pass or a
 * run. The model then needs no loss. */
static mega_status losses_find_output(const mega_engine *e, bool *out)
{
    int32_t any = 0;
    for (int c = 0; c < e->programs.chunks; c++)
        any |= mega_program_num_outputs(engine_program_of(&e->programs.chunk[c], ENGINE_EVALUATE)) > 0;
    if (e->layout->pp.comm != NULL) /* a plan has none */
        MEGA_TRY(mega_comm_all_reduce(e->layout->pp.comm, "outputs", &any, 1, MEGA_I32, MEGA_REDUCE_MAX));
    *out = any != 0;
    return MEGA_OK;
}

/* Checks the losses of evaluation and of per_token_loss. A training program without a loss is refused earlier, when it
 * is differentiated. */
static mega_status losses_check(const mega_engine *e)
{
    int weighed = 0, evaluated = 0;
    bool has_output = true;
    for (int i = 0; i < e->model.num_losses; i++) {
        weighed += e->model.loss[i].coefficient != 0;
        evaluated += e->model.loss[i].is_evaluated;
    }
    if (e->programs.evaluate != NULL && evaluated == 0) MEGA_TRY(losses_find_output(e, &has_output));
    if (!has_output) return MEGA_MISTAKE("model: it has no loss to evaluate; declare one with mega_loss_add");
    if (!e->options.per_token_loss || weighed <= 1) return MEGA_OK;
    return MEGA_MISTAKE(
        "model: --calculate-per-token-loss divides by the tokens of one loss, and the model has %d with a "
        "coefficient; leave the option out, or give the others the coefficient 0",
        weighed);
}

/* A plan runs on one rank, which knows only the losses of its own stage. */
mega_status engine_collect_losses(mega_engine *e)
{
    const bool is_plan = e->options.layout.planned_ranks > 0;
    const int stages = is_plan ? 1 : e->layout->pp.size;
    const size_t records = (size_t)e->programs.chunks * NUM_KINDS * MEGA_METRICS;
    declared *all = mega_calloc((size_t)(stages + 1) * records, sizeof *all), *own = all;
    if (all == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "engine: no memory for the losses of %d stages", stages);
    if (stages > 1) own = all + (size_t)stages * records;
    losses_read_own(e, own);
    mega_status st = MEGA_OK;
    if (stages > 1)
        st = mega_comm_all_gather(e->layout->pp.comm, "names of losses", all, own, (int64_t)(records * sizeof *all),
                                  MEGA_U8);
    if (st == MEGA_OK) st = losses_add_all(e, all, stages);
    if (st == MEGA_OK && stages == e->layout->pp.size) st = losses_check(e);
    mega_free(all);
    return st;
}

static uint64_t hash_losses(const void *list, int64_t begin, int64_t end)
{
    const mega_engine *e = list;
    uint64_t hash = MEGA_HASH_START;
    for (int64_t i = begin; i < end; i++) {
        const engine_loss *l = &e->model.loss[i];
        hash = mega_hash64(hash, l->name, strlen(l->name) + 1);
        hash = mega_hash64(hash, &l->coefficient, sizeof l->coefficient);
        hash = mega_hash64(hash, &l->is_trained, sizeof l->is_trained);
        hash = mega_hash64(hash, &l->is_evaluated, sizeof l->is_evaluated);
    }
    return hash;
}

static void describe_loss(const void *list, int64_t i, char out[MEGA_COMPARED_TEXT])
{
    const engine_loss *l = &((const mega_engine *)list)->model.loss[i];
    snprintf(out, MEGA_COMPARED_TEXT, "\"%s\" with coefficient %g%s", l->name, l->coefficient,
             !l->is_trained     ? ", in evaluation alone"
             : !l->is_evaluated ? ", in training alone"
                                : "");
}

mega_status engine_compare_losses(const mega_engine *e)
{
    const mega_compared l = {.what = "losses of the model",
                             .item = "loss",
                             .list = e,
                             .count = e->model.num_losses,
                             .hash = hash_losses,
                             .describe = describe_loss};
    return mega_comm_compare(e->layout->world.comm, &l);
}

int engine_loss_find(const mega_engine *e, const char *name)
{
    for (int i = 0; i < e->model.num_losses; i++)
        if (strcmp(e->model.loss[i].name, name) == 0) return i;
    return -1;
}

int mega_engine_num_metrics(const mega_engine *e)
{
    return engine_check_given(e, "mega_engine_num_metrics", "e", e) == MEGA_OK ? e->model.num_losses : 0;
}

const char *mega_engine_metric_name(const mega_engine *e, int metric)
{
    if (engine_check_given(e, "mega_engine_metric_name", "e", e) != MEGA_OK) return NULL;
    return metric >= 0 && metric < e->model.num_losses ? e->model.loss[metric].name : NULL;
}

/* ---- sums over micro-batches and ranks ---- */

void engine_losses_bind(const mega_engine *e, mega_program *p, int chunk, engine_kind of, int slot, program_io *io)
{
    const int part = losses_part(e, e->layout->pp.rank, chunk);
    mega_program_loss l;
    for (io->num_losses = 0; mega_program_loss_get(p, io->num_losses, slot, &l); io->num_losses++) {
        const int number = engine_loss_find(e, l.name);
        const bool is_more = number >= 0 && e->model.loss[number].counted_by[of == ENGINE_EVALUATE] != part;
        io->loss[io->num_losses] = (program_loss){number, is_more, l.sum, l.weight};
    }
}

void engine_losses_begin(const mega_engine *e, const engine_sums *sums)
{
    mega_device_write(e->memory.losses, sums->loss, sizeof sums->loss);
}

void engine_losses_add(const mega_engine *e, const program_io *io, double times)
{
    const mega_kernel *add = mega_kernel_of(e->options.backend, MEGA_KERNEL_loss_add);
    mega_device_begin();
    for (int i = 0; i < io->num_losses; i++) {
        const mega_loss_add_args a = {.head = {.dtype = mega_params_acc_dtype(e->params)},
                                      .sums = e->memory.losses + 2 * io->loss[i].number,
                                      .sum = io->loss[i].sum,
                                      .weight = io->loss[i].weight,
                                      .times = times,
                                      .per_token = e->options.per_token_loss,
                                      .is_more = io->loss[i].is_more};
        add->run(&(mega_queue){.team = e->options.team, .device = e->memory.device}, &a);
    }
    mega_device_end();
}

mega_status engine_losses_end(const mega_engine *e, engine_sums *sums)
{
    mega_device_read(sums->loss, e->memory.losses, sizeof sums->loss);
    return engine_take_failure(e, MEGA_OK); /* of a device that has failed, they are no losses */
}

mega_status engine_losses_reduce(const mega_engine *e, mega_comm *comm, const char *what, engine_sums *sums)
{
    double all[2 * MEGA_METRICS + 1];
    const int count = 2 * e->model.num_losses;
    memcpy(all, sums->loss, (size_t)count * sizeof *all);
    all[count] = sums->stops;
    MEGA_TRY(mega_comm_all_reduce(comm, what, all, count + 1, MEGA_F64, MEGA_REDUCE_SUM));
    memcpy(sums->loss, all, (size_t)count * sizeof *all);
    sums->stops = all[count];
    return MEGA_OK;
}

double engine_losses_total(const mega_engine *e, const engine_sums *sums, double metric[MEGA_METRICS])
{
    double total = 0;
    for (int i = 0; i < e->model.num_losses; i++) {
        const engine_loss *l = &e->model.loss[i];
        const double *sum = sums->loss[i];
        metric[i] = !l->is_trained ? NAN : sum[LOSS_WEIGHT] != 0 ? sum[LOSS_SUM] / sum[LOSS_WEIGHT] : 0;
        if (l->is_trained && l->coefficient != 0) total += l->coefficient * metric[i];
    }
    return total;
}

void engine_evaluation_losses(const mega_engine *e, const engine_sums *sums, mega_loss_sums *out)
{
    *out = (mega_loss_sums){0};
    for (int i = 0; i < e->model.num_losses; i++) {
        const engine_loss *l = &e->model.loss[i];
        if (!l->is_evaluated) continue;
        out->metric[i] = sums->loss[i][LOSS_SUM];
        out->weight[i] = sums->loss[i][LOSS_WEIGHT];
        if (l->coefficient != 0) out->loss += l->coefficient * out->metric[i];
        /* with per_token_loss one loss has a coefficient; otherwise every loss counts each micro-batch once */
        if (out->count == 0 || l->coefficient != 0) out->count = out->weight[i];
    }
}

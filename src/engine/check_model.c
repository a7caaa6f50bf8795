/* What the engine needs of a model's programs, looked at before anything is allocated: it can fill every input.
 * (Losses: losses.c.) */
#include "engine_impl.h"
#include "megalith/memory.h"

#include <stdio.h>
#include <string.h>

/* Inputs that the engine fills from mega_batch, one element a token. */
static const struct {
    const char *name;
    mega_dtype dtype;
} filled[] = {{"tokens", MEGA_I32},       {"labels", MEGA_I32},        {"position_ids", MEGA_I32},
              {"seq_position", MEGA_I32}, {"segment_start", MEGA_I32}, {"sample_id", MEGA_I32},
              {"loss_mask", MEGA_F32}};
#define FILLED_NAMES "tokens, labels, position_ids, seq_position, segment_start, sample_id and loss_mask"

/* One program and where its part of the model stands. */
typedef struct checked {
    const mega_engine *e;
    const mega_program *p;
    int chunk;
    bool trains;
} checked;

static const char *shape_text(char out[96], mega_dtype dtype, int num_dims, const int64_t *dim)
{
    int n = snprintf(out, 96, "[");
    for (int d = 0; d < num_dims && n < 96; d++)
        n += snprintf(out + n, (size_t)(96 - n), "%s%lld", d == 0 ? "" : ", ", (long long)dim[d]);
    if (n < 96) snprintf(out + n, (size_t)(96 - n), "] %s", mega_dtype_name(dtype));
    return out;
}

static mega_status in_program(const checked *k, mega_status st)
{
    const mega_axis *pp = &k->e->layout->pp;
    if (st == MEGA_OK) return MEGA_OK;
    if (pp->size > 1)
        MEGA_CONTEXT("model, %s program %d of pipeline stage %d", k->trains ? "training" : "evaluation", k->chunk,
                     pp->rank);
    else
        MEGA_CONTEXT("model, %s program", k->trains ? "training" : "evaluation");
    return st;
}

static mega_status expect_shape(const mega_program_named *t, mega_dtype dtype, int64_t count, const char *per)
{
    char found[96], expected[96];
    if (t->dtype == dtype && t->num_dims == 1 && t->dim[0] == count) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_USAGE, "\"%s\" is %s; expected %s, %s", t->name,
                     shape_text(found, t->dtype, t->num_dims, t->dim), shape_text(expected, dtype, 1, &count), per);
}

static mega_status check_input(const checked *k, const mega_program_named *t)
{
    const mega_engine_options *o = &k->e->options;
    for (size_t i = 0; i < sizeof filled / sizeof *filled; i++)
        if (strcmp(t->name, filled[i].name) == 0)
            return expect_shape(t, filled[i].dtype, o->micro_batch * o->seq, "one element a token of a micro-batch");
    for (int v = 0; v < MEGA_FLOW_VALUES; v++) {
        if (strcmp(t->name, mega_border_name(MEGA_BORDER_INPUT, v)) == 0) return MEGA_OK;
        if (strcmp(t->name, mega_border_name(MEGA_BORDER_OUTPUT_GRADIENT, v)) == 0) return MEGA_OK;
    }
    return MEGA_FAIL(MEGA_ERR_USAGE, "nothing fills input \"%s\"; the engine fills " FILLED_NAMES, t->name);
}

static mega_status check_program(const checked *k)
{
    mega_program_named t;
    for (int i = 0; mega_program_named_get(k->p, i, &t); i++)
        if (t.role == MEGA_PROGRAM_INPUT) MEGA_TRY(check_input(k, &t));
    return MEGA_OK;
}

mega_status engine_check_programs(const mega_engine *e)
{
    for (int c = 0; c < e->chunks; c++)
        for (int i = 0; i < 2; i++) {
            const checked k = {
                .e = e, .p = i == 0 ? e->chunk[c].train : e->chunk[c].evaluate, .chunk = c, .trains = i == 0};
            if (k.p != NULL) MEGA_TRY(in_program(&k, check_program(&k)));
        }
    return MEGA_OK;
}

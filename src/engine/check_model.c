/* What the engine needs of a model's programs, looked at before anything is allocated: it knows how to fill every
 * input, and neighbours in a pipeline hand over tensors of one shape. (Losses: losses.c.) */
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
    bool trains, is_first, is_last;
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

static bool find(const mega_program *p, const char *name, mega_program_named *out)
{
    for (int i = 0; mega_program_named_get(p, i, out); i++)
        if (strcmp(out->name, name) == 0) return true;
    return false;
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
    if (!k->is_first && strcmp(t->name, "stage_input") == 0) return MEGA_OK;
    if (k->trains && !k->is_last && strcmp(t->name, "stage_output_gradient") == 0) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_USAGE,
                     "nothing fills input \"%s\"; the engine fills " FILLED_NAMES
                     ", and between pipeline stages stage_input and stage_output_gradient",
                     t->name);
}

/* A tensor on a border between two parts of the model, there if and only if the border is. */
static mega_status expect_border(const checked *k, const char *name, bool is_border)
{
    mega_program_named t;
    if (find(k->p, name, &t) == is_border) return MEGA_OK;
    if (is_border)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "\"%s\" is missing; a part of the model that does not %s it has stage_%s, and in training "
                         "stage_%s_gradient",
                         name, strncmp(name, "stage_input", 11) == 0 ? "begin" : "end",
                         strncmp(name, "stage_input", 11) == 0 ? "input" : "output",
                         strncmp(name, "stage_input", 11) == 0 ? "input" : "output");
    return MEGA_FAIL(MEGA_ERR_USAGE, "\"%s\" is there, but the model %s here: no other part takes it", name,
                     strncmp(name, "stage_input", 11) == 0 ? "begins" : "ends");
}

static mega_status check_program(const checked *k)
{
    mega_program_named t;
    for (int i = 0; mega_program_named_get(k->p, i, &t); i++)
        if (t.role == MEGA_PROGRAM_INPUT) MEGA_TRY(check_input(k, &t));
    MEGA_TRY(expect_border(k, "stage_input", !k->is_first));
    MEGA_TRY(expect_border(k, "stage_output", !k->is_last));
    MEGA_TRY(expect_border(k, "stage_input_gradient", !k->is_first && k->trains));
    return expect_border(k, "stage_output_gradient", !k->is_last && k->trains);
}

mega_status engine_check_programs(const mega_engine *e)
{
    const mega_axis *pp = &e->layout->pp;
    for (int c = 0; c < e->chunks; c++)
        for (int i = 0; i < 2; i++) {
            const checked k = {.e = e,
                               .p = i == 0 ? e->chunk[c].train : e->chunk[c].evaluate,
                               .chunk = c,
                               .trains = i == 0,
                               .is_first = c == 0 && pp->rank == 0,
                               .is_last = c == e->chunks - 1 && pp->rank == pp->size - 1};
            if (k.p != NULL) MEGA_TRY(in_program(&k, check_program(&k)));
        }
    return MEGA_OK;
}

/* ---- the borders between pipeline stages ---- */

typedef struct border {
    int64_t dtype, num_dims, dim[4];
} border;

/* The lists of a stage: where its programs begin and end, by program; all zeros where there is no border. */
enum { BEGIN_TRAIN, END_TRAIN, BEGIN_EVALUATE, END_EVALUATE, NUM_LISTS };

static void read_border(border *out, const mega_program *p, const char *name)
{
    mega_program_named t;
    if (p == NULL || !find(p, name, &t)) return;
    *out = (border){.dtype = t.dtype, .num_dims = t.num_dims};
    for (int d = 0; d < t.num_dims; d++) out->dim[d] = t.dim[d];
}

/* all: of each stage its four lists of e->chunks borders. Part n of the model is program n / stages of stage n %
 * stages. */
static mega_status compare_border(const mega_engine *e, const border *all, int part, int begin, int end)
{
    const int stages = e->layout->pp.size, from = part % stages, to = (part + 1) % stages;
    const border *out = &all[(from * NUM_LISTS + end) * e->chunks + part / stages];
    const border *in = &all[(to * NUM_LISTS + begin) * e->chunks + (part + 1) / stages];
    char a[96], b[96];
    if (memcmp(out, in, sizeof *out) == 0) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_USAGE,
                     "model, %s programs: pipeline stage %d ends with stage_output %s, and stage %d begins with "
                     "stage_input %s; describe both with one shape",
                     begin == BEGIN_TRAIN ? "training" : "evaluation", from,
                     shape_text(a, (mega_dtype)out->dtype, (int)out->num_dims, out->dim), to,
                     shape_text(b, (mega_dtype)in->dtype, (int)in->num_dims, in->dim));
}

static mega_status gather_borders(const mega_engine *e, border *mine, border *all)
{
    for (int c = 0; c < e->chunks; c++) {
        read_border(&mine[BEGIN_TRAIN * e->chunks + c], e->chunk[c].train, "stage_input");
        read_border(&mine[END_TRAIN * e->chunks + c], e->chunk[c].train, "stage_output");
        read_border(&mine[BEGIN_EVALUATE * e->chunks + c], e->chunk[c].evaluate, "stage_input");
        read_border(&mine[END_EVALUATE * e->chunks + c], e->chunk[c].evaluate, "stage_output");
    }
    return mega_comm_all_gather(e->layout->pp.comm, "borders of pipeline stages", all, mine,
                                (int64_t)NUM_LISTS * e->chunks * (int64_t)(sizeof *mine / sizeof(int64_t)), MEGA_I64);
}

/* Stages of different numbers of programs would gather lists of different lengths. */
static mega_status compare_counts(const mega_engine *e)
{
    int64_t count[2] = {e->chunks, -(int64_t)e->chunks};
    MEGA_TRY(
        mega_comm_all_reduce(e->layout->pp.comm, "programs of a pipeline stage", count, 2, MEGA_I64, MEGA_REDUCE_MAX));
    if (count[0] == -count[1]) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_USAGE,
                     "model: pipeline stages of %lld to %lld programs; give each stage the same number of programs",
                     (long long)-count[1], (long long)count[0]);
}

mega_status engine_check_borders(const mega_engine *e)
{
    const int stages = e->layout->pp.size;
    if (stages == 1) return MEGA_OK;
    MEGA_TRY(compare_counts(e));
    border *all = mega_calloc((size_t)(stages + 1) * NUM_LISTS * (size_t)e->chunks, sizeof *all);
    if (all == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "engine: no memory for the borders of %d stages", stages);
    mega_status st = gather_borders(e, all + (ptrdiff_t)stages * NUM_LISTS * e->chunks, all);
    for (int part = 0; part + 1 < stages * e->chunks && st == MEGA_OK; part++) {
        st = compare_border(e, all, part, BEGIN_TRAIN, END_TRAIN);
        if (st == MEGA_OK) st = compare_border(e, all, part, BEGIN_EVALUATE, END_EVALUATE);
    }
    mega_free(all);
    return st;
}

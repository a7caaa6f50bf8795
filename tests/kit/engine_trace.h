/* Finds the first instruction of an engine on several ranks whose result differs from that on one rank. The single rank
 * has the same micro-batches, and its values are those of all data-parallel ranks together. */
#ifndef MEGALITH_TESTS_ENGINE_TRACE_H
#define MEGALITH_TESTS_ENGINE_TRACE_H

#include "megalith/engine_commands.h"
#include "megalith/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRACE_CHUNKS = 4, TRACE_TEXT = 256 };

/* A value that the single rank computed. */
typedef struct trace_value {
    const char *op, *tensor; /* of its program */
    bool backward;
    int64_t micro_batch, rows, cols;
    double *data;
} trace_value;

/* Tracks the current micro-batch of a program: a new one begins when the instructions start over. */
typedef struct trace_place {
    int instruction;
    int64_t micro_batch;
} trace_place;

typedef struct trace {
    const mega_engine *engine;
    trace_place place[TRACE_CHUNKS][2]; /* forward, backward */
    trace_value *value;                 /* recorded, or NULL */
    int count, capacity;
    const struct trace *alone; /* trace to compare with, or NULL */
    double tolerance;          /* maximum relative difference of a whole tensor */
    int64_t order;             /* position of the first difference in the order of the computation; INT64_MAX: none */
    char text[TRACE_TEXT];
} trace;

static inline int trace_chunk(const trace *t, const mega_program *p)
{
    for (int c = 0; c < mega_engine_chunks(t->engine); c++)
        if (mega_engine_chunk_program(t->engine, c, true) == p) return c;
    return 0;
}

static inline int64_t trace_micro_batch(trace *t, const mega_observed *made)
{
    trace_place *at = &t->place[trace_chunk(t, made->program)][made->backward];
    /* A receive may complete a few instructions late, so only a large step back starts a micro-batch. */
    const int count = mega_program_num_instructions(made->program, made->backward);
    if (made->instruction < at->instruction - count / 2 || at->micro_batch < 0) at->micro_batch++;
    at->instruction = made->instruction;
    return at->micro_batch;
}

static inline double trace_number(const mega_observed *made, int64_t i)
{
    switch (made->dtype) {
    case MEGA_F64: return ((const double *)made->data)[i];
    case MEGA_F32: return (double)((const float *)made->data)[i];
    case MEGA_BF16:
    case MEGA_F16: return (double)mega_half_to_f32(((const uint16_t *)made->data)[i], made->dtype);
    default: return 0;
    }
}

static inline void trace_record(trace *t, const mega_observed *made, int64_t micro_batch)
{
    if (t->count == t->capacity) {
        t->capacity = t->capacity == 0 ? 256 : 2 * t->capacity;
        t->value = realloc(t->value, (size_t)t->capacity * sizeof *t->value);
    }
    trace_value *v = &t->value[t->count++];
    *v = (trace_value){made->op, made->tensor, made->backward, micro_batch, made->rows, made->cols, NULL};
    v->data = malloc((size_t)(v->rows * v->cols) * sizeof *v->data);
    for (int64_t i = 0; i < v->rows * v->cols; i++) v->data[i] = trace_number(made, i);
}

static inline const trace_value *trace_find(const trace *t, const mega_observed *made, int64_t micro_batch)
{
    for (int i = 0; i < t->count; i++) {
        const trace_value *v = &t->value[i];
        if (v->micro_batch == micro_batch && v->backward == made->backward && strcmp(v->op, made->op) == 0 &&
            strcmp(v->tensor, made->tensor) == 0)
            return v;
    }
    return NULL;
}

/* Returns the relative difference between a value and this rank's piece of it: all of it, a slab of its rows, or a
 * slice of its columns (of each of three blocks for queries, keys and values). Returns -1 if the value is sharded in
 * another way. */
static inline double trace_difference(const trace *t, const mega_observed *made, const trace_value *v)
{
    const mega_axis *tp = &mega_engine_layout(t->engine)->tp;
    const int64_t blocks = strstr(made->tensor, "c_attn") != NULL || strcmp(made->op, "attention_grad") == 0 ? 3 : 1;
    const int64_t slice = made->cols / blocks;
    const bool rows_cut = made->rows * tp->size == v->rows, cols_cut = made->cols * tp->size == v->cols;
    double apart = 0, size = 0;
    if ((made->rows != v->rows && !rows_cut) || (made->cols != v->cols && !cols_cut)) return -1;
    for (int64_t r = 0; r < made->rows; r++)
        for (int64_t c = 0; c < made->cols; c++) {
            const int64_t row = made->rows == v->rows ? r : r + made->rows * tp->rank;
            const int64_t col =
                made->cols == v->cols ? c : c / slice * (v->cols / blocks) + slice * tp->rank + c % slice;
            const double expected = v->data[row * v->cols + col];
            const double d = trace_number(made, r * made->cols + c) - expected;
            apart += d * d;
            size += expected * expected;
        }
    return sqrt(apart / (size > 0 ? size : 1));
}

static inline void trace_compare(trace *t, const mega_observed *made, int64_t micro_batch)
{
    const mega_layout *l = mega_engine_layout(t->engine);
    const trace_value *v = made->is_partial ? NULL : trace_find(t->alone, made, micro_batch * l->dp.size + l->dp.rank);
    const double difference = v == NULL ? -1 : trace_difference(t, made, v);
    if (difference <= t->tolerance) return; /* also if they cannot be compared */
    const int64_t parts = (int64_t)l->pp.size * mega_engine_chunks(t->engine);
    const int64_t part = (int64_t)trace_chunk(t, made->program) * l->pp.size + l->pp.rank;
    const int64_t turn = made->backward ? 2 * parts - 1 - part : part;
    const int64_t order = (micro_batch * 2 * parts + turn) * INT32_MAX + made->instruction;
    if (order >= t->order) return;
    t->order = order;
    snprintf(t->text, sizeof t->text,
             "rank %d, micro-batch %lld, %s: instruction %d, %s, made %s with a relative difference of %.3g",
             l->world.rank, (long long)micro_batch, made->backward ? "backward" : "forward", made->instruction,
             made->op, made->tensor, difference);
}

static inline void trace_observer(void *user, const mega_observed *made)
{
    trace *t = user;
    const int64_t micro_batch = trace_micro_batch(t, made);
    if (t->alone != NULL) trace_compare(t, made, micro_batch);
    else
        trace_record(t, made, micro_batch);
}

/* Call before a step of the engine: records the values of the step or, if alone is not NULL, compares them with it. */
static inline void trace_begin(trace *t, mega_engine *e, const trace *alone, double tolerance)
{
    for (int i = 0; i < t->count; i++) free(t->value[i].data);
    t->engine = e;
    t->count = 0;
    t->alone = alone;
    t->tolerance = tolerance;
    t->order = INT64_MAX;
    for (int i = 0; i < TRACE_CHUNKS; i++) t->place[i][0] = t->place[i][1] = (trace_place){.micro_batch = -1};
    mega_engine_observe(e, trace_observer, t);
}

static inline void trace_end(trace *t)
{
    for (int i = 0; i < t->count; i++) free(t->value[i].data);
    free(t->value);
    *t = (trace){0};
}

#endif

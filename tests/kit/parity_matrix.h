/* The rows of the parity matrix over ranks: layouts, and the training settings used in them. A level is the words that
 * ranks_parity takes for it. */
#ifndef MEGALITH_TESTS_PARITY_MATRIX_H
#define MEGALITH_TESTS_PARITY_MATRIX_H

#include "cover.h"

#include <stdio.h>
#include <string.h>

enum {
    MATRIX_TENSOR,
    MATRIX_STAGES,
    MATRIX_DATA,
    MATRIX_ZERO,
    MATRIX_OVERLAP,
    MATRIX_RECOMPUTE,
    MATRIX_PRECISION,
    MATRIX_LOSS,
    MATRIX_DECAY,
    MATRIX_LR,
    MATRIX_OPTIMIZER,
    MATRIX_BATCH,
    MATRIX_MICRO,
    MATRIX_THREADS,
    MATRIX_REDUCE,
    MATRIX_SIZES,
    MATRIX_FACTORS
};

static const char *const matrix_words[MATRIX_FACTORS][COVER_LEVELS] = {
    [MATRIX_TENSOR] = {"", "tp=2", "tp=2 sp=1", "tp=4", "tp=4 sp=1"},
    [MATRIX_STAGES] = {"", "pp=2", "pp=2 chunks=2 layers=4", "pp=2 chunks=3 layers=6", "pp=3 layers=6 first=1 last=3",
                       "pp=4 layers=4", "pp=4 chunks=2 layers=10 first=4 last=2"},
    [MATRIX_DATA] = {"dp=1", "dp=2", "dp=4"},
    [MATRIX_ZERO] = {"", "zero=1", "zero=2", "zero=3", "zero=3 persist=100"},
    [MATRIX_OVERLAP] = {"", "overlap=1"},
    [MATRIX_RECOMPUTE] = {"", "recompute=selective", "recompute=full", "recompute=full distribute=1",
                          "recompute=budget"},
    [MATRIX_PRECISION] = {"precision=f64", "precision=f32", "precision=bf16", "precision=f16"},
    [MATRIX_LOSS] = {"loss=token", "loss=micro"},
    [MATRIX_DECAY] = {"", "decay=constant", "decay=grows"},
    [MATRIX_LR] = {"", "lr=linear", "lr=cosine", "lr=root"},
    [MATRIX_OPTIMIZER] = {"", "optimizer=sgd", "optimizer=lamb", "optimizer=muon"},
    [MATRIX_BATCH] = {"", "ramp=1"},
    [MATRIX_MICRO] = {"micro=1", "micro=2", "micro=4"},
    [MATRIX_THREADS] = {"", "threads=2"},
    [MATRIX_REDUCE] = {"", "reduce=bf16", "reduce=f16"},
    [MATRIX_SIZES] = {"", "odd=1"}};

static const struct {
    int ranks;
    bool slabs; /* sequence parallelism */
} matrix_tensor[] = {{1, false}, {2, false}, {2, true}, {4, false}, {4, true}};
static const struct {
    int ranks, chunks;
} matrix_stages[] = {{1, 1}, {2, 1}, {2, 2}, {2, 3}, {3, 1}, {4, 1}, {4, 2}};

enum { MATRIX_RANKS = 8, MATRIX_BATCH_SAMPLES = 8, MATRIX_RAMP_SAMPLES = 4 };

/* Returns the minimum number of ranks of a row; open factors count as 1. */
static inline int matrix_ranks(const cover_row *r)
{
    const int *level = r->level;
    return (level[MATRIX_TENSOR] < 0 ? 1 : matrix_tensor[level[MATRIX_TENSOR]].ranks) *
           (level[MATRIX_STAGES] < 0 ? 1 : matrix_stages[level[MATRIX_STAGES]].ranks) *
           (level[MATRIX_DATA] < 0 ? 1 : 1 << level[MATRIX_DATA]);
}

static inline bool matrix_allows(const cover_row *r)
{
    const int *level = r->level;
    const int tensor = level[MATRIX_TENSOR], stages = level[MATRIX_STAGES];
    const int samples = level[MATRIX_BATCH] == 1 ? MATRIX_RAMP_SAMPLES : MATRIX_BATCH_SAMPLES; /* smallest batch */
    const int together = (level[MATRIX_DATA] < 0 ? 1 : 1 << level[MATRIX_DATA]) *
                         (level[MATRIX_MICRO] < 0 ? 1 : 1 << level[MATRIX_MICRO]);
    if (matrix_ranks(r) > MATRIX_RANKS || samples % together != 0) return false;
    /* More than two ranks of one kind are not combined with other kinds: that would test no more than two ranks do, and
     * need more than twice as many ranks. */
    const bool many = level[MATRIX_DATA] == 2;
    if (stages > 0 && (tensor > 2 || many)) return false;
    if (tensor > 0 && (stages > 3 || many)) return false;
    /* these settings have no effect on one data-parallel rank */
    if (level[MATRIX_DATA] == 0 &&
        (level[MATRIX_ZERO] > 0 || level[MATRIX_OVERLAP] > 0 || level[MATRIX_REDUCE] > 0))
        return false;
    if (level[MATRIX_RECOMPUTE] == 3 && tensor >= 0 &&
        (matrix_tensor[tensor].ranks == 1 || matrix_tensor[tensor].slabs))
        return false;
    if (level[MATRIX_OPTIMIZER] > 1 && level[MATRIX_PRECISION] == 3) return false; /* to keep the rows few */
    if (level[MATRIX_PRECISION] == 0 && level[MATRIX_THREADS] == 1) return false;  /* plain kernels use one thread */
    return stages < 0 || matrix_stages[stages].chunks == 1 || samples / together % matrix_stages[stages].ranks == 0;
}

/* full: rows for every pair of levels of any two factors. Otherwise only for tensor ranks, stages and ZeRO, in their
 * main levels. */
static inline bool matrix_make(cover *c, bool full)
{
    *c = (cover){.factors = MATRIX_FACTORS, .allows = matrix_allows};
    for (int f = 0; f < MATRIX_FACTORS; f++)
        while (c->levels[f] < COVER_LEVELS && matrix_words[f][c->levels[f]] != NULL) c->levels[f]++;
    c->wanted = full ? ~0u : 1u << MATRIX_TENSOR | 1u << MATRIX_STAGES | 1u << MATRIX_ZERO;
    if (!full) {
        c->use[MATRIX_TENSOR] = c->use[MATRIX_STAGES] = 7;
        c->use[MATRIX_ZERO] = 15;
        c->use[MATRIX_DATA] = 3;
    }
    return cover_make(c);
}

/* Prints the ranks and words of a row, such as "4 tp=2 …". */
static inline void matrix_print(const cover_row *r, FILE *to)
{
    fprintf(to, "%d", matrix_ranks(r));
    for (int f = 0; f < MATRIX_FACTORS; f++) {
        const char *words = matrix_words[f][r->level[f]];
        if (f != MATRIX_DATA && words[0] != '\0') fprintf(to, " %s", words);
    }
    fprintf(to, "\n");
}

#endif

/* Builds rows of settings in which chosen combinations of levels all occur (a covering array), with a greedy algorithm:
 * the same factors always give the same rows. For tests whose full product of settings would take too long. */
#ifndef MEGALITH_TESTS_COVER_H
#define MEGALITH_TESTS_COVER_H

#include <stdbool.h>
#include <stdint.h>

enum { COVER_FACTORS = 16, COVER_LEVELS = 8, COVER_ROWS = 256, COVER_ANY = -1 };

typedef struct cover_row {
    int level[COVER_FACTORS]; /* COVER_ANY: not chosen yet */
} cover_row;

typedef struct cover {
    int factors, levels[COVER_FACTORS];
    uint32_t use[COVER_FACTORS]; /* bit n: level n may occur; 0: all may */
    uint32_t wanted;             /* bit n: cover every pair of a level of factor n and of another such one */
    /* Returns false if the levels chosen so far contradict each other; COVER_ANY contradicts nothing. */
    bool (*allows)(const cover_row *row);
    cover_row row[COVER_ROWS];
    int rows;
} cover;

/* A level of one factor and a level of a later factor. */
typedef struct cover_pair {
    int factor[2], level[2];
} cover_pair;

static inline bool cover_is_covered(const cover *c, const cover_pair *p)
{
    for (int i = 0; i < c->rows; i++) {
        const int *level = c->row[i].level;
        if (level[p->factor[0]] == p->level[0] && level[p->factor[1]] == p->level[1]) return true;
    }
    return false;
}

static inline bool cover_may_use(const cover *c, int factor, int level)
{
    return c->use[factor] == 0 || (c->use[factor] >> level & 1) != 0;
}

static inline bool cover_is_wanted(const cover *c, const cover_pair *p)
{
    return (c->wanted >> p->factor[0] & c->wanted >> p->factor[1] & 1) != 0 &&
           cover_may_use(c, p->factor[0], p->level[0]) && cover_may_use(c, p->factor[1], p->level[1]);
}

/* Returns whether levels can be chosen for the open factors from `factor` on; *row receives the first choice found. */
static inline bool cover_complete(const cover *c, cover_row *row, int factor)
{
    while (factor < c->factors && row->level[factor] != COVER_ANY) factor++;
    if (!c->allows(row)) return false;
    if (factor == c->factors) return true;
    for (int n = 0; n < c->levels[factor]; n++) {
        if (!cover_may_use(c, factor, n)) continue;
        row->level[factor] = n;
        if (cover_complete(c, row, factor + 1)) return true;
    }
    row->level[factor] = COVER_ANY;
    return false;
}

static inline bool cover_can_be(const cover *c, const cover_row *row)
{
    cover_row whole = *row;
    return cover_complete(c, &whole, 0);
}

static inline cover_row cover_row_of(const cover_pair *p)
{
    cover_row r;
    for (int f = 0; f < COVER_FACTORS; f++) r.level[f] = COVER_ANY;
    for (int i = 0; i < 2; i++) r.level[p->factor[i]] = p->level[i];
    return r;
}

/* Advances to the next pair in a fixed order that starts at {{0, 1}, {0, 0}}. Returns false after the last one. */
static inline bool cover_next(const cover *c, cover_pair *p)
{
    for (int i = 1; i >= 0; i--) {
        if (++p->level[i] < c->levels[p->factor[i]]) return true;
        p->level[i] = 0;
    }
    if (++p->factor[1] == c->factors) p->factor[1] = ++p->factor[0] + 1;
    return p->factor[1] < c->factors;
}

/* Returns the gain of adding a level to a row: the number of pairs that no row has yet, where wanted pairs weigh
 * more. */
static inline int cover_gain(const cover *c, const cover_row *row, int factor, int level)
{
    int gain = 0;
    for (int f = 0; f < c->factors; f++) {
        const cover_pair p = {{f, factor}, {row->level[f], level}};
        if (f == factor || row->level[f] == COVER_ANY || cover_is_covered(c, &p)) continue;
        gain += cover_is_wanted(c, &p) ? 4 : 1;
    }
    return gain;
}

/* Chooses the open levels factor by factor: the level with the highest gain, the lowest among equals. */
static inline void cover_fill(cover *c, cover_row *row)
{
    for (int f = 0; f < c->factors; f++) {
        int best = COVER_ANY, most = -1;
        if (row->level[f] != COVER_ANY) continue;
        for (int n = 0; n < c->levels[f]; n++) {
            cover_row tried = *row;
            tried.level[f] = n;
            if (!cover_may_use(c, f, n) || !cover_can_be(c, &tried)) continue;
            const int gain = cover_gain(c, row, f, n);
            if (gain <= most) continue;
            best = n;
            most = gain;
        }
        row->level[f] = best;
    }
}

/* Builds the rows. Pairs that no allowed row can have are left out. Returns false if there are more rows than fit. */
static inline bool cover_make(cover *c)
{
    cover_pair p = {{0, 1}, {0, 0}};
    do {
        cover_row row = cover_row_of(&p);
        if (!cover_is_wanted(c, &p) || cover_is_covered(c, &p) || !cover_can_be(c, &row)) continue;
        if (c->rows == COVER_ROWS) return false;
        cover_fill(c, &row);
        c->row[c->rows++] = row;
    } while (cover_next(c, &p));
    return true;
}

#endif

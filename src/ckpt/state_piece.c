/* Computes the part of a tensor that a rank holds, as rectangles: a range of elements of a slice is the end of a row,
 * whole rows, and the beginning of a row; and the parts of a parameter that the file stores elsewhere (Q, K, V) are
 * separate. */
#include "state_impl.h"

#include <string.h>

#define PIECES 3 /* pieces of a range of elements, within one run of rows */

typedef struct cut {
    int64_t real[2], local[2]; /* rows and columns: of the tensor, of this rank's slice */
    int64_t first, last;       /* elements of the slice that `data` holds */
    int dim, count;
    mega_param_stretch stretch[MEGA_PARAM_PARTS]; /* the stretches that are in this tensor */
} cut;

static cut cut_of(const mega_state_tensor *t)
{
    const mega_param *p = t->param;
    const bool is_row = p->num_dims == 1;
    const mega_param_cut ranks = t->is_part ? t->cut : (mega_param_cut){0};
    mega_param_stretch all[MEGA_PARAM_PARTS];
    const int count = mega_param_stretches(p, ranks, all);
    cut c = {.dim = is_row ? 1 : p->cut_dim};
    for (int i = 0; i < count; i++)
        if (all[i].tensor == t->file) c.stretch[c.count++] = all[i];
    mega_state_extent(t, &c.real[0], &c.real[1]);
    c.local[0] = is_row ? 1 : p->shape[0];
    c.local[1] = is_row ? p->shape[0] : p->shape[1];
    if (ranks.size > 0) c.local[c.dim] /= ranks.size;
    c.first = t->is_part ? t->first : 0;
    c.last = t->is_part ? t->first + t->count : c.local[0] * c.local[1];
    return c;
}

void mega_state_extent(const mega_state_tensor *t, int64_t *rows, int64_t *cols)
{
    int64_t shape[2];
    mega_param_file_shape(t->param, t->file, shape);
    *rows = t->param->num_dims == 1 ? 1 : shape[0];
    *cols = shape[t->param->num_dims == 1 ? 0 : 1];
}

bool mega_state_turned(const mega_param *p)
{
    return p->num_dims == 2 && p->transposed_in_file;
}

int64_t mega_state_pieces(const mega_state_tensor *t)
{
    const cut c = cut_of(t);
    int64_t runs = 0;
    for (int i = 0; i < c.count; i++) runs += c.stretch[i].runs;
    return PIECES * runs;
}

int64_t mega_state_held(const mega_state_tensor *t, int64_t *width)
{
    const cut c = cut_of(t);
    *width = c.local[1];
    return c.last - c.first;
}

bool mega_state_is_in_order(const mega_state_tensor *t)
{
    const cut c = cut_of(t);
    return c.count == 1 && c.stretch[0].runs == 1 && !mega_param_shares_file(t->param, t->file);
}

bool mega_state_is_shared(const mega_state_tensor *a, const mega_state_tensor *b)
{
    return mega_param_shares_file(a->param, a->file) && strcmp(a->name, b->name) == 0;
}

static int64_t piece_between(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* Computes rows and columns [begin, end) of the slice that one part of the range covers. */
static void piece_part_of(const cut *c, int part, int64_t begin[2], int64_t end[2])
{
    const int64_t width = c->local[1], first = c->first, last = c->last;
    const int64_t first_whole = (first + width - 1) / width, last_whole = last / width;
    begin[0] = end[0] = begin[1] = 0;
    end[1] = width;
    if (last <= first) return;
    if (part == 1) { /* whole rows */
        begin[0] = first_whole;
        end[0] = last_whole > first_whole ? last_whole : first_whole;
    } else if (part == 0 && first % width != 0) { /* the end of a row, or the middle of one */
        begin[0] = first / width;
        end[0] = begin[0] + 1;
        begin[1] = first % width;
        end[1] = last < end[0] * width ? last % width : width;
    } else if (part == 2 && last % width != 0 && last_whole >= first_whole) { /* the beginning of a row */
        begin[0] = last_whole;
        end[0] = begin[0] + 1;
        end[1] = last % width;
    }
}

static void clip_to_file(mega_state_piece *p, const cut *c)
{
    p->real_rows = piece_between(c->real[0] - p->row, 0, p->rows);
    p->real_cols = piece_between(c->real[1] - p->col, 0, p->cols);
}

mega_state_piece mega_state_piece_get(const mega_state_tensor *t, int64_t index)
{
    const cut c = cut_of(t);
    const mega_param_stretch *s = c.stretch;
    int64_t run = index / PIECES, begin[2], end[2], corner[2];
    while (run >= s->runs) run -= (s++)->runs;
    const int64_t before = s->local + run * s->rows;
    piece_part_of(&c, (int)(index % PIECES), begin, end);
    begin[c.dim] = piece_between(begin[c.dim], before, before + s->rows);
    end[c.dim] = piece_between(end[c.dim], before, before + s->rows);
    corner[0] = begin[0];
    corner[1] = begin[1];
    corner[c.dim] += s->file + run * s->stride - before;
    mega_state_piece p = {.row = corner[0],
                          .col = corner[1],
                          .rows = end[0] - begin[0],
                          .cols = end[1] - begin[1],
                          .at = begin[0] * c.local[1] + begin[1] - c.first,
                          .pitch = c.local[1]};
    clip_to_file(&p, &c);
    return p;
}

/* What a rank holds of a tensor, as rectangles of the whole tensor: a range of elements of a slice is the end of a row,
 * whole rows, and the beginning of one; and what is cut by blocks (Q, K, V) lies in each block apart. */
#include "state_impl.h"

#define PARTS 3 /* of a range of elements */

typedef struct cut {
    int64_t whole[2], real[2], local[2]; /* rows and columns: of the tensor, without padding, of this rank's slice */
    int dim, blocks, rank, size;
} cut;

static cut cut_of(const mega_state_tensor *t)
{
    const mega_param *p = t->param;
    const bool is_row = p->num_dims == 1;
    cut c = {.dim = is_row ? 1 : p->cut_dim, .blocks = 1, .size = 1};
    c.whole[0] = is_row ? 1 : p->shape[0];
    c.whole[1] = is_row ? p->shape[0] : p->shape[1];
    c.real[0] = is_row ? 1 : p->true_shape[0];
    c.real[1] = is_row ? p->true_shape[0] : p->true_shape[1];
    c.local[0] = c.whole[0];
    c.local[1] = c.whole[1];
    if (!t->is_part || t->cut.size == 0) return c;
    c.blocks = t->cut.blocks;
    c.rank = t->cut.rank;
    c.size = t->cut.size;
    c.local[c.dim] /= t->cut.size;
    return c;
}

void mega_state_extent(const mega_param *p, int64_t *rows, int64_t *cols)
{
    *rows = p->num_dims == 1 ? 1 : p->true_shape[0];
    *cols = p->true_shape[p->num_dims == 1 ? 0 : 1];
}

bool mega_state_turned(const mega_param *p)
{
    return p->num_dims == 2 && p->transposed_in_file;
}

int mega_state_pieces(const mega_state_tensor *t)
{
    return t->is_part ? PARTS * cut_of(t).blocks : 1;
}

static int64_t between(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* Rows and columns [begin, end) of the slice that one part of the range covers. */
static void part_of(const mega_state_tensor *t, const cut *c, int part, int64_t begin[2], int64_t end[2])
{
    const int64_t width = c->local[1], first = t->first, last = t->first + t->count;
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
    } else if (part == 2 && last % width != 0 && last_whole >= first_whole) { /* the beginning of one */
        begin[0] = last_whole;
        end[0] = begin[0] + 1;
        end[1] = last % width;
    }
}

static void clip_to_file(mega_state_piece *p, const cut *c)
{
    p->real_rows = between(c->real[0] - p->row, 0, p->rows);
    p->real_cols = between(c->real[1] - p->col, 0, p->cols);
}

mega_state_piece mega_state_piece_get(const mega_state_tensor *t, int index)
{
    const cut c = cut_of(t);
    mega_state_piece p = {.rows = c.whole[0], .cols = c.whole[1], .pitch = c.local[1]};
    if (t->is_part) {
        const int64_t block = index / PARTS, slice = c.local[c.dim] / c.blocks, before = block * slice;
        int64_t begin[2], end[2], corner[2];
        part_of(t, &c, index % PARTS, begin, end);
        begin[c.dim] = between(begin[c.dim], before, before + slice);
        end[c.dim] = between(end[c.dim], before, before + slice);
        corner[0] = begin[0];
        corner[1] = begin[1];
        corner[c.dim] += block * (c.whole[c.dim] / c.blocks) + c.rank * slice - before;
        p.row = corner[0];
        p.col = corner[1];
        p.rows = end[0] - begin[0];
        p.cols = end[1] - begin[1];
        p.at = begin[0] * c.local[1] + begin[1] - t->first;
    }
    clip_to_file(&p, &c);
    return p;
}

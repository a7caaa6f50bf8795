/* Parts of a parameter: how its rows in memory, on one rank or in the whole model, map to rows of checkpoint tensors.
 * All code that reads or writes a parameter by its position in the file uses the stretches computed here. */
#include "parameter_impl.h"

#include <string.h>

void mega_param_set_blocks(mega_param *r, int count)
{
    const int64_t rows = count > 0 ? r->shape[r->cut_dim] / count : 0;
    memset(r->part, 0, sizeof r->part);
    for (int i = 0; i < count && i < MEGA_PARAM_PARTS; i++)
        r->part[i] = (mega_param_part){.rows = rows, .first = i * rows};
    r->num_parts = count;
}

static const char *file_of_part(const mega_param *r, int part)
{
    return r->part[part].file != NULL ? r->part[part].file : r->name;
}

void mega_param_complete_parts(mega_param *r)
{
    if (r->axis == MEGA_AXIS_NONE) r->cut_dim = 0;
    if (r->cut_dim < 0 || r->cut_dim > 1 || r->num_parts < 0 || r->num_parts > MEGA_PARAM_PARTS) return;
    if (r->num_parts == 0) mega_param_set_blocks(r, 1);
    r->num_files = 0;
    for (int i = 0; i < r->num_parts; i++) {
        mega_param_part *part = &r->part[i];
        if (part->file != NULL && strcmp(part->file, r->name) == 0) part->file = NULL;
        r->file_of[i] = r->num_files;
        for (int k = i - 1; k >= 0; k--)
            if (strcmp(file_of_part(r, k), file_of_part(r, i)) == 0) r->file_of[i] = r->file_of[k];
        if (r->file_of[i] == r->num_files) r->num_files++;
    }
}

/* ---- checkpoint tensors ---- */

int mega_param_num_files(const mega_param *r)
{
    return r->num_files > 0 ? r->num_files : 1;
}

const char *mega_param_file_name(const mega_param *r, int file)
{
    for (int i = 0; i < r->num_parts; i++)
        if (r->file_of[i] == file) return file_of_part(r, i);
    return r->name;
}

int64_t mega_param_file_rows(const mega_param *r, int file)
{
    for (int i = 0; i < r->num_parts; i++)
        if (r->file_of[i] == file && r->part[i].of_rows > 0) return r->part[i].of_rows;
    return 0;
}

bool mega_param_shares_file(const mega_param *r, int file)
{
    return r->stack_of > 0 || mega_param_file_rows(r, file) > 0;
}

void mega_param_file_shape(const mega_param *r, int file, int64_t out[2])
{
    out[0] = r->true_shape[0];
    out[1] = r->num_dims == 1 ? 1 : r->true_shape[1];
    const int64_t of_rows = mega_param_file_rows(r, file);
    if (of_rows > 0) out[r->cut_dim] = of_rows;
    if (r->num_parts <= 1 || of_rows > 0) return; /* only parameters of one part may have padding */
    out[r->cut_dim] = 0;
    for (int i = 0; i < r->num_parts; i++)
        if (r->file_of[i] == file) out[r->cut_dim] += r->part[i].rows;
}

static bool stretch_continues(const mega_param_stretch *a, const mega_param_stretch *b)
{
    return a->tensor == b->tensor && a->runs == 1 && b->runs == 1 && b->local == a->local + a->rows &&
           b->whole == a->whole + a->rows && b->file == a->file + a->rows;
}

int mega_param_stretches(const mega_param *r, mega_param_cut cut, mega_param_stretch out[MEGA_PARAM_PARTS])
{
    const mega_param_part all = {.rows = r->shape[r->cut_dim]};
    const int ranks = cut.size > 0 ? cut.size : 1;
    int count = 0;
    int64_t before = 0;
    for (int i = 0; i < (r->num_parts > 0 ? r->num_parts : 1); i++) {
        const mega_param_part *part = r->num_parts > 0 ? &r->part[i] : &all;
        const bool apart = part->block > 0 && part->stride > part->block;
        const int64_t slice = part->rows / ranks, rows = apart ? part->block : slice;
        const int64_t skipped = cut.rank * (slice / rows); /* runs that belong to lower ranks */
        mega_param_stretch s = {.local = before / ranks,
                                .whole = before + cut.rank * slice,
                                .file = part->first + skipped * (apart ? part->stride : rows),
                                .rows = rows,
                                .runs = slice / rows,
                                .stride = apart ? part->stride : 0,
                                .tensor = r->num_parts > 0 ? r->file_of[i] : 0};
        before += part->rows;
        if (count > 0 && stretch_continues(&out[count - 1], &s)) out[count - 1].rows += s.rows;
        else
            out[count++] = s;
    }
    return count;
}

/* ---- checks ---- */

#define LL(x) ((long long)(x))

static bool parts_hold(const mega_param_part *p, int64_t row)
{
    const int64_t at = row - p->first;
    if (p->block == 0) return at >= 0 && at < p->rows;
    return at >= 0 && at / p->stride < p->rows / p->block && at % p->stride < p->block;
}

static mega_status parts_check_shape(const mega_param *r, int64_t ranks)
{
    const char *rows = r->cut_dim == 0 ? "rows" : "columns";
    int64_t sum = 0;
    for (int i = 0; i < r->num_parts; i++) {
        const mega_param_part *p = &r->part[i];
        const bool is_right = p->rows >= 1 && p->rows <= r->shape[r->cut_dim] && p->first >= 0 && p->block >= 0 &&
                              (p->block == 0 ? p->stride == 0 : p->rows % p->block == 0 && p->stride >= p->block);
        if (!is_right)
            return MEGA_MISTAKE(
                "parameter %s: part %d: %lld %s, first %lld, block %lld, stride %lld; expected 1 or more of "
                "the %lld, in whole blocks, that are at least a block apart, or block and stride 0",
                r->name, i, LL(p->rows), rows, LL(p->first), LL(p->block), LL(p->stride), LL(r->shape[r->cut_dim]));
        sum += p->rows;
    }
    if (sum != r->shape[r->cut_dim])
        return MEGA_MISTAKE(
            "parameter %s: its %d parts have %lld %s together, it has %lld; give parts that hold each once", r->name,
            r->num_parts, LL(sum), rows, LL(r->shape[r->cut_dim]));
    for (int i = 0; i < r->num_parts && r->axis != MEGA_AXIS_NONE; i++) {
        const int64_t block = r->part[i].block > 0 ? r->part[i].block : 1;
        if (r->part[i].rows % (block * ranks) == 0) continue;
        return MEGA_MISTAKE(
            "parameter %s: part %d of %d has %lld %s, which cannot be cut over %lld ranks; expected a "
            "multiple of %lld (parts that every rank holds whole, as K and V of fewer heads than ranks, "
            "are not implemented yet)",
            r->name, i, r->num_parts, LL(r->part[i].rows), rows, LL(ranks), LL(block * ranks));
    }
    return MEGA_OK;
}

/* Checks that two parts of one tensor do not overlap. If they do, the first row of a run of one of them is in both. */
static mega_status check_overlap(const mega_param *r, int a, int b)
{
    const mega_param_part *p = &r->part[a];
    const int64_t runs = p->block > 0 ? p->rows / p->block : 1;
    for (int64_t k = 0; k < runs; k++)
        if (parts_hold(&r->part[b], p->first + k * p->stride))
            return MEGA_MISTAKE(
                "parameter %s: parts %d and %d both hold %s %lld of tensor %s; give them other first, block "
                "or stride",
                r->name, a < b ? a : b, a < b ? b : a, r->cut_dim == 0 ? "row" : "column", LL(p->first + k * p->stride),
                file_of_part(r, a));
    return MEGA_OK;
}

/* Checks that the parts leave no hole. Parts that do not overlap and together have as many rows as the tensor leave one
 * only if some part ends beyond the tensor. */
static mega_status check_holes(const mega_param *r, int file)
{
    int64_t shape[2];
    mega_param_file_shape(r, file, shape);
    const int64_t rows = r->num_parts == 1 ? r->shape[r->cut_dim] : shape[r->cut_dim];
    for (int64_t at = 0, next; at < rows; at = next) {
        next = at;
        for (int i = 0; i < r->num_parts && next == at; i++) {
            const mega_param_part *p = &r->part[i];
            if (r->file_of[i] != file || !parts_hold(p, at)) continue;
            next = p->block == 0 ? p->first + p->rows : at - (at - p->first) % p->stride + p->block;
        }
        if (next == at)
            return MEGA_MISTAKE(
                "parameter %s: no part holds %s %lld of the %lld of tensor %s; give first, block and stride "
                "so that the parts hold each once",
                r->name, r->cut_dim == 0 ? "row" : "column", LL(at), LL(rows), mega_param_file_name(r, file));
    }
    return MEGA_OK;
}

/* Checks parts of a tensor that other parameters complete: each says how many rows it has, and ends within them. */
static mega_status check_shared(const mega_param *r, int file)
{
    const int64_t all = mega_param_file_rows(r, file);
    for (int i = 0; i < r->num_parts; i++) {
        const mega_param_part *p = &r->part[i];
        if (r->file_of[i] != file) continue;
        const int64_t runs = p->block > 0 ? p->rows / p->block : 1;
        const int64_t end = p->first + (p->block > 0 ? (runs - 1) * p->stride + p->block : p->rows);
        if (p->of_rows == all && end <= all && p->file != NULL) continue;
        return MEGA_MISTAKE("parameter %s: part %d ends at row %lld of a tensor of %lld rows that it "
                            "shares with other parameters; expected a named tensor, the same of_rows in all its parts, "
                            "and parts within it",
                            r->name, i, LL(end), LL(p->of_rows));
    }
    return MEGA_OK;
}

/* Rejects row numbers so large that they are beyond the end of any tensor that the parts can fill. */
static mega_status check_reach(const mega_param *r)
{
    for (int i = 0; i < r->num_parts; i++) {
        const int64_t most = r->part[i].of_rows > 0 ? r->part[i].of_rows : r->shape[r->cut_dim];
        if (r->part[i].first > most || r->part[i].stride > most)
            return MEGA_MISTAKE("parameter %s: part %d: first %lld, stride %lld; expected at most the %lld %s of the "
                                "parameter",
                                r->name, i, LL(r->part[i].first), LL(r->part[i].stride), LL(most),
                                r->cut_dim == 0 ? "rows" : "columns");
    }
    return MEGA_OK;
}

mega_status mega_param_check_parts(const mega_param *r, int64_t ranks)
{
    if (r->num_parts < 1 || r->num_parts > MEGA_PARAM_PARTS)
        return MEGA_MISTAKE("parameter %s: %d parts; expected 1 to %d, or 0 for 1", r->name, r->num_parts,
                            MEGA_PARAM_PARTS);
    if (r->cut_dim < 0 || r->cut_dim >= r->num_dims)
        return MEGA_MISTAKE("parameter %s: dimension %d of %d is cut; expected one that it has", r->name, r->cut_dim,
                            r->num_dims);
    MEGA_TRY(parts_check_shape(r, ranks));
    MEGA_TRY(check_reach(r));
    if ((r->num_parts > 1 || r->part[0].of_rows > 0) && r->true_shape[r->cut_dim] != r->shape[r->cut_dim])
        return MEGA_FAIL(
            MEGA_ERR_UNSUPPORTED,
            "parameter %s: padding of a parameter in %d parts is not implemented yet; leave padding_rows out", r->name,
            r->num_parts);
    if (r->stack_of < 0 || r->stack_at < 0 || (r->stack_of > 0 ? r->stack_at >= r->stack_of : r->stack_at > 0))
        return MEGA_MISTAKE("parameter %s: place %lld of a stack of %lld; expected 0 or more, below their number",
                            r->name, LL(r->stack_at), LL(r->stack_of));
    if (r->stack_of > 0 &&
        (r->file_dims > 0 || r->true_shape[0] != r->shape[0] || r->part[0].of_rows > 0 || r->part[0].file == NULL))
        return MEGA_MISTAKE("parameter %s: one of a stack in the file with %s; expected parts with the name of the "
                            "stack, and none of the others",
                            r->name,
                            r->file_dims > 0                  ? "file_dims"
                            : r->part[0].file == NULL         ? "no name of it"
                            : r->true_shape[0] != r->shape[0] ? "padding"
                                                              : "of_rows");
    if (r->num_files > 1 && r->file_dims > 0)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "parameter %s: %d file_dims of %d tensors of the file; expected those of one, leave them out",
                         r->name, r->file_dims, r->num_files);
    for (int a = 0; a < r->num_parts; a++)
        for (int b = 0; b < r->num_parts; b++)
            if (a != b && r->file_of[a] == r->file_of[b]) MEGA_TRY(check_overlap(r, a, b));
    for (int f = 0; f < r->num_files; f++)
        MEGA_TRY(mega_param_file_rows(r, f) > 0 ? check_shared(r, f) : check_holes(r, f));
    return MEGA_OK;
}

bool mega_param_parts_equal(const mega_param *a, const mega_param *b)
{
    bool equal = a->num_parts == b->num_parts;
    for (int i = 0; equal && i < a->num_parts && i < MEGA_PARAM_PARTS; i++) {
        const mega_param_part *p = &a->part[i], *q = &b->part[i];
        equal = p->rows == q->rows && p->first == q->first && p->block == q->block && p->stride == q->stride &&
                p->of_rows == q->of_rows && strcmp(file_of_part(a, i), file_of_part(b, i)) == 0;
    }
    return equal;
}

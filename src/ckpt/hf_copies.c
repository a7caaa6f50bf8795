/* Tensors of a folder that stand for another one: which names they have, and whether they agree with it. transformers
 * reads the one that is there, and where both are there and differ it keeps both, whatever config.json says of
 * tying. */
#include "hf_copies.h"
#include "state_impl.h"

#include <stdio.h>
#include <string.h>

static void copy_path(char out[256], const char *path, const char *name, const char *end)
{
    const bool has_path = path != NULL && path[0] != '\0';
    snprintf(out, 256, "%s%s%s%s", has_path ? path : "", has_path ? "." : "", name, end);
}

bool hf_copy_get(const mega_model_shape *shape, int index, hf_copy *out)
{
    static const char *const stack[] = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};
    const mega_family *f = mega_family_of(&shape->net);
    const mega_family_names *n = f->names;
    const char *head = n->head != NULL ? n->head : "lm_head";
    const bool has_head = shape->net.classes == 0 && shape->net.choices == 0 && !shape->net.no_head;
    copy_path(out->original, n->root, n->tokens, ".weight");
    switch (index) {
    case 0: copy_path(out->name, NULL, head, ".weight"); return has_head && !shape->net.untied && !f->is_own;
    case 1:
        copy_path(out->name, NULL, head, ".bias");
        copy_path(out->original, NULL, n->head_bias != NULL ? n->head_bias : "", "");
        return has_head && shape->net.head_bias && n->head_bias != NULL && strcmp(out->name, out->original) != 0 &&
               !f->is_own;
    default: copy_path(out->name, NULL, stack[index - 2], ""); return shape->net.t5 == MEGA_T5_ORIGINAL;
    }
}

bool hf_copy_find(const mega_model_shape *shape, const char *name, hf_copy *out)
{
    for (int i = 0; i < HF_COPIES; i++)
        if (hf_copy_get(shape, i, out) && strcmp(out->name, name) == 0) return true;
    return false;
}

static bool are_equal(const mega_safetensor *a, mega_dtype at, const mega_safetensor *b, mega_dtype bt)
{
    enum { BLOCK = 512 };
    double x[BLOCK], y[BLOCK];
    const size_t as = mega_dtype_size(at), bs = mega_dtype_size(bt), n = (size_t)(a->end - a->begin) / as;
    for (size_t i = 0; i < n; i += BLOCK) {
        const int64_t m = n - i < BLOCK ? (int64_t)(n - i) : BLOCK;
        mega_state_convert(x, MEGA_F64, a->data + i * as, at, m);
        mega_state_convert(y, MEGA_F64, b->data + i * bs, bt, m);
        for (int64_t k = 0; k < m; k++)
            if (!(x[k] == y[k])) return false;
    }
    return true;
}

bool hf_copy_is_equal(const mega_safetensor *a, const mega_safetensor *b)
{
    mega_dtype at, bt;
    if (a->num_dims != b->num_dims || !mega_st_dtype_to_mega(a->dtype, &at) || !mega_st_dtype_to_mega(b->dtype, &bt))
        return false;
    for (int d = 0; d < a->num_dims; d++)
        if (a->shape[d] != b->shape[d]) return false;
    if (a->dtype == b->dtype && memcmp(a->data, b->data, (size_t)(a->end - a->begin)) == 0) return true;
    return are_equal(a, at, b, bt);
}

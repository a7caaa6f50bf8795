/* A mixture of experts that begins with the weights of a dense model: which of its tensors each parameter is read from
 * (Komatsuzaki et al. 2022, He et al. 2024). */
#include "checkpoint_impl.h"
#include <string.h>

void mega_checkpoint_begin_mixture(mega_checkpoint *c, const mega_family *mixture, mega_params *dense)
{
    mega_params_destroy(c->dense);
    c->mixture = mixture;
    c->dense = dense;
}

/* Both have the same rows in memory, whatever their families call the files and however rows lie in these. Which rank
 * holds which part is that of the mixture. */
static void source_take_files(mega_param *p, const mega_param *dense)
{
    memcpy(p->name, dense->name, sizeof p->name);
    memcpy(p->part, dense->part, sizeof p->part);
    memcpy(p->file_of, dense->file_of, sizeof p->file_of);
    memcpy(p->file_dim, dense->file_dim, sizeof p->file_dim);
    p->num_parts = dense->num_parts;
    p->num_files = dense->num_files;
    p->file_dims = dense->file_dims;
    p->transposed_in_file = dense->transposed_in_file;
    p->stack_at = p->stack_of = 0;
}

mega_status mega_checkpoint_source(const mega_checkpoint *c, const mega_param *p, mega_param *out, bool *is_kept)
{
    char name[MEGA_PARAM_NAME];
    *out = *p;
    *is_kept = false;
    const mega_family *f = mega_family_of(&c->shape.net);
    const bool is_known = mega_family_dense_name(c->mixture, f, p->name, name);
    *is_kept = is_known && name[0] == '\0';
    if (*is_kept) return MEGA_OK;
    const int index = is_known ? mega_params_find(c->dense, name) : -1;
    const mega_param *dense = index >= 0 ? mega_params_get(c->dense, index) : NULL;
    if (dense == NULL || dense->shape[0] != p->shape[0] || dense->shape[1] != p->shape[1])
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "%s: a %s has nothing of the size of %s, a parameter of a %s; expected a dense model of the "
                         "same network",
                         c->folder, f->model_type, p->name, c->mixture->model_type);
    source_take_files(out, dense);
    return MEGA_OK;
}

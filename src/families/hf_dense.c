/* Names of a dense model's parameters from those of a mixture of experts of the same network, for a mixture that begins
 * with the weights of a dense model (He et al. 2024). */
#include "hf_impl.h"
#include "megalith/option.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DENSE_NAME = 2 * MEGA_PARAM_NAME };

/* A parameter, or the beginning of the names of some, in both families. dense NULL: the dense model has none. */
typedef struct name_pair {
    const char *mixture, *dense;
} name_pair;

/* Returns the rest of a name that is `pattern`, or goes on with a dot after it; NULL: it is another. # in the pattern
 * is any number. */
static const char *rest_after(const char *pattern, const char *name)
{
    if (pattern == NULL || pattern[0] == '\0') return NULL;
    for (; *pattern != '\0'; pattern++) {
        const size_t digits = *pattern == '#' ? strspn(name, "0123456789") : 0;
        if (digits == 0 && *pattern != *name) return NULL;
        name += digits > 0 ? digits : 1;
    }
    return *name == '.' || *name == '\0' ? name : NULL;
}

/* Writes the dense name of a parameter that follows a path, which is `path` in the dense model. Returns false if none
 * of the pairs is that of the parameter. */
static bool name_by_pairs(const name_pair *pairs, size_t count, const char *path, const char *name,
                          char out[MEGA_PARAM_NAME])
{
    for (size_t i = 0; i < count; i++) {
        const char *rest = rest_after(pairs[i].mixture, name);
        if (rest == NULL) continue;
        out[0] = '\0';
        if (pairs[i].dense == NULL) return true;
        const int size =
            snprintf(out, MEGA_PARAM_NAME, "%s%s%s%s", path, path[0] != '\0' ? "." : "", pairs[i].dense, rest);
        return size < MEGA_PARAM_NAME;
    }
    return false;
}

/* Parameters of attention: Q, K and V are one or three, and the norms of queries and keys have one name in all
 * families. */
static bool name_in_attention(const mega_family_names *m, const mega_family_names *d, const char *path, const char *at,
                              char out[MEGA_PARAM_NAME])
{
    const char *const of[][3] = {{m->qkv, d->qkv, ""},    {m->qkv, d->qkv, "_q"}, {m->qkv, d->qkv, "_k"},
                                 {m->qkv, d->qkv, "_v"},  {m->out, d->out, ""},   {"q_norm", "q_norm", ""},
                                 {"k_norm", "k_norm", ""}};
    for (size_t i = 0; i < MEGA_COUNT(of); i++) {
        char mixture[DENSE_NAME], dense[DENSE_NAME];
        snprintf(mixture, sizeof mixture, "%s.%s%s", m->attention, of[i][0], of[i][2]);
        snprintf(dense, sizeof dense, "%s.%s%s", d->attention, of[i][1], of[i][2]);
        if (name_by_pairs(&(name_pair){mixture, dense}, 1, path, at, out)) return true;
    }
    return false;
}

/* `at`: the name of a parameter of layer `layer`, after the path of the layer. */
static bool name_in_block(const mega_family_names *m, const mega_family_names *d, int layer, const char *at,
                          char out[MEGA_PARAM_NAME])
{
    char path[DENSE_NAME];
    const name_pair pairs[] = {{m->norm_1, d->norm_1},   {m->norm_2, d->norm_2},    {m->after_1, d->after_1},
                               {m->after_2, d->after_2}, {m->sinks, d->sinks},      {m->router, NULL},
                               {m->expert_up, d->up},    {m->expert_down, d->down}, {m->up, d->up},
                               {m->down, d->down},       {m->blend, NULL},          {m->shared_up, d->up},
                               {m->shared_down, d->down}};
    snprintf(path, sizeof path, "%.*s%d", (int)strcspn(d->block, "%"), d->block, layer);
    return name_by_pairs(pairs, MEGA_COUNT(pairs), path, at, out) || name_in_attention(m, d, path, at, out);
}

bool mega_family_dense_name(const mega_family *mixture, const mega_family *dense, const char *name,
                            char out[MEGA_PARAM_NAME])
{
    const mega_family_names *m = mixture->names, *d = dense->names;
    const name_pair of_root[] = {
        {m->tokens, d->tokens}, {m->positions, d->positions}, {m->embedding_norm, d->embedding_norm}};
    const name_pair of_end[] = {{m->final_norm, d->final_norm}, {m->head, d->head}, {m->tied, d->tied}};
    const size_t block = strcspn(m->block, "%"), root = strlen(m->root), end = strlen(m->end);
    if (strncmp(name, m->block, block) == 0) {
        char *after;
        const long layer = strtol(name + block, &after, 10);
        return after > name + block && *after == '.' && name_in_block(m, d, (int)layer, after + 1, out);
    }
    if (strncmp(name, m->root, root) == 0 && name[root] == '.' &&
        name_by_pairs(of_root, MEGA_COUNT(of_root), d->root, name + root + 1, out))
        return true;
    if (end == 0) return name_by_pairs(of_end, MEGA_COUNT(of_end), d->end, name, out);
    return strncmp(name, m->end, end) == 0 && name[end] == '.' &&
           name_by_pairs(of_end, MEGA_COUNT(of_end), d->end, name + end + 1, out);
}

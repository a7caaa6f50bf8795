/* Finds families, and what belongs to them. */
#include "hf_impl.h"
#include <string.h>

const mega_family *mega_family_find(const char *model_type)
{
    for (int i = 0; model_type != NULL && mega_families[i] != NULL; i++)
        if (strcmp(mega_families[i]->model_type, model_type) == 0) return mega_families[i];
    return NULL;
}

const mega_family *mega_family_of(const mega_network_shape *net)
{
    return net->family != NULL ? net->family : &mega_family_gpt2;
}

bool mega_family_matches(const char *pattern, const char *text)
{
    if (*pattern == '\0') return *text == '\0';
    if (*pattern == '*') {
        for (const char *t = text;; t++) {
            if (mega_family_matches(pattern + 1, t)) return true;
            if (*t == '\0') return false;
        }
    }
    if (*pattern == '#') {
        const size_t digits = strspn(text, "0123456789");
        return digits > 0 && mega_family_matches(pattern + 1, text + digits);
    }
    return *pattern == *text && mega_family_matches(pattern + 1, text + 1);
}

bool mega_family_has_key(const mega_family *f, const char *key)
{
    for (int t = 0; f->keys[t] != NULL; t++)
        for (const mega_family_key *k = f->keys[t]; k->key != NULL; k++)
            if (strcmp(k->key, key) == 0 && k->kind != MEGA_KEY_FIXED) return true;
    return false;
}

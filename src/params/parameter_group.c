/* Groups of parameters by pattern (parameter_group.h): reading them, and setting the members of records. */
#include "megalith/parameter_group.h"
#include "megalith/memory.h"
#include "parameter_impl.h"

#include <fnmatch.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct group {
    char text[2 * MEGA_PARAM_NAME]; /* pattern, 0, settings */
    const char *settings;
    bool is_regex, has_matched;
    enum { UNCHANGED, FROZEN, TRAINED } training;
    regex_t regex;
    double lr, lr_scale, weight_decay; /* NAN: not set */
} group;

struct mega_param_groups {
    size_t count;
    group item[];
};

static mega_status group_fail(const char *text, const char *problems)
{
    return MEGA_MISTAKE("parameter group \"%s\": %s; expected PATTERN:SETTING,… with lr=X, lr_scale=X, weight_decay=X, "
                        "frozen or trained, such as \"*.bias:lr=1e-4,weight_decay=0\"",
                        text, problems);
}

/* What is wrong with a group, all of it. */
typedef struct group_mistakes {
    char text[512];
} group_mistakes;

static void group_add_mistake(group_mistakes *m, const char *problem, const char *found)
{
    const size_t used = strlen(m->text);
    snprintf(m->text + used, sizeof m->text - used, "%s%s%.100s", used > 0 ? ", " : "", problem, found);
}

/* Returns whether the setting has this name; its number is then read or a mistake. */
static bool group_read_number(group_mistakes *m, const char *setting, const char *name, double *out)
{
    const size_t length = strlen(name);
    char *end;
    if (strncmp(setting, name, length) != 0 || setting[length] != '=') return false;
    const double value = strtod(setting + length + 1, &end);
    const bool is_number = end != setting + length + 1 && *end == '\0' && isfinite(value) && value >= 0;
    if (!is_number) group_add_mistake(m, "found ", setting);
    else if (!isnan(*out))
        group_add_mistake(m, "it is set twice: ", name);
    else
        *out = value;
    return true;
}

static void read_setting(group *g, group_mistakes *m, const char *setting)
{
    const bool is_frozen = strcmp(setting, "frozen") == 0;
    if (is_frozen || strcmp(setting, "trained") == 0) {
        if (g->training != UNCHANGED) group_add_mistake(m, "frozen or trained is set twice", "");
        g->training = is_frozen ? FROZEN : TRAINED;
        return;
    }
    if (!group_read_number(m, setting, "lr", &g->lr) && !group_read_number(m, setting, "lr_scale", &g->lr_scale) &&
        !group_read_number(m, setting, "weight_decay", &g->weight_decay))
        group_add_mistake(m, "found ", setting);
}

static void check_settings(const group *g, group_mistakes *m)
{
    if (g->lr == 0 || g->lr_scale == 0)
        group_add_mistake(m, "a learning rate of 0; frozen does not train parameters: found ",
                          g->lr == 0 ? "lr=0" : "lr_scale=0");
    if (!isnan(g->lr) && !isnan(g->lr_scale)) group_add_mistake(m, "it has both lr and lr_scale", "");
    if (g->training == FROZEN && !(isnan(g->lr) && isnan(g->lr_scale) && isnan(g->weight_decay)))
        group_add_mistake(m, "frozen parameters have no learning rate and no weight decay", "");
}

static void read_pattern(group *g, group_mistakes *m)
{
    char why[128];
    g->is_regex = strncmp(g->text, "re:", 3) == 0;
    if (g->text[0] == '\0' || (g->is_regex && g->text[3] == '\0')) {
        g->is_regex = false; /* nothing to free */
        group_add_mistake(m, "it has no pattern", "");
    }
    if (!g->is_regex) return;
    const int failed = regcomp(&g->regex, g->text + 3, REG_EXTENDED | REG_NOSUB);
    if (failed == 0) return;
    regerror(failed, &g->regex, why, sizeof why);
    g->is_regex = false; /* nothing to free */
    group_add_mistake(m, "its regular expression has a mistake: ", why);
}

/* The settings begin after the last colon, since a regular expression may contain others. */
static mega_status read_group(group *g, const char *text)
{
    group_mistakes m = {.text = ""};
    char *rest;
    *g = (group){.lr = NAN, .lr_scale = NAN, .weight_decay = NAN};
    if (strlen(text) >= sizeof g->text) return group_fail(text, "it is too long");
    memcpy(g->text, text, strlen(text) + 1);
    char *colon = strrchr(g->text, ':');
    if (colon == NULL || colon[1] == '\0') return group_fail(text, "it has no settings");
    *colon = '\0';
    char settings[sizeof g->text];
    memcpy(settings, colon + 1, strlen(colon + 1) + 1);
    rest = settings;
    for (char *s; (s = strsep(&rest, ",")) != NULL;) read_setting(g, &m, s);
    check_settings(g, &m);
    read_pattern(g, &m);
    if (m.text[0] == '\0') return MEGA_OK;
    if (g->is_regex) regfree(&g->regex);
    g->is_regex = false;
    return group_fail(text, m.text);
}

static void group_free(group *g)
{
    if (g->is_regex) regfree(&g->regex);
}

mega_status mega_param_group_check(const char *text)
{
    group g;
    MEGA_TRY(read_group(&g, text));
    group_free(&g);
    return MEGA_OK;
}

mega_status mega_param_groups_create(const char *const *text, size_t count, double lr, mega_param_groups **out)
{
    *out = NULL;
    if (count == 0) return MEGA_OK;
    mega_param_groups *g = mega_calloc(1, sizeof *g + count * sizeof *g->item);
    if (g == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "parameters: no memory for %zu groups", count);
    mega_status st = MEGA_OK;
    for (; g->count < count && st == MEGA_OK; g->count++) {
        group *x = &g->item[g->count];
        st = read_group(x, text[g->count]);
        if (st != MEGA_OK || isnan(x->lr)) continue;
        if (!(lr > 0)) st = group_fail(text[g->count], "its lr needs a learning rate of the training (--lr)");
        x->lr_scale = x->lr / lr;
    }
    if (st == MEGA_OK) *out = g;
    else
        mega_param_groups_destroy(g);
    return st;
}

void mega_param_groups_destroy(mega_param_groups *g)
{
    for (size_t i = 0; g != NULL && i < g->count; i++) group_free(&g->item[i]);
    mega_free(g);
}

static bool matches(const group *g, const char *name)
{
    return g->is_regex ? regexec(&g->regex, name, 0, NULL, 0) == 0 : fnmatch(g->text, name, 0) == 0;
}

void mega_param_groups_apply(mega_param_groups *g, mega_param *r)
{
    for (size_t i = 0; g != NULL && i < g->count && !r->is_buffer; i++) {
        group *x = &g->item[i];
        if (!matches(x, r->name)) continue;
        x->has_matched = true;
        if (x->training != UNCHANGED) r->is_frozen = x->training == FROZEN;
        if (!isnan(x->lr_scale)) r->lr_scale = x->lr_scale;
        if (isnan(x->weight_decay)) continue;
        r->weight_decay = x->weight_decay > 0;
        r->own_decay = x->weight_decay;
    }
}

mega_status mega_param_groups_check(const mega_param_groups *g, const mega_params *whole)
{
    const int count = mega_params_count(whole);
    if (g == NULL || count == 0) return MEGA_OK;
    char patterns[512] = "";
    int unmatched = 0;
    for (size_t i = 0; i < g->count; i++) {
        const size_t used = strlen(patterns);
        if (g->item[i].has_matched) continue;
        snprintf(patterns + used, sizeof patterns - used, "%s\"%.100s\"", unmatched++ > 0 ? ", " : "", g->item[i].text);
    }
    if (unmatched > 0)
        return MEGA_MISTAKE(
            "parameter group: the pattern%s %s match%s no parameter of the model; its %d names are like "
            "\"%s\" and \"%s\"",
            unmatched > 1 ? "s" : "", patterns, unmatched > 1 ? "" : "es", count, mega_params_get(whole, 0)->name,
            mega_params_get(whole, count / 2)->name);
    for (int i = 0; i < count; i++)
        if (mega_param_is_trained(mega_params_get(whole, i))) return MEGA_OK;
    return MEGA_MISTAKE("parameter groups: all parameters are frozen; leave some to train");
}

void mega_params_set_groups(mega_params *p, mega_param_groups *g)
{
    p->groups = g;
}

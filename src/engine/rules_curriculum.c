/* Rules of the curriculum of sequence length. */
#include "megalith/engine_settings.h"

#include <string.h>

#define OF(kind) (1U << MEGA_CURRICULUM_##kind)
#define GROWING  (OF(LINEAR) | OF(ROOT)) /* by a formula */
#define STAIRS   OF(DISCRETE)

/* Which schedules read a detail, and which need it. */
static const struct {
    const char *dest;
    unsigned read_by, needed_by;
    const char *what;
} details[] = {
    {"curriculum_min_difficulty", GROWING, GROWING, "the tokens of a sample before the first step"},
    {"curriculum_max_difficulty", GROWING, 0, ""},
    {"curriculum_total_steps", GROWING, GROWING, "the steps in which it grows"},
    {"curriculum_difficulty_step", GROWING, 0, ""},
    {"curriculum_root_degree", OF(ROOT), OF(ROOT), "which root; 2 is the square root"},
    {"curriculum_difficulty", STAIRS, STAIRS, "the tokens of a sample on each stair"},
    {"curriculum_max_step", STAIRS, 0, ""},
};

/* DeepSpeed asks for both difficulties in every JSON. With stairs they change nothing while the first is below the
 * second and no stair is above that. */
static bool is_formality(const mega_engine_settings *s, const mega_curriculum *c, const char *dest)
{
    const bool is_asked =
        strcmp(dest, "curriculum_min_difficulty") == 0 || strcmp(dest, "curriculum_max_difficulty") == 0;
    return is_asked && c->kind == MEGA_CURRICULUM_DISCRETE && mega_options_says(s->options, dest, MEGA_SET_BY_JSON) &&
           c->least < c->most && c->stairs > 0 && mega_curriculum_difficulty(c, INT64_MAX) <= c->most;
}

/* Returns whether each stair but the last has a last step. */
static bool curriculum_check_counts(mega_engine_settings *s)
{
    const char *const dest[] = {"curriculum_difficulty", "curriculum_max_step"};
    const size_t stairs = s->optim.curriculum_difficulty.count, steps = s->optim.curriculum_max_step.count;
    if (stairs == steps + 1) return true;
    mega_options_mistake(
        s->options, "%s: found %zu numbers, and %zu of %s; expected one last step (%s) for each stair but the last",
        mega_options_origin(s->options, dest[0]), stairs, steps, mega_options_spelling(s->options, dest[1]),
        steps > 0 ? mega_options_origin(s->options, dest[1]) : "there is none");
    return false;
}

/* Returns whether the first length of a formula can be read. A number outside of its range was reported as it was
 * read. */
static bool check_growth(mega_engine_settings *s, const mega_curriculum *c)
{
    if (c->least < 1 || c->unit < 1 || c->steps < 1 || c->most < 0) return false;
    if (c->kind == MEGA_CURRICULUM_ROOT && c->degree < 1) return false;
    if (c->most != 0 && c->most < c->least)
        mega_options_mistake(s->options, "%s: expected at least the length at the start, %s",
                             mega_options_origin(s->options, "curriculum_max_difficulty"),
                             mega_options_origin(s->options, "curriculum_min_difficulty"));
    else if (c->unit > c->least)
        mega_options_mistake(s->options,
                             "%s: the first steps would read no token of a sample, because lengths are rounded down to "
                             "a multiple of %lld (%s); raise the first or lower the second",
                             mega_options_origin(s->options, "curriculum_min_difficulty"), (long long)c->unit,
                             mega_options_spelling(s->options, "curriculum_difficulty_step"));
    else
        return true;
    return false;
}

void mega_engine_rule_curriculum(mega_engine_settings *s)
{
    const mega_optim_options *o = &s->optim;
    const unsigned kind = 1U << o->curriculum_schedule;
    bool is_complete = true;
    mega_curriculum c;
    if (!o->curriculum_learning || mega_options_is_wrong(s->options, "curriculum_schedule")) return;
    mega_curriculum_from_options(o, &c);
    for (size_t i = 0; i < MEGA_COUNT(details); i++) {
        const bool is_given = mega_options_is_given(s->options, details[i].dest);
        if (is_given && (details[i].read_by & kind) == 0 && s->rank == 0 && !is_formality(s, &c, details[i].dest))
            mega_options_warn(s->options, "%s has no effect with a curriculum of %s",
                              mega_options_origin(s->options, details[i].dest), mega_curriculum_name(c.kind));
        if (is_given || (details[i].needed_by & kind) == 0) continue;
        is_complete = false;
        mega_options_mistake(s->options, "missing: %s, %s (a curriculum of %s)",
                             mega_options_spelling(s->options, details[i].dest), details[i].what,
                             mega_curriculum_name(c.kind));
    }
    if (is_complete)
        is_complete = c.kind == MEGA_CURRICULUM_DISCRETE ? curriculum_check_counts(s) : check_growth(s, &c);
    if (is_complete && mega_curriculum_check(&c, 0) != MEGA_OK) mega_options_add_mistake(s->options, MEGA_ERR_USAGE);
}

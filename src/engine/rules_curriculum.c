/* Rules of the curriculum of sequence length. */
#include "megalith/engine_settings.h"

/* Which schedules read a detail (bit 1 << mega_curriculum_kind), and which need it. */
static const struct {
    const char *dest;
    unsigned read_by, needed_by;
    const char *what;
} details[] = {
    {"curriculum_min_difficulty", 3, 3, "the tokens of a sample before the first step"},
    {"curriculum_max_difficulty", 3, 0, ""},
    {"curriculum_total_steps", 3, 3, "the steps in which it grows"},
    {"curriculum_difficulty_step", 3, 0, ""},
    {"curriculum_root_degree", 2, 2, "which root; 2 is the square root"},
    {"curriculum_difficulty", 4, 4, "the tokens of a sample on each stair"},
    {"curriculum_max_step", 4, 0, ""},
};

void mega_engine_rule_curriculum(mega_engine_settings *s)
{
    static const char *const name[] = {"fixed_linear", "fixed_root", "fixed_discrete"};
    const mega_optim_options *o = &s->optim;
    const unsigned kind = 1U << o->curriculum_schedule;
    bool is_complete = true;
    mega_curriculum c;
    if (!o->curriculum_learning) return;
    for (size_t i = 0; i < MEGA_COUNT(details); i++) {
        const bool is_given = mega_options_is_given(s->options, details[i].dest);
        if (is_given && (details[i].read_by & kind) == 0 && s->rank == 0)
            mega_options_warn(s->options, "%s has no effect with a curriculum of %s",
                              mega_options_origin(s->options, details[i].dest), name[o->curriculum_schedule]);
        if (is_given || (details[i].needed_by & kind) == 0) continue;
        is_complete = false;
        mega_options_problem(s->options, MEGA_ERR_USAGE, "missing: %s, %s (a curriculum of %s)",
                             mega_options_spelling(s->options, details[i].dest), details[i].what,
                             name[o->curriculum_schedule]);
    }
    mega_curriculum_from_options(o, &c);
    if (is_complete && mega_curriculum_check(&c, 0) != MEGA_OK) mega_options_add_mistake(s->options, MEGA_ERR_USAGE);
}

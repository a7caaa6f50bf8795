/* The length of samples over a training (DeepSpeed's curriculum of the kind seqlen), and what a training consumes while
 * lengths and batch sizes change; with the options of the curriculum. */
#include "megalith/optim_options.h"
#include "megalith/schedule.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define ROW(name, field, kind) MEGA_OPTION(mega_optim_options, name, field, kind)
#define JSON                   "curriculum_learning."

// clang-format off
static const mega_option_row curriculum_rows[] = {
    {ROW("curriculum-learning", curriculum_learning, MEGA_OPTION_FLAG), .json = JSON "enabled", .resume = MEGA_RESUME_REPORTED, .help = "train on the first tokens of each sample, first on few, then on more and more; the other --curriculum-* options say how many when"},
    {ROW("curriculum-schedule", curriculum_schedule, MEGA_OPTION_CHOICE), .json = JSON "schedule_type", .fallback = "fixed_linear", .choices = "fixed_linear|fixed_root|fixed_discrete", .not_implemented = "custom", .resume = MEGA_RESUME_REPORTED, .help = "how the number of tokens grows over --curriculum-total-steps: as the step, as a root of it, or by the stairs of --curriculum-difficulty"},
    {ROW("curriculum-min-difficulty", curriculum_min_difficulty, MEGA_OPTION_INT), .json = JSON "min_difficulty", .range = MEGA_RANGE_POSITIVE, .most = MEGA_CURRICULUM_MOST, .resume = MEGA_RESUME_REPORTED, .help = "tokens of a sample before the first step"},
    {ROW("curriculum-max-difficulty", curriculum_max_difficulty, MEGA_OPTION_INT), .json = JSON "max_difficulty", .range = MEGA_RANGE_POSITIVE, .most = MEGA_CURRICULUM_MOST, .resume = MEGA_RESUME_REPORTED, .help = "tokens of a sample at the end, --seq-length when not given; a sample never has more than --seq-length"},
    {ROW("curriculum-total-steps", curriculum_total_steps, MEGA_OPTION_INT), .json = JSON "schedule_config.total_curriculum_step", .range = MEGA_RANGE_POSITIVE, .most = MEGA_CURRICULUM_MOST, .resume = MEGA_RESUME_REPORTED, .help = "fixed_linear and fixed_root: optimizer steps in which it grows"},
    {ROW("curriculum-difficulty-step", curriculum_difficulty_step, MEGA_OPTION_INT), .json = JSON "schedule_config.difficulty_step", .fallback = "8", .range = MEGA_RANGE_POSITIVE, .most = MEGA_CURRICULUM_MOST, .resume = MEGA_RESUME_REPORTED, .help = "fixed_linear and fixed_root: it is rounded down to a multiple of this"},
    {ROW("curriculum-root-degree", curriculum_root_degree, MEGA_OPTION_INT), .json = JSON "schedule_config.root_degree", .range = MEGA_RANGE_POSITIVE, .most = MEGA_CURRICULUM_MOST, .resume = MEGA_RESUME_REPORTED, .help = "fixed_root: which root; 2 is the square root"},
    {ROW("curriculum-difficulty", curriculum_difficulty, MEGA_OPTION_LIST), .json = JSON "schedule_config.difficulty", .resume = MEGA_RESUME_REPORTED, .help = "fixed_discrete: the tokens of a sample on each stair"},
    {ROW("curriculum-max-step", curriculum_max_step, MEGA_OPTION_LIST), .json = JSON "schedule_config.max_step", .resume = MEGA_RESUME_REPORTED, .help = "fixed_discrete: the last step of each stair but the last"},
};
const mega_option_section mega_optim_curriculum_section = MEGA_SECTION("curriculum of sequence length", curriculum_rows);
// clang-format on

const char *mega_curriculum_name(mega_curriculum_kind kind)
{
    static const char *const name[] = {[MEGA_CURRICULUM_LINEAR] = "fixed_linear",
                                       [MEGA_CURRICULUM_ROOT] = "fixed_root",
                                       [MEGA_CURRICULUM_DISCRETE] = "fixed_discrete"};
    _Static_assert(MEGA_COUNT(name) == MEGA_CURRICULUM_COUNT, "each kind has its name");
    return (size_t)kind < MEGA_CURRICULUM_COUNT ? name[kind] : "unknown";
}

void mega_curriculum_from_options(const mega_optim_options *o, mega_curriculum *out)
{
    *out = (mega_curriculum){.is_on = o->curriculum_learning,
                             .kind = o->curriculum_schedule,
                             .least = o->curriculum_min_difficulty,
                             .most = o->curriculum_max_difficulty,
                             .steps = o->curriculum_total_steps,
                             .unit = o->curriculum_difficulty_step,
                             .degree = o->curriculum_root_degree,
                             .difficulty = o->curriculum_difficulty.item,
                             .max_step = o->curriculum_max_step.item,
                             .stairs = (int64_t)o->curriculum_difficulty.count};
    /* a list of another length makes no stairs, which mega_curriculum_check refuses */
    if (o->curriculum_max_step.count + 1 != o->curriculum_difficulty.count) out->stairs = 0;
}

/* Returns a number of a list; 0 if it is none in range. */
static int64_t stair_of(const char **list, int64_t i)
{
    char *end;
    errno = 0;
    const long long value = strtoll(list[i], &end, 10);
    const bool is_number = end != list[i] && *end == '\0' && errno == 0;
    return is_number && value > 0 && value <= MEGA_CURRICULUM_MOST ? value : 0;
}

static mega_status check_stairs(const mega_curriculum *c)
{
    if (c->stairs < 1)
        return MEGA_MISTAKE("--curriculum-difficulty and --curriculum-max-step: a curriculum of stairs has at "
                            "least one difficulty, and a last step for each but the last");
    if (c->difficulty == NULL || (c->stairs > 1 && c->max_step == NULL))
        return MEGA_MISTAKE("curriculum.%s is NULL; curriculum.stairs %lld; give a list of as many%s",
                            c->difficulty == NULL ? "difficulty" : "max_step", (long long)c->stairs,
                            c->difficulty == NULL ? "" : " but one");
    for (int64_t i = 0; i < c->stairs; i++) {
        const int64_t now = stair_of(c->difficulty, i);
        if (now == 0 || (i > 0 && now < stair_of(c->difficulty, i - 1)))
            return MEGA_MISTAKE(
                "--curriculum-difficulty: number %lld is %s; expected 1 to %d, and no fewer than before",
                (long long)i + 1, c->difficulty[i], MEGA_CURRICULUM_MOST);
        if (i + 1 == c->stairs) break;
        const int64_t last = stair_of(c->max_step, i);
        if (last == 0 || (i > 0 && last <= stair_of(c->max_step, i - 1)))
            return MEGA_MISTAKE(
                "--curriculum-max-step: number %lld is %s; expected 1 to %d, and a later step than before",
                (long long)i + 1, c->max_step[i], MEGA_CURRICULUM_MOST);
    }
    return MEGA_OK;
}

static mega_status check_numbers(const mega_curriculum *c)
{
    const struct {
        const char *name;
        int64_t value;
        bool is_read;
    } number[] = {{"least", c->least, true},
                  {"steps", c->steps, true},
                  {"unit", c->unit, true},
                  {"degree", c->degree, c->kind == MEGA_CURRICULUM_ROOT}};
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (number[i].is_read && (number[i].value < 1 || number[i].value > MEGA_CURRICULUM_MOST))
            return MEGA_MISTAKE("curriculum.%s %lld; expected 1 to %d", number[i].name, (long long)number[i].value,
                                MEGA_CURRICULUM_MOST);
    if (c->most != 0 && (c->most < c->least || c->most > MEGA_CURRICULUM_MOST))
        return MEGA_MISTAKE("curriculum.most %lld; expected curriculum.least (%lld) to %d, or 0", (long long)c->most,
                            (long long)c->least, MEGA_CURRICULUM_MOST);
    return MEGA_OK;
}

mega_status mega_curriculum_check(const mega_curriculum *c, int64_t positions)
{
    if (!c->is_on) return MEGA_OK;
    if ((unsigned)c->kind >= MEGA_CURRICULUM_COUNT)
        return MEGA_MISTAKE("curriculum.kind %d: no kind of curriculum; expected 0 to %d", (int)c->kind,
                            MEGA_CURRICULUM_COUNT - 1);
    if (c->kind == MEGA_CURRICULUM_DISCRETE) return check_stairs(c);
    MEGA_TRY(check_numbers(c));
    if (c->most == 0 && positions > 0 && c->least > positions)
        return MEGA_MISTAKE("--curriculum-min-difficulty %lld: expected at most the %lld positions of a sample",
                            (long long)c->least, (long long)positions);
    if ((c->most > 0 || positions > 0) && mega_curriculum_length(c, positions > 0 ? positions : c->most, 1) < 1)
        return MEGA_MISTAKE(
            "--curriculum-min-difficulty %lld, --curriculum-difficulty-step %lld: the first steps would "
            "read 0 positions of a "
            "sample, because their number is rounded down to a multiple of the second; raise the first "
            "or lower the second",
            (long long)c->least, (long long)c->unit);
    return MEGA_OK;
}

int64_t mega_curriculum_difficulty(const mega_curriculum *c, int64_t step)
{
    if (c->kind == MEGA_CURRICULUM_DISCRETE) {
        int64_t i = 0;
        while (i + 1 < c->stairs && step > stair_of(c->max_step, i)) i++;
        return stair_of(c->difficulty, i);
    }
    const double degree = c->kind == MEGA_CURRICULUM_ROOT ? (double)c->degree : 1.0;
    const double part = pow((double)step / (double)c->steps, 1.0 / degree);
    const double grown = floor(part * (double)(c->most - c->least) + (double)c->least);
    if (!(grown < (double)(c->most + c->unit))) return c->most; /* also past any int64_t */
    const int64_t length = (int64_t)grown - (int64_t)grown % c->unit;
    return length < c->most ? length : c->most;
}

int64_t mega_curriculum_length(const mega_curriculum *c, int64_t positions, int64_t step)
{
    if (!c->is_on) return positions;
    mega_curriculum whole = *c;
    if (whole.most == 0) whole.most = positions;
    const int64_t length = mega_curriculum_difficulty(&whole, step);
    return length < positions ? length : positions;
}

int64_t mega_curriculum_same_until(const mega_curriculum *c, int64_t positions, int64_t step)
{
    const int64_t length = mega_curriculum_length(c, positions, step);
    int64_t same = step, other = INT64_MAX;
    if (mega_curriculum_length(c, positions, other) == length) return other;
    for (int64_t ahead = 1; ahead < INT64_MAX / 2 - step; ahead *= 2) {
        if (mega_curriculum_length(c, positions, step + ahead) != length) {
            other = step + ahead;
            break;
        }
        same = step + ahead;
    }
    while (other - same > 1) {
        const int64_t middle = same + (other - same) / 2;
        *(mega_curriculum_length(c, positions, middle) == length ? &same : &other) = middle;
    }
    return same;
}

/* Returns how many steps of `each` it takes from `now` on to reach `until`. */
static int64_t steps_until(int64_t now, int64_t until, int64_t each)
{
    return until > now ? 1 + (until - now - 1) / each : 0;
}

mega_consumed mega_consumed_after(const mega_curriculum *c, const mega_batch_ramp *r, int64_t positions,
                                  int64_t samples, int64_t tokens)
{
    const int64_t most = (int64_t)1 << 60; /* far from an overflow */
    mega_consumed now = {0};
    if (positions > 0 && samples > most / positions) samples = most / positions;
    if (tokens > most) tokens = most;
    while (now.samples < samples || now.tokens < tokens) {
        const int64_t batch = mega_batch_ramp_at(r, now.samples);
        const int64_t length = mega_curriculum_length(c, positions, now.steps + 1);
        int64_t steps = 1;
        if (batch < 1 || length < 1) break; /* options that a rule refuses */
        if (batch == r->global_batch) {     /* all steps of this length at once */
            const int64_t of_length = mega_curriculum_same_until(c, positions, now.steps + 1) - now.steps;
            const int64_t of_samples = steps_until(now.samples, samples, batch);
            const int64_t of_tokens = steps_until(now.tokens, tokens, batch * length);
            steps = of_samples > of_tokens ? of_samples : of_tokens;
            if (of_length < steps) steps = of_length;
        }
        now.steps += steps;
        now.samples += steps * batch;
        now.tokens += steps * batch * length;
    }
    return now;
}

/* Tests the rules between options of the kind of network: contradictions, what no network can have, what changes
 * nothing. */
#include "options_kit.h"

#define TURNED SHAPE "--position-embedding-type rope "

static void contradictions(void **state)
{
    (void)state;
    static const char activation[] = "both say the activation of the MLP; give one",
                      heads[] = "both say how many heads of keys and values there are; give one";
    kit_refuse("plan", SHAPE "--swiglu --squared-relu", activation);
    kit_refuse("plan", SHAPE "--glu-activation geglu --squared-relu", activation);
    kit_refuse("plan", SHAPE "--swiglu --glu-activation geglu", activation);
    kit_refuse("plan", SHAPE "--group-query-attention --num-query-groups 4 --num-key-value-heads 2", heads);
    kit_refuse("plan", SHAPE "--attention-head-type multiquery --group-query-attention --num-query-groups 2", heads);
    kit_refuse("plan", SHAPE "--attention-head-type multiquery --num-key-value-heads 2", heads);
}

static void sizes_that_no_network_has(void **state)
{
    (void)state;
    kit_refuse("plan", TURNED "--rotary-percent 0.01", "--rotary-percent 0.01 (argument 13) rotates 0 of the");
    kit_refuse("plan", SHAPE "--vocab-extra-ids 65537", "--vocab-extra-ids: 65537 must be at most 65536");
    kit_refuse("plan", TURNED "--rotary-percent 1.5", "expected an even number from 2 to");
    kit_refuse("plan", TURNED "--kv-channels 7",
               "--kv-channels 7 (argument 13): heads of 7 channels; expected an even");
    kit_refuse("plan", TURNED "--hidden-size 36 --num-attention-heads 4",
               "--num-attention-heads 4 (argument 15): heads of 9 channels; expected an even");
    kit_refuse("plan", TURNED "--rope-type yarn --rotary-scaling-factor 1e30", "expected at most 1048576 times longer");
}

static void without_effect(void **state)
{
    (void)state;
    static const struct {
        const char *line, *note;
    } told[] = {
        {SHAPE "--num-query-groups 2", "--num-query-groups 2 (argument 11) has no effect without --group-query"},
        {SHAPE "--window-size 8,8", "--window-size 8,8 (argument 11): attention is causal"},
        {SHAPE "--window-size (8,-1)", "attention is causal"},
        {TURNED "--rope-type yarn", "changes nothing with a --rotary-scaling-factor of 1"},
    };
    static const char *const silent[] = {
        SHAPE "--window-size 8,0", SHAPE "--group-query-attention --num-query-groups 2",
        TURNED "--rope-type yarn --rotary-scaling-factor 4", TURNED "--rotary-percent 0.5"};
    mega_command_options c;
    for (size_t i = 0; i < MEGA_COUNT(told); i++) {
        kit_accept(&c, "plan", told[i].line);
        kit_assert_has(kit_notes, told[i].note);
        mega_command_options_fini(&c);
    }
    for (size_t i = 0; i < MEGA_COUNT(silent); i++) {
        kit_accept(&c, "plan", silent[i]);
        assert_string_equal(kit_notes, "");
        mega_command_options_fini(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(contradictions), cmocka_unit_test(sizes_that_no_network_has),
                                       cmocka_unit_test(without_effect)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

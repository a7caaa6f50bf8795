/* Tests groups of parameters by pattern: what matches, what they set, and how mistakes are named. */
#include "kit.h"
#include "megalith/parameter_group.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static mega_param record(const char *name)
{
    mega_param r = {.num_dims = 2, .shape = {2, 3}, .true_shape = {2, 3}, .weight_decay = true};
    snprintf(r.name, sizeof r.name, "%s", name);
    return r;
}

/* Declares a parameter of this name under the groups, and returns its record. */
static mega_param declared(const char *const *text, size_t count, mega_param r)
{
    mega_layout *layout;
    mega_params *params;
    mega_param_groups *groups;
    int index;
    need(mega_param_groups_create(text, count, 0.5, &groups));
    need(mega_layout_create(NULL, NULL, &layout));
    need(mega_params_create(layout, &params));
    mega_params_set_groups(params, groups);
    need(mega_params_add(params, &r, &index));
    const mega_param found = *mega_params_get(params, index);
    mega_params_destroy(params);
    mega_layout_destroy(layout);
    mega_param_groups_destroy(groups);
    return found;
}

static void patterns(void **state)
{
    static const struct {
        const char *group, *name;
        bool matches;
    } rows[] = {
        {"net.wte.weight:lr_scale=3", "net.wte.weight", true},
        {"net.wte:lr_scale=3", "net.wte.weight", false}, /* the whole name */
        {"*.bias:lr_scale=3", "net.h.0.up.bias", true},
        {"net.h.[01].*:lr_scale=3", "net.h.1.up.bias", true},
        {"net.h.[01].*:lr_scale=3", "net.h.2.up.bias", false},
        {"re:h\\.[0-9]+\\.up:lr_scale=3", "net.h.12.up.bias", true}, /* anywhere in the name */
        {"re:^h\\.:lr_scale=3", "net.h.12.up.bias", false},
        {"re:(up|down)\\.(weight|bias)$:lr_scale=3", "net.h.0.down.weight", true},
        {"re:[[:digit:]]:lr_scale=3", "net.h.0.down.weight", true}, /* colons of its own */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const mega_param found = declared(&rows[i].group, 1, record(rows[i].name));
        if (found.lr_scale != (rows[i].matches ? 3 : 1)) fail_msg("%s, %s", rows[i].group, rows[i].name);
    }
}

static void settings(void **state)
{
    static const char *const all[] = {"*:lr=0.125,weight_decay=0.25", "*.bias:frozen", "*.bias:lr_scale=2",
                                      "re:\\.0\\.:trained,weight_decay=0"};
    (void)state;
    mega_param found = declared(all, 1, record("a.weight"));
    assert_true(found.lr_scale == 0.25 && found.weight_decay && found.own_decay == 0.25 && !found.is_frozen);
    found = declared(all, 3, record("h.0.bias"));
    assert_true(found.lr_scale == 2 && found.own_decay == 0.25 && found.is_frozen); /* a rate does not train it */
    found = declared(all, 4, record("h.0.bias"));
    assert_true(!found.is_frozen && !found.weight_decay && found.own_decay == 0);
    mega_param vector = record("v");
    vector.weight_decay = false;
    assert_true(declared(all, 1, vector).weight_decay);
    mega_param buffer = record("mean");
    buffer.is_buffer = true;
    found = declared(all, 1, buffer);
    assert_true(found.lr_scale == 1 && found.own_decay == 0);
}

static void mistakes(void **state)
{
    static const struct {
        const char *group, *said;
    } rows[] = {
        {"*.bias", "it has no settings"},
        {"*.bias:", "it has no settings"},
        {":lr=1", "it has no pattern"},
        {"re::lr=1", "it has no pattern"},
        {"*:lr", "found lr;"},
        {"*:lr=fast", "found lr=fast"},
        {"*:lr=-1", "found lr=-1"},
        {"*:lr=inf", "found lr=inf"},
        {"*:lr=0", "frozen does not train"},
        {"*:rate=1", "found rate=1"},
        {"*:lr=1,lr_scale=2", "both lr and lr_scale"},
        {"*:frozen,lr=1", "frozen parameters have no learning rate"},
        {"re:(up:lr=1", "its regular expression has a mistake"},
        {"*:lr=1,lr=2", "it is set twice: lr;"},
        {"*:lr=1,weight_decay=0,lr=1", "it is set twice: lr;"},
        {"*:frozen,trained", "frozen or trained is set twice"},
        {"re:(up:lr=fast,rate=1,lr_scale=0", "found lr=fast, found rate=1, a learning rate of 0"}, /* all at once */
        {"re:(up:lr=fast", "found lr=fast, its regular expression has a mistake"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(mega_param_group_check(rows[i].group), MEGA_ERR_USAGE);
        if (strstr(mega_error_message(), rows[i].said) == NULL) fail_msg("%s: %s", rows[i].group, mega_error_message());
        assert_non_null(strstr(mega_error_message(), rows[i].group));
    }
    static const char *const absolute[] = {"a*:lr_scale=2", "*:lr=1"};
    mega_param_groups *groups;
    assert_int_equal(mega_param_groups_create(absolute, 2, 0, &groups), MEGA_ERR_USAGE);
    assert_null(groups);
    assert_non_null(strstr(mega_error_message(), "needs a learning rate of the training"));
}

/* A pattern that matches nothing is a mistake, and so is a model without a parameter to train. */
static void groups_of_a_model(void **state)
{
    static const char *const some[] = {"a*:lr_scale=2", "typo*:frozen", "no:lr_scale=2"},
                             *const one[] = {"typo*:frozen"}, *const frozen[] = {"*:frozen"};
    static const char *const *const texts[] = {some, one, frozen};
    static const size_t counts[] = {3, 1, 1};
    static const char *const said[] = {"the patterns \"typo*\", \"no\" match no parameter of the model",
                                       "the pattern \"typo*\" matches no parameter of the model; its 2 names are like",
                                       "all parameters are frozen"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        mega_layout *layout;
        mega_params *params;
        mega_param_groups *groups;
        int index;
        const mega_param a = record("a.weight"), b = record("b.weight");
        need(mega_param_groups_create(texts[i], counts[i], 1, &groups));
        need(mega_layout_create(NULL, NULL, &layout));
        need(mega_params_create(layout, &params));
        mega_params_set_groups(params, groups);
        need(mega_params_add(params, &a, &index));
        need(mega_params_add(params, &b, &index));
        assert_int_equal(mega_param_groups_check(groups, params), MEGA_ERR_USAGE);
        if (strstr(mega_error_message(), said[i]) == NULL) fail_msg("%s", mega_error_message());
        need(mega_param_groups_check(NULL, params));
        mega_params_destroy(params);
        mega_layout_destroy(layout);
        mega_param_groups_destroy(groups);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(patterns), cmocka_unit_test(settings),
                                       cmocka_unit_test(mistakes), cmocka_unit_test(groups_of_a_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

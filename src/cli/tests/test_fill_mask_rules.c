/* What fill_mask says of its options. */
#include "options_kit.h"

static void fill_mask(void **state)
{
    (void)state;
    mega_command_options c;
    kit_accept(&c, "fill_mask", "--load . --input /dev/null");
    assert_int_equal(c.embed.top_k, 5);
    mega_command_options_fini(&c);
    kit_accept(&c, "fill-mask", "--load . --text one --text two --top_k 3 --targets cat dog");
    assert_true(c.embed.text.count == 2 && c.embed.targets.count == 2 && c.embed.top_k == 3);
    mega_command_options_fini(&c);
    kit_refuse("fill_mask", "--num-threads 1", "2 mistakes");
    kit_refuse("fill_mask", "--load . --text a --top_k 0", "--top_k 0: expected 1 or more");
    kit_refuse("embed", "--load . --input /dev/null --output x.npy --top_k 3", "--top_k");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fill_mask)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Known-answer vectors of Random123 for philox4x32-10. */
#include "kit.h"
#include "megalith/philox.h"

static void check(const uint32_t counter[4], uint32_t key0, uint32_t key1, const uint32_t expected[4])
{
    mega_philox c;
    for (int i = 0; i < 4; i++) c.v[i] = counter[i];
    c = mega_philox4x32(c, key0, key1);
    for (int i = 0; i < 4; i++) assert_int_equal(c.v[i], expected[i]);
}

static void philox_known_answers(void **state)
{
    (void)state;
    check((const uint32_t[]){0, 0, 0, 0}, 0, 0, (const uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    check((const uint32_t[]){~0u, ~0u, ~0u, ~0u}, ~0u, ~0u,
          (const uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    check((const uint32_t[]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0,
          (const uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(philox_known_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

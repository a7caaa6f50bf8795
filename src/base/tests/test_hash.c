/* Published test vectors, and checksums of pieces compared with those of the whole. */
#include "base_impl.h"
#include "kit.h"
#include "megalith/hash.h"

#include <string.h>

static void crc32c_vectors(void **state)
{
    (void)state;
    unsigned char bytes[32]; /* RFC 3720, appendix B.4 */
    assert_int_equal(mega_crc32c(0, "123456789", 9), 0xE3069283u);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(mega_crc32c(0, bytes, 32), 0x8A9136AAu);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(mega_crc32c(0, bytes, 32), 0x62A8AB43u);
    for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)i;
    assert_int_equal(mega_crc32c(0, bytes, 32), 0x46DD794Eu);
    for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)(31 - i);
    assert_int_equal(mega_crc32c(0, bytes, 32), 0x113FDB5Cu);
    assert_int_equal(mega_crc32c(0, "", 0), 0);
}

static void crc32c_in_pieces_and_both_ways(void **state)
{
    (void)state;
    unsigned char bytes[1031];
    float noise[1031];
    mega_kit_random(noise, 1031, 7);
    for (int i = 0; i < 1031; i++) bytes[i] = (unsigned char)(int)(noise[i] * 127.0f + 128.0f);
    const uint32_t whole = mega_crc32c(0, bytes, sizeof bytes);
    for (size_t cut = 0; cut <= sizeof bytes; cut++) {
        assert_int_equal(mega_crc32c(mega_crc32c(0, bytes, cut), bytes + cut, sizeof bytes - cut), whole);
        assert_int_equal(mega_crc32c(0, bytes, cut), mega_crc32c_portable(0, bytes, cut));
    }
}

/* Lengths for which the checksum is computed in lanes, at any alignment, and pieces that were summed separately. */
static void crc32c_of_long_messages(void **state)
{
    (void)state;
    enum { BYTES = 200000 };
    static unsigned char bytes[BYTES];
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < BYTES; i++) x ^= x << 13, x ^= x >> 7, x ^= x << 17, bytes[i] = (unsigned char)x;
    const uint32_t whole = mega_crc32c_portable(0, bytes, BYTES);
    assert_int_equal(mega_crc32c(0, bytes, BYTES), whole);
    for (size_t cut = 0; cut <= BYTES; cut += 4093) {
        const uint32_t first = mega_crc32c(0, bytes, cut), second = mega_crc32c(0, bytes + cut, BYTES - cut);
        assert_int_equal(first, mega_crc32c_portable(0, bytes, cut));
        assert_int_equal(mega_crc32c(first, bytes + cut, BYTES - cut), whole);
        assert_int_equal(mega_crc32c_join(first, second, BYTES - cut), whole);
    }
    const size_t cut[] = {0, 1, 4096, 77777, BYTES}; /* parts that are summed independently */
    uint32_t sum = mega_crc32c_zeros(BYTES);
    for (int i = 0; i < 4; i++)
        sum ^= mega_crc32c_shifted(mega_crc32c_part(bytes + cut[i], cut[i + 1] - cut[i]),
                                   mega_crc32c_shift(BYTES - cut[i + 1]));
    assert_int_equal(sum, whole);
    assert_int_equal(mega_crc32c_zeros(0), 0);
    assert_int_equal(mega_crc32c_zeros(32), 0x8A9136AAu);
    assert_int_equal(mega_crc32c_join(whole, 0, 0), whole);
    assert_int_equal(mega_crc32c_join(0, whole, BYTES), whole);
}

static void fnv_vectors(void **state)
{
    (void)state;
    assert_true(mega_hash64(MEGA_HASH_START, "", 0) == 0xcbf29ce484222325ull);
    assert_true(mega_hash64(MEGA_HASH_START, "a", 1) == 0xaf63dc4c8601ec8cull);
    assert_true(mega_hash64(MEGA_HASH_START, "foobar", 6) == 0x85944171f73967e8ull);
    assert_true(mega_hash64(mega_hash64(MEGA_HASH_START, "foo", 3), "bar", 3) == 0x85944171f73967e8ull);
}

static void sha256_vectors(void **state)
{
    (void)state;
    static const struct { /* FIPS 180-4 examples */
        const char *text, *digest;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char out[65];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mega_sha256_hex(rows[i].text, strlen(rows[i].text), out);
        assert_string_equal(out, rows[i].digest);
    }
    static char million[1000000];
    memset(million, 'a', sizeof million);
    mega_sha256_hex(million, sizeof million, out);
    assert_string_equal(out, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Padding adds a block from 56 bytes on: digests of all lengths around 56 and 64, combined into one digest. */
static void digests_around_the_seams(void **state)
{
    (void)state;
    char text[130], chain[131 * 64 + 1] = "", out[65];
    memset(text, 'b', sizeof text);
    for (size_t n = 0; n <= 130; n++) {
        mega_sha256_hex(text, n, out);
        memcpy(chain + 64 * n, out, 65);
    }
    mega_sha256_hex(chain, 131 * 64, out);
    assert_string_equal(out, "f03fa14c3c386399e9b0a30a03cb4170d435db472cb4e6706bcc94f2ea9c2cbd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_vectors),          cmocka_unit_test(crc32c_in_pieces_and_both_ways),
        cmocka_unit_test(crc32c_of_long_messages), cmocka_unit_test(fnv_vectors),
        cmocka_unit_test(sha256_vectors),          cmocka_unit_test(digests_around_the_seams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The memory of GPT data sets: planned before anything is built, and one copy for the ranks of a host. */
#include "gpt_data_kit.h"
#include "held.h"

/* A blend with short documents, so that each kind of array has megabytes. */
static mega_gpt_data_options large(const char *args[4])
{
    const char *folder = mega_kit_temp_folder();
    args[0] = "1", args[1] = gpt_kit_write(folder, "a", 500, 6);
    args[2] = "2", args[3] = gpt_kit_write(folder, "b", 900, 12);
    return (mega_gpt_data_options){.data_path = args,
                                   .num_data_path = 4,
                                   .split = "8,2",
                                   .seq_length = L,
                                   .in_memory = true,
                                   .num_samples = {900000, 150000, 0}};
}

static size_t bytes_of(mega_gpt_data *d[MEGA_SPLIT_COUNT])
{
    return mega_gpt_data_bytes(d[0]) + mega_gpt_data_bytes(d[1]) + mega_gpt_data_bytes(d[2]);
}

static void assert_near(double found, double expected)
{
    if (found < 0.97 * expected || found > 1.03 * expected)
        fail_msg("found %.0f bytes, expected %.0f within 3 %%", found, expected);
}

/* The memory is known before anything is built, and equals what is then held. */
static void planned_bytes_are_held(void **state)
{
    (void)state;
    const char *args[4];
    mega_gpt_data_options o = large(args);
    mega_gpt_data *planned[MEGA_SPLIT_COUNT], *d[MEGA_SPLIT_COUNT];
    o.check_only = true;
    const double before = held_bytes();
    gpt_kit_build(planned, &o);
    const double plan = (double)bytes_of(planned);
    assert_true(plan > 2e7 && held_bytes() - before < 1e6);
    gpt_kit_destroy(planned);
    o.check_only = false;
    gpt_kit_build(d, &o);
    assert_int_equal(bytes_of(d), plan);
    if (held_is_exact()) assert_near(held_bytes() - before, plan);
    gpt_kit_destroy(d);
}

/* Resident memory in which each page counts 1/n if n mappings share it. */
static double share_bytes(void)
{
    char line[256];
    unsigned long long kb, sum = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "Pss_Anon: %llu", &kb) == 1 || sscanf(line, "Pss_Shmem: %llu", &kb) == 1) sum += kb;
    if (f != NULL) fclose(f);
    return (double)sum * 1024;
}

/* What one rank builds in a share is mapped by another, here by the same process: the same samples without a second
 * copy. */
static void share_holds_one_copy(void **state)
{
    (void)state;
    const char *args[4];
    mega_gpt_data_options o = large(args);
    mega_gpt_data *first[MEGA_SPLIT_COUNT], *second[MEGA_SPLIT_COUNT];
    mega_gpt_share *made = NULL, *opened = NULL;
    mega_gpt_offer offer;
    const double before = share_bytes();
    assert_int_equal(mega_gpt_share_create(&made), MEGA_OK);
    o.share = made;
    gpt_kit_build(first, &o);
    mega_gpt_share_offer(made, &offer);
    assert_int_equal(mega_gpt_share_open(&offer, &opened), MEGA_OK);
    assert_non_null(opened);
    o.share = opened;
    gpt_kit_build(second, &o);
    mega_gpt_share_destroy(opened);
    mega_gpt_share_destroy(made);
    for (int k = 0; k < 2; k++) gpt_kit_compare(first[k], second[k]);
    if (before > 0 && held_is_exact()) assert_near(share_bytes() - before, (double)bytes_of(first));
    gpt_kit_destroy(first);
    for (int k = 0; k < 2; k++) assert_true(mega_gpt_data_samples(second[k]) > 0);
    gpt_kit_destroy(second);
}

/* An offer that leads to something else, as from a container with other process ids; arrays with another key; no
 * offer. */
static void shares_that_do_not_fit(void **state)
{
    (void)state;
    const char *prefix = gpt_kit_write(mega_kit_temp_folder(), "a", 10, 50);
    mega_gpt_data_options o = {.data_path = &prefix,
                               .num_data_path = 1,
                               .split = "1",
                               .seq_length = L,
                               .seed = 7,
                               .in_memory = true,
                               .num_samples = {70, 0, 0}};
    mega_gpt_data *plain[MEGA_SPLIT_COUNT], *d[MEGA_SPLIT_COUNT];
    mega_gpt_share *made = NULL, *opened = NULL;
    mega_gpt_offer offer;
    gpt_kit_build(plain, &o);
    assert_int_equal(mega_gpt_share_create(&made), MEGA_OK);
    mega_gpt_share_offer(made, &offer);
    assert_int_equal(offer.fd, -1); /* nothing was built with it */
    assert_int_equal(mega_gpt_share_open(&offer, &opened), MEGA_OK);
    assert_null(opened);
    o.share = made, o.seed = 8;
    gpt_kit_build(d, &o);
    gpt_kit_destroy(d);
    mega_gpt_share_offer(made, &offer);
    offer.nonce++;
    assert_int_equal(mega_gpt_share_open(&offer, &opened), MEGA_OK);
    assert_null(opened);
    offer.nonce--;
    assert_int_equal(mega_gpt_share_open(&offer, &opened), MEGA_OK);
    o.share = opened, o.seed = 7;
    gpt_kit_build(d, &o);
    gpt_kit_compare(d[0], plain[0]);
    gpt_kit_destroy(d);
    gpt_kit_destroy(plain);
    mega_gpt_share_destroy(opened);
    mega_gpt_share_destroy(made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planned_bytes_are_held),
        cmocka_unit_test(share_holds_one_copy),
        cmocka_unit_test(shares_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The cached index arrays of GPT data sets: file names, formats, and what happens when files are damaged. */
#include "gpt_data_kit.h"
#include <stdlib.h>

static void overwrite_byte(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    const int c = fgetc(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    fputc(c ^ 0x10, f);
    assert_int_equal(fclose(f), 0);
}

/* The cache is used when complete, and built again when any of its files is truncated, changed or missing. */
static void cache_is_checked(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *prefix = gpt_kit_write(folder, "a", 10, 50);
    const char *cache = mega_kit_path(folder, "cache");
    mega_gpt_data_options o = {.data_path = &prefix,
                               .num_data_path = 1,
                               .split = "1",
                               .seq_length = L,
                               .seed = 7,
                               .in_memory = true,
                               .num_samples = {70, 0, 0}};
    mega_gpt_data *plain[MEGA_SPLIT_COUNT], *d[MEGA_SPLIT_COUNT];
    gpt_kit_build(plain, &o);
    o.in_memory = false;
    o.cache_path = cache;
    gpt_kit_build(d, &o);
    gpt_kit_compare(d[0], plain[0]);
    gpt_kit_destroy(d);
    assert_int_equal(gpt_kit_files_in(folder, "cache"), 4);
    assert_int_equal(gpt_kit_files_in(folder, "index-cache"), -1);

    char warning[GPT_KIT_WARNING];
    mega_names names;
    assert_int_equal(mega_folder_list(cache, &names), MEGA_OK);
    mega_log_set_sink(gpt_kit_note_warning, warning);
    for (size_t f = 0; f < names.count; f++) {
        const char *path = mega_kit_path(cache, names.name[f]);
        for (int damage = 0; damage < 4; damage++) {
            if (damage == 0) overwrite_byte(path, -3);
            if (damage == 1) overwrite_byte(path, 60);
            if (damage == 2) mega_kit_write(path, "");
            if (damage == 3) assert_int_equal(mega_file_remove(path), MEGA_OK);
            warning[0] = '\0';
            gpt_kit_build(d, &o);
            const bool missing_description = damage == 3 && strstr(path, "description") != NULL;
            if ((strstr(warning, "built again") != NULL) == missing_description)
                fail_msg("%s, damage %d: \"%s\"", path, damage, warning);
            gpt_kit_compare(d[0], plain[0]);
            gpt_kit_destroy(d);
        }
    }
    warning[0] = '\0';
    gpt_kit_build(d, &o);
    assert_string_equal(warning, "");
    mega_log_set_sink(NULL, NULL);
    gpt_kit_compare(d[0], plain[0]);
    gpt_kit_destroy(d);
    gpt_kit_destroy(plain);
    mega_names_fini(&names);
}

/* Every fact that the arrays depend on changes the name; the location of the data does not. */
static void names_of_the_cache(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *prefix = gpt_kit_write(folder, "a", 10, 50);
    const char *same = gpt_kit_write(folder, "b", 10, 50), *other = gpt_kit_write(folder, "c", 10, 51);
    const mega_gpt_data_options base = {.data_path = &prefix,
                                        .num_data_path = 1,
                                        .split = "1",
                                        .seq_length = L,
                                        .seed = 7,
                                        .cache_path = mega_kit_path(folder, "cache"),
                                        .num_samples = {70, 0, 0}};
    int sets = 0;
    for (int i = 0; i < 7; i++) {
        mega_gpt_data_options o = base;
        if (i == 1) o.seed = 8;
        if (i == 2) o.seq_length = L + 1;
        if (i == 3) o.num_samples[0] = 71;
        if (i == 4) o.split = "9,1";
        if (i == 5) o.data_path = &other;
        if (i == 6) o.data_path = &same;
        mega_gpt_data *d[MEGA_SPLIT_COUNT];
        gpt_kit_build(d, &o);
        gpt_kit_destroy(d);
        sets += i < 6;
        assert_int_equal(gpt_kit_files_in(folder, "cache"), 4 * sets);
    }
}

/* The arrays are files that NumPy reads, in the layout of Megatron's. */
static void cache_files_are_npy(void **state)
{
    (void)state;
    const char *python = mega_kit_need_peers();
    const char *folder = mega_kit_temp_folder(), *prefix = gpt_kit_write(folder, "a", 10, 50);
    const mega_gpt_data_options o = {.data_path = &prefix,
                                     .num_data_path = 1,
                                     .split = "1",
                                     .seq_length = L,
                                     .seed = 7,
                                     .cache_path = mega_kit_path(folder, "cache"),
                                     .num_samples = {70, 0, 0}};
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    gpt_kit_build(d, &o);
    gpt_kit_destroy(d);
    char command[2000];
    snprintf(command, sizeof command,
             "%s -c \"import numpy, glob, sys; "
             "x = {p.split('-')[-1]: numpy.load(p, mmap_mode='r') for p in glob.glob('%s/*.npy')}; "
             "d, s, h = (x[n + '_index.npy'] for n in ('document', 'sample', 'shuffle')); "
             "sys.exit(not (d.dtype == 'i4' and d.shape == (20,) and s.dtype == 'i4' and s.shape == (125, 2) and "
             "h.dtype == 'u4' and h.shape == (124,) and sorted(h) == list(range(124))))\"",
             python, o.cache_path);
    assert_int_equal(system(command), 0);
}

/* A cache folder that cannot be created costs only a log line. */
static void cache_that_cannot_be_written(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *prefix = gpt_kit_write(folder, "a", 10, 50);
    const char *file = mega_kit_path(folder, "file");
    mega_kit_write(file, "");
    const mega_gpt_data_options o = {.data_path = &prefix,
                                     .num_data_path = 1,
                                     .split = "1",
                                     .seq_length = L,
                                     .cache_path = mega_kit_path(file, "cache"),
                                     .num_samples = {70, 0, 0}};
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    char warning[GPT_KIT_WARNING] = "";
    mega_log_set_sink(gpt_kit_note_warning, warning);
    gpt_kit_build(d, &o);
    mega_log_set_sink(NULL, NULL);
    assert_non_null(strstr(warning, "not cached"));
    assert_non_null(d[0]);
    gpt_kit_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cache_is_checked),
        cmocka_unit_test(names_of_the_cache),
        cmocka_unit_test(cache_files_are_npy),
        cmocka_unit_test(cache_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

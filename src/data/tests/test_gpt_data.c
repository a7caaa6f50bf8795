/* The GPT data set as a whole: splits, blends, the cache on disk and what happens when it is damaged, and refusals. */
#include "data_impl.h"
#include "held.h"
#include "kit.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { L = 8 };

/* `count` documents; the tokens of document d are d*100, d*100+1, … so that a token says where it is from. */
static const char *make_data(const char *folder, const char *name, int count, int length)
{
    const char *prefix = mega_kit_path(folder, name);
    mega_indexed_writer *w;
    assert_int_equal(mega_indexed_writer_create(&w, prefix, MEGA_I32), MEGA_OK);
    for (int d = 0; d < count; d++) {
        int32_t tokens[128];
        for (int i = 0; i < length; i++) tokens[i] = d * 100 + i;
        assert_int_equal(mega_indexed_writer_add(w, tokens, length), MEGA_OK);
    }
    assert_int_equal(mega_indexed_writer_finish(w), MEGA_OK);
    return prefix;
}

static void destroy(mega_gpt_data *d[MEGA_SPLIT_COUNT])
{
    for (int k = 0; k < MEGA_SPLIT_COUNT; k++) mega_gpt_data_destroy(d[k]);
}

static void build(mega_gpt_data *d[MEGA_SPLIT_COUNT], const mega_gpt_data_options *o)
{
    if (mega_gpt_data_build(d, o) != MEGA_OK) fail_msg("%s", mega_error_message());
}

static int lines_logged;
static char last_warning[600];

static void note_line(void *user, mega_log_level level, const char *line)
{
    (void)user;
    lines_logged++;
    if (level == MEGA_LOG_WARN) snprintf(last_warning, sizeof last_warning, "%s", line);
}

static int files_in(const char *folder, const char *name)
{
    mega_names names;
    if (mega_folder_list(&names, mega_kit_path(folder, name)) != MEGA_OK) return -1;
    const int n = (int)names.count;
    mega_names_fini(&names);
    return n;
}

/* Each split draws from its own documents only, and neighbouring samples share a token. */
static void splits_keep_apart(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *prefix = make_data(folder, "a", 10, 50);
    const mega_gpt_data_options o = {.data_path = &prefix,
                                     .num_data_path = 1,
                                     .split = "60,30,10",
                                     .seq_length = L,
                                     .seed = 7,
                                     .num_samples = {50, 20, 3}};
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    build(d, &o);
    const int first[MEGA_SPLIT_COUNT + 1] = {0, 6, 9, 10};
    for (int k = 0; k < MEGA_SPLIT_COUNT; k++) {
        assert_non_null(d[k]);
        assert_true(mega_gpt_data_samples(d[k]) >= o.num_samples[k]);
        for (int64_t i = 0; i < mega_gpt_data_samples(d[k]); i++) {
            int32_t tokens[L + 1];
            mega_gpt_data_sample(d[k], i, tokens);
            for (int t = 0; t <= L; t++) assert_in_range(tokens[t] / 100, first[k], first[k + 1] - 1);
        }
        int32_t tokens[L + 1];
        assert_int_equal(mega_gpt_data_sample(d[k], -1, tokens), MEGA_ERR_USAGE);
        assert_int_equal(mega_gpt_data_sample(d[k], mega_gpt_data_samples(d[k]), tokens), MEGA_ERR_USAGE);
        assert_non_null(strstr(mega_error_message(), "the data has samples 0 to"));
    }
    destroy(d);
    assert_int_equal(files_in(folder, "index-cache"), 12);
}

static void empty_parts_are_null(void **state)
{
    (void)state;
    const char *prefix = make_data(mega_kit_temp_folder(), "a", 10, 50);
    mega_gpt_data_options o = {
        .data_path = &prefix, .num_data_path = 1, .seq_length = L, .in_memory = true, .num_samples = {5, 5, 5}};
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    build(d, &o); /* 969, 30, 1 of ten documents: all for training */
    assert_true(d[0] != NULL && d[1] == NULL && d[2] == NULL);
    destroy(d);
    o.split = "8,1,1";
    o.num_samples[1] = 0; /* not wanted */
    build(d, &o);
    assert_true(d[0] != NULL && d[1] == NULL && d[2] != NULL);
    destroy(d);
}

static void compare(const mega_gpt_data *a, const mega_gpt_data *b)
{
    assert_int_equal(mega_gpt_data_samples(a), mega_gpt_data_samples(b));
    for (int64_t i = 0; i < mega_gpt_data_samples(a); i++) {
        int32_t x[L + 1], y[L + 1];
        mega_gpt_data_sample(a, i, x);
        mega_gpt_data_sample(b, i, y);
        assert_memory_equal(x, y, sizeof x);
    }
}

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

/* Used when whole; noticed and built again when any of its files is cut, changed or missing. */
static void cache_is_checked(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *prefix = make_data(folder, "a", 10, 50);
    const char *cache = mega_kit_path(folder, "cache");
    mega_gpt_data_options o = {.data_path = &prefix,
                               .num_data_path = 1,
                               .split = "1",
                               .seq_length = L,
                               .seed = 7,
                               .in_memory = true,
                               .num_samples = {70, 0, 0}};
    mega_gpt_data *plain[MEGA_SPLIT_COUNT], *d[MEGA_SPLIT_COUNT];
    build(plain, &o);
    o.in_memory = false;
    o.cache_path = cache;
    build(d, &o);
    compare(d[0], plain[0]);
    destroy(d);
    assert_int_equal(files_in(folder, "cache"), 4);
    assert_int_equal(files_in(folder, "index-cache"), -1);

    mega_names names;
    assert_int_equal(mega_folder_list(&names, cache), MEGA_OK);
    mega_log_set_sink(note_line, NULL);
    for (size_t f = 0; f < names.count; f++) {
        const char *path = mega_kit_path(cache, names.name[f]);
        for (int damage = 0; damage < 4; damage++) {
            if (damage == 0) overwrite_byte(path, -3);
            if (damage == 1) overwrite_byte(path, 60);
            if (damage == 2) mega_kit_write(path, "");
            if (damage == 3) assert_int_equal(mega_file_remove(path), MEGA_OK);
            last_warning[0] = '\0';
            build(d, &o);
            const bool missing_description = damage == 3 && strstr(path, "description") != NULL;
            if ((strstr(last_warning, "built again") != NULL) == missing_description)
                fail_msg("%s, damage %d: \"%s\"", path, damage, last_warning);
            compare(d[0], plain[0]);
            destroy(d);
        }
    }
    last_warning[0] = '\0';
    build(d, &o);
    assert_string_equal(last_warning, "");
    mega_log_set_sink(NULL, NULL);
    compare(d[0], plain[0]);
    destroy(d);
    destroy(plain);
    mega_names_fini(&names);
}

/* Every fact that the arrays depend on gives another name; the place of the data does not. */
static void names_of_the_cache(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *prefix = make_data(folder, "a", 10, 50);
    const char *same = make_data(folder, "b", 10, 50), *other = make_data(folder, "c", 10, 51);
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
        build(d, &o);
        destroy(d);
        sets += i < 6;
        assert_int_equal(files_in(folder, "cache"), 4 * sets);
    }
}

/* The arrays are files that NumPy reads, in the layout of Megatron's. */
static void cache_files_are_npy(void **state)
{
    (void)state;
    const char *python = mega_kit_need_peers();
    const char *folder = mega_kit_temp_folder(), *prefix = make_data(folder, "a", 10, 50);
    const mega_gpt_data_options o = {.data_path = &prefix,
                                     .num_data_path = 1,
                                     .split = "1",
                                     .seq_length = L,
                                     .seed = 7,
                                     .cache_path = mega_kit_path(folder, "cache"),
                                     .num_samples = {70, 0, 0}};
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    build(d, &o);
    destroy(d);
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

/* A cache folder that cannot be made costs a note. */
static void cache_that_cannot_be_written(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *prefix = make_data(folder, "a", 10, 50);
    const char *file = mega_kit_path(folder, "file");
    mega_kit_write(file, "");
    const mega_gpt_data_options o = {.data_path = &prefix,
                                     .num_data_path = 1,
                                     .split = "1",
                                     .seq_length = L,
                                     .cache_path = mega_kit_path(file, "cache"),
                                     .num_samples = {70, 0, 0}};
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    last_warning[0] = '\0';
    mega_log_set_sink(note_line, NULL);
    build(d, &o);
    mega_log_set_sink(NULL, NULL);
    assert_non_null(strstr(last_warning, "not kept"));
    assert_non_null(d[0]);
    destroy(d);
}

static void blends(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    make_data(folder, "a", 10, 50);
    make_data(folder, "b", 10, 90);
    const char *args[4] = {"3", mega_kit_path(folder, "a"), "7", mega_kit_path(folder, "b")};
    const mega_gpt_data_options o = {.data_path = args,
                                     .num_data_path = 4,
                                     .split = "1",
                                     .seq_length = L,
                                     .in_memory = true,
                                     .seed = 7,
                                     .num_samples = {10, 0, 0}};
    mega_gpt_data *d[MEGA_SPLIT_COUNT], *member[2][MEGA_SPLIT_COUNT];
    build(d, &o);
    assert_int_equal(mega_gpt_data_samples(d[0]), 4 + 8); /* ceil(3.015) + ceil(7.035) */
    for (int m = 0; m < 2; m++) {
        mega_gpt_data_options single = o;
        single.data_path = &args[2 * m + 1];
        single.num_data_path = 1;
        single.num_samples[0] = m == 0 ? 4 : 8;
        build(member[m], &single);
    }
    const int of[10] = {1, 0, 1, 1, 0, 1, 1, 0, 1, 1}, sample[10] = {0, 0, 1, 2, 1, 3, 4, 2, 5, 6};
    for (int i = 0; i < 10; i++) {
        int32_t x[L + 1], y[L + 1];
        mega_gpt_data_sample(d[0], i, x);
        mega_gpt_data_sample(member[of[i]][0], sample[i], y);
        assert_memory_equal(x, y, sizeof x);
    }
    destroy(d);
    for (int m = 0; m < 2; m++) destroy(member[m]);
}

/* A member of weight 0, given or left of a division, is not read, also where it stands first and wins the ties. */
static void weights_of_zero(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *a = make_data(folder, "a", 10, 50);
    const char *b = make_data(folder, "b", 10, 90), *weight[2] = {"0", "1e-320"};
    for (int i = 0; i < 2; i++) {
        const char *args[4] = {weight[i], a, "1e10", b};
        const mega_gpt_data_options o = {.data_path = args,
                                         .num_data_path = 4,
                                         .split = "1",
                                         .seq_length = L,
                                         .in_memory = true,
                                         .seed = 7,
                                         .num_samples = {10, 0, 0}};
        mega_gpt_data *d[MEGA_SPLIT_COUNT], *alone[MEGA_SPLIT_COUNT];
        mega_gpt_data_options single = o;
        single.data_path = &b;
        single.num_data_path = 1;
        single.num_samples[0] = 11; /* ceil(10 * 1.005) */
        last_warning[0] = '\0';
        mega_log_set_sink(note_line, NULL);
        build(d, &o);
        mega_log_set_sink(NULL, NULL);
        assert_int_equal(strstr(last_warning, "the weight 1e-320 of") != NULL, i == 1);
        build(alone, &single);
        assert_int_equal(mega_gpt_data_samples(d[0]), 11);
        for (int64_t s = 0; s < 11; s++) {
            int32_t x[L + 1], y[L + 1];
            mega_gpt_data_sample(d[0], s, x);
            mega_gpt_data_sample(alone[0], s, y);
            assert_memory_equal(x, y, sizeof x);
        }
        destroy(d);
        destroy(alone);
    }
}

static void separate_paths(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const char *train = make_data(folder, "a", 10, 50);
    const char *valid[4] = {"1", make_data(folder, "b", 4, 90), "1", make_data(folder, "c", 2, 90)};
    const mega_gpt_data_options o = {.separate = {&train, valid, NULL},
                                     .num_separate = {1, 4, 0},
                                     .seq_length = L,
                                     .in_memory = true,
                                     .seed = 7,
                                     .num_samples = {10, 10, 10}};
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    build(d, &o);
    assert_true(d[0] != NULL && d[1] != NULL && d[2] == NULL);
    assert_int_equal(mega_gpt_data_samples(d[0]), 499 / L); /* the whole of it, whatever --split says */
    assert_int_equal(mega_gpt_data_samples(d[1]), 12);
    destroy(d);
}

static void expect_refused(const mega_gpt_data_options *o, mega_status st, const char *what)
{
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    assert_int_equal(mega_gpt_data_build(d, o), st);
    if (strstr(mega_error_message(), what) == NULL)
        fail_msg("expected \"%s\" in the message, found \"%s\"", what, mega_error_message());
}

/* Parts are read one after the other, and have the hashes of the data that they all are. */
static void parts_follow_each_other(void **state)
{
    (void)state;
    const char *prefix = make_data(mega_kit_temp_folder(), "parts", 10, 50);
    mega_gpt_data_options o = {.data_path = &prefix,
                               .num_data_path = 1,
                               .split = "100",
                               .in_memory = true,
                               .seq_length = L,
                               .seed = 7,
                               .num_samples = {40}};
    mega_gpt_data *a[MEGA_SPLIT_COUNT], *b[MEGA_SPLIT_COUNT], *whole;
    int32_t expected[L + 1], found[L + 1];
    uint64_t hash, part_hash;
    build(a, &o);
    o.seed = 8;
    o.num_samples[MEGA_SPLIT_TRAIN] = 100;
    build(b, &o);
    const int64_t first = mega_gpt_data_samples(a[0]), second = mega_gpt_data_samples(b[0]);
    assert_int_equal(mega_gpt_data_content_hash(a[0], &part_hash), MEGA_OK);
    const uint64_t index_hash = mega_gpt_data_hash(a[0]);
    assert_int_equal(mega_gpt_data_join(&whole, (mega_gpt_data *const[]){a[0], b[0]}, 2), MEGA_OK);
    assert_int_equal(mega_gpt_data_samples(whole), first + second);
    assert_int_equal(mega_gpt_data_seq_length(whole), L);
    assert_int_equal(mega_gpt_data_content_hash(whole, &hash), MEGA_OK);
    assert_true(hash == part_hash && mega_gpt_data_hash(whole) == index_hash);
    for (int64_t i = 0; i < first + second; i++) {
        mega_gpt_data_sample(i < first ? a[0] : b[0], i < first ? i : i - first, expected);
        mega_gpt_data_sample(whole, i, found);
        assert_memory_equal(found, expected, sizeof found);
    }
    mega_gpt_data_destroy(whole); /* and with it the parts */
}

static void refusals(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const char *a = make_data(folder, "a", 10, 50), *tiny = make_data(folder, "b", 1, 50);
    const char *none = make_data(folder, "none", 3, 0), *missing = mega_kit_path(folder, "missing");
    const char *bad[6][4] = {{"x", a, "1", a},    {"0", a, "0", a},  {a, a, NULL, NULL},
                             {"1", a, "1", tiny}, {"-1", a, "2", a}, {"1e308", a, "1e308", a}};
    mega_gpt_data_options o = {
        .data_path = &missing, .num_data_path = 1, .seq_length = L, .in_memory = true, .num_samples = {5, 5, 5}};
    expect_refused(&o, MEGA_ERR_NOT_FOUND, "missing.idx");
    o.data_path = &none, o.split = "1";
    expect_refused(&o, MEGA_ERR_FORMAT, "its 3 documents hold no token");
    o.num_data_path = 4;
    o.data_path = bad[0];
    expect_refused(&o, MEGA_ERR_USAGE, "\"x\" at place 1");
    o.data_path = bad[1];
    expect_refused(&o, MEGA_ERR_USAGE, "all weights are 0");
    o.data_path = bad[4];
    expect_refused(&o, MEGA_ERR_USAGE, "\"-1\" at place 1");
    o.data_path = bad[5];
    expect_refused(&o, MEGA_ERR_USAGE, "add up to more than a number can hold");
    o.data_path = bad[3], o.split = "8,1,1";
    expect_refused(&o, MEGA_ERR_USAGE, "has no document in its validation part");
    o.data_path = bad[2], o.num_data_path = 2;
    expect_refused(&o, MEGA_ERR_USAGE, "expected one prefix, or pairs");
    o.data_path = bad[0], o.num_data_path = 3;
    expect_refused(&o, MEGA_ERR_USAGE, "expected one prefix, or pairs");
    o.data_path = &a, o.num_data_path = 1, o.split = "1,x";
    expect_refused(&o, MEGA_ERR_USAGE, "--split");
    o.split = "1", o.separate[0] = &a, o.num_separate[0] = 1;
    expect_refused(&o, MEGA_ERR_USAGE, "found both");
    o.num_data_path = 0, o.num_separate[0] = 0;
    expect_refused(&o, MEGA_ERR_USAGE, "found no data set");
}

/* A blend with short documents, so that each kind of array has megabytes. */
static mega_gpt_data_options large(const char *args[4])
{
    const char *folder = mega_kit_temp_folder();
    args[0] = "1", args[1] = make_data(folder, "a", 500, 6);
    args[2] = "2", args[3] = make_data(folder, "b", 900, 12);
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

/* Known before anything is built, and what is then held. */
static void planned_bytes_are_held(void **state)
{
    (void)state;
    const char *args[4];
    mega_gpt_data_options o = large(args);
    mega_gpt_data *planned[MEGA_SPLIT_COUNT], *d[MEGA_SPLIT_COUNT];
    o.check_only = true;
    const double before = held_bytes();
    build(planned, &o);
    const double plan = (double)bytes_of(planned);
    assert_true(plan > 2e7 && held_bytes() - before < 1e6);
    destroy(planned);
    o.check_only = false;
    build(d, &o);
    assert_int_equal(bytes_of(d), plan);
    if (held_is_exact()) assert_near(held_bytes() - before, plan);
    destroy(d);
}

/* Pages by how many map them: of two mappings of one page each counts half. */
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

/* What one rank builds in a share is mapped by another, here by the same process: the same samples, no second copy. */
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
    build(first, &o);
    mega_gpt_share_offer(made, &offer);
    assert_int_equal(mega_gpt_share_open(&opened, &offer), MEGA_OK);
    assert_non_null(opened);
    o.share = opened;
    build(second, &o);
    mega_gpt_share_destroy(opened);
    mega_gpt_share_destroy(made);
    for (int k = 0; k < 2; k++) compare(first[k], second[k]);
    if (before > 0 && held_is_exact()) assert_near(share_bytes() - before, (double)bytes_of(first));
    destroy(first);
    for (int k = 0; k < 2; k++) assert_true(mega_gpt_data_samples(second[k]) > 0);
    destroy(second);
}

/* An offer that does not lead to what was offered, as from a container with other process ids; arrays of another key;
 * no offer. */
static void shares_that_do_not_fit(void **state)
{
    (void)state;
    const char *prefix = make_data(mega_kit_temp_folder(), "a", 10, 50);
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
    build(plain, &o);
    assert_int_equal(mega_gpt_share_create(&made), MEGA_OK);
    mega_gpt_share_offer(made, &offer);
    assert_int_equal(offer.fd, -1); /* nothing was built with it */
    assert_int_equal(mega_gpt_share_open(&opened, &offer), MEGA_OK);
    assert_null(opened);
    o.share = made, o.seed = 8;
    build(d, &o);
    destroy(d);
    mega_gpt_share_offer(made, &offer);
    offer.nonce++;
    assert_int_equal(mega_gpt_share_open(&opened, &offer), MEGA_OK);
    assert_null(opened);
    offer.nonce--;
    assert_int_equal(mega_gpt_share_open(&opened, &offer), MEGA_OK);
    o.share = opened, o.seed = 7;
    build(d, &o);
    compare(d[0], plain[0]);
    destroy(d);
    destroy(plain);
    mega_gpt_share_destroy(opened);
    mega_gpt_share_destroy(made);
}

static int build_once(void *user)
{
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    const mega_status st = mega_gpt_data_build(d, user);
    if (st == MEGA_OK) destroy(d);
    return (int)st;
}

/* Whatever is written over an index in use, a sample is read inside its bounds, or refused. */
static void an_index_that_is_written_over(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *prefix = make_data(folder, "over", 10, 50);
    const mega_gpt_data_options o = {.data_path = &prefix,
                                     .num_data_path = 1,
                                     .split = "1,0,0",
                                     .seq_length = L,
                                     .num_samples = {50, 0, 0},
                                     .in_memory = true};
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    build(d, &o);
    FILE *f = fopen(mega_kit_path(folder, "over.idx"), "r+b");
    assert_non_null(f);
    fseek(f, 34, SEEK_SET); /* lengths, places, documents */
    for (int i = 0; i < 10 * 12 + 11 * 8; i++) fputc(i % 4 == 0 ? 3 : i % 8 == 7 ? 0x7f : 0, f);
    fclose(f);
    int refused = 0;
    for (int64_t i = 0; i < mega_gpt_data_samples(d[0]); i++) {
        int32_t row[L + 3] = {[0] = -5, [L + 2] = -5};
        refused += mega_gpt_data_sample(d[0], i, row + 1) == MEGA_ERR_FORMAT;
        assert_true(row[0] == -5 && row[L + 2] == -5);
    }
    assert_true(refused > 0);
    assert_non_null(strstr(mega_error_message(), "was written over while it was read"));
    destroy(d);
}

static void allocation_failures(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    make_data(folder, "a", 10, 50);
    make_data(folder, "b", 10, 90);
    const char *args[4] = {"3", mega_kit_path(folder, "a"), "7", mega_kit_path(folder, "b")};
    mega_gpt_data_options o = {.data_path = args,
                               .num_data_path = 4,
                               .split = "8,2",
                               .seq_length = L,
                               .in_memory = true,
                               .num_samples = {100, 20, 0}};
    assert_true(mega_kit_fail_each_allocation(build_once, &o) > 10);
}

/* Nothing is kept of arrays that a signal left half built. */
static void signals_end_building(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const char *args[4] = {"3", make_data(folder, "a", 10, 50), "7", make_data(folder, "b", 10, 90)};
    volatile sig_atomic_t stop = 1;
    mega_gpt_data_options o = {.data_path = args,
                               .num_data_path = 4,
                               .split = "8,2",
                               .cache_path = mega_kit_path(folder, "cache"),
                               .seq_length = L,
                               .num_samples = {100, 20, 0},
                               .stop = &stop};
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    assert_int_equal(mega_gpt_data_build(d, &o), MEGA_ERR_INTERRUPTED);
    assert_int_equal(files_in(folder, "cache"), -1);
    stop = 0;
    build(d, &o);
    destroy(d);
    mega_indexed *data;
    assert_int_equal(mega_indexed_open(&data, args[1]), MEGA_OK);
    const mega_gpt_index_spec spec = {
        .data = data, .end = 10, .seq_length = L, .num_samples = 100, .seed = 1, .stop = &stop};
    mega_gpt_index_plan plan;
    mega_gpt_index index;
    int16_t member[8];
    int64_t sample[8];
    assert_int_equal(mega_gpt_index_plan_make(&plan, &spec), MEGA_OK);
    stop = 1;
    assert_int_equal(mega_gpt_index_build(&index, &spec, &plan, NULL, 0), MEGA_ERR_INTERRUPTED);
    assert_int_equal(mega_blend_order((const double[2]){3, 7}, 2, 8, &stop, member, sample), MEGA_ERR_INTERRUPTED);
    mega_indexed_close(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_keep_apart),
        cmocka_unit_test(empty_parts_are_null),
        cmocka_unit_test(cache_is_checked),
        cmocka_unit_test(names_of_the_cache),
        cmocka_unit_test(cache_files_are_npy),
        cmocka_unit_test(cache_that_cannot_be_written),
        cmocka_unit_test(blends),
        cmocka_unit_test(weights_of_zero),
        cmocka_unit_test(separate_paths),
        cmocka_unit_test(parts_follow_each_other),
        cmocka_unit_test(planned_bytes_are_held),
        cmocka_unit_test(share_holds_one_copy),
        cmocka_unit_test(shares_that_do_not_fit),
        cmocka_unit_test(refusals),
        cmocka_unit_test(signals_end_building),
        cmocka_unit_test(an_index_that_is_written_over),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every file of a checkpoint with bytes flipped, truncated, extended or missing: the error names it, and the previous
 * checkpoint is found if a fallback was requested. */
#include "ckpt_impl.h"
#include "tiny.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct scene {
    const char *save;
    tiny old, new, got;
} scene;

static void begin(scene *s)
{
    s->save = mega_kit_temp_folder();
    tiny_init(&s->old, MEGA_F32, 1);
    tiny_init(&s->new, MEGA_F32, 2);
    tiny_init(&s->got, MEGA_F32, 3);
    mega_tokenizer *t = NULL;
    tiny_ok(mega_tokenizer_create(&(mega_tokenizer_options){.type = "ByteTokenizer"}, &t));
    mega_checkpoint_save save = tiny_save(&s->old, s->save, 1, "{\"n\": 1}");
    tiny_ok(mega_checkpoint_write(&save));
    save = tiny_save(&s->new, s->save, 2, "{\"n\": 2}");
    save.save_dtype = MEGA_BF16; /* adds state/masters.safetensors */
    save.tokenizer = t;
    tiny_ok(mega_checkpoint_write(&save));
    mega_tokenizer_destroy(t);
}

static void end(scene *s)
{
    tiny_fini(&s->old);
    tiny_fini(&s->new);
    tiny_fini(&s->got);
}

static void assert_reads(scene *s, bool any_whole, const tiny *expected)
{
    mega_checkpoint *c = NULL;
    tiny_spoil(&s->got);
    tiny_ok(mega_checkpoint_open(s->save, any_whole, &c));
    assert_non_null(c);
    tiny_ok(mega_checkpoint_read_weights(c, s->got.weight, TINY_TENSORS, MEGA_F32));
    tiny_ok(mega_checkpoint_read_moments(c, s->got.moment, 2 * TINY_TENSORS, MEGA_F32));
    assert_true(tiny_equal(expected->weight, s->got.weight, TINY_TENSORS, MEGA_F32));
    assert_true(tiny_equal(expected->moment, s->got.moment, 2 * TINY_TENSORS, MEGA_F32));
    assert_string_equal(mega_checkpoint_run_json(c), expected == &s->new ? "{\"n\": 2}" : "{\"n\": 1}");
    mega_checkpoint_close(c);
}

/* Checks that damage of the file `name` in the newest checkpoint is noticed. */
static void check_damage(scene *s, const char *name, const char *how)
{
    mega_checkpoint *c = NULL;
    tiny_warned[0] = '\0';
    if (strcmp(name, "README.md") == 0) { /* users edit it: a warning, but no error */
        assert_reads(s, false, &s->new);
        if (strstr(tiny_warned, "README.md") == NULL) fail_msg("no warning of README.md, %s", how);
        return;
    }
    const mega_status st = mega_checkpoint_open(s->save, false, &c);
    if (st == MEGA_OK) fail_msg("%s, %s: not seen", name, how);
    assert_null(c);
    if (strstr(mega_error_message(), name) == NULL)
        fail_msg("%s, %s: not named in: %s", name, how, mega_error_message());
    if (strstr(mega_error_message(), "--load-previous resumes from iter_0000001") == NULL)
        fail_msg("%s, %s: no remedy in: %s", name, how, mega_error_message());
    assert_reads(s, true, &s->old);
    if (strstr(tiny_warned, name) == NULL ||
        strstr(tiny_warned, "continuing from the last complete checkpoint") == NULL)
        fail_msg("%s, %s: warnings: %s", name, how, tiny_warned);
}

static void rewrite(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    if (n > 0) assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void damage_file(scene *s, const char *name)
{
    const char *path = mega_kit_path(mega_kit_path(s->save, "iter_0000002"), name);
    char *bytes = NULL, how[64];
    size_t n = 0;
    tiny_ok(mega_file_read(path, &bytes, &n));
    char *more = calloc(1, n + 1);
    memcpy(more, bytes, n);
    /* bytes spread over the file, and every byte near the end */
    for (size_t at = 0; at < n; at += at + 40 < n ? n / 29 + 1 : 1) {
        more[at] ^= (char)(1 << at % 8);
        rewrite(path, more, n);
        snprintf(how, sizeof how, "byte %zu flipped", at);
        check_damage(s, name, how);
        more[at] = bytes[at];
    }
    const size_t cuts[] = {0, 1, n / 2, n - 1};
    for (size_t i = 0; i < 4; i++) {
        rewrite(path, bytes, cuts[i]);
        snprintf(how, sizeof how, "cut to %zu", cuts[i]);
        check_damage(s, name, how);
    }
    rewrite(path, more, n + 1);
    check_damage(s, name, "one byte more");
    assert_int_equal(unlink(path), 0);
    check_damage(s, name, "removed");
    rewrite(path, bytes, n);
    assert_reads(s, false, &s->new);
    free(more);
    mega_free(bytes);
}

static void every_file(void **state)
{
    (void)state;
    scene s;
    begin(&s);
    int files = 0;
    for (int inner = 0; inner < 2; inner++) {
        mega_names names = {0};
        const char *folder = mega_kit_path(s.save, inner != 0 ? "iter_0000002/state" : "iter_0000002");
        tiny_ok(mega_folder_list(folder, &names));
        for (size_t i = 0; i < names.count; i++) {
            if (strcmp(names.name[i], "state") == 0) continue;
            damage_file(&s, inner != 0 ? mega_kit_path("state", names.name[i]) : names.name[i]);
            files++;
        }
        mega_names_fini(&names);
    }
    assert_true(files >= 9); /* config, generation config, card, weights, tokenizer, run, moments, masters, checksums */
    end(&s);
}

/* All damage is reported at once; if nothing complete is left, that is the error, even if a fallback was requested. */
static void all_at_once(void **state)
{
    (void)state;
    scene s;
    begin(&s);
    mega_kit_write(mega_kit_path(s.save, "iter_0000002/config.json"), "{}");
    assert_int_equal(unlink(mega_kit_path(s.save, "iter_0000002/model.safetensors")), 0);
    mega_checkpoint *c = NULL;
    TINY_SAID(mega_checkpoint_open(s.save, false, &c), MEGA_ERR_FORMAT, "2 of its", "config.json: 2 bytes, expected",
              "model.safetensors: missing");
    assert_int_equal(mega_checkpoint_latest(s.save), 1);
    mega_kit_write(mega_kit_path(s.save, "iter_0000001/state/run.json"), "{\"n\": 7}");
    assert_int_equal(mega_checkpoint_latest(s.save), 1); /* checks sizes only */
    TINY_SAID(mega_checkpoint_open(s.save, false, &c), MEGA_ERR_FORMAT, "contains no other complete checkpoint");
    TINY_SAID(mega_checkpoint_open(s.save, true, &c), MEGA_ERR_FORMAT, "2 of its", "model.safetensors: missing",
              "contains no other complete checkpoint");
    assert_non_null(strstr(tiny_warned, "state/run.json: its bytes have changed"));
    assert_null(c);
    TINY_SAID(mega_checkpoint_open(mega_kit_path(s.save, "iter_0000001"), true, &c), MEGA_ERR_FORMAT, "run.json");
    end(&s);
}

/* The tracker's folder is missing, or the tracker itself is damaged: the newest complete one is used if requested. */
static void lost_folders(void **state)
{
    (void)state;
    scene s;
    begin(&s);
    mega_kit_write(mega_kit_path(s.save, "latest_checkpointed_iteration.txt"), "a/b");
    mega_checkpoint *c = NULL;
    TINY_SAID(mega_checkpoint_open(s.save, false, &c), MEGA_ERR_FORMAT, "latest_checkpointed_iteration.txt",
              "--load-previous resumes from iter_0000002");
    assert_reads(&s, true, &s.new);
    mega_kit_write(mega_kit_path(s.save, "latest_checkpointed_iteration.txt"), "2");
    tiny_ok(mega_tree_remove(mega_kit_path(s.save, "iter_0000002")));
    TINY_SAID(mega_checkpoint_open(s.save, false, &c), MEGA_ERR_NOT_FOUND, "iter_0000002",
              "--load-previous resumes from iter_0000001");
    assert_reads(&s, true, &s.old);
    end(&s);
}

/* Files that are checksummed in pieces: the same result with any number of threads, wherever the damage is. */
static void large_files(void **state)
{
    (void)state;
    enum { BYTES = (25 << 20) + 5 };
    const char *folder = mega_kit_temp_folder(), *path = mega_kit_path(folder, "large");
    uint8_t *bytes = mega_malloc(BYTES);
    for (uint32_t i = 0; i < BYTES; i++) bytes[i] = (uint8_t)(i * 2654435761u >> 24);
    rewrite(path, (const char *)bytes, BYTES);
    mega_checksums sums = {0};
    tiny_ok(mega_checksums_add(&sums, "large", BYTES, mega_crc32c(0, bytes, BYTES)));
    const size_t at[] = {0, (8u << 20) - 1, 8u << 20, (17u << 20) + 3, BYTES - 1};
    for (int threads = 1; threads <= 3; threads++) {
        mega_team *team = NULL;
        tiny_ok(mega_team_create(threads, &team));
        tiny_ok(mega_checksums_verify(&sums, folder, MEGA_SUMS_ALL, team));
        for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
            FILE *f = fopen(path, "r+b");
            assert_true(f != NULL && fseek(f, (long)at[i], SEEK_SET) == 0 && fputc(bytes[at[i]] ^ 4, f) != EOF);
            assert_int_equal(fflush(f), 0);
            TINY_SAID(mega_checksums_verify(&sums, folder, MEGA_SUMS_ALL, team), MEGA_ERR_FORMAT,
                      "large: its bytes have changed");
            assert_true(fseek(f, (long)at[i], SEEK_SET) == 0 && fputc(bytes[at[i]], f) != EOF);
            fclose(f);
        }
        tiny_ok(mega_checksums_verify(&sums, folder, MEGA_SUMS_ALL, team));
        mega_team_destroy(team);
    }
    mega_checksums_fini(&sums);
    mega_free(bytes);
}

/* The linker substitutes __wrap_mega_map_fetch for mega_map_fetch (cmake/tests.cmake). If `others` is above 0, the
 * thread that makes the first fetch waits in it until other threads have made that many. */
void __real_mega_map_fetch(const mega_map *map, size_t begin, size_t bytes);
void __wrap_mega_map_fetch(const mega_map *map, size_t begin, size_t bytes);
static atomic_int others, fetched;
static atomic_bool is_held, was_late;

void __wrap_mega_map_fetch(const mega_map *map, size_t begin, size_t bytes)
{
    if (atomic_load(&others) > 0 && !atomic_exchange(&is_held, true)) {
        const double late = mega_time_now() + 20;
        while (atomic_load(&fetched) < atomic_load(&others) && mega_time_now() < late) sched_yield();
        if (mega_time_now() >= late) atomic_store(&was_late, true);
    }
    __real_mega_map_fetch(map, begin, bytes);
    atomic_fetch_add(&fetched, 1);
}

/* A thread that is delayed in its piece delays nobody: the others sum all other pieces. */
static void a_thread_that_is_held_up(void **state)
{
    (void)state;
    enum { BYTES = (25 << 20) + 5, PIECES = 4 };
    const char *folder = mega_kit_temp_folder(), *path = mega_kit_path(folder, "large");
    uint8_t *bytes = mega_calloc(1, BYTES);
    rewrite(path, (const char *)bytes, BYTES);
    const uint32_t wanted = mega_crc32c(0, bytes, BYTES);
    for (int threads = 2; threads <= 3; threads++) {
        mega_team *team = NULL;
        mega_map map = {0};
        uint32_t sum = 0;
        tiny_ok(mega_team_create(threads, &team));
        tiny_ok(mega_map_open(path, &map));
        atomic_store(&fetched, 0);
        atomic_store(&is_held, false);
        atomic_store(&others, PIECES - 1);
        const mega_status st = mega_sum_of(&map, 0, map.size, team, &sum);
        atomic_store(&others, 0);
        tiny_ok(st);
        assert_int_equal(sum, wanted);
        assert_false(atomic_load(&was_late));
        mega_map_close(&map);
        mega_team_destroy(team);
    }
    mega_free(bytes);
}

/* Shares of several files, divided between and within them, add up to the checksums, however they are distributed. */
static void shares(void **state)
{
    (void)state;
    enum { FILES = 3, LARGE = (25 << 20) + 5 };
    static const char *const name[FILES] = {"small", "large", "empty"};
    const size_t size[FILES] = {11, LARGE, 0};
    const char *folder = mega_kit_temp_folder();
    uint8_t *bytes = mega_malloc(LARGE);
    mega_checksums sums = {0};
    for (uint32_t i = 0; i < LARGE; i++) bytes[i] = (uint8_t)(i * 2246822519u >> 24);
    for (int f = 0; f < FILES; f++) {
        rewrite(mega_kit_path(folder, name[f]), (const char *)bytes, size[f]);
        tiny_ok(mega_checksums_add(&sums, name[f], (int64_t)size[f], mega_crc32c(0, bytes, size[f])));
    }
    for (int flipped = 0; flipped < 2; flipped++) {
        for (int ranks = 1; ranks <= 6; ranks++) {
            uint32_t sum[FILES] = {0}, part[FILES];
            const int64_t pieces = mega_checksums_pieces(&sums);
            assert_int_equal(pieces, 5);
            for (int r = 0; r < ranks; r++) {
                tiny_ok(mega_checksums_part(&sums, folder, pieces * r / ranks, pieces * (r + 1) / ranks, NULL, part));
                for (int f = 0; f < FILES; f++) sum[f] ^= part[f];
            }
            if (flipped == 0) tiny_ok(mega_checksums_conclude(&sums, folder, sum));
            else
                TINY_SAID(mega_checksums_conclude(&sums, folder, sum), MEGA_ERR_FORMAT, "1 of its 3 files is damaged",
                          "large: its bytes have changed");
        }
        bytes[17 << 20] ^= 1;
        rewrite(mega_kit_path(folder, name[1]), (const char *)bytes, LARGE);
    }
    mega_checksums_fini(&sums);
    mega_free(bytes);
}

int main(void)
{
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 0);
    mega_log_set_sink(tiny_keep_warning, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file),  cmocka_unit_test(all_at_once),
        cmocka_unit_test(large_files), cmocka_unit_test(a_thread_that_is_held_up),
        cmocka_unit_test(shares),      cmocka_unit_test(lost_folders),
    };
    return cmocka_run_group_tests_name("checkpoint_damage", tests, NULL, NULL);
}

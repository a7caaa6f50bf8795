/* Checkpoints: what is written is read back bit for bit, and an error explains what cannot be read. */
#include "ckpt_impl.h"
#include "megalith/file.h"
#include "tiny.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void save_and_load(mega_dtype acc, mega_dtype save_dtype, bool moments)
{
    const char *folder = mega_kit_path(mega_kit_temp_folder(), "a/b/save");
    tiny m, got;
    tiny_init(&m, acc, 1);
    tiny_init(&got, acc, 2);
    tiny_spoil(&got);
    mega_checkpoint_save save = tiny_save(&m, folder, 100, "{\"iteration\": 100}");
    save.save_dtype = save_dtype;
    if (!moments) save.num_moments = 0;
    tiny_ok(mega_checkpoint_write(&save));

    mega_checkpoint *c = NULL;
    tiny_ok(mega_checkpoint_open(folder, false, &c));
    assert_non_null(c);
    assert_string_equal(mega_checkpoint_folder(c), mega_kit_path(folder, "iter_0000100"));
    assert_int_equal(mega_checkpoint_iteration(c), 100);
    assert_int_equal(mega_checkpoint_has_state(c), moments);
    assert_string_equal(mega_checkpoint_run_json(c), "{\"iteration\": 100}");
    const mega_model_shape *s = mega_checkpoint_shape(c);
    assert_int_equal(s->num_layers, 1);
    assert_int_equal(s->hidden, TINY_HIDDEN);
    assert_int_equal(s->ffn_hidden, TINY_FFN);
    assert_int_equal(s->heads, TINY_HEADS);
    assert_int_equal(s->positions, TINY_POSITIONS);
    assert_int_equal(s->vocab, TINY_VOCAB);
    assert_int_equal(s->eos, 256);
    assert_true(s->norm_epsilon == 1e-5 && s->attention_dropout == 0.1 && s->hidden_dropout == 0.0 &&
                s->init_std == 0.02);
    assert_true(s->net.activation == MEGA_ACT_GELU_TANH);
    tiny_ok(mega_checkpoint_read_weights(c, got.weight, TINY_TENSORS, acc));
    const bool is_narrow = mega_dtype_size(save_dtype) < mega_dtype_size(acc), exact = moments || !is_narrow;
    assert_int_equal(mega_file_exists(mega_kit_path(folder, "iter_0000100/state/masters.safetensors")),
                     moments && is_narrow);
    assert_int_equal(tiny_equal(m.weight, got.weight, TINY_TENSORS, acc), exact);
    if (!exact) {
        const double eps = save_dtype == MEGA_F32 ? 6e-8 : save_dtype == MEGA_F16 ? 4.9e-4 : 3.91e-3;
        for (int i = 0; i < TINY_TENSORS; i++) {
            for (int64_t k = 0; k < tiny_elements(&m.param[i]); k++) {
                const double a = tiny_get(&m.weight[i], acc, k), b = tiny_get(&got.weight[i], acc, k);
                if (!((a - b) * (a - b) <= eps * eps * a * a + 1e-14))
                    fail_msg("%s[%d]: %g, expected %g", m.param[i].name, (int)k, b, a);
            }
        }
    }
    if (moments) {
        tiny_ok(mega_checkpoint_read_moments(c, got.moment, 2 * TINY_TENSORS, acc));
        assert_true(tiny_equal(m.moment, got.moment, 2 * TINY_TENSORS, acc));
    } else {
        TINY_SAID(mega_checkpoint_read_moments(c, got.moment, 2 * TINY_TENSORS, acc), MEGA_ERR_NOT_FOUND,
                  "--no-load-optim");
    }
    mega_checkpoint_close(c);
    assert_int_equal(mega_checkpoint_latest(folder), 100);
    assert_int_equal(mega_checkpoint_tracked(folder), 100);
    tiny_fini(&m);
    tiny_fini(&got);
}

static void round_trips(void **state)
{
    (void)state;
    static const mega_dtype types[] = {MEGA_F32, MEGA_BF16, MEGA_F16, MEGA_F64};
    for (int i = 0; i < 4; i++) {
        for (int moments = 0; moments < 2; moments++) {
            save_and_load(MEGA_F32, types[i], moments != 0);
            save_and_load(MEGA_F64, types[i], moments != 0);
        }
    }
}

/* The names are the program's own: "transformer." is neither added nor removed, and no tensor is ignored. */
static void without_a_shape_names_are_exact(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    tiny m, got;
    mega_checkpoint *c = NULL;
    tiny_init(&m, MEGA_F32, 1);
    tiny_init(&got, MEGA_F32, 2);
    mega_checkpoint_save save = tiny_save(&m, folder, 5, "{}");
    save.shape = NULL;
    tiny_ok(mega_checkpoint_write(&save));
    tiny_ok(mega_checkpoint_open(folder, false, &c));
    assert_null(mega_checkpoint_shape(c));
    TINY_SAID(mega_checkpoint_check_shape(c), MEGA_ERR_UNSUPPORTED, "config.json", "no family of Hugging Face");
    tiny_ok(mega_checkpoint_read_weights(c, got.weight, TINY_TENSORS, MEGA_F32));
    assert_true(tiny_equal(m.weight, got.weight, TINY_TENSORS, MEGA_F32));
    got.weight[0].name += strlen("transformer.");
    TINY_SAID(mega_checkpoint_read_weights(c, got.weight, TINY_TENSORS, MEGA_F32), MEGA_ERR_FORMAT, "1 missing",
              "1 unexpected");
    mega_checkpoint_close(c);
    tiny_fini(&m);
    tiny_fini(&got);
}

static void write_iterations(tiny *m, const char *folder, int64_t first, int64_t last, int keep)
{
    for (int64_t i = first; i <= last; i++) {
        mega_checkpoint_save save = tiny_save(m, folder, i, "{}");
        save.keep = keep;
        tiny_ok(mega_checkpoint_write(&save));
    }
}

static void keeps_the_newest(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    tiny m;
    tiny_init(&m, MEGA_F32, 3);
    tiny_ok(mega_folder_create(mega_kit_path(folder, "iter_0000001/mp_rank_00"))); /* not ours: must never be removed */
    write_iterations(&m, folder, 2, 4, 0);
    write_iterations(&m, folder, 9, 9, 0);
    write_iterations(&m, folder, 5, 5, 2); /* 9 belongs to a run that went back to an earlier checkpoint: it stays */
    assert_true(is_in_folder(folder, "iter_0000001/mp_rank_00"));
    assert_false(is_in_folder(folder, "iter_0000002"));
    assert_false(is_in_folder(folder, "iter_0000003"));
    assert_true(is_in_folder(folder, "iter_0000004/model.safetensors"));
    assert_true(is_in_folder(folder, "iter_0000005/model.safetensors"));
    assert_true(is_in_folder(folder, "iter_0000009/model.safetensors"));
    write_iterations(&m, folder, 6, 6, 1);
    assert_false(is_in_folder(folder, "iter_0000004"));
    assert_false(is_in_folder(folder, "iter_0000005"));
    mega_names names = {0};
    tiny_ok(mega_folder_list(folder, &names));
    assert_int_equal(names.count, 4); /* 1, 6, 9 and the tracker, nothing else */
    mega_names_fini(&names);
    char *text = NULL;
    tiny_ok(mega_file_read(mega_kit_path(folder, "latest_checkpointed_iteration.txt"), &text, NULL));
    assert_string_equal(text, "6");
    mega_free(text);
    TINY_SAID(mega_checkpoint_write(&(mega_checkpoint_save){
                  .folder = folder, .iteration = 1, .shape = &tiny_shape, .save_dtype = MEGA_F32, .weights = m.weight}),
              MEGA_ERR_USAGE, "iter_0000001", "not written by megalith", "another --save");
    assert_true(is_in_folder(folder, "iter_0000001/mp_rank_00"));
    tiny_fini(&m);
}

static int count_files(const char *folder, const char *inside, const mega_checksums *sums)
{
    mega_names names = {0};
    int count = 0;
    tiny_ok(mega_folder_list(*inside != '\0' ? mega_kit_path(folder, inside) : folder, &names));
    for (size_t i = 0; i < names.count; i++) {
        char name[256];
        snprintf(name, sizeof name, "%s%s%s", inside, *inside != '\0' ? "/" : "", names.name[i]);
        if (mega_folder_exists(mega_kit_path(folder, name))) {
            count += count_files(folder, name, sums);
        } else if (strcmp(name, MEGA_CHECKSUMS_FILE) != 0) { /* that file contains its own checksum */
            if (mega_checksums_find(sums, name) == NULL) fail_msg("%s has no checksum", name);
            count++;
        }
    }
    mega_names_fini(&names);
    return count;
}

static void every_file_has_a_checksum(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    mega_checksums sums = {0};
    mega_tokenizer *tokenizer = NULL;
    tiny m;
    tiny_init(&m, MEGA_F32, 12);
    tiny_ok(mega_tokenizer_create(&(mega_tokenizer_options){.type = "ByteTokenizer"}, &tokenizer));
    mega_checkpoint_save save = tiny_save(&m, folder, 3, "{\"iteration\": 3}");
    save.tokenizer = tokenizer;
    save.model_card = "a card";
    save.save_dtype = MEGA_BF16; /* adds the exact weights */
    tiny_ok(mega_checkpoint_write(&save));
    const char *iteration = mega_kit_path(folder, "iter_0000003");
    tiny_ok(mega_checksums_read(iteration, &sums));
    const int files = count_files(iteration, "", &sums);
    assert_int_equal(files, sums.count); /* the list must not name files that do not exist */
    static const char *const some[] = {"config.json",
                                       "generation_config.json",
                                       "model.safetensors",
                                       "README.md",
                                       "state/optimizer.safetensors",
                                       "state/masters.safetensors",
                                       "tokenizer.json",
                                       "state/run.json"};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        if (mega_checksums_find(&sums, some[i]) == NULL) fail_msg("%s was not written", some[i]);
    mega_checksums_fini(&sums);
    mega_tokenizer_destroy(tokenizer);
    tiny_fini(&m);
}

static void replaces_an_iteration(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    tiny a, b;
    tiny_init(&a, MEGA_F32, 4);
    tiny_init(&b, MEGA_F32, 5);
    write_iterations(&a, folder, 7, 7, 0);
    mega_kit_write(mega_kit_path(folder, "iter_0000007/of_the_old_one"), "x");
    write_iterations(&b, folder, 7, 7, 0);
    assert_false(is_in_folder(folder, "iter_0000007/of_the_old_one"));
    mega_checkpoint *c = NULL;
    tiny_ok(mega_checkpoint_open(folder, false, &c));
    tiny_ok(mega_checkpoint_read_weights(c, a.weight, TINY_TENSORS, MEGA_F32));
    assert_true(tiny_equal(a.weight, b.weight, TINY_TENSORS, MEGA_F32));
    mega_checkpoint_close(c);
    tiny_fini(&a);
    tiny_fini(&b);
}

/* A tracker that names another program's folder belongs to that program. */
static void keeps_trackers_of_others(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const char *tracker = mega_kit_path(folder, "latest_checkpointed_iteration.txt");
    tiny_ok(mega_folder_create(mega_kit_path(folder, "iter_0005000/mp_rank_00")));
    tiny_ok(mega_folder_create(mega_kit_path(folder, "release/mp_rank_00")));
    tiny_ok(mega_checkpoint_check_foreign(folder, 0, 100));
    static const char *const foreign[] = {"5000", "release"}, *const own[] = {"7", "words", ""};
    for (int i = 0; i < 2; i++) {
        mega_kit_write(tracker, foreign[i]);
        assert_int_equal(mega_checkpoint_check_foreign(folder, 0, 100), MEGA_ERR_USAGE);
        assert_non_null(strstr(mega_error_message(), i == 0 ? "names iter_0005000" : "names release"));
    }
    for (int i = 0; i < 3; i++) { /* a folder that is gone, and others from which no run could resume */
        mega_kit_write(tracker, own[i]);
        tiny_ok(mega_checkpoint_check_foreign(folder, 0, 100));
    }
}

/* If folders cannot be exchanged, a crash may leave the current iteration only under its temporary name. A save that
 * fails must not remove it; one that succeeds does. */
static void keeps_what_was_set_aside(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    tiny m;
    tiny_init(&m, MEGA_F32, 20);
    write_iterations(&m, folder, 10, 10, 0);
    char name[160];
    temporary_name_of(name, "iter_0000010", ".exchange-", 2147483646);
    const char *aside = mega_kit_path(folder, name);
    tiny_ok(mega_file_rename(mega_kit_path(folder, "iter_0000010"), aside));
    mega_checkpoint_save save = tiny_save(&m, folder, 20, "{}");
    m.param[15].local_shape[0] = 2;
    assert_int_equal(mega_checkpoint_write(&save), MEGA_ERR_USAGE);
    mega_checkpoint *c = NULL;
    tiny_ok(mega_checkpoint_open(folder, false, &c));
    assert_string_equal(mega_checkpoint_folder(c), aside);
    assert_int_equal(mega_checkpoint_iteration(c), 10);
    mega_checkpoint_close(c);
    m.param[15].local_shape[0] = 0;
    tiny_ok(mega_checkpoint_write(&save));
    assert_false(mega_folder_exists(aside));
    tiny_fini(&m);
}

/* It is not an error if there is nothing to load, but it is one if something cannot be loaded. */
static void finds_nothing(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    mega_checkpoint *c = (mega_checkpoint *)1;
    tiny_ok(mega_checkpoint_open(mega_kit_path(folder, "missing"), false, &c));
    assert_null(c);
    c = (mega_checkpoint *)1;
    tiny_ok(mega_checkpoint_open(folder, false, &c));
    assert_null(c);
    assert_int_equal(mega_checkpoint_latest(folder), -1);
    assert_int_equal(mega_checkpoint_latest(mega_kit_path(folder, "missing")), -1);
    assert_int_equal(mega_checkpoint_tracked(folder), -1);
    tiny_ok(mega_folder_create(mega_kit_path(folder, "tensorboard")));
    tiny_warned[0] = '\0';
    tiny_ok(mega_checkpoint_open(folder, false, &c));
    assert_null(c);
    assert_string_equal(tiny_warned, "");
    mega_kit_write(mega_kit_path(folder, "text.bin"), "x");
    TINY_SAID(mega_checkpoint_open(folder, false, &c), MEGA_ERR_NOT_FOUND, "weights (text.bin)", "config.json");
    mega_kit_write(mega_kit_path(folder, "text.idx"), "x"); /* now it is a data set */
    tiny_ok(mega_checkpoint_open(folder, false, &c));
    assert_null(c);
    tiny_ok(mega_folder_create(mega_kit_path(folder, "iter_0000007")));
    TINY_SAID(mega_checkpoint_open(folder, false, &c), MEGA_ERR_NOT_FOUND, "found iter_0000007", "--load");
    tiny_ok(mega_tree_remove(mega_kit_path(folder, "iter_0000007")));
    mega_kit_write(mega_kit_path(folder, "file"), "x");
    TINY_SAID(mega_checkpoint_open(mega_kit_path(folder, "file"), false, &c), MEGA_ERR_USAGE, "this is a file");
    tiny_ok(mega_checkpoint_open(mega_kit_path(folder, "file/below"), false, &c));
    assert_null(c);
}

/* A signal before or while a checkpoint is read must not be mistaken for damage, and no other checkpoint is tried. */
static void signals_end_reading(void **state)
{
    (void)state;
    tiny m, got;
    mega_checkpoint *c = NULL;
    mega_team *team;
    volatile sig_atomic_t stop = 1;
    const char *folder = mega_kit_temp_folder();
    tiny_init(&m, MEGA_F32, 9);
    tiny_init(&got, MEGA_F32, 10);
    write_iterations(&m, folder, 1, 2, 0);
    tiny_ok(mega_team_create(2, &team));
    mega_team_stop_on(team, &stop);
    for (int any = 0; any < 2; any++)
        TINY_SAID(mega_checkpoint_open_team(folder, any, team, &c), MEGA_ERR_INTERRUPTED, "interrupted by a signal");
    remove(mega_kit_path(folder, "latest_checkpointed_iteration.txt"));
    TINY_SAID(mega_checkpoint_open_team(folder, false, team, &c), MEGA_ERR_INTERRUPTED, "interrupted by a signal");
    stop = 0;
    tiny_ok(mega_checkpoint_open_team(folder, false, team, &c));
    stop = 1;
    TINY_SAID(mega_checkpoint_read_weights(c, got.weight, TINY_TENSORS, MEGA_F32), MEGA_ERR_INTERRUPTED, "interrupted");
    stop = 0;
    tiny_ok(mega_checkpoint_read_weights(c, got.weight, TINY_TENSORS, MEGA_F32));
    mega_checkpoint_close(c);
    mega_team_destroy(team);
    tiny_fini(&m);
    tiny_fini(&got);
}

static void reads_trackers(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const char *tracker = mega_kit_path(folder, "latest_checkpointed_iteration.txt");
    tiny m;
    tiny_init(&m, MEGA_F32, 7);
    mega_checkpoint *c = NULL;
    mega_kit_write(tracker, "twelve\nor more\n");
    TINY_SAID(mega_checkpoint_open(folder, false, &c), MEGA_ERR_FORMAT, tracker, "\"twelve\" names no checkpoint",
              "iter_", "contains no other complete checkpoint");
    mega_kit_write(tracker, "12\n");
    TINY_SAID(mega_checkpoint_open(folder, false, &c), MEGA_ERR_NOT_FOUND, "iter_0000012", "names it");
    mega_kit_write(tracker, "release");
    TINY_SAID(mega_checkpoint_open(folder, false, &c), MEGA_ERR_NOT_FOUND, "release");
    tiny_ok(mega_folder_create(mega_kit_path(folder, "release/mp_rank_00")));
    TINY_SAID(mega_checkpoint_open(folder, false, &c), MEGA_ERR_UNSUPPORTED, "mp_rank_00, written by Megatron",
              "load them with the program that wrote them");
    write_iterations(&m, folder, 3, 4, 0);
    tiny_ok(mega_checkpoint_open(mega_kit_path(folder, "iter_0000003"), false, &c)); /* an iteration folder itself */
    assert_int_equal(mega_checkpoint_iteration(c), 3);
    mega_checkpoint_close(c);
    assert_int_equal(unlink(tracker), 0);
    tiny_warned[0] = '\0';
    tiny_ok(mega_checkpoint_open(folder, false, &c));
    assert_int_equal(mega_checkpoint_iteration(c), 4);
    assert_non_null(strstr(tiny_warned, "latest_checkpointed_iteration.txt is missing"));
    mega_checkpoint_close(c);
    mega_kit_write(tracker, "4");
    tiny_ok(mega_tree_remove(mega_kit_path(folder, "iter_0000004/state")));
    tiny_warned[0] = '\0';
    tiny_ok(mega_checkpoint_open(folder, false, &c));
    assert_int_equal(mega_checkpoint_iteration(c), 0);
    assert_false(mega_checkpoint_has_state(c));
    assert_non_null(strstr(tiny_warned, "only weights"));
    mega_checkpoint_close(c);
    tiny_fini(&m);
}

/* Folders of other programs, each recognised by a typical name. */
static void tells_files_of_torch(void **state)
{
    (void)state;
    static const char *const made[] = {
        "mp_rank_00/model_optim_rng.pt", "__0_0.distcp", "distrib_optim.pt",      "model_optim_rng.pt",
        "global_step100/x.pt",           "ckpt.pt",      "layer_00-model_00.ckpt"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        const char *folder = mega_kit_temp_folder();
        const char *slash = strchr(made[i], '/');
        mega_checkpoint *c = NULL;
        char first[96];
        snprintf(first, sizeof first, "found %.*s,", slash != NULL ? (int)(slash - made[i]) : 60, made[i]);
        if (slash != NULL) {
            char inner[64];
            snprintf(inner, sizeof inner, "%.*s", (int)(slash - made[i]), made[i]);
            tiny_ok(mega_folder_create(mega_kit_path(folder, inner)));
        }
        mega_kit_write(mega_kit_path(folder, made[i]), "x");
        TINY_SAID(mega_checkpoint_open(folder, false, &c), MEGA_ERR_UNSUPPORTED, first, "docs/huggingface.md");
        assert_null(strstr(mega_error_message(), "convert"));
    }
}

/* A folder that this user may not read must not pass for an empty one. */
static void tells_rights(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *locked = mega_kit_path(folder, "locked");
    mega_checkpoint *c = NULL;
    tiny_ok(mega_folder_create(locked));
    assert_int_equal(chmod(locked, 0), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    const bool is_root = geteuid() == 0;
    if (is_root) assert_int_equal(seteuid(65534), 0);
    const mega_status beside = mega_checkpoint_open(locked, false, &c);
    const mega_status below = mega_checkpoint_open(mega_kit_path(locked, "iter_0000001"), false, &c);
    if (is_root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(locked, 0700), 0);
    assert_int_equal(beside, MEGA_ERR_IO);
    assert_int_equal(below, MEGA_ERR_IO);
    assert_non_null(strstr(mega_error_message(), "check the permissions"));
}

static void refuses_to_save(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    tiny m;
    tiny_init(&m, MEGA_F32, 8);
    mega_kit_write(mega_kit_path(folder, "file"), "x");
    TINY_SAID(mega_checkpoint_prepare(mega_kit_path(folder, "file")), MEGA_ERR_USAGE, "this is a file");
    TINY_SAID(mega_checkpoint_prepare(mega_kit_path(folder, "file/below")), MEGA_ERR_IO, "--save", "file/below");
    mega_checkpoint_save save = tiny_save(&m, mega_kit_path(folder, "file"), 1, "{}");
    TINY_SAID(mega_checkpoint_write(&save), MEGA_ERR_USAGE, "this is a file");
    save = tiny_save(&m, mega_kit_path(folder, "file/below"), 1, "{}");
    TINY_SAID(mega_checkpoint_write(&save), MEGA_ERR_IO, "file");
    save = tiny_save(&m, folder, 1, "{}");
    m.param[3].local_shape[0] = 2;
    TINY_SAID(mega_checkpoint_write(&save), MEGA_ERR_USAGE, "ln_1.bias", "holds 2 of 4 entries of dimension 0");
    mega_names names = {0};
    tiny_ok(mega_folder_list(folder, &names));
    assert_int_equal(names.count, 1); /* nothing may be left */
    mega_names_fini(&names);
    tiny_fini(&m);
}

typedef struct attempt {
    tiny *m, *got;
    const char *folder;
} attempt;

static int try_to_write(void *user)
{
    const attempt *a = user;
    mega_checkpoint_save save = tiny_save(a->m, a->folder, 2, "{}");
    save.save_dtype = MEGA_BF16;
    return (int)mega_checkpoint_write(&save);
}

static int try_to_read(void *user)
{
    const attempt *a = user;
    mega_checkpoint *c = NULL;
    mega_status st = mega_checkpoint_open(a->folder, false, &c);
    if (st == MEGA_OK) st = mega_checkpoint_read_weights(c, a->got->weight, TINY_TENSORS, MEGA_F32);
    if (st == MEGA_OK) st = mega_checkpoint_read_moments(c, a->got->moment, 2 * TINY_TENSORS, MEGA_F32);
    mega_checkpoint_close(c);
    return (int)st;
}

/* Lets each allocation fail once. Steps that only clean up may succeed without memory; all others must report the lack
 * of memory and leave the existing checkpoint. */
static void walk_allocations(mega_kit_attempt *run, attempt *a, bool writes)
{
    const uint64_t before = mega_alloc_count();
    tiny_ok((mega_status)run(a));
    const uint64_t count = mega_alloc_count() - before;
    uint64_t failed = 0;
    for (uint64_t n = 1; n <= count; n++) {
        tiny_spoil(a->got);
        mega_alloc_fail_at(n);
        const mega_status st = (mega_status)run(a);
        mega_alloc_fail_at(0);
        if (st != MEGA_OK && st != MEGA_ERR_MEMORY)
            fail_msg("allocation %d: %s: %s", (int)n, mega_status_name(st), mega_error_message());
        failed += st == MEGA_ERR_MEMORY;
        if (writes) tiny_ok((mega_status)try_to_read(a));
        if (st == MEGA_OK || writes) {
            assert_true(tiny_equal(a->m->weight, a->got->weight, TINY_TENSORS, MEGA_F32));
            assert_true(tiny_equal(a->m->moment, a->got->moment, 2 * TINY_TENSORS, MEGA_F32));
        }
    }
    assert_true(failed > 50 && failed + 40 > count);
    mega_names names = {0};
    tiny_ok((mega_status)run(a)); /* removes what clean-up steps without memory have left */
    tiny_ok(mega_folder_list(a->folder, &names));
    assert_int_equal(names.count, 2); /* the iteration and the tracker */
    mega_names_fini(&names);
}

static void out_of_memory(void **state)
{
    (void)state;
    tiny m, got;
    tiny_init(&m, MEGA_F32, 9);
    tiny_init(&got, MEGA_F32, 10);
    attempt a = {&m, &got, mega_kit_temp_folder()};
    walk_allocations(try_to_write, &a, true);
    walk_allocations(try_to_read, &a, false);
    tiny_fini(&m);
    tiny_fini(&got);
}

int main(void)
{
    mega_log_set_sink(tiny_keep_warning, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(without_a_shape_names_are_exact),
        cmocka_unit_test(keeps_the_newest),
        cmocka_unit_test(every_file_has_a_checksum),
        cmocka_unit_test(replaces_an_iteration),
        cmocka_unit_test(keeps_trackers_of_others),
        cmocka_unit_test(keeps_what_was_set_aside),
        cmocka_unit_test(finds_nothing),
        cmocka_unit_test(signals_end_reading),
        cmocka_unit_test(reads_trackers),
        cmocka_unit_test(tells_files_of_torch),
        cmocka_unit_test(tells_rights),
        cmocka_unit_test(refuses_to_save),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, NULL, NULL);
}

/* Checkpoints: what is written is read back bit for bit, and what cannot be read says why. */
#include "megalith/file.h"
#include "megalith/log.h"
#include "tiny.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The last warnings, for tests that expect one. */
static char warned[8192];
static void keep_warning(void *user, mega_log_level level, const char *line)
{
    (void)user;
    if (level != MEGA_LOG_WARN || strlen(warned) + strlen(line) + 2 > sizeof warned) return;
    strcat(warned, line);
    strcat(warned, "\n");
}

static void ok(mega_status st)
{
    if (st != MEGA_OK) fail_msg("%s (%s)", mega_error_message(), mega_error_where());
}

static void said(mega_status st, mega_status expected, const char *const *pieces)
{
    if (st != expected)
        fail_msg("status %s, expected %s: %s", mega_status_name(st), mega_status_name(expected), mega_error_message());
    for (; *pieces != NULL; pieces++) {
        if (strstr(mega_error_message(), *pieces) == NULL)
            fail_msg("\"%s\" is not in: %s", *pieces, mega_error_message());
    }
}
#define SAID(st, expected, ...) said(st, expected, (const char *const[]){__VA_ARGS__, NULL})

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
    ok(mega_checkpoint_write(&save));

    mega_checkpoint *c = NULL;
    ok(mega_checkpoint_open(&c, folder, false));
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
    assert_true(s->tanh_gelu);
    ok(mega_checkpoint_read_weights(c, got.weight, TINY_TENSORS, acc));
    const bool exact = moments || acc == save_dtype;
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
        ok(mega_checkpoint_read_moments(c, got.moment, 2 * TINY_TENSORS, acc));
        assert_true(tiny_equal(m.moment, got.moment, 2 * TINY_TENSORS, acc));
    } else {
        SAID(mega_checkpoint_read_moments(c, got.moment, 2 * TINY_TENSORS, acc), MEGA_ERR_NOT_FOUND, "--no-load-optim");
    }
    mega_checkpoint_close(c);
    assert_int_equal(mega_checkpoint_latest(folder), 100);
    tiny_fini(&m);
    tiny_fini(&got);
}

static void round_trips(void **state)
{
    (void)state;
    static const mega_dtype types[] = {MEGA_F32, MEGA_BF16, MEGA_F16};
    for (int i = 0; i < 3; i++) {
        for (int moments = 0; moments < 2; moments++) {
            save_and_load(MEGA_F32, types[i], moments != 0);
            save_and_load(MEGA_F64, types[i], moments != 0);
        }
    }
}

int main(void)
{
    mega_log_set_sink(keep_warning, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, NULL, NULL);
}

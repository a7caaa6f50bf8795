/* Compares a small random model of each family with transformers (tools/make_family_golden.py, which runs here): the
 * loss of every position, the logits of sentence pairs and every gradient, in float64 with the plain kernels and in
 * float32 with the fast ones. A tensor's error is its largest difference over its largest element. MEGA_FAMILY=NAME
 * compares one model. Then folders that say more or less than their model (tools/make_family_strays.py): the same
 * losses as in transformers, or a refusal that names the key or the tensor. */
#include "gpt_run.h"
#include "megalith/checkpoint.h"
#include "megalith/file.h"
#include "megalith/hf_config.h"
#include "model_features.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder; /* of the models */

typedef struct expected {
    int64_t batch, length;
    int32_t *token, *label, *type, *key_end;
    double *loss;
    float *weight;
    int has_pairs;
    int32_t is_random[8];
    double logit[8][2];
} expected;

static expected read_expected(const char *path)
{
    expected e = {0};
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    long long batch = 0, length = 0;
    assert_int_equal(fscanf(f, "%lld %lld %d", &batch, &length, &e.has_pairs), 3);
    assert_in_range(batch, 1, 8);
    e.batch = batch, e.length = length;
    const size_t n = (size_t)(batch * length);
    e.token = calloc(n, sizeof *e.token), e.label = calloc(n, sizeof *e.label), e.loss = calloc(n, sizeof *e.loss);
    e.type = calloc(n, sizeof *e.type), e.key_end = calloc(n, sizeof *e.key_end);
    e.weight = calloc(n, sizeof *e.weight);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(fscanf(f, "%d %d %lf %f %d %d", &e.token[i], &e.label[i], &e.loss[i], &e.weight[i], &e.type[i],
                                &e.key_end[i]),
                         6);
    for (int64_t i = 0; i < (e.has_pairs ? batch : 0); i++)
        assert_int_equal(fscanf(f, "%d %lf %lf", &e.is_random[i], &e.logit[i][0], &e.logit[i][1]), 3);
    fclose(f);
    return e;
}

static void free_expected(expected *e)
{
    free(e->token);
    free(e->label);
    free(e->loss);
    free(e->type);
    free(e->key_end);
    free(e->weight);
}

/* Reads the tensors of a folder into masters. */
static void read_params(const char *path, mega_params *p)
{
    mega_checkpoint *c = NULL;
    GPT_RUN_OK(mega_checkpoint_open(path, false, &c));
    GPT_RUN_OK(mega_checkpoint_read_params(c, p, p));
    mega_checkpoint_close(c);
}

static void fill_i32(const gpt_run *r, const char *name, const int32_t *from, int64_t n)
{
    int32_t *to = mega_program_tensor(r->program, name, 0);
    if (to == NULL) return;
    mega_error_clear();
    for (int64_t i = 0; i < n; i++)
        to[i] = from != NULL ? from[i] : strstr(name, "position_ids") != NULL ? (int32_t)(i % r->seq) : 0;
}

static void fill_inputs(const gpt_run *r, const expected *e)
{
    const int64_t n = e->batch * e->length;
    fill_i32(r, "tokens", e->token, n);
    fill_i32(r, "labels", e->label, n);
    fill_i32(r, "position_ids", NULL, n);
    fill_i32(r, "key_begin", NULL, n);
    fill_i32(r, "key_end", e->key_end, n);
    fill_i32(r, "token_types", e->type, n);
    fill_i32(r, "is_random", e->is_random, e->batch);
    fill_i32(r, "decoder_tokens", e->type, n); /* of an encoder with a decoder, which has no types of tokens */
    fill_i32(r, "decoder_position_ids", NULL, n);
    fill_i32(r, "cross_key_end", e->key_end, n);
    float *mask = mega_program_tensor(r->program, "loss_mask", 0);
    for (int64_t i = 0; i < n; i++) mask[i] = e->weight[i];
}

/* has_none: the gradient is 0 but for rounding, so that there is nothing to compare it with. */
static double worst_of(const gpt_run *r, const void *got, const void *wanted, int64_t n, bool has_none)
{
    double worst = 0.0, most = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double a = gpt_run_number(r, got, i), b = gpt_run_number(r, wanted, i);
        if (!isfinite(a)) return INFINITY;
        worst = fmax(worst, fabs(a - b));
        most = fmax(most, fabs(b));
    }
    return most > 0.0 && !has_none ? worst / most : worst;
}

static void compare_losses(const char *name, const gpt_run *r, const expected *e, double tolerance)
{
    const void *got = mega_program_tensor(r->program, "token_loss", 0);
    double worst = 0.0, most = 0.0;
    for (int64_t i = 0; i < e->batch * e->length; i++) {
        if (r->gpt.net.t5 == MEGA_T5_NONE && i % e->length >= e->key_end[i]) continue; /* padding */
        const double d = fabs(gpt_run_number(r, got, i) - e->loss[i]);
        worst = d > worst || isnan(d) ? d : worst;
        most = fmax(most, fabs(e->loss[i]));
    }
    if (!(worst <= tolerance * most)) fail_msg("%s: losses of positions differ by %.3g of %.3g", name, worst, most);
}

static void compare_pairs(const char *name, const gpt_run *r, const expected *e, double tolerance)
{
    const void *got = e->has_pairs ? mega_program_tensor(r->program, "class_logits", 0) : NULL;
    for (int64_t i = 0; i < (e->has_pairs ? 2 * e->batch : 0); i++) {
        const double d = fabs(gpt_run_number(r, got, i) - e->logit[i / 2][i % 2]);
        if (!(d <= tolerance * fmax(fabs(e->logit[i / 2][0]), fabs(e->logit[i / 2][1]))))
            fail_msg("%s: logit %d of the pairs differs by %.3g", name, (int)i, d);
    }
}

static void compare(const char *name, mega_dtype dtype, mega_backend_kind backend, double tolerance)
{
    const char *path = mega_kit_path(folder, name);
    mega_checkpoint *c = NULL;
    mega_transformer m;
    expected e = read_expected(mega_kit_path(path, "expected.txt"));
    GPT_RUN_OK(mega_checkpoint_open(path, false, &c));
    mega_transformer_from_shape(mega_checkpoint_shape(c), 1, &m);
    mega_checkpoint_close(c);
    gpt_run r =
        gpt_run_make(&m, &(gpt_run_options){.dtype = dtype, .backend = backend, .batch = e.batch, .seq = e.length});
    gpt_run gradients =
        gpt_run_make(&m, &(gpt_run_options){.dtype = dtype, .backend = backend, .batch = e.batch, .seq = e.length});
    read_params(path, r.params);
    GPT_RUN_OK(mega_params_publish(r.params));
    read_params(mega_kit_path(path, "grads"), gradients.params);
    fill_inputs(&r, &e);
    gpt_run_zero_gradients(&r);
    GPT_RUN_OK(mega_program_forward(r.program, 0));
    compare_losses(name, &r, &e, tolerance);
    compare_pairs(name, &r, &e, tolerance);
    GPT_RUN_OK(mega_program_backward(r.program, 0));
    double worst = 0.0;
    for (int i = 0; i < mega_params_count(r.params); i++) {
        const mega_param *p = mega_params_get(r.params, i);
        if (p->is_buffer) continue;
        const bool has_none = strstr(p->name, "_k.bias") != NULL; /* it adds the same to all scores of a query */
        const double d =
            worst_of(&r, mega_params_grad(r.params, i), mega_params_master(gradients.params, i), p->count, has_none);
        if (!(d <= tolerance))
            fail_msg("%s: the gradient of %s differs by %.3g of its largest element", name, p->name, d);
        worst = fmax(worst, d);
    }
    print_message("%-20s %s: worst gradient differs by %.2g\n", name, mega_dtype_name(dtype), worst);
    gpt_run_free(&gradients);
    gpt_run_free(&r);
    free_expected(&e);
}

/* bloom rounds sqrt(2/pi) in its gelu to eight digits. */
static double tolerance_of(const char *name, double tolerance)
{
    return strncmp(name, "bloom", 5) == 0 && tolerance < 1e-8 ? 1e-8 : tolerance;
}

typedef void of_model(const char *name);

static void for_each_model(of_model *f)
{
    const char *only = getenv("MEGA_FAMILY");
    struct dirent **entry = NULL;
    const int n = scandir(folder, &entry, NULL, alphasort);
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (entry[i]->d_name[0] != '.' && (only == NULL || strcmp(only, entry[i]->d_name) == 0)) {
            f(entry[i]->d_name);
            count++;
        }
        free(entry[i]);
    }
    free(entry);
    assert_true(count > 0);
}

static void make_models(void)
{
    char command[4096];
    const char *python = mega_kit_need_peers(), *given = getenv("MEGA_FAMILY_FOLDER");
    if (folder == NULL) folder = given;
    if (folder != NULL) return;
    folder = mega_kit_temp_folder();
    const char *only = getenv("MEGA_FAMILY");
    snprintf(command, sizeof command, "'%s' '%s' '%s' %s >'%s/.log' 2>&1", python,
             mega_kit_source("tools/make_family_golden.py"), folder, only != NULL ? only : "", folder);
    if (system(command) != 0) fail_msg("%s failed, see the end of %s/.log", command, folder);
}

static void in_float64(const char *name)
{
    compare(name, MEGA_F64, MEGA_BACKEND_PLAIN, tolerance_of(name, 1e-9));
}

static void in_float32(const char *name)
{
    compare(name, MEGA_F32, MEGA_BACKEND_CPU, 1e-5);
}

static void losses_and_gradients_in_float64(void **state)
{
    (void)state;
    make_models();
    for_each_model(in_float64);
}

static void losses_and_gradients_in_float32(void **state)
{
    (void)state;
    make_models();
    for_each_model(in_float32);
}

/* Otherwise the comparisons above would not see that a feature is missing. */
static void every_feature_of(const char *name)
{
    const char *path = mega_kit_path(folder, name);
    mega_checkpoint *c = NULL;
    mega_transformer m;
    features_named named;
    bool met[FEATURES] = {false};
    expected e = read_expected(mega_kit_path(path, "expected.txt"));
    GPT_RUN_OK(mega_checkpoint_open(path, false, &c));
    mega_transformer_from_shape(mega_checkpoint_shape(c), 1, &m);
    mega_checkpoint_close(c);
    features_name(&named, &m.net);
    gpt_run r = features_open(&m, e.batch, e.length);
    read_params(path, r.params);
    fill_inputs(&r, &e);
    const char *idle = features_idle(&r, met);
    if (idle != NULL) fail_msg("%s: without %s its losses are the same", name, idle);
    gpt_run_free(&r);
    free_expected(&e);
}

static void every_feature_counts(void **state)
{
    (void)state;
    make_models();
    for_each_model(every_feature_of);
}

/* ---- folders that say more or less than their model ---- */

static const char *strays;

static void make_strays(void)
{
    char command[4096];
    strays = getenv("MEGA_FAMILY_STRAYS");
    if (strays != NULL) return;
    strays = mega_kit_path(mega_kit_temp_folder(), "strays");
    snprintf(command, sizeof command, "OMP_NUM_THREADS=1 '%s' '%s' '%s' '%s' >'%s.log' 2>&1", mega_kit_need_peers(),
             mega_kit_source("tools/make_family_strays.py"), folder, strays, strays);
    if (system(command) != 0) fail_msg("%s failed, see the end of %s.log", command, strays);
}

/* Whether the error message has one of the words of names.txt. */
static bool is_named(const char *path)
{
    char word[256];
    bool found = false;
    FILE *f = fopen(mega_kit_path(path, "names.txt"), "r");
    assert_non_null(f);
    while (!found && fgets(word, sizeof word, f) != NULL) {
        word[strcspn(word, "\n")] = '\0';
        found = word[0] != '\0' && strstr(mega_error_message(), word) != NULL;
    }
    fclose(f);
    return found;
}

static mega_status open_stray(const char *path, const expected *e, gpt_run *out)
{
    mega_checkpoint *c = NULL;
    mega_transformer m;
    MEGA_TRY(mega_checkpoint_open(path, false, &c));
    mega_transformer_from_shape(mega_checkpoint_shape(c), 1, &m);
    *out = gpt_run_make(&m, &(gpt_run_options){.dtype = MEGA_F32, .batch = e->batch, .seq = e->length});
    const mega_status st = mega_checkpoint_read_params(c, out->params, out->params);
    mega_checkpoint_close(c);
    return st;
}

/* The largest difference of a loss, over the largest loss. */
static double stray_differs(gpt_run *r, const expected *e)
{
    double worst = 0.0, most = 0.0;
    GPT_RUN_OK(mega_params_publish(r->params));
    fill_inputs(r, e);
    GPT_RUN_OK(mega_program_forward(r->program, 0));
    const void *got = mega_program_tensor(r->program, "token_loss", 0);
    for (int64_t i = 0; i < e->batch * e->length; i++) {
        if (r->gpt.net.t5 == MEGA_T5_NONE && i % e->length >= e->key_end[i]) continue; /* padding */
        const double d = fabs(gpt_run_number(r, got, i) - e->loss[i]);
        worst = d > worst || isnan(d) ? d : worst;
        most = fmax(most, fabs(e->loss[i]));
    }
    return worst / most;
}

static int stray_is_wrong(const char *name)
{
    const char *path = mega_kit_path(strays, name), *answer = mega_kit_path(path, "expected.txt");
    char model[64];
    snprintf(model, sizeof model, "%.*s", (int)strcspn(name, "~"), name);
    const bool has_answer = mega_file_exists(answer);
    expected e = read_expected(has_answer ? answer : mega_kit_path(mega_kit_path(folder, model), "expected.txt"));
    gpt_run r = {.params = NULL};
    double d = INFINITY;
    const mega_status st = open_stray(path, &e, &r);
    const bool named = st != MEGA_OK && is_named(path);
    if (st == MEGA_OK && has_answer) d = stray_differs(&r, &e);
    const bool wrong = st == MEGA_OK ? !(d <= 2e-5) : !named;
    if (wrong && st == MEGA_OK && !has_answer)
        print_message("%s: read, though transformers ends with an error\n", name);
    else if (wrong && st == MEGA_OK)
        print_message("%s: losses differ by %.2g\n", name, d);
    else if (wrong)
        print_message("%s: the message names nothing: %s\n", name, mega_error_message());
    else if (getenv("MEGA_STRAYS_SAID") != NULL)
        print_message("ok %s: %s\n", name, st == MEGA_OK ? "same" : mega_error_message());
    mega_error_clear();
    gpt_run_free(&r);
    free_expected(&e);
    return wrong;
}

static void strays_are_as_in_transformers(void **state)
{
    (void)state;
    int wrong = 0;
    if (getenv("MEGA_FAMILY") != NULL) mega_kit_skip("MEGA_FAMILY names one model");
    struct dirent **entry = NULL;
    make_models();
    make_strays();
    const int n = scandir(strays, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (strchr(entry[i]->d_name, '~') != NULL) wrong += stray_is_wrong(entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    assert_true(n > 100);
    if (wrong > 0) fail_msg("%d of %d folders", wrong, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_feature_counts),
        cmocka_unit_test(losses_and_gradients_in_float64),
        cmocka_unit_test(losses_and_gradients_in_float32),
        cmocka_unit_test(strays_are_as_in_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* One training step of examples/resnet18_cifar10.c for test_resnet18_torch.sh, by public headers alone:
 *
 *     resnet18_step FILE [options]
 *
 * prints the loss, and a line "NAME ROWS COLUMNS" for each parameter and buffer (0 columns: a vector). Their values
 * follow each other in this order, as float, in before.bin, after.bin and grad.bin (zeros for a buffer). */
#define main example_main
#include "../../examples/resnet18_cifar10.c"
#undef main
#include <math.h>

static bool is_buffer(const char *name)
{
    return strstr(name, "running_") != NULL;
}

/* Makes values of vectors differ, which begin as zeros and ones: else a gain, bias or statistic could change places. */
static mega_status vary(mega_engine *e, const char *name, int64_t count, float *value)
{
    MEGA_TRY(mega_engine_get_param(e, name, NULL, count, value));
    for (int64_t i = 0; i < count; i++) value[i] += 0.2f * (float)sin(1.0 + (double)i + (double)strlen(name));
    return mega_engine_set_param(e, name, NULL, count, value);
}

/* Writes a tensor of each parameter; with `varies`, after it is varied. */
static mega_status write_all(mega_engine *e, const char *path, const char *what, bool varies)
{
    const char *name;
    int64_t rows, columns;
    FILE *file = fopen(path, "wb");
    if (file == NULL) return MEGA_FAIL(MEGA_ERR_IO, "%s: cannot be written", path);
    mega_status st = MEGA_OK;
    for (int i = 0; st == MEGA_OK && mega_engine_param_info(e, i, &name, &rows, &columns) == MEGA_OK; i++) {
        const int64_t count = rows * (columns > 0 ? columns : 1);
        float *value = mega_calloc((size_t)count, sizeof *value);
        if (value == NULL) st = MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory", name);
        if (st == MEGA_OK && varies && columns == 0) st = vary(e, name, count, value);
        if (st == MEGA_OK && !(what != NULL && is_buffer(name)))
            st = mega_engine_get_param(e, name, what, count, value);
        if (st == MEGA_OK && varies) printf("%s %lld %lld\n", name, (long long)rows, (long long)columns);
        if (st == MEGA_OK && fwrite(value, sizeof *value, (size_t)count, file) != (size_t)count)
            st = MEGA_FAIL(MEGA_ERR_IO, "%s: not written", path);
        mega_free(value);
    }
    if (fclose(file) != 0 && st == MEGA_OK) st = MEGA_FAIL(MEGA_ERR_IO, "%s: not written", path);
    return st;
}

static mega_status step(pictures *p, int argc, char **argv, mega_engine **out)
{
    char *option[MOST_OPTIONS];
    int first = 0;
    mega_step_result result;
    MEGA_TRY(open_pictures(p, argc, argv, &first));
    const mega_dataset data = {.count = p->count - TEST, .read = read_picture, .user = p};
    const mega_setup setup = {.model = &model,
                              .training_data = &data,
                              .argc = settings(option, "1", argc - first, argv + first),
                              .argv = option};
    MEGA_TRY(mega_initialize(&setup, out));
    MEGA_TRY(write_all(*out, "before.bin", NULL, true));
    MEGA_TRY(mega_engine_train_batch(*out, &result));
    printf("loss %.9g\n", result.loss);
    MEGA_TRY(write_all(*out, "grad.bin", "grad", false));
    return write_all(*out, "after.bin", NULL, false);
}

int main(int argc, char **argv)
{
    pictures p = {NULL, 0};
    mega_engine *engine = NULL;
    const mega_status st = step(&p, argc, argv, &engine);
    if (st != MEGA_OK) fprintf(stderr, "resnet18_step: %s\n", mega_error_message());
    mega_engine_destroy(engine);
    mega_free(p.bytes);
    return st == MEGA_OK ? 0 : 1;
}

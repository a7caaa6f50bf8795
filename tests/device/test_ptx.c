/* The PTX of each file of backend/cuda/ as the software device reads it: each entry has a version for the host, whose
 * argument has as many bytes and whose blocks have as many threads. A struct that the two compilers lay out in
 * different ways, or a kernel that only one of them has, would be found on a GPU only. */
#include "driver.h"
#include "kit.h"
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mega_cuda_driver cuda;

static void open_device(void)
{
    void *library = dlopen(MEGA_CUDA_SOFTWARE, RTLD_NOW);
    cu_context context = NULL;
    assert_non_null(library);
#define LOAD(member, symbol, params) assert_non_null(*(void **)&cuda.member = dlsym(library, #symbol));
    MEGA_CUDA_FUNCTIONS(LOAD)
#undef LOAD
    assert_int_equal(cuda.init(0), CU_OK);
    assert_int_equal(cuda.context_retain(&context, 0), CU_OK);
    assert_int_equal(cuda.context_set(context), CU_OK);
}

/* Returns the text of a file, which the caller frees. */
static char *file_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    const long bytes = ftell(f);
    char *text = malloc((size_t)bytes + 1);
    assert_non_null(text);
    rewind(f);
    assert_int_equal(fread(text, 1, (size_t)bytes, f), bytes);
    text[bytes] = '\0';
    fclose(f);
    return text;
}

/* Returns the number of entries. */
static int check_image(const char *path)
{
    char *text = file_text(path), log[300] = "", name[128];
    unsigned option[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BYTES};
    void *value[] = {log, (void *)(uintptr_t)sizeof log};
    cu_module module = NULL;
    cu_function function = NULL;
    int count = 0;
    if (cuda.module_load(&module, text, 2, option, value) != CU_OK) fail_msg("%s: %s", path, log);
    for (const char *at = strstr(text, ".entry "); at != NULL; at = strstr(at + 1, ".entry ")) {
        assert_int_equal(sscanf(at, ".entry %127[a-zA-Z0-9_]", name), 1);
        if (cuda.module_function(&function, module, name) != CU_OK) fail_msg("%s: no %s for the host", path, name);
        count++;
    }
    assert_int_equal(cuda.module_unload(module), CU_OK);
    free(text);
    return count;
}

static void images(void **state)
{
    const char *folder = *state;
    DIR *d = opendir(folder);
    int files = 0, entries = 0;
    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        char path[700];
        const size_t n = strlen(e->d_name);
        if (n < 4 || strcmp(e->d_name + n - 4, ".ptx") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        const int more = check_image(path);
        if (more == 0) fail_msg("%s has no entry", path);
        entries += more;
        files++;
    }
    closedir(d);
    print_message("%d kernels in %d files of PTX are those of the host\n", entries, files);
    assert_true(files >= 10);
}

int main(void)
{
    static char folder[400];
    snprintf(folder, sizeof folder, "%s/ptx", getenv("MEGA_BUILD") != NULL ? getenv("MEGA_BUILD") : "build");
    DIR *d = opendir(folder);
    if (d == NULL || !MEGA_CUDA_PTX) {
        puts("SKIPPED: the kernels were not compiled to PTX (no clang with NVPTX)");
        return 77;
    }
    closedir(d);
    open_device();
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(images, folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

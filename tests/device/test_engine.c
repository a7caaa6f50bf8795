/* An engine on a GPU when something fails: its memory, a read between calls, a program without memory of the device.
 * On the software device; each case is a process of its own, because the library reads its environment once. */
#include "engine_text.h"
#include "kit.h"
#include "megalith/builder.h"
#include "megalith/cuda.h"
#include "megalith/engine_commands.h"
#include "megalith/program.h"
#include "software_device.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_BUILT = 77, SAMPLES = 2, POSITIONS = 3 };

static mega_status create(mega_engine **out)
{
    const mega_transformer gpt = engine_run_gpt();
    mega_engine_options o = text_options(MEGA_F32, MEGA_GENERATE);
    mega_transformer_list list;
    o.backend = MEGA_BACKEND_CUDA;
    need(mega_transformer_list_create(&gpt, 1, &list));
    const mega_model model = mega_transformer_model(&list);
    const mega_status st =
        mega_engine_create(&(mega_setup){.model = &model, .mode = MEGA_GENERATE, .options = &o}, out);
    mega_transformer_list_destroy(&list);
    return st;
}

/* ---- memory ---- */

static int allocation_fails_twice(void)
{
    mega_engine *e = NULL;
    need(create(&e));
    for (int i = 0; i < 2; i++) {
        if (mega_engine_allocate(e) != MEGA_ERR_MEMORY) return 1;
        if (strstr(mega_error_message(), "the memory of the engine") == NULL) return 2;
    }
    if (calls_of("cuDevicePrimaryCtxRetain") != 1) return 3;
    mega_engine_destroy(e);
    return calls_of("cuDevicePrimaryCtxRelease_v2") == 1 ? 0 : 4;
}

static void an_allocation_that_fails_opens_the_gpu_once(void **state)
{
    (void)state;
    char bytes[32]; /* the GPU opens, and has little memory left */
    snprintf(bytes, sizeof bytes, "%zu", (size_t)MEGA_CUDA_STAGING_BYTES + 100000);
    assert_int_equal(in_child("MEGA_SOFTWARE_CUDA_MEMORY", bytes, allocation_fails_twice), 0);
}

/* ---- reads between calls ---- */

static int reads_after_its_wait(void)
{
    mega_engine *e = NULL;
    mega_run_value logits;
    engine_text t;
    float number = 0;
    need(create(&e));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 11));
    text_begin(&t, 5);
    const int program = text_fill(&t, e);
    need(mega_engine_run(e, (mega_run)program, t.filled));
    need(mega_engine_wait(e));
    assert_true(mega_engine_run_output(e, (mega_run)program, "logits", &logits));
    const uint64_t before = calls_of("cuMemcpyDtoHAsync_v2");
    const mega_status st = mega_run_value_read(&logits, 0, 1, &number);
    const bool waits = mega_engine_wait(e) == MEGA_OK;
    const bool has_failed = st == MEGA_ERR_IO && isnan(number) && !waits;
    mega_engine_destroy(e);
    if (getenv("MEGA_SOFTWARE_CUDA_FAIL") != NULL) return has_failed ? 0 : 101;
    return st == MEGA_OK && isfinite(number) && waits && before < 90 ? (int)before : 102;
}

static void a_read_returns_what_failed(void **state)
{
    (void)state;
    char call[64];
    const int before = in_child(NULL, NULL, reads_after_its_wait);
    assert_in_range(before, 0, 90);
    snprintf(call, sizeof call, "cuMemcpyDtoHAsync_v2:%d", before + 1);
    assert_int_equal(in_child("MEGA_SOFTWARE_CUDA_FAIL", call, reads_after_its_wait), 0);
}

/* ---- a program alone ---- */

static int has_host_memory(void)
{
    mega_layout *layout;
    mega_params *params;
    mega_program *p;
    need(mega_layout_create(NULL, NULL, &layout));
    need(mega_params_create(layout, &params));
    mega_builder b = {.layout = layout, .samples = SAMPLES, .positions = POSITIONS};
    need(mega_graph_create(MEGA_F32, params, layout, &b.graph));
    const mega_tensor x = mega_input(&b, "x", MEGA_F32, POSITIONS, 4), y = mega_input(&b, "y", MEGA_F32, POSITIONS, 4);
    mega_graph_output(b.graph, mega_op_squared_error(b.graph, x, y), "error");
    need(mega_graph_status(b.graph));
    need(mega_params_place(params, MEGA_F32, 0));
    need(mega_params_allocate(params, MEGA_PARAMS_WEIGHTS));
    need(mega_program_build(b.graph, &(mega_program_options){.backend = MEGA_BACKEND_CUDA, .name = "alone"}, &p));
    if (mega_program_allocate(p) != MEGA_ERR_USAGE) return 1;
    if (strstr(mega_error_message(), "program alone computes on a GPU") == NULL) return 2;
    mega_program_destroy(p);
    mega_params_destroy(params);
    mega_layout_destroy(layout);
    return 0;
}

static void a_program_needs_memory_of_the_gpu(void **state)
{
    (void)state;
    assert_int_equal(in_child(NULL, NULL, has_host_memory), 0);
}

static int has_images(void)
{
    char text[MEGA_CUDA_TEXT];
    return mega_cuda_describe(0, text) == MEGA_OK ? 0 : NOT_BUILT;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_allocation_that_fails_opens_the_gpu_once),
                                       cmocka_unit_test(a_read_returns_what_failed),
                                       cmocka_unit_test(a_program_needs_memory_of_the_gpu)};
    setenv("MEGA_CUDA_LIBRARY", MEGA_CUDA_SOFTWARE, 1);
    const int status = in_child(NULL, NULL, has_images);
    return status != 0 ? status : cmocka_run_group_tests(tests, NULL, NULL);
}

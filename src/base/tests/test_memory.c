/* Heap, pages, arenas and buffers, and their behaviour when memory is short. */
#include "kit.h"
#include "megalith/memory.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void heap_counts_and_never_answers_null_for_nothing(void **state)
{
    (void)state;
    const uint64_t before = mega_alloc_count();
    void *a = mega_malloc(0), *b = mega_calloc(0, 8), *c = mega_realloc(NULL, 0), *d = mega_malloc(24);
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    assert_int_equal((uintptr_t)d % 16, 0);
    assert_int_equal(mega_alloc_count() - before, 4);
    mega_free(a);
    mega_free(b);
    mega_free(c);
    mega_free(d);
    mega_free(NULL);
    assert_null(mega_calloc(SIZE_MAX / 2, 4));
}

static void the_asked_for_allocation_fails_once(void **state)
{
    (void)state;
    mega_alloc_fail_at(2);
    void *first = mega_malloc(8), *second = mega_malloc(8), *third = mega_malloc(8);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    char *kept = mega_realloc(first, 16);
    mega_alloc_fail_at(1);
    assert_null(mega_realloc(kept, 32)); /* the block stays valid */
    memset(kept, 1, 16);
    mega_alloc_fail_at(1);
    mega_alloc_fail_at(0);
    kept = mega_realloc(kept, 32);
    assert_non_null(kept);
    mega_free(kept);
    mega_free(third);
}

static void strings(void **state)
{
    (void)state;
    char *a = mega_strdup("abc"), *b = mega_strndup("abcdef", 4), *c = mega_format("%s-%05d", "x", 42);
    char *d = mega_strndup("ab", 10);
    assert_string_equal(a, "abc");
    assert_string_equal(b, "abcd");
    assert_string_equal(c, "x-00042");
    assert_string_equal(d, "ab");
    mega_free(a);
    mega_free(b);
    mega_free(c);
    mega_free(d);
    mega_alloc_fail_at(1);
    assert_null(mega_format("%d", 1));
    mega_alloc_fail_at(1);
    assert_null(mega_strdup("x"));
}

static void size_products_are_checked(void **state)
{
    (void)state;
    size_t out = 7;
    assert_true(mega_size_mul(6, 7, &out));
    assert_int_equal(out, 42);
    assert_true(mega_size_mul(0, SIZE_MAX, &out));
    assert_int_equal(out, 0);
    assert_false(mega_size_mul(SIZE_MAX / 2, 3, &out));
}

static void pages_are_zero_aligned_and_given_back(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 4096, 4097, ((size_t)2 << 20) - 1, (size_t)2 << 20, ((size_t)5 << 20) + 3};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *block = NULL;
        const uint64_t before = mega_alloc_count();
        assert_int_equal(mega_pages_alloc(&block, sizes[i], "test"), MEGA_OK);
        assert_int_equal(mega_alloc_count() - before, 1);
        assert_int_equal((uintptr_t)block % (sizes[i] >= (size_t)2 << 20 ? (size_t)2 << 20 : 4096), 0);
        unsigned char *p = block;
        for (size_t k = 0; k < sizes[i]; k += 997) assert_int_equal(p[k], 0);
        if (sizes[i] != 0) p[0] = p[sizes[i] - 1] = 1;
        mega_pages_free(block, sizes[i]);
    }
    mega_pages_free(NULL, 4096);
}

static void pages_that_cannot_be_had_say_so(void **state)
{
    (void)state;
    void *block = &block;
    mega_alloc_fail_at(1);
    assert_int_equal(mega_pages_alloc(&block, 4096, "activations"), MEGA_ERR_MEMORY);
    assert_ptr_equal(block, &block); /* written only on success */
    assert_non_null(strstr(mega_error_message(), "activations: 4096 bytes"));
    assert_non_null(strstr(mega_error_message(), "can still be had"));
    assert_int_equal(mega_pages_alloc(&block, SIZE_MAX - 5, "weights"), MEGA_ERR_MEMORY);
    assert_int_equal(mega_pages_alloc(&block, (size_t)1 << 60, "weights"), MEGA_ERR_MEMORY);
    assert_non_null(strstr(mega_error_message(), "weights: "));
}

static void arena_blocks_are_zero_aligned_and_apart(void **state)
{
    (void)state;
    mega_arena arena = {0};
    unsigned char *block[300];
    for (size_t i = 0; i < 300; i++) {
        const size_t n = i * i % 9001;
        block[i] = mega_arena_alloc(&arena, n);
        assert_non_null(block[i]);
        assert_int_equal((uintptr_t)block[i] % 16, 0);
        for (size_t k = 0; k < n; k++) assert_int_equal(block[i][k], 0);
        memset(block[i], (int)(i % 255) + 1, n);
    }
    for (size_t i = 0; i < 300; i++) {
        const size_t n = i * i % 9001;
        for (size_t k = 0; k < n; k++) assert_int_equal(block[i][k], i % 255 + 1);
    }
    assert_string_equal(mega_arena_strdup(&arena, "text"), "text");
    assert_string_equal(mega_arena_format(&arena, "%d/%d", 3, 4), "3/4");
    assert_null(mega_arena_alloc(&arena, SIZE_MAX));
    assert_null(mega_arena_alloc(&arena, SIZE_MAX / 2));
    mega_arena_fini(&arena);
    assert_null(arena.last);
    mega_arena_fini(&arena);
}

static void arena_survives_a_failure(void **state)
{
    (void)state;
    mega_arena arena = {0};
    mega_alloc_fail_at(1);
    assert_null(mega_arena_strdup(&arena, "x"));
    assert_string_equal(mega_arena_strdup(&arena, "y"), "y");
    mega_alloc_fail_at(1);
    assert_null(mega_arena_alloc(&arena, 1 << 20));
    assert_non_null(mega_arena_alloc(&arena, 16));
    mega_arena_fini(&arena);
}

static void buffer_grows_and_ends_in_nul(void **state)
{
    (void)state;
    mega_buffer b = {0};
    size_t expected = 0;
    for (int i = 0; i < 2000; i++) {
        assert_true(mega_buffer_printf(&b, "%d,", i));
        assert_true(mega_buffer_puts(&b, "ab"));
        assert_true(mega_buffer_append(&b, "\0z", 2));
        expected += (i < 10 ? 2u : i < 100 ? 3u : i < 1000 ? 4u : 5u) + 4u;
        assert_int_equal(b.size, expected);
        assert_int_equal(b.data[b.size], '\0');
        assert_true(b.size < b.capacity);
    }
    assert_memory_equal(b.data, "0,ab\0z1,ab\0z2,", 14);
    assert_int_equal(mega_buffer_check(&b, "text"), MEGA_OK);
    mega_buffer_fini(&b);
    assert_null(b.data);
    assert_true(mega_buffer_append(&b, NULL, 0));
    assert_string_equal(b.data, "");
    mega_buffer_fini(&b);
}

static void buffer_keeps_its_content_after_a_failure(void **state)
{
    (void)state;
    mega_buffer b = {0};
    assert_true(mega_buffer_puts(&b, "kept"));
    assert_false(mega_buffer_reserve(&b, SIZE_MAX - 2));
    assert_true(b.failed);
    assert_false(mega_buffer_puts(&b, "more"));
    assert_false(mega_buffer_printf(&b, "%d", 1));
    assert_string_equal(b.data, "kept");
    assert_int_equal(mega_buffer_check(&b, "listing"), MEGA_ERR_MEMORY);
    assert_non_null(strstr(mega_error_message(), "listing"));
    mega_buffer_fini(&b);
    assert_false(b.failed);
}

static int fill_buffer(void *user)
{
    (void)user;
    mega_buffer b = {0};
    for (int i = 0; i < 500; i++) mega_buffer_printf(&b, "%d", i);
    const mega_status st = mega_buffer_check(&b, "numbers");
    mega_buffer_fini(&b);
    return st;
}

static void buffer_reports_each_failing_allocation(void **state)
{
    (void)state;
    assert_in_range(mega_kit_fail_each_allocation(fill_buffer, NULL), 2, 12);
}

static void memory_limits_are_read(void **state)
{
    (void)state;
    const char *name = NULL;
    const size_t available = mega_memory_available(&name);
    assert_true(available > 0);
    assert_true(name != NULL && name[0] != '\0');
    mega_memory_available(NULL);
    mega_memory_limits limits;
    mega_memory_get_limits(&limits);
    assert_true(limits.machine >= limits.available);
    assert_true(limits.available != UINT64_MAX); /* every Linux reports it */
    const size_t before = mega_memory_resident(), bytes = (size_t)32 << 20;
    assert_true(before > 0);
    void *block;
    assert_int_equal(mega_pages_alloc(&block, bytes, "test"), MEGA_OK);
    memset(block, 1, bytes);
    assert_in_range(mega_memory_resident(), before + bytes / 2, before + 2 * bytes);
    mega_pages_free(block, bytes);
}

/* Pages of mapped files are the system's, and those that ranks share are counted in parts. */
static void the_peak_is_of_this_process(void **state)
{
    (void)state;
    const size_t bytes = (size_t)16 << 20, slack = (size_t)3 << 20;
    FILE *file = tmpfile();
    const int shared = memfd_create("test", 0);
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), (off_t)bytes), 0);
    assert_int_equal(ftruncate(shared, (off_t)bytes), 0);
    const size_t resident = mega_memory_resident();
    char *at[] = {mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0),
                  mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0)};
    for (int i = 0; i < 2; i++) {
        assert_ptr_not_equal(at[i], MAP_FAILED);
        memset(at[i], 1, bytes);
    }
    assert_true(mega_memory_resident() > resident + 2 * bytes - slack);
    const size_t alone = mega_memory_peak();
    pid_t child[3];
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    for (int i = 0; i < 3; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            memset(at[1], 1, bytes);
            if (write(ready[1], "", 1) == 1) pause();
            _exit(1);
        }
    }
    for (int i = 0; i < 3; i++) assert_int_equal(read(ready[0], &byte, 1), 1);
    const size_t of_four = mega_memory_peak();
    for (int i = 0; i < 3; i++) {
        kill(child[i], SIGKILL);
        waitpid(child[i], NULL, 0);
    }
    assert_in_range(alone - of_four, bytes * 3 / 4 - slack, bytes * 3 / 4 + slack);
    munmap(at[1], bytes);
    const size_t without = mega_memory_peak();
    assert_in_range(without - of_four, bytes * 3 / 4 - slack, bytes * 3 / 4 + slack); /* it was part of the peak */
    munmap(at[0], bytes);
    assert_in_range(mega_memory_peak() - without, bytes - slack, bytes + slack);
    close(shared);
    close(ready[0]);
    close(ready[1]);
    fclose(file);
}

static void the_least_limit_is_named(void **state)
{
    (void)state;
    const uint64_t none = UINT64_MAX;
    const struct {
        mega_memory_limits limits;
        uint64_t least;
        const char *part;
    } row[] = {
        {{.available = 9, .cgroup_left = none, .address_space_left = none, .data_left = none}, 9, "available"},
        {{.available = 9, .cgroup_left = 8, .address_space_left = none, .data_left = none}, 8, "cgroup"},
        {{.available = 9, .cgroup_left = 8, .address_space_left = 7, .data_left = none}, 7, "RLIMIT_AS"},
        {{.available = 9, .cgroup_left = 8, .address_space_left = 7, .data_left = 6}, 6, "RLIMIT_DATA"},
        {{.available = 5, .cgroup_left = 8, .address_space_left = 7, .data_left = 6}, 5, "available"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const char *name = "";
        assert_int_equal(mega_memory_least(&row[i].limits, &name), row[i].least);
        assert_non_null(strstr(name, row[i].part));
        assert_int_equal(mega_memory_least(&row[i].limits, NULL), row[i].least);
    }
}

/* Bytes in use, from the field of /proc/self/statm that a limit counts: 0 for RLIMIT_AS, 5 for RLIMIT_DATA. */
static rlim_t held(int field)
{
    unsigned long pages[7] = {0};
    FILE *statm = fopen("/proc/self/statm", "r");
    assert_non_null(statm);
    for (int i = 0; i < 7; i++) assert_int_equal(fscanf(statm, "%lu", &pages[i]), 1);
    fclose(statm);
    return (rlim_t)pages[field] * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Returns 0 if this limit, set a little above the memory of a child process, is the one reported. The margin lets
 * valgrind or a sanitizer map what it needs. */
static int least_with(__rlimit_resource_t resource, int field, const char *part)
{
    const pid_t child = fork();
    if (child == 0) {
        const rlim_t room = (rlim_t)256 << 20, holds = held(field);
        const struct rlimit limit = {holds + room, holds + room};
        const char *name = "";
        if (setrlimit(resource, &limit) != 0) _exit(2);
        const size_t left = mega_memory_available(&name);
        _exit(left <= room && strstr(name, part) != NULL ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void the_limits_of_the_shell_count(void **state)
{
    (void)state;
    assert_int_equal(least_with(RLIMIT_DATA, 5, "RLIMIT_DATA"), 0);
    assert_int_equal(least_with(RLIMIT_AS, 0, "RLIMIT_AS"), 0);
}

static void arrays_grow_by_doubling(void **state)
{
    (void)state;
    int32_t *list = NULL;
    int64_t capacity = 0;
    const uint64_t before = mega_alloc_count();
    for (int32_t i = 0; i < 1000; i++) {
        assert_true(mega_array_reserve(&list, &capacity, i + 1, sizeof *list));
        list[i] = i;
    }
    assert_int_equal(mega_alloc_count() - before, 7); /* 16, 32, … 1024 */
    assert_int_equal(capacity, 1024);
    for (int32_t i = 0; i < 1000; i++) assert_int_equal(list[i], i);
    assert_true(mega_array_reserve(&list, &capacity, 5000, sizeof *list)); /* grows to more than double */
    assert_int_equal(capacity, 5000);
    int32_t *const kept = list;
    mega_alloc_fail_at(1);
    assert_false(mega_array_reserve(&list, &capacity, 5001, sizeof *list));
    assert_false(mega_array_reserve(&list, &capacity, INT64_MAX, sizeof *list)); /* the size in bytes overflows */
    assert_ptr_equal(list, kept);
    assert_int_equal(capacity, 5000);
    mega_free(list);
}

/* The capacity follows from the count: as many allocations as above. */
static void arrays_grow_by_one(void **state)
{
    (void)state;
    int32_t *list = NULL;
    const uint64_t before = mega_alloc_count();
    for (int32_t i = 0; i < 1000; i++) {
        assert_true(mega_array_add(&list, i, sizeof *list));
        list[i] = i;
    }
    assert_int_equal(mega_alloc_count() - before, 7); /* 16, 32, … 1024 */
    for (int32_t i = 0; i < 1000; i++) assert_int_equal(list[i], i);
    int32_t *const kept = list;
    mega_alloc_fail_at(1);
    assert_false(mega_array_add(&list, 1024, sizeof *list));
    assert_ptr_equal(list, kept);
    mega_free(list);
}

static void a_region_that_is_too_small_says_so(void **state)
{
    (void)state;
    mega_region r = {.bytes = 2 * MEGA_REGION_ALIGN};
    void *piece = NULL, *none = NULL;
    assert_int_equal(mega_pages_alloc(&piece, r.bytes, "a region"), MEGA_OK);
    r.base = piece;
    assert_int_equal(mega_region_take(&r, &piece, 1, "the first"), MEGA_OK);
    assert_int_equal(mega_region_take(&r, &none, MEGA_REGION_ALIGN + 1, "the second"), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "the second: 8192 bytes do not fit in a region of 8192"));
    assert_null(none);
    assert_int_equal(r.used, MEGA_REGION_ALIGN);
    mega_pages_free(r.base, r.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap_counts_and_never_answers_null_for_nothing),
        cmocka_unit_test(the_asked_for_allocation_fails_once),
        cmocka_unit_test(strings),
        cmocka_unit_test(size_products_are_checked),
        cmocka_unit_test(arrays_grow_by_doubling),
        cmocka_unit_test(arrays_grow_by_one),
        cmocka_unit_test(pages_are_zero_aligned_and_given_back),
        cmocka_unit_test(pages_that_cannot_be_had_say_so),
        cmocka_unit_test(arena_blocks_are_zero_aligned_and_apart),
        cmocka_unit_test(arena_survives_a_failure),
        cmocka_unit_test(buffer_grows_and_ends_in_nul),
        cmocka_unit_test(buffer_keeps_its_content_after_a_failure),
        cmocka_unit_test(buffer_reports_each_failing_allocation),
        cmocka_unit_test(memory_limits_are_read),
        cmocka_unit_test(a_region_that_is_too_small_says_so),
        cmocka_unit_test(the_peak_is_of_this_process),
        cmocka_unit_test(the_least_limit_is_named),
        cmocka_unit_test(the_limits_of_the_shell_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tests pictures of schedules: the exact text of a small one, and that the SVG has every step. */
#include "kit.h"
#include "plan/pipeline_draw.h"

#include <string.h>

static void two_stages_as_text(void **state)
{
    (void)state;
    mega_buffer out = {0};
    assert_int_equal(mega_pipeline_draw_text(&(mega_pipeline){2, 1, 3}, 0, &out), MEGA_OK);
    assert_string_equal(out.data, "2 stages, 3 micro-batches: a stage waits 33.3 % of the time of its work\n"
                                  "stage 0   F0 F1  .  . B0--- F2 B1---  . B2--- \n"
                                  "stage 1    . F0 B0--- F1 B1--- F2 B2---  .  . \n");
    mega_buffer_fini(&out);
}

static int64_t count(const char *text, const char *word)
{
    int64_t n = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word)) n++;
    return n;
}

static void svg_has_every_step(void **state)
{
    (void)state;
    for (int chunks = 1; chunks <= 3; chunks++) {
        mega_buffer out = {0};
        const mega_pipeline p = {4, chunks, 8};
        assert_int_equal(mega_pipeline_draw_svg(&p, &out), MEGA_OK);
        assert_int_equal(count(out.data, "<title>"), 4 * mega_schedule_length(&p));
        assert_int_equal(count(out.data, "<title>forward"), count(out.data, "<title>backward"));
        assert_int_equal(count(out.data, "</svg>"), 1);
        mega_buffer_fini(&out);
    }
}

/* The title has the bubble (p - 1) / (v m), and lines are cut at the width of the terminal. */
static void title_says_the_bubble(void **state)
{
    (void)state;
    mega_buffer out = {0};
    assert_int_equal(mega_pipeline_draw_text(&(mega_pipeline){4, 1, 8}, 60, &out), MEGA_OK);
    assert_non_null(strstr(out.data, "waits 37.5 %"));
    const char *line = strchr(out.data, '\n') + 1;
    assert_int_equal(strcspn(line, "\n"), 61);
    mega_buffer_fini(&out);
    assert_int_equal(mega_pipeline_draw_text(&(mega_pipeline){4, 2, 8}, 0, &out), MEGA_OK);
    assert_non_null(strstr(out.data, "4 stages of 2 chunks, 8 micro-batches: a stage waits 18.8 %"));
    assert_non_null(strstr(out.data, "stage 0   A0 A1 A2 A3 B0 B1 B2 B3 A4 "));
    mega_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_stages_as_text),
        cmocka_unit_test(svg_has_every_step),
        cmocka_unit_test(title_says_the_bubble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

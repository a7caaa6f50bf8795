/* Plots: small pictures character by character, edge cases (gaps, one point, logarithms, nothing to draw), and SVG that
 * is small and well-formed. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_text(const mega_plot *p, const char *expected)
{
    mega_buffer b = {0};
    need(mega_plot_text(p, &b));
    if (strcmp(b.data, expected) != 0) fail_msg("found\n%s\nexpected\n%s", b.data, expected);
    mega_buffer_fini(&b);
}

static void a_straight_line(void **state)
{
    (void)state;
    const double x[] = {0, 10}, y[] = {0, 10};
    const mega_series s = {.label = "up", .x = x, .y = y, .count = 2};
    const mega_plot p = {
        .title = "a line", .series = &s, .num_series = 1, .width = 24, .height = 9, .style = MEGA_PLOT_ASCII};
    check_text(&p, "      a line\n"
                   "  10 +                **\n"
                   "     |            ****\n"
                   "     |         ***\n"
                   "     |      ***\n"
                   "     |  ****\n"
                   "   0 +**\n"
                   "     ++-------+--------+\n"
                   "      0       5       10\n");
}

static void braille(void **state)
{
    (void)state;
    const double x[] = {0, 1, 2, 3}, y[] = {1, 1, NAN, 1};
    const mega_series s = {.label = "flat", .x = x, .y = y, .count = 4};
    const mega_plot p = {.series = &s, .num_series = 1, .width = 24, .height = 6, .style = MEGA_PLOT_BRAILLE};
    check_text(&p, "     │\n" /* a third of the line, a gap, and the last point alone */
                   "     │\n"
                   " 1.0 ┤⠉⠉⠉⠉⠉⠉⠁          ⠈\n"
                   "     │\n"
                   "     └┬──────────┬──────\n"
                   "      0          2\n");
}

/* For any numbers, no line is wider than requested, none ends in blanks, and the height is exact. */
static void stays_in_its_frame(void **state)
{
    (void)state;
    double x[200], y[2][200];
    static const double scale[] = {1e-12, 1e-3, 1.0, 37.0, 1e4, 123456.0, 1e9, 1e20};
    float noise[200];
    mega_kit_normal(noise, 200, 3);
    for (size_t k = 0; k < sizeof scale / sizeof *scale; k++) {
        for (int mode = 0; mode < 16; mode++) {
            for (int i = 0; i < 200; i++) {
                x[i] = 1 + i * ((mode & 1) != 0 ? 1000 : 1);
                y[0][i] = scale[k] * (1.0 + exp(-0.05 * i) + 0.02 * (double)noise[i]);
                y[1][i] = scale[k] * (mode & 2 ? 1.0 : -1.0);
            }
            const mega_series s[] = {{"first", x, y[0], NULL, 200}, {"second", x, y[1], NULL, 200}};
            const mega_plot p = {.title = "t",
                                 .series = s,
                                 .num_series = 2,
                                 .log_y = (mode & 4) != 0,
                                 .log_x = (mode & 4) != 0,
                                 .width = 61,
                                 .height = 17,
                                 .style = (mode & 8) != 0 ? MEGA_PLOT_BRAILLE : MEGA_PLOT_ASCII};
            mega_buffer b = {0};
            need(mega_plot_text(&p, &b));
            int lines = 0, width = 0, labels = 0;
            for (size_t i = 0; i < b.size; i++) {
                if (b.data[i] == '\n') {
                    if (width > 61) fail_msg("line %d is %d wide:\n%s", lines, width, b.data);
                    assert_true(i == 0 || b.data[i - 1] != ' ');
                    lines++;
                    width = -1;
                }
                width += ((unsigned char)b.data[i] & 0xc0) != 0x80;
                labels += b.data[i] == '+' || strncmp(b.data + i, "┤", 3) == 0;
            }
            if (lines != 17) fail_msg("%d lines:\n%s", lines, b.data);
            if (labels < 2) fail_msg("scale %g mode %d: %d ticks:\n%s", scale[k], mode, labels, b.data);
            assert_null(strstr(b.data, "nan"));
            assert_null(strstr(b.data, "inf"));
            mega_buffer_fini(&b);
        }
    }
}

static void single_points(void **state)
{
    (void)state;
    const double x = 5, y[] = {3.25, 0.0};
    for (int i = 0; i < 2; i++) {
        const mega_series s = {.label = "one", .x = &x, .y = &y[i], .count = 1};
        const mega_plot p = {.series = &s, .num_series = 1, .width = 40, .height = 8};
        mega_buffer b = {0};
        need(mega_plot_text(&p, &b));
        assert_non_null(strchr(b.data, '*'));
        b.size = 0;
        need(mega_plot_svg(&p, &b));
        assert_non_null(strstr(b.data, "<circle"));
        mega_buffer_fini(&b);
    }
}

static void nothing_to_draw(void **state)
{
    (void)state;
    const double x[] = {1, 2}, y[] = {NAN, -1};
    const mega_series s = {.label = "a", .x = x, .y = y, .count = 2}, none = {.label = "b", .count = 0};
    mega_buffer b = {0};
    assert_int_equal(mega_plot_text(&(mega_plot){.series = &none, .num_series = 1}, &b), MEGA_ERR_USAGE);
    assert_int_equal(mega_plot_svg(&(mega_plot){.series = &s, .num_series = 1, .log_y = true}, &b), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "logarithmic"));
    assert_int_equal(b.size, 0);
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)) != NULL; text++) n++;
    return n;
}

/* Thousands of points become one stroke per pixel, which still reaches their extremes. */
static void svg(void **state)
{
    (void)state;
    enum { N = 100000 };
    double *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = sin(i) + (i == 51234 ? 9.0 : 0.0);
    }
    y[777] = NAN;
    const double few_x[] = {0, 50000, 99999}, few_y[] = {1, 2, 3};
    const mega_series s[] = {{"<a> & \"b\"", x, y, NULL, N}, {"few", few_x, few_y, few_y, 3}};
    const mega_plot p = {.title = "T<1>", .x_label = "iteration", .y_label = "loss", .series = s, .num_series = 2};
    mega_buffer b = {0};
    need(mega_plot_svg(&p, &b));
    assert_true(b.size < 250000);
    assert_non_null(strstr(b.data, "&lt;a&gt; &amp; &quot;b&quot;"));
    assert_non_null(strstr(b.data, "T&lt;1&gt;"));
    assert_null(strstr(b.data, "nan"));
    assert_null(strstr(b.data, "inf"));
    assert_int_equal(count(b.data, "<text"), count(b.data, "</text>"));
    assert_int_equal(count(b.data, "<g "), count(b.data, "</g>"));
    assert_int_equal(count(b.data, "<circle"), 3);
    assert_int_equal(count(b.data, "class=\"c\""), 4); /* two curves, and two legend entries */
    assert_int_equal(count(b.data, "class=\"f\""), 1);
    double top = 1e9, height = 0, clip = 0; /* the peak of one point among 100,000 is drawn */
    const char *area = strstr(b.data, "<clipPath");
    assert_non_null(area);
    assert_int_equal(
        sscanf(area, "<clipPath id=\"p\"><rect x=\"%*f\" y=\"%lf\" width=\"%*f\" height=\"%lf\"", &clip, &height), 2);
    for (const char *at = area; (at = strpbrk(at + 1, "LM")) != NULL;) {
        double px, py;
        if (sscanf(at + 1, "%lf %lf\"", &px, &py) == 2 && py < top) top = py;
    }
    assert_true(top > clip && top < clip + 0.1 * height);
    mega_buffer_fini(&b);
    free(x);
    free(y);
}

/* rsvg and Python's XML reader, if installed, must accept the file as a picture. */
static void peers_read_svg(void **state)
{
    (void)state;
    const char *python = mega_kit_need_peers(), *folder = mega_kit_temp_folder();
    const char *path = mega_kit_path(folder, "a.svg");
    const double x[] = {1, 2, 3}, y[] = {3, 2, 1};
    const mega_series s = {.label = "é <&>", .x = x, .y = y, .count = 3};
    mega_buffer b = {0};
    need(mega_plot_svg(&(mega_plot){.title = "&\x01", .series = &s, .num_series = 1}, &b));
    mega_kit_write(path, b.data);
    mega_buffer_fini(&b);
    char *command = mega_format("%s -c 'import sys, xml.dom.minidom as m; d = m.parse(sys.argv[1]); "
                                "assert \"é <&>\" in [t.firstChild.data for t in d.getElementsByTagName(\"text\")]' %s",
                                python, path);
    assert_int_equal(system(command), 0);
    mega_free(command);
}

static int attempt(void *user)
{
    mega_buffer b = {0};
    mega_status st = mega_plot_text(user, &b);
    if (st == MEGA_OK) st = mega_plot_svg(user, &b);
    mega_buffer_fini(&b);
    return (int)st;
}

static void out_of_memory(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3}, y[] = {3, 2, 1};
    const mega_series s = {.label = "a", .x = x, .y = y, .count = 3};
    mega_plot p = {.title = "a", .series = &s, .num_series = 1};
    assert_true(mega_kit_fail_each_allocation(attempt, &p) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_straight_line), cmocka_unit_test(braille),         cmocka_unit_test(stays_in_its_frame),
        cmocka_unit_test(single_points),   cmocka_unit_test(nothing_to_draw), cmocka_unit_test(svg),
        cmocka_unit_test(peers_read_svg),  cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests_name("plot", tests, NULL, NULL);
}

/* Formats the text lines of a run. */
#include "train_impl.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

double train_token_flops(const trainer *t, const mega_step_result *r, double *palm)
{
    mega_engine_cost cost;
    mega_engine_cost_get(t->engine, &cost);
    const double tokens = (double)(r != NULL ? r->tokens / r->samples : mega_engine_positions(t->engine));
    if (palm != NULL) *palm = (cost.flops + cost.masked_flops) / tokens;
    return cost.flops / tokens;
}

double train_perplexity(double loss)
{
    return exp(loss > 20 ? 20 : loss);
}

void train_line(const trainer *t, const char *fmt, ...)
{
    char text[2048];
    va_list args;
    if (!train_is_first(t) || t->io->is_silent || (t->io->is_brief && !t->log.has_described)) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    t->io->line(t->io->user, text);
}

void train_lines(const trainer *t, const char *text)
{
    while (*text != '\0') {
        const size_t n = strcspn(text, "\n");
        train_line(t, "%.*s", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

void train_line_always(const trainer *t, const char *text)
{
    while (train_is_first(t) && *text != '\0') {
        char line[2048];
        const size_t n = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        t->io->line(t->io->user, line);
        text += n + (text[n] == '\n');
    }
}

void train_datetime(const trainer *t, const char *label)
{
    char text[32];
    const time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    train_line(t, "[%s] datetime: %s ", label, text);
}

const char *train_bytes(char *out, size_t size, double bytes)
{
    static const char *const unit[] = {"bytes", "kB", "MB", "GB", "TB"};
    int i = 0;
    for (; bytes >= 999.5 && i < 4; i++) bytes /= 1000;
    snprintf(out, size,
             i == 0          ? "%.0f %s"
             : bytes < 9.995 ? "%.2f %s"
             : bytes < 99.95 ? "%.1f %s"
                             : "%.0f %s",
             bytes, unit[i]);
    return out;
}

const char *train_grouped(char *out, size_t size, int64_t n)
{
    char plain[32];
    const int digits = snprintf(plain, sizeof plain, "%lld", (long long)n);
    size_t used = 0;
    for (int i = 0; i < digits && used + 2 < size; i++) {
        out[used++] = plain[i];
        const int left = digits - 1 - i;
        if (left > 0 && left % 3 == 0 && plain[i] != '-') out[used++] = ',';
    }
    out[used] = '\0';
    return out;
}

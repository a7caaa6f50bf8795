/* Simulates a pipeline schedule over time, on all stages, and draws it. */
#include "plan/pipeline_draw.h"
#include "megalith/memory.h"
#include "megalith/output.h"

#include <stdio.h>
#include <string.h>

enum { FORWARD_TIME = 1, BACKWARD_TIME = 2 };

/* One pass of one stage. The unit of time is the forward of one chunk. */
typedef struct pipeline_event {
    mega_schedule_pass pass;
    int64_t begin, end;
} pipeline_event;

static int draw_chunks_of(const mega_pipeline *p)
{
    return p->chunks > 1 ? p->chunks : 1;
}

/* Returns the address of the end time of a pass in done [stages, backward and forward, chunks, micro_batches]; -1: not
 * yet done. */
static int64_t *done_at(int64_t *done, const mega_pipeline *p, int stage, bool forward, int chunk, int64_t m)
{
    return &done[((int64_t)((stage * 2 + forward) * draw_chunks_of(p) + chunk)) * p->micro_batches + m];
}

/* Returns the time at which the input of a pass arrives; -1: not yet known. At the ends of the ring, the input comes
 * from the previous chunk of the last stage (backward: the next chunk of the first stage). */
static int64_t draw_arrival(int64_t *done, const mega_pipeline *p, int stage, const mega_schedule_pass *x)
{
    const int last = p->stages - 1;
    int from = x->forward ? stage - 1 : stage + 1, chunk = x->chunk;
    bool forward = x->forward;
    if (from < 0 && chunk == 0) return 0;
    if (from > last && chunk == draw_chunks_of(p) - 1) from = last, forward = true; /* the loss */
    else if (from < 0)
        from = last, chunk--;
    else if (from > last)
        from = 0, chunk++;
    return *done_at(done, p, from, forward, chunk, x->micro_batch);
}

/* Simulates the schedule. out [stages * mega_schedule_length(p)]: the events of each stage, in order. *end receives the
 * time at which everything is done. */
static mega_status draw_simulate(const mega_pipeline *p, pipeline_event *out, int64_t *end)
{
    const int64_t length = mega_schedule_length(p), cells = (int64_t)p->stages * length;
    int64_t *done = mega_malloc((size_t)cells * sizeof *done), *at = mega_calloc((size_t)p->stages, sizeof *at);
    mega_schedule_pass *order = mega_malloc((size_t)cells * sizeof *order);
    const bool there = done != NULL && at != NULL && order != NULL;
    for (int64_t i = 0; i < cells && there; i++) done[i] = -1;
    for (int s = 0; s < p->stages && there; s++) mega_schedule_make(p, s, order + s * length);
    *end = 0;
    for (bool moved = there; moved;) {
        moved = false;
        for (int s = 0; s < p->stages; s++)
            for (; at[s] < length; at[s]++, moved = true) {
                pipeline_event *e = &out[s * length + at[s]];
                e->pass = order[s * length + at[s]];
                const int64_t comes = draw_arrival(done, p, s, &e->pass), free_at = at[s] > 0 ? e[-1].end : 0;
                if (comes < 0) break;
                e->begin = comes > free_at ? comes : free_at;
                e->end = e->begin + (e->pass.forward ? FORWARD_TIME : BACKWARD_TIME);
                *done_at(done, p, s, e->pass.forward, e->pass.chunk, e->pass.micro_batch) = e->end;
                *end = e->end > *end ? e->end : *end;
            }
    }
    mega_free(order);
    mega_free(at);
    mega_free(done);
    return there ? MEGA_OK
                 : MEGA_FAIL(MEGA_ERR_MEMORY, "pipeline schedule: no memory for %lld steps", (long long)cells);
}

/* Allocates the events of all stages in *out and simulates them; *end receives their end time. */
static mega_status draw_simulated(const mega_pipeline *p, pipeline_event **out, int64_t *end)
{
    *out = mega_malloc((size_t)p->stages * (size_t)mega_schedule_length(p) * sizeof **out);
    if (*out == NULL) return MEGA_NO_MEMORY("pipeline schedule", "its steps");
    const mega_status st = draw_simulate(p, *out, end);
    if (st != MEGA_OK) mega_free(*out);
    return st;
}

/* Returns idle time / working time. */
static double draw_bubble(const mega_pipeline *p, int64_t end)
{
    const double ideal = (double)(p->micro_batches * draw_chunks_of(p) * (FORWARD_TIME + BACKWARD_TIME));
    return (double)end / ideal - 1;
}

static void draw_title(const mega_pipeline *p, int64_t end, mega_buffer *out)
{
    mega_buffer_printf(out, "%d stages", p->stages);
    if (p->chunks > 1) mega_buffer_printf(out, " of %d chunks", p->chunks);
    mega_buffer_printf(out, ", %lld micro-batches: a stage waits %.1f %% of the time of its work",
                       (long long)p->micro_batches, 100 * draw_bubble(p, end));
}

/* ---- text ---- */

static char draw_letter(const mega_pipeline *p, const mega_schedule_pass *x)
{
    if (p->chunks <= 1) return x->forward ? 'F' : 'B';
    return (char)((x->forward ? 'A' : 'a') + x->chunk % 26);
}

/* Writes one stage to `line` (`size` bytes), with `width` characters per unit of time. */
static void draw_line(const mega_pipeline *p, const pipeline_event *e, int width, char *line, int64_t size)
{
    for (int64_t i = 0; i < size; i++) line[i] = i % width == width / 2 ? '.' : ' ';
    for (int64_t i = 0; i < mega_schedule_length(p); i++) {
        char name[32];
        const int64_t begin = e[i].begin * width, end = e[i].end * width;
        const int n = snprintf(name, sizeof name, "%c%d", draw_letter(p, &e[i].pass), e[i].pass.micro_batch);
        memset(line + begin, e[i].pass.forward ? ' ' : '-', (size_t)(end - begin));
        memcpy(line + begin, name, (size_t)n);
        line[end - 1] = ' ';
    }
}

mega_status mega_pipeline_draw_text(const mega_pipeline *p, int columns, mega_buffer *out)
{
    pipeline_event *e;
    int64_t end;
    MEGA_TRY(draw_simulated(p, &e, &end));
    const int width = 2 + snprintf(NULL, 0, "%lld", (long long)p->micro_batches - 1), head = 10;
    char *line = mega_malloc((size_t)(end * width));
    draw_title(p, end, out);
    mega_buffer_puts(out, "\n");
    for (int s = 0; s < p->stages && line != NULL; s++) {
        const int64_t room = columns > head ? columns - head : end * width;
        const int64_t shown = room < end * width ? room : end * width;
        draw_line(p, e + s * mega_schedule_length(p), width, line, end * width);
        mega_buffer_printf(out, "stage %-3d ", s);
        mega_buffer_append(out, line, (size_t)shown);
        mega_buffer_puts(out, shown < end * width && shown == room ? ">\n" : "\n");
    }
    const bool there = line != NULL;
    mega_free(line);
    mega_free(e);
    return there ? mega_buffer_check(out, "the schedule")
                 : MEGA_NO_MEMORY("pipeline schedule", "a line of its picture");
}

/* ---- SVG ---- */

enum { CELL = 22, ROW = 26, LEFT = 70, TOP = 40 }; /* pixels */

static void draw_event(const mega_pipeline *p, const pipeline_event *e, int stage, mega_buffer *out)
{
    const int64_t x = LEFT + e->begin * CELL, width = (e->end - e->begin) * CELL;
    const int y = TOP + stage * ROW, light = 55 + 30 * e->pass.chunk / draw_chunks_of(p);
    mega_buffer_printf(out,
                       "<rect x=\"%lld\" y=\"%d\" width=\"%lld\" height=\"%d\" fill=\"hsl(%d,70%%,%d%%)\"><title>%s "
                       "%d, chunk %d, slot %d</title></rect>\n",
                       (long long)x, y, (long long)width, ROW - 4, e->pass.forward ? 217 : 150, light,
                       e->pass.forward ? "forward" : "backward", e->pass.micro_batch, e->pass.chunk, e->pass.slot);
    mega_buffer_printf(out, "<text x=\"%lld\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", (long long)(x + width / 2),
                       y + ROW / 2 + 3, e->pass.micro_batch);
}

mega_status mega_pipeline_draw_svg(const mega_pipeline *p, mega_buffer *out)
{
    pipeline_event *e;
    int64_t end;
    MEGA_TRY(draw_simulated(p, &e, &end));
    mega_buffer_printf(out,
                       "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%lld\" height=\"%d\" "
                       "font-family=\"system-ui,sans-serif\" font-size=\"11\">" MEGA_OUTPUT_SCHEDULE_MARK
                       "\n<rect width=\"100%%\" height=\"100%%\" "
                       "fill=\"white\"/>\n<text x=\"10\" y=\"24\" font-size=\"14\">",
                       (long long)(LEFT + end * CELL + 10), TOP + p->stages * ROW + 10);
    draw_title(p, end, out);
    mega_buffer_puts(out, "</text>\n");
    for (int s = 0; s < p->stages; s++) {
        mega_buffer_printf(out, "<text x=\"10\" y=\"%d\">stage %d</text>\n", TOP + s * ROW + ROW / 2 + 3, s);
        for (int64_t i = 0; i < mega_schedule_length(p); i++)
            draw_event(p, &e[s * mega_schedule_length(p) + i], s, out);
    }
    mega_buffer_puts(out, "</svg>\n");
    mega_free(e);
    return mega_buffer_check(out, "the schedule");
}

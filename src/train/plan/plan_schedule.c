/* Writes the part of a plan that draws the pipeline schedule. */
#include "megalith/file.h"
#include "plan/pipeline_draw.h"
#include "train_impl.h"

mega_pipeline train_pipeline(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    const mega_axis *pp = &mega_engine_layout(t->engine)->pp;
    return (mega_pipeline){pp->size, mega_engine_chunks(t->engine),
                           cfg->engine.optim.global_batch_size /
                               (cfg->engine.optim.micro_batch_size * cfg->engine.data_parallel_size)};
}

mega_status train_plan_schedule(const trainer *t, mega_buffer *out)
{
    const mega_pipeline p = train_pipeline(t);
    if (t->cfg->print_schedule) {
        mega_buffer_puts(out, "\nschedule     ");
        MEGA_TRY(mega_pipeline_draw_text(&p, 0, out));
    }
    if (t->cfg->schedule_svg == NULL) return MEGA_OK;
    mega_buffer svg = {0};
    mega_status st = mega_pipeline_draw_svg(&p, &svg);
    if (st == MEGA_OK) st = mega_file_write_atomic(t->cfg->schedule_svg, svg.data, svg.size);
    if (st == MEGA_OK) mega_buffer_printf(out, "\nschedule     drawn in %s\n", t->cfg->schedule_svg);
    mega_buffer_fini(&svg);
    return st;
}

/* Writes the parts of a plan about multiple ranks: the layout, and the memory of each stage's ranks. */
#include "train_impl.h"

static mega_layout_sizes sizes_of(const mega_train_options *cfg, int rank)
{
    return (mega_layout_sizes){.tp = (int)cfg->engine.comm.tensor_model_parallel_size,
                               .pp = (int)cfg->engine.comm.pipeline_model_parallel_size,
                               .ep = (int)cfg->engine.comm.expert_model_parallel_size,
                               .planned_ranks = (int)cfg->engine.world_size,
                               .planned_rank = rank};
}

/* Like mega_model_declare, with as many positions as a sample of choices has sequences; any other has one. */
static mega_status declare_model(const trainer *t, int programs, mega_params *params)
{
    const mega_layout *layout = mega_params_layout(params);
    const mega_model_sizes sizes = {.mode = MEGA_EVAL,
                                    .samples = layout->tp.size,
                                    .positions = mega_engine_positions(t->engine) / t->cfg->seq_length};
    mega_model_parts *parts = NULL;
    mega_status st =
        mega_model_parts_create(&t->network.model, layout, MEGA_F32, sizes, layout->pp.size * programs, &parts);
    for (int program = 0; program < programs && st == MEGA_OK; program++) {
        if (program > 0) mega_params_next_part(params);
        st = mega_model_parts_declare(parts, mega_model_parts_own(parts, program), params);
    }
    mega_model_parts_destroy(parts);
    return st;
}

/* Counts the parameters that a rank declares, without allocating them. */
static mega_status count_parameters(const trainer *t, const mega_layout_sizes *sizes, int64_t *local, int64_t *logical)
{
    const bool is_cut = sizes != NULL && sizes->pp > 1;
    const int programs = is_cut && t->network.stage_programs > 1 ? t->network.stage_programs : 1;
    mega_layout *layout = NULL;
    mega_params *params = NULL;
    mega_status st = mega_layout_create(NULL, sizes, &layout);
    if (st == MEGA_OK) st = mega_params_create(layout, &params);
    if (st == MEGA_OK) st = declare_model(t, programs, params);
    if (st == MEGA_OK) {
        *local = mega_params_local_count(params);
        *logical = mega_params_logical_count(params);
    }
    mega_params_destroy(params);
    mega_layout_destroy(layout);
    return st;
}

mega_status train_plan_count(const trainer *t, int64_t *padded, int64_t *logical)
{
    return count_parameters(t, NULL, padded, logical);
}

void train_plan_layout(const trainer *t, mega_buffer *out)
{
    const mega_layout *l = mega_engine_layout(t->engine);
    char a[32];
    if (l->world.size == 1) return;
    mega_buffer_printf(out, "layout       %s ranks: tensor %d x pipeline %d x data %d\n",
                       train_grouped(a, sizeof a, l->world.size), l->tp.size, l->pp.size, l->dp.size);
    if (l->ep.size > 1)
        mega_buffer_printf(
            out,
            "experts      each rank of data has 1/%d of those of a layer (expert %d); %d rank%s the same "
            "ones\n",
            l->ep.size, l->ep.size, l->edp.size, l->edp.size == 1 ? " has" : "s have");
    mega_buffer_printf(out,
                       "shown        rank %d: tensor %d, pipeline %d, data %d of them (--rank shows another); memory, "
                       "programs and instructions are those of this rank\n",
                       l->world.rank, l->tp.rank, l->pp.rank, l->dp.rank);
}

/* Writes Megatron's lines. The first rank of a stage represents its data-parallel copies; its tensor ranks follow each
 * other. */
static mega_status plan_counts(const trainer *t, mega_buffer *out)
{
    const mega_layout *l = mega_engine_layout(t->engine);
    const int stage = l->world.size / l->pp.size;
    for (int p = 0; p < l->pp.size; p++)
        for (int i = 0; i < l->tp.size; i++) {
            const mega_layout_sizes sizes = sizes_of(t->cfg, p * stage + i);
            int64_t local, logical;
            MEGA_TRY(count_parameters(t, &sizes, &local, &logical));
            mega_buffer_printf(out,
                               " > number of parameters on (tensor, pipeline) model parallel rank (%d, %d): %lld\n", i,
                               p, (long long)local);
        }
    return MEGA_OK;
}

/* Writes a row for the first rank of each stage; the other ranks of the stage use the same amount. The columns add up
 * to the total: "other" are the classes of the shown rank's table that have none of their own. */
static mega_status plan_stage(const trainer *t, int p, mega_buffer *out, train_stage_bytes *most)
{
    const mega_layout *l = mega_engine_layout(t->engine);
    mega_engine_options o;
    mega_engine *engine;
    mega_engine_memory m;
    MEGA_TRY(mega_train_engine_options(t->cfg, &o));
    o.team = t->team;
    o.layout.planned_rank = p * (l->world.size / l->pp.size);
    MEGA_TRY(train_create_engine(t, &engine, &t->network, &o));
    mega_engine_memory_get(engine, &m);
    const size_t total = train_memory_with_engine(t, &m);
    const size_t shown = m.weights + m.masters + m.gradients + m.moments + m.saved + m.scratch + m.packed;
    const size_t column[] = {m.weights, m.masters, m.gradients,   m.moments, m.saved,
                             m.scratch, m.packed,  total - shown, total};
    if (total > most->bytes) *most = (train_stage_bytes){p, o.layout.planned_rank, total};
    mega_buffer_printf(out, "  %-5d", p);
    for (size_t i = 0; i < sizeof column / sizeof *column; i++) {
        char text[32];
        mega_buffer_printf(out, "%12s", train_bytes(text, sizeof text, (double)column[i]));
    }
    mega_buffer_puts(out, "\n");
    mega_engine_destroy(engine);
    return MEGA_OK;
}

mega_status train_plan_ranks(const trainer *t, mega_buffer *out, train_stage_bytes *out_most)
{
    static const char *const column[] = {"weights", "masters", "gradients", "optimizer", "saved",
                                         "scratch", "packed",  "other",     "total"};
    const mega_layout *l = mega_engine_layout(t->engine);
    if (l->world.size == 1) return MEGA_OK;
    mega_buffer_puts(out, "\n");
    MEGA_TRY(plan_counts(t, out));
    mega_buffer_puts(out, "\nmemory of a rank of each pipeline stage\n  stage");
    for (size_t i = 0; i < sizeof column / sizeof *column; i++) mega_buffer_printf(out, "%12s", column[i]);
    mega_buffer_puts(out, "\n");
    for (int p = 0; p < l->pp.size; p++) MEGA_TRY(plan_stage(t, p, out, out_most));
    train_plan_balance(t, out);
    return MEGA_OK;
}

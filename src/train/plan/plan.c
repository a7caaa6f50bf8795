/* Writes the plan of a run: the memory it would use and what it would compute, from the programs that it would run. */
#include "megalith/threads.h"
#include "train_impl.h"
#include <string.h>

static const char *precision(const mega_train_options *cfg)
{
    const bool has_half = cfg->engine.graph.grad_accum_dtype != MEGA_COMMUNICATION_FP32;
    switch (cfg->engine.backend.params_dtype) {
    case MEGA_BF16: return has_half ? "bf16 with fp32 masters" : "bf16 with fp32 masters and gradients";
    case MEGA_F16: return has_half ? "fp16 with fp32 masters" : "fp16 with fp32 masters and gradients";
    case MEGA_F64: return "fp64";
    default: return "fp32";
    }
}

static const char *precision_of_gradients(const mega_train_options *cfg)
{
    static const char *const text[] = {"", ", gradients held in fp16", ", gradients held in bf16"};
    return text[cfg->engine.graph.grad_accum_dtype];
}

static void plan_head(const trainer *t, mega_buffer *out)
{
    const mega_train_options *cfg = t->cfg;
    char text[32];
    t->task->describe(&t->network, out);
    mega_buffer_printf(out, "vocabulary   %s ids, padded to %lld%s\n",
                       train_grouped(text, sizeof text, t->text.vocab_rows), (long long)cfg->model.padded_vocab_size,
                       t->plan.assumed_vocab ? " (GPT-2's is assumed; --vocab-file says which)" : "");
    mega_buffer_printf(out, "batch        %lld sequences of %lld tokens, in micro-batches of %lld\n",
                       (long long)cfg->engine.optim.global_batch_size, (long long)cfg->seq_length,
                       (long long)cfg->engine.optim.micro_batch_size);
    mega_buffer_printf(out, "precision    %s%s\nthreads      %lld\n", precision(cfg), precision_of_gradients(cfg),
                       (long long)cfg->engine.backend.num_threads);
    train_plan_gpu(t, out);
    mega_buffer_printf(out, "instructions %s%s\n", mega_isa_name(mega_cpu_isa()),
                       cfg->instruction_set != NULL ? ", those of the target"
                                                    : ", this machine's (--instruction-set names the target's)");
}

/* Parameters of the experts that a token does not choose. */
static int64_t plan_unchosen(const trainer *t)
{
    const mega_model_shape s = t->task->shape(&t->network, -1);
    const mega_experts_shape *e = &s.net.experts;
    const int64_t of_expert = (s.net.gated ? 3 : 2) * e->hidden * s.hidden;
    int64_t unchosen = 0;
    for (int64_t i = 0; i < s.num_layers; i++) {
        const int64_t experts = mega_shape_experts(e, i);
        if (experts > 0) unchosen += experts - e->choices;
    }
    return unchosen * of_expert;
}

static mega_status plan_parameters(const trainer *t, mega_buffer *out)
{
    int64_t padded, logical;
    mega_optimizer_groups groups;
    char a[32], b[32];
    MEGA_TRY(train_plan_count(t, &padded, &logical));
    mega_buffer_printf(out, "\nparameters   %s", train_grouped(a, sizeof a, logical));
    mega_buffer_printf(out, " (%s with the padding of the vocabulary)\n", train_grouped(a, sizeof a, padded));
    if (plan_unchosen(t) > 0)
        mega_buffer_printf(out, "  a token is computed by %s of them\n",
                           train_grouped(a, sizeof a, logical - plan_unchosen(t)));
    if (mega_engine_optimizer(t->engine) == NULL) return MEGA_OK;
    mega_optimizer_groups_get(mega_engine_optimizer(t->engine), &groups);
    mega_buffer_printf(out, "  %d tensors decay (%s elements), %d do not (%s elements)\n", groups.decayed,
                       train_grouped(a, sizeof a, groups.decayed_elements), groups.not_decayed,
                       train_grouped(b, sizeof b, groups.not_decayed_elements));
    if (train_frozen_count(t) > 0)
        mega_buffer_printf(out,
                           "  %s elements are frozen: no moments, no update; their gradients have a place in memory\n",
                           train_grouped(a, sizeof a, train_frozen_count(t)));
    return MEGA_OK;
}

/* Returns whether the planned ranks are on unknown machines, because nobody started them, or on a GPU while there is
 * none here: then only an option can say how much memory they have. The ranks of --dry-run are here. */
static bool is_elsewhere(const trainer *t)
{
    const char *name;
    if (t->cfg->dry_run || t->cfg->memory_limit != 0) return false;
    return train_has_gpu(t) ? train_gpu_bytes(t, &name) == SIZE_MAX : t->cfg->planned_world_size > 0;
}

/* most: the stage that needs most, which decides whether the run fits. */
static void plan_memory(const trainer *t, const train_stage_bytes *most, mega_buffer *out)
{
    const char *name;
    const size_t limit = train_memory_limit(t, &name);
    const bool fits = train_memory_total(t) <= limit, others_fit = most->bytes <= limit;
    char text[32];
    mega_buffer_printf(out, "\nmemory%s%s\n", train_has_gpu(t) ? " of the GPU" : "",
                       t->cfg->engine.world_size > 1 ? " of the shown rank" : "");
    train_memory_table(t, out);
    if (is_elsewhere(t)) {
        mega_buffer_puts(out, "  (--memory-limit N asks whether it fits where a rank may use N)\n");
        train_memory_host_table(t, out);
        return;
    }
    mega_buffer_printf(out, "  %-12s%12s  (%s): %s", "may use", train_bytes(text, sizeof text, (double)limit), name,
                       fits ? "it fits" : "IT DOES NOT FIT");
    if (fits && !others_fit) mega_buffer_printf(out, ", BUT STAGE %d DOES NOT", most->stage);
    mega_buffer_puts(out, "\n");
    train_memory_host_table(t, out);
    if ((fits && others_fit) || t->cfg->no_suggestions) return;
    mega_buffer_puts(out, "\n");
    train_suggest(t, limit, out);
}

/* Adds what one chunk of the stage contributes to the work of a micro-batch. */
static void add_program(const mega_engine *e, int chunk, mega_program_cost *sum, int instructions[3])
{
    const mega_program *train = mega_engine_chunk_program(e, chunk, true);
    const mega_program *evaluate = mega_engine_chunk_program(e, chunk, false);
    mega_program_cost cost;
    if (evaluate != NULL) instructions[2] += mega_program_num_instructions(evaluate, false);
    if (train == NULL) return;
    mega_program_cost_get(train, &cost);
    sum->forward_flops += cost.forward_flops;
    sum->backward_flops += cost.backward_flops;
    sum->recompute_flops += cost.recompute_flops;
    instructions[0] += mega_program_num_instructions(train, false);
    instructions[1] += mega_program_num_instructions(train, true);
}

/* Returns the bytes of activations and what else the programs compute, if nothing were recomputed; 0: not known. */
static size_t bytes_without_recomputation(const trainer *t)
{
    mega_train_options cfg = *t->cfg; /* a shallow copy: nothing in it is freed */
    mega_task_model network = {.self = NULL};
    mega_engine_options o;
    mega_engine *e = NULL;
    mega_engine_memory m = {0};
    cfg.engine.graph.recompute_granularity = MEGA_RECOMPUTE_NONE;
    cfg.engine.graph.activation_budget = 0;
    if (mega_train_engine_options(&cfg, &o) != MEGA_OK) return 0;
    o.team = t->team;
    if (train_make_model(t, &cfg, &network) == MEGA_OK && train_create_engine(t, &e, &network, &o) == MEGA_OK)
        mega_engine_memory_get(e, &m);
    mega_engine_destroy(e);
    t->task->free_model(&network);
    return m.saved + m.scratch;
}

static void plan_recomputation(const trainer *t, const mega_program_cost *cost, mega_buffer *out)
{
    int layers, regions;
    char with[32], without[32];
    mega_engine_memory m;
    mega_model_parts_regions(mega_engine_parts(t->engine), &layers, &regions);
    if (layers == 0 && t->cfg->engine.graph.recompute_granularity == MEGA_RECOMPUTE_NONE) return;
    mega_engine_memory_get(t->engine, &m);
    const double base = cost->forward_flops + cost->backward_flops;
    if (layers > 0)
        mega_buffer_printf(out, "recomputed   %d layer%s of this stage, in %d group%s: ", layers,
                           layers == 1 ? "" : "s", regions, regions == 1 ? "" : "s");
    else
        mega_buffer_puts(out, "recomputed   attention: ");
    mega_buffer_printf(out, "saved and scratch take %s instead of %s, for %.1f %% more operations\n",
                       train_bytes(with, sizeof with, (double)(m.saved + m.scratch)),
                       train_bytes(without, sizeof without, (double)bytes_without_recomputation(t)),
                       base > 0 ? 100 * cost->recompute_flops / base : 0);
}

static void plan_update(const mega_update *u, mega_buffer *out)
{
    mega_update_cost cost;
    if (u == NULL) return;
    mega_update_cost_get(u, &cost);
    mega_buffer_printf(out, "             update: %d instructions; %.4g MB read and written, %.4g MB sent",
                       mega_update_num_instructions(u), cost.bytes * 1e-6, cost.sent * 1e-6);
    if (cost.flops > 0) mega_buffer_printf(out, ", %.4g GFLOP", cost.flops * 1e-9);
    mega_buffer_puts(out, "\n");
}

static void plan_cost(const trainer *t, mega_buffer *out)
{
    double palm;
    const double causal = train_token_flops(t, NULL, &palm);
    const double tokens = (double)(t->cfg->engine.optim.global_batch_size * mega_engine_positions(t->engine));
    const int chunks = mega_engine_chunks(t->engine);
    mega_program_cost cost = {0};
    int instructions[3] = {0}; /* number of instructions: forward, backward, evaluation */
    mega_buffer_puts(out, "\nfloating-point operations\n");
    mega_buffer_printf(out, "  a token, attention counted causal   %.4g MFLOP\n", causal * 1e-6);
    mega_buffer_printf(out, "  a token, by PaLM's convention       %.4g MFLOP\n", palm * 1e-6);
    mega_buffer_printf(out, "  an iteration                        %.4g GFLOP (%.4g by PaLM's)\n",
                       causal * tokens * 1e-9, palm * tokens * 1e-9);
    train_plan_gpu_time(t, causal * tokens, out);
    for (int c = 0; c < chunks; c++) add_program(t->engine, c, &cost, instructions);
    if (mega_engine_program(t->engine, true) == NULL) return;
    mega_buffer_printf(out,
                       "  a micro-batch as a rank runs it     forward %.4g, backward %.4g, recomputation %.4g GFLOP\n",
                       cost.forward_flops * 1e-9, cost.backward_flops * 1e-9, cost.recompute_flops * 1e-9);
    mega_buffer_puts(
        out, "                                      (the head computes its gradient along with the loss, chunk by "
             "chunk: that work counts as forward)\n");
    plan_recomputation(t, &cost, out);
    mega_buffer_printf(out, "programs     train: %d instructions forward, %d backward", instructions[0],
                       instructions[1]);
    if (instructions[2] > 0) mega_buffer_printf(out, "; evaluate: %d instructions", instructions[2]);
    if (chunks > 1) mega_buffer_printf(out, " (of all %d parts of the stage)", chunks);
    mega_buffer_puts(out, "\n");
    train_plan_graphs(t, out);
    plan_update(mega_engine_update_program(t->engine), out);
}

static mega_status plan_programs(const trainer *t, mega_buffer *out)
{
    for (int i = 0; i < 2 * mega_engine_chunks(t->engine); i++) {
        const mega_program *p = mega_engine_chunk_program(t->engine, i / 2, i % 2 == 0);
        mega_buffer_puts(out, "\n");
        if (p != NULL) MEGA_TRY(mega_program_print(p, out));
    }
    if (mega_engine_update_program(t->engine) == NULL) return MEGA_OK;
    mega_buffer_puts(out, "\n");
    return mega_update_print(mega_engine_update_program(t->engine), out);
}

/* Plans for the processors of --instruction-set from here on: the programs are planned again, and nothing computes. */
static mega_status aim_at_target(trainer *t)
{
    const char *name = t->cfg->instruction_set;
    int isa = MEGA_ISA_PORTABLE;
    if (name == NULL) return MEGA_OK;
    while (isa < (int)MEGA_ISA_AMX && strcmp(mega_isa_name((mega_isa)isa), name) != 0) isa++;
    t->plan.host_isa = mega_cpu_isa_plan((mega_isa)isa);
    t->plan.is_for_other_isa = true;
    if ((int)mega_cpu_isa() != isa)
        return MEGA_MISTAKE("--instruction-set %s: MEGA_ISA=%s lowers it; unset that for a plan", name,
                            mega_isa_name(mega_cpu_isa()));
    mega_engine_destroy(t->engine);
    t->engine = NULL;
    return train_build_engine(t);
}

/* The first rank plans for all ranks of the world: from here on it behaves as one of several ranks that were not
 * started. */
static mega_status leave_world(trainer *t)
{
    if (mega_world_size(t->world) == 1) return MEGA_OK;
    t->cfg->planned_world_size = mega_world_size(t->world);
    t->world = NULL;
    mega_engine_destroy(t->engine);
    t->engine = NULL;
    return train_build_engine(t);
}

/* The shown rank fits; ranks of another stage may not. */
static mega_status plan_check_stages(const trainer *t, const train_stage_bytes *most)
{
    const char *name;
    const size_t limit = train_memory_limit(t, &name);
    char need[32], have[32];
    if (most->bytes <= limit) return MEGA_OK;
    return MEGA_FAIL(
        MEGA_ERR_MEMORY,
        "a rank of pipeline stage %d needs %s of memory and may use %s (%s); plan with --rank %d shows it%s",
        most->stage, train_bytes(need, sizeof need, (double)most->bytes), train_bytes(have, sizeof have, (double)limit),
        name, most->rank, t->cfg->no_suggestions ? "" : ", and this plan lists what would make it fit");
}

static mega_status plan(trainer *t, mega_buffer *out)
{
    train_stage_bytes most = {0};
    MEGA_TRY(train_check(t));
    if (!train_is_first(t)) return MEGA_OK;
    MEGA_TRY(leave_world(t));
    MEGA_TRY(aim_at_target(t));
    if (t->cfg->print_options) MEGA_TRY(train_options_table(t, out));
    plan_head(t, out);
    train_plan_layout(t, out);
    MEGA_TRY(plan_parameters(t, out));
    MEGA_TRY(train_plan_ranks(t, out, &most));
    plan_memory(t, &most, out);
    plan_cost(t, out);
    if (t->cfg->print_program) MEGA_TRY(plan_programs(t, out));
    MEGA_TRY(train_plan_schedule(t, out));
    MEGA_TRY(mega_buffer_check(out, "the plan"));
    if (!t->plan.is_plan || is_elsewhere(t)) return MEGA_OK;
    MEGA_TRY(train_check_memory(t, true));
    return plan_check_stages(t, &most);
}

static void no_line(void *user, const char *line)
{
    (void)user;
    (void)line;
}

mega_status mega_train_plan(mega_train_options *cfg, mega_team *team, mega_world *world, mega_buffer *out)
{
    const mega_train_io io = {.line = no_line};
    trainer t = {.cfg = cfg,
                 .task = train_task_of(mega_options_command(cfg->engine.options)),
                 .team = team,
                 .io = &io,
                 .world = world,
                 .train_iters = cfg->engine.optim.train_iters,
                 .plan = {.is_plan = !cfg->dry_run}};
    const mega_status st = plan(&t, out);
    if (t.plan.is_for_other_isa) mega_cpu_isa_plan(t.plan.host_isa);
    mega_engine_destroy(t.engine);
    if (t.epochs.texts.self != NULL) t.task->free_texts(&t.epochs.texts);
    t.task->free_model(&t.network);
    mega_tokenizer_destroy(t.text.tokenizer);
    mega_free(t.text.words);
    mega_checkpoint_close(t.checkpoint);
    mega_free(t.generation_config);
    return st;
}

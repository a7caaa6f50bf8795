/* The programs of this rank. Each chunk of its pipeline stage has one for training and one for evaluation, or the two
 * of generation. */
#include "engine_build.h"
#include "engine_losses.h"
#include "engine_step.h"
#include "megalith/cuda.h"

/* The chunks of this rank share the communication requests that a single program would have. */
static int most_requests(const mega_engine *e)
{
    const int share = MEGA_PROGRAM_REQUESTS / e->programs.chunks;
    return share > 0 ? share : 1;
}

mega_program *engine_program_of(const engine_chunk *c, engine_kind kind)
{
    return kind == ENGINE_TRAIN      ? c->train
           : kind == ENGINE_EVALUATE ? c->evaluate
           : kind == ENGINE_PREFILL  ? c->prefill
                                     : c->decode;
}

static bool has_program(const mega_engine_options *o, engine_kind kind)
{
    return kind == ENGINE_TRAIN ? !o->no_train : kind == ENGINE_EVALUATE ? !o->no_evaluate : o->generate;
}

/* The programs of generation have a different number of rows than the walk over the whole model. So each describes the
 * model again, split at the same layers as the walk. A prompt is written into the cache in whole chunks, even if only
 * the first rows of a chunk are real; this is why there are positions after the last one. */
static mega_status describe_generation(mega_engine *e, const mega_model *model, int chunk, engine_kind kind,
                                       mega_graph *g)
{
    const mega_engine_options *o = &e->options;
    const int parts = mega_model_parts_count(e->model.parts);
    const mega_model_sizes what = {.mode = MEGA_GENERATE,
                                   .samples = o->micro_batch,
                                   .positions = kind == ENGINE_PREFILL ? o->prefill : 1,
                                   .cache = o->seq + o->prefill,
                                   .length = o->seq};
    mega_model cut = *model;
    int *first = mega_calloc((size_t)parts, sizeof *first);
    if (first == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "engine: no memory for the boundaries of %d parts", parts);
    for (int p = 0; p < parts; p++) first[p] = mega_model_parts_first(e->model.parts, p);
    cut.first_layer = first;
    const mega_status st = mega_model_describe(&cut, e->programs.chunks, chunk, what, g);
    mega_free(first);
    return st;
}

/* `model` is read for a generation only. */
static mega_status describe_program(mega_engine *e, const mega_model_parts *parts, const mega_model *model, int chunk,
                                    engine_kind kind)
{
    const int part = mega_model_parts_own(parts, chunk);
    mega_graph *g = NULL;
    MEGA_TRY(mega_graph_create(e->options.compute, e->params, e->layout, &g));
    const mega_status st = kind == ENGINE_TRAIN      ? mega_model_parts_describe(parts, part, MEGA_TRAIN, g)
                           : kind == ENGINE_EVALUATE ? mega_model_parts_describe(parts, part, MEGA_EVAL, g)
                                                     : describe_generation(e, model, chunk, kind, g);
    if (st == MEGA_OK) e->programs.chunk[chunk].graph[kind] = g;
    else
        mega_graph_destroy(g);
    return st;
}

/* Takes ownership of the graph and sets the chunk's pointer to NULL. */
static mega_status build_program(mega_engine *e, int chunk, engine_kind kind, mega_program **out)
{
    static const char *const name[] = {"train", "evaluate", "prefill", "decode"};
    const mega_engine_options *o = &e->options;
    const bool train = kind == ENGINE_TRAIN;
    mega_graph *g = e->programs.chunk[chunk].graph[kind];
    e->programs.chunk[chunk].graph[kind] = NULL;
    const bool accumulates = o->batch.global_batch > o->batch.micro_step;
    const bool is_whole = !mega_params_are_cut(e->params, MEGA_PARAMS_WEIGHTS); /* false: there is nothing to pack */
    const mega_program_options po = {.backend = o->backend,
                                     .team = o->team,
                                     .differentiate = train,
                                     .per_token_loss = o->per_token_loss,
                                     .pack_weights = !train || o->no_pack_weights || !is_whole ? 0
                                                     : accumulates                             ? 1
                                                                                               : 2,
                                     .may_use_library = mega_cuda_library_bytes(o->matmul_library) > 0,
                                     .records = !o->no_graphs,
                                     .slots =
                                         train ? e->programs.chunk[chunk].slots : (int)engine_micro_batches_of(o, kind),
                                     .passes = kind < ENGINE_PREFILL ? STAGE_PASSES : 0, /* outputs are read later */
                                     .world = o->world,
                                     .requests = most_requests(e),
                                     .place = o->place,
                                     .states_of = kind == ENGINE_DECODE ? e->programs.chunk[chunk].prefill : NULL,
                                     .name = name[kind]};
    return mega_program_build(g, &po, out);
}

int64_t engine_micro_batches_of(const mega_engine_options *o, engine_kind kind)
{
    return kind == ENGINE_PREFILL || kind == ENGINE_DECODE ? o->micro_batches : 1;
}

mega_pipeline engine_pipeline(const mega_engine *e, int64_t micro_batches)
{
    return (mega_pipeline){e->layout->pp.size, e->programs.chunks, micro_batches};
}

mega_status engine_build_train(mega_engine *e, const mega_model_parts *parts, int chunk, mega_program **out)
{
    MEGA_TRY(describe_program(e, parts, NULL, chunk, ENGINE_TRAIN));
    return build_program(e, chunk, ENGINE_TRAIN, out);
}

/* Each slot has two incoming and two outgoing messages for each value of the flow, if none of their buffers are
 * shared. */
static mega_status check_messages(const mega_engine *e)
{
    int64_t messages = 0;
    for (int c = 0; c < e->programs.chunks; c++) {
        /* of two programs, which send in one direction only */
        const int64_t of_run = e->options.generate ? e->options.micro_batches : 0;
        const int64_t slots = e->programs.chunk[c].slots > of_run ? e->programs.chunk[c].slots : of_run;
        messages += 4 * slots * mega_model_parts_values(e->model.parts);
    }
    if (messages <= MEGA_COMM_REQUESTS - 2 * MEGA_PROGRAM_REQUESTS) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "a pipeline of %d stages of %d programs: this stage would have up to %lld messages under way, at "
                     "most %d can be; take fewer stages, programs a stage or micro-batches",
                     e->layout->pp.size, e->programs.chunks, (long long)messages,
                     MEGA_COMM_REQUESTS - 2 * MEGA_PROGRAM_REQUESTS);
}

mega_status engine_describe_chunks(mega_engine *e, const mega_model *model)
{
    const mega_engine_options *o = &e->options;
    mega_pipeline p = engine_pipeline(e, o->batch.global_batch / o->batch.micro_step);
    if (o->no_train) p.micro_batches = p.stages; /* without training any number runs, one at a time */
    if (e->programs.chunks > MEGA_SCHEDULE_CHUNKS || (e->programs.chunks > 1 && p.micro_batches % p.stages != 0))
        return MEGA_MISTAKE("%lld micro-batches a step over %d pipeline stages of %d chunks: the interleaved schedule "
                            "takes a multiple of %d micro-batches, and at most %d chunks",
                            (long long)p.micro_batches, p.stages, e->programs.chunks, p.stages, MEGA_SCHEDULE_CHUNKS);
    e->programs.chunk = mega_calloc((size_t)e->programs.chunks, sizeof *e->programs.chunk);
    if (e->programs.chunk == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "engine: no memory for %d programs", e->programs.chunks);
    for (int c = 0; c < e->programs.chunks; c++)
        e->programs.chunk[c].slots = mega_schedule_slots_of(&p, e->layout->pp.rank, c);
    MEGA_TRY(check_messages(e));
    for (int c = 0; c < e->programs.chunks; c++) {
        if (c > 0) mega_params_next_part(e->params);
        MEGA_TRY(mega_model_parts_declare(e->model.parts, mega_model_parts_own(e->model.parts, c), e->params));
        for (engine_kind k = ENGINE_TRAIN; k < ENGINE_KINDS; k++)
            if (has_program(o, k)) MEGA_TRY(describe_program(e, e->model.parts, model, c, k));
    }
    return MEGA_OK;
}

mega_status engine_build_chunks(mega_engine *e)
{
    const mega_engine_options *o = &e->options;
    for (int c = 0; c < e->programs.chunks; c++) {
        engine_chunk *k = &e->programs.chunk[c];
        if (!o->no_train) MEGA_TRY(build_program(e, c, ENGINE_TRAIN, &k->train));
        k->whole = k->train;
        if (!o->no_evaluate) MEGA_TRY(build_program(e, c, ENGINE_EVALUATE, &k->evaluate));
        if (!o->generate) continue;
        MEGA_TRY(build_program(e, c, ENGINE_PREFILL, &k->prefill)); /* before decode, which uses its caches */
        MEGA_TRY(build_program(e, c, ENGINE_DECODE, &k->decode));
    }
    e->programs.train = e->programs.chunk[0].train;
    e->programs.evaluate = e->programs.chunk[0].evaluate;
    return MEGA_OK;
}

void engine_destroy_chunks(mega_engine *e)
{
    engine_drop_lengths(e);
    stage_close(&e->programs.stage);
    stage_close(&e->programs.evaluate_stage);
    for (int c = 0; e->programs.chunk != NULL && c < e->programs.chunks; c++) {
        for (int k = ENGINE_KINDS - 1; k >= 0; k--) { /* decode before prefill, which owns its caches */
            mega_graph_destroy(e->programs.chunk[c].graph[k]);
            mega_program_destroy(engine_program_of(&e->programs.chunk[c], (engine_kind)k));
        }
        mega_free(e->programs.chunk[c].train_io);
    }
    mega_free(e->programs.chunk);
}

/* ---- memory ---- */

static size_t chunks_most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The program whose memory is planned: that of whole samples, the largest. */
static const mega_program *planned_program(const engine_chunk *c, engine_kind kind)
{
    return kind == ENGINE_TRAIN ? c->whole : engine_program_of(c, kind);
}

/* Returns the total memory of the training programs of whole samples: `workspace` is summed because each has its own,
 * `shared` is the maximum because they share it. */
static mega_program_regions whole_regions(const mega_engine *e)
{
    mega_program_regions all = {0};
    for (int c = 0; c < e->programs.chunks && e->programs.chunk[c].whole != NULL; c++) {
        const mega_program_regions r = mega_program_region_bytes(e->programs.chunk[c].whole);
        all.resident += r.resident;
        all.workspace += r.workspace;
        all.shared = chunks_most(all.shared, r.shared);
    }
    return all;
}

/* The same with room for the programs of the first step, which may need more although their samples are shorter. */
static mega_program_regions train_regions(const mega_engine *e)
{
    const mega_program_regions whole = whole_regions(e), *first = &e->lengths.largest;
    return (mega_program_regions){.resident = chunks_most(whole.resident, first->resident),
                                  .workspace = chunks_most(whole.workspace, first->workspace),
                                  .shared = chunks_most(whole.shared, first->shared)};
}

/* Programs of training and forward-only programs never run at the same time, so their computed tensors share one
 * region, as large as the largest of them. The training chunks have micro-batches in flight at the same time: each has
 * its own region for saved tensors, and one region is shared by their temporary tensors. The chunks of an evaluation
 * share one region. Under a curriculum the programs of shorter samples use the memory of those of whole ones, and what
 * those of the first step need beyond it; their instructions are records of their own, and at most as many. */
void engine_chunks_memory(const mega_engine *e, mega_engine_memory *m)
{
    const mega_program_regions whole = whole_regions(e), most = train_regions(e);
    size_t train = most.workspace - whole.workspace, shared = 0, train_live = 0, shared_live = 0, evaluate = 0,
           live = 0;
    for (int c = 0; c < e->programs.chunks; c++)
        for (engine_kind k = ENGINE_TRAIN; k < ENGINE_KINDS; k++) {
            const mega_program *p = planned_program(&e->programs.chunk[c], k);
            const bool has_shorter = k == ENGINE_TRAIN && e->options.curriculum.is_on;
            mega_program_memory pm;
            if (p == NULL) continue;
            mega_program_memory_get(p, &pm);
            const size_t saved = pm.saved_bytes * (size_t)pm.slots, workspace = saved + pm.scratch_bytes;
            m->saved += saved;
            if (k == ENGINE_TRAIN) {
                train += workspace - pm.shared_bytes;
                train_live += pm.live_bytes - pm.shared_live;
                shared = chunks_most(shared, pm.shared_bytes);
                shared_live = chunks_most(shared_live, pm.shared_live);
            } else if (workspace >= evaluate)
                evaluate = workspace, live = pm.live_bytes;
            m->head = chunks_most(m->head, pm.head_bytes);
            m->buckets = chunks_most(m->buckets, pm.bucket_bytes);
            m->gathered = chunks_most(m->gathered, pm.gathered_bytes);
            m->inputs += pm.input_bytes + pm.state_bytes + pm.control_bytes;
            m->packed += pm.packed_bytes;
            m->records += pm.record_bytes * (has_shorter ? 2 : 1);
        }
    train += shared + (most.shared - whole.shared);
    m->inputs += most.resident - whole.resident;
    m->live = train >= evaluate ? train_live + shared_live : live;
    m->scratch = chunks_most(train, evaluate) - m->saved;
    m->total += chunks_most(train, evaluate) + m->inputs + m->packed + m->records;
}

size_t engine_chunks_largest_collective(const mega_engine *e, const mega_comm *comm)
{
    size_t most = 0;
    for (int c = 0; c < e->programs.chunks; c++)
        for (engine_kind k = ENGINE_TRAIN; k < ENGINE_KINDS; k++) {
            const mega_program *p = planned_program(&e->programs.chunk[c], k);
            if (p != NULL) most = chunks_most(most, mega_program_largest_collective(p, comm));
        }
    return most;
}

void engine_chunks_region(const mega_engine *e, size_t *resident, size_t *workspace)
{
    const mega_program_regions train = train_regions(e);
    *resident = train.resident;
    *workspace = train.workspace + train.shared;
    for (int c = 0; c < e->programs.chunks; c++)
        for (engine_kind k = ENGINE_EVALUATE; k < ENGINE_KINDS; k++) {
            const mega_program *p = engine_program_of(&e->programs.chunk[c], k);
            if (p == NULL) continue;
            const mega_program_regions r = mega_program_region_bytes(p);
            *resident += r.resident;
            *workspace = chunks_most(*workspace, r.workspace + r.shared);
        }
}

mega_status engine_allocate_train(const mega_engine *e, mega_program *p, int chunk, mega_region *resident,
                                  mega_region *workspace, mega_region shared, program_io **out_io)
{
    const int slots = e->programs.chunk[chunk].slots;
    MEGA_TRY(mega_program_allocate_in(p, resident, workspace, &shared));
    program_io *io = *out_io = mega_calloc((size_t)slots, sizeof *io);
    if (io == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "engine: no memory for %d slots", slots);
    for (int i = 0; i < slots; i++) engine_losses_bind(e, p, chunk, ENGINE_TRAIN, i, &io[i]);
    return MEGA_OK;
}

/* The training programs of whole samples; those of shorter ones will use the same regions. */
static mega_status allocate_train(mega_engine *e, mega_region *resident, const mega_region *workspace)
{
    const mega_program_regions most = train_regions(e);
    engine_lengths *l = &e->lengths;
    void *kept = NULL;
    MEGA_TRY(mega_region_take(resident, &kept, most.resident, "what the training programs keep"));
    l->resident = (mega_region){.base = kept, .bytes = mega_region_round(most.resident)};
    l->workspace = (mega_region){.base = workspace->base, .bytes = most.workspace};
    l->shared = (mega_region){.base = workspace->base + most.workspace, .bytes = most.shared};
    mega_region of_resident = l->resident, of_workspace = l->workspace;
    for (int c = 0; c < e->programs.chunks; c++) {
        engine_chunk *k = &e->programs.chunk[c];
        MEGA_TRY(engine_allocate_train(e, k->train, c, &of_resident, &of_workspace, l->shared, &k->train_io));
        k->whole_io = k->train_io;
    }
    return stage_open(&e->programs.stage, e->layout, e->programs.chunk, e->programs.chunks, ENGINE_TRAIN, 0);
}

mega_status engine_allocate_chunks(mega_engine *e, mega_region *resident, const mega_region *workspace)
{
    if (e->programs.train != NULL) MEGA_TRY(allocate_train(e, resident, workspace));
    for (int c = 0; c < e->programs.chunks; c++)
        for (engine_kind k = ENGINE_EVALUATE; k < ENGINE_KINDS; k++) {
            mega_program *p = engine_program_of(&e->programs.chunk[c], k);
            mega_region own = *workspace;
            if (p != NULL) MEGA_TRY(mega_program_allocate_in(p, resident, &own, &own));
            if (k == ENGINE_EVALUATE && p != NULL) engine_losses_bind(e, p, c, k, 0, &e->programs.chunk[c].evaluate_io);
        }
    if (e->programs.evaluate != NULL)
        MEGA_TRY(stage_open(&e->programs.evaluate_stage, e->layout, e->programs.chunk, e->programs.chunks,
                            ENGINE_EVALUATE, 1));
    return engine_open_runs(e);
}

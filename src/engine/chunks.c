/* The programs of this rank: one for training and one for evaluation, of each chunk of its pipeline stage. */
#include "engine_impl.h"
#include "megalith/assert.h"

/* The programs of this rank share what one would have. */
static int most_requests(const mega_engine *e)
{
    const int share = MEGA_PROGRAM_REQUESTS / e->chunks;
    return share > 0 ? share : 1;
}

static mega_status describe_program(mega_engine *e, int part, bool train, mega_graph **out)
{
    const mega_engine_options *o = &e->options;
    mega_graph *g = NULL;
    MEGA_TRY(mega_graph_create(&g, o->compute, e->params, e->layout));
    const mega_status st = mega_model_parts_describe(e->parts, part, train ? MEGA_TRAIN : MEGA_EVAL, g);
    if (st == MEGA_OK) *out = g;
    else
        mega_graph_destroy(g);
    return st;
}

/* Takes the graph, which becomes NULL. */
static mega_status build_program(mega_engine *e, int chunk, bool train, mega_graph **graph, mega_program **out)
{
    const mega_engine_options *o = &e->options;
    mega_graph *g = *graph;
    *graph = NULL;
    const bool accumulates = o->batch.global_batch > o->batch.micro_step;
    const bool is_whole = !mega_params_are_cut(e->params, MEGA_PARAMS_WEIGHTS); /* else there is nothing to pack */
    const mega_program_options po = {.backend = o->plain ? MEGA_PROGRAM_PLAIN : MEGA_PROGRAM_CPU,
                                     .team = o->team,
                                     .differentiate = train,
                                     .per_token_loss = o->per_token_loss,
                                     .pack_weights = !train || o->no_pack_weights || !is_whole ? 0
                                                     : accumulates                             ? 1
                                                                                               : 2,
                                     .slots = train ? e->chunk[chunk].slots : 1,
                                     .passes = STAGE_PASSES,
                                     .world = o->world,
                                     .requests = most_requests(e),
                                     .place = o->place,
                                     .name = train ? "train" : "evaluate"};
    return mega_program_build(out, g, &po);
}

mega_pipeline engine_pipeline(const mega_engine *e, int64_t micro_batches)
{
    return (mega_pipeline){e->layout->pp.size, e->chunks, micro_batches};
}

/* Each slot has, for each value of the flow, two messages that come and two that go, where none of their buffers are
 * shared. */
static mega_status check_messages(const mega_engine *e)
{
    int64_t messages = 0;
    for (int c = 0; c < e->chunks; c++) messages += 4 * (int64_t)e->chunk[c].slots * mega_model_parts_values(e->parts);
    if (messages <= MEGA_COMM_REQUESTS - 2 * MEGA_PROGRAM_REQUESTS) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "a pipeline of %d stages of %d programs: this stage would have up to %lld messages under way, at "
                     "most %d can be; take fewer stages or programs a stage",
                     e->layout->pp.size, e->chunks, (long long)messages,
                     MEGA_COMM_REQUESTS - 2 * MEGA_PROGRAM_REQUESTS);
}

mega_status engine_describe_chunks(mega_engine *e)
{
    const mega_engine_options *o = &e->options;
    const mega_pipeline p = engine_pipeline(e, o->batch.global_batch / o->batch.micro_step);
    if (e->chunks > MEGA_SCHEDULE_CHUNKS || (e->chunks > 1 && p.micro_batches % p.stages != 0))
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "%lld micro-batches a step over %d pipeline stages of %d chunks: the interleaved schedule "
                         "takes a multiple of %d micro-batches, and at most %d chunks",
                         (long long)p.micro_batches, p.stages, e->chunks, p.stages, MEGA_SCHEDULE_CHUNKS);
    e->chunk = mega_calloc((size_t)e->chunks, sizeof *e->chunk);
    if (e->chunk == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "engine: no memory for %d programs", e->chunks);
    for (int c = 0; c < e->chunks; c++) e->chunk[c].slots = mega_schedule_slots_of(&p, e->layout->pp.rank, c);
    MEGA_TRY(check_messages(e));
    for (int c = 0; c < e->chunks; c++) {
        engine_chunk *k = &e->chunk[c];
        const int part = mega_model_parts_own(e->parts, c);
        if (c > 0) mega_params_next_part(e->params);
        MEGA_TRY(mega_model_parts_declare(e->parts, part, e->params));
        if (!o->no_train) MEGA_TRY(describe_program(e, part, true, &k->train_graph));
        if (!o->no_evaluate) MEGA_TRY(describe_program(e, part, false, &k->evaluate_graph));
    }
    return MEGA_OK;
}

mega_status engine_build_chunks(mega_engine *e)
{
    const mega_engine_options *o = &e->options;
    for (int c = 0; c < e->chunks; c++) {
        engine_chunk *k = &e->chunk[c];
        if (!o->no_train) MEGA_TRY(build_program(e, c, true, &k->train_graph, &k->train));
        if (!o->no_evaluate) MEGA_TRY(build_program(e, c, false, &k->evaluate_graph, &k->evaluate));
    }
    e->train = e->chunk[0].train;
    e->evaluate = e->chunk[0].evaluate;
    return MEGA_OK;
}

void engine_destroy_chunks(mega_engine *e)
{
    stage_close(&e->stage);
    stage_close(&e->evaluate_stage);
    for (int c = 0; e->chunk != NULL && c < e->chunks; c++) {
        mega_graph_destroy(e->chunk[c].train_graph);
        mega_graph_destroy(e->chunk[c].evaluate_graph);
        mega_program_destroy(e->chunk[c].train);
        mega_program_destroy(e->chunk[c].evaluate);
        mega_free(e->chunk[c].train_io);
    }
    mega_free(e->chunk);
}

/* ---- memory ---- */

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Training and evaluation take turns: what they compute shares one place, as large as the larger of them. Chunks have
 * micro-batches in flight at one time: what they save has places of its own, what they compute with in between one
 * place for all. The chunks of an evaluation take turns. */
void engine_chunks_memory(const mega_engine *e, mega_engine_memory *m)
{
    size_t train = 0, turn = 0, train_live = 0, turn_live = 0, evaluate = 0, live = 0;
    for (int c = 0; c < e->chunks; c++)
        for (int i = 0; i < 2; i++) {
            const mega_program *p = i == 0 ? e->chunk[c].train : e->chunk[c].evaluate;
            mega_program_memory pm;
            if (p == NULL) continue;
            mega_program_memory_get(p, &pm);
            const size_t saved = pm.saved_bytes * (size_t)pm.slots, work = saved + pm.scratch_bytes;
            m->saved += saved;
            if (i == 0) {
                train += work - pm.turn_bytes;
                train_live += pm.live_bytes - pm.turn_live;
                turn = most(turn, pm.turn_bytes);
                turn_live = most(turn_live, pm.turn_live);
            } else if (work >= evaluate)
                evaluate = work, live = pm.live_bytes;
            m->head = most(m->head, pm.head_bytes);
            m->buckets = most(m->buckets, pm.bucket_bytes);
            m->gathered = most(m->gathered, pm.gathered_bytes);
            m->inputs += pm.input_bytes + pm.state_bytes;
            m->packed += pm.packed_bytes;
            m->records += pm.record_bytes;
        }
    train += turn;
    m->live = train >= evaluate ? train_live + turn_live : live;
    m->scratch = most(train, evaluate) - m->saved;
    m->total += most(train, evaluate) + m->inputs + m->packed + m->records;
}

/* What the training programs take together: `work` one after the other, `turn` in one place. */
static mega_program_regions train_regions(const mega_engine *e)
{
    mega_program_regions all = {0};
    for (int c = 0; c < e->chunks && e->chunk[c].train != NULL; c++) {
        const mega_program_regions r = mega_program_region_bytes(e->chunk[c].train);
        all.keep += r.keep;
        all.work += r.work;
        all.turn = most(all.turn, r.turn);
    }
    return all;
}

void engine_chunks_region(const mega_engine *e, size_t *stays, size_t *shared)
{
    const mega_program_regions train = train_regions(e);
    *stays = train.keep;
    *shared = train.work + train.turn;
    for (int c = 0; c < e->chunks && e->chunk[c].evaluate != NULL; c++) {
        const mega_program_regions r = mega_program_region_bytes(e->chunk[c].evaluate);
        *stays += r.keep;
        *shared = most(*shared, r.work);
    }
}

static program_io bind_io(const mega_engine *e, mega_program *p, int slot)
{
    program_io io = {.num_losses = 0};
    engine_losses_bind(e, p, slot, &io);
    return io;
}

static mega_status allocate_train(const mega_engine *e, engine_chunk *c, mega_region *keep, mega_region *work,
                                  mega_region turn)
{
    MEGA_TRY(mega_program_allocate_in(c->train, keep, work, &turn));
    c->train_io = mega_calloc((size_t)c->slots, sizeof *c->train_io);
    if (c->train_io == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "engine: no memory for %d slots", c->slots);
    for (int i = 0; i < c->slots; i++) c->train_io[i] = bind_io(e, c->train, i);
    return MEGA_OK;
}

mega_status engine_allocate_chunks(mega_engine *e, mega_region *keep, const mega_region *work)
{
    const mega_program_regions train = train_regions(e);
    mega_region own = *work, turn = {.base = (char *)work->base + train.work, .bytes = train.turn};
    for (int c = 0; c < e->chunks && e->train != NULL; c++) MEGA_TRY(allocate_train(e, &e->chunk[c], keep, &own, turn));
    for (int c = 0; c < e->chunks && e->evaluate != NULL; c++) {
        own = *work;
        MEGA_TRY(mega_program_allocate_in(e->chunk[c].evaluate, keep, &own, NULL));
        e->chunk[c].evaluate_io = bind_io(e, e->chunk[c].evaluate, 0);
    }
    if (e->train != NULL) MEGA_TRY(stage_open(&e->stage, e->layout, e->chunk, e->chunks, false));
    if (e->evaluate != NULL) MEGA_TRY(stage_open(&e->evaluate_stage, e->layout, e->chunk, e->chunks, true));
    return MEGA_OK;
}

/* Graphs of the software driver: streams that are captured, and launches of what they did. */
#include "software.h"
#include <stdlib.h>

enum { GRAPH_MAGIC = 0x47525048, EXEC_MAGIC = 0x45584543 };

static bool graph_is_valid(cu_graph g)
{
    return g != NULL && g->magic == GRAPH_MAGIC;
}
static bool exec_is_valid(cu_graph_exec e)
{
    return e != NULL && e->magic == EXEC_MAGIC;
}
static cu_result refuse(const char *name)
{
    software_refuse(name, "no graph, or one that is destroyed");
    return CU_INVALID_VALUE;
}

/* ---- capture ---- */

cu_result graph_add(cu_stream s, software_op *op)
{
    graph_branch *b = &s->capture->branch[s->number];
    if (b->count == b->cap || b->nodes == NULL) {
        b->cap = 2 * b->cap + 16;
        if ((b->nodes = realloc(b->nodes, b->cap * sizeof *b->nodes)) == NULL) abort();
    }
    graph_node *node = &b->nodes[b->count++];
    node->op = op;
    memcpy(node->need, s->need, sizeof node->need);
    s->need[s->number] = b->count;
    return CU_OK;
}

cu_result graph_break(cu_graph graph)
{
    graph->is_broken = true;
    return CU_CAPTURE_UNSUPPORTED;
}

cu_graph event_capture(cu_event e)
{
    for (int i = 0; i < MOST_STREAMS; i++) {
        cu_graph g = software.stream[i] != NULL ? software.stream[i]->capture : NULL;
        if (g != NULL && g->id == e->capture_id) return g;
    }
    return NULL;
}

/* Graphs, and those that can be launched, stay where they are, so that a later call with one of them is refused. */
static void graph_drop(cu_graph g)
{
    if (--g->owners > 0) return;
    for (int b = 0; b < MOST_STREAMS; b++) {
        for (uint32_t i = 0; i < g->branch[b].count; i++) op_free(g->branch[b].nodes[i].op);
        free(g->branch[b].nodes);
    }
    memset(g->branch, 0, sizeof g->branch);
}

cu_result cuStreamBeginCapture_v2(cu_stream stream, unsigned mode)
{
    const cu_result r = software_enter_context("cuStreamBeginCapture_v2", CU_OUT_OF_MEMORY);
    if (r != CU_OK) return software_leave(r);
    if (!stream_is_valid(stream)) return software_leave(software_refuse("cuStreamBeginCapture_v2", NO_STREAM));
    if (mode > 2 || stream->capture != NULL) return software_leave(CU_INVALID_VALUE);
    cu_graph g = software_handle(sizeof *g);
    if (g == NULL) return software_leave(CU_OUT_OF_MEMORY);
    *g = (struct CUgraph_st){.magic = GRAPH_MAGIC, .id = ++software.captures, .owners = 1, .origin = stream->number};
    stream->capture = g;
    memset(stream->need, 0, sizeof stream->need);
    return software_leave(CU_OK);
}

cu_result cuStreamEndCapture(cu_stream stream, cu_graph *out)
{
    cu_result r = software_enter_context("cuStreamEndCapture", CU_CAPTURE_INVALIDATED);
    if (r == CU_OK && !stream_is_valid(stream)) r = software_refuse("cuStreamEndCapture", NO_STREAM);
    if (r == CU_OK && stream->capture == NULL) r = CU_INVALID_VALUE;
    if (r == CU_OK && stream->capture->origin != stream->number) r = CU_CAPTURE_UNMATCHED;
    if (r != CU_OK) return software_leave(r);
    cu_graph g = stream->capture;
    bool is_joined = true; /* the first stream comes after all that was captured in others */
    for (int b = 0; b < MOST_STREAMS; b++) {
        is_joined = is_joined && stream->need[b] == g->branch[b].count;
        if (software.stream[b] != NULL && software.stream[b]->capture == g) software.stream[b]->capture = NULL;
    }
    *out = NULL;
    if (g->is_broken || !is_joined) {
        r = g->is_broken ? CU_CAPTURE_INVALIDATED : CU_CAPTURE_UNJOINED;
        g->magic = 0;
        graph_drop(g);
        return software_leave(r);
    }
    *out = g;
    return software_leave(CU_OK);
}

cu_result cuGraphDestroy(cu_graph graph)
{
    cu_result r = software_enter_context("cuGraphDestroy", CU_INVALID_VALUE);
    if (r == CU_OK && !graph_is_valid(graph)) r = refuse("cuGraphDestroy");
    if (r != CU_OK) return software_leave(r);
    graph->magic = 0; /* a launch of it, or what was made of it, may still use the rest */
    graph_drop(graph);
    return software_leave(CU_OK);
}

/* ---- graphs that can be launched ---- */

static void exec_drop(cu_graph_exec e)
{
    if (--e->owners > 0) return;
    graph_drop(e->graph);
    e->graph = NULL;
}

cu_result cuGraphInstantiateWithFlags(cu_graph_exec *out, cu_graph graph, unsigned long long flags)
{
    cu_result r = software_enter_context("cuGraphInstantiateWithFlags", CU_OUT_OF_MEMORY);
    if (r == CU_OK && !graph_is_valid(graph)) r = refuse("cuGraphInstantiateWithFlags");
    if (r == CU_OK && flags != 0) r = CU_INVALID_VALUE;
    if (r != CU_OK) return software_leave(r);
    cu_graph_exec e = software_handle(sizeof *e);
    if (e == NULL) return software_leave(CU_OUT_OF_MEMORY);
    *e = (struct CUgraphExec_st){.magic = EXEC_MAGIC, .owners = 1, .graph = graph};
    graph->owners++;
    for (int b = 0; b < MOST_STREAMS; b++)
        if (graph->branch[b].count > 0) e->lane[b] = software_lane();
    *out = e;
    return software_leave(CU_OK);
}

cu_result cuGraphExecDestroy(cu_graph_exec exec)
{
    cu_result r = software_enter_context("cuGraphExecDestroy", CU_INVALID_VALUE);
    if (r == CU_OK && !exec_is_valid(exec)) r = refuse("cuGraphExecDestroy");
    if (r != CU_OK) return software_leave(r);
    exec->magic = 0;
    exec_drop(exec);
    return software_leave(CU_OK);
}

/* ---- launches ---- */

/* What comes after the first need[b] nodes of each branch. */
static watch_clock clock_after(const graph_run *run, const uint32_t *need)
{
    watch_clock clock = run->base;
    for (int b = 0; b < MOST_STREAMS; b++) {
        uint32_t *at = &clock.at[run->exec->lane[b]];
        if (need[b] > 0 && run->start[b] + need[b] > *at) *at = run->start[b] + need[b];
    }
    return clock;
}

static void run_begin(graph_run *run)
{
    const struct CUgraph_st *g = run->exec->graph;
    for (int b = 0; b < MOST_STREAMS; b++) {
        const graph_branch *branch = &g->branch[b];
        if (branch->count == 0) continue;
        const int lane = run->exec->lane[b];
        run->start[b] = software.lane_count[lane];
        software.lane_count[lane] += branch->count;
        if ((run->nodes[b] = calloc(branch->count, sizeof *run->nodes[b])) == NULL) abort();
    }
    for (int b = 0; b < MOST_STREAMS; b++)
        for (uint32_t i = 0; i < g->branch[b].count; i++) {
            queued *q = &run->nodes[b][i];
            q->op = g->branch[b].nodes[i].op;
            q->order.lane = run->exec->lane[b];
            q->order.number = run->start[b] + i + 1;
            q->order.after = clock_after(run, g->branch[b].nodes[i].need);
            queued_begin(q);
        }
}

cu_result graph_queue(cu_graph_exec exec, cu_stream s)
{
    software_op *op = op_make(OP_GRAPH);
    queued *q = queued_make(op, true);
    graph_run *run = q->graph = calloc(1, sizeof *run);
    uint32_t all[MOST_STREAMS];
    if (run == NULL) abort();
    exec->owners++;
    run->exec = exec;
    clock_join(&s->clock, &software.host);
    run->base = s->clock;
    run_begin(run);
    for (int b = 0; b < MOST_STREAMS; b++) all[b] = exec->graph->branch[b].count;
    s->clock = clock_after(run, all);
    *s->last = q;
    s->last = &q->next;
    return CU_OK;
}

cu_result cuGraphLaunch(cu_graph_exec exec, cu_stream stream)
{
    cu_result r = software_enter_context("cuGraphLaunch", CU_OUT_OF_MEMORY);
    if (r == CU_OK && !exec_is_valid(exec)) r = refuse("cuGraphLaunch");
    if (r == CU_OK && !stream_is_valid(stream)) r = software_refuse("cuGraphLaunch", NO_STREAM);
    if (r == CU_OK && stream->capture != NULL) r = CU_CAPTURE_UNSUPPORTED;
    return software_leave(r == CU_OK ? graph_queue(exec, stream) : r);
}

static bool is_ready(const graph_run *run, int b)
{
    const graph_branch *branch = &run->exec->graph->branch[b];
    if (run->done[b] == branch->count) return false;
    const graph_node *node = &branch->nodes[run->done[b]];
    for (int i = 0; i < MOST_STREAMS; i++)
        if (run->done[i] < node->need[i]) return false;
    return true;
}

unsigned graph_run_ready(const graph_run *run)
{
    unsigned count = 0;
    for (int b = 0; b < MOST_STREAMS; b++) count += is_ready(run, b);
    return count;
}

bool graph_run_one(graph_run *run, unsigned which)
{
    for (int b = 0; b < MOST_STREAMS; b++) {
        if (!is_ready(run, b) || which-- > 0) continue;
        if (!queued_run(&run->nodes[b][run->done[b]])) return false;
        run->done[b]++;
        return true;
    }
    return false;
}

bool graph_run_is_done(const graph_run *run)
{
    for (int b = 0; b < MOST_STREAMS; b++)
        if (run->done[b] < run->exec->graph->branch[b].count) return false;
    return true;
}

void graph_run_free(graph_run *run)
{
    for (int b = 0; b < MOST_STREAMS; b++) {
        for (uint32_t i = 0; run->nodes[b] != NULL && i < run->exec->graph->branch[b].count; i++)
            free(run->nodes[b][i].user);
        free(run->nodes[b]);
    }
    exec_drop(run->exec);
    free(run);
}

/* What a plan and a log know of the GPU that computes: the one that is here, or a kind of GPU that is elsewhere. */
#include "megalith/cuda.h"
#include "train_impl.h"

#include <stdio.h>
#include <string.h>

bool train_has_gpu(const trainer *t)
{
    return t->cfg->engine.backend.backend == MEGA_BACKEND_CUDA;
}

/* Returns whether a GPU of this process was found. */
static bool gpu_find(const trainer *t, mega_cuda_info *out)
{
    return mega_cuda_info_get(t->cfg->engine.backend.gpu, out) == MEGA_OK;
}

/* The kind that --device names, else that of the GPU here; NULL: not known. */
static const mega_gpu_model *gpu_model(const trainer *t)
{
    mega_cuda_info here;
    const mega_gpu_model *model = mega_gpu_model_named(t->cfg->engine.backend.device);
    if (!train_has_gpu(t) || model != NULL) return model;
    return gpu_find(t, &here) ? mega_gpu_model_reported(here.name) : NULL;
}

/* Ranks of this host on the GPU of this rank: those that run have compared their GPUs; of others, as they would. */
static size_t gpu_sharers(const trainer *t)
{
    const char *device = t->cfg->engine.backend.device;
    const size_t ranks = (size_t)t->cfg->engine.local_world_size;
    int gpus = 0;
    if (t->cfg->engine.gpus.sharers > 0) return (size_t)t->cfg->engine.gpus.sharers;
    if (device != NULL && strchr(device, ':') != NULL) return ranks; /* all of them name this one */
    if (mega_cuda_count(&gpus) != MEGA_OK || gpus < 1) return 1;
    return (ranks + (size_t)gpus - 1) / (size_t)gpus;
}

size_t train_gpu_bytes(const trainer *t, const char **name)
{
    const mega_gpu_model *model = mega_gpu_model_named(t->cfg->engine.backend.device);
    mega_cuda_info here;
    *name = "published memory of the GPU";
    if (model != NULL) return (size_t)(model->gigabytes * 1e9);
    *name = "memory of the GPU";
    if (!gpu_find(t, &here)) return SIZE_MAX;
    const size_t sharers = gpu_sharers(t);
    if (sharers > 1) *name = "memory of the GPU, which ranks share";
    return here.bytes / sharers;
}

double train_gpu_peak(const trainer *t)
{
    const mega_gpu_model *model = gpu_model(t);
    return model != NULL ? mega_gpu_model_flops(model, t->cfg->engine.backend.params_dtype) : 0;
}

/* Where ranks would exchange by it: each has a GPU of its own, and the library is here, or the GPU is elsewhere. */
size_t train_nccl_bytes(const trainer *t)
{
    const mega_engine_settings *s = &t->cfg->engine;
    char version[MEGA_CUDA_TEXT];
    const bool is_elsewhere = mega_gpu_model_named(s->backend.device) != NULL;
    if (!train_has_gpu(t) || t->engine == NULL || s->world_size < 2) return 0;
    if (s->comm.distributed_backend > MEGA_DISTRIBUTED_NCCL) return 0;
    if (!is_elsewhere && (gpu_sharers(t) > 1 || mega_cuda_nccl(version) != MEGA_OK)) return 0;
    return (size_t)mega_layout_links(mega_engine_layout(t->engine)) * MEGA_CUDA_NCCL_BYTES;
}

static void add_graphs(mega_program_graphs *sum, mega_program_graphs g)
{
    sum->graphs += g.graphs;
    sum->instructions += g.instructions;
}

/* Those of training, with the update, or of evaluation, which has a forward only. */
static mega_program_graphs graphs_of(const trainer *t, bool trains)
{
    const mega_optim_options *o = &t->cfg->engine.optim;
    const int64_t samples = o->micro_batch_size * t->cfg->engine.data_parallel_size;
    mega_program_graphs sum = {0};
    if (t->engine == NULL || !train_has_gpu(t)) return sum;
    for (int c = 0; c < mega_engine_chunks(t->engine); c++) {
        const mega_program *p = mega_engine_chunk_program(t->engine, c, trains);
        if (p != NULL) add_graphs(&sum, mega_program_graphs_get(p, samples > 0 ? o->global_batch_size / samples : 1));
    }
    if (trains) add_graphs(&sum, mega_update_graphs_get(mega_engine_update_program(t->engine)));
    return sum;
}

size_t train_graph_bytes(const trainer *t)
{
    return (size_t)(graphs_of(t, true).instructions + graphs_of(t, false).instructions) * MEGA_CUDA_NODE_BYTES;
}

void train_plan_graphs(const trainer *t, mega_buffer *out)
{
    const mega_program_graphs train = graphs_of(t, true), evaluate = graphs_of(t, false);
    if (train.graphs == 0) return;
    mega_buffer_printf(out, "             graphs on the GPU: train %lld, of %lld instructions", (long long)train.graphs,
                       (long long)train.instructions);
    if (evaluate.graphs > 0)
        mega_buffer_printf(out, "; evaluate %lld, of %lld", (long long)evaluate.graphs,
                           (long long)evaluate.instructions);
    mega_buffer_puts(out, "\n");
}

void train_plan_gpu(const trainer *t, mega_buffer *out)
{
    const mega_gpu_model *model = gpu_model(t);
    char text[MEGA_CUDA_TEXT];
    if (!train_has_gpu(t)) return;
    mega_buffer_puts(out, "device       ");
    if (mega_gpu_model_named(t->cfg->engine.backend.device) == NULL)
        mega_buffer_printf(out, "cuda:%lld: %s", (long long)t->cfg->engine.backend.gpu,
                           mega_cuda_describe(t->cfg->engine.backend.gpu, text) == MEGA_OK ? text
                                                                                           : mega_error_message());
    if (model != NULL)
        mega_buffer_printf(out, "%s; published: %.4g GB, %.4g TFLOP/s in 16 bits, %.4g in fp32, %.4g GB/s", model->text,
                           model->gigabytes, model->tflops_16, model->tflops_32, model->gigabytes_s);
    mega_buffer_puts(out, "\n");
}

void train_plan_gpu_time(const trainer *t, double flops, mega_buffer *out)
{
    const double peak = train_gpu_peak(t);
    if (peak > 0)
        mega_buffer_printf(out, "  an iteration takes at least         %.4g s, at the published peak of %.4g TFLOP/s\n",
                           flops / (peak * (double)t->cfg->engine.world_size), peak * 1e-12);
}

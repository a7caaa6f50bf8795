/* Computes the memory that a run needs, by class, and checks that it fits: of a GPU that computes, else of the host. */
#include "megalith/memory.h"
#include "megalith/cuda.h"
#include "megalith/file.h"
#include "train_impl.h"
#include <assert.h>
#include <string.h>

enum { NEVER = 4 /* higher than any ZeRO stage */ };

static void log_buckets(const mega_engine_memory *m, mega_buffer *out)
{
    char text[32];
    if (m->gathered > 0)
        mega_buffer_printf(out, "; gathered weights at most %s", train_bytes(text, sizeof text, (double)m->gathered));
    if (m->buckets > 0)
        mega_buffer_printf(out, "; %s at most %s",
                           m->zero_stage >= 2 ? "buckets of gradients" : "gradients while they are computed",
                           train_bytes(text, sizeof text, (double)m->buckets));
}

/* A rank alone writes the files of a checkpoint one after the other, as streams; of several, each writes its tensors
 * from where they are. */
static size_t saving_bytes(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    mega_engine_memory m;
    if (cfg->save == NULL || cfg->skip_train || cfg->engine.world_size > 1 || t->engine == NULL) return 0;
    mega_engine_memory_get(t->engine, &m);
    /* the model at the end of a run of epochs has no states */
    const bool is_whole = t->task->course->is_as_megatron || cfg->save_interval > 0 || cfg->clm.saves_epochs;
    const size_t states = is_whole && !cfg->no_save_optim ? m.moments : 0;
    return mega_writer_large_memory(states > m.masters ? states : m.masters);
}

train_host_memory train_host_memory_get(const trainer *t)
{
    return (train_host_memory){.saving = saving_bytes(t),
                               .order = t->order.bytes,
                               .sharers = (int)t->cfg->engine.local_world_size,
                               .tokenizer = mega_tokenizer_bytes(t->text.tokenizer),
                               .process =
                                   mega_world_process_bytes(t->cfg->engine.world_size, t->cfg->engine.code_scale)};
}

static size_t held_on_host(const trainer *t)
{
    const train_host_memory h = train_host_memory_get(t);
    return h.order + h.tokenizer + h.process + h.saving + (train_has_gpu(t) ? MEGA_CUDA_PINNED_BYTES : 0);
}

static size_t host_with(const trainer *t, const mega_engine_memory *m)
{
    const size_t bytes = m->total - (train_has_gpu(t) ? m->device : 0) + held_on_host(t);
    return bytes > t->reading_bytes ? bytes : t->reading_bytes;
}

static size_t products_bytes(const trainer *t)
{
    return train_has_gpu(t) ? mega_cuda_library_bytes(t->cfg->engine.backend.matmul_library) : 0;
}

size_t train_bytes_beside_engine(const trainer *t)
{
    if (!train_has_gpu(t)) return held_on_host(t);
    return MEGA_CUDA_CONTEXT_BYTES + MEGA_CUDA_STAGING_BYTES + products_bytes(t) + train_nccl_bytes(t) +
           train_graph_bytes(t);
}

size_t train_memory_with_engine(const trainer *t, const mega_engine_memory *m)
{
    return train_has_gpu(t) ? m->device + train_bytes_beside_engine(t) : host_with(t, m);
}

size_t train_memory_total(const trainer *t)
{
    mega_engine_memory m;
    mega_engine_memory_get(t->engine, &m);
    return train_memory_with_engine(t, &m);
}

mega_status train_find_most_planned(trainer *t)
{
    t->most_planned = (int64_t)train_memory_total(t);
    if (t->world == NULL) return MEGA_OK;
    return mega_comm_all_reduce(mega_world_comm(t->world), "planned memory", &t->most_planned, 1, MEGA_I64,
                                MEGA_REDUCE_MAX);
}

mega_status train_find_most_held(trainer *t)
{
    /* only the description of the run says it, and reading the list of mappings takes milliseconds */
    const bool is_asked = t->cfg->metrics_file != NULL;
    t->most_held = is_asked ? (int64_t)mega_memory_peak() : 0;
    if (t->world == NULL) return MEGA_OK;
    return mega_comm_all_reduce(mega_world_comm(t->world), "held memory", &t->most_held, 1, MEGA_I64, MEGA_REDUCE_MAX);
}

static void table_row(mega_buffer *out, const char *what, size_t bytes, const char *meaning)
{
    char text[32];
    mega_buffer_printf(out, "  %-12s%12s  %s", what, train_bytes(text, sizeof text, (double)bytes), meaning);
}

/* Appends a class, unless it is empty and optional. */
static void add_class(train_memory_class *out, int *count, const train_memory_class *row, bool is_optional)
{
    if (row->bytes > 0 || !is_optional) out[(*count)++] = *row;
}

static const char *name_of_weights(mega_dtype compute)
{
    return compute == MEGA_BF16  ? "parameters in bf16, which is computed with"
           : compute == MEGA_F16 ? "parameters in fp16, which is computed with"
                                 : "parameters";
}

int train_memory_classes(const trainer *t, train_memory_class out[TRAIN_MEMORY_CLASSES])
{
    mega_engine_memory m;
    mega_engine_memory_get(t->engine, &m);
    const train_host_memory h = train_host_memory_get(t);
    const bool one = m.weights == 0, has_gpu = train_has_gpu(t);
    const size_t states = m.weights + m.masters + m.gradients + m.moments;
    const size_t named = states + m.saved + m.scratch + m.inputs + m.packed;
    const struct {
        train_memory_class row;
        bool is_optional;
    } all[] = {
        /* without weights, the masters are also the weights */
        {{"weights", name_of_weights(t->cfg->engine.backend.params_dtype), m.weights, 3, false}, true},
        {{"masters", one ? "the parameters: computed with and updated" : "parameters that the optimizer updates",
          m.masters, one ? 3 : 1, false},
         false},
        {{"gradients", "of the parameters, summed over micro-batches", m.gradients, 2, false}, false},
        {{"optimizer", "its moments", m.moments, 1, false}, false},
        {{"saved", "activations kept for the backward", m.saved, NEVER, false}, false},
        {{TRAIN_SCRATCH, "everything else that is computed", m.scratch, NEVER, false}, false},
        {{"inputs", "and outputs of the programs", m.inputs, NEVER, false}, false},
        {{"packed", "weights as products take them, kept through a step (--no-pack-weights)", m.packed, NEVER, false},
         true},
        {{"losses", "and what is rounded up between the rows above", has_gpu ? m.device - named : 0, NEVER, false},
         true},
        {{"staging", "through which the host writes", has_gpu ? (size_t)MEGA_CUDA_STAGING_BYTES : 0, NEVER, false},
         true},
        {{"products", "a workspace of cuBLASLt, if it is found (--matmul-library)", products_bytes(t), NEVER, false},
         true},
        {{"nccl", "communicators of NCCL, if it is found: 100 MB each is assumed, not measured", train_nccl_bytes(t),
          NEVER, false},
         true},
        {{"graphs", "recorded of the programs: 1 KiB an instruction is assumed, not measured", train_graph_bytes(t),
          NEVER, false},
         true},
        {{"context", "of CUDA with the program's kernels: assumed, not measured", has_gpu ? MEGA_CUDA_CONTEXT_BYTES : 0,
          NEVER, false},
         true},
        /* of the host, whatever computes */
        {{"data", "rows of a step, and those that are read ahead",
          has_gpu ? m.total - m.device - m.libraries - m.records : m.data, NEVER, has_gpu},
         false},
        {{"programs", "their instructions and tensors, records of layers and parameters", m.records, NEVER, has_gpu},
         false},
        {{"libraries", "and threads: measured, not planned", m.libraries, NEVER, has_gpu}, false},
        {{"pinned", "for copies to and from the GPU", has_gpu ? MEGA_CUDA_PINNED_BYTES : 0, NEVER, has_gpu}, true},
        /* memory that the engine does not plan */
        {{TRAIN_ORDER, "of samples: index arrays, blends, permutations", h.order, NEVER, has_gpu}, true},
        {{"tokenizer", "vocabulary and merges", h.tokenizer, NEVER, has_gpu}, true},
        {{"process", "code and its libraries: measured, not planned", h.process, NEVER, has_gpu}, false},
        {{"saving", "buffers of the largest file of a checkpoint", h.saving, NEVER, has_gpu}, true},
        {{"reading", "texts, before the first step: what it took more than all rows above; measured, not planned",
          host_with(t, &m) - (m.total - (has_gpu ? m.device : 0)) - held_on_host(t), NEVER, has_gpu},
         true},
    };
    int count = 0;
    static_assert(sizeof all / sizeof *all == TRAIN_MEMORY_CLASSES, "the number in the header");
    for (int i = 0; i < TRAIN_MEMORY_CLASSES; i++) add_class(out, &count, &all[i].row, all[i].is_optional);
    return count;
}

static void table_class(const trainer *t, const mega_engine_memory *m, const train_memory_class *row, mega_buffer *out)
{
    char text[32];
    const bool is_scratch = strcmp(row->name, TRAIN_SCRATCH) == 0;
    const int sharers = train_host_memory_get(t).sharers;
    table_row(out, row->name, row->bytes, row->meaning);
    if (is_scratch && m->head > 0)
        mega_buffer_printf(out, "; a chunk of the head's logits takes %s",
                           train_bytes(text, sizeof text, (double)m->head));
    if (is_scratch) log_buckets(m, out);
    if (m->zero_stage >= row->cut_from) mega_buffer_printf(out, "; 1/%d of it, ZeRO", m->shards);
    if (strcmp(row->name, TRAIN_ORDER) == 0 && sharers > 1)
        mega_buffer_printf(out, "; 1/%d of what the ranks of this host share", sharers);
    mega_buffer_puts(out, "\n");
}

void train_memory_table(const trainer *t, mega_buffer *out)
{
    train_memory_class row[TRAIN_MEMORY_CLASSES];
    mega_engine_memory m;
    mega_engine_memory_get(t->engine, &m);
    const int rows = train_memory_classes(t, row);
    for (int i = 0; i < rows; i++)
        if (!row[i].is_beside) table_class(t, &m, &row[i], out);
    table_row(out, "total", train_memory_total(t), "\n");
}

void train_memory_host_table(const trainer *t, mega_buffer *out)
{
    train_memory_class row[TRAIN_MEMORY_CLASSES];
    mega_engine_memory m;
    mega_engine_memory_get(t->engine, &m);
    if (!train_has_gpu(t)) return;
    const int rows = train_memory_classes(t, row);
    mega_buffer_puts(out, "\nmemory of the host\n");
    for (int i = 0; i < rows; i++)
        if (row[i].is_beside) table_class(t, &m, &row[i], out);
    table_row(out, "total", host_with(t, &m), "\n");
}

size_t train_memory_limit(const trainer *t, const char **name)
{
    *name = "--memory-limit";
    if (t->cfg->memory_limit > 0) return (size_t)t->cfg->memory_limit;
    if (train_has_gpu(t)) return train_gpu_bytes(t, name);
    /* the ranks of this host share its memory */
    return mega_memory_available(name) / (size_t)t->cfg->engine.local_world_size;
}

mega_status train_check_memory(const trainer *t, bool is_shown)
{
    const char *name;
    const size_t limit = train_memory_limit(t, &name);
    char need[32], have[32];
    mega_buffer table = {0}, remedy = {0};
    const size_t total = train_memory_total(t);
    if (total <= limit) return MEGA_OK;
    train_bytes(need, sizeof need, (double)total);
    train_bytes(have, sizeof have, (double)limit);
    if (is_shown)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "this run needs %s of memory and may use %s (%s)%s", need, have, name,
                         t->cfg->no_suggestions ? "" : "; the plan lists what would make it fit");
    train_memory_table(t, &table);
    train_suggest(t, limit, &remedy);
    const mega_status st =
        MEGA_FAIL(MEGA_ERR_MEMORY, "this run needs %s of memory and may use %s (%s); %sWhat it needs:\n%s", need, have,
                  name, remedy.data != NULL ? remedy.data : "", table.data != NULL ? table.data : "");
    mega_buffer_fini(&table);
    mega_buffer_fini(&remedy);
    return st;
}

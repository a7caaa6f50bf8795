/* Named outputs of a model (mega_output), which the caller reads after a forward pass. */
#include "engine_build.h"
#include "engine_calls.h"
#include "engine_losses.h"
#include "megalith/device_memory.h"
#include "megalith/memory.h"

void engine_outputs_note(engine_chunk *c, const mega_program *p, int slot)
{
    c->ran = p;
    c->ran_slot = slot;
}

/* Finds an output in the programs of this rank. Its value is that of the last forward, or NULL if there was none
 * yet. */
static bool outputs_find(const mega_engine *e, const char *name, mega_program_output *out)
{
    for (int c = 0; c < e->programs.chunks; c++) {
        const engine_chunk *chunk = &e->programs.chunk[c];
        const mega_program *any = chunk->train;
        for (engine_kind k = ENGINE_TRAIN; k < ENGINE_KINDS && any == NULL; k++) any = engine_program_of(chunk, k);
        if (mega_program_output_get(chunk->ran != NULL ? chunk->ran : any, name, chunk->ran_slot, out)) {
            if (chunk->ran == NULL) out->value = NULL;
            return true;
        }
    }
    return false;
}

int64_t mega_engine_output_count(const mega_engine *e, const char *output)
{
    mega_program_output o;
    if (engine_check_given(e, "mega_engine_output_count", "output", output) != MEGA_OK) return 0;
    return outputs_find(e, output, &o) ? o.count : 0;
}

static void outputs_widen(const void *from, mega_dtype dtype, int64_t count, float *out)
{
    if (dtype != MEGA_F64) mega_half_widen(out, from, count, dtype);
    for (int64_t i = 0; i < count && dtype == MEGA_F64; i++) out[i] = (float)((const double *)from)[i];
}

/* Reads the elements of an output from the device, by a window if they are not F32. */
static mega_status outputs_read(const mega_program_output *o, float *out)
{
    const int64_t size = (int64_t)mega_dtype_size(o->dtype);
    const int64_t most = o->count * size < MEGA_DEVICE_WINDOW ? o->count : MEGA_DEVICE_WINDOW / size;
    if (o->dtype == MEGA_F32) {
        mega_device_read(out, o->value, (size_t)(o->count * size));
        return MEGA_OK;
    }
    void *const window = mega_malloc((size_t)(most * size));
    if (window == NULL && most > 0) return MEGA_NO_MEMORY("outputs", "a window of an output");
    for (int64_t at = 0; at < o->count; at += most) {
        const int64_t n = o->count - at < most ? o->count - at : most;
        mega_device_read(window, (const char *)o->value + at * size, (size_t)(n * size));
        outputs_widen(window, o->dtype, n, out + at);
    }
    mega_free(window);
    return MEGA_OK;
}

mega_status mega_engine_read_output(mega_engine *e, const char *output, int64_t count, float *out)
{
    static const char call[] = "mega_engine_read_output";
    mega_program_output o;
    MEGA_TRY(engine_check_free(e, call)); /* a running call may be writing it */
    MEGA_TRY(engine_check_given(e, call, "output", output));
    MEGA_TRY(engine_check_given(e, call, "out", out));
    MEGA_TRY(engine_check_allocated(e, call));
    if (!outputs_find(e, output, &o))
        return MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                         "%s: this rank has no output \"%s\"; the layers of its pipeline stage declare outputs with "
                         "mega_output",
                         call, output);
    if (o.value == NULL)
        return MEGA_MISTAKE("%s: output \"%s\" is read before a forward; run a step or an evaluation first", call,
                            output);
    if (count != o.count)
        return MEGA_MISTAKE("%s: output \"%s\" has %lld elements, and count is %lld; give "
                            "mega_engine_output_count",
                            call, output, (long long)o.count, (long long)count);
    MEGA_TRY(outputs_read(&o, out));
    return mega_device_finish(e->memory.device); /* a device that failed gives NaNs */
}

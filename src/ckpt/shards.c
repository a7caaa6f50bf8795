/* Weights in several files, and the index that names the file of each tensor, as transformers writes them. */
#include "state_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t shard_bytes_of(const mega_state_tensor *t, mega_dtype file)
{
    mega_st_entry e;
    mega_state_tensor_entry(t, file, &e);
    int64_t bytes = mega_st_dtype_bits(e.dtype) / 8;
    for (int d = 0; d < e.num_dims; d++) bytes *= (int64_t)e.shape[d];
    return bytes;
}

mega_status mega_shards_make(const mega_state_tensor *t, int count, mega_dtype file, int64_t limit, mega_shards *out)
{
    mega_shards s = {.first = mega_calloc((size_t)count + 2, sizeof *s.first)};
    int64_t here = 0;
    if (s.first == NULL) return MEGA_NO_MEMORY("model.safetensors", "its parts");
    for (int i = 0; i < count; i++) {
        const bool goes_on = i > 0 && mega_state_is_shared(&t[i - 1], &t[i]);
        const int64_t bytes = goes_on ? 0 : shard_bytes_of(&t[i], file);
        if (limit > 0 && here > 0 && here + bytes > limit && !goes_on) {
            s.first[++s.count] = i;
            here = 0;
        }
        here += bytes;
        s.bytes += bytes;
    }
    s.first[++s.count] = count;
    s.name = mega_calloc((size_t)s.count, sizeof *s.name);
    if (s.name == NULL) {
        mega_shards_fini(&s);
        return MEGA_NO_MEMORY("model.safetensors", "the names of its parts");
    }
    for (int i = 0; i < s.count; i++) {
        if (s.count == 1) snprintf(s.name[i], sizeof s.name[i], "model.safetensors");
        else
            snprintf(s.name[i], sizeof s.name[i], "model-%05d-of-%05d.safetensors", i + 1, s.count);
    }
    *out = s;
    return MEGA_OK;
}

typedef struct indexed {
    const char *tensor, *file;
} indexed;

static int shard_by_tensor(const void *a, const void *b)
{
    return strcmp(((const indexed *)a)->tensor, ((const indexed *)b)->tensor);
}

mega_status mega_shards_index(const mega_shards *s, const mega_state_tensor *t, mega_buffer *out)
{
    const int count = s->first[s->count];
    indexed *list = mega_calloc((size_t)count + 1, sizeof *list);
    if (list == NULL) return MEGA_NO_MEMORY("model.safetensors.index.json", "its lines");
    for (int k = 0; k < s->count; k++)
        for (int i = s->first[k]; i < s->first[k + 1]; i++) list[i] = (indexed){t[i].name, s->name[k]};
    if (count > 1) qsort(list, (size_t)count, sizeof *list, shard_by_tensor);
    mega_buffer_printf(out, "{\n  \"metadata\": {\n    \"total_size\": %lld\n  },\n  \"weight_map\": {",
                       (long long)s->bytes);
    for (int i = 0; i < count; i++)
        if (i == 0 || strcmp(list[i].tensor, list[i - 1].tensor) != 0)
            mega_buffer_printf(out, "%s\n    \"%s\": \"%s\"", i > 0 ? "," : "", list[i].tensor, list[i].file);
    mega_buffer_puts(out, "\n  }\n}\n");
    mega_free(list);
    return mega_buffer_check(out, "model.safetensors.index.json");
}

void mega_shards_fini(mega_shards *s)
{
    MEGA_FREE(s->first, s->name);
    *s = (mega_shards){.count = 0};
}

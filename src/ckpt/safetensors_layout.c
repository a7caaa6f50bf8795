/* Computes the offsets of tensors in a file, and its header: the same bytes as the reference writer for the same
 * tensors and metadata. */
#include "megalith/file.h"
#include "safetensors_impl.h"

#include <stdlib.h>
#include <string.h>

static int by_layout(const void *a, const void *b, void *entries)
{
    const mega_st_entry *x = &((const mega_st_entry *)entries)[*(const int *)a];
    const mega_st_entry *y = &((const mega_st_entry *)entries)[*(const int *)b];
    return x->dtype != y->dtype ? (int)x->dtype - (int)y->dtype : strcmp(x->name, y->name);
}

static int layout_by_name(const void *a, const void *b, void *entries)
{
    const mega_st_entry *e = entries;
    return strcmp(e[*(const int *)a].name, e[*(const int *)b].name);
}

static int layout_by_key(const void *a, const void *b)
{
    return strcmp(((const mega_st_pair *)a)->key, ((const mega_st_pair *)b)->key);
}

/* Computes sizes, and the order in the file; refuses duplicate names, which could not be read back. */
static mega_status layout_arrange(st_layout *l, const mega_st_entry *entry, int count, const char *path)
{
    const char *fault = NULL;
    for (int i = 0; i < count; i++) {
        const mega_st_entry *e = &entry[i];
        l->order[i] = i;
        if (!mega_st_tensor_bytes(e->dtype, e->num_dims, e->shape, &l->bytes[i], &fault))
            return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: %s: the size of tensor %s is not a whole number of bytes", path,
                             fault, e->name);
    }
    /* qsort_r's context is not const, though the comparisons only read it. */
    void *entries = (void *)(uintptr_t)entry;
    if (count > 1) qsort_r(l->order, (size_t)count, sizeof *l->order, layout_by_name, entries);
    for (int i = 1; i < count; i++) {
        const char *name = entry[l->order[i]].name;
        if (strcmp(entry[l->order[i - 1]].name, name) == 0)
            return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: two tensors are named %s; names in a file are unique", path, name);
    }
    if (count > 1) qsort_r(l->order, (size_t)count, sizeof *l->order, by_layout, entries);
    return MEGA_OK;
}

static void put_metadata(mega_buffer *b, const mega_st_pair *pairs, int count)
{
    mega_buffer_puts(b, "\"__metadata__\":{");
    for (int i = 0; i < count; i++) {
        if (i > 0) mega_buffer_puts(b, ",");
        mega_buffer_json_string(b, pairs[i].key);
        mega_buffer_puts(b, ":");
        mega_buffer_json_string(b, pairs[i].value);
    }
    mega_buffer_puts(b, "}");
}

/* In the header, offsets count from the first byte of the data; the caller adds the header's size. */
static void put_tensors(st_layout *l, const mega_st_entry *entry, int count, mega_buffer *b, bool comma)
{
    for (int i = 0; i < count; i++) {
        const mega_st_entry *e = &entry[l->order[i]];
        if (comma || i > 0) mega_buffer_puts(b, ",");
        mega_buffer_json_string(b, e->name);
        mega_buffer_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", mega_st_dtype_name(e->dtype));
        for (int d = 0; d < e->num_dims; d++)
            mega_buffer_printf(b, "%s%llu", d > 0 ? "," : "", (unsigned long long)e->shape[d]);
        const uint64_t begin = l->total, end = begin + l->bytes[l->order[i]];
        mega_buffer_printf(b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin, (unsigned long long)end);
        l->offset[l->order[i]] = begin;
        l->total = end;
    }
}

static mega_status make_header(st_layout *l, const mega_st_entry *entry, int count, mega_st_pair *pairs, int num_pairs,
                               const char *path)
{
    mega_buffer *text = &l->header;
    if (num_pairs > 0) qsort(pairs, (size_t)num_pairs, sizeof *pairs, layout_by_key);
    mega_buffer_puts(text, "        {"); /* reserves 8 bytes for the length */
    if (num_pairs > 0) put_metadata(text, pairs, num_pairs);
    put_tensors(l, entry, count, text, num_pairs > 0);
    mega_buffer_puts(text, "}");
    while (text->size % 8 != 0 && mega_buffer_puts(text, " ")) continue;
    MEGA_TRY(mega_buffer_check(text, path));
    const uint64_t length = text->size - 8;
    if (length > ST_MAX_HEADER)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: HeaderTooLarge: a header of %llu bytes, at most %u are allowed", path,
                         (unsigned long long)length, ST_MAX_HEADER);
    for (int i = 0; i < 8; i++) text->data[i] = (char)(uint8_t)(length >> (8 * i));
    for (int i = 0; i < count; i++) l->offset[i] += text->size;
    l->total += text->size;
    return MEGA_OK;
}

mega_status st_layout_make(st_layout *out, const char *path, const mega_st_entry *entries, int count,
                           const mega_st_pair *metadata, int num_metadata)
{
    st_layout l = {0};
    const size_t n = (size_t)count + 1;
    mega_st_pair *pairs = mega_malloc((size_t)(num_metadata + 1) * sizeof *pairs);
    l.order = mega_malloc(n * sizeof *l.order);
    l.bytes = mega_malloc(n * sizeof *l.bytes);
    l.offset = mega_malloc(n * sizeof *l.offset);
    mega_status st = MEGA_OK;
    if (pairs == NULL || l.order == NULL || l.bytes == NULL || l.offset == NULL)
        st = MEGA_NO_MEMORY(path, "its header");
    if (st == MEGA_OK && num_metadata > 0) memcpy(pairs, metadata, (size_t)num_metadata * sizeof *pairs);
    if (st == MEGA_OK) st = layout_arrange(&l, entries, count, path);
    if (st == MEGA_OK) st = make_header(&l, entries, count, pairs, num_metadata, path);
    mega_free(pairs);
    if (st != MEGA_OK) {
        st_layout_fini(&l);
        return st;
    }
    *out = l;
    return MEGA_OK;
}

void st_layout_fini(st_layout *l)
{
    mega_buffer_fini(&l->header);
    MEGA_FREE(l->order, l->bytes, l->offset);
    *l = (st_layout){0};
}

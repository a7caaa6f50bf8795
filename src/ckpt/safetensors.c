/* Reads safetensors files: checks everything that the format requires, in the order of the reference. */
#include "megalith/safetensors.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/utf8.h"
#include "safetensors_impl.h"

#include <stdlib.h>
#include <string.h>

struct mega_safetensors {
    mega_map map;
    mega_arena arena;
    st_header header;
    size_t *by_name; /* indices of tensors, sorted by name */
};

static const struct {
    const char *name;
    int bits;
} types[MEGA_ST_DTYPE_COUNT] = {
    [MEGA_ST_U64] = {"U64", 64},
    [MEGA_ST_I64] = {"I64", 64},
    [MEGA_ST_F64] = {"F64", 64},
    [MEGA_ST_C64] = {"C64", 64},
    [MEGA_ST_F32] = {"F32", 32},
    [MEGA_ST_U32] = {"U32", 32},
    [MEGA_ST_I32] = {"I32", 32},
    [MEGA_ST_BF16] = {"BF16", 16},
    [MEGA_ST_F16] = {"F16", 16},
    [MEGA_ST_U16] = {"U16", 16},
    [MEGA_ST_I16] = {"I16", 16},
    [MEGA_ST_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8},
    [MEGA_ST_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8},
    [MEGA_ST_F8_E8M0] = {"F8_E8M0", 8},
    [MEGA_ST_F8_E4M3] = {"F8_E4M3", 8},
    [MEGA_ST_F8_E5M2] = {"F8_E5M2", 8},
    [MEGA_ST_I8] = {"I8", 8},
    [MEGA_ST_U8] = {"U8", 8},
    [MEGA_ST_F6_E3M2] = {"F6_E3M2", 6},
    [MEGA_ST_F6_E2M3] = {"F6_E2M3", 6},
    [MEGA_ST_F4] = {"F4", 4},
    [MEGA_ST_BOOL] = {"BOOL", 8},
};

/* Our types are the index; the format's other types have no equivalent here. */
static const mega_st_dtype ours[MEGA_DTYPE_COUNT] = {
    [MEGA_F32] = MEGA_ST_F32, [MEGA_BF16] = MEGA_ST_BF16, [MEGA_F64] = MEGA_ST_F64, [MEGA_F16] = MEGA_ST_F16,
    [MEGA_I32] = MEGA_ST_I32, [MEGA_I64] = MEGA_ST_I64,   [MEGA_U8] = MEGA_ST_U8,   [MEGA_U16] = MEGA_ST_U16,
    [MEGA_I8] = MEGA_ST_I8,   [MEGA_I16] = MEGA_ST_I16,
};

const char *mega_st_dtype_name(mega_st_dtype t)
{
    return types[t].name;
}

int mega_st_dtype_bits(mega_st_dtype t)
{
    return types[t].bits;
}

mega_st_dtype mega_st_dtype_from_mega(mega_dtype t)
{
    return ours[t];
}

bool mega_st_dtype_to_mega(mega_st_dtype t, mega_dtype *out)
{
    for (int i = 0; i < MEGA_DTYPE_COUNT; i++) {
        if (ours[i] != t) continue;
        *out = (mega_dtype)i;
        return true;
    }
    return false;
}

bool mega_st_tensor_bytes(mega_st_dtype dtype, int num_dims, const uint64_t *shape, uint64_t *out, const char **fault)
{
    uint64_t n = 1;
    bool fits = true;
    for (int i = 0; i < num_dims; i++) fits = fits && !__builtin_mul_overflow(n, shape[i], &n);
    fits = fits && !__builtin_mul_overflow(n, (uint64_t)types[dtype].bits, &n);
    *fault = !fits ? "ValidationOverflow" : "MisalignedSlice";
    if (!fits || n % 8 != 0) return false;
    *out = n / 8;
    return true;
}

static int by_offset(const void *a, const void *b)
{
    const mega_safetensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int tensors_by_name(const void *a, const void *b, void *tensors)
{
    const mega_safetensor *t = tensors;
    return strcmp(t[*(const size_t *)a].name, t[*(const size_t *)b].name);
}

/* Tensors must be contiguous without overlap or gap, and each as long as its shape requires. */
static mega_status check_tensors(const st_header *h, uint64_t data_bytes, const char *file)
{
    uint64_t at = 0;
    for (size_t i = 0; i < h->count; i++) {
        const mega_safetensor *t = &h->tensor[i];
        const char *fault = NULL;
        uint64_t bytes = 0;
        if (t->begin != at || t->end < t->begin)
            return MEGA_FAIL(
                MEGA_ERR_FORMAT,
                "%s: InvalidOffset(%s): its bytes are [%llu, %llu), expected a beginning at %llu, where the "
                "previous tensor ends",
                file, t->name, (unsigned long long)t->begin, (unsigned long long)t->end, (unsigned long long)at);
        if (!mega_st_tensor_bytes(t->dtype, t->num_dims, t->shape, &bytes, &fault))
            return MEGA_FAIL(MEGA_ERR_FORMAT,
                             "%s: %s: the size of tensor %s is not a whole number of bytes; the file is damaged", file,
                             fault, t->name);
        if (t->end - t->begin != bytes)
            return MEGA_FAIL(MEGA_ERR_FORMAT,
                             "%s: TensorInvalidInfo: tensor %s has %llu bytes, but its shape and type require %llu",
                             file, t->name, (unsigned long long)(t->end - t->begin), (unsigned long long)bytes);
        at = t->end;
    }
    if (at != data_bytes)
        return MEGA_FAIL(MEGA_ERR_FORMAT,
                         "%s: MetadataIncompleteBuffer: found %llu bytes of tensors, but the header requires %llu; %s "
                         "copy or save it again",
                         file, (unsigned long long)data_bytes, (unsigned long long)at,
                         data_bytes < at ? "is the file cut short?" : "the file is too long:");
    return MEGA_OK;
}

/* Sorts tensors by offset and builds the index by name. */
static mega_status index_tensors(mega_safetensors *s, const char *file)
{
    st_header *h = &s->header;
    if (h->count > 1) qsort(h->tensor, h->count, sizeof *h->tensor, by_offset);
    s->by_name = mega_malloc((h->count + 1) * sizeof *s->by_name);
    if (s->by_name == NULL) return MEGA_NO_MEMORY(file, "its header");
    for (size_t i = 0; i < h->count; i++) s->by_name[i] = i;
    if (h->count > 1) qsort_r(s->by_name, h->count, sizeof *s->by_name, tensors_by_name, h->tensor);
    for (size_t i = 1; i < h->count; i++) {
        const char *name = h->tensor[s->by_name[i]].name;
        if (strcmp(h->tensor[s->by_name[i - 1]].name, name) == 0)
            return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: InvalidHeaderDeserialization: tensor %s occurs twice", file, name);
    }
    return MEGA_OK;
}

static mega_status safetensors_read_header(mega_safetensors *s, const uint8_t *bytes, size_t size, const char *file)
{
    uint64_t n = 0;
    if (size < 8)
        return MEGA_FAIL(MEGA_ERR_FORMAT,
                         "%s: HeaderTooSmall: found %zu bytes, but a safetensors file has at least 8; is it cut short?",
                         file, size);
    for (int i = 7; i >= 0; i--) n = n << 8 | bytes[i];
    if (n > ST_MAX_HEADER)
        return MEGA_FAIL(
            MEGA_ERR_FORMAT,
            "%s: HeaderTooLarge: a header of %llu bytes, at most %u are allowed; this is not a safetensors file", file,
            (unsigned long long)n, ST_MAX_HEADER);
    if (n > size - 8)
        return MEGA_FAIL(MEGA_ERR_FORMAT,
                         "%s: InvalidHeaderLength: a header of %llu bytes in a file of %zu; is it cut short?", file,
                         (unsigned long long)n, size);
    if (mega_utf8_valid_bytes((const char *)bytes + 8, (size_t)n) < n)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: InvalidHeader: the header is not UTF-8; the file is damaged", file);
    MEGA_TRY(mega_st_header_parse(&s->header, &s->arena, (const char *)bytes + 8, (size_t)n, file));
    MEGA_TRY(index_tensors(s, file));
    MEGA_TRY(check_tensors(&s->header, size - 8 - n, file));
    for (size_t i = 0; i < s->header.count; i++) s->header.tensor[i].data = bytes + 8 + n + s->header.tensor[i].begin;
    return MEGA_OK;
}

static mega_status safetensors_make(mega_map map, const uint8_t *bytes, size_t size, const char *file,
                                    mega_safetensors **out)
{
    mega_safetensors *s = mega_calloc(1, sizeof *s);
    if (s == NULL) {
        mega_map_close(&map);
        return MEGA_NO_MEMORY(file, "a reader");
    }
    s->map = map;
    mega_status st = safetensors_read_header(s, bytes, size, file);
    if (st == MEGA_ERR_FORMAT) { /* a file of another kind is named */
        mega_error_record why;
        mega_error_get_of(st, &why);
        if (mega_file_kind_check(file, bytes, size, "a safetensors file", MEGA_KIND_BINARY | MEGA_KIND_TENSORS) ==
            MEGA_OK)
            st = mega_error_restore(&why);
    }
    if (st != MEGA_OK) {
        mega_safetensors_close(s);
        return st;
    }
    *out = s;
    return MEGA_OK;
}

mega_status mega_safetensors_open(const char *path, mega_safetensors **out)
{
    mega_map map = {0};
    MEGA_TRY(mega_map_open(path, &map));
    return safetensors_make(map, map.data, map.size, path, out);
}

mega_status mega_safetensors_parse(const void *bytes, size_t size, const char *name, mega_safetensors **out)
{
    return safetensors_make((mega_map){0}, bytes, size, name, out);
}

void mega_safetensors_close(mega_safetensors *s)
{
    if (s == NULL) return;
    mega_map_close(&s->map);
    mega_arena_fini(&s->arena);
    mega_st_header_fini(&s->header);
    MEGA_FREE(s->by_name, s);
}

size_t mega_safetensors_count(const mega_safetensors *s)
{
    return s->header.count;
}

const mega_safetensor *mega_safetensors_get(const mega_safetensors *s, size_t index)
{
    return &s->header.tensor[index];
}

const mega_safetensor *mega_safetensors_find(const mega_safetensors *s, const char *name)
{
    size_t low = 0, high = s->header.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const mega_safetensor *t = &s->header.tensor[s->by_name[middle]];
        const int order = strcmp(name, t->name);
        if (order == 0) return t;
        if (order < 0) high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *mega_safetensors_metadata(const mega_safetensors *s, const char *key)
{
    for (size_t i = 0; i < s->header.num_pairs; i++) {
        if (strcmp(s->header.pair[i].key, key) == 0) return s->header.pair[i].value;
    }
    return NULL;
}

/* state/checksums.json: lists the files of a checkpoint with their sizes and checksums. It is written last and contains
 * a checksum of itself, so a checkpoint that matches it is complete. */
#include "ckpt_impl.h"

#include "megalith/file_kind.h"
#include "megalith/json.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define SMALL ((size_t)1 << 20)
#define SELF  ",\n\"checksum\": \"" /* the checksum covers everything before this text */

mega_status mega_checksums_add(mega_checksums *c, const char *name, int64_t bytes, uint32_t crc)
{
    if (!mega_array_reserve(&c->file, &c->capacity, (int64_t)c->count + 1, sizeof *c->file))
        return MEGA_NO_MEMORY(name, "its checksum");
    char *copy = mega_strdup(name);
    if (copy == NULL) return MEGA_NO_MEMORY(name, "its checksum");
    c->file[c->count++] = (mega_checksum){copy, bytes, crc};
    return MEGA_OK;
}

mega_checksum *mega_checksums_find(const mega_checksums *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(c->file[i].name, name) == 0) return &c->file[i];
    }
    return NULL;
}

mega_status mega_checksums_text(mega_buffer *out, const mega_checksums *c)
{
    mega_buffer_printf(out, "{\n\"format\": 1,\n\"iteration\": %" PRId64 ",\n\"files\": {", c->iteration);
    for (size_t i = 0; i < c->count; i++) {
        mega_buffer_puts(out, i > 0 ? ",\n  " : "\n  ");
        mega_buffer_json_string(out, c->file[i].name);
        mega_buffer_printf(out, ": {\"bytes\": %" PRId64 ", \"crc32c\": \"%08" PRIx32 "\"}", c->file[i].bytes,
                           c->file[i].crc);
    }
    mega_buffer_puts(out, "\n}");
    if (!out->failed) mega_buffer_printf(out, SELF "%08" PRIx32 "\"\n}\n", mega_crc32c(0, out->data, out->size));
    return mega_buffer_check(out, MEGA_CHECKSUMS_FILE);
}

/* Checks that the file ends with its own checksum, in the form that mega_checksums_text writes. */
static bool sum_is_right(const char *text, size_t size)
{
    char expected[sizeof SELF + 16];
    const size_t tail = (sizeof SELF - 1) + 8 + 4; /* after the marker: 8 digits, quote, newline, brace, newline */
    if (size < tail) return false;
    snprintf(expected, sizeof expected, SELF "%08" PRIx32 "\"\n}\n", mega_crc32c(0, text, size - tail));
    return memcmp(text + size - tail, expected, tail) == 0;
}

static mega_status take_files(mega_checksums *c, const json_t *files, const char *path)
{
    for (void *it = json_object_iter((json_t *)(uintptr_t)files); it != NULL;
         it = json_object_iter_next((json_t *)(uintptr_t)files, it)) {
        const json_t *bytes = json_object_get(json_object_iter_value(it), "bytes");
        const char *crc = json_string_value(json_object_get(json_object_iter_value(it), "crc32c"));
        uint32_t sum = 0;
        if (!json_is_integer(bytes) || crc == NULL || sscanf(crc, "%8" SCNx32, &sum) != 1)
            return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: file %s has no \"bytes\" and \"crc32c\"", path,
                             json_object_iter_key(it));
        MEGA_TRY(mega_checksums_add(c, json_object_iter_key(it), (int64_t)json_integer_value(bytes), sum));
    }
    return MEGA_OK;
}

static mega_status checksums_parse(mega_checksums *c, const char *text, size_t size, const char *path)
{
    if (!sum_is_right(text, size))
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: damaged: its own checksum does not match its %zu bytes", path, size);
    json_error_t error;
    json_t *json = mega_json_load(text, size, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL) return MEGA_FAIL(mega_json_status(&error), "%s: line %d: %s", path, error.line, error.text);
    const json_t *format = json_object_get(json, "format"), *iteration = json_object_get(json, "iteration");
    const json_t *files = json_object_get(json, "files");
    mega_status st = MEGA_OK;
    if (!json_is_integer(format) || json_integer_value(format) != 1)
        st = MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                       "%s: written by a later version of megalith, expected format 1; use that version", path);
    else if (!json_is_integer(iteration) || json_integer_value(iteration) < 0 || !json_is_object(files))
        st = MEGA_FAIL(MEGA_ERR_FORMAT, "%s: expected \"iteration\" and \"files\"", path);
    if (st == MEGA_OK) {
        c->iteration = (int64_t)json_integer_value(iteration);
        st = take_files(c, files, path);
    }
    json_decref(json);
    return st;
}

mega_status mega_checksums_read(const char *folder, mega_checksums *out)
{
    char *path = mega_path_join(folder, MEGA_CHECKSUMS_FILE), *text = NULL;
    if (path == NULL) return MEGA_NO_MEMORY(folder, "a path");
    size_t size = 0;
    mega_checksums c = {0};
    mega_status st = mega_file_read_kind(path, "checksums of a checkpoint", 0, &text, &size);
    if (st == MEGA_OK) st = checksums_parse(&c, text, size, path);
    MEGA_FREE(text, path);
    if (st != MEGA_OK) {
        mega_checksums_fini(&c);
        return st;
    }
    *out = c;
    return MEGA_OK;
}

/* Users edit the model card, and nothing is read from it. */
static bool may_differ(const char *name)
{
    return strcmp(name, "README.md") == 0;
}

static void say_changed(mega_buffer *out, const mega_checksum *f, uint32_t crc)
{
    mega_buffer_printf(out, "%s: its bytes have changed: checksum %08" PRIx32 ", expected %08" PRIx32, f->name, crc,
                       f->crc);
}

uint64_t mega_checksums_hash(const mega_checksums *c)
{
    uint64_t hash = MEGA_HASH_START;
    for (size_t i = 0; i < c->count; i++) {
        const mega_checksum *f = &c->file[i];
        if (!may_differ(f->name))
            hash = mega_hash64(mega_hash64(hash, f->name, strlen(f->name)), &f->crc, sizeof f->crc);
    }
    return hash;
}

/* Appends a line to `wrong` if the file differs. */
static mega_status verify_file(const mega_checksum *f, const char *folder, mega_sums sums, mega_team *team,
                               mega_buffer *wrong, int *count)
{
    char *path = mega_path_join(folder, f->name);
    if (path == NULL) return MEGA_NO_MEMORY(folder, "a path");
    mega_map map = {0};
    mega_buffer said = {0};
    mega_status st = mega_map_open(path, &map);
    mega_free(path);
    if (st == MEGA_ERR_NOT_FOUND) {
        mega_buffer_printf(&said, "%s: missing, expected %" PRId64 " bytes", f->name, f->bytes);
    } else if (st != MEGA_OK) {
        return st;
    } else if ((int64_t)map.size != f->bytes) {
        const char *pointer = mega_file_pointer(map.data, map.size);
        mega_buffer_printf(&said, "%s: %zu bytes, expected %" PRId64 "%s%s%s", f->name, map.size, f->bytes,
                           pointer != NULL ? "; it is " : "", pointer != NULL ? pointer : "",
                           pointer != NULL ? ": git lfs pull (git annex get) fetches the file" : "");
    } else if (sums == MEGA_SUMS_ALL || (sums == MEGA_SUMS_SMALL && map.size < SMALL)) {
        uint32_t crc = f->crc;
        st = mega_sum_of(&map, 0, map.size, team, &crc);
        if (st == MEGA_OK && crc != f->crc) say_changed(&said, f, crc);
    }
    mega_map_close(&map);
    const bool is_over = st == MEGA_ERR_MEMORY || st == MEGA_ERR_INTERRUPTED;
    const mega_status enough = is_over ? st : mega_buffer_check(&said, folder);
    if (said.size > 0 && may_differ(f->name)) {
        mega_warn("checkpoint %s: %s; the file is not used", folder, said.data);
    } else if (said.size > 0) {
        mega_buffer_printf(wrong, "\n  %s", said.data);
        ++*count;
    }
    mega_buffer_fini(&said);
    return enough;
}

/* Turns the collected lines into one error. */
static mega_status checksums_conclude(const mega_checksums *c, const char *folder, mega_buffer *wrong, int count,
                                      mega_status st)
{
    if (st == MEGA_OK) st = mega_buffer_check(wrong, folder);
    if (st == MEGA_OK && count > 0)
        st =
            MEGA_FAIL(MEGA_ERR_FORMAT,
                      "checkpoint %s: %d of its %zu files %s damaged; copy the checkpoint again, or use another one:%s",
                      folder, count, c->count, count == 1 ? "is" : "are", wrong->data);
    mega_buffer_fini(wrong);
    return st;
}

mega_status mega_checksums_verify(const mega_checksums *c, const char *folder, mega_sums sums, mega_team *team)
{
    mega_buffer wrong = {0};
    int count = 0;
    mega_status st = MEGA_OK;
    for (size_t i = 0; i < c->count && st == MEGA_OK; i++)
        st = verify_file(&c->file[i], folder, sums, team, &wrong, &count);
    return checksums_conclude(c, folder, &wrong, count, st);
}

mega_status mega_checksums_conclude(const mega_checksums *c, const char *folder, const uint32_t *part)
{
    mega_buffer wrong = {0};
    int count = 0;
    for (size_t i = 0; i < c->count; i++) {
        const mega_checksum *f = &c->file[i];
        const uint32_t crc = mega_crc32c_zeros((uint64_t)f->bytes) ^ part[i];
        if (crc == f->crc || may_differ(f->name)) continue;
        mega_buffer_puts(&wrong, "\n  ");
        say_changed(&wrong, f, crc);
        count++;
    }
    return checksums_conclude(c, folder, &wrong, count, MEGA_OK);
}

void mega_checksums_fini(mega_checksums *c)
{
    for (size_t i = 0; i < c->count; i++) mega_free(c->file[i].name);
    mega_free(c->file);
    *c = (mega_checksums){0};
}

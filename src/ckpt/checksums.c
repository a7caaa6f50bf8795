/* state/checksums.json: which files make a checkpoint, their sizes and contents. It is written last and carries a
 * checksum of itself, so a checkpoint that matches it is whole. */
#include "ckpt_impl.h"

#include "megalith/json.h"
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define SELF ",\n\"checksum\": \"" /* what stands before it is summed */

mega_status mega_checksums_add(mega_checksums *c, const char *name, int64_t bytes, uint32_t crc)
{
    if (c->count == c->capacity) {
        const size_t more = c->capacity == 0 ? 16 : 2 * c->capacity;
        mega_checksum *grown = mega_realloc(c->file, more * sizeof *grown);
        if (grown == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory for its checksum", name);
        c->file = grown;
        c->capacity = more;
    }
    char *copy = mega_strdup(name);
    if (copy == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory for its checksum", name);
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

/* The file ends in its own checksum, written as mega_checksums_text writes it. */
static bool sum_is_right(const char *text, size_t size)
{
    char expected[sizeof SELF + 16];
    const size_t tail = (sizeof SELF - 1) + 8 + 4; /* digits, then quote, newline, brace, newline */
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

static mega_status parse(mega_checksums *c, const char *text, size_t size, const char *path)
{
    if (!sum_is_right(text, size))
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: damaged: its own checksum does not fit its %zu bytes", path, size);
    json_error_t error;
    json_t *json = mega_json_load(text, size, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL) return MEGA_FAIL(mega_json_status(&error), "%s: line %d: %s", path, error.line, error.text);
    const json_t *format = json_object_get(json, "format"), *iteration = json_object_get(json, "iteration");
    const json_t *files = json_object_get(json, "files");
    mega_status st = MEGA_OK;
    if (!json_is_integer(format) || json_integer_value(format) != 1)
        st = MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "%s: written by a later megalith, expected format 1; use that version",
                       path);
    else if (!json_is_integer(iteration) || json_integer_value(iteration) < 0 || !json_is_object(files))
        st = MEGA_FAIL(MEGA_ERR_FORMAT, "%s: \"iteration\" and \"files\" are expected", path);
    if (st == MEGA_OK) {
        c->iteration = (int64_t)json_integer_value(iteration);
        st = take_files(c, files, path);
    }
    json_decref(json);
    return st;
}

mega_status mega_checksums_read(mega_checksums *out, const char *folder)
{
    char *path = mega_path_join(folder, MEGA_CHECKSUMS_FILE), *text = NULL;
    if (path == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory for a path", folder);
    size_t size = 0;
    mega_checksums c = {0};
    mega_status st = mega_file_read(&text, &size, path);
    if (st == MEGA_OK) st = parse(&c, text, size, path);
    mega_free(text);
    mega_free(path);
    if (st != MEGA_OK) {
        mega_checksums_fini(&c);
        return st;
    }
    *out = c;
    return MEGA_OK;
}

/* The model card is the one file that people edit; nothing is read from it. */
static bool may_differ(const char *name)
{
    return strcmp(name, "README.md") == 0;
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

#define PIECE ((size_t)8 << 20)

typedef struct sum_job {
    const mega_map *map;
    uint32_t *sum; /* of each piece */
    size_t count, next;
    pthread_mutex_t disk; /* and `next`: who holds it reads the next piece */
} sum_job;

static size_t piece_bytes(const mega_map *map, size_t i)
{
    const size_t left = map->size - i * PIECE;
    return left < PIECE ? left : PIECE;
}

/* The next piece, read from the disk; false: there is none. */
static bool take_piece(sum_job *job, size_t *i)
{
    pthread_mutex_lock(&job->disk);
    *i = job->next;
    if (*i < job->count) {
        mega_map_fetch(job->map, *i * PIECE, piece_bytes(job->map, *i));
        job->next++;
    }
    pthread_mutex_unlock(&job->disk);
    return *i < job->count;
}

static void sum_some(void *user, int thread, int size)
{
    sum_job *job = user;
    (void)thread;
    (void)size;
    for (size_t i; take_piece(job, &i);)
        job->sum[i] = mega_crc32c(0, job->map->data + i * PIECE, piece_bytes(job->map, i));
}

/* One thread reads, in order, while the others sum: two that read at a time are slower than one, as the system reads
 * ahead of each and half of it in vain. */
static mega_status sum_of(const mega_map *map, mega_team *team, uint32_t *out)
{
    sum_job job = {.map = map, .count = (map->size + PIECE - 1) / PIECE};
    if (job.count <= 1) {
        *out = mega_crc32c(0, map->data, map->size);
        return MEGA_OK;
    }
    job.sum = mega_malloc(job.count * sizeof *job.sum);
    if (job.sum == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for checksums of %zu pieces", job.count);
    pthread_mutex_init(&job.disk, NULL);
    mega_team_run(team, sum_some, &job);
    pthread_mutex_destroy(&job.disk);
    *out = job.sum[0];
    for (size_t i = 1; i < job.count; i++) *out = mega_crc32c_join(*out, job.sum[i], piece_bytes(map, i));
    mega_free(job.sum);
    return MEGA_OK;
}

/* One line in `wrong` when the file differs. */
static mega_status verify_file(const mega_checksum *f, const char *folder, bool content, mega_team *team,
                               mega_buffer *wrong, int *count)
{
    char *path = mega_path_join(folder, f->name);
    if (path == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory for a path", folder);
    mega_map map = {0};
    mega_buffer said = {0};
    mega_status st = mega_map_open(&map, path);
    mega_free(path);
    if (st == MEGA_ERR_NOT_FOUND) {
        mega_buffer_printf(&said, "%s: missing, expected %" PRId64 " bytes", f->name, f->bytes);
    } else if (st != MEGA_OK) {
        return st;
    } else if ((int64_t)map.size != f->bytes) {
        mega_buffer_printf(&said, "%s: %zu bytes, expected %" PRId64, f->name, map.size, f->bytes);
    } else if (content) {
        uint32_t crc = f->crc;
        st = sum_of(&map, team, &crc);
        if (crc != f->crc)
            mega_buffer_printf(&said, "%s: its bytes have changed: checksum %08" PRIx32 ", expected %08" PRIx32,
                               f->name, crc, f->crc);
    }
    mega_map_close(&map);
    const mega_status enough = st == MEGA_ERR_MEMORY ? st : mega_buffer_check(&said, folder);
    if (said.size > 0 && may_differ(f->name)) {
        mega_warn("checkpoint %s: %s; nothing is read from it", folder, said.data);
    } else if (said.size > 0) {
        mega_buffer_printf(wrong, "\n  %s", said.data);
        ++*count;
    }
    mega_buffer_fini(&said);
    return enough;
}

mega_status mega_checksums_verify(const mega_checksums *c, const char *folder, bool content, mega_team *team)
{
    mega_buffer wrong = {0};
    int count = 0;
    mega_status st = MEGA_OK;
    for (size_t i = 0; i < c->count && st == MEGA_OK; i++)
        st = verify_file(&c->file[i], folder, content, team, &wrong, &count);
    if (st == MEGA_OK) st = mega_buffer_check(&wrong, folder);
    if (st == MEGA_OK && count > 0)
        st = MEGA_FAIL(MEGA_ERR_FORMAT,
                       "checkpoint %s: %d of its %zu files %s damaged; copy it again, or take another one:%s", folder,
                       count, c->count, count == 1 ? "is" : "are", wrong.data);
    mega_buffer_fini(&wrong);
    return st;
}

void mega_checksums_fini(mega_checksums *c)
{
    for (size_t i = 0; i < c->count; i++) mega_free(c->file[i].name);
    mega_free(c->file);
    *c = (mega_checksums){0};
}

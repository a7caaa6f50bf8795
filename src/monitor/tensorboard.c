/* Writes TensorBoard event files: TFRecord frames around protocol buffer messages (proto.c). */
#include "megalith/tensorboard.h"
#include "megalith/file.h"
#include "megalith/hash.h"
#include "megalith/json.h"
#include "megalith/memory.h"
#include "megalith/process.h"
#include "proto.h"
#include <jansson.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_BYTES ((size_t)64 << 10)

struct mega_tensorboard {
    mega_outbox *box;
    int64_t first, last;               /* iterations that the records belong to */
    mega_buffer records;               /* whole records that are not written yet */
    mega_buffer event, summary, entry; /* messages under construction; kept, so that a step allocates nothing */
};

/* Event { 1 wall_time, 2 step } */
static void begin_event(mega_buffer *b, double wall_time, int64_t step)
{
    proto_put_double(b, 1, wall_time);
    proto_put_int(b, 2, (uint64_t)step);
}

static uint32_t masked_crc(const void *bytes, size_t n)
{
    const uint32_t crc = mega_crc32c(0, bytes, n);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

/* Appends one record: length, its checksum, the event, its checksum. Returns false without memory, and then appends
 * nothing, because half a record would hide all that follow. */
static bool put_record(mega_buffer *out, const mega_buffer *event)
{
    uint8_t length[8];
    const size_t before = out->size;
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)event->size >> (8 * i));
    mega_buffer_append(out, length, sizeof length);
    proto_put_fixed(out, masked_crc(length, sizeof length), 4);
    mega_buffer_append(out, event->data, event->size);
    proto_put_fixed(out, masked_crc(event->data, event->size), 4);
    const bool failed = out->failed || event->failed;
    if (failed) out->size = before;
    out->failed = false;
    return !failed;
}

static mega_status event_add_record(mega_tensorboard *t, const mega_buffer *event)
{
    if (!put_record(&t->records, event)) return MEGA_NO_MEMORY(mega_outbox_path(t->box), "a record");
    return t->records.size >= FLUSH_BYTES ? mega_tensorboard_flush(t) : MEGA_OK;
}

double mega_tensorboard_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Creates the outbox with the record that every event file begins with. */
static mega_status make_box(mega_tensorboard *t, const char *path, double wall_time)
{
    static const char version[] = "brain.Event:2";
    mega_buffer event = {0}, head = {0};
    proto_put_double(&event, 1, wall_time);
    proto_put_bytes(&event, 3, version, sizeof version - 1);
    const mega_status st = put_record(&head, &event) ? mega_outbox_create(path, head.data, head.size, &t->box)
                                                     : MEGA_NO_MEMORY(path, "a record");
    mega_buffer_fini(&event);
    mega_buffer_fini(&head);
    return st;
}

/* Returns a file name that does not exist in the folder: two runs of one process in one second differ in the last
 * number. */
static char *new_path(const char *folder, double wall_time)
{
    char host[MEGA_HOST_BYTES];
    mega_host_name(host);
    for (int n = 0;; n++) {
        char *path = mega_format("%s/events.out.tfevents.%010lld.%s.%ld.%d", folder, (long long)wall_time, host,
                                 (long)getpid(), n);
        if (path == NULL || !mega_file_exists(path)) return path;
        mega_free(path);
    }
}

static void free_board(mega_tensorboard *t)
{
    mega_outbox_close(t->box);
    mega_buffer_fini(&t->records);
    mega_buffer_fini(&t->event);
    mega_buffer_fini(&t->summary);
    mega_buffer_fini(&t->entry);
    mega_free(t);
}

mega_status mega_tensorboard_open(const char *folder, double wall_time, mega_tensorboard **out)
{
    MEGA_TRY(mega_folder_create(folder));
    mega_tensorboard *t = mega_calloc(1, sizeof *t);
    char *path = t != NULL ? new_path(folder, wall_time) : NULL;
    mega_status st = MEGA_OK;
    if (path == NULL) st = MEGA_NO_MEMORY(folder, "an event writer");
    if (st == MEGA_OK) st = make_box(t, path, wall_time);
    if (st == MEGA_OK) mega_buffer_reserve(&t->records, 2 * FLUSH_BYTES);
    if (st == MEGA_OK) (void)mega_outbox_flush(t->box); /* creates the file; a failure is retried later */
    mega_free(path);
    if (st == MEGA_OK) *out = t;
    else if (t != NULL)
        free_board(t);
    return st;
}

void mega_tensorboard_iteration(mega_tensorboard *t, int64_t iteration)
{
    if (t->records.size == 0) t->first = iteration;
    t->last = iteration;
}

/* Event { 5 summary { 1 value { 1 tag, 2 simple_value } } } */
mega_status mega_tensorboard_scalar(mega_tensorboard *t, const char *tag, int64_t step, double value, double wall_time)
{
    t->event.size = t->summary.size = t->entry.size = 0;
    t->event.failed = t->summary.failed = t->entry.failed = false;
    proto_put_bytes(&t->entry, 1, tag, strlen(tag));
    proto_put_float(&t->entry, 2, (float)value);
    proto_put_message(&t->summary, 1, &t->entry);
    begin_event(&t->event, wall_time, step);
    proto_put_message(&t->event, 5, &t->summary);
    return event_add_record(t, &t->event);
}

/* Event { 5 summary { 1 value { 1 tag, 9 metadata { 1 plugin_data { 1 "text" } },
 *                               8 tensor { 1 DT_STRING, 2 shape { 2 dim { 1 size 1 } }, 8 string_val } } } } */
mega_status mega_tensorboard_text(mega_tensorboard *t, const char *tag, const char *text, int64_t step,
                                  double wall_time)
{
    mega_buffer event = {0}, entry = {0}, tensor = {0}, a = {0}, b = {0};
    char *full = mega_format("%s/text_summary", tag);
    if (full == NULL) return MEGA_NO_MEMORY(mega_outbox_path(t->box), "a record");
    proto_put_bytes(&a, 1, "text", 4);
    proto_put_message(&b, 1, &a); /* metadata */
    proto_put_bytes(&entry, 1, full, strlen(full));
    proto_put_message(&entry, 9, &b);
    proto_put_int(&a, 1, 1);
    proto_put_message(&b, 2, &a); /* shape */
    proto_put_int(&tensor, 1, 7);
    proto_put_message(&tensor, 2, &b);
    proto_put_bytes(&tensor, 8, text, strlen(text));
    proto_put_message(&entry, 8, &tensor);
    proto_put_message(&a, 1, &entry); /* summary */
    begin_event(&event, wall_time, step);
    proto_put_message(&event, 5, &a);
    const mega_status st = event_add_record(t, &event);
    mega_free(full);
    mega_buffer_fini(&a);
    mega_buffer_fini(&b);
    mega_buffer_fini(&tensor);
    mega_buffer_fini(&entry);
    mega_buffer_fini(&event);
    return st;
}

/* google.protobuf.Value { 2 number, 3 string, 4 bool } */
static void tensorboard_put_value(mega_buffer *b, const json_t *value)
{
    if (json_is_number(value)) proto_put_double(b, 2, json_number_value(value));
    else if (json_is_boolean(value))
        proto_put_int(b, 4, json_is_true(value));
    else if (json_is_string(value))
        proto_put_text(b, 3, json_string_value(value));
    else {
        char *text = mega_json_dump(value, JSON_ENCODE_ANY);
        b->failed = b->failed || text == NULL;
        if (text != NULL) proto_put_text(b, 3, text);
        free(text);
    }
}

/* HParamsPluginData { 3 session_start_info { 1 hparams { 1 key, 2 value }…, 5 start_time_secs } }. TensorBoard derives
 * the list of columns from it. */
static void put_hyperparameters(mega_buffer *out, json_t *config, double wall_time)
{
    mega_buffer start = {0}, entry = {0}, value = {0};
    const char *key;
    json_t *of;
    json_object_foreach(config, key, of)
    {
        if (json_is_null(of)) continue;
        tensorboard_put_value(&value, of);
        proto_put_text(&entry, 1, key);
        proto_put_message(&entry, 2, &value);
        proto_put_message(&start, 1, &entry);
    }
    proto_put_double(&start, 5, wall_time);
    proto_put_message(out, 3, &start);
    mega_buffer_fini(&start);
    mega_buffer_fini(&entry);
    mega_buffer_fini(&value);
}

/* Event { 5 summary { 1 value { 1 tag, 9 metadata { 1 plugin_data { 1 "hparams", 2 content } },
 *                               8 tensor { 1 DT_FLOAT, 2 shape { 2 dim { 1 size 1 } }, 5 float_val } } } }
 * The tensor means nothing, but readers expect one. */
mega_status mega_tensorboard_hyperparameters(mega_tensorboard *t, json_t *config, double wall_time)
{
    static const char tag[] = "_hparams_/session_start_info";
    static const uint8_t zero[4] = {0};
    mega_buffer event = {0}, entry = {0}, tensor = {0}, a = {0}, b = {0};
    put_hyperparameters(&b, config, wall_time);
    proto_put_text(&a, 1, "hparams");
    proto_put_message(&a, 2, &b);
    proto_put_message(&b, 1, &a); /* metadata */
    proto_put_text(&entry, 1, tag);
    proto_put_message(&entry, 9, &b);
    proto_put_int(&a, 1, 1);
    proto_put_message(&b, 2, &a); /* shape */
    proto_put_int(&tensor, 1, 1);
    proto_put_message(&tensor, 2, &b);
    proto_put_bytes(&tensor, 5, zero, sizeof zero);
    proto_put_message(&entry, 8, &tensor);
    proto_put_message(&a, 1, &entry); /* summary */
    begin_event(&event, wall_time, 0);
    proto_put_message(&event, 5, &a);
    const mega_status st = event_add_record(t, &event);
    mega_buffer_fini(&a);
    mega_buffer_fini(&b);
    mega_buffer_fini(&tensor);
    mega_buffer_fini(&entry);
    mega_buffer_fini(&event);
    return st;
}

mega_status mega_tensorboard_flush(mega_tensorboard *t)
{
    const mega_status st = mega_outbox_put(t->box, t->first, t->last, t->records.data, t->records.size);
    t->records.size = 0;
    t->first = t->last;
    MEGA_TRY(st);
    return mega_outbox_flush(t->box);
}

const char *mega_tensorboard_path(const mega_tensorboard *t)
{
    return mega_outbox_path(t->box);
}

mega_missing mega_tensorboard_missing(const mega_tensorboard *t)
{
    return mega_outbox_missing(t->box);
}

mega_status mega_tensorboard_close(mega_tensorboard *t, mega_missing *missing)
{
    *missing = (mega_missing){0};
    if (t == NULL) return MEGA_OK;
    const mega_status st = mega_tensorboard_flush(t);
    *missing = mega_outbox_missing(t->box);
    free_board(t);
    return st;
}

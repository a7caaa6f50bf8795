/* files/ of a wandb run: config.yaml, wandb-metadata.json, wandb-summary.json. */
#include "wandb_files.h"
#include "megalith/json.h"
#include "megalith/threads.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

void wandb_machine_get(wandb_machine *out)
{
    struct utsname u;
    *out = (wandb_machine){.cores = mega_cpu_affinity()};
    mega_host_name(out->host);
    if (uname(&u) == 0) snprintf(out->os, sizeof out->os, "%.60s-%.60s-%.30s", u.sysname, u.release, u.machine);
}

static mega_status write_file(const mega_wandb *w, const char *name, const mega_buffer *text)
{
    MEGA_TRY(mega_buffer_check(text, name));
    char *path = mega_format("%s/files/%s", w->folder, name);
    if (path == NULL) return MEGA_NO_MEMORY(w->folder, "the path of a file");
    const mega_status st = mega_file_write_atomic(path, text->data, text->size);
    mega_free(path);
    return st;
}

/* YAML 1.1 reads a number with an exponent as a text unless it also has a point. */
static void put_yaml_number(mega_buffer *b, double x)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
    const size_t mantissa = strcspn(text, "e");
    const bool has_point = memchr(text, '.', mantissa) != NULL || !isfinite(x);
    mega_buffer_append(b, text, mantissa);
    mega_buffer_printf(b, "%s%s", has_point ? "" : ".0", text + mantissa);
}

/* A JSON value is YAML too. */
static void put_yaml_value(mega_buffer *b, const json_t *value)
{
    if (json_is_real(value)) {
        put_yaml_number(b, json_real_value(value));
        return;
    }
    char *text = mega_json_dump(value, JSON_ENCODE_ANY);
    b->failed = b->failed || text == NULL;
    if (text != NULL) mega_buffer_puts(b, text);
    free(text);
}

mega_status wandb_write_config(const mega_wandb *w, json_t *config)
{
    char build[MEGA_BUILD_ID_TEXT];
    mega_buffer b = {0};
    const char *key;
    json_t *value;
    mega_build_id(build);
    mega_buffer_puts(&b, "_wandb:\n    value:\n        writer: ");
    mega_buffer_json_string(&b, build);
    mega_buffer_puts(&b, "\n");
    json_object_foreach(config, key, value)
    {
        mega_buffer_json_string(&b, key);
        mega_buffer_puts(&b, ":\n    value: ");
        put_yaml_value(&b, value);
        mega_buffer_puts(&b, "\n");
    }
    const mega_status st = write_file(w, "config.yaml", &b);
    mega_buffer_fini(&b);
    return st;
}

mega_status wandb_write_metadata(const mega_wandb *w)
{
    wandb_machine m;
    char when[32];
    const time_t seconds = (time_t)w->began;
    struct tm utc;
    mega_buffer b = {0};
    wandb_machine_get(&m);
    gmtime_r(&seconds, &utc);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
    mega_buffer_puts(&b, "{\n  \"os\": ");
    mega_buffer_json_string(&b, m.os);
    mega_buffer_printf(&b, ",\n  \"startedAt\": \"%s.%06dZ\",\n  \"program\": \"megalith\",\n  \"host\": ", when,
                       (int)((w->began - (double)seconds) * 1e6));
    mega_buffer_json_string(&b, m.host);
    mega_buffer_printf(&b, ",\n  \"cpu_count\": %d\n}\n", m.cores);
    const mega_status st = write_file(w, "wandb-metadata.json", &b);
    mega_buffer_fini(&b);
    return st;
}

mega_status wandb_write_summary(const mega_wandb *w, double now)
{
    mega_buffer b = {0};
    mega_buffer_puts(&b, "{");
    for (int i = 0; i < w->keys; i++) {
        mega_buffer_json_string(&b, w->key[i].name);
        mega_buffer_puts(&b, ": ");
        mega_buffer_json_double(&b, w->key[i].value);
        mega_buffer_puts(&b, ", ");
    }
    mega_buffer_printf(&b,
                       "\"_step\": %lld, \"_timestamp\": %.6f, \"_runtime\": %.6f, \"_wandb\": {\"runtime\": %lld}}\n",
                       (long long)w->step, w->at, w->at - w->began, (long long)(now - w->began));
    const mega_status st = write_file(w, "wandb-summary.json", &b);
    mega_buffer_fini(&b);
    return st;
}

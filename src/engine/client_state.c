/* Checkpoints of a C program: the caller's own state in addition to that of the run. The JSON object is the member
 * "client_state" of state/run.json; arrays are in state/client.safetensors. */
#include "engine_calls.h"
#include "engine_data.h"
#include "engine_state.h"
#include "engine_step.h"
#include "megalith/device_memory.h"
#include "megalith/extent.h"
#include "megalith/file.h"
#include "megalith/hash.h"
#include "megalith/json.h"
#include "megalith/run_json.h"
#include "megalith/safetensors.h"
#include "megalith/utf8.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLIENT_MEMBER "client_state"

/* The caller's state from the last load. */
struct engine_client {
    mega_arena arena;
    mega_client_state state;
};

void engine_client_free(mega_engine *e)
{
    if (e->saving.client == NULL) return;
    mega_arena_fini(&e->saving.client->arena);
    mega_free(e->saving.client);
    e->saving.client = NULL;
}

/* ---- saving ---- */

static mega_status client_check_arrays(const mega_client_state *c)
{
    static const char call[] = "mega_engine_save_checkpoint";
    if (c->num_arrays < 0 || (c->num_arrays > 0 && c->array == NULL))
        return MEGA_MISTAKE("%s: client has %d arrays and array is %s; give both or neither", call, c->num_arrays,
                            c->array == NULL ? "NULL" : "not NULL");
    for (int i = 0; i < c->num_arrays; i++) {
        const mega_client_array *a = &c->array[i];
        if (a->name == NULL || a->name[0] == '\0')
            return MEGA_MISTAKE("%s: array %d of client has no name; give it one", call, i);
        if (mega_utf8_valid_bytes(a->name, strlen(a->name)) < strlen(a->name)) /* jansson accepts only UTF-8 */
            return MEGA_MISTAKE("%s: the name of array %d of client is not UTF-8; choose another", call, i);
        if (a->rows < 1 || a->columns < 0 || a->data == NULL)
            return MEGA_MISTAKE("%s: array \"%s\" of client: %lld x %lld%s; expected at least 1 row, columns 0 for a "
                                "vector, and data",
                                call, a->name, (long long)a->rows, (long long)a->columns,
                                a->data == NULL ? ", data NULL" : "");
        if ((int)a->dtype < 0 || a->dtype >= MEGA_DTYPE_COUNT ||
            mega_extent_mul(a->rows, a->columns > 0 ? a->columns : 1) > MEGA_MOST_ELEMENTS)
            return MEGA_MISTAKE("%s: array \"%s\" of client: %lld x %lld of type %d; expected one of the types of "
                                "mega_dtype, and at most %lld numbers",
                                call, a->name, (long long)a->rows, (long long)a->columns, (int)a->dtype,
                                (long long)MEGA_MOST_ELEMENTS);
        for (int k = 0; k < i; k++)
            if (strcmp(a->name, c->array[k].name) == 0)
                return MEGA_MISTAKE("%s: two arrays of client are called \"%s\"; give each its own name", call,
                                    a->name);
    }
    return MEGA_OK;
}

static mega_status client_object(const mega_client_state *c, json_t **out)
{
    const char *text = c->json != NULL ? c->json : "{}";
    json_error_t error;
    json_t *object = mega_json_load(text, strlen(text), JSON_DECODE_ANY, &error);
    if (object == NULL && mega_json_status(&error) != MEGA_ERR_MEMORY)
        return MEGA_MISTAKE("mega_engine_save_checkpoint: client.json, line %d: %s; expected one JSON object, such as "
                            "{\"epoch\": 3}",
                            error.line, error.text);
    if (object != NULL && !json_is_object(object)) {
        json_decref(object);
        return MEGA_MISTAKE("mega_engine_save_checkpoint: client.json is no object; expected one JSON "
                            "object, such as {\"epoch\": 3}");
    }
    *out = object;
    return object != NULL ? MEGA_OK : MEGA_NO_MEMORY("checkpoint", "the state of the caller");
}

/* Makes the extra members of run.json: {"training_data": its description, "client_state": the caller's object}. */
static mega_status run_members(const mega_engine *e, const mega_client_state *c, char **out)
{
    json_t *root = json_object(), *object = NULL;
    mega_status st = c != NULL ? client_object(c, &object) : MEGA_OK;
    bool is_whole = root != NULL;
    if (object != NULL) is_whole = json_object_set_new(root, CLIENT_MEMBER, object) == 0 && is_whole;
    if (e->data.has_set) is_whole = json_object_set_new(root, ENGINE_DATA_MEMBER, engine_data_json(e)) == 0 && is_whole;
    *out = st == MEGA_OK && is_whole ? mega_json_dump(root, JSON_REAL_PRECISION(17)) : NULL;
    json_decref(root);
    if (st == MEGA_OK && *out == NULL) st = MEGA_NO_MEMORY("checkpoint", "the state of the caller");
    return st;
}

static mega_status client_check_folder(const mega_engine *e, const char *call, const char *folder)
{
    MEGA_TRY(engine_check_given(e, call, "folder", folder));
    if (folder[0] != '\0') return MEGA_OK;
    return MEGA_MISTAKE("%s: the folder is empty; give its path, such as \".\"", call);
}

static mega_status client_check_tag(const mega_engine *e, const char *tag)
{
    const mega_status st = tag != NULL ? mega_checkpoint_check_tag(tag, e->progress.iteration) : MEGA_OK;
    if (st != MEGA_OK) mega_error_prepend("mega_engine_save_checkpoint");
    return st;
}

static mega_status client_check_save(const mega_engine *e, const char *folder, const char *tag,
                                     const mega_client_state *client, char **out_members)
{
    MEGA_TRY(client_check_folder(e, "mega_engine_save_checkpoint", folder));
    MEGA_TRY(client_check_tag(e, tag));
    if (client != NULL) MEGA_TRY(client_check_arrays(client));
    return run_members(e, client, out_members);
}

/* Collective over the world. Checks that all ranks name the same folder and tag, because they write parts of one
 * folder. */
static mega_status compare_folder(const mega_engine *e, const char *folder, const char *tag)
{
    uint64_t hash = mega_hash64(MEGA_HASH_START, folder, strlen(folder) + 1);
    if (tag != NULL) hash = mega_hash64(hash, tag, strlen(tag) + 1);
    const int64_t number = (int64_t)(hash >> 2);
    int64_t most[2] = {number, -number};
    mega_comm *world = e->layout->world.comm;
    MEGA_TRY(mega_comm_all_reduce(world, "folder of a checkpoint", most, 2, MEGA_I64, MEGA_REDUCE_MAX));
    if (most[0] == -most[1]) return MEGA_OK;
    return mega_comm_agree(world, MEGA_MISTAKE("mega_engine_save_checkpoint: the ranks give different folders or tags "
                                               "(rank %d: %s, tag %s); give the same on all",
                                               e->layout->world.rank, folder, tag != NULL ? tag : "NULL"));
}

static mega_status save_client(mega_engine *e, const char *folder, const char *tag, const mega_client_state *client)
{
    char *members = NULL;
    mega_status st = engine_begin_call(e, client_check_save(e, folder, tag, client, &members));
    if (st == MEGA_OK) st = compare_folder(e, folder, tag);
    if (st == MEGA_OK)
        st = engine_save(e, &(mega_engine_save_options){.folder = folder,
                                                        .tag = tag,
                                                        .save_dtype = e->saving.dtype,
                                                        .max_shard_size = e->saving.max_shard_size,
                                                        .extra_json = members,
                                                        .client_array = client != NULL ? client->array : NULL,
                                                        .num_client_arrays = client != NULL ? client->num_arrays : 0,
                                                        .keep = e->saving.keep});
    free(members);
    return st;
}

mega_status mega_engine_save_checkpoint(mega_engine *e, const char *folder, const char *tag,
                                        const mega_client_state *client)
{
    MEGA_TRY(engine_enter(e, "mega_engine_save_checkpoint"));
    return engine_leave(e, save_client(e, folder, tag, client));
}

/* ---- loading ---- */

static mega_status no_memory_for_client(void)
{
    return MEGA_NO_MEMORY("checkpoint", "the state of the caller");
}

static mega_status client_read_member(struct engine_client *client, const mega_checkpoint *c)
{
    json_t *root = NULL;
    client->state.json = "{}";
    MEGA_TRY(mega_run_json(&root, c));
    const json_t *object = json_object_get(root, CLIENT_MEMBER);
    char *text = object != NULL ? mega_json_dump(object, JSON_REAL_PRECISION(17)) : NULL;
    const bool is_short = object != NULL && text == NULL;
    if (text != NULL) client->state.json = mega_arena_strdup(&client->arena, text);
    free(text);
    json_decref(root);
    return is_short || client->state.json == NULL ? no_memory_for_client() : MEGA_OK;
}

static bool client_copy_array(mega_arena *arena, const mega_safetensor *from, mega_client_array *out)
{
    const size_t bytes = (size_t)(from->end - from->begin);
    void *data = mega_arena_alloc(arena, bytes + 1);
    *out = (mega_client_array){.name = mega_arena_strdup(arena, from->name),
                               .rows = (int64_t)from->shape[0],
                               .columns = from->num_dims > 1 ? (int64_t)from->shape[1] : 0,
                               .data = data};
    if (data == NULL || out->name == NULL) return false;
    memcpy(data, from->data, bytes);
    return true;
}

/* Copies the arrays of the caller. Skips arrays of other types or with more than two dimensions: another program wrote
 * them. */
static mega_status client_read_arrays(struct engine_client *client, const mega_checkpoint *c)
{
    const mega_safetensors *file = mega_checkpoint_client(c);
    const size_t count = file != NULL ? mega_safetensors_count(file) : 0;
    mega_client_array *array = mega_arena_alloc(&client->arena, (count + 1) * sizeof *array);
    if (array == NULL) return no_memory_for_client();
    client->state.array = array;
    for (size_t i = 0; i < count; i++) {
        const mega_safetensor *t = mega_safetensors_get(file, i);
        mega_dtype dtype;
        if (t->num_dims < 1 || t->num_dims > 2 || !mega_st_dtype_to_mega(t->dtype, &dtype)) continue;
        if (!client_copy_array(&client->arena, t, &array[client->state.num_arrays])) return no_memory_for_client();
        array[client->state.num_arrays++].dtype = dtype;
    }
    return MEGA_OK;
}

static mega_status read_client(mega_engine *e, const mega_checkpoint *c)
{
    engine_client_free(e);
    e->saving.client = mega_calloc(1, sizeof *e->saving.client);
    if (e->saving.client == NULL) return no_memory_for_client();
    MEGA_TRY(client_read_member(e->saving.client, c));
    return client_read_arrays(e->saving.client, c);
}

/* Collective over the world. Opens a checkpoint. Sets *out to NULL if tag is NULL and the folder holds no
 * checkpoint. */
static mega_status client_open_checkpoint(const mega_engine *e, const char *folder, const char *tag,
                                          mega_checkpoint **out)
{
    mega_comm *ranks = e->options.world != NULL ? mega_world_comm(e->options.world) : NULL;
    char *path = tag != NULL ? mega_path_join(folder, tag) : mega_strdup(folder);
    mega_status st = path != NULL ? MEGA_OK : MEGA_FAIL(MEGA_ERR_MEMORY, "checkpoint %s: no memory to open it", folder);
    st = engine_agree(e, st);
    if (st == MEGA_OK) st = mega_checkpoint_open_ranks(path, false, e->options.team, ranks, out);
    if (st == MEGA_OK && ranks != NULL) st = mega_checkpoint_check_shared(*out, path, ranks);
    mega_free(path);
    if (st == MEGA_OK && *out == NULL && tag != NULL)
        st = MEGA_FAIL(MEGA_ERR_NOT_FOUND, "mega_engine_load_checkpoint: %s/%s: there is no checkpoint", folder, tag);
    return engine_agree(e, st); /* ranks may have asked for different tags */
}

static mega_status client_check_load(const mega_engine *e, const char *folder, const char *tag, const bool *out_found)
{
    static const char call[] = "mega_engine_load_checkpoint";
    MEGA_TRY(client_check_folder(e, call, folder));
    if (tag != NULL && tag[0] == '\0')
        return MEGA_MISTAKE("%s: the tag is empty; give one, or NULL for the latest", call);
    MEGA_TRY(engine_check_given(e, call, "out_found", out_found));
    return engine_check_allocated(e, call);
}

/* By default the schedule of the checkpoint continues, unless the caller has a function for the learning rate. */
static mega_engine_load_options client_load_options(const mega_engine *e, const mega_checkpoint *c,
                                                    const mega_load_options *o)
{
    const bool has_run = mega_checkpoint_run_json(c) != NULL;
    const bool keeps = o->module_only || e->step.scheduler.lr != NULL;
    return (mega_engine_load_options){.finetune = o->module_only,
                                      .no_states = o->no_optimizer_states,
                                      .no_schedule = o->no_lr_scheduler_states,
                                      .override_schedule = keeps,
                                      .use_checkpoint_schedule = has_run && !keeps && !o->no_lr_scheduler_states};
}

void engine_reset_to_step_0(mega_engine *e)
{
    const size_t size = mega_dtype_size(mega_params_acc_dtype(e->params));
    e->progress = (mega_engine_progress){0};
    e->step.grad_norm = NAN;
    engine_scale_reset(e);
    if (e->optimizer == NULL) return;
    mega_optimizer_set_updates(e->optimizer, 0);
    if (!e->memory.has_moments)
        return; /* the first update is the first to touch their pages, on the cores that use them */
    for (int m = 0; m < mega_optimizer_num_moments(e->optimizer); m++)
        for (int i = 0; i < mega_params_count(e->params); i++) {
            void *moment = mega_optimizer_moment(e->optimizer, m, i);
            if (moment != NULL) mega_device_fill(moment, 0, (size_t)mega_params_owned(e->params, i).count * size);
        }
}

static mega_status load_client(mega_engine *e, const char *folder, const char *tag, const mega_load_options *options,
                               bool *out_found, const mega_client_state **out_client)
{
    mega_checkpoint *c = NULL;
    mega_engine_loaded loaded;
    MEGA_TRY(engine_begin_call(e, client_check_load(e, folder, tag, out_found)));
    mega_status st = client_open_checkpoint(e, folder, tag, &c);
    if (st != MEGA_OK || c == NULL) {
        mega_checkpoint_close(c);
        if (st == MEGA_OK) *out_found = false;
        return st;
    }
    const mega_engine_load_options o =
        client_load_options(e, c, options != NULL ? options : &(mega_load_options){.module_only = false});
    const bool takes_any = o.finetune || e->programs.train == NULL || (options != NULL && options->other_training_data);
    st = engine_agree(e, takes_any ? MEGA_OK : engine_check_data(e, c));
    if (st == MEGA_OK) st = engine_agree(e, read_client(e, c));
    if (st == MEGA_OK) st = engine_load(e, c, &o, &loaded);
    mega_checkpoint_close(c);
    MEGA_TRY(st);
    if (o.finetune) engine_reset_to_step_0(e);
    *out_found = true;
    if (out_client != NULL) *out_client = &e->saving.client->state;
    return MEGA_OK;
}

mega_status mega_engine_load_checkpoint(mega_engine *e, const char *folder, const char *tag,
                                        const mega_load_options *options, bool *out_found,
                                        const mega_client_state **out_client)
{
    MEGA_TRY(engine_enter(e, "mega_engine_load_checkpoint"));
    return engine_leave(e, load_client(e, folder, tag, options, out_found, out_client));
}

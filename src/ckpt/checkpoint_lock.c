/* The lock that allows one run at a time to write to SAVE, and the id of that run. */
#include "ckpt_impl.h"

#include <stdio.h>
#include <string.h>

/* A lock request together with the buffers of its texts. */
typedef struct save_request {
    mega_lock_request lock;
    char *path, *subject, *run_id;
} save_request;

static mega_status make_request(save_request *r, const char *save, bool takeover)
{
    r->path = mega_path_join(save, MEGA_RUN_LOCK);
    r->subject = mega_format("--save %s", save);
    r->run_id = mega_path_join(save, MEGA_RUN_ID);
    r->lock = (mega_lock_request){.path = r->path,
                                  .subject = r->subject,
                                  .remedy = "choose another --save, or give --save-takeover to take over this one",
                                  .witness = r->run_id,
                                  .takeover = takeover};
    return r->path != NULL && r->subject != NULL && r->run_id != NULL
               ? MEGA_OK
               : MEGA_FAIL(MEGA_ERR_MEMORY, "--save %s: no memory for its lock", save);
}

static void free_request(save_request *r)
{
    MEGA_FREE(r->path, r->subject, r->run_id);
}

mega_status mega_checkpoint_lock(const char *save, bool takeover, mega_lock **out)
{
    save_request r;
    mega_status st = make_request(&r, save, takeover);
    if (st == MEGA_OK) st = mega_lock_acquire(&r.lock, out);
    free_request(&r);
    return st;
}

mega_status mega_checkpoint_lock_probe(const char *save, bool takeover)
{
    save_request r;
    mega_status st = make_request(&r, save, takeover);
    if (st == MEGA_OK) st = mega_lock_probe(&r.lock);
    free_request(&r);
    return st;
}

mega_status mega_checkpoint_write_run_id(const char *save, const char id[MEGA_TOKEN_BYTES])
{
    char text[MEGA_TOKEN_BYTES + 1];
    char *path = mega_path_join(save, MEGA_RUN_ID);
    if (path == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "--save %s: no memory for a path", save);
    snprintf(text, sizeof text, "%s\n", id);
    const mega_status st = mega_file_write_atomic(path, text, strlen(text));
    mega_free(path);
    return st;
}

/* The file in SAVE that names the checkpoint saved last, and the names that checkpoints may have.
 *
 * Megatron's trackers contain a number N, for the folder iter_N, or "release". Ours may contain any tag; a tag of
 * digits only is written with a slash after it, which distinguishes it from an iteration. */
#include "ckpt_impl.h"
#include "megalith/file_kind.h"
#include "megalith/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

mega_checkpoint_name mega_checkpoint_name_of(int64_t iteration)
{
    mega_checkpoint_name name;
    snprintf(name.text, sizeof name.text, "iter_%07" PRId64, iteration);
    return name;
}

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Returns why the name cannot be a tag; NULL: it can. */
static const char *why_no_tag(const char *tag)
{
    static const char *const taken[] = {MEGA_TRACKER, MEGA_RUN_ID, MEGA_RUN_LOCK};
    const size_t n = strlen(tag);
    if (n == 0) return "it is empty";
    if (n > MEGA_CHECKPOINT_TAG) return "it has more than 200 bytes";
    if (mega_utf8_valid_bytes(tag, n) < n) return "it is not UTF-8";
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)tag[i] < ' ' || tag[i] == 0x7f || tag[i] == '/')
            return "it contains a slash or a control character";
    if (tag[0] == '.') return "it begins with a dot";
    if (tag[0] == ' ' || tag[n - 1] == ' ') return "it begins or ends with a space";
    if (strstr(tag, ".tmp-") != NULL || strstr(tag, ".exchange-") != NULL)
        return "unfinished checkpoints are called .tmp- and .exchange-";
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(tag, taken[i]) == 0) return "a file beside the checkpoints has this name";
    return NULL;
}

/* Returns how many bytes of a text can be quoted in a line. */
static int printable(const char *text, int most)
{
    const int whole = (int)mega_utf8_valid_bytes(text, strnlen(text, (size_t)most));
    int n = 0;
    while (n < whole && (unsigned char)text[n] >= ' ' && text[n] != 0x7f) n++;
    while (n > 0 && text[n - 1] == ' ') n--;
    return n;
}

mega_status mega_checkpoint_check_tag(const char *tag, int64_t iteration)
{
    int64_t named = 0;
    const char *why = why_no_tag(tag);
    if (why != NULL)
        return MEGA_MISTAKE("tag \"%.*s\": %s; expected a name for a folder, such as \"best\"", printable(tag, 80), tag,
                            why);
    const mega_checkpoint_name own = mega_checkpoint_name_of(iteration);
    if (!mega_iteration_parse(tag, &named) || strcmp(tag, own.text) == 0) return MEGA_OK;
    return MEGA_MISTAKE("tag \"%s\": this is the name for a checkpoint of iteration %" PRId64
                        ", and the run is at %" PRId64 "; expected %s or a name of another form, such as \"best\"",
                        tag, named, iteration, own.text);
}

mega_status mega_tracker_write(const char *save, const char *name)
{
    int64_t iteration = 0;
    char text[MEGA_CHECKPOINT_TAG + 32];
    char *path = mega_path_join(save, MEGA_TRACKER);
    if (path == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "checkpoint %s: no memory to write it", save);
    const int n = mega_iteration_parse(name, &iteration)
                      ? snprintf(text, sizeof text, "%" PRId64, iteration)
                      : snprintf(text, sizeof text, "%s%s", name, is_number(name) ? "/" : "");
    const mega_status st = mega_file_write_atomic(path, text, (size_t)n);
    mega_free(path);
    return st;
}

/* Of the text between its outer spaces. */
static bool parse_tracker(const char *text, size_t n, mega_checkpoint_name *out)
{
    const bool has_slash = n > 0 && text[n - 1] == '/';
    if (n > MEGA_CHECKPOINT_TAG + 1) return false;
    char copy[MEGA_CHECKPOINT_TAG + 2];
    snprintf(copy, sizeof copy, "%.*s", (int)(has_slash ? n - 1 : n), text);
    if (is_number(copy) && !has_slash) {
        *out = mega_checkpoint_name_of(strtoll(copy, NULL, 10));
        return n <= 18;
    }
    if (why_no_tag(copy) != NULL) return false;
    memcpy(out->text, copy, strlen(copy) + 1);
    return true;
}

mega_status mega_tracker_read(const char *save, mega_checkpoint_name *out)
{
    char *path = mega_path_join(save, MEGA_TRACKER), *text = NULL;
    if (path == NULL) return MEGA_NO_MEMORY(save, "a path");
    mega_status st = mega_file_read_kind(path, "the name of a checkpoint", 0, &text, NULL);
    if (st == MEGA_OK) {
        const char *at = text + strspn(text, " \t\r\n");
        size_t n = strlen(at);
        while (n > 0 && strchr(" \t\r\n", at[n - 1]) != NULL) n--;
        if (!parse_tracker(at, n, out))
            st = MEGA_FAIL(MEGA_ERR_FORMAT,
                           "%s: \"%.*s\" names no checkpoint; expected the number of an iteration, as of the folders "
                           "iter_… beside it, or the name of a folder",
                           path, printable(at, 40), at);
    }
    MEGA_FREE(text, path);
    return st;
}

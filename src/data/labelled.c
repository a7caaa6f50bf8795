/* Labelled samples in memory: their sequences without padding, which a sample gets when it is filled. */
#include "labelled.h"
#include "megalith/encoding.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/hash.h"
#include "megalith/line.h"

#include <string.h>

#define ROW(name_, ...) {.name = name_, __VA_ARGS__},
static const mega_labelled_task tasks[] = {MEGA_LABELLED_TASKS(ROW)};

const mega_labelled_task *mega_labelled_task_get(size_t i)
{
    return i < sizeof tasks / sizeof *tasks ? &tasks[i] : NULL;
}

const mega_labelled_task *mega_labelled_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof tasks / sizeof *tasks; i++)
        if (strcmp(tasks[i].name, name) == 0) return &tasks[i];
    return NULL;
}

/* Names are compared without case and with one character between words. */
static char plain(char c)
{
    if (c >= 'A' && c <= 'Z') return (char)(c - 'A' + 'a');
    return c == '-' || c == ' ' ? '_' : c;
}

static bool is_same_name(const char *a, const char *b)
{
    while (*a != '\0' && plain(*a) == plain(*b)) a++, b++;
    return plain(*a) == plain(*b);
}

int32_t mega_labelled_label_of(const mega_labelled_task *task, const char *name)
{
    for (int32_t i = 0; i < task->classes; i++)
        if (is_same_name(name, task->named[i]) || is_same_name(name, task->label[i])) return i;
    return -1;
}

/* ---- reading ---- */

/* Replaces " . " by ". " once, from left to right; returns the new size. */
static size_t close_up(char *text, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        const bool is_free_stop = text[i] == ' ' && i + 2 < bytes && text[i + 1] == '.' && text[i + 2] == ' ';
        if (!is_free_stop) {
            text[n++] = text[i];
            continue;
        }
        text[n++] = '.';
        text[n++] = ' ';
        i += 2;
    }
    return n;
}

mega_status labelled_encode(labelled_reader *r, const char *text, size_t bytes, mega_ids *ids)
{
    enum { PASSES = 3 };
    mega_buffer *b = &r->clean;
    b->size = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (!labelled_is_blank(text[i])) mega_buffer_append(b, &text[i], 1);
        else if (i == 0 || !labelled_is_blank(text[i - 1]))
            mega_buffer_append(b, " ", 1);
    }
    MEGA_TRY(mega_buffer_check(b, "a text of a task"));
    for (int i = 0; i < PASSES && b->size > 0; i++) b->size = close_up(b->data, b->size);
    return mega_encoder_encode_part(r->encoder, b->size > 0 ? b->data : "", b->size, ids);
}

mega_status labelled_add(labelled_reader *r, const mega_ids *first, const mega_ids *second)
{
    mega_labelled *l = r->out;
    const int64_t whole = first->count + (second != NULL ? second->count + 3 : 2), most = l->seq_length;
    const int64_t length = whole < most ? whole : most, end = l->ids.count + length - 1;
    if (!mega_array_reserve(&l->sequence, &l->sequence_room, l->sequences + 1, sizeof *l->sequence))
        return MEGA_NO_MEMORY("tasks", "the list of its texts");
    MEGA_TRY(mega_ids_reserve(&l->ids, length));
    const int64_t most_first =
        second != NULL ? length - 1 : length; /* the last [SEP] of a pair is of the second text */
    l->sequence[l->sequences++] =
        (labelled_sequence){.begin = l->ids.count,
                            .length = (int32_t)length,
                            .first = (int32_t)(first->count + 2 < most_first ? first->count + 2 : most_first)};
    l->ids.id[l->ids.count++] = l->cls;
    for (int64_t i = 0; i < first->count && l->ids.count < end; i++) l->ids.id[l->ids.count++] = first->id[i];
    if (second != NULL && l->ids.count < end) l->ids.id[l->ids.count++] = l->sep;
    for (int64_t i = 0; second != NULL && i < second->count && l->ids.count < end; i++)
        l->ids.id[l->ids.count++] = second->id[i];
    l->ids.id[l->ids.count++] = l->sep;
    return MEGA_OK;
}

mega_status labelled_add_label(labelled_reader *r, int32_t label)
{
    mega_labelled *l = r->out;
    if (!mega_array_reserve(&l->label, &l->label_room, l->samples + 1, sizeof *l->label))
        return MEGA_NO_MEMORY("tasks", "the list of its labels");
    l->label[l->samples++] = r->options->order != NULL ? r->options->order[label] : label;
    r->set->count++;
    return MEGA_OK;
}

mega_status labelled_lines(labelled_reader *r, const char *path,
                           mega_status (*take)(void *user, int64_t line, const char *text, size_t bytes), void *user)
{
    char *text = NULL;
    size_t bytes = 0;
    MEGA_TRY(mega_file_read_kind(path, "text in UTF-8", MEGA_KIND_TABLE, &text, &bytes));
    mega_status st = MEGA_OK;
    const size_t mark = mega_encoding_mark_bytes(text, bytes);
    const mega_team *team = r->options->team;
    for (mega_line l = {.rest = text + mark, .left = bytes - mark}; st == MEGA_OK && mega_line_next(&l);) {
        st = mega_encoding_check_line(path, l.number, l.text, l.bytes);
        while (l.bytes > 0 && labelled_is_blank(l.text[l.bytes - 1])) l.bytes--;
        while (l.bytes > 0 && labelled_is_blank(*l.text)) l.text++, l.bytes--;
        if (st == MEGA_OK && team != NULL && mega_team_is_stopped(team))
            st = MEGA_FAIL(MEGA_ERR_INTERRUPTED, "%s: reading was interrupted by a signal", path);
        if (st == MEGA_OK) st = take(user, l.number, l.text, l.bytes);
    }
    mega_free(text);
    return st;
}

/* "…/MNLI/dev_matched.tsv" is "dev-matched". A path without the name of the task: its last part. */
static char *set_name(const char *name, const char *path)
{
    const char *at = NULL;
    for (const char *s = strstr(path, name); s != NULL; s = strstr(s + 1, name)) at = s + strlen(name);
    if (at == NULL || at[strspn(at, "/")] == '\0') at = mega_path_base(path);
    at += strspn(at, "/");
    char *out = mega_strdup(at);
    size_t n = out != NULL ? strlen(out) : 0;
    while (n > 0 && out[n - 1] == '/') out[--n] = '\0';
    if (n == 0) {
        mega_free(out);
        return mega_strdup(path);
    }
    if (n > 4 && (strcmp(out + n - 4, ".tsv") == 0 || strcmp(out + n - 4, ".txt") == 0)) out[n - 4] = '\0';
    for (char *c = out; c != NULL && *c != '\0'; c++)
        if (*c == '_' || *c == '/') *c = '-';
    return out;
}

static mega_status read_set(labelled_reader *r, const char *path)
{
    mega_labelled *l = r->out;
    r->set = &l->set[l->sets++];
    *r->set = (mega_labelled_set){.name = set_name(l->task->name, path), .first = l->samples};
    if (r->set->name == NULL) return MEGA_NO_MEMORY("tasks", "a name");
    MEGA_TRY(l->task->read(r, path));
    if (r->set->count == 0) return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: it holds no sample of %s", path, l->task->name);
    return MEGA_OK;
}

/* Once a path has failed, the others are read for their mistakes alone. */
static mega_status read_sets(labelled_reader *r, const mega_labelled_options *o)
{
    mega_status failed = MEGA_OK;
    for (size_t i = 0; i < o->num_paths; i++) {
        const mega_status st = read_set(r, o->path[i]);
        if (st == MEGA_OK) continue;
        if (o->mistake == NULL || st == MEGA_ERR_MEMORY || st == MEGA_ERR_INTERRUPTED) return st;
        o->mistake(o->user, st);
        failed = st;
    }
    return failed;
}

static uint64_t labelled_hash(const mega_labelled *l)
{
    uint64_t hash = mega_hash64(MEGA_HASH_START, &l->seq_length, sizeof l->seq_length);
    for (int64_t i = 0; i < l->sequences; i++)
        hash = mega_hash64(hash, l->ids.id + l->sequence[i].begin, (size_t)l->sequence[i].length * sizeof(int32_t));
    return mega_hash64(hash, l->label, (size_t)l->samples * sizeof *l->label);
}

mega_status mega_labelled_open(const mega_labelled_options *o, mega_labelled **out)
{
    enum { SHORTEST = 4 };
    if (o->seq_length < SHORTEST)
        return MEGA_MISTAKE("samples of %lld tokens; expected at least %d: [CLS], a token, [SEP], [SEP]",
                            (long long)o->seq_length, SHORTEST);
    mega_labelled *l = mega_calloc(1, sizeof *l);
    if (l == NULL) return MEGA_NO_MEMORY("tasks", "their data");
    *l = (mega_labelled){.task = o->task,
                         .seq_length = o->seq_length,
                         .choices = o->task->choices > 0 ? o->task->choices : 1,
                         .cls = o->cls,
                         .sep = o->sep,
                         .pad = o->pad,
                         .set = mega_calloc(o->num_paths + 1, sizeof *l->set)};
    labelled_reader r = {.out = l, .options = o};
    mega_status st = l->set != NULL ? mega_encoder_create(o->tokenizer, &r.encoder) : MEGA_NO_MEMORY("tasks", "a list");
    if (st == MEGA_OK) st = read_sets(&r, o);
    mega_encoder_destroy(r.encoder);
    mega_buffer_fini(&r.clean);
    mega_ids_fini(&r.first);
    mega_ids_fini(&r.second);
    if (st != MEGA_OK) {
        mega_labelled_close(l);
        return st;
    }
    l->hash = labelled_hash(l);
    *out = l;
    return MEGA_OK;
}

void mega_labelled_close(mega_labelled *l)
{
    if (l == NULL) return;
    for (size_t i = 0; i < l->sets; i++) mega_free(l->set[i].name);
    MEGA_FREE(l->set, l->sequence, l->label);
    mega_ids_fini(&l->ids);
    mega_free(l);
}

/* ---- samples ---- */

int64_t mega_labelled_count(const mega_labelled *l)
{
    return l->samples;
}

size_t mega_labelled_sets(const mega_labelled *l)
{
    return l->sets;
}

const mega_labelled_set *mega_labelled_set_get(const mega_labelled *l, size_t set)
{
    return &l->set[set];
}

uint64_t mega_labelled_hash(const mega_labelled *l)
{
    return l->hash;
}

const int32_t *mega_labelled_sequence(const mega_labelled *l, int64_t sample, int64_t choice, int64_t *out_length,
                                      int64_t *out_first)
{
    const labelled_sequence *s = &l->sequence[sample * l->choices + choice];
    *out_length = s->length;
    *out_first = s->first;
    return l->ids.id + s->begin;
}

int32_t mega_labelled_label(const mega_labelled *l, int64_t sample)
{
    return l->label[sample];
}

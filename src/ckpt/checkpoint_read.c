/* Fills tensors from an opened checkpoint. All mismatches are reported together, before anything is filled. */
#include "checkpoint_impl.h"
#include "hf_copies.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAMED   8 /* named mismatches of each kind in one message */
#define MAX_IGNORED 3 /* named ignored tensors in one log line */

typedef struct report {
    mega_buffer text, ignored;
    int missing, extra, other, copies, num_ignored;
} report;

/* Where tensors are looked up: weights of a Hugging Face family by its naming rules; other weights and state by exact
 * name. */
typedef struct source {
    mega_checkpoint *checkpoint;
    const mega_safetensors *file; /* a file of state/; NULL: the weights of the folder */
    const char *what;             /* the folder or file, for messages */
} source;

/* NULL: by exact name. */
static const mega_family *family_of(const source *s)
{
    const mega_model_shape *shape = mega_checkpoint_shape(s->checkpoint);
    return s->file == NULL && shape != NULL ? mega_family_of(&shape->net) : NULL;
}

/* The family by whose rules weights of the folder, or their exact copy in state/, may differ from those of the
 * model. */
static const mega_family *beginning_family(const source *s)
{
    const mega_model_shape *shape = mega_checkpoint_shape(s->checkpoint);
    const bool is_of_weights = s->file == NULL || s->file == s->checkpoint->masters;
    return s->checkpoint->begins_classifier && is_of_weights && shape != NULL ? mega_family_of(&shape->net) : NULL;
}

static bool is_below(const char *name, const char *path)
{
    const size_t n = path != NULL ? strlen(path) : 0;
    return n > 0 && strncmp(name, path, n) == 0 && name[n] == '.';
}

/* A new classifier takes nothing from one that the folder has. */
static bool is_replaced(const source *s, const char *name)
{
    const mega_family *f = beginning_family(s);
    return f != NULL && is_below(name, f->names->classifier);
}

static const mega_safetensor *read_find(const source *s, const char *name)
{
    if (is_replaced(s, name)) return NULL;
    const mega_hf_weights *weights = &s->checkpoint->weights;
    if (s->file != NULL) return mega_safetensors_find(s->file, name);
    const mega_family *f = family_of(s);
    return f != NULL ? mega_hf_weights_find(weights, mega_checkpoint_shape(s->checkpoint), name)
                     : mega_hf_weights_find_exact(weights, name);
}

static bool may_lack(const source *s, const char *name)
{
    const mega_family *f = beginning_family(s);
    return is_replaced(s, name) || (f != NULL && is_below(name, f->names->pooler));
}

/* A new classifier leaves the heads of the folder unread. */
static bool is_unread_head(const source *s, const char *name)
{
    const mega_family *begins = beginning_family(s);
    return is_replaced(s, name) ||
           (begins != NULL && begins->other_heads != NULL && mega_family_matches(begins->other_heads, name));
}

static bool read_may_ignore(const source *s, const char *name)
{
    const mega_family *f = family_of(s);
    return f != NULL && mega_hf_may_ignore(f, name);
}

static void describe_mismatch(report *r, const mega_state_tensor *t, const mega_safetensor *found)
{
    mega_st_entry wanted;
    mega_state_tensor_entry(t, MEGA_F32, &wanted);
    mega_buffer_printf(&r->text, "\n  %s: found [", found->name);
    for (int d = 0; d < found->num_dims; d++)
        mega_buffer_printf(&r->text, "%s%llu", d > 0 ? ", " : "", (unsigned long long)found->shape[d]);
    mega_buffer_printf(&r->text, "] %s, expected ", mega_st_dtype_name(found->dtype));
    mega_state_tensor_describe(&r->text, &wanted);
    mega_buffer_puts(&r->text, " F32, BF16, F16 or F64");
}

static void read_note(report *r, int *count, const char *kind, const char *name)
{
    if (++*count <= MAX_NAMED) mega_buffer_printf(&r->text, "\n  %s: %s", kind, name);
    if (*count == MAX_NAMED + 1) mega_buffer_printf(&r->text, "\n  %s: … and more", kind);
}

static void note_ignored(report *r, const char *name)
{
    if (++r->num_ignored <= MAX_IGNORED) mega_buffer_printf(&r->ignored, "%s%s", r->num_ignored > 1 ? ", " : "", name);
}

static int by_address(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t) * (const mega_safetensor *const *)a,
                    y = (uintptr_t) * (const mega_safetensor *const *)b;
    return (x > y) - (x < y);
}

/* Whether the tensor stands for another one; reports a copy that differs from it. */
static bool is_copy(report *r, const source *s, const mega_safetensor *t)
{
    const mega_family *f = family_of(s);
    hf_copy copy;
    if (f == NULL || !hf_copy_find(mega_checkpoint_shape(s->checkpoint), t->name, &copy)) return false;
    const mega_safetensor *of = read_find(s, copy.original);
    if (of == NULL || of == t || hf_copy_is_equal(t, of)) return true; /* NULL: reported as missing */
    bool same_shape = t->num_dims == of->num_dims;
    for (int d = 0; same_shape && d < t->num_dims; d++) same_shape = t->shape[d] == of->shape[d];
    mega_buffer_printf(&r->text, "\n  %s: found %s than %s has, expected the same", t->name,
                       same_shape ? "other values" : "another shape", of->name);
    r->copies++;
    return true;
}

static void note_extra(report *r, const source *s, const mega_safetensors *file, const mega_safetensor **used,
                       size_t num_used)
{
    for (size_t i = 0; i < mega_safetensors_count(file); i++) {
        const mega_safetensor *t = mega_safetensors_get(file, i);
        const bool taken = bsearch(&t, used, num_used, sizeof *used, by_address) != NULL;
        if (taken || (!is_unread_head(s, t->name) && is_copy(r, s, t))) continue;
        if (is_unread_head(s, t->name) || read_may_ignore(s, t->name)) note_ignored(r, t->name);
        else
            read_note(r, &r->extra, "not part of this model", t->name);
    }
}

/* Buffers of old folders and heads of another task are no mistake, but the log says that they are dropped. */
static void say_ignored(const report *r, const source *s)
{
    if (r->num_ignored == 0 || !s->checkpoint->says_ignored) return;
    s->checkpoint->says_ignored = false;
    const bool is_one = r->num_ignored == 1;
    mega_info("checkpoint %s: %d tensor%s not read, because this model does not use %s: %s%s", s->what, r->num_ignored,
              is_one ? " is" : "s are", is_one ? "it" : "them", r->ignored.data,
              r->num_ignored > MAX_IGNORED ? ", …" : "");
}

static mega_status refuse_copies(const report *r, const source *s)
{
    const mega_family *f = family_of(s);
    const bool can_part = mega_family_has_key(f, "tie_word_embeddings") || f->net.t5 == MEGA_T5_ORIGINAL;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "%s: tensors that are one tensor in this model%s differ; %sremove the one that is not meant from "
                     "the folder:%s",
                     s->what, " (tie_word_embeddings in config.json)",
                     can_part
                         ? "give \"tie_word_embeddings\": false if a head has a table of its own (transformers 5 then "
                           "reads both, whatever the key says), or "
                         : "",
                     r->text.data);
}

static mega_status read_conclude(const report *r, const source *s)
{
    MEGA_TRY(mega_buffer_check(&r->text, s->what));
    MEGA_TRY(mega_buffer_check(&r->ignored, s->what));
    if (r->missing + r->extra + r->other == 0) return r->copies == 0 ? MEGA_OK : refuse_copies(r, s);
    if (s->file != NULL && r->missing + r->extra > 0) /* the weights of the model have been found */
        return MEGA_FAIL(
            MEGA_ERR_FORMAT,
            "%s: these are not the states of this optimizer: %d missing, %d with another shape or type, %d "
            "unexpected; other parameters are trained (--parameter-group), or the optimizer has other "
            "settings (--optimizer, --adam-amsgrad): give those that it was saved with, or "
            "--no-load-optim to start with fresh moments:%s",
            s->what, r->missing, r->other, r->extra, r->text.data);
    return MEGA_FAIL(
        MEGA_ERR_FORMAT,
        "%s: its tensors do not match this model: %d missing, %d with another shape or type, %d unexpected; "
        "give the sizes that it was saved with (options, or constants of the program), or another folder:%s",
        s->what, r->missing, r->other, r->extra, r->text.data);
}

/* Looks up all tensors; found[i] receives t[i], or NULL for one that may be missing. */
static mega_status read_match(const source *s, const mega_state_tensor *t, int count, const mega_safetensor **found)
{
    report r = {0};
    size_t num_used = 0;
    for (int i = 0; i < count; i++) {
        MEGA_TRY(mega_state_tensor_check(&t[i]));
        found[i] = read_find(s, t[i].name);
        if (found[i] == NULL && !may_lack(s, t[i].name)) read_note(&r, &r.missing, "missing", t[i].name);
        else if (found[i] != NULL && !mega_state_tensor_fits(&t[i], found[i]) && ++r.other <= MAX_NAMED)
            describe_mismatch(&r, &t[i], found[i]);
    }
    const mega_safetensor **used = mega_malloc((size_t)(count + 1) * sizeof *used);
    if (used == NULL) {
        mega_buffer_fini(&r.text);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to read it", s->what);
    }
    for (int i = 0; i < count; i++) {
        if (found[i] != NULL) used[num_used++] = found[i];
    }
    if (num_used > 1) qsort(used, num_used, sizeof *used, by_address);
    if (s->file != NULL) note_extra(&r, s, s->file, used, num_used);
    for (size_t i = 0; s->file == NULL && i < s->checkpoint->weights.count; i++)
        note_extra(&r, s, s->checkpoint->weights.file[i], used, num_used);
    const mega_status st = read_conclude(&r, s);
    if (st == MEGA_OK) say_ignored(&r, s);
    mega_buffer_fini(&r.text);
    mega_buffer_fini(&r.ignored);
    mega_free(used);
    return st;
}

/* The shares of all tensors have consecutive numbers. */
typedef struct read_job {
    const mega_team *team;
    const mega_state_tensor *tensor;
    const mega_safetensor **found;
    int64_t *first; /* number of each tensor's first share; [count]: number of all shares */
    int count;
    mega_dtype acc;
    uint8_t *window; /* of each thread */
    size_t window_bytes;
    atomic_llong next;
} read_job;

/* Takes shares until none is left; a thread that starts late finds none. */
static void read_shares(void *user, int thread, int64_t begin, int64_t end)
{
    read_job *job = user;
    void *window = job->window_bytes > 0 ? job->window + (size_t)thread * job->window_bytes : NULL;
    (void)begin;
    (void)end;
    int i = 0;
    for (int64_t share;
         !mega_team_is_stopped(job->team) && (share = atomic_fetch_add(&job->next, 1)) < job->first[job->count];) {
        while (share >= job->first[i + 1]) i++;
        mega_state_tensor_read(&job->tensor[i], job->acc, job->found[i], share - job->first[i], window);
    }
}

/* Reads data that is not in memory from the disk in long sequential requests. */
static void read_fetch(const mega_state_tensor *t, const mega_safetensor *from)
{
    size_t begin, end;
    mega_state_tensor_span(t, (size_t)mega_st_dtype_bits(from->dtype) / 8, &begin, &end);
    if (end > begin) mega_map_fetch(&(mega_map){from->data, (size_t)(from->end - from->begin)}, begin, end - begin);
}

/* Copies with all threads of the team; the first write to each page of the destination, where the system clears it,
 * is then shared among them too. */
static mega_status fill_tensors(const source *s, const mega_state_tensor *t, int count, mega_dtype acc,
                                const mega_safetensor **found)
{
    mega_team *team = s->checkpoint->team;
    read_job job = {.team = team, .tensor = t, .found = found, .count = count, .acc = acc};
    for (int i = 0; i < count; i++) {
        const size_t bytes = mega_state_tensor_window(&t[i], acc);
        if (bytes > job.window_bytes) job.window_bytes = bytes;
    }
    job.first = mega_malloc((size_t)(count + 1) * sizeof *job.first);
    if (job.window_bytes > 0) job.window = mega_malloc((size_t)mega_team_size(team) * job.window_bytes);
    if (job.first == NULL || (job.window_bytes > 0 && job.window == NULL)) {
        MEGA_FREE(job.first, job.window);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to read it", s->what);
    }
    job.first[0] = 0;
    for (int i = 0; i < count; i++) job.first[i + 1] = job.first[i] + mega_state_tensor_shares(&t[i], acc);
    for (int i = 0; i < count && !mega_team_is_stopped(team); i++) read_fetch(&t[i], found[i]);
    mega_team_for(team, mega_team_size(team), 1, read_shares, &job);
    const bool is_whole = atomic_load(&job.next) >= job.first[count];
    MEGA_FREE(job.first, job.window);
    return is_whole ? mega_map_check() : MEGA_FAIL(MEGA_ERR_INTERRUPTED, MEGA_READING_STOPPED);
}

/* Fills the tensors that were found. */
static mega_status fill_found(const source *s, const mega_state_tensor *t, int count, mega_dtype acc,
                              const mega_safetensor **found)
{
    int n = 0;
    for (int i = 0; i < count; i++) n += found[i] != NULL;
    if (n == count) return fill_tensors(s, t, count, acc, found);
    mega_state_tensor *there = mega_malloc((size_t)(n + 1) * sizeof *there);
    if (there == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to read it", s->what);
    n = 0;
    for (int i = 0; i < count; i++) {
        if (found[i] == NULL) continue;
        there[n] = t[i];
        found[n++] = found[i];
    }
    const mega_status st = fill_tensors(s, there, n, acc, found);
    mega_free(there);
    return st;
}

static mega_status checkpoint_read_all(const source *s, const mega_state_tensor *t, int count, mega_dtype acc)
{
    const mega_safetensor **found = mega_malloc((size_t)(count + 1) * sizeof *found);
    if (found == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to read it", s->what);
    mega_status st = read_match(s, t, count, found);
    if (st == MEGA_OK) st = fill_found(s, t, count, acc, found);
    mega_free(found);
    return st;
}

typedef mega_status use_source(const source *s, const mega_state_tensor *t, int count, mega_dtype acc);

/* Exact weights are preferred to those of the folder. */
static mega_status with_weights(use_source *use, mega_checkpoint *c, const mega_state_tensor *t, int count,
                                mega_dtype acc)
{
    if (c->masters == NULL) return use(&(source){c, NULL, c->folder}, t, count, acc);
    char *what = mega_path_join(c->folder, "state/masters.safetensors");
    if (what == NULL) return MEGA_NO_MEMORY(c->folder, "a path");
    const mega_status st = use(&(source){c, c->masters, what}, t, count, acc);
    mega_free(what);
    return st;
}

static mega_status match_all(const source *s, const mega_state_tensor *t, int count, mega_dtype acc)
{
    (void)acc;
    const mega_safetensor **found = mega_malloc((size_t)(count + 1) * sizeof *found);
    if (found == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to read it", s->what);
    const mega_status st = read_match(s, t, count, found);
    mega_free(found);
    return st;
}

mega_status mega_checkpoint_match_weights(mega_checkpoint *c, const mega_state_tensor *t, int count)
{
    return with_weights(match_all, c, t, count, MEGA_F32);
}

mega_status mega_checkpoint_read_weights(mega_checkpoint *c, const mega_state_tensor *t, int count, mega_dtype acc)
{
    return with_weights(checkpoint_read_all, c, t, count, acc);
}

void mega_checkpoint_begin_classifier(mega_checkpoint *c)
{
    c->begins_classifier = true;
}

/* The tensors of the weights of a model's parameters. */
typedef struct params_list {
    mega_param *record; /* a mixture that begins: what its parameters are read by; else NULL */
    mega_state_tensor *tensor;
    int count;
} params_list;

/* Appends the tensors of a parameter, which is read by the record `p`. `held` NULL: this rank holds no data; own: its
 * number there. */
static void params_list_add(params_list *l, const mega_param *p, mega_params *held, int own)
{
    for (int f = 0; f < mega_param_num_files(p); f++)
        l->tensor[l->count++] =
            held == NULL
                ? (mega_state_tensor){.name = mega_param_file_name(p, f), .param = p, .file = f, .is_part = true}
                : mega_state_tensor_of(p, f, held, own);
}

static mega_status params_list_fill(params_list *l, const mega_checkpoint *c, const mega_params *whole,
                                    mega_params *held)
{
    const int count = mega_params_count(whole);
    const size_t most = (size_t)count * MEGA_PARAM_PARTS + 1;
    l->tensor = mega_calloc(most, sizeof *l->tensor);
    if (c->mixture != NULL) l->record = mega_malloc(((size_t)count + 1) * sizeof *l->record);
    if (l->tensor == NULL || (c->mixture != NULL && l->record == NULL))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "checkpoint: no memory for a list of %zu tensors", most);
    for (int i = 0; i < count; i++) {
        const mega_param *p = mega_params_get(whole, i);
        const int own = held != NULL ? mega_params_find(held, p->name) : -1;
        bool is_kept = false;
        if (c->mixture != NULL) MEGA_TRY(mega_checkpoint_source(c, p, &l->record[i], &is_kept));
        if (!is_kept) params_list_add(l, c->mixture != NULL ? &l->record[i] : p, held, own);
    }
    return MEGA_OK;
}

static mega_status with_params(mega_checkpoint *c, const mega_params *whole, mega_params *held)
{
    params_list l = {.count = 0};
    mega_status st = params_list_fill(&l, c, whole, held);
    if (st == MEGA_OK)
        st = held == NULL ? mega_checkpoint_match_weights(c, l.tensor, l.count)
                          : mega_checkpoint_read_weights(c, l.tensor, l.count, mega_params_acc_dtype(held));
    MEGA_FREE(l.tensor, l.record);
    return st;
}

mega_status mega_checkpoint_match_params(mega_checkpoint *c, const mega_params *whole)
{
    return with_params(c, whole, NULL);
}

mega_status mega_checkpoint_read_params(mega_checkpoint *c, const mega_params *whole, mega_params *held)
{
    return with_params(c, whole, held);
}

static mega_status with_moments(use_source *use, mega_checkpoint *c, const mega_state_tensor *t, int count,
                                mega_dtype acc)
{
    if (c->moments == NULL)
        return MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                         "%s: it has no optimizer state; give --no-load-optim or --finetune to start with zero "
                         "moments",
                         c->folder);
    char *what = mega_path_join(c->folder, "state/optimizer.safetensors");
    if (what == NULL) return MEGA_NO_MEMORY(c->folder, "a path");
    const mega_status st = use(&(source){c, c->moments, what}, t, count, acc);
    mega_free(what);
    return st;
}

mega_status mega_checkpoint_match_moments(mega_checkpoint *c, const mega_state_tensor *t, int count)
{
    return with_moments(match_all, c, t, count, MEGA_F32);
}

mega_status mega_checkpoint_read_moments(mega_checkpoint *c, const mega_state_tensor *t, int count, mega_dtype acc)
{
    return with_moments(checkpoint_read_all, c, t, count, acc);
}

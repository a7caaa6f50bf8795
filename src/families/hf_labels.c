/* The classes of a classifier in config.json: id2label gives each its name, label2id is its inverse. transformers
 * writes LABEL_0, LABEL_1, … where nobody has named them, and neither key for two such classes. */
#include "hf_impl.h"

#include "megalith/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_CLASSES = 2, MOST_CLASSES = 4096 };

static bool is_by_number(const char *name, int64_t class_)
{
    char usual[32];
    snprintf(usual, sizeof usual, "LABEL_%lld", (long long)class_);
    return strcmp(name, usual) == 0;
}

static const char *name_in(const json_t *labels, int64_t class_)
{
    char key[32];
    snprintf(key, sizeof key, "%lld", (long long)class_);
    const char *name = json_string_value(json_object_get(labels, key));
    return name != NULL && name[0] != '\0' ? name : NULL;
}

/* Names that do not fit are as unknown as those that are no names. */
static void take_names(hf_reader *r, const json_t *labels, mega_network_shape *n)
{
    bool by_number = true, fits = true;
    for (int64_t i = 0; i < n->classes; i++) {
        const char *name = name_in(labels, i);
        if (name == NULL) {
            hf_refuse(r, "id2label", labels, "an object with a name for each of \"0\", \"1\", … without a gap");
            return;
        }
        by_number = by_number && is_by_number(name, i);
    }
    for (int64_t i = 0; i < n->classes && fits && !by_number; i++) fits = mega_shape_add_label(n, name_in(labels, i));
    if (!fits)
        mega_warn("config.json: the names of its %lld classes (id2label) have more than %d bytes; folders that are "
                  "saved number the classes",
                  (long long)n->classes, MEGA_SHAPE_LABELS);
}

void hf_take_labels(hf_reader *r, mega_model_shape *s)
{
    const json_t *labels = hf_take(r, "id2label"), *number = json_object_get(r->json, "num_labels");
    const int64_t said = hf_take_int(r, "num_labels", 0);
    const bool has_names = labels != NULL && !json_is_null(labels);
    const int64_t named = has_names ? (int64_t)json_object_size(labels) : 0;
    s->net.classes = has_names ? named : said > 0 ? said : LEAST_CLASSES;
    if (s->net.classes < LEAST_CLASSES || s->net.classes > MOST_CLASSES) {
        hf_refuse(r, has_names ? "id2label" : "num_labels", has_names ? labels : number,
                  has_names ? "an object with the names of 2 to 4096 classes" : "2 to 4096 classes");
        return;
    }
    if (has_names && said > 0 && said != named) {
        char expected[96];
        snprintf(expected, sizeof expected, "%lld, the number of names in id2label", (long long)named);
        hf_refuse(r, "num_labels", number, expected);
    }
    if (has_names) take_names(r, labels, &s->net);
}

/* ---- writing ---- */

typedef struct named_class {
    char name[MEGA_SHAPE_LABELS];
    int64_t class_;
} named_class;

static int by_label_name(const void *a, const void *b)
{
    return strcmp(((const named_class *)a)->name, ((const named_class *)b)->name);
}

static void put_pair(mega_buffer *b, int64_t i, const char *key, const char *name, int64_t class_)
{
    mega_buffer_puts(b, i > 0 ? ",\n    " : "{\n    ");
    mega_buffer_json_string(b, key);
    mega_buffer_puts(b, ": ");
    if (name != NULL) mega_buffer_json_string(b, name);
    else
        mega_buffer_printf(b, "%lld", (long long)class_);
}

/* transformers sorts both: by number, and by name. */
void hf_put_labels(const mega_model_shape *s, void *user, hf_put *put)
{
    const int64_t classes = s->net.classes;
    const bool has_names = classes > 0 && mega_shape_label(&s->net, classes - 1) != NULL;
    mega_buffer labels = {0}, ids = {0};
    if (classes < 1 || (classes == 2 && !has_names)) return;
    named_class *c = mega_calloc((size_t)classes, sizeof *c);
    for (int64_t i = 0; c != NULL && i < classes; i++) {
        char key[32];
        snprintf(key, sizeof key, "%lld", (long long)i);
        if (has_names) snprintf(c[i].name, sizeof c[i].name, "%s", mega_shape_label(&s->net, i));
        else
            snprintf(c[i].name, sizeof c[i].name, "LABEL_%s", key);
        c[i].class_ = i;
        put_pair(&labels, i, key, c[i].name, i);
    }
    if (c != NULL) qsort(c, (size_t)classes, sizeof *c, by_label_name);
    for (int64_t i = 0; c != NULL && i < classes; i++) put_pair(&ids, i, c[i].name, NULL, c[i].class_);
    labels.failed = labels.failed || c == NULL;
    mega_buffer_puts(&labels, "\n  }");
    mega_buffer_puts(&ids, "\n  }");
    mega_free(c);
    hf_put_text(user, put, "id2label", &labels);
    hf_put_text(user, put, "label2id", &ids);
}

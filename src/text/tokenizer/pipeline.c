/* Makes and frees the steps of a tokenizer. */
#include "pipeline.h"
#include "megalith/file.h"
#include <string.h>

static void text_fini(mega_text *t)
{
    mega_free(t->data);
    *t = (mega_text){0};
}

void mega_pipeline_destroy(mega_pipeline *p)
{
    if (p == NULL) return;
    for (int i = 0; i < p->num_normalize; i++) {
        text_fini(&p->normalize[i].from);
        text_fini(&p->normalize[i].to);
        mega_regex_destroy(p->normalize[i].regex);
        mega_nfc_destroy(p->normalize[i].nfc);
        mega_bert_destroy(p->normalize[i].bert);
        if (p->normalize[i].charsmap != NULL) mega_charsmap_fini(p->normalize[i].charsmap);
        mega_free(p->normalize[i].charsmap);
    }
    for (int i = 0; i < p->num_pre; i++) {
        text_fini(&p->pre[i].text);
        mega_regex_destroy(p->pre[i].regex);
    }
    for (int i = 0; i < p->decoder.replacements; i++) {
        text_fini(&p->decoder.from[i]);
        text_fini(&p->decoder.to[i]);
    }
    for (int i = 0; i < p->num_kept; i++) text_fini(&p->kept[i]);
    mega_free(p->kept);
    text_fini(&p->decoder.unknown);
    text_fini(&p->decoder.prefix);
    text_fini(&p->inner);
    mega_charsmap_fini(&p->charsmap);
    mega_bert_destroy(p->bert);
    mega_trie_fini(&p->trie);
    MEGA_FREE(p->score, p->node, p->node_id, p->characters, p->normalize, p->pre, p->prefix, p->suffix, p);
}

size_t mega_pipeline_bytes(const mega_pipeline *p)
{
    if (p == NULL) return 0;
    return sizeof *p + p->charsmap.units * 4 + p->charsmap.text_size +
           (p->charsmap.kind != NULL ? MEGA_CHARSMAP_KINDS : 0) + mega_bert_bytes(p->bert) + mega_trie_bytes(&p->trie) +
           (size_t)p->scores * sizeof *p->score + p->nodes * (sizeof *p->node + sizeof *p->node_id) +
           (p->characters != NULL ? MEGA_CHARACTERS : 0);
}

mega_status mega_text_set(mega_text *out, const char *data, size_t n)
{
    char *copy = mega_calloc(n + 1, 1); /* a text may have zero bytes inside */
    if (copy == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer: no memory for a text of %zu bytes", n);
    if (n > 0) memcpy(copy, data, n);
    mega_free(out->data);
    *out = (mega_text){copy, n};
    return MEGA_OK;
}

static mega_status add_template_id(int32_t **list, int *count, int32_t id)
{
    if (!mega_array_add(list, *count, sizeof **list)) return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer: no memory");
    (*list)[(*count)++] = id;
    return MEGA_OK;
}

mega_status mega_pipeline_add_prefix(mega_pipeline *p, int32_t id)
{
    return add_template_id(&p->prefix, &p->num_prefix, id);
}

mega_status mega_pipeline_add_suffix(mega_pipeline *p, int32_t id)
{
    return add_template_id(&p->suffix, &p->num_suffix, id);
}

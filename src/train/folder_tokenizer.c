/* Which options the tokenizer in the folder of --load contradicts: an option has its effect, or is refused. */
#include "train_impl.h"

#include <string.h>

/* The names of Hugging Face mean whatever tokenizer a folder has. */
static bool folder_is_type(const char *type, const mega_tokenizer *found)
{
    static const char *const any[] = {"HuggingFaceTokenizer", "HFTokenizer", "PretrainedFromHF"};
    for (size_t i = 0; i < sizeof any / sizeof *any; i++)
        if (strcmp(type, any[i]) == 0) return true;
    return strcmp(type, mega_tokenizer_type(found)) == 0;
}

void mega_train_compare_tokenizer(const mega_train_options *cfg, const mega_tokenizer *found, mega_buffer *wrong)
{
    static const char *const of_files[] = {"merge_file", "tiktoken_pattern", "tiktoken_special"};
    mega_options *o = cfg->engine.options;
    const char *type = mega_tokenizer_type(found);
    const int64_t extra_ids = mega_tokenizer_extra_ids(found);
    if (mega_options_is_given(o, "tokenizer_type") && !folder_is_type(cfg->text.tokenizer_type, found))
        mega_buffer_printf(wrong, "\n  %s: the model's is a %s; leave the option out",
                           mega_options_origin(o, "tokenizer_type"), type);
    for (size_t i = 0; i < sizeof of_files / sizeof *of_files; i++)
        if (mega_options_is_given(o, of_files[i]))
            mega_buffer_printf(wrong,
                               "\n  %s: it belongs to --%s, which is not given: the tokenizer is the model's (%s); "
                               "leave the option out",
                               mega_options_origin(o, of_files[i]), i == 0 ? "vocab-file" : "tokenizer-model", type);
    if (mega_options_is_given(o, "vocab_extra_ids") && extra_ids != cfg->text.vocab_extra_ids)
        mega_buffer_printf(wrong,
                           "\n  %s: the model's tokenizer (%s) has %lld tokens <extra_id_0>, <extra_id_1>, …; "
                           "leave the option out, or give the tokenizer's files for a new model without --load",
                           mega_options_origin(o, "vocab_extra_ids"), type, (long long)extra_ids);
}

/* Collects the characters of the input as the vocabulary of a CharTokenizer, for experiments that start from text
 * only. */
#include "data_impl.h"
#include "megalith/memory.h"
#include "megalith/tokenizer_train.h"
#include "preprocess_impl.h"

static mega_status vocab_add(void *trainer, const char *text, size_t size)
{
    return mega_trainer_add(trainer, text, size);
}

static mega_status vocab_save(mega_trainer *trainer, const char *path)
{
    mega_tokenizer *t;
    MEGA_TRY(mega_trainer_finish(trainer, &t));
    const mega_status st = mega_tokenizer_save_vocab(t, path);
    mega_tokenizer_destroy(t);
    return st;
}

mega_status mega_preprocess_char_vocabulary(const mega_preprocess_job *job, const char *path)
{
    mega_trainer *trainer;
    mega_buffer why = {0};
    mega_buffer_printf(
        &why,
        "--vocab-file %s does not exist and would be created by reading the input before it is tokenized, "
        "which standard input does not allow; give a file, or create the vocabulary first with `megalith "
        "train_tokenizer --tokenizer-type CharTokenizer`",
        path);
    mega_status st = mega_buffer_check(&why, "a message");
    if (st == MEGA_OK) st = mega_trainer_create(&(mega_trainer_options){.type = "CharTokenizer"}, &trainer);
    if (st == MEGA_OK) {
        st = mega_preprocess_texts(job, "collecting characters", why.data, vocab_add, trainer);
        if (st == MEGA_OK) st = vocab_save(trainer, path);
        mega_trainer_destroy(trainer);
    }
    mega_buffer_fini(&why);
    return st;
}

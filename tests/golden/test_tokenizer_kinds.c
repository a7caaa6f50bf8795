/* Loads the tokenizer.json of the byte and null tokenizers with Hugging Face `tokenizers`, which must give our ids.
 * Only checkpoints contain these files. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/tokenizer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* argv: folder, text file, ids file. */
static const char script[] = "import sys\n"
                             "from tokenizers import Tokenizer\n"
                             "from transformers import AutoTokenizer\n"
                             "folder, text, ids = sys.argv[1:]\n"
                             "text = open(text, encoding='utf-8', newline='').read()\n"
                             "ids = [int(i) for i in open(ids).read().split()]\n"
                             "t = Tokenizer.from_file(folder + '/tokenizer.json')\n"
                             "assert t.encode(text).ids == ids, t.encode(text).ids\n"
                             "assert t.decode(ids, skip_special_tokens=False) == ' '.join(text.split()) if "
                             "'WhitespaceSplit' in t.to_str() else text\n"
                             "assert AutoTokenizer.from_pretrained(folder).encode(text) == ids\n";

static void compare(const mega_tokenizer_options *o, const char *text)
{
    const char *python = mega_kit_need_peers(), *folder = mega_kit_temp_folder();
    mega_tokenizer *t;
    mega_encoder *e;
    mega_ids ids = {0};
    mega_buffer list = {0};
    assert_int_equal(mega_tokenizer_create(o, &t), MEGA_OK);
    assert_int_equal(mega_tokenizer_save(t, folder), MEGA_OK);
    assert_int_equal(mega_encoder_create(t, &e), MEGA_OK);
    assert_int_equal(mega_encoder_encode_special(e, text, strlen(text), &ids), MEGA_OK);
    assert_true(ids.count > 3);
    for (int64_t i = 0; i < ids.count; i++) mega_buffer_printf(&list, "%d ", ids.id[i]);
    mega_kit_write(mega_kit_path(folder, "text"), text);
    mega_kit_write(mega_kit_path(folder, "ids"), list.data);
    mega_kit_write(mega_kit_path(folder, "compare.py"), script);
    char command[2048];
    snprintf(command, sizeof command, "HF_HUB_OFFLINE=1 '%s' %s/compare.py %s %s/text %s/ids", python, folder, folder,
             folder, folder);
    const int status = system(command);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    mega_buffer_fini(&list);
    mega_ids_fini(&ids);
    mega_encoder_destroy(e);
    mega_tokenizer_destroy(t);
}

static void byte_tokenizer(void **state)
{
    (void)state;
    compare(&(mega_tokenizer_options){.type = "ByteTokenizer"},
            "Hello  world's\n\t\x01\x7F ĠĊé日本😀<|endoftext|>a  <|endof\xC2\xA0 12\r\n ");
}

static void null_tokenizer(void **state)
{
    (void)state;
    compare(&(mega_tokenizer_options){.type = "NullTokenizer", .vocab_size = 1000}, "0 5 17\n999  1000 42 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(byte_tokenizer), cmocka_unit_test(null_tokenizer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What tasks and embed say of their options. */
#include "options_kit.h"

static void takes(const char *command, const char *line)
{
    mega_command_options c;
    kit_accept(&c, command, line);
    mega_command_options_fini(&c);
}

static void tasks(void **state)
{
    (void)state;
    takes("tasks", "--task LM_LOSS --pretrained-checkpoint . --valid-data /dev/null");
    kit_refuse("tasks", "--task ICT-ZEROSHOT-NQ --load . --valid-data /dev/null",
               "\"ICT-ZEROSHOT-NQ\" is not implemented yet");
    takes("tasks", "--task RACE --load . --valid-data . --micro-batch-size 4 --seq-length 64 --vocab-file /dev/null");
    kit_refuse("tasks", "--task MNLI --load . --valid-data . --seq-length 64 --vocab-file /dev/null", "a TSV file");
    kit_refuse("tasks", "--task QQP --epochs 1 --lr 1e-4 --valid-data /dev/null --seq-length 64 --vocab-file /dev/null",
               "missing: --train-data, the samples of --epochs 1");
    kit_refuse("tasks", "--task MNLI --valid-data /dev/null --seq-length 64 --vocab-file /dev/null",
               "missing: --load FOLDER, the trained classifier, or --epochs N");
    kit_refuse("tasks",
               "--task MNLI --epochs 1 --lr 1 --train-data /dev/null --valid-data /dev/null --data-path x "
               "--seq-length 64 --vocab-file /dev/null",
               "does not go with --task MNLI: give --train-data and --valid-data");
    kit_refuse("tasks", "--task LAMBADA --load . --valid-data /dev/null --epochs 1",
               "only tasks with labels have something to learn");
}

/* Without epochs nothing is trained, and no learning rate is needed; the weights of another folder are the start of a
 * run. */
static void epochs(void **state)
{
    (void)state;
    mega_command_options c;
    kit_accept(
        &c, "tasks",
        "--task QQP --load . --valid-data /dev/null --micro-batch-size 4 --seq-length 64 --vocab-file /dev/null");
    assert_true(c.train.skip_train && !c.train.finetune);
    mega_command_options_fini(&c);
    kit_accept(&c, "tasks",
               "--task QQP --pretrained-checkpoint . --epochs 3 --keep-last --lr 1e-4 --train-data /dev/null "
               "--valid-data /dev/null "
               "--micro-batch-size 4 --seq-length 64 --vocab-file /dev/null");
    assert_true(!c.train.skip_train && c.train.finetune && c.train.classify.keep_last);
    assert_int_equal(c.train.classify.epochs, 3);
    assert_string_equal(c.train.load, ".");
    assert_string_equal(c.train.text.tokenizer_type, "BertWordPieceLowerCase");
    mega_command_options_fini(&c);
}

static void embed(void **state)
{
    (void)state;
    takes("embed", "--load . --input /dev/null --output x.npy");
    kit_refuse("embed", "--num-threads 1", "3 mistakes");
    kit_refuse("embed", "--load . --input /dev/null --output x.txt", "expected a file whose name ends with .npy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tasks), cmocka_unit_test(epochs), cmocka_unit_test(embed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Writes docs/deepspeed-json.md: every known key of a DeepSpeed JSON, from the rows. */
#include "config_impl.h"
#include <string.h>

static void json_page_write_cell(const char *text, mega_buffer *out)
{
    for (; *text != '\0'; text++) mega_buffer_append(out, *text == '|' ? "\\|" : text, *text == '|' ? 2 : 1);
}

static const char *kind_name(const mega_option_row *row)
{
    switch (row->kind) {
    case MEGA_OPTION_FLAG:
    case MEGA_OPTION_OFF:
    case MEGA_OPTION_BOOL: return "true, false";
    case MEGA_OPTION_INT: return "whole number";
    case MEGA_OPTION_FLOAT: return "number";
    case MEGA_OPTION_INT3: return "three whole numbers in brackets";
    case MEGA_OPTION_LIST:
    case MEGA_OPTION_APPEND: return "list";
    case MEGA_OPTION_ANY: return "any";
    default: return "string";
    }
}

/* Writes the values that a by-value row accepts: "Adam, AdamW, SGD". */
static void write_cases(const char *cases, mega_buffer *out)
{
    for (const char *at = cases; at != NULL; at = strchr(at, '|')) {
        const bool is_first = at == cases;
        at += *at == '|';
        at += *at == '='; /* it is compared exactly */
        mega_buffer_printf(out, "%s`%.*s`", is_first ? "" : ", ", (int)strcspn(at, ":"), at);
    }
}

static void json_page_write_answer(const mega_option_row *row, mega_buffer *out)
{
    switch (row->answer) {
    case MEGA_ANSWER_WORKS:
        mega_buffer_printf(out, "works: `--%s`", row->name);
        if (row->kind == MEGA_OPTION_OFF) mega_buffer_puts(out, " is false");
        break;
    case MEGA_ANSWER_NO_EFFECT: mega_buffer_puts(out, "no effect here: "); break;
    case MEGA_ANSWER_RENAMED:
        if (row->cases == NULL) {
            mega_buffer_printf(out, "works: `--%s`", row->successor);
            if (row->remark == NULL) return;
        } else {
            mega_buffer_puts(out, "works with ");
            write_cases(row->cases, out);
        }
        mega_buffer_puts(out, "; ");
        break;
    case MEGA_ANSWER_NOT_IMPLEMENTED:
    case MEGA_ANSWER_REFUSED:
        mega_buffer_puts(out, row->answer == MEGA_ANSWER_REFUSED ? "refused" : "not implemented yet");
        if (row->neutral != NULL) {
            mega_buffer_puts(out, ", only `");
            json_page_write_cell(row->neutral, out);
            mega_buffer_puts(out, "`");
        }
        mega_buffer_puts(out, ": ");
        break;
    }
    if (row->answer != MEGA_ANSWER_WORKS) json_page_write_cell(row->remark, out);
}

static bool is_of_block(const char *path, const char *block)
{
    const size_t n = strlen(block);
    return n == 0 ? strchr(path, '.') == NULL : strncmp(path, block, n) == 0 && path[n] == '.';
}

/* Returns whether the current row is the one in use for its path: the first row of a path is. */
static bool is_the_one(const option_table *t, const json_key_walk *w)
{
    json_key_walk found;
    return mega_json_key_find(t, 0, w->path, &found) && found.row == w->row && found.index == w->index;
}

static void write_block(const option_table *t, const char *block, mega_buffer *out)
{
    mega_buffer_printf(out, "\n## %s%s%s\n\n| key | value | answer |\n|---|---|---|\n", block[0] != '\0' ? "`" : "",
                       block[0] != '\0' ? block : "At the top", block[0] != '\0' ? "`" : "");
    for (json_key_walk w = {.options = {.table = t}}; mega_json_key_next(&w);) {
        if (!is_of_block(w.path, block) || !is_the_one(t, &w)) continue;
        mega_buffer_printf(out, "| `%s` | %s | ", block[0] != '\0' ? w.path + strlen(block) + 1 : w.path,
                           kind_name(w.row));
        json_page_write_answer(w.row, out);
        mega_buffer_puts(out, " |\n");
    }
}

/* Returns whether row `at` is the first that names its block: blocks are listed in this order. */
static bool is_first_of_block(const option_table *t, size_t at, const char *block)
{
    size_t i = 0;
    for (json_key_walk w = {.options = {.table = t}}; mega_json_key_next(&w) && i < at; i++)
        if (is_of_block(w.path, block)) return false;
    return true;
}

/* cli_test_docs runs these commands, as those of every page. */
static const char files[] =
    "## Three files to start from\n"
    "\n"
    "A text to train on, and the options of a small network:\n"
    "\n"
    "```sh\n"
    "for i in $(seq 1 300); do echo \"$i green bottles hanging on the wall\"; done >bottles.txt\n"
    "model=\"--preset tiny --seq-length 64 --tokenizer-type ByteTokenizer --train-data bottles.txt --split 1,0,0\"\n"
    "run=\"--train-iters 20 --log-interval 10 --eval-iters 0\"\n"
    "```\n"
    "\n"
    "AdamW in bf16, on one rank:\n"
    "\n"
    "```sh\n"
    "cat >adamw.json <<'END'\n"
    "{\n"
    "  \"train_batch_size\": 8,\n"
    "  \"train_micro_batch_size_per_gpu\": 4,\n"
    "  \"gradient_clipping\": 1.0,\n"
    "  \"bf16\": {\"enabled\": true},\n"
    "  \"optimizer\": {\n"
    "    \"type\": \"AdamW\",\n"
    "    \"params\": {\"lr\": 1e-3, \"betas\": [0.9, 0.95], \"eps\": 1e-8, \"weight_decay\": 0.1}\n"
    "  }\n"
    "}\n"
    "END\n"
    "megalith pretrain_gpt $model $run --deepspeed_config adamw.json\n"
    "```\n"
    "\n"
    "ZeRO 2 with a schedule, on two ranks:\n"
    "\n"
    "```sh\n"
    "cat >zero2.json <<'END'\n"
    "{\n"
    "  \"train_batch_size\": 16,\n"
    "  \"train_micro_batch_size_per_gpu\": 4,\n"
    "  \"zero_optimization\": {\"stage\": 2, \"overlap_comm\": true, \"reduce_bucket_size\": 5e8},\n"
    "  \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 1e-3, \"weight_decay\": 0.1}},\n"
    "  \"scheduler\": {\n"
    "    \"type\": \"WarmupDecayLR\",\n"
    "    \"params\": {\"warmup_max_lr\": 1e-3, \"warmup_num_steps\": 5, \"total_num_steps\": 20}\n"
    "  },\n"
    "  \"steps_per_print\": 10\n"
    "}\n"
    "END\n"
    "megalith launch --nproc_per_node 2 pretrain_gpt $model $run --deepspeed_config zero2.json\n"
    "```\n"
    "\n"
    "ZeRO 3 in fp16 with a dynamic loss scale:\n"
    "\n"
    "```sh\n"
    "cat >zero3.json <<'END'\n"
    "{\n"
    "  \"train_batch_size\": 16,\n"
    "  \"gradient_accumulation_steps\": 2,\n"
    "  \"zero_optimization\": {\"stage\": 3, \"stage3_param_persistence_threshold\": 1e5},\n"
    "  \"fp16\": {\n"
    "    \"enabled\": true,\n"
    "    \"loss_scale\": 0,\n"
    "    \"initial_scale_power\": 16,\n"
    "    \"loss_scale_window\": 1000,\n"
    "    \"hysteresis\": 2\n"
    "  },\n"
    "  \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 1e-3, \"betas\": [0.9, 0.999], \"weight_decay\": "
    "0.01}}\n"
    "}\n"
    "END\n"
    "megalith launch --nproc_per_node 2 pretrain_gpt $model $run --deepspeed_config zero3.json\n"
    "```\n"
    "\n";

static const char title[] =
    "# Keys of a DeepSpeed JSON\n\n"
    "Written by `megalith help --json-page` from the rows of the engine and the rooms below; do not edit by hand.\n\n";

static const char reading[] = "## How a JSON is read\n\n"
                              "`--deepspeed_config FILE` names a JSON";

static const char introduction[] =
    ", and also in `mega_setup.argv` of a C program; `mega_setup.config` takes it as text too. "
    "The keys are those of DeepSpeed " MEGA_DEEPSPEED_VERSION
    ", and those of older files. A JSON may contain comments, "
    "or be given in base64, as DeepSpeed takes it.\n\n"
    "- What the command line says counts before what the JSON says, and a warning names both where they differ. Batch "
    "sizes that contradict each other are an error.\n"
    "- A key that is not here is an error, and so is a key that stands twice. With `--deepspeed-unknown-keys warn` an "
    "unknown key at the top is passed over with a warning; DeepSpeed says nothing.\n"
    "- `null` means \"not given\", and so does `\"auto\"`: an option gives the value, or the default counts. In a "
    "command, `\"auto\"` for the sizes of buckets and the threshold of ZeRO follows the hidden size h, as in "
    "transformers: h x h, 0.9 x h x h, 10 x h.\n"
    "- Where a JSON names an optimizer of DeepSpeed or a stage of ZeRO and leaves a value out, the default is that of "
    "DeepSpeed " MEGA_DEEPSPEED_VERSION
    ": weight decay 0 (0.01 for AdamW with `torch_adam`), lr 0.001 (Adagrad: 0.01), "
    "momentum of SGD 0, `reduce_bucket_size` 5e8, `overlap_comm` with stage 3 alone; with fp16, a first loss scale of "
    "2^16. The run prints the defaults that it takes, and what `\"auto\"` stands for. All others are those of the "
    "[options](options.md), which are "
    "equal.\n\n"
    "## Differences\n\n"
    "Where DeepSpeed's documentation and its code differ, the code of " MEGA_DEEPSPEED_VERSION " counts:\n\n"
    "| matter | documentation | code, and here |\n|---|---|---|\n"
    "| `gradient_clipping` | 0, no clipping | 1.0 |\n"
    "| Adam | L2 weight decay | decoupled, as AdamW, unless `adam_w_mode` is false |\n"
    "| AdamW with `adam_w_mode` false | L2 | decoupled in any case |\n"
    "| `stage3_prefetch_bucket_size` | 5e8 | 5e7 |\n"
    "| `stage3_param_persistence_threshold` | 1e6 | 1e5 |\n"
    "| `aio.thread_count` | a key | not read; `aio.intra_op_parallelism` is |\n"
    "| `steps_per_print` | 10 | never, when it is left out |\n\n"
    "Where megalith and DeepSpeed differ:\n\n"
    "| matter | DeepSpeed " MEGA_DEEPSPEED_VERSION " | here |\n|---|---|---|\n"
    "| biases and the weights of norms | weight decay as all others, unless the program makes groups | none |\n"
    "| loss scale without ZeRO | no hysteresis; never ends the run | the rules of ZeRO: hysteresis; an overflow at the "
    "smallest scale ends the run |\n"
    "| unknown keys at the top | passed over | an error |\n"
    "| types of values outside typed blocks | not checked | checked |\n"
    "| gradients of bf16 and fp16 models | summed in 16 bits by default | summed in fp32 |\n"
    "| `amp` | removed | O0, O1 and O2 work |\n"
    "| blocks that are removed (sparse_attention, elasticity, compression_training, …) | an error "
    "| no effect while not enabled |\n";

/* Writes the keys whose answer in a command is another. */
static void write_of_commands(const option_table *t, const option_table *commands, mega_buffer *out)
{
    mega_buffer_puts(out, "\n## In a command\n\nThese keys have another answer in a command (pretrain_gpt, plan, …), "
                          "which has the layers of the model in hand.\n\n| key | value | answer |\n|---|---|---|\n");
    for (json_key_walk w = {.options = {.table = commands}}; mega_json_key_next(&w);) {
        json_key_walk other;
        if (is_of_block(w.path, JSON_OWN) || !is_the_one(commands, &w)) continue;
        if (mega_json_key_find(t, 0, w.path, &other) && other.row == w.row) continue;
        mega_buffer_printf(out, "| `%s` | %s | ", w.path, kind_name(w.row));
        json_page_write_answer(w.row, out);
        mega_buffer_puts(out, " |\n");
    }
}

/* Lists the commands that take the option which names a JSON. */
static void write_readers(const option_table *t, mega_buffer *out)
{
    static const char option[] = "deepspeed_config";
    const char *before = " for the commands ";
    for (size_t i = 0; i < t->composition->commands; i++) {
        const mega_command *c = &t->composition->command[i];
        if (c->bit == 0 || mega_option_find(t, option, sizeof option - 1, c->bit) == SIZE_MAX) continue;
        mega_buffer_printf(out, "%s`%s`", before, c->name);
        before = ", ";
    }
}

mega_status mega_options_json_page(const mega_composition *composition, const mega_composition *commands,
                                   mega_buffer *out)
{
    mega_arena arena = {0};
    option_table t, other;
    MEGA_TRY(mega_option_table_make(&t, composition, &arena));
    MEGA_TRY(mega_option_table_make(&other, commands, &arena));
    mega_buffer_puts(out, title);
    mega_buffer_puts(out, files);
    mega_buffer_puts(out, reading);
    write_readers(&other, out);
    mega_buffer_puts(out, introduction);
    write_block(&t, "", out);
    size_t i = 0;
    for (json_key_walk w = {.options = {.table = &t}}; mega_json_key_next(&w); i++) {
        char block[sizeof w.path];
        const size_t n = strcspn(w.path, ".");
        if (w.path[n] == '\0') continue;
        memcpy(block, w.path, n);
        block[n] = '\0';
        if (strcmp(block, JSON_OWN) == 0 || !is_first_of_block(&t, i, block)) continue;
        write_block(&t, block, out);
    }
    mega_buffer_puts(out,
                     "\n## `" JSON_OWN "`\n\nEvery option of an engine may be in this block under its own name, "
                     "which DeepSpeed passes over; for a command, every option of that command.\n\n| key | value | "
                     "answer |\n|---|---|---|\n");
    for (json_key_walk w = {.options = {.table = &t}}; mega_json_key_next(&w);) {
        if (!is_of_block(w.path, JSON_OWN)) continue;
        mega_buffer_printf(out, "| `%s` | %s | ", w.path + sizeof JSON_OWN, kind_name(w.row));
        json_page_write_answer(w.row, out);
        mega_buffer_puts(out, " |\n");
    }
    write_of_commands(&t, &other, out);
    mega_arena_fini(&arena);
    return mega_buffer_check(out, "the page of JSON keys");
}

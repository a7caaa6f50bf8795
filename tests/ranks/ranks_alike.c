/* Gives every training option of the table different values on two ranks: it must be refused, and the message must name
 * the option and both values. Options that may differ between hosts must be accepted. One pair of processes tests the
 * whole table. */
#include "../../src/cli/options_impl.h"
#include "../../src/config/config_impl.h"
#include "megalith/comm.h"
#include "megalith/log.h"
#include "megalith/train.h"
#include "rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct walk {
    mega_comm *ranks;
    bool is_other; /* this rank gets the different value */
    int refused, taken, failures;
} walk;

static void drop_note(void *user, mega_log_level level, const char *line)
{
    (void)user;
    (void)level;
    (void)line;
}

static void parse(mega_command_options *cfg)
{
    char words[] =
        "p --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 4 "
        "--train-iters 10 --lr 1e-3 --tokenizer-type NullTokenizer --vocab-size 100 --data-path d_text_document";
    char *argv[64];
    int argc = 0;
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) argv[argc++] = word;
    need(mega_command_options_init(cfg));
    cfg->train.engine.world_size = cfg->train.engine.local_world_size = 2;
    need(mega_options_parse(cfg->train.engine.options, "pretrain_gpt", argc, argv));
}

static void print(const mega_command_options *cfg, size_t row, char out[256])
{
    mega_buffer value = {0};
    mega_value_print(cfg->train.engine.options, row, &value);
    snprintf(out, 256, "--%s %s", row_at(cfg->train.engine.options, row)->name, value.data);
    mega_buffer_fini(&value);
}

/* Writes the first of the choices "a|b|c" that is not the present one. */
static void other_choice(const char *choices, const char *present, char out[64])
{
    for (const char *at = choices; at != NULL;) {
        const size_t n = strcspn(at, "|");
        snprintf(out, 64, "%.*s", (int)n, at);
        if (strcmp(out, present) != 0) return;
        at = at[n] == '|' ? at + n + 1 : NULL;
    }
}

static void set_other(mega_command_options *cfg, size_t index)
{
    const mega_option_row *row = row_at(cfg->train.engine.options, index);
    const char *const three[] = {"2", "2", "8"};
    char text[64] = "another", now[256];
    const char *const one[] = {text};
    print(cfg, index, now);
    const char *value = strchr(now, ' ') + 1;
    if (row->kind == MEGA_OPTION_FLAG || row->kind == MEGA_OPTION_OFF)
        strcpy(text, strcmp(value, "True") == 0 ? "False" : "True");
    if (row->kind == MEGA_OPTION_INT || row->kind == MEGA_OPTION_BYTES)
        snprintf(text, sizeof text, "%lld", atoll(value) + 1);
    if (row->kind == MEGA_OPTION_FLOAT) strcpy(text, strcmp(value, "0.375") == 0 ? "0.25" : "0.375");
    if (row->choices != NULL) other_choice(row->choices, value, text);
    const char *reason = row->kind == MEGA_OPTION_INT3 ? NULL : mega_value_check(cfg->train.engine.options, row, text);
    if (reason != NULL) fprintf(stderr, "--%s %s: %s\n", row->name, text, reason);
    need(mega_value_set_list(cfg->train.engine.options, index, row->kind == MEGA_OPTION_INT3 ? three : one,
                             row->kind == MEGA_OPTION_INT3 ? 3 : 1));
}

static void fail(walk *w, const char *text, const char *what)
{
    printf("FAILED: %s: %s\n", text, what);
    w->failures++;
}

static bool is_named(int rank, const char *text)
{
    char line[320];
    snprintf(line, sizeof line, "\n  rank %d of the group: %s\n", rank, text);
    return strstr(mega_error_message(), line) != NULL;
}

static void check_option(walk *w, size_t index)
{
    mega_command_options first, other;
    char a[256], b[256];
    parse(&first);
    parse(&other);
    set_other(&other, index);
    print(&first, index, a);
    print(&other, index, b);
    if (strcmp(a, b) == 0) fail(w, a, "the other value is the same");
    const mega_status st = mega_train_compare_ranks(w->is_other ? &other.train : &first.train, w->ranks);
    if (row_at(first.train.engine.options, index)->alike == MEGA_ALIKE_NOT_NEEDED) {
        w->taken++;
        if (st != MEGA_OK) fail(w, a, mega_error_message());
    } else {
        w->refused++;
        if (st != MEGA_ERR_COMM) fail(w, a, "not refused");
        else if (!is_named(0, a) || !is_named(1, b))
            fail(w, b, mega_error_message());
    }
    mega_command_options_fini(&first);
    mega_command_options_fini(&other);
}

static void check_table(walk *w)
{
    mega_command_options cfg;
    parse(&cfg);
    for (option_walk of = {.table = &cfg.train.engine.options->table}; mega_option_next(&of);)
        if (of.row->answer == MEGA_ANSWER_WORKS && (of.commands & FOR_GPT) != 0) check_option(w, of.index);
    mega_command_options_fini(&cfg);
}

/* A blend of many data sets is too long for a message; a difference in its middle must still be found. */
static void check_long_value(walk *w)
{
    mega_command_options cfg;
    char name[200][32];
    const char *item[200];
    parse(&cfg);
    for (int i = 0; i < 200; i++) {
        snprintf(name[i], sizeof name[i], "prefix_%d%s", i, i == 100 && w->is_other ? "_other" : "");
        item[i] = name[i];
    }
    cfg.train.data.data_path = (mega_list){item, 200};
    const mega_status st = mega_train_compare_ranks(&cfg.train, w->ranks);
    const char *message = mega_error_message();
    if (st != MEGA_ERR_COMM || strstr(message, "rank 0 of the group: --data-path prefix_0 ") == NULL ||
        strstr(message, "rank 1 of the group: --data-path prefix_0 ") == NULL)
        fail(w, "a long --data-path", message);
    mega_command_options_fini(&cfg);
}

/* Several differences must be in one message. */
static void check_several(walk *w)
{
    mega_command_options cfg;
    parse(&cfg);
    cfg.train.engine.optim.adam_beta1 = w->is_other ? 0.5 : 0.9;
    cfg.train.data.eod_mask_loss = w->is_other;
    const mega_status st = mega_train_compare_ranks(&cfg.train, w->ranks);
    if (st != MEGA_ERR_COMM || !is_named(1, "--adam-beta1 0.5") || !is_named(0, "--eod-mask-loss False"))
        fail(w, "two options", mega_error_message());
    mega_command_options_fini(&cfg);
}

int main(void)
{
    mega_world *world = NULL;
    mega_log_set_sink(drop_note, NULL);
    need(mega_world_create(NULL, &world));
    walk w = {.ranks = mega_world_comm(world), .is_other = mega_world_rank(world) == 1};
    check_table(&w);
    check_long_value(&w);
    check_several(&w);
    if (w.refused < 100 || w.taken == 0 || w.taken > 14)
        fail(&w, "the table", "other numbers of options than expected");
    if (!w.is_other) printf("%d options refused, %d taken\n", w.refused, w.taken);
    fflush(stdout);
    mega_world_destroy(world);
    return w.failures > 0;
}

/* megalith compare_configurations: trains one model for a few steps with each of several DeepSpeed JSONs, and prints a
 * table of speed and memory. Every training is a process of its own (compare_runs.c), so that a JSON that fails does
 * not stop the others. */
#include "cli.h"
#include "commands.h"
#include "compare_runs.h"
#include "megalith/json.h"
#include "megalith/memory.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: megalith compare_configurations FILE… [OPTIONS] [OPTIONS OF pretrain_gpt]\n"
    "\n"
    "trains one model for a few steps with each DeepSpeed JSON, and prints a line for each: samples and tokens per "
    "second, "
    "memory of a\nrank as planned and as held, and the largest model that fits\n"
    "\n"
    "  --ranks N            ranks to train on (default: 1)\n"
    "  --steps N            steps that are measured, after two that are not (default: 5)\n"
    "  --largest-in SIZE    also find the largest model of which no rank needs more than SIZE (8GB, 512MB), by the "
    "number of layers,\n                       at most 1024\n"
    "  --json               print one JSON array instead of the table\n"
    "\n"
    "The model, and all that the JSONs leave open, is said by options of pretrain_gpt, which count before the keys of "
    "a "
    "JSON. Without\n--data-path it trains on random tokens (--vocab-size, or 50257).\n"
    "\n"
    "example\n"
    "  megalith compare_configurations zero1.json zero3.json --ranks 2 --preset tiny --lr 1e-3 --largest-in 1GB\n";

static bool is_option(const char *word)
{
    return strncmp(word, "--", 2) == 0;
}

/* Reads the number after an option of this command. */
static mega_status take_count(const char *name, const char *text, int64_t most, int *out)
{
    char *end = NULL;
    const long long value = text != NULL ? strtoll(text, &end, 10) : 0;
    if (text == NULL || *end != '\0' || value < 1 || value > most)
        return MEGA_MISTAKE("%s: found %s, expected a whole number from 1 to %lld", name,
                            text != NULL ? text : "nothing", (long long)most);
    *out = (int)value;
    return MEGA_OK;
}

/* Refuses what the command itself says to each training, or what all of them would write to. */
static mega_status check_word(const char *word)
{
    static const char *const own[] = {"--train-iters",
                                      "--train-samples",
                                      "--eval-iters",
                                      "--log-interval",
                                      "--metrics-file",
                                      "--split",
                                      "--save",
                                      "--load",
                                      "--deepspeed-config",
                                      "--memory-limit",
                                      "--tensorboard-dir",
                                      "--wandb-project",
                                      "--profile",
                                      "--profile-trace",
                                      "--monitor-tensorboard-path",
                                      "--monitor-csv-path",
                                      "--monitor-wandb-path",
                                      "--flops-profiler-output"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        size_t at = 0;
        while (own[i][at] != '\0' && own[i][at] == (word[at] == '_' ? '-' : word[at])) at++;
        if (own[i][at] == '\0' && (word[at] == '\0' || word[at] == '='))
            return MEGA_MISTAKE(
                "%s: compare_configurations itself sets it, or every training would use it at once; give "
                "JSONs first, --steps N for the length, and leave it out",
                own[i]);
    }
    return MEGA_OK;
}

static mega_status configurations_check_memory(const char *text)
{
    if (text == NULL || (text[0] >= '0' && text[0] <= '9' && strtod(text, NULL) > 0)) return MEGA_OK;
    return MEGA_MISTAKE("--largest-in: found %s, expected a size such as 8GB", text);
}

/* Words before the first option are files. Options that are not this command's are those of the training. */
static mega_status read_words(comparison *c, int argc, char **argv)
{
    int i = 1;
    for (; i < argc && !is_option(argv[i]); i++) {
        if (c->files == COMPARE_FILES) return MEGA_MISTAKE("more than %d files; give fewer", COMPARE_FILES);
        c->file[c->files++] = argv[i];
    }
    for (; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--ranks") == 0) MEGA_TRY(take_count(argv[i++], next, 4096, &c->ranks));
        else if (strcmp(argv[i], "--steps") == 0)
            MEGA_TRY(take_count(argv[i++], next, 100000, &c->steps));
        else if (strcmp(argv[i], "--json") == 0)
            c->json = true;
        else if (strcmp(argv[i], "--largest-in") == 0) {
            c->memory = next != NULL ? next : "nothing";
            i++;
        } else if (c->words < COMPARE_WORDS) {
            MEGA_TRY(check_word(argv[i]));
            c->word[c->words++] = argv[i];
        } else
            return MEGA_MISTAKE("more than %d words; give fewer", COMPARE_WORDS);
    }
    if (c->files == 0)
        return MEGA_MISTAKE("no file; give the DeepSpeed JSONs first: megalith compare_configurations "
                            "a.json b.json --preset tiny --lr 1e-3");
    return configurations_check_memory(c->memory);
}

/* ---- output ---- */

static void megabytes(double bytes, char out[32])
{
    if (bytes >= 1e9) snprintf(out, 32, "%.2f GB", bytes * 1e-9);
    else
        snprintf(out, 32, "%.1f MB", bytes * 1e-6);
}

static void print_table(const comparison *c, const outcome *all)
{
    char title[64] = "", planned[32], held[32];
    if (c->memory != NULL) snprintf(title, sizeof title, "largest model in %.20s", c->memory);
    printf("%d rank%s, %d step%s\n%-28s %10s %10s %10s %10s  %s\n", c->ranks, c->ranks == 1 ? "" : "s", c->steps,
           c->steps == 1 ? "" : "s", "configuration", "samples/s", "tokens/s", "planned", "held", title);
    for (int i = 0; i < c->files; i++) {
        const outcome *o = &all[i];
        if (o->error[0] != '\0') {
            printf("%-28s error: %s\n", c->file[i], o->error);
            continue;
        }
        megabytes(o->planned, planned);
        megabytes(o->held, held);
        printf("%-28s %10.1f %10.0f %10s %10s", c->file[i], o->samples, o->tokens, planned, held);
        if (c->memory != NULL && o->layers == 0) printf("  none");
        else if (c->memory != NULL)
            printf("  %d layer%s%s, %s parameters", o->layers, o->layers == 1 ? "" : "s",
                   o->layers >= COMPARE_LAYERS ? " or more" : "", o->parameters);
        printf("\n");
    }
}

static mega_status print_json(const comparison *c, const outcome *all)
{
    json_t *rows = json_array();
    char *text = NULL;
    for (int i = 0; i < c->files; i++) {
        const outcome *o = &all[i];
        json_t *row = json_pack("{s:s, s:i, s:i}", "configuration", c->file[i], "ranks", c->ranks, "steps", c->steps);
        if (o->error[0] != '\0') (void)json_object_set_new(row, "error", json_string(o->error));
        else {
            (void)json_object_set_new(row, "samples_per_second", json_real(o->samples));
            (void)json_object_set_new(row, "tokens_per_second", json_real(o->tokens));
            (void)json_object_set_new(row, "planned_bytes", json_integer((json_int_t)o->planned));
            (void)json_object_set_new(row, "held_bytes", json_integer((json_int_t)o->held));
        }
        if (o->error[0] == '\0' && c->memory != NULL) {
            (void)json_object_set_new(row, "largest_in", json_string(c->memory));
            (void)json_object_set_new(row, "largest_layers", json_integer(o->layers));
            (void)json_object_set_new(row, "largest_parameters", json_string(o->parameters));
        }
        (void)json_array_append_new(rows, row);
    }
    if (rows != NULL) text = mega_json_dump(rows, JSON_INDENT(2));
    json_decref(rows);
    if (text == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for the JSON of %d configurations", c->files);
    printf("%s\n", text);
    free(text);
    return MEGA_OK;
}

/* ---- the command ---- */

static mega_status configurations_compare_all(comparison *c, bool *failed)
{
    outcome *all = mega_calloc((size_t)c->files, sizeof *all);
    if (all == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for %d configurations", c->files);
    mega_status st = compare_open(c);
    for (int i = 0; i < c->files && st == MEGA_OK; i++) {
        if (!c->json) fprintf(stderr, "%s …\n", c->file[i]);
        st = compare_run(c, i, &all[i]);
        *failed = *failed || all[i].error[0] != '\0';
    }
    compare_close(c);
    if (st == MEGA_OK && c->json) st = print_json(c, all);
    else if (st == MEGA_OK)
        print_table(c, all);
    mega_free(all);
    return st;
}

int mega_command_compare_configurations(int argc, char **argv)
{
    static const char name[] = "compare_configurations";
    bool failed = false;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(help, stdout);
            return 0;
        }
    comparison *c = mega_calloc(1, sizeof *c);
    if (c == NULL) return mega_cli_fail(name, MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for its options"));
    *c = (comparison){.ranks = 1, .steps = 5};
    mega_status st = read_words(c, argc, argv);
    if (st == MEGA_OK) st = configurations_compare_all(c, &failed);
    mega_free(c);
    return st != MEGA_OK ? mega_cli_fail(name, st) : failed ? 1 : 0;
}
